//! `longshore console-log`.

use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use super::ids::dispatch_id;
use super::table::{Cell, number, optional, text, time};
use super::{CommandResult, PageArguments, WorkspaceArgument};
use crate::config::Config;
use crate::dispatches;

/// Show past sends to segments: requests whose sends have ended, latest first.
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
    id: Uuid,
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
    let limit = page.rows_to_read();
    let records = dispatches::console_records(&mut tx, workspace.id, after, limit).await?;
    let mut sends = Vec::new();
    for found in &records {
        let record = serde_json::from_str(&found.record)?;
        sends.push(PastSend { id: found.dispatch_id, at: found.at, record });
    }
    let headers = ["DISPATCH", "FINISHED", "REQUEST", "USERS", "SENT", "SEGMENT", "REQUEST ID"];
    let id = |send: &PastSend| send.id.simple().to_string();
    page.print_page("past sends to segments", headers, &sends, id, row)
}

fn row(PastSend { at, record, .. }: &PastSend) -> [Cell; 7] {
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
