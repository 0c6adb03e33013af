//! Plans an export, once.
//!
//! Reading the users may take a while. For an audience, it writes the users that it finds, which
//! count only if the plan names this attempt. One short transaction then stores the plan, guarded
//! by the job's state and the claim. So an export is planned only once, even if a worker of the
//! previous release, which has no claim, also plans it.

use std::time::Duration;

use jiff::ToSpan as _;
use jiff::civil::Date;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::matching::{self, Search};
use super::{Audience, ExportError, Failure, Job, Plan, PlannedSegment, rows, state, telemetry};
use gateway::app::App;
use gateway::workspaces::{self, Segment, segments};
use kit::clock::{from_ms, utc_date};
use kit::compute::Cores;
use kit::fail_point;
use people::audience::{AudienceError, Matcher};
use people::users::activity::WINDOW_DAYS;
use people::users::moment::TransactionSnapshot;
use people::users::scan::{self, PartBoundaries};
use people::users::{Position, SLICES};
use runtime::kinds;
use store::Tx;
use store::claims::{self, Claim};

/// The maximum number of files of an export. Each has a row, a claim and an entry in the manifest:
/// more of them would fill the database, and the memory of the worker that finishes the export.
pub(super) const MAX_FILES: usize = 200_000;

/// The parts of a plan.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub users: i64,
    /// The last user of each part, ascending; the last one ends with the last user.
    pub ends: Vec<Position>,
    /// The largest service_id seen.
    pub youngest: Uuid,
}

impl Parts {
    pub fn add(&mut self, end: Position, users: i64) {
        self.ends.push(end);
        self.users += users;
    }

    pub fn count(&self) -> i64 {
        self.ends.len() as i64
    }

    /// Fails if there are too many.
    pub fn check_count(&self) -> Result<(), ExportError> {
        if self.ends.len() > MAX_FILES {
            return Err(ExportError::Permanent(Failure::too_many_files(MAX_FILES)));
        }
        Ok(())
    }
}

impl From<PartBoundaries> for Parts {
    /// Parts that have all users of their ranges.
    fn from(boundaries: PartBoundaries) -> Self {
        let PartBoundaries { users, ends, youngest } = boundaries;
        Self { users, ends, youngest }
    }
}

/// Plans the job, unless it is already planned or ended.
pub async fn plan(app: &App, claim: &Claim, stop: &CancellationToken) -> Result<(), ExportError> {
    let Some(job) = begin(app, claim).await? else { return Ok(()) };
    let (plan, parts) = compute_plan(app, claim, &job, stop).await?;
    fail_point!("plan::looked");
    write(app, claim, &job, &plan, &parts).await
}

/// The job, if it still needs a plan; otherwise finishes the claim.
async fn begin(app: &App, claim: &Claim) -> Result<Option<Job>, ExportError> {
    let mut tx = app.store.write().await?;
    let now = app.database_now(&mut tx).await?;
    let job = if rows::begin_planning(&mut tx, claim.job, now).await? {
        rows::load(&mut tx, claim.job).await?.map(|(job, _)| job)
    } else {
        None
    };
    if job.is_none() {
        claims::finish(&mut tx, claim).await?;
    }
    tx.commit().await?;
    if let Some(job) = &job {
        telemetry::note_request(job);
    }
    Ok(job)
}

/// Computes a plan from one snapshot.
async fn compute_plan(
    app: &App,
    claim: &Claim,
    job: &Job,
    stop: &CancellationToken,
) -> Result<(Plan, Parts), ExportError> {
    let mut tx = app.store.snapshot().await?;
    let moment = TransactionSnapshot::current(&mut tx).await?;
    // By the database's clock: a wrong day would leave out the latest purchases and events.
    let planned_at = app.database_now(&mut tx).await?;
    let workspace = workspaces::by_id(&mut tx, job.workspace_id).await?.ok_or_else(|| {
        let detail = format!("unknown workspace {}", job.workspace_id);
        ExportError::Permanent(Failure::internal(detail))
    })?;
    let per_part = job.users_per_file.unwrap_or(app.config.exports.users_per_file);
    let Scope { segment, slices, matcher } =
        scope(&app.cores, &mut tx, workspace.id, &job.audience, job.segment_id).await?;
    let members = matcher.as_ref().map(|_| claim.attempt);
    let limit = workspace.export_users_limit;
    let parts = match matcher {
        Some(matcher) => {
            let search = Search {
                workspace: workspace.id,
                audience: job.audience.clone(),
                matcher,
                per_part,
                max_users: job.storage_id.is_none().then_some(limit),
                now: planned_at,
            };
            matching::find(app, claim, search, tx, stop).await?
        }
        None => scan::cut(&mut tx, workspace.id, &slices, per_part, MAX_FILES).await?.into(),
    };
    parts.check_count()?;
    if job.storage_id.is_none() && parts.users > limit {
        let failure = Failure::too_many_users(&job.audience, parts.users, limit);
        return Err(ExportError::Permanent(failure));
    }
    let (first_day, last_day) = window(planned_at);
    let plan = Plan {
        slices,
        members,
        segment: segment.map(|Segment { name, audience, .. }| PlannedSegment { name, audience }),
        planned_at: Some(planned_at),
        moment: Some(moment),
        youngest: parts.youngest,
        first_day,
        last_day,
        upload_date: last_day,
        seed: Uuid::new_v4(),
        currency: workspace.currency,
        exchange_rates: workspace.exchange_rates,
    };
    Ok((plan, parts))
}

