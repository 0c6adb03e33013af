//! Messages: from the request, schedule or purchase that starts them to the channel that delivers
//! each one.
//!
//! ```text
//! call, schedule, trigger ──order──> dispatch ──parts──> user by user: render ──> channel
//! ```
//!
//! [`api`] has the requests that send messages now or later. [`order`] defines the messages and
//! their users; [`dispatch`] processes the users in parts, stores a row for each message before its
//! request, and sends it to its channel ([`channels`]) with an id that is the same in each attempt
//! ([`MessageId`]). [`content`] has the message objects of the API, whose texts are
//! [templates](template); [`external`] reads the data that templates use. [`live_activity`] is a
//! separate request for one channel. Transactional emails have
//! [a separate module](sending::transactional), and so have [reports](sending::inbound).

pub mod api;
pub mod app;
pub mod channels;
pub mod content;
pub mod dispatch;
pub mod external;
pub mod live_activity;
pub mod order;
pub mod outgoing;
pub mod personalization;
pub mod preview;
pub mod recipient;
pub mod request;
pub mod unsubscribe_token;
pub mod waves;
pub mod when;

pub use outgoing::{MessageId, Outcome, Outgoing};
pub use when::{Timing, When};
