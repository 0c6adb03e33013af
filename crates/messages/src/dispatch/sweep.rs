//! Deletes dispatches that ended long ago, with their messages.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::report_rows;
use crate::app::App;
use content::campaigns::{self, Campaign};
use gateway::workspaces;
use gateway::workspaces::settings;
use kit::retry;
use store::StoreError;
use store::claims;

/// The pause after each transaction.
const PAUSE: Duration = Duration::from_millis(50);

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// One pass through all workspaces.
pub async fn sweep(app: &App, shutdown: &CancellationToken) -> Result<(), StoreError> {
    let mut tx = app.store.snapshot().await?;
    let (all, now) = (workspaces::list(&mut tx).await?, claims::now(&mut tx).await?);
    drop(tx);
    for workspace in all {
        let before = now.saturating_sub(retention_ms(app, workspace.id).await?);
        while !shutdown.is_cancelled() {
            // An idle SQLite never takes the write lock for this.
            let mut tx = app.store.snapshot().await?;
            let dispatch = report_rows::ended_before(&mut tx, workspace.id, before).await?;
            let Some(dispatch) = dispatch else { break };
            drop(tx);
            let mut is_deleted = false;
            while !is_deleted && !shutdown.is_cancelled() {
                let mut tx = app.store.write().await?;
                is_deleted = report_rows::delete_dispatch(&mut tx, dispatch).await?;
                tx.commit().await?;
                retry::wait(PAUSE, shutdown).await;
            }
        }
    }
    Ok(())
}

/// How long a workspace's messages are kept: at least as long as its frequency capping and its
/// conversion windows look back.
async fn retention_ms(app: &App, workspace: i32) -> Result<i64, StoreError> {
    let settings = settings::find(app, workspace).await?;
    let capping = settings.frequency_capping.iter().map(|rule| i64::from(rule.days) * DAY_MS);
    let mut tx = app.store.snapshot().await?;
    let triggered = campaigns::triggered_by_purchases(&mut tx, workspace).await?;
    let windows = triggered.iter().filter_map(Campaign::conversion_window);
    let keep = i64::from(app.config.messages.keep_days) * DAY_MS;
    Ok(capping.chain(windows).max().unwrap_or(0).max(keep))
}
