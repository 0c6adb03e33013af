//! The overview: what needs a look, and what is in progress, in all workspaces that the person
//! sees.
//!
//! Its cost is bounded: it reads indexes of unfinished work, and the latest rows up to a limit.

mod health;
pub(super) mod view;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use axum::http::HeaderMap;
use axum::response::Response;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use maud::Markup;
use uuid::Uuid;

use super::exports::labels::AudienceNames;
use super::history;
use crate::app::App;
use crate::fleet::Fleet;
use crate::page::Page;
use console_frame::error::PageError;
use console_frame::page::VisibleWorkspace;
use console_frame::page::update;
use console_frame::rights::Right;
use console_frame::shared::Shared;
use deliveries::GivenUp;
use dispatches::RecentTotals;
use exports::State;
use exports::overview::{Filter, ListedExport};
use exports::recent_rows::{self, FailedExport};
use exports::storage_health::{self, WaitingExport};
use store::{StoreError, Tx};

/// Exports in progress that are read, and those of them that are shown.
const READ_EXPORTS: usize = 200;
const SHOWN_EXPORTS: usize = 20;

/// Failed exports of today that are counted, and those of them that are listed.
const MAX_FAILURES: usize = 100;
const SHOWN_FAILURES: usize = 5;

/// Exports that wait for their storage and are listed.
const SHOWN_WAITING: usize = 5;

/// Workspaces that are read one by one, for a person without rights in all workspaces.
const MAX_WORKSPACES: usize = 50;

/// Workspaces and days whose figures are kept for updates.
const MAX_KEPT: usize = 64;

/// The workspace, none for all, and the start of the day in milliseconds since the epoch.
type Scope = (Option<i32>, i64);

/// What the overviews of all people read together.
pub struct OverviewReads {
    exports: Shared<Scope, Exports>,
    messages: Shared<Scope, RecentTotals>,
}

impl Default for OverviewReads {
    fn default() -> Self {
        Self {
            exports: Shared::new("overview of exports", MAX_KEPT),
            messages: Shared::new("overview of messages", MAX_KEPT),
        }
    }
}

/// Everything on the page. A part that the person may not see is absent or empty.
struct Overview {
    /// The workspaces that the person sees, by name.
    workspaces: Vec<VisibleWorkspace>,
    exports: Option<Exports>,
    messages: Option<RecentTotals>,
    /// The whole installation.
    fleet: Option<Arc<Fleet>>,
    /// Conditions of this process, with their subjects.
    warnings: Vec<(&'static str, String)>,
    /// The deliveries that were given up in workspaces that the person sees, latest first.
    given_up: Vec<GivenUp>,
    /// Dead letters by workspace; none for those whose workspace is unknown.
    dead_letters: Vec<(Option<i32>, i64)>,
    /// Whether the person has rights in more workspaces than were read.
    has_more_workspaces: bool,
}

/// The exports in progress, and of today.
#[derive(Clone, Default)]
struct Exports {
    /// Those that need a look first, then the newest: one more than is shown, if there are more.
    in_progress: Vec<ExportInProgress>,
    /// Those in progress, and those that ended today.
    counts: BTreeMap<&'static str, i64>,
    /// Whether there are more exports than were counted.
    is_partial: bool,
    /// Those that failed today, the latest first.
    failed: Vec<FailedExport>,
    /// Those whose files cannot be stored now.
    waiting: Vec<WaitingExport>,
}

#[derive(Clone)]
struct ExportInProgress {
    export: ListedExport,
    /// What people call its users.
    title: String,
}

impl Exports {
    fn count(&self, state: State) -> i64 {
        self.counts.get(state.name()).copied().unwrap_or(0)
    }

    /// Adds the exports of another workspace.
    fn add(&mut self, other: &Self) {
        self.in_progress.extend(other.in_progress.iter().cloned());
        for (state, count) in &other.counts {
            *self.counts.entry(*state).or_default() += count;
        }
        self.is_partial |= other.is_partial;
        self.failed.extend(other.failed.iter().cloned());
        self.waiting.extend(other.waiting.iter().cloned());
        self.sort();
    }

