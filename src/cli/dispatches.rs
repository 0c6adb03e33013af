//! `longshore dispatches`.

use clap::Subcommand;
use uuid::Uuid;

use super::{CommandResult, ListArguments};
use crate::app::App;
use crate::clock::format_seconds;
use crate::config::Config;
use crate::messages::dispatch::{self, Listed, State};
use crate::workspaces::only_or_named;

/// Sends: how far each is, and what its messages came to.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  longshore dispatches list --state running
  longshore dispatches show 0197b6a83c557e119a1f3f0f3c2d6e54
  longshore dispatches cancel 0197b6a83c557e119a1f3f0f3c2d6e54")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The latest sends, one a line
    #[command(after_help = "Example:
  longshore dispatches list --workspace acme --state running --limit 20")]
    List(ListArguments<State>),
    /// One send: users looked at, messages by what they came to, parts left
    #[command(after_help = "Example:
  longshore dispatches show 0197b6a83c557e119a1f3f0f3c2d6e54 --json")]
    Show(Show),
    /// Stop sends; what is being handed over goes out
    #[command(after_help = "Example:
  longshore dispatches cancel 0197b6a83c557e119a1f3f0f3c2d6e54")]
    Cancel(Cancel),
}

#[derive(clap::Args)]
struct Show {
    /// The dispatch_id
    id: Uuid,
    /// As a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct Cancel {
    /// The dispatch_ids
    #[arg(required = true, value_name = "ID")]
    ids: Vec<Uuid>,
}

pub async fn run(config: Config, arguments: Arguments) -> CommandResult {
    let app = super::open(config).await?;
    match arguments.command {
        Command::List(arguments) => list(&app, arguments).await,
        Command::Show(arguments) => show(&app, arguments).await,
        Command::Cancel(arguments) => cancel(&app, arguments).await,
    }
}

async fn list(app: &App, arguments: ListArguments<State>) -> CommandResult {
    let ListArguments { state, workspace, limit, json } = arguments;
    let mut tx = app.store.snapshot().await?;
    if let Some(name) = &workspace {
        only_or_named(&mut tx, Some(name)).await?;
    }
    let found = dispatch::list(&mut tx, workspace.as_deref(), state, limit).await?;
    if !json {
        println!(
            "{:<32}  {:<9}  {:<12}  {:>17}  {:>9}  {:>7}  WORKSPACE",
            "ID", "STATE", "KIND", "USERS", "SENT", "FAILED"
        );
    }
    for listed in &found {
        println!("{}", if json { serde_json::to_string(listed)? } else { line(listed) });
    }
    Ok(())
}

async fn show(app: &App, arguments: Show) -> CommandResult {
    let mut tx = app.store.snapshot().await?;
    let found = dispatch::one(&mut tx, arguments.id).await?;
    let listed = found.ok_or_else(|| unknown(arguments.id))?;
    let open = dispatch::open_messages(&mut tx, arguments.id).await?;
    if arguments.json {
        let mut value = serde_json::to_value(&listed)?;
        value["waiting"] = open.into();
        println!("{}", serde_json::to_string_pretty(&value)?);
    } else {
        print!("{}", details(&listed, open));
    }
    Ok(())
}

/// Cancels what can be cancelled, says what cannot, and fails where there was any.
async fn cancel(app: &App, arguments: Cancel) -> CommandResult {
    let mut failed = 0;
    for id in &arguments.ids {
        let mut tx = app.store.write().await?;
        let is_cancelled = dispatch::cancel(&mut tx, *id).await?;
        let found = dispatch::one(&mut tx, *id).await?;
        tx.commit().await?;
        if is_cancelled {
            println!("{} is cancelled", id.simple());
        } else {
            failed += 1;
            let ended = |found: Listed| format!("{} is {}", id.simple(), found.state.name());
            eprintln!("longshore: {}", found.map_or_else(|| unknown(*id), ended));
        }
    }
    match failed {
        0 => Ok(()),
        _ => Err(format!("{failed} of {} were not cancelled", arguments.ids.len()).into()),
    }
}

fn unknown(id: Uuid) -> String {
    format!("no dispatch has the id {}", id.simple())
}

fn line(listed: &Listed) -> String {
    format!(
        "{:<32}  {:<9}  {:<12}  {:>17}  {:>9}  {:>7}  {}",
        listed.id.simple(),
        listed.state.name(),
        listed.kind.name(),
        format!("{}/{}", listed.walked, listed.users),
        listed.sent,
        listed.failed,
        listed.workspace.as_deref().unwrap_or("-"),
    )
}

fn details(listed: &Listed, open: i64) -> String {
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    [
        ("id", listed.id.simple().to_string()),
        ("workspace", or_none(listed.workspace.clone())),
        ("kind", listed.kind.name().to_owned()),
        ("state", listed.state.name().to_owned()),
        ("note", or_none(listed.note.clone())),
        ("campaign", or_none(listed.campaign_id.map(|id| id.to_string()))),
        ("users", format!("{} of {} looked at", listed.walked, listed.users)),
        ("parts", format!("{} of {} left", listed.parts_left, listed.parts)),
        ("waiting", open.to_string()),
        ("sent", listed.sent.to_string()),
        ("unreachable", listed.unreachable.to_string()),
        ("aborted", listed.aborted.to_string()),
        ("failed", listed.failed.to_string()),
        ("bounced", listed.bounced.to_string()),
        ("accepted", format_seconds(listed.accepted_at)),
        ("started", or_none(listed.started_at.map(format_seconds))),
        ("finished", or_none(listed.finished_at.map(format_seconds))),
        ("request id", listed.request_id.clone()),
    ]
    .map(|(name, value)| format!("{name:<12} {value}\n"))
    .concat()
}
