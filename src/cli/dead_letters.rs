//! `longshore dead-letters`.

use clap::Subcommand;
use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

use super::{CommandResult, print};
use crate::app::App;
use crate::catalogs::apply::ApplyEdits;
use crate::config::Config;
use crate::engine::batches::dead_letters::{self, DeadLetter};
use crate::erase;
use crate::exports::intake::PlanExports;
use crate::messages::dispatch::OrderHandler;
use crate::topics;
use crate::tracking::apply::Ingest;
use kit::clock::{Clock, from_ms};
use store::Store;

/// Characters of a payload that the list shows.
const SHOWN: usize = 200;

#[derive(clap::Args)]
#[command(after_help = "Example:\n  longshore dead-letters list")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List messages that could not be processed, oldest first
    #[command(after_help = "Example:\n  longshore dead-letters list --json | jq -r .reason")]
    List {
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Process messages again and remove them from the list
    #[command(
        after_help = "Example:\n  longshore dead-letters retry 01927b3e-5a1c-7cc3-98c4-dc0c0c07398f\n  \
                      longshore dead-letters retry --all"
    )]
    Retry(Which),
    /// Delete messages permanently
    #[command(
        after_help = "Example:\n  longshore dead-letters discard 01927b3e-5a1c-7cc3-98c4-dc0c0c07398f"
    )]
    Discard(Which),
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct Which {
    /// The ids, as `list` shows them
    #[arg(value_name = "ID")]
    ids: Vec<Uuid>,
    /// All dead letters
    #[arg(long)]
    all: bool,
}

pub async fn run(config: Config, arguments: Arguments) -> CommandResult {
    let app = super::open(config).await?;
    match arguments.command {
        Command::List { json } => list(&app.store, json).await,
        Command::Retry(which) => {
            let retried = retry(&app, &which).await;
            app.store.wake().flush().await;
            retried
        }
        Command::Discard(which) => discard(&app.store, &which).await,
    }
}

async fn list(store: &Store, json: bool) -> CommandResult {
    let now = Clock::system().now();
    let mut count = 0;
    let mut page = dead_letters::page(store, None).await?;
    while let Some(last) = page.last().cloned() {
        for letter in &page {
            println!("{}", if json { as_json(letter) } else { as_text(letter, now) });
        }
        count += page.len();
        page = dead_letters::page(store, Some(&last)).await?;
    }
    if !json {
        println!("{count} dead letters");
    }
    Ok(())
}

async fn retry(app: &App, which: &Which) -> CommandResult {
    let mut failed = 0;
    let (ingest, edits, orders) =
        (Ingest::new(app).with_erase_hook(erase::erase_rows), ApplyEdits::new(app), OrderHandler);
    for id in chosen(&app.store, which).await? {
        let result = match dead_letters::topic(&app.store, id).await {
            Ok(topics::TRACKING) => dead_letters::retry(&app.store, &ingest, id).await,
            Ok(topics::CATALOGS) => dead_letters::retry(&app.store, &edits, id).await,
            Ok(topics::MESSAGES) => dead_letters::retry(&app.store, &orders, id).await,
            Ok(_) => dead_letters::retry(&app.store, &PlanExports, id).await,
            Err(error) => Err(error),
        };
        failed += report(id, "applied", result.map_err(Into::into));
    }
    all_done(failed)
}

async fn discard(store: &Store, which: &Which) -> CommandResult {
    let mut failed = 0;
    for id in chosen(store, which).await? {
        let result = dead_letters::discard(store, id).await;
        failed += report(id, "discarded", result.map_err(Into::into));
    }
    all_done(failed)
}

/// The given ids, or all current ones: a message that fails again is not retried twice.
async fn chosen(store: &Store, which: &Which) -> CommandResult<Vec<Uuid>> {
    if !which.all {
        return Ok(which.ids.clone());
    }
    let mut ids = Vec::new();
    let mut page = dead_letters::page(store, None).await?;
    while let Some(last) = page.last().cloned() {
        ids.extend(page.iter().map(|letter| letter.id));
        page = dead_letters::page(store, Some(&last)).await?;
    }
    if ids.is_empty() {
        println!("No dead letters.");
    }
    Ok(ids)
}

/// Prints the result; returns the number of failures.
fn report(id: Uuid, done: &str, result: CommandResult) -> usize {
    match result {
        Ok(()) => {
            println!("{id} {done}");
            0
        }
        Err(error) => {
            eprintln!("{id} {error}");
            1
        }
    }
}

fn all_done(failed: usize) -> CommandResult {
    if failed == 0 { Ok(()) } else { Err(format!("{failed} failed again").into()) }
}

fn as_json(letter: &DeadLetter) -> String {
    json!({
        "id": letter.id,
        "group": letter.consumer_group,
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.position,
        "key": readable(&letter.key),
        "payload": readable(&letter.payload),
        "request_id": letter.request_id,
        "reason": letter.reason,
        "attempts": letter.attempts,
        "created_at": from_ms(letter.created_at).to_string(),
    })
    .to_string()
}

fn as_text(letter: &DeadLetter, now: Timestamp) -> String {
    let payload = readable(&letter.payload);
    let shown: String = payload.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    let more = if payload.chars().count() > SHOWN { "…" } else { "" };
    format!(
        "{id}  {topic} {partition}/{position} of {group}, {age} ago, attempts {attempts}\n  \
         request {request}\n  reason  {reason}\n  payload {shown}{more}\n",
        id = letter.id,
        topic = letter.topic,
        partition = letter.partition,
        position = letter.position,
        group = letter.consumer_group,
        age = print::age(from_ms(letter.created_at), now),
        attempts = letter.attempts,
        request = letter.request_id,
        reason = letter.reason,
    )
}

/// Text unchanged, an id as an id, other bytes in hexadecimal.
fn readable(bytes: &[u8]) -> String {
    let is_plain = |text: &&str| !text.contains(|c: char| c.is_control() && !c.is_whitespace());
    if let Some(text) = std::str::from_utf8(bytes).ok().filter(is_plain) {
        return text.to_owned();
    }
    if let Ok(id) = Uuid::from_slice(bytes) {
        return id.to_string();
    }
    hex::encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_are_readable() {
        let id = Uuid::now_v7();
        assert_eq!(readable(id.to_string().as_bytes()), id.to_string());
        assert_eq!(readable(id.as_bytes()), id.to_string());
        assert_eq!(readable(b"{\"a\":\n1}"), "{\"a\":\n1}");
        assert_eq!(readable(&[0, 255]), "00ff");
    }
}
