//! The SQL of late exports.

use uuid::Uuid;

use store::{StoreError, Tx, execute, on};

/// Unfinished exports that are late and not marked, oldest first.
pub async fn unmarked(tx: &mut Tx, now: i64, limit: i64) -> Result<Vec<Uuid>, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar(
        "SELECT export_jobs.id
         FROM export_jobs JOIN workspaces ON workspaces.id = workspace_id
         WHERE finished_at IS NULL AND late_at IS NULL AND requested_at <= $1 - export_late_ms
         ORDER BY requested_at LIMIT $2",
    )
    .bind(now).bind(limit).fetch_all(c).await?))
}

/// Marks an unfinished export that is late; `false` if it is not late, has ended or is marked.
pub async fn mark(tx: &mut Tx, id: Uuid, now: i64) -> Result<bool, StoreError> {
    let marked = execute!(
        tx,
        sqlx::query(
            "UPDATE export_jobs SET late_at = $2
             WHERE id = $1 AND finished_at IS NULL AND late_at IS NULL AND requested_at <= $2 -
                 (SELECT export_late_ms FROM workspaces WHERE workspaces.id = workspace_id)",
        )
        .bind(id)
        .bind(now)
    );
    Ok(marked == 1)
}
