//! What comes back: reports of providers and of the relay, and users who want no more emails.
//!
//! | module | is about |
//! |---|---|
//! | [`api`] | the routes |
//! | `signed` | who may report: whoever signs as the workspace declares |
//! | [`feedback`] | reports of push, SMS and WhatsApp |
//! | [`events`] | reports of what became of emails |
//! | [`reported`] | who is told of them |
//! | [`unsubscribe`] | the address in every email that is not transactional |
//!
//! Every report can come twice, or late, or be about what is not known here: it changes what it
//! can, and is answered once that is durable.

pub mod api;
pub mod events;
pub mod feedback;
pub mod reported;
mod signed;
pub mod unsubscribe;

use crate::gateway::formats::Time;

pub use signed::KnownNames;
pub use unsubscribe::Appends;

/// Reports of one request.
const MOST_REPORTS: usize = 500;

/// Characters of a reason that are kept.
const LONGEST_REASON: usize = 500;

/// When something was, as a report says, in milliseconds since the epoch; never later than now.
fn at(reported: Option<Time>, now: i64) -> i64 {
    reported.map_or(now, |Time(at)| at.min(now))
}

/// A reason as it is kept.
fn reason(text: Option<String>) -> Option<String> {
    let text = text.as_deref().map(str::trim).filter(|text| !text.is_empty())?;
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    Some(text.chars().map(plain).take(LONGEST_REASON).collect())
}
