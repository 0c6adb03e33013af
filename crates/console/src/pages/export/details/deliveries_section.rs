//! The callback of an export and the notifications about it, each with its last attempt.

use maud::{Markup, html};

use super::Shown;
use crate::page::Page;
use crate::pages::deliveries::labels;
use console_frame::parts;
use console_frame::rights::Right;
use deliveries::{Delivery, State as DeliveryState};

pub fn section(page: &Page, shown: &Shown) -> Markup {
    let has_callback = shown.export.job.callback_endpoint.is_some();
    html! {
        @if has_callback || !shown.deliveries.is_empty() {
            section.panel id="deliveries" {
                div.panel-head { h2 { "Callback and notifications" } }
                @if shown.deliveries.is_empty() {
                    p.panel-body.muted { "The callback is sent when the export ends." }
                } @else {
                    table.list {
                        thead {
                            tr {
                                th scope="col" { "To" }
                                th scope="col" { "State" }
                                th.num scope="col" { "Attempts" }
                                th.num.c-wide scope="col" { "Status" }
                                th.c-wide scope="col" { "Created" }
                                th scope="col" { "Ended or due" }
                            }
                        }
                        tbody {
                            @for delivery in &shown.deliveries { (delivery_row(page, delivery)) }
                        }
                    }
                }
                @if shown.deliveries.iter().any(|sent| sent.state == DeliveryState::GivenUp) {
                    p.panel-foot { (parts::runbook("docs/runbooks/callbacks-given-up.md")) }
                }
            }
        }
    }
}

fn delivery_row(page: &Page, delivery: &Delivery) -> Markup {
    let kind = labels::kind(&delivery.kind);
    let address = page.workspace_link(&format!("/deliveries/{}", delivery.id));
    html! {
        tr {
            td.c-main {
                @if page.may(Right::MessagesView) {
                    a.title href=(address) { (kind) }
                } @else {
                    b { (kind) }
                }
                " " (parts::name(&delivery.shown_url()))
                span.mono.sub { (delivery.message_id()) }
            }
            td data-label="State" { (labels::look(delivery.state).badge()) }
            td.num data-label="Attempts" { (delivery.attempts) }
            td.num.c-wide data-label="Status" {
                (delivery.last_status.map_or_else(String::new, |status| status.to_string()))
            }
            td.c-wide data-label="Created" { (page.time(delivery.created_at)) }
            td data-label="Ended or due" {
                @if let Some(at) = delivery.finished_at.or(delivery.next_at) { (page.time(at)) }
            }
        }
        @if let Some(error) = &delivery.last_error {
            tr { td.c-full colspan="6" { span.muted { "Last error: " } (parts::name(error)) } }
        }
    }
}
