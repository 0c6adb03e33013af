//! The SQL of operators' queries about messages: why those of a dispatch failed, and those of one
//! user.

use serde::Serialize;
use uuid::Uuid;

use gateway::workspaces::Channel;
use kit::clock::{serialize_optional_time, serialize_time};
use store::{StoreError, Tx, from_row, on};

/// Maximum number of messages with a reason that are read of a dispatch, which may have millions.
pub const MAX_COUNTED_MESSAGES: i64 = 10_000;

/// Maximum number of reasons that are shown for a channel and state.
const MAX_SHOWN_REASONS: i64 = 3;

/// The reason for the state of messages of a dispatch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reason {
    pub channel: Channel,
    pub state: String,
    pub reason: String,
    /// Number of messages with this reason.
    pub messages: i64,
    /// Total number of messages with a reason that were read.
    #[serde(skip)]
    pub looked_at: i64,
}
from_row! { Reason { channel, state, reason, messages, looked_at } }

/// The most frequent reasons of a dispatch's messages, by channel and state, of the latest
/// [`MAX_COUNTED_MESSAGES`] messages that have one.
pub async fn reasons(tx: &mut Tx, dispatch: Uuid) -> Result<Vec<Reason>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT channel, state, reason, messages, looked_at
         FROM (SELECT channel, state, reason, count(*) AS messages,
                      row_number() OVER (PARTITION BY channel, state
                                         ORDER BY count(*) DESC, reason) AS place,
                      CAST(sum(count(*)) OVER () AS BIGINT) AS looked_at
               FROM (SELECT channel, state, reason FROM messages
                     WHERE dispatch_id = $1 AND reason IS NOT NULL
                     ORDER BY part DESC LIMIT $2) AS latest
               GROUP BY channel, state, reason) AS counted
         WHERE place <= $3 ORDER BY channel, state, place",
    )
    .bind(dispatch).bind(MAX_COUNTED_MESSAGES).bind(MAX_SHOWN_REASONS).fetch_all(c).await?))
}

/// A stored message to a user. Times are milliseconds since the epoch, and ISO 8601 in JSON.
#[derive(Clone, Debug, Serialize)]
pub struct UserMessage {
    #[serde(serialize_with = "uuid::serde::simple::serialize")]
    pub dispatch_id: Uuid,
    pub channel: Channel,
    pub campaign_id: Option<Uuid>,
    pub state: String,
    pub attempts: i32,
    #[serde(serialize_with = "serialize_time")]
    pub created_at: i64,
    #[serde(serialize_with = "serialize_optional_time")]
    pub next_at: Option<i64>,
    #[serde(serialize_with = "serialize_optional_time")]
    pub sent_at: Option<i64>,
    pub reason: Option<String>,
}
from_row! {
    UserMessage {
        dispatch_id, channel, campaign_id, state, attempts, created_at, next_at, sent_at, reason,
    }
}

/// The latest messages to a user, of one dispatch or of all dispatches.
pub async fn list_for_user(
    tx: &mut Tx,
    (workspace, user): (i32, Uuid),
    dispatch: Option<Uuid>,
    limit: u32,
) -> Result<Vec<UserMessage>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT dispatch_id, channel, campaign_id, state, attempts, created_at, next_at, sent_at,
                reason
         FROM messages
         WHERE workspace_id = $1 AND service_id = $2 AND ($3 IS NULL OR dispatch_id = $3)
         ORDER BY created_at DESC, dispatch_id, channel LIMIT $4",
    )
    .bind(workspace).bind(user).bind(dispatch).bind(i64::from(limit)).fetch_all(c).await?))
}
