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

use serde_json::Value;

use crate::gateway::{ApiError, JsonText};
use crate::messages::members::{self, Members};
use kit::clock::parse_time;

pub use signed::KnownNames;
pub use unsubscribe::Appends;

/// Reports of one request.
const MOST_REPORTS: usize = 500;

/// Characters of a reason that are kept.
const LONGEST_REASON: usize = 500;

/// Reads the reports of a body, the elements of its member `name`, each with `read`, whose errors
/// begin with the member of the report that is wrong.
fn reports<T>(
    body: &JsonText,
    name: &str,
    read: impl Fn(&Members) -> Result<T, String>,
) -> Result<Vec<T>, ApiError> {
    let body = body.object()?;
    let all = members::member(&body, name).ok_or_else(|| format!("{name} is required"));
    let all = all.and_then(|all| {
        all.as_array().ok_or_else(|| format!("{name} must be an array of objects"))
    });
    let all = all.map_err(ApiError::Invalid)?;
    if !(1..=MOST_REPORTS).contains(&all.len()) {
        return Err(ApiError::Invalid(format!("{name} must have 1 to {MOST_REPORTS} elements")));
    }
    let one = |(i, report): (usize, &Value)| {
        let report = report.as_object().ok_or_else(|| format!("{name}[{i}] must be an object"))?;
        read(report).map_err(|error| format!("{name}[{i}].{error}"))
    };
    let read: Result<_, String> = all.iter().enumerate().map(one).collect();
    read.map_err(ApiError::Invalid)
}

/// What a report is about, as one of these.
fn kind(report: &Members, types: &[&'static str]) -> Result<&'static str, String> {
    let named = members::required_text(report, "type")?;
    types.iter().copied().find(|kind| *kind == named).ok_or_else(|| {
        let (last, others) = types.split_last().unwrap_or((&"", &[]));
        format!("type must be one of {} and {last}", others.join(", "))
    })
}

/// When something was, as a report says, in milliseconds since the epoch; never later than now.
fn at(report: &Members, now: i64) -> Result<i64, String> {
    match members::text(report, "at")? {
        Some(text) => {
            parse_time(text).map(|at| at.min(now)).map_err(|error| format!("at: {error}"))
        }
        None => Ok(now),
    }
}

/// A reason as it is kept.
fn reason(text: Option<&str>) -> Option<String> {
    let text = text.map(str::trim).filter(|text| !text.is_empty())?;
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    Some(text.chars().map(plain).take(LONGEST_REASON).collect())
}
