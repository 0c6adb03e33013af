//! `longshore campaigns`.

use clap::Subcommand;
use uuid::Uuid;

use super::{CommandResult, WorkspaceArgument, print};
use crate::app::App;
use crate::campaigns;
use crate::config::Config;
use crate::messages::dispatch::{self, Statistics};

/// Show statistics of campaigns and Canvases.
#[derive(clap::Args)]
#[command(after_help = "Example:
  longshore campaigns stats --workspace acme")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show the messages of each variation by channel: sent, delivered, bounced and so on
    #[command(after_help = "Example:
  longshore campaigns stats 0197b6a8-3c55-7e11-9a1f-3f0f3c2d6e54 --workspace acme --json")]
    Stats(Stats),
}

#[derive(clap::Args)]
struct Stats {
    /// Only this campaign or Canvas
    id: Option<Uuid>,
    #[command(flatten)]
    workspace: WorkspaceArgument,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

pub async fn run(config: Config, arguments: Arguments) -> CommandResult {
    let app = super::open(config).await?;
    match arguments.command {
        Command::Stats(arguments) => stats(&app, arguments).await,
    }
}

async fn stats(app: &App, arguments: Stats) -> CommandResult {
    let mut tx = app.store.snapshot().await?;
    let workspace = arguments.workspace.find(&mut tx).await?;
    let found = dispatch::statistics(&mut tx, workspace.id, arguments.id).await?;
    // A deleted campaign still has its statistics, and a new one has none yet.
    if let Some(id) = arguments.id.filter(|_| found.is_empty()) {
        let campaign = campaigns::by_id(&mut tx, workspace.id, id).await?;
        campaign.ok_or_else(|| {
            format!(
                "unknown campaign or Canvas {id}: see `longshore campaigns \
                                        stats`"
            )
        })?;
    }
    let heading = format!(
        "{:<36}  {:<36}  {:<13}  {:>9}  {:>9}  {:>7}  {:>11}  {:>7}  {:>7}  NAME",
        "CAMPAIGN",
        "VARIATION",
        "CHANNEL",
        "SENT",
        "DELIVERED",
        "BOUNCED",
        "UNREACHABLE",
        "ABORTED",
        "FAILED"
    );
    print::rows(arguments.json, &heading, &found, line)
}

fn line(statistics: &Statistics) -> String {
    let variation = if statistics.variation_id.is_empty() { "-" } else { &statistics.variation_id };
    format!(
        "{:<36}  {:<36}  {:<13}  {:>9}  {:>9}  {:>7}  {:>11}  {:>7}  {:>7}  {}",
        statistics.campaign_id,
        variation,
        statistics.channel.name(),
        statistics.sent,
        statistics.delivered,
        statistics.bounced,
        statistics.unreachable,
        statistics.aborted,
        statistics.failed,
        statistics.name.as_deref().unwrap_or("-"),
    )
}
