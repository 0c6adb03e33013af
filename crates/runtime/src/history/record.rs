//! Records each minute: once, by whichever process comes first.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{Metric, Rollup, Step};
use crate::app::App;
use crate::engine::batches::dead_letters;
use crate::history_rows::{self as rows, Counted, INSTALLATION, Value};
use crate::topics;
use crate::work_rows;
use kit::retry;
use log::lag::{self, TopicLag};
use log::offsets::{self, GroupOffset};
use log::{Log, Topic};
use store::{Store, StoreError, claims};

/// How often a process looks whether the current minute is recorded.
const CHECK_EVERY: Duration = Duration::from_secs(20);

/// Time limit of the log: without its response, the minute has no lag.
const LOG_TIMEOUT: Duration = Duration::from_secs(5);

/// The counts of the dead letters of a workspace stop here, so that a query stays cheap.
const MAX_DEAD_LETTERS: i64 = 10_000;

/// Counts that one transaction adds to the history.
const COUNTS_AT_ONCE: i64 = 2_000;

/// The state of the installation at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Messages of the log that are not applied yet; none if that is unknown, because the log is
    /// unavailable or a partition is stopped.
    pub log_behind: Option<i64>,
    /// How long the oldest work that is due has waited, in milliseconds; 0 without any.
    pub oldest_work_ms: i64,
    pub dead_letters: i64,
}

/// Records minutes until `stop`. Every process does this: a minute is missing only if none ran.
pub async fn watch(app: App, stop: CancellationToken) {
    // So that processes that start together do not all look at the same moment.
    retry::wait(retry::backoff(1, CHECK_EVERY, CHECK_EVERY), &stop).await;
    let failed = "cannot record the history; retrying";
    retry::repeat(CHECK_EVERY, &stop, failed, || record_current(&app)).await;
}

async fn record_current(app: &App) -> Result<(), StoreError> {
    let mut tx = app.store.snapshot().await?;
    let now = claims::now(&mut tx).await?;
    let minute = Step::Minute.start(now);
    if rows::is_recorded(&mut tx, minute).await? {
        // The clock went back, or the process that recorded the minute ended too early.
        let oldest = rows::oldest_count(&mut tx).await?;
        tx.commit().await?;
        if oldest.is_some_and(|at| Step::Minute.start(at) != minute) {
            add_counts(&app.store).await?;
        }
        return Ok(());
    }
    let work = work_rows::work(&mut tx, now, 1).await?;
    let dead_letters = dead_letters::count_by_workspace(&mut tx, MAX_DEAD_LETTERS).await?;
    let positions = offsets::positions_by_topic(&mut tx, topics::ALL).await?;
    tx.commit().await?;
    let oldest = work.iter().filter_map(|work| work.since).min();
    let sample = Sample {
        log_behind: log_behind(&app.log, positions).await,
        oldest_work_ms: oldest.map_or(0, |since| now.saturating_sub(since).max(0)),
        dead_letters: dead_letters.iter().map(|(_, count)| count).sum(),
    };
    record(&app.store, now, &sample).await.map(drop)
}

/// None if the log is unavailable, or a partition is stopped.
async fn log_behind(log: &Log, positions: Vec<(Topic, Vec<GroupOffset>)>) -> Option<i64> {
    // Only the log has a time limit: database work is never dropped halfway.
    let lags = timeout(LOG_TIMEOUT, lag::read(log, positions)).await.ok()?.ok()?;
    lags.iter().map(TopicLag::behind).sum()
}

