//! The SQL of a dispatch's recipients: its messages by outcome, in pages, and the later dispatches
//! to them.

use std::fmt;

use serde::{Deserialize, Serialize};
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use crate::sent_to::ShownRecipients;
use gateway::paging;
use gateway::workspaces::Channel;
use messages::dispatch::{
    MAY_HAVE_BEEN_SENT, MessageOutcome, OutcomeFilter, order_field, outcome_condition,
};
use messages::order::Kind;
use store::{StoreError, Tx, from_row, on};

/// Maximum number of parts that one page reads: few messages of a large dispatch may have the
/// outcome.
const MAX_PARTS: usize = 20;

/// Maximum number of messages that are read to summarize a dispatch, in about a second.
pub const MAX_SCANNED_MESSAGES: i64 = 1_000_000;

/// A position in the messages of a dispatch. It never changes for a message, whatever its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecipientPosition {
    pub part: i64,
    pub service_id: Uuid,
    /// None is before every channel.
    pub channel: Option<Channel>,
}

impl RecipientPosition {
    /// Before the first message.
    pub const START: Self = Self { part: 0, service_id: Uuid::nil(), channel: None };

    /// Reads what `Display` writes.
    pub fn parse(text: &str) -> Option<Self> {
        let mut fields = text.splitn(3, '/');
        Some(Self {
            part: fields.next()?.parse().ok()?,
            service_id: Uuid::try_parse(fields.next()?).ok()?,
            channel: Some(Channel::from_name(fields.next()?)?),
        })
    }
}

/// `<part>/<service_id>/<channel>`: identifies the message in its dispatch.
impl fmt::Display for RecipientPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let channel = self.channel.map_or("", Channel::name);
        write!(f, "{}/{}/{channel}", self.part, self.service_id)
    }
}

/// A message to a recipient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecipientMessage {
    pub part: i64,
    pub service_id: Uuid,
    pub channel: Channel,
    pub state: String,
    pub attempts: i32,
    pub created_at: i64,
    pub next_at: Option<i64>,
    pub sent_at: Option<i64>,
    pub reason: Option<String>,
    pub may_have_been_sent: bool,
}
from_row! {
    RecipientMessage {
        part, service_id, channel, state, attempts, created_at, next_at, sent_at, reason,
        may_have_been_sent,
    }
}

impl RecipientMessage {
    /// None if another release wrote a state that this one does not know.
    pub fn outcome(&self, ended_early: bool) -> Option<MessageOutcome> {
        MessageOutcome::from_row(&self.state, ended_early)
    }

    pub fn position(&self) -> RecipientPosition {
        let Self { part, service_id, channel, .. } = *self;
        RecipientPosition { part, service_id, channel: Some(channel) }
    }
}

/// Some messages of a dispatch.
#[derive(Debug)]
pub struct RecipientPage {
    pub messages: Vec<RecipientMessage>,
    /// Where the next page starts; none at the end.
    pub next: Option<RecipientPosition>,
}

/// Messages of a dispatch after a position that one of the filters selects; all if there are no
/// filters. A page may have fewer than `limit` messages, or none, although others follow.
pub async fn page(
    tx: &mut Tx,
    dispatch: Uuid,
    (filters, ended_early): (&[OutcomeFilter], bool),
    mut after: RecipientPosition,
    limit: i64,
) -> Result<RecipientPage, StoreError> {
    let filters = if filters.is_empty() { &OutcomeFilter::ALL[..] } else { filters };
    let is_selected = outcome_condition(filters, ended_early);
    // Part by part, because the index is by parts: none has too many messages to sort.
    let sql = format!(
        "SELECT part, service_id, channel, state, attempts, created_at, next_at, sent_at, reason,
                {MAY_HAVE_BEEN_SENT} AS may_have_been_sent
         FROM messages
         WHERE dispatch_id = $1 AND part = $2 AND (service_id, channel) > ($3, $4)
           AND {is_selected}
         ORDER BY service_id, channel LIMIT $5"
    );
    let mut messages: Vec<RecipientMessage> = Vec::new();
    for _ in 0..MAX_PARTS {
        let (sql, channel) = (AssertSqlSafe(sql.clone()), after.channel.map_or("", Channel::name));
        // One more than the page has: whether others follow.
        let missing = limit + 1 - messages.len() as i64;
        let found: Vec<RecipientMessage> = on!(&mut *tx, c => sqlx::query_as(sql)
            .bind(dispatch).bind(after.part).bind(after.service_id).bind(channel).bind(missing)
            .fetch_all(c).await?);
        messages.extend(found);
        if messages.len() as i64 > limit {
            let (messages, next) = paging::page_of(messages, limit, RecipientMessage::position);
            return Ok(RecipientPage { messages, next });
        }
        let part: Option<i64> = on!(&mut *tx, c => sqlx::query_scalar(
            "SELECT min(part) FROM messages WHERE dispatch_id = $1 AND part > $2",
        )
        .bind(dispatch).bind(after.part).fetch_one(c).await?);
        let Some(part) = part else { return Ok(RecipientPage { messages, next: None }) };
        after = RecipientPosition { part, ..RecipientPosition::START };
    }
    Ok(RecipientPage { messages, next: Some(after) })
}

