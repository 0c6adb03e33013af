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
mod openapi;
pub mod reported;
mod signed;
pub mod unsubscribe;

use serde::Deserialize;

use crate::clock::parse_time;
use crate::gateway::ApiError;

pub use signed::KnownNames;
pub use unsubscribe::token as unsubscribe_token;

/// Reports of one request.
const MOST_REPORTS: usize = 500;

/// Characters of a reason that are kept.
const LONGEST_REASON: usize = 500;

/// When something was, as a report says; text of a time.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
struct At(String);

impl At {
    /// In milliseconds since the epoch; never later than now.
    fn read(at: Option<&Self>, now: i64) -> Result<i64, String> {
        match at {
            Some(Self(text)) => Ok(parse_time(text)?.min(now)),
            None => Ok(now),
        }
    }
}

/// Checks how many reports there are.
fn check_count(name: &str, count: usize) -> Result<(), ApiError> {
    match (1..=MOST_REPORTS).contains(&count) {
        true => Ok(()),
        false => Err(ApiError::Invalid(format!("{name} must have 1 to {MOST_REPORTS} elements"))),
    }
}

/// A reason as it is kept.
fn reason(text: Option<&str>) -> Option<String> {
    let text = text.map(str::trim).filter(|text| !text.is_empty())?;
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    Some(text.chars().map(plain).take(LONGEST_REASON).collect())
}
