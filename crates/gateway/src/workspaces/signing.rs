//! The keys with which a workspace's exports are signed: see docs/how-to/pin-signing-keys.md.
//!
//! A workspace has one active key. `apply` creates it; for a workspace that was last applied by an
//! earlier release, its first use does. A rotation announces the next key: it is listed at once, and
//! signs from the time on at which the active key retires. Retired keys are listed for ever.

use uuid::Uuid;

use super::rows;
use super::signing_rows;
use super::storage::StorageError;
use kit::clock::{format_seconds, hours, millis};
use kit::secrets::{SecretKey, random_bytes};
use kit::sshsig::{AllowedSigner, PrivateKey, PublicKey};
use runtime::config::Config;
use store::{StoreError, Tx};

/// The purpose of the signatures.
pub const NAMESPACE: &str = "longshore-export";

/// How long before its creation a key is valid, at least, in milliseconds: an export has the time at
/// which its last file was written, and is signed later if its storage is unavailable then.
const BEFORE_CREATION: i64 = 7 * 86_400 * 1_000;

/// How long after its retirement: the clocks of processes differ, and an export that ends at this
/// moment may have read the key before.
const AFTER_RETIREMENT: i64 = 10 * 60 * 1_000;

/// Then only the newest key is active.
const END_OF_TIME: i64 = i64::MAX;

/// How long a rotation announces the next key, unless it says otherwise: long enough for those who
/// pinned the keys to add it. In milliseconds, like the limits.
pub const NOTICE: i64 = 7 * 86_400 * 1_000;

/// Twice the age of the oldest list that a gateway serves: an export is never signed with a key that
/// the gateways do not list yet.
pub const MIN_NOTICE: i64 = 10 * 1_000;

pub const MAX_NOTICE: i64 = 365 * 86_400 * 1_000;

/// The active key of a workspace.
pub struct SigningKey(PrivateKey);

impl SigningKey {
    /// Signs an export's manifest. Returns the content of its `.sig` file.
    pub fn sign(&self, message: &[u8]) -> String {
        self.0.sign(NAMESPACE, message)
    }

    pub fn public_key(&self) -> PublicKey {
        self.0.public_key()
    }
}

/// A stored key, without its private part.
pub(super) struct KeyRow {
    pub id: Uuid,
    pub public_key: Vec<u8>,
    pub created_at: i64,
    pub retired_at: Option<i64>,
}

/// A key as it is listed. Times are milliseconds since the epoch.
#[derive(Clone, Debug)]
pub struct SigningKeyInfo {
    pub id: Uuid,
    pub public_key: PublicKey,
    pub created_at: i64,
    /// When it signed, or will sign, first. Until then it is announced.
    pub signs_from: i64,
    /// The time from which the next key signs, which may lie ahead.
    pub retired_at: Option<i64>,
}

impl SigningKeyInfo {
    pub fn state(&self, now: i64) -> &'static str {
        if self.signs_from > now {
            "next"
        } else if self.retired_at.is_none_or(|retired_at| now < retired_at) {
            "active"
        } else {
            "retired"
        }
    }

    /// The key's line of the file that `ssh-keygen -Y verify -f` reads.
    /// The configuration has how long an export may wait for its storage until it is signed.
    pub fn allowed_signer(&self, workspace: &str, config: &Config) -> AllowedSigner {
        let longest_wait = millis(hours(config.exports.retry_hours));
        let mut comment = format!("created {}", format_seconds(self.created_at));
        if self.signs_from > self.created_at {
            comment += &format!(", signs from {}", format_seconds(self.signs_from));
        }
        AllowedSigner {
            principals: workspace.to_owned(),
            namespaces: Some(NAMESPACE.to_owned()),
            // Not later if the key is announced: the start may be brought forward.
            valid_after: Some(self.created_at - BEFORE_CREATION.max(longest_wait)),
            valid_before: self.retired_at.map(|retired_at| retired_at + AFTER_RETIREMENT),
            key: self.public_key,
            comment,
        }
    }
}

/// The active key of a workspace; creates it if there is none.
pub async fn active(
    tx: &mut Tx,
    secrets: &SecretKey,
    workspace: i32,
    now: i64,
) -> Result<SigningKey, StorageError> {
    active_at(tx, secrets, workspace, now, now).await
}

