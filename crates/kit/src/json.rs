//! JSON as text. Profiles keep the text they came in, with every digit of their numbers, so values
//! are inspected and copied without conversion.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

pub use self::canonical::canonical;
pub use self::numbers::{as_whole_number, compare_numbers, usual_spelling, whole_number};
pub use self::repeats::{
    duplicate_name, duplicate_name_outside, keep_last_duplicates, keep_last_nested_duplicates,
};
pub use self::tree::{ObjectText, Tree, TreeObject};
use crate::words::beginning;

mod canonical;
mod numbers;
mod repeats;
mod tree;

const TOO_DEEP: &str = "is nested too deeply";
const HALF_PAIR: &str = "has half of a surrogate pair";

/// Most objects have at most this many fields.
const FEW: usize = 16;

/// Levels of arrays and objects that a value may have. A profile or a send request that contains
/// the value must stay readable: readers stop at 127 levels.
pub const MAX_LEVELS: usize = 100;

/// Levels that a reader of any JSON accepts, as serde_json does.
const MAX_JSON_LEVELS: usize = 127;

/// The marker of serde_json for embedded text, wherever it reads a [`serde_json::Value`]: a sender
/// could use it to hide content from every check, or to make a value unreadable.
pub const MARK: &str = "$serde_json::private::RawValue";

/// Fields that an object from outside may have: holding one takes ten times its size as text.
pub const MAX_JSON_FIELDS: usize = 10_000;

/// An object's fields in their order, each value as its text.
#[derive(Default)]
pub struct JsonFields<'a>(pub Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> JsonFields<'a> {
    /// The value of a field, even if it is null.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, value)| value.get())
    }

    /// A duplicate name, if any.
    pub fn repeated(&self) -> Option<&str> {
        let names = || self.0.iter().map(|(name, _)| name.as_ref());
        if self.0.len() <= FEW {
            let is_repeated = |(at, name): &(usize, &str)| names().take(*at).any(|n| n == *name);
            return names().enumerate().find(is_repeated).map(|(_, name)| name);
        }
        let mut seen = HashSet::with_capacity(self.0.len());
        names().find(|name| !seen.insert(*name))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for JsonFields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        AtMost(usize::MAX).deserialize(deserializer)
    }
}

/// A limit on the number of fields.
struct AtMost(usize);

impl<'de> DeserializeSeed<'de> for AtMost {
    type Value = JsonFields<'de>;

    fn deserialize<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<JsonFields<'de>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for AtMost {
    type Value = JsonFields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonFields<'de>, A::Error> {
        let mut fields = Vec::with_capacity(FEW / 2);
        while let Some((Text(name), value)) = map.next_entry()? {
            if fields.len() == self.0 {
                return Err(A::Error::custom(format_args!("has more than {} fields", self.0)));
            }
            fields.push((name, value));
        }
        Ok(JsonFields(fields))
    }
}

/// A string without NUL characters, borrowed if it has no escapes.
pub struct Text<'a>(pub Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;

        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
                without_nul(text)?;
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                without_nul(text)?;
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }

        deserializer.deserialize_str(TextVisitor)
    }
}

/// The text of a JSON string without escapes; none for any other JSON. Most strings have none, and
/// this takes a fraction of the time of a parser.
pub fn plain_text(json: &str) -> Option<&str> {
    let text = json.strip_prefix('"')?.strip_suffix('"')?;
    (!needs_escapes(text)).then_some(text)
}

/// Whether JSON has escapes for a character of the text. Has no branch for each byte, so that
/// several are tested at once.
fn needs_escapes(text: &str) -> bool {
    let is_escaped = |byte: u8| (byte < b' ') | (byte == b'"') | (byte == b'\\');
    text.bytes().fold(false, |found, byte| found | is_escaped(byte))
}

/// The number of characters of a string, even of an unreadable one: half of a surrogate pair counts
/// as one.
pub struct Length(pub usize);

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct LengthVisitor;

        impl Visitor<'_> for LengthVisitor {
            type Value = Length;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Length, E> {
                let is_first = |byte: &&u8| **byte & 0b1100_0000 != 0b1000_0000;
                Ok(Length(bytes.iter().filter(is_first).count()))
            }
        }

        deserializer.deserialize_bytes(LengthVisitor)
    }
}

/// A value that every reader can read: no NUL character, no half of a surrogate pair, no number
/// beyond the range of a double, no [`MARK`], and bounded nesting. `text` checks every string and
/// gets whether it is inside of an array.
#[derive(Clone, Copy)]
struct ReadableValue<F> {
    text: F,
    in_array: bool,
}

