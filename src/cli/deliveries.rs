//! `longshore deliveries`.

use serde_json::json;
use uuid::Uuid;

use super::ids::delivery_id;
use super::print::Results;
use super::table::{self, Cell, number, optional, state, text, time};
use super::{CommandResult, Error, ListArguments, find_named, retry};
use crate::app::App;
use crate::config::Config;
use crate::deliveries::{self, Delivery, DeliveryError, Filter, State};

/// List, show and resend callbacks, status postbacks and notifications.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  longshore deliveries list --state given_up
  longshore deliveries show 0197b6a8-3c55-7e11-9a1f-3f0f3c2d6e54
  longshore deliveries resend 0197b6a8-3c55-7e11-9a1f-3f0f3c2d6e54")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List the latest deliveries
    #[command(after_help = "Examples:
  longshore deliveries list --workspace acme --state pending --limit 20
  longshore deliveries list --subject 0197b6a83c557e119a1f3f0f3c2d6e54")]
    List(List),
    /// Show one delivery with its body and its last error
    #[command(after_help = "Example:
  longshore deliveries show 0197b6a8-3c55-7e11-9a1f-3f0f3c2d6e54 --json")]
    Show(Show),
    /// Send ended deliveries again, and pending ones at once, with the same webhook-id
    #[command(after_help = "Examples:
  longshore deliveries resend 0197b6a8-3c55-7e11-9a1f-3f0f3c2d6e54
  longshore deliveries resend --state given_up --workspace acme")]
    Resend(Resend),
}

#[derive(clap::Args)]
struct List {
    #[command(flatten)]
    which: ListArguments<State>,
    /// Only deliveries about this subject: a transactional email's dispatch_id, an export's
    /// object_prefix
    #[arg(long, value_name = "ID")]
    subject: Option<String>,
}

