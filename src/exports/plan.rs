//! Planning: what an export is made of, fixed once.
//!
//! The look at the users may take a while and writes nothing; the step that makes it the
//! plan is one short transaction, guarded by the job's state. So a message that comes
//! twice, or to two workers, plans once.

use crate::kinds;
use std::time::Duration;

use jiff::ToSpan as _;
use uuid::Uuid;

use super::{ExportError, Failure, Job, Plan, rows, state};
use crate::app::App;
use crate::users::Position;
use crate::users::activity::WINDOW_DAYS;
use crate::users::moment::Moment;
use crate::users::scan::{self, Cuts};
use crate::workspaces::{self, Workspace};
use kit::fail_point;
use kit::retry::Retry;
use store::claims::{self};

/// Plans the job of that id, unless it is planned, ended or unknown. An error is worth
/// another try; what no other try can help, or none is left to help, fails the job here.
pub async fn plan(app: &App, job: Uuid) -> Result<(), ExportError> {
    match try_plan(app, job).await {
        Err(error) if !error.can_retry() => {
            let mut tx = app.store.write().await?;
            state::fail_planning(app, &mut tx, job, &error.failure()).await?;
            Ok(tx.commit().await?)
        }
        result => result,
    }
}

async fn try_plan(app: &App, id: Uuid) -> Result<(), ExportError> {
    let Some((job, attempt)) = begin(app, id).await? else { return Ok(()) };
    let last = app.config.exports.attempts;
    if attempt > last {
        return Err(ExportError::Permanent(Failure::workers_lost("planning", last)));
    }
    let planned = match look(app, &job).await {
        Ok((plan, cuts)) => {
            fail_point!("plan::looked");
            write(app, &job, &plan, &cuts).await
        }
        Err(error) => Err(error),
    };
    if let Err(error) = &planned
        && error.needs_newer()
    {
        let mut tx = app.store.write().await?;
        rows::uncount_planning(&mut tx, id).await?;
        tx.commit().await?;
    }
    planned.map_err(|error| match attempt == last && !error.needs_newer() {
        true => ExportError::Permanent(error.failure()),
        false => error,
    })
}

/// The job, if it still is to be planned, and which attempt at it this is: counted before it
/// begins, so that one that ends its worker counts too.
async fn begin(app: &App, id: Uuid) -> Result<Option<(Job, u32)>, ExportError> {
    let mut tx = app.store.write().await?;
    let attempt = rows::begin_planning(&mut tx, id, app.clock.now_ms()).await?;
    let job = rows::load(&mut tx, id).await?;
    tx.commit().await?;
    Ok(attempt.zip(job).map(|(attempt, (job, _))| (job, attempt.unsigned_abs())))
}

/// What the plan would be, from one snapshot.
async fn look(app: &App, job: &Job) -> Result<(Plan, Cuts), ExportError> {
    let mut tx = app.store.snapshot().await?;
    let moment = Moment::of(&mut tx).await?;
    let no_group = || {
        let (group, workspace) = (job.segment_id, job.workspace_id);
        let detail = format!("no group {group} or no workspace {workspace}");
        ExportError::Permanent(Failure::internal(detail))
    };
    let workspace = workspaces::by_id(&mut tx, job.workspace_id).await?.ok_or_else(no_group)?;
    let slices = rows::slices_of(&mut tx, job.workspace_id, job.segment_id)
        .await?
        .filter(|slices| !slices.is_empty())
        .ok_or_else(no_group)?;
    let per_part = app.config.exports.users_per_file;
    let cuts = scan::cut(&mut tx, job.workspace_id, &slices, per_part).await?;
    let limit = workspace.export_users_limit;
    if job.storage_id.is_none() && cuts.users > limit {
        return Err(ExportError::Permanent(Failure::too_many_users(cuts.users, limit)));
    }
    Ok((plan_of(app, workspace, slices, moment, &cuts), cuts))
}

fn plan_of(app: &App, workspace: Workspace, slices: Vec<i16>, moment: Moment, cuts: &Cuts) -> Plan {
    let today = app.clock.today();
    Plan {
        slices,
        moment: Some(moment),
        youngest: cuts.youngest,
        first_day: today.saturating_sub((WINDOW_DAYS - 1).days()),
        last_day: today,
        upload_date: today,
        seed: Uuid::new_v4(),
        currency: workspace.currency,
        exchange_rates: workspace.exchange_rates,
    }
}

/// Makes it the plan: the one guarded step, with the parts and their claims. Without
/// users there is nothing to do but to finish.
async fn write(app: &App, job: &Job, plan: &Plan, cuts: &Cuts) -> Result<(), ExportError> {
    let parts = cuts.ends.len() as i64;
    let mut tx = app.store.write().await?;
    let now = app.clock.now_ms();
    if !rows::begin_running(&mut tx, job, plan, cuts.users, parts, now).await? {
        tracing::info!("another worker planned the export, or it was cancelled");
        return Ok(());
    }
    let first = plan.slices.first().copied().unwrap_or(0);
    let from = Position { slice: first, service_id: Uuid::nil() };
    rows::insert_parts(&mut tx, job.id, from, &cuts.ends).await?;
    claims::offer_range(&mut tx, kinds::EXPORT_PART, job.id, 1..parts + 1, Duration::ZERO).await?;
    if parts == 0 {
        state::begin_finishing(app, &mut tx, job.id).await?;
    }
    fail_point!("plan::written");
    tx.commit().await?;
    fail_point!("plan::committed");
    claims::note_many(&app.store, parts).await;
    tracing::info!(export = %job.id, users = cuts.users, parts, "planned");
    Ok(())
}
