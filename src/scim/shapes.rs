//! Schemas of what SCIM reads and answers, from the table of what a user has.

use serde_json::{Map, Value, json};

use super::filter::{self, Operator};
use super::query::PAGE;
use super::schema::{
    Attribute, COMMON, DEPARTMENT, ENTERPRISE, Kind, LIST, LONGEST, MOST_VALUES, PATCH, SEARCH,
    USER, USER_ATTRIBUTES,
};
use super::{patch, projection};
use crate::gateway::openapi::shapes::{or_null, saying, shape};

/// That a body is one of these.
fn schemas(urn: &str) -> Value {
    json!({ "type": "array", "contains": { "const": urn }, "description": format!("Has `{urn}`.") })
}

/// What is read of an attribute.
fn read(attribute: &Attribute) -> Value {
    let one = match attribute.kind {
        Kind::Text => json!({
            "type": "string", "maxLength": LONGEST,
            "pattern": r"^[^\u0000-\u001f\u007f-\u009f]*$",
        }),
        Kind::Boolean => json!({ "anyOf": [
            { "type": "boolean" },
            { "type": "string", "pattern": format!("^(?:{}|{})$", any_case("true"), any_case("false")) },
        ] }),
        Kind::Complex(members) => json!({ "type": "object", "properties": readable(members) }),
    };
    let all = match (attribute.is_multi_valued, attribute.is_required) {
        (true, _) => json!({ "anyOf": [
            { "type": "array", "maxItems": MOST_VALUES, "items": or_null(one.clone()) },
            or_null(one),
        ] }),
        (false, false) => or_null(one),
        (false, true) => {
            let mut one = one;
            one["minLength"] = 1.into();
            one
        }
    };
    saying(attribute.description, all)
}

/// What is read of those that a client may write, by their names.
fn readable(attributes: &[Attribute]) -> Map<String, Value> {
    let written = attributes.iter().filter(|attribute| !attribute.is_read_only);
    written.map(|attribute| (attribute.name.to_owned(), read(attribute))).collect()
}

/// What is read of a user's own attributes, and of the schema that has one of them, too.
fn writable() -> Map<String, Value> {
    let mut properties = readable(USER_ATTRIBUTES);
    let department = properties.get(DEPARTMENT).cloned();
    properties.insert(ENTERPRISE.into(), json!({ "properties": { DEPARTMENT: department } }));
    properties
}

/// What is answered of an attribute.
fn answered(attribute: &Attribute) -> Value {
    let one = match attribute.kind {
        Kind::Text => json!({ "type": "string" }),
        Kind::Boolean => json!({ "type": "boolean" }),
        Kind::Complex(members) => json!({ "type": "object", "properties": answerable(members) }),
    };
    let all =
        if attribute.is_multi_valued { json!({ "type": "array", "items": one }) } else { one };
    saying(attribute.description, all)
}

fn answerable(attributes: &[Attribute]) -> Map<String, Value> {
    attributes.iter().map(|attribute| (attribute.name.to_owned(), answered(attribute))).collect()
}

shape! {
    /// A user as it is written. Null and an empty array are no value. At most 64 KiB all together.
    pub UserRequest = |_| {
        let mut properties = readable(COMMON);
        properties.extend(writable());
        properties.insert("schemas".into(), schemas(USER));
        let required = USER_ATTRIBUTES.iter().filter(|attribute| attribute.is_required);
        let required: Vec<&str> = ["schemas"].into_iter().chain(required.map(|one| one.name)).collect();
        json!({ "type": "object", "properties": properties, "required": required })
    }
}

shape! {
    /// A user. Attributes without a value are absent, and so are those that were not asked for.
    pub UserResource = |_| {
        let mut properties = answerable(COMMON);
        properties.extend(answerable(USER_ATTRIBUTES));
        properties.insert("schemas".into(), json!({ "const": [USER] }));
        properties.insert("id".into(), json!({ "type": "string", "format": "uuid" }));
        properties.insert("meta".into(), json!({
            "type": "object",
            "properties": {
                "resourceType": { "const": "User" },
                "created": { "type": "string", "format": "date-time" },
                "lastModified": { "type": "string", "format": "date-time" },
                "location": { "type": "string", "format": "uri" },
                "version": { "type": "string", "pattern": "^W/\"[0-9]+\"$" },
            },
        }));
        json!({ "type": "object", "properties": properties, "required": ["schemas", "id"] })
    }
}

