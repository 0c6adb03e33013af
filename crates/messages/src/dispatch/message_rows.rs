//! The SQL of messages, in bulk: PostgreSQL is given arrays, SQLite JSON arrays.

use std::collections::HashMap;

use uuid::Uuid;

use super::part_rows::Part;
use super::state::RowState;
use gateway::workspaces::Channel;
use people::users::merged_rows;
use people::users::suppressions::bounces::Bounce;
use people::users::suppressions::{Hash, hash_to_hex};
use runtime::outbound::stored_text;
use store::{StoreError, Tx, execute, from_row, insert_rows, on, to_json};

/// The reason of messages whose last worker may have sent them without storing their outcome.
pub(super) const LOST_WORKER: &str =
    "its worker was lost or stopped: the message may have been sent";

/// A message to store.
#[derive(Clone, Debug)]
pub(super) struct NewMessage {
    pub service_id: Uuid,
    pub channel: Channel,
    /// The final state and its reason, if the message ended before it was sent.
    pub ended: Option<(RowState, &'static str)>,
}

impl NewMessage {
    fn state(&self) -> RowState {
        self.ended.map_or(RowState::Pending, |(state, _)| state)
    }

    fn reason(&self) -> Option<&'static str> {
        self.ended.map(|(_, why)| why)
    }
}

/// What the messages of a part have in common.
#[derive(Clone, Copy)]
pub(super) struct PartContext {
    pub workspace: i32,
    pub dispatch: Uuid,
    pub campaign: Option<Uuid>,
    pub part: i64,
}

impl PartContext {
    pub fn new(workspace: i32, campaign: Option<Uuid>, part: &Part) -> Self {
        Self { workspace, dispatch: part.dispatch_id, campaign, part: part.number }
    }
}

