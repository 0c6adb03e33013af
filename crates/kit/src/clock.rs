//! The time of day, which a test can set.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::civil::{Date, DateTime};
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};
use serde::Serializer;

pub use self::written::{
    MAX_OFFSET_SECONDS, WrittenTime, is_date_and_time, normalize_time, parse_time, parse_wall_time,
};

mod written;

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
    let mut text = Vec::with_capacity(FORM.len());
    push_time(&mut text, ms);
    // It is ASCII.
    String::from_utf8(text).unwrap_or_default()
}

/// Appends a stored time as [`format_time`] formats it.
pub fn push_time(out: &mut Vec<u8>, ms: i64) {
    let time = match Timestamp::from_millisecond(ms) {
        Ok(time) => Offset::UTC.to_datetime(time),
        // The last and the first day of the calendar, which a timestamp does not have.
        Err(_) => civil_utc(ms),
    };
    if time.year() < 0 {
        return out.extend_from_slice(format!("{time:.3}Z").as_bytes());
    }
    // An export writes several times per user: this takes a fraction of what `format!` takes.
    let mut text = *FORM;
    write_digits(&mut text[0..4], time.year().unsigned_abs());
    for (offset, number) in [
        (5, time.month()),
        (8, time.day()),
        (11, time.hour()),
        (14, time.minute()),
        (17, time.second()),
    ] {
        write_digits(&mut text[offset..offset + 2], number.unsigned_abs().into());
    }
    write_digits(&mut text[20..23], time.millisecond().unsigned_abs());
    out.extend_from_slice(&text);
}

/// The format of times from the year 0 on; each 0 stands for a digit.
const FORM: &[u8; 24] = b"0000-00-00T00:00:00.000Z";

/// Writes the last digits of a number, as many as there are places.
fn write_digits(digits: &mut [u8], mut number: u16) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// The date and the time of day in UTC of a stored time, for the whole calendar. A time out of
/// range becomes the nearest end of the range.
fn civil_utc(ms: i64) -> DateTime {
    let epoch = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
    epoch.saturating_add(SignedDuration::from_millis(ms))
}

/// Whether a text has the format of [`format_time`].
pub fn is_formatted(text: &str) -> bool {
    const BEFORE_YEAR_0: &[u8] = b"-000000-00-00T00:00:00.000Z";
    let form: &[u8] = if text.starts_with('-') { BEFORE_YEAR_0 } else { FORM };
    let fits = |(byte, form): (u8, &u8)| match form {
        b'0' => byte.is_ascii_digit(),
        _ => byte == *form,
    };
    text.len() == form.len() && text.bytes().zip(form).all(fits)
}

/// [`format_time`] for a field of a serialized type.
pub fn serialize_time<S: Serializer>(ms: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format_time(*ms))
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
    format!("{:.0}Z", civil_utc(ms - ms.rem_euclid(1_000)))
}

/// Formats a stored time in whole seconds as SCIM shows it:
/// `Monday, June 28, 2021 5:02:43 PM`, in UTC.
pub fn format_long(ms: i64) -> String {
    civil_utc(ms).strftime("%A, %B %-d, %Y %-I:%M:%S %p").to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn times_are_written_in_the_format_of_timestamps(
            ms in -62_167_219_200_000..253_402_000_000_000i64,
        ) {
            prop_assert_eq!(format_time(ms), format!("{:.3}", from_ms(ms)));
        }
    }

    #[test]
    fn times_are_written_with_milliseconds() {
        assert_eq!(format_long(0), "Thursday, January 1, 1970 12:00:00 AM");
        assert_eq!(format_long(1_624_899_763_032), "Monday, June 28, 2021 5:02:43 PM");
        assert_eq!(format_time(1_624_899_763_032), "2021-06-28T17:02:43.032Z");
        assert_eq!(format_time(1_624_899_763_910), "2021-06-28T17:02:43.910Z");
        assert_eq!(format_time(253_402_300_799_999), "9999-12-31T23:59:59.999Z");
        assert_eq!(format_time(i64::MAX), "9999-12-31T23:59:59.999Z");
        assert_eq!(format_time(i64::MIN), "-009999-01-01T00:00:00.000Z");
        assert!(is_formatted("2021-06-28T17:02:43.910Z"));
        assert_eq!(format_time(-63_549_360_000_000), "-000044-03-15T00:00:00.000Z");
        for ms in [i64::MIN, -63_549_360_000_000, -62_167_219_200_000, 0, i64::MAX] {
            let text = format_time(ms);
            assert!(is_formatted(&text) && parse_time(&text).is_ok(), "{text}");
        }
        for text in [
            "2021-06-28T17:02:43.91Z",
            "2021-06-28 17:02:43.910Z",
            "-0044-03-15T00:00:00.000Z",
            "+002021-06-28T17:02:43.910Z",
            "",
            "-",
            "é",
        ] {
            assert!(!is_formatted(text), "{text}");
        }
    }
}
