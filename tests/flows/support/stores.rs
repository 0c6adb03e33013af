//! A fresh store of each kind for a test.

use longshore::config::Config;
use longshore::store::{Store, migrate};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::servers;

/// A database of its own on the PostgreSQL server.
pub struct Database {
    name: String,
}

impl Database {
    pub async fn create() -> Self {
        let name = format!("test_{}", Uuid::new_v4().simple());
        administer(format!("CREATE DATABASE {name}")).await;
        Self { name }
    }

    /// The address that Longshore is given.
    pub fn url(&self) -> String {
        let server = servers::variable("LONGSHORE_TEST_POSTGRES");
        let (base, _) = server.rsplit_once('/').expect("postgres://…/database");
        format!("{base}/{}", self.name)
    }

    pub async fn drop(self) {
        administer(format!("DROP DATABASE {} WITH (FORCE)", self.name)).await;
    }
}

async fn administer(sql: String) {
    let server: PgConnectOptions =
        servers::variable("LONGSHORE_TEST_POSTGRES").parse().expect("an address of PostgreSQL");
    let pool = PgPoolOptions::new().max_connections(1).connect_with(server).await;
    let pool = pool.expect("PostgreSQL answers (scripts/services start)");
    sqlx::query(sqlx::AssertSqlSafe(sql)).execute(&pool).await.expect("a database");
    pool.close().await;
}

/// A migrated store that is gone when this is dropped.
pub struct TestStore {
    pub store: Store,
    /// Settings that open the same store, with a data directory of its own.
    pub config: Config,
    _directory: tempfile::TempDir,
    database: Option<Database>,
}

impl TestStore {
    /// SQLite in a directory of its own.
    pub async fn sqlite() -> Self {
        Self::open(None).await
    }

    /// A database of its own on the PostgreSQL server.
    pub async fn postgres() -> Self {
        Self::open(Some(Database::create().await)).await
    }

    async fn open(database: Option<Database>) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut config = Config { data: directory.path().to_owned(), ..Config::default() };
        if let Some(database) = &database {
            config.database.url = Some(database.url().into());
            config.secret_key = Some(longshore::secrets::SecretKey::generate().into());
        }
        config.log.partitions = 4;
        let store = Store::connect(&config).await.expect("the store opens");
        migrate::run(&store).await.expect("the schema is made");
        Self { store, config, _directory: directory, database }
    }

    /// A workspace, written directly.
    pub async fn workspace(&self, name: &str) -> i32 {
        let sql = "INSERT INTO workspaces (name, currency, export_users_limit, export_bytes_limit, callback_secret, created_at)
                   VALUES ($1, 'USD', 500000, 5368709120, $2, 0) RETURNING id";
        let sealed = Uuid::new_v4().as_bytes().to_vec();
        match &self.store {
            Store::Postgres(pool) => {
                sqlx::query_scalar(sql).bind(name).bind(sealed).fetch_one(pool).await
            }
            Store::Sqlite { write, .. } => {
                sqlx::query_scalar(sql).bind(name).bind(sealed).fetch_one(write).await
            }
        }
        .expect("a workspace")
    }

    /// Closes the connections and drops what was made.
    pub async fn close(self) {
        self.store.close().await;
        if let Some(database) = self.database {
            database.drop().await;
        }
    }
}
