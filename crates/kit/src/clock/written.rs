//! Reads times that people and programs wrote.
//!
//! The format is ISO 8601 with the suffixes of RFC 9557, such as
//! `2026-11-15T10:20:30-05:00[America/New_York]`. Every time from outside is read here, so that the
//! same text is the same instant everywhere.

use std::borrow::Cow;

use jiff::civil::{DateTime, Time};
use jiff::fmt::temporal::{Pieces, PiecesOffset};
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use jiff::{SignedDuration, Unit};

use super::{FORM, civil_utc, format_time, is_formatted};
use crate::words::beginning;
use crate::zones;

/// No offset is further from UTC.
pub const MAX_OFFSET_SECONDS: i32 = 18 * 3_600;

/// Maximum characters of a part of a text in an error message.
const MAX_SHOWN: usize = 64;

/// The error for a text in another format.
const NOT_A_TIME: &str = "expected a date and time in ISO 8601";

/// A time as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenTime {
    /// The date and the time of day; a date alone is its midnight.
    pub local: DateTime,
    /// Its distance from UTC.
    pub offset: Offset,
    /// The zone in brackets; if there is none, the offset. UTC without either.
    pub zone: TimeZone,
}

impl WrittenTime {
    /// Reads ISO 8601: with an offset (`+0200` too), or without one and read as UTC; a date alone
    /// is read as midnight. Also accepts the pattern `yyyy-MM-dd'T'HH:mm:ss:SSSZ`, which has a
    /// colon before the milliseconds. The hours of an offset may have one digit, as in `+1:00`.
    ///
    /// A zone in brackets decides the instant if there is no offset. A local time that the zone
    /// skips is moved forward by the skipped time; of a local time that occurs twice, the first one
    /// counts. An offset that the zone does not have then is an error, except `Z` and `-00:00`,
    /// which mean that the local offset is unknown. Second 60 counts as 59 where a leap second can
    /// be.
    pub fn read(text: &str) -> Result<Self, String> {
        let (base, suffix) = text.split_at(text.find('[').unwrap_or(text.len()));
        let parts = Parts::parse(base)
            .or_else(|| Parts::parse(&with_point(base)?))
            .or_else(|| Parts::parse(&with_hours(base)?));
        let Parts { local, offset, has_second_60 } = parts.ok_or(NOT_A_TIME)?;
        let offset = offset.map(stated_offset).transpose()?;
        let annotated = zone_in(suffix)?;
        let (offset, zone) = match (offset, annotated) {
            (None | Some(None), None) => (Offset::UTC, TimeZone::UTC),
            (Some(Some(offset)), None) => (offset, TimeZone::fixed(offset)),
            (Some(None), Some((_, zone))) => (Offset::UTC, zone),
            (None, Some((_, zone))) => (first_offset(local, &zone), zone),
            (Some(Some(stated)), Some((name, zone))) => {
                let offset = exact_offset(local, stated, &zone).ok_or_else(|| {
                    let name = beginning(name, MAX_SHOWN);
                    format!("the offset {stated} is not one of {name} at that time")
                })?;
                (offset, zone)
            }
        };
        if has_second_60 && !instant(local, offset).is_ok_and(can_have_second_60) {
            return Err(
                "second 60 is only possible at 23:59 UTC on the last day of a month".to_owned()
            );
        }
        Ok(Self { local, offset, zone })
    }
}

/// What a text states before its brackets.
struct Parts {
    local: DateTime,
    offset: Option<PiecesOffset>,
    /// Whether the second is 60; `local` has 59 then.
    has_second_60: bool,
}

impl Parts {
    fn parse(text: &str) -> Option<Self> {
        let pieces = Pieces::parse(text).ok()?;
        let time = pieces.time().unwrap_or(Time::midnight());
        let (local, offset) = (pieces.date().to_datetime(time), pieces.offset());
        Some(Self { local, offset, has_second_60: has_second_60(text) })
    }
}

/// Reads a time as it is stored, in milliseconds since the epoch. The formats are those of
/// [`WrittenTime::read`]; the calendar must have the time in UTC too.
pub fn parse_time(text: &str) -> Result<i64, String> {
    if let Some(time) = parse_formatted(text) {
        return Ok(time);
    }
    let WrittenTime { local, offset, .. } = WrittenTime::read(text)?;
    instant(local, offset)
}

/// The same time in the format of [`format_time`].
pub fn normalize_time(text: Cow<'_, str>) -> Result<Cow<'_, str>, String> {
    match parse_formatted(&text) {
        Some(_) => Ok(text),
        None => parse_time(&text).map(|time| Cow::Owned(format_time(time))),
    }
}

/// Reads a time that is already in the format of [`format_time`], from the year 0 on. Most are, and
/// this takes a fraction of the time of [`WrittenTime::read`]. None if that one must decide.
fn parse_formatted(text: &str) -> Option<i64> {
    if text.len() != FORM.len() || !is_formatted(text) {
        return None;
    }
    let number = |start: usize, digits: usize| {
        let digits = &text.as_bytes()[start..start + digits];
        digits.iter().fold(0, |number: i16, digit| number * 10 + i16::from(digit - b'0'))
    };
    let two = |start| number(start, 2) as i8;
    let nanoseconds = i32::from(number(20, 3)) * 1_000_000;
    // Fails for dates that do not exist, and for second 60.
    let local =
        DateTime::new(number(0, 4), two(5), two(8), two(11), two(14), two(17), nanoseconds).ok()?;
    Offset::UTC.to_timestamp(local).ok().map(|time| time.as_millisecond())
}

/// Reads a local time and ignores its zone, as if it were UTC. The formats and the errors are those
/// of [`parse_time`].
pub fn parse_wall_time(text: &str) -> Result<i64, String> {
    instant(WrittenTime::read(text)?.local, Offset::UTC)
}

/// Whether a text has both a date and a time of day.
pub fn is_date_and_time(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit() || c == '+' || c == '-')
        && text.split('[').next().unwrap_or_default().contains(['T', 't', ' '])
        && parse_time(text).is_ok()
}

