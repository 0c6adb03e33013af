//! The checks of `doctor` and `migrate` before they use a database.

use std::str::FromStr as _;

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection as _, PgConnection};

use super::{StoreError, Tx, from_row, now_sql};

/// The oldest supported PostgreSQL: the first with lz4 columns.
const OLDEST: i32 = 140_000;
/// A batch of users may touch every slice, and each is a partition with an index.
const LOCKS: i64 = 1_024;
/// Allowed difference of the clocks in milliseconds.
const CLOCK: i64 = 5_000;

/// Properties of a PostgreSQL server.
#[derive(Clone, Debug)]
pub struct Server {
    /// Such as 150004.
    pub version: i32,
    pub max_locks_per_transaction: i64,
    pub has_lz4: bool,
    /// Milliseconds since the epoch by its clock.
    pub now: i64,
}
from_row! { Server { version, max_locks_per_transaction, has_lz4, now } }

impl Server {
    /// The required changes of the server, one per line; `now` is this machine's clock.
    pub fn problems(&self, now: i64) -> Vec<String> {
        let mut problems = Vec::new();
        if self.version < OLDEST {
            problems.push(format!(
                "the server is PostgreSQL {}: 14 or newer is required",
                self.version / 10_000
            ));
        }
        if self.max_locks_per_transaction < LOCKS {
            problems.push(format!(
                "max_locks_per_transaction is {}: set it to {LOCKS} in postgresql.conf and \
                 restart the server",
                self.max_locks_per_transaction
            ));
        }
        if !self.has_lz4 {
            problems.push("the server was built without lz4: use a build with lz4".into());
        }
        let apart = (self.now - now).abs();
        if apart > CLOCK {
            problems.push(format!(
                "its clock and this machine's differ by {} s: synchronize both (NTP)",
                apart / 1000
            ));
        }
        problems
    }
}

/// Connects once, without a pool, and returns the server's properties; none for SQLite.
pub async fn inspect_server(url: &str) -> Result<Option<Server>, StoreError> {
    if url.starts_with("sqlite:") {
        return Ok(None);
    }
    let mut connection = PgConnection::connect_with(&PgConnectOptions::from_str(url)?).await?;
    let server = sqlx::query_as(concat!(
        "SELECT current_setting('server_version_num')::int AS version,
                current_setting('max_locks_per_transaction')::bigint AS max_locks_per_transaction,
                EXISTS (SELECT 1 FROM pg_settings
                        WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)
                       ) AS has_lz4, ",
        now_sql!(postgres),
        " AS now"
    ))
    .fetch_one(&mut connection)
    .await?;
    connection.close().await?;
    Ok(Some(server))
}

/// The problems that SQLite's own check of its file finds; none for PostgreSQL.
pub async fn sqlite_problems(tx: &mut Tx) -> Result<Vec<String>, StoreError> {
    let Tx::Sqlite(tx) = tx else { return Ok(Vec::new()) };
    let found: Vec<String> = sqlx::query_scalar("PRAGMA quick_check").fetch_all(&mut **tx).await?;
    Ok(found.into_iter().filter(|line| line != "ok").collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_problem_is_reported() {
        let good =
            Server { version: 150_004, max_locks_per_transaction: 1024, has_lz4: true, now: 0 };
        assert!(good.problems(1_000).is_empty());
        for (server, word) in [
            (Server { version: 130_009, ..good.clone() }, "PostgreSQL 13"),
            (Server { max_locks_per_transaction: 64, ..good.clone() }, "max_locks"),
            (Server { has_lz4: false, ..good.clone() }, "lz4"),
            (Server { now: 60_000, ..good.clone() }, "differ by 60 s"),
        ] {
            let problems = server.problems(0);
            assert!(problems.len() == 1 && problems[0].contains(word), "{problems:?}");
        }
    }
}