/// Writes messages; returns those that are new.
pub(super) async fn insert(
    tx: &mut Tx,
    context: PartContext,
    new: &[NewMessage],
    now: i64,
) -> Result<Vec<(Uuid, Channel)>, StoreError> {
    Ok(insert_rows!(tx, "messages", new, |message| {
        workspace_id: context.workspace,
        service_id: message.service_id,
        dispatch_id: context.dispatch,
        channel: message.channel.name(),
        part: context.part,
        campaign_id: context.campaign,
        state: message.state().name(),
        created_at: now,
        reason: message.reason(),
    }, "ON CONFLICT (workspace_id, service_id, dispatch_id, channel) DO NOTHING
        RETURNING service_id, channel" => (Uuid, Channel)))
}

/// The outcome of a message.
#[derive(Clone, Debug)]
pub(super) struct Settled {
    pub service_id: Uuid,
    pub channel: Channel,
    pub state: RowState,
    pub next_at: Option<i64>,
    pub sent_at: Option<i64>,
    pub reason: Option<String>,
    /// Whether this attempt may have arrived although it was not accepted. A message stays marked
    /// until one is accepted.
    pub may_have_been_sent: bool,
    /// The hash of the email address to which it was sent.
    pub address: Option<Hash>,
    pub bounce: Option<Bounce>,
}

impl Settled {
    /// A message that ended, with the reason in its stored form.
    pub fn ended(service_id: Uuid, channel: Channel, state: RowState, why: Option<String>) -> Self {
        let reason = why.map(|why| stored_text(&why));
        let (next_at, sent_at, may_have_been_sent) = (None, None, false);
        let (address, bounce) = (None, None);
        Self {
            service_id,
            channel,
            state,
            next_at,
            sent_at,
            reason,
            may_have_been_sent,
            address,
            bounce,
        }
    }
}

/// Stores the outcomes of messages that were open, or given up because their dispatch was cancelled
/// while they were being sent; returns which ones were stored, with their former state, so that
/// each counts once.
pub(super) async fn settle(
    tx: &mut Tx,
    context: PartContext,
    settled: &[&Settled],
) -> Result<Vec<(Uuid, Channel, RowState)>, StoreError> {
    let PartContext { workspace, dispatch, .. } = context;
    Ok(match tx {
        _ if settled.is_empty() => Vec::new(),
        Tx::Postgres(tx) => {
            let ids: Vec<Uuid> = settled.iter().map(|message| message.service_id).collect();
            let channels: Vec<&str> =
                settled.iter().map(|message| message.channel.name()).collect();
            let states: Vec<&str> = settled.iter().map(|message| message.state.name()).collect();
            let next: Vec<Option<i64>> = settled.iter().map(|message| message.next_at).collect();
            let sent: Vec<Option<i64>> = settled.iter().map(|message| message.sent_at).collect();
            let reasons: Vec<Option<&str>> =
                settled.iter().map(|message| message.reason.as_deref()).collect();
            let uncertain: Vec<bool> =
                settled.iter().map(|message| message.may_have_been_sent).collect();
            let addresses: Vec<Option<&[u8]>> = settled
                .iter()
                .map(|message| message.address.as_ref().map(|hash| &hash[..]))
                .collect();
            sqlx::query_as(
                // The limit forces an index lookup for each message; without it, the planner scans
                // all messages while there are no statistics. IS TRUE forces the index by users:
                // with the other one, a new dispatch without statistics would scan all messages for
                // each. Skips messages that another transaction has changed meanwhile: their
                // location differs then, or, if PostgreSQL does not check it again, their state.
                // The state is in a CASE, for which the planner has no statistics: if it knew that
                // few messages are open, it would start with all of them, and look up all settled
                // ones for each.
                "UPDATE messages
                 SET state = new.state, attempts = messages.attempts + 1, next_at = new.next_at,
                     sent_at = new.sent_at, reason = new.reason,
                     address = COALESCE(new.address, messages.address),
                     may_have_been_sent = new.state <> 'sent'
                         AND (messages.may_have_been_sent OR new.is_uncertain
                              OR COALESCE(messages.reason, '') = $10)
                 FROM (SELECT found.location, settled.*
                       FROM unnest($3::uuid[], $4::text[], $5::text[], $6::bigint[],
                                   $7::bigint[], $8::text[], $9::boolean[], $11::bytea[])
                            AS settled (service_id, channel, state, next_at, sent_at, reason,
                                        is_uncertain, address)
                       CROSS JOIN LATERAL (
                           SELECT ctid AS location FROM messages
                           WHERE workspace_id = $1 AND service_id = settled.service_id
                             AND (dispatch_id = $2) IS TRUE AND channel = settled.channel
                           LIMIT 1) AS found) AS new
                 WHERE messages.ctid = new.location
                   AND CASE WHEN messages.state = 'cancelled' THEN new.state <> 'waiting'
                            ELSE messages.state IN ('pending', 'waiting') END
                 RETURNING messages.service_id, messages.channel, messages.state",
            )
            .bind(workspace)
            .bind(dispatch)
            .bind(ids)
            .bind(channels)
            .bind(states)
            .bind(next)
            .bind(sent)
            .bind(reasons)
            .bind(uncertain)
            .bind(LOST_WORKER)
            .bind(addresses)
            .fetch_all(&mut **tx)
            .await?
        }
        Tx::Sqlite(tx) => {
            let rows: Vec<_> = settled
                .iter()
                .map(|message| {
                    let (channel, state) = (message.channel.name(), message.state.name());
                    let (next_at, sent_at) = (message.next_at, message.sent_at);
                    let (reason, uncertain) = (&message.reason, message.may_have_been_sent);
                    let address = message.address.as_ref().map(hash_to_hex);
                    let id = message.service_id;
                    (id, channel, state, next_at, sent_at, reason, uncertain, address)
                })
                .collect();
            sqlx::query_as(
                // The limit makes SQLite look up each message by index, instead of reading all
                // messages of the workspace.
                "UPDATE messages
                 SET state = new.state, attempts = messages.attempts + 1, next_at = new.next_at,
                     sent_at = new.sent_at, reason = new.reason,
                     address = COALESCE(new.address, messages.address),
                     may_have_been_sent = new.state <> 'sent'
                         AND (messages.may_have_been_sent OR new.is_uncertain
                              OR COALESCE(messages.reason, '') = $4)
                 FROM (SELECT $1 AS workspace_id, unhex(value ->> 0, '-') AS service_id,
                              $2 AS dispatch_id, value ->> 1 AS channel, value ->> 2 AS state,
                              value ->> 3 AS next_at, value ->> 4 AS sent_at,
                              value ->> 5 AS reason, value ->> 6 AS is_uncertain,
                              unhex(value ->> 7) AS address
                       FROM json_each($3) LIMIT -1 OFFSET 0) AS new
                 WHERE messages.workspace_id = new.workspace_id
                   AND messages.service_id = new.service_id
                   AND messages.dispatch_id = new.dispatch_id
                   AND messages.channel = new.channel
                   AND (messages.state IN ('pending', 'waiting')
                        OR messages.state = 'cancelled' AND new.state <> 'waiting')
                 RETURNING service_id, channel, messages.state",
            )
            .bind(workspace)
            .bind(dispatch)
            .bind(to_json(&rows)?)
            .bind(LOST_WORKER)
            .fetch_all(&mut **tx)
            .await?
        }
    })
}

/// A stored message without an outcome yet.
#[derive(Clone, Debug)]
pub(super) struct OpenMessage {
    pub service_id: Uuid,
    pub channel: Channel,
    pub attempts: i32,
    pub created_at: i64,
}
from_row! { OpenMessage { service_id, channel, attempts, created_at } }

/// Messages of a part that are due at `now`, at most `limit`: those that were never tried first, so
/// that failing ones do not hold them up.
pub(super) async fn open(
    tx: &mut Tx,
    dispatch: Uuid,
    part: i64,
    now: i64,
    limit: i64,
) -> Result<Vec<OpenMessage>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT service_id, channel, attempts, created_at FROM messages
         WHERE dispatch_id = $1 AND part = $2 AND state IN ('pending', 'waiting')
           AND COALESCE(next_at, 0) <= $3
         ORDER BY COALESCE(next_at, 0), service_id, channel LIMIT $4",
    )
    .bind(dispatch).bind(part).bind(now).bind(limit).fetch_all(c).await?))
}