#[derive(clap::Args)]
struct Show {
    /// The delivery's id, or its webhook-id
    #[arg(value_parser = delivery_id)]
    id: Uuid,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct Resend {
    /// The deliveries' ids, or webhook-ids
    #[arg(required_unless_present = "state", value_name = "ID", value_parser = delivery_id)]
    ids: Vec<Uuid>,
    /// Instead of ids: all deliveries that are in this state now, the earliest first
    #[arg(long, conflicts_with = "ids")]
    state: Option<Resendable>,
    /// With --state, only deliveries of this workspace
    #[arg(long, value_name = "NAME", requires = "state", conflicts_with = "ids")]
    workspace: Option<String>,
    /// Print one JSON object: the deliveries with the results, and the others with the reasons
    #[arg(long)]
    json: bool,
}

/// The states whose deliveries can be sent again together.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
enum Resendable {
    /// Waiting for the next attempt
    Pending,
    /// Not accepted before the time limit
    GivenUp,
}

impl From<Resendable> for State {
    fn from(state: Resendable) -> Self {
        match state {
            Resendable::Pending => Self::Pending,
            Resendable::GivenUp => Self::GivenUp,
        }
    }
}

/// Deliveries that are read at once.
const PAGE: u32 = 100;

pub async fn run(config: Config, arguments: Arguments) -> CommandResult {
    let app = super::open(config).await?;
    match arguments.command {
        Command::List(arguments) => list(&app, arguments).await,
        Command::Show(arguments) => show(&app, arguments).await,
        Command::Resend(arguments) => {
            let resent = resend(&app, arguments).await;
            app.store.wake().flush().await;
            resent
        }
    }
}

async fn list(app: &App, arguments: List) -> CommandResult {
    let List { which: ListArguments { state, workspace, page }, subject } = arguments;
    let after = page.after(delivery_id)?;
    let mut tx = app.store.snapshot().await?;
    find_named(&mut tx, workspace.as_deref()).await?;
    if let Some(id) = after {
        deliveries::by_id(&mut tx, id).await?.ok_or(DeliveryError::Unknown(id))?;
    }
    let filter = Filter { state, workspace, subject, after, limit: page.rows_to_read() };
    let found = deliveries::list(&mut tx, &filter).await?;
    let headers = ["ID", "STATE", "CREATED", "TRIES", "STATUS", "WORKSPACE", "TO"];
    page.print_page("deliveries", headers, &found, |delivery| delivery.id.to_string(), row)
}

async fn show(app: &App, arguments: Show) -> CommandResult {
    let mut tx = app.store.snapshot().await?;
    let found = deliveries::by_id(&mut tx, arguments.id).await?;
    let delivery = found.ok_or(DeliveryError::Unknown(arguments.id))?;
    table::print_object(arguments.json, &delivery, details)
}

/// Resends all deliveries that it can, prints the errors of the others, and fails if there are any.
/// Of those in a state, some may have left it, or follow others: these need nothing more.
async fn resend(app: &App, arguments: Resend) -> CommandResult {
    let state = arguments.state.map(State::from);
    let ids = match state {
        Some(state) => ids_in_state(app, state, arguments.workspace).await?,
        None => arguments.ids,
    };
    if ids.is_empty() && !arguments.json {
        println!("No deliveries.");
        return Ok(());
    }
    let mut results = Results::new(arguments.json);
    for id in &ids {
        let resent = retry::while_busy(async || {
            Ok(match state {
                Some(state) => deliveries::resend_in_state(app, *id, state).await?,
                None => deliveries::resend(app, *id).await.map(|()| true)?,
            })
        });
        let (result, sentence) = match resent.await {
            Ok(true) if state == Some(State::Pending) => ("sent_now", "will be sent now"),
            Ok(true) => ("sent_again", "will be sent again"),
            Ok(false) => ("already_ended", "was sent or given up in the meantime"),
            Err(error) if state.is_some() && is_waiting(&error) => {
                ("waiting", "will be sent after the delivery before it")
            }
            Err(error) => {
                results.failed(&format!("longshore: {error}"), id, &error);
                continue;
            }
        };
        results.done(&format!("{id} {sentence}"), json!({"id": id, "result": result}));
    }
    results.end("deliveries", "were not resent")
}

fn is_waiting(error: &Error) -> bool {
    matches!(error.downcast_ref(), Some(DeliveryError::Waiting(_)))
}

/// The deliveries in a state, the earliest first: deliveries about one subject arrive in order.
async fn ids_in_state(
    app: &App,
    state: State,
    workspace: Option<String>,
) -> CommandResult<Vec<Uuid>> {
    let mut tx = app.store.snapshot().await?;
    find_named(&mut tx, workspace.as_deref()).await?;
    let mut filter =
        Filter { state: Some(state), workspace, subject: None, after: None, limit: PAGE };
    let mut ids = Vec::new();
    loop {
        let page = deliveries::list(&mut tx, &filter).await?;
        ids.extend(page.iter().map(|delivery| delivery.id));
        filter.after = page.last().map(|delivery| delivery.id);
        if page.len() < PAGE as usize {
            break;
        }
    }
    ids.reverse();
    Ok(ids)
}

fn row(delivery: &Delivery) -> [Cell; 7] {
    [
        text(delivery.id),
        state(delivery.state.name()),
        time(delivery.created_at),
        number(delivery.attempts),
        optional(delivery.last_status.map(text)),
        text(&delivery.workspace),
        text(delivery.shown_url()),
    ]
}

fn details(delivery: &Delivery) -> [(&'static str, Cell); 16] {
    [
        ("id", text(delivery.id)),
        ("webhook-id", text(delivery.message_id())),
        ("workspace", text(&delivery.workspace)),
        ("kind", text(&delivery.kind)),
        ("subject", text(&delivery.subject)),
        ("to", text(delivery.shown_url())),
        ("state", state(delivery.state.name())),
        ("attempts", number(delivery.attempts)),
        ("created", time(delivery.created_at)),
        ("next attempt", optional(delivery.next_at.map(time))),
        ("retried until", time(delivery.retry_until)),
        ("ended", optional(delivery.finished_at.map(time))),
        ("last status", optional(delivery.last_status.map(text))),
        ("last error", optional(delivery.last_error.as_ref().map(text))),
        ("request id", text(&delivery.request_id)),
        ("body", text(delivery.shown_body())),
    ]
}
