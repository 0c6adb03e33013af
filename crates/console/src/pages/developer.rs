//! The developer console of a workspace: its sends to segments whose messages were all sent, the latest
//! first (docs/how-to/console-pages.md).

use std::collections::HashMap;

use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;
use uuid::Uuid;

use super::first_rows;
use super::sends::labels;
use crate::error::PageError;
use crate::page::Page;
use crate::parts;
use crate::shell::quoted;
use dispatches::ConsoleRecord;
use gateway::workspaces::segments;
use messages::order::Kind;
use store::documents::parsed;

/// Records on a page.
const PAGE: u32 = 50;

/// The page reads records up to this size, in bytes: they have the messages, too.
const MAX_LISTED_BYTES: i64 = 64_000;

#[derive(Debug, Default, Deserialize)]
pub struct DeveloperQuery {
    /// The send of the last record of the page before.
    before: Option<Uuid>,
}

/// A record as the page shows it. It also has the messages, which may have secrets of webhooks.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Record {
    /// The name of the [`Kind`].
    call: String,
    request_id: Option<String>,
    segment_id: Option<Uuid>,
    send_id: Option<String>,
    results: Results,
}

/// How many users and messages of each outcome a send had.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Results {
    users: i64,
    sent: i64,
    failed: i64,
    bounced: i64,
    left_out: HashMap<String, i64>,
}

/// A send in the list.
struct Listed {
    dispatch_id: Uuid,
    /// When its last message was sent.
    at: i64,
    /// Or why it is not shown.
    record: Result<Record, &'static str>,
}

/// `GET /w/{workspace}/developer`.
pub async fn list(
    page: Page,
    query: Result<Query<DeveloperQuery>, QueryRejection>,
) -> Result<Response, PageError> {
    let Query(query) = query.map_err(|error| PageError::Invalid(error.body_text()))?;
    let workspace = page.workspace()?.id;
    let mut tx = page.app.request_queue.snapshot().await?;
    let (before, limit) = (query.before, PAGE + 1);
    let found =
        dispatches::console_records(&mut tx, workspace, before, limit, MAX_LISTED_BYTES).await?;
    let names = segments::names(&mut tx, workspace).await?.into_iter().collect();
    tx.commit().await?;
    let (found, has_more) = first_rows(found, PAGE as usize);
    let sends: Vec<_> = found.iter().map(read).collect();
    Ok(page.html("Developer console", content(&page, &query, &sends, has_more, &names)))
}

fn read(found: &ConsoleRecord) -> Listed {
    let record = if found.record.is_empty() {
        Err("Too long for the list")
    } else {
        parsed("console_log.record", found.dispatch_id, &found.record).map_err(|error| {
            tracing::warn!(%error, "a record of the developer console is unreadable");
            "Written by a newer release"
        })
    };
    Listed { dispatch_id: found.dispatch_id, at: found.at, record }
}

fn content(
    page: &Page,
    query: &DeveloperQuery,
    sends: &[Listed],
    has_more: bool,
    names: &HashMap<Uuid, String>,
) -> Markup {
    let path = page.workspace_link("/developer");
    let last = sends.last().filter(|_| has_more);
    let older = last.map(|last| format!("{path}?before={}", last.dispatch_id.simple()));
    let newer = query.before.map(|_| path.as_str());
    html! {
        div.head {
            div.head-title {
                h1 { "Developer console" }
                p.muted { "Sends to segments, with their results, once all messages are sent." }
            }
        }
        section.panel aria-label="Sends to segments" {
            @if sends.is_empty() {
                (empty(query))
            } @else {
                table.list {
                    thead {
                        tr {
                            th scope="col" { "Segment" }
                            th.num scope="col" { "Users" }
                            th.num scope="col" { "Sent" }
                            th.num scope="col" { "Failed" }
                            th.num scope="col" { "Left out" }
                            th.num scope="col" { "Finished" }
                        }
                    }
                    tbody { @for send in sends { (row(page, send, names)) } }
                }
            }
            (parts::pager(newer, older.as_deref()))
        }
        (terminal(page))
    }
}

fn empty(query: &DeveloperQuery) -> Markup {
    if query.before.is_some() {
        return parts::empty("No sends here", "The list ends before this page.");
    }
    parts::empty(
        "No sends to segments yet",
        "A send to a segment appears here once all of its messages are sent. The page Sends has all \
         sends, also those in progress.",
    )
}

fn row(page: &Page, send: &Listed, names: &HashMap<Uuid, String>) -> Markup {
    match &send.record {
        Ok(record) => record_row(page, send, record, names),
        Err(why) => html! {
            tr {
                td.c-main {
                    a.title href=(labels::address(page, send.dispatch_id, "")) { (why) }
                }
                td.num data-label="Users" {}
                td.num data-label="Sent" {}
                td.num data-label="Failed" {}
                td.num data-label="Left out" {}
                td.num.c-time { (page.time(send.at)) }
            }
        },
    }
}

fn record_row(
    page: &Page,
    send: &Listed,
    record: &Record,
    names: &HashMap<Uuid, String>,
) -> Markup {
    let Record { call, request_id, segment_id, send_id, results } = record;
    let name = segment_id.and_then(|id| names.get(&id));
    let cause = match Kind::from_name(call) {
        Some(kind) => labels::cause(kind),
        None => call,
    };
    html! {
        tr {
            td.c-main {
                a.title href=(labels::address(page, send.dispatch_id, "")) {
                    @match name {
                        Some(name) => (parts::name(name)),
                        None => "Removed segment",
                    }
                }
                span.sub {
                    (parts::cut(cause))
                    @if let Some(id) = send_id { " · " (parts::name(id)) }
                }
                @if let Some(id) = request_id { span.mono.sub { (parts::name(id)) } }
            }
            td.num data-label="Users" { (parts::number(results.users)) }
            td.num data-label="Sent" { (parts::number(results.sent)) }
            td.num data-label="Failed" {
                (parts::number(results.failed.saturating_add(results.bounced)))
            }
            td.num data-label="Left out" { (parts::number(left_out(results))) }
            td.num.c-time { (page.time(send.at)) }
        }
    }
}

fn left_out(results: &Results) -> i64 {
    results.left_out.values().fold(0, |sum, count| sum.saturating_add(*count))
}

/// The records with the messages: the API has none of them.
fn terminal(page: &Page) -> Markup {
    let workspace = page.workspace_if_any().map_or("", |workspace| &workspace.name);
    parts::terminal("", &format!("longshore console-log --workspace {} --json", quoted(workspace)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_each_release_are_read() {
        let record = |text: &str| {
            let (dispatch_id, record) = (Uuid::nil(), text.to_owned());
            read(&ConsoleRecord { dispatch_id, at: 1, record }).record
        };
        let full = record(
            r#"{"call": "schedule", "request_id": "r", "segment_id": null, "later": {},
                "results": {"users": 7, "sent": 3, "left_out": {"capped": 1, "unknown": 2}}}"#,
        )
        .unwrap();
        assert_eq!((full.call.as_str(), full.results.users), ("schedule", 7));
        assert_eq!(left_out(&full.results), 3);
        assert_eq!(record("{}").unwrap().results.sent, 0);
        assert!(record("").is_err() && record("[").is_err());
    }
}
