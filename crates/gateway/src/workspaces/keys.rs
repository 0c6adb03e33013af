//! API keys: created or declared, listed, and revoked (docs/reference/api/authentication.md).
//! Requests look them up as [`credentials`].

use std::collections::HashSet;
use std::sync::Arc;

use ipnet::IpNet;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use super::{Workspace, key_rows};
use crate::app::App;
use kit::clock::{Clock, format_seconds, serialize_optional_time, serialize_time};
use kit::retry::Retry;
use kit::words::nearest;
use runtime::audit::Change;
use runtime::credentials::revoked::{self, SecretKind};
use runtime::credentials::{Credential, FindError, Hash, hash, random_secret};
use store::{StoreError, Tx};

pub use super::key_rows::{active, by_id, list, revoke as revoke_by_id, revoked, with_same_secret};

/// All permissions (docs/reference/api/authentication.md).
pub const PERMISSIONS: &[&str] = &[
    "campaigns.details",
    "campaigns.list",
    "campaigns.statistics",
    "campaigns.trigger.schedule.create",
    "campaigns.trigger.schedule.delete",
    "campaigns.trigger.schedule.update",
    "campaigns.trigger.send",
    "canvas.list",
    "canvas.trigger.schedule.create",
    "canvas.trigger.schedule.delete",
    "canvas.trigger.schedule.update",
    "canvas.trigger.send",
    "catalogs.add_items",
    "catalogs.create",
    "catalogs.create_item",
    "catalogs.delete",
    "catalogs.delete_item",
    "catalogs.delete_items",
    "catalogs.get",
    "catalogs.get_item",
    "catalogs.get_items",
    "catalogs.replace_item",
    "catalogs.replace_items",
    "catalogs.update_item",
    "catalogs.update_items",
    "dead_letters.discard",
    "dead_letters.get",
    "dead_letters.list",
    "dead_letters.retry",
    "deliveries.get",
    "deliveries.list",
    "deliveries.resend",
    "email.status",
    "messages.dispatches.cancel",
    "messages.dispatches.get",
    "messages.dispatches.list",
    "messages.dispatches.recipients",
    "messages.dispatches.send",
    "messages.live_activity.start",
    "messages.schedule.create",
    "messages.schedule.delete",
    "messages.schedule.update",
    "messages.schedule_broadcasts",
    "messages.send",
    "purchases.product_list",
    "segments.details",
    "segments.list",
    "segments.sample",
    "segments.size",
    "sms.invalid_phone_numbers.remove",
    "subscription.status.get",
    "subscription.status.set",
    "suppressions.edit",
    "suppressions.list",
    "templates.preview",
    "transactional.send",
    "users.alias.new",
    "users.alias.update",
    "users.delete",
    "users.export.global_control_group",
    "users.export.ids",
    "users.export.segment",
    "users.external_ids.remove",
    "users.external_ids.rename",
    "users.identify",
    "users.merge",
    "users.messages",
    "users.track",
];

/// A declared secret has at least this many characters: its hash is fast, so it must not be easy to
/// guess.
pub const SECRET_LENGTH: usize = 20;

/// A known key that is not revoked.
#[derive(Debug)]
pub struct KeyMatch {
    pub workspace: Arc<Workspace>,
    pub key_id: Uuid,
    pub name: Arc<str>,
    pub permissions: Arc<[String]>,
    /// Networks from which the key may be used; empty: everywhere. The workspace's own list applies
    /// as well.
    pub allow: Vec<IpNet>,
}

impl Credential for KeyMatch {
    const NAME: &'static str = "key";

    fn id(&self) -> Uuid {
        self.key_id
    }

    async fn find(tx: &mut Tx, hash: &Hash) -> Result<Option<Self>, StoreError> {
        key_rows::find(tx, hash).await
    }

    async fn all(tx: &mut Tx) -> Result<HashSet<Hash>, StoreError> {
        key_rows::hashes(tx).await
    }

