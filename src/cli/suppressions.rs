//! `longshore suppressions`.

use std::io::{BufWriter, stdout};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use super::audit;
use super::table::{self, text, time};
use super::{CommandResult, WorkspaceArgument, retry};
use crate::app::App;
use crate::config::Config;
use crate::users::profile::check;
use crate::users::suppressions::{self, Address, EMAIL, KnownState};
use crate::workspaces;
use kit::clock::{serialize_optional_time, serialize_time};
use kit::phone;
use kit::words::grouped;
use store::claims;
use tracking::opt_outs;
use tracking::saved_suppressions as saved;

/// Show and change which addresses get no messages: opt-outs, complaints and bounces.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  longshore suppressions count
  longshore suppressions check ann@example.com
  longshore suppressions add ann@example.com
  longshore suppressions lift ann@example.com")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Count the addresses that get no messages, by scope and reason
    #[command(after_help = "Example:\n  longshore suppressions count --workspace acme --json")]
    Count {
        #[command(flatten)]
        workspace: WorkspaceArgument,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what is known about an address
    #[command(after_help = "Examples:
  longshore suppressions check ann@example.com
  longshore suppressions check +15550100 --json")]
    Check {
        /// The email address or phone number
        #[arg(value_name = "ADDRESS", value_parser = parse_address)]
        address: Address<'static>,
        #[command(flatten)]
        workspace: WorkspaceArgument,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Unsubscribe addresses, whichever users have them, now or later
    #[command(after_help = "Examples:
  longshore suppressions add ann@example.com
  longshore suppressions add +15550100 --group 7d0c6f5e-4b1a-4e0f-9a55-2f6d1c3b8a90")]
    Add(Edit),
    /// End the opt-outs, complaints and bounces of addresses; do this only if the person asked for it
    #[command(after_help = "Examples:
  longshore suppressions lift ann@example.com
  longshore suppressions lift +15550100 --group 7d0c6f5e-4b1a-4e0f-9a55-2f6d1c3b8a90")]
    Lift(Edit),
    /// Print all suppressions, for `suppressions restore`
    ///
    /// The output has hashes of addresses and the keys of the hashes, with which guesses can be
    /// tested: keep it as a secret.
    #[command(
        after_help = "Example:\n  (umask 077; longshore suppressions save > suppressions.jsonl)"
    )]
    Save {
        /// Only those of this workspace
        #[arg(long, value_name = "NAME")]
        workspace: Option<String>,
    },
    /// Add the suppressions of a file to those of the database, after the restore of a backup
    ///
    /// Of two decisions about an address, the later one holds. You can repeat it.
    #[command(after_help = "Example:\n  longshore suppressions restore suppressions.jsonl")]
    Restore {
        /// The file from `suppressions save`; - reads the standard input, which is not checked as a
        /// whole before it is applied
        file: PathBuf,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(clap::Args)]
struct Edit {
    /// Email addresses and phone numbers
    #[arg(value_name = "ADDRESS", required = true, value_parser = parse_address)]
    addresses: Vec<Address<'static>>,
    /// The subscription group of phone numbers
    #[arg(long, value_name = "ID")]
    group: Option<Uuid>,
    #[command(flatten)]
    workspace: WorkspaceArgument,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

fn parse_address(text: &str) -> Result<Address<'static>, String> {
    if text.contains('@') {
        check::email(text).map_err(|why| why.to_string())?;
        return Ok(Address::Email(text.to_owned().into()));
    }
    let number = phone::e164(text).ok_or("expected an email address, or + and 7 to 15 digits")?;
    Ok(Address::Phone(number.into()))
}

pub async fn run(config: Config, arguments: Arguments) -> CommandResult {
    let app = super::open(config).await?;
    match arguments.command {
        Command::Count { workspace, json } => counts(&app, &workspace, json).await,
        Command::Check { address, workspace, json } => {
            check_address(&app, &workspace, &address, json).await
        }
        Command::Add(edit) => add(&app, &edit).await,
        Command::Lift(edit) => lift(&app, &edit).await,
        Command::Save { workspace } => save(&app, workspace.as_deref()).await,
        Command::Restore { file, json } => restore(&app, &file, json).await,
    }
}

async fn save(app: &App, workspace: Option<&str>) -> CommandResult {
    let mut tx = app.store.snapshot().await?;
    let workspaces = match super::find_named(&mut tx, workspace).await? {
        Some(workspace) => vec![workspace],
        None => workspaces::list(&mut tx).await?,
    };
    tx.commit().await?;
    let workspaces: Vec<_> = workspaces.into_iter().map(|found| (found.id, found.name)).collect();
    Ok(saved::save(&app.store, &workspaces, BufWriter::new(stdout())).await?)
}

