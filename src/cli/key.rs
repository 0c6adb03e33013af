//! `longshore key`.

use ipnet::IpNet;
use serde_json::json;

use super::{CommandResult, WorkspaceArgument, find_named, print};
use crate::app::App;
use crate::config::Config;
use crate::config::network::network;
use crate::config::network::networks;
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
    #[command(after_help = "Example:\n  $ longshore key revoke --workspace acme integrator")]
    Revoke(Revoke),
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
    key: String,
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
        Command::Revoke(arguments) => revoke(&app, arguments).await,
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
    let key = keys::revoke(&mut tx, &app.clock, workspace.id, &arguments.key).await?;
    tx.commit().await?;
    let place = format!(" of {}", workspace.name);
    print::revoked(arguments.json, key.id, &key.name, &place, key.declared);
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
