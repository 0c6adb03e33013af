//! The SQL of the unfinished work of the whole fleet.

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

/// The claims by kind, without rows for unused kinds. Each count stops at `limit`. Reads only indexes,
/// so it does not become slower with history.
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
