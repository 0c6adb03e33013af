//! `longshore import`: users from newline-delimited JSON.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use indicatif::HumanCount;
use serde_json::json;

use super::audit;
use super::confirm::Confirmation;
use super::progress::{self, Unit};
use super::table::printable;
use super::{CommandResult, WorkspaceArgument};
use crate::app::App;
use crate::config::Config;
use crate::shutdown;
use crate::users::import::{Importer, Input, Options, Progress, Summary};
use crate::users::profile::check::NO_GROUP_STATE;
use crate::workspaces::Workspace;
use kit::words::count;

/// The hint for an import that did not finish.
const USERS_STAY: &str = "imported users stay; run the same import again to finish it";

/// The same if rejected lines are written to a file, which a second import does not overwrite.
const USERS_STAY_WITH_REJECTS: &str = "imported users stay; to finish the import, run it again \
                                       with another file for --rejects";

/// The same for a dry run.
const NOTHING_WRITTEN: &str = "nothing was written (--dry-run)";

/// Number of invalid lines that are printed.
const SHOWN: u64 = 20;

/// Import users, one export record per line. A record with the identifier of an existing profile
/// (service_id, external_id, alias, then email) replaces its fields; any other creates a profile.
/// Subscription states, push tokens and other fields that exports do not contain are kept unless
/// the line has them, and unsubscribed users stay unsubscribed. Invalid lines are reported with
/// file and line number, the first 20 individually and all of them by reason; the other lines are
/// imported. Repeating an import creates no duplicates.
///
/// On a terminal, files are checked first; if users would lose fields, the command shows which, and
/// asks.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  longshore generate --users 50000 | longshore import -
  longshore import users.ndjson --max-errors 100 --rejects bad.ndjson
  longshore import export.zip --dry-run")]
