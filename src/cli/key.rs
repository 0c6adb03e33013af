//! `longshore key`.

use std::path::{Path, PathBuf};

use ipnet::IpNet;
use serde_json::json;

use super::audit;
use super::confirm::Consent;
use super::table::{Cell, optional, state, text, time};
use super::{CommandResult, PageArguments, WorkspaceArgument, find_named, print};
use crate::app::App;
use crate::config::Config;
use crate::config::network::network;
use crate::config::network::networks;
use crate::credentials::hash;
use crate::credentials::revoked::{self, KnownCredential, RevokedSecret, SecretKind};
use crate::workspaces::keys::{self, KeyInfo, NewKey};
use kit::clock::format_seconds;

const UNKNOWN_SECRET: &str = "no key or SCIM token has this secret: is the file complete?";

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
    #[command(flatten)]
    page: PageArguments,
}

#[derive(clap::Args)]
struct Revoke {
    /// The key's name or id
    #[arg(required_unless_present_any = ["from", "secret"], conflicts_with_all = ["from", "secret"])]
    key: Option<String>,
    /// Instead, revoke the key or SCIM token with the secret in this file, in any workspace; - reads
    /// the standard input. Does not ask. If no key has the secret, it is refused for ever, and the
    /// command fails
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
            revoke_again(&app, &file, json).await
        }
        Command::Revoke(Revoke { secret: Some(file), consent, json, .. }) => {
            revoke_leaked(&app, &file, &consent, json).await
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
    let details = json!({ "after": { "permissions": key.permissions, "allow": key.allow } });
    let change = ("key.create", key.name);
    audit::record(&mut tx, app, Some(workspace.id), change, details).await?;
    tx.commit().await?;
    let (name, workspace) = (arguments.name, workspace.name);
    let object = json!({"workspace": workspace, "name": name, "secret": secret});
    let revocation = format!("longshore key revoke {name} --workspace {workspace}");
    let title = format!("key {name} of {workspace}");
    print::secret(arguments.json, &object, &title, &secret, &revocation)
}

async fn list(app: &App, arguments: List) -> CommandResult {
    let mut tx = app.store.snapshot().await?;
    let workspace = find_named(&mut tx, arguments.workspace.as_deref()).await?;
    let keys = keys::list(&mut tx, workspace.map(|found| found.id)).await?;
    tx.commit().await?;
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
    if consent.needs_effects() {
        let mut tx = app.store.write().await?;
        let workspace = workspace.find(&mut tx).await?;
        // Not committed.
        let key = keys::revoke(&mut tx, &app.clock, workspace.id, &name).await?;
        drop(tx);
        let KeyInfo { id, name, workspace, permissions, last_used_at, .. } = key;
        let used = last_used_at.map_or_else(|| "never".to_owned(), format_seconds);
        let permissions = permissions.join(", ");
        let effects = [format!(
            "revokes the key {name} ({id}) of {workspace} ({permissions}; last used: {used}): its \
             secret is refused for ever"
        )];
        if !consent.is_given(json, &effects)? {
            return Ok(());
        }
    }
    let mut tx = app.store.write().await?;
    let workspace = workspace.find(&mut tx).await?;
    let key = keys::revoke(&mut tx, &app.clock, workspace.id, &name).await?;
    let details = json!({ "id": key.id });
    audit::record(&mut tx, app, Some(workspace.id), ("key.revoke", &*key.name), details).await?;
    tx.commit().await?;
    let suffix = format!(" of {}", workspace.name);
    print::revoked(json, key.id, &key.name, &suffix, key.declared);
    Ok(())
}

async fn revocations(app: &App) -> CommandResult {
    let mut tx = app.store.snapshot().await?;
    for secret in revoked::list(&mut tx).await? {
        println!("{}", secret.to_line()?);
    }
    Ok(())
}

fn read(file: &Path) -> std::io::Result<String> {
    if file == Path::new("-") {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(file)
    }
}

/// The secret in a file.
fn read_secret(file: &Path) -> Result<String, String> {
    // What is not a file may be the secret itself, which must not be printed.
    let text = read(file)
        .map_err(|error| format!("--secret takes a file, or - for standard input: {error}"))?;
    let (file, secret) = (file.display(), text.trim());
    if secret.is_empty() || secret.contains(char::is_whitespace) {
        return Err(format!("{file}: expected one secret, and nothing else"));
    }
    if secret.chars().count() < keys::SECRET_LENGTH {
        return Err(format!(
            "{file}: a secret has at least {} characters: is the file complete? Nothing was changed",
            keys::SECRET_LENGTH
        ));
    }
    Ok(secret.to_owned())
}

