//! `longshore signing-key`.

use serde_json::{Value, json};

use super::{CommandResult, WorkspaceArgument, find_named, print};
use crate::app::App;
use crate::config::Config;
use crate::workspaces::signing::{self, SigningKeyInfo};
use crate::workspaces::{self, Workspace};

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
    /// The retired key stays in the list, so exports that it signed can still be verified.
    #[command(after_help = "Example:\n  $ longshore signing-key rotate --workspace acme")]
    Rotate(Rotate),
}

#[derive(clap::Args)]
struct List {
    /// Only the keys of this workspace
    #[arg(long, value_name = "NAME")]
    workspace: Option<String>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct Rotate {
    #[command(flatten)]
    workspace: WorkspaceArgument,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// A key and the name of its workspace.
struct ListedKey {
    workspace: String,
    key: SigningKeyInfo,
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
        let found = signing::list(&mut tx, id).await?.into_iter();
        keys.extend(found.map(|key| ListedKey { workspace: name.clone(), key }));
    }
    tx.commit().await?;
    print::credentials(arguments.json, &keys, "signing keys", as_json, as_text);
    Ok(())
}

async fn rotate(app: &App, arguments: Rotate) -> CommandResult {
    let mut tx = app.store.write().await?;
    let workspace = arguments.workspace.find(&mut tx).await?;
    let now = app.clock.now_ms();
    let key = signing::rotate(&mut tx, &app.secrets, workspace.id, now).await?.public_key();
    let mut keys = signing::list(&mut tx, workspace.id).await?;
    tx.commit().await?;
    keys.retain(|listed| listed.public_key == key);
    let key = keys.pop().ok_or("the new key is not in the list of keys")?;
    let created = ListedKey { workspace: workspace.name, key };
    if arguments.json {
        println!("{}", as_json(&created));
        return Ok(());
    }
    let name = &created.workspace;
    eprintln!(
        "exports of {name} are now signed with a new key; its line for allowed_signers files is:"
    );
    println!("{}", created.key.allowed_signer(name));
    eprintln!(
        "give the line to everyone who pinned the keys. In their files, the line of the retired \
         key gets valid-before: GET /.well-known/longshore/{name}/allowed_signers has all lines, \
         within five seconds"
    );
    Ok(())
}

fn as_text(listed: &ListedKey) -> String {
    let ListedKey { workspace, key } = listed;
    let retired = print::instant(key.retired_at).unwrap_or_else(|| "never".into());
    format!(
        "{workspace} / {}\n  id           {}\n  created      {}\n  retired      {retired}\n  \
         line         {}\n",
        key.public_key.fingerprint(),
        key.id,
        print::instant(Some(key.created_at)).unwrap_or_default(),
        key.allowed_signer(workspace),
    )
}

fn as_json(listed: &ListedKey) -> Value {
    let ListedKey { workspace, key } = listed;
    json!({
        "workspace": workspace,
        "id": key.id,
        "public_key": key.public_key.to_string(),
        "fingerprint": key.public_key.fingerprint(),
        "allowed_signer": key.allowed_signer(workspace).to_string(),
        "created_at": print::instant(Some(key.created_at)),
        "retired_at": print::instant(key.retired_at),
    })
}
