//! The two databases behind one face: PostgreSQL for a fleet, SQLite alone.
//!
//! SQL is written once wherever both can run it: numbered parameters, `ON CONFLICT …
//! RETURNING`, common table expressions. [`on!`](crate::on) runs one statement on
//! whichever database a transaction belongs to; [`Tx::is_postgres`] is for the few places
//! that branch. Times are milliseconds since the epoch, ids are UUIDs, JSON is text.

pub mod cache;
pub mod claims;
pub mod columns;
pub mod documents;
pub mod insert;
pub mod inspect;
pub mod migrate;
pub mod pools;
pub mod retention;
pub mod settings;
pub mod wake;

use std::ops::{Deref, DerefMut};
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use claims::Kind;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Connection as _, Database, PgPool, Postgres, Sqlite, SqlitePool, Transaction};
use tokio::sync::Semaphore;
use tracing::Instrument as _;
use wake::WakeSignal;

pub use kit::named;
use kit::private;
use kit::retry::Retry;

/// A connection that was unused for longer is asked whether it is still there.
const TRUSTED: Duration = Duration::from_secs(1);

/// The store of rows. Cheap to clone.
#[derive(Clone, Debug)]
pub enum Store {
    Postgres {
        pool: PgPool,
        wake: WakeSignal,
    },
    /// SQLite has one writer at a time, so it gets one connection to write with: who
    /// waits, waits here in order and not inside the database. Readers see snapshots.
    Sqlite {
        read: SqlitePool,
        write: SqlitePool,
        wake: WakeSignal,
    },
}

/// A transaction of either database. Dropped without [`commit`](Tx::commit), it is
/// rolled back.
#[derive(Debug)]
pub enum Tx {
    Postgres(Open<Postgres>),
    Sqlite(Open<Sqlite>),
}

/// An open transaction, and the kinds of rows that its commit lets workers take.
#[derive(Debug)]
pub struct Open<D: Database> {
    transaction: Transaction<'static, D>,
    offered: Vec<Kind>,
    wake: WakeSignal,
}

impl<D: Database> Open<D> {
    fn new(transaction: Transaction<'static, D>, wake: &WakeSignal) -> Self {
        Self { transaction, offered: Vec::new(), wake: wake.clone() }
    }

    async fn commit(self) -> Result<(), sqlx::Error> {
        let committed = self.transaction.commit().await;
        // After a failure, too: it may be the answer that was lost.
        self.offered.into_iter().for_each(|kind| self.wake.wake(kind));
        committed
    }
}

impl<D: Database> Deref for Open<D> {
    type Target = D::Connection;

    fn deref(&self) -> &D::Connection {
        &self.transaction
    }
}

impl<D: Database> DerefMut for Open<D> {
    fn deref_mut(&mut self) -> &mut D::Connection {
        &mut self.transaction
    }
}

/// Runs one expression on the connection of a [`Tx`], whichever database it is:
///
/// ```text
/// on!(tx, c => sqlx::query_scalar("SELECT count(*) FROM users").fetch_one(c).await?)
/// ```
#[macro_export]
macro_rules! on {
    ($tx:expr, $connection:ident => $body:expr) => {
        match $tx {
            $crate::Tx::Postgres(tx) => {
                let $connection = &mut **tx;
                $body
            }
            $crate::Tx::Sqlite(tx) => {
                let $connection = &mut **tx;
                $body
            }
        }
    };
}

/// Executes one statement on the connection of a [`Tx`]; how many rows it changed.
#[macro_export]
macro_rules! execute {
    ($tx:expr, $query:expr) => {
        $crate::on!($tx, c => $query.execute(c).await?.rows_affected())
    };
}

