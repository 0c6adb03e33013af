//! A document of OpenAPI 3.1 as OpenAPI 3.0.3, for code generators, most of which know only a part
//! of JSON Schema. It has the same operations, fields and types. Conditions, patterns, alternatives,
//! defaults and parts of files are left out, because only validators need them. One object with all
//! the fields replaces several alternative objects. Only keywords that our API's document has are
//! converted.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

type Object = Map<String, Value>;

const VERSION: &str = "3.0.3";

const SCHEMAS: &str = "#/components/schemas/";

/// Keywords with the same meaning in both versions.
const SHARED_KEYWORDS: [&str; 10] = [
    "description",
    "format",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "deprecated",
];

/// The document in version 3.0.3.
pub fn convert(document: &Value) -> Value {
    let schemas = &document["components"]["schemas"];
    let mut converter = Converter { schemas, untyped: BTreeSet::new() };
    let untyped = schemas.as_object().into_iter().flatten();
    let untyped = untyped.filter(|(_, schema)| !has_type(&converter.schema(schema)));
    converter.untyped = untyped.map(|(name, _)| name.clone()).collect();

    let mut document = document.clone();
    document["openapi"] = VERSION.into();
    if let Some(root) = document.as_object_mut() {
        root.remove("webhooks");
    }
    document["info"]["license"] = json!({
        "name": document["info"]["license"]["name"],
        "url": "https://www.apache.org/licenses/LICENSE-2.0",
    });
    converter.rewrite(&mut document["paths"]);
    for kind in ["parameters", "headers", "responses"] {
        converter.rewrite(&mut document["components"][kind]);
    }
    let mut used = Object::new();
    let mut names = references(&document["paths"]);
    names.extend(references(&document["components"]["responses"]));
    while let Some(name) = names.pop_first() {
        if !used.contains_key(&name) {
            let schema = converter.schema(&schemas[&name]);
            names.extend(references(&schema));
            used.insert(name, schema);
        }
    }
    document["components"]["schemas"] = used.into();
    document
}

/// The names of the schemas that a value refers to.
fn references(value: &Value) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::Object(fields) => {
                names.extend(referenced(fields).map(str::to_owned));
                open.extend(fields.values());
            }
            Value::Array(elements) => open.extend(elements),
            _ => {}
        }
    }
    names
}

/// The name of the schema that a schema refers to.
fn referenced(schema: &Object) -> Option<&str> {
    schema.get("$ref")?.as_str()?.strip_prefix(SCHEMAS)
}

struct Converter<'a> {
    schemas: &'a Value,
    /// Names of schemas that accept values of several types.
    untyped: BTreeSet<String>,
}

impl Converter<'_> {
    /// Converts the schemas of operations and their parts, and removes what generators do not use.
    fn rewrite(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for name in ["x-codeSamples", "examples", "example", "links", "206"] {
                    fields.remove(name);
                }
                for (name, value) in fields.iter_mut() {
                    match name.as_str() {
                        "schema" => *value = self.schema(value),
                        "content" => self.rewrite_content(value),
                        _ => self.rewrite(value),
                    }
                }
            }
            Value::Array(elements) => elements.iter_mut().for_each(|value| self.rewrite(value)),
            _ => {}
        }
    }

    fn rewrite_content(&self, content: &mut Value) {
        for (media_type, media) in content.as_object_mut().into_iter().flatten() {
            self.rewrite(media);
            if !media_type.ends_with("json") && !media_type.starts_with("text/") {
                media["schema"] = json!({ "type": "string", "format": "binary" });
            }
        }
    }

    /// Converts a schema; null if it allows only null.
    fn schema(&self, schema: &Value) -> Value {
        let Some(from) = schema.as_object() else { return json!({}) };
        if let Some(name) = referenced(from) {
            let is_untyped = self.untyped.contains(name);
            return if is_untyped { json!({}) } else { json!({ "$ref": from["$ref"] }) };
        }
        let mut to = Object::new();
        for name in SHARED_KEYWORDS {
            if let Some(value) = from.get(name) {
                to.insert(name.into(), value.clone());
            }
        }
        // In 3.0, an exclusive limit is a flag of the limit.
        for (flag, limit) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
            if let Some(value) = from.get(flag) {
                to.insert(limit.into(), value.clone());
                to.insert(flag.into(), true.into());
            }
        }
        let mut types = types(from);
        let mut is_nullable = types.remove("null");
        if types.is_empty() && is_nullable {
            return Value::Null;
        }
        if let (Some(kind), 1) = (types.first(), types.len()) {
            to.insert("type".into(), (*kind).into());
        }
        let values = values(from).iter().filter(|value| !value.is_null());
        let values: Vec<Value> = values.cloned().collect();
        // Generators support only enums of strings.
        if !values.is_empty() && to.get("type").is_some_and(|kind| kind == "string") {
            to.insert("enum".into(), values.into());
        }
        self.add_parts(&mut to, from);
        for part in elements(from.get("allOf")) {
            add_requirements(&mut to, &self.resolved(part));
        }
        let mut has_common_type = true;
        for alternatives in [from.get("anyOf"), from.get("oneOf")].into_iter().flatten() {
            let alternatives = elements(Some(alternatives));
            is_nullable |= alternatives.iter().any(allows_null);
            let alternatives: Vec<&Value> =
                alternatives.iter().filter(|schema| !is_no_alternative(schema)).collect();
            has_common_type &= self.add_alternatives(&mut to, &alternatives);
        }
        if !has_common_type || !is_typed(&to) {
            to.retain(|name, _| name == "description");
        } else if is_nullable {
            to.insert("nullable".into(), true.into());
        }
        to.into()
    }

    /// Adds the properties, elements and additional fields of a schema.
    fn add_parts(&self, to: &mut Object, from: &Object) {
        if let Some(fields) = from.get("properties").and_then(Value::as_object) {
            let fields = fields.iter().map(|(name, field)| (name.clone(), self.schema(field)));
            let fields: Object = fields.filter(|(_, field)| !field.is_null()).collect();
            to.insert("type".into(), "object".into());
            to.insert("properties".into(), fields.into());
            if let Some(required) = from.get("required") {
                to.insert("required".into(), required.clone());
            }
        }
        if to.get("type").is_some_and(|kind| kind == "array") {
            let items = from.get("items").map_or_else(|| json!({}), |items| self.schema(items));
            to.insert("items".into(), items);
        }
        if let Some(additional) = from.get("additionalProperties") {
            let is_schema = additional.is_object();
            let additional = if is_schema { self.schema(additional) } else { additional.clone() };
            to.insert("additionalProperties".into(), additional);
        }
    }

    /// Adds the alternatives of a schema; false if they have no type in common.
    fn add_alternatives(&self, to: &mut Object, alternatives: &[&Value]) -> bool {
        let schemas: Vec<Value> = alternatives.iter().map(|schema| self.resolved(schema)).collect();
        if let ([alternative], [schema]) = (alternatives, schemas.as_slice()) {
            let alternative = self.schema(alternative);
            if is_object(schema) && alternative.get("$ref").is_some() {
                // In 3.0, keywords next to a `$ref` have no effect.
                to.insert("type".into(), "object".into());
                to.insert("allOf".into(), json!([alternative]));
            } else {
                add_requirements(to, schema);
            }
            return true;
        }
        if schemas.iter().all(is_object) {
            let union = schemas.into_iter().reduce(union).unwrap_or_default();
            add_requirements(to, &union);
            return true;
        }
        let kind = &schemas[0]["type"];
        let is_common = is_scalar(kind) && schemas.iter().all(|schema| schema["type"] == *kind);
        if is_common {
            to.insert("type".into(), kind.clone());
        }
        is_common
    }

    /// Converts the schema, or the schema that it refers to.
    fn resolved(&self, schema: &Value) -> Value {
        let name = schema.as_object().and_then(referenced);
        self.schema(name.map_or(schema, |name| &self.schemas[name]))
    }
}

