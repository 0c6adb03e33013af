//! `longshore catalogs`: catalogs, their items and the outcome of edits.

use serde::Serialize;

use super::table::{self, Cell, number, optional, text, time};
use super::{CommandResult, PageArguments, WorkspaceArgument, output};
use crate::app::App;
use crate::catalogs::rows::{self, EditRow};
use crate::catalogs::{Catalog, Field, api, items};
use crate::config::Config;
use kit::clock::serialize_time;
use kit::json::pretty;
use store::{ByteBudget, Tx};

/// Items that are read at a time.
const PAGE: i64 = 1_000;

/// Ids of unknown items that a row shows.
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
        #[command(flatten)]
        page: PageArguments,
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
        #[command(flatten)]
        workspace: WorkspaceArgument,
        #[command(flatten)]
        page: PageArguments,
    },
}

pub async fn run(config: Config, arguments: Arguments) -> CommandResult {
    let app = super::open(config).await?;
    match arguments.command {
        Command::List { workspace, page } => list(&app, &workspace, &page).await,
        Command::Items { catalog, id, workspace, json } => {
            items(&app, &workspace, &catalog, id.as_deref(), json).await
        }
        Command::Edits { catalog, workspace, page } => {
            edits(&app, &workspace, &catalog, &page).await
        }
    }
}

/// A catalog in the list.
#[derive(Serialize)]
struct ListedCatalog<'a> {
    name: &'a str,
    items: i64,
    fields: &'a [Field],
}

async fn list(app: &App, workspace: &WorkspaceArgument, page: &PageArguments) -> CommandResult {
    let mut tx = app.store.snapshot().await?;
    let workspace = workspace.find(&mut tx).await?;
    let counted = rows::counted(&mut tx, workspace.id).await?;
    let catalogs: Vec<ListedCatalog<'_>> = counted
        .iter()
        .map(|(catalog, items)| ListedCatalog {
            name: &catalog.name,
            items: *items,
            fields: catalog.fields.all(),
        })
        .collect();
    let headers = ["NAME", "ITEMS", "FIELDS"];
    let id = |catalog: &ListedCatalog<'_>| catalog.name.to_owned();
    page.print("catalogs", headers, &catalogs, id, |catalog| {
        [text(catalog.name), number(catalog.items), text(items::in_words(catalog.fields))]
    })
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
        println!("{}", if json { line } else { table::printable(&pretty(&line)) });
        return Ok(());
    }
    let mut after = String::new();
    // The rest of the catalog is not read for a reader that is gone.
    while output::error().is_none() {
        let page = rows::items_after(&mut tx, catalog.id, &after, PAGE).await?.items;
        let Some(last) = page.last() else { break };
        after.clone_from(&last.item_id);
        for item in &page {
            println!("{}", items::line(&item.item_id, &item.doc));
        }
    }
    Ok(())
}

async fn edits(
    app: &App,
    workspace: &WorkspaceArgument,
    name: &str,
    page: &PageArguments,
) -> CommandResult {
    let mut tx = app.store.snapshot().await?;
    let catalog = find(&mut tx, workspace, name).await?;
    // A request has one record for each partition of its items.
    let max_records = i64::from(page.rows_to_read()) * i64::from(api::LANES);
    let after = page.after.as_deref();
    let records = rows::latest_edits(&mut tx, catalog.id, after, max_records).await?;
    let same =
        |a: &EditRow, b: &EditRow| (a.received_at, &a.request_id) == (b.received_at, &b.request_id);
    let requests = records.chunk_by(same).take(page.rows_to_read() as usize);
    let edits = requests.map(Edit::from_records).collect::<CommandResult<Vec<_>>>()?;
    let headers = ["REQUEST", "RECEIVED", "APPLIED AT", "APPLIED", "UNKNOWN", "UNKNOWN IDS"];
    page.print_page("edits", headers, &edits, |edit| edit.request_id.to_owned(), Edit::row)
}

/// The outcome of a request, as far as it is applied.
#[derive(Serialize)]
struct Edit<'a> {
    request_id: &'a str,
    #[serde(serialize_with = "serialize_time")]
    received_at: i64,
    #[serde(serialize_with = "serialize_time")]
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

    fn row(&self) -> [Cell; 6] {
        let shown = &self.unknown_ids[..self.unknown_ids.len().min(SHOWN)];
        let more = if self.unknown > shown.len() as i64 { ", …" } else { "" };
        let unknown_ids = (self.unknown > 0).then(|| text(shown.join(", ") + more));
        [
            text(self.request_id),
            time(self.received_at),
            time(self.applied_at),
            number(self.applied),
            number(self.unknown),
            optional(unknown_ids),
        ]
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
