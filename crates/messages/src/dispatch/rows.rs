//! The SQL of dispatches. A transaction that writes several of its tables uses the order dispatch,
//! claims, messages, parts, statistics.

use sqlx::AssertSqlSafe;
use uuid::Uuid;

use super::kept::Kept;
use super::past_rows::order_field;
use crate::dispatch::state::State;
use crate::order::{Order, Target, Wave};
use gateway::workspaces::to_json;
use store::claims::Claim;
use store::documents::parsed;
use store::{StoreError, Tx, execute, now_sql, on};

/// Writes a dispatch; returns whether it is new.
pub(super) async fn insert(
    tx: &mut Tx,
    order: &Order,
    kept: Option<&Kept>,
    has_all_waves: bool,
) -> Result<bool, StoreError> {
    // Its part has the listed users.
    let target = Target { users: Vec::new(), ..order.target.clone() };
    let written = Order { target, ..order.clone() }.to_json();
    let state = if order.target.users.is_empty() { State::Planning } else { State::Running };
    let inserted = execute!(
        tx,
        sqlx::query(
            "INSERT INTO dispatches (id, workspace_id, kind, state, campaign_id, order_json,
                                     is_whole, request_id, accepted_at, kept)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
             ON CONFLICT (id) DO NOTHING",
        )
        .bind(order.dispatch_id)
        .bind(order.workspace_id)
        .bind(order.kind.name())
        .bind(state.name())
        .bind(order.campaign_id)
        .bind(written)
        .bind(has_all_waves)
        .bind(&order.request_id)
        .bind(order.accepted_at)
        .bind(kept.map(Kept::to_json))
    );
    Ok(inserted == 1)
}

pub(super) async fn exists(tx: &mut Tx, id: Uuid) -> Result<bool, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM dispatches WHERE id = $1)")
        .bind(id).fetch_one(c).await?))
}

/// Whether a dispatch has not ended. If so, it cannot end before the end of the transaction.
pub(super) async fn lock_open(tx: &mut Tx, id: Uuid) -> Result<bool, StoreError> {
    let locked = execute!(
        tx,
        sqlx::query(
            "UPDATE dispatches SET state = state
             WHERE id = $1 AND state IN ('planning', 'running')",
        )
        .bind(id)
    );
    Ok(locked == 1)
}

/// The stored state of a dispatch; it does not change before the end of the transaction.
pub(super) async fn lock_state(tx: &mut Tx, id: Uuid) -> Result<Option<State>, StoreError> {
    // Parts that are being added hold a weaker lock, for which this one does not wait.
    let lock = if tx.is_postgres() { "FOR NO KEY UPDATE" } else { "" };
    let sql = AssertSqlSafe(format!("SELECT state FROM dispatches WHERE id = $1 {lock}"));
    Ok(on!(tx, c => sqlx::query_scalar(sql).bind(id).fetch_optional(c).await?))
}

