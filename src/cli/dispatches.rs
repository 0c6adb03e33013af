//! `longshore dispatches`.

mod recipients;

use clap::Subcommand;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use serde_json::json;
use uuid::Uuid;

use super::audit;
use super::ids::dispatch_id;
use super::print::Results;
use super::table::{self, Cell, fields, number, optional, progress, state, text, time};
use super::times::{Moment, moment, range};
use super::{CommandResult, ListArguments, WorkspaceArgument, campaigns, find_named, retry};
use crate::app::App;
use crate::config::Config;
use crate::dispatches::api::status::{cancellation, may_still_be_sent};
use crate::dispatches::{
    self, DispatchSummary, Filter, ListedKind, LocalTime, MAX_COUNTED_MESSAGES,
    MAX_SCANNED_MESSAGES, Reason, UnsentMessages,
};
use crate::messages::dispatch;
use crate::messages::dispatch::state::State;
use crate::transactional::{self, EmailDetails};
use kit::clock::{format_seconds, format_time};
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
  longshore dispatches list --workspace acme --campaign Welcome --since 2h --limit 20")]
    List(List),
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
    /// sent or delivered, or may have been sent. With --idempotency-key, a repeat returns the first
    /// send without a question; without it, a repeat is another send. The question and --dry-run
    /// list earlier sends to the same recipients.
    #[command(after_help = "Examples:
  longshore dispatches send 0197b6a83c557e119a1f3f0f3c2d6e54 --request apology.json --dry-run
  longshore dispatches send 0197b6a83c557e119a1f3f0f3c2d6e54 --request apology.json --idempotency-key \
    apology-1")]
    Send(recipients::Send),
    /// Cancel sends; messages that workers already hold may still go out
    ///
    /// Each worker checks before each message that its send is not cancelled. Until the messages in
    /// flight have an outcome, the state is `cancelling`; then it is `cancelled`, and nothing more
    /// is sent. `dispatches show` counts the messages that may have been sent although nobody
    /// accepted them: their receiver did not respond, or a worker was lost.
    #[command(after_help = "Example:
  longshore dispatches cancel 0197b6a83c557e119a1f3f0f3c2d6e54")]
    Cancel(Cancel),
}

#[derive(clap::Args)]
struct List {
    #[command(flatten)]
    which: ListArguments<State>,
    /// Only sends with this cause. Transactional emails are listed only with `transactional`, or
    /// with their campaign
    #[arg(long, value_parser = PossibleValuesParser::new(ListedKind::ALL.map(ListedKind::name))
        .try_map(|name| ListedKind::from_name(&name).ok_or("unknown kind")))]
    kind: Option<ListedKind>,
    /// Only sends of this campaign or Canvas: its id or its name
    #[arg(long, value_name = "CAMPAIGN")]
    campaign: Option<String>,
    /// Only sends that were accepted at most this long ago, such as 2h or 7d, or since this time,
    /// such as 2026-11-25T00:00Z
    #[arg(long, value_name = "AGE|TIME", value_parser = moment)]
    since: Option<Moment>,
    /// Only sends that were accepted before this time, or before this long ago
    #[arg(long, value_name = "AGE|TIME", value_parser = moment)]
    until: Option<Moment>,
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
    /// Print one JSON object: the sends with their states, and the others with the reasons
    #[arg(long)]
    json: bool,
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

async fn list(app: &App, arguments: List) -> CommandResult {
    let List { which, kind, campaign, since, until } = arguments;
    let ListArguments { state, workspace, page } = which;
    let after = page.after(dispatch_id)?;
    let mut tx = app.store.snapshot().await?;
    let accepted = range(since, until, app.database_now(&mut tx).await?)?;
    let mut workspace_id = find_named(&mut tx, workspace.as_deref()).await?.map(|found| found.id);
    // The id may be that of a deleted campaign.
    let mut campaign_id = campaign.as_deref().and_then(|text| Uuid::parse_str(text).ok());
    if let Some(name) = campaign.filter(|_| campaign_id.is_none()) {
        let (found, campaign) =
            campaigns::find(&mut tx, &WorkspaceArgument { workspace }, &name).await?;
        (workspace_id, campaign_id) = (Some(found.id), Some(campaign.id));
    }
    let limit = page.rows_to_read().into();
    let mut filter = Filter {
        workspace: workspace_id,
        state,
        kind,
        campaign_id,
        accepted,
        limit,
        ..Filter::default()
    };
    if let Some(id) = after {
        filter.after = dispatches::position(&mut tx, id).await?.ok_or_else(|| unknown(id))?;
    }
    let mut found = Vec::new();
    loop {
        let more = dispatches::list(&mut tx, &filter).await?;
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
        "MATCHED",
        "SENT",
        "FAILED",
        "CAMPAIGN",
        "WORKSPACE",
    ];
    page.print_page("dispatches", headers, &found, |found| found.id.simple().to_string(), row)
}

