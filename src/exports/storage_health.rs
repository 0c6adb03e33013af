//! What is said while files cannot be stored, before the last attempt: in the status of each
//! export that waits for its storage, and at `/readyz` of the workers that write exports.
//!
//! One customer's bucket is a line at `/readyz` and makes no process unready. Where exports
//! without own storage are built, this worker looks itself, also while there is no export.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{ExportError, storage_rows};
use crate::app::App;
use kit::retry;
use objects::probe;
use store::StoreError;
use store::claims::{self, Claim, ClaimError};

/// Between looks for exports that wait for their storage, and at a place that fails.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Between looks at the place where exports are built while it can be written.
const PROBE_EVERY: Duration = Duration::from_secs(60);

/// How long one look at that place may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(30);

/// Exports that `/readyz` names at most.
const MOST_NAMED: i64 = 10;

/// Writes down in an export's status how an attempt at a part, or at the finishing, went: that
/// its storage fails, or that it does not any more. The attempt's outcome stays what it is
/// where that cannot be written.
pub async fn note(app: &App, claim: &Claim, result: &Result<(), ExportError>) {
    let noted = match result {
        Ok(()) if claim.attempt > 1 => clear(app, claim.job).await,
        Ok(()) => Ok(()),
        Err(error) => note_failure(app, claim, error).await,
    };
    if let Err(error) = noted {
        tracing::warn!(%error, "the status of the export's storage cannot be written");
    }
}

/// What is not about storage is left out, and what cannot be retried ends the export anyway.
async fn note_failure(app: &App, claim: &Claim, error: &ExportError) -> Result<(), StoreError> {
    let Some(failure) = error.storage_failure() else { return Ok(()) };
    let mut tx = app.store.write().await?;
    // Whoever slept through the lease knows less than the worker that has the part now.
    match claims::extend(&mut tx, claim, app.config.lease()).await {
        Ok(()) => {}
        Err(ClaimError::Lost) => return Ok(()),
        Err(ClaimError::Store(error)) => return Err(error),
    }
    let message = failure.while_retrying();
    storage_rows::note_failure(&mut tx, claim.job, &message, &failure.detail).await?;
    tx.commit().await
}

/// Every attempt that was noted is followed by one that comes here, so nothing stale stays.
async fn clear(app: &App, job: Uuid) -> Result<(), StoreError> {
    let mut tx = app.store.write().await?;
    storage_rows::clear_failure(&mut tx, job).await?;
    tx.commit().await
}

/// Keeps `/readyz` up to date until `shutdown`.
pub async fn watch(app: App, shutdown: CancellationToken) {
    let probe = Uuid::new_v4();
    let mut next_probe = Instant::now();
    while !shutdown.is_cancelled() {
        match failing(&app).await {
            Ok(lines) => app.notices.set("storage of exports", lines),
            Err(error) => tracing::warn!(%error, "cannot look for exports that wait for storage"),
        }
        if Instant::now() >= next_probe && probe_objects(&app, probe).await {
            next_probe = Instant::now() + PROBE_EVERY;
        }
        retry::wait(LOOK_EVERY, &shutdown).await;
    }
}

/// A line for each export whose storage fails.
async fn failing(app: &App) -> Result<Vec<String>, StoreError> {
    let mut tx = app.store.snapshot().await?;
    let failing = storage_rows::failures(&mut tx, MOST_NAMED).await?;
    let line = |(workspace, object_prefix, error)| {
        format!("export {object_prefix} of {workspace}: {error}")
    };
    Ok(failing.into_iter().map(line).collect())
}

/// Whether the place where exports without own storage are built can be written. A worker that
/// has never written there is not ready: more likely than an outage it is set up wrong.
async fn probe_objects(app: &App, id: Uuid) -> bool {
    const SUBJECT: &str = "objects";
    let probed = tokio::time::timeout(PROBE_TIMEOUT, probe::can_write(&app.objects, id)).await;
    let error = match probed {
        Ok(Ok(())) => {
            app.notices.set(SUBJECT, Vec::new());
            app.notices.works(SUBJECT);
            return true;
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {} seconds", PROBE_TIMEOUT.as_secs()),
    };
    tracing::warn!(error, "objects cannot be written");
    let line = format!(
        "objects cannot be written, so exports without own storage wait: {error}; see longshore \
         doctor"
    );
    app.notices.set(SUBJECT, vec![line]);
    app.notices.has_failed(SUBJECT);
    false
}
