//! Ages and times on the command line, which select rows of lists.

use std::ops::Range;

use jiff::Timestamp;

use crate::config::ConfigError;

/// The start or the end of a range of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Milliseconds before now.
    Age(i64),
    /// Milliseconds since the epoch.
    Time(i64),
}

impl Moment {
    /// In milliseconds since the epoch.
    pub fn at(self, now: i64) -> i64 {
        match self {
            Self::Age(age) => now.saturating_sub(age),
            Self::Time(time) => time,
        }
    }
}

/// An age in milliseconds.
pub fn age(text: &str) -> Result<i64, String> {
    let expected = || format!("{text:?} must be a number with the unit s, m, h or d, such as 2h");
    let unit_ms = match text.chars().last() {
        Some('s') => 1_000,
        Some('m') => 60_000,
        Some('h') => 3_600_000,
        Some('d') => 86_400_000,
        _ => return Err(expected()),
    };
    let number: u32 = text[..text.len() - 1].parse().map_err(|_| expected())?;
    Ok(i64::from(number) * unit_ms)
}

/// An age, or a time of RFC 3339.
pub fn moment(text: &str) -> Result<Moment, String> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(Moment::Time(time.as_millisecond()));
    }
    age(text)
        .map(Moment::Age)
        .map_err(|error| format!("{error}, or a time such as 2026-11-25T00:00Z"))
}

/// The times from `since` until before `until`, in milliseconds since the epoch.
pub fn range(
    since: Option<Moment>,
    until: Option<Moment>,
    now: i64,
) -> Result<Range<i64>, ConfigError> {
    let start = since.map_or(i64::MIN, |since| since.at(now));
    let end = until.map_or(i64::MAX, |until| until.at(now));
    if start < end {
        return Ok(start..end);
    }
    Err(ConfigError { problems: vec!["--since must be before --until".to_owned()] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_a_unit() {
        assert_eq!(age("90s"), Ok(90_000));
        assert_eq!(age("2h"), Ok(7_200_000));
        assert_eq!(age("7d"), Ok(604_800_000));
        for wrong in ["", "h", "2", "-2h", "2.5h", "2H", "2µ", "99999999999d"] {
            assert!(age(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_moment_is_an_age_or_a_time() {
        assert_eq!(moment("30m"), Ok(Moment::Age(1_800_000)));
        assert_eq!(moment("1970-01-01T00:00:01Z"), Ok(Moment::Time(1_000)));
        for wrong in ["yesterday", "", "é", "h", "-1h"] {
            assert!(moment(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_range_starts_before_it_ends() {
        let read = |since, until| range(since, until, 10_000).ok();
        assert_eq!(read(None, None), Some(i64::MIN..i64::MAX));
        assert_eq!(read(Some(Moment::Age(1_000)), None), Some(9_000..i64::MAX));
        assert_eq!(read(Some(Moment::Time(1)), Some(Moment::Age(0))), Some(1..10_000));
        assert_eq!(read(Some(Moment::Time(2)), Some(Moment::Time(2))), None);
    }
}
