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
    let after = response.retry_after;
    // From a proxy that got no valid response from the receiver.
    if matches!(status, StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT) {
        Outcome::NoResponse { reason: response.summary(), after }
    } else if is_temporary {
        Outcome::Later { reason: response.summary(), after }
    } else {
        Outcome::Failed(response.summary())
    }
}

/// The outcome of a request without a response.
pub fn no_response(error: RequestError) -> Outcome {
    match error {
        RequestError::NotSent(reason) => Outcome::Later { reason, after: None },
        RequestError::NoResponse(reason) => Outcome::NoResponse { reason, after: None },
    }
}
