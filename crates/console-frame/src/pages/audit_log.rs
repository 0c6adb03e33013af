//! The audit log: who changed what, when and from where (docs/how-to/audit-log.md).

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Query;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures::stream;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::sleep;
use url::form_urlencoded;
use uuid::Uuid;

use crate::app::App;
use crate::error::PageError;
use crate::lists::first_rows;
use crate::page::Page;
use crate::parts::{self, icon};
use crate::rights::Right;
use crate::session;
use crate::shell;
use gateway::{COMPANY, workspaces};
use runtime::app::queue::held_by;
use runtime::audit::{self, KEEP_DAYS, Position, Record};
use runtime::fairness::Holder;
use store::within_timeout;

/// Entries on a page.
const PAGE: usize = 50;

/// Entries that one statement of a download reads.
const READ_AT_ONCE: i64 = 1_000;

/// Time limit of such a statement.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct AuditQuery {
    actor: String,
    action: String,
    workspace: String,
    /// The id of the last entry of the page before.
    before: Option<Uuid>,
    format: String,
}

impl AuditQuery {
    /// The address of the same view with another value of a parameter.
    fn with(&self, name: &str, value: &str) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        for (name, value) in
            [("actor", &self.actor), ("action", &self.action), ("workspace", &self.workspace)]
        {
            if !value.is_empty() {
                query.append_pair(name, value);
            }
        }
        query.append_pair(name, value);
        format!("?{}", query.finish())
    }
}

/// Who changed what, when and from where; or as a download.
pub async fn show(
    page: Page,
    head: Parts,
    Query(query): Query<AuditQuery>,
) -> Result<Response, PageError> {
    let text = |text: &str| Some(text.trim()).filter(|text| !text.is_empty()).map(str::to_owned);
    let mut tx = page.app.request_queue.snapshot().await?;
    let workspace_id = match text(&query.workspace) {
        Some(name) => match workspaces::by_name(&mut tx, &name).await? {
            Some(workspace) => Some(workspace.id),
            None => {
                tx.commit().await?;
                return Ok(unknown_workspace(&page, &query));
            }
        },
        None => None,
    };
    let before = match query.before {
        // If the entry was deleted since then, so were all older ones.
        Some(id) => Some(audit::position(&mut tx, id).await?.ok_or(PageError::NotFound)?),
        None => None,
    };
    let filter = audit::Filter {
        workspace_id,
        actor: text(&query.actor),
        action: text(&query.action),
        since: None,
        before,
        limit: PAGE as i64 + 1,
    };
    if query.format == "ndjson" {
        tx.commit().await?;
        return Ok(download(page, head, filter));
    }
    let found = audit::list(&mut tx, &filter).await?;
    tx.commit().await?;
    let (found, has_more) = first_rows(found, PAGE);
    Ok(page.html("Audit log", content(&page, &query, &found, has_more, &BTreeMap::new())))
}

/// The page with a message next to the field.
fn unknown_workspace(page: &Page, query: &AuditQuery) -> Response {
    let message = format!("No workspace has the name {:?}", query.workspace.trim());
    let errors = BTreeMap::from([("workspace".to_owned(), message)]);
    let content = content(page, query, &[], false, &errors);
    (StatusCode::UNPROCESSABLE_ENTITY, page.html("Audit log", content)).into_response()
}

fn content(
    page: &Page,
    query: &AuditQuery,
    found: &[Record],
    has_more: bool,
    errors: &BTreeMap<String, String>,
) -> Markup {
    let older = found.last().filter(|_| has_more);
    let older = older.map(|last| query.with("before", &last.id.to_string()));
    let newer = query.before.map(|_| page.link("/audit"));
    let is_filtered =
        [&query.actor, &query.action, &query.workspace].iter().any(|text| !text.is_empty());
    let text = if is_filtered {
        "No entry matches the filter."
    } else {
        "Changes by people in the console, by commands and over HTTP appear here."
    };
    html! {
        div.head {
            div.head-title {
                h1 { "Audit log" }
                p.muted {
                    "What people, keys and commands changed. Entries are kept for " (KEEP_DAYS)
                    " days."
                }
            }
            div.actions {
                a.button href=(query.with("format", "ndjson")) download="audit.ndjson" {
                    (icon("download")) "Download"
                }
            }
        }
        (filters(page, query, errors))
        section.panel.events aria-label="Entries" {
            @if found.is_empty() {
                (parts::empty("No changes", text))
            } @else {
                div.event-head aria-hidden="true" {
                    span {} span { "Time" } span { "What" } span { "Object" } span { "Who" }
                }
            }
            @for record in found { (entry(page, record)) }
            (parts::pager(newer.as_deref(), older.as_deref()))
        }
        (parts::terminal("", &command(query)))
    }
}

fn filters(page: &Page, query: &AuditQuery, errors: &BTreeMap<String, String>) -> Markup {
    let error_id = |field: &str| errors.contains_key(field).then(|| parts::error_id(field));
    html! {
        form.filters method="get" action=(page.link("/audit")) {
            label.field {
                span.hint { "Who" }
                input.input name="actor" value=(query.actor) placeholder="console:ana";
            }
            label.field {
                span.hint { "What" }
                input.input name="action" value=(query.action) placeholder="export.";
            }
            label.field {
                span.hint { "Workspace" }
                input.input name="workspace" value=(query.workspace)
                    aria-describedby=[error_id("workspace")];
                (parts::field_error(errors, "workspace"))
            }
            button.button type="submit" { (icon("search")) "Filter" }
        }
    }
}

