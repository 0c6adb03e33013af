//! The SQL of the developer console.

use uuid::Uuid;

use store::{StoreError, Tx, from_row, on};

/// A record of the developer console.
#[derive(Clone, Debug)]
pub struct ConsoleRecord {
    pub dispatch_id: Uuid,
    pub at: i64,
    /// A JSON object. Empty if it is too long.
    pub record: String,
}
from_row! { ConsoleRecord { dispatch_id, at, record } }

/// A workspace's latest records; only those after `after` in this order. None if there is no such record.
/// Records of more than `max_bytes` are empty.
pub async fn console_records(
    tx: &mut Tx,
    workspace: i32,
    after: Option<Uuid>,
    limit: u32,
    max_bytes: i64,
) -> Result<Vec<ConsoleRecord>, StoreError> {
    let position = match after {
        Some(id) => at(tx, workspace, id).await?.map(|at| (at, id)),
        None => Some((i64::MAX, Uuid::nil())),
    };
    let Some((at, id)) = position else { return Ok(Vec::new()) };
    // The first condition selects a range of the index.
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT dispatch_id, at,
                CASE WHEN octet_length(record) <= $5 THEN record ELSE '' END AS record
         FROM console_log
         WHERE workspace_id = $1 AND at <= $2 AND (at < $2 OR dispatch_id < $3)
         ORDER BY at DESC, dispatch_id DESC LIMIT $4",
    )
    .bind(workspace).bind(at).bind(id).bind(i64::from(limit)).bind(max_bytes)
    .fetch_all(c).await?))
}

async fn at(tx: &mut Tx, workspace: i32, id: Uuid) -> Result<Option<i64>, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar(
        "SELECT at FROM console_log WHERE dispatch_id = $2 AND workspace_id = $1",
    )
    .bind(workspace).bind(id).fetch_optional(c).await?))
}
