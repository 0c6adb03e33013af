//! Seeds from what describes a format: the API document and the schema of the workspace file. A
//! field that a request type gains is in the next seeds.

use std::cell::RefCell;
use std::sync::LazyLock;

use longshore::config::Config;
use longshore::routes;
use longshore::workspace_file::document::json_schema;
use regex::Regex;
use serde_json::{Map, Value, json};
use url::form_urlencoded::Serializer;
use uuid::Uuid;

/// The UUID in every seed.
pub const ID: Uuid = Uuid::from_u128(0x5f0e6b1a_9c3d_4e7f_8a2b_1c0d9e8f7a6b);

/// A string without a pattern.
pub const TEXT: &str = "acme";

/// Strings for a pattern: the first that matches.
const TEXTS: [&str; 12] = [
    TEXT,
    "ann@acme.example",
    "+15550100",
    "https://acme.example/",
    "2127-01-01T09:00:00Z",
    "custom_attributes.tier",
    "add",
    "userName eq \"ann@acme.example\"",
    "True",
    "EUR",
    "1990-02-28",
    "5f0e6b1a-9c3d-4e7f-8a2b-1c0d9e8f7a6b",
];

/// Values of one schema, at most. The first has every field.
const VALUES: usize = 100;

/// Levels of schemas in schemas.
const DEPTH: usize = 24;

/// Levels of a schema in itself.
const SELF_DEPTH: usize = 2;

/// Values of an enumeration.
const ENUMERATED: usize = 12;

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| routes(None).document(&Config::default()));

static WORKSPACE_FILE: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(&json_schema()).expect("a schema is JSON"));

/// What describes the inputs of a target.
#[derive(Clone, Copy)]
pub enum Source {
    /// The request body of an operation, by its id.
    Body(&'static str),
    /// A field of that body.
    Field(&'static str, &'static str),
    /// The query parameters of an operation.
    Query(&'static str),
    WorkspaceFile,
}

impl Source {
    pub(crate) fn seeds(self) -> Vec<Vec<u8>> {
        let values = match self {
            Self::Body(id) => {
                let media = body(id);
                let examples = media["examples"].as_object().into_iter().flat_map(Map::values);
                let examples = examples.map(|example| example["value"].clone());
                examples.chain(values(&DOCUMENT, &media["schema"])).collect()
            }
            Self::Field(id, name) => {
                let schema = resolved(&DOCUMENT, &body(id)["schema"]);
                values(&DOCUMENT, &schema["properties"][name])
            }
            Self::Query(id) => return queries(operation(id)),
            Self::WorkspaceFile => values(&WORKSPACE_FILE, &WORKSPACE_FILE),
        };
        values.iter().map(|value| value.to_string().into_bytes()).collect()
    }

    /// The names of the fields that its schema describes next to each other at the top.
    #[cfg(test)]
    pub(crate) fn fields(self) -> Vec<String> {
        let Self::Body(id) = self else { return Vec::new() };
        let schema = resolved(&DOCUMENT, &body(id)["schema"]);
        schema["properties"].as_object().into_iter().flat_map(Map::keys).cloned().collect()
    }
}

fn operation(id: &str) -> &'static Value {
    let paths = DOCUMENT["paths"].as_object().into_iter().flat_map(Map::values);
    let mut operations = paths.filter_map(Value::as_object).flat_map(Map::values);
    operations
        .find(|operation| operation["operationId"] == id)
        .unwrap_or_else(|| panic!("no operation {id}"))
}

fn body(id: &str) -> &'static Value {
    let content = operation(id)["requestBody"]["content"].as_object();
    content.and_then(|content| content.values().next()).expect("a body")
}

/// Queries with every parameter, and with each value of each.
fn queries(operation: &Value) -> Vec<Vec<u8>> {
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let parameters = parameters.filter(|parameter| parameter["in"] == "query");
    let parameters: Vec<_> = parameters
        .map(|parameter| {
            (
                parameter["name"].as_str().unwrap_or_default(),
                values(&DOCUMENT, &parameter["schema"]),
            )
        })
        .collect();
    let written = |pairs: &[(&str, &Value)]| {
        let mut query = Serializer::new(String::new());
        for (name, value) in pairs {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            query.append_pair(name, &text);
        }
        query.finish().into_bytes()
    };
    let every: Vec<_> = parameters.iter().map(|(name, values)| (*name, &values[0])).collect();
    let mut queries = vec![written(&every)];
    for (name, values) in &parameters {
        queries.extend(values.iter().map(|value| written(&[(name, value)])));
    }
    queries
}

