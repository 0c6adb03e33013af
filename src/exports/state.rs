//! How a job goes from state to state, with all that belongs to the step in the same
//! transaction: claims offered or withdrawn, the callback enqueued.

use std::time::Duration;

use serde_json::json;
use uuid::Uuid;

use super::{Cause, Failure, Job, State, WorkError, part_rows, rows};
use crate::app::App;
use crate::claims::{self, Claim, ClaimError, Kind};
use crate::deliveries::{self, NewDelivery};
use crate::store::{StoreError, Tx};

pub use super::part_rows::PartResult;

/// The end of a part, in the caller's transaction: the claim is finished, the part marked
/// as done by its attempt, the job's totals counted. The last one brings the job to
/// `finishing` and leaves the finish task; answers whether it was. A ZIP that has grown
/// past the workspace's limit fails the job instead. After an error the transaction is to
/// be dropped; [`ClaimError::Lost`] also says that the job is not running any more.
pub async fn part_done(
    app: &App,
    tx: &mut Tx,
    claim: &Claim,
    result: &PartResult,
) -> Result<bool, ClaimError> {
    let counted = rows::count_part(tx, claim.job, result).await?.ok_or(ClaimError::Lost)?;
    claims::finish(tx, claim).await?;
    part_rows::mark_done(tx, claim, result).await?;
    if let Some(limit) = counted.bytes_limit.filter(|limit| counted.bytes_done > *limit) {
        fail(app, tx, claim.job, &Failure::too_many_bytes(limit)).await?;
        return Ok(false);
    }
    if counted.parts_left > 0 {
        return Ok(false);
    }
    begin_finishing(app, tx, claim.job).await?;
    Ok(true)
}

/// `running` to `finishing`, for whoever did the last part, or found none to do.
pub(super) async fn begin_finishing(app: &App, tx: &mut Tx, job: Uuid) -> Result<(), StoreError> {
    if rows::begin_finishing(tx, job, app.clock.now_ms()).await? {
        claims::offer(tx, Kind::ExportFinish, job, 0, Duration::ZERO).await?;
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
    let now = app.clock.now_ms();
    if !rows::failed(tx, job, &failure.message, &failure.detail, now).await? {
        return Ok(false);
    }
    withdraw(tx, job).await?;
    if let Some((job, _)) = rows::load(tx, job).await? {
        let body = json!({ "success": false, "error": failure.message });
        call_back(app, tx, &job, body).await?;
        tracing::error!(
            export = %job.id,
            object_prefix = job.object_prefix,
            cause = failure.cause.name(),
            detail = failure.detail,
            "the export failed: {}", failure.message
        );
        super::telemetry::ended(&job, State::Failed, failure.cause.name(), now);
    }
    Ok(true)
}

/// Cancels a job that is not yet finishing; parts under way find their claims lost.
/// Answers whether it did.
pub async fn cancel(app: &App, tx: &mut Tx, job: &Job) -> Result<bool, StoreError> {
    let now = app.clock.now_ms();
    if !rows::cancelled(tx, job.id, now).await? {
        return Ok(false);
    }
    withdraw(tx, job.id).await?;
    super::telemetry::ended(job, State::Cancelled, "asked", now);
    Ok(true)
}

async fn withdraw(tx: &mut Tx, job: Uuid) -> Result<(), StoreError> {
    claims::withdraw(tx, Kind::ExportPart, job).await?;
    claims::withdraw(tx, Kind::ExportFinish, job).await?;
    claims::offer(tx, Kind::ExportCleanup, job, 0, Duration::ZERO).await
}

/// Enqueues the export-ready callback, where one was asked for.
pub(super) async fn call_back(
    app: &App,
    tx: &mut Tx,
    job: &Job,
    body: serde_json::Value,
) -> Result<(), StoreError> {
    let Some(url) = &job.callback_endpoint else { return Ok(()) };
    let delivery = NewDelivery {
        workspace_id: job.workspace_id,
        kind: "export_callback",
        subject: job.object_prefix.clone(),
        url: url.clone(),
        body: body.to_string(),
        request_id: job.request_id.clone(),
    };
    deliveries::enqueue(tx, &app.config, &app.clock, delivery).await?;
    Ok(())
}

/// What becomes of a claim whose work ended with `error`: gone where the claim is not ours
/// any more; the job failed where another try cannot help or all tries are used up;
/// otherwise the error comes back, and the claim is to be put off.
pub async fn settle<E: WorkError>(app: &App, claim: &Claim, error: E) -> Result<(), E> {
    if error.is_lost() {
        tracing::info!(export = %claim.job, item = claim.item, "the claim was lost or withdrawn");
        return Ok(());
    }
    let tries = u32::try_from(claim.attempt).unwrap_or(0);
    if error.can_retry() && tries < app.config.exports.attempts {
        return Err(error);
    }
    fail_claimed(app, claim, &error.failure()).await.map_err(E::from)
}

/// Fails the job of a claim that is still ours.
async fn fail_claimed(app: &App, claim: &Claim, failure: &Failure) -> Result<(), StoreError> {
    let mut tx = app.store.write().await?;
    fail(app, &mut tx, claim.job, failure).await?;
    tx.commit().await
}

/// Whether a claim has had all its tries without any of them saying why it failed: a
/// worker that ends again and again in the middle of it. Fails the job then.
pub async fn worn_out(app: &App, claim: &Claim) -> Result<bool, StoreError> {
    let tries = u32::try_from(claim.attempt).unwrap_or(u32::MAX);
    if tries <= app.config.exports.attempts {
        return Ok(false);
    }
    let failure = Failure {
        cause: Cause::WorkersLost,
        message: "The export could not be completed. Please try again; if it fails again, \
                  request fewer fields."
            .into(),
        detail: format!(
            "{} {} was given up after {} attempts, the last of which ended without a word",
            claim.kind.name(),
            claim.item,
            app.config.exports.attempts
        ),
    };
    fail_claimed(app, claim, &failure).await?;
    Ok(true)
}
