//! `longshore dispatches`.

mod recipients;

use clap::Subcommand;
use uuid::Uuid;

use super::ids::dispatch_id;
use super::table::{self, Cell, fields, number, optional, progress, state, text, time};
use super::{CommandResult, ListArguments, find_named, print};
use crate::app::App;
use crate::config::Config;
use crate::messages::dispatch::state::State;
use crate::messages::dispatch::{
    self, DispatchSummary, Filter, MAX_COUNTED_MESSAGES, Reason, UnsentMessages,
};
use crate::transactional::{self, EmailDetails};
use kit::words::grouped;

/// Show sends: their progress and the outcome of their messages.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  longshore dispatches list --state running
  longshore dispatches show 0197b6a83c557e119a1f3f0f3c2d6e54
  longshore dispatches recipients 0197b6a83c557e119a1f3f0f3c2d6e54 --outcome sent
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
    /// List the messages of a send by user and channel, with their outcomes
    #[command(after_help = "Example:
  longshore dispatches recipients 0197b6a83c557e119a1f3f0f3c2d6e54 --outcome sent --outcome delivered")]
    Recipients(recipients::Recipients),
    /// Send to the recipients of an ended send, such as an apology; asks on a terminal
    ///
    /// Each of them gets each message once. By default, the recipients are those whose message was
    /// sent or delivered. After an interruption, `dispatches list` shows whether the new send exists;
    /// a repeat is another send.
    #[command(after_help = "Example:
  longshore dispatches send 0197b6a83c557e119a1f3f0f3c2d6e54 --request apology.json --dry-run")]
    Send(recipients::Send),
    /// Cancel sends; messages that workers already hold may still go out
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
        Command::Recipients(arguments) => recipients::recipients(&app, arguments).await,
        Command::Send(arguments) => recipients::send(&app, arguments).await,
        Command::Cancel(arguments) => cancel(&app, arguments).await,
    }
}

async fn list(app: &App, arguments: ListArguments<State>) -> CommandResult {
    let ListArguments { state, workspace, page } = arguments;
    let after = page.after(dispatch_id)?;
    let mut tx = app.store.snapshot().await?;
    let workspace = find_named(&mut tx, workspace.as_deref()).await?.map(|found| found.id);
    let mut filter = Filter { workspace, state, limit: page.limit.into(), ..Filter::default() };
    if let Some(id) = after {
        let last = dispatch::summary(&mut tx, id).await?.ok_or_else(|| unknown(id))?;
        filter.after = last.position();
    }
    let mut found = Vec::new();
    loop {
        let more = dispatch::list(&mut tx, &filter).await?;
        filter.limit -= more.dispatches.len() as i64;
        found.extend(more.dispatches);
        match more.next {
            Some(next) if filter.limit > 0 => filter.after = next,
            _ => break,
        }
    }
    let headers = [
        "ID",
        "ACCEPTED",
        "STATE",
        "KIND",
        "AUDIENCE",
        "USERS",
        "SENT",
        "FAILED",
        "CAMPAIGN",
        "WORKSPACE",
    ];
    table::print(page.json, "dispatches", headers, &found, row)?;
    page.print_next(found.len(), || found.last().map(|sending| sending.id.simple().to_string()));
    Ok(())
}

async fn show(app: &App, arguments: Show) -> CommandResult {
    let mut tx = app.store.snapshot().await?;
    let Some(summary) = dispatch::summary(&mut tx, arguments.id).await? else {
        let found = transactional::email_details(&mut tx, arguments.id).await?;
        let email = found.ok_or_else(|| unknown(arguments.id))?;
        return table::print_object(arguments.json, &email, email_details);
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
        println!("{value}");
    } else {
        print!("{}", details(&summary, unsent));
        if !reasons.is_empty() {
            print_reasons(&reasons)?;
        }
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
        "{id} is cancelling: messages that workers already hold may still go out; `longshore \
         dispatches show {id}` shows when it is cancelled"
    )
}

pub fn unknown(id: Uuid) -> String {
    format!("unknown dispatch {}: see `longshore dispatches list`", id.simple())
}

