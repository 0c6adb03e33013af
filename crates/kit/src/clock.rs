//! The time of day, which a test can set.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::Serializer;

/// The source of every "now": the system's clock, moved by an offset that only tests set.
#[derive(Clone, Default, Debug)]
pub struct Clock {
    offset_ms: Arc<AtomicI64>,
}

impl Clock {
    /// The system's clock.
    pub fn system() -> Self {
        Self::default()
    }

    pub fn now(&self) -> Timestamp {
        let offset = SignedDuration::from_millis(self.offset_ms.load(Ordering::Relaxed));
        let now = Timestamp::now();
        now.checked_add(offset).unwrap_or(now)
    }

    /// Milliseconds since the Unix epoch: the unit of every stored time.
    pub fn now_ms(&self) -> i64 {
        self.now().as_millisecond()
    }

    /// Another clock's time, such as the database's, moved by the same offset.
    pub fn moved(&self, ms: i64) -> i64 {
        ms + self.offset_ms.load(Ordering::Relaxed)
    }

    /// The current UTC day.
    pub fn today(&self) -> Date {
        utc_date(self.now())
    }

    /// Moves this clock, and all its clones, to `time`. It continues from there.
    pub fn set(&self, time: Timestamp) {
        let offset = time.as_millisecond() - Timestamp::now().as_millisecond();
        self.offset_ms.store(offset, Ordering::Relaxed);
    }
}

/// The UTC day that `time` lies in.
pub fn utc_date(time: Timestamp) -> Date {
    time.to_zoned(TimeZone::UTC).date()
}

/// A number of hours.
pub const fn hours(hours: u64) -> Duration {
    Duration::from_secs(hours.saturating_mul(3_600))
}

/// A duration in the unit of stored times. One that is out of range is so long that adding it to a
/// time cannot overflow.
pub fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 4)
}

/// Converts a stored time (milliseconds since the epoch) to a timestamp. A time out of range
/// becomes the nearest end of the range.
pub fn from_ms(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).unwrap_or(if ms < 0 { Timestamp::MIN } else { Timestamp::MAX })
}

/// Formats a stored time for responses and records: `2021-06-28T17:02:43.032Z`.
pub fn format_time(ms: i64) -> String {
    format!("{:.3}", from_ms(ms))
}

/// Whether a text has the format of [`format_time`].
pub fn is_formatted(text: &str) -> bool {
    const FORM: &[u8; 24] = b"0000-00-00T00:00:00.000Z";
    let fits = |(byte, form): (u8, &u8)| match form {
        b'0' => byte.is_ascii_digit(),
        _ => byte == *form,
    };
    text.len() == FORM.len() && text.bytes().zip(FORM).all(fits)
}

/// [`format_time`] for a field of a serialized type.
pub fn serialize_time<S: Serializer>(ms: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{:.3}", from_ms(*ms)))
}

/// [`serialize_time`] for an optional time.
pub fn serialize_optional_time<S: Serializer>(
    ms: &Option<i64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match ms {
        Some(ms) => serialize_time(ms, serializer),
        None => serializer.serialize_none(),
    }
}

/// Formats a stored time in whole seconds, for people: `2021-06-28T17:02:43Z`.
pub fn format_seconds(ms: i64) -> String {
    from_ms(ms - ms.rem_euclid(1_000)).to_string()
}

/// A time as it is stored, from ISO 8601: with an offset (`+0200` too), or without one and read as
/// UTC; a date alone is read as midnight. Also accepts the pattern `yyyy-MM-dd'T'HH:mm:ss:SSSZ`,
/// which has a colon before the milliseconds. The hours of an offset may have one digit, as in
/// `+1:00`.
pub fn parse_time(text: &str) -> Result<i64, String> {
    let time = iso_8601(text)
        .or_else(|| iso_8601(&with_point(text)?))
        .or_else(|| iso_8601(&with_hours(text)?));
    time.ok_or_else(|| "expected a date and time in ISO 8601".to_owned())
}

/// Parses a local time and ignores its zone, as if it were UTC. The formats and the error are those
/// of [`parse_time`].
pub fn parse_wall_time(text: &str) -> Result<i64, String> {
    let time = parse_time(text)?;
    let Some(day_end) = text.find(['T', 't', ' ']) else { return Ok(time) };
    let zone = text[day_end..].find(['Z', 'z', '+', '-', '[']);
    parse_time(&text[..zone.map_or(text.len(), |at| day_end + at)])
}

