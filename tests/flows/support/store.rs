//! The store's rows, looked at and broken behind the program's back.

use std::str::FromStr as _;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};

/// Runs a statement on a PostgreSQL or SQLite database; answers how many rows it changed.
pub async fn execute(url: &str, sql: &'static str) -> u64 {
    if url.starts_with("postgres") {
        let pool = sqlx::PgPool::connect(url).await.expect("PostgreSQL answers");
        let done = sqlx::query(sql).execute(&pool).await.expect("the statement is done");
        pool.close().await;
        return done.rows_affected();
    }
    let options = SqliteConnectOptions::from_str(url).expect("an address of SQLite");
    let options = options.busy_timeout(Duration::from_secs(30));
    let pool = SqlitePoolOptions::new().max_connections(1).connect_with(options).await;
    let pool = pool.expect("the file opens");
    let done = sqlx::query(sql).execute(&pool).await.expect("the statement is done");
    pool.close().await;
    done.rows_affected()
}
