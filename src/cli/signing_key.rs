//! `longshore signing-key`.

use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use super::audit;
use super::confirm::Consent;
use super::table::{Cell, optional, state, text, time, unbroken};
use super::{CommandResult, PageArguments, WorkspaceArgument, find_named, retry};
use crate::app::App;
use crate::config::Config;
use crate::workspaces::signing::{self, SigningKeyInfo};
use crate::workspaces::{self, Workspace};
use kit::clock::{serialize_optional_time, serialize_time};

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
    /// List the public keys: fingerprint, created, retired, the line for ssh-keygen
    #[command(after_help = "Example:\n  $ longshore signing-key list --workspace acme --json")]
    List(List),
    /// Retire the active key and create a new one, and print the new key's line for ssh-keygen
    ///
    /// The retired key stays in the list, so exports that it signed can still be verified. Asks on
    /// a terminal.
    #[command(after_help = "Example:\n  $ longshore signing-key rotate --workspace acme")]
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
    #[command(flatten)]
    consent: Consent,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// A key of a workspace.
#[derive(Serialize)]
struct ListedKey {
    workspace: String,
    id: Uuid,
    public_key: String,
    fingerprint: String,
    /// The line for ssh-keygen.
    allowed_signer: String,
    #[serde(serialize_with = "serialize_time")]
    created_at: i64,
    #[serde(serialize_with = "serialize_optional_time")]
    retired_at: Option<i64>,
}

impl ListedKey {
    fn new(workspace: &str, key: &SigningKeyInfo) -> Self {
        Self {
            workspace: workspace.to_owned(),
            id: key.id,
            public_key: key.public_key.to_string(),
            fingerprint: key.public_key.fingerprint().to_string(),
            allowed_signer: key.allowed_signer(workspace).to_string(),
            created_at: key.created_at,
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
    let mut keys = Vec::new();
    for Workspace { id, name, .. } in listed {
        let found = signing::list(&mut tx, id).await?;
        keys.extend(found.iter().map(|key| ListedKey::new(&name, key)));
    }
    tx.commit().await?;
    let headers = ["ID", "WORKSPACE", "STATE", "CREATED", "RETIRED", "FINGERPRINT", "LINE"];
    arguments.page.print("signing keys", headers, &keys, |key| key.id.to_string(), row)
}

async fn rotate(app: &App, Rotate { workspace, consent, json }: Rotate) -> CommandResult {
    if consent.needs_effects() {
        let name = workspace.find(&mut app.store.snapshot().await?).await?.name;
        let effects = [format!(
            "retires the active key of {name}, and a new one signs its exports: everyone who pinned \
             the keys needs the new key's line"
        )];
        if !consent.is_given(json, &effects)? {
            return Ok(());
        }
    }
    let rotated = retry::while_busy(async || {
        let mut tx = app.store.write().await?;
        let workspace = workspace.find(&mut tx).await?;
        let now = app.database_now(&mut tx).await?;
        let key = signing::rotate(&mut tx, &app.secrets, workspace.id, now).await?.public_key();
        let mut keys = signing::list(&mut tx, workspace.id).await?;
        let details = json!({ "after": { "fingerprint": key.fingerprint().to_string() } });
        let change = ("signing_key.rotate", &*workspace.name);
        audit::record(&mut tx, app, Some(workspace.id), change, details).await?;
        tx.commit().await?;
        keys.retain(|listed| listed.public_key == key);
        let key = keys.pop().ok_or("the new key is not in the list of keys")?;
        Ok(ListedKey::new(&workspace.name, &key))
    });
    let created = rotated.await?;
    if json {
        println!("{}", serde_json::to_string(&created)?);
        return Ok(());
    }
    let name = &created.workspace;
    eprintln!(
        "exports of {name} are now signed with a new key; its line for allowed_signers files is:"
    );
    println!("{}", created.allowed_signer);
    eprintln!(
        "give the line to everyone who pinned the keys. In their files, the line of the retired \
         key gets valid-before: GET /.well-known/longshore/{name}/allowed_signers has all lines, \
         within five seconds"
    );
    Ok(())
}

fn row(key: &ListedKey) -> [Cell; 7] {
    [
        text(key.id),
        text(&key.workspace),
        state(if key.retired_at.is_none() { "active" } else { "retired" }),
        time(key.created_at),
        optional(key.retired_at.map(time)),
        text(&key.fingerprint),
        unbroken(&key.allowed_signer),
    ]
}
