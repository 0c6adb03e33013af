//! Duplicate fields of an object. Readers disagree about them: some use the first value, some the
//! last, and some reject the whole file.

use std::borrow::Cow;
use std::collections::HashSet;

use super::{FEW, JsonFields, Text, parse, push_string, walk};

/// The names of one object that were seen.
#[derive(Default)]
struct Names<'a> {
    few: Vec<Cow<'a, str>>,
    /// Used only for many names.
    many: HashSet<Cow<'a, str>>,
}

impl<'a> Names<'a> {
    /// Adds a name; returns whether it is new.
    fn insert(&mut self, name: Cow<'a, str>) -> bool {
        if self.few.len() < FEW {
            let is_new = !self.few.contains(&name);
            self.few.push(name);
            return is_new;
        }
        if self.many.is_empty() {
            self.many.extend(self.few.iter().cloned());
        }
        self.many.insert(name)
    }
}

/// A duplicate name in an object at any depth of valid JSON.
pub fn duplicate_name(json: &str) -> Option<Cow<'_, str>> {
    if !json.contains('{') {
        return None;
    }
    // The last two quotes before a colon belong to the name.
    let (mut quotes, mut open, mut found) = ([0, 0], Vec::<Names<'_>>::new(), None);
    walk(json, |at, byte| match byte {
        b'"' => quotes = [quotes[1], at],
        b'{' => open.push(Names::default()),
        b'}' => _ = open.pop(),
        b':' if found.is_none() => {
            let name = unescaped(&json[quotes[0]..=quotes[1]]);
            if open.last_mut().is_some_and(|names| !names.insert(name.clone())) {
                found = Some(name);
            }
        }
        _ => {}
    });
    found
}

/// The text of a JSON string; an unreadable one stays as it is written.
fn unescaped(json: &str) -> Cow<'_, str> {
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

fn push_last(out: &mut String, json: &str, levels: usize) {
    if levels > 0
        && json.starts_with('{')
        && let Ok(JsonFields(fields)) = parse(json)
    {
        let mut last: HashSet<&str> = HashSet::with_capacity(fields.len());
        let mut kept: Vec<_> =
            fields.iter().rev().filter(|(name, _)| last.insert(name.as_ref())).collect();
        kept.reverse();
        out.push('{');
        for (at, (name, value)) in kept.into_iter().enumerate() {
            out.push_str(if at == 0 { "" } else { "," });
            push_string(out, name);
            out.push(':');
            push_last(out, value.get(), levels - 1);
        }
        return out.push('}');
    }
    if levels > 0
        && json.starts_with('[')
        && let Ok(elements) = parse::<Vec<&serde_json::value::RawValue>>(json)
    {
        out.push('[');
        for (at, element) in elements.into_iter().enumerate() {
            out.push_str(if at == 0 { "" } else { "," });
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
        for at in [0, FEW - 1, FEW, 999] {
            let json = format!("{{{},\"n{at}\":0}}", names.join(","));
            assert_eq!(duplicate_name(&json), Some(format!("n{at}").into()));
        }
    }

    #[test]
    fn the_last_value_wins() {
        for (json, kept) in [
            (r#"{"a":1,"b":2,"a":3.10}"#, r#"{"b":2,"a":3.10}"#),
            (r#"[1,{"x":[{"a":1,"a":null}]}]"#, r#"[1,{"x":[{"a":null}]}]"#),
            (r#"{"a":{"b":1,"b":2},"a":{"c":1,"c":"{"}}"#, r#"{"a":{"c":"{"}}"#),
        ] {
            assert_eq!(keep_last_duplicates(json), kept, "{json}");
        }
    }

    /// A value whose objects have few distinct names.
    fn any_json() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![Just("1.10".to_owned()), Just(r#""a\":{""#.to_owned())];
        leaf.prop_recursive(4, 32, 4, |inner| {
            let fields = prop::collection::vec(("[ab]", inner.clone()), 0..4);
            prop_oneof![
                prop::collection::vec(inner, 0..4).prop_map(|of| format!("[{}]", of.join(","))),
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
            let kept = keep_last_duplicates(&json);
            prop_assert_eq!(duplicate_name(&kept), None);
            let read = |json: &str| serde_json::from_str::<Value>(json).unwrap();
            prop_assert_eq!(read(&kept), read(&json));
        }
    }
}
