//! The values that an installation stores at its first `migrate` and must keep: the number of
//! partitions of its topics, and the secret key that encrypts its stored secrets.

use base64::{Engine as _, prelude::BASE64_STANDARD};

use kit::retry::Retry;
use kit::secrets::SecretKey;
use store::{StoreError, Tx, settings};

const PARTITIONS: &str = "log.partitions";
const SECRET_KEY: &str = "secret_key.check";
/// The check value of the key before the last rotation.
const RETIRED_KEY: &str = "secret_key.retired";
/// The purpose for which the check value of the secret key is derived.
const CHECK: &str = "check of the secret key";

/// The settings do not match this installation; the text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum FixedError {
    #[error("the database was never migrated: run `longshore migrate`")]
    Missing,
    #[error(
        "log.partitions is {configured}, but this installation's topics have {fixed}. The first \
         `longshore migrate` fixes the number; set it back to {fixed}"
    )]
    Partitions { configured: u32, fixed: u32 },
    #[error(
        "LONGSHORE_SECRET_KEY (or secret.key in the data directory) is not the key that encrypts \
         this database's secrets: set the right key, or, to rotate keys, set \
         LONGSHORE_SECRET_KEY_OLD to the previous key"
    )]
    SecretKey,
    #[error(
        "LONGSHORE_SECRET_KEY (or secret.key in the data directory) is the key that the last \
         `longshore migrate` replaced: set it to the new key, and LONGSHORE_SECRET_KEY_OLD to this \
         one"
    )]
    RetiredKey,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Retry for FixedError {
    fn can_retry(&self) -> bool {
        match self {
            Self::Store(error) => error.can_retry(),
            Self::Missing | Self::Partitions { .. } | Self::SecretKey | Self::RetiredKey => false,
        }
    }
}

/// The key that encrypts the stored secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sealed {
    /// The current one.
    Current,
    /// `LONGSHORE_SECRET_KEY_OLD`: the next `migrate` encrypts them again.
    Old,
}

/// Stores the number of partitions if none is stored; an error if it differs.
pub async fn fix_partitions(tx: &mut Tx, configured: u32) -> Result<(), FixedError> {
    settings::put_if_absent(tx, PARTITIONS, &configured.to_string()).await?;
    check_partitions(tx, configured).await
}

/// Rejects a number of partitions that differs from the stored one.
pub async fn check_partitions(tx: &mut Tx, configured: u32) -> Result<(), FixedError> {
    let fixed = stored_partitions(tx).await?.ok_or(FixedError::Missing)?;
    if fixed == configured { Ok(()) } else { Err(FixedError::Partitions { configured, fixed }) }
}

/// The stored number of partitions; none before the first `migrate`.
pub async fn stored_partitions(tx: &mut Tx) -> Result<Option<u32>, StoreError> {
    let stored = settings::get(tx, PARTITIONS).await?;
    let parsed = stored.map(|stored| stored.parse::<u32>()).transpose();
    parsed.map_err(|_| StoreError::Corrupt(format!("settings.value of {PARTITIONS}")))
}

/// Stores a check value of the secret key if there is none yet; then [`check_secret_key`].
pub async fn fix_secret_key(tx: &mut Tx, secrets: &SecretKey) -> Result<Sealed, FixedError> {
    settings::put_if_absent(tx, SECRET_KEY, &check_value(secrets)).await?;
    check_secret_key(tx, secrets).await
}

/// Rejects a secret key that does not encrypt the stored secrets.
pub async fn check_secret_key(tx: &mut Tx, secrets: &SecretKey) -> Result<Sealed, FixedError> {
    let stored = settings::get(tx, SECRET_KEY).await?.ok_or(FixedError::Missing)?;
    if stored == check_value(secrets) {
        return Ok(Sealed::Current);
    }
    // With the two keys exchanged, it would look like the beginning of another rotation.
    if settings::get(tx, RETIRED_KEY).await?.is_some_and(|key| key == check_value(secrets)) {
        return Err(FixedError::RetiredKey);
    }
    let tag = BASE64_STANDARD
        .decode(stored)
        .map_err(|_| StoreError::Corrupt(format!("settings.value of {SECRET_KEY}")))?;
    if secrets.verify(CHECK, &[], &tag) { Ok(Sealed::Old) } else { Err(FixedError::SecretKey) }
}

/// Records that the current key now encrypts all stored secrets.
pub async fn put_secret_key(tx: &mut Tx, secrets: &SecretKey) -> Result<(), StoreError> {
    let current = check_value(secrets);
    // It is the current one already if another process has done the same meanwhile.
    if let Some(former) = settings::get(tx, SECRET_KEY).await?.filter(|key| *key != current) {
        settings::put(tx, RETIRED_KEY, &former).await?;
    }
    settings::put(tx, SECRET_KEY, &current).await
}

fn check_value(secrets: &SecretKey) -> String {
    BASE64_STANDARD.encode(secrets.derive(CHECK, &[]))
}
