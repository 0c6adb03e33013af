//! `longshore invalid-numbers`.

use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::json;
use tokio::sync::mpsc;

use super::audit;
use super::table::{text, time};
use super::{CommandResult, PageArguments, WorkspaceArgument, retry};
use crate::app::App;
use crate::config::Config;
use crate::sms::{self, InvalidNumber, PhoneNumber};
use kit::clock::serialize_time;
use kit::words::count;

/// Numbers that are written together.
const PAGE: usize = 1_000;

/// Maximum bytes of a line.
const MAX_LINE: u64 = 1_024;

/// Show and change the list of invalid phone numbers, which get no messages.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  longshore invalid-numbers list
  longshore invalid-numbers add numbers.txt
  longshore invalid-numbers remove +15550100")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List the numbers
    #[command(after_help = "Examples:
  longshore invalid-numbers list --workspace acme --json
  longshore invalid-numbers list --after +15550100 --limit 1000")]
    List {
        #[command(flatten)]
        workspace: WorkspaceArgument,
        #[command(flatten)]
        page: PageArguments,
    },
    /// Add the numbers of a file, one per line, to the list; invalid lines are reported and skipped
    #[command(after_help = "Example:\n  echo +15550100 | longshore invalid-numbers add -")]
    Add {
        /// The file; `-` is standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Reason that is stored with the numbers
        #[arg(long, value_name = "TEXT", default_value = "added by an operator")]
        reason: String,
        #[command(flatten)]
        workspace: WorkspaceArgument,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove numbers from the list
    #[command(after_help = "Example:\n  longshore invalid-numbers remove +15550100 +15550101")]
    Remove {
        /// The numbers, with or without plus
        #[arg(value_name = "NUMBER", required = true, value_parser = PhoneNumber::parse)]
        numbers: Vec<PhoneNumber>,
        #[command(flatten)]
        workspace: WorkspaceArgument,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
}

pub async fn run(config: Config, arguments: Arguments) -> CommandResult {
    let app = super::open(config).await?;
    match arguments.command {
        Command::List { workspace, page } => list(&app, &workspace, &page).await,
        Command::Add { file, reason, workspace, json } => {
            add(&app, &workspace, &file, &reason, json).await
        }
        Command::Remove { numbers, workspace, json } => {
            remove(&app, &workspace, &numbers, json).await
        }
    }
}

/// A number on the list.
#[derive(Serialize)]
struct ListedNumber {
    number: String,
    #[serde(serialize_with = "serialize_time")]
    added_at: i64,
    reason: String,
}

async fn list(app: &App, workspace: &WorkspaceArgument, page: &PageArguments) -> CommandResult {
    let after = page.after(PhoneNumber::parse)?;
    let after = after.as_ref().map_or("", PhoneNumber::digits);
    let mut tx = app.store.snapshot().await?;
    let workspace = workspace.find(&mut tx).await?;
    let found = sms::list(&mut tx, workspace.id, after, page.rows_to_read().into()).await?;
    let numbers: Vec<ListedNumber> = found
        .into_iter()
        .map(|InvalidNumber { number, reason, added_at }| ListedNumber {
            number: format!("+{number}"),
            added_at,
            reason,
        })
        .collect();
    let headers = ["NUMBER", "ADDED", "REASON"];
    let number = |listed: &ListedNumber| listed.number.clone();
    page.print_page("invalid numbers", headers, &numbers, number, |listed| {
        [text(&listed.number), time(listed.added_at), text(&listed.reason)]
    })
}

async fn add(
    app: &App,
    workspace: &WorkspaceArgument,
    file: &Path,
    reason: &str,
    json: bool,
) -> CommandResult {
    if reason.contains(char::is_control) {
        return Err("a reason must not contain control characters".into());
    }
    let workspace = workspace.find(&mut app.store.snapshot().await?).await?;
    let name = file.display().to_string();
    let input: Box<dyn Read + Send> = if file == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        Box::new(std::fs::File::open(file).map_err(|error| format!("{name}: {error}"))?)
    };
    let (to_writer, mut batches) = mpsc::channel(2);
    let reader = tokio::task::spawn_blocking(move || read(&name, input, &to_writer));
    let mut added = 0;
    while let Some(numbers) = batches.recv().await {
        let add = async || {
            let mut tx = app.store.write().await?;
            let now = app.clock.now_ms();
            let added = sms::add(&mut tx, workspace.id, &numbers, reason, now).await?;
            tx.commit().await?;
            Ok(added)
        };
        added += retry::while_busy(add).await?;
    }
    let change = ("invalid_numbers.add", "");
    audit::record_done(app, Some(workspace.id), change, json!({ "added": added })).await?;
    let Outcome { numbers, bad } = reader.await??;
    let already_listed = numbers - added;
    if json {
        println!("{}", json!({"added": added, "already_there": already_listed, "bad": bad}));
    } else {
        let (added, bad) = (count(added, "number"), count(bad, "invalid line"));
        println!("{added} added, {already_listed} already on the list, {bad}");
    }
    match bad {
        0 => Ok(()),
        bad => Err(format!("{} not added", count(bad, "line")).into()),
    }
}

