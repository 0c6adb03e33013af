//! The SQL of what is known about addresses ([`super::suppressions`]). Rows are written in the order
//! of their keys, after those of users.

use std::collections::BTreeMap;

use serde::Serialize;

use super::suppressions::{Hash, Key, Reason};
use store::{StoreError, Tx, execute, fetch_listed, from_row, insert_rows, on};

/// A row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub who: Vec<u8>,
    pub scope: String,
    pub reason: Reason,
    pub state: String,
    pub decided_at: i64,
}
from_row! { Stored { who, scope, reason, state, decided_at } }

impl Stored {
    pub fn hash(&self) -> Option<Hash> {
        self.who.as_slice().try_into().ok()
    }
}

/// What a workspace has.
#[derive(Default)]
pub struct Known {
    /// None before it has rows, or sends emails.
    pub key: Option<Key>,
    has_rows: bool,
    /// Whether it has opt-outs that an earlier release stored, without a key.
    pub has_earlier: bool,
}

impl Known {
    pub fn is_empty(&self) -> bool {
        !self.has_rows && !self.has_earlier
    }
}

/// Whether something is known about any address of a workspace.
pub async fn known(tx: &mut Tx, workspace: i32) -> Result<Known, StoreError> {
    let (key, has_rows, has_earlier): (Option<Vec<u8>>, bool, bool) = on!(tx, c => sqlx::query_as(
        "SELECT (SELECT key FROM suppression_keys WHERE workspace_id = $1),
                EXISTS (SELECT 1 FROM suppressions WHERE workspace_id = $1),
                EXISTS (SELECT 1 FROM unsubscribed_emails WHERE workspace_id = $1)",
    )
    .bind(workspace).fetch_one(c).await?);
    Ok(Known { key: key.map(|key| read_key(&key)).transpose()?, has_rows, has_earlier })
}

fn read_key(key: &[u8]) -> Result<Key, StoreError> {
    Key::new(key).ok_or_else(|| StoreError::Corrupt("suppression_keys.key".into()))
}

/// The key of a workspace; creates it if there is none.
pub async fn ensure_key(tx: &mut Tx, workspace: i32) -> Result<Key, StoreError> {
    let select = "SELECT key FROM suppression_keys WHERE workspace_id = $1";
    let mut found: Option<Vec<u8>> =
        on!(tx, c => sqlx::query_scalar(select).bind(workspace).fetch_optional(c).await?);
    if found.is_none() {
        let new = Key::random();
        execute!(
            tx,
            sqlx::query(
                "INSERT INTO suppression_keys (workspace_id, key) VALUES ($1, $2)
                 ON CONFLICT DO NOTHING",
            )
            .bind(workspace)
            .bind(new.bytes())
        );
        found = on!(tx, c => sqlx::query_scalar(select).bind(workspace).fetch_optional(c).await?);
    }
    read_key(&found.unwrap_or_default())
}

/// The rows of addresses.
pub async fn find(tx: &mut Tx, workspace: i32, hashes: &[Hash]) -> Result<Vec<Stored>, StoreError> {
    Ok(fetch_listed!(
        tx,
        query_as,
        each hashes(hashes),
        "SELECT who, scope, reason, state, decided_at FROM suppressions
         WHERE workspace_id = $2 AND who",
        workspace
    ))
}

/// When addresses were unsubscribed that an earlier release stored, without a key.
pub async fn find_earlier(
    tx: &mut Tx,
    workspace: i32,
    hashes: &[Hash],
) -> Result<Vec<(Vec<u8>, i64)>, StoreError> {
    Ok(fetch_listed!(
        tx,
        query_as,
        each hashes(hashes),
        "SELECT who, decided_at FROM unsubscribed_emails WHERE workspace_id = $2 AND who",
        workspace
    ))
}

