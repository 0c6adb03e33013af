//! Why work on a dispatch failed.

use kit::retry::Retry;
use store::StoreError;
use store::claims::ClaimError;

#[derive(Debug, thiserror::Error)]
pub enum DispatchError {
    /// The claim is another worker's now, or the dispatch has ended.
    #[error("the claim was lost to another worker, or withdrawn")]
    Lost,
    #[error("the worker was asked to stop")]
    Stopped,
    /// The dispatch can never be sent.
    #[error("{0}")]
    Hopeless(String),
    #[error(transparent)]
    Store(#[from] StoreError),
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
            Self::Store(error) => error.can_retry(),
            Self::Stopped => true,
            Self::Lost | Self::Hopeless(_) => false,
        }
    }

    fn needs_newer(&self) -> bool {
        matches!(self, Self::Store(error) if error.needs_newer())
    }
}
