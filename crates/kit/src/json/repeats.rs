//! Duplicate fields of an object. Readers disagree about them: some use the first value, some the
//! last, and some reject the whole file.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};

use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{JsonFields, Text, parse, push_string, walk};

/// In an object with at most this many names, comparing a name with all of them takes less time
/// than a set of them.
const FEW_HASHES: usize = 64;

/// The names of the objects that are open, the innermost last. A name is held as its keyed hash:
/// the memory is less than the text's, whatever the text is, and nobody outside can choose two
/// names with one hash.
#[derive(Default)]
struct OpenNames {
    hasher: RandomState,
    /// All names of the open objects.
    names: Vec<u64>,
    /// Where the names of each object begin.
    starts: Vec<usize>,
    /// The names of open objects that have more than [`FEW_HASHES`], each with the object's depth.
    large: Vec<(usize, HashSet<u64>)>,
}

impl OpenNames {
    fn open(&mut self) {
        self.starts.push(self.names.len());
    }

    fn close(&mut self) {
        if self.large.last().is_some_and(|(depth, _)| *depth == self.starts.len()) {
            self.large.pop();
        }
        if let Some(start) = self.starts.pop() {
            self.names.truncate(start);
        }
    }

    /// Adds a name to the innermost object; returns whether it is new there.
    fn insert(&mut self, name: &str) -> bool {
        let (name, depth) = (self.hasher.hash_one(name), self.starts.len());
        let start = self.starts.last().copied().unwrap_or_default();
        if let Some((_, names)) = self.large.last_mut().filter(|(object, _)| *object == depth) {
            return names.insert(name);
        }
        let names = &self.names[start..];
        if names.contains(&name) {
            return false;
        }
        if names.len() == FEW_HASHES {
            self.large.push((depth, names.iter().copied().chain([name]).collect()));
        } else {
            self.names.push(name);
        }
        true
    }
}

/// A duplicate name in an object at any depth of valid JSON.
pub fn duplicate_name(json: &str) -> Option<Cow<'_, str>> {
    if !json.contains('{') {
        return None;
    }
    // The last two quotes before a colon belong to the name.
    let (mut quotes, mut open, mut duplicate) = ([0, 0], OpenNames::default(), None);
    walk(json, |at, byte| match byte {
        b'"' => quotes = [quotes[1], at],
        b'{' => open.open(),
        b'}' => open.close(),
        b':' if duplicate.is_none() => {
            let name = unescaped(&json[quotes[0]..=quotes[1]]);
            if !open.insert(&name) {
                duplicate = Some(name);
            }
        }
        _ => {}
    });
    duplicate
}

/// [`duplicate_name`] of an object, but not in the values of its fields with these names, which are
/// skipped at the speed of the parser.
pub fn duplicate_name_outside<'a>(json: &'a str, skipped: &[&str]) -> Option<Cow<'a, str>> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    deserializer.deserialize_map(Outside { skipped }).ok().flatten()
}

struct Outside<'s> {
    skipped: &'s [&'s str],
}

impl<'de> Visitor<'de> for Outside<'_> {
    type Value = Option<Cow<'de, str>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut names, mut duplicate) = (OpenNames::default(), None);
        while let Some(name) = map.next_key::<String>()? {
            if !names.insert(&name) {
                duplicate = duplicate.or(Some(Cow::Owned(name)));
                map.next_value::<IgnoredAny>()?;
            } else if self.skipped.contains(&name.as_str()) {
                map.next_value::<IgnoredAny>()?;
            } else {
                let value: &RawValue = map.next_value()?;
                duplicate = duplicate.or_else(|| duplicate_name(value.get()));
            }
        }
        Ok(duplicate)
    }
}

/// The text of a JSON string; an unreadable one stays as it is written.
fn unescaped(json: &str) -> Cow<'_, str> {
    let inside = &json[1..json.len() - 1];
    if !inside.contains('\\') {
        return Cow::Borrowed(inside);
    }
    parse::<Text<'_>>(json).map_or(Cow::Borrowed(json), |Text(text)| text)
}

/// Levels of objects that [`keep_last_duplicates`] inspects: more than any stored value has.
const MAX_LEVELS: usize = 256;

/// Removes duplicate fields from valid JSON: of several values, the last one stays.
pub fn keep_last_duplicates(json: &str) -> Cow<'_, str> {
    if duplicate_name(json).is_none() {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len());
    push_last(&mut out, json, MAX_LEVELS);
    Cow::Owned(out)
}

