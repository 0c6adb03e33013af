//! Exports: from the request to the files and the callback.
//!
//! ```text
//! queued ──plan──> running ──last part──> finishing ──finish──> done
//!    └───────────────┴───────────┴─────────────> failed │ cancelled
//! ```
//!
//! | module | is about |
//! |---|---|
//! | this file | [`Job`], its [`State`], [`Progress`] and [`Plan`] |
//! | [`api`], [`request`], [`create`], [`destination`], `warnings` | the endpoints; the request, its checks and its job |
//! | [`status`], `list` | the status; cancelling; the list |
//! | [`overview`], `list_rows` | which exports a list has; the operator's list, over all workspaces |
//! | [`recent_rows`] | the latest exports by outcome, for an overview |
//! | [`repeat`] | requests an ended export again, for a customer or an operator |
//! | [`dry_run`], `dry_run_rows` | estimates an export instead of creating it; counts and samples a segment |
//! | [`events`], `streams`, [`watched`], [`app`] | the status as server-sent events; the state that streams share |
//! | [`ids`] | the records of named users, in a response |
//! | [`intake`] | writes a job, and starts its planning |
//! | [`audience`] | who was asked for: the control group, a segment or a connected audience |
//! | [`plan`] | splits the users into parts, once |
//! | `matching`, [`members`] | finds the users of a segment or audience, for the plan; their stored form |
//! | [`part`], `pack`, `chunk`, [`project`], [`archive`], [`deflate`], `spill` | a part: read, projected, compressed, written, counted |
//! | [`finish`], `proof_objects`, `callback` | moves the files, or builds the ZIP behind `url`; what proves that it is complete; the callback |
//! | [`download`], `conditions`, `range`, [`held`] | the download of the ZIP; the downloads that may have a user |
//! | [`segments`] | the size of a segment, and a sample of its users |
//! | `allowed_signers`, `record_schema` | for readers: the public keys that sign exports; the schema of a line |
//! | `notifications`, [`late`] | who else is notified of an end; exports that take too long |
//! | [`cleanup`], `stray_files` | deletes leftover files, repeatedly, and those of a lost plan |
//! | [`sweep`] | deletes exports that ended long ago, and settings of storages that nothing refers to |
//! | [`state`] | the changes of a job's state, each with its effects |
//! | [`rows`], `part_rows`, `count_rows`, `late_rows`, `storage_rows` | the SQL |
//! | [`paths`] | the names of all objects |
//! | `error`, `failure`, [`storage_health`], `telemetry` | errors; why a job fails; storage failures; metrics |
//!
//! The fleet works on the parts of a job in parallel. The worker of the last one offers the
//! finishing.
//!
//! It promises, whatever fails:
//!
//! - An export has each user of its audience exactly once, as of the moment of its plan.
//! - A file that is counted is never replaced, and the hash in the manifest is that of its bytes.
//! - Where a manifest is, everything that it states is in place: it is the last object.
//! - Public keys alone prove both to a reader, with the crate [`proof`].
//! - An end is reported to the callback and the receivers in `notify`, and a late export to the
//!   latter.
//!
//! Start with [`api`], or follow an export in docs/explanation/through-the-code.md.

pub mod archive;
pub mod audience;
mod chunk;
pub mod deflate;
mod matching;
pub mod members;
mod pack;
pub mod part;
pub mod paths;
pub mod project;
mod spill;

use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use kit::clock::{from_ms, utc_date};
use kit::derived_ids;
use people::users::moment::TransactionSnapshot;

mod allowed_signers;
pub mod api;
pub mod app;
mod callback;
pub mod cleanup;
mod conditions;
mod count_rows;
pub mod create;
pub mod destination;
pub mod download;
pub mod dry_run;
mod dry_run_rows;
mod error;
pub mod events;
mod failure;
pub mod finish;
pub mod held;
pub mod ids;
pub mod intake;
pub mod late;
mod late_rows;
mod list;
mod list_rows;
mod notifications;
pub mod overview;
mod part_rows;
pub mod plan;
mod proof_objects;
mod range;
pub mod recent_rows;
mod record_schema;
pub mod repeat;
pub mod request;
pub mod rows;
pub mod segments;
pub mod state;
pub mod status;
pub mod storage_health;
mod storage_rows;
mod stray_files;
mod streams;
pub mod sweep;
mod telemetry;
mod warnings;
pub mod watched;

pub use audience::Audience;
pub use error::ExportError;
pub use failure::{Cause, Failure};
pub use proof::Format;

/// A requested export; never changes.
#[derive(Clone, Debug)]
pub struct Job {
    pub id: Uuid,
    pub workspace_id: i32,
    /// `<uuid>-<unix seconds>`: the response's `object_prefix`.
    pub object_prefix: String,
    pub audience: Audience,
    /// The segment in the paths of its files.
    pub segment_id: Uuid,
    /// Users per file, as requested; none means the worker's setting.
    pub users_per_file: Option<u32>,
    /// `fields_to_export`, as requested.
    pub fields: Vec<String>,
    pub format: Format,
    /// The workspace's own storage; none means the ZIP behind `url`.
    pub storage_id: Option<Uuid>,
    /// The destination that the request chose; none means the workspace's default.
    pub destination: Option<String>,
    pub callback_endpoint: Option<String>,
    pub request_id: String,
    pub requested_at: i64,
}

