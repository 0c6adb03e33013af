//! Values of the record that no other type describes.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use kit::clock;
use people::users::BUCKETS;

/// A field that is absent or has a value, but is never null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Optional<T>(pub Option<T>);

impl<T> Default for Optional<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Optional<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(|value| Self(Some(value)))
    }
}

impl<T: JsonSchema> JsonSchema for Optional<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

/// A time in UTC, such as `2021-06-28T17:02:43.032Z`. Years before 0 have a sign and six digits,
/// which the format `date-time` of JSON Schema does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportTime;

impl<'de> Deserialize<'de> for ExportTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        if clock::is_formatted(&text) && clock::parse_time(&text).is_ok() {
            Ok(Self)
        } else {
            Err(D::Error::custom("expected a time such as 2021-06-28T17:02:43.032Z"))
        }
    }
}

impl JsonSchema for ExportTime {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ExportTime".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern":
                r"^([0-9]{4}|-[0-9]{6})-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$",
        })
    }
}

/// A user's bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "u16")]
pub struct Bucket(pub u16);

impl TryFrom<u16> for Bucket {
    type Error = String;

    fn try_from(bucket: u16) -> Result<Self, String> {
        if bucket < BUCKETS {
            Ok(Self(bucket))
        } else {
            Err(format!("expected a whole number from 0 to {}", BUCKETS - 1))
        }
    }
}

impl JsonSchema for Bucket {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Bucket".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": 0, "maximum": BUCKETS - 1 })
    }
}

/// The names of custom attributes; their values may be any JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttributeNames(pub HashSet<String>);

impl<'de> Deserialize<'de> for AttributeNames {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(AttributesVisitor)
    }
}

struct AttributesVisitor;

impl<'de> Visitor<'de> for AttributesVisitor {
    type Value = AttributeNames;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of custom attributes")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<AttributeNames, A::Error> {
        let mut names = HashSet::new();
        while let Some((name, IgnoredAny)) = map.next_entry::<String, _>()? {
            if !names.insert(name) {
                return Err(A::Error::custom("a custom attribute has a duplicate name"));
            }
        }
        Ok(AttributeNames(names))
    }
}

impl JsonSchema for AttributeNames {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "CustomAttributes".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object", "additionalProperties": true })
    }
}
