//! Forgetting what became of edits long ago.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::rows;
use crate::app::App;
use kit::clock::{hours, millis};
use kit::retry;
use store::StoreError;

/// How long it can be seen what became of an edit.
pub const KEPT: Duration = hours(3 * 24);

/// Between two passes.
const EVERY: Duration = Duration::from_secs(600);

/// Removes records of edits that are too old, or whose catalog is gone, every now and then until
/// `shutdown`.
pub async fn sweep_old(app: App, shutdown: CancellationToken) {
    while !shutdown.is_cancelled() {
        if let Err(error) = sweep(&app, &shutdown).await {
            tracing::warn!(%error, "old records of catalog edits stay for now");
        }
        retry::wait(EVERY, &shutdown).await;
    }
}

/// One pass over all catalogs.
pub async fn sweep(app: &App, shutdown: &CancellationToken) -> Result<(), StoreError> {
    let old = app.clock.now_ms() - millis(KEPT);
    let mut tx = app.store.snapshot().await?;
    let (catalogs, edited) = (rows::ids(&mut tx).await?, rows::edited(&mut tx).await?);
    drop(tx);
    for catalog in edited {
        let is_gone = catalogs.binary_search(&catalog).is_err();
        let before = if is_gone { i64::MAX } else { old };
        // An idle SQLite never takes the write lock for this.
        let mut tx = app.store.snapshot().await?;
        let mut more = rows::has_old_edits(&mut tx, catalog, before).await?;
        drop(tx);
        while more && !shutdown.is_cancelled() {
            let mut tx = app.store.write().await?;
            more = rows::sweep_edits(&mut tx, catalog, before).await?;
            tx.commit().await?;
        }
    }
    Ok(())
}
