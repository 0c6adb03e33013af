//! What is done beside the sending: emails that are offered to nobody, old ones, the SLA.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{rows, sla};
use crate::app::App;
use kit::clock::{hours, millis};
use kit::retry;
use store::StoreError;
use store::claims;

/// Between looks for what is to be removed.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// Offers emails that have no claim: those of gateways of release 0.1.0; returns how many.
pub async fn offer_missing(app: &App) -> Result<usize, StoreError> {
    // An idle SQLite never takes the write lock for this.
    if !rows::any_without_claim(&mut app.store.snapshot().await?).await? {
        return Ok(0);
    }
    let mut tx = app.store.write().await?;
    let offered = rows::offer_some(&mut tx).await?;
    tx.commit().await?;
    Ok(offered)
}

/// Offers emails without a claim, removes old ones and reports the SLA, until `shutdown`.
pub async fn keep(app: App, shutdown: CancellationToken) {
    let urgent = app.urgent();
    let look_every = Duration::from_secs(app.config.transactional.requeue_seconds);
    let mut swept: Option<Instant> = None;
    while !shutdown.is_cancelled() {
        match offer_missing(&urgent).await {
            Ok(0) => {}
            Ok(emails) => tracing::info!(emails, "emails without a claim were offered"),
            Err(error) => tracing::warn!(%error, "cannot look for emails without a claim"),
        }
        if swept.is_none_or(|at| at.elapsed() >= SWEEP_EVERY) {
            swept = Some(Instant::now());
            if let Err(error) = forget(&app, &shutdown).await {
                tracing::warn!(%error, "old emails cannot be removed yet");
            }
            if let Err(error) = sla::tell(&app).await {
                tracing::warn!(%error, "the SLA cannot be reported");
            }
        }
        retry::wait(look_every, &shutdown).await;
    }
}

/// Removes emails that were settled long ago, and keys that hold no more.
async fn forget(app: &App, shutdown: &CancellationToken) -> Result<(), StoreError> {
    let mut tx = app.store.snapshot().await?;
    let now = claims::now(&mut tx).await?;
    let days = u64::from(app.config.transactional.keep_days);
    let (emails, keys) = (now - millis(hours(24 * days)), now - millis(rows::KEY_HOLDS));
    let mut more = rows::any_old(&mut tx, emails, keys).await?;
    drop(tx);
    while more && !shutdown.is_cancelled() {
        let mut tx = app.store.write().await?;
        rows::forget(&mut tx, emails, keys).await?;
        more = rows::any_old(&mut tx, emails, keys).await?;
        tx.commit().await?;
    }
    Ok(())
}
