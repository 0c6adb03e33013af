//! The outcome of a message from an HTTP response.

use reqwest::StatusCode;

use crate::messages::Outcome;
use crate::outbound::{Answered, Unanswered};

/// The outcome if only the status matters: an overloaded or failing receiver is retried, after the
/// time that it requests; any other error is permanent.
pub fn outcome(answer: &Answered) -> Outcome {
    let status = answer.status;
    if status.is_success() {
        return Outcome::Sent;
    }
    let is_passing = status.is_server_error()
        || matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS);
    match is_passing {
        true => Outcome::Later { reason: answer.in_words(), after: answer.retry_after },
        false => Outcome::Failed(answer.in_words()),
    }
}

/// The outcome of a request without a response: it may have been accepted, so it is repeated with
/// the same id.
pub fn unanswered(unanswered: Unanswered) -> Outcome {
    match unanswered {
        Unanswered::Refused(reason) => Outcome::Failed(reason),
        Unanswered::Failed(reason) => Outcome::Later { reason, after: None },
    }
}
