//! Parses the fields of a request into a type that defines their constraints. The error names the
//! invalid field and the allowed values.

use std::fmt::{self, Display};

use serde::de::value::{MapDeserializer, StrDeserializer};
use serde::de::{self, DeserializeSeed, Deserializer, Expected, IntoDeserializer as _, Unexpected};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, map};

use super::value::AS_TEXT;
use super::{ApiError, Code};
use kit::json::{self, JsonFields, MARK};
use kit::words::about_field;

/// Fields that limit some request of this API or of its family: they select its users, or make it a
/// dry run. A request that does not read such a field is rejected: if the field were ignored like
/// any other unknown one, the request would concern other users than the sender meant, or have an
/// effect that the sender did not want. In the order of the alphabet, for searches.
const SELECTORS: [&str; 27] = [
    "aliases_to_identify",
    "audience",
    "custom_audience",
    "dry_run",
    "email",
    "email_address",
    "email_addresses",
    "emails",
    "emails_to_identify",
    "external_id",
    "external_ids",
    "external_user_id",
    "external_user_ids",
    "filter",
    "filters",
    "phone",
    "phone_numbers",
    "phone_numbers_to_identify",
    "phones",
    "recipient",
    "recipients",
    "segment_id",
    "service_id",
    "service_ids",
    "since",
    "user_alias",
    "user_aliases",
];

/// Parses the fields of a request's object. Ignores unknown fields except [`SELECTORS`], and treats
/// null as absent.
pub fn read<'a, T: Deserialize<'a>>(fields: &'a Map<String, Value>) -> Result<T, ApiError> {
    read_with(fields, Unknown::Selectors(&[]))
}

/// The same for an object whose fields are those of two types.
pub fn read_both<'a, A: Deserialize<'a>, B: Deserialize<'a>>(
    fields: &'a Map<String, Value>,
) -> Result<(A, B), ApiError> {
    let first = read_with(fields, Unknown::Selectors(names::<B>()))?;
    Ok((first, read_with(fields, Unknown::Selectors(names::<A>()))?))
}

/// The same for reports of other services, which select no users. Ignores all unknown fields.
pub fn read_report<'a, T: Deserialize<'a>>(fields: &'a Map<String, Value>) -> Result<T, ApiError> {
    read_with(fields, Unknown::Ignored)
}

fn read_with<'a, T: Deserialize<'a>>(
    fields: &'a Map<String, Value>,
    unknown: Unknown,
) -> Result<T, ApiError> {
    let read = T::deserialize(FieldsDeserializer { fields, unknown });
    read.map_err(|FieldError { path, code, text }| ApiError::Field(code, about_field(&path, &text)))
}

/// Whether a field limits some requests.
pub fn is_selector(name: &str) -> bool {
    SELECTORS.binary_search(&name).is_ok()
}

/// Whether the value of such a field limits a request: an empty array selects nobody, and false is
/// no dry run.
fn is_set(value: &RawValue) -> bool {
    !matches!(&*json::compacted(value.get()), "null" | "[]" | "false")
}

/// The value of such a field, for a type that is read without [`read`]: it must not be set.
#[derive(Debug, Default)]
pub struct UnsetSelector;

impl<'de> Deserialize<'de> for UnsetSelector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = <&RawValue>::deserialize(deserializer)?;
        if is_set(value) { Err(de::Error::custom(NO_SELECTOR)) } else { Ok(Self) }
    }
}

/// Rejects a field that limits other requests.
pub fn check_selector(name: &str) -> Result<(), ApiError> {
    if is_selector(name) {
        Err(ApiError::invalid_field(format!("{name} {NO_SELECTOR}")))
    } else {
        Ok(())
    }
}

/// The first of an object's fields that limits other requests, has a value and is not `known`.
pub fn unsupported_selector<'f>(fields: &'f JsonFields<'_>, known: &[&str]) -> Option<&'f str> {
    let is_unsupported = |name: &str| is_selector(name) && !known.contains(&name);
    let mut fields = fields.0.iter().map(|(name, value)| (name.as_ref(), value));
    let found = fields.find(|(name, value)| is_unsupported(name) && is_set(value));
    found.map(|(name, _)| name)
}

/// The error of such a field.
pub const NO_SELECTOR: &str = "is not supported by this request";

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
    fn within(mut self, parent: impl Display) -> Self {
        let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("{parent}{dot}{}", self.path);
        self
    }

    fn wrong_kind(expected: &dyn Expected) -> Self {
        let expected = expected.to_string();
        let allowed = match expected.as_str() {
            "a boolean" => "true or false",
            "a sequence" => "an array",
            "a map" => "an object",
            "i32" | "i64" | "u32" | "u64" => "a whole number",
            _ if expected.starts_with("struct ") => "an object",
            other => other,
        };
        Self::new(Code::InvalidField, format!("must be {allowed}"))
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

/// The fields of an object. A type with named fields does not see those that are null, so that a
/// required field that is null is a missing one, whatever its type makes of null. A map has them.
struct FieldsDeserializer<'a> {
    fields: &'a Map<String, Value>,
    unknown: Unknown,
}

/// A value of a field.
struct ValueDeserializer<'a> {
    value: &'a Value,
    unknown: Unknown,
}

/// What happens to unknown fields.
#[derive(Clone, Copy)]
enum Unknown {
    Ignored,
    /// [`SELECTORS`] are rejected, except these; other fields are ignored.
    Selectors(&'static [&'static str]),
}

