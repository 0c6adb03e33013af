//! The segments of a workspace (docs/how-to/console-pages.md).

pub(super) mod conditions;
pub mod sample;
pub mod segment;

use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;
use uuid::Uuid;

use crate::page::Page;
use console_frame::error::PageError;
use console_frame::lists::first_rows;
use console_frame::parts;
use console_frame::shell::{KEY_HEADER, api, workspace_command};
use gateway::paging::{self, CURSOR};
use gateway::workspaces::{Segment, segments};

/// Segments on a page.
const PAGE: usize = 50;

#[derive(Debug, Default, Deserialize)]
pub struct ListQuery {
    after: Option<String>,
}

impl ListQuery {
    /// The name and the id of the segment that the page begins after.
    fn position(&self) -> Result<Option<(String, Uuid)>, PageError> {
        let Some(text) = &self.after else { return Ok(None) };
        let position: Option<(String, Uuid)> = paging::read_cursor(text);
        // PostgreSQL stores no text with NUL.
        let position = position.filter(|(name, _)| !name.contains('\0'));
        position.map(Some).ok_or_else(|| PageError::Invalid(format!("after must be {CURSOR}")))
    }
}

/// `GET /w/{workspace}/segments`.
pub async fn list(
    page: Page,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Response, PageError> {
    let Query(query) = query.map_err(|error| PageError::Invalid(error.body_text()))?;
    let after = query.position()?;
    let workspace = page.workspace()?.id;
    let start = after.as_ref().map(|(name, id)| (name.as_str(), *id));
    let mut tx = page.app.request_queue.snapshot().await?;
    let found = segments::page(&mut tx, workspace, start, PAGE as i64 + 1).await?;
    tx.commit().await?;
    let (found, has_more) = first_rows(found, PAGE);
    let last = found.last().filter(|_| has_more);
    let next = last.map(|last| {
        let cursor = paging::cursor(&(&last.name, last.id));
        page.workspace_link(&format!("/segments?after={cursor}"))
    });
    let first = after.map(|_| page.workspace_link("/segments"));
    let pager = parts::key_pager("By name", first.as_deref(), next.as_deref());
    Ok(page.html("Segments", content(&page, workspace, &found, &pager)))
}

fn content(page: &Page, workspace: i32, found: &[Segment], pager: &Markup) -> Markup {
    html! {
        div.head {
            div.head-title {
                h1 { "Segments" }
                p.muted {
                    "Conditions on users, with a name. The workspace file declares them: to add or \
                     change one, change the file and apply it."
                }
            }
        }
        section.panel aria-label="Segments" {
            @if found.is_empty() {
                (parts::empty("No segments here", "There are none after the page before."))
            } @else {
                table.list {
                    thead {
                        tr {
                            th scope="col" { "Segment" }
                            th scope="col" { "Users" }
                            th scope="col" { "Declared in" }
                        }
                    }
                    tbody { @for segment in found { (row(page, workspace, segment)) } }
                }
            }
            (pager)
        }
        (terminal(page))
    }
}

fn row(page: &Page, workspace: i32, segment: &Segment) -> Markup {
    html! {
        tr {
            td.c-main {
                a.title href=(address(page, segment.id, "")) { (parts::name(&segment.name)) }
                span.mono.sub { (segment.id) }
            }
            td data-label="Users" {
                @if is_built_in(workspace, segment.id) {
                    "All users"
                } @else {
                    "Who match " (conditions::count(&(&segment.audience).into()))
                }
            }
            td data-label="Declared in" { (origin(workspace, segment.id)) }
        }
    }
}

/// Whether every workspace has the segment, and no file declares it.
fn is_built_in(workspace: i32, id: Uuid) -> bool {
    id == segments::all_users_id(workspace)
}

fn origin(workspace: i32, id: Uuid) -> &'static str {
    if is_built_in(workspace, id) { "Built in" } else { "Workspace file" }
}

/// The address of a page of a segment.
pub(super) fn address(page: &Page, id: Uuid, path: &str) -> String {
    page.workspace_link(&format!("/segments/{id}{path}"))
}

fn terminal(page: &Page) -> Markup {
    parts::terminal(
        &format!("curl -sS {} {KEY_HEADER}", api(page, "/segments/list")),
        &workspace_command(page, "segments list", &[], &[]),
    )
}
