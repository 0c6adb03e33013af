//! The SQL of reports about messages: statistics, receipts, reports of channels, deletion.

use std::collections::HashMap;
use std::ops::AddAssign;

use uuid::Uuid;

use super::past_rows;
use super::report::Report;
use super::state::OutcomeCounts;
use crate::MessageId;
use gateway::workspaces::Channel;
use people::users::merged_rows;
use people::users::suppressions::{Hash, bounces};
use store::to_json;
use store::{StoreError, Tx, execute, fetch_listed, from_row, on};

/// When these messages were sent or, if that is not recorded yet, created; none for unknown ones.
pub async fn sent_at(
    tx: &mut Tx,
    workspace: i32,
    messages: &[MessageId],
) -> Result<HashMap<MessageId, i64>, StoreError> {
    let rows: Vec<(Uuid, Uuid, String, i64)> = match tx {
        _ if messages.is_empty() => Vec::new(),
        Tx::Postgres(tx) => {
            let users: Vec<Uuid> = messages.iter().map(|id| id.service_id).collect();
            let dispatches: Vec<Uuid> = messages.iter().map(|id| id.dispatch_id).collect();
            let channels: Vec<&str> = messages.iter().map(|id| id.channel.name()).collect();
            sqlx::query_as(
                "SELECT found.* FROM unnest($2::uuid[], $3::uuid[], $4::text[])
                     AS wanted (service_id, dispatch_id, channel)
                 CROSS JOIN LATERAL (
                     SELECT service_id, dispatch_id, channel, coalesce(sent_at, created_at)
                     FROM messages
                     WHERE workspace_id = $1 AND service_id = wanted.service_id
                       AND dispatch_id = wanted.dispatch_id AND channel = wanted.channel
                     LIMIT 1) AS found",
            )
            .bind(workspace)
            .bind(users)
            .bind(dispatches)
            .bind(channels)
            .fetch_all(&mut **tx)
            .await?
        }
        Tx::Sqlite(tx) => {
            let wanted =
                messages.iter().map(|id| (id.service_id, id.dispatch_id, id.channel.name()));
            sqlx::query_as(
                "SELECT service_id, dispatch_id, channel, coalesce(sent_at, created_at)
                 FROM json_each($2) AS wanted CROSS JOIN messages
                 WHERE workspace_id = $1 AND service_id = unhex(wanted.value ->> 0, '-')
                   AND dispatch_id = unhex(wanted.value ->> 1, '-')
                   AND channel = wanted.value ->> 2",
            )
            .bind(workspace)
            .bind(to_json(&wanted.collect::<Vec<_>>())?)
            .fetch_all(&mut **tx)
            .await?
        }
    };
    let read = |(service_id, dispatch_id, channel, at): (Uuid, Uuid, String, i64)| {
        let channel = Channel::from_name(&channel)?;
        Some((MessageId { dispatch_id, service_id, channel }, at))
    };
    Ok(rows.into_iter().filter_map(read).collect())
}

// Statistics ---------------------------------------------------------------------------

impl AddAssign for OutcomeCounts {
    fn add_assign(&mut self, other: Self) {
        self.sent += other.sent;
        self.delivered += other.delivered;
        self.bounced += other.bounced;
        self.unreachable += other.unreachable;
        self.aborted += other.aborted;
        self.failed += other.failed;
    }
}

/// Adds to the statistics of a workspace's campaign, by variation and channel.
pub async fn add_statistics(
    tx: &mut Tx,
    (workspace, campaign, variation, channel): (i32, Uuid, &str, &str),
    added: &OutcomeCounts,
) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "INSERT INTO campaign_statistics AS had
                 (workspace_id, campaign_id, variation_id, channel, sent, delivered, bounced,
                  unreachable, aborted, failed)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
             ON CONFLICT (workspace_id, campaign_id, variation_id, channel) DO UPDATE SET
                 sent = had.sent + excluded.sent, delivered = had.delivered + excluded.delivered,
                 bounced = had.bounced + excluded.bounced,
                 unreachable = had.unreachable + excluded.unreachable,
                 aborted = had.aborted + excluded.aborted, failed = had.failed + excluded.failed",
        )
        .bind(workspace)
        .bind(campaign)
        .bind(variation)
        .bind(channel)
        .bind(added.sent)
        .bind(added.delivered)
        .bind(added.bounced)
        .bind(added.unreachable)
        .bind(added.aborted)
        .bind(added.failed)
    );
    Ok(())
}

// Receipts and reports ------------------------------------------------------------------------

/// A message of a campaign or a Canvas that was sent to a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    pub service_id: Uuid,
    pub campaign_id: Uuid,
    pub sent_at: i64,
}
from_row! { Receipt { service_id, campaign_id, sent_at } }

