//! The developer console of a workspace: its sends to segments that have ended, the latest first
//! (docs/how-to/console-pages.md).

use std::collections::HashMap;

use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;
use uuid::Uuid;

use super::labels;
use crate::page::Page;
use console_frame::error::PageError;
use console_frame::lists::first_rows;
use console_frame::parts;
use console_frame::shell::workspace_command;
use dispatches::ConsoleSummary;
use dispatches::ListedKind;
use gateway::workspaces::segments;
use store::documents::parsed;

/// Records on a page.
const PAGE: u32 = 50;

#[derive(Debug, Default, Deserialize)]
pub struct DeveloperQuery {
    /// The send of the last record of the page before.
    before: Option<Uuid>,
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
    record: ConsoleSummary,
    segment_id: Option<Uuid>,
    /// None if a newer release wrote them.
    results: Option<Results>,
}

impl Listed {
    fn new(record: ConsoleSummary) -> Self {
        let results = record.results.as_deref().unwrap_or("{}");
        let results = parsed("console_log.record", record.dispatch_id, results);
        let results = results.inspect_err(|error| {
            tracing::warn!(%error, "a record of the developer console is unreadable");
        });
        let segment_id = record.segment_id.as_deref().and_then(|id| Uuid::try_parse(id).ok());
        Self { record, segment_id, results: results.ok() }
    }
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
    let found = dispatches::console_summaries(&mut tx, workspace, before, limit).await?;
    let (found, has_more) = first_rows(found, PAGE as usize);
    let sends: Vec<_> = found.into_iter().map(Listed::new).collect();
    let ids: Vec<Uuid> = sends.iter().filter_map(|send| send.segment_id).collect();
    let names = segments::names_of(&mut tx, workspace, &ids).await?;
    tx.commit().await?;
    Ok(page.html("Developer console", content(&page, &query, &sends, has_more, &names)))
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
    let older = last.map(|last| format!("{path}?before={}", last.record.dispatch_id.simple()));
    let newer = query.before.map(|_| path.as_str());
    html! {
        div.head {
            div.head-title {
                h1 { "Developer console" }
                p.muted { "Sends to segments that have ended, with their results." }
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
        "A send to a segment appears here once it has ended, also if it failed or was cancelled. \
         The page Sends has all sends, also those in progress.",
    )
}

fn row(page: &Page, send: &Listed, names: &HashMap<Uuid, String>) -> Markup {
    let Listed { record, segment_id, results } = send;
    let call = record.call.as_deref().unwrap_or_default();
    let cause = match ListedKind::from_name(call) {
        Some(kind) => labels::cause(kind),
        None => call,
    };
    let shown = |count: fn(&Results) -> i64| {
        results.as_ref().map(count).map(parts::number).unwrap_or_default()
    };
    html! {
        tr {
            td.c-main {
                a.title href=(labels::address(page, record.dispatch_id, "")) {
                    @match segment_id.and_then(|id| names.get(&id)) {
                        Some(name) => (parts::name(name)),
                        None => "Removed segment",
                    }
                }
                span.sub {
                    (parts::cut(cause))
                    @if let Some(id) = &record.send_id { " · " (parts::name(id)) }
                }
                @if let Some(id) = &record.request_id { span.mono.sub { (parts::name(id)) } }
            }
            td.num data-label="Users" { (shown(|results| results.users)) }
            td.num data-label="Sent" { (shown(|results| results.sent)) }
            td.num data-label="Failed" {
                (shown(|results| results.failed.saturating_add(results.bounced)))
            }
            td.num data-label="Left out" { (shown(left_out)) }
            td.num.c-time { (page.time(record.at)) }
        }
    }
}

fn left_out(results: &Results) -> i64 {
    results.left_out.values().fold(0, |sum, count| sum.saturating_add(*count))
}

/// The records with the messages: the API has none of them.
fn terminal(page: &Page) -> Markup {
    parts::terminal("", &workspace_command(page, "console-log --json", &[], &[]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_each_release_are_read() {
        let listed = |results: Option<&str>| {
            Listed::new(ConsoleSummary {
                dispatch_id: Uuid::nil(),
                at: 1,
                call: None,
                request_id: None,
                segment_id: None,
                send_id: None,
                results: results.map(str::to_owned),
            })
        };
        let results = |text| listed(text).results;
        let full = results(Some(
            r#"{"users": 7, "sent": 3, "later": {}, "left_out": {"capped": 1, "unknown": 2}}"#,
        ))
        .unwrap();
        assert_eq!((full.users, left_out(&full)), (7, 3));
        assert_eq!(results(None).unwrap().sent, 0);
        assert!(results(Some(r#"{"users": "7"}"#)).is_none());
    }
}