/// A list response of resources of this schema.
fn list_of(resource: impl serde::Serialize) -> Value {
    let count = json!({ "type": "integer", "minimum": 0 });
    json!({
        "type": "object",
        "properties": {
            "schemas": { "const": [LIST] },
            "totalResults": saying("All there are.", count.clone()),
            "startIndex": { "type": "integer", "minimum": 1 },
            "itemsPerPage": saying("Those in `Resources`.", count),
            "Resources": { "type": "array", "items": resource },
        },
        "required": ["schemas", "totalResults", "startIndex", "itemsPerPage", "Resources"],
    })
}

shape! {
    /// A page of users.
    pub ListResponse = |generator| {
        let mut list = list_of(generator.subschema_for::<UserResource>());
        list["properties"]["Resources"]["maxItems"] = PAGE.into();
        list
    }
}

shape! {
    /// What a search is for.
    pub SearchRequest = |_| {
        let names = json!({
            "type": ["array", "null"], "items": { "type": "string" }, "maxItems": projection::MOST,
        });
        let some = json!({ "type": "array", "minItems": 1 });
        let number = json!({ "type": ["integer", "null"] });
        json!({
            "type": "object",
            "properties": {
                "schemas": schemas(SEARCH),
                "filter": { "type": ["string", "null"], "pattern": filter_pattern() },
                "startIndex": saying("From 1; less counts as 1.", number.clone()),
                "count": saying(&format!("More than {PAGE} counts as {PAGE}."), number),
                "attributes": names,
                "excludedAttributes": saying("Not beside `attributes`.", names),
            },
            "required": ["schemas"],
            "not": {
                "properties": { "attributes": some, "excludedAttributes": some },
                "required": ["attributes", "excludedAttributes"],
            },
        })
    }
}

shape! {
    /// Changes of a user.
    pub PatchRequest = |generator| json!({
        "type": "object",
        "properties": {
            "schemas": schemas(PATCH),
            "Operations": {
                "type": "array", "minItems": 1, "maxItems": patch::MOST,
                "items": generator.subschema_for::<PatchOperation>(),
            },
        },
        "required": ["schemas", "Operations"],
    })
}

shape! {
    /// One change; `op` in any case.
    pub PatchOperation = |_| {
        let path = json!({ "type": "string", "minLength": 1 });
        let gives = format!("^(?:{}|{})$", any_case("add"), any_case("replace"));
        let gives = json!({ "type": "string", "pattern": gives });
        let takes = format!("^{}$", any_case("remove"));
        json!({
            "type": "object",
            "anyOf": [
                {
                    "description": "Attributes are added or replaced.",
                    "properties": {
                        "op": gives, "path": { "type": "null" },
                        "value": { "type": "object", "properties": writable() },
                    },
                    "required": ["op", "value"],
                },
                {
                    "description": "What the path names is added to or replaced.",
                    "properties": { "op": gives, "path": path, "value": true },
                    "required": ["op", "path", "value"],
                },
                {
                    "description": "What the path names is removed.",
                    "properties": {
                        "op": { "type": "string", "pattern": takes },
                        "path": path, "value": { "type": "null" },
                    },
                    "required": ["op", "path"],
                },
            ],
        })
    }
}

/// Any word of these letters, in upper or lower case.
fn any_case(word: &str) -> String {
    let letters = word.chars().map(|c| match c.is_ascii_alphabetic() {
        true => format!("[{}{}]", c.to_ascii_lowercase(), c.to_ascii_uppercase()),
        false => c.to_string(),
    });
    letters.collect()
}

