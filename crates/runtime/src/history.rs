//! How much was done, and how much waited: a value for each minute of a day and each hour of a
//! year.
//!
//! Whoever does countable work [counts](count) it in the transaction of the work: each piece counts
//! once. One process a minute [records](record) the state of the installation, and adds what was
//! counted since. A minute in which no process ran has no record: that is a gap, not a zero.

mod record;

use std::collections::BTreeMap;

use tokio_util::sync::CancellationToken;

pub use self::record::{Sample, record, watch};
use crate::history_rows::{self as rows, INSTALLATION};
use store::{Store, StoreError, Tx, claims, text_enum};

text_enum! {
    /// What is recorded. Rows with other names are of a newer release, and ignored.
    #[derive(PartialOrd, Ord)]
    pub enum Metric {
        /// Exports that completed.
        ExportsDone = "exports_done",
        /// Exports that failed.
        ExportsFailed = "exports_failed",
        /// Users in the files of exports that completed.
        UsersExported = "users_exported",
        /// Messages that their channel accepted, transactional emails included.
        MessagesSent = "messages_sent",
        /// Messages that failed, or that their channel or a later report rejected; of transactional
        /// emails also aborted ones.
        MessagesFailed = "messages_failed",
        /// Attributes, events and purchases that were applied.
        ObjectsApplied = "objects_applied",
        /// Messages of the log that are not applied yet, of the whole installation.
        LogBehind = "log_behind",
        /// How long the oldest work that is due has waited, in milliseconds, of the whole
        /// installation.
        OldestWorkMs = "oldest_work_ms",
        /// Dead letters of the whole installation; of each workspace at most 10,000.
        DeadLetters = "dead_letters",
    }
}

/// How values of a longer time are made from those of shorter times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rollup {
    Sum,
    Max,
}

impl Rollup {
    /// The value of both times together.
    pub fn join(self, a: i64, b: i64) -> i64 {
        match self {
            Self::Sum => a.saturating_add(b),
            Self::Max => a.max(b),
        }
    }
}

impl Metric {
    pub fn rollup(self) -> Rollup {
        match self {
            Self::LogBehind | Self::OldestWorkMs | Self::DeadLetters => Rollup::Max,
            _ => Rollup::Sum,
        }
    }
}

/// The length of the time of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    Minute,
    Hour,
}

impl Step {
    /// In milliseconds.
    pub const fn ms(self) -> i64 {
        match self {
            Self::Minute => 60_000,
            Self::Hour => 3_600_000,
        }
    }

    /// How long rows are kept, in milliseconds: a day and a year, and the time in which pages still
    /// show the beginning.
    pub const fn keep_ms(self) -> i64 {
        match self {
            Self::Minute => 26 * Self::Hour.ms(),
            Self::Hour => 367 * 24 * Self::Hour.ms(),
        }
    }

    /// The start of the step of a time.
    pub fn start(self, at: i64) -> i64 {
        at.saturating_sub(at.rem_euclid(self.ms()))
    }
}

/// Counts work in the transaction that does it; zeros count nothing. Only adds rows, so it waits
/// for no other transaction.
pub async fn count(
    tx: &mut Tx,
    workspace: i32,
    amounts: &[(Metric, i64)],
) -> Result<(), StoreError> {
    let amounts: Vec<(Metric, i64)> =
        amounts.iter().copied().filter(|(_, amount)| *amount != 0).collect();
    rows::insert_counts(tx, workspace, &amounts).await
}

/// A range of time in bins of the same length. Times are milliseconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The rows that are read.
    pub step: Step,
    pub start: i64,
    /// Exclusive.
    pub end: i64,
    /// The length of a bin, which is at least that of a step.
    pub bin_ms: i64,
}

impl Window {
    pub fn bins(&self) -> usize {
        let ms = self.end.saturating_sub(self.start).max(0);
        usize::try_from(ms.unsigned_abs().div_ceil(self.bin_ms.max(1).unsigned_abs()))
            .unwrap_or_default()
    }

    /// The start of a bin.
    pub fn bin_start(&self, bin: usize) -> i64 {
        self.start.saturating_add(self.bin_ms.saturating_mul(bin as i64))
    }
}

/// The recorded values of a window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The first recorded hour, in milliseconds since the epoch; none before the first record.
    pub since: Option<i64>,
    /// Whether anything was recorded in a bin.
    is_recorded: Vec<bool>,
    values: BTreeMap<Metric, Vec<Option<i64>>>,
}

impl History {
    /// The value of each bin; none for a bin in which nothing was recorded.
    pub fn values(&self, metric: Metric) -> Vec<Option<i64>> {
        let stored = self.values.get(&metric);
        let value = |(bin, is_recorded): (usize, &bool)| {
            let value = stored.and_then(|values| values[bin]);
            // A sum of 0 has no row.
            let zero = (*is_recorded && metric.rollup() == Rollup::Sum).then_some(0);
            value.or(zero)
        };
        self.is_recorded.iter().enumerate().map(value).collect()
    }

    /// Adds the values of another workspace in the same window.
    pub fn add(&mut self, other: &Self) {
        for (metric, values) in &other.values {
            let empty = || vec![None; self.is_recorded.len()];
            let own = self.values.entry(*metric).or_insert_with(empty);
            for (own, value) in own.iter_mut().zip(values) {
                *own = joined(Rollup::Sum, *own, *value);
            }
        }
    }
}

