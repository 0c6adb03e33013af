//! A fresh store of each kind for a test.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::str::FromStr as _;
use std::sync::OnceLock;
use std::time::Duration;

use kit::private;
use kit::secrets::SecretKey;
use longshore::config::Config;
use longshore::setup::migrations::MIGRATIONS;
use secrecy::ExposeSecret as _;
use sha2::{Digest as _, Sha256};
use sqlx::postgres::{PgConnection, PgPool};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, Connection as _};
use store::Store;
use tokio::sync::{Mutex, OnceCell};
use uuid::Uuid;

use super::files::{project, read};
use super::temporary::Temporary;
use super::{eventually, servers};

/// A database of its own on the PostgreSQL server.
pub struct Database {
    name: String,
    _database: Temporary,
}

impl Database {
    pub async fn create() -> Self {
        let name = format!("test_{}", Uuid::new_v4().simple());
        servers::administer(format!("CREATE DATABASE {name}")).await;
        Self { _database: Temporary::Database(name.clone()), name }
    }

    /// With the schema, copied from a template: that takes an eighth of the time of making it.
    pub async fn migrated() -> Self {
        static TEMPLATE: OnceCell<String> = OnceCell::const_new();
        let template = TEMPLATE.get_or_init(template).await;
        let name = format!("test_{}", Uuid::new_v4().simple());
        servers::administer(format!("CREATE DATABASE {name} TEMPLATE {template}")).await;
        Self { _database: Temporary::Database(name.clone()), name }
    }

    /// The address that Longshore is given.
    pub fn url(&self) -> String {
        url(&self.name)
    }
}

fn url(database: &str) -> String {
    let server = servers::variable("LONGSHORE_TEST_POSTGRES");
    let (base, _) = server.rsplit_once('/').expect("postgres://…/database");
    format!("{base}/{database}")
}

/// What follows `TEMPLATE`: the name of a database with this version's schema, which is kept for
/// later runs, and how it is copied. As files, that takes half of the processor time of a copy through
/// the log, and the first connections find the catalog's cache. PostgreSQL 14 has only this way.
async fn template() -> String {
    let migrations = std::fs::read_dir(project("deploy/migrations/postgres"));
    let files = migrations.expect("the migrations").map(|file| file.expect("a migration").path());
    let files = BTreeSet::from_iter(files).into_iter().map(|file| {
        let name = file.file_name().expect("a file").to_string_lossy().into_owned();
        name + &read(file)
    });
    let hash = Sha256::digest(files.collect::<String>());
    let name = format!("template_{}", hex::encode(&hash[..8]));
    let server = PgConnection::connect(&servers::variable("LONGSHORE_TEST_POSTGRES")).await;
    let mut server = server.expect("PostgreSQL answers: scripts/services start");
    // One run makes it while others wait; what was cut off leaves one of another name.
    let lock = "SELECT pg_advisory_lock(71)";
    sqlx::query(lock).execute(&mut server).await.expect("the lock is taken");
    let is_there = sqlx::query("SELECT 1 FROM pg_database WHERE datname = $1").bind(&name);
    if is_there.fetch_optional(&mut server).await.expect("databases are listed").is_none() {
        let made = format!("test_{}", Uuid::new_v4().simple());
        servers::administer(format!("CREATE DATABASE {made}")).await;
        let mut config = Config::default();
        config.database.url = Some(url(&made).into());
        let store = longshore::app::connect(&config).await.expect("the store opens");
        MIGRATIONS.run(&store).await.expect("the schema is made");
        store.close().await;
        let rename = AssertSqlSafe(format!("ALTER DATABASE {made} RENAME TO {name}"));
        sqlx::query(rename).execute(&mut server).await.expect("the template gets its name");
    }
    let version = server.server_version_num();
    server.close().await.expect("the connection is closed");
    match version {
        Some(..150_000) => name,
        _ => name + " STRATEGY file_copy",
    }
}

/// Puts an SQLite store with the schema into a data directory: copying it takes a fraction of the
/// time of creating it.
pub async fn put_migrated_store(data: &Path) {
    static TEMPLATE: OnceCell<Vec<u8>> = OnceCell::const_new();
    let template = TEMPLATE.get_or_init(sqlite_template).await;
    private::directory(data).expect("the data directory");
    let file = data.join("store.db");
    private::database(&file).expect("a file");
    std::fs::write(file, template).expect("the store is written");
}

