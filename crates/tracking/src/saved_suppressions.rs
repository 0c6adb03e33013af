//! Suppressions as lines of JSON, which outlive the database: a restored backup has only those of
//! the time of the backup (docs/runbooks/restore-backup.md).
//!
//! A workspace is a line with its name and key, then its suppressions. The last line has the number
//! of all others, so that a file that was cut is not taken for a shorter one.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _, Write};
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;

use gateway::workspaces;
use kit::clock::{format_time, parse_time};
use kit::retry::{Retry as _, TimedRetries};
use people::users::profile::check;
use people::users::saved_suppressions::{self as rows, Position, Stored};
use people::users::suppressions::{Hash, Key, Reason, hash_from_hex};
use runtime::audit;
use store::{Store, StoreError, Tx};

/// Rows of one transaction.
const PAGE: usize = 1_000;

/// Maximum bytes of a line.
const MAX_LINE: u64 = 4 << 10;

/// How long a transaction that fails is tried again: longer than it waits for a lock.
const RETRY_TIME: Duration = Duration::from_secs(60);

const INCOMPLETE: &str = "the file ends too early";

#[derive(Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum Line {
    Workspace {
        name: String,
        /// Absent if the workspace has only opt-outs of an earlier release.
        key: Option<String>,
    },
    Suppression {
        hash: String,
        scope: String,
        reason: Reason,
        state: String,
        at: String,
        /// The end of a bounce.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<String>,
    },
    /// An opt-out that an earlier release stored. Its hash has no key.
    UnsubscribedEmail {
        hash: String,
        at: String,
    },
    End {
        lines: u64,
    },
}

impl From<Stored> for Line {
    fn from(Stored { who, scope, reason, state, decided_at, until, cause: _ }: Stored) -> Self {
        let (hash, at) = (hex::encode(who), format_time(decided_at));
        Self::Suppression { hash, scope, reason, state, at, until: until.map(format_time) }
    }
}

/// Why suppressions cannot be saved or restored.
#[derive(Debug, thiserror::Error)]
pub enum SavedError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("line {number}: {why}")]
    Line { number: u64, why: String },
}

/// Writes all suppressions of workspaces, each an id and a name.
pub async fn save(
    store: &Store,
    workspaces: &[(i32, String)],
    output: impl Write,
) -> Result<(), SavedError> {
    let mut output = Output { output, lines: 0 };
    for (workspace, name) in workspaces {
        let mut tx = store.snapshot().await?;
        let (key, has_rows) = rows::key(&mut tx, *workspace).await?;
        if key.is_none() && !has_rows {
            continue;
        }
        output.write(&Line::Workspace { name: name.clone(), key })?;
        let mut after = Position::default();
        loop {
            let page = rows::rows_after(&mut tx, *workspace, &after, PAGE as i64).await?;
            let Some(last) = page.last() else { break };
            after = rows::position(last);
            page.into_iter().try_for_each(|row| output.write(&row.into()))?;
        }
        let mut after = Vec::new();
        loop {
            let page = rows::earlier_after(&mut tx, *workspace, &after, PAGE as i64).await?;
            let Some((last, _)) = page.last() else { break };
            after.clone_from(last);
            for (hash, at) in page {
                let (hash, at) = (hex::encode(hash), format_time(at));
                output.write(&Line::UnsubscribedEmail { hash, at })?;
            }
        }
    }
    let lines = output.lines;
    output.write(&Line::End { lines })?;
    Ok(output.output.flush()?)
}

struct Output<W> {
    output: W,
    lines: u64,
}

impl<W: Write> Output<W> {
    fn write(&mut self, line: &Line) -> io::Result<()> {
        self.lines += 1;
        serde_json::to_writer(&mut self.output, line)?;
        self.output.write_all(b"\n")
    }
}

/// What a file has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Restored {
    pub workspaces: u64,
    /// Rows, of which some may have been known.
    pub suppressions: u64,
}

/// Whether a file is only checked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Checks all lines, and that the database can have the keys. Changes nothing.
    Check,
    /// Adds what the database does not know: of two decisions about an address, the later one
    /// holds. An error leaves what the lines before it have, which are complete by themselves.
    Apply,
}

/// Restores a file, which is checked first. If it is `-`, the standard input, which is not.
pub async fn restore_file(store: &Store, now: i64, file: &Path) -> Result<Restored, SavedError> {
    if file == Path::new("-") {
        return restore(store, now, BufReader::new(io::stdin()), Mode::Apply).await;
    }
    restore(store, now, BufReader::new(File::open(file)?), Mode::Check).await?;
    restore(store, now, BufReader::new(File::open(file)?), Mode::Apply).await
}

/// Reads what [`save`] wrote.
async fn restore(
    store: &Store,
    now: i64,
    mut input: impl BufRead,
    mode: Mode,
) -> Result<Restored, SavedError> {
    let mut restoring =
        Restoring { store, now, mode, workspace: None, restored: Restored::default() };
    let (mut number, mut text, mut has_ended) = (0, Vec::new(), false);
    loop {
        text.clear();
        number += 1;
        let wrong = |why: String| SavedError::Line { number, why };
        if (&mut input).take(MAX_LINE).read_until(b'\n', &mut text)? == 0 {
            break;
        }
        if has_ended {
            return Err(wrong("nothing is expected after the end".to_owned()));
        }
        // A line that was cut may be valid JSON.
        let line = text.strip_suffix(b"\n").ok_or_else(|| wrong(INCOMPLETE.to_owned()))?;
        let line: Line = serde_json::from_slice(line)
            .map_err(|error| wrong(format!("not a line of `suppressions save`: {error}")))?;
        match line {
            Line::End { lines } if lines == number - 1 => has_ended = true,
            Line::End { lines } => {
                return Err(wrong(format!("{lines} lines were written before this one")));
            }
            line => restoring.add(line).await.map_err(|error| match error {
                AddError::Line(why) => wrong(why),
                AddError::Store(error) => error.into(),
            })?,
        }
    }
    if !has_ended {
        return Err(SavedError::Line { number, why: INCOMPLETE.to_owned() });
    }
    restoring.end_workspace().await?;
    Ok(restoring.restored)
}

