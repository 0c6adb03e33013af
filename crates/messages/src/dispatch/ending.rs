//! Ends a dispatch, with everything that belongs to that in the same transaction.

use serde_json::json;
use uuid::Uuid;

use super::rows::{self, Dispatch};
use super::{State, bounces, console_rows, message_rows, part_rows, telemetry, uncertain_rows};
use kit::clock::format_time;
use runtime::kinds;
use store::claims;
use store::{StoreError, Tx};

/// Ends a dispatch if all of its work is done.
pub(super) async fn finish(tx: &mut Tx, id: Uuid) -> Result<(), StoreError> {
    let now = claims::now(tx).await?;
    let Some(has_bounces) = rows::finish(tx, id, now).await? else { return Ok(()) };
    if let Some(dispatch) = rows::load(tx, id).await? {
        if has_bounces {
            bounces::decide(tx, dispatch.order.workspace_id, id).await?;
        }
        put_console_record(tx, &dispatch, now).await?;
        telemetry::ended(State::Done, dispatch.order.accepted_at, now);
    }
    tracing::info!(dispatch = %id.simple(), "dispatch completed");
    Ok(())
}

/// Ends a dispatch early: the workers that hold its parts are woken to stop, and each settles its
/// messages in flight before it releases its claim ([`settle_part`]). Open messages are given up by
/// the state of their dispatch: their rows, which may be millions, stay as they are. Returns
/// whether the dispatch had not already ended.
pub(super) async fn end_early(
    tx: &mut Tx,
    id: Uuid,
    state: State,
    note: Option<&str>,
) -> Result<bool, StoreError> {
    let now = claims::now(tx).await?;
    let is_ended = rows::end_early(tx, id, state, note, now).await?;
    claims::withdraw(tx, kinds::DISPATCH_PLAN, id).await?;
    // No later worker has these parts, so their messages are marked here.
    for part in part_rows::withdraw_unheld(tx, id).await? {
        uncertain_rows::mark_lost(tx, id, part, now).await?;
    }
    if !is_ended {
        return Ok(false);
    }
    tx.offers(kinds::DISPATCH_END);
    if let Some(dispatch) = rows::load(tx, id).await? {
        bounces::decide(tx, dispatch.order.workspace_id, id).await?;
        put_console_record(tx, &dispatch, now).await?;
        telemetry::ended(state, dispatch.order.accepted_at, now);
    }
    match note {
        Some(note) => tracing::error!(dispatch = %id.simple(), "dispatch ended early: {note}"),
        None => tracing::info!(dispatch = %id.simple(), "dispatch cancelled"),
    }
    Ok(true)
}

/// Cancels a dispatch: messages that a worker has handed to their channel are still sent, and no
/// others. Returns the state before; none if it had already ended.
pub async fn cancel(tx: &mut Tx, id: Uuid) -> Result<Option<State>, StoreError> {
    let before = rows::lock_state(tx, id).await?;
    let is_cancelled = end_early(tx, id, State::Cancelled, None).await?;
    Ok(before.filter(|_| is_cancelled))
}

/// Settles a part of a dispatch that has ended, once none of its messages are in flight: its last
/// worker does so with the claim of the part.
pub(super) async fn settle_part(tx: &mut Tx, id: Uuid, part: i64) -> Result<(), StoreError> {
    let now = claims::now(tx).await?;
    // Locks the dispatch, so the last worker that settles a part sees the counts of all.
    let has_segment = rows::move_end(tx, id, now).await?;
    message_rows::cancel_open(tx, id, part).await?;
    // An order can be large, and only one with a segment has a record.
    if has_segment && let Some(dispatch) = rows::load(tx, id).await? {
        put_console_record(tx, &dispatch, now).await?;
    }
    Ok(())
}

/// Keeps a record of a request that targeted a segment: `longshore console-log` lists them.
async fn put_console_record(tx: &mut Tx, dispatch: &Dispatch, now: i64) -> Result<(), StoreError> {
    let order = &dispatch.order;
    let Some(segment) = order.target.segment_id else { return Ok(()) };
    let totals = part_rows::totals(tx, order.dispatch_id).await?;
    // The order of a schedule is accepted when it is due.
    let requested_at = console_rows::schedule_requested_at(tx, order.dispatch_id).await?;
    let record = json!({
        "dispatch_id": order.dispatch_id.simple().to_string(),
        "call": order.kind,
        "request_id": order.request_id,
        "segment_id": segment,
        "audience": order.target.audience,
        "campaign_id": order.campaign_id,
        "send_id": order.send_id,
        "recipient_subscription_state": order.subscription_state,
        "messages": order.messages,
        "received_at": format_time(requested_at.unwrap_or(order.accepted_at)),
        "finished_at": format_time(now),
        "state": dispatch.state,
        "results": {
            "users": totals.walked,
            "sent": totals.messages.sent,
            "unreachable": totals.messages.unreachable,
            "aborted": totals.messages.aborted,
            "failed": totals.messages.failed,
            "bounced": totals.messages.bounced,
            "left_out": totals.left_out,
        },
    });
    console_rows::put(tx, order.workspace_id, order.dispatch_id, now, &record).await
}
