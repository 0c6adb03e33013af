//! The SQL of lists of dispatches: what each is, its audience and its progress.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use crate::email_rows::{self, ListedKind};
use crate::sent_by::DispatchChannels;
use crate::sent_to::DispatchAudience;
use gateway::paging;
use kit::clock::{serialize_optional_time, serialize_time};
use messages::dispatch::state::{MessageTotals, State};
use messages::dispatch::{LeftOut, MAY_HAVE_BEEN_SENT, shown_state};
use messages::order::Wave;
use messages::{Timing, When, waves};
use store::documents::as_postgres_json;
use store::{StoreError, Tx, from_row, on};

/// Maximum number of dispatches that one page reads: few of a workspace may match.
pub const MAX_SCANNED: i64 = 10_000;

/// A dispatch and its progress. Times are milliseconds since the epoch, and ISO 8601 in JSON.
#[derive(Clone, Debug, Serialize)]
pub struct DispatchSummary {
    #[serde(serialize_with = "uuid::serde::simple::serialize")]
    pub id: Uuid,
    /// The workspace's name; none if it was deleted.
    pub workspace: Option<String>,
    pub kind: ListedKind,
    pub state: State,
    pub campaign_id: Option<Uuid>,
    /// The campaign's name; none if it was deleted.
    pub campaign: Option<String>,
    pub send_id: Option<String>,
    pub audience: DispatchAudience,
    pub channels: DispatchChannels,
    /// Who asked for it, as in the audit log, such as `key:app`.
    pub requested_by: Option<String>,
    pub request_id: String,
    pub note: Option<String>,
    /// Its users, and how many of them were processed: at local times, those whose time has come.
    pub users: i64,
    pub walked: i64,
    /// The processed users who exist, are in the audience, are not in the control group, and whose
    /// local time had not passed.
    pub matched: i64,
    /// The latest wave, as JSON; none unless the dispatch is at local times.
    #[serde(skip)]
    pub wave: Option<String>,
    pub parts: i64,
    pub parts_left: i64,
    #[serde(flatten)]
    pub messages: MessageTotals,
    pub left_out: LeftOut,
    #[serde(serialize_with = "serialize_time")]
    pub accepted_at: i64,
    #[serde(serialize_with = "serialize_optional_time")]
    pub started_at: Option<i64>,
    #[serde(serialize_with = "serialize_optional_time")]
    pub finished_at: Option<i64>,
}
from_row! {
    DispatchSummary {
        id, workspace, kind, state, campaign_id, campaign, send_id, requested_by, request_id, note, users, walked,
        matched, wave, parts, parts_left, accepted_at, started_at, finished_at,
    } flatten { audience, channels, messages, left_out }
}

impl DispatchSummary {
    /// Its position in a [`list`].
    pub fn position(&self) -> ListPosition {
        ListPosition { accepted_at: self.accepted_at, id: self.id }
    }

    /// The local time of the dispatch, and when the users who wait get their messages; none unless
    /// it is at local times.
    pub fn local_time(&self) -> Option<LocalTime> {
        let wave: Wave = serde_json::from_str(self.wave.as_deref()?).ok()?;
        let is_open = matches!(self.state, State::Planning | State::Running) && !wave.is_last;
        let moments = waves::moments(When { timing: wave.timing, time: wave.time });
        let mut later = moments.iter().copied().filter(|moment| is_open && *moment > wave.at_ms);
        Some(LocalTime {
            timing: wave.timing,
            time: wave.time,
            next_at: later.next(),
            last_at: moments.last().copied().unwrap_or(wave.at_ms),
        })
    }

    /// The users whose local time has not come yet.
    pub fn waiting_users(&self) -> i64 {
        match self.local_time() {
            Some(LocalTime { next_at: Some(_), .. }) => (self.users - self.walked).max(0),
            _ => 0,
        }
    }

    /// The campaign's name, or its id if it was deleted.
    pub fn campaign_label(&self) -> Option<String> {
        self.campaign.clone().or_else(|| self.campaign_id.map(|id| id.to_string()))
    }
}

/// The local time of a dispatch. All times are milliseconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalTime {
    pub timing: Timing,
    /// As if it were in UTC.
    pub time: i64,
    /// The next of the moments at which the time occurs; none if no other follows, or if the
    /// dispatch has ended.
    pub next_at: Option<i64>,
    /// The last moment at which it occurs.
    pub last_at: i64,
}