/// [`keep_last_duplicates`] of an object whose own names are unique. Inspects only the part with
/// nested objects, which is often small.
pub fn keep_last_nested_duplicates(json: &str) -> Cow<'_, str> {
    match nested_objects(json) {
        Some(nested) if duplicate_name(nested).is_some() => keep_last_duplicates(json),
        _ => Cow::Borrowed(json),
    }
}

/// The part of an object from the first nested object to the end of the last one, if any; or the
/// whole object.
fn nested_objects(json: &str) -> Option<&str> {
    let inside = json.get(1..json.len().checked_sub(1)?)?;
    let (start, end) = (inside.find('{')?, inside.rfind('}')?);
    match inside.get(start..=end) {
        Some(nested) if is_outside_of_text(&inside[..start]) => Some(nested),
        // A text has the bracket.
        _ => Some(json),
    }
}

/// Whether no string is open at the end of this beginning of valid JSON.
fn is_outside_of_text(mut json: &str) -> bool {
    let quotes = |json: &str| json.bytes().filter(|byte| *byte == b'"').count();
    let mut count = 0;
    while let Some(at) = json.find('\\') {
        count += quotes(&json[..at]);
        // The escaped byte can be a quote.
        json = json.get(at + 2..).unwrap_or_default();
    }
    (count + quotes(json)).is_multiple_of(2)
}

