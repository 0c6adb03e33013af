//! What an installation wrote down at its first `migrate` and must not lose: how many
//! partitions its topics have, and which secret key its stored secrets are sealed with. And what
//! the company is called that it belongs to.

use base64::{Engine as _, prelude::BASE64_STANDARD};

use super::{StoreError, Tx, execute, on};
use crate::retry::Retry;
use crate::secrets::SecretKey;

const OLDEST_SCHEMA: &str = "schema.oldest";
const PARTITIONS: &str = "log.partitions";
const COMPANY: &str = "company";
const SECRET_KEY: &str = "secret_key.check";
/// What the check value of the secret key is derived for.
const CHECK: &str = "check of the secret key";

/// The settings are not those of this installation; the text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("the database was never migrated: run `longshore migrate`")]
    Missing,
    #[error(
        "log.partitions is {configured}, and this installation's topics have {fixed}: the \
         number is fixed by the first `longshore migrate`; set it back to {fixed}"
    )]
    Partitions { configured: u32, fixed: u32 },
    #[error(
        "LONGSHORE_SECRET_KEY (or secret.key in the data directory) is not the key that this \
         database's secrets are sealed with: set the right one, or to rotate keys give the \
         former one as LONGSHORE_SECRET_KEY_OLD"
    )]
    SecretKey,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Retry for SettingsError {
    fn can_retry(&self) -> bool {
        match self {
            Self::Store(error) => error.can_retry(),
            Self::Missing | Self::Partitions { .. } | Self::SecretKey => false,
        }
    }
}

/// Which key the stored secrets are sealed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sealed {
    /// The current one.
    Current,
    /// `LONGSHORE_SECRET_KEY_OLD`: the next `migrate` seals them anew.
    Old,
}

/// The oldest schema whose programs may still run on this database: the first one, until a
/// migration takes away what these use.
pub(super) async fn oldest_schema(tx: &mut Tx) -> Result<i64, StoreError> {
    let Some(oldest) = get(tx, OLDEST_SCHEMA).await? else { return Ok(1) };
    oldest.parse().map_err(|_| StoreError::Corrupt(format!("settings.value of {OLDEST_SCHEMA}")))
}

/// Writes the number of partitions down if there is none yet; the error says when it is
/// another one.
pub async fn fix_partitions(tx: &mut Tx, configured: u32) -> Result<(), SettingsError> {
    put_if_absent(tx, PARTITIONS, &configured.to_string()).await?;
    check_partitions(tx, configured).await
}

/// Refuses another number of partitions than was written down.
pub async fn check_partitions(tx: &mut Tx, configured: u32) -> Result<(), SettingsError> {
    let fixed = get(tx, PARTITIONS).await?.ok_or(SettingsError::Missing)?;
    let fixed = fixed
        .parse::<u32>()
        .map_err(|_| StoreError::Corrupt(format!("settings.value of {PARTITIONS}")))?;
    if fixed == configured { Ok(()) } else { Err(SettingsError::Partitions { configured, fixed }) }
}

/// Writes down which secret key this is, if none is yet; then [`check_secret_key`].
pub async fn fix_secret_key(tx: &mut Tx, secrets: &SecretKey) -> Result<Sealed, SettingsError> {
    put_if_absent(tx, SECRET_KEY, &check_value(secrets)).await?;
    check_secret_key(tx, secrets).await
}

/// Refuses a secret key that the stored secrets are not sealed with.
pub async fn check_secret_key(tx: &mut Tx, secrets: &SecretKey) -> Result<Sealed, SettingsError> {
    let stored = get(tx, SECRET_KEY).await?.ok_or(SettingsError::Missing)?;
    if stored == check_value(secrets) {
        return Ok(Sealed::Current);
    }
    let tag = BASE64_STANDARD
        .decode(stored)
        .map_err(|_| StoreError::Corrupt(format!("settings.value of {SECRET_KEY}")))?;
    if secrets.verify(CHECK, &[], &tag) { Ok(Sealed::Old) } else { Err(SettingsError::SecretKey) }
}

/// Writes down that everything is sealed with the current key now.
pub async fn put_secret_key(tx: &mut Tx, secrets: &SecretKey) -> Result<(), StoreError> {
    let value = check_value(secrets);
    execute!(
        tx,
        sqlx::query("UPDATE settings SET value = $2 WHERE name = $1").bind(SECRET_KEY).bind(&value)
    );
    Ok(())
}

/// What the company is called, once its document was applied.
pub async fn company(tx: &mut Tx) -> Result<Option<String>, StoreError> {
    Ok(get(tx, COMPANY).await?.filter(|name| !name.is_empty()))
}

pub async fn put_company(tx: &mut Tx, name: &str) -> Result<(), StoreError> {
    put_if_absent(tx, COMPANY, name).await?;
    execute!(
        tx,
        sqlx::query("UPDATE settings SET value = $2 WHERE name = $1").bind(COMPANY).bind(name)
    );
    Ok(())
}

/// Makes whoever else wants to apply the company's document wait for the end of this transaction.
pub async fn lock_company(tx: &mut Tx) -> Result<(), StoreError> {
    put_if_absent(tx, COMPANY, "").await?;
    execute!(tx, sqlx::query("UPDATE settings SET value = value WHERE name = $1").bind(COMPANY));
    Ok(())
}

fn check_value(secrets: &SecretKey) -> String {
    BASE64_STANDARD.encode(secrets.derive(CHECK, &[]))
}

async fn get(tx: &mut Tx, name: &str) -> Result<Option<String>, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar("SELECT value FROM settings WHERE name = $1")
        .bind(name).fetch_optional(c).await?))
}

async fn put_if_absent(tx: &mut Tx, name: &str, value: &str) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING",
        )
        .bind(name)
        .bind(value)
    );
    Ok(())
}
