//! Import: from lines of JSON to rows.
//!
//! ```text
//! files ──(a thread: read, check, fold)──> batches ──(here: find users, write)──> store
//! ```
//!
//! A batch is one transaction. On PostgreSQL, several are written at the same time as long as they
//! have no user in common: each finds its users after the one before it has, and waits until those
//! that it shares a user with are written. So of two lines for a user, the later one wins. An
//! import that is interrupted and repeated creates no duplicates: every accepted line identifies
//! its user, by an id that the first run stored. The same holds for two imports of a file at the
//! same time: the later transaction waits for the [address](super::name_locks), or starts again.

mod decode;
mod file_format;
mod kept;
mod lines;
mod new_rows;
mod overlap;
mod removed;
mod resolve;
mod zip;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;

pub use decode::Input;
pub use decode::{FileError, describe as describe_error};
pub use file_format::problem as problem_of_format;
pub use lines::{Line, next_line};

use self::overlap::Identities;
use super::record::{BETWEEN_REASONS, Record};
use super::rows::For;
use super::service_id::Generator;
use gateway::workspaces::Workspace;
use kit::clock::Clock;
use kit::retry::{self, Retry};
use kit::words::beginning;
use store::claims;
use store::{Store, StoreError};

/// Records of one transaction. On SQLite it takes about a quarter of a second, for which others
/// wait for its only writer; shorter ones write the pages of its indexes more often. On PostgreSQL,
/// each statement begins with opening a hundred partitions; and new users must fit into `work_mem`,
/// because a trigger gets a copy of them.
const POSTGRES_BATCH: usize = 3_000;
const SQLITE_BATCH: usize = 2_000;

/// Batches that are written at the same time on PostgreSQL.
const POSTGRES_WRITERS: usize = 4;

/// Attempts at one batch, over about half a minute.
const ATTEMPTS: u32 = 8;

/// Maximum number of unknown fields that a summary lists.
const MAX_IGNORED: usize = 100;

/// Maximum number of reasons that a summary counts separately.
const MAX_REASONS: usize = 100;
const OTHER_REASONS: &str = "other reasons";

/// Maximum number of removed fields that a summary lists.
const MAX_REMOVED: usize = 100;

/// The error that ended an import.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Others wrote to the same users at the same time.
    #[error("another process is writing the same users; run the import again later")]
    Conflict,
    #[error("reading the files ended unexpectedly")]
    Reader,
    #[error("writing a batch ended unexpectedly")]
    Writer,
}

impl Retry for ImportError {
    fn can_retry(&self) -> bool {
        match self {
            Self::Store(error) => error.can_retry(),
            Self::Conflict => true,
            Self::Reader | Self::Writer => false,
        }
    }
}

/// A line that was not imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    pub file: String,
    /// From 1.
    pub line: u64,
    pub reason: String,
    /// The line itself, if the import [keeps](Options::keep_lines) it.
    pub text: Vec<u8>,
}

/// How an import handles invalid lines.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// The import stops when more lines are invalid.
    pub max_bad_lines: Option<u64>,
    /// Whether invalid lines are reported with their text.
    pub keep_lines: bool,
    /// Whether everything is read and checked, but nothing is written.
    pub dry_run: bool,
}

/// The result of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Summary {
    /// Lines that are not blank.
    pub lines: u64,
    pub created: u64,
    pub replaced: u64,
    /// Lines with another subscription state than `unsubscribed` for a user who stays unsubscribed.
    pub kept_unsubscribed: u64,
    /// Lines with a `total_revenue` other than 0. A line names no currency.
    pub with_revenue: u64,
    /// The currency in which that revenue counts: the workspace's.
    pub revenue_currency: String,
    /// Only in a dry run: the number of users who would lose a field, by the field.
    pub removed: BTreeMap<String, u64>,
    /// Invalid lines, including one for each file that could not be read to its end.
    pub bad: u64,
    pub broken_files: u64,
    /// Number of invalid lines, by reason.
    pub reasons: BTreeMap<String, u64>,
    /// Too many lines were invalid, so the rest was not read.
    pub stopped: bool,
    /// Unknown fields and empty states of groups, and how often lines have them.
    pub ignored: BTreeMap<String, u64>,
}

