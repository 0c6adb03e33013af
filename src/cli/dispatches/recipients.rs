//! `longshore dispatches recipients` and `send`.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use uuid::Uuid;

use super::super::confirm::Consent;
use super::super::ids::{dispatch_id, recipient_id};
use super::super::table::{Cell, number, optional, state, text, time};
use super::super::{CommandResult, PageArguments, find_named, retry};
use super::unknown;
use crate::app::App;
use crate::dispatches::api::recipients::{Recipient, Request, page};
use crate::dispatches::api::send as sending;
use crate::dispatches::{self, DispatchSummary, RecipientPosition, SendToRecipients};
use crate::gateway::ApiError;
use crate::gateway::idempotency::{self, Received, StoredResponse};
use crate::messages::dispatch::{self, OutcomeFilter, State};
use crate::messages::order::{Kind, Order};
use crate::messages::request::MessageProblem;
use crate::workspaces::only_or_named;
use kit::clock::format_seconds;
use kit::words::count;
use runtime::audit::Entry;
use store::Tx;

/// Messages that are read at a time.
const PAGE: u32 = 1_000;

#[derive(clap::Args)]
pub struct Recipients {
    /// The dispatch_id
    #[arg(value_parser = dispatch_id)]
    id: Uuid,
    /// Only messages with this current outcome; several are separated by commas, or each has its
    /// own --outcome
    #[arg(long, value_name = "OUTCOME", value_delimiter = ',')]
    outcome: Vec<OutcomeFilter>,
    #[command(flatten)]
    page: PageArguments,
}

/// Prints the recipients.
pub async fn recipients(app: &App, arguments: Recipients) -> CommandResult {
    let Recipients { id, outcome: outcomes, page: arguments } = arguments;
    let after = arguments.after(recipient_id)?;
    let mut tx = app.store.snapshot().await?;
    let found = dispatches::summary(&mut tx, id).await?.ok_or_else(|| unknown(id))?;
    let workspace = find_named(&mut tx, found.workspace.as_deref()).await?;
    let workspace = workspace.map_or(0, |workspace| workspace.id);
    let rows = arguments.rows_to_read() as usize;
    let mut recipients: Vec<Recipient> = Vec::new();
    let mut next = Some(after.unwrap_or(RecipientPosition::START));
    while let (Some(after), true) = (next, recipients.len() < rows) {
        let limit = (rows - recipients.len()) as i64;
        let request = Request { outcomes: outcomes.clone(), after, limit: limit.min(PAGE.into()) };
        let (more, after) = page(&mut tx, (workspace, id, found.state), &request).await?;
        recipients.extend(more);
        next = after;
    }
    let headers = ["ID", "USER", "OUTCOME", "TRIES", "SENT", "REASON"];
    let id = |recipient: &Recipient| recipient.position.to_string();
    arguments.print_page("recipients", headers, &recipients, id, row)
}

fn row(recipient: &Recipient) -> [Cell; 6] {
    [
        text(recipient.position),
        optional(recipient.external_user_id.as_ref().map(text)),
        state(recipient.outcome.name()),
        number(recipient.attempts),
        sent(recipient),
        optional(recipient.reason.as_ref().map(text)),
    ]
}

/// When it was sent, or whether that is unknown.
fn sent(recipient: &Recipient) -> Cell {
    match recipient.sent_at {
        None if recipient.may_have_been_sent => text("maybe"),
        sent_at => optional(sent_at.map(time)),
    }
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
    /// With the key of an earlier request, print its dispatch_id, and send nothing again. For 24
    /// hours, as the header `Idempotency-Key` of the same request
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    #[command(flatten)]
    consent: Consent,
    /// Print one JSON object: the new dispatch_id and the errors of messages that are not sent
    #[arg(long)]
    json: bool,
}

