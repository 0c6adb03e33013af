//! The recipients of a send, by outcome: personal data, so each view of a page is in the audit log.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query};
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;
use url::form_urlencoded;

use super::send::{SendPath, own_send};
use crate::page::Page;
use crate::pages::labels;
use console_frame::error::PageError;
use console_frame::parts;
use console_frame::rights::Right;
use console_frame::shell::{KEY_HEADER, api, command};
use dispatches::api::recipients::{self, Recipient, Request};
use dispatches::{DispatchSummary, RecipientPosition};
use gateway::paging::{self, CURSOR};
use messages::dispatch::OutcomeFilter;
use runtime::audit::Change;

/// Messages on a page.
const PAGE: i64 = 50;

/// Which messages the page lists.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RecipientsQuery {
    outcome: String,
    /// Where the page begins.
    cursor: String,
}

impl RecipientsQuery {
    /// The outcome, and where the page begins. The error names the parameter.
    fn read(&self) -> Result<(Option<OutcomeFilter>, RecipientPosition), String> {
        let outcome = match self.outcome.as_str() {
            "" => None,
            name => Some(OutcomeFilter::from_name(name).ok_or_else(|| {
                let names = OutcomeFilter::ALL.map(OutcomeFilter::name).join(", ");
                format!("outcome must be one of {names}, not {name:?}")
            })?),
        };
        let after = match self.cursor.as_str() {
            "" => RecipientPosition::START,
            text => paging::read_cursor(text).ok_or_else(|| format!("cursor must be {CURSOR}"))?,
        };
        Ok((outcome, after))
    }
}

/// A page of the list.
struct Listed {
    send: DispatchSummary,
    outcome: Option<OutcomeFilter>,
    is_first: bool,
    recipients: Vec<Recipient>,
    next: Option<RecipientPosition>,
}

/// Whether the person may see the recipients of sends.
pub fn may_view(page: &Page) -> bool {
    page.may(Right::UsersView) && page.may(Right::MessagesView)
}

/// `GET /w/{workspace}/sends/{dispatch_id}/recipients`.
pub async fn list(
    page: Page,
    Path(path): Path<SendPath>,
    query: Result<Query<RecipientsQuery>, QueryRejection>,
) -> Result<Response, PageError> {
    let Query(query) = query.map_err(|error| PageError::Invalid(error.body_text()))?;
    let (outcome, after) = query.read().map_err(PageError::Invalid)?;
    let mut tx = page.app.request_queue.snapshot().await?;
    let send = own_send(&page, &mut tx, &path).await?;
    let request = Request { outcomes: outcome.into_iter().collect(), after, limit: PAGE };
    let of_send = (page.workspace()?.id, send.id, send.state);
    let (recipients, next) = recipients::page(&mut tx, of_send, &request).await?;
    tx.commit().await?;
    // Every page, because an address can begin after any message.
    let details = json!({ "outcome": outcome.map_or("all", OutcomeFilter::name) });
    let object = send.id.simple().to_string();
    let mut tx = page.app.request_queue.write().await?;
    page.record(&mut tx, Change::new("dispatch.recipients", object, details)).await?;
    tx.commit().await?;
    let is_first = after == RecipientPosition::START;
    let listed = Listed { send, outcome, is_first, recipients, next };
    let title = format!("Recipients of {}", parts::cut(labels::title(&listed.send)));
    Ok(page.html(&title, content(&page, &listed)))
}

fn address(
    page: &Page,
    listed: &Listed,
    outcome: Option<OutcomeFilter>,
    after: Option<&RecipientPosition>,
) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    if let Some(outcome) = outcome {
        query.append_pair("outcome", outcome.name());
    }
    if let Some(after) = after {
        query.append_pair("cursor", &paging::cursor(after));
    }
    let query = query.finish();
    let question = if query.is_empty() { "" } else { "?" };
    labels::address(page, listed.send.id, &format!("/recipients{question}{query}"))
}

