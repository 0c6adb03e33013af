//! Schemas of what has no type in the code, and those that several calls have in common.

use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};

use kit::words::{MAX_LABEL, MAX_LOCAL, MAX_TEXT};

/// Declares a type that stands for a schema: of what is read by hand. Its documentation is the
/// description.
macro_rules! shape {
    ($(#[doc = $doc:literal])+ $visibility:vis $name:ident = |$generator:tt| $schema:expr) => {
        $(#[doc = $doc])+
        $visibility struct $name;

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema($generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $crate::gateway::openapi::shapes::described($schema, &[$($doc),+])
            }
        }
    };
}

pub(crate) use shape;

/// The schema with a description of these lines.
pub fn described(mut schema: Value, lines: &[&str]) -> Schema {
    let lines: Vec<&str> = lines.iter().map(|line| line.trim()).collect();
    schema["description"] = lines.join("\n").into();
    Schema::try_from(schema).unwrap_or_default()
}

/// The schema, or null, which counts as absent.
pub fn or_null(schema: impl serde::Serialize) -> Value {
    let mut schema = json!(schema);
    if schema.get("enum").is_none() && schema["type"].is_string() {
        schema["type"] = json!([schema["type"], "null"]);
        return schema;
    }
    json!({ "anyOf": [schema, { "type": "null" }] })
}

/// The schema with a description of its own.
pub fn saying(about: &str, mut schema: Value) -> Value {
    schema["description"] = about.into();
    schema
}

/// A text of so many characters, without NUL.
pub fn text(least: usize, most: usize) -> Value {
    json!({ "type": "string", "minLength": least, "maxLength": most, "pattern": NO_NUL })
}

/// Texts have no NUL character.
pub const NO_NUL: &str = r"^[^\u0000]*$";

/// Characters of which an identifier has none.
const CONTROLS: &str = r"\u0000-\u001f\u007f-\u009f";

/// Days that every month has by this number, as `MM-DD`.
const DAYS: &str = "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])\
                    |(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))";

shape! {
    /// ISO 8601, such as `2021-06-28T17:02:43.032Z`, `2021-06-28T19:02:43+0200` or
    /// `2021-06-28T17:02:43`, which is read as UTC, as is the midnight of `2021-06-28`. Or the
    /// pattern `yyyy-MM-dd'T'HH:mm:ss:SSSZ`: `2021-06-28T17:02:43:032+0000`.
    pub Time = |_| json!({
        "type": "string",
        "anyOf": [{ "format": "date-time" }, { "format": "date" }, { "pattern": format!(
            "^[0-9]{{4}}-{DAYS}T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:[.,][0-9]{{1,9}}|:[0-9]{{3}})?\
             (?:Z|[+-](?:[01][0-9]|2[0-3]):?[0-5][0-9])?$"
        ) }],
        "examples": ["2026-11-21T08:05:00+01:00"],
    })
}

shape! {
    /// What a customer calls a user, or a part of an alias: no control characters.
    pub Identifier = |_| json!({
        "type": "string", "minLength": 1, "maxLength": MAX_TEXT,
        "pattern": format!("^[^{CONTROLS}]+$"),
    })
}

shape! {
    /// A name of a user beside the external id.
    pub UserAlias = |generator| {
        let part = generator.subschema_for::<Identifier>();
        json!({
            "type": "object",
            "properties": { "alias_name": part, "alias_label": part },
            "required": ["alias_name", "alias_label"],
        })
    }
}

shape! {
    /// An email address by its form, without quotes, comments or address literals.
    pub Email = |_| {
        let local = format!(r#"[^\s{CONTROLS}"(),:;<>@\[\\\]]{{1,{MAX_LOCAL}}}"#);
        // Of ASCII only letters, digits and hyphens; those not at an end.
        let inside = format!(r"[^\s{CONTROLS}!-,./:-@\[-`{{-~]");
        let end = format!(r"[^\s{CONTROLS}!-/:-@\[-`{{-~]");
        let most = MAX_LABEL - 2;
        let label = format!("{end}(?:{inside}{{0,{most}}}{end})?");
        json!({
            "type": "string", "maxLength": MAX_TEXT,
            "pattern": format!(r"^{local}@{label}(?:\.{label})*$"),
            "examples": ["ann@example.com"],
        })
    }
}

shape! {
    /// Any JSON; texts in it have no NUL character and no half of a surrogate pair, numbers are
    /// those that a double can hold, and nesting ends at 127 levels.
    pub Json = |generator| {
        let inside = generator.subschema_for::<Json>();
        json!({ "anyOf": [
            { "type": ["null", "boolean", "number"] },
            { "type": "string", "pattern": NO_NUL },
            { "type": "array", "items": inside },
            { "type": "object", "propertyNames": { "pattern": NO_NUL }, "additionalProperties": inside },
        ] })
    }
}

shape! {
    /// That it was done.
    pub Success = |_| json!({
        "type": "object",
        "properties": { "message": { "const": "success" } },
        "required": ["message"],
    })
}

shape! {
    /// What is wrong, for people.
    pub Error = |_| json!({
        "type": "object",
        "properties": {
            "message": { "type": "string" },
            "permission": saying("With 403: the permission that the key lacks.", json!({ "type": "string" })),
        },
        "required": ["message"],
    })
}

/// The schema of an error's body that has `errors` of this shape, too, if there are any.
pub fn error_with<T: schemars::JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    json!({
        "type": "object",
        "properties": {
            "message": { "type": "string" },
            "errors": { "type": "array", "items": generator.subschema_for::<T>() },
        },
        "required": ["message"],
    })
}

/// The schema of a type that names no other, to stand where it is written.
pub fn schema_of<T: schemars::JsonSchema>() -> Value {
    json!(T::json_schema(&mut SchemaGenerator::default()))
}

/// The members of an object that is written as a value.
pub fn members(object: Value) -> serde_json::Map<String, Value> {
    match object {
        Value::Object(members) => members,
        _ => serde_json::Map::new(),
    }
}