/// Number of a dispatch's messages by outcome.
pub struct CountedOutcomes {
    pub by_outcome: Vec<(MessageOutcome, i64)>,
    /// Those that were not accepted, as far as is known, but may have been sent.
    pub may_have_been_sent: i64,
}

/// Counts a dispatch's messages; none if it has more than `max_messages`.
pub async fn count_outcomes(
    tx: &mut Tx,
    dispatch: Uuid,
    ended_early: bool,
    max_messages: i64,
) -> Result<Option<CountedOutcomes>, StoreError> {
    // The order forces the index by dispatches.
    let sql = AssertSqlSafe(format!(
        "SELECT state, count(*), count(CASE WHEN {MAY_HAVE_BEEN_SENT} THEN 1 END)
         FROM (SELECT state, reason, may_have_been_sent FROM messages
               WHERE dispatch_id = $1 ORDER BY part LIMIT $2) AS scanned
         GROUP BY state"
    ));
    let rows: Vec<(String, i64, i64)> = on!(tx, c => sqlx::query_as(sql)
        .bind(dispatch).bind(max_messages + 1).fetch_all(c).await?);
    if rows.iter().map(|(_, count, _)| count).sum::<i64>() > max_messages {
        return Ok(None);
    }
    let count = |outcome| -> (MessageOutcome, i64) {
        let has_outcome =
            |state: &str| MessageOutcome::from_row(state, ended_early) == Some(outcome);
        let with_outcome = rows.iter().filter(|(state, ..)| has_outcome(state));
        (outcome, with_outcome.map(|(_, count, _)| count).sum())
    };
    Ok(Some(CountedOutcomes {
        by_outcome: MessageOutcome::ALL.map(count).into(),
        may_have_been_sent: rows.iter().map(|(_, _, uncertain)| uncertain).sum(),
    }))
}

/// A dispatch to the recipients of an earlier one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendToRecipients {
    pub id: Uuid,
    /// Milliseconds since the epoch.
    pub accepted_at: i64,
    /// The outcomes of the earlier dispatch's messages.
    pub outcomes: Vec<String>,
}

/// The dispatches to the recipients of an earlier dispatch of a workspace, which was accepted at
/// `since`; oldest first.
pub async fn sends_to_recipients(
    tx: &mut Tx,
    workspace: i32,
    earlier: Uuid,
    since: i64,
) -> Result<Vec<SendToRecipients>, StoreError> {
    let past = order_field(tx, &["target", "recipients_of"]);
    let sql = AssertSqlSafe(format!(
        "SELECT id, accepted_at, {past} FROM dispatches
         WHERE workspace_id = $1 AND accepted_at >= $2 AND kind = $3
           AND order_json LIKE '%\"recipients_of\":%'
         ORDER BY accepted_at, id"
    ));
    let sends: Vec<(Uuid, i64, Option<String>)> = on!(tx, c => sqlx::query_as(sql)
        .bind(workspace).bind(since).bind(Kind::Send.name()).fetch_all(c).await?);
    let to_earlier = |(id, accepted_at, past): (Uuid, i64, Option<String>)| {
        let past: ShownRecipients = serde_json::from_str(&past?).ok()?;
        let outcomes = past.outcomes;
        (past.dispatch_id == earlier).then_some(SendToRecipients { id, accepted_at, outcomes })
    };
    Ok(sends.into_iter().filter_map(to_earlier).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_survive_a_round_trip() {
        for channel in Channel::OF_MESSAGES {
            let position =
                RecipientPosition { part: 7, service_id: Uuid::now_v7(), channel: Some(channel) };
            assert_eq!(RecipientPosition::parse(&position.to_string()), Some(position));
        }
        for wrong in ["", "1", "1/x/email", "x/0/email", &RecipientPosition::START.to_string()] {
            assert_eq!(RecipientPosition::parse(wrong), None, "{wrong:?}");
        }
    }
}
