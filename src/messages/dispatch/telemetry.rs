//! What dispatches count.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{State, report_rows};
use crate::app::App;
use crate::claims;
use crate::retry;
use crate::store::StoreError;

/// Between looks at how long work waits.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// A dispatch that ended: how, and how long after it was taken. Counted before the transaction
/// commits, so one that does not may be counted again.
pub(super) fn ended(state: State, accepted_at: i64, now: i64) {
    metrics::counter!("longshore_dispatches_total", "state" => state.name()).increment(1);
    let seconds = now.saturating_sub(accepted_at).max(0) as f64 / 1_000.0;
    metrics::histogram!("longshore_dispatch_duration_seconds", "state" => state.name())
        .record(seconds);
}

/// A part that its worker is through with for now.
pub(super) fn part(outcome: &'static str) {
    metrics::counter!("longshore_dispatch_parts_total", "outcome" => outcome).increment(1);
}

/// Tells how long the oldest work has been waiting to be taken, until `shutdown`.
pub(crate) async fn watch(app: App, shutdown: CancellationToken) {
    while !shutdown.is_cancelled() {
        match lag(&app).await {
            Ok(lag) => {
                metrics::gauge!("longshore_dispatch_lag_seconds").set(lag as f64 / 1_000.0);
            }
            Err(error) => tracing::warn!(%error, "how long messages wait is not known"),
        }
        retry::wait(LOOK_EVERY, &shutdown).await;
    }
    metrics::gauge!("longshore_dispatch_lag_seconds").set(0.0);
}

async fn lag(app: &App) -> Result<i64, StoreError> {
    let mut tx = app.store.snapshot().await?;
    let now = claims::now(&mut tx).await?;
    let since = report_rows::waiting_since(&mut tx, now).await?;
    Ok(since.map_or(0, |since| now.saturating_sub(since).max(0)))
}
