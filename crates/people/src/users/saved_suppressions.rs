//! The SQL of suppressions that are copied from one database to another, and their key.

use std::collections::BTreeMap;

use super::suppression_rows::{self, Known};
use super::suppressions::{Hash, Key};
use store::{StoreError, Tx, execute, insert_rows, on};

pub use super::suppression_rows::{Stored, put};

/// The primary key of a row, within its workspace; empty before the first row.
pub type Position = (Vec<u8>, String, String);

/// The position of a row.
pub fn position(row: &Stored) -> Position {
    (row.who.clone(), row.scope.clone(), row.reason.name().to_owned())
}

/// Rows after a position.
pub async fn rows_after(
    tx: &mut Tx,
    workspace: i32,
    (who, scope, reason): &Position,
    limit: i64,
) -> Result<Vec<Stored>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT who, scope, reason, state, decided_at, until, cause FROM suppressions
         WHERE workspace_id = $1 AND (who, scope, reason) > ($2, $3, $4)
         ORDER BY who, scope, reason LIMIT $5",
    )
    .bind(workspace).bind(who).bind(scope).bind(reason).bind(limit)
    .fetch_all(c).await?))
}

/// Opt-outs that an earlier release stored, without a key, after a hash.
pub async fn earlier_after(
    tx: &mut Tx,
    workspace: i32,
    who: &[u8],
    limit: i64,
) -> Result<Vec<(Vec<u8>, i64)>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT who, decided_at FROM unsubscribed_emails
         WHERE workspace_id = $1 AND who > $2 ORDER BY who LIMIT $3",
    )
    .bind(workspace).bind(who).bind(limit).fetch_all(c).await?))
}

/// Stores such opt-outs: of two of an address, the later one.
pub async fn put_earlier(
    tx: &mut Tx,
    workspace: i32,
    rows: &[(Hash, i64)],
) -> Result<(), StoreError> {
    let mut last: BTreeMap<Hash, i64> = BTreeMap::new();
    for (who, at) in rows {
        let latest = last.entry(*who).or_insert(*at);
        *latest = *at.max(latest);
    }
    let rows: Vec<(Hash, i64)> = last.into_iter().collect();
    insert_rows!(tx, "unsubscribed_emails", rows, |row| {
        workspace_id: workspace,
        who: &row.0[..],
        decided_at: row.1,
    }, "ON CONFLICT (workspace_id, who) DO UPDATE SET decided_at = excluded.decided_at
        WHERE unsubscribed_emails.decided_at < excluded.decided_at");
    Ok(())
}

/// The key of a workspace as text, and whether it has suppressions.
pub async fn key(tx: &mut Tx, workspace: i32) -> Result<(Option<String>, bool), StoreError> {
    let known: Known = suppression_rows::known(tx, workspace).await?;
    let is_empty = known.is_empty();
    Ok((known.key.map(|key| hex::encode(key.bytes())), !is_empty))
}

/// Reads a key from text.
pub fn key_from_hex(text: &str) -> Option<Key> {
    Key::new(&hex::decode(text).ok()?)
}

/// Gives a workspace the key of hashes that are to be stored. Returns false if it has hashes with
/// another key.
pub async fn take_key(tx: &mut Tx, workspace: i32, key: &Key) -> Result<bool, StoreError> {
    let known = suppression_rows::known(tx, workspace).await?.key;
    if known.as_ref().is_some_and(|known| known.bytes() == key.bytes()) {
        return Ok(true);
    }
    let first = rows_after(tx, workspace, &Position::default(), 1).await?;
    if known.is_some() && !first.is_empty() {
        return Ok(false);
    }
    execute!(
        tx,
        sqlx::query(
            "INSERT INTO suppression_keys (workspace_id, key) VALUES ($1, $2)
             ON CONFLICT (workspace_id) DO UPDATE SET key = excluded.key",
        )
        .bind(workspace)
        .bind(key.bytes())
    );
    Ok(true)
}
