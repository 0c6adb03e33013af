//! Deletes the records of old catalog edits, and what is left of deleted catalogs.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::rows;
use crate::app::App;
use kit::clock::{hours, millis};
use store::StoreError;

/// How long the outcome of an edit is kept.
pub const RETENTION: Duration = hours(3 * 24);

/// One pass through all catalogs: deletes records that are too old, and records and items whose
/// catalog was deleted.
pub async fn sweep(app: &App, stop: &CancellationToken) -> Result<(), StoreError> {
    let oldest = app.clock.now_ms() - millis(RETENTION);
    let mut tx = app.store.snapshot().await?;
    let (catalogs, edited) = (rows::ids(&mut tx).await?, rows::edited(&mut tx).await?);
    let filled = rows::filled(&mut tx).await?;
    drop(tx);
    for catalog in filled.into_iter().filter(|id| catalogs.binary_search(id).is_err()) {
        rows::ITEMS.delete(&app.store, &[i64::from(catalog)], stop).await?;
    }
    for catalog in edited {
        let is_gone = catalogs.binary_search(&catalog).is_err();
        let before = if is_gone { i64::MAX } else { oldest };
        rows::OLD_EDITS.delete(&app.store, &[i64::from(catalog), before], stop).await?;
    }
    Ok(())
}
