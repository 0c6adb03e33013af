//! Which exports a list has, and the operator's list over all workspaces: with what the customer's
//! status does not show, and marks for those that need a look (docs/runbooks/export-slow.md).

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::Serialize;
use uuid::Uuid;

use super::audience::AudienceKind;
use super::status::{Rate, Status, rate};
use super::{Job, Progress, State, list_rows, rows};
use gateway::app::App;
use gateway::workspaces;
use store::{StoreError, Tx};

/// How long an export may be without a worker, or slow, before it is marked, in milliseconds.
const MARKED_AFTER: i64 = 60_000;

/// An export is slow if its rate is less than the usual one divided by this.
const SLOW_DIVISOR: f64 = 4.0;

store::text_enum! {
    /// Why an export in progress needs a look.
    pub enum Mark {
        /// No worker holds any of its work.
        Stalled = "stalled",
        /// Its rate is far below that of the latest exports.
        Slow = "slow",
        /// It takes longer than `export_late_after` of the workspace.
        Late = "late",
    }
}

/// A position in a list of exports, newest first: that of the export with this request time and id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListPosition {
    /// In milliseconds since the epoch.
    pub requested_at: i64,
    pub id: Uuid,
}

impl ListPosition {
    /// Before the newest export.
    pub(super) const START: Self = Self { requested_at: i64::MAX, id: Uuid::max() };

    /// The position as the cursor of a page that follows it.
    pub fn cursor(self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(format!("{} {}", self.requested_at, self.id))
    }

    /// The position in a [`cursor`](Self::cursor).
    pub fn from_cursor(text: &str) -> Option<Self> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
        let (requested_at, id) = std::str::from_utf8(&bytes).ok()?.split_once(' ')?;
        Some(Self { requested_at: requested_at.parse().ok()?, id: Uuid::try_parse(id).ok()? })
    }
}

impl From<&Job> for ListPosition {
    fn from(job: &Job) -> Self {
        Self { requested_at: job.requested_at, id: job.id }
    }
}

/// Which exports to list.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    pub workspace: Option<i32>,
    /// Empty: any.
    pub states: Vec<State>,
    /// Only exports in progress with one of these marks. Empty: any export.
    pub marks: Vec<Mark>,
    /// Only exports of these kinds of audiences. None: any.
    pub audiences: Option<Vec<AudienceKind>>,
    /// The first and the last time of the request, in milliseconds since the epoch.
    pub since: Option<i64>,
    pub until: Option<i64>,
    /// The first time of the end, in milliseconds since the epoch.
    pub ended_since: Option<i64>,
    /// Only exports that are older than the one at this position, which may be deleted.
    pub before: Option<ListPosition>,
    /// The maximum number of exports.
    pub limit: i64,
}

impl Filter {
    /// Whether only exports in progress match.
    pub(super) fn is_open(&self) -> bool {
        !self.states.is_empty() && !self.states.iter().any(|state| state.is_final())
    }
}

/// An export in the list.
#[derive(Clone, Debug, Serialize)]
pub struct ListedExport {
    /// The workspace's name.
    pub workspace: String,
    #[serde(skip)]
    pub job: Job,
    #[serde(skip)]
    pub progress: Progress,
    #[serde(flatten)]
    status: Status,
    #[serde(skip)]
    pub audience_kind: AudienceKind,
    /// Tasks of the export that workers hold now. Absent after the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks_held: Option<i64>,
    /// The first of its marks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark: Option<Mark>,
    #[serde(skip)]
    marks: Vec<Mark>,
    /// The error with the operator's details. Not included in the list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_detail: Option<String>,
}

impl ListedExport {
    /// The average speed of a running export.
    pub fn rate(&self, now: i64) -> Option<Rate> {
        rate(&self.progress, now)
    }

    /// All marks, the most urgent one first.
    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    pub fn error(&self) -> Option<&str> {
        self.progress.error.as_deref().filter(|_| self.progress.state.has_error())
    }
}

/// The exports that match `filter`, newest first. Without download URLs: a list ends up in logs.
pub async fn list(
    app: &App,
    tx: &mut Tx,
    filter: &Filter,
) -> Result<Vec<ListedExport>, StoreError> {
    if filter.marks.is_empty() {
        let jobs = list_rows::list(tx, filter).await?;
        return listed(app, tx, jobs).await;
    }
    // The database does not know the marks. Few exports are in progress.
    let mut filter = filter.clone();
    if filter.states.is_empty() {
        filter.states = State::unfinished().collect();
    }
    filter.states.retain(|state| !state.is_final());
    if filter.states.is_empty() {
        return Ok(Vec::new());
    }
    let limit = std::mem::replace(&mut filter.limit, i64::MAX);
    let jobs = list_rows::list(tx, &filter).await?;
    let mut exports = listed(app, tx, jobs).await?;
    exports.retain(|export| export.marks.iter().any(|mark| filter.marks.contains(mark)));
    exports.truncate(limit as usize);
    Ok(exports)
}

/// The jobs of a [`list`], with their progress.
pub async fn jobs(
    app: &App,
    tx: &mut Tx,
    filter: &Filter,
) -> Result<Vec<(Job, Progress)>, StoreError> {
    if filter.marks.is_empty() {
        return list_rows::list(tx, filter).await;
    }
    let exports = list(app, tx, filter).await?;
    Ok(exports.into_iter().map(|export| (export.job, export.progress)).collect())
}