/// Revokes the key or token with a secret. Nobody has to know which one it is.
async fn revoke_leaked(app: &App, file: &Path, consent: &Consent, json: bool) -> CommandResult {
    let secret = read_secret(file)?;
    let now = app.clock.now_ms();
    let mut tx = app.store.write().await?;
    let mut credentials = revoked::credentials(&mut tx, &hash(&secret)).await?;
    // The same secret may have had other names before.
    if credentials.iter().any(KnownCredential::is_valid) {
        credentials.retain(KnownCredential::is_valid);
    }
    if consent.is_dry_run() {
        drop(tx);
        if credentials.is_empty() {
            return Err(UNKNOWN_SECRET.into());
        }
        let effects = credentials.iter().map(|credential| effect(credential, "revokes"));
        let effects: Vec<String> = effects.collect();
        return consent.is_given(json, &effects).map(drop);
    }
    let revoked = credentials.iter().filter(|credential| credential.is_valid());
    let revoked: Vec<&str> = revoked.map(|credential| &*credential.name).collect();
    if credentials.is_empty() || !revoked.is_empty() {
        let leaked = RevokedSecret::leaked(SecretKind::Key, &secret, now);
        revoked::restore(&mut tx, &[leaked]).await?;
        let details = json!({ "revoked": revoked, "reason": "leaked" });
        audit::record(&mut tx, app, None, ("secret.revoke", ""), details).await?;
    }
    tx.commit().await?;
    if json {
        println!("{}", json!({"revoked": revoked, "credentials": credentials}));
    } else {
        credentials.iter().for_each(|credential| println!("{}", effect(credential, "revoked")));
    }
    if credentials.is_empty() {
        return Err(format!("{UNKNOWN_SECRET} The secret is refused for ever").into());
    }
    Ok(())
}

/// What a revocation by the secret does to a key or token, with the verb for a valid one.
fn effect(credential: &KnownCredential, verb: &str) -> String {
    let KnownCredential { kind, name, workspace, revoked_at } = credential;
    let kind = match kind {
        SecretKind::Key => "key",
        SecretKind::ScimToken => "SCIM token",
    };
    let workspace = workspace.iter().map(|workspace| format!(" of {workspace}"));
    let title: String = [format!("{kind} {name}")].into_iter().chain(workspace).collect();
    match revoked_at {
        None => format!("{verb} {title}"),
        Some(at) => format!("already revoked: {title}, at {}", format_seconds(*at)),
    }
}

/// Revokes the secrets of a file of [`revocations`]: all of them, or none if a line is invalid.
async fn revoke_again(app: &App, file: &Path, json: bool) -> CommandResult {
    let text = read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut secrets = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let secret = RevokedSecret::from_line(line);
        let number = index + 1;
        secrets
            .push(secret.map_err(|error| format!("{}: line {number}: {error}", file.display()))?);
    }
    let mut tx = app.store.write().await?;
    let were_valid = revoked::restore(&mut tx, &secrets).await?;
    let names: Vec<&str> = were_valid.iter().map(|secret| &*secret.name).collect();
    let details = json!({ "secrets": secrets.len(), "revoked": names });
    audit::record(&mut tx, app, None, ("secret.revoke", ""), details).await?;
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

fn row(key: &KeyInfo) -> [Cell; 10] {
    [
        text(key.id),
        text(&key.workspace),
        text(&key.name),
        state(print::activity(key.revoked_at)),
        text(print::yes_or_no(key.declared)),
        time(key.created_at),
        optional(key.last_used_at.map(time)),
        optional(key.revoked_at.map(time)),
        text(networks(&key.allow)),
        text(key.permissions.join(", ")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_in_place_of_its_file_is_not_printed() {
        let secret = "lsk_a-secret-that-was-typed-by-mistake";
        let error = read_secret(Path::new(secret)).unwrap_err();
        assert!(!error.contains(secret), "{error}");
    }

    #[test]
    fn only_one_complete_secret_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        let read = |text: &str| {
            std::fs::write(&file, text).unwrap();
            read_secret(&file).ok()
        };
        let secret = "x".repeat(keys::SECRET_LENGTH);
        assert_eq!(read(&format!(" {secret}\r\n")), Some(secret.clone()));
        for wrong in ["", "\n", &secret[1..], &format!("{secret}\n{secret}")] {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
    }
}
