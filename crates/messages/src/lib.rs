//! Sends messages: from the request, schedule or purchase that starts them to the channel that
//! delivers each one.
//!
//! ```text
//! request, schedule, trigger ──order──> dispatch ──parts──> user by user: render ──> channel
//! ```
//!
//! | module | is about |
//! |---|---|
//! | [`app`] | the state of this layer: connections to relays, cards to store, caches of external data |
//! | [`request`], [`recipient`], [`when`] | requests that send now or later, checked; their listed users and their time |
//! | [`order`] | an accepted request: the messages and their users, in the log and in a dispatch's row |
//! | `message_outcome` | the outcomes of messages, and which of them are selected |
//! | [`dispatch`] | sends an order to its users, in parts |
//! | [`waves`] | the moments of a send at local times |
//! | [`content`], [`personalization`] | the message objects of the API; the names in their [templates](template) |
//! | [`external`] | data that templates request: catalog items, responses of servers |
//! | [`outgoing`], [`channels`] | one message to one user; each channel that sends it |
//! | [`unsubscribe_token`] | the token in unsubscribe URLs |
//!
//! Each user gets at most one message of a dispatch by each channel. Its row is stored before it is
//! sent, with an id that is the same in each attempt ([`MessageId`]), so that receivers can
//! recognize repeats.
//!
//! Start with [`dispatch`].

pub mod app;
pub mod channels;
pub mod content;
pub mod dispatch;
pub mod external;
mod message_outcome;
pub mod order;
pub mod outgoing;
pub mod personalization;
pub mod recipient;
pub mod request;
pub mod unsubscribe_token;
pub mod waves;
pub mod when;

pub use outgoing::{MessageId, Outcome, Outgoing};
pub use when::{Timing, When};
