//! The SQL of what is known about addresses ([`super::suppressions`]). Rows are written in the order
//! of their keys, after those of users.

use std::collections::BTreeMap;

use serde::Serialize;

use uuid::Uuid;

use super::suppressions::{EMAIL, Hash, Key, Reason, SUPPRESSED};
use store::retention::OldRows;
use store::{
    StoreError, Tx, claims, execute, fetch_listed, from_row, insert_rows, now_sql, old_rows, on,
    to_json,
};

/// A row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub who: Vec<u8>,
    pub scope: String,
    pub reason: Reason,
    pub state: String,
    pub decided_at: i64,
    /// Only of bounces: their end, and the dispatch of the email.
    pub until: Option<i64>,
    pub cause: Option<Uuid>,
}
from_row! { Stored { who, scope, reason, state, decided_at, until, cause } }

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
    /// The database's clock, in milliseconds since the epoch.
    pub now: i64,
}

impl Known {
    pub fn is_empty(&self) -> bool {
        !self.has_rows && !self.has_earlier
    }
}

/// Whether something is known about any address of a workspace.
pub async fn known(tx: &mut Tx, workspace: i32) -> Result<Known, StoreError> {
    macro_rules! known {
        ($database:ident) => {
            concat!(
                "SELECT (SELECT key FROM suppression_keys WHERE workspace_id = $1),
                        EXISTS (SELECT 1 FROM suppressions WHERE workspace_id = $1),
                        EXISTS (SELECT 1 FROM unsubscribed_emails WHERE workspace_id = $1), ",
                now_sql!($database)
            )
        };
    }
    let sql = if tx.is_postgres() { known!(postgres) } else { known!(sqlite) };
    let (key, has_rows, has_earlier, now): (Option<Vec<u8>>, bool, bool, i64) =
        on!(tx, c => sqlx::query_as(sql).bind(workspace).fetch_one(c).await?);
    Ok(Known { key: key.map(|key| read_key(&key)).transpose()?, has_rows, has_earlier, now })
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

/// The rows of addresses that apply at a time: no bounces that have ended, nor those that the relay
/// caused.
pub async fn find(
    tx: &mut Tx,
    workspace: i32,
    hashes: &[Hash],
    now: i64,
) -> Result<Vec<Stored>, StoreError> {
    Ok(fetch_listed!(
        tx,
        query_as,
        each hashes(hashes),
        "SELECT who, scope, reason, state, decided_at, until, cause FROM suppressions
         WHERE workspace_id = $2
           AND CASE WHEN until IS NULL THEN TRUE WHEN until <= $3 THEN FALSE
                    ELSE NOT EXISTS (SELECT 1 FROM dispatch_bounces alike
                                     WHERE alike.dispatch_id = cause
                                       AND alike.status = suppressions.status AND is_relay) END
           AND who",
        workspace,
        now
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
        until: row.until,
        cause: row.cause,
    }, "ON CONFLICT (workspace_id, who, scope, reason) DO UPDATE
        SET state = excluded.state, decided_at = excluded.decided_at, until = excluded.until,
            cause = excluded.cause, status = excluded.status
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

/// Deletes the complaints and bounces of an address.
pub async fn remove_stops(tx: &mut Tx, workspace: i32, hash: &Hash) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "DELETE FROM suppressions
             WHERE workspace_id = $1 AND who = $2 AND reason <> 'decision'",
        )
        .bind(workspace)
        .bind(&hash[..])
    );
    Ok(())
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
    let now = claims::now(tx).await?;
    let counts = on!(tx, c => sqlx::query_as(
        "SELECT scope, reason, count(*) AS addresses FROM suppressions
         WHERE workspace_id = $1 AND state IN ('unsubscribed', 'suppressed')
           AND CASE WHEN until IS NULL THEN TRUE WHEN until <= $2 THEN FALSE
                    ELSE NOT EXISTS (SELECT 1 FROM dispatch_bounces alike
                                     WHERE alike.dispatch_id = cause
                                       AND alike.status = suppressions.status AND is_relay) END
         GROUP BY scope, reason ORDER BY scope, reason",
    )
    .bind(workspace).bind(now).fetch_all(c).await?);
    let earlier = on!(tx, c => sqlx::query_scalar(
        "SELECT count(*) FROM unsubscribed_emails WHERE workspace_id = $1",
    )
    .bind(workspace).fetch_one(c).await?);
    Ok((counts, earlier))
}

