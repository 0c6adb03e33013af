//! `longshore console-log`.

use serde_json::Value;

use super::{CommandResult, WorkspaceArgument};
use crate::config::Config;
use crate::messages::dispatch;
use kit::clock::format_seconds;

/// List the requests that targeted a segment, once all their messages were sent.
#[derive(clap::Args)]
#[command(after_help = "Example:
  longshore console-log --workspace acme --limit 20 --json")]
pub struct Arguments {
    #[command(flatten)]
    workspace: WorkspaceArgument,
    /// Maximum number of requests, latest first
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u32,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

pub async fn run(config: Config, arguments: Arguments) -> CommandResult {
    let app = super::open(config).await?;
    let mut tx = app.store.snapshot().await?;
    let workspace = arguments.workspace.find(&mut tx).await?;
    let records = dispatch::console_records(&mut tx, workspace.id, arguments.limit).await?;
    if records.is_empty() {
        eprintln!("No requests.");
    }
    for found in records {
        if arguments.json {
            println!("{}", found.record);
            continue;
        }
        let record: Value = serde_json::from_str(&found.record)?;
        let text = |name: &str| record[name].as_str().unwrap_or("-").to_owned();
        println!(
            "{}  {}  {:<9} segment {}  request {}  {} users checked, {} messages sent",
            format_seconds(found.at),
            found.dispatch_id.simple(),
            text("call"),
            text("segment_id"),
            text("request_id"),
            record["results"]["users"],
            record["results"]["sent"],
        );
    }
    Ok(())
}
