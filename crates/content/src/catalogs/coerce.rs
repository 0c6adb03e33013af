//! Converts values to the type of their field (docs/reference/api/catalogs.md):
//! string accepts numbers and booleans, number accepts numeric text, boolean accepts `"true"` and
//! `"false"`, time accepts ISO 8601, object and array accept only themselves.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::Type;
use kit::clock;
use kit::json::{self, Text};

/// The value in its stored format, without white space between its parts; none if its type does not
/// fit. Coercing twice gives the same result.
pub fn coerce(kind: Type, value: &RawValue) -> Option<Cow<'_, RawValue>> {
    let text = value.get();
    let first = text.bytes().next()?;
    match (kind, first) {
        (Type::String, b'"')
        | (Type::Boolean, b't' | b'f')
        | (Type::Number, b'-' | b'0'..=b'9') => Some(Cow::Borrowed(value)),
        (Type::String, b'-' | b'0'..=b'9' | b't' | b'f') => raw(format!("\"{text}\"")),
        (Type::Number, b'"') => numeric(&string(text)?),
        (Type::Boolean, b'"') => match &*string(text)? {
            "true" => raw("true".to_owned()),
            "false" => raw("false".to_owned()),
            _ => None,
        },
        (Type::Time, b'"') => time(value),
        (Type::Object, b'{') | (Type::Array, b'[') => match json::compacted(text) {
            Cow::Borrowed(_) => Some(Cow::Borrowed(value)),
            Cow::Owned(compact) => raw(compact),
        },
        _ => None,
    }
}

/// The text of a JSON string; none if it is not readable by every reader.
fn string(json: &str) -> Option<Cow<'_, str>> {
    json::parse::<Text<'_>>(json).ok().map(|Text(text)| text)
}

/// A text that is a valid JSON number and fits a double.
fn numeric(text: &str) -> Option<Cow<'static, RawValue>> {
    let is_bare = text.starts_with(|c: char| c == '-' || c.is_ascii_digit())
        && text.ends_with(|c: char| c.is_ascii_digit());
    (is_bare && json::check(text).is_ok()).then(|| raw(text.to_owned())).flatten()
}

/// A time in the format of responses, `2021-06-28T17:02:43.032Z`.
fn time(value: &RawValue) -> Option<Cow<'_, RawValue>> {
    let ms = clock::parse_time(&string(value.get())?).ok()?;
    let stored = format!("\"{}\"", clock::format_time(ms));
    if stored == value.get() { Some(Cow::Borrowed(value)) } else { raw(stored) }
}

/// Why a text is not a time.
pub fn time_error(value: &RawValue) -> Option<String> {
    clock::parse_time(&string(value.get())?).err()
}

/// The JSON written here is always valid; otherwise the value would not fit.
fn raw<'a>(json: String) -> Option<Cow<'a, RawValue>> {
    RawValue::from_string(json).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn coerced(kind: Type, json: &str) -> Option<String> {
        let value: &RawValue = serde_json::from_str(json).unwrap();
        coerce(kind, value).map(|value| value.get().to_owned())
    }

    #[test]
    fn each_type_accepts_its_values() {
        for (kind, json, expected) in [
            (Type::String, r#""a\u0041""#, Some(r#""a\u0041""#)),
            (Type::String, "1.10", Some(r#""1.10""#)),
            (Type::String, "-0", Some(r#""-0""#)),
            (Type::String, "true", Some(r#""true""#)),
            (Type::String, "{}", None),
            (Type::String, "[]", None),
            (Type::Number, "12345678901234567890123", Some("12345678901234567890123")),
            (Type::Number, r#""1.50""#, Some("1.50")),
            (Type::Number, r#""-2e3""#, Some("-2e3")),
            (Type::Number, r#""\u0031""#, Some("1")),
            (Type::Number, r#""1e999""#, None),
            (Type::Number, r#"" 1""#, None),
            (Type::Number, r#""1 ""#, None),
            (Type::Number, r#""""#, None),
            (Type::Number, r#""0x1""#, None),
            (Type::Number, r#""007""#, None),
            (Type::Number, r#""NaN""#, None),
            (Type::Number, "true", None),
            (Type::Boolean, "false", Some("false")),
            (Type::Boolean, r#""true""#, Some("true")),
            (Type::Boolean, r#""False""#, None),
            (Type::Boolean, "1", None),
            (Type::Time, r#""2021-06-28T19:02:43+0200""#, Some(r#""2021-06-28T17:02:43.000Z""#)),
            (Type::Time, r#""2021-06-28""#, Some(r#""2021-06-28T00:00:00.000Z""#)),
            (Type::Time, r#""soon""#, None),
            (Type::Time, "1624899763", None),
            (Type::Object, r#"{ "a" : [ 1, 2 ] }"#, Some(r#"{"a":[1,2]}"#)),
            (Type::Object, r#""{}""#, None),
            (Type::Object, "[]", None),
            (Type::Array, r#"["a b", {}]"#, Some(r#"["a b",{}]"#)),
            (Type::Array, "{}", None),
        ] {
            assert_eq!(coerced(kind, json).as_deref(), expected, "{kind:?} of {json}");
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            "\\PC{0,8}",
            "-?[0-9]{1,4}(\\.[0-9]{1,3})?(e[0-9])?",
            "(true|false)",
            "[0-9]{4}-0[1-9]-[12][0-9](T[01][0-9]:[0-5][0-9]:[0-5][0-9](Z|\\+02:00)?)?",
        ];
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            text.prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 12, 3, |inner| {
            let list = prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from);
            let map = prop::collection::hash_map("\\PC{0,3}", inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect()));
            prop_oneof![list, map]
        })
    }

    proptest! {
        #[test]
        fn coerced_values_have_their_type_and_stay_unchanged(value in any_value(), kind in 0..6_usize) {
            let kind = Type::ALL[kind];
            let Some(once) = coerced(kind, &value.to_string()) else { return Ok(()) };
            let stored: Value = serde_json::from_str(&once).unwrap();
            let is_of_type = match kind {
                Type::String | Type::Time => stored.is_string(),
                Type::Number => stored.is_number(),
                Type::Boolean => stored.is_boolean(),
                Type::Object => stored.is_object(),
                Type::Array => stored.is_array(),
            };
            prop_assert!(is_of_type, "{kind:?}: {stored}");
            prop_assert_eq!(coerced(kind, &once), Some(once));
        }

        #[test]
        fn a_value_of_the_type_itself_stays_as_it_is_written(value in any_value()) {
            let kind = match &value {
                Value::String(_) => Type::String,
                Value::Number(_) => Type::Number,
                Value::Bool(_) => Type::Boolean,
                Value::Object(_) => Type::Object,
                Value::Array(_) => Type::Array,
                Value::Null => return Ok(()),
            };
            let json = value.to_string();
            let stored = coerced(kind, &json).unwrap();
            prop_assert_eq!(stored, json);
        }
    }
}
