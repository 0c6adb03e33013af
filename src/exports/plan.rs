//! Planning: what an export is made of, fixed once.
//!
//! The look at the users may take a while and writes nothing; the step that makes it the
//! plan is one short transaction, guarded by the job's state. So a message that comes
//! twice, or to two workers, plans once.

use std::time::Duration;

use jiff::ToSpan as _;
use uuid::Uuid;

use super::{Failure, Job, Plan, WorkError, rows, state};
use crate::app::App;
use crate::claims::{self, Kind};
use crate::retry::Retry;
use crate::store::StoreError;
use crate::users::Position;
use crate::users::scan::{self, Cuts};
use crate::workspaces::{self, Workspace};

/// UTC days of purchases and custom events that an export covers (Limits: "the last 90
/// days").
const DAYS: i32 = 90;

#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("no group {segment_id} or no workspace {workspace}")]
    NoGroup { segment_id: Uuid, workspace: i32 },
    #[error("the group has {users} users, and the limit without own storage is {limit}")]
    TooManyUsers { users: i64, limit: i64 },
    /// Not a message of ours, or a torn one.
    #[error("the message names no export")]
    NotAJob,
    #[error("the current day has no day {DAYS} days before it")]
    Calendar(#[from] jiff::Error),
}

impl Retry for PlanError {
    fn can_retry(&self) -> bool {
        match self {
            Self::Store(error) => error.can_retry(),
            Self::NotAJob
            | Self::NoGroup { .. }
            | Self::TooManyUsers { .. }
            | Self::Calendar(_) => false,
        }
    }
}

impl WorkError for PlanError {
    /// A message is not claimed.
    fn is_lost(&self) -> bool {
        false
    }

    fn failure(&self) -> Failure {
        match self {
            Self::Store(error) => Failure::store(error),
            Self::TooManyUsers { users, limit } => Failure::too_many_users(*users, *limit),
            Self::NotAJob | Self::NoGroup { .. } | Self::Calendar(_) => {
                Failure::internal(self.to_string())
            }
        }
    }
}

/// Plans the job of that id, unless it is planned, ended or unknown. An error is worth
/// another try; what no other try can help fails the job here.
pub async fn plan(app: &App, job: Uuid) -> Result<(), PlanError> {
    match try_plan(app, job).await {
        Err(error) if !error.can_retry() => {
            let mut tx = app.store.write().await?;
            state::fail(app, &mut tx, job, &error.failure()).await?;
            Ok(tx.commit().await?)
        }
        result => result,
    }
}

async fn try_plan(app: &App, id: Uuid) -> Result<(), PlanError> {
    let Some(job) = begin(app, id).await? else { return Ok(()) };
    let (plan, cuts) = look(app, &job).await?;
    write(app, &job, &plan, &cuts).await
}

/// The job, if it still is to be planned.
async fn begin(app: &App, id: Uuid) -> Result<Option<Job>, PlanError> {
    let mut tx = app.store.write().await?;
    if !rows::begin_planning(&mut tx, id, app.clock.now_ms()).await? {
        return Ok(None);
    }
    let job = rows::load(&mut tx, id).await?.map(|(job, _)| job);
    tx.commit().await?;
    Ok(job)
}

/// What the plan would be, from one snapshot.
async fn look(app: &App, job: &Job) -> Result<(Plan, Cuts), PlanError> {
    let mut tx = app.store.snapshot().await?;
    let no_group =
        || PlanError::NoGroup { segment_id: job.segment_id, workspace: job.workspace_id };
    let workspace = workspaces::by_id(&mut tx, job.workspace_id).await?.ok_or_else(no_group)?;
    let slices = rows::slices_of(&mut tx, job.workspace_id, job.segment_id)
        .await?
        .filter(|slices| !slices.is_empty())
        .ok_or_else(no_group)?;
    let per_part = app.config.exports.users_per_file;
    let cuts = scan::cut(&mut tx, job.workspace_id, &slices, per_part).await?;
    let limit = workspace.export_users_limit;
    if job.storage_id.is_none() && cuts.users > limit {
        return Err(PlanError::TooManyUsers { users: cuts.users, limit });
    }
    Ok((plan_of(app, workspace, slices, &cuts)?, cuts))
}

fn plan_of(
    app: &App,
    workspace: Workspace,
    slices: Vec<i16>,
    cuts: &Cuts,
) -> Result<Plan, PlanError> {
    let today = app.clock.today();
    Ok(Plan {
        slices,
        youngest: cuts.youngest,
        first_day: today.checked_sub((DAYS - 1).days())?,
        last_day: today,
        upload_date: today,
        seed: Uuid::new_v4(),
        currency: workspace.currency,
        exchange_rates: workspace.exchange_rates,
    })
}

/// Makes it the plan: the one guarded step, with the parts and their claims. Without
/// users there is nothing to do but to finish.
async fn write(app: &App, job: &Job, plan: &Plan, cuts: &Cuts) -> Result<(), PlanError> {
    let parts = cuts.ends.len() as i64;
    let mut tx = app.store.write().await?;
    let now = app.clock.now_ms();
    if !rows::begin_running(&mut tx, job.id, plan, cuts.users, parts, now).await? {
        tracing::info!("another worker planned the export, or it was cancelled");
        return Ok(());
    }
    let first = plan.slices.first().copied().unwrap_or(0);
    let from = Position { slice: first, service_id: Uuid::nil() };
    rows::insert_parts(&mut tx, job.id, from, &cuts.ends).await?;
    claims::offer_range(&mut tx, Kind::ExportPart, job.id, 1..parts + 1, Duration::ZERO).await?;
    if parts == 0 {
        state::begin_finishing(app, &mut tx, job.id).await?;
    }
    tx.commit().await?;
    tracing::info!(export = %job.id, users = cuts.users, parts, "planned");
    Ok(())
}
