//! The SQL of the processes.

use uuid::Uuid;

use crate::processes::Process;
use store::{StoreError, Tx, execute, from_row, on};

from_row! { Process { id, host, pid, roles, version, started_at, seen_at } }

pub(super) async fn put(
    tx: &mut Tx,
    process: &Process,
    started_at: i64,
    now: i64,
) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "INSERT INTO processes (id, host, pid, roles, version, started_at, seen_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7)
             ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at",
        )
        .bind(process.id)
        .bind(&process.host)
        .bind(process.pid)
        .bind(&process.roles)
        .bind(&process.version)
        .bind(started_at)
        .bind(now)
    );
    Ok(())
}

/// Deletes the rows of processes that were last seen before a time.
pub(super) async fn delete_old(tx: &mut Tx, before: i64) -> Result<(), StoreError> {
    execute!(tx, sqlx::query("DELETE FROM processes WHERE seen_at < $1").bind(before));
    Ok(())
}

pub(super) async fn delete(tx: &mut Tx, id: Uuid) -> Result<(), StoreError> {
    execute!(tx, sqlx::query("DELETE FROM processes WHERE id = $1").bind(id));
    Ok(())
}

/// Processes that are listed.
const MAX_LISTED: i64 = 1_000;

/// The processes that were seen lately, by host, and the earliest first.
pub async fn list(tx: &mut Tx) -> Result<Vec<Process>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT id, host, pid, roles, version, started_at, seen_at FROM processes
         ORDER BY host, started_at, id LIMIT $1",
    )
    .bind(MAX_LISTED)
    .fetch_all(c)
    .await?))
}