/// The key that is active at a time; creates it, at `now`, if there is none.
async fn active_at(
    tx: &mut Tx,
    secrets: &SecretKey,
    workspace: i32,
    time: i64,
    now: i64,
) -> Result<SigningKey, StorageError> {
    if let Some(key) = stored(tx, secrets, workspace, time).await? {
        return Ok(key);
    }
    let seed = random_bytes::<32>();
    let key = PrivateKey::from_seed(&seed);
    let id = Uuid::now_v7();
    let (public_key, sealed) = (key.public_key(), secrets.seal(&context(id), &seed));
    if signing_rows::insert(tx, id, workspace, public_key.as_bytes(), &sealed, now).await? {
        return Ok(SigningKey(key));
    }
    // Another process has just created one.
    let key = stored(tx, secrets, workspace, time).await?;
    let missing = || StoreError::Corrupt(format!("signing_keys has no key of {workspace}"));
    Ok(key.ok_or_else(missing)?)
}

async fn stored(
    tx: &mut Tx,
    secrets: &SecretKey,
    workspace: i32,
    time: i64,
) -> Result<Option<SigningKey>, StorageError> {
    let Some((id, public_key, sealed)) = signing_rows::active(tx, workspace, time).await? else {
        return Ok(None);
    };
    let seed = secrets.open(&context(id), &sealed)?;
    let key = seed.as_slice().try_into().ok().map(PrivateKey::from_seed);
    // A signature that no listed key verifies would be worse than an error.
    let key = key.filter(|key| *key.public_key().as_bytes() == *public_key);
    let key =
        key.ok_or_else(|| StoreError::Corrupt(format!("signing_keys.private_key of {id}")))?;
    Ok(Some(SigningKey(key)))
}

/// Whether the workspace has a key that is not retired.
pub async fn exists(tx: &mut Tx, workspace: i32) -> Result<bool, StoreError> {
    Ok(signing_rows::active(tx, workspace, END_OF_TIME).await?.is_some())
}

/// Locks the keys of a workspace. Otherwise two rotations at the same time would announce two keys.
/// It can wait for a long `apply`, so read the time for [`rotate`] after it.
pub async fn lock(tx: &mut Tx, workspace: i32) -> Result<(), StoreError> {
    rows::lock(tx, workspace).await
}

/// Announces the next key, which signs from `signs_from` on, when the active one retires. If a next
/// key is announced already, no other one is created, and its start is only brought forward. The
/// keys must be [locked](lock).
pub async fn rotate(
    tx: &mut Tx,
    secrets: &SecretKey,
    workspace: i32,
    now: i64,
    signs_from: i64,
) -> Result<PublicKey, StorageError> {
    let signs_from = signs_from.max(now + MIN_NOTICE);
    if !signing_rows::bring_forward(tx, workspace, now, signs_from).await? {
        signing_rows::retire(tx, workspace, signs_from).await?;
    }
    Ok(active_at(tx, secrets, workspace, END_OF_TIME, now).await?.public_key())
}

/// All keys of a workspace: the newest first, so an announced one before the active one.
pub async fn list(tx: &mut Tx, workspace: i32) -> Result<Vec<SigningKeyInfo>, StoreError> {
    let rows = signing_rows::list(tx, workspace).await?.into_iter();
    let mut former_until = i64::MIN;
    let keys = rows.rev().map(|KeyRow { id, public_key, created_at, retired_at }| {
        let bytes: Result<[u8; 32], _> = public_key.try_into();
        let bytes =
            bytes.map_err(|_| StoreError::Corrupt(format!("signing_keys.public_key of {id}")))?;
        let public_key = PublicKey::from_bytes(bytes);
        let signs_from = created_at.max(former_until);
        former_until = former_until.max(retired_at.unwrap_or(former_until));
        Ok(SigningKeyInfo { id, public_key, created_at, signs_from, retired_at })
    });
    let mut keys: Vec<SigningKeyInfo> = keys.collect::<Result<_, StoreError>>()?;
    keys.reverse();
    Ok(keys)
}

/// Encrypts all private keys again with the current secret key.
pub(super) async fn reseal(tx: &mut Tx, secrets: &SecretKey) -> Result<(), StorageError> {
    for (id, sealed) in signing_rows::sealed(tx).await? {
        let context = context(id);
        let seed = secrets.open(&context, &sealed)?;
        signing_rows::reseal(tx, id, &secrets.seal(&context, &seed)).await?;
    }
    Ok(())
}

fn context(id: Uuid) -> String {
    format!("signing key {id}")
}
