//! The SQL of the history.

use std::ops::Range;

use crate::history::{Metric, Step, Window};
use store::retention::OldRows;
use store::{StoreError, Tx, execute, from_row, insert_rows, old_rows, on};

/// The workspace of rows of the whole installation.
pub(super) const INSTALLATION: i32 = 0;

/// What each recorded minute has. Sums can come before it, for work of a minute that has just
/// begun.
const FIRST: Metric = Metric::DeadLetters;

/// The rows of a step before a time.
pub(super) const OLD: OldRows =
    old_rows!("history", "step = $1 AND at < $2", 5_000, key = "step, workspace_id, at, metric");

/// A value, and the row that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Value {
    pub step: Step,
    pub workspace_id: i32,
    pub at: i64,
    pub metric: String,
    pub value: i64,
}

/// Work that was counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Counted {
    pub id: i64,
    pub workspace_id: i32,
    pub at: i64,
    pub metric: String,
    pub value: i64,
}
from_row! { Counted { id, workspace_id, at, metric, value } }

/// Adds work, with the time of the database's clock.
pub(super) async fn insert_counts(
    tx: &mut Tx,
    workspace: i32,
    amounts: &[(Metric, i64)],
) -> Result<(), StoreError> {
    insert_rows!(tx, "history_counts", amounts, |amount| {
        workspace_id: workspace,
        metric: amount.0.name(),
        value: amount.1,
    }, "");
    Ok(())
}

/// When the oldest work was counted that the history does not have yet.
pub(super) async fn oldest_count(tx: &mut Tx) -> Result<Option<i64>, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar("SELECT at FROM history_counts ORDER BY id LIMIT 1")
        .fetch_optional(c).await?))
}

/// Removes the oldest counts with ids after `after`, at most `limit`. They must take effect in this
/// transaction.
pub(super) async fn take_counts(
    tx: &mut Tx,
    after: i64,
    limit: i64,
) -> Result<Vec<Counted>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "DELETE FROM history_counts
         WHERE id IN (SELECT id FROM history_counts WHERE id > $1 ORDER BY id LIMIT $2)
         RETURNING id, workspace_id, at, metric, value",
    )
    .bind(after)
    .bind(limit)
    .fetch_all(c)
    .await?))
}

/// Whether a minute was recorded.
pub(super) async fn is_recorded(tx: &mut Tx, minute: i64) -> Result<bool, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM history
                        WHERE step = $1 AND workspace_id = $2 AND at = $3 AND metric = $4)",
    )
    .bind(Step::Minute.ms())
    .bind(INSTALLATION)
    .bind(minute)
    .bind(FIRST.name())
    .fetch_one(c)
    .await?))
}

/// Adds the first row of a minute; false if another process did. Others wait for this transaction.
pub(super) async fn begin_minute(
    tx: &mut Tx,
    minute: i64,
    dead_letters: i64,
) -> Result<bool, StoreError> {
    let added = execute!(
        tx,
        sqlx::query(
            "INSERT INTO history (step, workspace_id, at, metric, value)
             VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING",
        )
        .bind(Step::Minute.ms())
        .bind(INSTALLATION)
        .bind(minute)
        .bind(FIRST.name())
        .bind(dead_letters)
    );
    Ok(added == 1)
}

/// Adds values to those of their rows. Each row occurs once.
pub(super) async fn add(tx: &mut Tx, values: &[Value]) -> Result<(), StoreError> {
    put(
        tx,
        values,
        "ON CONFLICT (step, workspace_id, at, metric)
         DO UPDATE SET value = history.value + excluded.value",
    )
    .await
}

/// Replaces the values of rows that are lower. Each row occurs once.
pub(super) async fn raise(tx: &mut Tx, values: &[Value]) -> Result<(), StoreError> {
    put(
        tx,
        values,
        "ON CONFLICT (step, workspace_id, at, metric) DO UPDATE SET value = excluded.value
         WHERE history.value < excluded.value",
    )
    .await
}

async fn put(tx: &mut Tx, values: &[Value], on_conflict: &str) -> Result<(), StoreError> {
    insert_rows!(tx, "history", values, |row| {
        step: row.step.ms(),
        workspace_id: row.workspace_id,
        at: row.at,
        metric: row.metric.as_str(),
        value: row.value,
    }, on_conflict);
    Ok(())
}

/// The start of the first recorded step.
pub(super) async fn first(tx: &mut Tx, step: Step) -> Result<Option<i64>, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar(
        "SELECT at FROM history WHERE step = $1 AND workspace_id = $2 AND metric = $3
         ORDER BY at LIMIT 1",
    )
    .bind(step.ms())
    .bind(INSTALLATION)
    .bind(FIRST.name())
    .fetch_optional(c)
    .await?))
}

/// The start of the last recorded step.
pub(super) async fn last(tx: &mut Tx, step: Step) -> Result<Option<i64>, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar(
        "SELECT at FROM history WHERE step = $1 AND workspace_id = $2 AND metric = $3
         ORDER BY at DESC LIMIT 1",
    )
    .bind(step.ms())
    .bind(INSTALLATION)
    .bind(FIRST.name())
    .fetch_optional(c)
    .await?))
}

/// The bins of a part of a window in which anything was recorded.
pub(super) async fn recorded_bins(
    tx: &mut Tx,
    window: &Window,
    range: &Range<i64>,
) -> Result<Vec<i64>, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar(
        "SELECT DISTINCT (at - $4) / $6 FROM history
         WHERE step = $1 AND workspace_id = $2 AND metric = $3 AND at >= $4 AND at < $5",
    )
    .bind(window.step.ms())
    .bind(INSTALLATION)
    .bind(FIRST.name())
    .bind(range.start)
    .bind(range.end)
    .bind(window.bin_ms.max(1))
    .fetch_all(c)
    .await?))
}

/// The values of a metric in a bin of a window.
pub(super) struct Binned {
    pub metric: String,
    /// Number of the bin, from 0.
    pub bin: i64,
    pub total: i64,
    pub highest: i64,
}
from_row! { Binned { metric, bin, total, highest } }

/// The values of a workspace in a part of a window, which begins where the window does.
pub(super) async fn binned(
    tx: &mut Tx,
    workspace: i32,
    window: &Window,
    range: &Range<i64>,
) -> Result<Vec<Binned>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT metric, (at - $3) / $5 AS bin, CAST(sum(value) AS BIGINT) AS total,
                max(value) AS highest
         FROM history WHERE step = $1 AND workspace_id = $2 AND at >= $3 AND at < $4
         GROUP BY 1, 2",
    )
    .bind(window.step.ms())
    .bind(workspace)
    .bind(range.start)
    .bind(range.end)
    .bind(window.bin_ms.max(1))
    .fetch_all(c)
    .await?))
}
