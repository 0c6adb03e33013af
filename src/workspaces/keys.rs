//! API keys: made or declared, found, listed, revoked (Authentication, 1 and 2).
//!
//! A key is stored as the SHA-256 of its secret, which is long and random, so that no slow
//! hash is needed. It is looked up by that hash: how long a look-up takes says nothing
//! about the secret of any other key.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use ipnet::IpNet;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::{Workspace, key_rows};
use crate::app::App;
use crate::clock::Clock;
use crate::retry::Retry;
use crate::secrets::random_bytes;
use crate::store::{StoreError, Tx};

pub use super::key_rows::list;

/// Every permission there is: the table of Authentication, and what it does not show.
pub const PERMISSIONS: &[&str] = &[
    "campaigns.list",
    "canvas.trigger.schedule.create",
    "canvas.trigger.schedule.delete",
    "catalogs.update_items",
    "messages.live_activity.start",
    "messages.schedule.create",
    "messages.send",
    "sms.invalid_phone_numbers.remove",
    "transactional.send",
    "users.export.global_control_group",
    "users.track",
];

/// A declared secret has at least this many characters: it is hashed fast, so it must not
/// be one that can be guessed.
pub const SECRET_LENGTH: usize = 20;

/// How long a process goes on honouring a key that was just revoked, at most.
const KEPT_FOR: Duration = Duration::from_secs(5);
const KEPT: usize = 1_000;
/// `last_used_at` is written this often at most, per key and process.
const USED_EVERY: Duration = Duration::from_secs(60);

/// A key that is known and not revoked.
#[derive(Clone, Debug)]
pub struct KeyMatch {
    pub workspace: Workspace,
    pub key_id: Uuid,
    pub permissions: Vec<String>,
    /// Networks that the key may be used from; empty: everywhere. The workspace's own list
    /// counts besides.
    pub allow: Vec<IpNet>,
}

/// A key to make.
#[derive(Clone, Copy, Debug)]
pub struct NewKey<'a> {
    pub workspace: i32,
    pub name: &'a str,
    pub permissions: &'a [String],
    pub allow: &'a [IpNet],
    /// Whether the workspace file declares it; the others `apply` leaves alone.
    pub declared: bool,
}

/// A key as listed. Its secret is known to nobody here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyInfo {
    pub id: Uuid,
    /// The workspace's name.
    pub workspace: String,
    pub name: String,
    pub(super) hash: Vec<u8>,
    pub permissions: Vec<String>,
    pub allow: Vec<IpNet>,
    pub declared: bool,
    pub created_at: i64,
    pub last_used_at: Option<i64>,
    pub revoked_at: Option<i64>,
}

impl KeyInfo {
    /// Whether this is the key with that secret.
    pub(super) fn has_secret(&self, secret: &str) -> bool {
        self.hash == hash(secret)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("a key needs a name of 1 to 100 characters, no control characters among them")]
    Name,
    #[error("no such permission: {0}; there are: {list}", list = PERMISSIONS.join(", "))]
    Permission(String),
    #[error("a key needs at least one permission; there are: {list}", list = PERMISSIONS.join(", "))]
    NoPermissions,
    #[error(
        "the secret of a key has at least {SECRET_LENGTH} characters (make one with: openssl rand -base64 32)"
    )]
    ShortSecret,
    #[error(
        "the secret of a key goes into a header: printable ASCII without spaces (make one with: openssl rand -base64 32)"
    )]
    SecretCharacters,
    #[error("another key is called {0} or has this secret; revoke it first, or choose another")]
    Taken(String),
    #[error("no key called {0}, and none with that id, that is not revoked already")]
    Unknown(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Retry for KeyError {
    fn can_retry(&self) -> bool {
        match self {
            Self::Store(error) => error.can_retry(),
            _ => false,
        }
    }
}

/// Makes a key with a random secret, and answers the secret: it is not kept.
pub async fn create(tx: &mut Tx, clock: &Clock, key: NewKey<'_>) -> Result<String, KeyError> {
    let secret = format!("lsk_{}", BASE64_URL_SAFE_NO_PAD.encode(random_bytes::<32>()));
    create_with_secret(tx, clock, key, &secret).await?;
    Ok(secret)
}

/// Makes a key with a secret given.
pub async fn create_with_secret(
    tx: &mut Tx,
    clock: &Clock,
    key: NewKey<'_>,
    secret: &str,
) -> Result<Uuid, KeyError> {
    check_name(key.name)?;
    check_permissions(key.permissions)?;
    check_secret(secret)?;
    let id = Uuid::now_v7();
    if key_rows::insert(tx, id, &hash(secret), &key, clock.now_ms()).await? {
        Ok(id)
    } else {
        Err(KeyError::Taken(key.name.to_owned()))
    }
}

pub(super) fn check_name(name: &str) -> Result<(), KeyError> {
    let length = name.chars().count();
    let is_plain = !name.contains(char::is_control);
    if (1..=100).contains(&length) && is_plain { Ok(()) } else { Err(KeyError::Name) }
}

pub(super) fn check_permissions(permissions: &[String]) -> Result<(), KeyError> {
    if permissions.is_empty() {
        return Err(KeyError::NoPermissions);
    }
    match permissions.iter().find(|name| !PERMISSIONS.contains(&name.as_str())) {
        Some(unknown) => Err(KeyError::Permission(unknown.clone())),
        None => Ok(()),
    }
}

pub(super) fn check_secret(secret: &str) -> Result<(), KeyError> {
    if secret.chars().count() < SECRET_LENGTH {
        return Err(KeyError::ShortSecret);
    }
    if secret.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(())
    } else {
        Err(KeyError::SecretCharacters)
    }
}