/// What went wrong with the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the database: {}", in_words(.0))]
    Database(#[from] sqlx::Error),
    #[error("the database's schema: {0}")]
    Migrate(#[from] sqlx::migrate::MigrateError),
    /// The schema is not the one of this program; the text says what to run.
    #[error("{0}")]
    Version(String),
    /// A stored value cannot be read; the text names the row.
    #[error("a stored value cannot be read: {0}")]
    Corrupt(String),
    /// A newer program wrote a stored value; the text names the row.
    #[error("{0}, which this program does not know: it waits for a newer longshore")]
    Newer(String),
    #[error("the database: no answer in time")]
    Silent,
    /// Of a read that several wait for.
    #[error(transparent)]
    Shared(Arc<Self>),
    /// In smaller pieces it is not.
    #[error("it is more than one transaction may hold")]
    TooMuch,
}

/// What a transaction may still take up in memory, in bytes.
#[derive(Debug)]
pub struct Room(usize);

impl Room {
    pub fn new(bytes: usize) -> Self {
        Self(bytes)
    }

    /// For what cannot be had in smaller pieces.
    pub fn endless() -> Self {
        Self(usize::MAX)
    }

    pub fn left(&self) -> usize {
        self.0
    }

    pub fn take(&mut self, bytes: usize) -> Result<(), StoreError> {
        self.0 = self.0.checked_sub(bytes).ok_or(StoreError::TooMuch)?;
        Ok(())
    }
}

impl Retry for StoreError {
    fn can_retry(&self) -> bool {
        match self {
            Self::Database(error) => database_can_retry(error),
            Self::Silent | Self::TooMuch | Self::Newer(_) => true,
            Self::Migrate(_) | Self::Version(_) | Self::Corrupt(_) => false,
            Self::Shared(error) => error.can_retry(),
        }
    }

    fn is_too_much(&self) -> bool {
        match self {
            Self::Silent | Self::TooMuch => true,
            Self::Shared(error) => error.is_too_much(),
            Self::Database(sqlx::Error::Database(error)) => match error.code().as_deref() {
                // A statement's time-out, that of a transaction that computes, and memory.
                Some("57014" | "25P03" | "53200") => true,
                code => code.and_then(sqlite_code) == Some(SQLITE_NO_MEMORY),
            },
            _ => false,
        }
    }

    /// A column that is not of a form known here is what a newer program, or its migration,
    /// made of it: another word for a state or a kind, say. So is one that is not there any more.
    fn needs_newer(&self) -> bool {
        match self {
            Self::Newer(_) | Self::Database(sqlx::Error::ColumnDecode { .. }) => true,
            Self::Shared(error) => error.needs_newer(),
            Self::Database(sqlx::Error::Database(error)) => {
                // PostgreSQL: no such column, table, function.
                matches!(error.code().as_deref(), Some("42703" | "42P01" | "42883"))
            }
            _ => false,
        }
    }
}

/// Final is only what condemns the settings, the values that were sent or the rows that were
/// read. All else passes, or is an operator's to mend (rights, a schema that is being changed,
/// a server that is restored): none of it says anything about the data.
fn database_can_retry(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Configuration(_)
        | sqlx::Error::InvalidArgument(_)
        | sqlx::Error::RowNotFound
        | sqlx::Error::Encode(_)
        | sqlx::Error::Decode(_) => false,
        sqlx::Error::Database(error) => !error.code().is_some_and(|code| condemns_data(&code)),
        _ => true,
    }
}

fn condemns_data(code: &str) -> bool {
    match sqlite_code(code) {
        Some(code) => [SQLITE_TOO_BIG, SQLITE_CONSTRAINT, SQLITE_MISMATCH].contains(&code),
        // PostgreSQL: bad data, constraints, limits of the program, a row that is damaged.
        None => ["22", "23", "54", "XX001"].iter().any(|class| code.starts_with(class)),
    }
}

const SQLITE_NO_MEMORY: u32 = 7;
const SQLITE_IO_ERROR: u32 = 10;
const SQLITE_FULL: u32 = 13;
const SQLITE_TOO_BIG: u32 = 18;
const SQLITE_CONSTRAINT: u32 = 19;
const SQLITE_MISMATCH: u32 = 20;

/// SQLite's code of an error without what extends it, which is above the low byte.
fn sqlite_code(code: &str) -> Option<u32> {
    let is_sqlite = code.len() < 5;
    code.parse::<u32>().ok().filter(|_| is_sqlite).map(|code| code & 0xff)
}

/// The error's text; of PostgreSQL its message alone, since where in its code it arose helps
/// nobody here. SQLite calls it an I/O error when there is no room for its shared memory, so of
/// both it is said what they mostly mean.
pub fn in_words(error: &sqlx::Error) -> String {
    let Some(answer) = error.as_database_error() else { return error.to_string() };
    match answer.code().as_deref().and_then(sqlite_code) {
        None => answer.message().to_owned(),
        Some(SQLITE_IO_ERROR | SQLITE_FULL) => {
            format!("{error}: the disk of the data directory is full or failing: make room")
        }
        Some(_) => error.to_string(),
    }
}

