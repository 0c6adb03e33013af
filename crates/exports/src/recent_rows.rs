//! The SQL of the latest exports, for an overview. Each statement reads an index up to a limit, so
//! none becomes slower with history.

use sqlx::AssertSqlSafe;

use super::State;
use store::{StoreError, Tx, from_row, on};

/// How many of the latest jobs are counted.
pub const MAX_COUNTED: i64 = 1_000;

/// A failed export.
#[derive(Clone, Debug)]
pub struct FailedExport {
    pub workspace_id: i32,
    pub object_prefix: String,
    /// The text for the customer.
    pub error: Option<String>,
    /// In milliseconds since the epoch.
    pub finished_at: i64,
}
from_row! { FailedExport { workspace_id, object_prefix, error, finished_at } }

/// The number of exports by state: of those in progress, and of those that ended since a time.
/// Counts the latest [`MAX_COUNTED`] jobs.
pub async fn count_since(
    tx: &mut Tx,
    workspace: Option<i32>,
    since: i64,
) -> Result<Vec<(State, i64)>, StoreError> {
    // Ids are in the order of the requests. Each order is that of an index.
    let (workspace_is, order) = match workspace {
        Some(_) => ("workspace_id = $1", "requested_at DESC, id DESC"),
        None => ("$1 IS NULL", "id DESC"),
    };
    let sql = format!(
        "SELECT state, count(*) FROM (
             SELECT state, finished_at FROM export_jobs WHERE {workspace_is}
             ORDER BY {order} LIMIT {MAX_COUNTED}) AS latest
         WHERE finished_at IS NULL OR finished_at >= $2 GROUP BY state"
    );
    let counts: Vec<(String, i64)> = on!(tx, c => sqlx::query_as(AssertSqlSafe(sql.clone()))
        .bind(workspace).bind(since).fetch_all(c).await?);
    let read = |(state, count): (String, i64)| {
        let state = State::from_name(&state)
            .ok_or_else(|| StoreError::Corrupt("export_jobs.state".into()))?;
        Ok((state, count))
    };
    counts.into_iter().map(read).collect()
}

/// The exports that failed since a time, latest first; of one workspace, only its `limit` latest
/// requests of those.
pub async fn failed_since(
    tx: &mut Tx,
    workspace: Option<i32>,
    since: i64,
    limit: i64,
) -> Result<Vec<FailedExport>, StoreError> {
    // The state as text: an index has only failed exports.
    let sql = match workspace {
        Some(_) => {
            "SELECT workspace_id, object_prefix, error, finished_at FROM (
                 SELECT workspace_id, object_prefix, error, finished_at FROM export_jobs
                 WHERE workspace_id = $1 AND state = 'failed'
                 ORDER BY requested_at DESC, id DESC LIMIT $3) AS latest
             WHERE finished_at >= $2 ORDER BY finished_at DESC"
        }
        None => {
            "SELECT workspace_id, object_prefix, error, finished_at FROM export_jobs
             WHERE $1 IS NULL AND state = 'failed' AND finished_at >= $2
             ORDER BY finished_at DESC LIMIT $3"
        }
    };
    Ok(on!(tx, c => sqlx::query_as(sql)
        .bind(workspace).bind(since).bind(limit).fetch_all(c).await?))
}
