//! The error codes, on which programs can rely whatever the error's message is.

use schemars::JsonSchema;
use serde::Serialize;

/// The kind of error. A code never changes its meaning. A later version may have more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "ErrorCode")]
pub enum Code {
    /// The body is not JSON in UTF-8, or not an object. A retry does not help.
    InvalidJson,
    /// A field occurs more than once in an object of the body. A retry does not help.
    DuplicateField,
    /// A required field is missing or null. A retry does not help.
    MissingField,
    /// A field has a value that is not allowed. A retry does not help.
    InvalidField,
    /// The request has an unknown field, which may be a misspelt one that selects users. A retry
    /// does not help.
    UnknownField,
    /// The regular expressions of a segment or an audience take too long. A retry does not help.
    AudienceTooCostly,
    /// The request is not valid in its current form; the message says why. A retry does not help.
    InvalidRequest,
    /// The key, the token or the signature is missing, unknown or revoked. A retry does not help.
    Unauthenticated,
    /// The sender's address is not on an allowlist. A retry does not help.
    AddressNotAllowed,
    /// The key lacks the permission that `permission` names. A retry does not help.
    PermissionDenied,
    /// The request is not allowed, or not yet; the message says why. A retry helps only after the
    /// cause is gone.
    Forbidden,
    /// The path or the resource does not exist. A retry does not help.
    NotFound,
    /// The path does not support this method. A retry does not help.
    MethodNotAllowed,
    /// The body was not received in time. A retry can help.
    RequestTimeout,
    /// The state of the resource does not allow the request. A retry does not help.
    Conflict,
    /// The first request under the `Idempotency-Key` is still being processed. A retry after
    /// `Retry-After` helps.
    InProgress,
    /// The body is too large. A retry does not help.
    BodyTooLarge,
    /// The `Content-Type` is not JSON. A retry does not help.
    UnsupportedMediaType,
    /// The `Content-Encoding` is not supported. A retry does not help.
    UnsupportedEncoding,
    /// The `Idempotency-Key` was used with a different body. A retry does not help.
    KeyReused,
    /// Too many requests in this window. A retry after `Retry-After` helps.
    RateLimited,
    /// The service is overloaded, or something that it needs is down. A retry after `Retry-After`
    /// helps.
    Unavailable,
    /// The service has a bug, or its data is damaged. A retry rarely helps.
    InternalError,
}