fn row(summary: &DispatchSummary) -> [Cell; 10] {
    [
        text(summary.id.simple()),
        time(summary.accepted_at),
        state(summary.state.name()),
        text(summary.kind.name()),
        text(summary.audience.in_words()),
        progress(summary.walked, Some(summary.users)),
        number(summary.sent),
        number(summary.failed),
        optional(summary.campaign_label().map(text)),
        optional(summary.workspace.as_ref().map(text)),
    ]
}

/// Whether there may be more messages with a reason than were counted.
fn are_incomplete(reasons: &[Reason]) -> bool {
    reasons.first().is_some_and(|reason| reason.looked_at >= MAX_COUNTED_MESSAGES)
}

fn print_reasons(reasons: &[Reason]) -> CommandResult {
    println!();
    if are_incomplete(reasons) {
        println!("Reasons of the latest {} messages:", grouped(MAX_COUNTED_MESSAGES));
    }
    table::print(false, "reasons", ["CHANNEL", "STATE", "MESSAGES", "REASON"], reasons, |reason| {
        [
            text(reason.channel.name()),
            state(&reason.state),
            number(reason.messages),
            text(&reason.reason),
        ]
    })
}

/// In one line, without reasons that excluded nobody.
fn left_out(summary: &DispatchSummary) -> String {
    let counted = summary.left_out.by_reason().into_iter().filter(|(_, count)| *count > 0);
    let counted: Vec<String> =
        counted.map(|(reason, count)| format!("{reason} {}", grouped(count))).collect();
    if counted.is_empty() { "-".into() } else { counted.join(", ") }
}

fn email_details(email: &EmailDetails) -> [(&'static str, Cell); 14] {
    [
        ("id", text(email.id.simple())),
        ("workspace", optional(email.workspace.as_ref().map(text))),
        ("kind", text(email.kind)),
        ("state", state(email.state.name())),
        ("since", time(email.state_at)),
        ("reason", optional(email.reason.as_ref().map(text))),
        ("campaign", text(email.campaign_id)),
        ("send id", optional(email.external_send_id.as_ref().map(text))),
        ("user", optional(email.service_id.map(text))),
        ("attempts", number(email.attempts)),
        ("received", time(email.received_at)),
        ("sent", optional(email.sent_at.map(time))),
        ("postback", optional(email.postback_id.map(text))),
        ("request id", text(&email.request_id)),
    ]
}

/// How many messages were not sent because the send was cancelled or failed.
fn cancelled(state: State, messages: i64) -> Cell {
    match state {
        State::Cancelling => text(format!("{}, including those in flight", grouped(messages))),
        _ => number(messages),
    }
}

fn details(summary: &DispatchSummary, unsent: UnsentMessages) -> String {
    let of = |done: i64, all: i64| format!("{} of {}", grouped(done), grouped(all));
    fields([
        ("id", text(summary.id.simple())),
        ("workspace", optional(summary.workspace.as_ref().map(text))),
        ("kind", text(summary.kind.name())),
        ("state", state(summary.state.name())),
        ("note", optional(summary.note.as_ref().map(text))),
        ("campaign", optional(summary.campaign_id.map(text))),
        ("campaign name", optional(summary.campaign.as_ref().map(text))),
        ("send id", optional(summary.send_id.as_ref().map(text))),
        ("audience", text(summary.audience.in_words())),
        ("users", text(of(summary.walked, summary.users) + " users checked")),
        ("left out", text(left_out(summary))),
        ("parts", text(of(summary.parts_left, summary.parts) + " left")),
        ("waiting", number(unsent.waiting)),
        ("sent", number(summary.sent)),
        ("unreachable", number(summary.unreachable)),
        ("aborted", number(summary.aborted)),
        ("failed", number(summary.failed)),
        ("bounced", number(summary.bounced)),
        ("cancelled", cancelled(summary.state, unsent.cancelled)),
        ("accepted", time(summary.accepted_at)),
        ("started", optional(summary.started_at.map(time))),
        ("finished", optional(summary.finished_at.map(time))),
        ("request id", text(&summary.request_id)),
    ])
}