impl Unknown {
    /// The same for an object inside, which has only its own fields.
    fn inside(self) -> Self {
        match self {
            Self::Ignored => Self::Ignored,
            Self::Selectors(_) => Self::Selectors(&[]),
        }
    }

    /// Checks the fields of a type with these names.
    fn check(self, fields: &Map<String, Value>, names: &[&str]) -> Read<()> {
        let Self::Selectors(others) = self else { return Ok(()) };
        let is_value_set = |value: &Value| to_raw_value(value).is_ok_and(|value| is_set(&value));
        let is_known = |name: &str| names.contains(&name) || others.contains(&name);
        let selector = SELECTORS
            .into_iter()
            .find(|name| !is_known(name) && fields.get(*name).is_some_and(is_value_set));
        match selector {
            Some(name) => Err(FieldError::new(Code::InvalidField, NO_SELECTOR).within(name)),
            None => Ok(()),
        }
    }
}

impl<'a> FieldsDeserializer<'a> {
    fn into_fields(self, skips_null: bool) -> Fields<'a> {
        let unknown = self.unknown.inside();
        Fields { remaining: self.fields.iter(), skips_null, unknown, value: None }
    }
}

impl<'de> Deserializer<'de> for FieldsDeserializer<'de> {
    type Error = FieldError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        visitor.visit_map(self.into_fields(false))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Read<V::Value> {
        self.unknown.check(self.fields, names)?;
        visitor.visit_map(self.into_fields(true))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

impl<'a> ValueDeserializer<'a> {
    fn object(&self, fields: &'a Map<String, Value>) -> FieldsDeserializer<'a> {
        FieldsDeserializer { fields, unknown: self.unknown }
    }
}

impl<'de> Deserializer<'de> for ValueDeserializer<'de> {
    type Error = FieldError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        match self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(boolean) => visitor.visit_bool(*boolean),
            Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(natural), _) => visitor.visit_u64(natural),
                (_, Some(whole)) => visitor.visit_i64(whole),
                _ => visitor.visit_f64(number.as_f64().unwrap_or(f64::NAN)),
            },
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(elements) => visitor.visit_seq(Elements {
                remaining: elements.iter().enumerate(),
                unknown: self.unknown,
            }),
            Value::Object(fields) => self.object(fields).deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        if self.value.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    /// Typed fields must use `u64`: only this type accepts `7.0`.
    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        let number = self.value.as_number().and_then(json::as_whole_number);
        match number.and_then(|number| u64::try_from(number).ok()) {
            Some(number) => visitor.visit_u64(number),
            None => self.deserialize_any(visitor),
        }
    }

    /// A value that is read as its text ([`RawValue`](serde_json::value::RawValue)) has the text of
    /// the body, if the tree holds it.
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Read<V::Value> {
        if name != MARK {
            return visitor.visit_newtype_struct(self);
        }
        let text = match self.value.get(AS_TEXT) {
            Some(Value::String(text)) => text.clone(),
            _ => self.value.to_string(),
        };
        visitor.visit_map(MapDeserializer::new(std::iter::once((MARK, text))))
    }

    /// An array is not a struct.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Read<V::Value> {
        match self.value {
            Value::Array(_) => Err(FieldError::wrong_kind(&visitor)),
            Value::Object(fields) => self.object(fields).deserialize_struct(name, names, visitor),
            _ => self.deserialize_any(visitor),
        }
    }

    /// Null is not an empty map, as which `serde_json` would read it.
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        match self.value {
            Value::Null => Err(FieldError::new(Code::MissingField, "is required")),
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
        match self.value {
            Value::Null => Err(FieldError::new(Code::MissingField, "is required")),
            Value::String(name) => {
                let name: StrDeserializer<'_, FieldError> = name.as_str().into_deserializer();
                visitor.visit_enum(name)
            }
            _ => Err(de::Error::unknown_variant("", names)),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct identifier ignored_any
    }
}

struct Fields<'a> {
    remaining: map::Iter<'a>,
    skips_null: bool,
    unknown: Unknown,
    value: Option<(&'a str, &'a Value)>,
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = FieldError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Read<Option<K::Value>> {
        let mut remaining =
            self.remaining.by_ref().filter(|(_, value)| !(self.skips_null && value.is_null()));
        self.value = remaining.next().map(|(name, value)| (name.as_str(), value));
        let name = self.value.map(|(name, _)| de::value::BorrowedStrDeserializer::new(name));
        name.map(|name| seed.deserialize(name)).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Read<V::Value> {
        let (name, value) = self.value.take().unwrap_or(("", &Value::Null));
        let read = seed.deserialize(ValueDeserializer { value, unknown: self.unknown });
        read.map_err(|error| error.within(name))
    }
}

struct Elements<'a> {
    remaining: std::iter::Enumerate<std::slice::Iter<'a, Value>>,
    unknown: Unknown,
}

impl<'de> SeqAccess<'de> for Elements<'de> {
    type Error = FieldError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Read<Option<T::Value>> {
        let Some((index, value)) = self.remaining.next() else { return Ok(None) };
        let read = seed.deserialize(ValueDeserializer { value, unknown: self.unknown });
        read.map(Some).map_err(|error| error.within(format_args!("[{index}]")))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.remaining.len())
    }
}

#[cfg(test)]
mod tests;