async fn restore(app: &App, file: &Path, json: bool) -> CommandResult {
    let restored = saved::restore_file(&app.store, app.clock.now_ms(), file).await;
    let restored = restored.map_err(|error| format!("{}: {error}", file.display()))?;
    if json {
        println!("{}", serde_json::to_string(&restored)?);
    } else {
        println!("{} suppressions are known again", grouped(restored.suppressions));
    }
    Ok(())
}

async fn counts(app: &App, workspace: &WorkspaceArgument, json: bool) -> CommandResult {
    let mut tx = app.store.snapshot().await?;
    let workspace = workspace.find(&mut tx).await?;
    let counts = suppressions::counts(&mut tx, workspace.id).await?;
    let headers = ["SCOPE", "REASON", "ADDRESSES"];
    table::print(json, "suppressed addresses", headers, &counts, |count| {
        [text(&count.scope), text(count.reason.name()), table::number(count.addresses)]
    })
}

/// What is known about an address for one scope.
#[derive(Serialize)]
struct ShownState {
    scope: String,
    reason: &'static str,
    state: String,
    #[serde(serialize_with = "serialize_time")]
    at: i64,
    #[serde(serialize_with = "serialize_optional_time", skip_serializing_if = "Option::is_none")]
    until: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dispatch_id: Option<String>,
}

async fn check_address(
    app: &App,
    workspace: &WorkspaceArgument,
    address: &Address<'_>,
    json: bool,
) -> CommandResult {
    let mut tx = app.store.snapshot().await?;
    let workspace = workspace.find(&mut tx).await?;
    let known = suppressions::check(&mut tx, workspace.id, address).await?;
    let suppressed = known.iter().any(KnownState::is_suppressed);
    let shown = known.into_iter().map(|known| ShownState {
        scope: known.scope,
        reason: known.reason.name(),
        state: known.state,
        at: known.at,
        until: known.until,
        dispatch_id: known.dispatch_id.map(|id| id.simple().to_string()),
    });
    let shown: Vec<ShownState> = shown.collect();
    if json {
        println!("{}", json!({ "suppressed": suppressed, "states": shown }));
        return Ok(());
    }
    let headers = ["SCOPE", "REASON", "STATE", "AT", "UNTIL"];
    table::print(false, "decisions about this address", headers, &shown, |state| {
        let until = table::optional(state.until.map(time));
        [text(&state.scope), text(state.reason), text(&state.state), time(state.at), until]
    })
}

/// The addresses with their scopes: emails, and numbers in the group of the command.
fn addresses(edit: &Edit) -> CommandResult<Vec<(Address<'static>, String)>> {
    let group = edit.group.map(|group| group.to_string());
    let with_scope = |address: &Address<'static>| {
        let scope = match address {
            Address::Phone(_) => group.clone()?,
            Address::Email(_) | Address::Hashed(_) => EMAIL.to_owned(),
        };
        Some((address.clone(), scope))
    };
    let addresses = edit.addresses.iter().map(with_scope).collect::<Option<Vec<_>>>();
    addresses.ok_or_else(|| {
        "--group is required with phone numbers: the id of their subscription group, see \
         `longshore workspaces show`"
            .into()
    })
}

async fn add(app: &App, edit: &Edit) -> CommandResult {
    let addresses = addresses(edit)?;
    let add = async || {
        let mut tx = app.store.write().await?;
        let workspace = edit.workspace.find(&mut tx).await?.id;
        let now = claims::now(&mut tx).await?;
        suppressions::decide(&mut tx, workspace, &opt_outs(&addresses, now)).await?;
        let details = json!({ "addresses": addresses.len() });
        audit::record(&mut tx, app, Some(workspace), ("suppressions.add", ""), details).await?;
        tx.commit().await?;
        Ok(addresses.len() as u64)
    };
    let added = retry::while_busy(add).await?;
    report(edit.json, "added", added, "suppressed");
    Ok(())
}

async fn lift(app: &App, edit: &Edit) -> CommandResult {
    let addresses = addresses(edit)?;
    let lift = async || {
        let mut tx = app.store.write().await?;
        let workspace = edit.workspace.find(&mut tx).await?.id;
        let now = claims::now(&mut tx).await?;
        let lifted = suppressions::lift(&mut tx, workspace, &addresses, now).await?;
        let details = json!({ "addresses": addresses.len(), "lifted": lifted });
        audit::record(&mut tx, app, Some(workspace), ("suppressions.lift", ""), details).await?;
        tx.commit().await?;
        Ok(lifted)
    };
    let lifted = retry::while_busy(lift).await?;
    report(edit.json, "lifted", lifted, "no longer suppressed");
    Ok(())
}

fn report(json: bool, name: &str, addresses: u64, in_words: &str) {
    if json {
        println!("{}", json!({ name: addresses }));
    } else {
        let noun = if addresses == 1 { "address" } else { "addresses" };
        println!("{} {noun} {in_words}", grouped(addresses));
    }
}
