//! How pages name deliveries, their states, and why one fails.

use console_frame::parts::{Look, Tone};
use deliveries::{EMAIL_NOTIFICATION, EXPORT_CALLBACK, SLACK_NOTIFICATION, STATUS_POSTBACK, State};

/// How a state is shown.
pub fn look(state: State) -> Look {
    match state {
        State::Pending => Look::new(Tone::Running, "clock", "Waiting"),
        State::Delivered => Look::good("Delivered"),
        State::GivenUp => Look::bad("Given up"),
    }
}

/// What people call a delivery of a kind.
pub fn kind(kind: &str) -> &'static str {
    match kind {
        EXPORT_CALLBACK => "Callback",
        STATUS_POSTBACK => "Status postback",
        SLACK_NOTIFICATION => "Slack message",
        EMAIL_NOTIFICATION => "Email",
        _ => "Notification",
    }
}

/// Why the last attempt failed: what happened, and what helps.
pub fn cause(state: State, status: Option<i32>, is_early: bool) -> (&'static str, &'static str) {
    match status {
        None if state == State::GivenUp && is_early => (
            "The workspace no longer declares this receiver",
            "Nothing more is sent to it. Declare it again in the workspace file to send the delivery.",
        ),
        None => (
            "The receiver did not respond",
            "It could not be reached, or took too long. A receiver in a private network must be \
             allowed by the setting allow_private.",
        ),
        Some(300..=399) => (
            "The receiver redirects the request",
            "Redirects are not followed. Use the address to which it redirects.",
        ),
        Some(401 | 403) => (
            "The receiver refuses the request",
            "Often, it checks the signature with another secret. The secret is that of the workspace \
             file.",
        ),
        Some(404 | 410) => (
            "The receiver does not know the address",
            "It was removed, or the request named another one.",
        ),
        Some(429) if state == State::GivenUp => (
            "The receiver limits requests",
            "It still did after the last attempt. Send the delivery again later.",
        ),
        Some(429) => {
            ("The receiver limits requests", "The next attempt is at the time that it asks for.")
        }
        Some(500..) => (
            "The receiver has an error",
            "Its own log has the reason. The webhook-id identifies the request there.",
        ),
        Some(_) => {
            ("The receiver did not accept the request", "Only a status of 2xx counts as accepted.")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_name_of_its_own() {
        let mut names = deliveries::KINDS.map(kind);
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }

    #[test]
    fn a_receiver_that_was_removed_is_no_receiver_that_is_down() {
        let (removed, _) = cause(State::GivenUp, None, true);
        let (down, _) = cause(State::GivenUp, None, false);
        assert!(removed.contains("declares") && down.contains("respond"));
        assert_eq!(cause(State::Pending, None, true).0, down);
        assert_ne!(
            cause(State::Pending, Some(429), false),
            cause(State::GivenUp, Some(429), false)
        );
        assert_ne!(
            cause(State::Pending, Some(404), false),
            cause(State::Pending, Some(503), false)
        );
    }
}
