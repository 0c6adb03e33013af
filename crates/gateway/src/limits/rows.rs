//! The SQL of rate limits: one row for each budget, with the count of one window.

use super::Key;
use store::{Store, StoreError, from_row, now_sql};

/// The database's count, with its window.
#[derive(Debug)]
pub(super) struct Counted {
    /// Milliseconds since the Unix epoch, as everywhere here.
    pub ends_at: i64,
    /// Reserved requests; may exceed the limit.
    pub used: i64,
    /// The database's clock.
    pub now: i64,
}
from_row! { Counted { ends_at, used, now } }

/// Counts in the row's window if that is the clock's, or the next one, which happens after waiting
/// for the row past the end of a window; otherwise starts the clock's window.
macro_rules! lease {
    ($now:expr) => {
        concat!(
            "INSERT INTO rate_limits AS was (workspace_id, budget, seconds, ends_at, used)
             SELECT $1, $2, $3, clock.now - clock.now % ($3 * 1000) + $3 * 1000, $4
             FROM (SELECT ",
            $now,
            " AS now) clock
             WHERE TRUE
             ON CONFLICT (workspace_id, budget) DO UPDATE SET
                 used = excluded.used + CASE
                     WHEN was.seconds = excluded.seconds AND was.ends_at BETWEEN
                          excluded.ends_at AND excluded.ends_at + excluded.seconds * 1000
                     THEN was.used ELSE 0 END,
                 ends_at = CASE
                     WHEN was.seconds = excluded.seconds AND was.ends_at BETWEEN
                          excluded.ends_at AND excluded.ends_at + excluded.seconds * 1000
                     THEN was.ends_at ELSE excluded.ends_at END,
                 seconds = excluded.seconds
             RETURNING ends_at, used, ",
            $now,
            " AS now"
        )
    };
}

/// Counts requests in one statement that is a transaction by itself. PostgreSQL's clock decides the
/// window, so that gateways' clocks do not matter; with SQLite there is one machine, and its clock
/// is `now`.
pub(super) async fn lease(
    store: &Store,
    Key { workspace, budget, limit }: Key,
    requests: i64,
    now: i64,
) -> Result<Counted, StoreError> {
    let seconds = i64::from(limit.seconds);
    Ok(match store {
        Store::Postgres { pool, .. } => {
            sqlx::query_as(lease!(now_sql!(postgres)))
                .bind(workspace)
                .bind(budget.name())
                .bind(seconds)
                .bind(requests)
                .fetch_one(pool)
                .await?
        }
        Store::Sqlite { write, .. } => {
            sqlx::query_as(lease!("$5"))
                .bind(workspace)
                .bind(budget.name())
                .bind(seconds)
                .bind(requests)
                .bind(now)
                .fetch_one(write)
                .await?
        }
    })
}