#[derive(Default)]
struct Outcome {
    numbers: u64,
    bad: u64,
}

/// Reads numbers into batches without duplicates, until the receiver is closed.
fn read(
    name: &str,
    input: impl Read,
    to_writer: &mpsc::Sender<Vec<PhoneNumber>>,
) -> Result<Outcome, String> {
    let mut input = BufReader::new(input);
    let (mut outcome, mut batch, mut line) = (Outcome::default(), Vec::new(), Vec::new());
    for line_number in 1_u64.. {
        line.clear();
        let failed = |error| format!("{name}:{line_number}: {error}");
        let read = (&mut input).take(MAX_LINE).read_until(b'\n', &mut line).map_err(failed)?;
        if read as u64 == MAX_LINE && !line.ends_with(b"\n") {
            return Err(format!("{name}:{line_number}: not a valid phone number"));
        }
        let text = String::from_utf8_lossy(&line);
        match PhoneNumber::parse(text.trim()) {
            _ if read == 0 => break,
            _ if text.trim().is_empty() => {}
            Ok(number) => batch.push(number),
            Err(error) => {
                outcome.bad += 1;
                eprintln!("{name}:{line_number}: {error}");
            }
        }
        if batch.len() == PAGE {
            let Some(sent) = send(&mut batch, to_writer) else { return Ok(outcome) };
            outcome.numbers += sent;
        }
    }
    outcome.numbers += send(&mut batch, to_writer).unwrap_or_default();
    Ok(outcome)
}

/// Sends a batch; returns its size, or none if the receiver is closed, which reports the reason
/// itself.
fn send(batch: &mut Vec<PhoneNumber>, to_writer: &mpsc::Sender<Vec<PhoneNumber>>) -> Option<u64> {
    let mut numbers = std::mem::take(batch);
    numbers.sort_unstable();
    numbers.dedup();
    let count = numbers.len() as u64;
    to_writer.blocking_send(numbers).ok().map(|()| count)
}

async fn remove(
    app: &App,
    workspace: &WorkspaceArgument,
    numbers: &[PhoneNumber],
    json: bool,
) -> CommandResult {
    let remove = async || {
        let mut tx = app.store.write().await?;
        let workspace = workspace.find(&mut tx).await?.id;
        let removed = sms::remove(&mut tx, workspace, numbers).await?;
        let (change, details) = (("invalid_numbers.remove", ""), json!({ "removed": removed }));
        audit::record(&mut tx, app, Some(workspace), change, details).await?;
        tx.commit().await?;
        Ok(removed)
    };
    let removed = retry::while_busy(remove).await?;
    if json {
        println!("{}", json!({ "removed": removed }));
    } else {
        println!("{} removed", count(removed, "number"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(text: &str) -> (Result<Outcome, String>, Vec<PhoneNumber>) {
        let (to_writer, mut batches) = mpsc::channel(100);
        let outcome = read("file", text.as_bytes(), &to_writer);
        drop(to_writer);
        let mut numbers = Vec::new();
        while let Ok(batch) = batches.try_recv() {
            numbers.extend(batch);
        }
        (outcome, numbers)
    }

    #[test]
    fn lines_are_numbers_or_bad() {
        let (outcome, numbers) = read_all("+15550100\r\n\n  15550100 \nabc\n+15550101");
        let outcome = outcome.unwrap();
        assert_eq!((outcome.numbers, outcome.bad), (2, 1));
        let digits: Vec<&str> = numbers.iter().map(PhoneNumber::digits).collect();
        assert_eq!(digits, ["15550100", "15550101"]);
        let many: String = (0..2_500).map(|n| format!("+1555{n:07}\n")).collect();
        let (outcome, numbers) = read_all(&many);
        assert_eq!((outcome.unwrap().numbers, numbers.len()), (2_500, 2_500));
        let error = read_all(&format!("+15550100\n{}", "5".repeat(2_000))).0.err().unwrap();
        assert_eq!(error, "file:2: not a valid phone number");
    }
}
