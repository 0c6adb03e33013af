//! `longshore campaigns`.

mod declared;
mod send;

pub use declared::find;

use clap::Subcommand;
use uuid::Uuid;

use super::{CommandResult, WorkspaceArgument, table};
use crate::app::App;
use crate::config::Config;
use crate::dispatches::{self, Statistics};

/// Show campaigns and Canvases, what they send to a user, and their results; send a campaign.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  longshore campaigns list
  longshore campaigns show Welcome
  longshore campaigns preview Welcome --user ann@acme.example
  longshore campaigns send Welcome --segment Berlin --dry-run")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the campaigns and Canvases that the workspace file declares, oldest first
    #[command(after_help = "Example:
  longshore campaigns list --workspace acme --archived")]
    List(declared::List),
    /// Show a campaign or Canvas as declared, and its results
    #[command(after_help = "Example:
  longshore campaigns show Welcome --json")]
    Show(declared::Show),
    /// Render the messages of a campaign or Canvas for a user, without sending them
    ///
    /// Requests connected content, as a send does. Exits with 1 if a message would not be sent.
    #[command(after_help = "Example:
  longshore campaigns preview Welcome --user ann@acme.example --trigger-properties '{\"code\":\"X\"}'")]
    Preview(declared::Preview),
    /// Send a campaign to a segment now; asks on a terminal
    ///
    /// The question and --dry-run show how many users the segment has. Only campaigns of type api
    /// that declare messages can be sent.
    #[command(after_help = "Examples:
  longshore campaigns send Welcome --segment Berlin --dry-run
  longshore campaigns send Welcome --segment Berlin")]
    Send(send::Send),
    /// Show the messages of each variation by channel: sent, delivered, bounced and so on
    #[command(after_help = "Example:
  longshore campaigns stats Welcome --workspace acme --json")]
    Stats(Stats),
}

#[derive(clap::Args)]
struct Stats {
    /// The id or the name of a campaign or Canvas; all of them if absent
    #[arg(value_name = "CAMPAIGN")]
    campaign: Option<String>,
    #[command(flatten)]
    workspace: WorkspaceArgument,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

pub async fn run(config: Config, arguments: Arguments) -> CommandResult {
    let app = super::open(config).await?;
    match arguments.command {
        Command::List(arguments) => declared::list(&app, arguments).await,
        Command::Show(arguments) => declared::show(&app, arguments).await,
        Command::Preview(arguments) => declared::show_preview(&app, arguments).await,
        Command::Send(arguments) => send::send(&app, arguments).await,
        Command::Stats(arguments) => stats(&app, arguments).await,
    }
}

async fn stats(app: &App, arguments: Stats) -> CommandResult {
    let mut tx = app.store.snapshot().await?;
    let workspace = arguments.workspace.find(&mut tx).await?;
    // A deleted campaign still has its statistics, and a new one has none yet.
    let id = arguments.campaign.as_deref().and_then(|text| Uuid::parse_str(text).ok());
    let mut found = Vec::new();
    if id.is_some() || arguments.campaign.is_none() {
        found = dispatches::statistics(&mut tx, workspace.id, id).await?;
    }
    if let Some(text) = arguments.campaign.filter(|_| found.is_empty()) {
        let (_, campaign) = find(&mut tx, &arguments.workspace, &text).await?;
        found = dispatches::statistics(&mut tx, workspace.id, Some(campaign.id)).await?;
    }
    print_statistics(arguments.json, &found)
}

fn print_statistics(json: bool, found: &[Statistics]) -> CommandResult {
    let headers = [
        "CAMPAIGN",
        "VARIATION",
        "CHANNEL",
        "SENT",
        "DELIVERED",
        "BOUNCED",
        "UNREACHABLE",
        "ABORTED",
        "FAILED",
        "NAME",
    ];
    table::print(json, "messages", headers, found, |statistics| {
        [
            table::text(statistics.campaign_id),
            table::optional(Some(table::text(&statistics.variation_id))),
            table::text(statistics.channel.name()),
            table::number(statistics.sent),
            table::number(statistics.delivered),
            table::number(statistics.bounced),
            table::number(statistics.unreachable),
            table::number(statistics.aborted),
            table::number(statistics.failed),
            table::optional(statistics.name.as_deref().map(table::text)),
        ]
    })
}
