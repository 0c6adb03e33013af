//! The two databases behind one interface: PostgreSQL for a fleet, SQLite for standalone.
//!
//! | module | is about |
//! |---|---|
//! | this file | [`Store`], transactions ([`Tx`]), errors; [`on!`](crate::on) and [`execute!`](crate::execute) |
//! | [`claims`], [`wake`], [`database_clock`] | rows shared among workers, with leases; waking the workers that wait for them; whether the clock of the leases was set |
//! | [`columns`], [`insert`], [`copy`], [`documents`] | rows to structs; many rows at once; many new rows on PostgreSQL; JSON in columns, by version |
//! | [`fetch_listed!`](crate::fetch_listed) | the rows whose column has one of many values |
//! | [`batches`], [`write_batcher`] | the same statement of many requests as one; small writes of many callers in one transaction |
//! | [`cache`] | values of the store in a process, refreshed in the background |
//! | [`retention`] | deletes old rows, some in each transaction |
//! | [`migrate`], [`inspect`] | the schema's version; checks of a database before its use |
//! | [`settings`], [`pools`] | what an installation stores about itself; metrics of the connections |
//!
//! SQL is written once wherever both databases can run it: numbered parameters, `ON CONFLICT …
//! RETURNING`, common table expressions. [`Tx::is_postgres`] is for the few places that differ.
//! Times are milliseconds since the epoch, ids are UUIDs, JSON is text.
//!
//! It promises: a transaction takes effect as a whole or not at all, a lost claim takes no effect,
//! and data of a newer version is never misread or dropped ([`documents`]).
//!
//! Start with [`Store::write`], then read [`claims`].

pub mod batches;
pub mod cache;
pub mod claims;
pub mod columns;
pub mod copy;
pub mod database_clock;
pub mod documents;
pub mod insert;
pub mod inspect;
mod listed;
pub mod migrate;
pub mod pools;
pub mod retention;
pub mod settings;
pub mod wake;
pub mod write_batcher;

use std::ops::{Deref, DerefMut};
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use claims::Kind;
use database_clock::DatabaseClock;
use pools::ReservedFor;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Connection as _, Database, PgPool, Postgres, Sqlite, SqlitePool, Transaction};
use tokio::sync::Semaphore;
use tracing::Instrument as _;
use wake::WakeSignal;

pub use kit::named;
use kit::private;
use kit::retry::Retry;

/// A connection that was idle for longer is tested before use.
const TRUSTED: Duration = Duration::from_secs(1);

/// The database. Cheap to clone.
#[derive(Clone, Debug)]
pub enum Store {
    Postgres {
        pool: PgPool,
        wake: WakeSignal,
    },
    /// SQLite has one writer at a time, so there is one connection for writes: writers queue here
    /// in order, not inside the database. Readers see snapshots.
    Sqlite {
        read: SqlitePool,
        write: SqlitePool,
        wake: WakeSignal,
        /// The name of the pool `read` in metrics.
        readers: &'static str,
    },
}

/// A transaction of either database. Rolled back when dropped without [`commit`](Tx::commit).
#[derive(Debug)]
pub enum Tx {
    Postgres(OpenTransaction<Postgres>),
    Sqlite(OpenTransaction<Sqlite>),
}

/// An open transaction, and the kinds of rows that its commit offers to workers.
#[derive(Debug)]
pub struct OpenTransaction<D: Database> {
    transaction: Transaction<'static, D>,
    offered: Vec<Kind>,
    wake: WakeSignal,
}

impl<D: Database> OpenTransaction<D> {
    fn new(transaction: Transaction<'static, D>, wake: &WakeSignal) -> Self {
        Self { transaction, offered: Vec::new(), wake: wake.clone() }
    }

    async fn commit(self) -> Result<(), sqlx::Error> {
        let committed = self.transaction.commit().await;
        // After a failure, too, because only the response may be lost.
        self.offered.into_iter().for_each(|kind| self.wake.wake(kind));
        committed
    }
}

impl<D: Database> Deref for OpenTransaction<D> {
    type Target = D::Connection;

    fn deref(&self) -> &D::Connection {
        &self.transaction
    }
}

