//! Brings a database to this program's schema. The statements are in
//! `deploy/migrations` and are part of the binary.

use sqlx::migrate::{Migrate as _, MigrateError, Migrator};

use super::{Store, StoreError};

static POSTGRES: Migrator = sqlx::migrate!("deploy/migrations/postgres");
static SQLITE: Migrator = sqlx::migrate!("deploy/migrations/sqlite");

/// Applies what is missing. Safe to run from many processes at once: one applies, the
/// others wait and find nothing left to do.
pub async fn run(store: &Store) -> Result<(), StoreError> {
    match store {
        Store::Postgres(pool) => POSTGRES.run(pool).await?,
        Store::Sqlite { write, .. } => SQLITE.run(write).await?,
    }
    Ok(())
}

/// Whether the schema is exactly this program's; the error says what to run.
pub async fn check(store: &Store) -> Result<(), StoreError> {
    let wanted = match store {
        Store::Postgres(_) => POSTGRES.iter().count(),
        Store::Sqlite { .. } => SQLITE.iter().count(),
    };
    let applied = applied(store).await?;
    match applied.cmp(&wanted) {
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Less => Err(StoreError::Version(format!(
            "the database is at schema {applied} and this program needs {wanted}: run `longshore migrate`"
        ))),
        std::cmp::Ordering::Greater => Err(StoreError::Version(format!(
            "the database is at schema {applied}, newer than this program's {wanted}: run a newer longshore"
        ))),
    }
}

/// Whether the store is in a data directory that nothing was ever kept in.
pub(crate) async fn is_new_directory(store: &Store) -> Result<bool, StoreError> {
    Ok(!store.is_postgres() && applied(store).await? == 0)
}

/// How many migrations the database has seen.
async fn applied(store: &Store) -> Result<usize, StoreError> {
    let applied = match store {
        Store::Postgres(pool) => {
            pool.acquire().await?.list_applied_migrations("_sqlx_migrations").await
        }
        Store::Sqlite { write, .. } => {
            write.acquire().await?.list_applied_migrations("_sqlx_migrations").await
        }
    };
    // No table of migrations is an empty database; anything else is the database's error.
    match applied {
        Ok(applied) => Ok(applied.len()),
        Err(MigrateError::Execute(error)) if is_no_table(&error) => Ok(0),
        Err(MigrateError::Execute(error)) => Err(error.into()),
        Err(error) => Err(error.into()),
    }
}

fn is_no_table(error: &sqlx::Error) -> bool {
    let Some(error) = error.as_database_error() else { return false };
    match error.code().as_deref() {
        Some("42P01") => true,
        // SQLite has no code of its own for it.
        Some("1") => error.message().starts_with("no such table"),
        _ => false,
    }
}
