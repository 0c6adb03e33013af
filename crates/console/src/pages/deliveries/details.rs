//! The page of a delivery: its attempts, why the last one failed, and what can be done.

use maud::{Markup, html};

use super::{address, labels};
use crate::page::Page;
use console_frame::parts::{self, Tone, icon};
use console_frame::rights::Right;
use console_frame::shell::{KEY_HEADER, api};
use deliveries::{Delivery, STATUS_POSTBACK, State};
use runtime::traces::without_trace;

/// The query of the address after a delivery was sent again.
pub const RESENT: &str = "resent";

/// The page of the book about deliveries that fail.
const RUNBOOK: &str = "docs/runbooks/callbacks-given-up.md";

pub fn content(page: &Page, delivery: &Delivery, was_resent: bool) -> Markup {
    html! {
        div.head {
            div.head-title {
                (crumbs(page, None))
                h1 {
                    (labels::kind(&delivery.kind)) " to "
                    (parts::name(&delivery.shown_url())) " "
                    (labels::look(delivery.state).pill())
                }
            }
            div.actions { (actions(page, delivery)) }
        }
        @if was_resent {
            (parts::notice(Tone::Good, "It is sent again", html! {
                p { "A worker takes it now. Reload the page to see the result." }
            }))
        }
        (failure(delivery))
        section.panel id="delivery" {
            div.panel-head { h2 { "Delivery" } }
            div.panel-body { (facts(page, delivery)) }
        }
        (terminal(page, delivery))
    }
}

/// The way back to the list, and to the delivery from its body.
fn crumbs(page: &Page, delivery: Option<&Delivery>) -> Markup {
    html! {
        nav.crumbs aria-label="Breadcrumb" {
            a href=(page.workspace_link("/deliveries")) { "Deliveries" }
            @if let Some(delivery) = delivery {
                a href=(address(page, delivery.id, "")) { (labels::kind(&delivery.kind)) }
            }
        }
    }
}

fn actions(page: &Page, delivery: &Delivery) -> Markup {
    let button = match delivery.state {
        State::Pending => "Send now",
        State::Delivered | State::GivenUp => "Send again",
    };
    html! {
        @if page.may(Right::UsersView) {
            a.button href=(address(page, delivery.id, "/body")) { "Show the body" }
        }
        @if page.may(Right::DeliveriesResend) {
            form method="post" action=(address(page, delivery.id, "/resend")) {
                (parts::form_token(page))
                button.button.primary type="submit" { (icon("rotate-ccw")) (button) }
            }
        }
    }
}

/// Why the last attempt failed, with the beginning of the response.
fn failure(delivery: &Delivery) -> Markup {
    let Some(error) = &delivery.last_error else { return html! {} };
    // A delivery is given up before its time limit only if its receiver is no longer declared.
    let is_early = delivery.finished_at.is_some_and(|ended| ended < delivery.retry_until);
    let (title, advice) = labels::cause(delivery.state, delivery.last_status, is_early);
    let tone = if delivery.state == State::GivenUp { Tone::Bad } else { Tone::Warning };
    parts::notice(
        tone,
        title,
        html! {
            p { (advice) }
            pre.code { (error) }
            p { (parts::runbook(RUNBOOK)) }
        },
    )
}

fn facts(page: &Page, delivery: &Delivery) -> Markup {
    let time =
        |at: Option<i64>| html! { @if let Some(at) = at { (page.time(at)) } @else { "None" } };
    let status =
        delivery.last_status.map_or_else(|| "None".to_owned(), |status| status.to_string());
    let ends = match delivery.state {
        State::Pending => ("Next attempt", time(delivery.next_at)),
        State::Delivered => ("Delivered", time(delivery.finished_at)),
        State::GivenUp => ("Given up", time(delivery.finished_at)),
    };
    parts::facts(&[
        ("About", subject(page, delivery)),
        ("Attempts", html! { (parts::number(delivery.attempts.into())) }),
        ("Last status", html! { (status) }),
        ("Created", page.time(delivery.created_at)),
        ends,
        ("Attempts end", page.time(delivery.retry_until)),
        ("webhook-id", html! { span.mono { (delivery.message_id()) } }),
        ("Request id", html! { span.mono { (parts::name(without_trace(&delivery.request_id))) } }),
    ])
}

/// What the delivery is about: an export with its page, or an email.
fn subject(page: &Page, delivery: &Delivery) -> Markup {
    let subject = &delivery.subject;
    let is_export = delivery.kind != STATUS_POSTBACK;
    let path = format!("/exports/{}", parts::encoded(subject));
    html! {
        @if is_export && page.may(Right::ExportsView) {
            "Export " a.mono href=(page.workspace_link(&path)) { (parts::name(subject)) }
        } @else {
            @if is_export { "Export " } @else { "Transactional email " }
            span.mono { (parts::name(subject)) }
        }
    }
}

fn terminal(page: &Page, delivery: &Delivery) -> Markup {
    let id = delivery.id;
    let path = api(page, &format!("/deliveries/{id}"));
    let resend = api(page, &format!("/deliveries/{id}/resend"));
    parts::terminal(
        &format!("curl -sS {path} {KEY_HEADER}\ncurl -sS -X POST {resend} {KEY_HEADER}"),
        &format!("longshore deliveries show {id}\nlongshore deliveries resend {id}"),
    )
}

/// The page with the body that is sent.
pub fn body(page: &Page, delivery: &Delivery) -> Markup {
    html! {
        div.head {
            div.head-title {
                (crumbs(page, Some(delivery)))
                h1 { "Body" }
                p.muted { "It may have personal data: the audit log has that you looked at it." }
            }
        }
        section.panel id="body" aria-label="Body" {
            div.panel-body { pre.code { (delivery.shown_body()) } }
        }
        (parts::terminal(
            &format!("curl -sS {} {KEY_HEADER}", api(page, &format!("/deliveries/{}", delivery.id))),
            &format!("longshore deliveries show {}", delivery.id),
        ))
    }
}
