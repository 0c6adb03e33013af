//! `longshore key`.

mod revocations;

use std::path::PathBuf;

use ipnet::IpNet;
use secrecy::ExposeSecret as _;
use serde_json::json;

use super::audit;
use super::confirm::Consent;
use super::table::{Cell, optional, state, text, time, time_or_never};
use super::{CommandResult, PageArguments, WorkspaceArgument, find_named, print, retry};
use crate::app::App;
use crate::config::Config;
use crate::config::network::network;
use crate::config::network::networks;
use crate::workspaces::keys::{self, KeyInfo, NewKey};
use runtime::audit::command_actor;

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
    #[command(after_help = "\
Examples:
  $ longshore key list --workspace acme --json
  $ longshore key list --revoked")]
    List(List),
    /// Revoke a key; it stops working within five seconds
    ///
    /// Its secret is refused for ever, also in a workspace file. Asks on a terminal.
    #[command(after_help = "\
Examples:
  $ longshore key revoke --workspace acme integrator --dry-run
  $ longshore key revoke --workspace acme integrator
  $ longshore key revoke --secret leaked.txt --dry-run
  $ longshore key revoke --secret leaked.txt
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
    /// Only revoked keys: who revoked them, and when; the latest first
    #[arg(long)]
    revoked: bool,
    #[command(flatten)]
    page: PageArguments,
}

#[derive(clap::Args)]
struct Revoke {
    /// The key's name or id
    #[arg(required_unless_present_any = ["from", "secret"], conflicts_with_all = ["from", "secret"])]
    key: Option<String>,
    /// Instead, revoke the key or SCIM token with the secret in this file, in any workspace; -
    /// reads the standard input. Does not ask. If no key has the secret, it is refused for ever,
    /// and the command fails
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    secret: Option<PathBuf>,
    /// Instead, revoke all secrets of a file from `key revocations`; - reads the standard input.
    /// Does not ask
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    from: Option<PathBuf>,
    #[command(flatten)]
    workspace: WorkspaceArgument,
    #[command(flatten)]
    consent: Consent,
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
            revocations::revoke_again(&app, &file, json).await
        }
        Command::Revoke(Revoke { secret: Some(file), consent, json, .. }) => {
            revocations::revoke_leaked(&app, &file, &consent, json).await
        }
        Command::Revoke(arguments) => revoke(&app, arguments).await,
        Command::Revocations => revocations::list(&app).await,
    }
}

async fn create(app: &App, arguments: Create) -> CommandResult {
    let created = retry::while_busy(async || {
        let mut tx = app.store.write().await?;
        let workspace = arguments.workspace.find(&mut tx).await?;
        let key = NewKey {
            workspace: workspace.id,
            name: &arguments.name,
            permissions: &arguments.permissions,
            allow: &arguments.allow,
            declared: false,
        };
        let created = keys::create(&mut tx, &app.clock, key).await?;
        audit::record_change(&mut tx, app, Some(workspace.id), key.change(created.id)).await?;
        tx.commit().await?;
        Ok((workspace, created.secret))
    });
    let (workspace, secret) = created.await?;
    let (name, workspace) = (arguments.name, workspace.name);
    let secret = secret.expose_secret();
    let object = json!({"workspace": workspace, "name": name, "secret": secret});
    let revocation = format!("longshore key revoke {name} --workspace {workspace}");
    let title = format!("key {name} of {workspace}");
    print::secret(arguments.json, &object, &title, secret, &revocation)
}

async fn list(app: &App, arguments: List) -> CommandResult {
    let mut tx = app.store.snapshot().await?;
    let workspace = find_named(&mut tx, arguments.workspace.as_deref()).await?;
    let keys = keys::list(&mut tx, workspace.map(|found| found.id)).await?;
    tx.commit().await?;
    if arguments.revoked {
        return revocations::list_keys(keys, &arguments.page);
    }
    let headers = [
        "ID",
        "WORKSPACE",
        "NAME",
        "STATE",
        "DECLARED",
        "CREATED",
        "LAST USED",
        "REVOKED",
        "FROM",
        "PERMISSIONS",
    ];
    arguments.page.print("keys", headers, &keys, |key| key.id.to_string(), row)
}

async fn revoke(app: &App, arguments: Revoke) -> CommandResult {
    let Revoke { key, workspace, consent, json, .. } = arguments;
    let name = key.unwrap_or_default();
    let actor = command_actor();
    if consent.needs_effects() {
        let would_revoke = async || {
            let mut tx = app.store.write().await?;
            let workspace = workspace.find(&mut tx).await?;
            // Not committed.
            Ok(keys::revoke(&mut tx, &app.clock, workspace.id, &name, &actor).await?)
        };
        let key = retry::while_busy(would_revoke).await?;
        let KeyInfo { id, name, workspace, permissions, last_used_at, last_permission, .. } = key;
        let last_use = print::last_use(last_used_at);
        let last_use = match last_permission {
            Some(permission) => format!("{last_use} for {permission}"),
            None => last_use,
        };
        let permissions = permissions.join(", ");
        let effects = [format!(
            "revokes the key {name} ({id}) of {workspace} ({permissions}; {last_use}): its secret \
             is refused for ever"
        )];
        if !consent.is_given(json, &effects)? {
            return Ok(());
        }
    }
    let revoked = retry::while_busy(async || {
        let mut tx = app.store.write().await?;
        let workspace = workspace.find(&mut tx).await?;
        let key = keys::revoke(&mut tx, &app.clock, workspace.id, &name, &actor).await?;
        audit::record_change(&mut tx, app, Some(workspace.id), key.revocation()).await?;
        tx.commit().await?;
        Ok(key)
    });
    let key = revoked.await?;
    let suffix = format!(" of {}", key.workspace);
    print::revoked(json, key.id, &key.name, &suffix, key.declared);
    Ok(())
}

fn row(key: &KeyInfo) -> [Cell; 10] {
    [
        text(key.id),
        text(&key.workspace),
        text(&key.name),
        state(print::activity(key.revoked_at)),
        text(print::yes_or_no(key.declared)),
        time(key.created_at),
        time_or_never(key.last_used_at),
        optional(key.revoked_at.map(time)),
        text(networks(&key.allow)),
        text(key.permissions.join(", ")),
    ]
}
