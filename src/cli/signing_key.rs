//! `longshore signing-key`.

use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use super::audit;
use super::confirm::Consent;
use super::table::{Cell, optional, state, text, time, unbroken};
use super::times::age;
use super::{CommandResult, PageArguments, WorkspaceArgument, find_named, retry};
use crate::app::App;
use crate::config::Config;
use crate::workspaces::signing::{self, SigningKeyInfo};
use crate::workspaces::{self, Workspace};
use kit::clock::{format_seconds, serialize_optional_time, serialize_time};

#[derive(clap::Args)]
#[command(after_help = "\
Example:
  $ longshore signing-key list --workspace acme
  $ longshore signing-key rotate --workspace acme")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List the public keys: fingerprint, created, from when to when they sign, the line for ssh-keygen
    #[command(after_help = "Example:\n  $ longshore signing-key list --workspace acme --json")]
    List(List),
    /// Announce the next key, and print its line for ssh-keygen; it signs after a notice of a week
    ///
    /// Everyone who pinned the keys adds the line before the key signs. If the next key is already
    /// announced, the command prints its line again, and can only bring its start forward. The
    /// retired key stays in the list, so exports that it signed can still be verified. Asks on a
    /// terminal.
    #[command(after_help = "\
Examples:
  $ longshore signing-key rotate --workspace acme
  $ longshore signing-key rotate --workspace acme --in 30d
  $ longshore signing-key rotate --workspace acme --now")]
    Rotate(Rotate),
}

#[derive(clap::Args)]
struct List {
    /// Only the keys of this workspace
    #[arg(long, value_name = "NAME")]
    workspace: Option<String>,
    #[command(flatten)]
    page: PageArguments,
}

#[derive(clap::Args)]
struct Rotate {
    #[command(flatten)]
    workspace: WorkspaceArgument,
    /// Notice after which the next key signs, from 10s to 365d
    #[arg(long = "in", value_name = "TIME", value_parser = notice, default_value = "7d")]
    notice: i64,
    /// Sign with the next key as soon as all gateways list it, after ten seconds: pinned jobs fail
    /// until they have it
    #[arg(long, conflicts_with = "notice")]
    now: bool,
    #[command(flatten)]
    consent: Consent,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

fn notice(text: &str) -> Result<i64, String> {
    let notice = age(text)?;
    if (signing::MIN_NOTICE..=signing::MAX_NOTICE).contains(&notice) {
        return Ok(notice);
    }
    Err("expected a time from 10s to 365d".to_owned())
}

/// A key of a workspace.
#[derive(Serialize)]
struct ListedKey {
    workspace: String,
    id: Uuid,
    public_key: String,
    fingerprint: String,
    state: &'static str,
    /// The line for ssh-keygen.
    allowed_signer: String,
    #[serde(serialize_with = "serialize_time")]
    created_at: i64,
    #[serde(serialize_with = "serialize_time")]
    signs_from: i64,
    #[serde(serialize_with = "serialize_optional_time")]
    retired_at: Option<i64>,
}

impl ListedKey {
    fn new(app: &App, workspace: &str, key: &SigningKeyInfo, now: i64) -> Self {
        Self {
            workspace: workspace.to_owned(),
            id: key.id,
            public_key: key.public_key.to_string(),
            fingerprint: key.public_key.fingerprint().to_string(),
            state: key.state(now),
            allowed_signer: key.allowed_signer(workspace, &app.config).to_string(),
            created_at: key.created_at,
            signs_from: key.signs_from,
            retired_at: key.retired_at,
        }
    }
}

pub async fn run(config: Config, arguments: Arguments) -> CommandResult {
    let app = super::open(config).await?;
    match arguments.command {
        Command::List(arguments) => list(&app, arguments).await,
        Command::Rotate(arguments) => rotate(&app, arguments).await,
    }
}

async fn list(app: &App, arguments: List) -> CommandResult {
    let mut tx = app.store.snapshot().await?;
    let listed = match find_named(&mut tx, arguments.workspace.as_deref()).await? {
        Some(workspace) => vec![workspace],
        None => workspaces::list(&mut tx).await?,
    };
    let now = app.database_now(&mut tx).await?;
    let mut keys = Vec::new();
    for Workspace { id, name, .. } in listed {
        let found = signing::list(&mut tx, id).await?;
        keys.extend(found.iter().map(|key| ListedKey::new(app, &name, key, now)));
    }
    tx.commit().await?;
    let headers = ["ID", "WORKSPACE", "STATE", "SIGNS FROM", "RETIRED", "FINGERPRINT", "LINE"];
    arguments.page.print("signing keys", headers, &keys, |key| key.id.to_string(), row)
}

async fn rotate(app: &App, arguments: Rotate) -> CommandResult {
    let Rotate { workspace, notice, now: is_now, consent, json } = arguments;
    let notice = if is_now { signing::MIN_NOTICE } else { notice };
    if consent.needs_effects() {
        let mut tx = app.store.snapshot().await?;
        let Workspace { id, name, .. } = workspace.find(&mut tx).await?;
        let now = app.database_now(&mut tx).await?;
        let announced = signing::list(&mut tx, id).await?.into_iter().map(|key| key.signs_from);
        let announced = announced.filter(|from| *from > now).min();
        drop(tx);
        let which = if announced.is_some() { "the announced" } else { "a new" };
        let from = announced.map_or(now + notice, |announced| announced.min(now + notice));
        let effects = [format!(
            "from {} on, {which} key signs the exports of {name}: until then, everyone who pinned \
             the keys needs its line",
            format_seconds(from)
        )];
        if !consent.is_given(json, &effects)? {
            return Ok(());
        }
    }
    let rotated = retry::while_busy(async || {
        let mut tx = app.store.write().await?;
        let workspace = workspace.find(&mut tx).await?;
        signing::lock(&mut tx, workspace.id).await?;
        let now = app.database_now(&mut tx).await?;
        let secrets = &app.secrets;
        let key = signing::rotate(&mut tx, secrets, workspace.id, now, now + notice).await?;
        let mut keys = signing::list(&mut tx, workspace.id).await?;
        keys.retain(|listed| listed.public_key == key);
        let key = keys.pop().ok_or("the new key is not in the list of keys")?;
        let key = ListedKey::new(app, &workspace.name, &key, now);
        let details = json!({ "after": {
            "fingerprint": key.fingerprint, "signs_from": format_seconds(key.signs_from)
        } });
        let change = ("signing_key.rotate", &*workspace.name);
        audit::record(&mut tx, app, Some(workspace.id), change, details).await?;
        tx.commit().await?;
        Ok(key)
    });
    let announced = rotated.await?;
    if json {
        println!("{}", serde_json::to_string(&announced)?);
        return Ok(());
    }
    let name = &announced.workspace;
    let from = format_seconds(announced.signs_from);
    eprintln!(
        "from {from} on, another key signs the exports of {name}; its line for allowed_signers \
         files is:"
    );
    println!("{}", announced.allowed_signer);
    eprintln!(
        "give the line to everyone who pinned the keys, before that time. In their files, the line \
         of the key that retires then gets valid-before: GET \
         /.well-known/longshore/{name}/allowed_signers has all lines, within five seconds"
    );
    Ok(())
}

fn row(key: &ListedKey) -> [Cell; 7] {
    [
        text(key.id),
        text(&key.workspace),
        state(key.state),
        time(key.signs_from),
        optional(key.retired_at.map(time)),
        text(&key.fingerprint),
        unbroken(&key.allowed_signer),
    ]
}
