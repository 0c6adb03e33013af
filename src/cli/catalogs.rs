//! `longshore catalogs`: catalogs, their items and the outcome of edits.

use serde_json::json;

use super::{CommandResult, WorkspaceArgument};
use crate::app::App;
use crate::catalogs::rows::{self, EditRow};
use crate::catalogs::{Catalog, api, items};
use crate::config::Config;
use kit::clock::format_time;
use kit::json::pretty;
use store::{ByteBudget, Tx};

/// Items that are read at a time.
const PAGE: i64 = 1_000;

/// Ids of unknown items that a line shows.
const SHOWN: usize = 5;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  longshore catalogs list
  longshore catalogs items restaurants --id restaurant1
  longshore catalogs edits restaurants")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List the catalogs of a workspace with their fields
    #[command(after_help = "Example:\n  longshore catalogs list --workspace acme")]
    List {
        #[command(flatten)]
        workspace: WorkspaceArgument,
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Print the items of a catalog, one JSON object per line, in the format of its file
    #[command(after_help = "Example:\n  longshore catalogs items restaurants > restaurants.ndjson")]
    Items {
        /// The catalog's name
        #[arg(value_name = "CATALOG")]
        catalog: String,
        /// Only this item
        #[arg(long, value_name = "ID")]
        id: Option<String>,
        #[command(flatten)]
        workspace: WorkspaceArgument,
        /// Print each item on one line, even a single item
        #[arg(long)]
        json: bool,
    },
    /// Show the outcome of the latest edits; edits are shown for three days
    #[command(after_help = "Example:\n  longshore catalogs edits restaurants --json | \
                            jq 'select(.unknown > 0)'")]
    Edits {
        /// The catalog's name
        #[arg(value_name = "CATALOG")]
        catalog: String,
        /// Maximum number of edits
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: u32,
        #[command(flatten)]
        workspace: WorkspaceArgument,
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
    },
}

pub async fn run(config: Config, arguments: Arguments) -> CommandResult {
    let app = super::open(config).await?;
    match arguments.command {
        Command::List { workspace, json } => list(&app, &workspace, json).await,
        Command::Items { catalog, id, workspace, json } => {
            items(&app, &workspace, &catalog, id.as_deref(), json).await
        }
        Command::Edits { catalog, limit, workspace, json } => {
            edits(&app, &workspace, &catalog, limit, json).await
        }
    }
}

async fn list(app: &App, workspace: &WorkspaceArgument, json: bool) -> CommandResult {
    let mut tx = app.store.snapshot().await?;
    let workspace = workspace.find(&mut tx).await?;
    for rows::StoredCatalog { catalog, items, .. } in rows::stored(&mut tx, workspace.id).await? {
        if json {
            let Catalog { name, fields, .. } = &catalog;
            println!("{}", json!({ "name": name, "items": items, "fields": fields.all() }));
        } else {
            let items = kit::words::count(items as u64, "item");
            println!("{}: {items}; {}", catalog.name, catalog.fields_in_words());
        }
    }
    Ok(())
}

async fn items(
    app: &App,
    workspace: &WorkspaceArgument,
    name: &str,
    id: Option<&str>,
    json: bool,
) -> CommandResult {
    let mut tx = app.store.snapshot().await?;
    let catalog = find(&mut tx, workspace, name).await?;
    if let Some(id) = id {
        let mut found =
            rows::find_items(&mut tx, &[(catalog.id, id)], &mut ByteBudget::unlimited()).await?;
        let item = found.pop().ok_or_else(|| format!("unknown item {id} in catalog {name}"))?;
        let line = items::line(&item.item_id, &item.doc);
        println!("{}", if json { line } else { pretty(&line) });
        return Ok(());
    }
    let mut after = String::new();
    loop {
        let page = rows::items_after(&mut tx, catalog.id, &after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after.clone_from(&last.item_id);
        for item in &page {
            println!("{}", items::line(&item.item_id, &item.doc));
        }
    }
}

async fn edits(
    app: &App,
    workspace: &WorkspaceArgument,
    name: &str,
    limit: u32,
    json: bool,
) -> CommandResult {
    let mut tx = app.store.snapshot().await?;
    let catalog = find(&mut tx, workspace, name).await?;
    // A request has one record for each partition of its items.
    let max_records = i64::from(limit) * i64::from(api::LANES);
    let records = rows::latest_edits(&mut tx, catalog.id, max_records).await?;
    let same =
        |a: &EditRow, b: &EditRow| (a.received_at, &a.request_id) == (b.received_at, &b.request_id);
    for records in records.chunk_by(same).take(limit as usize) {
        let edit = Edit::from_records(records)?;
        println!("{}", if json { edit.json() } else { edit.text() });
    }
    Ok(())
}

/// The outcome of a request, as far as it is applied.
struct Edit<'a> {
    request_id: &'a str,
    received_at: i64,
    applied_at: i64,
    applied: i64,
    unknown: i64,
    /// The ids of some of these.
    unknown_ids: Vec<String>,
}

impl<'a> Edit<'a> {
    fn from_records(records: &'a [EditRow]) -> CommandResult<Self> {
        let mut unknown_ids = Vec::new();
        for record in records {
            unknown_ids.extend(serde_json::from_str::<Vec<String>>(&record.unknown_ids)?);
        }
        Ok(Self {
            request_id: &records[0].request_id,
            received_at: records[0].received_at,
            applied_at: records.iter().map(|record| record.applied_at).max().unwrap_or_default(),
            applied: records.iter().map(|record| i64::from(record.applied)).sum(),
            unknown: records.iter().map(|record| i64::from(record.unknown)).sum(),
            unknown_ids,
        })
    }

    fn json(&self) -> String {
        json!({
            "request_id": self.request_id,
            "received_at": format_time(self.received_at),
            "applied_at": format_time(self.applied_at),
            "applied": self.applied,
            "unknown": self.unknown,
            "unknown_ids": self.unknown_ids,
        })
        .to_string()
    }

    fn text(&self) -> String {
        let Self { request_id, applied, unknown, unknown_ids, .. } = self;
        let mut text =
            format!("{}  {request_id}  {applied} applied", format_time(self.received_at));
        if *unknown > 0 {
            let shown = &unknown_ids[..unknown_ids.len().min(SHOWN)];
            let more = if *unknown > shown.len() as i64 { ", …" } else { "" };
            text.push_str(&format!(", {unknown} unknown: {}{more}", shown.join(", ")));
        }
        text
    }
}

async fn find(tx: &mut Tx, workspace: &WorkspaceArgument, name: &str) -> CommandResult<Catalog> {
    let workspace = workspace.find(tx).await?;
    let catalogs = rows::list(tx, workspace.id).await?;
    let names: Vec<&str> = catalogs.iter().map(|catalog| catalog.name.as_str()).collect();
    let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let unknown = format!("unknown catalog {name}; expected one of {known}");
    catalogs.into_iter().find(|catalog| catalog.name == name).ok_or_else(|| unknown.into())
}