impl<'de, F: TextCheck> DeserializeSeed<'de> for ReadableValue<F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

trait TextCheck: Fn(&str, bool) -> Result<(), &'static str> + Copy {}

impl<F: Fn(&str, bool) -> Result<(), &'static str> + Copy> TextCheck for F {}

impl<'de, F: TextCheck> Visitor<'de> for ReadableValue<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        without_nul(text)?;
        (self.text)(text, self.in_array).map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(Self { in_array: true, ..self })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Text(name)) = map.next_key()? {
            if name == MARK {
                return Err(A::Error::custom(format_args!("has the reserved name {MARK}")));
            }
            map.next_value_seed(self)?;
        }
        Ok(())
    }
}

fn without_nul<E: Error>(text: &str) -> Result<(), E> {
    if text.contains('\0') { Err(E::custom("has a NUL character")) } else { Ok(()) }
}

/// Parses a value. The error states what is wrong, without the value and its position.
pub fn parse<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, String> {
    serde_json::from_str(json).map_err(|error| describe(&error))
}

/// Parses any value. Not generic: in builds that do not optimize the caller, optimized code of
/// `serde_json` does the work.
pub fn value(json: &str) -> serde_json::Result<Value> {
    json.parse()
}

/// Parses a string without NUL characters; the error is like that of [`parse`].
pub fn text(json: &str) -> Result<Cow<'_, str>, String> {
    match plain_text(json) {
        Some(text) => Ok(Cow::Borrowed(text)),
        None => parse(json).map(|Text(text)| text),
    }
}

/// Parses an object of at most `max_fields` fields; the error is like that of [`parse`].
pub fn fields(json: &str, max_fields: usize) -> Result<JsonFields<'_>, String> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let fields = AtMost(max_fields).deserialize(&mut deserializer);
    fields.and_then(|fields| deserializer.end().map(|()| fields)).map_err(|error| describe(&error))
}

/// Why a value that is valid JSON cannot be held; none for all other errors of `serde_json`.
pub fn unsupported_value(error: &serde_json::Error) -> Option<&'static str> {
    let text = error.to_string();
    match text.split(" at line ").next()? {
        "recursion limit exceeded" => Some(TOO_DEEP),
        "number out of range" => Some("has a number beyond the range of a double"),
        "lone leading surrogate in hex escape" | "unexpected end of hex escape" => Some(HALF_PAIR),
        _ => None,
    }
}

/// What is wrong, without the value and its position.
pub fn describe(error: &serde_json::Error) -> String {
    if let Some(reason) = unsupported_value(error) {
        return reason.to_owned();
    }
    let text = error.to_string();
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text);
    match text.rsplit_once(", expected ") {
        Some((_, "a sequence")) => "expected an array".to_owned(),
        Some((_, expected)) => format!("expected {expected}"),
        None => text.to_owned(),
    }
}

/// [`fields`] of an object without duplicate fields.
pub fn unique_fields(json: &str, max_fields: usize) -> Result<JsonFields<'_>, String> {
    let fields = fields(json, max_fields)?;
    match fields.repeated() {
        Some(name) => Err(duplicate(name)),
        None => Ok(fields),
    }
}

/// The error for a duplicate field. Names come from customers, and may be long.
pub fn duplicate(name: &str) -> String {
    const MAX: usize = 64;
    format!("{}: duplicate field", beginning(name, MAX))
}

/// Checks that every reader can read the value and reads the same: no object has duplicate fields.
pub fn check(json: &str) -> Result<(), String> {
    if plain_text(json).is_some() { Ok(()) } else { check_texts(json, |_, _| Ok(())) }
}

/// Checks that every reader can read the value.
pub fn check_readable(json: &str) -> Result<(), String> {
    readable(json, |_, _| Ok(()))
}

/// [`check`], and checks with `text` every string that is not a name. `text` gets whether the
/// string is inside of an array, at any depth.
pub fn check_texts(
    json: &str,
    text: impl Fn(&str, bool) -> Result<(), &'static str> + Copy,
) -> Result<(), String> {
    readable(json, text)?;
    duplicate_name(json).map_or(Ok(()), |name| Err(duplicate(&name)))
}

fn readable(
    json: &str,
    text: impl Fn(&str, bool) -> Result<(), &'static str> + Copy,
) -> Result<(), String> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    ReadableValue { text, in_array: false }
        .deserialize(&mut deserializer)
        .and_then(|()| deserializer.end())
        .map_err(|error| describe(&error))?;
    check_depth(json)
}

/// Checks that valid JSON has at most [`MAX_LEVELS`].
pub fn check_depth(json: &str) -> Result<(), String> {
    if depth(json) > MAX_LEVELS { Err(TOO_DEEP.to_owned()) } else { Ok(()) }
}

