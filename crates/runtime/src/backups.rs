//! When the installation was last backed up (`longshore backup record`).

use store::{StoreError, Tx, claims, settings};

/// The setting with the time of the last backup.
const LAST_BACKUP: &str = "backup.last_at";

/// Records that a backup has just completed, and returns the time by the database's clock, in
/// milliseconds since the epoch.
pub async fn record(tx: &mut Tx) -> Result<i64, StoreError> {
    let now = claims::now(tx).await?;
    settings::put(tx, LAST_BACKUP, &now.to_string()).await?;
    Ok(now)
}

/// The time of the last backup, in milliseconds since the epoch; none if none was recorded.
pub async fn last(tx: &mut Tx) -> Result<Option<i64>, StoreError> {
    let Some(at) = settings::get(tx, LAST_BACKUP).await? else { return Ok(None) };
    let at = at.parse();
    at.map(Some).map_err(|_| StoreError::Corrupt(format!("settings.value of {LAST_BACKUP}")))
}
