//! Revoked secrets: those of keys that leaked, and the list of all of them.

use std::cmp::Reverse;
use std::path::Path;

use serde_json::json;

use crate::app::App;
use crate::cli::confirm::Consent;
use crate::cli::table::{Cell, optional, text, time, time_or_never};
use crate::cli::{CommandResult, PageArguments, audit, retry};
use crate::credentials::hash;
use crate::credentials::revoked::{
    self, KnownCredential, RevokedCredential, RevokedSecret, SecretKind,
};
use crate::workspaces::keys::{KeyInfo, SECRET_LENGTH};
use kit::clock::format_seconds;
use runtime::audit::command_actor;
use store::Tx;

const UNKNOWN_SECRET: &str = "no key or SCIM token has this secret: is the file complete?";

/// Why a secret is revoked, in the audit log.
const LEAKED: &str = "leaked";
const RESTORED: &str = "revoked before a restore";

/// Prints the revoked ones of these keys, the latest first.
pub fn list_keys(keys: Vec<KeyInfo>, page: &PageArguments) -> CommandResult {
    let mut revoked: Vec<KeyInfo> =
        keys.into_iter().filter(|key| key.revoked_at.is_some()).collect();
    revoked.sort_by_key(|key| Reverse(key.revoked_at));
    let headers =
        ["ID", "WORKSPACE", "NAME", "REVOKED", "REVOKED BY", "CREATED", "LAST USED", "PERMISSIONS"];
    page.print("revoked keys", headers, &revoked, |key| key.id.to_string(), row)
}

fn row(key: &KeyInfo) -> [Cell; 8] {
    [
        text(key.id),
        text(&key.workspace),
        text(&key.name),
        optional(key.revoked_at.map(time)),
        text(key.revoked_by.as_deref().unwrap_or("not recorded")),
        time(key.created_at),
        time_or_never(key.last_used_at),
        text(key.permissions.join(", ")),
    ]
}

/// Prints the hashes of all revoked secrets.
pub async fn list(app: &App) -> CommandResult {
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
    if secret.chars().count() < SECRET_LENGTH {
        return Err(format!(
            "{file}: a secret has at least {SECRET_LENGTH} characters: is the file complete? Nothing \
             was changed"
        ));
    }
    Ok(secret.to_owned())
}

/// Revokes the key or token with a secret. Nobody has to know which one it is.
pub async fn revoke_leaked(app: &App, file: &Path, consent: &Consent, json: bool) -> CommandResult {
    let secret = read_secret(file)?;
    let leaked = async || revoke_in(app, &secret, consent.is_dry_run()).await;
    let (credentials, revoked) = retry::while_busy(leaked).await?;
    if consent.is_dry_run() {
        if credentials.is_empty() {
            return Err(UNKNOWN_SECRET.into());
        }
        let effects = credentials.iter().map(|credential| effect(credential, "revokes"));
        let effects: Vec<String> = effects.collect();
        return consent.is_given(json, &effects).map(drop);
    }
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

/// Revokes the secret, with entries in the audit log. Returns the keys and tokens that have or had
/// it, and the names of those that were valid. A dry run revokes nothing.
async fn revoke_in(
    app: &App,
    secret: &str,
    is_dry_run: bool,
) -> CommandResult<(Vec<KnownCredential>, Vec<String>)> {
    let mut tx = app.store.write().await?;
    let mut credentials = revoked::credentials(&mut tx, &hash(secret)).await?;
    // The same secret may have had other names before.
    if credentials.iter().any(KnownCredential::is_valid) {
        credentials.retain(KnownCredential::is_valid);
    }
    if is_dry_run {
        return Ok((credentials, Vec::new()));
    }
    if credentials.iter().any(|credential| !credential.is_valid()) {
        return Ok((credentials, Vec::new()));
    }
    let leaked = RevokedSecret::leaked(secret, credentials.first(), app.clock.now_ms());
    let were_valid = revoked::restore(&mut tx, &[leaked], &command_actor()).await?;
    record_revoked(&mut tx, app, &were_valid, LEAKED).await?;
    if credentials.is_empty() {
        let details = json!({ "reason": LEAKED });
        audit::record(&mut tx, app, None, ("secret.revoke", ""), details).await?;
    }
    tx.commit().await?;
    Ok((credentials, were_valid.into_iter().map(|revoked| revoked.name).collect()))
}

async fn record_revoked(
    tx: &mut Tx,
    app: &App,
    revoked: &[RevokedCredential],
    reason: &str,
) -> CommandResult {
    for revoked in revoked {
        audit::record_change(tx, app, revoked.workspace_id, revoked.change(reason)).await?;
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

/// Revokes the secrets of a file of `key revocations`: all of them, or none if a line is invalid.
pub async fn revoke_again(app: &App, file: &Path, json: bool) -> CommandResult {
    let text = read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut secrets = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let secret = RevokedSecret::from_line(line);
        let number = index + 1;
        secrets
            .push(secret.map_err(|error| format!("{}: line {number}: {error}", file.display()))?);
    }
    let were_valid = retry::while_busy(async || {
        let mut tx = app.store.write().await?;
        let were_valid = revoked::restore(&mut tx, &secrets, &command_actor()).await?;
        record_revoked(&mut tx, app, &were_valid, RESTORED).await?;
        let details = json!({ "secrets": secrets.len() });
        audit::record(&mut tx, app, None, ("secret.revoke", ""), details).await?;
        tx.commit().await?;
        Ok(were_valid)
    });
    let were_valid = were_valid.await?;
    if json {
        let revoked: Vec<&str> = were_valid.iter().map(|revoked| &*revoked.name).collect();
        println!("{}", json!({"secrets": secrets.len(), "revoked": revoked}));
        return Ok(());
    }
    for revoked in &were_valid {
        println!("revoked {} {}", revoked.kind.name(), revoked.name);
    }
    println!("{} of {} secrets were still valid", were_valid.len(), secrets.len());
    Ok(())
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
        let secret = "x".repeat(SECRET_LENGTH);
        assert_eq!(read(&format!(" {secret}\r\n")), Some(secret.clone()));
        for wrong in ["", "\n", &secret[1..], &format!("{secret}\n{secret}")] {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
    }
}
