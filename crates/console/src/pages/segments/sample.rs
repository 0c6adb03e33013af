//! Some users of a segment. Each view is in the audit log, with the users' service_ids.

use axum::extract::Path;
use axum::response::Response;
use maud::{Markup, html};
use serde_json::json;
use uuid::Uuid;

use super::address;
use super::segment::{self, SegmentPath};
use crate::page::Page;
use crate::pages::labels;
use console_frame::error::PageError;
use console_frame::parts;
use console_frame::shell;
use exports::dry_run::{EstimatedUsers, sample_segment};
use gateway::workspaces::Segment;
use people::users::rows::{For, StoredUser, find_users};
use runtime::audit::Change;

/// Users on the page.
const USERS: usize = 20;

/// `GET /w/{workspace}/segments/{id}/sample`.
pub async fn show(page: Page, Path(path): Path<SegmentPath>) -> Result<Response, PageError> {
    let segment = segment::find(&page, &path).await?;
    let workspace = page.workspace()?.id;
    let sample = sample_segment(&page.app.exports, workspace, segment.id, USERS).await?;
    let mut tx = page.app.request_queue.snapshot().await?;
    let users = find_users(&mut tx, workspace, &sample.service_ids, For::ReadingKeys).await?;
    tx.commit().await?;
    if !users.is_empty() {
        let ids: Vec<Uuid> = users.iter().map(|user| user.service_id).collect();
        let details = json!({ "users": ids });
        let mut tx = page.app.request_queue.write().await?;
        page.record(&mut tx, Change::new("segment.sample", segment.id.to_string(), details))
            .await?;
        tx.commit().await?;
    }
    let title = format!("Some users of {}", parts::cut(&segment.name));
    Ok(page.html(&title, content(&page, &segment, &users, &sample.users)))
}

fn content(page: &Page, segment: &Segment, users: &[StoredUser], size: &EstimatedUsers) -> Markup {
    html! {
        div.head {
            div.head-title {
                nav.crumbs aria-label="Breadcrumb" {
                    a href=(page.workspace_link("/segments")) { "Segments" }
                    a href=(address(page, segment.id, "")) { (parts::name(&segment.name)) }
                }
                h1 { "Some users of the segment" }
                p.muted {
                    (users.len()) " of " @if !size.exact { "about " }
                    (parts::count_of(size.estimated, "user", "users"))
                    ", chosen at random. The audit log has which users you look at."
                }
            }
        }
        section.panel aria-label="Users" {
            @if users.is_empty() {
                (parts::empty(
                    "No users",
                    "A user appears here if the conditions of the segment hold for the user. In a \
                     large workspace, only a part of the users is searched.",
                ))
            } @else {
                table.list {
                    thead { tr { th scope="col" { "User" } th scope="col" { "Email" } } }
                    tbody { @for user in users { (row(page, user)) } }
                }
            }
        }
        (terminal(page, segment))
    }
}

fn row(page: &Page, user: &StoredUser) -> Markup {
    html! {
        tr {
            (labels::user_cell(page, user.service_id, user.external_id.as_deref()))
            (labels::email_cell(user.email.as_deref()))
        }
    }
}

/// The same from a terminal.
fn terminal(page: &Page, segment: &Segment) -> Markup {
    let body = json!({ "segment_id": segment.id, "limit": USERS });
    parts::terminal(
        &shell::post(page, "/segments/sample", &body),
        &shell::workspace_command(
            page,
            "segments sample",
            &[("limit", &USERS.to_string())],
            &[&segment.id.to_string()],
        ),
    )
}
