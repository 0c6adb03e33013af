//! The failures that both remote stores have in common.

use jiff::{SignedDuration, Timestamp};

use super::ObjectError;

/// A response that is not a success: the values on which callers branch, and its text.
#[derive(Debug)]
pub(super) struct Failure {
    /// The HTTP status, if there was a response.
    pub status: Option<u16>,
    pub error: ObjectError,
}

impl From<Failure> for ObjectError {
    fn from(failure: Failure) -> Self {
        failure.error
    }
}

impl Failure {
    /// There was no usable response.
    pub fn without_response(error: ObjectError) -> Self {
        Self { status: None, error }
    }

    pub fn is_not_found(&self) -> bool {
        matches!(self.error, ObjectError::NotFound(_))
    }
}

/// A code of a store as it is shown: nothing if it does not have the form of one.
pub(super) fn shown_code(code: &str) -> &str {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if code.len() <= 64 && code.bytes().all(is_allowed) { code } else { "" }
}

/// The stores reject requests with a larger clock difference as replays; both document 15 minutes.
pub(super) const SKEW_ALLOWED: SignedDuration = SignedDuration::from_mins(14);

/// How far this machine's clock is ahead (positive) or behind (negative) of the store's; `date` is
/// from the store's response.
pub(super) fn clock_skew(date: &str, now: Timestamp) -> Option<SignedDuration> {
    let store_time = jiff::fmt::rfc2822::parse(date).ok()?.timestamp();
    Some(now.duration_since(store_time))
}

/// The error for a request that was rejected because this machine's clock is wrong. Another machine
/// can repeat it, and so can this one once its clock is right.
pub(super) fn clock_skew_error(skew: Option<SignedDuration>) -> ObjectError {
    let how_far = match skew {
        Some(skew) => {
            let side = if skew.is_negative() { "behind" } else { "ahead of" };
            format!("{} seconds {side} the store's", skew.as_secs().unsigned_abs())
        }
        None => "off".to_owned(),
    };
    ObjectError::Clock(
        format!(
            "the clock of this machine is {how_far}: synchronize it (NTP), because signatures are \
         valid for minutes"
        )
        .into(),
    )
}

/// Whether a request with this status may succeed later. A success with an error was garbled, cut
/// off, or had an error in its body.
pub(super) fn is_transient(status: u16) -> bool {
    status >= 500 && status != 501 || matches!(status, 200..=299 | 408 | 429)
}

/// The innermost cause of an error, which says most about a failed connection.
pub(super) fn innermost(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::retry::Retry as _;

    #[test]
    fn clock_skew_is_reported_as_ahead_or_behind() {
        let now: Timestamp = "2026-11-21T08:00:00Z".parse().unwrap();
        let ahead = clock_skew("Sat, 21 Nov 2026 07:00:00 GMT", now);
        assert!(clock_skew_error(ahead).to_string().contains("3600 seconds ahead"));
        let behind = clock_skew("Sat, 21 Nov 2026 08:20:00 GMT", now);
        assert!(clock_skew_error(behind).to_string().contains("1200 seconds behind"));
        assert!(clock_skew("yesterday", now).is_none());
    }

    #[test]
    fn clock_skew_is_retried() {
        let error = clock_skew_error(None);
        assert!(error.can_retry() && error.is_clock_error());
    }
}
