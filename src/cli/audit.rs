//! `longshore audit`; and how commands record their changes.

use serde_json::Value;
use uuid::Uuid;

use super::ids::audit_id;
use super::table::{Cell, optional, text, time};
use super::times::{Moment, moment};
use super::{CommandResult, PageArguments, find_named, retry};
use crate::app::App;
use crate::config::Config;
use runtime::audit::{self, Change, Filter, Record};
use store::Tx;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  longshore audit list --action export. --since 7d
  longshore audit list --since 2026-11-01T00:00Z --limit 1000000 --json > audit.jsonl")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List changes, the latest first: who changed what, when, and from where
    ///
    /// Changes by API keys, SCIM tokens, commands and people in the console. Entries are kept for
    /// 365 days. They have no secrets.
    #[command(after_help = "Examples:
  longshore audit list --workspace acme --actor key:integrator
  longshore audit list --action key. --since 30d --json")]
    List(List),
}

#[derive(clap::Args)]
struct List {
    /// Only changes in this workspace
    #[arg(long, value_name = "NAME")]
    workspace: Option<String>,
    /// Only changes by this actor, such as key:integrator, command:ann or dashboard:a@acme.example
    #[arg(long)]
    actor: Option<String>,
    /// Only this action, or those that begin like this, such as export.
    #[arg(long)]
    action: Option<String>,
    /// Only changes that are at most this old, such as 2h or 7d, or since this time, such as
    /// 2026-11-25T00:00Z
    #[arg(long, value_name = "AGE|TIME", value_parser = moment)]
    since: Option<Moment>,
    #[command(flatten)]
    page: PageArguments,
}

pub async fn run(config: Config, arguments: Arguments) -> CommandResult {
    match arguments.command {
        Command::List(arguments) => list(config, arguments).await,
    }
}

async fn list(config: Config, arguments: List) -> CommandResult {
    let List { workspace, actor, action, since, page } = arguments;
    let after = page.after(audit_id)?;
    let app = super::open(config).await?;
    let mut tx = app.store.snapshot().await?;
    let now = app.database_now(&mut tx).await?;
    let workspace = find_named(&mut tx, workspace.as_deref()).await?;
    let before = match after {
        Some(id) => Some(audit::position(&mut tx, id).await?.ok_or_else(|| unknown(id))?),
        None => None,
    };
    let filter = Filter {
        workspace_id: workspace.map(|found| found.id),
        actor,
        action,
        since: since.map(|since| since.at(now)),
        before,
        limit: page.rows_to_read().into(),
    };
    let found = audit::list(&mut tx, &filter).await?;
    tx.commit().await?;
    let headers = ["ID", "TIME", "ACTOR", "ACTION", "OBJECT", "WORKSPACE", "FROM", "DETAILS"];
    page.print_page("changes", headers, &found, |record| record.id.to_string(), row)
}

fn unknown(id: Uuid) -> String {
    format!("--after: no change has the id {id}: see `longshore audit list`")
}

fn row(record: &Record) -> [Cell; 8] {
    let has_details = record.details.as_object().is_some_and(|details| !details.is_empty());
    [
        text(record.id),
        time(record.at),
        text(&record.actor),
        text(&record.action),
        optional(Some(text(&record.object))),
        optional(record.workspace.as_ref().map(text)),
        optional(record.address.as_ref().map(text)),
        optional(has_details.then(|| text(&record.details))),
    ]
}

/// Records a change by this command, in the change's transaction. `details` is a JSON object
/// without secrets and without data of users.
pub async fn record(
    tx: &mut Tx,
    app: &App,
    workspace: Option<i32>,
    change: (&'static str, impl Into<String>),
    details: Value,
) -> CommandResult {
    Ok(audit::record_command(tx, app.clock.now_ms(), workspace, change, details).await?)
}

/// [`record`] for a change that its domain describes; none if nothing changed.
pub async fn record_change(
    tx: &mut Tx,
    app: &App,
    workspace: Option<i32>,
    change: impl Into<Option<Change>>,
) -> CommandResult {
    let Some(Change { action, object, details }) = change.into() else { return Ok(()) };
    record(tx, app, workspace, (action, object), details).await
}

/// [`record`], after a change that has a transaction of its own.
pub async fn record_done(
    app: &App,
    workspace: Option<i32>,
    change: (&'static str, impl Into<String>),
    details: Value,
) -> CommandResult {
    let (action, object) = (change.0, change.1.into());
    retry::while_busy(async || {
        let mut tx = app.store.write().await?;
        record(&mut tx, app, workspace, (action, &*object), details.clone()).await?;
        Ok(tx.commit().await?)
    })
    .await
}
