//! `longshore workspaces`: what is configured where.

use std::collections::BTreeMap;

use serde::Serialize;

use super::table::{self, Cell, number, optional, text, time_in};
use super::{CommandResult, PageArguments, page_of, print_next};
use crate::app::App;
use crate::config::Config;
use crate::exports::dry_run::sample_segment;
use crate::workspaces::storage::NamedStorage;
use crate::workspaces::{self, Workspace, channels, keys, only_or_named, segments, storage};
use crate::{campaigns, catalogs};
use kit::clock::format_time;
use kit::words::grouped;
use runtime::audit::{self, Filter};
use store::Tx;

/// Show the workspaces, and what is configured in each of them.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  longshore workspaces list
  longshore workspaces show acme")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List the workspaces, by name: their keys, channels and storages, and the last change by a
    /// workspace file
    #[command(after_help = "Example:\n  longshore workspaces list --json")]
    List(PageArguments),
    /// Show a workspace: its keys, channels and storages without secrets, and how much it has
    #[command(after_help = "Example:\n  longshore workspaces show acme --json")]
    Show {
        /// The workspace
        name: String,
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
}

pub async fn run(config: Config, arguments: Arguments) -> CommandResult {
    let app = super::open(config).await?;
    match arguments.command {
        Command::List(page) => list(&app, &page).await,
        Command::Show { name, json } => show(&app, &name, json).await,
    }
}

/// A workspace without its secrets.
#[derive(Serialize)]
struct Overview {
    name: String,
    currency: String,
    time_zone: String,
    /// The names of the keys that are not revoked.
    keys: Vec<String>,
    /// Where messages go, by the path in the workspace file.
    channels: BTreeMap<&'static str, String>,
    storages: Vec<Storage>,
    segments: i64,
    campaigns: i64,
    catalogs: i64,
    /// When a workspace file last changed it, as far as the audit log has it, and who applied it.
    applied_at: Option<String>,
    applied_by: Option<String>,
}

#[derive(Serialize)]
struct Storage {
    /// As requests name it.
    name: String,
    location: String,
    /// Whether exports go there if they name none.
    is_default: bool,
}

impl Overview {
    async fn read(app: &App, tx: &mut Tx, workspace: &Workspace) -> CommandResult<Self> {
        let id = workspace.id;
        let keys = keys::list(tx, Some(id)).await?;
        let keys = keys.into_iter().filter(|key| key.revoked_at.is_none()).map(|key| key.name);
        let channels = channels::stored(tx, &app.secrets, id).await?;
        let channels =
            channels.into_iter().map(|(part, stored)| (part.path(), stored.destination()));
        let action = Some("workspace.apply".to_owned());
        let filter = Filter { workspace_id: Some(id), action, limit: 1, ..Filter::default() };
        let applied = audit::list(tx, &filter).await?.pop();
        Ok(Self {
            keys: keys.collect(),
            // The others only have secrets.
            channels: channels.filter(|(_, destination)| !destination.is_empty()).collect(),
            storages: storages(app, tx, workspace).await?,
            segments: segments::count(tx, id).await?,
            campaigns: campaigns::count(tx, id).await?,
            catalogs: catalogs::rows::count(tx, id).await?,
            applied_at: applied.as_ref().map(|record| format_time(record.at)),
            applied_by: applied.map(|record| record.actor),
            name: workspace.name.clone(),
            currency: workspace.currency.clone(),
            time_zone: workspace.time_zone.clone(),
        })
    }
}

async fn storages(app: &App, tx: &mut Tx, workspace: &Workspace) -> CommandResult<Vec<Storage>> {
    let mut storages = Vec::new();
    for id in [workspace.s3_storage, workspace.azure_storage].into_iter().flatten() {
        let settings = storage::settings(tx, &app.secrets, id).await?;
        storages.push(Storage {
            name: settings.kind().to_owned(),
            location: settings.location(),
            is_default: workspace.own_storage() == Some(id),
        });
    }
    let named = storage::named(tx, &app.secrets, workspace.id).await?;
    let named = named.into_iter().map(|NamedStorage { name, settings }| Storage {
        name,
        location: settings.location(),
        is_default: false,
    });
    storages.extend(named);
    Ok(storages)
}

async fn list(app: &App, page: &PageArguments) -> CommandResult {
    let mut tx = app.store.snapshot().await?;
    let all = workspaces::list(&mut tx).await?;
    let rest = page.rest(&all, |workspace| workspace.name.clone())?;
    let (shown, last) = page_of(rest, page.limit);
    let mut overviews = Vec::with_capacity(shown.len());
    for workspace in shown {
        overviews.push(Overview::read(app, &mut tx, workspace).await?);
    }
    let headers =
        ["NAME", "KEYS", "STORAGES", "SEGMENTS", "CAMPAIGNS", "CATALOGS", "APPLIED", "CHANNELS"];
    table::print(page.json, "workspaces", headers, &overviews, row)?;
    print_next(last.map(|workspace| workspace.name.clone()));
    Ok(())
}

fn row(workspace: &Overview) -> [Cell; 8] {
    let channels: Vec<&str> = workspace.channels.keys().copied().collect();
    [
        text(&workspace.name),
        number(workspace.keys.len()),
        number(workspace.storages.len()),
        number(workspace.segments),
        number(workspace.campaigns),
        number(workspace.catalogs),
        optional(workspace.applied_at.as_deref().map(time_in)),
        optional(Some(text(channels.join(", ")))),
    ]
}

async fn show(app: &App, name: &str, is_json: bool) -> CommandResult {
    let mut tx = app.store.snapshot().await?;
    let workspace = only_or_named(&mut tx, Some(name)).await?;
    let id = workspace.id;
    let overview = Overview::read(app, &mut tx, &workspace).await?;
    drop(tx);
    let sample = sample_segment(&app.exports, id, segments::all_users_id(id), 0).await;
    let users = sample.map_err(|error| error.message().into_owned())?.users;
    if is_json {
        let mut object = serde_json::to_value(&overview)?;
        object["users"] = serde_json::to_value(users)?;
        println!("{object}");
    } else {
        let note = if users.exact { "counted" } else { "estimated" };
        let users = text(format!("{}  ({note})", grouped(users.estimated)));
        print!("{}", table::fields(details(&overview, users)));
    }
    Ok(())
}

fn details(workspace: &Overview, users: Cell) -> [(&'static str, Cell); 12] {
    let channels = workspace.channels.iter().map(|(path, to)| format!("{path} ({to})"));
    let storages = workspace.storages.iter().map(|storage| {
        let default = if storage.is_default { ", default" } else { "" };
        format!("{} ({}{default})", storage.name, storage.location)
    });
    let listed = |texts: Vec<String>| optional(Some(text(texts.join(", "))));
    [
        ("name", text(&workspace.name)),
        ("currency", text(&workspace.currency)),
        ("time zone", text(&workspace.time_zone)),
        ("users", users),
        ("segments", number(workspace.segments)),
        ("campaigns", number(workspace.campaigns)),
        ("catalogs", number(workspace.catalogs)),
        ("keys", listed(workspace.keys.clone())),
        ("channels", listed(channels.collect())),
        ("storages", listed(storages.collect())),
        ("applied", optional(workspace.applied_at.as_deref().map(time_in))),
        ("applied by", optional(workspace.applied_by.as_ref().map(text))),
    ]
}
