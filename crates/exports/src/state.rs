//! The changes of a job's state, each with its effects in the same transaction: claims offered or
//! withdrawn, the callback and the notifications enqueued.

use std::time::Duration;

use uuid::Uuid;

use super::callback::{self, Callback};
use super::{
    ExportError, Failure, Job, State, count_rows, late, notifications, part_rows, rows, telemetry,
};
use gateway::app::App;
use gateway::workspaces::notify::Event;
use kit::fail_point;
use runtime::history::{self, Metric};
use runtime::kinds;
use runtime::traces;
use store::claims::{self, Claim, ClaimError};
use store::{StoreError, Tx};

pub use super::part_rows::PartResult;

/// Ends a part in the caller's transaction: marks the part as done by its attempt, updates the
/// job's counts, finishes the claim. The last part moves the job to `finishing` and offers the
/// finishing; returns whether it was the last. If the ZIP exceeds the workspace's limit, the job
/// fails instead. After an error the transaction must be dropped; [`ClaimError::Lost`] also means
/// that the job is no longer running.
///
/// Other workers wait for these locks. So the transaction may be one that [does not wait for the
/// disk](store::Store::write_by_keys): a crash also reverts the end of the claim, and the part is
/// repeated. If it changes the job itself, it waits for the disk.
pub async fn part_done(
    app: &App,
    tx: &mut Tx,
    claim: &Claim,
    result: &PartResult,
) -> Result<bool, ClaimError> {
    part_rows::mark_done(tx, claim, result).await?;
    let counted = count_rows::count_part(tx, claim.job, claim.item, result).await?;
    let counted = counted.ok_or(ClaimError::Lost)?;
    if let Some(limit) = counted.bytes_limit.filter(|limit| counted.bytes_done > *limit) {
        tx.commit_synchronously().await?;
        if !rows::is_running(tx, claim.job).await? {
            return Err(ClaimError::Lost);
        }
        claims::finish(tx, claim).await?;
        fail(app, tx, claim.job, &Failure::too_many_bytes(limit)).await?;
        return Ok(false);
    }
    let mut is_last = false;
    if counted.parts_left == 0 {
        tx.commit_synchronously().await?;
        let shards_left = count_rows::count_shard(tx, claim.job).await?.ok_or(ClaimError::Lost)?;
        is_last = shards_left == 0;
    }
    claims::finish(tx, claim).await?;
    if is_last {
        begin_finishing(app, tx, claim.job).await?;
    }
    Ok(is_last)
}

/// `running` to `finishing`, after the last part, or without parts.
pub(super) async fn begin_finishing(app: &App, tx: &mut Tx, job: Uuid) -> Result<(), StoreError> {
    // By the database's clock: the manifest has this time, and a signing key's validity ends.
    let now = app.database_now(tx).await?;
    if let Some(workspace) = rows::begin_finishing(tx, job, now).await? {
        let job = claims::Job::new(workspace, job);
        claims::offer(tx, kinds::EXPORT_FINISH, job, 0, Duration::ZERO).await?;
    }
    Ok(())
}

/// Fails a job in the caller's transaction: its work stops, its files are deleted, and the callback
/// reports the failure. Returns whether it did: a job that has already ended does not change.
pub async fn fail(
    app: &App,
    tx: &mut Tx,
    job: Uuid,
    failure: &Failure,
) -> Result<bool, StoreError> {
    let now = app.database_now(tx).await?;
    late::mark_in(app, tx, job, now).await?;
    let failed = rows::fail(tx, job, failure, now).await?;
    if failed {
        after_failure(app, tx, job, failure, now).await?;
    }
    Ok(failed)
}

async fn after_failure(
    app: &App,
    tx: &mut Tx,
    job: Uuid,
    failure: &Failure,
    now: i64,
) -> Result<(), StoreError> {
    let Some((job, progress)) = rows::load(tx, job).await? else { return Ok(()) };
    withdraw(tx, &job).await?;
    callback::enqueue(app, tx, &job, &Callback::failed(failure)).await?;
    notifications::enqueue(app, tx, &job, &progress, Event::Failed).await?;
    history::count(tx, job.workspace_id, &[(Metric::ExportsFailed, 1)]).await?;
    tracing::error!(
        export = %job.id,
        object_prefix = job.object_prefix,
        request_id = traces::without_trace(&job.request_id),
        cause = failure.cause.name(),
        detail = failure.detail,
        "the export failed: {}", failure.message
    );
    telemetry::ended(&job, State::Failed, failure.cause.name(), now);
    Ok(())
}

/// Cancels a job that is not finishing yet; running parts find their claims lost. Returns the
/// state before; none if it did not cancel it.
pub async fn cancel(app: &App, tx: &mut Tx, job: &Job) -> Result<Option<State>, StoreError> {
    let now = app.database_now(tx).await?;
    let Some(before) = rows::cancel(tx, job.id, now).await? else { return Ok(None) };
    withdraw(tx, job).await?;
    telemetry::ended(job, State::Cancelled, "asked", now);
    Ok(Some(before))
}

async fn withdraw(tx: &mut Tx, job: &Job) -> Result<(), StoreError> {
    claims::withdraw(tx, kinds::EXPORT_PLAN, job.id).await?;
    claims::withdraw(tx, kinds::EXPORT_PART, job.id).await?;
    claims::withdraw(tx, kinds::EXPORT_FINISH, job.id).await?;
    let job = claims::Job::new(job.workspace_id, job.id);
    claims::offer(tx, kinds::EXPORT_CLEANUP, job, 0, Duration::ZERO).await
}

/// Gives up the planning, a part or the finishing, whose claim is still valid: the job fails.
/// Without an error, no attempt reported one. A job that another planner has planned in the
/// meantime continues.
pub async fn give_up(
    app: &App,
    claim: &Claim,
    error: Option<&ExportError>,
) -> Result<(), ClaimError> {
    let failure = match error {
        Some(ExportError::Lost | ExportError::Stopped) => return Err(ClaimError::Lost),
        Some(error) => error.failure(),
        None => {
            let work = format!("{} {}", claim.kind.name(), claim.item);
            Failure::workers_lost(&work, claim.counted_attempts().saturating_sub(1))
        }
    };
    let mut tx = app.store.write().await?;
    let is_planned = claim.kind == kinds::EXPORT_PLAN
        && rows::needs_planning(&mut tx, claim.job).await?.is_none();
    let now = app.database_now(&mut tx).await?;
    if !is_planned {
        late::mark_in(app, &mut tx, claim.job, now).await?;
    }
    let failed = !is_planned && rows::fail(&mut tx, claim.job, &failure, now).await?;
    claims::finish(&mut tx, claim).await?;
    if failed {
        after_failure(app, &mut tx, claim.job, &failure, now).await?;
    }
    tx.commit().await?;
    fail_point!("export::given_up");
    Ok(())
}