/// Stores rows, unless a later one of the same key is stored. At the same time, `unsubscribed`
/// holds.
pub async fn put(tx: &mut Tx, workspace: i32, rows: Vec<Stored>) -> Result<(), StoreError> {
    let is_opt_out = |row: &Stored| row.state == "unsubscribed";
    let mut last: BTreeMap<(Vec<u8>, String, Reason), Stored> = BTreeMap::new();
    for row in rows {
        let key = (row.who.clone(), row.scope.clone(), row.reason);
        let is_later = last.get(&key).is_none_or(|known| {
            (known.decided_at, is_opt_out(known)) < (row.decided_at, is_opt_out(&row))
        });
        if is_later {
            last.insert(key, row);
        }
    }
    let rows: Vec<Stored> = last.into_values().collect();
    insert_rows!(tx, "suppressions", rows, |row| {
        workspace_id: workspace,
        who: row.who.as_slice(),
        scope: row.scope.as_str(),
        reason: row.reason.name(),
        state: row.state.as_str(),
        decided_at: row.decided_at,
    }, "ON CONFLICT (workspace_id, who, scope, reason) DO UPDATE
        SET state = excluded.state, decided_at = excluded.decided_at
        WHERE suppressions.decided_at < excluded.decided_at
           OR (suppressions.decided_at = excluded.decided_at AND excluded.state = 'unsubscribed')");
    Ok(())
}

/// Deletes opt-outs that an earlier release stored, without a key, before these times: a later
/// decision is stored.
pub async fn remove_earlier(
    tx: &mut Tx,
    workspace: i32,
    mut decided: Vec<(Hash, i64)>,
) -> Result<(), StoreError> {
    decided.sort_unstable();
    match tx {
        _ if decided.is_empty() => {}
        Tx::Postgres(tx) => {
            let (hashes, times): (Vec<&[u8]>, Vec<i64>) =
                decided.iter().map(|(hash, at)| (&hash[..], *at)).unzip();
            sqlx::query(
                "DELETE FROM unsubscribed_emails
                 USING unnest($2::bytea[], $3::bigint[]) AS decided (who, at)
                 WHERE workspace_id = $1 AND unsubscribed_emails.who = decided.who
                   AND decided_at < decided.at",
            )
            .bind(workspace)
            .bind(hashes)
            .bind(times)
            .execute(&mut **tx)
            .await?;
        }
        Tx::Sqlite(tx) => {
            for (hash, at) in decided {
                sqlx::query(
                    "DELETE FROM unsubscribed_emails
                     WHERE workspace_id = $1 AND who = $2 AND decided_at < $3",
                )
                .bind(workspace)
                .bind(&hash[..])
                .bind(at)
                .execute(&mut **tx)
                .await?;
            }
        }
    }
    Ok(())
}

/// Deletes the complaints of an address; returns how many there were.
pub async fn remove_complaints(
    tx: &mut Tx,
    workspace: i32,
    hash: &Hash,
) -> Result<u64, StoreError> {
    Ok(execute!(
        tx,
        sqlx::query(
            "DELETE FROM suppressions
             WHERE workspace_id = $1 AND who = $2 AND reason = 'complaint'",
        )
        .bind(workspace)
        .bind(&hash[..])
    ))
}

/// The number of addresses that get no messages, by scope and reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ScopeCount {
    pub scope: String,
    pub reason: Reason,
    pub addresses: i64,
}
from_row! { ScopeCount { scope, reason, addresses } }

/// The numbers of a workspace's addresses that get no messages, and of those that an earlier release
/// stored.
pub async fn count(tx: &mut Tx, workspace: i32) -> Result<(Vec<ScopeCount>, i64), StoreError> {
    let counts = on!(tx, c => sqlx::query_as(
        "SELECT scope, reason, count(*) AS addresses FROM suppressions
         WHERE workspace_id = $1 AND state IN ('unsubscribed', 'suppressed')
         GROUP BY scope, reason ORDER BY scope, reason",
    )
    .bind(workspace).fetch_all(c).await?);
    let earlier = on!(tx, c => sqlx::query_scalar(
        "SELECT count(*) FROM unsubscribed_emails WHERE workspace_id = $1",
    )
    .bind(workspace).fetch_one(c).await?);
    Ok((counts, earlier))
}