/// The file of a closed SQLite store with this version's schema.
async fn sqlite_template() -> Vec<u8> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let config = Config { data: directory.path().to_owned(), ..Config::default() };
    let store = longshore::app::connect(&config).await.expect("the store opens");
    MIGRATIONS.run(&store).await.expect("the schema is made");
    store.close().await;
    let wal = directory.path().join("store.db-wal");
    assert!(!wal.exists(), "all is in the one file");
    std::fs::read(directory.path().join("store.db")).expect("the store is read")
}

/// A migrated store that is gone when this is dropped.
pub struct TestStore {
    pub store: Store,
    /// Settings that open the same store, with a data directory and a secret key of its own.
    pub config: Config,
    _directory: tempfile::TempDir,
    _database: Option<Database>,
}

impl TestStore {
    /// SQLite in a directory of its own.
    pub async fn sqlite() -> Self {
        Self::open(None).await
    }

    /// A database of its own on the PostgreSQL server.
    pub async fn postgres() -> Self {
        Self::open(Some(Database::migrated().await)).await
    }

    async fn open(database: Option<Database>) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut config = Config { data: directory.path().to_owned(), ..Config::default() };
        config.database.url = database.as_ref().map(|database| database.url().into());
        config.secret_key = Some(SecretKey::generate().into());
        config.log.partitions = 4;
        if database.is_none() {
            put_migrated_store(directory.path()).await;
        }
        let store = longshore::app::connect(&config).await.expect("the store opens");
        Self { store, config, _directory: directory, _database: database }
    }

    /// The settings as a process is given them.
    pub fn environment(&self) -> BTreeMap<String, String> {
        let secret = |text: &Option<secrecy::SecretString>| {
            text.as_ref().map(|text| text.expose_secret().to_owned())
        };
        [
            ("LONGSHORE_DATA", Some(self.config.data.display().to_string())),
            ("LONGSHORE_DATABASE_URL", secret(&self.config.database.url)),
            ("LONGSHORE_SECRET_KEY", secret(&self.config.secret_key)),
            ("LONGSHORE_LOG__PARTITIONS", Some(self.config.log.partitions.to_string())),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
    }

    /// A workspace, written directly.
    pub async fn workspace(&self, name: &str) -> i32 {
        let sql = "INSERT INTO workspaces (name, currency, export_users_limit, export_bytes_limit, callback_secret, created_at)
                   VALUES ($1, 'USD', 500000, 5368709120, $2, 0) RETURNING id";
        let sealed = Uuid::new_v4().as_bytes().to_vec();
        on_pool!(&self.store, pool => {
            sqlx::query_scalar(sql).bind(name).bind(sealed).fetch_one(pool).await
        })
        .expect("a workspace")
    }
}

/// A connection to the database at an address, to look or to break something behind the program's
/// back.
pub enum DirectConnection {
    Postgres(PgConnection),
    Sqlite(SqliteConnection),
}

/// Runs one expression on a [`DirectConnection`], whichever database it is.
macro_rules! on_connection {
    ($connection:expr, $inner:ident => $body:expr) => {
        match $connection {
            DirectConnection::Postgres($inner) => $body,
            DirectConnection::Sqlite($inner) => $body,
        }
    };
}

impl DirectConnection {
    pub async fn open(url: &str) -> Self {
        if url.starts_with("postgres") {
            let connection = PgConnection::connect(url).await;
            return Self::Postgres(connection.expect("PostgreSQL answers"));
        }
        let options = SqliteConnectOptions::from_str(url).expect("an address of SQLite");
        let options = options.busy_timeout(Duration::from_secs(30));
        let connection = SqliteConnection::connect_with(&options).await;
        Self::Sqlite(connection.expect("the file opens"))
    }

    /// Runs a statement; returns how many rows it changed.
    pub async fn execute(&mut self, sql: &'static str) -> u64 {
        on_connection!(self, connection => {
            sqlx::query(sql).execute(connection).await.expect(sql).rows_affected()
        })
    }

    /// The result of a `SELECT count(*)`.
    pub async fn count(&mut self, sql: &'static str) -> i64 {
        on_connection!(self, connection => {
            sqlx::query_scalar(sql).fetch_one(connection).await.expect(sql)
        })
    }

    /// Waits until the result of a `SELECT count(*)` is as expected.
    pub async fn wait_for_count(&mut self, sql: &'static str, is_expected: impl Fn(i64) -> bool) {
        let connection = Mutex::new(self);
        eventually(sql, || async { is_expected(connection.lock().await.count(sql).await) }).await;
    }

