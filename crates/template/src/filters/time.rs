//! Filters of times.

use std::rc::Rc;

use jiff::SignedDuration;
use jiff::civil::Time;
use jiff::tz::TimeZone;

use super::super::Stop;
use super::super::budget::RenderBudget;
use super::super::moment::Moment;
use super::super::value::{Value, ZonedTime};
use super::time_words::in_words;
use kit::clock::WrittenTime;
use kit::zones;

type FilterResult<'a> = Result<Value<'a>, Stop>;

/// Maximum bytes of a format.
const MAX_FORMAT: usize = 256;

/// Maximum width of a directive: `%10Y` is ten characters wide.
const MAX_WIDTH: u8 = 64;

/// Maximum bytes of a text that is parsed as a time.
const MAX_TIME: usize = 96;

/// The format of times that have their own time zone.
const ZONED: &str = "%Y-%m-%d %H:%M:%S %z";

/// Formats a time like `strftime`. A value that is not a time, and an empty format, leave it
/// unchanged.
pub fn date<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    let format = arguments[0].to_text(budget)?;
    if format.is_empty() {
        return Ok(input.clone());
    }
    if format.len() > MAX_FORMAT {
        return Err(Stop::Failed(format!("a date format can have at most {MAX_FORMAT} bytes")));
    }
    let Some(time) = read(&input, budget.now) else { return Ok(input.clone()) };
    let Some(text) = time.format(&checked(&format, &time)) else { return Ok(input.clone()) };
    budget.make(text.len())?;
    Ok(Value::from_text(text))
}

/// The same time in another zone. An unknown zone leaves the value unchanged, and so does a zone
/// where the time is outside of the calendar.
pub fn time_zone<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    let zone = arguments[0].as_text().and_then(|name| zones::zone(name.trim()));
    let time = zone.and_then(|zone| read(&input, budget.now)?.in_zone(zone));
    budget.make(ZONED.len())?;
    let zoned = time.and_then(|moment| Some(ZonedTime { text: moment.format(ZONED)?, moment }));
    Ok(zoned.map_or(input, |time| Value::Time(Rc::new(time))))
}

/// Parses seconds since the epoch, `now`, `today`, ISO 8601, or words with an offset, in UTC
/// without one. The hour can be 24, which is midnight of the next day.
fn read(value: &Value<'_>, now: i64) -> Option<Moment> {
    let at = |since_epoch| Moment::new(since_epoch, TimeZone::UTC);
    // The conversion saturates.
    let float = |seconds: f64| at(SignedDuration::from_millis((seconds * 1e3) as i64));
    let now = || at(SignedDuration::from_millis(now));
    match value {
        Value::Time(time) => Some(time.moment.clone()),
        Value::Int(seconds) => at(SignedDuration::from_secs(*seconds)),
        Value::Float(seconds) => float(*seconds),
        Value::Exact(seconds) => float(seconds.parse().ok()?),
        other => match other.as_text()?.trim() {
            text if text.len() > MAX_TIME => None,
            text if text.eq_ignore_ascii_case("now") || text.eq_ignore_ascii_case("today") => now(),
            // Liquid reads any number of digits so; to ISO 8601, eight are a date.
            text if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
                at(SignedDuration::from_secs(text.parse().ok()?))
            }
            text => written(text).or_else(|| in_words(text, now()?.date())),
        },
    }
}

fn written(text: &str) -> Option<Moment> {
    // The offset has a space before it, as these filters and Ruby write it.
    let joined = match text.rsplit_once(' ') {
        Some((time, "UTC")) => format!("{time}Z"),
        Some((time, offset)) if offset.starts_with(['+', '-']) => format!("{time}{offset}"),
        _ => text.to_owned(),
    };
    let time = match midnight_before(&joined) {
        Some(text) => {
            let WrittenTime { local, offset, zone } = WrittenTime::read(&text).ok()?;
            let next = local.date().tomorrow().ok().filter(|_| local.time() == Time::midnight())?;
            return Moment::from_local(next.at(0, 0, 0, 0), offset, zone);
        }
        None => WrittenTime::read(&joined).ok()?,
    };
    Moment::from_local(time.local, time.offset, time.zone)
}

/// The text with the hour 0 instead of 24, which is one day earlier.
fn midnight_before(text: &str) -> Option<String> {
    let hour = text.find(['T', 't', ' '])? + 1;
    let rest = text[hour..].strip_prefix("24")?;
    Some(format!("{}00{rest}", &text[..hour]))
}

/// The format with unknown and too wide directives, and those with several flags, as plain text;
/// with combined directives expanded, and with the texts of those that need an instant.
fn checked(format: &str, time: &Moment) -> String {
    const DIRECTIVES: &str = "%AaBbCdDeFGgHhIjklMmnNPpRSTtUuVWwYyz";
    let mut out = String::with_capacity(format.len());
    let mut rest = format;
    while let Some((text, after)) = rest.split_once('%') {
        out.push_str(text);
        let (flags, width) = after.split_at(span(after, b"-_0^#"));
        let (width, colons) = width.split_at(span(width, b"0123456789"));
        let colons = &colons[..span(colons, b":")];
        let modifiers = &after[..flags.len() + width.len() + colons.len()];
        let is_narrow =
            width.is_empty() || width.parse::<u8>().is_ok_and(|width| width <= MAX_WIDTH);
        let directive = after[modifiers.len()..].chars().next();
        // The formatter reads one flag, then the width. Colons are only for offsets.
        let flag = &flags[..flags.len().min(1)];
        let is_readable = flags.bytes().all(|byte| flag.as_bytes() == [byte])
            && (colons.is_empty() || directive == Some('z') && width.is_empty())
            && colons.len() <= 3;
        match directive {
            Some('L') if is_narrow => out.push_str("%3f"),
            Some('Q') if is_narrow => out.push_str(&time.since_epoch().as_millis().to_string()),
            Some('s') if is_narrow => out.push_str(&time.since_epoch().as_secs().to_string()),
            Some('c') if is_narrow => out.push_str("%a %b %e %H:%M:%S %Y"),
            Some('r') if is_narrow => out.push_str("%I:%M:%S %p"),
            Some('x') if is_narrow => out.push_str("%m/%d/%y"),
            Some('X') if is_narrow => out.push_str("%H:%M:%S"),
            Some('v') if is_narrow => out.push_str("%e-%^b-%Y"),
            Some('+') if is_narrow => {
                out.push_str("%a %b %e %H:%M:%S ");
                out.push_str(&time.zone_name());
                out.push_str(" %Y");
            }
            Some('Z') if is_narrow => out.push_str(&time.zone_name()),
            Some(directive) if is_narrow && is_readable && DIRECTIVES.contains(directive) => {
                out.push('%');
                [flag, width, colons].into_iter().for_each(|part| out.push_str(part));
                out.push(directive);
            }
            directive => {
                out.push_str("%%");
                out.push_str(modifiers);
                out.extend(directive);
            }
        }
        rest = &after[modifiers.len() + directive.map_or(0, char::len_utf8)..];
    }
    out.push_str(rest);
    out
}

/// The number of bytes at the beginning of a text that are among these.
fn span(text: &str, bytes: &[u8]) -> usize {
    text.bytes().take_while(|byte| bytes.contains(byte)).count()
}