/// Ends a key, named by its name or its id, and answers what it was. Processes that know
/// it go on honouring it for five seconds at most.
pub async fn revoke(
    tx: &mut Tx,
    clock: &Clock,
    workspace: i32,
    name_or_id: &str,
) -> Result<KeyInfo, KeyError> {
    let id = Uuid::parse_str(name_or_id).ok();
    let key = list(tx, Some(workspace))
        .await?
        .into_iter()
        .filter(|key| key.revoked_at.is_none())
        .find(|key| Some(key.id) == id || key.name == name_or_id)
        .ok_or_else(|| KeyError::Unknown(name_or_id.to_owned()))?;
    key_rows::revoke(tx, key.id, clock.now_ms()).await?;
    Ok(key)
}

/// The key whose secret is `presented`, if there is one and it is not revoked. Notes, beside
/// the call, that it was used.
pub async fn find(app: &App, presented: &str) -> Result<Option<KeyMatch>, StoreError> {
    let hash = hash(presented);
    if let Some(key) = app.kept.keys.get(&hash) {
        note_use(app, key.key_id);
        return Ok(Some(key));
    }
    let mut tx = app.store.snapshot().await?;
    let key = key_rows::find(&mut tx, &hash).await?;
    tx.commit().await?;
    if let Some(key) = &key {
        app.kept.keys.put(hash, key.clone());
        note_use(app, key.key_id);
    }
    Ok(key)
}

fn note_use(app: &App, key: Uuid) {
    if !app.kept.keys.is_use_to_be_written(key) {
        return;
    }
    let (store, now) = (app.store.clone(), app.clock.now_ms());
    tokio::spawn(async move {
        let written = async {
            let mut tx = store.write().await?;
            key_rows::used(&mut tx, key, now).await?;
            tx.commit().await
        };
        if let Err(error) = written.await {
            tracing::warn!(%key, %error, "the last use of a key could not be written");
        }
    });
}

fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

/// The keys that this process knows for a few seconds. Unknown ones are not kept, so
/// guessing cannot fill it.
#[derive(Default)]
pub(super) struct KnownKeys {
    keys: Mutex<HashMap<[u8; 32], (Instant, KeyMatch)>>,
    uses: Mutex<HashMap<Uuid, Instant>>,
}

impl KnownKeys {
    fn get(&self, hash: &[u8; 32]) -> Option<KeyMatch> {
        let keys = super::lock(&self.keys);
        let (since, key) = keys.get(hash)?;
        (since.elapsed() < KEPT_FOR).then(|| key.clone())
    }

    fn put(&self, hash: [u8; 32], key: KeyMatch) {
        let mut keys = super::lock(&self.keys);
        if keys.len() >= KEPT {
            keys.retain(|_, (since, _)| since.elapsed() < KEPT_FOR);
        }
        if keys.len() >= KEPT {
            keys.clear();
        }
        keys.insert(hash, (Instant::now(), key));
    }

    fn is_use_to_be_written(&self, key: Uuid) -> bool {
        let mut uses = super::lock(&self.uses);
        if uses.get(&key).is_some_and(|written| written.elapsed() < USED_EVERY) {
            return false;
        }
        if uses.len() >= KEPT {
            uses.retain(|_, written| written.elapsed() < USED_EVERY);
        }
        uses.insert(key, Instant::now());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_and_secrets_are_checked() {
        let names = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        assert!(check_permissions(&names(PERMISSIONS)).is_ok());
        assert!(check_permissions(&[]).is_err());
        let error = check_permissions(&names(&["users.track", "users.trak"])).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("users.trak;") && text.contains("messages.send"), "{text}");
        assert!(check_secret("nineteen-characters").is_err());
        assert!(check_secret("twenty-characters-ok").is_ok());
        assert!(check_secret("twenty characters, not ok").is_err());
        assert!(check_name("").is_err());
    }
}