/// Where the users of an audience are, and which of the users there it includes.
pub(super) struct Scope {
    pub segment: Option<Segment>,
    /// Ascending.
    pub slices: Vec<i16>,
    /// None: all users of the slices.
    pub matcher: Option<Matcher>,
}

/// The scope of an audience now. Compiles its regular expressions on a compute thread.
pub(super) async fn scope(
    cores: &Cores,
    tx: &mut Tx,
    workspace: i32,
    audience: &Audience,
    segment_id: Uuid,
) -> Result<Scope, ExportError> {
    let segment = match audience {
        Audience::Segment => {
            let segment = segments::segment(tx, workspace, segment_id).await?;
            Some(
                segment
                    .ok_or_else(|| ExportError::Permanent(Failure::segment_deleted(segment_id)))?,
            )
        }
        Audience::ControlGroup | Audience::Connected(_) => None,
    };
    let slices = match audience {
        Audience::ControlGroup => rows::control_group_slices(tx, workspace, segment_id)
            .await?
            .filter(|slices| !slices.is_empty())
            .ok_or_else(|| {
                let detail = format!("unknown group {segment_id} of workspace {workspace}");
                ExportError::Permanent(Failure::internal(detail))
            })?,
        Audience::Segment | Audience::Connected(_) => (0..SLICES).collect(),
    };
    let matcher = match (audience, &segment) {
        (Audience::Connected(audience), _) => {
            let read = || matcher(people::audience::Audience::read(&audience.into()));
            Some(cores.compute_here(workspace, read)?)
        }
        (_, Some(segment)) if segment.id != segments::all_users_id(workspace) => {
            let audience = (&segment.audience).into();
            let read = || matcher(people::audience::Audience::read_segment(&audience));
            Some(cores.compute_here(workspace, read)?)
        }
        _ => None,
    };
    Ok(Scope { segment, slices, matcher })
}

/// The first and the last day of the purchases and custom events in an export of this time.
pub(crate) fn window(now: i64) -> (Date, Date) {
    let today = utc_date(from_ms(now));
    (today.saturating_sub((WINDOW_DAYS - 1).days()), today)
}

/// The matcher of an audience that was checked before it was accepted.
fn matcher(
    audience: Result<people::audience::Audience, AudienceError>,
) -> Result<Matcher, ExportError> {
    let audience = audience.map_err(|error| {
        ExportError::Permanent(Failure::internal(format!("cannot read the audience: {error}")))
    })?;
    Ok(audience.matcher())
}

/// Stores the plan with the parts and their claims. This step takes effect once: it requires the
/// claim, and a job that is queued or planning. Without users, offers the finishing.
async fn write(
    app: &App,
    claim: &Claim,
    job: &Job,
    plan: &Plan,
    parts: &Parts,
) -> Result<(), ExportError> {
    let part_count = parts.count();
    let mut tx = app.store.write().await?;
    let now = app.database_now(&mut tx).await?;
    if !rows::begin_running(&mut tx, job, plan, parts.users, part_count, now).await? {
        tracing::info!("the export was planned by another worker, or cancelled");
        claims::finish(&mut tx, claim).await?;
        return Ok(tx.commit().await?);
    }
    claims::finish(&mut tx, claim).await?;
    // The position before the first user.
    let first = plan.slices.first().copied().unwrap_or(0);
    let from = Position { slice: first, service_id: Uuid::nil() };
    rows::insert_parts(&mut tx, job.id, from, &parts.ends).await?;
    let claim_job = claims::Job::new(job.workspace_id, job.id);
    claims::offer_range(&mut tx, kinds::EXPORT_PART, claim_job, 1..part_count + 1, Duration::ZERO)
        .await?;
    if part_count == 0 {
        state::begin_finishing(app, &mut tx, job.id).await?;
    }
    fail_point!("plan::written");
    tx.commit().await?;
    fail_point!("plan::committed");
    claims::analyze_if_many(&app.store, part_count).await;
    tracing::info!(export = %job.id, users = parts.users, parts = part_count, "planned");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cause;

    #[test]
    fn a_plan_with_too_many_files_fails() {
        let mut parts = Parts { ends: vec![Position::START; MAX_FILES], ..Parts::default() };
        assert!(parts.check_count().is_ok());
        parts.add(Position::START, 1);
        let Err(ExportError::Permanent(failure)) = parts.check_count() else { panic!() };
        assert_eq!(failure.cause, Cause::Limit);
    }
}
