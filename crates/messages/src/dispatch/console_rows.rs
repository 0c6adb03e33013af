//! The SQL of the developer console.

use serde_json::Value;
use uuid::Uuid;

use store::{StoreError, Tx, execute, on};

/// Writes a record, or replaces it when other parts of an ended dispatch are settled.
pub(super) async fn put(
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
             VALUES ($1, $2, $3, $4)
             ON CONFLICT (dispatch_id) DO UPDATE SET at = excluded.at, record = excluded.record",
        )
        .bind(dispatch)
        .bind(workspace)
        .bind(at)
        .bind(record.to_string())
    );
    Ok(())
}

/// When the request of a schedule was accepted; none for other dispatches.
pub(super) async fn schedule_requested_at(
    tx: &mut Tx,
    dispatch: Uuid,
) -> Result<Option<i64>, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar("SELECT created_at FROM schedules WHERE dispatch_id = $1")
        .bind(dispatch).fetch_optional(c).await?))
}
