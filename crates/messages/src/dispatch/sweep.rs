//! Deletes dispatches that ended long ago, with their messages, content blocks that no dispatch keeps
//! any more, and bounces that have ended.

use std::collections::VecDeque;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{kept_rows, report_rows};
use crate::app::App;
use content::campaigns::{self, Campaign};
use gateway::workspaces;
use gateway::workspaces::settings;
use kit::retry;
use people::users::suppressions;
use store::StoreError;
use store::claims;

/// The pause after a full batch.
const PAUSE: Duration = Duration::from_millis(50);

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// One pass: a batch of each workspace in turn, so that none waits until the many dispatches of
/// another are deleted.
pub async fn sweep(app: &App, shutdown: &CancellationToken) -> Result<(), StoreError> {
    let mut tx = app.store.snapshot().await?;
    let (all, now) = (workspaces::list(&mut tx).await?, claims::now(&mut tx).await?);
    drop(tx);
    suppressions::EXPIRED.delete(&app.store, &[now], shutdown).await?;
    // Workspaces, and the time since which their dispatches are kept, once it is known.
    let mut left: VecDeque<(i32, Option<i64>)> =
        all.iter().map(|workspace| (workspace.id, None)).collect();
    while let Some((workspace, before)) = left.pop_front()
        && !shutdown.is_cancelled()
    {
        let before = match before {
            Some(before) => before,
            None => now.saturating_sub(retention_ms(app, workspace).await?),
        };
        if delete_batch(app, workspace, before).await? {
            left.push_back((workspace, Some(before)));
            retry::wait(PAUSE, shutdown).await;
        } else {
            delete_blocks(app, workspace).await?;
        }
    }
    Ok(())
}

/// Deletes some of a workspace's dispatches that ended before a time; returns whether others may be
/// left.
async fn delete_batch(app: &App, workspace: i32, before: i64) -> Result<bool, StoreError> {
    // An idle SQLite never takes the write lock for this.
    let mut tx = app.store.snapshot().await?;
    let ended = report_rows::ended_before(&mut tx, workspace, before).await?;
    drop(tx);
    if ended.is_empty() {
        return Ok(false);
    }
    let mut tx = app.store.write().await?;
    let are_deleted = report_rows::delete_dispatches(&mut tx, &ended).await?;
    tx.commit().await?;
    Ok(!are_deleted || ended.len() >= report_rows::MAX_DISPATCHES)
}

/// Deletes the content blocks with which no dispatch of a workspace began.
async fn delete_blocks(app: &App, workspace: i32) -> Result<(), StoreError> {
    let mut tx = app.store.snapshot().await?;
    let before = kept_rows::unused_since(&mut tx, workspace).await?;
    let has_unused = kept_rows::has_unused(&mut tx, workspace, before).await?;
    drop(tx);
    if has_unused {
        let mut tx = app.store.write().await?;
        kept_rows::delete_unused(&mut tx, workspace, before).await?;
        tx.commit().await?;
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
