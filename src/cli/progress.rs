//! Progress with rate and estimated end, on standard error: a bar on a terminal, a line
//! every few seconds elsewhere.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, HumanDuration, ProgressBar, ProgressStyle};

use kit::words;

/// Interval between lines without a terminal.
const LINE: Duration = Duration::from_secs(5);

/// What is counted.
#[derive(Clone, Copy, Debug)]
pub enum Unit {
    Users,
    Bytes,
}

impl Unit {
    fn text(self, count: u64) -> String {
        match self {
            Self::Users => words::count(count, "user"),
            Self::Bytes => HumanBytes(count).to_string(),
        }
    }
}

/// Work in progress. Removes the bar when dropped.
pub struct Progress {
    unit: Unit,
    bar: Option<ProgressBar>,
    began: Instant,
    /// What earlier work had done when this began.
    start: u64,
    reported_at: Instant,
}

impl Progress {
    pub fn begin(unit: Unit) -> Self {
        Self::continue_after(unit, 0)
    }

    /// Continues work of which `start` is done. Only what follows counts for the rate.
    pub fn continue_after(unit: Unit, start: u64) -> Self {
        let bar = std::io::stderr()
            .is_terminal()
            .then(|| ProgressBar::no_length().with_style(style("{spinner} {msg}")));
        let now = Instant::now();
        Self { unit, bar, began: now, start, reported_at: now }
    }

    /// Sets the current work and its progress; `total` if it is known.
    pub fn update(&mut self, work: &str, done: u64, total: Option<u64>) {
        // The work begins again instead of continuing.
        self.start = self.start.min(done);
        if self.bar.is_none() && self.reported_at.elapsed() < LINE {
            return;
        }
        self.reported_at = Instant::now();
        let since_start = done - self.start;
        let counts = counts(self.unit, done, since_start, total, self.began.elapsed());
        let text = format!("{work}: {counts}");
        let Some(bar) = &self.bar else { return eprintln!("{text}") };
        if let Some(total) = total {
            if bar.length().is_none() {
                bar.set_style(style("{bar:30} {msg}"));
            }
            bar.set_length(total);
        }
        bar.set_position(done);
        bar.set_message(text);
    }

    /// Writes a line above the bar.
    pub fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{text}")),
            None => eprintln!("{text}"),
        }
    }

    /// Seconds since the start.
    pub fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// `since_start` is the part of `done` that took the time `elapsed`.
fn counts(
    unit: Unit,
    done: u64,
    since_start: u64,
    total: Option<u64>,
    elapsed: Duration,
) -> String {
    let rate = since_start as f64 / elapsed.as_secs_f64().max(0.001);
    let rated = format!("{} per second", unit.text(rate as u64));
    let Some(total) = total else { return format!("{}, {rated}", unit.text(done)) };
    let counted = format!("{} of {}, {rated}", unit.text(done), unit.text(total));
    // At the start, the remaining time is unknown.
    let seconds = total.saturating_sub(done) as f64 / rate;
    match Duration::try_from_secs_f64(seconds) {
        Ok(remaining) if since_start > 0 => {
            format!("{counted}, about {:#} left", HumanDuration(remaining))
        }
        _ => counted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_and_remaining_time_are_shown_if_known() {
        let ten = Duration::from_secs(10);
        for (unit, done, total, wanted) in [
            (Unit::Users, 0, Some(5), "0 users of 5 users, 0 users per second"),
            (Unit::Users, 5_000, None, "5,000 users, 500 users per second"),
            (
                Unit::Users,
                5_000,
                Some(7_000),
                "5,000 users of 7,000 users, 500 users per second, about 4s left",
            ),
            (
                Unit::Bytes,
                10 << 20,
                Some(70 << 20),
                "10.00 MiB of 70.00 MiB, 1.00 MiB per second, about 60s left",
            ),
        ] {
            assert_eq!(counts(unit, done, done, total, ten), wanted);
        }
    }

    #[test]
    fn earlier_work_counts_neither_for_the_rate_nor_for_the_remaining_time() {
        let ten = Duration::from_secs(10);
        assert_eq!(
            counts(Unit::Bytes, 60 << 20, 10 << 20, Some(70 << 20), ten),
            "60.00 MiB of 70.00 MiB, 1.00 MiB per second, about 10s left"
        );
        assert_eq!(
            counts(Unit::Users, 4_000, 0, Some(7_000), ten),
            "4,000 users of 7,000 users, 0 users per second"
        );
    }

    #[test]
    fn work_that_begins_again_has_no_earlier_part() {
        let mut progress = Progress::continue_after(Unit::Bytes, 1_000);
        progress.update("downloading", 1_500, Some(2_000));
        assert_eq!(progress.start, 1_000);
        progress.update("downloading", 10, Some(2_000));
        assert_eq!(progress.start, 10);
    }
}