enum AddError {
    Line(String),
    Store(StoreError),
}

impl From<String> for AddError {
    fn from(why: String) -> Self {
        Self::Line(why)
    }
}

impl From<StoreError> for AddError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// A workspace whose lines are read.
struct Section {
    id: i32,
    has_key: bool,
    rows: Vec<Stored>,
    earlier: Vec<(Hash, i64)>,
    /// The rows that are stored.
    stored: u64,
}

struct Restoring<'s> {
    store: &'s Store,
    now: i64,
    mode: Mode,
    workspace: Option<Section>,
    restored: Restored,
}

impl Restoring<'_> {
    async fn add(&mut self, line: Line) -> Result<(), AddError> {
        let no_workspace = || "expected a workspace".to_owned();
        match line {
            Line::Workspace { name, key } => {
                self.end_workspace().await?;
                let key = key.map(|key| rows::key_from_hex(&key).ok_or("key: expected 64 digits"));
                let key = key.transpose().map_err(str::to_owned)?;
                let (id, has_key) =
                    (self.begin_workspace(&name, key.as_ref()).await?, key.is_some());
                let (rows, earlier) = (Vec::new(), Vec::new());
                self.workspace = Some(Section { id, has_key, rows, earlier, stored: 0 });
                self.restored.workspaces += 1;
                return Ok(());
            }
            Line::Suppression { hash, scope, reason, state, at, until } => {
                let section = self.workspace.as_mut().ok_or_else(no_workspace)?;
                if !section.has_key {
                    return Err("the workspace has no key".to_owned().into());
                }
                if !check::SUBSCRIPTION.contains(&&*state) && state != "suppressed" {
                    return Err(format!("unknown state {state:?}").into());
                }
                let (who, decided_at) = (read_hash(&hash)?.to_vec(), read_time(&at)?);
                let until = until.as_deref().map(read_time).transpose()?;
                if until.is_some() != (reason == Reason::Bounce) {
                    return Err("until: a bounce has an end, and nothing else".to_owned().into());
                }
                // The send that caused a bounce may be unknown here.
                let cause = None;
                section.rows.push(Stored { who, scope, reason, state, decided_at, until, cause });
            }
            Line::UnsubscribedEmail { hash, at } => {
                let section = self.workspace.as_mut().ok_or_else(no_workspace)?;
                section.earlier.push((read_hash(&hash)?, read_time(&at)?));
            }
            // The caller reads it.
            Line::End { .. } => {}
        }
        self.restored.suppressions += 1;
        let section = self.workspace.as_mut().ok_or_else(no_workspace)?;
        if section.rows.len() + section.earlier.len() >= PAGE {
            store_page(self.store, self.mode, section, None).await?;
        }
        Ok(())
    }

    async fn begin_workspace(&self, name: &str, key: Option<&Key>) -> Result<i32, AddError> {
        let mut tx = self.store.write().await?;
        let all = workspaces::list(&mut tx).await?;
        let found = all.into_iter().find(|workspace| workspace.name == name);
        let workspace = found.ok_or_else(|| format!("no workspace is called {name}"))?.id;
        let Some(key) = key else { return Ok(workspace) };
        if !rows::take_key(&mut tx, workspace, key).await? {
            return Err(format!(
                "the workspace {name} has another key, and suppressions with it: the file is of \
                 another installation"
            )
            .into());
        }
        match self.mode {
            Mode::Check => {}
            Mode::Apply => tx.commit().await?,
        }
        Ok(workspace)
    }

    async fn end_workspace(&mut self) -> Result<(), StoreError> {
        let Some(mut section) = self.workspace.take() else { return Ok(()) };
        store_page(self.store, self.mode, &mut section, Some(self.now)).await
    }
}

/// Stores what was read of a workspace. At its end, with an entry in the audit log.
async fn store_page(
    store: &Store,
    mode: Mode,
    section: &mut Section,
    end: Option<i64>,
) -> Result<(), StoreError> {
    let (rows, earlier) = (std::mem::take(&mut section.rows), std::mem::take(&mut section.earlier));
    section.stored += (rows.len() + earlier.len()) as u64;
    if mode == Mode::Check {
        return Ok(());
    }
    let store_once = async || {
        let mut tx: Tx = store.write().await?;
        rows::put(&mut tx, section.id, rows.clone()).await?;
        rows::put_earlier(&mut tx, section.id, &earlier).await?;
        if let Some(now) = end {
            let details = json!({ "suppressions": section.stored });
            let action = ("suppressions.restore", "");
            audit::record_command(&mut tx, now, Some(section.id), action, details).await?;
        }
        tx.commit().await
    };
    // A repeat changes nothing.
    let mut tries = TimedRetries::within(RETRY_TIME);
    loop {
        match store_once().await {
            Err(error) if error.can_retry() && tries.again().await => {}
            done => return done,
        }
    }
}

fn read_hash(text: &str) -> Result<Hash, String> {
    hash_from_hex(text).ok_or_else(|| "hash: expected 64 hexadecimal digits".to_owned())
}

fn read_time(text: &str) -> Result<i64, String> {
    parse_time(text).map_err(|why| format!("at: {why}"))
}
