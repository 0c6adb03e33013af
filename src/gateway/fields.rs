//! Parses the fields of a request into a type that defines their constraints. The error names the
//! invalid field and the allowed values.

use std::fmt::{self, Display};

use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeSeed, Deserializer, Expected, IntoDeserializer as _, Unexpected};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};
use serde_json::{Map, Value, map};

use super::{ApiError, Code};
use kit::words::about_field;

/// Parses the fields of a request's object. Ignores unknown fields, and treats null as absent.
pub fn read<'a, T: Deserialize<'a>>(fields: &'a Map<String, Value>) -> Result<T, ApiError> {
    let read = T::deserialize(FieldsDeserializer(fields));
    read.map_err(|FieldError { path, code, text }| ApiError::Field(code, about_field(&path, &text)))
}

/// The names of the fields that a type reads.
pub fn names<'a, T: Deserialize<'a>>() -> &'static [&'static str] {
    struct Names<'n>(&'n mut &'static [&'static str]);

    impl<'de> Deserializer<'de> for Names<'_> {
        type Error = FieldError;

        fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
            Err(FieldError::wrong_kind(&visitor))
        }

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            names: &'static [&'static str],
            visitor: V,
        ) -> Read<V::Value> {
            *self.0 = names;
            self.deserialize_any(visitor)
        }

        forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
            option unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier
            ignored_any
        }
    }

    let mut names: &[&str] = &[];
    // This always fails, because there is no input; `names` is set on the way.
    let _ = T::deserialize(Names(&mut names));
    names
}

/// An error of a field.
#[derive(Debug)]
struct FieldError {
    /// Such as `recipients[0].user_alias`; empty at the root.
    path: String,
    code: Code,
    text: String,
}

type Read<T> = Result<T, FieldError>;

impl FieldError {
    fn new(code: Code, text: impl Into<String>) -> Self {
        Self { path: String::new(), code, text: text.into() }
    }

    /// Adds the field or element that contains it to the path.
    fn within(mut self, place: impl Display) -> Self {
        let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("{place}{dot}{}", self.path);
        self
    }

    fn wrong_kind(expected: &dyn Expected) -> Self {
        let expected = expected.to_string();
        let meant = match expected.as_str() {
            "a boolean" => "true or false",
            "a sequence" => "an array",
            "a map" => "an object",
            "i32" | "i64" | "u32" | "u64" => "a whole number",
            _ if expected.starts_with("struct ") => "an object",
            other => other,
        };
        Self::new(Code::InvalidField, format!("must be {meant}"))
    }
}

impl Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&about_field(&self.path, &self.text))
    }
}

impl std::error::Error for FieldError {}

impl de::Error for FieldError {
    fn custom<T: Display>(text: T) -> Self {
        Self::new(Code::InvalidField, text.to_string())
    }

    fn invalid_type(given: Unexpected<'_>, expected: &dyn Expected) -> Self {
        match given {
            Unexpected::Unit => Self::new(Code::MissingField, "is required"),
            _ => Self::wrong_kind(expected),
        }
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::wrong_kind(expected)
    }

    fn missing_field(name: &'static str) -> Self {
        Self::new(Code::MissingField, "is required").within(name)
    }

    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        let (last, others) = expected.split_last().unwrap_or((&"", &[]));
        let names = match others {
            [] => (*last).to_owned(),
            [other] => format!("{other} or {last}"),
            _ => format!("one of {} and {last}", others.join(", ")),
        };
        Self::new(Code::InvalidField, format!("must be {names}"))
    }
}

/// The fields of an object.
struct FieldsDeserializer<'a>(&'a Map<String, Value>);

/// A value of a field.
struct ValueDeserializer<'a>(&'a Value);

impl<'de> Deserializer<'de> for FieldsDeserializer<'de> {
    type Error = FieldError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        visitor.visit_map(Fields { rest: self.0.iter(), value: None })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier
        ignored_any
    }
}

