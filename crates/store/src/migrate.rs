//! Migrates a database to a program's schema.
//!
//! A schema changes in two steps, so that programs of two versions can run side by side on it
//! (expand, then contract). A migration that only adds leaves the older programs running. One that
//! removes something that they use states the oldest schema whose programs may run from then on
//! (`schema.oldest` in `settings`), and comes a release after the last program that used it:
//!
//! ```sql
//! INSERT INTO settings (name, value) VALUES ('schema.oldest', '3')
//!     ON CONFLICT (name) DO UPDATE SET value = excluded.value;
//! ```
//!
//! On PostgreSQL, all later transactions wait behind a step that waits for a lock. So it waits only
//! for seconds, and its transaction is repeated after a longer pause. Steps up to 30 repeat the
//! wait themselves, too.

use std::fmt;
use std::time::Duration;

use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection as _, PgConnection, PgPool, SqlSafeStr as _};

use super::{LOCK_NOT_AVAILABLE, Store, StoreError, on, settings};
use kit::moment::Moment;

/// The statements that migrate a database to a program's schema, part of its binary.
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

/// A step with this text states the oldest schema whose programs may still run.
const OLDEST: &str = "schema.oldest";

/// How long a step waits for a lock in PostgreSQL. Longer than `deadlock_timeout`, after which
/// PostgreSQL cancels an autovacuum that is in the way.
const LOCK_TIMEOUT: &str = "3s";

/// Pause before a step is repeated whose lock was not free, so that others can work.
const LOCK_PAUSE: Duration = Duration::from_secs(6);

/// A step whose lock is not free for longer fails.
const MAX_LOCK_WAIT: Duration = Duration::from_secs(180);

/// The steps that a database lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    pub schema: Schema,
    /// Their versions and names, in order.
    pub steps: Vec<(i64, String)>,
    /// Whether older programs stop running on the database.
    pub stops_older_programs: bool,
}

/// The schema of a database, and that of this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schema {
    /// The latest applied migration; 0 for an empty database.
    pub at: i64,
    /// The oldest schema whose programs may still run on it.
    pub oldest: i64,
    /// The schema that this program migrates to.
    pub own: i64,
}

impl Schema {
    /// Whether a newer program has migrated it.
    pub fn is_newer(&self) -> bool {
        self.at > self.own
    }

    /// Whether this program may run on it; the error says what to run.
    fn check_supported(self) -> Result<Self, StoreError> {
        let Self { at, own, .. } = self;
        if at == 0 {
            return Err(StoreError::Version(
                "there is no installation yet: run `longshore migrate` of this version, which \
                 creates the database and the log"
                    .into(),
            ));
        }
        if at < own {
            return Err(StoreError::Version(format!(
                "the database is at schema {at} but this version needs {own}: run `longshore \
                 migrate` of this version"
            )));
        }
        self.check_not_too_old()
    }

    /// Whether it is not newer than this program.
    fn check_not_too_old(self) -> Result<Self, StoreError> {
        let Self { at, oldest, own } = self;
        if own < oldest {
            return Err(StoreError::Version(format!(
                "the database is at schema {at}, which needs a version with schema {oldest} or \
                 newer; this version has {own}: run a newer longshore"
            )));
        }
        Ok(self)
    }
}

/// The operator's message about a database that this program may run on.
impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_newer() {
            write!(
                f,
                "at schema {}, newer than this version's {}, which still works with it",
                self.at, self.own
            )
        } else {
            write!(f, "at this version (schema {})", self.at)
        }
    }
}

