//! Reports storage failures before the last attempt: in the status of each export that waits for
//! its storage, and at `/readyz` of the workers that write exports.
//!
//! A failure of one customer's bucket is a line at `/readyz`, but the process stays ready. The
//! worker tests the storage for exports without own storage itself, even while there is no export.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{ExportError, storage_rows};
use gateway::app::App;
use kit::clock::{from_ms, millis};
use kit::retry;
use objects::probe;
use store::StoreError;
use store::claims::{self, Claim, ClaimError};

pub use storage_rows::waiting;

/// Interval between queries for exports that wait for their storage, and between tests of a failing
/// storage.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Interval between tests of a working storage.
const PROBE_INTERVAL: Duration = Duration::from_secs(60);

/// Time limit of a test.
const PROBE_TIMEOUT: Duration = Duration::from_secs(30);

/// The subjects of the warnings: exports that wait for their storage, and the storage for exports
/// without own storage.
pub const WAITING: &str = "storage of exports";
pub const OBJECTS: &str = "objects";

/// Maximum number of exports that `/readyz` names.
const MAX_NAMED: i64 = 10;

/// An export in progress whose files cannot be stored.
#[derive(Clone, Debug)]
pub struct WaitingExport {
    pub workspace_id: i32,
    /// The workspace's name.
    pub workspace: String,
    pub object_prefix: String,
    /// The text for the customer.
    pub error: String,
    /// The text for the operator.
    pub detail: String,
}

/// Makes an attempt at a part or the finishing, and then stores the storage's failure, or its end.
/// If that fails, the attempt's outcome does not change.
pub async fn noted(
    app: &App,
    claim: &Claim,
    attempt: impl Future<Output = Result<(), ExportError>>,
) -> Result<(), ExportError> {
    let result = attempt.await;
    let noted = match &result {
        Ok(()) if claim.attempt > 1 => clear(app, claim.job).await.map(|()| false),
        Ok(()) => Ok(false),
        Err(error) => note_failure(app, claim, error).await,
    };
    let waits = noted.unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot store the status of the export's storage");
        // The next attempt checks for how long the export may wait.
        result.as_ref().is_err_and(|failed| failed.storage_failure().is_some())
    });
    result.map_err(|error| if waits { ExportError::Waiting(Box::new(error)) } else { error })
}

/// Stores a failure, and returns whether the export waits for its storage. Ignores failures that are
/// not about storage, and permanent ones, which end the export anyway.
async fn note_failure(app: &App, claim: &Claim, error: &ExportError) -> Result<bool, StoreError> {
    let Some((failure, is_refusal)) = error.storage_failure() else { return Ok(false) };
    let settings = &app.config.exports;
    let limit = if is_refusal {
        Duration::from_secs(60 * settings.refused_minutes)
    } else {
        Duration::from_secs(3_600 * settings.retry_hours)
    };
    let mut tx = app.store.write().await?;
    let now = app.database_now(&mut tx).await?;
    // The job before the claim: in this order, a cancellation locks them, too.
    let since = storage_rows::waits_since(&mut tx, claim.job, is_refusal, now).await?;
    let until = since.saturating_add(millis(limit));
    let message = failure.while_waiting(from_ms(since), from_ms(until));
    storage_rows::note_failure(&mut tx, claim.job, &message, &failure.detail).await?;
    match claims::extend(&mut tx, claim, app.config.lease()).await {
        Ok(()) => {
            tx.commit().await?;
            Ok(now < until)
        }
        // A worker that was paused beyond its lease knows less than the part's current worker.
        Err(ClaimError::Lost) => Ok(false),
        Err(ClaimError::Store(error)) => Err(error),
    }
}

/// Every attempt with a stored failure is followed by another, so no stale failure stays.
async fn clear(app: &App, job: Uuid) -> Result<(), StoreError> {
    let mut tx = app.store.write().await?;
    storage_rows::clear_failure(&mut tx, job).await?;
    tx.commit().await
}

/// Updates `/readyz` until `shutdown`.
pub async fn watch(app: App, shutdown: CancellationToken) {
    let probe = Uuid::new_v4();
    let mut next_probe = Instant::now();
    while !shutdown.is_cancelled() {
        match failing(&app).await {
            Ok(lines) => app.health_warnings.set(WAITING, lines),
            Err(error) => tracing::warn!(%error, "cannot query exports that wait for storage"),
        }
        if Instant::now() >= next_probe && probe_objects(&app, probe).await {
            next_probe = Instant::now() + PROBE_INTERVAL;
        }
        retry::wait(CHECK_INTERVAL, &shutdown).await;
    }
}

/// One line for each export whose storage fails.
async fn failing(app: &App) -> Result<Vec<String>, StoreError> {
    let mut tx = app.store.snapshot().await?;
    let waiting = storage_rows::waiting(&mut tx, None, MAX_NAMED).await?;
    let line = |WaitingExport { workspace, object_prefix, error, detail, .. }| {
        format!("export {object_prefix} of {workspace}: {error} Details: {detail}")
    };
    Ok(waiting.into_iter().map(line).collect())
}

/// Whether the storage for exports without own storage is writable. A worker that has never written
/// there is not ready: a wrong configuration is more likely than an outage.
async fn probe_objects(app: &App, id: Uuid) -> bool {
    let probed = tokio::time::timeout(PROBE_TIMEOUT, probe::can_write(&app.objects, id)).await;
    let error = match probed {
        Ok(Ok(())) => {
            app.health_warnings.set(OBJECTS, Vec::new());
            app.health_warnings.works(OBJECTS);
            return true;
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no response within {} seconds", PROBE_TIMEOUT.as_secs()),
    };
    tracing::warn!(error, "cannot write objects");
    let line = format!(
        "cannot write objects, so exports without own storage wait: {error}; run `longshore doctor`"
    );
    app.health_warnings.set(OBJECTS, vec![line]);
    app.health_warnings.has_failed(OBJECTS);
    false
}
