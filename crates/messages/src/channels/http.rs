//! Derives the outcome of a message from an HTTP response.

use reqwest::StatusCode;

use crate::Outcome;
use runtime::outbound::{HttpResponse, RequestError};

/// The outcome by status alone. An overloaded or failing receiver is retried, after the time that
/// it requests; any other error is permanent.
pub fn outcome(response: &HttpResponse) -> Outcome {
    let status = response.status;
    if status.is_success() {
        return Outcome::Sent;
    }
    let is_temporary = status.is_server_error()
        || matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS);
    if is_temporary {
        Outcome::Later { reason: response.summary(), after: response.retry_after }
    } else {
        Outcome::Failed(response.summary())
    }
}

/// The outcome of a request without a response. The receiver may have accepted it, so it is
/// repeated with the same id.
pub fn no_response(error: RequestError) -> Outcome {
    match error {
        RequestError::Refused(reason) => Outcome::Failed(reason),
        RequestError::Failed(reason) => Outcome::Later { reason, after: None },
    }
}
