//! The SQL of the developer console.

use serde_json::Value;
use uuid::Uuid;

use store::{StoreError, Tx, execute};

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
