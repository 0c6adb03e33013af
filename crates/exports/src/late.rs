//! Marks exports that take longer than `export_late_after` of their workspace, once each, in the
//! transaction that enqueues the notifications. Every worker of exports looks for them. The end of
//! an export marks it, too, because a short one can be late between two checks.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{late_rows, notifications, rows};
use gateway::app::App;
use gateway::workspaces::notify::Event;
use kit::{fail_point, retry};
use store::{StoreError, Tx};

/// Interval between queries for late exports: the notifications leave within a minute.
const CHECK_INTERVAL: Duration = Duration::from_secs(15);

/// Maximum number of exports that are marked at each interval.
const MAX_MARKED: i64 = 1_000;

/// Marks late exports, until `shutdown`.
pub async fn watch(app: App, shutdown: CancellationToken) {
    while !shutdown.is_cancelled() {
        if let Err(error) = mark_all(&app).await {
            tracing::warn!(%error, "cannot query late exports");
        }
        retry::wait(CHECK_INTERVAL, &shutdown).await;
    }
}

/// Marks the exports that are late now.
pub async fn mark_all(app: &App) -> Result<(), StoreError> {
    let mut tx = app.store.snapshot().await?;
    let now = app.database_now(&mut tx).await?;
    let late = late_rows::unmarked(&mut tx, now, MAX_MARKED).await?;
    tx.commit().await?;
    for id in late {
        // An export that cannot be read does not hide the others.
        if let Err(error) = mark(app, id).await {
            tracing::warn!(export = %id, %error, "cannot mark a late export");
        }
    }
    Ok(())
}

async fn mark(app: &App, id: Uuid) -> Result<(), StoreError> {
    let mut tx = app.store.write().await?;
    let now = app.database_now(&mut tx).await?;
    if mark_in(app, &mut tx, id, now).await? {
        tx.commit().await?;
        fail_point!("late::marked");
    }
    Ok(())
}

/// Marks an export that is late now and has not ended, in the caller's transaction. Returns whether
/// it did.
pub(super) async fn mark_in(
    app: &App,
    tx: &mut Tx,
    id: Uuid,
    now: i64,
) -> Result<bool, StoreError> {
    if !late_rows::mark(tx, id, now).await? {
        return Ok(false);
    }
    let Some((job, progress)) = rows::load(tx, id).await? else { return Ok(false) };
    notifications::enqueue(app, tx, &job, &progress, Event::Late).await?;
    tracing::warn!(
        export = %job.id,
        object_prefix = job.object_prefix,
        state = progress.state.name(),
        "export is late"
    );
    Ok(true)
}
