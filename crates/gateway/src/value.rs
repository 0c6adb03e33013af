//! Reads JSON as a tree of bounded memory, for endpoints that check fields individually.

use std::cell::Cell;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use kit::json::{MARK, duplicate, duplicate_name};

/// Maximum number of values in a body, except those that are held as text: in a tree each takes up
/// to forty times its size as text. The limits of fields allow fewer values: the 50 KB of a live
/// activity have at most 25,600.
const MAX_VALUES: usize = 30_000;

/// Fields of a request, or of its recipients, with data for templates and profiles. A template
/// shows the order of their fields and the digits of their numbers, which a tree does not keep.
const WITH_TEXT: [&str; 5] = [
    "api_trigger_properties",
    "attributes",
    "canvas_entry_properties",
    "event_properties",
    "trigger_properties",
];

/// Fields of a request with conditions on users, which compare numbers to the last digit. They are
/// read into a tree later, so their values are counted.
const CONDITIONS: [&str; 2] = ["audience", "custom_audience"];

/// Fields whose objects are recipients.
const RECIPIENTS: [&str; 2] = ["recipients", "recipient"];

/// The single field of an object that is held as its text ([`WITH_TEXT`]). No body can have it.
pub(super) const AS_TEXT: &str = "$longshore::text";

/// Reads an object without duplicate fields. An error of the category `Data` concerns valid JSON.
pub fn object(text: &str) -> serde_json::Result<Map<String, Value>> {
    let remaining = Cell::new(MAX_VALUES);
    let mut json = serde_json::Deserializer::from_str(text);
    let object =
        json.deserialize_map(Object { remaining: &remaining, section: Section::Request })?;
    json.end()?;
    Ok(object)
}

/// The path of the value that [`object`] cannot read, such as `messages.email[0]`.
pub fn error_path(text: &str) -> String {
    let remaining = Cell::new(MAX_VALUES);
    let mut json = serde_json::Deserializer::from_str(text);
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(&mut json, &mut track);
    // This fails again, which sets the path.
    let _ = tracked.deserialize_map(Object { remaining: &remaining, section: Section::Request });
    track.path().to_string()
}

/// The part of a body that a value is in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    Request,
    /// A recipient, or an array of them.
    Recipient,
    /// An object that is held as its text. Its values are checked, but neither held nor counted.
    Text,
    /// The same, but its values are counted.
    Conditions,
    Other,
}

impl Section {
    /// Whether only the text of its values is held.
    fn is_text(self) -> bool {
        matches!(self, Self::Text | Self::Conditions)
    }
}

/// Any value.
#[derive(Clone, Copy)]
struct Any<'a> {
    /// How many more values are allowed.
    remaining: &'a Cell<usize>,
    section: Section,
}

/// Accepts only an object.
struct Object<'a> {
    remaining: &'a Cell<usize>,
    section: Section,
}

impl Object<'_> {
    /// The value of a field.
    fn value<'de, A: MapAccess<'de>>(&self, name: &str, fields: &mut A) -> Result<Value, A::Error> {
        let section = match self.section {
            Section::Request if RECIPIENTS.contains(&name) => Section::Recipient,
            Section::Text | Section::Conditions => self.section,
            _ => Section::Other,
        };
        let any = Any { remaining: self.remaining, section };
        let as_text = match self.section {
            Section::Request if CONDITIONS.contains(&name) => Some(Section::Conditions),
            Section::Request | Section::Recipient if WITH_TEXT.contains(&name) => {
                Some(Section::Text)
            }
            _ => None,
        };
        match as_text {
            Some(section) => fields.next_value_seed(AsText { section, other: any }),
            None => fields.next_value_seed(any),
        }
    }
}

/// A value that is held as its text if it is an object.
struct AsText<'a> {
    section: Section,
    /// Reads another value.
    other: Any<'a>,
}

impl<'de> DeserializeSeed<'de> for AsText<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let json = <&RawValue>::deserialize(deserializer)?.get();
        let is_object = json.starts_with('{');
        let Self { section, other } = self;
        let any = if is_object { Any { section, ..other } } else { other };
        let value = any.deserialize(&mut serde_json::Deserializer::from_str(json));
        let value = value.map_err(|error| {
            let text = error.to_string();
            D::Error::custom(text.rsplit_once(" at line ").map_or(&*text, |(message, _)| message))
        })?;
        if !is_object {
            return Ok(value);
        }
        if let Some(name) = duplicate_name(json) {
            return Err(D::Error::custom(duplicate(&name)));
        }
        let text = kit::json::compacted(json).into_owned();
        Ok(Value::Object(Map::from_iter([(AS_TEXT.to_owned(), text.into())])))
    }
}

