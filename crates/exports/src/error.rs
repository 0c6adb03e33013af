//! Errors of an export's work.

use tokio_util::sync::CancellationToken;

use super::Failure;
use super::failure::Cause;
use gateway::workspaces::StorageError;
use kit::pattern::TooCostly;
use kit::retry::Retry;
use log::PayloadError;
use objects::ObjectError;
use store::StoreError;
use store::claims::ClaimError;

/// Why a piece of an export's work failed.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The claim is lost: the work does not count.
    #[error("the claim was lost to another worker, or withdrawn")]
    Lost,
    /// The caller that requested the stop handles the claim.
    #[error("asked to stop")]
    Stopped,
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Message(#[from] PayloadError),
    /// Own storage cannot be opened.
    #[error("own storage: {0}")]
    Storage(#[from] StorageError),
    /// The workspace's own storage.
    #[error("own storage: {0}")]
    Own(ObjectError),
    /// Where exports without own storage are built.
    #[error("{0}")]
    Objects(ObjectError),
    /// The conditions take too long to check.
    #[error(transparent)]
    Costly(#[from] TooCostly),
    /// A retry cannot help.
    #[error("{}", .0.detail)]
    Permanent(Failure),
    /// A retry may help.
    #[error("{}", .0.detail)]
    Transient(Failure),
    /// A storage failed, and the export waits for it.
    #[error("{0}")]
    Waiting(Box<ExportError>),
}

/// Checks between two steps whether a stop was requested.
pub(super) fn check_stop(stop: &CancellationToken) -> Result<(), ExportError> {
    if stop.is_cancelled() { Err(ExportError::Stopped) } else { Ok(()) }
}

impl From<ClaimError> for ExportError {
    fn from(error: ClaimError) -> Self {
        match error {
            ClaimError::Lost => Self::Lost,
            ClaimError::Store(error) => Self::Store(error),
        }
    }
}

impl Retry for ExportError {
    fn can_retry(&self) -> bool {
        match self {
            Self::Store(error) => error.can_retry(),
            Self::Message(error) => error.can_retry(),
            Self::Storage(error) => error.can_retry(),
            Self::Own(error) | Self::Objects(error) => error.can_retry(),
            Self::Stopped | Self::Transient(_) | Self::Waiting(_) => true,
            Self::Lost | Self::Costly(_) | Self::Permanent(_) => false,
        }
    }

    fn waits(&self) -> bool {
        matches!(self, Self::Waiting(_))
    }

    fn is_too_large(&self) -> bool {
        matches!(self, Self::Store(error) if error.is_too_large())
    }

    fn needs_newer_version(&self) -> bool {
        match self {
            Self::Store(error) => error.needs_newer_version(),
            Self::Storage(error) => error.needs_newer_version(),
            Self::Message(error) => error.needs_newer_version(),
            _ => false,
        }
    }

    fn is_clock_error(&self) -> bool {
        match self {
            Self::Storage(error) => error.is_clock_error(),
            Self::Own(error) | Self::Objects(error) => error.is_clock_error(),
            _ => false,
        }
    }
}

impl ExportError {
    /// The storage's error, if it is the cause and a retry may help; and whether the storage refused
    /// a request, so that the retry helps only if somebody changes something.
    pub(super) fn storage_failure(&self) -> Option<(Failure, bool)> {
        let is_refusal = match self {
            Self::Own(error) | Self::Objects(error) => matches!(error, ObjectError::Refused(_)),
            _ => false,
        };
        let is_ours = self.needs_newer_version() || self.is_clock_error();
        let waits = (is_refusal || self.can_retry()) && !is_ours;
        let failure = waits.then(|| self.failure())?;
        let is_of_storage = matches!(failure.cause, Cause::OwnStorage | Cause::Objects);
        is_of_storage.then_some((failure, is_refusal))
    }

    /// The job's failure if this was the last attempt.
    pub fn failure(&self) -> Failure {
        match self {
            Self::Store(error) => Failure::store(error),
            Self::Storage(error) => Failure::storage(error),
            Self::Own(error) => Failure::objects(error, true),
            Self::Objects(error) => Failure::objects(error, false),
            Self::Costly(error) => Failure::costly(error),
            Self::Permanent(failure) | Self::Transient(failure) => failure.clone(),
            Self::Waiting(error) => error.failure(),
            Self::Lost | Self::Stopped | Self::Message(_) => Failure::internal(self.to_string()),
        }
    }
}