    async fn used(
        &self,
        tx: &mut Tx,
        permissions: &[&'static str],
        now: i64,
    ) -> Result<(), StoreError> {
        key_rows::used(tx, self.key_id, self.only_granted(permissions), now).await
    }
}

impl KeyMatch {
    /// Which of these permissions the key has; none if it has several of them: each allows the
    /// request.
    fn only_granted(&self, permissions: &[&'static str]) -> Option<&'static str> {
        let is_granted = |needed: &&&str| self.permissions.iter().any(|own| own == **needed);
        let mut granted = permissions.iter().filter(is_granted);
        granted.next().copied().filter(|_| granted.next().is_none())
    }
}

/// The key with the secret `presented`, if it exists and is not revoked.
pub async fn find(app: &App, presented: &str) -> Result<Option<Arc<KeyMatch>>, FindError> {
    app.keys.find(app, presented).await
}

/// Records a use of a key in the background, by an admitted request that needs any of these
/// permissions. Each process writes at most one use of a key in a minute.
pub fn record_use(app: &App, key: &Arc<KeyMatch>, permissions: &[&'static str]) {
    app.keys.record_use(app, key, permissions);
}

/// Reads the list of existing keys.
pub async fn read_list(app: &App) -> Result<(), FindError> {
    app.keys.read_list(app).await
}

/// A new key.
#[derive(Clone, Copy, Debug)]
pub struct NewKey<'a> {
    pub workspace: i32,
    pub name: &'a str,
    pub permissions: &'a [String],
    pub allow: &'a [IpNet],
    /// Whether the workspace file declares it; `apply` does not change the others.
    pub declared: bool,
}

impl NewKey<'_> {
    /// What the audit log has about its creation.
    pub fn change(&self, id: Uuid) -> Change {
        let after = json!({ "permissions": self.permissions, "allow": self.allow });
        Change::new("key.create", self.name, json!({ "id": id, "after": after }))
    }
}

/// A key that was just created.
#[derive(Debug)]
pub struct CreatedKey {
    pub id: Uuid,
    /// Not stored: whoever gets it must keep it.
    pub secret: SecretString,
}

/// A key in a list. Its secret is not stored. Times are milliseconds since the epoch, and ISO 8601
/// in JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeyInfo {
    pub id: Uuid,
    /// The workspace's name.
    pub workspace: String,
    pub name: String,
    #[serde(skip)]
    pub(crate) hash: Vec<u8>,
    pub permissions: Vec<String>,
    pub allow: Vec<IpNet>,
    pub declared: bool,
    #[serde(serialize_with = "serialize_time")]
    pub created_at: i64,
    /// The last recorded use: each gateway records at most one in a minute. Refused requests are no
    /// use.
    #[serde(serialize_with = "serialize_optional_time")]
    pub last_used_at: Option<i64>,
    /// The permission that the request at `last_used_at` needed; none if several permissions of the
    /// key allow the request, or if a release before this field recorded the use.
    pub last_permission: Option<String>,
    #[serde(serialize_with = "serialize_optional_time")]
    pub revoked_at: Option<i64>,
    /// The actor of the revocation in the audit log; none if it is not recorded.
    pub revoked_by: Option<String>,
}

impl KeyInfo {
    /// What the audit log has about its revocation.
    pub fn revocation(&self) -> Change {
        let before =
            json!({ "state": "active", "permissions": self.permissions, "allow": self.allow });
        let details = json!({ "id": self.id, "before": before, "after": { "state": "revoked" } });
        Change::new(SecretKind::Key.revocation(), &*self.name, details)
    }

    /// Whether the key has this secret.
    pub fn has_secret(&self, secret: &str) -> bool {
        self.hash == hash(secret)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("a name must have 1 to 100 characters and no control characters")]
    Name,
    #[error(
        "the name of a new key must not be a UUID, and must have no invisible characters and none \
         that change the direction of text"
    )]
    NewName,
    #[error("unknown permission: {0}; {expected}", expected = expected(.0))]
    Permission(String),
    #[error("a key needs at least one permission: {list}", list = PERMISSIONS.join(", "))]
    NoPermissions,
    #[error(
        "a secret must have at least {SECRET_LENGTH} characters (create one with: openssl rand \
         -base64 32)"
    )]
    ShortSecret,
    #[error(
        "a secret must be printable ASCII without spaces, because it is sent in a header (create \
         one with: openssl rand -base64 32)"
    )]
    SecretCharacters,
    #[error("a key with the name {0} exists; revoke it first, or choose another name")]
    Taken(String),
    #[error(
        "another key has this secret. To rename that key in the file, apply with --prune; otherwise \
         choose another secret: a revoked one is never accepted again"
    )]
    SecretTaken,
    #[error(
        "its secret was revoked at {0}, and a revoked secret is never accepted again. Declare a new \
         secret (create one with: openssl rand -base64 32), or remove it from the file"
    )]
    Revoked(String),
    /// Without the text: it may be the secret of a key.
    #[error("no key has this name or id, or it is revoked: see `longshore key list`")]
    Unknown,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What to use in place of an unknown permission.
fn expected(unknown: &str) -> String {
    match nearest(unknown, PERMISSIONS.iter().copied()) {
        Some(similar) => format!("did you mean {similar}?"),
        None => format!("expected one of {}", PERMISSIONS.join(", ")),
    }
}

impl Retry for KeyError {
    fn can_retry(&self) -> bool {
        match self {
            Self::Store(error) => error.can_retry(),
            _ => false,
        }
    }
}

/// Creates a key with a random secret.
pub async fn create(tx: &mut Tx, clock: &Clock, key: NewKey<'_>) -> Result<CreatedKey, KeyError> {
    let secret = SecretString::from(random_secret("lsk_"));
    let id = create_with_secret(tx, clock, key, secret.expose_secret()).await?;
    Ok(CreatedKey { id, secret })
}

