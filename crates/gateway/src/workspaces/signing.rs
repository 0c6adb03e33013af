//! The keys with which a workspace's exports are signed: see docs/how-to/pin-signing-keys.md.
//!
//! A workspace has one active key. `apply` creates it; for a workspace that was last applied by an
//! earlier release, its first use does. Retired keys are listed for ever.

use uuid::Uuid;

use super::rows;
use super::signing_rows;
use super::storage::StorageError;
use kit::clock::format_seconds;
use kit::secrets::{SecretKey, random_bytes};
use kit::sshsig::{AllowedSigner, PrivateKey, PublicKey};
use store::{StoreError, Tx};

/// The purpose of the signatures.
pub const NAMESPACE: &str = "longshore-export";

/// How long before its creation a key is valid, in milliseconds: an export has the time at which
/// its last file was written, and is signed later if its storage is unavailable then.
const BEFORE_CREATION: i64 = 7 * 86_400 * 1_000;

/// How long after its retirement: the clocks of processes differ, and an export that ends at this
/// moment may have read the key before.
const AFTER_RETIREMENT: i64 = 10 * 60 * 1_000;

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
    pub retired_at: Option<i64>,
}

impl SigningKeyInfo {
    /// The key's line of the file that `ssh-keygen -Y verify -f` reads.
    pub fn allowed_signer(&self, workspace: &str) -> AllowedSigner {
        AllowedSigner {
            principals: workspace.to_owned(),
            namespaces: Some(NAMESPACE.to_owned()),
            valid_after: Some(self.created_at - BEFORE_CREATION),
            valid_before: self.retired_at.map(|retired_at| retired_at + AFTER_RETIREMENT),
            key: self.public_key,
            comment: format!("created {}", format_seconds(self.created_at)),
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
    if let Some(key) = stored(tx, secrets, workspace).await? {
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
    let key = stored(tx, secrets, workspace).await?;
    let missing = || StoreError::Corrupt(format!("signing_keys has no key of {workspace}"));
    Ok(key.ok_or_else(missing)?)
}

async fn stored(
    tx: &mut Tx,
    secrets: &SecretKey,
    workspace: i32,
) -> Result<Option<SigningKey>, StorageError> {
    let Some((id, public_key, sealed)) = signing_rows::active(tx, workspace).await? else {
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

/// Whether the workspace has an active key.
pub async fn exists(tx: &mut Tx, workspace: i32) -> Result<bool, StoreError> {
    Ok(signing_rows::active(tx, workspace).await?.is_some())
}

/// Retires the active key, and creates a new one.
pub async fn rotate(
    tx: &mut Tx,
    secrets: &SecretKey,
    workspace: i32,
    now: i64,
) -> Result<SigningKey, StorageError> {
    // Otherwise two rotations at the same time would result in one new key.
    rows::lock(tx, workspace).await?;
    signing_rows::retire(tx, workspace, now).await?;
    active(tx, secrets, workspace, now).await
}

/// All keys of a workspace: the active one, then the retired ones, the newest first.
pub async fn list(tx: &mut Tx, workspace: i32) -> Result<Vec<SigningKeyInfo>, StoreError> {
    let rows = signing_rows::list(tx, workspace).await?.into_iter();
    let keys = rows.map(|KeyRow { id, public_key, created_at, retired_at }| {
        let bytes: Result<[u8; 32], _> = public_key.try_into();
        let bytes =
            bytes.map_err(|_| StoreError::Corrupt(format!("signing_keys.public_key of {id}")))?;
        let public_key = PublicKey::from_bytes(bytes);
        Ok(SigningKeyInfo { id, public_key, created_at, retired_at })
    });
    keys.collect()
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
