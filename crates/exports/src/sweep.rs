//! Deletes exports that ended long ago. Their files in own storage are the customer's, and stay.

use tokio_util::sync::CancellationToken;

use super::rows;
use gateway::app::App;
use gateway::workspaces;
use kit::clock::{hours, millis};
use store::StoreError;
use store::claims;

/// Deletes the exports that ended `exports.keep_days` ago. The database's clock decides what is
/// old: a worker with a wrong clock must not delete anything.
pub async fn sweep(app: &App, stop: &CancellationToken) -> Result<(), StoreError> {
    let kept = millis(hours(24 * u64::from(app.config.exports.keep_days)));
    let mut tx = app.store.snapshot().await?;
    let (ids, now) = (workspaces::ids(&mut tx).await?, claims::now(&mut tx).await?);
    drop(tx);
    let before = app.clock.moved(now) - kept;
    for workspace in ids.into_values() {
        rows::OLD.delete(&app.store, &[i64::from(workspace), before], stop).await?;
    }
    Ok(())
}