// Bounces --------------------------------------------------------------------------------------

/// Bounces that have ended.
pub const EXPIRED: OldRows =
    old_rows!("suppressions", "until <= $1", 5_000, key = "workspace_id, who, scope, reason");

/// A bounce to store.
pub struct NewBounce {
    pub who: Hash,
    pub until: i64,
    pub status: &'static str,
}

/// Stores bounces, unless an earlier one of the address still applies.
pub async fn put_bounces(
    tx: &mut Tx,
    workspace: i32,
    dispatch: Uuid,
    bounces: &[NewBounce],
    now: i64,
) -> Result<(), StoreError> {
    insert_rows!(tx, "suppressions", bounces, |bounce| {
        workspace_id: workspace,
        who: &bounce.who[..],
        scope: EMAIL,
        reason: Reason::Bounce.name(),
        state: SUPPRESSED,
        decided_at: now,
        until: bounce.until,
        cause: dispatch,
        status: bounce.status,
    }, "ON CONFLICT (workspace_id, who, scope, reason) DO UPDATE
        SET decided_at = excluded.decided_at, until = excluded.until, cause = excluded.cause,
            status = excluded.status
        WHERE suppressions.until <= excluded.decided_at
           OR EXISTS (SELECT 1 FROM dispatch_bounces alike
                      WHERE alike.dispatch_id = suppressions.cause
                        AND alike.status = suppressions.status AND is_relay)");
    Ok(())
}

/// Deletes the bounces of emails of these dispatches, with the same status.
pub async fn remove_bounces(
    tx: &mut Tx,
    workspace: i32,
    dispatches: &[Uuid],
    status: &str,
) -> Result<(), StoreError> {
    match tx {
        Tx::Postgres(tx) => {
            // Locked in the order in which rows are written.
            sqlx::query(
                "WITH alike AS MATERIALIZED (
                     SELECT who, scope FROM suppressions
                     WHERE workspace_id = $1 AND cause = ANY($2) AND status = $3
                     ORDER BY who FOR UPDATE)
                 DELETE FROM suppressions USING alike
                 WHERE workspace_id = $1 AND suppressions.who = alike.who
                   AND suppressions.scope = alike.scope AND reason = 'bounce'
                   AND cause = ANY($2) AND status = $3",
            )
            .bind(workspace)
            .bind(dispatches)
            .bind(status)
            .execute(&mut **tx)
            .await?;
        }
        Tx::Sqlite(tx) => {
            sqlx::query(
                "DELETE FROM suppressions
                 WHERE workspace_id = $1 AND status = $3
                   AND cause IN (SELECT unhex(value, '-') FROM json_each($2))",
            )
            .bind(workspace)
            .bind(to_json(dispatches)?)
            .bind(status)
            .execute(&mut **tx)
            .await?;
        }
    }
    Ok(())
}

/// Adds to the number of a dispatch's emails that failed alike.
pub async fn count_bounces(
    tx: &mut Tx,
    dispatch: Uuid,
    status: &str,
    alike: i64,
) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "INSERT INTO dispatch_bounces AS had (dispatch_id, status, bounces) VALUES ($1, $2, $3)
             ON CONFLICT (dispatch_id, status) DO UPDATE
             SET bounces = had.bounces + excluded.bounces",
        )
        .bind(dispatch)
        .bind(status)
        .bind(alike)
    );
    Ok(())
}

/// How many emails of a dispatch failed alike, and whether the relay is the cause: by status. Locks
/// them.
pub async fn bounce_counts(
    tx: &mut Tx,
    dispatch: Uuid,
) -> Result<Vec<(String, i64, bool)>, StoreError> {
    let sql = if tx.is_postgres() {
        "SELECT status, bounces, is_relay FROM dispatch_bounces WHERE dispatch_id = $1
         ORDER BY status FOR UPDATE"
    } else {
        "SELECT status, bounces, is_relay FROM dispatch_bounces WHERE dispatch_id = $1
         ORDER BY status"
    };
    Ok(on!(tx, c => sqlx::query_as(sql).bind(dispatch).fetch_all(c).await?))
}

pub async fn mark_relay(
    tx: &mut Tx,
    dispatch: Uuid,
    status: &str,
    is_relay: bool,
) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "UPDATE dispatch_bounces SET is_relay = $3 WHERE dispatch_id = $1 AND status = $2",
        )
        .bind(dispatch)
        .bind(status)
        .bind(is_relay)
    );
    Ok(())
}
