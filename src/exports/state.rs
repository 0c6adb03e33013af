//! How a job goes from state to state, with all that belongs to the step in the same
//! transaction: claims offered or withdrawn, the callback enqueued.

use std::time::Duration;

use uuid::Uuid;

use super::callback::{self, Callback};
use super::{ExportError, Failure, Job, State, part_rows, rows, telemetry};
use crate::app::App;
use crate::kinds;
use store::claims::{self, Claim, ClaimError};
use store::{StoreError, Tx};

pub use super::part_rows::PartResult;

/// The end of a part, in the caller's transaction: the part marked as done by its attempt, the
/// job's counts moved, the claim finished. The last one brings the job to `finishing` and leaves
/// the finish task; answers whether it was. A ZIP that has grown past the workspace's limit
/// fails the job instead. After an error the transaction is to be dropped;
/// [`ClaimError::Lost`] also says that the job is not running any more.
///
/// Others wait here for what this locks. So the transaction may be one that [does not wait for
/// the disk](store::Store::write_by_keys): what a crash takes back is the
/// claim's end as well, and the part is done again. Where it moves the job itself it waits.
pub async fn part_done(
    app: &App,
    tx: &mut Tx,
    claim: &Claim,
    result: &PartResult,
) -> Result<bool, ClaimError> {
    part_rows::mark_done(tx, claim, result).await?;
    let counted = rows::count_part(tx, claim.job, claim.item, result).await?;
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
        let shards_left = rows::count_shard(tx, claim.job).await?.ok_or(ClaimError::Lost)?;
        is_last = shards_left == 0;
    }
    claims::finish(tx, claim).await?;
    if is_last {
        begin_finishing(app, tx, claim.job).await?;
    }
    Ok(is_last)
}

/// `running` to `finishing`, for whoever did the last part, or found none to do.
pub(super) async fn begin_finishing(app: &App, tx: &mut Tx, job: Uuid) -> Result<(), StoreError> {
    if rows::begin_finishing(tx, job, app.clock.now_ms()).await? {
        claims::offer(tx, kinds::EXPORT_FINISH, job, 0, Duration::ZERO).await?;
    }
    Ok(())
}

/// Ends a job as failed, in the caller's transaction: nobody works on it any more, what it
/// wrote is removed, the callback says why. Answers whether it did: a job that has ended
/// already stays as it is.
pub async fn fail(
    app: &App,
    tx: &mut Tx,
    job: Uuid,
    failure: &Failure,
) -> Result<bool, StoreError> {
    let failed = rows::failed(tx, job, failure, app.clock.now_ms()).await?;
    if failed {
        after_failure(app, tx, job, failure).await?;
    }
    Ok(failed)
}

async fn after_failure(
    app: &App,
    tx: &mut Tx,
    job: Uuid,
    failure: &Failure,
) -> Result<(), StoreError> {
    withdraw(tx, job).await?;
    let Some((job, _)) = rows::load(tx, job).await? else { return Ok(()) };
    callback::enqueue(app, tx, &job, &Callback::failed(failure)).await?;
    tracing::error!(
        export = %job.id,
        object_prefix = job.object_prefix,
        request_id = job.request_id,
        cause = failure.cause.name(),
        detail = failure.detail,
        "the export failed: {}", failure.message
    );
    telemetry::ended(&job, State::Failed, failure.cause.name(), app.clock.now_ms());
    Ok(())
}

/// Cancels a job that is not yet finishing; parts under way find their claims lost.
/// Answers whether it did.
pub async fn cancel(app: &App, tx: &mut Tx, job: &Job) -> Result<bool, StoreError> {
    let now = app.clock.now_ms();
    if !rows::cancelled(tx, job.id, now).await? {
        return Ok(false);
    }
    withdraw(tx, job.id).await?;
    telemetry::ended(job, State::Cancelled, "asked", now);
    Ok(true)
}

async fn withdraw(tx: &mut Tx, job: Uuid) -> Result<(), StoreError> {
    claims::withdraw(tx, kinds::EXPORT_PLAN, job).await?;
    claims::withdraw(tx, kinds::EXPORT_PART, job).await?;
    claims::withdraw(tx, kinds::EXPORT_FINISH, job).await?;
    claims::offer(tx, kinds::EXPORT_CLEANUP, job, 0, Duration::ZERO).await
}

/// Gives up the planning, a part or the finishing, whose claim is still ours: the job fails.
/// Without an error, no attempt came to an end that says why. A job that another planner has
/// planned meanwhile goes on.
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
            Failure::workers_lost(&work, claim.attempt.unsigned_abs().saturating_sub(1))
        }
    };
    let mut tx = app.store.write().await?;
    let is_planned =
        claim.kind == kinds::EXPORT_PLAN && !rows::is_to_be_planned(&mut tx, claim.job).await?;
    let failed =
        !is_planned && rows::failed(&mut tx, claim.job, &failure, app.clock.now_ms()).await?;
    claims::finish(&mut tx, claim).await?;
    if failed {
        after_failure(app, &mut tx, claim.job, &failure).await?;
    }
    Ok(tx.commit().await?)
}
