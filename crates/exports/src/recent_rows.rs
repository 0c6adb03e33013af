//! The SQL of the latest exports, for an overview. Each statement reads at most the latest
//! [`MAX_READ`] jobs, so none becomes slower with history.

use sqlx::AssertSqlSafe;

use super::State;
use store::{StoreError, Tx, from_row, on};

/// How many of the latest jobs are read.
pub const MAX_READ: i64 = 5_000;

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

/// The latest jobs of a workspace, or of all.
fn latest(columns: &str, workspace: Option<i32>) -> String {
    // Ids are in the order of the requests. Each order is that of an index.
    let (workspace, order) = match workspace {
        Some(_) => ("workspace_id = $1", "requested_at DESC, id DESC"),
        None => ("$1 IS NULL", "id DESC"),
    };
    format!("SELECT {columns} FROM export_jobs WHERE {workspace} ORDER BY {order} LIMIT {MAX_READ}")
}

/// The number of exports by state: of those in progress, and of those that ended since a time.
pub async fn count_since(
    tx: &mut Tx,
    workspace: Option<i32>,
    since: i64,
) -> Result<Vec<(State, i64)>, StoreError> {
    let sql = format!(
        "SELECT state, count(*) FROM ({}) AS latest
         WHERE finished_at IS NULL OR finished_at >= $2 GROUP BY state",
        latest("state, finished_at", workspace)
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

/// The exports that failed since a time, latest first.
pub async fn failed_since(
    tx: &mut Tx,
    workspace: Option<i32>,
    since: i64,
    limit: i64,
) -> Result<Vec<FailedExport>, StoreError> {
    let columns = "workspace_id, object_prefix, state, error, finished_at";
    let sql = format!(
        "SELECT workspace_id, object_prefix, error, finished_at FROM ({}) AS latest
         WHERE state = $2 AND finished_at >= $3 ORDER BY finished_at DESC LIMIT $4",
        latest(columns, workspace)
    );
    Ok(on!(tx, c => sqlx::query_as(AssertSqlSafe(sql.clone()))
        .bind(workspace).bind(State::Failed.name()).bind(since).bind(limit).fetch_all(c).await?))
}
