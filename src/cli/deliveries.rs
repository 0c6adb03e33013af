//! `longshore deliveries`.

use uuid::Uuid;

use super::{CommandResult, ListArguments, find_named, print};
use crate::app::App;
use crate::config::Config;
use crate::deliveries::{self, Delivery, Filter, State};
use kit::clock::format_seconds;

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
    #[command(after_help = "Example:
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
    let List { which: ListArguments { state, workspace, limit, json }, subject } = arguments;
    let mut tx = app.store.snapshot().await?;
    find_named(&mut tx, workspace.as_deref()).await?;
    let found = deliveries::list(&mut tx, &Filter { state, workspace, subject, limit }).await?;
    let heading = format!(
        "{:<36}  {:<9}  {:<20}  {:>5}  {:<6}  {:<12}  TO",
        "ID", "STATE", "CREATED", "TRIES", "STATUS", "WORKSPACE"
    );
    print::rows(json, &heading, &found, line)
}

async fn show(app: &App, arguments: Show) -> CommandResult {
    let mut tx = app.store.snapshot().await?;
    let found = deliveries::by_id(&mut tx, arguments.id).await?;
    let delivery = found.ok_or(deliveries::DeliveryError::Unknown(arguments.id))?;
    print::object(arguments.json, &delivery, details)
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

fn line(delivery: &Delivery) -> String {
    format!(
        "{:<36}  {:<9}  {:<20}  {:>5}  {:<6}  {:<12}  {}",
        delivery.id,
        delivery.state.name(),
        format_seconds(delivery.created_at),
        delivery.attempts,
        delivery.last_status.map_or("-".into(), |status| status.to_string()),
        delivery.workspace,
        delivery.shown_url(),
    )
}

fn details(delivery: &Delivery) -> String {
    let optional = |ms: Option<i64>| ms.map_or("-".to_owned(), format_seconds);
    let status = delivery.last_status.map_or("-".to_owned(), |status| status.to_string());
    print::fields([
        ("id", delivery.id.to_string()),
        ("webhook-id", delivery.message_id()),
        ("workspace", delivery.workspace.clone()),
        ("kind", delivery.kind.clone()),
        ("subject", delivery.subject.clone()),
        ("to", delivery.shown_url()),
        ("state", delivery.state.name().to_owned()),
        ("attempts", delivery.attempts.to_string()),
        ("created", format_seconds(delivery.created_at)),
        ("next attempt", optional(delivery.next_at)),
        ("retried until", format_seconds(delivery.retry_until)),
        ("ended", optional(delivery.finished_at)),
        ("last status", status),
        ("last error", delivery.last_error.clone().unwrap_or_else(|| "-".into())),
        ("request id", delivery.request_id.clone()),
        ("body", delivery.body.clone()),
    ])
}

fn delivery_id(text: &str) -> Result<Uuid, String> {
    Uuid::parse_str(text.strip_prefix("msg_").unwrap_or(text))
        .map_err(|_| "a delivery ID must be a UUID, or msg_ and 32 hexadecimal digits".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_to_write_an_id_are_read() {
        let id = Uuid::now_v7();
        assert_eq!(delivery_id(&id.to_string()), Ok(id));
        assert_eq!(delivery_id(&format!("msg_{}", id.simple())), Ok(id));
        assert!(delivery_id("7").is_err());
    }
}
