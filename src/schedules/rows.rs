//! The SQL of scheduled sends.

use uuid::Uuid;

use super::{Filter, Schedule, State, When};
use crate::store::{StoreError, Tx, execute, on};

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT s.id, s.workspace_id, w.name AS workspace, s.dispatch_id, s.canvas_id, s.state,
                    s.timing, s.time, s.created_at, s.ended_at, s.request_id, s.request
             FROM schedules s JOIN workspaces w ON w.id = s.workspace_id ",
            $rest
        )
    };
}

/// A schedule to write.
#[derive(Debug)]
pub struct New {
    pub id: Uuid,
    pub workspace_id: i32,
    pub dispatch_id: Uuid,
    pub canvas_id: Option<Uuid>,
    pub when: When,
    /// JSON.
    pub request: String,
    pub request_id: String,
    pub created_at: i64,
}

pub async fn insert(tx: &mut Tx, new: &New) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "INSERT INTO schedules (id, workspace_id, dispatch_id, canvas_id, timing, time,
                                    request, request_id, state, created_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'pending', $9)",
        )
        .bind(new.id)
        .bind(new.workspace_id)
        .bind(new.dispatch_id)
        .bind(new.canvas_id)
        .bind(new.when.timing.name())
        .bind(new.when.time)
        .bind(&new.request)
        .bind(&new.request_id)
        .bind(new.created_at)
    );
    Ok(())
}

pub async fn by_id(tx: &mut Tx, id: Uuid) -> Result<Option<Schedule>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(select!("WHERE s.id = $1"))
        .bind(id)
        .fetch_optional(c)
        .await?))
}

/// The schedules that pass `filter`, the youngest first.
pub async fn list(tx: &mut Tx, filter: &Filter) -> Result<Vec<Schedule>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(select!(
        "WHERE ($1 IS NULL OR s.state = $1) AND ($2 IS NULL OR w.name = $2)
         ORDER BY s.created_at DESC, s.id DESC LIMIT $3"
    ))
    .bind(filter.state.map(State::name))
    .bind(filter.workspace.as_deref())
    .bind(i64::from(filter.limit))
    .fetch_all(c)
    .await?))
}

/// Cancels a schedule that is pending; whether it was.
pub async fn cancel(tx: &mut Tx, id: Uuid, now: i64) -> Result<bool, StoreError> {
    let cancelled = execute!(
        tx,
        sqlx::query(
            "UPDATE schedules SET state = 'cancelled', ended_at = $2
             WHERE id = $1 AND state = 'pending'",
        )
        .bind(id)
        .bind(now)
    );
    Ok(cancelled == 1)
}

/// Cancels what is pending of Canvases that the workspace does not have.
pub async fn cancel_orphans(tx: &mut Tx, workspace: i32, now: i64) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "UPDATE schedules SET state = 'cancelled', ended_at = $2
             WHERE workspace_id = $1 AND state = 'pending' AND canvas_id IS NOT NULL
               AND NOT EXISTS (SELECT 1 FROM campaigns c
                               WHERE c.workspace_id = schedules.workspace_id
                                 AND c.id = schedules.canvas_id AND c.kind = 'canvas')",
        )
        .bind(workspace)
        .bind(now)
    );
    Ok(())
}
