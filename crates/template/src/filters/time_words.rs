//! Parses times in words: `March 14, 2016`, `14 Mar 2016 10:30 pm`, and the format of RFC 2822.

use jiff::civil::{Date, Time};
use jiff::tz::{Offset, TimeZone};
use kit::clock::MAX_OFFSET_SECONDS;

use super::super::moment::Moment;

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

const DAYS: [&str; 7] =
    ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

/// Zones that RFC 2822 names, with their hours from UTC.
const ZONES: [(&str, i8); 11] = [
    ("utc", 0),
    ("gmt", 0),
    ("z", 0),
    ("est", -5),
    ("edt", -4),
    ("cst", -6),
    ("cdt", -5),
    ("mst", -7),
    ("mdt", -6),
    ("pst", -8),
    ("pdt", -7),
];

/// The parts of a time that were found so far.
#[derive(Default)]
struct Found {
    year: Option<i16>,
    month: Option<i8>,
    day: Option<i8>,
    time: Option<Time>,
    /// Whether the time is midnight at the end of the day, `24:00`.
    is_end_of_day: bool,
    offset: Option<Offset>,
}

/// Parses a time; missing parts come from the start of `today`.
pub(super) fn in_words(text: &str, today: Date) -> Option<Moment> {
    let mut found = Found::default();
    let is_between = |c: char| c.is_whitespace() || c == ',';
    for word in text.split(is_between).filter(|word| !word.is_empty()) {
        found.word(&word.to_ascii_lowercase())?;
    }
    // Without a month, the text must have a time.
    if found.month.is_none() && found.time.is_none() {
        return None;
    }
    let day = match (found.month, found.day) {
        (Some(_), day) => day.unwrap_or(1),
        (None, None) => today.day(),
        (None, Some(_)) => return None,
    };
    let (year, month) = (found.year.unwrap_or(today.year()), found.month.unwrap_or(today.month()));
    let mut date = Date::new(year, month, day).ok()?;
    if found.is_end_of_day {
        date = date.tomorrow().ok()?;
    }
    let local = date.to_datetime(found.time.unwrap_or(Time::midnight()));
    let offset = found.offset.unwrap_or(Offset::UTC);
    Moment::from_local(local, offset, TimeZone::fixed(offset))
}

/// The position in a list of a word, or of a word that begins with it (three letters or more).
fn position(word: &str, list: &[&str]) -> Option<usize> {
    let word = word.trim_end_matches('.');
    list.iter().position(|name| word.len() >= 3 && name.starts_with(word))
}

impl Found {
    fn word(&mut self, word: &str) -> Option<()> {
        if let Some(month) = position(word, &MONTHS) {
            return set(&mut self.month, i8::try_from(month).ok()? + 1);
        }
        if position(word, &DAYS).is_some() || word == "at" || word == "of" || word == "on" {
            return Some(());
        }
        if let Some((_, hours)) = ZONES.iter().find(|(name, _)| *name == word) {
            return set(&mut self.offset, Offset::constant(*hours));
        }
        if let (Some(sign), true) = (word.strip_prefix(['+', '-']), self.time.is_some()) {
            let digits = sign.replace(':', "");
            let (hours, minutes) = digits.split_at_checked(2)?;
            let seconds = hours.parse::<i32>().ok()? * 3_600 + minutes.parse::<i32>().ok()? * 60;
            let seconds = if word.starts_with('-') { -seconds } else { seconds };
            let is_offset = seconds.abs() <= MAX_OFFSET_SECONDS;
            let offset = is_offset.then(|| Offset::from_seconds(seconds).ok()).flatten();
            return set(&mut self.offset, offset?);
        }
        if word == "am" || word == "pm" {
            self.time = Some(half(self.time?, word)?);
            return Some(());
        }
        if word.contains(':') {
            return self.clock(word);
        }
        let is_date = |c: char| c == '/' || c == '-';
        if let Some((year, day)) = word.split_once(is_date).filter(|(year, _)| year.len() == 4) {
            let (month, day) = day.split_once(is_date)?;
            set(&mut self.year, year.parse().ok()?)?;
            set(&mut self.month, month.parse().ok()?)?;
            return set(&mut self.day, day.parse().ok()?);
        }
        self.number(word)
    }

    /// `10:30`, `10:30:15.5`, `10:30pm`, `24:00`.
    fn clock(&mut self, word: &str) -> Option<()> {
        let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let (digits, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
        let mut parts = digits.split(':').map(|part| part.parse::<i8>().ok());
        let (hour, minute) = (parts.next()??, parts.next()??);
        let second = parts.next().unwrap_or(Some(0))?;
        let nanos: i32 = format!("{fraction:0<9}").get(..9)?.parse().ok()?;
        self.is_end_of_day = (hour, minute, second, nanos) == (24, 0, 0, 0);
        let hour = if self.is_end_of_day { 0 } else { hour };
        let time = Time::new(hour, minute, second, nanos).ok()?;
        let time = match &word
            [word.len() - word.bytes().rev().take_while(u8::is_ascii_alphabetic).count()..]
        {
            "" => time,
            end => half(time, end)?,
        };
        if parts.next().is_some() {
            return None;
        }
        set(&mut self.time, time)
    }

    /// A day, with or without its suffix (such as `th`), or a year.
    fn number(&mut self, word: &str) -> Option<()> {
        let digits = word.bytes().take_while(u8::is_ascii_digit).count();
        let (number, end) = word.split_at(digits);
        if number.len() == 4 && end.is_empty() {
            return set(&mut self.year, number.parse().ok()?);
        }
        match end {
            "am" | "pm" => {
                let time = Time::new(number.parse().ok()?, 0, 0, 0).ok()?;
                set(&mut self.time, half(time, end)?)
            }
            "" | "st" | "nd" | "rd" | "th" if (1..=2).contains(&number.len()) => {
                set(&mut self.day, number.parse().ok()?)
            }
            _ => None,
        }
    }
}

/// A part that occurs twice is an error.
fn set<T>(part: &mut Option<T>, value: T) -> Option<()> {
    part.replace(value).is_none().then_some(())
}

/// A time with `am` or `pm`.
fn half(time: Time, half: &str) -> Option<Time> {
    let hour = match (half, time.hour()) {
        (_, 0 | 13..) => return None,
        ("am", 12) => 0,
        ("am", hour) | ("pm", hour @ 12) => hour,
        ("pm", hour) => hour + 12,
        _ => return None,
    };
    time.with().hour(hour).build().ok()
}