fn push_last(out: &mut String, json: &str, levels: usize) {
    if levels > 0
        && json.starts_with('{')
        && let Ok(JsonFields(fields)) = parse(json)
    {
        let mut last: HashSet<&str> = HashSet::with_capacity(fields.len());
        let mut unique: Vec<_> =
            fields.iter().rev().filter(|(name, _)| last.insert(name.as_ref())).collect();
        unique.reverse();
        out.push('{');
        for (index, (name, value)) in unique.into_iter().enumerate() {
            out.push_str(if index == 0 { "" } else { "," });
            push_string(out, name);
            out.push(':');
            push_last(out, value.get(), levels - 1);
        }
        return out.push('}');
    }
    if levels > 0
        && json.starts_with('[')
        && let Ok(elements) = parse::<Vec<&RawValue>>(json)
    {
        out.push('[');
        for (index, element) in elements.into_iter().enumerate() {
            out.push_str(if index == 0 { "" } else { "," });
            push_last(out, element.get(), levels - 1);
        }
        return out.push(']');
    }
    out.push_str(json);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn finds_duplicate_names_at_any_depth() {
        for (json, name) in [
            (r#"{"a":1,"a":2}"#, "a"),
            (r#"[{"b":{"a":":","x":[{"a":1,"\u0061" :2}]}}]"#, "a"),
            (r#"{"":0,"x":{},"":1}"#, ""),
            (r#"{"\"":0,"\u0022":1}"#, "\""),
        ] {
            assert_eq!(duplicate_name(json).as_deref(), Some(name), "{json}");
        }
        for json in [
            "1",
            r#""{\"a\":1,\"a\":2}""#,
            r#"{"a":{"a":[{"a":1},{"a":1}]},"b":"a","c":"a"}"#,
            r#"[{"a":1},{"a":1}]"#,
        ] {
            assert_eq!(duplicate_name(json), None, "{json}");
            assert_eq!(keep_last_duplicates(json), json);
        }
    }

    #[test]
    fn finds_duplicates_among_many_names() {
        let names: Vec<String> = (0..1_000).map(|n| format!("\"n{n}\":{n}")).collect();
        assert_eq!(duplicate_name(&format!("{{{}}}", names.join(","))), None);
        for at in [0, FEW_HASHES - 1, FEW_HASHES, 999] {
            let json = format!("{{{},\"n{at}\":0}}", names.join(","));
            assert_eq!(duplicate_name(&json), Some(format!("n{at}").into()));
        }
    }

    #[test]
    fn finds_duplicates_next_to_objects_with_many_names() {
        let fields: Vec<String> = (0..100).map(|n| format!("\"n{n}\":{{\"n{n}\":{n}}}")).collect();
        let fields = fields.join(",");
        for (json, name) in [
            (format!("{{{fields},\"x\":{{{fields}}}}}"), None),
            (format!("{{{fields},\"x\":{{{fields},\"n7\":0}}}}"), Some("n7")),
            (format!("{{\"x\":{{{fields}}},\"y\":{{{fields}}},\"x\":0}}"), Some("x")),
            (format!("[{{{fields}}},{{{fields}}}]"), None),
        ] {
            assert_eq!(duplicate_name(&json).as_deref(), name, "{json}");
        }
        let levels = 100_000;
        let deep = format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
        assert_eq!(duplicate_name(&deep), None);
    }

    #[test]
    fn skipped_fields_are_not_searched() {
        let skipped = ["a", "b"];
        for (json, name) in [
            (r#"{"a":{"x":1,"x":2},"b":[{"y":1,"y":2}],"c":{"a":1}}"#, None),
            (r#"{"a":[],"\u0061":[]}"#, Some("a")),
            (r#"{"a":{"x":1,"x":2},"c":{"z":1,"z":2}}"#, Some("z")),
            (r#"{"c":{"a":{"x":1,"x":2}}}"#, Some("x")),
            (r#"{"c":1,"c":{"x":1,"x":2}}"#, Some("c")),
        ] {
            assert_eq!(duplicate_name_outside(json, &skipped).as_deref(), name, "{json}");
        }
    }

    #[test]
    fn the_last_value_wins() {
        for (json, deduplicated) in [
            (r#"{"a":1,"b":2,"a":3.10}"#, r#"{"b":2,"a":3.10}"#),
            (r#"[1,{"x":[{"a":1,"a":null}]}]"#, r#"[1,{"x":[{"a":null}]}]"#),
            (r#"{"a":{"b":1,"b":2},"a":{"c":1,"c":"{"}}"#, r#"{"a":{"c":"{"}}"#),
        ] {
            assert_eq!(keep_last_duplicates(json), deduplicated, "{json}");
        }
    }

    #[test]
    fn nested_duplicates_are_found_next_to_text_with_brackets() {
        for (json, deduplicated) in [
            (r#"{"a":"{","b":{"x":1,"x":2},"c":"}"}"#, r#"{"a":"{","b":{"x":2},"c":"}"}"#),
            (r#"{"a":"\\","b":[{"x":1,"x":2}]}"#, r#"{"a":"\\","b":[{"x":2}]}"#),
            (r#"{"a":"\"{","b":[{"x":1,"x":2}]}"#, r#"{"a":"\"{","b":[{"x":2}]}"#),
            (r#"{"a":{},"b":[{"x":1,"x":2}],"c":"x"}"#, r#"{"a":{},"b":[{"x":2}],"c":"x"}"#),
        ] {
            assert_eq!(keep_last_nested_duplicates(json), deduplicated, "{json}");
        }
        for json in ["", "{", "1", "null", "{}", r#"{"a":"{","b":"}"}"#, r#"{"a":"}","b":"{"}"#] {
            assert_eq!(keep_last_nested_duplicates(json), json);
        }
    }

    /// A value whose objects have few distinct names.
    fn any_json() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![Just("1.10".to_owned()), Just(r#""a\":{""#.to_owned())];
        leaf.prop_recursive(4, 32, 4, |inner| {
            let fields = prop::collection::vec(("[ab]", inner.clone()), 0..4);
            prop_oneof![
                prop::collection::vec(inner, 0..4)
                    .prop_map(|elements| format!("[{}]", elements.join(","))),
                fields.prop_map(|fields| {
                    let fields: Vec<String> =
                        fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
                    format!("{{{}}}", fields.join(","))
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn deduplicated_json_reads_the_same_without_duplicates(json in any_json()) {
            let deduplicated = keep_last_duplicates(&json);
            prop_assert_eq!(duplicate_name(&deduplicated), None);
            let read = |json: &str| serde_json::from_str::<Value>(json).unwrap();
            prop_assert_eq!(read(&deduplicated), read(&json));
        }

        #[test]
        fn nested_duplicates_are_removed_as_all_are(
            values in prop::collection::vec(any_json(), 0..5),
            text in "[\"{}:,\\\\é]{0,6}",
        ) {
            let text = serde_json::to_string(&text).unwrap();
            let fields = values.iter().zip('a'..);
            let mut fields: Vec<String> =
                fields.map(|(value, name)| format!("\"{name}\":{value}")).collect();
            fields.insert(fields.len() / 2, format!("{text}:{text}"));
            let json = format!("{{{}}}", fields.join(","));
            prop_assert_eq!(keep_last_nested_duplicates(&json), keep_last_duplicates(&json));
        }
    }
}