/// The messages of campaigns and Canvases that users, or those who were merged into them, were sent
/// since a time. Conversion windows begin with these.
pub async fn receipts(
    tx: &mut Tx,
    workspace: i32,
    users: &[Uuid],
    since: i64,
) -> Result<Vec<Receipt>, StoreError> {
    let merged = merged_rows::merged_into(tx, workspace, users).await?;
    let ids: Vec<Uuid> = users.iter().chain(merged.keys()).copied().collect();
    let mut receipts: Vec<Receipt> = match tx {
        _ if ids.is_empty() => Vec::new(),
        Tx::Postgres(tx) => {
            // OFFSET 0 forces an index lookup for each user.
            sqlx::query_as(
                "SELECT found.service_id, found.campaign_id, found.sent_at
                 FROM unnest($2::uuid[]) AS wanted (service_id)
                 CROSS JOIN LATERAL (
                     SELECT service_id, campaign_id, sent_at FROM messages
                     WHERE workspace_id = $1 AND service_id = wanted.service_id
                       AND sent_at >= $3 AND campaign_id IS NOT NULL
                       AND state IN ('sent', 'delivered')
                     OFFSET 0) AS found",
            )
            .bind(workspace)
            .bind(ids)
            .bind(since)
            .fetch_all(&mut **tx)
            .await?
        }
        Tx::Sqlite(tx) => {
            sqlx::query_as(
                "SELECT service_id, campaign_id, sent_at
                 FROM json_each($2) AS wanted CROSS JOIN messages
                 WHERE workspace_id = $1 AND service_id = unhex(wanted.value, '-')
                   AND sent_at >= $3 AND campaign_id IS NOT NULL
                   AND state IN ('sent', 'delivered')",
            )
            .bind(workspace)
            .bind(to_json(&ids)?)
            .bind(since)
            .fetch_all(&mut **tx)
            .await?
        }
    };
    for receipt in &mut receipts {
        receipt.service_id = merged.get(&receipt.service_id).copied().unwrap_or(receipt.service_id);
    }
    Ok(receipts)
}

/// A message with a new report.
pub(super) struct ReportedMessage {
    pub campaign_id: Option<Uuid>,
    pub part: i64,
    /// Whether it had no outcome before.
    pub was_open: bool,
    /// Whether it was reported as delivered before.
    pub was_delivered: bool,
    /// When it was sent or, if that is not recorded yet, created.
    sent_at: i64,
    address: Option<Vec<u8>>,
}
from_row! { ReportedMessage { campaign_id, part, was_open, was_delivered, sent_at, address } }

impl ReportedMessage {
    /// The address to which an email was sent.
    pub async fn address(
        &self,
        tx: &mut Tx,
        workspace: i32,
        id: &MessageId,
    ) -> Result<Option<Hash>, StoreError> {
        match self.address.as_deref().and_then(|address| address.try_into().ok()) {
            Some(address) => Ok(Some(address)),
            None => bounces::address_at(tx, workspace, id.service_id, self.sent_at).await,
        }
    }
}

/// The address to which an email was sent; none if the message is unknown.
pub async fn email_address(
    tx: &mut Tx,
    workspace: i32,
    id: &MessageId,
) -> Result<Option<Hash>, StoreError> {
    let found: Option<ReportedMessage> = on!(&mut *tx, c => sqlx::query_as(
        "SELECT campaign_id, part, FALSE AS was_open, FALSE AS was_delivered,
                COALESCE(sent_at, created_at) AS sent_at, address FROM messages
         WHERE workspace_id = $1 AND service_id = $2 AND (dispatch_id = $3) IS TRUE
           AND channel = 'email'",
    )
    .bind(workspace).bind(id.service_id).bind(id.dispatch_id).fetch_optional(c).await?);
    match found {
        Some(message) => message.address(tx, workspace, id).await,
        None => Ok(None),
    }
}

/// Stores a report; none if the message is unknown, or the report is a repeat. A delivered message
/// can still bounce, but not the other way round.
pub(super) async fn store_report(
    tx: &mut Tx,
    workspace: i32,
    id: &MessageId,
    report: &Report,
) -> Result<Option<ReportedMessage>, StoreError> {
    let now = store::claims::now(tx).await?;
    let (state, reason, from) = match report {
        Report::Delivered => ("delivered", None, "sent"),
        Report::Bounced { reason, .. } => ("bounced", Some(reason.as_str()), "delivered"),
    };
    // Of two concurrent reports, the second waits here, and sees what the first one wrote.
    let locked = if tx.is_postgres() { "FOR UPDATE" } else { "" };
    let sql = sqlx::AssertSqlSafe(format!(
        // By users, not by dispatches: [`super::message_rows::settle`] says why.
        "SELECT campaign_id, part, state IN ('pending', 'waiting', 'cancelled') AS was_open,
                state = 'delivered' AS was_delivered, COALESCE(sent_at, created_at) AS sent_at,
                address FROM messages
         WHERE workspace_id = $1 AND service_id = $2 AND (dispatch_id = $3) IS TRUE
           AND channel = $4
           AND state IN ('pending', 'waiting', 'cancelled', 'sent', $5) {locked}"
    ));
    let found: Option<ReportedMessage> = on!(&mut *tx, c => sqlx::query_as(sql)
        .bind(workspace).bind(id.service_id).bind(id.dispatch_id).bind(id.channel.name())
        .bind(from).fetch_optional(c).await?);
    let Some(message) = found else { return Ok(None) };
    execute!(
        tx,
        sqlx::query(
            "UPDATE messages SET state = $5, reason = $6, next_at = NULL,
                                 sent_at = COALESCE(sent_at, $7), may_have_been_sent = FALSE
             WHERE workspace_id = $1 AND service_id = $2 AND (dispatch_id = $3) IS TRUE
               AND channel = $4",
        )
        .bind(workspace)
        .bind(id.service_id)
        .bind(id.dispatch_id)
        .bind(id.channel.name())
        .bind(state)
        .bind(reason)
        .bind(now)
    );
    Ok(Some(message))
}

