//! `longshore users`: finds, shows or erases users.

use std::collections::HashSet;

use super::confirm::Consent;
use super::print::Results;
use super::{CommandResult, WorkspaceArgument, print, retry, table};
use crate::app::App;
use crate::config::Config;
use crate::erase;
use crate::exports::held::{self, HeldDownload};
use crate::users::find::{self, FindError};
use crate::users::record;
use crate::users::search::{self, FoundUser};
use kit::words::count;
use serde_json::json;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  longshore users find \"+49 151 12345678\"
  longshore users show ann@acme.example
  longshore users delete customer-17 customer-18")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Find users by an identifier of any kind
    ///
    /// An external_id, a service_id (also of a user who was merged), an alias as LABEL:NAME, an
    /// email address or a phone number. Exits with 1 if there is no such user.
    #[command(after_help = "Examples:
  longshore users find ann@acme.example
  longshore users find \"+49 151 12345678\"
  longshore users find crm:4711 --json")]
    Find {
        /// The identifier
        #[arg(value_name = "ID")]
        id: String,
        #[command(flatten)]
        workspace: WorkspaceArgument,
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Show one user's stored record
    #[command(after_help = "Example:\n  longshore users show ann@acme.example")]
    Show {
        /// An external_id, a service_id, an alias as LABEL:NAME, an email or a phone number
        #[arg(value_name = "ID")]
        id: String,
        #[command(flatten)]
        workspace: WorkspaceArgument,
        /// Print one line of JSON, in the format of `import`
        #[arg(long)]
        json: bool,
    },
    /// Erase users with all their data
    ///
    /// Names the downloads of exports that may still have a user, and until when. Asks on a
    /// terminal. The erasure cannot be undone.
    #[command(after_help = "Examples:
  longshore users delete customer-17 customer-18 --dry-run
  longshore users delete customer-17 customer-18")]
    Delete {
        /// External_ids, service_ids or emails
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
        #[command(flatten)]
        workspace: WorkspaceArgument,
        #[command(flatten)]
        consent: Consent,
        /// Print one JSON object: the erased users, and the others with the reasons
        #[arg(long)]
        json: bool,
    },
}

pub async fn run(config: Config, arguments: Arguments) -> CommandResult {
    let app = super::open(config).await?;
    match arguments.command {
        Command::Find { id, workspace, json } => find(&app, &workspace, &id, json).await,
        Command::Show { id, workspace, json } => show(&app, &workspace, &id, json).await,
        Command::Delete { mut ids, workspace, consent, json } => {
            let mut seen = HashSet::new();
            ids.retain(|id| seen.insert(id.clone()));
            if consent.needs_effects() && !confirm(&app, &workspace, &ids, &consent, json).await? {
                return Ok(());
            }
            delete(&app, &workspace, &ids, json).await
        }
    }
}

async fn find(app: &App, workspace: &WorkspaceArgument, id: &str, json: bool) -> CommandResult {
    let mut tx = app.store.snapshot().await?;
    let workspace = workspace.find(&mut tx).await?;
    let found = search::search(&mut tx, workspace.id, id).await?;
    if found.is_empty() {
        let expected = "an external_id, a service_id, an alias as LABEL:NAME, an email address or \
                        a phone number";
        return Err(format!(
            "no user of workspace {} has the identifier {id:?} ({expected})",
            workspace.name
        )
        .into());
    }
    let headers = ["SERVICE ID", "FOUND BY", "EXTERNAL ID", "EMAIL"];
    table::print(json, "users", headers, &found, |user: &FoundUser| {
        [
            table::text(user.service_id),
            table::text(user.found_by.name()),
            table::optional(user.external_id.as_deref().map(table::text)),
            table::optional(user.email.as_deref().map(table::text)),
        ]
    })
}

async fn show(app: &App, workspace: &WorkspaceArgument, id: &str, json: bool) -> CommandResult {
    let mut tx = app.store.snapshot().await?;
    let workspace = workspace.find(&mut tx).await?;
    let service_id = search::identify(&mut tx, workspace.id, id).await?;
    drop(tx);
    let shown = find::show(&app.store, &app.clock, &workspace, service_id).await?;
    println!("{}", if json { shown } else { table::printable(&record::pretty(&shown)) });
    Ok(())
}

/// Whether to erase the users, which it shows. A dry run fails if a user cannot be identified. If
/// none can, there is nothing to ask.
async fn confirm(
    app: &App,
    workspace: &WorkspaceArgument,
    ids: &[String],
    consent: &Consent,
    json: bool,
) -> CommandResult<bool> {
    let mut tx = app.store.snapshot().await?;
    let workspace = workspace.find(&mut tx).await?;
    let (mut effects, mut failed) = (Vec::new(), 0);
    for id in ids {
        match find::identify(&mut tx, workspace.id, id).await {
            Ok(service_id) => {
                effects.push(format!(
                    "erases {id} ({service_id}) of workspace {}: the profile, activity, messages \
                     and cards",
                    workspace.name
                ));
                let now = app.database_now(&mut tx).await?;
                let ids = held::ids_of(&mut tx, workspace.id, service_id).await?;
                let downloads = held::downloads_with(&mut tx, workspace.id, &ids, now).await?;
                effects.extend(downloads.iter().map(|download| kept(app, download)));
            }
            Err(FindError::Store(error)) => return Err(error.into()),
            Err(error) => {
                failed += 1;
                effects.push(format!("does not erase {id}: {error}"));
            }
        }
    }
    drop(tx);
    if failed == ids.len() && !consent.is_dry_run() {
        return Ok(true);
    }
    if ids.len() > 1 && !json {
        let users = count((ids.len() - failed) as u64, "user");
        effects.insert(0, format!("erases {users} permanently:"));
    }
    let is_given = consent.is_given(json, &effects)?;
    if !is_given {
        print::all_done(failed, ids.len(), "would not be erased")?;
    }
    Ok(is_given)
}

/// That a download may still have an erased user.
fn kept(app: &App, download: &HeldDownload) -> String {
    let until = download.until(app.config.exports.download_minutes);
    format!("the download of {} may still have the user, {until}", download.object_prefix)
}

async fn delete(
    app: &App,
    workspace: &WorkspaceArgument,
    ids: &[String],
    json: bool,
) -> CommandResult {
    let workspace = workspace.find(&mut app.store.snapshot().await?).await?;
    let mut results = Results::new(json);
    let mut downloads = Vec::new();
    for id in ids {
        let mut tx = app.store.snapshot().await?;
        let known = match find::identify(&mut tx, workspace.id, id).await {
            Ok(user) => held::ids_of(&mut tx, workspace.id, user).await?,
            Err(_) => Vec::new(),
        };
        drop(tx);
        let erase = async || Ok(erase::erase(&app.store, &workspace, id).await?);
        match retry::while_busy(erase).await {
            Ok(service_id) => {
                let line = format!("erased {id} ({service_id})");
                results.done(&line, service_id.to_string().into());
                // Now, because an export may have read the user until the erasure.
                let mut tx = app.store.snapshot().await?;
                let now = app.database_now(&mut tx).await?;
                for download in held::downloads_with(&mut tx, workspace.id, &known, now).await? {
                    if !json {
                        eprintln!("{}", kept(app, &download));
                    }
                    downloads.push(json!({ "service_id": service_id, "download": download }));
                }
            }
            Err(error) => results.failed(&format!("not erased: {error}"), id, &error),
        }
    }
    results.end_with("erased", "were not erased", Some(("downloads", downloads.into())))
}
