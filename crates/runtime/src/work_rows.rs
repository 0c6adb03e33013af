//! The SQL of the unfinished work of the whole fleet.

use sqlx::AssertSqlSafe;
use uuid::Uuid;

use store::claims::attempts_sql;
use store::{StoreError, Tx, from_row, on};

/// Claims of one kind.
#[derive(Clone, Debug)]
pub struct Work {
    pub kind: String,
    pub ready: i64,
    pub held: i64,
    /// When the oldest ready claim became due, in milliseconds since the epoch by the database's
    /// clock.
    pub since: Option<i64>,
}
from_row! { Work { kind, ready, held, since } }

/// The claims by kind, without rows for unused kinds. Each count stops at `limit`. Reads only
/// indexes, so it does not become slower with history.
pub async fn work(tx: &mut Tx, now: i64, limit: i64) -> Result<Vec<Work>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "WITH RECURSIVE kinds AS (
             SELECT (SELECT kind FROM claims ORDER BY kind LIMIT 1) AS kind
             UNION ALL
             SELECT (SELECT kind FROM claims WHERE kind > kinds.kind ORDER BY kind LIMIT 1)
             FROM kinds WHERE kinds.kind IS NOT NULL
         )
         SELECT kind,
                (SELECT count(*) FROM (
                     SELECT due_at FROM claims WHERE kind = kinds.kind AND due_at <= $1
                     ORDER BY due_at LIMIT $2) AS counted) AS ready,
                (SELECT count(*) FROM (
                     SELECT due_at FROM claims WHERE kind = kinds.kind AND owner IS NOT NULL
                     ORDER BY job LIMIT $2) AS counted WHERE due_at > $1) AS held,
                (SELECT due_at FROM claims WHERE kind = kinds.kind AND due_at <= $1
                 ORDER BY due_at LIMIT 1) AS since
         FROM kinds WHERE kind IS NOT NULL",
    )
    .bind(now)
    .bind(limit)
    .fetch_all(c)
    .await?))
}

/// A claim that a worker holds. Once its lease has expired, the worker was lost, and another one
/// may claim it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub kind: String,
    pub job: Uuid,
    pub item: i64,
    /// None if the job has none.
    pub workspace_id: Option<i32>,
    /// The attempts that have begun.
    pub attempt: i32,
    /// When the lease expires unless the worker renews it, in milliseconds since the epoch by the
    /// database's clock.
    pub expires_at: i64,
}
from_row! { Lease { kind, job, item, workspace_id, attempt, expires_at } }

/// The first `limit` claims with a lease, by kind and job. Reads only the index of claims with an
/// owner.
pub async fn leases(tx: &mut Tx, limit: i64) -> Result<Vec<Lease>, StoreError> {
    let sql = format!(
        "SELECT kind, job, item, nullif(workspace_id, 0) AS workspace_id, {} AS attempt,
                due_at AS expires_at
         FROM claims WHERE owner IS NOT NULL ORDER BY kind, job, item LIMIT $1",
        attempts_sql("attempt"),
    );
    Ok(on!(tx, c => sqlx::query_as(AssertSqlSafe(sql.clone()))
    .bind(limit)
    .fetch_all(c)
    .await?))
}
