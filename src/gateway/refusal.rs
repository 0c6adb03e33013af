//! What a request can be refused with, as its response and as the document describes it.

use axum::http::StatusCode;
use serde_json::Value;

/// An error as it is answered.
pub struct Worded {
    pub status: StatusCode,
    /// JSON.
    pub body: Value,
    /// Whether there is a `Retry-After`.
    pub retries: bool,
}

/// What a request can be refused with.
pub trait Refusal {
    fn worded(&self) -> Worded;
}
