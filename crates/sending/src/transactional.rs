//! Transactional email: one message to one user, with separate resources.
//!
//! ```text
//! request: email, key, claim ─commit─> worker: attributes, user ─commit─> relay ─> state, postback
//!                                      ^                                  │
//!                                      └───────────── later ──────────────┘
//! ```
//!
//! The email and its claim ([`kinds::TRANSACTIONAL`](runtime::kinds::TRANSACTIONAL)) are one
//! transaction, so it does not use the log: the response must have a state that can be read
//! immediately, and a claim wakes a worker as fast as a message. An email has an id that is the
//! same in each attempt ([`MessageId`](messages::MessageId)), so an email that is sent twice
//! can be recognized.
//!
//! Nothing else can delay these emails: they have separate connections to the store, processors
//! ([`App::for_transactional`](crate::app::App::for_transactional)) and connections to relays. No
//! workspace gets more than its share of these.

pub mod api;
mod bounces;
pub mod contents;
pub mod postbacks;
pub mod queue;
mod recipient;
pub mod reports;
pub mod request;
pub mod rows;
pub mod send;
mod shown;
pub mod sla;

use kit::clock::from_ms;
use store::text_enum;

pub use bounces::email_address;
pub use reports::apply_report;
pub use shown::{EmailDetails, email_details};

text_enum! {
    /// The status of an email. It never goes back.
    #[derive(PartialOrd, Ord, Hash, schemars::JsonSchema)]
    #[schemars(rename = "TransactionalState", rename_all = "snake_case")]
    pub enum State {
        /// Not sent yet.
        Processing = "processing",
        /// The relay accepted the email.
        Sent = "sent",
        /// The relay has prepared the email for the recipient's provider.
        Processed = "processed",
        /// The recipient's provider accepted the email.
        Delivered = "delivered",
        /// The relay or the recipient's provider rejected the email.
        Bounced = "bounced",
        /// The email could not be sent.
        Aborted = "aborted",
    }
}

impl State {
    /// Whether an email can change from this state to `next`.
    pub fn leads_to(self, next: Self) -> bool {
        match self {
            Self::Processing => next != Self::Processing,
            Self::Sent => matches!(next, Self::Processed | Self::Delivered | Self::Bounced),
            Self::Processed => matches!(next, Self::Delivered | Self::Bounced),
            Self::Delivered | Self::Bounced | Self::Aborted => false,
        }
    }
}

/// A stored time in the format of the response and the postbacks: `2020-08-31T18:58:41.000+00:00`.
pub fn time(ms: i64) -> String {
    let text = format!("{:.3}", from_ms(ms));
    format!("{}+00:00", text.trim_end_matches('Z'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_only_go_forward() {
        for state in State::ALL {
            assert!(!state.leads_to(State::Processing) && !state.leads_to(state), "{state:?}");
            for next in State::ALL.into_iter().filter(|next| state.leads_to(*next)) {
                assert!(!next.leads_to(state), "{state:?} and {next:?}");
            }
            assert_eq!(serde_json::to_value(state).unwrap(), state.name());
        }
        assert!(!State::Sent.leads_to(State::Aborted));
    }

    #[test]
    fn times_have_the_offset_of_utc() {
        assert_eq!(time(1_598_900_321_000), "2020-08-31T18:58:41.000+00:00");
    }
}