/// The state in a column, but `cancelling` instead of `cancelled` while a worker holds a part of
/// the dispatch: its claim is released once none of the part's messages are in flight.
#[macro_export]
macro_rules! shown_state {
    ($state:literal, $dispatch:literal) => {
        concat!(
            "CASE WHEN ",
            $state,
            " = 'cancelled'
                  AND (EXISTS (SELECT 1 FROM claims
                               WHERE kind = 'dispatch_part' AND job = ",
            $dispatch,
            ")
                       OR EXISTS (SELECT 1 FROM dispatch_parts part
                                  JOIN claims ON claims.kind = 'dispatch_named'
                                   AND claims.job = part.claim_job
                                   AND claims.item = part.claim_item
                                  WHERE part.dispatch_id = ",
            $dispatch,
            ")) THEN 'cancelling' ELSE ",
            $state,
            " END"
        )
    };
}
pub use shown_state;

macro_rules! may_send_sql {
    ($now:expr) => {
        concat!(
            "SELECT ",
            $now,
            ", (SELECT state FROM dispatches WHERE id = $1),
              (SELECT owner FROM claims WHERE kind = $2 AND job = $3 AND item = $4)"
        )
    };
}

/// The database's time, and whether the worker with a claim may send messages of a dispatch.
pub(super) async fn may_send(
    tx: &mut Tx,
    id: Uuid,
    claim: &Claim,
) -> Result<(i64, bool), StoreError> {
    let sql = if tx.is_postgres() {
        may_send_sql!(now_sql!(postgres))
    } else {
        may_send_sql!(now_sql!(sqlite))
    };
    let (now, state, owner): (i64, Option<State>, Option<Uuid>) = on!(tx, c => sqlx::query_as(sql)
            .bind(id)
            .bind(claim.kind.name())
            .bind(claim.job)
            .bind(claim.item)
            .fetch_one(c)
            .await?);
    Ok((now, state == Some(State::Running) && owner == Some(claim.owner())))
}

/// The number that identifies a wave within its dispatch.
pub(super) fn wave_number(wave: Option<&Wave>) -> i64 {
    wave.map_or(0, |wave| wave.at_ms)
}

/// Writes a wave; returns whether it is new.
pub(super) async fn insert_wave(
    tx: &mut Tx,
    id: Uuid,
    wave: Option<&Wave>,
) -> Result<bool, StoreError> {
    let inserted = execute!(
        tx,
        sqlx::query(
            "INSERT INTO dispatch_waves (dispatch_id, number, wave) VALUES ($1, $2, $3)
             ON CONFLICT (dispatch_id, number) DO NOTHING",
        )
        .bind(id)
        .bind(wave_number(wave))
        .bind(wave.map(to_json))
    );
    Ok(inserted == 1)
}

/// A wave by its number; `Some(None)` for the users of a dispatch without waves.
pub(super) async fn wave(
    tx: &mut Tx,
    id: Uuid,
    number: i64,
) -> Result<Option<Option<Wave>>, StoreError> {
    let row: Option<(Option<String>,)> = on!(tx, c => sqlx::query_as(
        "SELECT wave FROM dispatch_waves WHERE dispatch_id = $1 AND number = $2",
    )
    .bind(id).bind(number).fetch_optional(c).await?);
    row.map(|(wave,)| wave.map(|text| parsed("dispatch_waves.wave", id, &text)).transpose())
        .transpose()
}

/// The time of the last wave of a dispatch.
pub(super) async fn last_wave_at(tx: &mut Tx, id: Uuid) -> Result<Option<i64>, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar(
        "SELECT max(number) FROM dispatch_waves WHERE dispatch_id = $1",
    )
    .bind(id).fetch_one(c).await?))
}

/// The waves of a dispatch at local times, in the order of their times; empty for other dispatches.
pub(super) async fn waves(tx: &mut Tx, id: Uuid) -> Result<Vec<Wave>, StoreError> {
    let rows: Vec<String> = on!(tx, c => sqlx::query_scalar(
        "SELECT wave FROM dispatch_waves WHERE dispatch_id = $1 AND wave IS NOT NULL
         ORDER BY number",
    )
    .bind(id).fetch_all(c).await?);
    rows.iter().map(|text| parsed("dispatch_waves.wave", id, text)).collect()
}

/// Marks that no other wave follows.
pub(super) async fn mark_waves_complete(tx: &mut Tx, id: Uuid) -> Result<(), StoreError> {
    execute!(tx, sqlx::query("UPDATE dispatches SET is_whole = TRUE WHERE id = $1").bind(id));
    Ok(())
}

/// Counts one more wave that must be split into parts.
pub(super) async fn add_plan(tx: &mut Tx, id: Uuid) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query("UPDATE dispatches SET plans_left = plans_left + 1 WHERE id = $1").bind(id)
    );
    Ok(())
}

/// Counts one more part, for listed users; returns its number.
pub(super) async fn add_named(tx: &mut Tx, id: Uuid, users: i64) -> Result<i64, StoreError> {
    // Each wave has all of them.
    Ok(on!(tx, c => sqlx::query_scalar(
        "UPDATE dispatches SET parts = parts + 1, parts_left = parts_left + 1, users = $2,
                               started_at = COALESCE(started_at, accepted_at)
         WHERE id = $1 RETURNING parts",
    )
    .bind(id).bind(users).fetch_one(c).await?))
}

/// A dispatch to work on.
pub(super) struct Dispatch {
    pub order: Order,
    pub state: State,
    /// The audience of the segment, as JSON; set once the dispatch is split into parts.
    pub segment: Option<String>,
    pub youngest: Option<Uuid>,
    /// None if an earlier version began it.
    pub kept: Option<Kept>,
}

pub(super) async fn load(tx: &mut Tx, id: Uuid) -> Result<Option<Dispatch>, StoreError> {
    type Row = (String, State, Option<String>, Option<Uuid>, Option<String>);
    let row: Option<Row> = on!(tx, c => sqlx::query_as(
        "SELECT order_json, state, segment, youngest, kept FROM dispatches WHERE id = $1",
    )
    .bind(id).fetch_optional(c).await?);
    row.map(|(order, state, segment, youngest, kept)| {
        let order = Order::from_row("dispatches.order_json", id, &order)?;
        let kept = kept.map(|text| Kept::from_row(id, &text)).transpose()?;
        Ok(Dispatch { order, state, segment, youngest, kept })
    })
    .transpose()
}

