//! `longshore dispatches`.

use clap::Subcommand;
use uuid::Uuid;

use super::{CommandResult, ListArguments, find_named, print};
use crate::app::App;
use crate::config::Config;
use crate::messages::dispatch::state::State;
use crate::messages::dispatch::{
    self, DispatchSummary, MAX_COUNTED_MESSAGES, Reason, UnsentMessages,
};
use crate::transactional::{self, EmailDetails};
use kit::clock::format_seconds;

/// Show sends: their progress and the outcome of their messages.
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
    /// List the latest sends
    #[command(after_help = "Example:
  longshore dispatches list --workspace acme --state running --limit 20")]
    List(ListArguments<State>),
    /// Show one send: users checked and excluded, messages by outcome and reason, parts left; or
    /// one transactional email
    #[command(after_help = "Example:
  longshore dispatches show 0197b6a83c557e119a1f3f0f3c2d6e54 --json")]
    Show(Show),
    /// Cancel sends; messages in flight are still sent, and no others
    ///
    /// Each worker checks before each message that its send is not cancelled. Until the messages in
    /// flight have an outcome, the state is `cancelling`; then it is `cancelled`, and the counts are
    /// final.
    #[command(after_help = "Example:
  longshore dispatches cancel 0197b6a83c557e119a1f3f0f3c2d6e54")]
    Cancel(Cancel),
}

