//! The SQL of the messages of a user.

use serde::Serialize;
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use gateway::workspaces::Channel;
use kit::clock::{serialize_optional_time, serialize_time};
use messages::dispatch::{self, MAY_HAVE_BEEN_SENT, MessageOutcome};
use messages::order::Kind;
use store::{StoreError, Tx, from_row, on};

/// A stored message to a user, or a transactional email. Times are milliseconds since the epoch,
/// and ISO 8601 in JSON.
#[derive(Clone, Debug, Serialize)]
pub struct UserMessage {
    #[serde(serialize_with = "uuid::serde::simple::serialize")]
    pub dispatch_id: Uuid,
    pub channel: Channel,
    pub campaign_id: Option<Uuid>,
    /// The name of the campaign or the Canvas; none if it was deleted.
    pub campaign: Option<String>,
    pub state: String,
    /// None if the dispatch was deleted, or for a transactional email.
    #[serde(skip)]
    pub dispatch_state: Option<dispatch::State>,
    /// None if the dispatch was deleted, or for a transactional email.
    #[serde(skip)]
    pub dispatch_kind: Option<Kind>,
    /// None for a transactional email.
    pub attempts: Option<i32>,
    #[serde(serialize_with = "serialize_time")]
    pub created_at: i64,
    #[serde(serialize_with = "serialize_optional_time")]
    pub next_at: Option<i64>,
    #[serde(serialize_with = "serialize_optional_time")]
    pub sent_at: Option<i64>,
    pub reason: Option<String>,
    /// Whether the user may have it although it was not accepted, as far as is known. None for a
    /// transactional email.
    pub may_have_been_sent: Option<bool>,
}
from_row! {
    UserMessage {
        dispatch_id, channel, campaign_id, campaign, state, dispatch_state, dispatch_kind, attempts,
        created_at, next_at, sent_at, reason, may_have_been_sent,
    }
}

/// The position of a message in the list: nothing in it changes.
pub type Key = (i64, Uuid, Channel);

impl UserMessage {
    pub fn key(&self) -> Key {
        (self.created_at, self.dispatch_id, self.channel)
    }

    /// The outcome; none for the states that only transactional emails have.
    pub fn outcome(&self) -> Option<MessageOutcome> {
        let ended_early = self.dispatch_state.is_some_and(dispatch::State::is_early_end);
        MessageOutcome::from_row(&self.state, ended_early)
    }
}

/// The latest messages to a user after `after`, of one dispatch or of all. It reads all messages of
/// the user, which are kept for some days.
pub async fn page(
    tx: &mut Tx,
    (workspace, user): (i32, Uuid),
    dispatch: Option<Uuid>,
    after: Option<Key>,
    limit: i64,
) -> Result<Vec<UserMessage>, StoreError> {
    let (at, id, channel) = after.unwrap_or((i64::MAX, Uuid::max(), Channel::Email));
    let sql = AssertSqlSafe(format!(
        "SELECT m.dispatch_id, m.channel, m.campaign_id, campaigns.name AS campaign,
                CASE WHEN m.state IN ('pending', 'waiting')
                          AND dispatches.state IN ('failed', 'cancelled')
                     THEN 'cancelled' ELSE m.state END AS state,
                dispatches.state AS dispatch_state, dispatches.kind AS dispatch_kind, m.attempts,
                m.created_at,
                CASE WHEN dispatches.finished_at IS NULL THEN m.next_at END AS next_at, m.sent_at,
                m.reason, m.may_have_been_sent
         FROM (SELECT dispatch_id, channel, campaign_id, state, attempts, created_at, next_at,
                      sent_at, reason, may_have_been_sent
               FROM (SELECT dispatch_id, channel, campaign_id, state, attempts, created_at,
                            next_at, sent_at, reason,
                            {MAY_HAVE_BEEN_SENT} AS may_have_been_sent
                     FROM messages WHERE workspace_id = $1 AND service_id = $2
                     UNION ALL
                     SELECT dispatch_id, 'email', campaign_id, state, CAST(NULL AS INTEGER),
                            received_at, CAST(NULL AS BIGINT), sent_at, reason,
                            CAST(NULL AS BOOLEAN)
                     FROM transactional_emails WHERE workspace_id = $1 AND service_id = $2) AS kept
               WHERE ($3 IS NULL OR dispatch_id = $3)
                 AND (created_at, dispatch_id, channel) < ($4, $5, $6)
               ORDER BY created_at DESC, dispatch_id DESC, channel DESC LIMIT $7) AS m
         LEFT JOIN campaigns ON campaigns.workspace_id = $1 AND campaigns.id = m.campaign_id
         LEFT JOIN dispatches ON dispatches.workspace_id = $1 AND dispatches.id = m.dispatch_id
         ORDER BY m.created_at DESC, m.dispatch_id DESC, m.channel DESC"
    ));
    Ok(on!(tx, c => sqlx::query_as(sql)
        .bind(workspace).bind(user).bind(dispatch).bind(at).bind(id).bind(channel.name())
        .bind(limit).fetch_all(c).await?))
}

/// Whether a workspace has a transactional email with this id.
pub async fn is_transactional(
    tx: &mut Tx,
    workspace: i32,
    dispatch: Uuid,
) -> Result<bool, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM transactional_emails
                        WHERE dispatch_id = $1 AND workspace_id = $2)",
    )
    .bind(dispatch).bind(workspace).fetch_one(c).await?))
}