/// Whether a text has both a date and a time of day.
pub fn is_date_and_time(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit() || c == '+' || c == '-')
        && text.contains(['T', 't', ' '])
        && parse_time(text).is_ok()
}

fn iso_8601(text: &str) -> Option<i64> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Some(time.as_millisecond());
    }
    let time = text.parse::<DateTime>().and_then(|time| time.to_zoned(TimeZone::UTC));
    time.ok().map(|time| time.timestamp().as_millisecond())
}

/// Replaces the colon before the milliseconds by a point.
fn with_point(text: &str) -> Option<String> {
    let seconds = "yyyy-MM-ddTHH:mm:ss".len();
    let (head, tail) = text.split_at_checked(seconds)?;
    let tail = tail.strip_prefix(':')?;
    let digits = tail.bytes().take_while(u8::is_ascii_digit).count();
    (digits == 3).then(|| format!("{head}.{tail}"))
}

/// Pads the hours of the offset to two digits, if they have one.
fn with_hours(text: &str) -> Option<String> {
    let time = text.find(['T', 't', ' '])?;
    let hours = time + text[time..].rfind(['+', '-'])? + 1;
    let rest = text[hours..].strip_prefix(|digit: char| digit.is_ascii_digit())?;
    rest.starts_with(':').then(|| format!("{}0{}", &text[..hours], &text[hours..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_of_an_offset_may_have_one_digit() {
        for (text, same) in [
            ("2013-07-16T19:20:30+1:00", "2013-07-16T19:20:30+01:00"),
            ("2013-07-16 19:20:30.5-9:30", "2013-07-16T19:20:30.5-09:30"),
        ] {
            assert_eq!(parse_time(text), parse_time(same), "{text}");
            assert!(parse_time(text).is_ok() && parse_wall_time(text).is_ok(), "{text}");
        }
        for text in ["2013-07-16T19:20:30+1", "2013-07-16T19:20:30+é:00", "2013-07-16T1:20+:00"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_time_on_the_wall_is_read_without_its_zone() {
        for text in [
            "2021-06-28T17:02:43.032Z",
            "2021-06-28t17:02:43.032z",
            "2021-06-28T17:02:43.032",
            "2021-06-28 17:02:43.032-0700",
            "2021-06-28T17:02:43.032+02:00[Europe/Berlin]",
            "2021-06-28T17:02:43:032+0200",
            "+002021-06-28T17:02:43.032+14:00",
        ] {
            assert_eq!(parse_wall_time(text), Ok(1_624_899_763_032), "{text}");
        }
        assert_eq!(parse_wall_time("2021-06-28"), Ok(1_624_838_400_000));
        for text in ["", "tomorrow", "2021-06-28T17:02:43+9999", "2021-06-28TZ", "T"] {
            assert!(parse_wall_time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_are_read_in_every_form() {
        for (text, ms) in [
            ("2021-06-28T17:02:43.032Z", 1_624_899_763_032),
            ("2021-06-28T19:02:43.032+0200", 1_624_899_763_032),
            ("2021-06-28T19:02:43.032+02:00", 1_624_899_763_032),
            ("2021-06-28T17:02:43", 1_624_899_763_000),
            ("2021-06-28", 1_624_838_400_000),
            ("2021-06-28T17:02:43:032+0000", 1_624_899_763_032),
            ("2021-06-28T19:02:43:032+0200", 1_624_899_763_032),
            ("2021-06-28T17:02:43:032Z", 1_624_899_763_032),
        ] {
            assert_eq!(parse_time(text), Ok(ms), "{text}");
            assert_eq!(is_date_and_time(text), text.contains('T'), "{text}");
        }
        assert_eq!(format_time(1_624_899_763_032), "2021-06-28T17:02:43.032Z");
        assert_eq!(format_time(1_624_899_763_910), "2021-06-28T17:02:43.910Z");
        assert!(is_formatted("2021-06-28T17:02:43.910Z"));
        for text in ["2021-06-28T17:02:43.91Z", "2021-06-28 17:02:43.910Z", "", "é"] {
            assert!(!is_formatted(text), "{text}");
        }
        for text in [
            "28/06/2021",
            "",
            "2021-06-28T17:02:43:03+0000",
            "2021-06-28T17:02:43:0320+0000",
            "2021-06-28T17:02:43:",
            "2021-02-30T00:00:00Z",
            "2021-06-28 to 30",
            "1 T",
            "éééééééééééé",
        ] {
            assert!(parse_time(text).is_err(), "{text}");
            assert!(!is_date_and_time(text), "{text}");
        }
    }
}
