//! Why a try came to nothing, and what that asks for.

use std::fmt::Display;
use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;

use kit::panics;
use kit::retry::Retry;
use store::StoreError;

/// Why a try came to nothing.
#[derive(Debug)]
pub(super) enum Failure {
    /// Another one may succeed; or this one did, and its answer was lost.
    Passing(String),
    /// As `Passing`; sooner in smaller pieces.
    TooMuch(String),
    /// It fails each time.
    Lasting(String),
    /// Only a newer worker can do it: what comes before it is done, and there it waits.
    Newer(String),
    /// The partition is not where it was expected.
    Moved,
    /// The worker must end.
    Stopped,
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::of(&error)
    }
}

impl Failure {
    pub fn of(error: &(impl Retry + Display)) -> Self {
        match error.can_retry() {
            _ if error.needs_newer() => Self::Newer(error.to_string()),
            true if error.is_too_much() => Self::TooMuch(error.to_string()),
            true => Self::Passing(error.to_string()),
            false => Self::Lasting(error.to_string()),
        }
    }
}

/// What comes of work that may panic.
pub(super) async fn caught<T>(
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|panic| {
        let text = format!("it panicked: {}", panics::text(&*panic));
        tracing::error!("{text}");
        Err(Failure::Lasting(text))
    })
}