fn content(page: &Page, listed: &Listed) -> Markup {
    let send = &listed.send;
    let offered = [None].into_iter().chain(OutcomeFilter::ALL.map(Some));
    html! {
        div.head {
            div.head-title {
                nav.crumbs aria-label="Breadcrumb" {
                    a href=(page.workspace_link("/sends")) { "Sends" }
                    a href=(labels::address(page, send.id, "")) { (parts::name(labels::title(send))) }
                }
                h1 { "Recipients " (labels::look(send.state).pill()) }
                p.muted {
                    "One entry for each message. Users who were left out have none. Each view of this \
                     page is in the audit log."
                }
            }
        }
        nav.chips aria-label="Filter by outcome" {
            @for outcome in offered {
                @let current = (outcome == listed.outcome).then_some("true");
                a.chip href=(address(page, listed, outcome, None)) aria-current=[current] {
                    (outcome.map_or("All", labels::filter_word))
                }
            }
        }
        section.panel aria-label="Recipients" {
            @if listed.recipients.is_empty() {
                (empty(listed))
            } @else {
                table.list {
                    thead {
                        tr {
                            th scope="col" { "Outcome" }
                            th scope="col" { "User" }
                            th scope="col" { "Channel" }
                            th.num scope="col" { "Attempts" }
                            th scope="col" { "Reason" }
                            th.num scope="col" { "Sent or due" }
                        }
                    }
                    tbody { @for recipient in &listed.recipients { (row(page, recipient)) } }
                }
            }
            (pager(page, listed))
        }
        (terminal(page, listed))
    }
}

fn empty(listed: &Listed) -> Markup {
    if listed.next.is_some() {
        let text = "None of the messages that were read have this outcome. Continue with the next.";
        return parts::empty("No messages here", text);
    }
    match listed.outcome {
        Some(outcome) => {
            let word = labels::filter_word(outcome).to_lowercase();
            let meaning = labels::filter_meaning(outcome);
            parts::empty("No messages here", &format!("A message is {word}: {meaning}."))
        }
        None => parts::empty(
            "No messages yet",
            "Each message to a user appears here once a worker has created it.",
        ),
    }
}

fn row(page: &Page, recipient: &Recipient) -> Markup {
    let Recipient { service_id, channel, outcome, attempts, .. } = recipient;
    let at = recipient.sent_at.or(recipient.next_at);
    html! {
        tr {
            td.c-state {
                (labels::outcome_look(*outcome).badge())
                @if recipient.may_have_been_sent { span.sub { "May have been sent" } }
            }
            (labels::user_cell(page, *service_id, recipient.external_user_id.as_deref()))
            td data-label="Channel" { (labels::channel_name(*channel)) }
            td.num data-label="Attempts" { (attempts) }
            td.c-text data-label="Reason" {
                @if let Some(reason) = &recipient.reason { (parts::name(reason)) }
            }
            td.num.c-time { @if let Some(at) = at { (page.time(at)) } }
        }
    }
}

fn pager(page: &Page, listed: &Listed) -> Markup {
    let first = (!listed.is_first).then(|| address(page, listed, listed.outcome, None));
    let next = listed.next.as_ref().map(|next| address(page, listed, listed.outcome, Some(next)));
    parts::key_pager("", first.as_deref(), next.as_deref())
}

/// The same list from a terminal.
fn terminal(page: &Page, listed: &Listed) -> Markup {
    let id = listed.send.id.simple().to_string();
    let outcome = listed.outcome.map(|outcome| ("outcome", outcome.name()));
    let query = outcome.map_or_else(String::new, |(name, value)| format!("?{name}={value}"));
    let address = api(page, &format!("/messages/dispatches/{id}/recipients{query}"));
    let command = command("dispatches recipients", outcome.as_slice(), &[&id]);
    parts::terminal(&format!("curl -sS {address} {KEY_HEADER}"), &command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_parameter() {
        let read = |outcome: &str, cursor: &str| {
            RecipientsQuery { outcome: outcome.into(), cursor: cursor.into() }.read()
        };
        assert_eq!(read("", ""), Ok((None, RecipientPosition::START)));
        assert_eq!(read("sent", "").map(|read| read.0), Ok(Some(OutcomeFilter::Sent)));
        for (outcome, cursor, name) in
            [("lost", "", "outcome "), ("sent,failed", "", "outcome "), ("", "x", "cursor ")]
        {
            assert!(read(outcome, cursor).expect_err(name).starts_with(name), "{outcome} {cursor}");
        }
    }
}
