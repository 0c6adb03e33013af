//! What was requested.

use maud::{Markup, html};

use super::Shown;
use crate::page::Page;
use console_frame::parts;
use exports::Audience;
use gateway::workspaces::storage::URL;
use proof::fields::alias_in;
use runtime::outbound;

/// Fields that are shown at once.
const FIELDS: usize = 40;

pub fn section(page: &Page, shown: &Shown) -> Markup {
    let job = &shown.export.job;
    let late = shown.export.progress.late_at;
    let users_per_file = match job.users_per_file {
        Some(users) => parts::number(users.into()),
        None => {
            format!("{} by default", parts::number(page.app.config.exports.users_per_file.into()))
        }
    };
    let callback = match &job.callback_endpoint {
        // Its path and query may be a password.
        Some(url) => html! { (parts::name(&outbound::shown(url))) },
        None => html! { span.muted { "None" } },
    };
    let rows = [
        ("Audience", audience(shown)),
        ("Fields", fields(&job.fields)),
        ("Format", html! { (job.format.name()) ", one JSON object per line" }),
        ("Destination", destination(shown)),
        ("Users in a file", html! { (users_per_file) }),
        ("Callback", callback),
        ("Requested", page.time(job.requested_at)),
        (
            "Late since",
            html! { @if let Some(late) = late { (page.time(late)) } @else { "Not late" } },
        ),
        ("Object prefix", html! { span.mono { (job.object_prefix) } }),
        ("Request id", html! { span.mono { (parts::name(request_id(&job.request_id))) } }),
    ];
    html! {
        section.panel {
            div.panel-head { h2 { "Request" } }
            div.panel-body { (parts::facts(&rows)) }
        }
    }
}

/// The id without the trace that is stored with it.
fn request_id(stored: &str) -> &str {
    runtime::traces::without_trace(stored)
}

fn audience(shown: &Shown) -> Markup {
    let job = &shown.export.job;
    html! {
        (parts::name(&shown.title))
        br; span.mono.muted.small { (job.segment_id) }
        @if let Audience::Connected(conditions) = &job.audience {
            details {
                summary { "Conditions" }
                pre.code tabindex="0" { (parts::cut(&conditions.to_string())) }
            }
        }
    }
}

/// The names as they were requested.
fn fields(stored: &[String]) -> Markup {
    let list = |names: &[String]| {
        html! {
            @for (index, name) in names.iter().enumerate() {
                @if index > 0 { ", " }
                code { (parts::name(alias_in(name).unwrap_or(name))) }
            }
        }
    };
    let (first, rest) = stored.split_at(stored.len().min(FIELDS));
    html! {
        (list(first))
        @if !rest.is_empty() {
            details { summary { "and " (rest.len()) " more" } (list(rest)) }
        }
    }
}

fn destination(shown: &Shown) -> Markup {
    let job = &shown.export.job;
    html! {
        @match (&job.destination, job.storage_id) {
            (_, None) => "Download from Longshore",
            (Some(name), Some(_)) => (parts::name(name)),
            (None, Some(_)) => "The workspace's own storage",
        }
        @if let Some(settings) = &shown.destination {
            br; span.muted.small { (settings.kind()) ": " (parts::name(&settings.container())) }
        } @else if job.storage_id.is_none() && job.destination.as_deref() == Some(URL) {
            br; span.muted.small { "as the request asked" }
        }
    }
}
