//! `longshore deliveries`.

use uuid::Uuid;

use super::ids::delivery_id;
use super::table::{self, Cell, number, optional, state, text, time};
use super::{CommandResult, ListArguments, find_named, print};
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
    /// Send ended deliveries again, with the same webhook-id
    #[command(after_help = "Example:
  longshore deliveries resend 0197b6a8-3c55-7e11-9a1f-3f0f3c2d6e54")]
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
    #[arg(required = true, value_name = "ID", value_parser = delivery_id)]
    ids: Vec<Uuid>,
}

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
    let filter = Filter { state, workspace, subject, after, limit: page.limit };
    let found = deliveries::list(&mut tx, &filter).await?;
    let headers = ["ID", "STATE", "CREATED", "TRIES", "STATUS", "WORKSPACE", "TO"];
    table::print(page.json, "deliveries", headers, &found, row)?;
    page.print_next(found.len(), || found.last().map(|delivery| delivery.id.to_string()));
    Ok(())
}

async fn show(app: &App, arguments: Show) -> CommandResult {
    let mut tx = app.store.snapshot().await?;
    let found = deliveries::by_id(&mut tx, arguments.id).await?;
    let delivery = found.ok_or(DeliveryError::Unknown(arguments.id))?;
    table::print_object(arguments.json, &delivery, details)
}

/// Resends all deliveries that it can, prints the errors of the others, and fails if there are any.
async fn resend(app: &App, arguments: Resend) -> CommandResult {
    let mut failed = 0;
    for id in &arguments.ids {
        match deliveries::resend(app, *id).await {
            Ok(()) => println!("{id} will be sent again"),
            Err(error) => {
                failed += 1;
                eprintln!("longshore: {error}");
            }
        }
    }
    print::all_done(failed, arguments.ids.len(), "were not resent")
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
        ("body", text(&delivery.body)),
    ]
}