async fn show(app: &App, arguments: Show) -> CommandResult {
    let mut tx = app.store.snapshot().await?;
    let Some(summary) = dispatches::summary(&mut tx, arguments.id).await? else {
        let found = transactional::email_details(&mut tx, arguments.id).await?;
        let email = found.ok_or_else(|| unknown(arguments.id))?;
        return table::print_object(arguments.json, &email, email_details);
    };
    let unsent = dispatches::unsent_messages(&mut tx, arguments.id).await?;
    let reasons = dispatches::reasons(&mut tx, arguments.id, MAX_SCANNED_MESSAGES).await?;
    let may_still_be_sent = may_still_be_sent(&mut tx, arguments.id, summary.state).await?;
    if arguments.json {
        let mut value = serde_json::to_value(&summary)?;
        value["waiting"] = unsent.waiting.into();
        if let Some(LocalTime { next_at, last_at, .. }) = summary.local_time() {
            value["users_waiting"] = summary.waiting_users().into();
            value["next_at"] = next_at.map(format_time).into();
            value["last_at"] = format_time(last_at).into();
        }
        value["cancelled"] = unsent.cancelled.into();
        value["may_have_been_sent"] = unsent.may_have_been_sent.into();
        if let Some(count) = may_still_be_sent {
            value["may_still_be_sent"] = count.into();
        }
        value["reasons"] = serde_json::to_value(&reasons)?;
        if are_incomplete(&reasons) {
            value["reasons_of_latest"] = MAX_COUNTED_MESSAGES.into();
        }
        println!("{value}");
    } else {
        print!("{}", details(&summary, unsent, may_still_be_sent));
        if !reasons.is_empty() {
            print_reasons(&reasons)?;
        }
    }
    Ok(())
}

/// Cancels all sends that it can, prints the errors of the others, and fails if there are any.
async fn cancel(app: &App, arguments: Cancel) -> CommandResult {
    let mut results = Results::new(arguments.json);
    for id in &arguments.ids {
        let shown = id.simple();
        // A repeated cancellation has no effect.
        let reason = match retry::until_done(async || cancel_one(app, *id).await).await {
            Ok(Some((state @ (State::Cancelled | State::Cancelling), count))) => {
                let line = if state == State::Cancelled {
                    format!("{shown} is cancelled: nothing more goes out")
                } else {
                    cancelling(*id, count)
                };
                let id = shown.to_string();
                let object = json!({"id": id, "state": state.name(), "may_still_be_sent": count});
                results.done(&line, object);
                continue;
            }
            Ok(Some((state, _))) => {
                format!("{shown} is {} and can no longer be cancelled", state.name())
            }
            Ok(None) => unknown(*id),
            Err(error) => format!("{shown}: {error}"),
        };
        results.failed(&format!("longshore: {reason}"), shown, &reason);
    }
    app.store.wake().flush().await;
    results.end("dispatches", "dispatches could not be cancelled")
}

/// Cancels a send that has not ended, with its entry in the audit log. Returns its state and the
/// largest number of messages that may still be sent; none if it is unknown.
async fn cancel_one(app: &App, id: Uuid) -> CommandResult<Option<(State, i64)>> {
    let mut tx = app.store.write().await?;
    if let Some(before) = dispatch::cancel(&mut tx, id).await? {
        let found = dispatches::summary(&mut tx, id).await?.ok_or_else(|| unknown(id))?;
        let workspace = find_named(&mut tx, found.workspace.as_deref()).await?;
        let workspace = workspace.map(|found| found.id);
        let change = cancellation(id, before, found.state);
        audit::record_change(&mut tx, app, workspace, change).await?;
    }
    tx.commit().await?;
    let mut tx = app.store.write().await?;
    dispatch::wait_for_batches(&mut tx, id).await?;
    drop(tx);
    let mut tx = app.store.snapshot().await?;
    let Some(found) = dispatches::summary(&mut tx, id).await? else { return Ok(None) };
    let count = may_still_be_sent(&mut tx, id, found.state).await?;
    Ok(Some((found.state, count.unwrap_or_default())))
}

