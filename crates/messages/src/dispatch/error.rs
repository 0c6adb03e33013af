//! Why work on a dispatch failed.

use kit::pattern::TooCostly;
use kit::retry::Retry;
use store::StoreError;
use store::claims::ClaimError;

#[derive(Debug, thiserror::Error)]
pub enum DispatchError {
    /// Another worker has the claim now, or the dispatch has ended.
    #[error("the claim was lost to another worker, or withdrawn")]
    Lost,
    #[error("the worker was asked to stop")]
    Stopped,
    /// The dispatch has ended meanwhile: the part must be settled.
    #[error("the dispatch has ended")]
    Ended,
    /// The part has had its turn, and other work waits.
    #[error("the turn of the part is over")]
    TurnOver,
    /// The dispatch can never be sent.
    #[error("{0}")]
    Permanent(String),
    /// The conditions take too long to check.
    #[error(transparent)]
    Costly(#[from] TooCostly),
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Messages were sent, and their outcomes are not stored.
    #[error("cannot store the outcomes of messages: {0}")]
    Unsettled(StoreError),
}

impl From<ClaimError> for DispatchError {
    fn from(error: ClaimError) -> Self {
        match error {
            ClaimError::Lost => Self::Lost,
            ClaimError::Store(error) => Self::Store(error),
        }
    }
}

impl Retry for DispatchError {
    fn can_retry(&self) -> bool {
        match self {
            Self::Store(error) | Self::Unsettled(error) => error.can_retry(),
            Self::Stopped | Self::TurnOver => true,
            Self::Lost | Self::Ended | Self::Permanent(_) | Self::Costly(_) => false,
        }
    }

    fn needs_newer_version(&self) -> bool {
        match self {
            Self::Store(error) | Self::Unsettled(error) => error.needs_newer_version(),
            _ => false,
        }
    }
}
