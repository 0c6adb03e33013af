//! The state of the whole installation: waiting work, dead letters, deliveries that were given up,
//! and what is left to read in the log. It is read once for all open pages, at most every few
//! seconds, so the cost does not grow with the number of pages.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use crate::app::App;
use console_frame::shared::Shared;
use deliveries::GivenUp;
use log::lag::{self, PartitionLag, TopicLag};
use log::offsets;
use runtime::engine::batches::dead_letters;
use runtime::kinds;
use runtime::topics;
use runtime::work_rows::{self, Work};
use store::{StoreError, claims};

/// How long a state is shown before it is read again.
const MAX_AGE: Duration = Duration::from_secs(4);

/// Time limit of the log: a page does not wait for a log that is down.
const LOG_TIMEOUT: Duration = Duration::from_secs(1);

/// Counts of work and of the dead letters of a workspace stop at these numbers, so that a query
/// stays cheap.
pub const MAX_WORK: i64 = 10_000;
pub const MAX_DEAD_LETTERS: i64 = 100;

/// Deliveries that were given up longer ago are not shown.
const GIVEN_UP_WITHIN_MS: i64 = 24 * 60 * 60 * 1_000;

/// How long work may wait, in milliseconds: without a worker, with workers, and for a daily sweep.
/// As the alerts have it.
const NOT_CLAIMED_MS: i64 = 5 * 60 * 1_000;
const LATE_MS: i64 = 4 * 60 * 60 * 1_000;
const LATE_SWEEP_MS: i64 = 24 * 60 * 60 * 1_000;

/// The largest number of deliveries that are read.
const MAX_GIVEN_UP: i64 = 1_000;

/// The state at one time.
#[derive(Debug)]
pub struct Fleet {
    /// Milliseconds since the epoch, by the database's clock.
    pub now: i64,
    /// The work that workers claim, by kind.
    pub work: Vec<Work>,
    /// Dead letters by workspace; none for those whose workspace is unknown.
    pub dead_letters: Vec<(Option<i32>, i64)>,
    /// The latest deliveries that were given up.
    pub given_up: Vec<GivenUp>,
    /// None if the log is unavailable.
    pub log: Option<LogState>,
}

impl Fleet {
    /// How long the oldest work that is due has waited, and its kind.
    pub fn oldest_work(&self) -> Option<(&str, i64)> {
        let waiting = self.work.iter().filter_map(|work| Some((&*work.kind, work.since?)));
        let oldest = waiting.min_by_key(|(_, since)| *since);
        oldest.map(|(kind, since)| (kind, self.now.saturating_sub(since).max(0)))
    }

    /// Work that waits for too long: no worker takes any of its kind, or there are too few workers
    /// (docs/runbooks/alerts/LongshoreWorkLate.md). With how long it has waited.
    pub fn late_work(&self) -> Vec<(&Work, i64)> {
        let is_late = |work: &Work, ms: i64| match (&*work.kind, work.held) {
            // All slices of users become due at the same time, once a day.
            (kind, _) if kind == kinds::ACTIVITY_SWEEP.name() => ms > LATE_SWEEP_MS,
            (_, 0) => ms > NOT_CLAIMED_MS,
            _ => ms > LATE_MS,
        };
        let waiting = self.work.iter().filter_map(|work| {
            let ms = self.now.saturating_sub(work.since?);
            Some((work, ms))
        });
        waiting.filter(|(work, ms)| is_late(work, *ms)).collect()
    }
}

/// What is in the log, of all topics and partitions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogState {
    /// Messages that were ever appended to it.
    pub appended: i64,
    /// Messages that are not processed yet.
    pub behind: i64,
    /// Partitions that stopped, with the reason.
    pub stopped: Vec<String>,
    /// Every partition that a group has consumed: first those that need a look.
    pub partitions: Vec<PartitionLag>,
    /// Appended messages a second, since the previous state. None if that is unknown.
    pub rate: Option<f64>,
}

/// Reads the state for all pages.
pub struct FleetReader {
    latest: Shared<(), Fleet>,
    /// When the log was last read, and the messages that were ever appended to it until then.
    appended: Arc<Mutex<Option<(Instant, i64)>>>,
}

impl Default for FleetReader {
    fn default() -> Self {
        let latest = Shared::with_max_age("state of the installation", 1, MAX_AGE);
        Self { latest, appended: Arc::default() }
    }
}

