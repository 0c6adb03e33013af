//! The overview: what needs a look, and what is in progress, in all workspaces that the person sees.
//!
//! Its cost is bounded: it reads indexes of unfinished work, and the latest rows up to a limit.

mod health;
mod view;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use axum::http::HeaderMap;
use axum::response::Response;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use maud::Markup;

use super::exports::{labels::AudienceNames, update};
use crate::error::PageError;
use crate::fleet::Fleet;
use crate::page::Page;
use crate::rights::Right;
use exports::overview::{Filter, ListedExport};
use exports::recent_rows::{self, FailedExport};
use exports::{Job, State};
use gateway::deliveries::GivenUp;
use messages::dispatch::{self, RecentTotals};
use store::{StoreError, Tx};

/// Exports in progress that are read, and those of them that are shown.
const READ_EXPORTS: usize = 200;
const SHOWN_EXPORTS: usize = 20;

/// Failed exports that are listed.
const SHOWN_FAILURES: usize = 5;

/// Workspaces that are read one by one, for a person without rights in all workspaces.
const MAX_WORKSPACES: usize = 50;

/// Everything on the page. A part that the person may not see is absent or empty.
struct Overview {
    exports: Option<Exports>,
    messages: Option<RecentTotals>,
    /// The whole installation.
    fleet: Option<Arc<Fleet>>,
    /// Conditions of this process.
    warnings: Vec<String>,
    /// The deliveries that were given up in workspaces that the person sees, latest first.
    given_up: Vec<GivenUp>,
    /// Dead letters by workspace; none for those whose workspace is unknown.
    dead_letters: Vec<(Option<i32>, i64)>,
    /// Whether the person has rights in more workspaces than were read.
    has_more_workspaces: bool,
}

/// The exports in progress, and of today.
#[derive(Default)]
struct Exports {
    /// Those that need a look first, then the newest.
    in_progress: Vec<ListedExport>,
    has_more: bool,
    /// The names of the audiences in each of their workspaces.
    names: BTreeMap<i32, AudienceNames>,
    /// Those in progress, and those that ended today.
    counts: BTreeMap<&'static str, i64>,
    failed: Vec<FailedExport>,
}

impl Exports {
    fn count(&self, state: State) -> i64 {
        self.counts.get(state.name()).copied().unwrap_or(0)
    }

    /// Whether there are more exports than were counted.
    fn is_partial(&self) -> bool {
        self.counts.values().sum::<i64>() >= recent_rows::MAX_READ
    }

    /// What people call the users of an export.
    fn title(&self, job: &Job) -> String {
        self.names
            .get(&job.workspace_id)
            .map_or_else(|| "Export".to_owned(), |names| names.title(job, None))
    }
}

/// `GET /`.
pub async fn show(page: Page) -> Result<Response, PageError> {
    let overview = read(&page).await?;
    Ok(page.html("Overview", view::page(&page, &overview)))
}

/// `GET /overview/live`: the part of the page that changes.
pub async fn live(page: Page, headers: HeaderMap) -> Result<Response, PageError> {
    let overview = read(&page).await?;
    let content: Markup = view::live(&page, &overview);
    Ok(update(&headers, content))
}

/// The workspaces in which the person has a right. None: all workspaces.
fn scopes(page: &Page, right: Right) -> Vec<Option<i32>> {
    let rights = &page.viewer.rights;
    if rights.has(right, None) {
        return vec![None];
    }
    let granted = page.workspaces.iter().filter(|workspace| rights.has(right, Some(workspace.id)));
    granted.take(MAX_WORKSPACES).map(|workspace| Some(workspace.id)).collect()
}

/// The start of the day of a time, in milliseconds since the epoch.
fn start_of_day(now: i64, zone: &TimeZone) -> i64 {
    Timestamp::from_millisecond(now)
        .ok()
        .and_then(|now| now.to_zoned(zone.clone()).start_of_day().ok())
        .map_or(now, |midnight| midnight.timestamp().as_millisecond())
}

