//! The outcomes of messages, and which of them are selected.

use store::text_enum;

/// An enum with all outcomes, and more values after these.
macro_rules! outcomes {
    ($(#[$outer:meta])* $name:ident { $($(#[$inner:meta])* $variant:ident = $text:literal,)* }) => {
        text_enum! {
            $(#[$outer])*
            #[derive(PartialOrd, Ord, Hash, clap::ValueEnum)]
            #[value(rename_all = "snake_case")]
            pub enum $name {
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
                $($(#[$inner])* $variant = $text,)*
            }
        }
    };
}

outcomes! {
    /// The outcome of a message, as its owner sees it.
    MessageOutcome {}
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

outcomes! {
    /// Which messages of a dispatch are selected: those with an outcome, or those that may have
    /// been sent whatever their outcome.
    OutcomeFilter {
        /// Not accepted, as far as is known, but its receiver did not respond, or its worker was
        /// lost. It also has one of the other outcomes.
        MayHaveBeenSent = "may_have_been_sent",
    }
}

impl OutcomeFilter {
    /// Those of messages of a dispatch that has ended: all except
    /// [`Waiting`](Self::Waiting), the first.
    pub const FINAL: [Self; Self::ALL.len() - 1] = {
        let [_, ended @ ..] = Self::ALL;
        ended
    };

    /// The outcome that is selected; none for messages that may have been sent.
    pub fn outcome(self) -> Option<MessageOutcome> {
        MessageOutcome::from_name(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::state::RowState;

    #[test]
    fn every_state_of_a_row_has_the_outcome_that_selects_it() {
        let states =
            RowState::ALL.map(RowState::name).into_iter().chain(["delivered", "cancelled"]);
        for state in states {
            for ended_early in [false, true] {
                let outcome = MessageOutcome::from_row(state, ended_early).expect(state);
                let selecting = MessageOutcome::ALL.into_iter();
                let selecting =
                    selecting.filter(|outcome| outcome.row_states(ended_early).contains(&state));
                assert_eq!(selecting.collect::<Vec<_>>(), [outcome], "{state} {ended_early}");
            }
        }
        assert_eq!(MessageOutcome::from_row("lost", false), None);
    }
}
