//! Schemas of SCIM requests and responses, from the tables of attributes.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use super::query::PAGE;
use super::schema::{Attribute, COMMON, GROUPS, Kind, PATCH, ResourceSchema, SEARCH, USERS};
use super::{patch, projection};

/// The schema, or null, which counts as absent.
fn or_null(mut schema: Value) -> Value {
    if schema["type"].is_string() {
        schema["type"] = json!([schema["type"], "null"]);
        return schema;
    }
    json!({ "anyOf": [schema, { "type": "null" }] })
}

/// The schema with another description.
fn with_description(about: &str, mut schema: Value) -> Value {
    schema["description"] = about.into();
    schema
}

/// The schema of `schemas`, which must contain this URN.
fn schemas(urn: &str) -> Value {
    json!({ "type": "array", "contains": { "const": urn }, "description": format!("Has `{urn}`.") })
}

/// The schema of an attribute in requests.
fn read(attribute: &Attribute) -> Value {
    let single = match attribute.kind {
        Kind::Text | Kind::Reference(_) | Kind::DateTime => json!({
            "type": "string", "maxLength": attribute.max_length,
            "pattern": attribute.format.pattern(),
        }),
        Kind::Boolean => json!({ "anyOf": [
            { "type": "boolean" },
            { "type": "string", "pattern": format!("^(?:{}|{})$", any_case("true"), any_case("false")) },
        ] }),
        Kind::Complex(members) => json!({ "type": "object", "properties": readable(members) }),
    };
    // The id of a member or of a manager, as a plain string.
    let single = match attribute.value() {
        Some(value) => json!({ "anyOf": [single, read(value)] }),
        None => single,
    };
    // A manager may be in an array, too.
    let takes_array = attribute.is_multi_valued || attribute.value().is_some();
    let max_items = if attribute.is_multi_valued { attribute.max_values } else { 1 };
    let schema = match (takes_array, attribute.is_required) {
        (true, _) => json!({ "anyOf": [
            { "type": "array", "maxItems": max_items, "items": or_null(single.clone()) },
            or_null(single),
        ] }),
        (false, false) => or_null(single),
        (false, true) => {
            let mut single = single;
            single["minLength"] = 1.into();
            single
        }
    };
    with_description(attribute.description, schema)
}

/// The schemas of the writable attributes in requests, by name.
fn readable(attributes: &[Attribute]) -> Map<String, Value> {
    let written = attributes.iter().filter(|attribute| !attribute.is_read_only());
    written.map(|attribute| (attribute.name.to_owned(), read(attribute))).collect()
}

/// The schemas of all writable attributes in requests, including the schema extension.
fn writable(schema: &ResourceSchema) -> Map<String, Value> {
    let mut properties = readable(schema.attributes);
    if let Some(extension) = schema.extension {
        let members = readable(extension.members());
        properties.insert(extension.name.into(), json!({ "properties": members }));
    }
    properties
}

/// The schema of an attribute in responses.
fn response_schema(attribute: &Attribute) -> Value {
    let single = match attribute.kind {
        Kind::Text | Kind::Reference(_) | Kind::DateTime => json!({ "type": "string" }),
        Kind::Boolean => json!({ "type": "boolean" }),
        Kind::Complex(members) => {
            json!({ "type": "object", "properties": response_schemas(members) })
        }
    };
    let schema = if attribute.is_multi_valued {
        json!({ "type": "array", "items": single })
    } else {
        single
    };
    with_description(attribute.description, schema)
}

fn response_schemas(attributes: &[Attribute]) -> Map<String, Value> {
    attributes
        .iter()
        .map(|attribute| (attribute.name.to_owned(), response_schema(attribute)))
        .collect()
}