impl StoreError {
    /// Whether a row that must be unique is there already.
    pub fn is_unique_violation(&self) -> bool {
        matches!(self, Self::Database(sqlx::Error::Database(error)) if error.is_unique_violation())
    }

    /// Whether a lock was not got in the time that the transaction gives it.
    pub fn is_locked_out(&self) -> bool {
        let Self::Database(sqlx::Error::Database(error)) = self else { return false };
        error.code().as_deref() == Some("55P03")
    }
}

impl Store {
    /// Connects to `sqlite://FILE` or `postgres://…` with so many connections at most, without
    /// looking at the schema: [`Migrations`](migrate::Migrations::check) do.
    pub async fn connect(url: &str, connections: u32) -> Result<Self, StoreError> {
        if url.starts_with("sqlite:") {
            return Self::open_sqlite(url, connections).await;
        }
        let options = Self::options(url)?;
        let wake = WakeSignal::postgres(options.clone());
        Ok(Self::postgres(options, connections, pools::APPLICATION, wake))
    }

    /// The same store by connections of its own, which wait for none of these; SQLite's one writer
    /// serves all in their order.
    pub fn reserve(&self, url: &str, connections: u32) -> Result<Self, StoreError> {
        match self {
            Self::Postgres { wake, .. } => {
                let (options, wake) = (Self::options(url)?, wake.clone());
                Ok(Self::postgres(options, connections, pools::RESERVED, wake))
            }
            Self::Sqlite { .. } => Ok(self.clone()),
        }
    }

    /// What every connection to PostgreSQL is set to.
    fn options(url: &str) -> Result<PgConnectOptions, StoreError> {
        Ok(PgConnectOptions::from_str(url)?
            // Against sleepers that keep locks: a process that was stopped in a transaction
            // must not hold up the rest.
            .options([
                ("idle_in_transaction_session_timeout", "60s"),
                ("lock_timeout", "30s"),
                ("default_transaction_isolation", "read committed"),
                // A plan that is made once and kept was made for tables as they were then:
                // an import into empty ones would read all that it has written, again and
                // again.
                ("plan_cache_mode", "force_custom_plan"),
                // Compiling a query takes 140 ms, and none here computes that much.
                ("jit", "off"),
            ]))
    }

    /// `application` is what the server shows of the connections.
    fn postgres(
        options: PgConnectOptions,
        connections: u32,
        application: &str,
        wake: WakeSignal,
    ) -> Self {
        let pool = PgPoolOptions::new()
            .max_connections(connections)
            .acquire_timeout(Duration::from_secs(10))
            .test_before_acquire(false)
            .before_acquire(|connection, found| {
                Box::pin(async move {
                    if found.idle_for > TRUSTED {
                        connection.ping().await?;
                    }
                    Ok(true)
                })
            })
            .after_release(|connection, _| {
                Box::pin(async move {
                    // Each would keep room for the largest statement and result that it ever
                    // had: megabytes, with batches of profiles.
                    connection.shrink_buffers();
                    Ok(true)
                })
            })
            .connect_lazy_with(options.application_name(application));
        Self::Postgres { pool, wake }
    }

    async fn open_sqlite(url: &str, connections: u32) -> Result<Self, StoreError> {
        let options = SqliteConnectOptions::from_str(url)?;
        if let Some(directory) = options.get_filename().parent() {
            private::directory(directory).map_err(sqlx::Error::Io)?;
        }
        private::database(options.get_filename()).map_err(sqlx::Error::Io)?;
        let options = options
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            // NORMAL would lose acknowledged commits at a power cut.
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(Duration::from_secs(30))
            .statement_cache_capacity(256)
            .pragma("cache_size", "-32768")
            .pragma("mmap_size", "268435456")
            .pragma("temp_store", "MEMORY");
        let write = sqlite_pool()
            .max_connections(1)
            .acquire_timeout(Duration::from_secs(60))
            .connect_with(options.clone())
            .await?;
        let read = sqlite_pool()
            .max_connections(connections)
            .acquire_timeout(Duration::from_secs(30))
            .connect_with(options.pragma("query_only", "ON"))
            .await?;
        Ok(Self::Sqlite { read, write, wake: WakeSignal::local() })
    }

