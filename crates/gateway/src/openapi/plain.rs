//! The document as OpenAPI 3.0.3, for code generators, most of which know only a part of JSON
//! Schema. It has the same operations, fields and types. Conditions, patterns, alternatives and
//! defaults are left out, because only validators need them. One object with all the fields
//! replaces several alternative objects.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

type Object = Map<String, Value>;

const VERSION: &str = "3.0.3";

const SCHEMAS: &str = "#/components/schemas/";

/// Keywords with the same meaning in both versions.
const KEPT: [&str; 13] = [
    "description",
    "format",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "uniqueItems",
    "deprecated",
];

/// Converts a document of OpenAPI 3.1.
pub fn plain(document: &Value) -> Value {
    let schemas = document["components"]["schemas"].as_object().cloned().unwrap_or_default();
    let mut reader = Reader { schemas, untyped: BTreeSet::new() };
    // A schema can be without a type because it refers to one.
    loop {
        let untyped: BTreeSet<String> = reader
            .schemas
            .iter()
            .filter(|(_, schema)| !is_typed(&reader.read(schema)))
            .map(|(name, _)| name.clone())
            .collect();
        if untyped == reader.untyped {
            break;
        }
        reader.untyped = untyped;
    }
    let mut plain = document.clone();
    plain["openapi"] = VERSION.into();
    if let Some(root) = plain.as_object_mut() {
        root.remove("webhooks");
    }
    if let Some(license) = plain["info"]["license"].as_object_mut() {
        license.remove("identifier");
        license.insert("url".into(), "https://www.apache.org/licenses/LICENSE-2.0".into());
    }
    reader.rewrite(&mut plain["paths"]);
    for kind in ["parameters", "headers", "responses"] {
        reader.rewrite(&mut plain["components"][kind]);
    }
    let mut used = Object::new();
    let mut wanted = references(&plain["paths"]);
    wanted.extend(references(&plain["components"]["responses"]));
    while let Some(name) = wanted.pop_first() {
        if let Some(schema) = reader.schemas.get(&name).filter(|_| !used.contains_key(&name)) {
            let schema = reader.read(schema);
            wanted.extend(references(&schema));
            used.insert(name, schema);
        }
    }
    used.sort_keys();
    plain["components"]["schemas"] = used.into();
    plain
}

/// The names of the schemas that a value refers to.
fn references(value: &Value) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::Object(fields) => {
                names.extend(referred(fields).map(str::to_owned));
                open.extend(fields.values());
            }
            Value::Array(elements) => open.extend(elements),
            _ => {}
        }
    }
    names
}

fn referred(schema: &Object) -> Option<&str> {
    schema.get("$ref")?.as_str()?.strip_prefix(SCHEMAS)
}

fn is_typed(schema: &Value) -> bool {
    ["type", "$ref", "allOf"].iter().any(|name| schema.get(name).is_some())
}

fn is_object(schema: &Value) -> bool {
    schema["type"] == "object"
}

struct Reader {
    schemas: Object,
    /// Names of schemas that accept values of several types.
    untyped: BTreeSet<String>,
}