store::text_enum! {
    /// The state of a job.
    pub enum State {
        Queued = "queued",
        Planning = "planning",
        Running = "running",
        Finishing = "finishing",
        Done = "done",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

impl State {
    /// Whether a stored error still describes the job. A worker of the previous release does not
    /// know errors of unfinished jobs, and does not clear them when it finishes a job.
    pub fn has_error(self) -> bool {
        !matches!(self, Self::Done | Self::Cancelled)
    }

    /// Whether the job has ended.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }

    /// The states of jobs that have not ended.
    pub fn unfinished() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|state| !state.is_final())
    }
}

/// The progress of a job. Times are milliseconds since the epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    pub state: State,
    /// From `running` on.
    pub plan: Option<Plan>,
    /// Users and parts in total; from `running` on.
    pub users: Option<i64>,
    pub parts: Option<i64>,
    pub parts_left: Option<i64>,
    pub users_done: i64,
    pub files_done: i64,
    /// Bytes of the written files.
    pub bytes_done: i64,
    /// Users whose stored document is unreadable.
    pub broken_users: i64,
    pub started_at: Option<i64>,
    /// When a worker noticed that it takes longer than `export_late_after`.
    pub late_at: Option<i64>,
    /// When the last part was done: its UTC day dates the files.
    pub completed_at: Option<i64>,
    pub finished_at: Option<i64>,
    /// When the URL of the ZIP expires.
    pub expires_at: Option<i64>,
    /// The attempt that wrote the ZIP behind `url`.
    pub archive: Option<i32>,
    /// SHA-256 of the manifest of a finished export; none if the release before finished it.
    pub manifest_sha256: Option<Vec<u8>>,
    /// The customer's text of a failure.
    pub error: Option<String>,
}

impl Progress {
    /// The UTC day on which the last part was done: it dates the files.
    pub fn completion_date(&self) -> Option<Date> {
        self.completed_at.map(|ms| utc_date(from_ms(ms)))
    }

    /// The numbers of all parts; from `running` on.
    pub fn part_numbers(&self) -> Option<impl Iterator<Item = i64>> {
        self.parts.map(|parts| 1..=parts)
    }
}

/// The result of planning; stored as JSON in the job's row, and never computed again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The slices of its users, ascending.
    pub slices: Vec<i16>,
    /// The attempt at planning that wrote the [members](members) of the parts. None: each part has
    /// all users of its range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members: Option<i32>,
    /// The audience of a segment at that moment, and when that was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segment: Option<PlannedSegment>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned_at: Option<i64>,
    /// Users created later are not part of this export. None: a worker of the previous release
    /// planned it with `youngest`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moment: Option<TransactionSnapshot>,
    /// The newest service_id seen, with which workers of the previous release exclude later users.
    pub youngest: Uuid,
    /// The first and the last of the 90 UTC days of purchases and custom events.
    pub first_day: Date,
    pub last_day: Date,
    /// The date in the key of uploaded files; they move at completion if that is another day.
    pub upload_date: Date,
    /// The seed of the files' random names: random, and only stored in the database.
    pub seed: Uuid,
    /// The workspace's currency, and the value of other currencies in millionths of it.
    pub currency: String,
    pub exchange_rates: std::collections::BTreeMap<String, i64>,
}

/// A segment at the moment of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedSegment {
    pub name: String,
    pub audience: kit::json::ObjectText,
}

impl Job {
    /// The name of the entry inside a file: sorted by name, the entries of all files give the
    /// export in order.
    pub fn entry_name(&self, part: i64) -> String {
        format!("{}_{part:06}.json", self.object_prefix)
    }

    /// The folder of own storage with only the job's files of one date.
    pub fn folder(&self, date: Date) -> String {
        paths::own_folder(self.segment_id, date, &self.object_prefix)
    }

    /// The path of a part's file in own storage. The name looks random and is the same for every
    /// attempt at the part, also while secret keys are rotated.
    pub fn file_path(&self, plan: &Plan, part: i64, date: Date) -> String {
        let name = file_name(plan.seed, self.id, part);
        format!("{}{name}.{}", self.folder(date), self.format.extension())
    }
}

/// The random name of a part's file, without its extension.
fn file_name(seed: Uuid, job: Uuid, part: i64) -> Uuid {
    derived_ids::v4(&[seed.as_bytes(), job.as_bytes(), &part.to_be_bytes()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_file_never_changes() {
        let name = file_name(Uuid::from_u128(1), Uuid::from_u128(2), 3);
        assert_eq!(name.to_string(), "8be46ec0-5cfa-48c4-8e38-ade8990c5f32");
    }
}
