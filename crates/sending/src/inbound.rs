//! Reports of providers and of the relay, and unsubscribing from emails.
//!
//! | module | is about |
//! |---|---|
//! | [`api`] | the routes |
//! | `signed` | authentication of reports: signed with the workspace's secret |
//! | [`feedback`] | reports of push, SMS and WhatsApp |
//! | [`events`] | reports about emails |
//! | [`reported`] | applies reports to messages |
//! | [`unsubscribe`] | the address in every email that is not transactional |
//!
//! A report can be repeated, be late, or concern an unknown message. Reports that still apply are
//! stored, and the response is sent once that is durable.

pub mod api;
pub mod events;
pub mod feedback;
pub mod reported;
mod signed;
pub mod unsubscribe;

use gateway::formats::Time;

pub use unsubscribe::RecentUnsubscribes;

/// Maximum number of reports in one request.
const MAX_REPORTS: usize = 500;

/// Maximum characters of a stored reason.
const MAX_REASON_LENGTH: usize = 500;

/// The time in a report, in milliseconds since the epoch; never in the future.
fn time_of_event(reported: Option<Time>, now: i64) -> i64 {
    reported.map_or(now, |Time(at)| at.min(now))
}

/// A reason, cut to its stored length.
fn stored_reason(text: Option<String>) -> Option<String> {
    let text = text.as_deref().map(str::trim).filter(|text| !text.is_empty())?;
    let without_control = |c: char| if c.is_control() { ' ' } else { c };
    Some(text.chars().map(without_control).take(MAX_REASON_LENGTH).collect())
}
