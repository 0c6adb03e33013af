//! The SQL of queries about messages: why those of a dispatch failed.

use serde::Serialize;
use uuid::Uuid;

use gateway::workspaces::Channel;
use store::{StoreError, Tx, from_row, on};

/// Maximum number of messages with a reason that are counted of a dispatch, which may have
/// millions.
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
    pub counted_messages: i64,
}
from_row! { Reason { channel, state, reason, messages, counted_messages } }

/// The most frequent reasons of a dispatch's messages, by channel and state, of the latest
/// [`MAX_COUNTED_MESSAGES`] messages that have one, among the latest `max_scanned`. Open messages
/// of a dispatch that ended early are `cancelled`.
pub async fn reasons(
    tx: &mut Tx,
    dispatch: Uuid,
    max_scanned: i64,
) -> Result<Vec<Reason>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT channel, state, reason, messages, counted_messages
         FROM (SELECT channel, state, reason, count(*) AS messages,
                      row_number() OVER (PARTITION BY channel, state
                                         ORDER BY count(*) DESC, reason) AS rank,
                      CAST(sum(count(*)) OVER () AS BIGINT) AS counted_messages
               FROM (SELECT channel,
                            CASE WHEN state IN ('pending', 'waiting')
                                      AND (SELECT state FROM dispatches WHERE id = $1)
                                          IN ('failed', 'cancelled')
                                 THEN 'cancelled' ELSE state END AS state, reason
                     FROM (SELECT channel, state, reason FROM messages
                           WHERE dispatch_id = $1 ORDER BY part DESC LIMIT $4) AS scanned
                     WHERE reason IS NOT NULL LIMIT $2) AS latest
               GROUP BY channel, state, reason) AS counted
         WHERE rank <= $3 ORDER BY channel, state, rank",
    )
    .bind(dispatch).bind(MAX_COUNTED_MESSAGES).bind(MAX_SHOWN_REASONS).bind(max_scanned)
    .fetch_all(c).await?))
}