/// Creates a key with a given secret, which was checked with [`check_not_revoked`].
pub async fn create_with_secret(
    tx: &mut Tx,
    clock: &Clock,
    key: NewKey<'_>,
    secret: &str,
) -> Result<Uuid, KeyError> {
    // Files with such names were accepted before.
    let check = if key.declared { check_name } else { check_new_name };
    check(key.name)?;
    check_permissions(key.permissions)?;
    check_secret(secret)?;
    let id = Uuid::now_v7();
    if key_rows::insert(tx, id, &hash(secret), &key, clock.now_ms()).await? {
        Ok(id)
    } else if key_rows::find(tx, &hash(secret)).await?.is_some() {
        Err(KeyError::SecretTaken)
    } else {
        Err(KeyError::Taken(key.name.to_owned()))
    }
}

pub fn check_name(name: &str) -> Result<(), KeyError> {
    let length = name.chars().count();
    let is_plain = !name.contains(char::is_control);
    if (1..=100).contains(&length) && is_plain { Ok(()) } else { Err(KeyError::Name) }
}

/// Checks the name of a new key that no file declares: commands take an id in place of a name, and
/// a name must look as it is.
pub fn check_new_name(name: &str) -> Result<(), KeyError> {
    check_name(name)?;
    let is_id = Uuid::try_parse(name).is_ok();
    if is_id || name.contains(is_ignorable) { Err(KeyError::NewName) } else { Ok(()) }
}

/// Whether Unicode has the character as ignorable by default: invisible, or a control of direction.
fn is_ignorable(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fff8}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

pub fn check_permissions(permissions: &[String]) -> Result<(), KeyError> {
    if permissions.is_empty() {
        return Err(KeyError::NoPermissions);
    }
    match permissions.iter().find(|name| !PERMISSIONS.contains(&name.as_str())) {
        Some(unknown) => Err(KeyError::Permission(unknown.clone())),
        None => Ok(()),
    }
}

pub fn check_secret(secret: &str) -> Result<(), KeyError> {
    if secret.chars().count() < SECRET_LENGTH {
        return Err(KeyError::ShortSecret);
    }
    if secret.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(())
    } else {
        Err(KeyError::SecretCharacters)
    }
}

/// Rejects a secret that was revoked, of whatever kind it was.
pub async fn check_not_revoked(
    tx: &mut Tx,
    kind: SecretKind,
    secret: &str,
) -> Result<(), KeyError> {
    match revoked::find(tx, kind, &hash(secret)).await? {
        Some(revoked) => Err(KeyError::Revoked(format_seconds(revoked.revoked_at))),
        None => Ok(()),
    }
}

/// Revokes the key with an id, or else with a name, and returns it as it was. `actor` is who does
/// it, as the audit log has it. Processes may accept the key for up to five seconds, while the
/// database responds.
pub async fn revoke(
    tx: &mut Tx,
    clock: &Clock,
    workspace: i32,
    name_or_id: &str,
    actor: &str,
) -> Result<KeyInfo, KeyError> {
    let id = Uuid::parse_str(name_or_id).ok();
    let mut keys = list(tx, Some(workspace)).await?;
    keys.retain(|key| key.revoked_at.is_none());
    // The name of another key may be this id.
    let with_id = keys.iter().position(|key| Some(key.id) == id);
    let found = with_id.or_else(|| keys.iter().position(|key| key.name == name_or_id));
    let key = keys.swap_remove(found.ok_or(KeyError::Unknown)?);
    if key_rows::revoke(tx, key.id, clock.now_ms(), actor).await? {
        Ok(key)
    } else {
        Err(KeyError::Unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_sorted_and_distinct() {
        assert!(PERMISSIONS.is_sorted_by(|a, b| a < b), "{PERMISSIONS:?}");
    }

    #[test]
    fn permissions_and_secrets_are_checked() {
        let names = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        assert!(check_permissions(&names(PERMISSIONS)).is_ok());
        assert!(check_permissions(&[]).is_err());
        let error = check_permissions(&names(&["users.track", "users.trak"])).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("users.trak;") && text.contains("users.track?"), "{text}");
        let error = check_permissions(&names(&["everything"])).unwrap_err().to_string();
        assert!(error.contains("everything;") && error.contains("messages.send"), "{error}");
        assert!(check_secret("nineteen-characters").is_err());
        assert!(check_secret("twenty-characters-ok").is_ok());
        assert!(check_secret("twenty characters, not ok").is_err());
        assert!(check_name("").is_err());
        assert!(check_new_name("nightly job №1 اسم").is_ok());
        let id = "018f0000-0000-7000-8000-000000000000";
        for name in
            ["", id, &id.replace('-', ""), "a\u{202e}b", "a\u{200b}", "\u{2066}a", "\u{feff}a"]
        {
            assert!(check_new_name(name).is_err(), "{name:?}");
        }
        assert!(check_name(id).is_ok(), "files may declare it");
    }
}