async fn read(page: &Page) -> Result<Overview, PageError> {
    let rights = &page.viewer.rights;
    let fleet = page.app.fleet.current(&page.app).await?;
    let today = start_of_day(page.app.clock.now_ms(), &page.viewer.preferences.zone);
    let of_exports = scopes(page, Right::ExportsView);
    let of_messages = scopes(page, Right::MessagesView);
    let mut tx = page.app.request_queue.snapshot().await?;
    let exports = read_exports(page, &mut tx, &of_exports, today).await?;
    let messages = read_messages(&mut tx, &of_messages, today).await?;
    tx.commit().await?;
    let may = |right, workspace| rights.has(right, workspace);
    let given_up = fleet.given_up.iter();
    let given_up =
        given_up.filter(|delivery| may(Right::MessagesView, Some(delivery.workspace_id)));
    let dead_letters = fleet.dead_letters.iter().copied();
    let dead_letters = dead_letters.filter(|(workspace, _)| may(Right::SystemView, *workspace));
    let is_operator = may(Right::SystemView, None);
    Ok(Overview {
        has_more_workspaces: of_exports.len() >= MAX_WORKSPACES
            || of_messages.len() >= MAX_WORKSPACES,
        exports,
        messages,
        warnings: if is_operator { page.app.health_warnings.all() } else { Vec::new() },
        given_up: given_up.cloned().collect(),
        dead_letters: dead_letters.collect(),
        fleet: is_operator.then_some(fleet),
    })
}

async fn read_exports(
    page: &Page,
    tx: &mut Tx,
    scopes: &[Option<i32>],
    today: i64,
) -> Result<Option<Exports>, StoreError> {
    if scopes.is_empty() {
        return Ok(None);
    }
    let mut read = Exports::default();
    for workspace in scopes.iter().copied() {
        let filter = Filter {
            workspace,
            states: State::unfinished().collect(),
            limit: READ_EXPORTS as u32,
            ..Filter::default()
        };
        read.in_progress.extend(exports::overview::list(&page.app.exports, tx, &filter).await?);
        for (state, count) in recent_rows::count_since(tx, workspace, today).await? {
            *read.counts.entry(state.name()).or_default() += count;
        }
        let limit = SHOWN_FAILURES as i64;
        read.failed.extend(recent_rows::failed_since(tx, workspace, today, limit).await?);
    }
    // Stable: of those with marks, and of those without, the newest first.
    read.in_progress.sort_by_key(|export| -export.job.requested_at);
    read.in_progress.sort_by_key(|export| export.marks().is_empty());
    read.has_more = read.in_progress.len() > SHOWN_EXPORTS;
    read.in_progress.truncate(SHOWN_EXPORTS);
    read.failed.sort_by_key(|export| -export.finished_at);
    read.failed.truncate(SHOWN_FAILURES);
    for export in &read.in_progress {
        let workspace = export.job.workspace_id;
        if let Entry::Vacant(entry) = read.names.entry(workspace) {
            entry.insert(AudienceNames::read(tx, workspace).await?);
        }
    }
    Ok(Some(read))
}

async fn read_messages(
    tx: &mut Tx,
    scopes: &[Option<i32>],
    today: i64,
) -> Result<Option<RecentTotals>, StoreError> {
    let mut sum = None;
    for workspace in scopes.iter().copied() {
        let totals = dispatch::totals_since(tx, workspace, today).await?;
        sum = Some(sum.map_or(totals, |sum: RecentTotals| sum.plus(&totals)));
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_day_starts_at_midnight_of_the_zone() {
        // 2025-11-24T16:00:00Z, which is 1:00 of the next day in Tokyo.
        let now = 1_764_000_000_000;
        assert_eq!(start_of_day(now, &TimeZone::UTC), 1_763_942_400_000);
        let tokyo = TimeZone::get("Asia/Tokyo").unwrap();
        assert_eq!(start_of_day(now, &tokyo), 1_763_996_400_000);
        assert_eq!(start_of_day(i64::MAX, &TimeZone::UTC), i64::MAX);
    }
}