/// The value of several times together; none if none is known.
pub fn total(rollup: Rollup, values: &[Option<i64>]) -> Option<i64> {
    values.iter().copied().fold(None, |total, value| joined(rollup, total, value))
}

fn joined(rollup: Rollup, a: Option<i64>, b: Option<i64>) -> Option<i64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(rollup.join(a, b)),
        _ => a.or(b),
    }
}

/// The values of a workspace, or of the whole installation: of its workspaces together, and of
/// itself. Steps that have not ended are left out. Reads the rows of the window by their key.
pub async fn read(
    tx: &mut Tx,
    workspace: Option<i32>,
    window: &Window,
) -> Result<History, StoreError> {
    let now = claims::now(tx).await?;
    read_at(tx, workspace, window, now).await
}

/// [`read`] at a time in milliseconds since the epoch. Leaves out what is recorded for later times,
/// because the clock went back.
pub async fn read_at(
    tx: &mut Tx,
    workspace: Option<i32>,
    window: &Window,
    now: i64,
) -> Result<History, StoreError> {
    let bins = window.bins();
    let mut history = History {
        since: rows::first(tx, Step::Hour).await?,
        is_recorded: vec![false; bins],
        values: BTreeMap::new(),
    };
    let Some(last) = rows::last(tx, Step::Minute).await? else { return Ok(history) };
    let range = window.start..window.end.min(window.step.start(last.min(now)));
    for bin in rows::recorded_bins(tx, window, &range).await? {
        if let Some(is_recorded) = history.is_recorded.get_mut(bin.unsigned_abs() as usize) {
            *is_recorded = true;
        }
    }
    for row in rows::binned(tx, workspace.unwrap_or(INSTALLATION), window, &range).await? {
        let Some(metric) = Metric::from_name(&row.metric) else { continue };
        let value = match metric.rollup() {
            Rollup::Sum => row.total,
            Rollup::Max => row.highest,
        };
        let values = history.values.entry(metric).or_insert_with(|| vec![None; bins]);
        if let Some(bin) = values.get_mut(row.bin.unsigned_abs() as usize) {
            *bin = Some(value);
        }
    }
    Ok(history)
}

/// Deletes old rows.
pub async fn sweep(store: &Store, stop: &CancellationToken) -> Result<(), StoreError> {
    let now = store.now().await?;
    for step in [Step::Minute, Step::Hour] {
        rows::OLD.delete(store, &[step.ms(), now.saturating_sub(step.keep_ms())], stop).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = Step::Minute.ms();

    fn history(is_recorded: &[bool], values: &[(Metric, &[Option<i64>])]) -> History {
        let values = values.iter().map(|(metric, values)| (*metric, values.to_vec()));
        History { since: None, is_recorded: is_recorded.to_vec(), values: values.collect() }
    }

    #[test]
    fn a_minute_without_a_record_is_a_gap_and_not_a_zero() {
        let sent = [None, Some(7), None];
        let history = history(&[true, true, false], &[(Metric::MessagesSent, &sent)]);
        assert_eq!(history.values(Metric::MessagesSent), [Some(0), Some(7), None]);
        assert_eq!(history.values(Metric::ExportsDone), [Some(0), Some(0), None]);
        // The log was unavailable.
        assert_eq!(history.values(Metric::LogBehind), [None, None, None]);
    }

    #[test]
    fn values_of_longer_times_are_sums_or_maxima() {
        let values = [Some(3), None, Some(5)];
        assert_eq!(total(Rollup::Sum, &values), Some(8));
        assert_eq!(total(Rollup::Max, &values), Some(5));
        assert_eq!(total(Rollup::Sum, &[None, None]), None);
        assert_eq!(total(Rollup::Sum, &[Some(i64::MAX), Some(1)]), Some(i64::MAX));
    }

    #[test]
    fn workspaces_are_added_bin_by_bin() {
        let values = [Some(1), None, Some(2)];
        let mut sum = history(&[true, true, true], &[(Metric::ExportsDone, &values)]);
        let other = [Some(4), Some(8), None];
        sum.add(&history(
            &[true, true, true],
            &[(Metric::ExportsDone, &other), (Metric::UsersExported, &other)],
        ));
        assert_eq!(sum.values(Metric::ExportsDone), [Some(5), Some(8), Some(2)]);
        assert_eq!(sum.values(Metric::UsersExported), [Some(4), Some(8), Some(0)]);
    }

    #[test]
    fn a_window_has_bins_up_to_its_end() {
        let window = |end| Window { step: Step::Minute, start: 0, end, bin_ms: 5 * MINUTE };
        assert_eq!(window(0).bins(), 0);
        assert_eq!(window(-MINUTE).bins(), 0);
        assert_eq!(window(5 * MINUTE).bins(), 1);
        assert_eq!(window(5 * MINUTE + 1).bins(), 2);
        assert_eq!(window(i64::MAX).bin_start(3), 15 * MINUTE);
    }

    #[test]
    fn a_step_starts_at_a_multiple_of_its_length_before_the_epoch_too() {
        assert_eq!(Step::Minute.start(MINUTE + 1), MINUTE);
        assert_eq!(Step::Hour.start(2 * Step::Hour.ms()), 2 * Step::Hour.ms());
        assert_eq!(Step::Minute.start(-1), -MINUTE);
    }
}