/// When the next message of a part is due; none if no message is open.
pub(super) async fn next_open(
    tx: &mut Tx,
    dispatch: Uuid,
    part: i64,
) -> Result<Option<i64>, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar(
        "SELECT min(COALESCE(next_at, 0)) FROM messages
         WHERE dispatch_id = $1 AND part = $2 AND state IN ('pending', 'waiting')",
    )
    .bind(dispatch).bind(part).fetch_one(c).await?))
}

/// Locks the messages of a part that have no outcome, in the order in which [`settle`] and reports
/// change them: a worker that lost the part may still store outcomes. SQLite has one writer anyway.
pub(super) async fn lock_unsettled(
    tx: &mut Tx,
    dispatch: Uuid,
    part: i64,
) -> Result<(), StoreError> {
    if let Tx::Postgres(tx) = tx {
        sqlx::query(
            "SELECT 1 FROM messages
             WHERE dispatch_id = $1 AND part = $2 AND state IN ('pending', 'waiting', 'cancelled')
             ORDER BY service_id, array_position($3, channel) FOR UPDATE",
        )
        .bind(dispatch)
        .bind(part)
        .bind(Channel::ALL.map(Channel::name))
        .execute(&mut **tx)
        .await?;
    }
    Ok(())
}

/// Gives up the open messages of a part, except that [`LOST_WORKER`] stays their reason;
/// returns their channels.
pub(super) async fn fail_open(
    tx: &mut Tx,
    dispatch: Uuid,
    part: i64,
    reason: &str,
) -> Result<Vec<Channel>, StoreError> {
    lock_unsettled(tx, dispatch, part).await?;
    Ok(on!(tx, c => sqlx::query_scalar(
        "UPDATE messages SET state = 'failed', next_at = NULL,
                             reason = CASE WHEN reason = $4 THEN reason ELSE $3 END
         WHERE dispatch_id = $1 AND part = $2 AND state IN ('pending', 'waiting')
         RETURNING channel",
    )
    .bind(dispatch).bind(part).bind(reason).bind(LOST_WORKER).fetch_all(c).await?))
}

/// Gives up the open messages of a part whose dispatch ended early. Those of parts without a worker
/// keep their state: the state of their dispatch gives them up ([`MessageOutcome::from_row`]).
///
/// [`MessageOutcome::from_row`]: crate::message_outcome::MessageOutcome::from_row
pub(super) async fn cancel_open(tx: &mut Tx, dispatch: Uuid, part: i64) -> Result<(), StoreError> {
    lock_unsettled(tx, dispatch, part).await?;
    execute!(
        tx,
        sqlx::query(
            "UPDATE messages SET state = 'cancelled', next_at = NULL
             WHERE dispatch_id = $1 AND part = $2 AND state IN ('pending', 'waiting')",
        )
        .bind(dispatch)
        .bind(part)
    );
    Ok(())
}

