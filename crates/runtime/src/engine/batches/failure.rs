//! The causes of failed attempts, and the reaction to each.

use std::fmt::Display;
use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;

use kit::panics;
use kit::retry::Retry;
use store::StoreError;

/// The cause of a failed attempt.
#[derive(Debug)]
pub(super) enum Failure {
    /// Another attempt may succeed; or this one did, and its response was lost.
    Transient(String),
    /// Like `Transient`; smaller pieces help.
    TooLarge(String),
    /// It fails every time.
    Permanent(String),
    /// Only a newer worker can do it: earlier messages are applied, and then it waits.
    Newer(String),
    /// The position is not the expected one.
    OffsetMoved,
    /// The worker must stop.
    Stopped,
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::from_error(&error)
    }
}

impl Failure {
    pub fn from_error(error: &(impl Retry + Display)) -> Self {
        let text = error.to_string();
        if error.needs_newer_version() {
            Self::Newer(text)
        } else if !error.can_retry() {
            Self::Permanent(text)
        } else if error.is_too_large() {
            Self::TooLarge(text)
        } else {
            Self::Transient(text)
        }
    }
}

/// Runs work that may panic.
pub(super) async fn caught<T>(
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|panic| {
        let text = format!("it panicked: {}", panics::text(&*panic));
        tracing::error!("{text}");
        Err(Failure::Permanent(text))
    })
}
