//! Deletes schedules that ended long ago, and removes users that the others no longer need.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{rows, users};
use crate::app::App;
use kit::clock::{hours, millis};
use kit::retry;
use store::StoreError;

/// Schedules that are listed together.
const PAGE: i64 = 1_000;

/// The pause after each request that is read.
const PAUSE: Duration = Duration::from_millis(1);

/// How long after its `ended_at` the end of a schedule may be committed.
const COMMIT_DELAY: Duration = hours(1);

/// One pass through all schedules.
pub async fn sweep(app: &App, stop: &CancellationToken) -> Result<(), StoreError> {
    let kept = hours(24 * u64::from(app.config.messages.keep_days));
    let now = app.store.now().await?;
    rows::OLD_SCHEDULES.delete(&app.store, &[now - millis(kept)], stop).await?;
    // All of them in the first pass of a process: workers of 0.2.0 leave users in schedules.
    let ended_since = app.schedules_swept_to.load(Ordering::Relaxed);
    remove_users(app, ended_since, stop).await?;
    if !stop.is_cancelled() {
        app.schedules_swept_to.store(now - millis(COMMIT_DELAY), Ordering::Relaxed);
    }
    Ok(())
}

/// Removes the users of schedules that ended since a time, such as those whose Canvas was removed,
/// and erased users of schedules that have not ended. A schedule is also sent without users who
/// were erased since its last pass ([`super::fire`]).
async fn remove_users(
    app: &App,
    ended_since: i64,
    stop: &CancellationToken,
) -> Result<(), StoreError> {
    let mut after = (i64::MIN, Uuid::nil());
    while !stop.is_cancelled() {
        let page = rows::ends_after(&mut app.store.snapshot().await?, after, PAGE).await?;
        let Some((last, created_at, _)) = page.last() else { break };
        after = (*created_at, *last);
        for (id, _, ended_at) in page {
            if ended_at.is_some_and(|ended_at| ended_at < ended_since) {
                continue;
            }
            if stop.is_cancelled() {
                break;
            }
            remove_unneeded(app, id).await?;
            retry::wait(PAUSE, stop).await;
        }
    }
    Ok(())
}

/// Removes the users that a schedule no longer needs.
async fn remove_unneeded(app: &App, id: Uuid) -> Result<(), StoreError> {
    // An idle SQLite never takes the write lock for this.
    let mut tx = app.store.snapshot().await?;
    let Some(schedule) = rows::by_id(&mut tx, id).await? else { return Ok(()) };
    if users::without_unneeded(app, &mut tx, &schedule).await?.is_none() {
        return Ok(());
    }
    drop((tx, schedule));
    let mut tx = app.store.write().await?;
    let Some(schedule) = rows::lock(&mut tx, id).await? else { return Ok(()) };
    if let Some(request) = users::without_unneeded(app, &mut tx, &schedule).await? {
        rows::set_request(&mut tx, id, &request).await?;
    }
    tx.commit().await
}