/// Locks the sending of capped messages to users of these slices (ascending) until the end of this
/// transaction; SQLite has one writer anyway.
pub(super) async fn lock_capping(
    tx: &mut Tx,
    workspace: i32,
    slices: &[i16],
) -> Result<(), StoreError> {
    if let Tx::Postgres(tx) = tx {
        // The rows of a function are processed one by one, in order.
        sqlx::query(
            "SELECT pg_advisory_xact_lock($1, slice)
             FROM unnest($2::int[]) WITH ORDINALITY AS slices (slice, number) ORDER BY number",
        )
        .bind(workspace)
        .bind(slices.iter().map(|slice| i32::from(*slice)).collect::<Vec<_>>())
        .execute(&mut **tx)
        .await?;
    }
    Ok(())
}

/// When users, or those who were merged into them, were sent campaign messages since a time, or are
/// being sent them: by user, with the channel. Ignores the dispatch of the part, because its
/// messages are not sent twice, and open messages of dispatches that have ended, because these are
/// given up.
pub(super) async fn sent_since(
    tx: &mut Tx,
    context: PartContext,
    users: &[Uuid],
    since: i64,
) -> Result<HashMap<Uuid, Vec<(Channel, i64)>>, StoreError> {
    let merged = merged_rows::merged_into(tx, context.workspace, users).await?;
    let ids: Vec<Uuid> = users.iter().chain(merged.keys()).copied().collect();
    let rows: Vec<(Uuid, Channel, i64)> = match tx {
        _ if ids.is_empty() => Vec::new(),
        Tx::Postgres(tx) => {
            // OFFSET 0 forces an index lookup for each user.
            sqlx::query_as(
                "SELECT found.service_id, found.channel, found.created_at
                 FROM unnest($2::uuid[]) AS wanted (service_id)
                 CROSS JOIN LATERAL (
                     SELECT service_id, channel, created_at FROM messages
                     WHERE workspace_id = $1 AND service_id = wanted.service_id
                       AND created_at > $3 AND campaign_id IS NOT NULL AND dispatch_id <> $4
                       AND (state IN ('sent', 'delivered', 'bounced')
                            OR state IN ('pending', 'waiting')
                               AND (SELECT finished_at FROM dispatches
                                    WHERE dispatches.id = messages.dispatch_id) IS NULL)
                     OFFSET 0) AS found",
            )
            .bind(context.workspace)
            .bind(ids)
            .bind(since)
            .bind(context.dispatch)
            .fetch_all(&mut **tx)
            .await?
        }
        Tx::Sqlite(tx) => {
            sqlx::query_as(
                "SELECT service_id, channel, created_at
                 FROM json_each($2) AS wanted CROSS JOIN messages
                 WHERE workspace_id = $1 AND service_id = unhex(wanted.value, '-')
                   AND created_at > $3 AND campaign_id IS NOT NULL AND dispatch_id <> $4
                   AND (state IN ('sent', 'delivered', 'bounced')
                        OR state IN ('pending', 'waiting')
                           AND (SELECT finished_at FROM dispatches
                                WHERE dispatches.id = messages.dispatch_id) IS NULL)",
            )
            .bind(context.workspace)
            .bind(to_json(&ids)?)
            .bind(since)
            .bind(context.dispatch)
            .fetch_all(&mut **tx)
            .await?
        }
    };
    let mut by_user: HashMap<Uuid, Vec<(Channel, i64)>> = HashMap::new();
    for (id, channel, at) in rows {
        let user = merged.get(&id).copied().unwrap_or(id);
        by_user.entry(user).or_default().push((channel, at));
    }
    Ok(by_user)
}

/// Deletes the messages of an erased user.
pub async fn erase_user(tx: &mut Tx, workspace: i32, user: Uuid) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query("DELETE FROM messages WHERE workspace_id = $1 AND service_id = $2")
            .bind(workspace)
            .bind(user)
    );
    Ok(())
}
