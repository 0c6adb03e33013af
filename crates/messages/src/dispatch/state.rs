//! The states of dispatches and their messages, and their counts.

use std::collections::BTreeMap;

use serde::Serialize;

use gateway::workspaces::Channel;
use runtime::history::Metric;
use store::{from_row, text_enum};

text_enum! {
    /// The state of a dispatch.
    #[derive(clap::ValueEnum)]
    #[value(rename_all = "snake_case")]
    pub enum State {
        /// Its users must be split into parts.
        Planning = "planning",
        Running = "running",
        Done = "done",
        /// Nothing more is sent; the note has the reason.
        Failed = "failed",
        /// Cancelled, and messages in flight are not settled yet. Never stored: a row is cancelled
        /// at once.
        Cancelling = "cancelling",
        Cancelled = "cancelled",
    }
}

impl State {
    pub fn is_final(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }

    /// Whether messages that were not sent are given up.
    pub fn is_early_end(self) -> bool {
        matches!(self, Self::Failed | Self::Cancelling | Self::Cancelled)
    }
}

text_enum! {
    /// The state of a message's row.
    #[derive(PartialOrd, Ord, Hash)]
    pub(crate) enum RowState {
        /// To be sent.
        Pending = "pending",
        /// Waits for another attempt.
        Waiting = "waiting",
        Sent = "sent",
        Unreachable = "unreachable",
        Aborted = "aborted",
        Failed = "failed",
        Bounced = "bounced",
    }
}

/// Number of messages by outcome, as their channels first reported it: of one dispatch or several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MessageTotals {
    pub sent: i64,
    pub unreachable: i64,
    pub aborted: i64,
    pub failed: i64,
    pub bounced: i64,
}
from_row! { MessageTotals { sent, unreachable, aborted, failed, bounced } }

/// Number of messages by outcome, added to a row of statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutcomeCounts {
    pub sent: i64,
    pub delivered: i64,
    pub bounced: i64,
    pub unreachable: i64,
    pub aborted: i64,
    pub failed: i64,
}

impl OutcomeCounts {
    pub(super) fn add(&mut self, state: RowState, count: i64) {
        match state {
            RowState::Pending | RowState::Waiting => {}
            RowState::Sent => self.sent += count,
            RowState::Unreachable => self.unreachable += count,
            RowState::Aborted => self.aborted += count,
            RowState::Failed => self.failed += count,
            RowState::Bounced => self.bounced += count,
        }
    }

    /// What is counted in the history: of the messages that did not arrive, those that somebody
    /// should look at.
    pub fn in_history(&self) -> [(Metric, i64); 2] {
        let failed = self.failed + self.bounced;
        [(Metric::MessagesSent, self.sent), (Metric::MessagesFailed, failed)]
    }
}

/// Number of messages by outcome, in total and by channel.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub totals: OutcomeCounts,
    pub by_channel: BTreeMap<(Channel, RowState), i64>,
}

impl Counts {
    pub fn add(&mut self, channel: Channel, state: RowState) {
        self.totals.add(state, 1);
        *self.by_channel.entry((channel, state)).or_default() += 1;
    }

    /// Number of emails that the relay accepted or rejected.
    pub fn emails(&self) -> i64 {
        let count = |state| self.by_channel.get(&(Channel::Email, state)).copied().unwrap_or(0);
        count(RowState::Sent) + count(RowState::Bounced)
    }

    /// Whether no message has ended.
    pub fn is_empty(&self) -> bool {
        self.totals == OutcomeCounts::default()
    }

    /// Updates metrics, after the commit.
    pub fn emit(&self) {
        for ((channel, state), count) in &self.by_channel {
            let labels = [("channel", channel.name()), ("outcome", state.name())];
            metrics::counter!("longshore_dispatch_messages_total", &labels)
                .increment(count.unsigned_abs());
        }
    }
}
