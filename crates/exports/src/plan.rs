//! Plans an export, once.
//!
//! Reading the users may take a while and writes nothing; one short transaction then stores the
//! plan, guarded by the job's state and the claim. So an export is planned only once, even if a
//! worker of the previous release, which has no claim, also plans it.

use std::time::Duration;

use jiff::ToSpan as _;
use uuid::Uuid;

use super::telemetry;
use super::{ExportError, Failure, Job, Plan, rows, state};
use gateway::app::App;
use gateway::workspaces::{self, Workspace};
use kit::fail_point;
use people::users::Position;
use people::users::activity::WINDOW_DAYS;
use people::users::moment::TransactionSnapshot;
use people::users::scan::{self, PartBoundaries};
use runtime::kinds;
use store::claims::{self, Claim};

/// Plans the job, unless it is already planned or ended.
pub async fn plan(app: &App, claim: &Claim) -> Result<(), ExportError> {
    let Some(job) = begin(app, claim).await? else { return Ok(()) };
    let (plan, boundaries) = compute_plan(app, &job).await?;
    fail_point!("plan::looked");
    write(app, claim, &job, &plan, &boundaries).await
}

/// The job, if it still needs a plan; otherwise finishes the claim.
async fn begin(app: &App, claim: &Claim) -> Result<Option<Job>, ExportError> {
    let mut tx = app.store.write().await?;
    let job = if rows::begin_planning(&mut tx, claim.job, app.clock.now_ms()).await? {
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
async fn compute_plan(app: &App, job: &Job) -> Result<(Plan, PartBoundaries), ExportError> {
    let mut tx = app.store.snapshot().await?;
    let moment = TransactionSnapshot::current(&mut tx).await?;
    let unknown_group_error = || {
        let (group, workspace) = (job.segment_id, job.workspace_id);
        let detail = format!("unknown group {group} or workspace {workspace}");
        ExportError::Permanent(Failure::internal(detail))
    };
    let workspace =
        workspaces::by_id(&mut tx, job.workspace_id).await?.ok_or_else(unknown_group_error)?;
    let slices = rows::control_group_slices(&mut tx, job.workspace_id, job.segment_id)
        .await?
        .filter(|slices| !slices.is_empty())
        .ok_or_else(unknown_group_error)?;
    let per_part = app.config.exports.users_per_file;
    let boundaries = scan::cut(&mut tx, job.workspace_id, &slices, per_part).await?;
    let limit = workspace.export_users_limit;
    if job.storage_id.is_none() && boundaries.users > limit {
        return Err(ExportError::Permanent(Failure::too_many_users(boundaries.users, limit)));
    }
    Ok((new_plan(app, workspace, slices, moment, &boundaries), boundaries))
}

fn new_plan(
    app: &App,
    workspace: Workspace,
    slices: Vec<i16>,
    moment: TransactionSnapshot,
    boundaries: &PartBoundaries,
) -> Plan {
    let today = app.clock.today();
    Plan {
        slices,
        moment: Some(moment),
        youngest: boundaries.youngest,
        first_day: today.saturating_sub((WINDOW_DAYS - 1).days()),
        last_day: today,
        upload_date: today,
        seed: Uuid::new_v4(),
        currency: workspace.currency,
        exchange_rates: workspace.exchange_rates,
    }
}

/// Stores the plan with the parts and their claims. This step takes effect once: it requires the
/// claim, and a job that is queued or planning. Without users, offers the finishing.
async fn write(
    app: &App,
    claim: &Claim,
    job: &Job,
    plan: &Plan,
    boundaries: &PartBoundaries,
) -> Result<(), ExportError> {
    let part_count = boundaries.ends.len() as i64;
    let mut tx = app.store.write().await?;
    let now = app.clock.now_ms();
    if !rows::begin_running(&mut tx, job, plan, boundaries.users, part_count, now).await? {
        tracing::info!("the export was planned by another worker, or cancelled");
        claims::finish(&mut tx, claim).await?;
        return Ok(tx.commit().await?);
    }
    claims::finish(&mut tx, claim).await?;
    // The position before the first user.
    let first = plan.slices.first().copied().unwrap_or(0);
    let from = Position { slice: first, service_id: Uuid::nil() };
    rows::insert_parts(&mut tx, job.id, from, &boundaries.ends).await?;
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
    tracing::info!(export = %job.id, users = boundaries.users, parts = part_count, "planned");
    Ok(())
}