    pub fn is_postgres(&self) -> bool {
        matches!(self, Self::Postgres { .. })
    }

    /// Wakes the loops that take rows of this store.
    pub fn wake(&self) -> &WakeSignal {
        match self {
            Self::Postgres { wake, .. } | Self::Sqlite { wake, .. } => wake,
        }
    }

    /// A transaction that may write. On SQLite it takes the write lock at once: one that
    /// began as a reader could not go on to write.
    pub async fn write(&self) -> Result<Tx, StoreError> {
        Ok(match self {
            Self::Postgres { pool, wake } => {
                let begun = pools::timed(pools::name(pool), pool.begin()).await?;
                Tx::Postgres(Open::new(begun, wake))
            }
            Self::Sqlite { write, wake, .. } => {
                let begun = write.begin_with("BEGIN IMMEDIATE");
                Tx::Sqlite(Open::new(pools::timed(pools::WRITER, begun).await?, wake))
            }
        })
    }

    /// [`write`](Self::write) for what finds its rows by their keys alone, and is done again, with
    /// the same result, where a crash of the server takes it back.
    ///
    /// PostgreSQL plans each statement once for a connection: to plan one over a hundred partitions
    /// takes it longer than to find the users of a small batch. What is planned once may be planned
    /// for tables that are still empty, so it goes by indexes. The commit does not wait for the
    /// disk, so what it locks is free again at once; any other commit after it makes it durable,
    /// too. SQLite writes as ever.
    pub async fn write_by_keys(&self) -> Result<Tx, StoreError> {
        const BEGIN: &str = "BEGIN; SET LOCAL plan_cache_mode TO force_generic_plan; \
                             SET LOCAL enable_seqscan TO off; SET LOCAL synchronous_commit TO off";
        Ok(match self {
            Self::Postgres { pool, wake } => {
                let begun = pool.begin_with(BEGIN);
                Tx::Postgres(Open::new(pools::timed(pools::name(pool), begun).await?, wake))
            }
            Self::Sqlite { .. } => self.write().await?,
        })
    }

    /// A read-only transaction that sees one state of the store for as long as it is open.
    pub async fn snapshot(&self) -> Result<Tx, StoreError> {
        Ok(match self {
            Self::Postgres { pool, wake } => {
                let begun = pool.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY");
                Tx::Postgres(Open::new(pools::timed(pools::name(pool), begun).await?, wake))
            }
            Self::Sqlite { read, wake, .. } => {
                Tx::Sqlite(Open::new(pools::timed(pools::MAIN, read.begin()).await?, wake))
            }
        })
    }

    /// Milliseconds since the epoch by the database's clock.
    pub async fn now(&self) -> Result<i64, StoreError> {
        claims::now(&mut self.snapshot().await?).await
    }

    /// Closes the connections, waiting for those in use and for what wakes other processes.
    pub async fn close(&self) {
        self.wake().flush().await;
        match self {
            Self::Postgres { pool, .. } => pool.close().await,
            Self::Sqlite { read, write, .. } => {
                read.close().await;
                write.close().await;
            }
        }
    }
}

/// Does `work` with the store in a task of its own, and waits for it no longer than for
/// `patience`: on a connection that was cut without a word nothing ever comes. The task then
/// runs on, since database work is not dropped half way.
pub async fn answered<T, E>(
    work: impl Future<Output = Result<T, E>> + Send + 'static,
    patience: impl Future<Output = ()>,
) -> Result<T, E>
where
    T: Send + 'static,
    E: From<StoreError> + Send + 'static,
{
    let task = tokio::spawn(work.in_current_span());
    tokio::select! {
        joined = task => joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic())),
        () = patience => Err(StoreError::Silent.into()),
    }
}

