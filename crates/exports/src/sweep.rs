//! Deletes exports that ended long ago, and settings of own storage that nothing refers to. Files
//! in own storage are the customer's, and stay.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{rows, storage_rows};
use gateway::app::App;
use gateway::workspaces;
use kit::clock::{hours, millis};
use kit::retry;
use store::StoreError;

/// A request may have read the id of settings just before they were replaced, and store its export
/// afterwards. No request takes that long.
const LONGEST_REQUEST: Duration = Duration::from_secs(600);

/// Settings that one pass deletes.
const MAX_SETTINGS: i64 = 1_000;

/// Deletes the exports that ended `exports.keep_days` ago. The database's clock decides what is
/// old: a worker with a wrong clock must not delete anything.
pub async fn sweep(app: &App, stop: &CancellationToken) -> Result<(), StoreError> {
    let kept = millis(hours(24 * u64::from(app.config.exports.keep_days)));
    let mut tx = app.store.snapshot().await?;
    let (ids, now) = (workspaces::ids(&mut tx).await?, app.database_now(&mut tx).await?);
    drop(tx);
    let before = now - kept;
    for workspace in ids.into_values() {
        rows::OLD.delete(&app.store, &[i64::from(workspace), before], stop).await?;
    }
    Ok(())
}

/// Deletes the settings of own storage, with their credentials, that neither a workspace nor a
/// stored export has. No new export gets settings that were replaced.
pub async fn sweep_settings(app: &App, stop: &CancellationToken) -> Result<(), StoreError> {
    let unused = unused_settings(app).await?;
    if unused.is_empty() {
        return Ok(());
    }
    retry::wait(LONGEST_REQUEST, stop).await;
    delete_settings(app, &unused, stop).await
}

/// The settings of own storage that neither a workspace nor a stored export has.
pub async fn unused_settings(app: &App) -> Result<Vec<Uuid>, StoreError> {
    storage_rows::unused_settings(&mut app.store.snapshot().await?, MAX_SETTINGS).await
}

/// Deletes those of these settings that are still [unused](unused_settings), until `stop`.
pub async fn delete_settings(
    app: &App,
    unused: &[Uuid],
    stop: &CancellationToken,
) -> Result<(), StoreError> {
    for settings in unused_settings(app).await? {
        if stop.is_cancelled() {
            break;
        }
        if unused.contains(&settings) {
            let mut tx = app.store.write().await?;
            storage_rows::delete_settings(&mut tx, settings).await?;
            tx.commit().await?;
        }
    }
    Ok(())
}