impl Migrations {
    /// All steps of all releases, in order.
    pub fn new(steps: &[Step]) -> Self {
        let migrator = |sql: fn(&Step) -> &'static str| {
            let migrations = steps.iter().map(|step| {
                let (name, sql) = (step.name.into(), sql(step).into_sql_str());
                Migration::new(step.version, name, MigrationType::Simple, sql, false)
            });
            // Ignores the migrations of newer programs.
            Migrator { ignore_missing: true, ..Migrator::with_migrations(migrations.collect()) }
        };
        Self { postgres: migrator(|step| step.postgres), sqlite: migrator(|step| step.sqlite) }
    }

    /// The versions and names of the steps.
    pub fn names(&self) -> impl Iterator<Item = (i64, &str)> {
        self.postgres.iter().map(|step| (step.version, &*step.description))
    }

    /// The steps that [`run`](Self::run) would apply. An error if this program may not run on the
    /// database.
    pub async fn pending(&self, store: &Store) -> Result<Pending, StoreError> {
        let schema = self.read_schema(store).await?.check_not_too_old()?;
        let migrator = if store.is_postgres() { &self.postgres } else { &self.sqlite };
        let missing = || migrator.iter().filter(|step| step.version > schema.at);
        Ok(Pending {
            schema,
            steps: missing().map(|step| (step.version, step.description.to_string())).collect(),
            stops_older_programs: missing().any(|step| step.sql.as_str().contains(OLDEST)),
        })
    }

    /// The same for a database that does not exist.
    pub fn pending_without_database(&self) -> Pending {
        let steps: Vec<(i64, String)> =
            self.names().map(|(version, name)| (version, name.to_owned())).collect();
        let own = steps.iter().map(|(version, _)| *version).max().unwrap_or(0);
        Pending { schema: Schema { at: 0, oldest: 0, own }, steps, stops_older_programs: false }
    }

    /// Applies the missing steps; none on a newer database that this program may run on. Safe to
    /// run from many processes of several versions at the same time: one applies the steps, the
    /// others wait.
    pub async fn run(&self, store: &Store) -> Result<Schema, StoreError> {
        self.read_schema(store).await?.check_not_too_old()?;
        match store {
            Store::Postgres { pool, .. } => self.run_on_postgres(pool).await?,
            Store::Sqlite { write, .. } => self.sqlite.run(write).await?,
        }
        self.read_schema(store).await?.check_supported()
    }

    /// Uses a connection of its own: after an error, it still has sqlx's lock of all migrations.
    async fn run_on_postgres(&self, pool: &PgPool) -> Result<(), StoreError> {
        let options = PgConnectOptions::clone(&pool.connect_options());
        let options = options.options([("lock_timeout", LOCK_TIMEOUT)]);
        let mut connection = PgConnection::connect_with(&options).await?;
        let mut blocked: Option<(i64, Moment)> = None;
        while let Err(error) = self.postgres.run(&mut connection).await {
            let Some(step) = blocked_step(&error) else { return Err(error.into()) };
            let same = blocked.filter(|(former, _)| *former == step);
            let (_, since) = *blocked.insert(same.unwrap_or((step, Moment::now())));
            if since.elapsed() > MAX_LOCK_WAIT {
                return Err(error.into());
            }
            tracing::info!(step, "migration step delayed: a lock was not free");
            tokio::time::sleep(LOCK_PAUSE).await;
        }
        Ok(connection.close().await?)
    }

    /// Whether this program may run on the database; the error says what to run.
    pub async fn check(&self, store: &Store) -> Result<Schema, StoreError> {
        self.read_schema(store).await?.check_supported()
    }

    /// Whether the store is in a data directory that has never been used.
    pub async fn is_new_directory(&self, store: &Store) -> Result<bool, StoreError> {
        Ok(!store.is_postgres() && self.read_schema(store).await?.at == 0)
    }

    async fn read_schema(&self, store: &Store) -> Result<Schema, StoreError> {
        let migrator = if store.is_postgres() { &self.postgres } else { &self.sqlite };
        let own = migrator.iter().map(|migration| migration.version).max().unwrap_or(0);
        let mut tx = store.snapshot().await?;
        let sql = "SELECT coalesce(max(version), 0) FROM _sqlx_migrations WHERE success";
        let at: Result<i64, sqlx::Error> =
            on!(&mut tx, c => sqlx::query_scalar(sql).fetch_one(c).await);
        // A missing table of migrations means an empty database; anything else is an error.
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

/// The step that failed because a lock was not free in time; 0 for sqlx's lock of all migrations,
/// which another process has.
fn blocked_step(error: &MigrateError) -> Option<i64> {
    let (error, step) = match error {
        MigrateError::ExecuteMigration(error, step) => (error, *step),
        MigrateError::Execute(error) => (error, 0),
        _ => return None,
    };
    let code = error.as_database_error()?.code();
    (code.as_deref() == Some(LOCK_NOT_AVAILABLE)).then_some(step)
}

fn is_no_table(error: &sqlx::Error) -> bool {
    let Some(error) = error.as_database_error() else { return false };
    match error.code().as_deref() {
        Some("42P01") => true,
        // SQLite has no specific error code for it.
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
            assert_eq!(good.check_supported().unwrap(), good);
            assert_eq!(good.to_string().contains("newer"), good.at > 3, "{good}");
        }
        for (bad, message) in [
            (schema(2, 1, 3), "run `longshore migrate`"),
            (schema(0, 0, 3), "run `longshore migrate`"),
            (schema(5, 4, 3), "schema 4 or newer"),
        ] {
            let error = bad.check_supported().unwrap_err();
            assert!(
                matches!(&error, StoreError::Version(text) if text.contains(message)),
                "{error}"
            );
        }
        assert!(schema(2, 1, 3).check_not_too_old().is_ok(), "migrate fixes it");
    }
}