impl FleetReader {
    /// The current state, at most a few seconds old. Requests that come while it is read wait for
    /// it.
    pub async fn current(&self, app: &App) -> Result<Arc<Fleet>, StoreError> {
        let (app, appended) = (app.clone(), self.appended.clone());
        let read = async move {
            let at = Instant::now();
            let mut fleet = Box::pin(read(&app)).await?;
            if let Some(log) = &mut fleet.log {
                let past = appended.lock().replace((at, log.appended));
                log.rate = past.and_then(|(then, past)| rate(past, log.appended, at - then));
            }
            Ok(fleet)
        };
        self.latest.get((), read).await
    }
}

/// Appended messages a second; unknown after a long time without anyone who looks, and if the log
/// was created again.
fn rate(past: i64, now: i64, time: Duration) -> Option<f64> {
    let appended = now.checked_sub(past).filter(|appended| *appended >= 0)?;
    let is_recent = (Duration::from_secs(1)..Duration::from_secs(60)).contains(&time);
    is_recent.then(|| appended as f64 / time.as_secs_f64())
}

async fn read(app: &App) -> Result<Fleet, StoreError> {
    let log = match timeout(LOG_TIMEOUT, read_log(app)).await {
        Ok(log) => log?,
        Err(_) => None,
    };
    let mut tx = app.request_queue.snapshot().await?;
    let now = claims::now(&mut tx).await?;
    let work = work_rows::work(&mut tx, now, MAX_WORK).await?;
    let dead_letters = dead_letters::count_by_workspace(&mut tx, MAX_DEAD_LETTERS).await?;
    let since = now.saturating_sub(GIVEN_UP_WITHIN_MS);
    let given_up = deliveries::given_up_since(&mut tx, since, MAX_GIVEN_UP).await?;
    tx.commit().await?;
    Ok(Fleet { now, work, dead_letters, given_up, log })
}

/// None if the log is unavailable.
async fn read_log(app: &App) -> Result<Option<LogState>, StoreError> {
    let mut tx = app.request_queue.snapshot().await?;
    let positions = offsets::positions_by_topic(&mut tx, topics::ALL).await?;
    tx.commit().await?;
    let lags = match lag::read(&app.log, positions).await {
        Ok(lags) => lags,
        Err(error) => {
            tracing::debug!(%error, "cannot read the offsets of the log");
            return Ok(None);
        }
    };
    let mut state = LogState::default();
    for TopicLag { offsets, partitions } in lags {
        state.appended += offsets.ranges.iter().map(|range| range.end).sum::<i64>();
        for lag in partitions {
            if let Some(reason) = &lag.stopped {
                let (topic, partition) = (lag.topic.name(), lag.position.partition);
                state.stopped.push(format!("Partition {partition} of {topic} stopped: {reason}"));
            }
            state.behind += lag.behind().unwrap_or(0).max(0);
            state.partitions.push(lag);
        }
    }
    lag::sort_by_urgency(&mut state.partitions);
    Ok(Some(state))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet(work: Vec<Work>) -> Fleet {
        Fleet { now: 10_000, work, dead_letters: vec![], given_up: vec![], log: None }
    }

    #[test]
    fn the_oldest_work_of_all_kinds_is_found() {
        let work = |kind: &str, since| Work { kind: kind.into(), ready: 1, held: 0, since };
        let of_three = fleet(vec![work("a", Some(9_000)), work("b", Some(4_000)), work("c", None)]);
        assert_eq!(of_three.oldest_work(), Some(("b", 6_000)));
        assert_eq!(fleet(vec![work("c", None)]).oldest_work(), None);
        // The clock was set back.
        assert_eq!(fleet(vec![work("a", Some(11_000))]).oldest_work(), Some(("a", 0)));
    }

    #[test]
    fn work_is_late_if_no_worker_takes_it_or_it_waits_for_hours() {
        const HOUR: i64 = 3_600_000;
        let late = |kind: &str, held, ms: i64| {
            let work = Work { kind: kind.into(), ready: 1, held, since: Some(10_000 - ms) };
            fleet(vec![work]).late_work().len() == 1
        };
        assert!(!late("export_part", 1, HOUR) && late("export_part", 0, HOUR));
        assert!(late("export_part", 1, 5 * HOUR) && !late("export_part", 0, 60_000));
        assert!(!late("activity_sweep", 0, 5 * HOUR) && late("activity_sweep", 0, 25 * HOUR));
    }

    #[test]
    fn the_rate_is_that_of_the_last_seconds() {
        let seconds = Duration::from_secs;
        assert_eq!(rate(100, 600, seconds(5)), Some(100.0));
        assert_eq!(rate(600, 100, seconds(5)), None);
        assert_eq!(rate(100, 600, seconds(3_600)), None);
        assert_eq!(rate(100, 600, Duration::ZERO), None);
    }
}
