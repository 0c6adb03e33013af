//! The SQL of the list of transactional emails, each in the form of a dispatch to one user.

use sqlx::AssertSqlSafe;
use uuid::Uuid;

use crate::sent_by::DispatchChannels;
use crate::sent_to::DispatchAudience;
use crate::summary_rows::{DispatchPage, DispatchSummary, Filter, ListPosition, MAX_SCANNED};
use gateway::paging;
use gateway::workspaces::Channel;
use messages::dispatch::LeftOut;
use messages::dispatch::state::{MessageTotals, State};
use messages::order::Kind;
use store::{StoreError, Tx, from_row, on, text_enum};

text_enum! {
    /// What caused a listed dispatch.
    pub enum ListedKind {
        Send = "send",
        Schedule = "schedule",
        Canvas = "canvas",
        /// A purchase that starts a campaign.
        Triggered = "triggered",
        LiveActivity = "live_activity",
        /// A transactional email, which is no dispatch.
        Transactional = "transactional",
    }
}

impl From<Kind> for ListedKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Send => Self::Send,
            Kind::Schedule => Self::Schedule,
            Kind::Canvas => Self::Canvas,
            Kind::Triggered => Self::Triggered,
            Kind::LiveActivity => Self::LiveActivity,
        }
    }
}

/// A stored transactional email.
struct Email {
    id: Uuid,
    workspace: Option<String>,
    campaign_id: Uuid,
    campaign: Option<String>,
    external_send_id: Option<String>,
    request_id: String,
    state: String,
    state_at: i64,
    reason: Option<String>,
    received_at: i64,
    executed_at: Option<i64>,
    sent_at: Option<i64>,
}
from_row! {
    Email {
        id, workspace, campaign_id, campaign, external_send_id, request_id, state, state_at, reason,
        received_at, executed_at, sent_at,
    }
}

impl Email {
    fn position(&self) -> ListPosition {
        ListPosition { accepted_at: self.received_at, id: self.id }
    }
}

impl From<Email> for DispatchSummary {
    fn from(email: Email) -> Self {
        let is_open = email.state == "processing";
        let mut messages = MessageTotals::default();
        match (email.sent_at, email.state.as_str()) {
            (Some(_), _) => messages.sent = 1,
            (None, "bounced") => messages.bounced = 1,
            (None, "aborted") => messages.aborted = 1,
            _ => {}
        }
        Self {
            id: email.id,
            workspace: email.workspace,
            kind: ListedKind::Transactional,
            state: if is_open { State::Running } else { State::Done },
            campaign_id: Some(email.campaign_id),
            campaign: email.campaign,
            send_id: email.external_send_id,
            audience: DispatchAudience::one_user(),
            channels: DispatchChannels(vec![Channel::Email]),
            requested_by: None,
            request_id: email.request_id,
            note: email.reason,
            users: 1,
            walked: i64::from(!is_open),
            matched: i64::from(!is_open),
            wave: None,
            parts: 1,
            parts_left: i64::from(is_open),
            messages,
            left_out: LeftOut::default(),
            accepted_at: email.received_at,
            started_at: email.executed_at,
            finished_at: (!is_open).then_some(email.state_at),
        }
    }
}

/// The latest transactional emails that match, as [`list`](crate::list) lists them.
pub async fn list(tx: &mut Tx, filter: &Filter) -> Result<DispatchPage, StoreError> {
    let is_open = match filter.state {
        None => None,
        Some(State::Running) => Some(true),
        Some(State::Done) => Some(false),
        Some(_) => return Ok(DispatchPage { dispatches: Vec::new(), next: None }),
    };
    // In the order of the index on received_at; few of those that are read may match.
    let scanned = |columns: &str, limit: &str| {
        format!(
            "SELECT {columns} FROM transactional_emails
             WHERE received_at >= $1 AND received_at < $2
               AND (received_at, dispatch_id) < ($3, $4)
             ORDER BY received_at DESC, dispatch_id DESC {limit}"
        )
    };
    let sql = AssertSqlSafe(format!(
        "SELECT e.dispatch_id AS id, workspaces.name AS workspace, e.campaign_id,
                campaigns.name AS campaign, e.external_send_id, e.request_id, e.state, e.state_at,
                e.reason, e.received_at, e.executed_at, e.sent_at
         FROM ({}) AS e
         LEFT JOIN workspaces ON workspaces.id = e.workspace_id
         LEFT JOIN campaigns ON campaigns.workspace_id = e.workspace_id
                            AND campaigns.id = e.campaign_id
         WHERE ($6 IS NULL OR e.workspace_id = $6) AND ($7 IS NULL OR e.campaign_id = $7)
           AND ($8 IS NULL OR (e.state = 'processing') = $8)
         ORDER BY e.received_at DESC, e.dispatch_id DESC LIMIT $9",
        scanned("*", "LIMIT $5")
    ));
    let max_found = filter.limit.saturating_add(1);
    let found: Vec<Email> = on!(&mut *tx, c => sqlx::query_as(sql)
        .bind(filter.accepted.start).bind(filter.accepted.end)
        .bind(filter.after.accepted_at).bind(filter.after.id).bind(MAX_SCANNED)
        .bind(filter.workspace).bind(filter.campaign_id).bind(is_open)
        .bind(max_found).fetch_all(c).await?);
    let (emails, mut next) = paging::page_of(found, filter.limit, Email::position);
    if next.is_none() {
        // The last of those that were read, if others follow.
        let sql = AssertSqlSafe(scanned(
            "received_at AS accepted_at, dispatch_id AS id",
            "LIMIT 2 OFFSET $5",
        ));
        let rest: Vec<ListPosition> = on!(tx, c => sqlx::query_as(sql)
            .bind(filter.accepted.start).bind(filter.accepted.end)
            .bind(filter.after.accepted_at).bind(filter.after.id).bind(MAX_SCANNED - 1)
            .fetch_all(c).await?);
        next = rest.first().copied().filter(|_| rest.len() > 1);
    }
    let dispatches = emails.into_iter().map(DispatchSummary::from).collect();
    Ok(DispatchPage { dispatches, next })
}