/// The query for the dispatches of a table that match a condition, as [`DispatchSummary`].
fn summaries_sql(tx: &Tx, table: &str, condition: &str) -> AssertSqlSafe<String> {
    let shown = shown_state!("dispatches.state", "dispatches.id");
    // Only what a list shows of an order: its messages and its audience may be large. PostgreSQL
    // parses it once here; SQLite keeps the latest parsed texts.
    let orders: &str = if tx.is_postgres() {
        let order = as_postgres_json("d.order_json");
        &format!(
            "SELECT d.id, sent.send_id, sent.requested_by, target.segment_id, target.recipients_of,
                    CAST(target.segment_id AS uuid) AS segment,
                    target.audience IS NOT NULL AS is_limited,
                    (SELECT string_agg(channel, ',') FROM json_object_keys(sent.messages) AS channel)
                        AS channels
             FROM d
             CROSS JOIN LATERAL json_to_record({order})
                 AS sent (send_id TEXT, requested_by TEXT, target JSON, messages JSON)
             CROSS JOIN LATERAL json_to_record(sent.target)
                 AS target (segment_id TEXT, audience TEXT, recipients_of TEXT)"
        )
    } else {
        "SELECT id, order_json ->> '$.send_id' AS send_id,
                order_json ->> '$.requested_by' AS requested_by,
                order_json ->> '$.target.segment_id' AS segment_id,
                order_json ->> '$.target.recipients_of' AS recipients_of,
                unhex(order_json ->> '$.target.segment_id', '-') AS segment,
                order_json ->> '$.target.audience' IS NOT NULL AS is_limited,
                (SELECT group_concat(key) FROM json_each(order_json, '$.messages')) AS channels
         FROM d"
    };
    AssertSqlSafe(format!(
        "WITH d AS (
             SELECT dispatches.*, workspaces.name AS workspace, {shown} AS shown_state
             FROM {table} LEFT JOIN workspaces ON workspaces.id = dispatches.workspace_id
             WHERE {condition}), orders AS ({orders}), p AS (
             SELECT dispatch_id, sum(walked) AS walked, sum(sent) AS sent,
                    sum(unreachable) AS unreachable, sum(aborted) AS aborted,
                    sum(failed) AS failed, sum(bounced) AS bounced,
                    sum(unknown) AS unknown, sum(not_in_audience) AS not_in_audience,
                    sum(control_group) AS control_group, sum(too_late) AS too_late,
                    sum(unsubscribed) AS unsubscribed,
                    sum(capped) AS capped
             FROM dispatch_parts WHERE dispatch_id IN (SELECT id FROM d)
             GROUP BY dispatch_id)
         SELECT d.id, d.workspace_id, d.workspace, d.kind, d.shown_state AS state, d.campaign_id,
                campaigns.name AS campaign, orders.send_id, orders.requested_by,
                orders.segment_id,
                (SELECT segments.name FROM segments
                 WHERE segments.workspace_id = d.workspace_id
                   AND segments.id = orders.segment) AS segment_name,
                orders.is_limited, orders.recipients_of, orders.channels,
                EXISTS (SELECT 1 FROM dispatch_parts
                        WHERE dispatch_id = d.id AND part = 1 AND named IS NOT NULL) AS is_listed,
                d.request_id, d.note,
                d.users, CAST(COALESCE(p.walked, 0) AS BIGINT) AS walked,
                CAST(COALESCE(p.walked - p.unknown - p.not_in_audience - p.control_group
                              - p.too_late, 0) AS BIGINT) AS matched,
                (SELECT wave FROM dispatch_waves
                 WHERE dispatch_id = d.id ORDER BY number DESC LIMIT 1) AS wave,
                d.parts, d.parts_left,
                CAST(COALESCE(p.sent, 0) AS BIGINT) AS sent,
                CAST(COALESCE(p.unreachable, 0) AS BIGINT) AS unreachable,
                CAST(COALESCE(p.aborted, 0) AS BIGINT) AS aborted,
                CAST(COALESCE(p.failed, 0) AS BIGINT) AS failed,
                CAST(COALESCE(p.bounced, 0) AS BIGINT) AS bounced,
                CAST(COALESCE(p.unknown, 0) AS BIGINT) AS unknown,
                CAST(COALESCE(p.not_in_audience, 0) AS BIGINT) AS not_in_audience,
                CAST(COALESCE(p.control_group, 0) AS BIGINT) AS control_group,
                CAST(COALESCE(p.too_late, 0) AS BIGINT) AS too_late,
                CAST(COALESCE(p.unsubscribed, 0) AS BIGINT) AS unsubscribed,
                CAST(COALESCE(p.capped, 0) AS BIGINT) AS capped,
                d.accepted_at, d.started_at,
                CASE WHEN d.shown_state <> 'cancelling' THEN d.finished_at END AS finished_at
         FROM d JOIN orders ON orders.id = d.id LEFT JOIN p ON p.dispatch_id = d.id
         LEFT JOIN campaigns ON campaigns.workspace_id = d.workspace_id
                            AND campaigns.id = d.campaign_id
         ORDER BY d.accepted_at DESC, d.id DESC"
    ))
}

