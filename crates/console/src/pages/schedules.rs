//! The scheduled sends of a workspace, in the order of their times (docs/how-to/console-pages.md).

mod labels;
pub mod schedule;

use std::collections::HashMap;

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
use console_frame::shell::workspace_command;
use content::campaigns;
use gateway::paging::{self, CURSOR};
use gateway::workspaces::segments;
use sending::schedules::{self, Contents, Position, Schedule, ScheduleSummary};
use store::{StoreError, Tx};

/// Schedules on a page.
const PAGE: usize = 50;

kit::named! {
    /// Which schedules a page has.
    enum Selection {
        /// Those that still send something, the next one first.
        Upcoming = "upcoming",
        /// Those that sent nothing, the latest first.
        Missed = "missed",
    }
}

impl Selection {
    fn title(self) -> &'static str {
        match self {
            Self::Upcoming => "Upcoming",
            Self::Missed => "Missed",
        }
    }

    fn order(self) -> &'static str {
        match self {
            Self::Upcoming => "Next first",
            Self::Missed => "Latest first",
        }
    }

    /// The position before all schedules.
    fn start(self) -> Position {
        match self {
            Self::Upcoming => (i64::MIN, Uuid::nil()),
            Self::Missed => (i64::MAX, Uuid::max()),
        }
    }

    async fn read(
        self,
        tx: &mut Tx,
        workspace: i32,
        after: Position,
    ) -> Result<Vec<ScheduleSummary>, StoreError> {
        let limit = PAGE as i64 + 1;
        match self {
            Self::Upcoming => schedules::unfinished(tx, workspace, after, limit).await,
            Self::Missed => schedules::missed(tx, workspace, after, limit).await,
        }
    }

    fn position(self, schedule: &Schedule) -> Position {
        match self {
            Self::Upcoming => (schedule.time, schedule.id),
            Self::Missed => (schedule.ended_at.unwrap_or(i64::MAX), schedule.id),
        }
    }

    fn address(self, page: &Page, after: Option<Position>) -> String {
        let mut parameters = match self {
            Self::Upcoming => Vec::new(),
            Self::Missed => vec!["show=missed".to_owned()],
        };
        parameters.extend(after.map(|after| format!("after={}", paging::cursor(&after))));
        let question = if parameters.is_empty() { "" } else { "?" };
        page.workspace_link(&format!("/schedules{question}{}", parameters.join("&")))
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ListQuery {
    show: String,
    after: String,
}

impl ListQuery {
    /// The selection, and the position that the page begins after; the error names the parameter.
    fn read(&self) -> Result<(Selection, Option<Position>), String> {
        let selection = match self.show.as_str() {
            "" => Selection::Upcoming,
            name => Selection::from_name(name).ok_or_else(|| {
                let names = Selection::ALL.map(Selection::name).join(", ");
                format!("show must be one of {names}, not {name:?}")
            })?,
        };
        let after = match self.after.as_str() {
            "" => None,
            text => Some(paging::read_cursor(text).ok_or(format!("after must be {CURSOR}"))?),
        };
        Ok((selection, after))
    }
}

/// The names of what schedules refer to.
struct Names {
    campaigns: HashMap<Uuid, String>,
    segments: HashMap<Uuid, String>,
}

impl Names {
    async fn read(
        tx: &mut Tx,
        workspace: i32,
        schedules: &[ScheduleSummary],
    ) -> Result<Self, StoreError> {
        let ids = |id: fn(&Contents) -> Option<Uuid>| {
            schedules.iter().filter_map(|found| id(&found.contents)).collect::<Vec<_>>()
        };
        let (campaigns, segments) = (ids(|found| found.campaign_id), ids(|found| found.segment_id));
        Ok(Self {
            campaigns: campaigns::names_of(tx, workspace, &campaigns).await?,
            segments: segments::names_of(tx, workspace, &segments).await?,
        })
    }
}

/// A page of the list.
struct Listed {
    selection: Selection,
    is_first: bool,
    has_more: bool,
    schedules: Vec<ScheduleSummary>,
    names: Names,
}

/// `GET /w/{workspace}/schedules`.
pub async fn list(
    page: Page,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Response, PageError> {
    let Query(query) = query.map_err(|error| PageError::Invalid(error.body_text()))?;
    let (selection, after) = query.read().map_err(PageError::Invalid)?;
    let workspace = page.workspace()?.id;
    let mut tx = page.app.request_queue.snapshot().await?;
    let start = after.unwrap_or(selection.start());
    let found = selection.read(&mut tx, workspace, start).await?;
    let (schedules, has_more) = first_rows(found, PAGE);
    let names = Names::read(&mut tx, workspace, &schedules).await?;
    tx.commit().await?;
    let listed = Listed { selection, is_first: after.is_none(), has_more, schedules, names };
    Ok(page.html("Schedules", content(&page, &listed)))
}

fn content(page: &Page, listed: &Listed) -> Markup {
    html! {
        div.head {
            div.head-title {
                h1 { "Schedules" }
                p.muted { "Sends at a time. Once a schedule is due, it appears under Sends, too." }
            }
        }
        nav.chips aria-label="Filter" {
            @for selection in Selection::ALL {
                @let current = (selection == listed.selection).then_some("true");
                a.chip href=(selection.address(page, None)) aria-current=[current] {
                    (selection.title())
                }
            }
        }
        (table(page, listed))
        (terminal(page, listed.selection))
    }
}

fn table(page: &Page, listed: &Listed) -> Markup {
    let Listed { selection, is_first, has_more, schedules, names } = listed;
    let first = (!is_first).then(|| selection.address(page, None));
    let last = schedules.last().filter(|_| *has_more);
    let next = last.map(|last| selection.address(page, Some(selection.position(&last.schedule))));
    html! {
        section.panel aria-label="Schedules" {
            @if schedules.is_empty() {
                (empty(page, *selection, *is_first))
            } @else {
                table.list {
                    thead {
                        tr {
                            th scope="col" { "State" }
                            th scope="col" { "Send" }
                            th scope="col" { "To" }
                            th.num scope="col" { "Time" }
                        }
                    }
                    tbody {
                        @for found in schedules { (row(page, names, found)) }
                    }
                }
            }
            @if *selection == Selection::Missed && !schedules.is_empty() {
                p.panel-foot { (parts::runbook(labels::RUNBOOK)) }
            }
            (parts::key_pager(selection.order(), first.as_deref(), next.as_deref()))
        }
    }
}

fn empty(page: &Page, selection: Selection, is_first: bool) -> Markup {
    let late_minutes = i64::try_from(page.app.config.messages.late_minutes).unwrap_or(i64::MAX);
    match selection {
        _ if !is_first => {
            parts::empty("No schedules here", "There are none after the page before.")
        }
        Selection::Upcoming => parts::empty(
            "No upcoming schedules",
            "Campaigns, Canvases and messages that the API schedules appear here until they are \
             sent.",
        ),
        Selection::Missed => parts::empty(
            "No missed schedules",
            &format!(
                "A schedule is missed if no worker could send it within {} of its time, if it has no \
                 message to send, or if it ended its worker repeatedly.",
                parts::count_of(late_minutes, "minute", "minutes"),
            ),
        ),
    }
}

fn row(page: &Page, names: &Names, found: &ScheduleSummary) -> Markup {
    let ScheduleSummary { schedule, contents } = found;
    html! {
        tr {
            td.c-state {
                (labels::look(schedule).badge())
                @if labels::is_late(schedule, page.now_ms()) {
                    div.marks { (labels::late_mark()) }
                }
            }
            td.c-main {
                a.title href=(labels::address(page, schedule.id, "")) {
                    (parts::name(labels::title(names, found)))
                }
                span.sub { (labels::kind(found)) }
            }
            td.c-to data-label="To" {
                (parts::name(&labels::audience(names, contents)))
            }
            td.num.c-time { (labels::due(page, schedule)) }
        }
    }
}

/// The same schedules from a terminal.
fn terminal(page: &Page, selection: Selection) -> Markup {
    let list = |state| workspace_command(page, "schedules list", &[("state", state)], &[]);
    let commands = match selection {
        Selection::Upcoming => format!(
            "# The schedules that were created last are first.\n{}\n\
             # Those that have begun: times in some zones follow.\n{}",
            list("pending"),
            list("sending"),
        ),
        Selection::Missed => {
            format!("# The schedules that were created last are first.\n{}", list("missed"))
        }
    };
    parts::terminal("", &commands)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_parameter() {
        let read = |show: &str, after: &str| {
            ListQuery { show: show.to_owned(), after: after.to_owned() }.read()
        };
        assert_eq!(read("", ""), Ok((Selection::Upcoming, None)));
        let position = (5, Uuid::from_u128(7));
        let missed = read("missed", &paging::cursor(&position));
        assert_eq!(missed, Ok((Selection::Missed, Some(position))));
        for (show, after, name) in [("all", "", "show "), ("", "x", "after ")] {
            assert!(read(show, after).expect_err(name).starts_with(name), "{show} {after}");
        }
    }
}