    fn sort(&mut self) {
        // Stable: of those with marks, and of those without, the newest first.
        self.in_progress.sort_by_key(|shown| -shown.export.job.requested_at);
        self.in_progress.sort_by_key(|shown| shown.export.marks().is_empty());
        self.in_progress.truncate(SHOWN_EXPORTS + 1);
        self.failed.sort_by_key(|export| -export.finished_at);
        self.waiting.truncate(SHOWN_WAITING);
    }
}

/// `GET /`.
pub async fn show(page: Page) -> Result<Response, PageError> {
    let overview = read(&page).await?;
    let workspaces = &overview.workspaces;
    let with = |right| granted(&page, workspaces, right);
    let (with_exports, with_messages) = (with(Right::ExportsView), with(Right::MessagesView));
    let past = history::overview(&page, &with_exports, &with_messages, workspaces).await?;
    Ok(page.html("Overview", view::page(&page, &overview, &past)))
}

/// `GET /overview/live`: the part of the page that changes.
pub async fn live(page: Page, headers: HeaderMap) -> Result<Response, PageError> {
    let overview = read(&page).await?;
    let content: Markup = view::live(&page, &overview);
    Ok(update(&headers, content))
}

/// The workspaces of `visible` in which the person has a right. None: all workspaces.
fn granted(page: &Page, visible: &[VisibleWorkspace], right: Right) -> Vec<Option<i32>> {
    let rights = &page.viewer.rights;
    if rights.has(right, None) {
        return vec![None];
    }
    let granted = visible.iter().filter(|workspace| rights.has(right, Some(workspace.id)));
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
    let (app, rights) = (&page.app, &page.viewer.rights);
    let fleet = app.fleet.current(app).await?;
    let today = start_of_day(page.now_ms(), &page.viewer.preferences.zone);
    let workspaces = page.visible_workspaces().await?;
    let with_exports = granted(page, &workspaces, Right::ExportsView);
    let with_messages = granted(page, &workspaces, Right::MessagesView);
    let exports = exports_of(page, &with_exports, today).await?;
    let messages = messages_of(page, &with_messages, today).await?;
    let may = |right, workspace| rights.has(right, workspace);
    let given_up = fleet.given_up.iter();
    let given_up =
        given_up.filter(|delivery| may(Right::MessagesView, Some(delivery.workspace_id)));
    let dead_letters = fleet.dead_letters.iter().copied();
    let dead_letters = dead_letters.filter(|(workspace, _)| may(Right::SystemView, *workspace));
    let is_operator = may(Right::SystemView, None);
    Ok(Overview {
        has_more_workspaces: with_exports.len() >= MAX_WORKSPACES
            || with_messages.len() >= MAX_WORKSPACES,
        workspaces,
        exports,
        messages,
        warnings: if is_operator { app.health_warnings.by_subject() } else { Vec::new() },
        given_up: given_up.cloned().collect(),
        dead_letters: dead_letters.collect(),
        fleet: is_operator.then_some(fleet),
    })
}

/// The exports of these workspaces together.
async fn exports_of(
    page: &Page,
    workspaces: &[Option<i32>],
    today: i64,
) -> Result<Option<Exports>, StoreError> {
    let mut all: Option<Exports> = None;
    for workspace in workspaces.iter().copied() {
        let read = read_exports(page.app.clone(), workspace, today);
        let exports = page.app.overview.exports.get_for(page, (workspace, today), read).await?;
        all.get_or_insert_default().add(&exports);
    }
    Ok(all)
}

async fn read_exports(app: App, workspace: Option<i32>, today: i64) -> Result<Exports, StoreError> {
    let filter = Filter {
        workspace,
        states: State::unfinished().collect(),
        limit: READ_EXPORTS as i64,
        ..Filter::default()
    };
    let mut tx = app.request_queue.snapshot().await?;
    let in_progress = exports::overview::list(&app.exports, &mut tx, &filter).await?;
    let counts = recent_rows::count_since(&mut tx, workspace, today).await?;
    let counted: i64 = counts.iter().map(|(_, count)| count).sum();
    let failed = recent_rows::failed_since(&mut tx, workspace, today, MAX_FAILURES as i64);
    let failed = failed.await?;
    let waiting = storage_health::waiting(&mut tx, workspace, SHOWN_WAITING as i64).await?;
    let untitled = |export| ExportInProgress { export, title: String::new() };
    let mut read = Exports {
        in_progress: in_progress.into_iter().map(untitled).collect(),
        counts: counts.into_iter().map(|(state, count)| (state.name(), count)).collect(),
        is_partial: counted >= recent_rows::MAX_COUNTED,
        failed,
        waiting,
    };
    read.sort();
    add_titles(&mut tx, &mut read.in_progress).await?;
    tx.commit().await?;
    Ok(read)
}

async fn add_titles(tx: &mut Tx, exports: &mut [ExportInProgress]) -> Result<(), StoreError> {
    let mut segments: HashMap<i32, Vec<Uuid>> = HashMap::new();
    for ExportInProgress { export, .. } in exports.iter() {
        segments.entry(export.job.workspace_id).or_default().push(export.job.segment_id);
    }
    for (workspace, segments) in segments {
        let names = AudienceNames::read(tx, workspace, &segments).await?;
        let exports = exports.iter_mut();
        for shown in exports.filter(|shown| shown.export.job.workspace_id == workspace) {
            shown.title = names.title(&shown.export.job, None);
        }
    }
    Ok(())
}

/// The messages of these workspaces together.
async fn messages_of(
    page: &Page,
    workspaces: &[Option<i32>],
    today: i64,
) -> Result<Option<RecentTotals>, StoreError> {
    let mut all: Option<RecentTotals> = None;
    for workspace in workspaces.iter().copied() {
        let read = read_messages(page.app.clone(), workspace, today);
        let totals = page.app.overview.messages.get_for(page, (workspace, today), read).await?;
        all = Some(all.map_or(*totals, |all| all.plus(&totals)));
    }
    Ok(all)
}

async fn read_messages(
    app: App,
    workspace: Option<i32>,
    today: i64,
) -> Result<RecentTotals, StoreError> {
    let mut tx = app.request_queue.snapshot().await?;
    let totals = dispatches::totals_since(&mut tx, workspace, today).await?;
    tx.commit().await?;
    Ok(totals)
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
