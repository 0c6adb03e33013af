//! The errors of SCIM requests, and their body (RFC 7644 section 3.12).

use std::borrow::Cow;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::ApiError;
use crate::error::ErrorMessage;
use crate::refusal::{ErrorResponse, Refusal};
use store::StoreError;

/// The beginning of all SCIM paths.
pub const PATH: &str = "/scim/v2";

/// The media type of responses.
pub const CONTENT_TYPE: &str = "application/scim+json";

const ERROR: &str = "urn:ietf:params:scim:api:messages:2.0:Error";

/// An error of a SCIM request: a common error, or one that SCIM defines.
#[derive(Debug)]
pub enum ScimError {
    Api(ApiError),
    Refused {
        status: StatusCode,
        scim_type: Option<ScimType>,
        /// The text for the client.
        detail: Cow<'static, str>,
    },
}

/// The kind of error, with status 400 or 409 (table 9 of RFC 7644).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub enum ScimType {
    InvalidFilter,
    Uniqueness,
    Mutability,
    InvalidSyntax,
    InvalidPath,
    NoTarget,
    InvalidValue,
}

/// An error (RFC 7644 section 3.12).
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScimErrorBody<'a> {
    #[schemars(extend("minItems" = 1, "maxItems" = 1, "items" = { "type": "string", "const": ERROR }))]
    schemas: [&'static str; 1],
    /// The HTTP status.
    #[schemars(regex(pattern = "^[45][0-9]{2}$"))]
    status: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    scim_type: Option<ScimType>,
    /// The text of the error, for people to read.
    detail: &'a str,
}

impl ScimError {
    /// An error with status 400.
    pub fn bad(scim_type: ScimType, detail: impl Into<Cow<'static, str>>) -> Self {
        let scim_type = Some(scim_type);
        Self::Refused { status: StatusCode::BAD_REQUEST, scim_type, detail: detail.into() }
    }

    /// An error with another status, without `scimType`.
    pub fn new(status: StatusCode, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::Refused { status, scim_type: None, detail: detail.into() }
    }

    /// 409: another resource of this kind has the same value.
    pub fn not_unique(attribute: &str, kind: &str) -> Self {
        Self::Refused {
            status: StatusCode::CONFLICT,
            scim_type: Some(ScimType::Uniqueness),
            detail: format!("{attribute}: already in use by another {kind}").into(),
        }
    }

    /// 404.
    pub fn unknown(kind: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("Unknown {kind} id"))
    }
}

impl Refusal for ScimError {
    fn error_response(&self) -> ErrorResponse {
        match self {
            Self::Api(error) => {
                let ErrorResponse { status, retries, .. } = error.error_response();
                ErrorResponse { status, body: body(status, None, &error.message()), retries }
            }
            Self::Refused { status, scim_type, detail } => ErrorResponse {
                status: *status,
                body: body(*status, *scim_type, detail),
                retries: false,
            },
        }
    }
}

impl From<ApiError> for ScimError {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

impl From<StoreError> for ScimError {
    fn from(error: StoreError) -> Self {
        Self::Api(error.into())
    }
}

impl IntoResponse for ScimError {
    fn into_response(self) -> Response {
        match self {
            // The router converts it to the protocol's format, like its own errors.
            Self::Api(error) => error.into_response(),
            Self::Refused { status, scim_type, detail } => {
                let mut response = status.into_response();
                put_body(&mut response, scim_type, &detail);
                response
            }
        }
    }
}

/// Whether a path belongs to SCIM, so that its errors are [converted](to_scim_error).
pub fn is_scim(path: &str) -> bool {
    path.strip_prefix(PATH).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Converts an error to a SCIM body; returns any other response unchanged.
pub fn to_scim_error(mut response: Response) -> Response {
    if let Some(ErrorMessage { message, .. }) = response.extensions_mut().remove() {
        put_body(&mut response, None, &message);
    }
    response
}

fn body(status: StatusCode, scim_type: Option<ScimType>, detail: &str) -> Value {
    json!(ScimErrorBody { schemas: [ERROR], status: status.as_str(), scim_type, detail })
}

fn put_body(response: &mut Response, scim_type: Option<ScimType>, detail: &str) {
    let body = body(response.status(), scim_type, detail);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
    *response.body_mut() = Body::from(body.to_string());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scim_paths_are_recognized() {
        for path in ["/scim/v2", "/scim/v2/", "/scim/v2/Users", "/scim/v2/x/y"] {
            assert!(is_scim(path), "{path}");
        }
        for path in ["/", "/scim/v", "/scim/v22", "/users/track", "/x/scim/v2/Users"] {
            assert!(!is_scim(path), "{path}");
        }
    }
}
