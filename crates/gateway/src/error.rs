//! The errors of requests, with their status and code.

use std::borrow::Cow;
use std::fmt::Display;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::Code;
use super::coding::ACCEPTED;
use super::formats::{Error, Errors};
use super::refusal::{ErrorResponse, Refusal};
use crate::workspaces::StorageError;
use kit::pattern::TooCostly;
use kit::retry::Retry;
use log::LogError;
use objects::ObjectError;
use runtime::credentials::FindError;
use store::StoreError;

/// The message for a sender that is not on the allowlist.
pub const ADDRESS_REFUSED: &str = "Invalid whitelisted IPs";

/// `Retry-After` of temporary errors, in seconds.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("5");

/// `Retry-After` while another request of the same client is in progress, in seconds.
const RETRY_SOON: HeaderValue = HeaderValue::from_static("1");

/// The content of an error response, stored in its extensions for code that writes a body in
/// another format.
#[derive(Clone, Debug)]
pub struct ErrorMessage {
    pub message: String,
    pub code: Code,
}

/// The error type of every request. Variants have the text for the customer, or details for the
/// operator, which are logged when the error becomes a response.
#[derive(Clone, Debug)]
pub enum ApiError {
    /// 400, with the text.
    Invalid(String),
    /// 400 with a code of its own; names the field.
    Field(Code, String),
    /// 400 with several errors: the message, and `errors` next to it.
    InvalidMany(String, Vec<Value>),
    /// 401 `Error authenticating credentials`.
    Unauthenticated,
    /// 403, with the text.
    Forbidden(&'static str),
    /// 403, with the permissions of which the key needs one.
    NoPermission(Vec<&'static str>),
    /// 404, with the text.
    NotFound(String),
    /// 404 with several errors: the message, and `errors` next to it.
    NotFoundMany(String, Vec<Value>),
    /// 405; the router sets `Allow`.
    MethodNotAllowed,
    /// 408: the body was not received in time.
    TooSlow,
    /// 409, with the text.
    Conflict(String),
    /// 409 with `Retry-After`, with the text: the same request may succeed later.
    InProgress(&'static str),
    /// 413.
    TooLarge,
    /// 415: the body is not JSON.
    UnsupportedMediaType,
    /// 415: the body has a content coding that is not accepted.
    UnsupportedEncoding,
    /// 422, with the text.
    Unprocessable(&'static str),
    /// 429 with `Retry-After` in seconds.
    RateLimited(i64),
    /// 503 with `Retry-After`: overloaded.
    Overloaded,
    /// 503 with `Retry-After`; the detail is for the operator.
    Unavailable(String),
    /// 500; the detail is for the operator.
    Internal(String),
}

impl ApiError {
    /// A field has a value that is not allowed.
    pub fn invalid_field(text: impl Into<String>) -> Self {
        Self::Field(Code::InvalidField, text.into())
    }

    pub fn status(&self) -> StatusCode {
        match self {
            Self::Invalid(_) | Self::Field(..) | Self::InvalidMany(..) => StatusCode::BAD_REQUEST,
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::Forbidden(_) | Self::NoPermission(_) => StatusCode::FORBIDDEN,
            Self::NotFound(_) | Self::NotFoundMany(..) => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Conflict(_) | Self::InProgress(_) => StatusCode::CONFLICT,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnsupportedMediaType | Self::UnsupportedEncoding => {
                StatusCode::UNSUPPORTED_MEDIA_TYPE
            }
            Self::Unprocessable(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::RateLimited(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::Overloaded | Self::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The stable code, on which programs can rely.
    pub fn code(&self) -> Code {
        match self {
            Self::Invalid(_) | Self::InvalidMany(..) => Code::InvalidRequest,
            Self::Field(code, _) => *code,
            Self::Unauthenticated => Code::Unauthenticated,
            Self::Forbidden(ADDRESS_REFUSED) => Code::AddressNotAllowed,
            Self::Forbidden(_) => Code::Forbidden,
            Self::NoPermission(_) => Code::PermissionDenied,
            Self::NotFound(_) | Self::NotFoundMany(..) => Code::NotFound,
            Self::MethodNotAllowed => Code::MethodNotAllowed,
            Self::TooSlow => Code::RequestTimeout,
            Self::Conflict(_) => Code::Conflict,
            Self::InProgress(_) => Code::InProgress,
            Self::TooLarge => Code::BodyTooLarge,
            Self::UnsupportedMediaType => Code::UnsupportedMediaType,
            Self::UnsupportedEncoding => Code::UnsupportedEncoding,
            Self::Unprocessable(_) => Code::KeyReused,
            Self::RateLimited(_) => Code::RateLimited,
            Self::Overloaded | Self::Unavailable(_) => Code::Unavailable,
            Self::Internal(_) => Code::InternalError,
        }
    }

    /// The text for the customer.
    pub fn message(&self) -> Cow<'_, str> {
        match self {
            Self::Invalid(text)
            | Self::Field(_, text)
            | Self::InvalidMany(text, _)
            | Self::NotFound(text)
            | Self::NotFoundMany(text, _)
            | Self::Conflict(text) => text.as_str().into(),
            Self::Forbidden(text) | Self::InProgress(text) | Self::Unprocessable(text) => {
                (*text).into()
            }
            Self::NoPermission(_) => "You do not have permission to access this resource".into(),
            Self::Unauthenticated => "Error authenticating credentials".into(),
            Self::MethodNotAllowed => "This path does not support this method".into(),
            Self::TooSlow => "The request body was not received in time".into(),
            Self::TooLarge => "The request body is too large".into(),
            Self::UnsupportedMediaType => {
                "The Content-Type of the request body must be application/json".into()
            }
            Self::UnsupportedEncoding => {
                "The Content-Encoding of the request body must be gzip, zstd or deflate".into()
            }
            Self::RateLimited(_) => "The rate limit is exceeded, please retry later".into(),
            Self::Overloaded | Self::Unavailable(_) => {
                "The service is temporarily unavailable, please retry".into()
            }
            Self::Internal(_) => "An internal error occurred".into(),
        }
    }

    /// The response's body.
    fn body(&self) -> Value {
        let message = self.message();
        let permission = match self {
            Self::NoPermission(permissions) => Some(permissions.join(" or ")),
            _ => None,
        };
        let error =
            Error { message: &message, code: self.code(), permission: permission.as_deref() };
        match self {
            Self::InvalidMany(_, errors) | Self::NotFoundMany(_, errors) => {
                json!(Errors { error, errors: Some(errors) })
            }
            _ => json!(error),
        }
    }

    /// `Retry-After` of the response.
    fn retry_after(&self) -> Option<HeaderValue> {
        match self {
            Self::RateLimited(seconds) => Some(HeaderValue::from(*seconds)),
            Self::Overloaded | Self::Unavailable(_) => Some(RETRY_AFTER),
            Self::InProgress(_) => Some(RETRY_SOON),
            _ => None,
        }
    }

    /// Logs the details for the operator.
    fn log(&self) {
        match self {
            Self::Unavailable(detail) => tracing::warn!(%detail, "request failed: unavailable"),
            Self::Internal(detail) => tracing::error!(%detail, "request failed: internal error"),
            _ => {}
        }
    }

    /// An error of a dependency: 503 if a retry can help, else 500.
    fn from_dependency(error: &(impl Retry + Display)) -> Self {
        let detail = error.to_string();
        if error.can_retry() { Self::Unavailable(detail) } else { Self::Internal(detail) }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        Self::from_dependency(&error)
    }
}

impl From<TooCostly> for ApiError {
    fn from(error: TooCostly) -> Self {
        Self::Field(Code::AudienceTooCostly, error.to_string())
    }
}

impl From<FindError> for ApiError {
    fn from(error: FindError) -> Self {
        match error {
            FindError::Store(error) => Self::from_dependency(&*error),
            FindError::Busy => Self::Overloaded,
        }
    }
}

impl From<LogError> for ApiError {
    fn from(error: LogError) -> Self {
        Self::from_dependency(&error)
    }
}

impl From<ObjectError> for ApiError {
    fn from(error: ObjectError) -> Self {
        Self::from_dependency(&error)
    }
}

impl From<StorageError> for ApiError {
    fn from(error: StorageError) -> Self {
        Self::from_dependency(&error)
    }
}

/// An error of a field or a parameter.
impl Refusal for String {
    fn error_response(&self) -> ErrorResponse {
        ApiError::Invalid(self.clone()).error_response()
    }
}

impl Refusal for ApiError {
    fn error_response(&self) -> ErrorResponse {
        let retries = self.retry_after().is_some();
        ErrorResponse { status: self.status(), body: self.body(), retries }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        self.log();
        let mut response = (self.status(), axum::Json(self.body())).into_response();
        response
            .extensions_mut()
            .insert(ErrorMessage { message: self.message().into_owned(), code: self.code() });
        let headers = response.headers_mut();
        headers.extend(self.retry_after().map(|seconds| (header::RETRY_AFTER, seconds)));
        match self {
            Self::Unauthenticated => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            Self::UnsupportedEncoding => {
                headers.insert(header::ACCEPT_ENCODING, ACCEPTED);
            }
            _ => {}
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn answer(error: ApiError) -> (Response<()>, Value) {
        let (head, body) = error.into_response().into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        (Response::from_parts(head, ()), serde_json::from_slice(&body).unwrap())
    }

    #[tokio::test]
    async fn details_are_for_the_operator() {
        let (response, body) = answer(ApiError::Internal("postgres://u:p@h".into())).await;
        assert_eq!(response.status(), 500);
        assert_eq!(
            body,
            json!({ "message": "An internal error occurred", "code": "internal-error" })
        );
        let (response, body) = answer(ApiError::Unavailable("broker 7".into())).await;
        assert_eq!(response.status(), 503);
        assert_eq!(response.headers()["retry-after"], "5");
        assert!(!body.to_string().contains("broker"));
    }

    #[tokio::test]
    async fn several_problems_are_listed_in_errors() {
        let errors = vec![json!({ "type": "a" }), json!({ "type": "b" })];
        let (response, body) = answer(ApiError::InvalidMany("m".into(), errors.clone())).await;
        assert_eq!(response.status(), 400);
        assert_eq!(body, json!({ "message": "m", "code": "invalid-request", "errors": errors }));
    }

    #[tokio::test]
    async fn each_permission_that_would_be_enough_is_named() {
        for (permissions, text) in [(vec!["a.b"], "a.b"), (vec!["a.b", "c.d"], "a.b or c.d")] {
            let (response, body) = answer(ApiError::NoPermission(permissions)).await;
            assert_eq!((response.status().as_u16(), &body["permission"]), (403, &json!(text)));
        }
    }

    #[test]
    fn temporary_errors_are_unavailable() {
        let later = ApiError::from(LogError::Unavailable("x".into()));
        assert!(matches!(later, ApiError::Unavailable(_)));
        let never = ApiError::from(StoreError::Corrupt("x".into()));
        assert!(matches!(never, ApiError::Internal(_)));
    }
}
