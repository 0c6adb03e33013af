//! The SQL of storages: failures while a job is in progress, and settings that nothing refers to.

use uuid::Uuid;

use super::storage_health::WaitingExport;
use store::{StoreError, Tx, execute, from_row, on};

from_row! { WaitingExport { workspace_id, workspace, object_prefix, error, detail } }

/// Since when a job in progress has been waiting for its storage, or since when the storage has
/// refused its requests: `now`, if it did not before. A process of an earlier release ends the wait
/// with the error alone.
pub async fn waits_since(
    tx: &mut Tx,
    id: Uuid,
    is_refusal: bool,
    now: i64,
) -> Result<i64, StoreError> {
    let since = on!(tx, c => sqlx::query_scalar(
        "UPDATE export_jobs SET
             waiting_since = CASE WHEN error IS NULL THEN $2 ELSE coalesce(waiting_since, $2) END,
             refused_since = CASE WHEN NOT $3 THEN NULL WHEN error IS NULL THEN $2
                                  ELSE coalesce(refused_since, $2) END
         WHERE id = $1 AND state IN ('running', 'finishing')
         RETURNING coalesce(refused_since, waiting_since)",
    )
    .bind(id).bind(now).bind(is_refusal).fetch_optional(c).await?);
    Ok(since.unwrap_or(now))
}

/// Stores why a job's files cannot be stored: the texts for the customer and the operator.
pub async fn note_failure(
    tx: &mut Tx,
    id: Uuid,
    message: &str,
    detail: &str,
) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "UPDATE export_jobs SET error = $2, error_detail = $3
             WHERE id = $1 AND state IN ('running', 'finishing')
               AND (error IS NULL OR error <> $2)",
        )
        .bind(id)
        .bind(message)
        .bind(detail)
    );
    Ok(())
}

/// Deletes the stored failure.
pub async fn clear_failure(tx: &mut Tx, id: Uuid) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "UPDATE export_jobs SET error = NULL, error_detail = NULL, waiting_since = NULL,
                                    refused_since = NULL
             WHERE id = $1 AND state IN ('running', 'finishing')
               AND (waiting_since IS NOT NULL OR error IS NOT NULL)",
        )
        .bind(id)
    );
    Ok(())
}

/// Jobs in progress whose files cannot be stored, of a workspace or of all, oldest first.
pub async fn waiting(
    tx: &mut Tx,
    workspace: Option<i32>,
    limit: i64,
) -> Result<Vec<WaitingExport>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT workspace_id, name AS workspace, object_prefix, error,
                coalesce(error_detail, error) AS detail
         FROM export_jobs JOIN workspaces ON workspaces.id = workspace_id
         WHERE finished_at IS NULL AND error IS NOT NULL AND ($1 IS NULL OR workspace_id = $1)
         ORDER BY requested_at LIMIT $2",
    )
    .bind(workspace).bind(limit).fetch_all(c).await?))
}

/// Settings of own storage that neither a workspace nor a stored export has, the oldest first.
pub async fn unused_settings(tx: &mut Tx, limit: i64) -> Result<Vec<Uuid>, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar(
        "SELECT id FROM storages
         WHERE NOT EXISTS (SELECT 1 FROM workspaces
                           WHERE workspaces.id = storages.workspace_id
                             AND (s3_storage = storages.id OR azure_storage = storages.id))
           AND NOT EXISTS (SELECT 1 FROM named_storages
                           WHERE named_storages.workspace_id = storages.workspace_id
                             AND storage_id = storages.id)
           AND NOT EXISTS (SELECT 1 FROM export_jobs
                           WHERE export_jobs.workspace_id = storages.workspace_id
                             AND export_jobs.storage_id = storages.id)
         ORDER BY id LIMIT $1",
    )
    .bind(limit).fetch_all(c).await?))
}

pub async fn delete_settings(tx: &mut Tx, id: Uuid) -> Result<(), StoreError> {
    execute!(tx, sqlx::query("DELETE FROM storages WHERE id = $1").bind(id));
    Ok(())
}