pub struct Arguments {
    /// Files of newline-delimited JSON, also in gzip, ZIP or UTF-16; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    workspace: WorkspaceArgument,
    /// Stop after more than N invalid lines
    #[arg(long, value_name = "N")]
    max_errors: Option<u64>,
    /// Write the invalid lines to a new file, to fix and import them
    #[arg(long, value_name = "FILE")]
    rejects: Option<PathBuf>,
    /// Check all lines and count the changes, including the fields that users would lose, but write
    /// nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    confirmation: Confirmation,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

pub async fn run(config: Config, arguments: Arguments) -> CommandResult {
    let read = Arc::new(AtomicU64::new(0));
    let (inputs, size) = open_all(&arguments.files, &read)?;
    let app = super::open(config).await?;
    let workspace = arguments.workspace.find(&mut app.store.snapshot().await?).await?;
    // Standard input can be read only once.
    let can_check = arguments.files.iter().all(|file| file.is_file());
    let mut checked = None;
    if !arguments.dry_run && can_check && arguments.confirmation.is_needed() {
        let summary = check(&app, &workspace, &arguments).await?;
        if !summary.removed.is_empty() {
            arguments.confirmation.ask(&lines(&summary, true))?;
        }
        checked = Some(summary);
    }
    let mut rejects = arguments.rejects.as_deref().map(Rejects::create).transpose()?;
    let mut bar = progress::Progress::begin(Unit::Bytes);
    let options = Options {
        max_bad_lines: arguments.max_errors,
        keep_lines: rejects.is_some(),
        dry_run: arguments.dry_run,
    };
    let hint = match &rejects {
        _ if arguments.dry_run => NOTHING_WRITTEN,
        Some(_) => USERS_STAY_WITH_REJECTS,
        None => USERS_STAY,
    };
    let (workspace_id, name) = (Some(workspace.id), workspace.name.clone());
    if !arguments.dry_run {
        let files = json!({ "files": arguments.files });
        audit::record_done(&app, workspace_id, ("users.import.start", &*name), files).await?;
    }
    let importer = Importer::new(app.store.clone(), app.clock.clone(), workspace).with(options);
    let mut printed = 0;
    let work = importer.run(inputs, |event| match event {
        Progress::Bad(bad) => {
            printed += 1;
            if printed <= SHOWN {
                bar.line(&printable(&format!("{}:{}: {}", bad.file, bad.line, bad.reason)));
            }
            rejects.iter_mut().for_each(|rejects| rejects.add(&bad.text));
        }
        Progress::Written(summary) => {
            let users = count(summary.created + summary.replaced, "user");
            bar.update(&users, read.load(Ordering::Relaxed), size);
        }
    });
    let result = shutdown::with_hint(work, || hint.to_owned()).await?;
    if let (false, Ok(summary)) = (arguments.dry_run, &result) {
        let Summary { created, replaced, bad, .. } = summary;
        let counts = json!({ "created": created, "replaced": replaced, "invalid_lines": bad });
        audit::record_done(&app, workspace_id, ("users.import.end", &*name), counts).await?;
    }
    let seconds = bar.seconds();
    drop(bar);
    // Before the result, because the file is useful even after a failure.
    let closed = rejects.map_or(Ok(()), Rejects::close);
    let mut summary = result.map_err(|error| format!("{error}\n{hint}"))?;
    let is_removal_counted = arguments.dry_run || checked.is_some();
    if let Some(checked) = checked {
        // Counted only there, so that the import itself does not take longer.
        summary.removed = checked.removed;
    }
    if summary.bad > SHOWN {
        print_reasons(&summary);
    }
    print(&summary, is_removal_counted, seconds, &arguments);
    closed?;
    match summary.bad {
        _ if summary.stopped => {
            let limit = HumanCount(arguments.max_errors.unwrap_or_default());
            Err(format!("stopped: more than {limit} lines are invalid (--max-errors); {hint}")
                .into())
        }
        0 => Ok(()),
        bad if arguments.dry_run => Err(count(bad, "invalid line").into()),
        1 => Err("1 line was not imported".into()),
        bad => Err(format!("{} lines were not imported", HumanCount(bad)).into()),
    }
}

fn open_all(files: &[PathBuf], read: &Arc<AtomicU64>) -> Result<(Vec<Input>, Option<u64>), String> {
    let (mut inputs, mut size) = (Vec::new(), Some(0));
    for file in files {
        let (input, bytes) = open(file, read)?;
        inputs.push(input);
        size = size.zip(bytes).map(|(size, bytes)| size + bytes);
    }
    Ok((inputs, size))
}

/// What the import would do, with the fields that users would lose.
async fn check(app: &App, workspace: &Workspace, arguments: &Arguments) -> CommandResult<Summary> {
    let read = Arc::new(AtomicU64::new(0));
    let (inputs, size) = open_all(&arguments.files, &read)?;
    let mut bar = progress::Progress::begin(Unit::Bytes);
    let options = Options { max_bad_lines: arguments.max_errors, keep_lines: false, dry_run: true };
    let (store, clock) = (app.store.clone(), app.clock.clone());
    let importer = Importer::new(store, clock, workspace.clone()).with(options);
    let work = importer.run(inputs, |event| {
        if let Progress::Written(_) = event {
            bar.update("checking", read.load(Ordering::Relaxed), size);
        }
    });
    Ok(shutdown::with_hint(work, || "nothing was imported".to_owned()).await??)
}

fn open(file: &Path, read: &Arc<AtomicU64>) -> Result<(Input, Option<u64>), String> {
    if file == Path::new("-") {
        let counted = Counted { inner: std::io::stdin(), read: read.clone() };
        return Ok((Input::new("-", counted), None));
    }
    let name = file.display().to_string();
    let opened = File::open(file).map_err(|error| format!("{name}: {error}"))?;
    let metadata = opened.metadata().map_err(|error| format!("{name}: {error}"))?;
    if metadata.is_dir() {
        return Err(format!("{name}: is a directory"));
    }
    let bytes = metadata.is_file().then_some(metadata.len());
    Ok((Input::new(&name, Counted { inner: opened, read: read.clone() }), bytes))
}

/// Counts the bytes read, for the progress.
struct Counted<R> {
    inner: R,
    read: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// The file of invalid lines.
struct Rejects {
    path: PathBuf,
    file: File,
    lines: u64,
    /// The first error.
    error: Option<std::io::Error>,
}

impl Rejects {
    /// Creates the file for its owner only, because it has personal data. An existing file is not
    /// overwritten, because it may be the input.
    fn create(path: &Path) -> Result<Self, String> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let file = file.map_err(|error| format!("--rejects {}: {error}", path.display()))?;
        Ok(Self { path: path.to_owned(), file, lines: 0, error: None })
    }