/// Passes on the pieces of valid JSON without the white space between its parts.
pub fn compact(json: &str, mut piece: impl FnMut(&str)) {
    let mut from = 0;
    walk(json, |at, byte| {
        if byte.is_ascii_whitespace() {
            piece(&json[from..at]);
            from = at + 1;
        }
    });
    piece(&json[from..]);
}

/// Appends valid JSON without the white space between its parts.
pub fn push_compact(out: &mut String, json: &str) {
    if plain_text(json).is_some() {
        out.push_str(json);
    } else {
        compact(json, |piece| out.push_str(piece));
    }
}

/// Removes the white space between the parts of valid JSON; copies only if there is some.
pub fn compacted(json: &str) -> Cow<'_, str> {
    if !json.bytes().any(|byte| byte.is_ascii_whitespace()) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len());
    push_compact(&mut out, json);
    Cow::Owned(out)
}

/// Appends a string with its quotes.
pub fn push_string(out: &mut String, text: &str) {
    if needs_escapes(text) {
        // Every string can be written as JSON.
        out.push_str(&serde_json::to_string(text).unwrap_or_default());
    } else {
        out.push('"');
        out.push_str(text);
        out.push('"');
    }
}

/// A string with its quotes.
pub fn quoted(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 2);
    push_string(&mut json, text);
    json
}

/// Formats valid JSON for people: one field per line, numbers unchanged.
pub fn pretty(json: &str) -> String {
    let mut compact = String::with_capacity(json.len());
    push_compact(&mut compact, json);
    let (mut out, mut from, mut depth) = (String::with_capacity(json.len() * 2), 0, 0usize);
    let next = compact.as_bytes();
    walk(&compact, |at, byte| match byte {
        b'{' | b'[' if !matches!(next.get(at + 1), Some(b'}' | b']')) => {
            depth += 1;
            break_line(&mut out, &compact[from..=at], depth);
            from = at + 1;
        }
        b',' => {
            break_line(&mut out, &compact[from..=at], depth);
            from = at + 1;
        }
        b'}' | b']' if at > 0 && !matches!(next[at - 1], b'{' | b'[') => {
            depth = depth.saturating_sub(1);
            break_line(&mut out, &compact[from..at], depth);
            from = at;
        }
        b':' => {
            out.push_str(&compact[from..=at]);
            out.push(' ');
            from = at + 1;
        }
        _ => {}
    });
    out.push_str(&compact[from..]);
    out
}

fn break_line(out: &mut String, text: &str, depth: usize) {
    out.push_str(text);
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth));
}

/// The nesting depth of valid JSON: 0 for a value that is neither an array nor an object.
pub fn depth(json: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    walk(json, |_, byte| match byte {
        b'{' | b'[' => {
            depth += 1;
            deepest = deepest.max(depth);
        }
        b'}' | b']' => depth = depth.saturating_sub(1),
        _ => {}
    });
    deepest
}

/// The first name of a field, at any depth of valid JSON, that matches or that cannot be read.
pub fn find_name(json: &str, mut matches: impl FnMut(&str) -> bool) -> Option<String> {
    // The last two quotes before a colon belong to the name.
    let (mut quotes, mut found) = ([0, 0], None);
    walk(json, |at, byte| match byte {
        b'"' => quotes = [quotes[1], at],
        b':' if found.is_none() => {
            let name = &json[quotes[0]..=quotes[1]];
            found = match parse::<Text<'_>>(name) {
                Ok(Text(name)) => matches(&name).then(|| name.into_owned()),
                Err(_) => Some(name.to_owned()),
            };
        }
        _ => {}
    });
    found
}

/// Passes on each byte outside of strings, and the quotes around them, with its position.
fn walk(json: &str, mut visit: impl FnMut(usize, u8)) {
    let json = json.as_bytes();
    let mut at = 0;
    while let Some(&byte) = json.get(at) {
        visit(at, byte);
        at += 1;
        if byte == b'"' {
            at += text_length(&json[at..]);
            if at < json.len() {
                visit(at, byte);
                at += 1;
            }
        }
    }
}

/// The length of a string's text, up to its closing quote.
fn text_length(json: &[u8]) -> usize {
    let mut at = 0;
    while let Some(length) = json[at..].iter().position(|byte| matches!(byte, b'"' | b'\\')) {
        at += length;
        if json[at] == b'"' {
            return at;
        }
        // The escaped byte can be a quote.
        at = json.len().min(at + 2);
    }
    json.len()
}

#[cfg(test)]
mod tests;
