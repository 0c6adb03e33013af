//! Messages: from the call, the schedule or the purchase that starts them to the channel that
//! takes each one.
//!
//! ```text
//! call, schedule, trigger ──order──> dispatch ──parts──> user by user: render ──> channel
//! ```
//!
//! [`api`] are the calls that send messages now or later. [`order`] is what is to be sent and to
//! whom; [`dispatch`] walks the users in parts, writes a row for each message before it is a
//! request, and hands it to its channel ([`channels`]) under an id that is the same however often
//! it must be handed over ([`MessageId`]). [`content`] are the message objects of the API, whose
//! texts are [templates](template); [`external`] reads what templates ask for. [`live_activity`] is a call of its own for one channel. Transactional
//! emails have [a module of their own](crate::transactional), as has
//! [what comes back](crate::inbound).

pub mod api;
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
