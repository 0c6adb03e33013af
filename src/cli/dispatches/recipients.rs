//! `longshore dispatches recipients` and `send`.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use uuid::Uuid;

use super::super::confirm::Consent;
use super::super::ids::{dispatch_id, recipient_id};
use super::super::table::{self, Cell, number, optional, state, text, time};
use super::super::{CommandResult, PageArguments, find_named};
use super::unknown;
use crate::app::App;
use crate::gateway::ApiError;
use crate::gateway::idempotency::Received;
use crate::messages::dispatch::state::MessageOutcome;
use crate::messages::dispatch::{self, RecipientPosition};
use crate::messages::dispatches::recipients::{Recipient, Request, page};
use crate::messages::dispatches::send as sending;
use crate::messages::order::Kind;
use crate::messages::request::MessageProblem;
use crate::workspaces::only_or_named;
use kit::words::count;

/// Messages that are read at a time.
const PAGE: u32 = 1_000;

#[derive(clap::Args)]
pub struct Recipients {
    /// The dispatch_id
    #[arg(value_parser = dispatch_id)]
    id: Uuid,
    /// Only messages with this current outcome; repeat it for several
    #[arg(long, value_name = "OUTCOME")]
    outcome: Vec<MessageOutcome>,
    #[command(flatten)]
    page: PageArguments,
}

/// Prints the recipients.
pub async fn recipients(app: &App, arguments: Recipients) -> CommandResult {
    let Recipients { id, outcome: outcomes, page: arguments } = arguments;
    let after = arguments.after(recipient_id)?;
    let mut tx = app.store.snapshot().await?;
    let found = dispatch::summary(&mut tx, id).await?.ok_or_else(|| unknown(id))?;
    let workspace = find_named(&mut tx, found.workspace.as_deref()).await?;
    let workspace = workspace.map_or(0, |workspace| workspace.id);
    let mut recipients: Vec<Recipient> = Vec::new();
    let mut next = Some(after.unwrap_or(RecipientPosition::START));
    while let (Some(after), true) = (next, recipients.len() < arguments.limit as usize) {
        let limit = i64::from(arguments.limit) - recipients.len() as i64;
        let request = Request { outcomes: outcomes.clone(), after, limit: limit.min(PAGE.into()) };
        let (more, after) = page(&mut tx, (workspace, id, found.state), &request).await?;
        recipients.extend(more);
        next = after;
    }
    let headers = ["ID", "USER", "OUTCOME", "TRIES", "SENT", "REASON"];
    table::print(arguments.json, "recipients", headers, &recipients, row)?;
    let last = || recipients.last().map(|recipient| recipient.position.to_string());
    arguments.print_next(recipients.len(), last);
    Ok(())
}

fn row(recipient: &Recipient) -> [Cell; 6] {
    [
        text(recipient.position),
        optional(recipient.external_user_id.as_ref().map(text)),
        state(recipient.outcome.name()),
        number(recipient.attempts),
        optional(recipient.sent_at.map(time)),
        optional(recipient.reason.as_ref().map(text)),
    ]
}

#[derive(clap::Args)]
pub struct Send {
    /// The dispatch_id of the send that has ended
    #[arg(value_parser = dispatch_id)]
    id: Uuid,
    /// A file with the body of `POST /messages/dispatches/{dispatch_id}/send`, or - for standard
    /// input
    #[arg(long, value_name = "FILE")]
    request: PathBuf,
    #[command(flatten)]
    consent: Consent,
    /// Print one JSON object: the new dispatch_id and the errors of messages that are not sent
    #[arg(long)]
    json: bool,
}

/// Sends to the recipients. The new dispatch is one transaction.
pub async fn send(app: &App, arguments: Send) -> CommandResult {
    let Send { id, request, consent, json } = arguments;
    let Value::Object(fields) = read(&request)? else {
        return Err(format!("{}: must be a JSON object", request.display()).into());
    };
    let mut tx = app.store.snapshot().await?;
    let past = dispatch::summary(&mut tx, id).await?.ok_or_else(|| unknown(id))?;
    let workspace = only_or_named(&mut tx, past.workspace.as_deref()).await?.id;
    drop(tx);
    if !past.state.is_final() {
        let (id, state) = (id.simple(), past.state.name());
        return Err(format!("{id} is {state}: wait for its end, or cancel it first").into());
    }
    let checked = sending::check(app, workspace, id, fields).await.map_err(message)?;
    let received = Received { id: Uuid::now_v7(), at: app.clock.now_ms() };
    let order = checked.order(Kind::Send, received, workspace, &Uuid::new_v4().to_string());
    let mut effects = Vec::new();
    if let (true, Some(past)) = (consent.needs_effects(), &order.target.recipients_of) {
        let mut tx = app.store.snapshot().await?;
        let users = dispatch::count_recipients(&mut tx, past).await?.unsigned_abs();
        let channels: Vec<&str> = order.messages.keys().map(String::as_str).collect();
        let channels = channels.join(", ");
        effects.push(format!("sends a message by {channels} to {}", count(users, "user")));
        effects.extend(checked.problems.iter().map(not_sent));
    }
    if !consent.is_given(json, &effects)? {
        return Ok(());
    }
    let mut tx = app.store.write().await?;
    let past = dispatch::summary(&mut tx, id).await?.ok_or_else(|| unknown(id))?;
    sending::begin(&mut tx, &past, &order).await.map_err(message)?;
    tx.commit().await?;
    app.store.wake().flush().await;
    let new = received.id.simple().to_string();
    if json {
        println!("{}", json!({ "dispatch_id": new, "errors": checked.problems }));
        return Ok(());
    }
    for problem in &checked.problems {
        eprintln!("longshore: {}", not_sent(problem));
    }
    println!("sending as {new}: `longshore dispatches show {new}` shows its progress");
    Ok(())
}

fn not_sent(problem: &MessageProblem) -> String {
    format!("not sent: {}: {}", problem.path, problem.text)
}

fn read(path: &Path) -> CommandResult<Value> {
    let text = if path == Path::new("-") {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(path)
    };
    let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?)
}

/// The error of a request, as text.
fn message(error: ApiError) -> String {
    error.message().into_owned()
}
