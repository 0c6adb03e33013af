//! Errors of requests, as responses and in the document.

use axum::http::StatusCode;
use serde_json::Value;

/// An error as a response.
pub struct ErrorResponse {
    pub status: StatusCode,
    /// JSON.
    pub body: Value,
    /// Whether the response has a `Retry-After`.
    pub retries: bool,
}

/// An error of a request.
pub trait Refusal {
    fn error_response(&self) -> ErrorResponse;
}