/// Sends to the recipients. The new dispatch is one transaction.
pub async fn send(app: &App, arguments: Send) -> CommandResult {
    let Send { id, request, idempotency_key, consent, json } = arguments;
    let body = read(&request)?;
    let value =
        serde_json::from_str(&body).map_err(|error| format!("{}: {error}", request.display()))?;
    let Value::Object(fields) = value else {
        return Err(format!("{}: must be a JSON object", request.display()).into());
    };
    let mut tx = app.store.snapshot().await?;
    let past = dispatches::summary(&mut tx, id).await?.ok_or_else(|| unknown(id))?;
    let workspace = only_or_named(&mut tx, past.workspace.as_deref()).await?.id;
    drop(tx);
    let key = idempotency_key.map(|key| sending::key(workspace, id, &key));
    let key = key.transpose().map_err(message)?;
    // Before all checks: a request that was valid for the first response may be invalid now.
    if let Some(key) = &key {
        let first = idempotency::first_response(app, key, body.as_bytes()).await;
        let first = first.map_err(message)?;
        if let Some(first) = first {
            let sent = Sent::read(&first)?;
            let repeat = format!("repeats a request: {} was sent, nothing is sent again", sent.id);
            return if consent.is_dry_run() {
                consent.is_given(json, &[repeat]).map(drop)
            } else {
                sent.print(json);
                Ok(())
            };
        }
    }
    if !past.state.is_final() {
        let (id, state) = (id.simple(), past.state.name());
        let advice = match past.state {
            State::Planning | State::Running => {
                format!("wait for its end, or cancel it first: longshore dispatches cancel {id}")
            }
            _ => format!("wait until `longshore dispatches show {id}` shows the state cancelled"),
        };
        return Err(format!("{id} is {state}: {advice}").into());
    }
    let checked = sending::check(app, workspace, id, fields).await.map_err(message)?;
    let request_id = Uuid::new_v4().to_string();
    let mut effects = Vec::new();
    if consent.needs_effects() {
        let mut tx = app.store.snapshot().await?;
        effects = already_sent(&mut tx, workspace, &past).await?;
        let received = Received { id: Uuid::now_v7(), at: app.clock.now_ms() };
        let order = checked.order(Kind::Send, received, workspace, &request_id);
        effects.push(effect(&mut tx, &order).await?);
        let not_sent = |problem: &MessageProblem| not_sent(&problem.path, &problem.text);
        effects.extend(checked.problems.iter().map(not_sent));
    }
    if !consent.is_given(json, &effects)? {
        return Ok(());
    }
    // With a key, another try after a commit without a response begins no other send.
    let key = match key {
        Some(key) => key,
        None => sending::key(workspace, id, &request_id).map_err(message)?,
    };
    let entry = Entry::from_command(Some(workspace), sending::SEND_ACTION, "", json!({}));
    let response = retry::while_busy(async || {
        let (checked, keyed) = (Ok(checked.clone()), (Some(key.clone()), body.as_bytes()));
        let past = (workspace, id);
        let sent = sending::send_once(app, past, checked, keyed, &request_id, entry.clone()).await;
        sent.map_err(|error| retry::api_error(&id.simple().to_string(), error))
    });
    let sent = Sent::read(&response.await?)?;
    app.store.wake().flush().await;
    sent.print(json);
    Ok(())
}

/// A send, as its stored response has it.
struct Sent {
    /// Its dispatch_id.
    id: String,
    /// The errors of messages that are not sent: objects with a path and a text.
    errors: Vec<Value>,
}

impl Sent {
    fn read(response: &StoredResponse) -> CommandResult<Self> {
        let mut body: Value = serde_json::from_str(&response.body)?;
        let id = body["dispatch_id"].as_str().unwrap_or_default().to_owned();
        let errors = body["errors"].as_array_mut().map(std::mem::take).unwrap_or_default();
        Ok(Self { id, errors })
    }

    fn print(&self, json: bool) {
        let Self { id, errors } = self;
        if json {
            println!("{}", json!({ "dispatch_id": id, "errors": errors }));
            return;
        }
        for error in errors {
            let text = |name: &str| error[name].as_str().unwrap_or_default();
            eprintln!("longshore: {}", not_sent(text("path"), text("type")));
        }
        println!("sending as {id}: `longshore dispatches show {id}` shows its progress");
    }
}

/// The sends to the same recipients until now.
async fn already_sent(
    tx: &mut Tx,
    workspace: i32,
    past: &DispatchSummary,
) -> CommandResult<Vec<String>> {
    let sends = dispatches::sends_to_recipients(tx, workspace, past.id, past.accepted_at).await?;
    let line = |send: SendToRecipients| {
        let (id, at) = (send.id.simple(), format_seconds(send.accepted_at));
        format!("already sent to them ({}): {id} at {at}", send.outcomes.join(", "))
    };
    Ok(sends.into_iter().map(line).collect())
}

/// What a send does. Users without an address get no message; they are not counted here.
async fn effect(tx: &mut Tx, order: &Order) -> CommandResult<String> {
    let users = match &order.target.recipients_of {
        Some(past) => dispatch::count_recipients(tx, past).await?.unsigned_abs(),
        None => 0,
    };
    let channels: Vec<&str> = order.messages.keys().map(String::as_str).collect();
    let channels = channels.join(", ");
    Ok(format!("sends a message by {channels} to up to {}", count(users, "user")))
}

fn not_sent(path: &str, text: &str) -> String {
    format!("not sent: {path}: {text}")
}

fn read(path: &Path) -> Result<String, String> {
    let text = if path == Path::new("-") {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(path)
    };
    text.map_err(|error| format!("{}: {error}", path.display()))
}

/// The error of a request, as text.
fn message(error: ApiError) -> String {
    error.message().into_owned()
}
