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
use super::warnings::{Warning, Warnings, did_you_mean};
use super::{ApiError, Code};
use kit::json::{self, JsonFields, MARK};
use kit::words::{about_field, beginning, distance, nearest};

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

/// Other names that a sender may give to a field that selects users. In requests with effects, they
/// are rejected as unknown fields.
const OTHER_SELECTORS: &str = "\
    audience_id audiences cohort cohort_id customer_id customer_ids customers exclude \
    exclude_users external_user_alias include_users list list_id list_ids lists phone_number \
    profile_id profile_ids profiles segment segment_ids segments subscribers \
    subscription_group_id target targets to user user_id user_ids user_list users";

/// Fields that select the users of a segment or an audience, unless the request lists users or is to
/// all of them: then they limit these.
const LIMITS: [&str; 3] = ["audience", "custom_audience", "segment_id"];

/// Fields that list users.
const LISTS_OF_USERS: [&str; 3] = ["external_user_ids", "recipients", "user_aliases"];

/// Fields that requests of the family have, and that select no users. They are ignored even in a
/// request to everybody.
const FIELDS_OF_FAMILY: [&str; 5] = [
    "api_key",
    "app_group_id",
    "attachments",
    "override_frequency_capping",
    "override_messaging_limits",
];

/// Characters of an unknown field that an error shows.
const SHOWN: usize = 64;

/// Parses the fields of a request with effects, as [`read`] does, and returns a warning about each
/// unknown field. An unknown field is rejected if it [resembles](resembles_selector) one that
/// selects users, or if the request [selects many](selects_many) users: the sender may have meant
/// fewer.
pub fn read_request<'a, T: Deserialize<'a>>(
    fields: &'a Map<String, Value>,
) -> Result<(T, Vec<Warning>), ApiError> {
    let names = names::<T>();
    let warnings = check_unknown(fields, names, selects_many(fields, names))?;
    Ok((read(fields)?, warnings))
}

/// The same for a request that concerns many users whatever its fields are.
pub fn read_request_to_many<'a, T: Deserialize<'a>>(
    fields: &'a Map<String, Value>,
) -> Result<(T, Vec<Warning>), ApiError> {
    let warnings = check_unknown(fields, names::<T>(), true)?;
    Ok((read(fields)?, warnings))
}

/// [`read_request`] for an object whose fields are those of two types.
pub fn read_request_both<'a, A: Deserialize<'a>, B: Deserialize<'a>>(
    fields: &'a Map<String, Value>,
) -> Result<((A, B), Vec<Warning>), ApiError> {
    let names = [names::<A>(), names::<B>()].concat();
    let warnings = check_unknown(fields, &names, selects_many(fields, &names))?;
    Ok((read_both(fields)?, warnings))
}

/// Maximum number of unknown fields of a request: each is compared with those that select users.
const MAX_UNKNOWN: usize = 500;

/// Warnings about the unknown fields of a request without effects.
pub fn warnings_about_unknown(fields: &Map<String, Value>, known: &[&str]) -> Vec<Warning> {
    let mut warnings = Warnings::default();
    let unknown = fields.keys().filter(|name| !known.contains(&name.as_str()));
    unknown.take(MAX_UNKNOWN).for_each(|name| warnings.push(Warning::unknown_field(name, known)));
    warnings.into_vec()
}

/// Checks the fields that a request does not know. [`read`] rejects [`SELECTORS`] with a value.
fn check_unknown(
    fields: &Map<String, Value>,
    known: &[&str],
    reaches_many: bool,
) -> Result<Vec<Warning>, ApiError> {
    check_limits(fields, known)?;
    let mut warnings = Warnings::default();
    let unknown = fields.iter().filter(|(name, _)| !known.contains(&name.as_str()));
    for (count, (name, value)) in unknown.enumerate() {
        if count == MAX_UNKNOWN {
            let text = format!("at most {MAX_UNKNOWN} unknown fields are accepted");
            return Err(ApiError::Field(Code::UnknownField, text));
        }
        // With null or an empty array, the sender may have meant to reach nobody.
        let may_limit = reaches_many && !FIELDS_OF_FAMILY.contains(&name.as_str());
        if is_selector(name) {
            if may_limit && name != "dry_run" {
                check_selector(name)?;
            }
        } else if may_limit || (is_value_set(value) && resembles_selector(name, known)) {
            return Err(ApiError::Field(Code::UnknownField, unknown_field(name, known)));
        } else if !value.is_null() {
            warnings.push(Warning::unknown_field(name, known));
        }
    }
    Ok(warnings.into_vec())
}

