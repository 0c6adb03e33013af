//! Formats that several endpoints share.
//!
//! A type is the only definition of a format: [`fields::read`](super::fields::read) parses it and
//! runs its checks, and schemars describes it with the same limits.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

use super::Code;
use kit::clock::parse_time;
use kit::words::{self, MAX_TEXT};

/// An array with a limited number of elements.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct List<T, const MIN: usize, const MAX: usize>(pub Vec<T>);

impl<T, const MIN: usize, const MAX: usize> Default for List<T, MIN, MAX> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>, const MIN: usize, const MAX: usize> Deserialize<'de>
    for List<T, MIN, MAX>
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ListVisitor(PhantomData))
    }
}

struct ListVisitor<T, const MIN: usize, const MAX: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MIN: usize, const MAX: usize> Visitor<'de>
    for ListVisitor<T, MIN, MAX>
{
    type Value = List<T, MIN, MAX>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let wrong_length = || {
            serde::de::Error::custom(match MIN {
                0 => format!("must have at most {MAX} elements"),
                _ => format!("must have {MIN} to {MAX} elements"),
            })
        };
        // Checked before the elements are read, because there may be many.
        if seq.size_hint().is_some_and(|count| count > MAX) {
            return Err(wrong_length());
        }
        let mut elements = Vec::new();
        while let Some(element) = seq.next_element()? {
            elements.push(element);
        }
        let is_right = (MIN..=MAX).contains(&elements.len());
        if is_right { Ok(List(elements)) } else { Err(wrong_length()) }
    }
}

impl<T: JsonSchema, const MIN: usize, const MAX: usize> JsonSchema for List<T, MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("{}List", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let items = generator.subschema_for::<T>();
        json_schema!({ "type": "array", "items": items, "minItems": MIN, "maxItems": MAX })
    }
}

/// The maximum number of entries of a response, in the body of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "u64")]
pub struct Limit<const DEFAULT: i64, const MAX: i64>(pub i64);

impl<const DEFAULT: i64, const MAX: i64> Default for Limit<DEFAULT, MAX> {
    fn default() -> Self {
        Self(DEFAULT)
    }
}

impl<const DEFAULT: i64, const MAX: i64> TryFrom<u64> for Limit<DEFAULT, MAX> {
    type Error = String;

    fn try_from(limit: u64) -> Result<Self, String> {
        let limit = i64::try_from(limit).ok().filter(|limit| (1..=MAX).contains(limit));
        limit.map(Self).ok_or_else(|| format!("must be 1 to {MAX}"))
    }
}

impl<const DEFAULT: i64, const MAX: i64> JsonSchema for Limit<DEFAULT, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Limit".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": 1, "maximum": MAX, "default": DEFAULT })
    }
}

/// Pattern of strings without NUL characters.
pub const NO_NUL: &str = r"^[^\u0000]*$";

/// Control characters, which identifiers must not have.
pub const CONTROLS: &str = r"\u0000-\u001f\u007f-\u009f";

/// A user identifier, or a part of an alias; without control characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", extend(
    "minLength" = 1, "maxLength" = MAX_TEXT, "pattern" = format!("^[^{CONTROLS}]+$"),
))]
pub struct Identifier(pub String);

impl TryFrom<String> for Identifier {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        words::check_identifier(&text)?;
        Ok(Self(text))
    }
}

/// An alias, which identifies a user in addition to the external id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UserAlias {
    pub alias_name: Identifier,
    pub alias_label: Identifier,
}

/// Valid days of every month, as `MM-DD`.
const DAYS: &str = "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])\
                    |(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))";