impl<'de> Deserializer<'de> for ValueDeserializer<'de> {
    type Error = FieldError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(boolean) => visitor.visit_bool(*boolean),
            Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(natural), _) => visitor.visit_u64(natural),
                (_, Some(whole)) => visitor.visit_i64(whole),
                _ => visitor.visit_f64(number.as_f64().unwrap_or(f64::NAN)),
            },
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(elements) => visitor.visit_seq(Elements(elements.iter().enumerate())),
            Value::Object(fields) => FieldsDeserializer(fields).deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Read<V::Value> {
        visitor.visit_newtype_struct(self)
    }

    /// An array is not a struct.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Read<V::Value> {
        match self.0 {
            Value::Array(_) => Err(FieldError::wrong_kind(&visitor)),
            _ => self.deserialize_any(visitor),
        }
    }

    /// A name.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Read<V::Value> {
        match self.0 {
            Value::Null => Err(FieldError::new(Code::MissingField, "is required")),
            Value::String(name) => {
                let name: StrDeserializer<'_, FieldError> = name.as_str().into_deserializer();
                visitor.visit_enum(name)
            }
            _ => Err(de::Error::unknown_variant("", names)),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map identifier ignored_any
    }
}

struct Fields<'a> {
    rest: map::Iter<'a>,
    value: Option<(&'a str, &'a Value)>,
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = FieldError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Read<Option<K::Value>> {
        self.value = self.rest.next().map(|(name, value)| (name.as_str(), value));
        let name = self.value.map(|(name, _)| de::value::BorrowedStrDeserializer::new(name));
        name.map(|name| seed.deserialize(name)).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Read<V::Value> {
        let (name, value) = self.value.take().unwrap_or(("", &Value::Null));
        seed.deserialize(ValueDeserializer(value)).map_err(|error| error.within(name))
    }
}

struct Elements<'a>(std::iter::Enumerate<std::slice::Iter<'a, Value>>);

impl<'de> SeqAccess<'de> for Elements<'de> {
    type Error = FieldError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Read<Option<T::Value>> {
        let Some((index, value)) = self.0.next() else { return Ok(None) };
        let read = seed.deserialize(ValueDeserializer(value));
        read.map(Some).map_err(|error| error.within(format_args!("[{index}]")))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::gateway::formats::{Identifier, List, Time, UserAlias};

    #[derive(Debug, Deserialize)]
    struct Request {
        name: Identifier,
        flag: Option<bool>,
        times: Option<List<Time, 1, 2>>,
        aliases: Option<Vec<UserAlias>>,
        any: Option<Value>,
    }

    fn refusal(fields: &Value) -> (Code, String) {
        match read::<Request>(fields.as_object().unwrap()) {
            Err(ApiError::Field(code, text)) => (code, text),
            other => panic!("{fields}: {other:?}"),
        }
    }

    #[test]
    fn reads_fields_and_ignores_others() {
        let any = json!({ "a": [1, -1, 1.5, "x", true, null, {}] });
        let fields = json!({
            "name": "n", "flag": null, "times": ["2021-06-28"], "any": any, "other": 1,
        });
        let request: Request = read(fields.as_object().unwrap()).unwrap();
        assert_eq!((request.name.0.as_str(), request.flag), ("n", None));
        assert_eq!(request.times.unwrap().0, [Time(1_624_838_400_000)]);
        assert!(request.aliases.is_none() && request.any == Some(any));
    }

    #[test]
    fn names_the_field_that_is_wrong() {
        for (change, code, text) in [
            (json!({ "name": null }), Code::MissingField, "name is required"),
            (json!({ "name": 5 }), Code::InvalidField, "name must be a string"),
            (json!({ "name": "" }), Code::InvalidField, "name is empty"),
            (json!({ "name": "a\n" }), Code::InvalidField, "name contains a control character"),
            (json!({ "flag": 1 }), Code::InvalidField, "flag must be true or false"),
            (json!({ "times": {} }), Code::InvalidField, "times must be an array"),
            (json!({ "times": [] }), Code::InvalidField, "times must have 1 to 2 elements"),
            (json!({ "times": [5] }), Code::InvalidField, "times[0] must be a string"),
            (json!({ "times": ["soon"] }), Code::InvalidField, "times[0]: expected a date"),
            (
                json!({ "aliases": [{ "alias_name": "a" }] }),
                Code::MissingField,
                "aliases[0].alias_label is required",
            ),
            (
                json!({ "aliases": [{ "alias_name": "a", "alias_label": 1 }] }),
                Code::InvalidField,
                "aliases[0].alias_label must be a string",
            ),
            (
                json!({ "aliases": [["a", "b"]] }),
                Code::InvalidField,
                "aliases[0] must be an object",
            ),
        ] {
            let mut fields = json!({ "name": "n" });
            for (name, value) in change.as_object().unwrap() {
                fields[name] = value.clone();
            }
            let (given, said) = refusal(&fields);
            assert!(given == code && said.starts_with(text), "{fields}: {given:?} {said}");
        }
        assert_eq!(refusal(&json!({})), (Code::MissingField, "name is required".to_owned()));
    }
}
