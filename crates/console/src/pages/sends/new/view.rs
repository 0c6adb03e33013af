//! The form, and what a send would do, as HTML.

use maud::{Markup, html};
use serde_json::json;
use uuid::Uuid;

use super::{CAMPAIGN, Checked, Choices, Errors, REQUEST_KEY, Review, SEGMENT, Values};
use crate::page::Page;
use crate::pages::labels;
use crate::pages::segments::segment::users;
use console_frame::parts::{self, Tone, icon};
use console_frame::shell::{post, workspace_command};
use dispatches::segment_send::CheckedUsers;

pub fn content(
    page: &Page,
    choices: &Choices,
    values: &Values,
    errors: &Errors,
    review: Option<&Review>,
) -> Markup {
    html! {
        div.head {
            div.head-title {
                nav.crumbs aria-label="Breadcrumb" {
                    a href=(page.workspace_link("/sends")) { "Sends" }
                }
                h1 { "Send a campaign" }
                p.muted {
                    "Sends a campaign of type " code { "api" } " to a segment, now. The check shows \
                     what would happen, and sends nothing."
                }
            }
        }
        @if !errors.is_empty() {
            (parts::notice(Tone::Bad, "This cannot be sent", html! {
                @for (field, text) in errors {
                    p { a href=(format!("#{field}")) { (label(field)) } ": " bdi { (text) } }
                }
            }))
        }
        (form(page, choices, values, errors))
        @if let Some(review) = review { (reviewed(page, review)) }
        (terminal(page, values))
    }
}

fn label(field: &str) -> &'static str {
    if field == CAMPAIGN { "Campaign" } else { "Segment" }
}

fn form(page: &Page, choices: &Choices, values: &Values, errors: &Errors) -> Markup {
    html! {
        section.panel aria-label="What to send" {
            form.panel-body method="get" action=(page.workspace_link("/sends/new#review")) {
                (select(CAMPAIGN, &choices.campaigns, values.campaign.as_deref(), errors))
                (select(SEGMENT, &choices.segments, values.segment_id.as_deref(), errors))
                div.actions { button.button type="submit" { "Check" } }
            }
        }
    }
}

fn select(
    field: &str,
    offered: &[(Uuid, String)],
    chosen: Option<&str>,
    errors: &Errors,
) -> Markup {
    let is_invalid = errors.contains_key(field);
    let described_by = is_invalid.then(|| parts::error_id(field));
    html! {
        div.field.full {
            label for=(field) { (label(field)) }
            select.input id=(field) name=(field) aria-invalid=[is_invalid.then_some("true")]
                aria-describedby=[described_by]
            {
                option value="" { "Choose one" }
                @for (id, name) in offered {
                    option value=(id) selected[chosen == Some(&id.to_string())] {
                        (parts::cut(name))
                    }
                }
            }
            (parts::field_error(errors, field))
        }
    }
}

/// What would happen, and the button that lets it happen.
fn reviewed(page: &Page, review: &Review) -> Markup {
    let Review { checked: Checked { campaign, segment, send }, .. } = review;
    let audience = html! {
        a href=(page.workspace_link(&format!("/segments/{}", segment.id))) {
            (parts::name(&segment.name))
        }
    };
    let rows = [
        ("Campaign", parts::name(&campaign.name)),
        ("Segment", audience),
        ("Users", users(&review.users)),
        ("Channels", html! { (labels::channels(&send.channels())) }),
        ("Left out", left_out(&review.sample)),
    ];
    html! {
        section.panel id="review" aria-label="What would happen" {
            div.panel-head { h2 { "What would happen" } }
            div.panel-body {
                (parts::facts(&rows))
                @if !send.problems.is_empty() {
                    (parts::notice(Tone::Bad, "Some messages are not sent", html! {
                        @for problem in &send.problems {
                            p { code { (problem.path) } ": " bdi { (problem.text) } }
                        }
                    }))
                }
                @if review.has_control_group {
                    (parts::notice(Tone::Warning, "Users in the control group get it, too", html! {
                        p { "Only Canvases and triggered campaigns leave the control group out." }
                    }))
                }
                (parts::notice(Tone::Warning, "The send begins at once", html! {
                    p {
                        "Messages that have left cannot be taken back. You can cancel the rest on \
                         the page of the send."
                    }
                }))
                form.actions method="post" action=(page.workspace_link("/sends/new")) {
                    (parts::form_token(page))
                    input type="hidden" name=(REQUEST_KEY) value=(review.request_key);
                    input type="hidden" name=(CAMPAIGN) value=(campaign.id);
                    input type="hidden" name=(SEGMENT) value=(segment.id);
                    button.button.danger-fill type="submit" { (icon("send")) "Send now" }
                    a.button href=(page.workspace_link("/sends")) { "Send nothing" }
                }
            }
        }
    }
}

/// How many of the checked users would get nothing, and why.
fn left_out(sample: &CheckedUsers) -> Markup {
    if sample.users == 0 {
        return html! { "No user was found to check" };
    }
    html! {
        (parts::number(sample.left_out as i64)) " of "
        (parts::count_of(sample.users as i64, "checked user", "checked users"))
        " would get nothing"
        @for (channel, why, count) in &sample.reasons {
            br;
            span.muted.small {
                (labels::channel_name(*channel)) ": " (parts::number(*count as i64)) ". "
                (why.in_words())
            }
        }
    }
}

/// The same from a terminal.
fn terminal(page: &Page, values: &Values) -> Markup {
    let or = |value: &Option<String>, name: &str| {
        value.as_ref().filter(|id| !id.is_empty()).map_or_else(|| name.to_owned(), Clone::clone)
    };
    let (campaign, segment) = (or(&values.campaign, "CAMPAIGN"), or(&values.segment_id, "SEGMENT"));
    let body = json!({ "campaign_id": campaign, "segment_id": segment, "broadcast": true });
    parts::terminal(
        &post(page, "/campaigns/trigger/send", &body),
        &workspace_command(page, "campaigns send", &[("segment", &segment)], &[&campaign]),
    )
}
