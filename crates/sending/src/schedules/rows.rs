//! The SQL of scheduled sends.

use uuid::Uuid;

use super::{Filter, Position, Schedule, State};
use messages::When;
use messages::dispatch::shown_state;
use messages::waves::Progress;
use store::retention::OldRows;
use store::{StoreError, Tx, execute, old_rows, on};

/// The state of a schedule, with those that are never stored.
macro_rules! schedule_state {
    () => {
        concat!(
            "CASE WHEN s.state = 'sent' AND s.ended_at IS NULL THEN 'sending' ELSE ",
            shown_state!("s.state", "s.dispatch_id"),
            " END"
        )
    };
}

macro_rules! select {
    ($rest:expr) => {
        select!("s.request", $rest)
    };
    ($request:expr, $rest:expr) => {
        concat!(
            "SELECT s.id, s.workspace_id, w.name AS workspace, s.dispatch_id, s.canvas_id, ",
            schedule_state!(),
            " AS state, s.timing, s.time, s.created_at,
                    coalesce(s.timed_at, s.created_at) AS timed_at, s.sent_at, s.ended_at, s.reached_at,
                    s.missed_at, s.error, s.request_id, ",
            $request,
            " FROM schedules s JOIN workspaces w ON w.id = s.workspace_id ",
            $rest
        )
    };
}

pub(super) use {schedule_state, select};

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

/// Inserts a schedule; `item` is the item of its claim.
pub(super) async fn insert(tx: &mut Tx, new: &New, item: i64) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "INSERT INTO schedules (id, workspace_id, dispatch_id, canvas_id, item, timing, time,
                                    request, request_id, state, created_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 'pending', $10)",
        )
        .bind(new.id)
        .bind(new.workspace_id)
        .bind(new.dispatch_id)
        .bind(new.canvas_id)
        .bind(item)
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

/// The schedules that match `filter`, the newest first.
pub async fn list(tx: &mut Tx, filter: &Filter) -> Result<Vec<Schedule>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(select!(concat!(
        "WHERE ($1 IS NULL OR ",
        schedule_state!(),
        " = $1) AND ($2 IS NULL OR w.name = $2)
           AND ($3 IS NULL OR (s.created_at, s.id) < (SELECT created_at, id FROM schedules
                                                      WHERE id = $3))
         ORDER BY s.created_at DESC, s.id DESC LIMIT $4"
    )))
    .bind(filter.state.map(State::name))
    .bind(filter.workspace.as_deref())
    .bind(filter.after)
    .bind(i64::from(filter.limit))
    .fetch_all(c)
    .await?))
}

/// A schedule, locked until the end of the transaction.
pub(super) async fn lock(tx: &mut Tx, id: Uuid) -> Result<Option<Schedule>, StoreError> {
    let sql = if tx.is_postgres() {
        select!("WHERE s.id = $1 FOR UPDATE OF s")
    } else {
        select!("WHERE s.id = $1")
    };
    Ok(on!(tx, c => sqlx::query_as(sql).bind(id).fetch_optional(c).await?))
}

/// The schedule of a claim's item, locked until the end of the transaction.
pub(super) async fn lock_item(
    tx: &mut Tx,
    workspace: i32,
    item: i64,
) -> Result<Option<Schedule>, StoreError> {
    let sql = if tx.is_postgres() {
        select!("WHERE s.workspace_id = $1 AND s.item = $2 FOR UPDATE OF s")
    } else {
        select!("WHERE s.workspace_id = $1 AND s.item = $2")
    };
    Ok(on!(tx, c => sqlx::query_as(sql).bind(workspace).bind(item).fetch_optional(c).await?))
}

/// When schedules of all workspaces were created and ended, after a position in the order of their
/// creation. Without their requests, which can have megabytes.
pub(super) async fn ends_after(
    tx: &mut Tx,
    (created_at, id): Position,
    limit: i64,
) -> Result<Vec<(Uuid, i64, Option<i64>)>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT id, created_at, ended_at FROM schedules WHERE (created_at, id) > ($1, $2)
         ORDER BY created_at, id LIMIT $3",
    )
    .bind(created_at).bind(id).bind(limit).fetch_all(c).await?))
}

