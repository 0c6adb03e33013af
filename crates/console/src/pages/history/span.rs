//! The times that a page of the history can show.

use jiff::tz::TimeZone;
use jiff::{ToSpan as _, Zoned};

use console_frame::chart::{Times, written};
use kit::clock::from_ms;
use runtime::history::{Step, Window};

const MINUTE: i64 = Step::Minute.ms();
const HOUR: i64 = Step::Hour.ms();

store::text_enum! {
    /// The time that ends now.
    pub enum Span {
        Day = "day",
        Month = "month",
        Year = "year",
    }
}

impl Span {
    pub fn title(self) -> &'static str {
        match self {
            Self::Day => "24 hours",
            Self::Month => "30 days",
            Self::Year => "1 year",
        }
    }

    /// What the rows of tables are.
    pub fn rows(self) -> &'static str {
        match self {
            Self::Day => "hour",
            Self::Month => "day",
            Self::Year => "month",
        }
    }

    /// The time at `now`, which ends with the current hour or day of the zone.
    pub fn times(self, now: i64, zone: &TimeZone) -> Times {
        let (window, bin, labels) = match self {
            Self::Day => day(now, 5 * MINUTE, zone),
            Self::Month => days(now, 30, 3 * HOUR, zone),
            Self::Year => days(now, 365, 24 * HOUR, zone),
        };
        let format = match self {
            Self::Day => "%a %H:00 %Z",
            Self::Month => "%a %-d %b %Y",
            Self::Year => "%b %Y",
        };
        Times { rows: Times::rows_by(&window, zone, format), window, bin, labels }
    }

    /// The last 24 hours with fewer bins, for small charts.
    pub fn short_day(now: i64, zone: &TimeZone) -> Times {
        let (window, bin, labels) = day(now, 30 * MINUTE, zone);
        Times { rows: Times::rows_by(&window, zone, "%a %H:00 %Z"), window, bin, labels }
    }
}

fn day(now: i64, bin_ms: i64, zone: &TimeZone) -> (Window, &'static str, Vec<String>) {
    let end = Step::Hour.start(now).saturating_add(HOUR);
    let start = end.saturating_sub(24 * HOUR);
    let labels = (0..=4).map(|quarter| written(start + quarter * 6 * HOUR, zone, "%H:%M"));
    let bin = if bin_ms == 5 * MINUTE { "5 minutes" } else { "half an hour" };
    (Window { step: Step::Minute, start, end, bin_ms }, bin, labels.collect())
}

/// Whole days of the calendar, the current one included.
fn days(now: i64, count: i64, bin_ms: i64, zone: &TimeZone) -> (Window, &'static str, Vec<String>) {
    let today = from_ms(now).to_zoned(zone.clone());
    let end = midnight(&today, 1, zone);
    let start = midnight(&today, 1 - count, zone);
    let (parts, format, bin) =
        if count == 30 { (5, "%-d %b", "3 hours") } else { (4, "%b %Y", "a day") };
    let label = |part: i64| {
        // In the middle of the day, because its start may be missing in a zone.
        let days = 1 - count + count * part / parts;
        written(midnight(&today, days, zone).saturating_add(12 * HOUR), zone, format)
    };
    let labels = (0..=parts).map(label).collect();
    (Window { step: Step::Hour, start, end, bin_ms }, bin, labels)
}

/// The start of the day that is so many days after a time.
fn midnight(from: &Zoned, days: i64, zone: &TimeZone) -> i64 {
    let date = from.date().saturating_add(days.days());
    date.to_zoned(zone.clone())
        .map_or_else(|_| from.timestamp().as_millisecond(), |at| at.timestamp().as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    // 2026-03-29T10:20:00Z; the clocks of Berlin went forward in the night before.
    const NOW: i64 = 1_774_779_600_000;

    #[test]
    fn a_day_ends_with_the_current_hour() {
        let times = Span::Day.times(NOW, &TimeZone::UTC);
        assert_eq!(times.labels, ["11:00", "17:00", "23:00", "05:00", "11:00"]);
        assert_eq!(times.window.bins(), 288);
        assert_eq!(times.rows.len(), 24);
        assert_eq!(times.rows[23].0, "Sun 10:00 UTC");
        assert_eq!(Span::short_day(NOW, &TimeZone::UTC).window.bins(), 48);
    }

    #[test]
    fn longer_times_are_whole_days_of_the_zone() {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let month = Span::Month.times(NOW, &zone);
        assert_eq!(month.labels, ["28 Feb", "6 Mar", "12 Mar", "18 Mar", "24 Mar", "30 Mar"]);
        assert_eq!(month.rows.len(), 30);
        // The last day has 23 hours.
        assert_eq!(month.window.end - month.window.start, (30 * 24 - 1) * HOUR);
        let year = Span::Year.times(NOW, &zone);
        assert_eq!(year.window.bins(), 365);
        assert_eq!(year.rows.first().map(|row| row.0.as_str()), Some("Mar 2025"));
        assert_eq!(year.rows.last().map(|row| row.0.as_str()), Some("Mar 2026"));
        assert_eq!(year.rows.len(), 13);
    }

    #[test]
    fn every_minute_and_hour_that_is_shown_is_kept() {
        for span in Span::ALL {
            for zone in ["Pacific/Apia", "Asia/Kolkata", "America/New_York"] {
                let window = span.times(NOW, &TimeZone::get(zone).unwrap()).window;
                assert!(NOW - window.start <= window.step.keep_ms(), "{span:?} {zone}");
                assert!(window.start < NOW && NOW < window.end);
            }
        }
    }
}
