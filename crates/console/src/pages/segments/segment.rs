//! A segment: its conditions, and how many users it has.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query};
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use super::{address, conditions, is_built_in, origin};
use crate::page::Page;
use crate::pages::sends;
use console_frame::error::PageError;
use console_frame::parts::{self, icon};
use console_frame::rights::Right;
use console_frame::shell;
use exports::dry_run::{EstimatedUsers, sample_segment};
use gateway::workspaces::{Segment, segments};
use people::audience::Audience;

/// The segment in the path of an address.
#[derive(Deserialize)]
pub struct SegmentPath {
    id: String,
}

/// Whether to count the users; any value.
#[derive(Debug, Default, Deserialize)]
pub struct SegmentQuery {
    count: Option<String>,
}

/// The workspace's segment of a path. An invalid id is unknown, without a query.
pub(super) async fn find(page: &Page, path: &SegmentPath) -> Result<Segment, PageError> {
    let id = Uuid::try_parse(&path.id).map_err(|_| PageError::NotFound)?;
    let mut tx = page.app.request_queue.snapshot().await?;
    let segment = segments::segment(&mut tx, page.workspace()?.id, id).await?;
    tx.commit().await?;
    segment.ok_or(PageError::NotFound)
}

/// `GET /w/{workspace}/segments/{id}`. Counts the users only on request, because that can take
/// seconds.
pub async fn show(
    page: Page,
    Path(path): Path<SegmentPath>,
    query: Result<Query<SegmentQuery>, QueryRejection>,
) -> Result<Response, PageError> {
    let Query(query) = query.map_err(|error| PageError::Invalid(error.body_text()))?;
    let segment = find(&page, &path).await?;
    let workspace = page.workspace()?.id;
    let size = match query.count {
        Some(_) => Some(sample_segment(&page.app.exports, workspace, segment.id, 0).await?.users),
        None => None,
    };
    let title = format!("Segment {}", parts::cut(&segment.name));
    Ok(page.html(&title, content(&page, workspace, &segment, size)))
}

fn content(page: &Page, workspace: i32, segment: &Segment, size: Option<EstimatedUsers>) -> Markup {
    html! {
        (head(page, segment))
        div.columns.side-right {
            (conditions_section(page, workspace, segment))
            div.columns {
                (size_section(page, segment, size))
                (facts(workspace, segment))
            }
        }
        (terminal(page, segment))
    }
}

fn head(page: &Page, segment: &Segment) -> Markup {
    html! {
        div.head {
            div.head-title {
                nav.crumbs aria-label="Breadcrumb" {
                    a href=(page.workspace_link("/segments")) { "Segments" }
                }
                h1 { (parts::name(&segment.name)) }
            }
            div.actions {
                @if page.may(Right::UsersView) {
                    a.button href=(address(page, segment.id, "/sample")) {
                        (icon("users")) "Show some users"
                    }
                }
                @if sends::new::is_offered(page) {
                    @let form = format!("/sends/new?segment_id={}", segment.id);
                    a.button href=(page.workspace_link(&form)) {
                        (icon("send")) "Send a campaign"
                    }
                }
                @if page.may(Right::ExportsRun) {
                    @let form = format!("/exports/new?segment_id={}", segment.id);
                    a.button.primary href=(page.workspace_link(&form)) {
                        (icon("file-down")) "Export this segment"
                    }
                }
            }
        }
    }
}

fn conditions_section(page: &Page, workspace: i32, segment: &Segment) -> Markup {
    html! {
        section.panel aria-label="Conditions" {
            div.panel-head { h2 { "Conditions" } }
            div.panel-body {
                @if is_built_in(workspace, segment.id) {
                    p { "None: the segment has every user of the workspace." }
                } @else {
                    (conditions::read(page, &(&segment.audience).into(), Audience::read_segment))
                }
            }
        }
    }
}

fn size_section(page: &Page, segment: &Segment, size: Option<EstimatedUsers>) -> Markup {
    let count = address(page, segment.id, "?count=1#size");
    html! {
        section.panel id="size" aria-label="Size" {
            div.panel-head { h2 { "Size" } }
            div.panel-body {
                @match size {
                    Some(size) => {
                        (parts::facts(&[
                            ("Users", users(&size)),
                            ("Counted", page.time(page.now_ms())),
                        ]))
                        div.stack-buttons { a.button href=(count) { "Count again" } }
                    }
                    None => {
                        p.muted {
                            "Not counted yet. Among many users, the number is estimated from a \
                             sample. It takes a second or two."
                        }
                        div.stack-buttons { a.button href=(count) { "Count the users" } }
                    }
                }
            }
        }
    }
}

/// A number of users, and how sure it is.
pub(in crate::pages) fn users(size: &EstimatedUsers) -> Markup {
    html! {
        @if size.exact {
            b { (parts::number(size.estimated)) }
        } @else {
            "about " b { (parts::number(size.estimated)) }
            @if let Some([low, high]) = size.between {
                br; span.muted.small {
                    (parts::number(low)) " to " (parts::number(high)) ", with 95% confidence"
                }
            }
        }
    }
}

fn facts(workspace: i32, segment: &Segment) -> Markup {
    html! {
        section.panel aria-label="Segment" {
            div.panel-head { h2 { "Segment" } }
            div.panel-body {
                (parts::facts(&[
                    ("Declared in", html! { (origin(workspace, segment.id)) }),
                    ("Segment id", html! { span.mono { (segment.id) } }),
                ]))
            }
        }
    }
}

/// The same from a terminal.
fn terminal(page: &Page, segment: &Segment) -> Markup {
    parts::terminal(
        &shell::post(page, "/segments/size", &json!({ "segment_id": segment.id })),
        &shell::workspace_command(page, "segments count", &[], &[&segment.id.to_string()]),
    )
}
