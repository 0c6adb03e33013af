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
//! | [`api`], [`request`], [`fields`], `warnings` | the endpoints; the request and its checks |
//! | [`intake`] | writes a job, and starts its planning |
//! | [`plan`] | splits the group into parts, once |
//! | [`part`], `pack`, [`project`], [`archive`], [`deflate`] | a part: read, projected, compressed, written, counted |
//! | [`finish`], `callback` | moves the files, or builds the ZIP behind `url`; the callback |
//! | [`download`], `conditions`, `range` | the download of the ZIP |
//! | [`cleanup`] | deletes leftover files, repeatedly |
//! | [`state`] | the changes of a job's state, each with its effects |
//! | [`rows`], `part_rows`, `storage_rows` | the SQL |
//! | [`paths`] | the names of all objects |
//! | `error`, `failure`, [`storage_health`], `telemetry` | errors; why a job fails; storage failures; metrics |
//!
//! The fleet works on the parts of a job in parallel. The worker of the last one offers the
//! finishing.
//!
//! It promises: an export has each user of the group exactly once, as of one moment, whatever
//! fails. A file that is counted is never replaced.
//!
//! Start with [`api`], or follow an export in docs/explanation/through-the-code.md.

pub mod archive;
pub mod deflate;
pub mod fields;
mod pack;
pub mod part;
pub mod paths;
pub mod project;

use jiff::civil::Date;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use kit::clock::{from_ms, utc_date};
use people::users::moment::TransactionSnapshot;

pub mod api;
mod callback;
pub mod cleanup;
mod conditions;
pub mod download;
mod error;
mod failure;
pub mod finish;
pub mod intake;
mod part_rows;
pub mod plan;
mod range;
pub mod request;
pub mod rows;
pub mod state;
pub mod storage_health;
mod storage_rows;
mod telemetry;
mod warnings;

pub use error::ExportError;
pub use failure::{Cause, Failure};

store::text_enum! {
    /// The format of an export's files (`output_format`; own storage only).
    #[derive(Default, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    #[schemars(inline)]
    pub enum Format {
        #[default]
        Zip = "zip",
        Gzip = "gzip",
    }
}

impl Format {
    /// The file extension.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Zip => "zip",
            Self::Gzip => "gz",
        }
    }
}

/// A requested export; never changes.
#[derive(Clone, Debug)]
pub struct Job {
    pub id: Uuid,
    pub workspace_id: i32,
    /// `<uuid>-<unix seconds>`: the response's `object_prefix`.
    pub object_prefix: String,
    pub segment_id: Uuid,
    /// `fields_to_export`, as requested.
    pub fields: Vec<String>,
    pub format: Format,
    /// The workspace's own storage; none means the ZIP behind `url`.
    pub storage_id: Option<Uuid>,
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
}

/// The progress of a job. Times are milliseconds since the epoch.
#[derive(Clone, Debug)]
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
    /// When the last part was done: its UTC day dates the files.
    pub completed_at: Option<i64>,
    pub finished_at: Option<i64>,
    /// When the URL of the ZIP expires.
    pub expires_at: Option<i64>,
    /// The attempt that wrote the ZIP behind `url`.
    pub archive: Option<i32>,
    /// The customer's text of a failure.
    pub error: Option<String>,
}

impl Progress {
    /// The UTC day on which the last part was done: it dates the files.
    pub fn completion_date(&self) -> Option<Date> {
        self.completed_at.map(|ms| utc_date(from_ms(ms)))
    }
}

/// The result of planning; stored as JSON in the job's row, and never computed again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The group's slices, ascending.
    pub slices: Vec<i16>,
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
        let hash = Sha256::new()
            .chain_update(plan.seed.as_bytes())
            .chain_update(self.id.as_bytes())
            .chain_update(part.to_be_bytes())
            .finalize();
        let mut random = [0; 16];
        random.copy_from_slice(&hash[..16]);
        let name = uuid::Builder::from_random_bytes(random).into_uuid();
        format!("{}{name}.{}", self.folder(date), self.format.extension())
    }
}