/// The export of any workspace with that prefix.
pub async fn by_prefix(
    app: &App,
    tx: &mut Tx,
    object_prefix: &str,
) -> Result<Option<ListedExport>, StoreError> {
    let Some((job, progress)) = rows::by_prefix(tx, object_prefix).await? else {
        return Ok(None);
    };
    let status = Status::read(app, tx, &job, &progress).await?;
    let error_detail =
        if progress.state.has_error() { list_rows::error_detail(tx, job.id).await? } else { None };
    let listed = listed(app, tx, vec![(job, progress)]).await?.pop();
    Ok(listed.map(|export| ListedExport { status, error_detail, ..export }))
}

async fn listed(
    app: &App,
    tx: &mut Tx,
    jobs: Vec<(Job, Progress)>,
) -> Result<Vec<ListedExport>, StoreError> {
    let names = workspaces::ids(tx).await?;
    let held_claims = list_rows::held_claims(tx).await?;
    let usual_rate = usual_rate(list_rows::latest_speeds(tx).await?);
    let now = app.database_now(tx).await?;
    let name = |id| names.iter().find(|(_, known)| **known == id).map(|(name, _)| name.clone());
    let describe = |(job, progress): (Job, Progress)| {
        let is_open = !progress.state.is_final();
        let tasks_held = is_open.then(|| held_claims.get(&job.id).copied().unwrap_or(0));
        let marks = match tasks_held {
            Some(held) => marks(&job, &progress, held, usual_rate, now),
            None => Vec::new(),
        };
        ListedExport {
            workspace: name(job.workspace_id).unwrap_or_default(),
            status: Status::new(app, &job, &progress, now).without_urls(),
            audience_kind: AudienceKind::from(&job.audience),
            tasks_held,
            mark: marks.first().copied(),
            marks,
            error_detail: None,
            job,
            progress,
        }
    };
    Ok(jobs.into_iter().map(describe).collect())
}

/// The marks of an export in progress, the most urgent one first.
fn marks(
    job: &Job,
    progress: &Progress,
    tasks_held: i64,
    usual_rate: Option<f64>,
    now: i64,
) -> Vec<Mark> {
    let is_old = |since: i64| now.saturating_sub(since) >= MARKED_AFTER;
    let is_stalled = tasks_held == 0 && is_old(job.requested_at);
    let is_below_usual = rate(progress, now)
        .zip(usual_rate)
        .is_some_and(|(rate, usual)| rate.users_per_second * SLOW_DIVISOR < usual);
    let is_slow = is_below_usual && progress.started_at.is_some_and(is_old);
    [(is_stalled, Mark::Stalled), (is_slow, Mark::Slow), (progress.late_at.is_some(), Mark::Late)]
        .into_iter()
        .filter(|(is_set, _)| *is_set)
        .map(|(_, mark)| mark)
        .collect()
}

/// The median of users per second.
fn usual_rate(speeds: Vec<(i64, i64)>) -> Option<f64> {
    let mut rates: Vec<f64> =
        speeds.into_iter().map(|(users, ms)| users as f64 * 1_000.0 / ms as f64).collect();
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Audience, Format};

    #[test]
    fn cursors_survive_a_round_trip() {
        let position = ListPosition { requested_at: -5, id: Uuid::new_v4() };
        assert_eq!(ListPosition::from_cursor(&position.cursor()), Some(position));
        for wrong in ["", "!", "MTI", &BASE64_URL_SAFE_NO_PAD.encode("1 x")] {
            assert_eq!(ListPosition::from_cursor(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn the_usual_rate_is_the_median() {
        assert_eq!(usual_rate(vec![]), None);
        assert_eq!(usual_rate(vec![(1_000, 500)]), Some(2_000.0));
        let speeds = vec![(5_000, 1_000), (1_000, 1_000), (90_000, 1_000)];
        assert_eq!(usual_rate(speeds), Some(5_000.0));
    }

    #[test]
    fn exports_that_need_a_look_are_marked() {
        let job = Job {
            id: Uuid::nil(),
            workspace_id: 1,
            object_prefix: "p".into(),
            audience: Audience::ControlGroup,
            segment_id: Uuid::nil(),
            users_per_file: None,
            fields: vec![],
            format: Format::Zip,
            storage_id: None,
            destination: None,
            callback_endpoint: None,
            request_id: "r".into(),
            requested_at: 0,
        };
        // 100 users a second.
        let progress = Progress {
            state: State::Running,
            plan: None,
            users: Some(100_000),
            parts: Some(20),
            parts_left: Some(18),
            users_done: 10_000,
            files_done: 2,
            bytes_done: 1,
            broken_users: 0,
            started_at: Some(0),
            late_at: None,
            completed_at: None,
            finished_at: None,
            expires_at: None,
            archive: None,
            manifest_sha256: None,
            error: None,
        };
        let late = Progress { late_at: Some(90_000), ..progress.clone() };
        let marks_of = |held, usual, now| marks(&job, &progress, held, usual, now);
        let now = 100_000;
        assert_eq!(marks_of(1, None, now), []);
        assert_eq!(marks_of(1, Some(399.0), now), []);
        assert_eq!(marks_of(1, Some(401.0), now), [Mark::Slow]);
        assert_eq!(marks_of(0, None, now), [Mark::Stalled]);
        // Too early for either.
        assert_eq!(marks_of(0, Some(100_000.0), 59_999), []);
        assert_eq!(marks(&job, &late, 1, None, now), [Mark::Late]);
        let all = marks(&job, &late, 0, Some(401.0), now);
        assert_eq!(all, [Mark::Stalled, Mark::Slow, Mark::Late]);
    }
}