/// The offset, if the text states one: with `Z` and `-00:00`, the local offset is unknown (RFC
/// 9557).
fn stated_offset(offset: PiecesOffset) -> Result<Option<Offset>, String> {
    let PiecesOffset::Numeric(numeric) = offset else { return Ok(None) };
    let offset = numeric.offset();
    if offset.is_zero() && numeric.is_negative() {
        return Ok(None);
    }
    within_limits(offset).map(Some)
}

fn within_limits(offset: Offset) -> Result<Offset, String> {
    if offset.seconds().abs() > MAX_OFFSET_SECONDS {
        Err(format!("the offset {offset} is beyond 18 hours"))
    } else {
        Ok(offset)
    }
}

/// The zone that the annotations after a time name, with its name. Of other annotations, only the
/// calendar of ISO 8601 is understood.
fn zone_in(suffix: &str) -> Result<Option<(&str, TimeZone)>, String> {
    let (mut zone, mut calendar, mut rest) = (None, None, suffix);
    while !rest.is_empty() {
        let inside = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        let Some((annotation, after)) = inside else { return Err(NOT_A_TIME.to_owned()) };
        let name = annotation.strip_prefix('!').unwrap_or(annotation);
        rest = after;
        if matches!(name, "u-ca=iso8601" | "u-ca=gregory") && calendar.is_none() {
            calendar = Some(name);
            continue;
        }
        let shown = beginning(annotation, MAX_SHOWN);
        // The zone comes before all other annotations.
        if name.contains('=') || zone.is_some() || calendar.is_some() {
            return Err(format!("the annotation [{shown}] is not supported"));
        }
        let parsed = if name.starts_with(['+', '-']) {
            fixed(name).map(|offset| within_limits(offset).map(TimeZone::fixed))
        } else {
            zones::zone(name).map(Ok)
        };
        zone = match parsed {
            Some(parsed) => Some((name, parsed?)),
            None => return Err(format!("unknown time zone [{shown}]")),
        };
    }
    Ok(zone)
}

/// An offset such as `+05:00`.
fn fixed(text: &str) -> Option<Offset> {
    let parts = Parts::parse(&format!("2000-01-01T00:00{text}"))?;
    parts.offset.map(|offset| offset.to_numeric_offset())
}

/// The offset of a local time in a zone: of two, the first. Moves a skipped local time forward.
fn first_offset(local: DateTime, zone: &TimeZone) -> Offset {
    match zone.to_ambiguous_timestamp(local).offset() {
        AmbiguousOffset::Unambiguous { offset } => offset,
        AmbiguousOffset::Gap { before, .. } | AmbiguousOffset::Fold { before, .. } => before,
    }
}

/// The offset that a zone has at a local time, if it is the stated one. Offsets of the past can
/// have seconds, and a text may state them in whole minutes.
fn exact_offset(local: DateTime, stated: Offset, zone: &TimeZone) -> Option<Offset> {
    let possible = match zone.to_ambiguous_timestamp(local).offset() {
        AmbiguousOffset::Unambiguous { offset } => [offset, offset],
        AmbiguousOffset::Fold { before, after } => [before, after],
        // No clock of the zone shows this time.
        AmbiguousOffset::Gap { .. } => return None,
    };
    let in_minutes = |offset: &Offset| offset.round(Unit::Minute).ok() == Some(stated);
    let exact = possible.into_iter().find(|offset| *offset == stated);
    exact.or_else(|| possible.into_iter().find(in_minutes))
}

/// The stored time of a local time with that offset, if the calendar has it.
fn instant(local: DateTime, offset: Offset) -> Result<i64, String> {
    let epoch = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
    let since = local.duration_since(epoch) - SignedDuration::from_secs(offset.seconds().into());
    let time = epoch.checked_add(since).ok().and_then(|_| i64::try_from(since.as_millis()).ok());
    time.ok_or_else(|| {
        if since.is_negative() {
            "the time is before the year -9999".to_owned()
        } else {
            "the time is after 9999-12-31T23:59:59.999Z".to_owned()
        }
    })
}

/// Whether the last second of a minute can be followed by a leap second.
fn can_have_second_60(ms: i64) -> bool {
    let utc = civil_utc(ms);
    utc.date() == utc.date().last_of_month() && (utc.hour(), utc.minute()) == (23, 59)
}

/// Whether a valid text has the second 60, which is read as 59.
fn has_second_60(text: &str) -> bool {
    let time = text.split_once(['T', 't', ' ']).map_or("", |(_, time)| time);
    let digits = time.bytes().take_while(|byte| *byte == b':' || byte.is_ascii_digit());
    digits.filter(u8::is_ascii_digit).skip("HHmm".len()).take(2).eq(*b"60")
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
mod tests;
