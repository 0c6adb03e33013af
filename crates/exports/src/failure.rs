//! Why a job fails: the texts for the customer and the operator, and the metric's label.

use jiff::Timestamp;
use uuid::Uuid;

use super::Audience;
use gateway::workspaces::StorageError;
use kit::pattern::TooCostly;
use objects::ObjectError;
use store::StoreError;

kit::named! {
    /// The cause of a failed job, in metrics.
    pub enum Cause {
        /// More users or bytes than allowed without own storage, or too many steps.
        Limit = "limit",
        /// The segment was deleted before the plan.
        Deleted = "deleted",
        /// Unreadable stored documents.
        BrokenUsers = "broken_users",
        /// The workspace's own storage.
        OwnStorage = "own_storage",
        /// Where exports without own storage are built.
        Objects = "objects",
        /// The database.
        Store = "store",
        /// A piece of work in which the worker was repeatedly lost.
        WorkersLost = "workers_lost",
        /// A bug in this program.
        Internal = "internal",
    }
}

const AGAIN: &str = "Please repeat the export.";

/// Why a job failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub cause: Cause,
    /// For the customer: in the job's status and the callback. No credentials, and no internals.
    pub message: String,
    /// For the operator. No credentials.
    pub detail: String,
}

impl Failure {
    pub(super) fn too_many_users(audience: &Audience, users: i64, limit: i64) -> Self {
        Self::over_user_limit(audience, &format!("{users} users"), limit)
    }

    /// Too many users of an audience whose search ended at the limit.
    pub(super) fn more_users_than(audience: &Audience, limit: i64) -> Self {
        Self::over_user_limit(audience, &format!("more than {limit} users"), limit)
    }

    fn over_user_limit(audience: &Audience, users: &str, limit: i64) -> Self {
        let (audience, remedy) = match audience {
            Audience::ControlGroup => {
                ("control group", "renew the control group with a lower percentage")
            }
            Audience::Segment => ("segment", "export smaller segments"),
            Audience::Connected(_) => ("audience", "export smaller audiences"),
        };
        Self {
            cause: Cause::Limit,
            message: format!(
                "The {audience} has {users}, and an export without your own cloud storage can have \
                 at most {limit}. Add S3 or Azure credentials to the workspace, or \
                 {remedy}."
            ),
            detail: format!("{users}, limit {limit}"),
        }
    }

    pub(super) fn too_many_files(limit: usize) -> Self {
        Self {
            cause: Cause::Limit,
            message: format!(
                "The export would have more than {limit} files, the maximum. Raise users_per_file."
            ),
            detail: format!("more than {limit} files"),
        }
    }

    /// The regular expressions of the segment or the audience take too long.
    pub(super) fn costly(error: &TooCostly) -> Self {
        Self { cause: Cause::Limit, message: format!("{error}."), detail: error.to_string() }
    }

    /// The segment was deleted between the request and the plan.
    pub(super) fn segment_deleted(id: Uuid) -> Self {
        Self {
            cause: Cause::Deleted,
            message: format!("The segment {id} was deleted before the export began."),
            detail: format!("segment {id} was deleted"),
        }
    }

    pub(super) fn too_many_bytes(limit: i64) -> Self {
        Self {
            cause: Cause::Limit,
            message: format!(
                "The export has grown past {limit} bytes, the maximum without your own cloud \
                 storage. Request fewer fields, or add S3 or Azure credentials to the workspace."
            ),
            detail: format!("more than {limit} bytes of compressed data"),
        }
    }

    /// The database failed.
    pub fn store(error: &StoreError) -> Self {
        Self {
            cause: Cause::Store,
            message: "The export could not be completed: the user database could not be read. \
                      Please try again later."
                .into(),
            detail: error.to_string(),
        }
    }

