//! `longshore console-log`.

use serde::Serialize;
use serde_json::Value;

use super::ids::dispatch_id;
use super::table::{self, Cell, number, optional, text, time};
use super::{CommandResult, PageArguments, WorkspaceArgument};
use crate::config::Config;
use crate::messages::dispatch;

/// Show past sends to segments: requests whose messages were all sent, latest first.
#[derive(clap::Args)]
#[command(after_help = "Example:
  longshore console-log --workspace acme --limit 20 --json")]
pub struct Arguments {
    #[command(flatten)]
    workspace: WorkspaceArgument,
    #[command(flatten)]
    page: PageArguments,
}

/// A send with its record.
#[derive(Serialize)]
struct PastSend {
    #[serde(skip)]
    at: i64,
    #[serde(flatten)]
    record: Value,
}

pub async fn run(config: Config, arguments: Arguments) -> CommandResult {
    let app = super::open(config).await?;
    let page = arguments.page;
    let after = page.after(dispatch_id)?;
    let mut tx = app.store.snapshot().await?;
    let workspace = arguments.workspace.find(&mut tx).await?;
    let records = dispatch::console_records(&mut tx, workspace.id, after, page.limit).await?;
    let mut sends = Vec::new();
    for found in &records {
        let record = serde_json::from_str(&found.record)?;
        sends.push(PastSend { at: found.at, record });
    }
    let headers = ["DISPATCH", "FINISHED", "REQUEST", "USERS", "SENT", "SEGMENT", "REQUEST ID"];
    table::print(page.json, "past sends to segments", headers, &sends, row)?;
    page.print_next(records.len(), || Some(records.last()?.dispatch_id.simple().to_string()));
    Ok(())
}

fn row(PastSend { at, record }: &PastSend) -> [Cell; 7] {
    let field = |name: &str| optional(record[name].as_str().map(text));
    let count = |name: &str| optional(record["results"][name].as_i64().map(number));
    [
        field("dispatch_id"),
        time(*at),
        field("call"),
        count("users"),
        count("sent"),
        field("segment_id"),
        field("request_id"),
    ]
}