impl Reader {
    /// Replaces the schemas of operations and their parts, and removes what generators do not use.
    fn rewrite(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for name in ["x-codeSamples", "examples", "example", "links"] {
                    fields.remove(name);
                }
                for (name, value) in fields.iter_mut() {
                    match name.as_str() {
                        "schema" => *value = self.read(value),
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

    /// Converts a schema to 3.0.3; null if the schema allows only null.
    fn read(&self, schema: &Value) -> Value {
        let Some(from) = schema.as_object() else { return json!({}) };
        if let Some(name) = referred(from) {
            return match self.untyped.contains(name) {
                true => json!({}),
                false => json!({ "$ref": from["$ref"] }),
            };
        }
        let mut to: Object = KEPT
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), from.get(*name)?.clone())))
            .collect();
        for name in ["exclusiveMinimum", "exclusiveMaximum"] {
            if let Some(limit) = to.remove(name) {
                to.insert(name.replace("exclusiveM", "m"), limit);
                to.insert(name.to_owned(), true.into());
            }
        }
        let mut types = types(from);
        let mut nullable = types.remove("null");
        if types.contains("number") {
            types.remove("integer");
        }
        if types.is_empty() && nullable {
            return Value::Null;
        }
        let fixed = from.get("const").map(std::slice::from_ref);
        let values = from.get("enum").and_then(Value::as_array).map(Vec::as_slice).or(fixed);
        let values = values.unwrap_or_default().iter().filter(|value| !value.is_null());
        let values: Vec<Value> = values.cloned().collect();
        // Generators support only enums of strings.
        if !values.is_empty() && types.iter().eq(&["string"]) {
            to.insert("enum".into(), values.into());
        }
        let mut several = types.len() > 1;
        if let (Some(kind), false) = (types.pop_first(), several) {
            to.insert("type".into(), kind.into());
        }
        self.read_fields(from, &mut to);
        for part in from.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            add_whole(&mut to, &self.followed(part));
        }
        for name in ["anyOf", "oneOf"] {
            let Some(parts) = from.get(name).and_then(Value::as_array) else { continue };
            let parts = parts.iter().filter(|part| {
                nullable |= allows_null(part);
                !is_no_alternative(part)
            });
            several |= !self.add_alternatives(&mut to, &parts.collect::<Vec<_>>());
        }
        if several || !is_typed(&Value::Object(to.clone())) {
            to.retain(|name, _| name == "description");
        } else if nullable {
            to.insert("nullable".into(), true.into());
        }
        to.into()
    }

    /// Converts properties, elements and additional fields.
    fn read_fields(&self, from: &Object, to: &mut Object) {
        if let Some(fields) = from.get("properties").and_then(Value::as_object) {
            let fields = fields.iter().map(|(name, field)| (name.clone(), self.read(field)));
            let fields: Object = fields.filter(|(_, field)| !field.is_null()).collect();
            if let Some(required) = from.get("required").and_then(Value::as_array) {
                let is_field =
                    |name: &&Value| name.as_str().is_some_and(|name| fields.contains_key(name));
                let required: Vec<Value> = required.iter().filter(is_field).cloned().collect();
                if !required.is_empty() {
                    to.insert("required".into(), required.into());
                }
            }
            to.insert("type".into(), "object".into());
            to.insert("properties".into(), fields.into());
        }
        if to.get("type").is_some_and(|kind| kind == "array") {
            let items = from.get("items").map_or(json!({}), |items| self.read(items));
            to.insert("items".into(), if items.is_null() { json!({}) } else { items });
        }
        match from.get("additionalProperties") {
            None => {}
            Some(Value::Bool(further)) => {
                to.insert("additionalProperties".into(), (*further).into());
            }
            Some(further) => {
                let further = self.read(further);
                if !further.is_null() {
                    to.insert("additionalProperties".into(), further);
                }
            }
        }
    }

    /// Adds the alternatives of a schema; false if they have no type in common.
    fn add_alternatives(&self, to: &mut Object, parts: &[&Value]) -> bool {
        let read: Vec<Value> = parts.iter().map(|part| self.followed(part)).collect();
        if let ([part], [meant], false) = (parts, read.as_slice(), to.contains_key("type")) {
            let reference = self.read(part);
            if is_object(meant) && reference.get("$ref").is_some() {
                to.insert("type".into(), "object".into());
                to.insert("allOf".into(), json!([reference]));
            } else {
                add_whole(to, meant);
            }
            return is_typed(&Value::Object(to.clone()));
        }
        if read.iter().all(is_object) {
            let mut union = Object::new();
            for (number, part) in read.iter().enumerate() {
                if number == 0 {
                    add_object(&mut union, part, true);
                } else {
                    add_object(&mut union, part, false);
                }
            }
            add_object(to, &union.into(), true);
            return true;
        }
        let kinds: BTreeSet<&str> = read.iter().filter_map(|part| part["type"].as_str()).collect();
        match (kinds.first(), kinds.len(), read.iter().all(is_typed)) {
            (Some(kind), 1, true) if *kind != "array" && *kind != "object" => {
                to.insert("type".into(), (*kind).into());
                true
            }
            _ => to.contains_key("type"),
        }
    }

    /// The schema, or the schema that it refers to.
    fn followed(&self, schema: &Value) -> Value {
        let name = schema.as_object().and_then(referred);
        self.read(name.and_then(|name| self.schemas.get(name)).unwrap_or(schema))
    }
}

/// The types of a schema, or of its values.
fn types(schema: &Object) -> BTreeSet<&str> {
    let of = |value: &Value| match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    match (schema.get("type"), schema.get("enum"), schema.get("const")) {
        (Some(Value::String(kind)), ..) => [kind.as_str()].into(),
        (Some(Value::Array(kinds)), ..) => kinds.iter().filter_map(Value::as_str).collect(),
        (_, Some(Value::Array(values)), _) => values.iter().map(of).collect(),
        (.., Some(value)) => [of(value)].into(),
        _ => BTreeSet::new(),
    }
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
fn add_whole(to: &mut Object, part: &Value) {
    if is_object(part) {
        add_object(to, part, true);
    } else {
        for (name, value) in part.as_object().into_iter().flatten() {
            to.entry(name).or_insert(value.clone());
        }
    }
}

/// Adds the fields of an object: as they are, or as those of an alternative.
fn add_object(to: &mut Object, part: &Value, is_whole: bool) {
    to.insert("type".into(), "object".into());
    let names = |value: Option<&Value>| -> Vec<Value> {
        value.and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let (had, has) = (names(to.get("required")), names(part.get("required")));
    let required: Vec<Value> = match is_whole {
        true => had.iter().chain(has.iter().filter(|name| !had.contains(name))).cloned().collect(),
        false => had.into_iter().filter(|name| has.contains(name)).collect(),
    };
    to.remove("required");
    if !required.is_empty() {
        to.insert("required".into(), required.into());
    }
    if let Some(further) = part.get("additionalProperties") {
        to.entry("additionalProperties").or_insert(further.clone());
    }
    let Some(fields) = part["properties"].as_object() else { return };
    let known = to.entry("properties").or_insert_with(|| json!({}));
    for (name, field) in fields {
        match known.get_mut(name) {
            None => known[name] = field.clone(),
            Some(known) if !is_typed(known) && is_whole => *known = field.clone(),
            Some(_) if is_whole => {}
            Some(known) if known == field => {}
            Some(known) => *known = common(known, field),
        }
    }
}

/// The common part of two alternatives of a field.
fn common(one: &Value, other: &Value) -> Value {
    let kind = &one["type"];
    match kind == &other["type"]
        && ["string", "number", "integer", "boolean"].iter().any(|known| kind == known)
    {
        true => json!({ "type": kind }),
        false => json!({}),
    }
}