    pub async fn close(self) {
        on_connection!(self, connection => connection.close().await)
            .expect("the connection is closed");
    }
}

/// Lets a test set the clock of a database: it is ahead by `stepped.clock` for new connections.
pub const STEPPED_CLOCK: [&str; 6] = [
    "CREATE SCHEMA stepped",
    "CREATE TABLE stepped.clock (ahead interval NOT NULL)",
    "INSERT INTO stepped.clock VALUES ('0')",
    "CREATE FUNCTION stepped.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
     AS 'SELECT pg_catalog.clock_timestamp() + ahead FROM stepped.clock'",
    "CREATE FUNCTION stepped.statement_timestamp() RETURNS timestamptz LANGUAGE sql STABLE
     AS 'SELECT pg_catalog.statement_timestamp() + ahead FROM stepped.clock'",
    "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path =
                                 public, stepped, pg_catalog', current_database()); END $$",
];

/// Runs a statement on a [`DirectConnection`] of its own; returns how many rows it changed.
pub async fn execute(url: &str, sql: &'static str) -> u64 {
    let mut connection = DirectConnection::open(url).await;
    let changed = connection.execute(sql).await;
    connection.close().await;
    changed
}

/// The result of a `SELECT count(*)` there.
pub async fn count(url: &str, sql: &'static str) -> i64 {
    let mut connection = DirectConnection::open(url).await;
    let count = connection.count(sql).await;
    connection.close().await;
    count
}

/// Waits until the result of a `SELECT count(*)` there is as expected.
pub async fn wait_for_count(url: &str, sql: &'static str, is_expected: impl Fn(i64) -> bool) {
    let mut connection = DirectConnection::open(url).await;
    connection.wait_for_count(sql, is_expected).await;
    connection.close().await;
}

/// Waits until a session of a PostgreSQL database waits for a lock of another one. Returns its
/// process id.
pub async fn wait_until_blocked(pool: &PgPool) -> i32 {
    wait_until_blocked_where(pool, "TRUE").await
}

/// [`wait_until_blocked`], for a session with this condition on its row of `pg_stat_activity`.
pub async fn wait_until_blocked_where(pool: &PgPool, condition: &str) -> i32 {
    let sql = format!(
        "SELECT pid FROM pg_stat_activity
         WHERE datname = current_database() AND wait_event_type = 'Lock' AND {condition}"
    );
    let blocked = OnceLock::new();
    eventually(&sql, async || {
        let session = sqlx::query_scalar::<_, i32>(AssertSqlSafe(sql.as_str()));
        let session = session.fetch_optional(pool).await.expect("the sessions are listed");
        session.is_some_and(|pid| blocked.set(pid).is_ok())
    })
    .await;
    blocked.into_inner().expect("a session is blocked")
}

/// Runs one expression on the connections of a [`Store`], whichever database it is.
macro_rules! on_pool {
    ($store:expr, $pool:ident => $body:expr) => {
        match $store {
            store::Store::Postgres { pool: $pool, .. } => $body,
            store::Store::Sqlite { write: $pool, .. } => $body,
        }
    };
}

/// Makes a test on SQLite and one on PostgreSQL of each function: of one that takes a
/// [`TestStore`], or, behind `World =>`, of one that takes what `World::new` makes of it.
macro_rules! on_both_stores {
    ($($tests:tt)+) => {
        $crate::support::stores::on_sqlite!($($tests)+);
        $crate::support::stores::on_postgres!($($tests)+);
    };
}

/// The same on SQLite alone.
macro_rules! on_sqlite {
    ($($tests:tt)+) => { $crate::support::stores::on_store!(sqlite: $($tests)+); };
}

/// The same on PostgreSQL alone.
macro_rules! on_postgres {
    ($($tests:tt)+) => { $crate::support::stores::on_store!(postgres: $($tests)+); };
}

macro_rules! on_store {
    ($store:ident: $world:ident => $($test:ident,)+) => {
        mod $store {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                let store = $crate::support::stores::TestStore::$store().await;
                super::$test(super::$world::new(store).await).await;
            })+
        }
    };
    ($store:ident: $($test:ident,)+) => {
        mod $store {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                super::$test($crate::support::stores::TestStore::$store().await).await;
            })+
        }
    };
}
pub(crate) use {on_both_stores, on_pool, on_postgres, on_sqlite, on_store};
