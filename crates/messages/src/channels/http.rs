//! Derives the outcome of a message from an HTTP response.

use reqwest::StatusCode;

use crate::Outcome;
use runtime::outbound::{HttpResponse, RequestError};

/// The outcome by status alone. An overloaded or failing receiver is retried, after the time that
/// it requests; any other error is permanent.
pub fn outcome(answer: &HttpResponse) -> Outcome {
    let status = answer.status;
    if status.is_success() {
        return Outcome::Sent;
    }
    let is_passing = status.is_server_error()
        || matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS);
    match is_passing {
        true => Outcome::Later { reason: answer.summary(), after: answer.retry_after },
        false => Outcome::Failed(answer.summary()),
    }
}

/// The outcome of a request without a response. The receiver may have accepted it, so it is
/// repeated with the same id.
pub fn no_response(no_response: RequestError) -> Outcome {
    match no_response {
        RequestError::Refused(reason) => Outcome::Failed(reason),
        RequestError::Failed(reason) => Outcome::Later { reason, after: None },
    }
}