/// Does `work` with the store, as [`answered`] does, no longer than for `patience` and only where
/// one of the `turns` is free, which it keeps until it has ended: what got no answer may hold its
/// connection for long, and who asks again must not take another one each time.
pub async fn answered_in_turn<T: Send + 'static>(
    work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    turns: &Arc<Semaphore>,
    patience: Duration,
) -> Result<T, StoreError> {
    let turn = turns.clone().try_acquire_owned().map_err(|_| StoreError::Silent)?;
    let work = async move {
        let result = work.await;
        drop(turn);
        result
    };
    answered(work, tokio::time::sleep(patience)).await
}

/// A value as JSON: for a column, or in place of an array for SQLite's `json_each`.
pub fn to_json<T: serde::Serialize + ?Sized>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Corrupt(error.to_string()))
}

/// What every pool of SQLite connections begins with: a connection that believes to be in a
/// transaction still is given up. SQLite itself rolls back where the disk is full, which sqlx
/// does not notice, and nothing could ever begin on that connection again.
pub fn sqlite_pool() -> SqlitePoolOptions {
    SqlitePoolOptions::new().before_acquire(|connection, _| {
        let is_free = !connection.is_in_transaction();
        Box::pin(async move { Ok(is_free) })
    })
}

impl Tx {
    pub fn is_postgres(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }

    /// Has the commit wake the loops of a kind.
    pub(crate) fn offers(&mut self, kind: Kind) {
        let offered = match self {
            Self::Postgres(tx) => &mut tx.offered,
            Self::Sqlite(tx) => &mut tx.offered,
        };
        if !offered.contains(&kind) {
            offered.push(kind);
        }
    }

    /// Begins a piece of work that [`undo`](Self::undo) can take back by itself, whatever
    /// became of it. One at a time.
    pub async fn begin_piece(&mut self) -> Result<(), StoreError> {
        execute!(self, sqlx::query("SAVEPOINT piece"));
        Ok(())
    }

    /// Keeps the piece.
    pub async fn keep(&mut self) -> Result<(), StoreError> {
        execute!(self, sqlx::query("RELEASE SAVEPOINT piece"));
        Ok(())
    }

    /// Takes the piece back, and what it locked.
    pub async fn undo(&mut self) -> Result<(), StoreError> {
        execute!(self, sqlx::query("ROLLBACK TO SAVEPOINT piece"));
        self.keep().await
    }

    /// Has the commit wait for the disk after all
    /// ([`write_by_keys`](Store::write_by_keys)).
    pub async fn commit_synchronously(&mut self) -> Result<(), StoreError> {
        if let Self::Postgres(tx) = self {
            sqlx::query("SET LOCAL synchronous_commit TO DEFAULT").execute(&mut **tx).await?;
        }
        Ok(())
    }

    /// Has the commit wait until all that was committed before is on the disk, also what did not
    /// wait for it ([`write_by_keys`](Store::write_by_keys)).
    pub async fn flush(&mut self) -> Result<(), StoreError> {
        if let Self::Postgres(tx) = self {
            // A commit that wrote nothing waits for nothing.
            let sql = "SELECT pg_logical_emit_message(true, 'longshore', '')";
            sqlx::query(sql).execute(&mut **tx).await?;
        }
        Ok(())
    }

    /// Makes what was written durable and visible, and wakes the loops for which it offers rows.
    pub async fn commit(self) -> Result<(), StoreError> {
        match self {
            Self::Postgres(tx) => tx.commit().await?,
            Self::Sqlite(tx) => tx.commit().await?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_sqlite_are_told_from_those_of_postgres() {
        assert_eq!(sqlite_code("13"), Some(SQLITE_FULL));
        // No room for its shared memory.
        assert_eq!(sqlite_code("4874"), Some(SQLITE_IO_ERROR));
        // PostgreSQL's disk full, whose low byte is nothing.
        assert_eq!(sqlite_code("53100"), None);
    }

    #[test]
    fn only_data_is_condemned() {
        for data in ["22021", "22P05", "23505", "54000", "XX001", "19", "2067", "18"] {
            assert!(condemns_data(data), "{data}");
        }
        // A prepared statement that is gone, a plan for a table that was changed, objects in
        // use, a wrong setting, an internal error; no such table, memory, no file.
        for mendable in
            ["26000", "0A000", "55000", "55006", "F0000", "XX000", "XX002", "42P01", "1", "7", "14"]
        {
            assert!(!condemns_data(mendable), "{mendable}");
        }
    }
}
