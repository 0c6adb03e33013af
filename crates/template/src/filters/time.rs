//! Filters of times.

use std::rc::Rc;

use jiff::civil::Time;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use super::super::Stop;
use super::super::value::Value;
use super::super::work::RenderBudget;
use super::time_words::in_words;
use kit::clock::{WrittenTime, from_ms};
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
    work: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    let format = arguments[0].to_text(work)?;
    if format.is_empty() {
        return Ok(input.clone());
    }
    if format.len() > MAX_FORMAT {
        return Err(Stop::Failed(format!("a date format can have at most {MAX_FORMAT} bytes")));
    }
    let Some(time) = read(&input, work.now) else { return Ok(input.clone()) };
    let text = strtime::format(checked(&format, &time), &time).unwrap_or_default();
    work.make(text.len())?;
    Ok(Value::made(text))
}

/// The same time in another zone; an unknown zone leaves it unchanged.
pub fn time_zone<'a>(
    work: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    let zone = arguments[0].as_text().and_then(|name| zones::zone(name.trim()));
    let (Some(time), Some(zone)) = (read(&input, work.now), zone) else { return Ok(input) };
    work.make(ZONED.len())?;
    let time = time.with_time_zone(zone);
    let Ok(text) = strtime::format(ZONED, &time) else { return Ok(input) };
    Ok(Value::Time(Rc::new((text, time))))
}

/// Parses seconds since the epoch, `now`, `today`, ISO 8601, or words with an offset, in UTC
/// without one. The hour can be 24, which is midnight of the next day.
fn read(value: &Value<'_>, now: i64) -> Option<Zoned> {
    let at = |time: Timestamp| time.to_zoned(TimeZone::UTC);
    match value {
        Value::Time(time) => Some(time.1.clone()),
        Value::Int(seconds) => Timestamp::from_second(*seconds).ok().map(at),
        Value::Float(seconds) => Timestamp::from_millisecond((seconds * 1e3) as i64).ok().map(at),
        other => match other.as_text()?.trim() {
            text if text.len() > MAX_TIME => None,
            text if text.eq_ignore_ascii_case("now") || text.eq_ignore_ascii_case("today") => {
                Some(at(from_ms(now)))
            }
            text if text.len() > 8 && text.bytes().all(|byte| byte.is_ascii_digit()) => {
                text.parse().ok().and_then(|seconds| Timestamp::from_second(seconds).ok()).map(at)
            }
            text => written(text).or_else(|| in_words(text, at(from_ms(now)).date())),
        },
    }
}

fn written(text: &str) -> Option<Zoned> {
    // The offset has a space before it, as these filters and Ruby write it.
    let joined = match text.rsplit_once(' ') {
        Some((time, "UTC")) => format!("{time}Z"),
        Some((time, offset)) if offset.starts_with(['+', '-']) => format!("{time}{offset}"),
        _ => text.to_owned(),
    };
    let time = match midnight_before(&joined) {
        Some(text) => {
            let WrittenTime { local, offset, zone, .. } = WrittenTime::read(&text).ok()?;
            let next = local.date().tomorrow().ok().filter(|_| local.time() == Time::midnight())?;
            return offset.to_timestamp(next.at(0, 0, 0, 0)).ok().map(|time| time.to_zoned(zone));
        }
        None => WrittenTime::read(&joined).ok()?,
    };
    time.offset.to_timestamp(time.local).ok().map(|moment| moment.to_zoned(time.zone))
}

/// The text with the hour 0 instead of 24, which is one day earlier.
fn midnight_before(text: &str) -> Option<String> {
    let hour = text.find(['T', 't', ' '])? + 1;
    let rest = text[hour..].strip_prefix("24")?;
    Some(format!("{}00{rest}", &text[..hour]))
}

/// The format with unknown and too wide directives as plain text, and with combined directives
/// expanded.
fn checked(format: &str, time: &Zoned) -> String {
    const DIRECTIVES: &str = "%AaBbCdDeFGgHhIjklMmnNPpRrSsTtUuVWwXxYyZz";
    let mut out = String::with_capacity(format.len());
    let mut rest = format;
    while let Some((text, after)) = rest.split_once('%') {
        out.push_str(text);
        let length = after.bytes().take_while(|byte| b"-_0^#:".contains(byte)).count();
        let digits = after[length..].bytes().take_while(u8::is_ascii_digit).count();
        let modifiers = &after[..length + digits];
        let width = after[length..][..digits].parse::<u8>();
        let is_narrow = digits == 0 || width.is_ok_and(|width| width <= MAX_WIDTH);
        let directive = after[length + digits..].chars().next();
        match directive {
            Some('L') if is_narrow => out.push_str("%3f"),
            Some('Q') if is_narrow => out.push_str(&time.timestamp().as_millisecond().to_string()),
            Some('c') if is_narrow => out.push_str("%a %b %e %H:%M:%S %Y"),
            Some('x') if is_narrow => out.push_str("%m/%d/%y"),
            Some('X') if is_narrow => out.push_str("%H:%M:%S"),
            Some('v') if is_narrow => out.push_str("%e-%^b-%Y"),
            Some('+') if is_narrow => {
                out.push_str("%a %b %e %H:%M:%S ");
                out.push_str(zone(time));
                out.push_str(" %Y");
            }
            Some('Z') if is_narrow => out.push_str(zone(time)),
            Some(directive) if is_narrow && length <= 2 && DIRECTIVES.contains(directive) => {
                out.push('%');
                out.push_str(modifiers);
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

/// The directive for the name of the time zone; an offset has no name.
fn zone(time: &Zoned) -> &'static str {
    let zone = time.time_zone();
    if *zone == TimeZone::UTC || zone.iana_name().is_some() { "%Z" } else { "" }
}
