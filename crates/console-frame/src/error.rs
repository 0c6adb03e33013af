//! Errors of pages, as pages.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use gateway::ApiError;
use kit::retry::Retry;
use store::StoreError;

/// Why a page cannot be shown, or an action not be done.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// Nobody is signed in: the browser is sent to the sign-in page.
    #[error("not signed in")]
    SignedOut,
    /// The page or object does not exist, or this person may not know of it.
    #[error("not found")]
    NotFound,
    /// The person lacks the right of this name.
    #[error("the right {0} is missing")]
    Forbidden(&'static str),
    /// The form does not come from a page of this session.
    #[error("the form was sent by another page, or from an older session")]
    ForeignForm,
    /// The form or the address is invalid; the text is for the person.
    #[error("{0}")]
    Invalid(String),
    /// The domain refused the action.
    #[error("{}", .0.message())]
    Api(ApiError),
    /// The database is down: the page reloads by itself.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<ApiError> for PageError {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

impl PageError {
    pub fn status(&self) -> StatusCode {
        match self {
            Self::SignedOut => StatusCode::UNAUTHORIZED,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::Forbidden(_) | Self::ForeignForm => StatusCode::FORBIDDEN,
            Self::Invalid(_) => StatusCode::BAD_REQUEST,
            Self::Api(error) => error.status(),
            Self::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// Without a body: the guard of [`routes`](crate::routes) writes the page, because only it knows
/// the person.
impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        let mut response = self.status().into_response();
        response.extensions_mut().insert(Arc::new(self));
        response
    }
}

impl Retry for PageError {
    fn can_retry(&self) -> bool {
        self.status() == StatusCode::SERVICE_UNAVAILABLE
    }
}