/// Which dispatches are listed.
#[derive(Clone, Debug)]
pub struct Filter {
    pub workspace: Option<i32>,
    pub state: Option<State>,
    /// None: all but transactional emails, unless the campaign is transactional.
    pub kind: Option<ListedKind>,
    pub campaign_id: Option<Uuid>,
    /// When the dispatch was accepted, in milliseconds since the epoch.
    pub accepted: Range<i64>,
    /// The end of the previous page.
    pub after: ListPosition,
    pub limit: i64,
}

/// A position in the list, which is ordered by time, latest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListPosition {
    pub accepted_at: i64,
    pub id: Uuid,
}
from_row! { ListPosition { accepted_at, id } }

impl ListPosition {
    /// Before the first dispatch.
    pub const START: Self = Self { accepted_at: i64::MAX, id: Uuid::max() };
}

impl Default for Filter {
    /// All dispatches.
    fn default() -> Self {
        Self {
            workspace: None,
            state: None,
            kind: None,
            campaign_id: None,
            accepted: i64::MIN..i64::MAX,
            after: ListPosition::START,
            limit: i64::MAX,
        }
    }
}

/// Some dispatches of a list.
#[derive(Debug)]
pub struct DispatchPage {
    pub dispatches: Vec<DispatchSummary>,
    /// Where the next page starts; none at the end.
    pub next: Option<ListPosition>,
}

/// The latest dispatches that match. A page may have fewer than `limit` dispatches, or none,
/// although others follow.
pub async fn list(tx: &mut Tx, filter: &Filter) -> Result<DispatchPage, StoreError> {
    if is_for_emails(tx, filter).await? {
        return email_rows::list(tx, filter).await;
    }
    // Those that have not ended are few, and have an index of their own: IS TRUE keeps SQLite from
    // using another one. Each condition is there only if it applies, so that SQLite uses an index.
    let is_open = matches!(filter.state, Some(State::Planning | State::Running));
    let workspace = match filter.workspace {
        None => "$1 IS NULL",
        Some(_) if is_open => "(workspace_id = $1) IS TRUE",
        Some(_) => "workspace_id = $1",
    };
    let campaign = filter.campaign_id.map_or("$2 IS NULL", |_| "campaign_id = $2");
    // One more than the page has: whether others follow.
    let max_found = filter.limit.saturating_add(1);
    let (state, max_scanned) = match filter.state {
        None if filter.kind.is_none() => ("$7 IS NULL", max_found),
        None => ("$7 IS NULL", MAX_SCANNED),
        Some(_) if is_open && filter.kind.is_none() => {
            ("state = $7 AND finished_at IS NULL", max_found)
        }
        Some(_) if is_open => ("state = $7 AND finished_at IS NULL", MAX_SCANNED),
        Some(_) => ("$7 IS NOT NULL", MAX_SCANNED),
    };
    let scanned = |columns: &str, limit: &str| {
        format!(
            "SELECT {columns} FROM dispatches
             WHERE {workspace} AND {campaign} AND accepted_at >= $3 AND accepted_at < $4
               AND (accepted_at, id) < ($5, $6) AND {state}
             ORDER BY accepted_at DESC, id DESC {limit}"
        )
    };
    let shown = shown_state!("dispatches.state", "dispatches.id");
    let sql = summaries_sql(
        tx,
        &format!("({}) AS dispatches", scanned("*", "LIMIT $8")),
        &format!(
            "($7 IS NULL OR {shown} = $7) AND ($10 IS NULL OR dispatches.kind = $10)
             ORDER BY dispatches.accepted_at DESC, dispatches.id DESC LIMIT $9"
        ),
    );
    let state = filter.state.map(State::name);
    let found: Vec<DispatchSummary> = on!(&mut *tx, c => sqlx::query_as(sql)
        .bind(filter.workspace).bind(filter.campaign_id)
        .bind(filter.accepted.start).bind(filter.accepted.end)
        .bind(filter.after.accepted_at).bind(filter.after.id).bind(state)
        .bind(max_scanned).bind(max_found).bind(filter.kind.map(ListedKind::name))
        .fetch_all(c).await?);
    let (dispatches, next) = paging::page_of(found, filter.limit, DispatchSummary::position);
    if next.is_some() {
        return Ok(DispatchPage { dispatches, next });
    }
    // The last of those that were read, if others follow.
    let sql = AssertSqlSafe(scanned("accepted_at, id", "LIMIT 2 OFFSET $8"));
    let rest: Vec<ListPosition> = on!(tx, c => sqlx::query_as(sql)
        .bind(filter.workspace).bind(filter.campaign_id)
        .bind(filter.accepted.start).bind(filter.accepted.end)
        .bind(filter.after.accepted_at).bind(filter.after.id).bind(state)
        .bind(max_scanned - 1).fetch_all(c).await?);
    let next = rest.first().copied().filter(|_| rest.len() > 1);
    Ok(DispatchPage { dispatches, next })
}

