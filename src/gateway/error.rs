//! What a call can fail with, and the status that each becomes.

/// One error type for every call. What the customer reads is in the variant; what the
/// operator needs is logged where the error is made into an answer.
#[derive(Debug)]
pub enum ApiError {
    /// 400; names the field.
    Invalid(String),
    /// 401 `Error authenticating credentials`.
    Unauthenticated,
    /// 403, with the text.
    Forbidden(&'static str),
    /// 404, with the text.
    NotFound(String),
    /// 409, with the text.
    Conflict(String),
    /// 413.
    TooLarge,
    /// 415.
    UnsupportedMediaType,
    /// 503 with `Retry-After`; the detail is for the operator.
    Unavailable(String),
    /// 500; the detail is for the operator.
    Internal(String),
}