// Deletion ---------------------------------------------------------------------------------------

/// Maximum numbers of dispatches and of messages that one transaction removes.
pub(super) const MAX_DISPATCHES: usize = 500;
const MAX_MESSAGES: i64 = 5_000;

/// Some dispatches of a workspace that ended before a time, the oldest first, except those to whose
/// recipients another one still sends.
pub(super) async fn ended_before(
    tx: &mut Tx,
    workspace: i32,
    time: i64,
) -> Result<Vec<Uuid>, StoreError> {
    let in_use = past_rows::in_use(tx, workspace).await?;
    let limit = (MAX_DISPATCHES + in_use.len()) as i64;
    let mut ended: Vec<Uuid> = on!(tx, c => sqlx::query_scalar(
        "SELECT id FROM dispatches WHERE workspace_id = $1 AND finished_at < $2
         ORDER BY finished_at LIMIT $3",
    )
    .bind(workspace).bind(time).bind(limit).fetch_all(c).await?);
    ended.retain(|id| !in_use.contains(id));
    Ok(ended)
}

/// Removes some messages of these dispatches, and the dispatches that have none left; returns
/// whether all of the dispatches are removed.
pub(super) async fn delete_dispatches(tx: &mut Tx, ids: &[Uuid]) -> Result<bool, StoreError> {
    // LATERAL forces an index lookup for each dispatch, whatever the planner expects.
    let deleted = match &mut *tx {
        Tx::Postgres(tx) => sqlx::query(
            "DELETE FROM messages WHERE (workspace_id, service_id, dispatch_id, channel) IN (
                 SELECT found.* FROM unnest($1::uuid[]) AS ended (id)
                 CROSS JOIN LATERAL (
                     SELECT workspace_id, service_id, dispatch_id, channel FROM messages
                     WHERE dispatch_id = ended.id LIMIT $2) AS found
                 LIMIT $2)",
        )
        .bind(ids)
        .bind(MAX_MESSAGES)
        .execute(&mut **tx)
        .await?
        .rows_affected(),
        Tx::Sqlite(tx) => sqlx::query(
            "DELETE FROM messages WHERE (workspace_id, service_id, dispatch_id, channel) IN (
                 SELECT workspace_id, service_id, dispatch_id, channel
                 FROM json_each($1) AS ended CROSS JOIN messages
                 WHERE dispatch_id = unhex(ended.value, '-') LIMIT $2)",
        )
        .bind(to_json(ids)?)
        .bind(MAX_MESSAGES)
        .execute(&mut **tx)
        .await?
        .rows_affected(),
    };
    if deleted >= MAX_MESSAGES.unsigned_abs() {
        return Ok(false);
    }
    // Another worker may have deleted the messages that this one had selected, and not the others.
    // The order forces an index lookup, as above.
    for (postgres, sqlite) in [
        (
            "DELETE FROM dispatches
             WHERE id = ANY($1) AND (SELECT part FROM messages WHERE dispatch_id = dispatches.id
                                     ORDER BY part LIMIT 1) IS NULL",
            "DELETE FROM dispatches
             WHERE id IN (SELECT unhex(value, '-') FROM json_each($1))
               AND (SELECT part FROM messages WHERE dispatch_id = dispatches.id
                    ORDER BY part LIMIT 1) IS NULL",
        ),
        (
            "DELETE FROM console_log
             WHERE dispatch_id = ANY($1)
               AND NOT EXISTS (SELECT 1 FROM dispatches
                               WHERE dispatches.id = console_log.dispatch_id)",
            "DELETE FROM console_log
             WHERE dispatch_id IN (SELECT unhex(value, '-') FROM json_each($1))
               AND NOT EXISTS (SELECT 1 FROM dispatches
                               WHERE dispatches.id = console_log.dispatch_id)",
        ),
    ] {
        match &mut *tx {
            Tx::Postgres(tx) => {
                sqlx::query(postgres).bind(ids).execute(&mut **tx).await?;
            }
            Tx::Sqlite(tx) => {
                sqlx::query(sqlite).bind(to_json(ids)?).execute(&mut **tx).await?;
            }
        }
    }
    let left: Vec<Uuid> =
        fetch_listed!(tx, query_scalar, ids(ids), "SELECT id FROM dispatches WHERE id");
    Ok(left.is_empty())
}