/// Whether the filter is for transactional emails: by its kind, or because its campaign sends them.
async fn is_for_emails(tx: &mut Tx, filter: &Filter) -> Result<bool, StoreError> {
    let Some(campaign) = filter.campaign_id.filter(|_| filter.kind.is_none()) else {
        return Ok(filter.kind == Some(ListedKind::Transactional));
    };
    Ok(on!(tx, c => sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM campaigns
                        WHERE id = $1 AND ($2 IS NULL OR workspace_id = $2)
                          AND kind = 'transactional')",
    )
    .bind(campaign).bind(filter.workspace).fetch_one(c).await?))
}

/// The position of a dispatch, or of a transactional email, in its list.
pub async fn position(tx: &mut Tx, id: Uuid) -> Result<Option<ListPosition>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT accepted_at, id FROM dispatches WHERE id = $1
         UNION ALL
         SELECT received_at, dispatch_id FROM transactional_emails WHERE dispatch_id = $1",
    )
    .bind(id).fetch_optional(c).await?))
}

pub async fn summary(tx: &mut Tx, id: Uuid) -> Result<Option<DispatchSummary>, StoreError> {
    let sql = summaries_sql(tx, "dispatches", "dispatches.id = $1");
    Ok(on!(tx, c => sqlx::query_as(sql).bind(id).fetch_optional(c).await?))
}

/// The same for a dispatch of this workspace only.
pub async fn summary_of_workspace(
    tx: &mut Tx,
    workspace: i32,
    id: Uuid,
) -> Result<Option<DispatchSummary>, StoreError> {
    let sql =
        summaries_sql(tx, "dispatches", "dispatches.id = $1 AND dispatches.workspace_id = $2");
    Ok(on!(tx, c => sqlx::query_as(sql).bind(id).bind(workspace).fetch_optional(c).await?))
}

/// Stored messages of a dispatch that were not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct UnsentMessages {
    /// In progress, or waiting for a retry.
    pub waiting: i64,
    /// Given up, because the dispatch ended early. While it is cancelling, those in flight are
    /// among them.
    pub cancelled: i64,
    /// Those that were not accepted, as far as is known, but may have been sent, whatever their
    /// outcome.
    pub may_have_been_sent: i64,
}
from_row! { UnsentMessages { waiting, cancelled, may_have_been_sent } }

/// The messages of a dispatch that were not sent. If it has ended, none are waiting, even if its
/// last worker was lost before it could store that.
pub async fn unsent_messages(tx: &mut Tx, id: Uuid) -> Result<UnsentMessages, StoreError> {
    let sql = AssertSqlSafe(format!(
        "SELECT count(CASE WHEN is_open AND NOT is_ended THEN 1 END) AS waiting,
                count(CASE WHEN is_open AND is_ended THEN 1 END) AS cancelled,
                count(CASE WHEN is_uncertain THEN 1 END) AS may_have_been_sent
         FROM (SELECT state IN ('pending', 'waiting', 'cancelled') AS is_open,
                      (SELECT state FROM dispatches WHERE id = $1) IN ('failed', 'cancelled')
                          AS is_ended,
                      {MAY_HAVE_BEEN_SENT} AS is_uncertain
               FROM messages WHERE dispatch_id = $1) AS stored"
    ));
    Ok(on!(tx, c => sqlx::query_as(sql).bind(id).fetch_one(c).await?))
}
