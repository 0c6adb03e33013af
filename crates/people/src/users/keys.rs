//! The keys of users in SQLite, which keep a slice's users together in order of creation.

use std::collections::HashSet;

use sqlx::Sqlite;
use uuid::Uuid;

use super::service_id;
use crate::users::service_id::slice;
use store::to_json;
use store::{OpenTransaction, StoreError, Tx};

/// Bits of a key below the milliseconds, which distinguish users of one millisecond.
const SEQUENCE_BITS: u32 = 14;
const MILLIS_BITS: u32 = 42;

/// The smallest key of a slice and millisecond: 7 bits of slice, 42 of milliseconds, 14 of
/// sequence.
pub fn first_key(slice: i16, ms: i64) -> i64 {
    let ms = ms.clamp(0, (1 << MILLIS_BITS) - 1);
    i64::from(slice.clamp(0, 127)) << (MILLIS_BITS + SEQUENCE_BITS) | ms << SEQUENCE_BITS
}

/// The largest key of a slice and millisecond.
pub fn last_key(slice: i16, ms: i64) -> i64 {
    first_key(slice, ms) | ((1 << SEQUENCE_BITS) - 1)
}

/// Keys for new users: each is that of its id, or the next free one of the same slice and
/// millisecond. Does nothing on PostgreSQL.
pub async fn allocate_keys(tx: &mut Tx, ids: &[Uuid]) -> Result<Vec<i64>, StoreError> {
    match tx {
        Tx::Postgres(_) => Ok(vec![0; ids.len()]),
        Tx::Sqlite(tx) => allocate_sqlite_keys(tx, ids).await,
    }
}

async fn allocate_sqlite_keys(
    tx: &mut OpenTransaction<Sqlite>,
    ids: &[Uuid],
) -> Result<Vec<i64>, StoreError> {
    let mut wanted = Vec::with_capacity(ids.len());
    for id in ids {
        let first = first_key(slice(id)?, service_id::millis(id));
        // Two bits between the counters of one process leave gaps for those of others.
        wanted.push((first, first | i64::from(service_id::counter(id)) << 2));
    }
    let keys: Vec<i64> = wanted.iter().map(|(_, key)| *key).collect();
    let mut used: HashSet<i64> =
        sqlx::query_scalar("SELECT key FROM users WHERE key IN (SELECT value FROM json_each($1))")
            .bind(to_json(&keys)?)
            .fetch_all(&mut **tx)
            .await?
            .into_iter()
            .collect();
    let mut groups = HashSet::new();
    let mut keys = Vec::with_capacity(ids.len());
    for (first, key) in wanted {
        let last = first | ((1 << SEQUENCE_BITS) - 1);
        if used.contains(&key) && groups.insert(first) {
            let group: Vec<i64> =
                sqlx::query_scalar("SELECT key FROM users WHERE key BETWEEN $1 AND $2")
                    .bind(first)
                    .bind(last)
                    .fetch_all(&mut **tx)
                    .await?;
            used.extend(group);
        }
        let free = (key..=last).chain(first..key).find(|key| !used.contains(key));
        let free = free.ok_or_else(|| {
            StoreError::Corrupt(format!(
                "{} users already have service_ids of one slice and millisecond, the maximum with \
                 SQLite: use service_ids of different times, or use PostgreSQL",
                1 << SEQUENCE_BITS
            ))
        })?;
        used.insert(free);
        keys.push(free);
    }
    Ok(keys)
}
