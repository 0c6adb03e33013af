//! Statistics of PostgreSQL.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sqlx::{AssertSqlSafe, PgPool};
use tokio::task::JoinHandle;

/// Between looks at what its backends do.
const LOOK: Duration = Duration::from_millis(100);

/// Looks until it is ended.
pub struct DatabaseMonitor {
    pool: PgPool,
    began: Instant,
    transactions: i64,
    statements: Option<i64>,
    end: Arc<AtomicBool>,
    looks: JoinHandle<Vec<Sample>>,
}

/// Backends at a moment.
struct Sample {
    all: i64,
    busy: i64,
    /// Of these, those that wait for a lock.
    locked: i64,
}

/// On average, or a second.
pub struct DatabaseUsage {
    pub transactions: f64,
    /// Where `pg_stat_statements` is loaded.
    pub statements: Option<f64>,
    pub connections: f64,
    pub busy: f64,
    pub locked: f64,
}

impl DatabaseMonitor {
    pub async fn begin(pool: &PgPool) -> Self {
        let end = Arc::new(AtomicBool::new(false));
        let (watched, ended) = (pool.clone(), end.clone());
        Self {
            began: Instant::now(),
            transactions: transactions(pool).await,
            statements: statements(pool).await,
            end,
            looks: tokio::spawn(async move {
                let mut looks = Vec::new();
                while !ended.load(Ordering::Relaxed) {
                    looks.push(sample(&watched).await);
                    tokio::time::sleep(LOOK).await;
                }
                looks
            }),
            pool: pool.clone(),
        }
    }

    pub async fn end(self) -> DatabaseUsage {
        self.end.store(true, Ordering::Relaxed);
        let looks = self.looks.await.expect("the looks end");
        let seconds = self.began.elapsed().as_secs_f64();
        let mean = |of: fn(&Sample) -> i64| {
            looks.iter().map(of).sum::<i64>() as f64 / looks.len().max(1) as f64
        };
        let statements = match self.statements {
            Some(before) => statements(&self.pool).await.map(|now| (now - before) as f64 / seconds),
            None => None,
        };
        DatabaseUsage {
            transactions: (transactions(&self.pool).await - self.transactions) as f64 / seconds,
            statements,
            connections: mean(|sample| sample.all),
            busy: mean(|sample| sample.busy),
            locked: mean(|sample| sample.locked),
        }
    }
}

async fn sample(pool: &PgPool) -> Sample {
    let sql = "SELECT count(*) AS all,
                      count(*) FILTER (WHERE state = 'active') AS busy,
                      count(*) FILTER (WHERE state = 'active' AND wait_event_type = 'Lock') AS locked
               FROM pg_stat_activity
               WHERE datname = current_database() AND pid <> pg_backend_pid()";
    let sample = sqlx::query_as(sql).fetch_one(pool).await;
    let (all, busy, locked) = sample.expect("PostgreSQL answers");
    Sample { all, busy, locked }
}

async fn transactions(pool: &PgPool) -> i64 {
    let sql = "SELECT xact_commit + xact_rollback FROM pg_stat_database
               WHERE datname = current_database()";
    sqlx::query_scalar(sql).fetch_one(pool).await.expect("PostgreSQL answers")
}

async fn statements(pool: &PgPool) -> Option<i64> {
    let sql = "SELECT sum(calls)::bigint FROM pg_stat_statements
               WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())";
    sqlx::query_scalar(sql).fetch_one(pool).await.ok()
}

/// Makes `pg_stat_statements` readable where the server has loaded it.
pub async fn count_statements(pool: &PgPool) {
    let _ = sqlx::query("CREATE EXTENSION pg_stat_statements").execute(pool).await;
}

/// The statements that took most of the time, for whoever looks for a bottleneck.
pub async fn print_statements(pool: &PgPool) {
    let sql = "SELECT calls, total_exec_time + total_plan_time AS ms, mean_exec_time AS mean,
                      left(regexp_replace(query, '\\s+', ' ', 'g'), 100) AS query
               FROM pg_stat_statements
               WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
               ORDER BY 2 DESC LIMIT 12";
    type Row = (i64, f64, f64, String);
    let Ok(rows) = sqlx::query_as::<_, Row>(AssertSqlSafe(sql)).fetch_all(pool).await else {
        return;
    };
    println!("\n{:>10} {:>10} {:>10}  statement", "calls", "ms", "ms each");
    for (calls, ms, mean, query) in rows {
        println!("{calls:>10} {ms:>10.0} {mean:>10.3}  {query}");
    }
}

/// Megabytes of the claims' table and of its indexes.
pub async fn claims_megabytes(pool: &PgPool) -> (f64, f64) {
    let sql =
        "SELECT pg_relation_size('claims') / 1e6::float8, pg_indexes_size('claims') / 1e6::float8";
    sqlx::query_as(sql).fetch_one(pool).await.expect("PostgreSQL answers")
}
