//! `longshore dead-letters`.

use clap::Subcommand;
use serde::Serialize;
use uuid::Uuid;

use super::confirm::Consent;
use super::ids::dead_letter_id;
use super::table::{self, Cell, measure, number, text, time};
use super::{CommandResult, PageArguments, print};
use crate::app::App;
use crate::config::Config;
use crate::engine::batches::dead_letters::{self, DeadLetter};
use kit::clock::serialize_time;
use store::Store;

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
    List(PageArguments),
    /// Show one message with its payload and the reason
    #[command(
        after_help = "Example:\n  longshore dead-letters show 01927b3e-5a1c-7cc3-98c4-dc0c0c07398f"
    )]
    Show(Show),
    /// Process messages again and remove them from the list
    #[command(
        after_help = "Examples:\n  longshore dead-letters retry 01927b3e-5a1c-7cc3-98c4-dc0c0c07398f\n  \
                      longshore dead-letters retry --all"
    )]
    Retry(Which),
    /// Delete messages permanently; asks on a terminal
    #[command(
        after_help = "Examples:\n  longshore dead-letters discard 01927b3e-5a1c-7cc3-98c4-dc0c0c07398f\n  \
                      longshore dead-letters discard --all --dry-run"
    )]
    Discard(Discard),
}

#[derive(clap::Args)]
struct Show {
    /// The id, as `list` shows it
    #[arg(value_parser = dead_letter_id)]
    id: Uuid,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct Discard {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    consent: Consent,
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct Which {
    /// The ids, as `list` shows them
    #[arg(value_name = "ID", value_parser = dead_letter_id)]
    ids: Vec<Uuid>,
    /// All dead letters
    #[arg(long)]
    all: bool,
}

pub async fn run(config: Config, arguments: Arguments) -> CommandResult {
    let app = super::open(config).await?;
    match arguments.command {
        Command::List(page) => list(&app.store, &page).await,
        Command::Show(Show { id, json }) => {
            let letter = Letter::from(&dead_letters::by_id(&app.store, id).await?);
            table::print_object(json, &letter, details)
        }
        Command::Retry(which) => {
            let retried = retry(&app, &which).await;
            app.store.wake().flush().await;
            retried
        }
        Command::Discard(discard) => self::discard(&app.store, &discard).await,
    }
}

async fn list(store: &Store, page: &PageArguments) -> CommandResult {
    let mut last = match page.after(dead_letter_id)? {
        Some(id) => Some(dead_letters::by_id(store, id).await?),
        None => None,
    };
    let limit = page.limit as usize;
    let mut letters: Vec<Letter> = Vec::new();
    while letters.len() < limit {
        let found = dead_letters::page(store, last.as_ref()).await?;
        letters.extend(found.iter().take(limit - letters.len()).map(Letter::from));
        last = found.into_iter().next_back();
        if last.is_none() {
            break;
        }
    }
    let headers = ["ID", "CREATED", "TOPIC", "PARTITION", "OFFSET", "ATTEMPTS", "REASON"];
    table::print(page.json, "dead letters", headers, &letters, row)?;
    page.print_next(letters.len(), || Some(letters.last()?.id.to_string()));
    Ok(())
}

async fn retry(app: &App, which: &Which) -> CommandResult {
    let ids = chosen(&app.store, which).await?;
    let mut failed = 0;
    for id in &ids {
        let result = crate::dead_letters::retry(app, *id).await;
        failed += report(*id, "applied", result.map_err(Into::into));
    }
    print::all_done(failed, ids.len(), "were not applied")
}

async fn discard(store: &Store, Discard { which, consent }: &Discard) -> CommandResult {
    let ids = chosen(store, which).await?;
    if consent.needs_effects() && !ids.is_empty() {
        let (mut effects, mut failed) = (Vec::new(), 0);
        for id in &ids {
            effects.push(match dead_letters::topic(store, *id).await {
                Ok(topic) => format!("deletes {id} of {}: it is never processed", topic.name()),
                Err(error) => {
                    failed += 1;
                    format!("does not delete {id}: {error}")
                }
            });
        }
        if !consent.is_given(false, &effects)? {
            return print::all_done(failed, ids.len(), "would not be discarded");
        }
    }
    let mut failed = 0;
    for id in &ids {
        let result = dead_letters::discard(store, *id).await;
        failed += report(*id, "discarded", result.map_err(Into::into));
    }
    print::all_done(failed, ids.len(), "were not discarded")
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
            eprintln!("{id} {}", table::printable(&error.to_string()));
            1
        }
    }
}

/// A dead letter as it is printed.
#[derive(Serialize)]
struct Letter {
    id: Uuid,
    group: String,
    topic: String,
    partition: i32,
    offset: i64,
    key: String,
    payload: String,
    request_id: String,
    reason: String,
    attempts: i32,
    #[serde(serialize_with = "serialize_time")]
    created_at: i64,
}

impl From<&DeadLetter> for Letter {
    fn from(letter: &DeadLetter) -> Self {
        Self {
            id: letter.id,
            group: letter.consumer_group.clone(),
            topic: letter.topic.clone(),
            partition: letter.partition,
            offset: letter.position,
            key: readable(&letter.key),
            payload: readable(&letter.payload),
            request_id: letter.request_id.clone(),
            reason: letter.reason.clone(),
            attempts: letter.attempts,
            created_at: letter.created_at,
        }
    }
}

fn row(letter: &Letter) -> [Cell; 7] {
    [
        text(letter.id),
        time(letter.created_at),
        text(&letter.topic),
        number(letter.partition),
        measure(letter.offset),
        number(letter.attempts),
        text(&letter.reason),
    ]
}

fn details(letter: &Letter) -> [(&'static str, Cell); 11] {
    [
        ("id", text(letter.id)),
        ("topic", text(&letter.topic)),
        ("partition", number(letter.partition)),
        ("offset", measure(letter.offset)),
        ("group", text(&letter.group)),
        ("key", text(&letter.key)),
        ("created", time(letter.created_at)),
        ("attempts", number(letter.attempts)),
        ("request id", text(&letter.request_id)),
        ("reason", text(&letter.reason)),
        ("payload", text(&letter.payload)),
    ]
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
