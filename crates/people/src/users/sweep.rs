//! Deletes expired data of users without writes: old activity, and old records of erasures.
//!
//! Each slice is a row of `claims` that is due every day. A slice is read in pages, with pauses
//! between them, and rows with expired data are written a page at a time. The database's clock
//! decides what is old: a worker with a wrong clock must not delete anything.

use std::time::Duration;

use jiff::civil::Date;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::activity::Activity;
use super::activity_rows::{self, Cursor, StoredActivity};
use super::{SLICES, erased_rows, unrecorded};
use gateway::app::App;
use kit::clock::{from_ms, hours, millis, utc_date};
use kit::retry;
use runtime::kinds;
use store::claims::{self, Claim, ClaimError};
use store::{ByteBudget, Store, StoreError};

/// Interval between two passes of a slice.
const INTERVAL: Duration = hours(24);

/// Rows of a page, and the pause after it.
const PAGE: i64 = 500;
const PAUSE: Duration = Duration::from_millis(50);

/// How long an erasure is recorded: longer than messages wait in the log.
const ERASURE_RETENTION: Duration = hours(30 * 24);

/// Offers every slice; existing offers stay.
pub async fn offer(store: &Store) -> Result<(), StoreError> {
    let mut tx = store.write().await?;
    let slices = 0..i64::from(SLICES);
    claims::offer_range(&mut tx, kinds::ACTIVITY_SWEEP, Uuid::nil(), slices, INTERVAL).await?;
    tx.commit().await
}

/// One pass through the slice of a claim.
pub async fn sweep(app: &App, claim: &Claim, stop: &CancellationToken) -> Result<(), ClaimError> {
    let slice = i16::try_from(claim.item).unwrap_or(SLICES);
    unrecorded::record(&app.store, slice, stop).await?;
    let mut after = Cursor { workspace: i32::MIN, service_id: Uuid::nil(), key: -1 };
    while !stop.is_cancelled() {
        let mut tx = app.store.snapshot().await?;
        let today = utc_date(from_ms(claims::now(&mut tx).await?));
        let page = activity_rows::activity_after(&mut tx, slice, after, PAGE).await?;
        drop(tx);
        let Some((last, _)) = page.last() else { break };
        after = *last;
        let has_expired = |body: &[u8]| Activity::decode(body).is_ok_and(|mut a| a.prune(today));
        let expired: Vec<Cursor> =
            page.iter().filter(|(_, body)| has_expired(body)).map(|(cursor, _)| *cursor).collect();
        for users in expired.chunk_by(|a, b| a.workspace == b.workspace) {
            delete_expired(&app.store, users, today).await?;
        }
        retry::wait(PAUSE, stop).await;
    }
    let mut tx = app.store.write().await?;
    let now = claims::now(&mut tx).await?;
    erased_rows::delete_old(&mut tx, now - millis(ERASURE_RETENTION)).await?;
    let pause = if stop.is_cancelled() { Duration::ZERO } else { INTERVAL };
    claims::postpone(&mut tx, claim, pause).await?;
    Ok(tx.commit().await?)
}

/// Writes activity of a workspace without expired data. It may have changed since.
async fn delete_expired(store: &Store, users: &[Cursor], today: Date) -> Result<(), StoreError> {
    let Some(workspace) = users.first().map(|user| user.workspace) else { return Ok(()) };
    let ids: Vec<Uuid> = users.iter().map(|user| user.service_id).collect();
    let mut tx = store.write().await?;
    let mut pruned = Vec::with_capacity(ids.len());
    for StoredActivity { key, service_id, body } in
        activity_rows::lock_activity(&mut tx, workspace, &ids, &mut ByteBudget::unlimited()).await?
    {
        if let Some(Ok(mut activity)) = body.as_deref().map(Activity::decode)
            && activity.prune(today)
        {
            pruned.push((key, service_id, activity.encode()));
        }
    }
    activity_rows::put_activity(&mut tx, workspace, &pruned).await?;
    tx.commit().await
}
