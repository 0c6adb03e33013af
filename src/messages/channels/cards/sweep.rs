//! Forgetting cards that have expired.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::rows;
use crate::app::App;
use kit::retry;
use store::StoreError;
use store::claims::now;

/// Between two passes.
const EVERY: Duration = Duration::from_secs(60);

/// Removes cards that have expired, every now and then until `shutdown`.
pub async fn sweep_old(app: App, shutdown: CancellationToken) {
    while !shutdown.is_cancelled() {
        if let Err(error) = sweep(&app, &shutdown).await {
            tracing::warn!(%error, "expired cards stay for now");
        }
        retry::wait(EVERY, &shutdown).await;
    }
}

/// One pass. Expired is what is so by the database's clock: that of one worker must not destroy
/// anything.
async fn sweep(app: &App, shutdown: &CancellationToken) -> Result<(), StoreError> {
    // An idle SQLite never takes the write lock for this.
    let mut tx = app.store.snapshot().await?;
    let now = now(&mut tx).await?;
    let mut more = rows::has_expired(&mut tx, now).await?;
    drop(tx);
    while more && !shutdown.is_cancelled() {
        let mut tx = app.store.write().await?;
        more = rows::sweep(&mut tx, now).await?;
        tx.commit().await?;
    }
    Ok(())
}