/// The elements of an array; none of any other value.
fn elements(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The values of an enum, or the only value of a constant.
fn values(schema: &Object) -> &[Value] {
    match schema.get("const") {
        Some(value) => std::slice::from_ref(value),
        None => elements(schema.get("enum")),
    }
}

/// The types of a schema, or of its values.
fn types(schema: &Object) -> BTreeSet<&str> {
    let type_of = |value: &Value| match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    match schema.get("type") {
        Some(Value::String(kind)) => [kind.as_str()].into(),
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => values(schema).iter().map(type_of).collect(),
    }
}

fn has_type(schema: &Value) -> bool {
    schema.as_object().is_some_and(is_typed)
}

fn is_typed(schema: &Object) -> bool {
    ["type", "$ref", "allOf"].iter().any(|name| schema.contains_key(*name))
}

fn is_object(schema: &Value) -> bool {
    schema["type"] == "object"
}

fn is_scalar(kind: &Value) -> bool {
    ["string", "number", "integer", "boolean"].iter().any(|scalar| kind == scalar)
}

fn allows_null(schema: &Value) -> bool {
    schema.as_object().is_some_and(|schema| types(schema).contains("null"))
}

/// Whether a schema adds nothing to the alternatives next to it: it allows only null, or null and
/// the empty string (which mean the same), or any value.
fn is_no_alternative(schema: &Value) -> bool {
    let is_any = |schema: &Object| schema.keys().all(|name| name == "description");
    schema.as_object().is_some_and(is_any)
        || schema["type"] == "null"
        || schema["enum"] == json!([null, ""])
}

/// Adds the requirements of another schema for the same value.
fn add_requirements(to: &mut Object, schema: &Value) {
    if !is_object(schema) {
        for (name, value) in schema.as_object().into_iter().flatten() {
            to.entry(name).or_insert_with(|| value.clone());
        }
        return;
    }
    to.insert("type".into(), "object".into());
    let mut required = elements(to.get("required")).to_vec();
    for name in elements(schema.get("required")) {
        if !required.contains(name) {
            required.push(name.clone());
        }
    }
    if !required.is_empty() {
        to.insert("required".into(), required.into());
    }
    if let Some(additional) = schema.get("additionalProperties") {
        to.entry("additionalProperties").or_insert_with(|| additional.clone());
    }
    let Some(fields) = schema["properties"].as_object() else { return };
    let known = to.entry("properties").or_insert_with(|| json!({}));
    for (name, field) in fields {
        if !known.get(name).is_some_and(has_type) {
            known[name] = field.clone();
        }
    }
}

/// An object with the fields of two alternative objects. It requires the fields that both require.
fn union(mut first: Value, second: Value) -> Value {
    if let Some(names) = first.get_mut("required").and_then(Value::as_array_mut) {
        names.retain(|name| elements(second.get("required")).contains(name));
    }
    for (name, field) in second["properties"].as_object().into_iter().flatten() {
        let known = &mut first["properties"][name];
        if known.is_null() {
            *known = field.clone();
        } else if known != field {
            *known = common_part(known, field);
        }
    }
    first
}

/// The common part of two alternatives of a field.
fn common_part(first: &Value, second: &Value) -> Value {
    let kind = &first["type"];
    if *kind == second["type"] && is_scalar(kind) { json!({ "type": kind }) } else { json!({}) }
}
