//! The SQL of queries about the whole fleet. Each statement reads only unfinished work, with an
//! index of only that, and counts up to a limit: none becomes slower with history.

use super::Jobs;
use store::{StoreError, Tx, on};

/// Counts the exports that have not ended by state; states without exports have no row.
pub(super) async fn exports(tx: &mut Tx, limit: i64) -> Result<Vec<Jobs>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT 'export' AS job, state, count(*) AS count,
                min(CASE state WHEN 'queued' THEN requested_at WHEN 'finishing' THEN completed_at
                               ELSE started_at END) AS since
         FROM (SELECT state, requested_at, started_at, completed_at FROM export_jobs
               WHERE finished_at IS NULL ORDER BY requested_at LIMIT $1) AS open
         GROUP BY state",
    )
    .bind(limit)
    .fetch_all(c)
    .await?))
}

/// The number of matching rows of a table, counted up to $1, and the time of the oldest one.
macro_rules! jobs {
    ($job:literal, $state:literal, $table:literal, $time:literal, $since:literal, $where:literal) => {
        concat!(
            "SELECT '",
            $job,
            "' AS job, '",
            $state,
            "' AS state, (SELECT count(*) FROM (SELECT ",
            $time,
            " FROM ",
            $table,
            " WHERE ",
            $where,
            " ORDER BY ",
            $time,
            " LIMIT $1) AS counted) AS count, (SELECT ",
            $since,
            " FROM ",
            $table,
            " WHERE ",
            $where,
            " ORDER BY ",
            $time,
            " LIMIT 1) AS since"
        )
    };
}

/// All other jobs. A delivery has been pending since `retry_ms` before its time limit: sending it
/// again restarts this time.
pub(super) async fn jobs(tx: &mut Tx, retry_ms: i64, limit: i64) -> Result<Vec<Jobs>, StoreError> {
    const SQL: &str = concat!(
        jobs!(
            "dispatch",
            "planning",
            "dispatches",
            "accepted_at",
            "accepted_at",
            "finished_at IS NULL AND state = 'planning'"
        ),
        " UNION ALL ",
        jobs!(
            "dispatch",
            "running",
            "dispatches",
            "accepted_at",
            "accepted_at",
            "finished_at IS NULL AND state = 'running'"
        ),
        " UNION ALL ",
        jobs!("schedule", "pending", "schedules", "time", "time", "state = 'pending'"),
        " UNION ALL ",
        jobs!(
            "delivery",
            "pending",
            "deliveries",
            "retry_until",
            "retry_until - $2",
            "state = 'pending'"
        ),
        " UNION ALL ",
        jobs!(
            "delivery",
            "given_up",
            "deliveries",
            "finished_at",
            "finished_at",
            // Those that ended before their time limit had no receiver any more: nobody waits for
            // them.
            "state = 'given_up' AND finished_at >= retry_until"
        ),
        " UNION ALL ",
        jobs!(
            "transactional",
            "waiting",
            "transactional_emails",
            "received_at",
            "received_at",
            "state = 'processing'"
        ),
    );
    Ok(on!(tx, c => sqlx::query_as(SQL).bind(limit).bind(retry_ms).fetch_all(c).await?))
}

/// The number of stored dead letters of a topic.
pub(super) async fn dead_letters(tx: &mut Tx, topic: &str, limit: i64) -> Result<i64, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar(
        "SELECT count(*) FROM (SELECT 1 FROM dead_letters WHERE topic = $1 LIMIT $2) AS counted",
    )
    .bind(topic)
    .bind(limit)
    .fetch_one(c)
    .await?))
}
