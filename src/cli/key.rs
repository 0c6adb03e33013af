//! `longshore key`.

use std::path::{Path, PathBuf};

use ipnet::IpNet;
use serde_json::json;

use super::{CommandResult, WorkspaceArgument, find_named, print};
use crate::app::App;
use crate::config::Config;
use crate::config::network::network;
use crate::config::network::networks;
use crate::credentials::revoked::{self, RevokedSecret};
use crate::workspaces::keys::{self, KeyInfo, NewKey};

#[derive(clap::Args)]
#[command(after_help = "\
Example:
  $ longshore key create --name integrator --permission users.export.global_control_group
  lsk_…
  $ longshore key list
  $ longshore key revoke integrator")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Create a key and print its secret, which is not shown again
    #[command(after_help = "\
Example:
  $ longshore key create --workspace acme --name integrator \\
        --permission users.track --permission users.export.global_control_group \\
        --allow 203.0.113.0/24")]
    Create(Create),
    /// List keys: name, permissions, created, last used, revoked
    #[command(after_help = "Example:\n  $ longshore key list --workspace acme --json")]
    List(List),
    /// Revoke a key; it stops working within five seconds
    ///
    /// Its secret is refused for ever, also in a workspace file.
    #[command(after_help = "\
Examples:
  $ longshore key revoke --workspace acme integrator
  $ longshore key revoke --from revocations.jsonl")]
    Revoke(Revoke),
    /// Print the hashes of all revoked secrets, of keys and SCIM tokens
    ///
    /// Keep the list apart from the backups of the database: `key revoke --from` revokes them again
    /// after a restore. The secrets themselves are not stored. Each line is a JSON object.
    #[command(after_help = "Example:\n  $ longshore key revocations > revocations.jsonl")]
    Revocations,
}

#[derive(clap::Args)]
struct Create {
    #[command(flatten)]
    workspace: WorkspaceArgument,
    /// Name of the key
    #[arg(long)]
    name: String,
    /// What the key may be used for; repeat for each
    #[arg(long = "permission", required = true, value_name = "PERMISSION",
          help = permission_help())]
    permissions: Vec<String>,
    /// Network from which the key may be used; repeat for each [default: everywhere]
    #[arg(long, value_name = "CIDR", value_parser = network)]
    allow: Vec<IpNet>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
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
struct Revoke {
    /// The key's name or id
    #[arg(required_unless_present = "from", conflicts_with = "from")]
    key: Option<String>,
    /// Instead, revoke all secrets of a file from `key revocations`; - reads the standard input
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    #[command(flatten)]
    workspace: WorkspaceArgument,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

fn permission_help() -> String {
    format!("Permission of the key; repeat for each: {}", keys::PERMISSIONS.join(", "))
}

pub async fn run(config: Config, arguments: Arguments) -> CommandResult {
    let app = super::open(config).await?;
    match arguments.command {
        Command::Create(arguments) => create(&app, arguments).await,
        Command::List(arguments) => list(&app, arguments).await,
        Command::Revoke(Revoke { from: Some(file), json, .. }) => {
            revoke_again(&app, &file, json).await
        }
        Command::Revoke(arguments) => revoke(&app, arguments).await,
        Command::Revocations => revocations(&app).await,
    }
}

async fn create(app: &App, arguments: Create) -> CommandResult {
    let mut tx = app.store.write().await?;
    let workspace = arguments.workspace.find(&mut tx).await?;
    let key = NewKey {
        workspace: workspace.id,
        name: &arguments.name,
        permissions: &arguments.permissions,
        allow: &arguments.allow,
        declared: false,
    };
    let secret = keys::create(&mut tx, &app.clock, key).await?;
    tx.commit().await?;
    let (name, workspace) = (arguments.name, workspace.name);
    let object = json!({"workspace": workspace, "name": name, "secret": secret});
    print::secret(arguments.json, &object, &format!("key {name} of {workspace}"), &secret);
    Ok(())
}

async fn list(app: &App, arguments: List) -> CommandResult {
    let mut tx = app.store.snapshot().await?;
    let workspace = find_named(&mut tx, arguments.workspace.as_deref()).await?;
    let keys = keys::list(&mut tx, workspace.map(|found| found.id)).await?;
    tx.commit().await?;
    print::credentials(arguments.json, &keys, "keys", as_json, as_text);
    Ok(())
}

async fn revoke(app: &App, arguments: Revoke) -> CommandResult {
    let mut tx = app.store.write().await?;
    let workspace = arguments.workspace.find(&mut tx).await?;
    let name = arguments.key.unwrap_or_default();
    let key = keys::revoke(&mut tx, &app.clock, workspace.id, &name).await?;
    tx.commit().await?;
    let suffix = format!(" of {}", workspace.name);
    print::revoked(arguments.json, key.id, &key.name, &suffix, key.declared);
    Ok(())
}

async fn revocations(app: &App) -> CommandResult {
    let mut tx = app.store.snapshot().await?;
    for secret in revoked::list(&mut tx).await? {
        println!("{}", secret.to_line()?);
    }
    Ok(())
}

/// Revokes the secrets of a file of [`revocations`]: all of them, or none if a line is invalid.
async fn revoke_again(app: &App, file: &Path, json: bool) -> CommandResult {
    let text = if file == Path::new("-") {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(file)
    };
    let text = text.map_err(|error| format!("{}: {error}", file.display()))?;
    let mut secrets = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let secret = RevokedSecret::from_line(line);
        let number = index + 1;
        secrets
            .push(secret.map_err(|error| format!("{}: line {number}: {error}", file.display()))?);
    }
    let mut tx = app.store.write().await?;
    let were_valid = revoked::restore(&mut tx, &secrets).await?;
    tx.commit().await?;
    if json {
        let revoked: Vec<&str> = were_valid.iter().map(|secret| &*secret.name).collect();
        println!("{}", json!({"secrets": secrets.len(), "revoked": revoked}));
        return Ok(());
    }
    for secret in &were_valid {
        println!("revoked {} {}", secret.kind.name(), secret.name);
    }
    println!("{} of {} secrets were still valid", were_valid.len(), secrets.len());
    Ok(())
}

fn as_text(key: &KeyInfo) -> String {
    let declared = if key.declared { " (declared)" } else { "" };
    format!(
        "{} / {}{declared}\n  id           {}\n  permissions  {}\n  from         {}\n{}",
        key.workspace,
        key.name,
        key.id,
        key.permissions.join(", "),
        networks(&key.allow),
        print::times(key.created_at, key.last_used_at, key.revoked_at),
    )
}

fn as_json(key: &KeyInfo) -> serde_json::Value {
    json!({
        "id": key.id,
        "workspace": key.workspace,
        "name": key.name,
        "permissions": key.permissions,
        "allow": key.allow,
        "declared": key.declared,
        "created_at": print::instant(Some(key.created_at)),
        "last_used_at": print::instant(key.last_used_at),
        "revoked_at": print::instant(key.revoked_at),
    })
}
