//! Settings that an installation stores about itself: values by name.

use crate::{StoreError, Tx, execute, on};

const OLDEST_SCHEMA: &str = "schema.oldest";

/// The oldest schema whose programs may still run on this database: the first one, until a
/// migration removes something that they use.
pub(super) async fn oldest_schema(tx: &mut Tx) -> Result<i64, StoreError> {
    let Some(oldest) = get(tx, OLDEST_SCHEMA).await? else { return Ok(1) };
    oldest.parse().map_err(|_| StoreError::Corrupt(format!("settings.value of {OLDEST_SCHEMA}")))
}

pub async fn get(tx: &mut Tx, name: &str) -> Result<Option<String>, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar("SELECT value FROM settings WHERE name = $1")
        .bind(name).fetch_optional(c).await?))
}

pub async fn put_if_absent(tx: &mut Tx, name: &str, value: &str) -> Result<(), StoreError> {
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

pub async fn put(tx: &mut Tx, name: &str, value: &str) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "INSERT INTO settings (name, value) VALUES ($1, $2)
             ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        )
        .bind(name)
        .bind(value)
    );
    Ok(())
}

/// Locks the name until the end of this transaction. A missing name becomes an empty value.
pub async fn lock(tx: &mut Tx, name: &str) -> Result<(), StoreError> {
    put_if_absent(tx, name, "").await?;
    execute!(tx, sqlx::query("UPDATE settings SET value = value WHERE name = $1").bind(name));
    Ok(())
}
