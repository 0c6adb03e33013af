//! Brings a database to a program's schema.
//!
//! A schema changes in two steps, so that programs of two versions can run side by side on it
//! (expand, then contract). A migration that only adds leaves the older programs running. One that
//! takes away what they use says which schema's programs are the oldest that may run from then on
//! (`schema.oldest` in `settings`), and comes a release after the last program that used it:
//!
//! ```sql
//! INSERT INTO settings (name, value) VALUES ('schema.oldest', '3')
//!     ON CONFLICT (name) DO UPDATE SET value = excluded.value;
//! ```

use std::fmt;

use sqlx::SqlSafeStr as _;
use sqlx::migrate::{Migration, MigrationType, Migrator};

use super::{Store, StoreError, on, settings};

/// The statements that bring a database to a program's schema, part of its binary.
pub struct Migrations {
    postgres: Migrator,
    sqlite: Migrator,
}

/// One step of a schema.
pub struct Step {
    pub version: i64,
    pub name: &'static str,
    pub postgres: &'static str,
    pub sqlite: &'static str,
}

/// Where a database is, and this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schema {
    /// The latest migration that it has seen; 0 of an empty one.
    pub at: i64,
    /// The oldest schema whose programs may still run on it.
    pub oldest: i64,
    /// The one that this program brings a database to.
    pub own: i64,
}

impl Schema {
    /// Whether a newer program brought it further than this one does.
    pub fn is_newer(&self) -> bool {
        self.at > self.own
    }

    /// Whether this program may run on it; the error says what to run.
    fn serves(self) -> Result<Self, StoreError> {
        let Self { at, own, .. } = self;
        if at < own {
            return Err(StoreError::Version(format!(
                "the database is at schema {at} and this program needs {own}: run `longshore \
                 migrate` of this version"
            )));
        }
        self.is_not_past()
    }

    /// Whether it was not brought past this program.
    fn is_not_past(self) -> Result<Self, StoreError> {
        let Self { at, oldest, own } = self;
        if own < oldest {
            return Err(StoreError::Version(format!(
                "the database is at schema {at}, on which programs of schema {oldest} or newer \
                 run, and this program's is {own}: run a newer longshore"
            )));
        }
        Ok(self)
    }
}

/// What an operator is told of a database that this program may run on.
impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_newer() {
            false => write!(f, "at this version (schema {})", self.at),
            true => write!(
                f,
                "at schema {}, newer than this program's {}, which still runs on it",
                self.at, self.own
            ),
        }
    }
}

impl Migrations {
    /// All steps there ever were, in their order.
    pub fn new(steps: &[Step]) -> Self {
        let migrator = |sql: fn(&Step) -> &'static str| {
            let migrations = steps.iter().map(|step| {
                let (name, sql) = (step.name.into(), sql(step).into_sql_str());
                Migration::new(step.version, name, MigrationType::Simple, sql, false)
            });
            // Migrations of newer programs are theirs.
            Migrator { ignore_missing: true, ..Migrator::with_migrations(migrations.collect()) }
        };
        Self { postgres: migrator(|step| step.postgres), sqlite: migrator(|step| step.sqlite) }
    }

    /// The versions and names of the steps.
    pub fn names(&self) -> impl Iterator<Item = (i64, &str)> {
        self.postgres.iter().map(|step| (step.version, &*step.description))
    }

    /// Applies what is missing, which is nothing on a newer database that this program may run on.
    /// Safe to run from many processes at once, of several versions: one applies, the others wait
    /// and find nothing left to do.
    pub async fn run(&self, store: &Store) -> Result<Schema, StoreError> {
        self.look(store).await?.is_not_past()?;
        match store {
            Store::Postgres { pool, .. } => self.postgres.run(pool).await?,
            Store::Sqlite { write, .. } => self.sqlite.run(write).await?,
        }
        self.look(store).await?.serves()
    }

    /// Whether this program may run on the database; the error says what to run.
    pub async fn check(&self, store: &Store) -> Result<Schema, StoreError> {
        self.look(store).await?.serves()
    }

    /// Whether the store is in a data directory that nothing was ever kept in.
    pub async fn is_new_directory(&self, store: &Store) -> Result<bool, StoreError> {
        Ok(!store.is_postgres() && self.look(store).await?.at == 0)
    }

    async fn look(&self, store: &Store) -> Result<Schema, StoreError> {
        let migrator = if store.is_postgres() { &self.postgres } else { &self.sqlite };
        let own = migrator.iter().map(|migration| migration.version).max().unwrap_or(0);
        let mut tx = store.snapshot().await?;
        let sql = "SELECT coalesce(max(version), 0) FROM _sqlx_migrations WHERE success";
        let at: Result<i64, sqlx::Error> =
            on!(&mut tx, c => sqlx::query_scalar(sql).fetch_one(c).await);
        // No table of migrations is an empty database; anything else is the database's error.
        let at = match at {
            Err(error) if is_no_table(&error) => return Ok(Schema { at: 0, oldest: 0, own }),
            at => at?,
        };
        let oldest = match at {
            0 => 0,
            _ => settings::oldest_schema(&mut tx).await?,
        };
        tx.commit().await?;
        Ok(Schema { at, oldest, own })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_runs_on_its_own_schema_and_on_newer_ones_that_still_serve_it() {
        let schema = |at, oldest, own| Schema { at, oldest, own };
        for good in [schema(3, 1, 3), schema(4, 1, 3), schema(4, 3, 3)] {
            assert_eq!(good.serves().unwrap(), good);
            assert_eq!(good.to_string().contains("newer"), good.at > 3, "{good}");
        }
        for (bad, told) in [
            (schema(2, 1, 3), "run `longshore migrate`"),
            (schema(0, 0, 3), "run `longshore migrate`"),
            (schema(5, 4, 3), "schema 4 or newer"),
        ] {
            let error = bad.serves().unwrap_err();
            assert!(matches!(&error, StoreError::Version(text) if text.contains(told)), "{error}");
        }
        assert!(schema(2, 1, 3).is_not_past().is_ok(), "migrate mends it");
    }
}
