//! The SQL of the messages of the latest dispatches, for an overview.

use sqlx::AssertSqlSafe;

use messages::dispatch::state::MessageTotals;
use store::{StoreError, Tx, from_row, on};

/// How many of the latest dispatches are read, and how many of their parts, so that no history and
/// no large send makes it slow.
const MAX_DISPATCHES: i64 = 1_000;
const MAX_PARTS: i64 = 5_000;

/// What the latest dispatches sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecentTotals {
    pub dispatches: i64,
    pub parts: i64,
    pub messages: MessageTotals,
}
from_row! { RecentTotals { dispatches, parts } flatten { messages } }

impl RecentTotals {
    /// Whether there are more dispatches or parts than were read: the counts are then too low.
    pub fn is_partial(&self) -> bool {
        self.dispatches >= MAX_DISPATCHES || self.parts >= MAX_PARTS
    }

    /// The totals of both.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let (these, those) = (&self.messages, &other.messages);
        Self {
            dispatches: self.dispatches + other.dispatches,
            parts: self.parts + other.parts,
            messages: MessageTotals {
                sent: these.sent + those.sent,
                unreachable: these.unreachable + those.unreachable,
                aborted: these.aborted + those.aborted,
                failed: these.failed + those.failed,
                bounced: these.bounced + those.bounced,
            },
        }
    }
}

/// The totals of the dispatches of a workspace, or of all, that were accepted since a time.
pub async fn totals_since(
    tx: &mut Tx,
    workspace: Option<i32>,
    since: i64,
) -> Result<RecentTotals, StoreError> {
    let workspace_is = workspace.map_or("$1 IS NULL", |_| "workspace_id = $1");
    let sql = format!(
        "WITH d AS (
             SELECT id FROM dispatches WHERE {workspace_is} AND accepted_at >= $2
             ORDER BY accepted_at DESC, id DESC LIMIT $3),
         p AS (
             SELECT sent, unreachable, aborted, failed, bounced FROM dispatch_parts
             WHERE dispatch_id IN (SELECT id FROM d) LIMIT $4)
         SELECT (SELECT count(*) FROM d) AS dispatches, count(*) AS parts,
                CAST(COALESCE(sum(sent), 0) AS BIGINT) AS sent,
                CAST(COALESCE(sum(unreachable), 0) AS BIGINT) AS unreachable,
                CAST(COALESCE(sum(aborted), 0) AS BIGINT) AS aborted,
                CAST(COALESCE(sum(failed), 0) AS BIGINT) AS failed,
                CAST(COALESCE(sum(bounced), 0) AS BIGINT) AS bounced
         FROM p"
    );
    Ok(on!(tx, c => sqlx::query_as(AssertSqlSafe(sql.clone()))
        .bind(workspace).bind(since).bind(MAX_DISPATCHES).bind(MAX_PARTS).fetch_one(c).await?))
}
