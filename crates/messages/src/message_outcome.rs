//! The outcomes of messages, and which of them are selected.

use store::text_enum;

text_enum! {
    /// The outcome of a message, as its owner sees it.
    #[derive(PartialOrd, Ord, Hash, clap::ValueEnum)]
    #[value(rename_all = "snake_case")]
    pub enum MessageOutcome {
        /// To be sent, or waits for another attempt.
        Waiting = "waiting",
        /// The channel accepted it.
        Sent = "sent",
        /// The channel reported that it arrived.
        Delivered = "delivered",
        /// The channel or a later report rejected it.
        Bounced = "bounced",
        /// The user has no address, or cannot be reached by this channel.
        Unreachable = "unreachable",
        /// Its template ended it.
        Aborted = "aborted",
        Failed = "failed",
        /// Given up, because the dispatch was cancelled or failed.
        Cancelled = "cancelled",
    }
}

impl MessageOutcome {
    /// The outcome of a message whose row has this state. If its dispatch ended early, an open
    /// message is given up, even if its last worker was lost before it could store that.
    pub fn from_row(state: &str, ended_early: bool) -> Option<Self> {
        match state {
            "pending" | "waiting" if ended_early => Some(Self::Cancelled),
            "pending" => Some(Self::Waiting),
            state => Self::from_name(state),
        }
    }

    /// The states of rows whose messages have this outcome.
    pub(crate) fn row_states(self, ended_early: bool) -> &'static [&'static str] {
        match (self, ended_early) {
            (Self::Waiting, true) => &[],
            (Self::Waiting, false) => &["pending", "waiting"],
            (Self::Cancelled, true) => &["cancelled", "pending", "waiting"],
            (Self::Cancelled, false) => &["cancelled"],
            (Self::Sent, _) => &["sent"],
            (Self::Delivered, _) => &["delivered"],
            (Self::Bounced, _) => &["bounced"],
            (Self::Unreachable, _) => &["unreachable"],
            (Self::Aborted, _) => &["aborted"],
            (Self::Failed, _) => &["failed"],
        }
    }
}

text_enum! {
    /// Which messages of a dispatch are selected: those with an outcome, or those that may have
    /// been sent whatever their outcome.
    #[derive(PartialOrd, Ord, clap::ValueEnum)]
    #[value(rename_all = "snake_case")]
    pub enum OutcomeFilter {
        /// To be sent, or waits for another attempt.
        Waiting = "waiting",
        /// The channel accepted it.
        Sent = "sent",
        /// The channel reported that it arrived.
        Delivered = "delivered",
        /// The channel or a later report rejected it.
        Bounced = "bounced",
        /// The user has no address, or cannot be reached by this channel.
        Unreachable = "unreachable",
        /// Its template ended it.
        Aborted = "aborted",
        Failed = "failed",
        /// Given up, because the dispatch was cancelled or failed.
        Cancelled = "cancelled",
        /// Not accepted, as far as is known, but its receiver did not respond, or its worker was
        /// lost. It also has one of the other outcomes.
        MayHaveBeenSent = "may_have_been_sent",
    }
}

impl OutcomeFilter {
    /// Those of messages of a dispatch that has ended.
    pub const FINAL: [Self; 8] = [
        Self::Sent,
        Self::Delivered,
        Self::Bounced,
        Self::Unreachable,
        Self::Aborted,
        Self::Failed,
        Self::Cancelled,
        Self::MayHaveBeenSent,
    ];

    /// The outcome that is selected; none for messages that may have been sent.
    pub fn outcome(self) -> Option<MessageOutcome> {
        MessageOutcome::from_name(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_can_be_selected() {
        let selected: Vec<_> =
            OutcomeFilter::ALL.into_iter().filter_map(OutcomeFilter::outcome).collect();
        assert_eq!(selected, MessageOutcome::ALL);
    }
}