/// Records the minute of a time, by the database's clock, and adds what was counted since the last
/// record. Returns false, and changes nothing, if the minute is recorded.
pub async fn record(store: &Store, now: i64, sample: &Sample) -> Result<bool, StoreError> {
    let minute = Step::Minute.start(now);
    let mut tx = store.write().await?;
    if !rows::begin_minute(&mut tx, minute, sample.dead_letters).await? {
        return Ok(false);
    }
    let value = |step: Step, (metric, value): (Metric, i64)| Value {
        step,
        workspace_id: INSTALLATION,
        at: step.start(now),
        metric: metric.name().to_owned(),
        value,
    };
    let oldest = (Metric::OldestWorkMs, sample.oldest_work_ms);
    let others = sample.log_behind.map(|behind| (Metric::LogBehind, behind)).into_iter();
    let others: Vec<(Metric, i64)> = others.chain([oldest]).collect();
    let all = others.iter().copied().chain([(Metric::DeadLetters, sample.dead_letters)]);
    let of_hour: Vec<Value> = all.map(|sampled| value(Step::Hour, sampled)).collect();
    let of_minute: Vec<Value> =
        others.iter().map(|sampled| value(Step::Minute, *sampled)).collect();
    rows::raise(&mut tx, &of_minute).await?;
    rows::raise(&mut tx, &of_hour).await?;
    tx.commit().await?;
    add_counts(store).await?;
    Ok(true)
}

/// Moves the counts to the history, each in the transaction that removes it.
async fn add_counts(store: &Store) -> Result<(), StoreError> {
    // PostgreSQL keeps removed rows for a while: each query starts after those of the one before.
    let mut last = i64::MIN;
    loop {
        let mut tx = store.write().await?;
        let counts = rows::take_counts(&mut tx, last, COUNTS_AT_ONCE).await?;
        rows::add(&mut tx, &rolled_up(&counts)).await?;
        tx.commit().await?;
        if (counts.len() as i64) < COUNTS_AT_ONCE {
            return Ok(());
        }
        last = counts.iter().map(|count| count.id).max().unwrap_or(last);
    }
}

/// The sums of counts by minute and hour, of their workspaces and of the installation. In the order
/// of their keys, so that two transactions lock the rows in the same order.
fn rolled_up(counts: &[Counted]) -> Vec<Value> {
    let mut sums: BTreeMap<(Step, i32, i64, &str), i64> = BTreeMap::new();
    for count in counts {
        for step in [Step::Minute, Step::Hour] {
            for workspace in [INSTALLATION, count.workspace_id] {
                let key = (step, workspace, step.start(count.at), count.metric.as_str());
                let sum = sums.entry(key).or_default();
                *sum = Rollup::Sum.join(*sum, count.value);
            }
        }
    }
    let value = |((step, workspace_id, at, metric), value): ((Step, i32, i64, &str), i64)| Value {
        step,
        workspace_id,
        at,
        metric: metric.to_owned(),
        value,
    };
    sums.into_iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_rolled_up_by_minute_hour_and_workspace() {
        let count = |workspace_id, at, metric: Metric, value| Counted {
            id: 0,
            workspace_id,
            at,
            metric: metric.name().to_owned(),
            value,
        };
        let values = rolled_up(&[
            count(1, 60_000, Metric::MessagesSent, 5),
            count(1, 119_999, Metric::MessagesSent, 7),
            count(2, 120_000, Metric::MessagesSent, 1),
            count(2, 3_600_000, Metric::ExportsDone, 1),
        ]);
        let value = |step, workspace, at, metric: Metric| {
            let rows = values.iter().filter(|row| {
                (row.step, row.workspace_id, row.at) == (step, workspace, at)
                    && row.metric == metric.name()
            });
            let values: Vec<i64> = rows.map(|row| row.value).collect();
            assert!(values.len() <= 1, "each row occurs once: {values:?}");
            values.first().copied()
        };
        assert_eq!(value(Step::Minute, 1, 60_000, Metric::MessagesSent), Some(12));
        assert_eq!(value(Step::Minute, 2, 120_000, Metric::MessagesSent), Some(1));
        assert_eq!(value(Step::Minute, 1, 120_000, Metric::MessagesSent), None);
        assert_eq!(value(Step::Hour, INSTALLATION, 0, Metric::MessagesSent), Some(13));
        assert_eq!(value(Step::Hour, INSTALLATION, 3_600_000, Metric::ExportsDone), Some(1));
        assert!(rolled_up(&[]).is_empty());
    }
}