/// Cancels a locked schedule; `request` replaces its request, if it is set.
pub(super) async fn cancel(
    tx: &mut Tx,
    id: Uuid,
    request: Option<&str>,
    now: i64,
) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "UPDATE schedules SET state = 'cancelled', ended_at = $2,
                                  request = COALESCE($3, request)
             WHERE id = $1",
        )
        .bind(id)
        .bind(now)
        .bind(request)
    );
    Ok(())
}

/// Replaces the request of a locked schedule.
pub(super) async fn set_request(tx: &mut Tx, id: Uuid, request: &str) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query("UPDATE schedules SET request = $2 WHERE id = $1").bind(id).bind(request)
    );
    Ok(())
}

/// Changes the time of a locked schedule, when that time was set, and the request.
pub(super) async fn reschedule(
    tx: &mut Tx,
    schedule: &Schedule,
    when: When,
    timed_at: i64,
) -> Result<(), StoreError> {
    const UPDATE: &str = "UPDATE schedules SET timing = $2, time = $3, request = $4, timed_at = $5,
                              missed_at = NULL
         WHERE id = $1";
    execute!(
        tx,
        sqlx::query(UPDATE)
            .bind(schedule.id)
            .bind(when.timing.name())
            .bind(when.time)
            .bind(&schedule.request)
            .bind(timed_at)
    );
    Ok(())
}

/// The changes of a fired schedule.
#[derive(Debug)]
pub(super) struct Fired<'a> {
    pub state: State,
    pub progress: Progress,
    /// Also set if sending began before.
    pub sent_at: Option<i64>,
    pub ended_at: Option<i64>,
    pub error: Option<&'a str>,
    /// Replaces the request, if it is set.
    pub request: Option<String>,
}

/// Writes the changes; returns whether the schedule was unchanged since it was read.
pub(super) async fn store_fired(
    tx: &mut Tx,
    schedule: &Schedule,
    fired: &Fired<'_>,
) -> Result<bool, StoreError> {
    let stored_state = match schedule.state {
        State::Sending => State::Sent,
        state => state,
    };
    let written = execute!(
        tx,
        sqlx::query(
            "UPDATE schedules SET state = $3, reached_at = $4, missed_at = $5, sent_at = $6,
                                  ended_at = $7, error = $8, request = COALESCE($9, request)
             WHERE id = $1 AND state = $2 AND ended_at IS NULL",
        )
        .bind(schedule.id)
        .bind(stored_state.name())
        .bind(fired.state.name())
        .bind(fired.progress.reached)
        .bind(fired.progress.missed)
        .bind(fired.sent_at)
        .bind(fired.ended_at)
        .bind(fired.error)
        .bind(fired.request.as_deref())
    );
    Ok(written == 1)
}

/// Number of schedules that were missed since a time.
pub(super) async fn missed_since(tx: &mut Tx, since: i64) -> Result<i64, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar(
        "SELECT count(*) FROM schedules WHERE state = 'missed' AND ended_at >= $1",
    )
    .bind(since).fetch_one(c).await?))
}

/// Cancels unfinished schedules of Canvases that no longer exist. If sending has begun, it
/// continues with what its dispatch keeps, unless an earlier version began it. Leaves their claims:
/// the next worker finds the schedule cancelled. Leaves their users to the next sweep.
pub async fn cancel_orphans(tx: &mut Tx, workspace: i32, now: i64) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "UPDATE schedules SET state = 'cancelled', ended_at = $2, error = $3
             WHERE workspace_id = $1 AND ended_at IS NULL AND canvas_id IS NOT NULL
               AND NOT EXISTS (SELECT 1 FROM campaigns c
                               WHERE c.workspace_id = schedules.workspace_id
                                 AND c.id = schedules.canvas_id AND c.kind = 'canvas')
               AND NOT EXISTS (SELECT 1 FROM dispatches d
                               WHERE d.id = schedules.dispatch_id AND d.kept IS NOT NULL)",
        )
        .bind(workspace)
        .bind(now)
        .bind("the Canvas was removed from the workspace file")
    );
    Ok(())
}

/// Schedules that ended before a time. They were also created before it, which selects a range of
/// an index.
pub(super) const OLD_SCHEDULES: OldRows =
    old_rows!("schedules", "created_at < $1 AND ended_at < $1", 1_000);