/// The plan of a wave's parts.
pub(super) struct Plan<'a> {
    pub segment: Option<&'a str>,
    pub youngest: Uuid,
    pub users: i64,
    pub parts: i64,
}

/// Adds the parts of a wave to the counts. Returns the number of the last part; none if the
/// dispatch has ended. Values that the first wave has set stay. Each wave has all users, so the
/// largest number is that of the dispatch.
pub(super) async fn add_parts(
    tx: &mut Tx,
    id: Uuid,
    plan: &Plan<'_>,
    now: i64,
) -> Result<Option<i64>, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar(
        "UPDATE dispatches
         SET state = 'running', segment = COALESCE(segment, $2), youngest = COALESCE(youngest, $3),
             users = CASE WHEN youngest IS NULL THEN $4 ELSE users END,
             parts = parts + $5, parts_left = parts_left + $5,
             plans_left = plans_left - 1, started_at = COALESCE(started_at, $6)
         WHERE id = $1 AND state IN ('planning', 'running') AND plans_left > 0
         RETURNING parts",
    )
    .bind(id).bind(plan.segment).bind(plan.youngest).bind(plan.users).bind(plan.parts).bind(now)
    .fetch_optional(c).await?))
}

/// Counts a part as done; returns whether the dispatch was running.
pub(super) async fn count_part_done(tx: &mut Tx, id: Uuid) -> Result<bool, StoreError> {
    let counted = execute!(
        tx,
        sqlx::query(
            "UPDATE dispatches SET parts_left = parts_left - 1
             WHERE id = $1 AND state = 'running' AND parts_left > 0",
        )
        .bind(id)
    );
    Ok(counted == 1)
}

/// Ends a dispatch if all of its work is done; returns, if it ended, whether emails bounced because
/// of their address.
pub(super) async fn finish(tx: &mut Tx, id: Uuid, now: i64) -> Result<Option<bool>, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar(
        "UPDATE dispatches SET state = 'done', finished_at = $2
         WHERE id = $1 AND state = 'running' AND parts_left = 0 AND plans_left = 0 AND is_whole
         RETURNING EXISTS (SELECT 1 FROM dispatch_bounces WHERE dispatch_id = $1)",
    )
    .bind(id).bind(now).fetch_optional(c).await?))
}

/// Ends a dispatch early; returns whether it had not ended already.
pub(super) async fn end_early(
    tx: &mut Tx,
    id: Uuid,
    state: State,
    note: Option<&str>,
    now: i64,
) -> Result<bool, StoreError> {
    let ended = execute!(
        tx,
        sqlx::query(
            "UPDATE dispatches SET state = $2, note = COALESCE($3, note), finished_at = $4
             WHERE id = $1 AND state IN ('planning', 'running')",
        )
        .bind(id)
        .bind(state.name())
        .bind(note)
        .bind(now)
    );
    Ok(ended == 1)
}

/// Moves the end of a dispatch to `now`, if it ended early; returns whether it did and targeted a
/// segment.
pub(super) async fn move_end(tx: &mut Tx, id: Uuid, now: i64) -> Result<bool, StoreError> {
    let segment = order_field(tx, &["target", "segment_id"]);
    let sql = AssertSqlSafe(format!(
        "UPDATE dispatches SET finished_at = $2
         WHERE id = $1 AND state IN ('failed', 'cancelled')
         RETURNING {segment} IS NOT NULL"
    ));
    let has_segment: Option<bool> =
        on!(tx, c => sqlx::query_scalar(sql).bind(id).bind(now).fetch_optional(c).await?);
    Ok(has_segment.unwrap_or(false))
}

/// Sets the note of a dispatch, unless it has one; returns whether it had none.
pub(super) async fn set_note(tx: &mut Tx, id: Uuid, note: &str) -> Result<bool, StoreError> {
    let set = execute!(
        tx,
        sqlx::query("UPDATE dispatches SET note = $2 WHERE id = $1 AND note IS NULL")
            .bind(id)
            .bind(note)
    );
    Ok(set == 1)
}

/// Whether a workspace has the campaign or the Canvas.
pub(super) async fn campaign_name(
    tx: &mut Tx,
    workspace: i32,
    id: Uuid,
) -> Result<Option<String>, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar(
        "SELECT name FROM campaigns WHERE workspace_id = $1 AND id = $2",
    )
    .bind(workspace).bind(id).fetch_optional(c).await?))
}