    fn add(&mut self, line: &[u8]) {
        let line = line.trim_ascii_end();
        if line.is_empty() || self.error.is_some() {
            return;
        }
        // Whole and at once, because a signal can end the import after any line.
        let written = self.file.write_all(&[line, b"\n"].concat());
        self.lines += u64::from(written.is_ok());
        self.error = written.err();
    }

    /// Prints the number of lines.
    fn close(self) -> Result<(), String> {
        let path = self.path.display();
        if let Some(error) = &self.error {
            return Err(format!("--rejects {path}: {error}; some invalid lines are not in it"));
        }
        if self.lines > 0 {
            eprintln!("{} in {path}", count(self.lines, "invalid line"));
        }
        Ok(())
    }
}

/// Deletes a file without lines, however the import ended: a second import needs a new file.
impl Drop for Rejects {
    fn drop(&mut self) {
        if self.lines == 0 {
            drop(std::fs::remove_file(&self.path));
        }
    }
}

/// Prints the reasons of invalid lines, the most frequent first.
fn print_reasons(summary: &Summary) {
    const SHOWN: usize = 20;
    eprintln!("{}, the first {SHOWN} shown. By reason:", count(summary.bad, "invalid line"));
    let mut reasons: Vec<_> = summary.reasons.iter().collect();
    reasons.sort_by_key(|(_, lines)| std::cmp::Reverse(**lines));
    for (reason, lines) in reasons.iter().take(SHOWN) {
        eprintln!("{:>12}  {}", HumanCount(**lines).to_string(), printable(reason));
    }
    if reasons.len() > SHOWN {
        eprintln!("{:>12}  for {} more reasons", "", reasons.len() - SHOWN);
    }
}

/// A summary for people. The names in it are from the file.
fn lines(summary: &Summary, is_dry_run: bool) -> Vec<String> {
    let Summary { created, replaced, kept_unsubscribed, removed, bad, ignored, .. } = summary;
    let Summary { with_revenue, revenue_currency, .. } = summary;
    let mut lines = vec![format!(
        "{} new, {} replaced, {}",
        HumanCount(*created),
        HumanCount(*replaced),
        count(*bad, "invalid line"),
    )];
    if *kept_unsubscribed > 0 {
        let users = count(*kept_unsubscribed, "line");
        lines.push(format!("unsubscribed users stay unsubscribed: {users} with another state"));
    }
    if is_dry_run && *with_revenue > 0 {
        let lines_with = count(*with_revenue, "line");
        lines.push(format!(
            "total_revenue is in {revenue_currency}, the workspace's currency: {lines_with}. If the \
             lines are from a workspace with another currency, convert it first"
        ));
    }
    let removal = if is_dry_run { "would be removed" } else { "removed" };
    for (name, users) in removed {
        lines.push(format!("{removal}: {name} ({})", count(*users, "user")));
    }
    for (name, times) in ignored {
        let why = if name == NO_GROUP_STATE { "no subscription state" } else { "unknown field" };
        lines.push(format!("{why}, ignored: {name} ({})", count(*times, "time")));
    }
    lines
}

fn print(summary: &Summary, is_removal_counted: bool, seconds: f64, arguments: &Arguments) {
    let users = summary.created + summary.replaced;
    let rate = (users as f64 / seconds.max(0.001)) as u64;
    if arguments.json {
        let mut value = serde_json::json!(summary);
        value["dry_run"] = arguments.dry_run.into();
        value["seconds"] = seconds.into();
        value["users_per_second"] = rate.into();
        if !is_removal_counted && let Some(fields) = value.as_object_mut() {
            fields.remove("removed");
        }
        println!("{value}");
        return;
    }
    print!("{} in {seconds:.1} s, {} per second: ", count(users, "user"), HumanCount(rate));
    for line in lines(summary, arguments.dry_run) {
        println!("{}", printable(&line));
    }
    if arguments.dry_run {
        println!("{NOTHING_WRITTEN}");
    }
}