impl<D: Database> DerefMut for OpenTransaction<D> {
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

/// Executes one statement on the connection of a [`Tx`]; returns the number of changed rows.
#[macro_export]
macro_rules! execute {
    ($tx:expr, $query:expr) => {
        $crate::on!($tx, c => $query.execute(c).await?.rows_affected())
    };
}

/// An error of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the database: {}", in_words(.0))]
    Database(#[from] sqlx::Error),
    #[error("cannot migrate the database: {0}")]
    Migrate(#[from] sqlx::migrate::MigrateError),
    /// The schema does not fit this program; the text says what to run.
    #[error("{0}")]
    Version(String),
    /// A stored value is unreadable; the text names the row.
    #[error("a stored value cannot be read: {0}")]
    Corrupt(String),
    /// A newer program wrote a stored value; the text names the row.
    #[error("{0}, which this version does not support: it waits for a newer longshore")]
    Newer(String),
    #[error("the database did not respond in time")]
    Timeout,
    /// An error of a read that several callers share.
    #[error(transparent)]
    Shared(Arc<Self>),
    /// Writes fail until the server changes, or another one takes its place.
    #[error("the database is read-only: {0}")]
    ReadOnly(&'static str),
    #[error("a pooler in transaction mode is in front of the database, so notifications are off")]
    Pooled,
    /// Smaller pieces may fit.
    #[error("it is too large for one transaction")]
    TooLarge,
}

/// The memory that a transaction may still use, in bytes.
#[derive(Debug)]
pub struct ByteBudget(usize);

impl ByteBudget {
    pub fn new(bytes: usize) -> Self {
        Self(bytes)
    }

    /// For a value that cannot be split.
    pub fn unlimited() -> Self {
        Self(usize::MAX)
    }

    pub fn remaining(&self) -> usize {
        self.0
    }

    pub fn take(&mut self, bytes: usize) -> Result<(), StoreError> {
        self.0 = self.0.checked_sub(bytes).ok_or(StoreError::TooLarge)?;
        Ok(())
    }
}

impl Retry for StoreError {
    fn can_retry(&self) -> bool {
        match self {
            Self::Database(error) => database_can_retry(error),
            Self::Timeout | Self::TooLarge | Self::Newer(_) | Self::ReadOnly(_) | Self::Pooled => {
                true
            }
            Self::Migrate(_) | Self::Version(_) | Self::Corrupt(_) => false,
            Self::Shared(error) => error.can_retry(),
        }
    }

    fn is_too_large(&self) -> bool {
        match self {
            Self::Timeout | Self::TooLarge => true,
            Self::Shared(error) => error.is_too_large(),
            Self::Database(sqlx::Error::Database(error)) => match error.code().as_deref() {
                // The time-out of a statement, the time-out of an idle transaction, and memory.
                Some("57014" | "25P03" | "53200") => true,
                code => code.and_then(sqlite_code) == Some(SQLITE_NO_MEMORY),
            },
            _ => false,
        }
    }

    /// A column in an unknown format comes from a newer program or its migration, such as a new
    /// name of a state or a kind. The same holds for a missing column.
    fn needs_newer_version(&self) -> bool {
        match self {
            Self::Newer(_) | Self::Database(sqlx::Error::ColumnDecode { .. }) => true,
            Self::Shared(error) => error.needs_newer_version(),
            Self::Database(sqlx::Error::Database(error)) => {
                // PostgreSQL: unknown column, table or function.
                matches!(error.code().as_deref(), Some("42703" | "42P01" | "42883"))
            }
            _ => false,
        }
    }
}

/// Only invalid settings, sent values or stored rows are permanent errors. All others pass, or an
/// operator must fix them (rights, a schema change, a restored server): they say nothing about the
/// data.
fn database_can_retry(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Configuration(_)
        | sqlx::Error::InvalidArgument(_)
        | sqlx::Error::RowNotFound
        | sqlx::Error::Encode(_)
        | sqlx::Error::Decode(_) => false,
        sqlx::Error::Database(error) => !error.code().is_some_and(|code| is_data_error(&code)),
        _ => true,
    }
}

/// Whether the transaction of an error was certainly not committed, and may succeed soon: the
/// server ended it because of another one, or had no free connection. An error of a connection says
/// nothing about a commit. Looks into the causes, because the errors of domains pass on those of
/// the store.
pub fn is_busy(error: &(dyn std::error::Error + 'static)) -> bool {
    kit::errors::causes(error).any(|cause| match cause.downcast_ref::<sqlx::Error>() {
        Some(sqlx::Error::PoolTimedOut) => true,
        Some(sqlx::Error::Database(error)) => error.code().is_some_and(|code| is_busy_code(&code)),
        _ => false,
    })
}

fn is_busy_code(code: &str) -> bool {
    match sqlite_code(code) {
        Some(code) => [SQLITE_BUSY, SQLITE_LOCKED].contains(&code),
        // PostgreSQL: a deadlock or a conflict, a lock that was not free in time, all connections
        // in use, a start in progress.
        None => code.starts_with("40") || [LOCK_NOT_AVAILABLE, "53300", "57P03"].contains(&code),
    }
}

fn is_data_error(code: &str) -> bool {
    match sqlite_code(code) {
        Some(code) => [SQLITE_TOO_BIG, SQLITE_CONSTRAINT, SQLITE_MISMATCH].contains(&code),
        // PostgreSQL: invalid data, constraints, limits of the program, a damaged row.
        None => ["22", "23", "54", "XX001"].iter().any(|class| code.starts_with(class)),
    }
}

const NO_RESPONSE: &str = "unexpected response from SSLRequest: 0x00";

/// PostgreSQL's code for a lock that was not free in time.
const LOCK_NOT_AVAILABLE: &str = "55P03";

const SQLITE_BUSY: u32 = 5;
const SQLITE_LOCKED: u32 = 6;
const SQLITE_NO_MEMORY: u32 = 7;
const SQLITE_IO_ERROR: u32 = 10;
const SQLITE_FULL: u32 = 13;
const SQLITE_TOO_BIG: u32 = 18;
const SQLITE_CONSTRAINT: u32 = 19;
const SQLITE_MISMATCH: u32 = 20;

/// SQLite's error code without its extension above the low byte.
fn sqlite_code(code: &str) -> Option<u32> {
    let is_sqlite = code.len() < 5;
    code.parse::<u32>().ok().filter(|_| is_sqlite).map(|code| code & 0xff)
}

/// The error's text; for PostgreSQL only its message, because the place in its source code helps
/// nobody here. SQLite reports an I/O error when there is no space for its shared memory, so both
/// errors name the usual cause.
pub fn in_words(error: &sqlx::Error) -> String {
    let Some(answer) = error.as_database_error() else {
        // What sqlx makes of an empty response to its first message.
        let is_closed = matches!(error, sqlx::Error::Protocol(text) if text.ends_with(NO_RESPONSE));
        return if is_closed {
            "the server, or a proxy in front of it, closed the new connection".to_owned()
        } else {
            error.to_string()
        };
    };
    match answer.code().as_deref().and_then(sqlite_code) {
        None => answer.message().to_owned(),
        Some(SQLITE_IO_ERROR | SQLITE_FULL) => {
            format!("{error}: the disk of the data directory is full or failing: free some space")
        }
        Some(_) => error.to_string(),
    }
}

impl StoreError {
    /// Whether a row that must be unique already exists.
    pub fn is_unique_violation(&self) -> bool {
        matches!(self, Self::Database(sqlx::Error::Database(error)) if error.is_unique_violation())
    }

    /// Whether the transaction's time limit for a lock was exceeded.
    pub fn is_lock_timeout(&self) -> bool {
        let Self::Database(sqlx::Error::Database(error)) = self else { return false };
        error.code().as_deref() == Some(LOCK_NOT_AVAILABLE)
    }
}

impl Store {
    /// Connects to `sqlite://FILE` or `postgres://…` with at most `connections` connections,
    /// without checking the schema, which [`Migrations`](migrate::Migrations::check) does.
    pub async fn connect(url: &str, connections: u32) -> Result<Self, StoreError> {
        if url.starts_with("sqlite:") {
            return Self::open_sqlite(url, connections).await;
        }
        let options = Self::options(url)?;
        let wake = WakeSignal::postgres(options.clone());
        Ok(Self::postgres(options, connections, pools::APPLICATION, wake))
    }

    /// The same store with separate connections, which do not wait for the others. SQLite's only
    /// writer serves all in order; of its readers, the console's are separate.
    pub fn reserve(&self, connections: u32, reserved_for: ReservedFor) -> Self {
        match self {
            Self::Postgres { pool, wake } => {
                let options = PgConnectOptions::clone(&pool.connect_options())
                    .options(reserved_for.options().iter().copied());
                Self::postgres(options, connections, reserved_for.application(), wake.clone())
            }
            Self::Sqlite { read, write, wake, .. } if reserved_for == ReservedFor::Console => {
                // Pages read little, and there is a cache for each connection.
                let options = SqliteConnectOptions::clone(&read.connect_options())
                    .pragma("cache_size", "-2048");
                let read = Self::sqlite_readers(connections).connect_lazy_with(options);
                let (write, wake) = (write.clone(), wake.clone());
                Self::Sqlite { read, write, wake, readers: pools::CONSOLE }
            }
            Self::Sqlite { .. } => self.clone(),
        }
    }

    /// The options of every connection to PostgreSQL.
    fn options(url: &str) -> Result<PgConnectOptions, StoreError> {
        Ok(PgConnectOptions::from_str(url)?
            // A process that was stopped inside a transaction must not hold its locks forever.
            .options([
                ("idle_in_transaction_session_timeout", "60s"),
                ("lock_timeout", "30s"),
                ("default_transaction_isolation", "read committed"),
                // A cached plan is based on old statistics: an import into empty tables would scan
                // all the rows it has written, again and again.
                ("plan_cache_mode", "force_custom_plan"),
                // Compiling a query takes 140 ms, and no query here needs that much computation.
                ("jit", "off"),
            ]))
    }

    /// `application` is the name that the server shows for the connections.
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
            .before_acquire(|connection, metadata| {
                Box::pin(async move {
                    if metadata.idle_for > TRUSTED {
                        connection.ping().await?;
                    }
                    Ok(true)
                })
            })
            .after_release(|connection, _| {
                Box::pin(async move {
                    // Otherwise each connection keeps buffers for its largest statement and result:
                    // megabytes, with batches of profiles.
                    connection.shrink_buffers();
                    Ok(true)
                })
            })
            .connect_lazy_with(options.application_name(application));
        Self::Postgres { pool, wake }
    }

    async fn open_sqlite(url: &str, connections: u32) -> Result<Self, StoreError> {
        let options = Self::sqlite_options(url)?;
        if let Some(directory) = options.get_filename().parent() {
            private::directory(directory).map_err(sqlx::Error::Io)?;
        }
        private::database(options.get_filename()).map_err(sqlx::Error::Io)?;
        let write = sqlite_pool()
            .max_connections(1)
            .acquire_timeout(Duration::from_secs(60))
            .connect_with(options.clone())
            .await?;
        let read = Self::sqlite_readers(connections).connect_with(read_only(options)).await?;
        Ok(Self::Sqlite { read, write, wake: WakeSignal::local(), readers: pools::MAIN })
    }

    /// The options of every connection to SQLite.
    fn sqlite_options(url: &str) -> Result<SqliteConnectOptions, StoreError> {
        Ok(SqliteConnectOptions::from_str(url)?
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            // NORMAL would lose acknowledged commits after a power failure.
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(Duration::from_secs(30))
            .statement_cache_capacity(256)
            .pragma("cache_size", "-32768")
            .pragma("mmap_size", "268435456")
            .pragma("temp_store", "MEMORY"))
    }

    fn sqlite_readers(connections: u32) -> SqlitePoolOptions {
        sqlite_pool().max_connections(connections).acquire_timeout(Duration::from_secs(30))
    }

    pub fn is_postgres(&self) -> bool {
        matches!(self, Self::Postgres { .. })
    }

    /// How its clock goes.
    pub fn database_clock(&self) -> &DatabaseClock {
        self.wake().clock()
    }

    /// Wakes the loops that claim rows of this store.
    pub fn wake(&self) -> &WakeSignal {
        match self {
            Self::Postgres { wake, .. } | Self::Sqlite { wake, .. } => wake,
        }
    }

    /// A transaction that may write. On SQLite it takes the write lock immediately, because a
    /// reader cannot become a writer.
    pub async fn write(&self) -> Result<Tx, StoreError> {
        Ok(match self {
            Self::Postgres { pool, wake } => {
                let begun = pools::timed(pools::name(pool), pool.begin()).await?;
                Tx::Postgres(OpenTransaction::new(begun, wake))
            }
            Self::Sqlite { write, wake, .. } => {
                let begun = write.begin_with("BEGIN IMMEDIATE");
                Tx::Sqlite(OpenTransaction::new(pools::timed(pools::WRITER, begun).await?, wake))
            }
        })
    }

    /// [`write`](Self::write) for work that finds its rows only by keys, and that is repeated, with
    /// the same result, if a server crash loses it. A crash loses the last commits that did not
    /// wait for the disk, although they were visible: after such a commit, keep nothing in memory
    /// that the repetition relies on, or [wait for the disk](Tx::commit_synchronously).
    ///
    /// PostgreSQL plans each statement once per connection, because planning over a hundred
    /// partitions takes longer than finding the users of a small batch. The cached plan may come
    /// from empty tables, so it must use indexes. The commit does not wait for the disk, so its
    /// locks are released immediately; any later commit makes it durable, too. SQLite writes as
    /// usual.
    pub async fn write_by_keys(&self) -> Result<Tx, StoreError> {
        const BEGIN: &str = "BEGIN; SET LOCAL plan_cache_mode TO force_generic_plan; \
                             SET LOCAL enable_seqscan TO off; SET LOCAL synchronous_commit TO off";
        Ok(match self {
            Self::Postgres { pool, wake } => {
                let begun = pool.begin_with(BEGIN);
                Tx::Postgres(OpenTransaction::new(
                    pools::timed(pools::name(pool), begun).await?,
                    wake,
                ))
            }
            Self::Sqlite { .. } => self.write().await?,
        })
    }

    /// A read-only transaction on a consistent snapshot.
    pub async fn snapshot(&self) -> Result<Tx, StoreError> {
        Ok(match self {
            Self::Postgres { pool, wake } => {
                let begun = pool.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY");
                Tx::Postgres(OpenTransaction::new(
                    pools::timed(pools::name(pool), begun).await?,
                    wake,
                ))
            }
            Self::Sqlite { read, wake, readers, .. } => {
                Tx::Sqlite(OpenTransaction::new(pools::timed(readers, read.begin()).await?, wake))
            }
        })
    }

    /// Milliseconds since the epoch by the database's clock.
    pub async fn now(&self) -> Result<i64, StoreError> {
        claims::now(&mut self.snapshot().await?).await
    }

    /// Closes the connections; waits for those in use and for pending notifications.
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

/// Runs `work` with the store in its own task, and waits at most for `timeout`: a connection that
/// was cut silently never returns. The task continues, because database work is never dropped
/// halfway.
pub async fn within_timeout<T, E>(
    work: impl Future<Output = Result<T, E>> + Send + 'static,
    timeout: impl Future<Output = ()>,
) -> Result<T, E>
where
    T: Send + 'static,
    E: From<StoreError> + Send + 'static,
{
    let task = tokio::spawn(work.in_current_span());
    tokio::select! {
        joined = task => joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic())),
        () = timeout => Err(StoreError::Timeout.into()),
    }
}

/// Runs `work` like [`within_timeout`], but only if one of `permits` is free. The work keeps the
/// permit until it has ended: work without a response can hold its connection for long, and a retry
/// must not take another connection.
pub async fn within_timeout_and_permit<T: Send + 'static>(
    work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    permits: &Arc<Semaphore>,
    timeout: Duration,
) -> Result<T, StoreError> {
    let permit = permits.clone().try_acquire_owned().map_err(|_| StoreError::Timeout)?;
    let work = async move {
        let result = work.await;
        drop(permit);
        result
    };
    within_timeout(work, tokio::time::sleep(timeout)).await
}