/// A user in requests. Null and an empty array count as absent. At most 64 KiB in total.
#[derive(JsonSchema)]
pub struct UserRequest(#[schemars(schema_with = "user_request")] ());

/// A group in requests. Null and an empty array count as absent.
#[derive(JsonSchema)]
pub struct GroupRequest(#[schemars(schema_with = "group_request")] ());

/// A user. Attributes are absent if they have no value or were not requested.
#[derive(JsonSchema)]
pub struct UserResource(#[schemars(schema_with = "user_resource")] ());

/// A group. Attributes are absent if they have no value or were not requested.
#[derive(JsonSchema)]
pub struct GroupResource(#[schemars(schema_with = "group_resource")] ());

/// A user or a group. Generated clients would define it before its parts, so it has no name.
#[derive(JsonSchema)]
#[schemars(inline)]
pub struct AnyResource(#[schemars(schema_with = "any_resource")] ());

/// Changes of a user.
#[derive(JsonSchema)]
pub struct UserPatchRequest(#[schemars(schema_with = "user_patch")] ());

/// Changes of a group.
#[derive(JsonSchema)]
pub struct GroupPatchRequest(#[schemars(schema_with = "group_patch")] ());

fn user_request(_: &mut SchemaGenerator) -> Schema {
    request(&USERS)
}

fn group_request(_: &mut SchemaGenerator) -> Schema {
    request(&GROUPS)
}

fn user_resource(_: &mut SchemaGenerator) -> Schema {
    resource(&USERS)
}

fn group_resource(_: &mut SchemaGenerator) -> Schema {
    resource(&GROUPS)
}

fn any_resource(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "anyOf": [
        generator.subschema_for::<UserResource>(), generator.subschema_for::<GroupResource>(),
    ] })
}

fn user_patch(_: &mut SchemaGenerator) -> Schema {
    patch_request(&USERS)
}

fn group_patch(_: &mut SchemaGenerator) -> Schema {
    patch_request(&GROUPS)
}

fn request(schema: &ResourceSchema) -> Schema {
    let mut properties = readable(COMMON);
    properties.extend(writable(schema));
    properties.insert("schemas".into(), schemas(schema.urn));
    let required = schema.attributes.iter().filter(|attribute| attribute.is_required);
    let required: Vec<&str> =
        ["schemas"].into_iter().chain(required.map(|attribute| attribute.name)).collect();
    json_schema!({ "type": "object", "properties": properties, "required": required })
}

fn resource(schema: &ResourceSchema) -> Schema {
    let mut properties = response_schemas(COMMON);
    properties.extend(response_schemas(schema.attributes));
    let mut urns = vec![schema.urn];
    if let Some(extension) = schema.extension {
        properties.insert(extension.name.into(), response_schema(extension));
        urns.push(extension.name);
    }
    properties.insert(
        "schemas".into(),
        json!({ "type": "array", "minItems": 1, "items": { "enum": urns } }),
    );
    properties.insert("id".into(), json!({ "type": "string", "format": "uuid" }));
    properties.insert(
        "meta".into(),
        json!({
            "type": "object",
            "properties": {
                "resourceType": { "const": schema.name },
                "created": { "type": "string", "format": "date-time" },
                "lastModified": { "type": "string", "format": "date-time" },
                "location": { "type": "string", "format": "uri" },
                "version": { "type": "string", "pattern": "^W/\"[0-9]+\"$" },
            },
        }),
    );
    json_schema!({ "type": "object", "properties": properties, "required": ["schemas", "id"] })
}

/// The parameters of a search.
#[derive(JsonSchema)]
pub struct SearchRequest(#[schemars(schema_with = "search_request")] ());

fn search_request(_: &mut SchemaGenerator) -> Schema {
    let names = json!({
        "type": ["array", "null"], "items": { "type": "string" }, "maxItems": projection::MAX,
    });
    let not_empty = json!({ "type": "array", "minItems": 1 });
    let number = json!({ "type": ["integer", "null"] });
    json_schema!({
        "type": "object",
        "properties": {
            "schemas": schemas(SEARCH),
            "filter": { "type": ["string", "null"] },
            "startIndex": with_description("First result, from 1; lower values count as 1.", number.clone()),
            "count": with_description(&format!("Page size; more than {PAGE} counts as {PAGE}."), number),
            "attributes": names,
            "excludedAttributes": with_description("Not allowed together with `attributes`.", names),
        },
        "required": ["schemas"],
        "not": {
            "properties": { "attributes": not_empty, "excludedAttributes": not_empty },
            "required": ["attributes", "excludedAttributes"],
        },
    })
}

fn patch_request(schema: &ResourceSchema) -> Schema {
    json_schema!({
        "type": "object",
        "properties": {
            "schemas": schemas(PATCH),
            "Operations": {
                "type": "array", "minItems": 1, "maxItems": patch::MAX,
                "items": with_description("One change; `op` is case-insensitive.", patch_operation(schema)),
            },
        },
        "required": ["schemas", "Operations"],
    })
}

fn patch_operation(schema: &ResourceSchema) -> Value {
    let path = json!({ "type": "string", "minLength": 1 });
    let add_or_replace = format!("^(?:{}|{})$", any_case("add"), any_case("replace"));
    let add_or_replace = json!({ "type": "string", "pattern": add_or_replace });
    let remove = format!("^{}$", any_case("remove"));
    json!({
        "type": "object",
        "anyOf": [
            {
                "description": "Adds or replaces the attributes in `value`.",
                "properties": {
                    "op": add_or_replace, "path": { "type": "null" },
                    "value": { "type": "object", "properties": writable(schema) },
                },
                "required": ["op", "value"],
            },
            {
                "description": "Adds `value` to the attribute at the path, or replaces it.",
                "properties": { "op": add_or_replace, "path": path, "value": true },
                "required": ["op", "path", "value"],
            },
            {
                "description": "Removes the attribute at the path, or the values that the path \
                                selects.",
                "properties": { "op": { "type": "string", "pattern": remove }, "path": path },
                "required": ["op", "path"],
            },
        ],
    })
}

/// A pattern that matches the word in any case.
fn any_case(word: &str) -> String {
    let letters = word.chars();
    letters.map(|c| format!("[{}{}]", c.to_ascii_lowercase(), c.to_ascii_uppercase())).collect()
}
