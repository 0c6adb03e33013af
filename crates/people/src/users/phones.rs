//! Records the phone numbers of existing users after the migration that created `phones`. Triggers
//! write the hints of all users that are written since.
//!
//! Small transactions lock the rows of a few users, so that no hint is of an older profile or of an
//! erased user. Repeating them changes nothing. So several processes may do it at the same time,
//! and an interrupted one continues with its slice. SQLite has one writer, so there the migration
//! itself records them. See docs/how-to/upgrade.md.

use std::time::Duration;

use uuid::Uuid;

use super::activity_rows::Cursor;
use super::{SLICES, hint_rows};
use kit::retry::{Retry as _, TimedRetries};
use store::{Store, StoreError, Tx, settings};

/// The setting with the next slice. The numbers of all slices before it are recorded.
const NEXT_SLICE: &str = "phones.recorded";

/// Users of one transaction.
const PAGE: i64 = 2_000;

/// For how long a transaction that fails is tried again: longer than it waits for a lock.
const RETRY_TIME: Duration = Duration::from_secs(60);

/// How far it is, after each transaction.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    pub slice: i16,
    /// The users that were read so far.
    pub users: u64,
}

/// Records the numbers that are not recorded yet. Costs one query if there are none.
pub async fn record(store: &Store, mut report: impl FnMut(Progress)) -> Result<(), StoreError> {
    if !store.is_postgres() {
        return Ok(());
    }
    let mut tx = store.snapshot().await?;
    let first = next_slice(&mut tx).await?;
    tx.commit().await?;
    let mut users = 0;
    for slice in first..SLICES {
        let mut after = Some(Cursor { workspace: i32::MIN, service_id: Uuid::nil(), key: 0 });
        while let Some(position) = after {
            let mut tries = TimedRetries::within(RETRY_TIME);
            let page = loop {
                match record_page(store, slice, position).await {
                    Err(error) if error.can_retry() && tries.again().await => {}
                    page => break page?,
                }
            };
            users += page.users;
            after = page.next;
            report(Progress { slice, users });
        }
    }
    Ok(())
}

/// Some users of a slice.
struct Page {
    users: u64,
    /// After which user the next page begins; none if this is the slice's last one.
    next: Option<Cursor>,
}

async fn record_page(store: &Store, slice: i16, after: Cursor) -> Result<Page, StoreError> {
    let mut tx = store.write().await?;
    let users = hint_rows::users_after(&mut tx, slice, after, PAGE).await?;
    if let Some(last) = users.last() {
        hint_rows::record_phones(&mut tx, slice, after, *last).await?;
    }
    let next = users.last().copied().filter(|_| users.len() as i64 == PAGE);
    if next.is_none() {
        settings::put(&mut tx, NEXT_SLICE, &(slice + 1).to_string()).await?;
    }
    tx.commit().await?;
    Ok(Page { users: users.len() as u64, next })
}

async fn next_slice(tx: &mut Tx) -> Result<i16, StoreError> {
    let Some(next) = settings::get(tx, NEXT_SLICE).await? else { return Ok(0) };
    next.parse().map_err(|_| StoreError::Corrupt(format!("settings.value of {NEXT_SLICE}")))
}