/// A value as JSON: for a column, or as an array for SQLite's `json_each`.
pub fn to_json<T: serde::Serialize + ?Sized>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Corrupt(error.to_string()))
}

fn read_only(options: SqliteConnectOptions) -> SqliteConnectOptions {
    options.pragma("query_only", "ON")
}

/// The base of every pool of SQLite connections: drops a connection that still assumes an open
/// transaction. SQLite rolls back by itself when the disk is full, which sqlx does not notice, and
/// that connection could never begin a transaction again.
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

    /// The commit will wake the loops of a kind.
    pub fn offers(&mut self, kind: Kind) {
        let offered = match self {
            Self::Postgres(tx) => &mut tx.offered,
            Self::Sqlite(tx) => &mut tx.offered,
        };
        if !offered.contains(&kind) {
            offered.push(kind);
        }
    }

    /// Starts a piece of work that [`rollback_to_savepoint`](Self::rollback_to_savepoint) can roll
    /// back separately, even after an error. One at a time.
    pub async fn savepoint(&mut self) -> Result<(), StoreError> {
        execute!(self, sqlx::query("SAVEPOINT piece"));
        Ok(())
    }

    /// Keeps the piece.
    pub async fn release_savepoint(&mut self) -> Result<(), StoreError> {
        execute!(self, sqlx::query("RELEASE SAVEPOINT piece"));
        Ok(())
    }

    /// Rolls the piece back, and releases its locks.
    pub async fn rollback_to_savepoint(&mut self) -> Result<(), StoreError> {
        execute!(self, sqlx::query("ROLLBACK TO SAVEPOINT piece"));
        self.release_savepoint().await
    }

    /// Makes the commit wait for the disk after all ([`write_by_keys`](Store::write_by_keys)).
    pub async fn commit_synchronously(&mut self) -> Result<(), StoreError> {
        if let Self::Postgres(tx) = self {
            sqlx::query("SET LOCAL synchronous_commit TO DEFAULT").execute(&mut **tx).await?;
        }
        Ok(())
    }

    /// Makes the commit wait until all earlier commits are on the disk, including those that did
    /// not wait for it ([`write_by_keys`](Store::write_by_keys)).
    pub async fn flush(&mut self) -> Result<(), StoreError> {
        if let Self::Postgres(tx) = self {
            // A commit without writes does not wait.
            let sql = "SELECT pg_logical_emit_message(true, 'longshore', '')";
            sqlx::query(sql).execute(&mut **tx).await?;
        }
        Ok(())
    }

    /// Makes the writes durable and visible, and wakes the loops of the offered rows.
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
    fn sqlite_codes_differ_from_postgres_codes() {
        assert_eq!(sqlite_code("13"), Some(SQLITE_FULL));
        // No space for its shared memory.
        assert_eq!(sqlite_code("4874"), Some(SQLITE_IO_ERROR));
        // PostgreSQL's "disk full", whose low byte means nothing.
        assert_eq!(sqlite_code("53100"), None);
    }

    #[test]
    fn only_what_another_transaction_causes_is_busy() {
        for code in ["55P03", "40P01", "40001", "53300", "57P03", "5", "517", "6"] {
            assert!(is_busy_code(code), "{code}");
        }
        // A full disk, a constraint, missing rights, the end of the server during a commit.
        for code in ["13", "53100", "23505", "42501", "57P01", "25006"] {
            assert!(!is_busy_code(code), "{code}");
        }
        assert!(is_busy(&StoreError::from(sqlx::Error::PoolTimedOut)));
        let shared = StoreError::Shared(Arc::new(sqlx::Error::PoolTimedOut.into()));
        assert!(is_busy(&shared));
        assert!(!is_busy(&StoreError::Timeout));
    }

    #[test]
    fn a_connection_that_is_closed_at_once_is_reported_as_such() {
        let error = sqlx::Error::Protocol(NO_RESPONSE.to_owned());
        assert!(in_words(&error).contains("closed the new connection"), "{}", in_words(&error));
        let error = sqlx::Error::Protocol("unexpected response from SSLRequest: 0x45".into());
        assert!(in_words(&error).contains("0x45"), "{}", in_words(&error));
    }

    #[test]
    fn only_data_is_condemned() {
        for data in ["22021", "22P05", "23505", "54000", "XX001", "19", "2067", "18"] {
            assert!(is_data_error(data), "{data}");
        }
        // A deleted prepared statement, a plan for a changed table, objects in use, a wrong
        // setting, an internal error; missing table, memory, missing file.
        for mendable in
            ["26000", "0A000", "55000", "55006", "F0000", "XX000", "XX002", "42P01", "1", "7", "14"]
        {
            assert!(!is_data_error(mendable), "{mendable}");
        }
    }
}