/// Progress of an import.
#[derive(Debug)]
pub enum Progress<'a> {
    Bad(&'a BadLine),
    /// A batch was written.
    Written(&'a Summary),
}

/// The outcome of a batch.
#[derive(Debug, Default)]
struct Written {
    pub created: u64,
    pub replaced: u64,
    pub kept_unsubscribed: u64,
    /// Only in a dry run: the number of users who would lose a field, by the field.
    pub removed: BTreeMap<String, u64>,
    /// Rejected records, by their index in the batch.
    pub rejected: Vec<(usize, String)>,
}

/// Writes users into one workspace.
#[derive(Clone, Debug)]
pub struct Importer {
    store: Store,
    clock: Clock,
    workspace: Workspace,
    ids: Arc<Generator>,
    options: Options,
}

/// A batch that is being written.
struct Writing {
    /// Without its records.
    batch: lines::Batch,
    records: Arc<Vec<Record>>,
    /// Of all users that it can change; empty if no other batch is written at the same time.
    identities: Identities,
    written: AbortOnDropHandle<Result<Written, ImportError>>,
}

impl Importer {
    pub fn new(store: Store, clock: Clock, workspace: Workspace) -> Self {
        let (ids, options) = (Arc::default(), Options::default());
        Self { store, clock, workspace, ids, options }
    }

    /// The same with other options.
    pub fn with(self, options: Options) -> Self {
        Self { options, ..self }
    }

    /// Imports every input, in order. Invalid lines are reported and skipped; an input that cannot
    /// be read to its end is reported, and the next one follows.
    pub async fn run(
        &self,
        inputs: Vec<Input>,
        mut report: impl FnMut(Progress<'_>),
    ) -> Result<Summary, ImportError> {
        let (size, writers) = if self.store.is_postgres() {
            (POSTGRES_BATCH, POSTGRES_WRITERS)
        } else {
            (SQLITE_BATCH, 1)
        };
        let (to_writer, mut batches) = mpsc::channel(2);
        let reader = lines::Reader {
            size,
            keep: self.options.keep_lines,
            clock: self.clock.clone(),
            currency: self.workspace.currency.clone(),
            alias: self.workspace.aliases.service_id.clone(),
        };
        let reader = tokio::task::spawn_blocking(move || reader.read(inputs, &to_writer));
        let revenue_currency = self.workspace.currency.clone();
        let mut summary = Summary { revenue_currency, ..Summary::default() };
        let mut writing: VecDeque<Writing> = VecDeque::new();
        // Including those of batches that are being written.
        let mut bad_lines = 0;
        while !self.has_too_many(bad_lines)
            && let Some(batch) = batches.recv().await
        {
            let identities = if writers > 1 {
                Identities::from_records(&batch.records)
            } else {
                Identities::default()
            };
            while writing.len() == writers
                || writing.iter().any(|earlier| earlier.identities.meets(&identities))
            {
                let Some(first) = writing.pop_front() else { break };
                bad_lines += self.finish(first, &mut summary, &mut report).await?;
            }
            if self.has_too_many(bad_lines) {
                break;
            }
            bad_lines += batch.bad.len() as u64;
            writing.push_back(self.begin(batch, identities).await);
        }
        for batch in writing {
            bad_lines += self.finish(batch, &mut summary, &mut report).await?;
        }
        summary.stopped = self.has_too_many(bad_lines);
        // The reader ends when its output is dropped.
        drop(batches);
        reader.await.map_err(|_| ImportError::Reader)?;
        Ok(summary)
    }

    fn has_too_many(&self, bad_lines: u64) -> bool {
        self.options.max_bad_lines.is_some_and(|max| bad_lines > max)
    }

    /// Begins to write a batch. If others can be written at the same time, waits until its users
    /// are found.
    async fn begin(&self, mut batch: lines::Batch, mut identities: Identities) -> Writing {
        let (found, users) = oneshot::channel();
        let found = self.store.is_postgres().then_some(found);
        let records = Arc::new(std::mem::take(&mut batch.records));
        let (importer, to_write) = (self.clone(), records.clone());
        let written = tokio::spawn(async move { importer.write(&to_write, found).await });
        // A batch that fails before that changes no user; and SQLite's only writer does not send.
        if let Ok(found) = users.await {
            identities.extend(found);
        }
        Writing { batch, records, identities, written: AbortOnDropHandle::new(written) }
    }

    /// Waits until a batch is written, and reports it. Returns the number of records that were
    /// rejected while it was written.
    async fn finish(
        &self,
        writing: Writing,
        summary: &mut Summary,
        report: &mut impl FnMut(Progress<'_>),
    ) -> Result<u64, ImportError> {
        let Writing { mut batch, records, written, .. } = writing;
        let mut written = written.await.map_err(|_| ImportError::Writer)??;
        let mut bad = std::mem::take(&mut batch.bad);
        let rejected = written.rejected.len() as u64;
        for (index, reason) in std::mem::take(&mut written.rejected) {
            let lines::Origin { file, line, text } = &mut batch.origins[index];
            let text = std::mem::take(text);
            bad.push(BadLine { file: file.to_string(), line: *line, reason, text });
        }
        // The sort is stable within a file: files follow one another, and so do their lines.
        bad.sort_by(
            |a, b| if a.file == b.file { a.line.cmp(&b.line) } else { std::cmp::Ordering::Equal },
        );
        for bad in &bad {
            report(Progress::Bad(bad));
            for reason in bad.reason.split(BETWEEN_REASONS) {
                let reason = kind(reason);
                let is_known = summary.reasons.contains_key(&reason);
                let reason = if summary.reasons.len() < MAX_REASONS || is_known {
                    reason
                } else {
                    OTHER_REASONS.to_owned()
                };
                *summary.reasons.entry(reason).or_default() += 1;
            }
        }
        summary.lines += batch.lines;
        summary.created += written.created;
        summary.replaced += written.replaced;
        summary.kept_unsubscribed += written.kept_unsubscribed;
        for (name, users) in written.removed {
            if summary.removed.len() < MAX_REMOVED || summary.removed.contains_key(&name) {
                *summary.removed.entry(name).or_default() += users;
            }
        }
        summary.bad += bad.len() as u64;
        summary.broken_files += batch.broken_files;
        for record in &*records {
            summary.with_revenue += u64::from(record.activity.has_revenue());
            for name in &record.ignored {
                if summary.ignored.len() < MAX_IGNORED || summary.ignored.contains_key(name) {
                    *summary.ignored.entry(name.clone()).or_default() += 1;
                }
            }
        }
        report(Progress::Written(summary));
        Ok(rejected)
    }

    /// Writes records in their order, in one transaction: of two records for the same user, the
    /// later one wins. Retries if that can help. `found` gets the users that the first attempt
    /// found.
    async fn write(
        &self,
        records: &[Record],
        mut found: Option<oneshot::Sender<Identities>>,
    ) -> Result<Written, ImportError> {
        let mut attempt = 1;
        loop {
            match self.try_write(records, &mut found, attempt).await {
                Err(error) if error.can_retry() && attempt < ATTEMPTS => {
                    tracing::warn!(attempt, %error, "batch failed; retrying");
                    let pause = retry::backoff(
                        attempt,
                        Duration::from_millis(250),
                        Duration::from_secs(10),
                    );
                    tokio::time::sleep(pause).await;
                    attempt += 1;
                }
                result => return result,
            }
        }
    }

    async fn try_write(
        &self,
        records: &[Record],
        found: &mut Option<oneshot::Sender<Identities>>,
        attempt: u32,
    ) -> Result<Written, ImportError> {
        if records.is_empty() {
            return Ok(Written::default());
        }
        let today = self.clock.today();
        let (mut tx, purpose) = if self.options.dry_run {
            (self.store.snapshot().await?, For::Reading)
        } else {
            (self.store.write_by_keys().await?, For::Writing)
        };
        // Not by this machine's clock: later decisions must end those of the import, and those of
        // the import earlier ones.
        let now_ms = self.clock.moved(claims::now(&mut tx).await?);
        let workspace = self.workspace.id;
        let mut imported =
            resolve::ImportedUsers::look_up(&mut tx, workspace, records, purpose).await?;
        if let Some(found) = found.take() {
            // The import waits for them unless it has ended.
            let _ = found.send(imported.identities());
        }
        let mut written = Written::default();
        for (index, record) in records.iter().enumerate() {
            match imported.apply(record, &self.ids, now_ms) {
                Ok(applied) => {
                    written.created += u64::from(applied.is_new);
                    written.replaced += u64::from(!applied.is_new);
                    written.kept_unsubscribed += u64::from(applied.is_overruled);
                }
                Err(reason) => written.rejected.push((index, reason)),
            }
        }
        if self.options.dry_run {
            written.removed = imported.removed(&mut tx, workspace, today).await?;
            return Ok(written);
        }
        // A failed copy does not show which row exists, so the later attempts do without it.
        let can_copy = attempt == 1;
        imported.write(&mut tx, workspace, today, now_ms, can_copy).await?;
        // A batch that a crash loses is not repeated.
        tx.commit_synchronously().await?;
        tx.commit().await?;
        Ok(written)
    }
}

/// A reason without the details of one line: positions, and numbers of entries.
fn kind(reason: &str) -> String {
    const MAX_REASON_LENGTH: usize = 200;
    let reason = reason.split(" at line ").next().unwrap_or_default();
    let mut kind = String::new();
    for (part, piece) in reason.split('[').enumerate() {
        let number = piece.find(|c: char| !c.is_ascii_digit()).unwrap_or_default();
        let is_index = part > 0 && number > 0 && piece[number..].starts_with(']');
        kind += if part > 0 { "[" } else { "" };
        kind += if is_index { &piece[number..] } else { piece };
    }
    beginning(&kind, MAX_REASON_LENGTH).into_owned()
}

#[cfg(test)]
mod tests {
    #[test]
    fn reasons_are_counted_by_their_kind() {
        for (reason, kind) in [
            (
                "not a JSON object: expected value at line 1 column 7",
                "not a JSON object: expected value",
            ),
            ("purchases[12].name is missing", "purchases[].name is missing"),
            ("a [b] [1", "a [b] [1"),
            ("email: duplicate field", "email: duplicate field"),
        ] {
            assert_eq!(super::kind(reason), kind);
        }
    }
}
