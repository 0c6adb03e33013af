//! The checks of `doctor` and `migrate` before they use a database.

use std::str::FromStr as _;

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection as _, PgConnection};

use super::{Store, StoreError, Tx, from_row, now_sql, settings};

/// The oldest supported PostgreSQL: the first with lz4 columns.
const OLDEST: i32 = 140_000;
/// A batch of users may touch every slice, and each is a partition with an index.
const LOCKS: i64 = 1_024;
/// Allowed difference of the clocks in milliseconds.
const CLOCK: i64 = 5_000;
/// The setting that [`check_writable`] writes.
const PROBE: &str = "ready.probe";

/// Properties of a PostgreSQL server.
#[derive(Clone, Debug)]
pub struct Server {
    /// Such as 150004.
    pub version: i32,
    pub max_locks_per_transaction: i64,
    pub has_lz4: bool,
    pub is_standby: bool,
    /// Its default for transactions.
    pub is_read_only: bool,
    pub synchronous_commit: String,
    /// Milliseconds since the epoch by its clock.
    pub now: i64,
}
from_row! {
    Server {
        version, max_locks_per_transaction, has_lz4, is_standby, is_read_only, synchronous_commit,
        now,
    }
}

/// Why a server rejects writes, if it does, and the next step.
fn read_only_reason(is_standby: bool, is_read_only: bool) -> Option<&'static str> {
    match (is_standby, is_read_only) {
        (true, _) => Some("the server is a standby: connect to the primary, or promote it"),
        (false, true) => Some(
            "default_transaction_read_only is on: turn it off once the server may be written, or \
             connect to another one",
        ),
        (false, false) => None,
    }
}

/// Writes the time, to see whether writing works. If the server rejects writes, the error shows the
/// next step.
pub async fn check_writable(store: &Store, now: i64) -> Result<(), StoreError> {
    let write = async {
        let mut tx = store.write().await?;
        settings::put(&mut tx, PROBE, &now.to_string()).await?;
        tx.commit().await
    };
    let Err(error) = write.await else { return Ok(()) };
    let Store::Postgres { pool, .. } = store else { return Err(error) };
    let (is_standby, is_read_only) = sqlx::query_as::<_, (bool, bool)>(
        "SELECT pg_is_in_recovery(), current_setting('default_transaction_read_only')::boolean",
    )
    .fetch_one(pool)
    .await?;
    Err(read_only_reason(is_standby, is_read_only).map_or(error, StoreError::ReadOnly))
}

impl Server {
    /// The required changes of the server, one per line; `now` is this machine's clock.
    pub fn problems(&self, now: i64) -> Vec<String> {
        let mut problems = Vec::new();
        if let Some(why) = read_only_reason(self.is_standby, self.is_read_only) {
            problems.push(StoreError::ReadOnly(why).to_string());
        }
        if self.synchronous_commit == "off" {
            problems.push(
                "synchronous_commit is off, so a crash can lose requests that got 2xx: set it to \
                 on"
                .into(),
            );
        }
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
        let clock_skew = (self.now - now).abs();
        if clock_skew > CLOCK {
            problems.push(format!(
                "its clock and this machine's differ by {} s: synchronize both (NTP)",
                clock_skew / 1000
            ));
        }
        problems
    }
}

/// Why a URL of PostgreSQL cannot be used, if so. Does not repeat the URL, which may have a
/// password.
pub fn url_problem(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://").unwrap_or_default();
    let (location, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, _) = location.split_once('/').unwrap_or((location, ""));
    let (_, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
    let mut parameters = query.split('&').filter_map(|parameter| parameter.split_once('='));
    let is_list = |(name, value): (&str, &str)| {
        ["host", "hostaddr", "port"].contains(&name)
            && (value.contains(',') || value.to_ascii_lowercase().contains("%2c"))
    };
    if hosts.contains(',') || parameters.any(is_list) {
        return Some(
            "several hosts are not supported: set one address that always leads to the primary, \
             of a proxy or a virtual address"
                .into(),
        );
    }
    PgConnectOptions::from_str(url).err().map(|error| error.to_string())
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
                       ) AS has_lz4,
                pg_is_in_recovery() AS is_standby,
                current_setting('default_transaction_read_only')::boolean AS is_read_only,
                current_setting('synchronous_commit') AS synchronous_commit, ",
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
    let lines: Vec<String> = sqlx::query_scalar("PRAGMA quick_check").fetch_all(&mut **tx).await?;
    Ok(lines.into_iter().filter(|line| line != "ok").collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_with_several_hosts_are_named_as_such() {
        for url in [
            "postgres://u:p@one:5432,two:5432/longshore",
            "postgres://one,two/longshore?target_session_attrs=read-write",
            "postgresql:///longshore?host=one,two",
            "postgresql:///longshore?host=one%2Ctwo",
        ] {
            let problem = url_problem(url).unwrap();
            assert!(problem.contains("several hosts"), "{url}: {problem}");
        }
        for url in [
            "postgres://u:p,q@one:5432/longshore?sslmode=require",
            "postgres://one/a,b?application_name=c,d",
            "postgres:///longshore?host=/run/postgresql",
        ] {
            assert_eq!(url_problem(url), None, "{url}");
        }
        let problem = url_problem("postgres://u:secret@one:port/longshore").unwrap();
        assert!(problem.contains("port") && !problem.contains("secret"), "{problem}");
    }

    #[test]
    fn each_server_problem_is_reported() {
        let good = Server {
            version: 150_004,
            max_locks_per_transaction: 1024,
            has_lz4: true,
            is_standby: false,
            is_read_only: false,
            synchronous_commit: "on".into(),
            now: 0,
        };
        assert!(good.problems(1_000).is_empty());
        for (server, text) in [
            (Server { version: 130_009, ..good.clone() }, "PostgreSQL 13"),
            (Server { max_locks_per_transaction: 64, ..good.clone() }, "max_locks"),
            (Server { has_lz4: false, ..good.clone() }, "lz4"),
            (Server { is_standby: true, is_read_only: true, ..good.clone() }, "is a standby"),
            (Server { is_read_only: true, ..good.clone() }, "default_transaction_read_only"),
            (Server { synchronous_commit: "off".into(), ..good.clone() }, "synchronous_commit"),
            (Server { now: 60_000, ..good.clone() }, "differ by 60 s"),
        ] {
            let problems = server.problems(0);
            assert!(problems.len() == 1 && problems[0].contains(text), "{problems:?}");
        }
    }
}