impl<'de> DeserializeSeed<'de> for Any<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        if self.section != Section::Text {
            let remaining = self.remaining.get().checked_sub(1);
            self.remaining.set(remaining.ok_or_else(|| {
                D::Error::custom(format_args!("has more than {MAX_VALUES} values"))
            })?);
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Any<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, boolean: bool) -> Result<Value, E> {
        Ok(boolean.into())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(element) = elements.next_element_seed(self)? {
            if !self.section.is_text() {
                array.push(element);
            }
        }
        Ok(array.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Value, A::Error> {
        Object { remaining: self.remaining, section: self.section }
            .visit_map(fields)
            .map(Value::Object)
    }
}

impl<'de> Visitor<'de> for Object<'_> {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            if [MARK, AS_TEXT].contains(&name.as_str()) {
                return Err(A::Error::custom(format_args!("has a field named {name}")));
            }
            let value = self.value(&name, &mut fields)?;
            if self.section.is_text() {
                continue;
            }
            match object.entry(name) {
                Entry::Vacant(entry) => _ = entry.insert(value),
                Entry::Occupied(entry) => return Err(A::Error::custom(duplicate(entry.key()))),
            }
        }
        Ok(object)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::error::Category;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_read_as_it_is() {
        let text = r#"{"a":[1,-2,3.5,true,null,"\u00e9"],"b":{"c":{}},"a2":18446744073709551615}"#;
        assert_eq!(
            Value::Object(object(text).unwrap()),
            serde_json::from_str::<Value>(text).unwrap()
        );
    }

    #[test]
    fn data_for_templates_is_held_as_its_text() {
        let text = r#"{"recipients":[{"trigger_properties":{ "z":1.10, "a":[ ] }}],
            "recipient":{"event_properties":{"b":1},"attributes":{"z":{"y":1.10,"b":2}}},
            "attributes":{"z":9223372036854775808,"a":1e2},"canvas_entry_properties":5,
            "messages":{"trigger_properties":{"z":1}}}"#;
        let as_text = |text: &str| json!({ AS_TEXT: text });
        let expected = json!({
            "recipients": [{ "trigger_properties": as_text(r#"{"z":1.10,"a":[]}"#) }],
            "recipient": {
                "event_properties": as_text(r#"{"b":1}"#),
                "attributes": as_text(r#"{"z":{"y":1.10,"b":2}}"#),
            },
            "attributes": as_text(r#"{"z":9223372036854775808,"a":1e2}"#),
            "canvas_entry_properties": 5,
            "messages": { "trigger_properties": { "z": 1 } },
        });
        assert_eq!(Value::Object(object(text).unwrap()), expected);
    }

    #[test]
    fn values_that_are_held_as_text_are_not_counted() {
        let numbers = format!("{{\"a\":[{}]}}", vec!["1"; MAX_VALUES].join(","));
        let recipients = format!(
            r#"[{{"trigger_properties":{numbers}}},{{"canvas_entry_properties":{numbers}}}]"#
        );
        let body = format!(r#"{{"trigger_properties":{numbers},"recipients":{recipients}}}"#);
        let body = object(&body).unwrap();
        assert_eq!(body["recipients"][1]["canvas_entry_properties"], json!({ AS_TEXT: numbers }));
        let other = format!(r#"{{"messages":{{"trigger_properties":{numbers}}}}}"#);
        assert!(object(&other).is_err());
    }

    #[test]
    fn conditions_are_held_as_their_text_and_counted() {
        let text = r#"{"audience":{ "z":18446744073709551617 },"custom_audience":[1.10],
            "messages":{"audience":{"a":1}}}"#;
        let expected = json!({
            "audience": { AS_TEXT: r#"{"z":18446744073709551617}"# },
            "custom_audience": [1.1],
            "messages": { "audience": { "a": 1 } },
        });
        assert_eq!(Value::Object(object(text).unwrap()), expected);
        let many = format!(r#"{{"audience":{{"AND":[{}]}}}}"#, vec!["1"; MAX_VALUES].join(","));
        let error = object(&many).unwrap_err();
        assert!(error.to_string().starts_with("has more than 30000 values"), "{error}");
        let repeated = object(r#"{"audience":{"AND":[{"a":1,"a":2}]}}"#).unwrap_err();
        assert!(repeated.to_string().contains("duplicate field"), "{repeated}");
    }

    #[test]
    fn the_number_of_values_is_limited() {
        let arrays = |count: usize| format!("{{\"a\":[{}]}}", vec!["[]"; count].join(","));
        assert!(object(&arrays(MAX_VALUES - 1)).is_ok());
        let error = object(&arrays(MAX_VALUES)).unwrap_err();
        assert_eq!(error.classify(), Category::Data);
        assert!(error.to_string().starts_with("has more than 30000 values"), "{error}");
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(10_000), "]".repeat(10_000));
        assert!(object(&deep).unwrap_err().to_string().contains("recursion limit"));
    }

    #[test]
    fn names_of_embedded_text_are_rejected() {
        for text in [
            r#"{"$serde_json::private::RawValue":"{}"}"#,
            r#"{"a":[{"$serde_json::private::RawValue":"!"}]}"#,
            r#"{"trigger_properties":{"$longshore::text":"{}"}}"#,
            r#"{"trigger_properties":{"a":{"$serde_json::private::RawValue":"{}"}}}"#,
            r#"{"recipients":[{"trigger_properties":{"a":1,"a":2}}]}"#,
            r#"{"a":{"b":1,"\u0024serde_json::private::RawValue":"1"}}"#,
        ] {
            assert_eq!(object(text).unwrap_err().classify(), Category::Data, "{text}");
        }
    }

    #[test]
    fn duplicate_fields_are_rejected_at_any_depth() {
        for text in [r#"{"a":1,"a":1}"#, r#"{"a":[{"b":{"c":1,"\u0063":2}}]}"#] {
            let error = object(text).unwrap_err();
            assert_eq!(error.classify(), Category::Data, "{text}");
            assert!(error.to_string().contains("duplicate field"), "{error}");
        }
        assert!(object(r#"{"a":{"a":[{"a":1},{"a":1}]}}"#).is_ok());
    }

    proptest! {
        #[test]
        fn parsing_agrees_with_serde_json(text in r#"[{}\[\]",:a0-9.e\\ -]{0,40}"#) {
            let expected = serde_json::from_str::<Map<String, Value>>(&text).ok();
            let expected = expected.filter(|_| kit::json::duplicate_name(&text).is_none());
            prop_assert_eq!(object(&text).ok(), expected);
        }
    }
}