/// A time in ISO 8601, such as `2021-06-28T17:02:43.032Z` or `2021-06-28T19:02:43+0200`. Without an
/// offset, it is in UTC. A date such as `2021-06-28` is its midnight in UTC. The pattern
/// `yyyy-MM-dd'T'HH:mm:ss:SSSZ` is also accepted: `2021-06-28T17:02:43:032+0000`. A time zone in
/// brackets is read as in RFC 9557: `2021-06-28T17:02:43[Europe/Oslo]`. An offset is at most 18
/// hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "Cow<str>")]
#[schemars(with = "String", extend(
    "anyOf" = [{
        "format": "date-time", "pattern": r"(?:[Zz]|[+-](?:(?:0[0-9]|1[0-7]):[0-5][0-9]|18:00))$",
    }, { "format": "date" }, { "pattern": format!(
        "^[0-9]{{4}}-{DAYS}T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:[.,][0-9]{{1,9}}|:[0-9]{{3}})?\
         (?:Z|[+-](?:(?:(?:0[0-9]|1[0-7]):?|[0-9]:)[0-5][0-9]|18:?00))?$"
    ) }],
    "examples" = ["2026-11-21T08:05:00+01:00"],
))]
pub struct Time(pub i64);

impl TryFrom<Cow<'_, str>> for Time {
    type Error = String;

    fn try_from(text: Cow<'_, str>) -> Result<Self, String> {
        parse_time(&text).map(Self)
    }
}

/// The request was successful.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
#[schemars(inline)]
pub enum SuccessText {
    #[default]
    #[serde(rename = "success")]
    Success,
}

/// The request was successful.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Success {
    message: SuccessText,
}

/// An error.
#[derive(Serialize, JsonSchema)]
pub struct Error<'a> {
    /// The text of the error, for people to read.
    pub message: &'a str,
    pub code: Code,
    /// The permission that the key lacks, or all those of which one would be enough, with ` or `
    /// between them; only with status 403.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission: Option<&'a str>,
}

/// An error with a list of all errors of the request.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "{T}Errors")]
pub struct Errors<'a, T> {
    #[serde(flatten)]
    pub error: Error<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors: Option<&'a [T]>,
}

/// The schema of a type without references, for inline use.
pub fn schema_of<T: JsonSchema>() -> Value {
    json!(T::json_schema(&mut SchemaGenerator::default()))
}

/// Exactly one of these fields of an object is set.
pub fn exactly_one(names: &'static [&'static str]) -> impl Fn(&mut Schema) {
    one_of(names, |this, other| this != other)
}

/// The first of these fields that is set counts; the others are ignored.
pub fn first_of(names: &'static [&'static str]) -> impl Fn(&mut Schema) {
    one_of(names, |this, other| other < this)
}

/// At least one of these fields is set.
pub fn at_least_one(names: &'static [&'static str]) -> impl Fn(&mut Schema) {
    one_of(names, |_, _| false)
}

/// One of these fields is set, where others, by their positions, are null.
fn one_of(
    names: &'static [&'static str],
    is_null: fn(usize, usize) -> bool,
) -> impl Fn(&mut Schema) {
    move |schema| {
        let Some(fields) = schema.get_mut("properties").and_then(Value::as_object_mut) else {
            return;
        };
        let given: Vec<Value> =
            names.iter().filter_map(|name| fields.remove(*name)).map(not_null).collect();
        let option = |(this, schema): (usize, &Value)| {
            let others = names.iter().enumerate().filter(|(other, _)| is_null(this, *other));
            let others = others.map(|(_, name)| ((*name).to_owned(), json!({ "type": "null" })));
            let mut fields: Map<String, Value> = others.collect();
            fields.insert(names[this].to_owned(), schema.clone());
            json!({ "properties": fields, "required": [names[this]] })
        };
        let options: Vec<Value> = given.iter().enumerate().map(option).collect();
        schema.insert("anyOf".into(), options.into());
    }
}

/// The schema of an optional field, without null.
pub fn not_null(mut schema: Value) -> Value {
    let is_null = |kind: &Value| *kind == "null" || *kind == json!({ "type": "null" });
    if let Some(kinds) = schema.get_mut("anyOf").and_then(Value::as_array_mut) {
        kinds.retain(|kind| !is_null(kind));
        if let [Value::Object(only)] = kinds.as_mut_slice() {
            let mut only = std::mem::take(only);
            // The field's description replaces that of its type.
            if let Some(about) = schema.get("description") {
                only.insert("description".into(), about.clone());
            }
            return only.into();
        }
    }
    if let Some(kinds) = schema.get_mut("type").and_then(Value::as_array_mut) {
        kinds.retain(|kind| !is_null(kind));
        if let [kind] = kinds.as_slice() {
            schema["type"] = kind.clone();
        }
    }
    schema
}
