//! Maintenance: emails without a claim, old emails, the SLA.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{rows, sla};
use crate::app::App;
use kit::clock::{hours, millis};
use kit::retry;
use store::StoreError;

/// Interval between reports of the SLA.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// Offers emails without a claim, which gateways of release 0.1.0 created.
async fn offer_missing(app: &App) -> Result<(), StoreError> {
    // An idle SQLite never takes the write lock for this.
    if !rows::any_without_claim(&mut app.store.snapshot().await?).await? {
        return Ok(());
    }
    let mut tx = app.store.write().await?;
    let emails = rows::offer_some(&mut tx).await?;
    tx.commit().await?;
    tracing::info!(emails, "emails without a claim queued again");
    Ok(())
}

/// Offers emails without a claim and reports the SLA, until `stop`.
pub async fn run_maintenance(app: App, stop: CancellationToken) {
    let urgent = app.for_transactional();
    let requeue_interval = Duration::from_secs(app.config.transactional.requeue_seconds);
    tokio::join!(
        retry::repeat(requeue_interval, &stop, "cannot query emails without a claim", || {
            offer_missing(&urgent)
        }),
        retry::repeat(REPORT_INTERVAL, &stop, "cannot report the SLA", || sla::emit_metrics(&app)),
    );
}

/// Deletes emails that were settled long ago, and expired keys.
pub async fn sweep(app: &App, stop: &CancellationToken) -> Result<(), StoreError> {
    let (store, now) = (&app.store, app.store.now().await?);
    let emails = now - millis(hours(24 * u64::from(app.config.transactional.keep_days)));
    rows::OLD_EMAILS.delete(store, &[emails], stop).await?;
    rows::OLD_KEYS.delete(store, &[now - millis(rows::KEY_LIFETIME)], stop).await
}