#[derive(clap::Args)]
struct Show {
    /// The dispatch_id
    #[arg(value_parser = dispatch_id)]
    id: Uuid,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct Cancel {
    /// The dispatch_ids
    #[arg(required = true, value_name = "ID", value_parser = dispatch_id)]
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
    find_named(&mut tx, workspace.as_deref()).await?;
    let found = dispatch::list(&mut tx, workspace.as_deref(), state, limit).await?;
    let heading = format!(
        "{:<32}  {:<9}  {:<13}  {:>17}  {:>9}  {:>7}  WORKSPACE",
        "ID", "STATE", "KIND", "USERS", "SENT", "FAILED"
    );
    print::rows(json, &heading, &found, line)
}

async fn show(app: &App, arguments: Show) -> CommandResult {
    let mut tx = app.store.snapshot().await?;
    let Some(summary) = dispatch::summary(&mut tx, arguments.id).await? else {
        let found = transactional::email_details(&mut tx, arguments.id).await?;
        let email = found.ok_or_else(|| unknown(arguments.id))?;
        return print::object(arguments.json, &email, email_details);
    };
    let unsent = dispatch::unsent_messages(&mut tx, arguments.id).await?;
    let reasons = dispatch::reasons(&mut tx, arguments.id).await?;
    if arguments.json {
        let mut value = serde_json::to_value(&summary)?;
        value["waiting"] = unsent.waiting.into();
        value["cancelled"] = unsent.cancelled.into();
        value["reasons"] = serde_json::to_value(&reasons)?;
        if are_incomplete(&reasons) {
            value["reasons_of_latest"] = MAX_COUNTED_MESSAGES.into();
        }
        println!("{}", serde_json::to_string_pretty(&value)?);
    } else {
        print!("{}{}", details(&summary, unsent), reason_lines(&reasons));
    }
    Ok(())
}

/// Cancels all sends that it can, prints the errors of the others, and fails if there are any.
async fn cancel(app: &App, arguments: Cancel) -> CommandResult {
    let mut failed = 0;
    for id in &arguments.ids {
        let mut tx = app.store.write().await?;
        let is_cancelled = dispatch::cancel(&mut tx, *id).await?;
        let found = dispatch::summary(&mut tx, *id).await?;
        tx.commit().await?;
        match found.map(|found| found.state) {
            Some(State::Cancelling) => println!("{}", cancelling(*id)),
            Some(state) if is_cancelled => println!("{} is {}", id.simple(), state.name()),
            state => {
                failed += 1;
                let ended = |state: State| format!("{} is {}", id.simple(), state.name());
                eprintln!("longshore: {}", state.map_or_else(|| unknown(*id), ended));
            }
        }
    }
    app.store.wake().flush().await;
    print::all_done(failed, arguments.ids.len(), "dispatches could not be cancelled")
}

/// The status of a send whose messages in flight are not settled yet.
fn cancelling(id: Uuid) -> String {
    let id = id.simple();
    format!(
        "{id} is cancelling: messages in flight are still sent; `longshore dispatches show {id}` \
         shows when it is cancelled"
    )
}

fn unknown(id: Uuid) -> String {
    format!("unknown dispatch {}: see `longshore dispatches list`", id.simple())
}

fn line(summary: &DispatchSummary) -> String {
    format!(
        "{:<32}  {:<9}  {:<13}  {:>17}  {:>9}  {:>7}  {}",
        summary.id.simple(),
        summary.state.name(),
        summary.kind.name(),
        format!("{}/{}", summary.walked, summary.users),
        summary.sent,
        summary.failed,
        summary.workspace.as_deref().unwrap_or("-"),
    )
}

/// Whether there may be more messages with a reason than were counted.
fn are_incomplete(reasons: &[Reason]) -> bool {
    reasons.first().is_some_and(|reason| reason.looked_at >= MAX_COUNTED_MESSAGES)
}

/// One line for each reason; a long reason is below its line.
fn reason_lines(reasons: &[Reason]) -> String {
    let sample = if are_incomplete(reasons) {
        format!(" of the latest {MAX_COUNTED_MESSAGES}")
    } else {
        String::new()
    };
    let line = |reason: &Reason| {
        let Reason { channel, state, reason, messages, .. } = reason;
        let reason = print::last_column(Some(reason));
        format!("{:<12} {} {state}, {messages}{sample}: {reason}\n", "why", channel.name())
    };
    reasons.iter().map(line).collect()
}

/// In one line, without reasons that excluded nobody.
fn left_out(summary: &DispatchSummary) -> String {
    let counted = summary.left_out.by_reason().into_iter().filter(|(_, count)| *count > 0);
    let counted: Vec<String> = counted.map(|(reason, count)| format!("{reason} {count}")).collect();
    if counted.is_empty() { "-".into() } else { counted.join(", ") }
}

fn or_none(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

fn email_details(email: &EmailDetails) -> String {
    print::fields([
        ("id", email.id.simple().to_string()),
        ("workspace", or_none(email.workspace.clone())),
        ("kind", email.kind.to_owned()),
        ("state", format!("{} since {}", email.state.name(), format_seconds(email.state_at))),
        ("reason", or_none(email.reason.clone())),
        ("campaign", email.campaign_id.to_string()),
        ("send id", or_none(email.external_send_id.clone())),
        ("user", or_none(email.service_id.map(|id| id.to_string()))),
        ("attempts", email.attempts.to_string()),
        ("received", format_seconds(email.received_at)),
        ("sent", or_none(email.sent_at.map(format_seconds))),
        ("postback", or_none(email.postback_id.map(|id| id.to_string()))),
        ("request id", email.request_id.clone()),
    ])
}

pub(super) fn dispatch_id(text: &str) -> Result<Uuid, String> {
    Uuid::parse_str(text).map_err(|_| "a dispatch_id must have 32 hexadecimal digits".into())
}

/// How many messages were not sent because the send was cancelled or failed.
fn cancelled(state: State, messages: i64) -> String {
    match state {
        State::Cancelling => format!("{messages}, including those in flight"),
        _ => messages.to_string(),
    }
}

fn details(summary: &DispatchSummary, unsent: UnsentMessages) -> String {
    print::fields([
        ("id", summary.id.simple().to_string()),
        ("workspace", or_none(summary.workspace.clone())),
        ("kind", summary.kind.name().to_owned()),
        ("state", summary.state.name().to_owned()),
        ("note", or_none(summary.note.clone())),
        ("campaign", or_none(summary.campaign_id.map(|id| id.to_string()))),
        ("users", format!("{} of {} users checked", summary.walked, summary.users)),
        ("left out", left_out(summary)),
        ("parts", format!("{} of {} left", summary.parts_left, summary.parts)),
        ("waiting", unsent.waiting.to_string()),
        ("sent", summary.sent.to_string()),
        ("unreachable", summary.unreachable.to_string()),
        ("aborted", summary.aborted.to_string()),
        ("failed", summary.failed.to_string()),
        ("bounced", summary.bounced.to_string()),
        ("cancelled", cancelled(summary.state, unsent.cancelled)),
        ("accepted", format_seconds(summary.accepted_at)),
        ("started", or_none(summary.started_at.map(format_seconds))),
        ("finished", or_none(summary.finished_at.map(format_seconds))),
        ("request id", summary.request_id.clone()),
    ])
}