/// What a filter looks like that is taken.
pub(super) fn filter_pattern() -> String {
    const GAP: &str = "[ +]*";
    const STRING: &str = concat!(
        r#""(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|"#,
        r#"u(?:[0-9abcefABCEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2})))*""#
    );
    let urn = any_case(USER).replace('.', r"\.");
    let operators = Operator::ALL.map(|(name, _)| any_case(name)).join("|");
    let comparison = format!(
        "{GAP}(?:{urn}:)?{}[ +]{GAP}(?:{operators}){GAP}{STRING}{GAP}",
        any_case("userName")
    );
    let and = any_case("and");
    format!("^{comparison}(?:{and}[ +]{comparison}){{0,{}}}$", filter::MOST - 1)
}

/// What every resource about the service has.
fn about_service(properties: &Value) -> Value {
    let mut shape = json!({
        "type": "object",
        "properties": {
            "schemas": { "type": "array", "items": { "type": "string" } },
            "meta": {
                "type": "object",
                "properties": {
                    "resourceType": { "type": "string" },
                    "location": { "type": "string", "format": "uri" },
                },
                "required": ["resourceType", "location"],
            },
        },
    });
    let own = properties.as_object().cloned().unwrap_or_default();
    if let Some(all) = shape["properties"].as_object_mut() {
        all.extend(own);
        let required: Vec<Value> = all.keys().cloned().map(Value::from).collect();
        shape["required"] = required.into();
    }
    shape
}

shape! {
    /// What the service can do (RFC 7643 section 5).
    pub ServiceProviderConfig = |_| {
        let number = json!({ "type": "integer", "minimum": 0 });
        let supported = |more: Value| {
            let mut properties = json!({ "supported": { "type": "boolean" } });
            for (name, schema) in more.as_object().into_iter().flatten() {
                properties[name] = schema.clone();
            }
            json!({ "type": "object", "properties": properties, "required": ["supported"] })
        };
        about_service(&json!({
            "patch": supported(json!({})),
            "bulk": supported(json!({ "maxOperations": number, "maxPayloadSize": number })),
            "filter": supported(json!({ "maxResults": number })),
            "changePassword": supported(json!({})),
            "sort": supported(json!({})),
            "etag": supported(json!({})),
            "authenticationSchemes": { "type": "array", "items": {
                "type": "object",
                "properties": {
                    "type": { "type": "string" }, "name": { "type": "string" },
                    "description": { "type": "string" }, "primary": { "type": "boolean" },
                },
                "required": ["type", "name", "description"],
            } },
        }))
    }
}

shape! {
    /// A kind of resources (RFC 7643 section 6).
    pub ResourceTypeResource = |_| about_service(&json!({
        "id": { "type": "string" }, "name": { "type": "string" },
        "endpoint": { "type": "string" }, "description": { "type": "string" },
        "schema": { "type": "string" },
    }))
}

shape! {
    /// All kinds of resources.
    pub ResourceTypeList = |generator| list_of(generator.subschema_for::<ResourceTypeResource>())
}

shape! {
    /// The attributes of a kind of resources (RFC 7643 section 7).
    pub SchemaResource = |generator| about_service(&json!({
        "id": { "type": "string" }, "name": { "type": "string" }, "description": { "type": "string" },
        "attributes": { "type": "array", "items": generator.subschema_for::<SchemaAttribute>() },
    }))
}

shape! {
    /// One attribute.
    pub SchemaAttribute = |generator| {
        let inside = generator.subschema_for::<SchemaAttribute>();
        json!({
            "type": "object",
            "properties": {
                "name": { "type": "string" },
                "type": { "enum": ["string", "boolean", "complex"] },
                "multiValued": { "type": "boolean" },
                "description": { "type": "string" },
                "required": { "type": "boolean" },
                "mutability": { "enum": ["readOnly", "readWrite"] },
                "returned": { "const": "default" },
                "caseExact": { "type": "boolean" },
                "uniqueness": { "enum": ["server", "none"] },
                "canonicalValues": { "type": "array", "items": { "type": "string" } },
                "subAttributes": { "type": "array", "items": inside },
            },
            "required": ["name", "type", "multiValued", "description", "required", "mutability", "returned"],
        })
    }
}

shape! {
    /// The attributes of all kinds of resources.
    pub SchemaList = |generator| list_of(generator.subschema_for::<SchemaResource>())
}