fn resolved<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let pointer = schema["$ref"].as_str().and_then(|path| path.strip_prefix('#'));
    match pointer {
        Some(pointer) => resolved(root, root.pointer(pointer).expect("a schema that exists")),
        None => schema,
    }
}

/// Values of a schema. Most are valid; what a schema cannot express may make one invalid.
fn values(root: &Value, schema: &Value) -> Vec<Value> {
    Sampler { root, references: RefCell::default() }.values(schema, 0)
}

struct Sampler<'a> {
    root: &'a Value,
    /// The references in progress, from the outermost.
    references: RefCell<Vec<String>>,
}

impl Sampler<'_> {
    fn values(&self, schema: &Value, depth: usize) -> Vec<Value> {
        let Some(reference) = schema["$ref"].as_str() else {
            return self.values_here(schema, depth);
        };
        let is_same = |other: &&String| *other == reference;
        if self.references.borrow().iter().filter(is_same).count() > SELF_DEPTH {
            return vec![Value::Null];
        }
        self.references.borrow_mut().push(reference.to_owned());
        let values = self.values_here(resolved(self.root, schema), depth);
        self.references.borrow_mut().pop();
        values
    }

    fn values_here(&self, schema: &Value, depth: usize) -> Vec<Value> {
        if depth > DEPTH {
            return vec![Value::Null];
        }
        if let Some(value) = schema.get("const") {
            return vec![value.clone()];
        }
        if let Some(values) = schema["enum"].as_array() {
            return values.iter().take(ENUMERATED).cloned().collect();
        }
        let mut values = match is_object(schema) {
            true => self.objects(schema, depth),
            false => self.others(schema, depth),
        };
        let kinds = &schema["type"];
        if kinds.as_array().is_some_and(|kinds| kinds.contains(&json!("null"))) {
            values.push(Value::Null);
        }
        if values.is_empty() {
            values.push(json!(TEXT));
        }
        values.truncate(VALUES);
        values
    }

    fn others(&self, schema: &Value, depth: usize) -> Vec<Value> {
        let mut values = elements(&schema["examples"]).cloned().collect::<Vec<_>>();
        let unions: Vec<_> = ["anyOf", "oneOf", "allOf"]
            .into_iter()
            .flat_map(|name| elements(&schema[name]))
            .map(|branch| self.values(branch, depth + 1))
            .collect();
        // The first of each branch comes first.
        let longest = unions.iter().map(Vec::len).max().unwrap_or_default();
        for number in 0..longest {
            values.extend(unions.iter().filter_map(|union| union.get(number)).cloned());
        }
        let kinds = match &schema["type"] {
            Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
            kind => Vec::from_iter(kind.as_str()),
        };
        for kind in kinds {
            match kind {
                "string" if values.is_empty() => values.push(text(schema).into()),
                "boolean" => values.extend([true.into(), false.into()]),
                "integer" | "number" => values.extend(numbers(schema)),
                "array" => values.extend(self.arrays(schema, depth)),
                "object" => values.push(json!({ TEXT: TEXT })),
                _ => {}
            }
        }
        values
    }

    fn arrays(&self, schema: &Value, depth: usize) -> [Value; 3] {
        let element = match schema.get("items") {
            Some(element) => element,
            None => &schema["contains"],
        };
        let mut all = self.values(element, depth + 1);
        let first = json!([all[0]]);
        let max_items =
            schema["maxItems"].as_u64().and_then(|max_items| usize::try_from(max_items).ok());
        all.truncate(max_items.unwrap_or(VALUES).min(ENUMERATED));
        [first, all.into(), json!([])]
    }

    /// An object with every field, the same with each further value of each, one with what is
    /// required, that with each further field, and one for each branch of a union.
    fn objects(&self, schema: &Value, depth: usize) -> Vec<Value> {
        let mut fields: Map<String, Value> = Map::new();
        let mut further = Vec::new();
        self.fields(schema, depth, &mut fields, &mut further);
        let mut least = Map::new();
        self.require(schema, &fields, depth, &mut least);
        let mut values = vec![Value::Object(fields.clone()), Value::Object(least.clone())];
        let branches = self.branches(schema);
        for branch in branches {
            let mut object = least.clone();
            self.require(branch, &fields, depth, &mut object);
            values.push(object.into());
        }
        for (name, value) in &fields {
            let mut object = least.clone();
            if object.insert(name.clone(), value.clone()).is_none() {
                values.push(object.into());
            }
        }
        for (name, value) in further {
            for object in [&fields, &least] {
                let mut object = object.clone();
                object.insert(name.clone(), value.clone());
                values.push(object.into());
            }
        }
        values
    }

    fn branches<'b>(&'b self, schema: &'b Value) -> Vec<&'b Value> {
        let parts = elements(&schema["allOf"]).flat_map(|part| self.branches(part));
        let unions = ["anyOf", "oneOf"].into_iter().flat_map(|name| elements(&schema[name]));
        unions.map(|branch| resolved(self.root, branch)).chain(parts).collect()
    }

    /// The first value of each field of an object, and the further ones.
    fn fields(
        &self,
        schema: &Value,
        depth: usize,
        first: &mut Map<String, Value>,
        further: &mut Vec<(String, Value)>,
    ) {
        let schema = resolved(self.root, schema);
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            if !first.contains_key(name) {
                let mut values = self.values(schema, depth + 1).into_iter();
                first.insert(name.clone(), values.next().unwrap_or_default());
                further.extend(values.map(|value| (name.clone(), value)));
            }
        }
        for name in ["allOf", "anyOf", "oneOf"] {
            for part in elements(&schema[name]) {
                self.fields(part, depth + 1, first, further);
            }
        }
        if schema["additionalProperties"].is_object() {
            let values = self.values(&schema["additionalProperties"], depth + 1);
            further.extend(values.into_iter().map(|value| (TEXT.to_owned(), value)));
        }
    }

    /// Adds what a schema requires, and what it allows one value only.
    fn require(
        &self,
        schema: &Value,
        fields: &Map<String, Value>,
        depth: usize,
        object: &mut Map<String, Value>,
    ) {
        let schema = resolved(self.root, schema);
        if depth > DEPTH {
            return;
        }
        elements(&schema["allOf"]).for_each(|part| self.require(part, fields, depth + 1, object));
        let conditions = elements(&schema["if"]["allOf"]).chain([schema, &schema["if"]]);
        let mut forms = conditions.flat_map(|part| elements(&part["anyOf"]));
        if let Some(part) = forms.next().filter(|_| depth == 0) {
            self.require(part, fields, depth + 1, object);
        }
        for name in elements(&schema["required"]).filter_map(Value::as_str) {
            let described = &schema["properties"][name];
            let value = match described.get("const").or(described["enum"].get(0)) {
                Some(value) => value.clone(),
                None if fields.get(name).is_none_or(Value::is_null) => {
                    self.values(described, depth + 1).swap_remove(0)
                }
                None => fields[name].clone(),
            };
            object.insert(name.to_owned(), value);
        }
    }
}

fn is_object(schema: &Value) -> bool {
    schema["properties"].is_object() || schema["additionalProperties"].is_object()
}

fn elements(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(schema: &Value) -> String {
    match schema["format"].as_str() {
        Some("uuid") => return ID.to_string(),
        Some("date-time") => return "2127-01-01T09:00:00Z".to_owned(),
        Some("date") => return "2127-01-01".to_owned(),
        _ => {}
    }
    let pattern = schema["pattern"].as_str().and_then(|pattern| Regex::new(pattern).ok());
    let fits = |text: &&&str| pattern.as_ref().is_none_or(|pattern| pattern.is_match(text));
    TEXTS.iter().find(fits).unwrap_or(&TEXT).to_string()
}

fn numbers(schema: &Value) -> Vec<Value> {
    let limits = ["minimum", "maximum"].into_iter().filter_map(|name| schema.get(name)).cloned();
    let mut numbers: Vec<_> = limits.collect();
    if schema["exclusiveMinimum"].is_number() || numbers.is_empty() {
        numbers.insert(0, json!(1));
    }
    numbers
}