fn command(query: &AuditQuery) -> String {
    let options = [
        ("workspace", query.workspace.as_str()),
        ("actor", query.actor.as_str()),
        ("action", query.action.as_str()),
    ];
    let options: Vec<_> = options.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    shell::command("audit list", &options, &[])
}

fn entry(page: &Page, record: &Record) -> Markup {
    let installation = "the whole installation";
    let facts = [
        ("Who", parts::name(&record.actor)),
        ("From", html! { @if let Some(from) = &record.address { (parts::name(from)) } }),
        ("Workspace", parts::name(record.workspace.as_deref().unwrap_or(installation))),
        ("Entry", html! { span.mono { (record.id) } }),
    ];
    html! {
        details.event {
            summary {
                (icon("chevron-right"))
                (page.time(record.at))
                span { b { (parts::name(&record.action)) } }
                span.mono { (parts::name(&record.object)) }
                span.muted { (parts::name(&record.actor)) }
            }
            div {
                (parts::facts(&facts))
                @let changes = changes(&record.details);
                @let others = others(&record.details, changes.is_some());
                @if let Some(changes) = changes {
                    table.change {
                        thead { tr { th { "Field" } th { "Before" } th { "After" } } }
                        tbody {
                            @for (field, before, after) in changes {
                                tr {
                                    td { code { (parts::cut(&field)) } }
                                    td { del { (parts::cut(&before)) } }
                                    td { ins { (parts::cut(&after)) } }
                                }
                            }
                        }
                    }
                }
                @if let Some(others) = others {
                    pre.code { (others) }
                }
            }
        }
    }
}

/// The fields that differ between the state before and after, if the details have both.
fn changes(details: &Value) -> Option<Vec<(String, String, String)>> {
    let (before, after) = (details["before"].as_object()?, details["after"].as_object()?);
    let text = |value: Option<&Value>| match value {
        None | Some(Value::Null) => "none".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    };
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort();
    names.dedup();
    let change = |name: &String| (name.clone(), text(before.get(name)), text(after.get(name)));
    Some(names.into_iter().map(change).filter(|(_, before, after)| before != after).collect())
}

/// The details as text, without those that the table of changes shows.
fn others(details: &Value, has_table: bool) -> Option<String> {
    let mut details = details.as_object()?.clone();
    details.retain(|name, _| !has_table || (name != "before" && name != "after"));
    (!details.is_empty()).then(|| format!("{:#}", Value::Object(details)))
}

/// All entries that match, as JSON, one in each line. Between two statements it holds no connection
/// to the database, however slowly the client reads. It ends early, as an error, with the session.
fn download(page: Page, head: Parts, filter: audit::Filter) -> Response {
    let first = audit::Filter { limit: READ_AT_ONCE, ..filter };
    let lines = stream::try_unfold(Some(first), move |filter| {
        let (app, head) = (page.app.clone(), head.clone());
        async move {
            let Some(filter) = filter else { return Ok(None) };
            let read = read_entries(app, head, filter.clone());
            // In a task of its own, because the client can end the download while it reads.
            let read = held_by(Holder::Workspace(COMPANY), read);
            let found = within_timeout(read, sleep(READ_TIMEOUT)).await?;
            let last: Option<Position> = found.last().map(|last| (last.at, last.id));
            let is_full = found.len() as i64 == READ_AT_ONCE;
            let next = last
                .filter(|_| is_full)
                .map(|before| audit::Filter { before: Some(before), ..filter });
            Ok::<_, PageError>(Some((text_of(&found), next)))
        }
    });
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson")),
        (CONTENT_DISPOSITION, HeaderValue::from_static("attachment; filename=\"audit.ndjson\"")),
    ];
    (headers, Body::from_stream(lines)).into_response()
}

/// The next entries of a download, if the person may still see them.
async fn read_entries(
    app: App,
    head: Parts,
    filter: audit::Filter,
) -> Result<Vec<Record>, PageError> {
    let viewer = session::viewer(&app, &head).await?.ok_or(PageError::SignedOut)?;
    if !viewer.rights.has(Right::AuditView, None) {
        return Err(PageError::Forbidden(Right::AuditView.name()));
    }
    let mut tx = app.request_queue.snapshot().await?;
    let found = audit::list(&mut tx, &filter).await?;
    tx.commit().await?;
    Ok(found)
}

fn text_of(found: &[Record]) -> Bytes {
    let mut text = String::new();
    for record in found {
        text += &serde_json::to_string(record).unwrap_or_default();
        text.push('\n');
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_changed_fields_are_shown() {
        let details = json!({
            "before": {"a": 1, "b": "x", "c": null},
            "after": {"a": 1, "b": "y", "d": [1]},
        });
        let found = changes(&details).unwrap();
        let found: Vec<_> =
            found.iter().map(|(a, b, c)| (a.as_str(), b.as_str(), c.as_str())).collect();
        assert_eq!(found, [("b", "x", "y"), ("d", "none", "[1]")]);
        assert_eq!(changes(&json!({"role": "admin"})), None);
        assert_eq!(others(&details, true), None);
        let details = json!({"before": {"a": 1}, "after": {"a": 2}, "user_id": "u"});
        assert_eq!(others(&details, true).unwrap(), "{\n  \"user_id\": \"u\"\n}");
        assert_eq!(others(&json!({}), false), None);
    }
}
