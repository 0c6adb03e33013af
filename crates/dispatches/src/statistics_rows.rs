//! The SQL of what campaigns sent.

use std::ops::Range;

use serde::Serialize;
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use gateway::workspaces::Channel;
use messages::dispatch::state::MessageTotals;
use messages::dispatch::{LeftOut, SUMMED_COUNTS};
use store::{StoreError, Tx, from_row, on};

/// Message counts of a campaign's variation, by outcome, for one channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Statistics {
    pub campaign_id: Uuid,
    /// The campaign's name; none if it was deleted.
    pub name: Option<String>,
    /// Empty for messages without a variation.
    pub variation_id: String,
    pub channel: Channel,
    pub sent: i64,
    pub delivered: i64,
    pub bounced: i64,
    pub unreachable: i64,
    pub aborted: i64,
    pub failed: i64,
}
from_row! {
    Statistics {
        campaign_id, name, variation_id, channel, sent, delivered, bounced, unreachable, aborted,
        failed,
    }
}

/// The statistics of a workspace, or of one of its campaigns.
pub async fn statistics(
    tx: &mut Tx,
    workspace: i32,
    campaign: Option<Uuid>,
) -> Result<Vec<Statistics>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT s.campaign_id, c.name, s.variation_id, s.channel, s.sent, s.delivered, s.bounced,
                s.unreachable, s.aborted, s.failed
         FROM campaign_statistics s
         LEFT JOIN campaigns c ON c.workspace_id = s.workspace_id AND c.id = s.campaign_id
         WHERE s.workspace_id = $1 AND ($2 IS NULL OR s.campaign_id = $2)
         ORDER BY s.campaign_id, s.variation_id, s.channel",
    )
    .bind(workspace).bind(campaign).fetch_all(c).await?))
}

/// What the stored dispatches of a campaign or a Canvas sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendTotals {
    pub dispatches: i64,
    /// Users that the dispatches read, once for each dispatch.
    pub users: i64,
    pub messages: MessageTotals,
    pub left_out: LeftOut,
}
from_row! { SendTotals { dispatches, users } flatten { messages, left_out } }

/// Maximum number of dispatches that are added up: each purchase may start one.
pub const MAX_SUMMED_DISPATCHES: i64 = 10_000;

/// The totals of a campaign's dispatches that were accepted in a range of time; of the latest
/// [`MAX_SUMMED_DISPATCHES`], if there are more.
pub async fn send_totals(
    tx: &mut Tx,
    (workspace, campaign): (i32, Uuid),
    accepted: Range<i64>,
) -> Result<SendTotals, StoreError> {
    let sql = AssertSqlSafe(format!(
        "WITH d AS (
             SELECT id, users FROM dispatches
             WHERE workspace_id = $1 AND campaign_id = $2 AND accepted_at >= $3
               AND accepted_at < $4
             ORDER BY accepted_at DESC, id DESC LIMIT $5)
         SELECT (SELECT count(*) FROM d) AS dispatches,
                CAST(COALESCE((SELECT sum(users) FROM d), 0) AS BIGINT) AS users, {SUMMED_COUNTS}
         FROM dispatch_parts WHERE dispatch_id IN (SELECT id FROM d)"
    ));
    Ok(on!(tx, c => sqlx::query_as(sql)
        .bind(workspace).bind(campaign).bind(accepted.start).bind(accepted.end)
        .bind(MAX_SUMMED_DISPATCHES).fetch_one(c).await?))
}
