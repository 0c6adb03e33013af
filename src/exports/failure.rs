//! Why a job fails: the customer's words, the operator's, and the metric's.

use uuid::Uuid;

use crate::workspaces::StorageError;
use objects::ObjectError;
use store::StoreError;

kit::named! {
    /// Why a job failed, as metrics tell it.
    pub enum Cause {
        /// More users or bytes than an export without own storage may have.
        Limit = "limit",
        /// Stored documents that cannot be read.
        BrokenUsers = "broken_users",
        /// The workspace's own storage.
        OwnStorage = "own_storage",
        /// Where exports without own storage are built.
        Objects = "objects",
        /// The database.
        Store = "store",
        /// One piece of work that came to no end, time and again.
        WorkersLost = "workers_lost",
        /// A mistake in this program.
        Internal = "internal",
    }
}

/// Why a job failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub cause: Cause,
    /// For the customer: in the job's status and the callback. No credentials, and nothing
    /// of the inside.
    pub message: String,
    /// For the operator. No credentials.
    pub detail: String,
}

impl Failure {
    pub(super) fn too_many_users(users: i64, limit: i64) -> Self {
        Self {
            cause: Cause::Limit,
            message: format!(
                "The control group has {users} users, and an export without your own cloud \
                 storage can have at most {limit}. Add S3 or Azure credentials to the workspace, \
                 or renew the control group with a smaller percentage."
            ),
            detail: format!("{users} users, limit {limit}"),
        }
    }

    pub(super) fn too_many_bytes(limit: i64) -> Self {
        Self {
            cause: Cause::Limit,
            message: format!(
                "The export has grown past {limit} bytes, the most that it can have without your \
                 own cloud storage. Request fewer fields, or add S3 or Azure credentials to the \
                 workspace."
            ),
            detail: format!("more than {limit} bytes of compressed data"),
        }
    }

    /// The database is in the way.
    pub fn store(error: &StoreError) -> Self {
        Self {
            cause: Cause::Store,
            message: "The export could not be completed: the user database could not be read. \
                      Please try again later."
                .into(),
            detail: error.to_string(),
        }
    }

    /// The objects are in the way; `own` says whose they are. Of own storage the customer
    /// is told what it answered, since only they can mend it.
    pub fn objects(error: &ObjectError, own: bool) -> Self {
        let detail = error.to_string();
        if own {
            let message = format!("The files could not be written to your cloud storage: {detail}");
            Self { cause: Cause::OwnStorage, message, detail }
        } else {
            let message = "The export could not be completed: its file could not be stored. \
                           Please try again later."
                .into();
            Self { cause: Cause::Objects, message, detail }
        }
    }

    /// Own storage cannot be opened.
    pub fn storage(error: &StorageError) -> Self {
        match error {
            StorageError::Store(error) => Self::store(error),
            StorageError::Objects(error) => Self::objects(error, true),
            StorageError::Secret(error) => Self {
                cause: Cause::OwnStorage,
                message: "The stored credentials of your cloud storage cannot be read. Please add \
                          them to the workspace again."
                    .into(),
                detail: error.to_string(),
            },
        }
    }

    /// No attempt at a piece of work came to an end that says why.
    pub(super) fn workers_lost(work: &str, attempts: u32) -> Self {
        Self {
            cause: Cause::WorkersLost,
            message: "The export could not be completed. Please try again; if it fails again, \
                      request fewer fields."
                .into(),
            detail: format!(
                "{work}: {attempts} attempts, none of which came to an end: the worker was lost \
                 or stopped, or the work panicked"
            ),
        }
    }

    /// Some users' stored documents cannot be read: an export that lacks them is never
    /// passed off as whole.
    pub(super) fn broken_users(count: i64, first: &[(Uuid, String)]) -> Self {
        let ids: Vec<String> = first.iter().map(|(id, _)| id.to_string()).collect();
        let reasons: Vec<String> = first.iter().map(|(id, why)| format!("{id}: {why}")).collect();
        let more = if count > first.len() as i64 { " and more" } else { "" };
        Self {
            cause: Cause::BrokenUsers,
            message: format!(
                "The stored profiles of {count} users cannot be read, so the export would not be \
                 complete. Their service_ids: {}{more}.",
                ids.join(", ")
            ),
            detail: reasons.join("; "),
        }
    }

    /// What lies under a part's name in own storage is not a file of this export.
    pub(super) fn in_the_way(path: &str) -> Self {
        Self::own_file(format!("{path} is there already, and was not written by this export"))
    }

    /// The file of an earlier attempt went away between the look at its name and at it.
    pub(super) fn vanished(path: &str) -> Self {
        Self::own_file(format!("{path} was removed during the export"))
    }

    fn own_file(detail: String) -> Self {
        let message = format!("The files could not be written to your cloud storage: {detail}.");
        Self { cause: Cause::OwnStorage, message, detail }
    }

    /// A part's file does not fit into all the memory that there is for users' data.
    pub(super) fn too_large(bytes: usize) -> Self {
        Self {
            cause: Cause::Limit,
            message: "The users' data is too large for one file of the export. Request fewer \
                      fields."
                .into(),
            detail: format!(
                "a part needs more than {bytes} bytes of memory (exports.memory_bytes)"
            ),
        }
    }

    /// What the status says of a failure of storage while the export goes on trying.
    pub(super) fn while_retrying(&self) -> String {
        let what = match self.cause {
            Cause::Objects => "The file of the export could not be stored",
            _ => self.message.trim_end_matches('.'),
        };
        format!("{what}. The export keeps trying.")
    }

    /// What must not happen.
    pub fn internal(detail: impl Into<String>) -> Self {
        Self {
            cause: Cause::Internal,
            message: "The export could not be completed because of an internal error.".into(),
            detail: detail.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_customer_is_told_what_they_can_mend() {
        let failure = Failure::in_the_way("a/b.zip");
        assert!(failure.message.contains("a/b.zip") && failure.cause == Cause::OwnStorage);
        let failure = Failure::too_large(7);
        assert!(failure.message.contains("fewer fields") && failure.detail.contains('7'));
    }
}
