//! The SQL of rate limits: one row for each budget, which has the count of one window.

use super::Key;
use store::{Store, StoreError, from_row, now_sql};

/// What the database counted, of the window that it is in.
#[derive(Debug)]
pub(super) struct Counted {
    /// Milliseconds since the Unix epoch, as everywhere here.
    pub ends_at: i64,
    /// Requests that were asked for; more than the limit where they were too many.
    pub used: i64,
    /// The database's clock.
    pub now: i64,
}
from_row! { Counted { ends_at, used, now } }

/// Counts in the row's window where that is the clock's, or the next one, as it is for who
/// waited for the row over the end of a window; else begins the clock's window anew.
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

/// Counts so many requests, in one statement that is a transaction by itself. PostgreSQL's own
/// clock says in which window, so that no gateway's matters; with SQLite there is one machine,
/// and its clock is `now`.
pub(super) async fn lease(
    store: &Store,
    (workspace, budget, limit): Key,
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