/// Rejects null in a field that limits a request to all users: its value may have been lost.
fn check_limits(fields: &Map<String, Value>, known: &[&str]) -> Result<(), ApiError> {
    let is_lost =
        |name: &&str| known.contains(name) && fields.get(*name).is_some_and(Value::is_null);
    match LIMITS.into_iter().find(|name| is_broadcast(fields) && is_lost(name)) {
        Some(name) => Err(ApiError::invalid_field(format!(
            "{name} must not be null if broadcast is true: omit it unless it limits the users"
        ))),
        None => Ok(()),
    }
}

fn is_broadcast(fields: &Map<String, Value>) -> bool {
    fields.get("broadcast") == Some(&Value::Bool(true))
}

fn unknown_field(name: &str, known: &[&str]) -> String {
    let shown = beginning(name, SHOWN);
    match nearest_known(name, known) {
        Some(known) => format!("{shown}: unknown field; {}", did_you_mean(known)),
        None => format!("{shown}: unknown field; this request reads {}", known.join(", ")),
    }
}

/// The known field that is nearest to an unknown one, whatever separates their words.
fn nearest_known<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    let letters = letters(name);
    let same = known.iter().copied().find(|known| self::letters(known) == letters);
    same.or_else(|| nearest(name, known.iter().copied()))
}

/// Whether a request selects all users, or those of a segment or an audience.
fn selects_many(fields: &Map<String, Value>, known: &[&str]) -> bool {
    let has = |names: &[&str]| {
        names.iter().any(|name| known.contains(name) && fields.get(*name).is_some_and(is_value_set))
    };
    is_broadcast(fields) || (has(&LIMITS) && !has(&LISTS_OF_USERS))
}

/// Whether an unknown field may be a misspelt one that selects users: it has the letters of such a
/// field, or differs from them in one letter, or in two if the name is long enough for that to be
/// no accident. Case and separators do not count.
fn resembles_selector(name: &str, known: &[&str]) -> bool {
    const LONGEST: usize = 40;
    let name = letters(name);
    if name.is_empty() || name.len() > LONGEST || is_field_of_family(&name) {
        return false;
    }
    let resembles = |selector: &str, max_distance: fn(usize) -> usize| {
        let selector = letters(selector);
        let max_distance = max_distance(name.len().min(selector.len()));
        name.len().abs_diff(selector.len()) <= max_distance
            && distance(&name, &selector) <= max_distance
    };
    let is_read = |selector: &str| known.contains(&selector);
    SELECTORS.iter().chain(&["broadcast"]).any(|selector| {
        let max_distance = if is_read(selector) { DISTANCE_OF_READ } else { DISTANCE };
        resembles(selector, max_distance)
    }) || OTHER_SELECTORS.split(' ').any(|selector| resembles(selector, DISTANCE_OF_OTHER))
}

/// In how many letters a name of this length may differ from a field that selects users: one that
/// the request reads, one that another request reads, and another name for such a field.
const DISTANCE_OF_READ: fn(usize) -> usize = |length| match length {
    5.. => 2,
    4 => 1,
    _ => 0,
};
const DISTANCE: fn(usize) -> usize = |length| match length {
    7.. => 2,
    4..=6 => 1,
    _ => 0,
};
const DISTANCE_OF_OTHER: fn(usize) -> usize = |length| usize::from(length >= 5);

fn is_field_of_family(letters: &str) -> bool {
    FIELDS_OF_FAMILY.iter().any(|field| self::letters(field) == letters)
}

/// A name without case and separators.
fn letters(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

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

fn is_value_set(value: &Value) -> bool {
    to_raw_value(value).is_ok_and(|value| is_set(&value))
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
