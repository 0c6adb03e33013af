//! `longshore dead-letters`.

use std::collections::HashMap;

use clap::Subcommand;
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use super::confirm::Consent;
use super::ids::dead_letter_id;
use super::print::Results;
use super::table::{self, Cell, measure, number, optional, text, time};
use super::{CommandResult, PageArguments, print, retry};
use crate::app::App;
use crate::config::Config;
use crate::engine::batches::dead_letters::{self, DeadLetter};
use crate::workspaces;
use kit::clock::serialize_time;
use kit::words::count;
use runtime::audit::Entry;
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
    Retry(Retry),
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
struct Retry {
    #[command(flatten)]
    which: Which,
    /// Print one JSON object: the applied messages, and the others with the reasons
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct Discard {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    consent: Consent,
    /// Print one JSON object: the discarded messages, and the others with the reasons
    #[arg(long)]
    json: bool,
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
            let names = workspace_names(&app.store).await?;
            let found = dead_letters::by_id(&app.store, id).await?;
            table::print_object(json, &ListedDeadLetter::new(&found, &names), details)
        }
        Command::Retry(arguments) => {
            let retried = retry_all(&app, &arguments).await;
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
    let names = workspace_names(store).await?;
    let limit = page.rows_to_read() as usize;
    let mut listed: Vec<ListedDeadLetter> = Vec::new();
    while listed.len() < limit {
        let found = dead_letters::page(store, last.as_ref()).await?;
        let rest = limit - listed.len();
        listed.extend(found.iter().take(rest).map(|found| ListedDeadLetter::new(found, &names)));
        last = found.into_iter().next_back();
        if last.is_none() {
            break;
        }
    }
    let headers =
        ["ID", "CREATED", "WORKSPACE", "TOPIC", "PARTITION", "OFFSET", "ATTEMPTS", "REASON"];
    page.print_page("dead letters", headers, &listed, |listed| listed.id.to_string(), row)
}

async fn retry_all(app: &App, Retry { which, json }: &Retry) -> CommandResult {
    let mut results = Results::new(*json);
    for id in &chosen(&app.store, which).await? {
        let workspace = workspace_of(&app.store, *id).await;
        let entry = Entry::from_command(workspace, "dead_letter.retry", id.to_string(), json!({}));
        let apply = async || Ok(crate::dead_letters::retry(app, *id, &entry, None).await?);
        add(&mut results, *id, "applied", &retry::long_while_busy(apply).await);
    }
    results.end("applied", "were not applied")
}

async fn discard(store: &Store, Discard { which, consent, json }: &Discard) -> CommandResult {
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
        if ids.len() > 1 && !json {
            let messages = count((ids.len() - failed) as u64, "message");
            effects.insert(0, format!("deletes {messages} permanently:"));
        }
        if !consent.is_given(*json, &effects)? {
            return print::all_done(failed, ids.len(), "would not be discarded");
        }
    }
    let mut results = Results::new(*json);
    for id in &ids {
        let workspace = workspace_of(store, *id).await;
        let entry =
            Entry::from_command(workspace, "dead_letter.discard", id.to_string(), json!({}));
        let discard = async || Ok(dead_letters::discard(store, *id, &entry).await?);
        add(&mut results, *id, "discarded", &retry::while_busy(discard).await);
    }
    results.end("discarded", "were not discarded")
}

/// The workspace of a dead letter; none if it has none, or is unknown.
async fn workspace_of(store: &Store, id: Uuid) -> Option<i32> {
    let dead_letter = dead_letters::by_id(store, id).await.ok()?;
    dead_letter.workspace_id.filter(|workspace| *workspace > 0)
}

/// The given ids, or all current ones: a message that fails again is not retried twice.
async fn chosen(store: &Store, which: &Which) -> CommandResult<Vec<Uuid>> {
    if !which.all {
        return Ok(which.ids.clone());
    }
    let mut ids = Vec::new();
    let mut page = dead_letters::page(store, None).await?;
    while let Some(last) = page.last().cloned() {
        ids.extend(page.iter().map(|dead_letter| dead_letter.id));
        page = dead_letters::page(store, Some(&last)).await?;
    }
    if ids.is_empty() {
        eprintln!("No dead letters.");
    }
    Ok(ids)
}

fn add(results: &mut Results, id: Uuid, done: &str, result: &CommandResult) {
    match result {
        Ok(()) => results.done(&format!("{id} {done}"), id.to_string().into()),
        Err(error) => {
            let line = format!("{id} {}", table::printable(&error.to_string()));
            results.failed(&line, id, error);
        }
    }
}

/// A dead letter as it is printed.
#[derive(Serialize)]
struct ListedDeadLetter {
    id: Uuid,
    /// None if the message has none.
    workspace: Option<String>,
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

impl ListedDeadLetter {
    fn new(dead_letter: &DeadLetter, names: &HashMap<i32, String>) -> Self {
        Self {
            id: dead_letter.id,
            workspace: dead_letter.workspace_id.and_then(|id| names.get(&id).cloned()),
            group: dead_letter.consumer_group.clone(),
            topic: dead_letter.topic.clone(),
            partition: dead_letter.partition,
            offset: dead_letter.position,
            key: readable(&dead_letter.key),
            payload: readable(&dead_letter.payload),
            request_id: dead_letter.request_id.clone(),
            reason: dead_letter.reason.clone(),
            attempts: dead_letter.attempts,
            created_at: dead_letter.created_at,
        }
    }
}

/// The names of all workspaces.
async fn workspace_names(store: &Store) -> CommandResult<HashMap<i32, String>> {
    let all = workspaces::list(&mut store.snapshot().await?).await?;
    Ok(all.into_iter().map(|workspace| (workspace.id, workspace.name)).collect())
}

fn row(dead_letter: &ListedDeadLetter) -> [Cell; 8] {
    [
        text(dead_letter.id),
        time(dead_letter.created_at),
        optional(dead_letter.workspace.as_ref().map(text)),
        text(&dead_letter.topic),
        number(dead_letter.partition),
        measure(dead_letter.offset),
        number(dead_letter.attempts),
        text(&dead_letter.reason),
    ]
}

fn details(dead_letter: &ListedDeadLetter) -> [(&'static str, Cell); 12] {
    [
        ("id", text(dead_letter.id)),
        ("workspace", optional(dead_letter.workspace.as_ref().map(text))),
        ("topic", text(&dead_letter.topic)),
        ("partition", number(dead_letter.partition)),
        ("offset", measure(dead_letter.offset)),
        ("group", text(&dead_letter.group)),
        ("key", text(&dead_letter.key)),
        ("created", time(dead_letter.created_at)),
        ("attempts", number(dead_letter.attempts)),
        ("request id", text(&dead_letter.request_id)),
        ("reason", text(&dead_letter.reason)),
        ("payload", text(&dead_letter.payload)),
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