/// The status of a send whose messages in flight are not settled yet.
fn cancelling(id: Uuid, may_still_be_sent: i64) -> String {
    let (id, count) = (id.simple(), grouped(may_still_be_sent));
    format!(
        "{id} is cancelling: at most {count} messages that workers already hold may still go out, \
         usually far fewer; `longshore dispatches show {id}` shows when it is cancelled"
    )
}

pub fn unknown(id: Uuid) -> String {
    format!("unknown dispatch {}: see `longshore dispatches list`", id.simple())
}

fn row(summary: &DispatchSummary) -> [Cell; 11] {
    [
        text(summary.id.simple()),
        time(summary.accepted_at),
        state(summary.state.name()),
        text(summary.kind.name()),
        text(summary.audience.in_words()),
        progress(summary.walked, Some(summary.users)),
        number(summary.matched),
        number(summary.messages.sent),
        number(summary.messages.failed),
        optional(summary.campaign_label().map(text)),
        optional(summary.workspace.as_ref().map(text)),
    ]
}

/// Whether there may be more messages with a reason than were counted.
fn are_incomplete(reasons: &[Reason]) -> bool {
    reasons.first().is_some_and(|reason| reason.counted_messages >= MAX_COUNTED_MESSAGES)
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

/// How many users were checked; of a send that ended early also how many it never reached.
fn checked(summary: &DispatchSummary) -> Cell {
    let (walked, users) = (summary.walked, summary.users);
    let checked = format!("{} of {} users checked", grouped(walked), grouped(users));
    let waiting = summary.waiting_users();
    if summary.state.is_early_end() {
        text(format!("{checked}, {} never reached", grouped(users - walked)))
    } else if waiting > 0 {
        text(format!("{checked}, {} wait for their local time", grouped(waiting)))
    } else {
        text(checked)
    }
}

/// The local time of a send, and when the users who wait get their messages.
fn local_time(LocalTime { timing, time, next_at, last_at }: LocalTime) -> String {
    let time = format_seconds(time);
    let time = format!("{} {}", time.trim_end_matches('Z'), timing.name());
    match next_at {
        Some(next_at) => {
            format!("{time}, next {}, last {}", format_seconds(next_at), format_seconds(last_at))
        }
        None => time,
    }
}

/// How many messages were not sent because the send was cancelled or failed.
fn cancelled(state: State, messages: i64) -> Cell {
    match state {
        State::Cancelling => text(format!("{}, including those in flight", grouped(messages))),
        _ => number(messages),
    }
}

fn details(
    summary: &DispatchSummary,
    unsent: UnsentMessages,
    may_still_be_sent: Option<i64>,
) -> String {
    let parts_left = format!("{} of {} left", grouped(summary.parts_left), grouped(summary.parts));
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
        ("channels", text(summary.channels.in_words())),
        ("users", checked(summary)),
        ("local time", optional(summary.local_time().map(|time| text(local_time(time))))),
        ("matched", number(summary.matched)),
        ("left out", text(left_out(summary))),
        ("parts", text(parts_left)),
        ("waiting", number(unsent.waiting)),
        ("sent", number(summary.messages.sent)),
        ("unreachable", number(summary.messages.unreachable)),
        ("aborted", number(summary.messages.aborted)),
        ("failed", number(summary.messages.failed)),
        ("bounced", number(summary.messages.bounced)),
        ("cancelled", cancelled(summary.state, unsent.cancelled)),
        ("may have been sent", number(unsent.may_have_been_sent)),
        ("may still be sent", optional(may_still_be_sent.map(number))),
        ("accepted", time(summary.accepted_at)),
        ("started", optional(summary.started_at.map(time))),
        ("finished", optional(summary.finished_at.map(time))),
        ("requested by", optional(summary.requested_by.as_ref().map(text))),
        ("request id", text(&summary.request_id)),
    ])
}