    /// The object storage failed; `is_own` says whose it is. For own storage, the customer gets what
    /// it responded, without its address.
    pub fn objects(error: &ObjectError, is_own: bool) -> Self {
        let detail = error.to_string();
        if let ObjectError::Damaged(_) = error {
            let cause = if is_own { Cause::OwnStorage } else { Cause::Objects };
            let message = if is_own {
                format!(
                    "A file in your cloud storage was changed during the export: {detail}. {AGAIN}"
                )
            } else {
                format!("A stored part of the export is damaged. {AGAIN}")
            };
            Self { cause, message, detail }
        } else if is_own {
            let reason = error.for_customer();
            let message = format!("The files could not be written to your cloud storage: {reason}");
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

    /// No attempt at a piece of work ended with an error of its own.
    pub(super) fn workers_lost(work: &str, attempts: u32) -> Self {
        Self {
            cause: Cause::WorkersLost,
            message: "The export could not be completed. Please try again; if it fails again, \
                      request fewer fields."
                .into(),
            detail: format!(
                "{work}: none of {attempts} attempts ended: the worker was lost or stopped, or \
                 the work panicked"
            ),
        }
    }

    /// Some users' stored documents are unreadable: an export without them must not count as
    /// complete.
    pub(super) fn broken_users(count: i64, first: &[(Uuid, String)]) -> Self {
        let ids: Vec<String> = first.iter().map(|(id, _)| id.to_string()).collect();
        let reasons: Vec<String> =
            first.iter().map(|(id, reason)| format!("{id}: {reason}")).collect();
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

    /// The object with a part's name in own storage is not a file of this export.
    pub(super) fn file_conflict(path: &str) -> Self {
        Self::own_file(format!("{path} already exists and was not written by this export"))
    }

    /// The file of an earlier attempt was deleted between the check and the read.
    pub(super) fn vanished(path: &str) -> Self {
        Self::own_file(format!("{path} was removed during the export"))
    }

    fn own_file(detail: String) -> Self {
        let message = format!("The files could not be written to your cloud storage: {detail}.");
        Self { cause: Cause::OwnStorage, message, detail }
    }

    /// A part needs more than the whole memory for users' data. A large file is built in pieces, so
    /// this happens only if the memory is set to very little.
    pub(super) fn too_large(bytes: usize) -> Self {
        Self {
            cause: Cause::Limit,
            message: "The users' data is too large for the memory of this installation. Request \
                      fewer fields, or fewer users per file."
                .into(),
            detail: format!(
                "a part needs more than {bytes} bytes of memory: set exports.memory_bytes to at \
                 least 50331648"
            ),
        }
    }

    /// The status text of a storage failure while the export waits, with the times of its beginning
    /// and its end.
    pub(super) fn while_waiting(&self, since: Timestamp, until: Timestamp) -> String {
        let problem = match self.cause {
            Cause::Objects => "The file of the export could not be stored",
            _ => self.message.trim_end_matches('.'),
        };
        format!(
            "{problem}. The export has been waiting since {since:.0}, and is retried until {until:.0}."
        )
    }

    /// An error that should never happen.
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
    fn a_damaged_object_is_no_outage() {
        for (is_own, cause) in [(true, Cause::OwnStorage), (false, Cause::Objects)] {
            let failure = Failure::objects(&ObjectError::Damaged("a has 3 bytes".into()), is_own);
            assert_eq!((failure.cause, failure.message.contains("a has 3 bytes")), (cause, is_own));
            assert!(failure.message.contains("repeat") && failure.detail.contains("3 bytes"));
        }
    }

    #[test]
    fn failures_tell_the_customer_the_next_step() {
        let failure = Failure::file_conflict("a/b.zip");
        assert!(failure.message.contains("a/b.zip") && failure.cause == Cause::OwnStorage);
        let failure = Failure::too_many_files(7);
        assert!(failure.message.contains("users_per_file") && failure.cause == Cause::Limit);
        let failure = Failure::more_users_than(&Audience::Segment, 7);
        assert!(failure.message.contains("more than 7 users") && failure.cause == Cause::Limit);
        let failure = Failure::too_large(7);
        assert!(failure.message.contains("fewer fields") && failure.detail.contains('7'));
    }
}
