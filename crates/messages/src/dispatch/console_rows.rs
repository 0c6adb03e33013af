//! The SQL of the developer console.

use serde_json::Value;
use uuid::Uuid;

use store::{StoreError, Tx, execute, from_row, on};

pub(super) async fn add(
    tx: &mut Tx,
    workspace: i32,
    dispatch: Uuid,
    at: i64,
    record: &Value,
) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "INSERT INTO console_log (dispatch_id, workspace_id, at, record)
             VALUES ($1, $2, $3, $4) ON CONFLICT (dispatch_id) DO NOTHING",
        )
        .bind(dispatch)
        .bind(workspace)
        .bind(at)
        .bind(record.to_string())
    );
    Ok(())
}

/// A record of the developer console.
#[derive(Clone, Debug)]
pub struct ConsoleRecord {
    pub dispatch_id: Uuid,
    pub at: i64,
    /// A JSON object.
    pub record: String,
}
from_row! { ConsoleRecord { dispatch_id, at, record } }

/// A workspace's latest records; only those after `after` in this order.
pub async fn console_records(
    tx: &mut Tx,
    workspace: i32,
    after: Option<Uuid>,
    limit: u32,
) -> Result<Vec<ConsoleRecord>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT dispatch_id, at, record FROM console_log
         WHERE workspace_id = $1
           AND ($2 IS NULL OR (at, dispatch_id) < (SELECT at, dispatch_id FROM console_log
                                                   WHERE dispatch_id = $2))
         ORDER BY at DESC, dispatch_id DESC LIMIT $3",
    )
    .bind(workspace).bind(after).bind(i64::from(limit)).fetch_all(c).await?))
}
