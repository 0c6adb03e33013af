//! `longshore history`.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::table::{self, Cell, measure, number, optional, time};
use super::times::{Moment, moment};
use super::{CommandResult, find_named};
use crate::config::{Config, ConfigError};
use kit::clock::format_time;
use runtime::history::{self, History, Metric, Step, Window};

/// Show how much was done, and how much waited: by minute, hour or day
///
/// Minutes are kept for a day, hours for a year. A time in which no process ran has no values. The
/// last minute, hour or day is shown once it has ended; days are those of UTC.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  longshore history
  longshore history --workspace acme --by day --since 30d
  longshore history --by minute --json | jq -r '[.at, .log_behind] | @csv'")]
pub struct Arguments {
    /// Only this workspace; otherwise all of them together, and what the whole installation has
    #[arg(long, value_name = "NAME")]
    workspace: Option<String>,
    /// The time of each row
    #[arg(long, value_enum, default_value_t = By::Hour)]
    by: By,
    /// Only values that are at most this old, such as 2h or 7d, or since this time, such as
    /// 2026-11-25T00:00Z
    #[arg(long, value_name = "AGE|TIME", value_parser = moment, default_value = "24h")]
    since: Moment,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum By {
    Minute,
    Hour,
    Day,
}

impl By {
    fn step(self) -> Step {
        match self {
            Self::Minute => Step::Minute,
            Self::Hour | Self::Day => Step::Hour,
        }
    }

    fn ms(self) -> i64 {
        match self {
            Self::Minute | Self::Hour => self.step().ms(),
            Self::Day => 24 * Step::Hour.ms(),
        }
    }

    /// From `since` to now, as far as rows are kept.
    fn window(self, since: i64, now: i64) -> Window {
        let start_of = |at: i64| at - at.rem_euclid(self.ms());
        let start = start_of(since.clamp(now - self.step().keep_ms(), now));
        Window { step: self.step(), start, end: start_of(now), bin_ms: self.ms() }
    }
}

/// The values of one time, in the order of [`Metric::ALL`].
struct Row {
    at: i64,
    values: [Option<i64>; Metric::ALL.len()],
}

impl Row {
    fn value(&self, metric: Metric) -> Option<i64> {
        self.values[metric as usize]
    }
}

impl Serialize for Row {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let values = Metric::ALL.iter().map(|metric| {
            let value = self.value(*metric).map_or(Value::Null, Value::from);
            (metric.name().to_owned(), value)
        });
        let at = [("at".to_owned(), json!(format_time(self.at)))];
        at.into_iter().chain(values).collect::<Map<_, _>>().serialize(serializer)
    }
}

pub async fn run(config: Config, arguments: Arguments) -> CommandResult {
    let Arguments { workspace, by, since, json } = arguments;
    let app = super::open(config).await?;
    let mut tx = app.store.snapshot().await?;
    let workspace = find_named(&mut tx, workspace.as_deref()).await?;
    let now = store::claims::now(&mut tx).await?;
    let since = since.at(now);
    if since > now {
        let problems = vec!["--since must be in the past".to_owned()];
        return Err(ConfigError { problems }.into());
    }
    let window = by.window(since, now);
    let found = history::read(&mut tx, workspace.map(|found| found.id), &window).await?;
    tx.commit().await?;
    let headers = [
        "TIME",
        "EXPORTS",
        "FAILED",
        "USERS",
        "SENT",
        "NOT SENT",
        "OBJECTS",
        "LOG BEHIND",
        "OLDEST WORK",
        "DEAD LETTERS",
    ];
    table::print(json, "recorded values", headers, &rows(&found, &window), row)
}

/// The times in which anything is known.
fn rows(history: &History, window: &Window) -> Vec<Row> {
    let values = Metric::ALL.map(|metric| history.values(metric));
    let row = |bin| Row {
        at: window.bin_start(bin),
        values: Metric::ALL.map(|metric| values[metric as usize][bin]),
    };
    let rows = (0..window.bins()).map(row);
    rows.filter(|row| row.values.iter().any(Option::is_some)).collect()
}

fn row(row: &Row) -> [Cell; 10] {
    let count = |metric| optional(row.value(metric).map(number));
    [
        time(row.at),
        count(Metric::ExportsDone),
        count(Metric::ExportsFailed),
        count(Metric::UsersExported),
        count(Metric::MessagesSent),
        count(Metric::MessagesFailed),
        count(Metric::ObjectsApplied),
        count(Metric::LogBehind),
        optional(row.value(Metric::OldestWorkMs).map(|ms| measure(format!("{} s", ms / 1_000)))),
        count(Metric::DeadLetters),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_in_the_order_of_the_metrics() {
        for (index, metric) in Metric::ALL.into_iter().enumerate() {
            assert_eq!(metric as usize, index);
        }
    }

    #[test]
    fn a_window_has_only_times_that_have_ended_and_are_kept() {
        const HOUR: i64 = Step::Hour.ms();
        let now = 1_000 * HOUR + 1;
        let window = By::Hour.window(now - 24 * HOUR, now);
        assert_eq!((window.start, window.end), (976 * HOUR, 1_000 * HOUR));
        assert_eq!(window.bins(), 24);
        let all = By::Minute.window(i64::MIN, now);
        assert!(all.bins() <= 27 * 60, "{}", all.bins());
        assert_eq!(By::Day.window(now, now).bins(), 0);
    }
}
