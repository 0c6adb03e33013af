//! The API's document, held against what is answered.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use boon::{Compiler, Draft, SchemaIndex, Schemas};
use longshore::config::Config;
use longshore::routes;
use reqwest::Method;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

/// The document of this program.
pub static CONTRACT: LazyLock<Contract> =
    LazyLock::new(|| Contract::new(routes(None).document(&Config::default())));

pub struct Contract {
    pub document: Value,
    /// With no member in any object that is not described, which clients may not rely on.
    closed: Value,
    validators: Mutex<HashMap<String, Arc<Validator>>>,
}

impl Contract {
    fn new(document: Value) -> Self {
        let mut closed = document.clone();
        close(&mut closed["components"]["schemas"]);
        Self { document, closed, validators: Mutex::default() }
    }

    /// The operations: path, method in lower case, and what is said of it.
    pub fn operations(&self) -> impl Iterator<Item = (&str, &str, &Value)> {
        let paths = self.document["paths"].as_object().expect("paths").iter();
        paths.flat_map(|(path, operations)| {
            let operations = operations.as_object().expect("operations").iter();
            operations.map(move |(method, operation)| (path.as_str(), method.as_str(), operation))
        })
    }

    /// What a value stands for that may be a reference.
    pub fn resolve<'a>(&'a self, value: &'a Value) -> &'a Value {
        match value["$ref"].as_str() {
            Some(reference) => self.document.pointer(&reference[1..]).expect(reference),
            None => value,
        }
    }

    /// What is said of the operation that a method and a path come to.
    pub fn operation(&self, method: &Method, path: &str) -> Option<&Value> {
        let method = if method == Method::HEAD { &Method::GET } else { method };
        self.document["paths"][self.template(path)?].get(method.as_str().to_ascii_lowercase())
    }

    /// Checks a response to a request at a path: that its status is described, its headers are
    /// there, and its body is of the shape. A path that the document does not have is nothing of
    /// ours; a method that a path does not have is refused.
    pub fn check(
        &self,
        method: &Method,
        path: &str,
        status: u16,
        headers: &HeaderMap,
        body: &[u8],
    ) {
        if self.template(path).is_none() {
            return;
        }
        let Some(operation) = self.operation(method, path) else {
            let expected = if method == Method::OPTIONS { 204 } else { 405 };
            assert_eq!(status, expected, "{method} {path}");
            assert!(headers.contains_key("allow"), "{method} {path}: {headers:?}");
            return;
        };
        let context = format!("{method} {path}: {status} {}", String::from_utf8_lossy(body));
        let response = self.resolve(&operation["responses"][status.to_string()]);
        assert!(response.is_object(), "the status is not described: {context}");
        for (name, header) in response["headers"].as_object().expect("headers") {
            self.check_header(name, self.resolve(header), headers, &context);
        }
        assert!(![429, 503].contains(&status) || headers.contains_key("retry-after"), "{context}");
        if method != Method::HEAD {
            self.check_body(response, headers, body, &context);
        }
    }

    /// The path as the document has it: of several the one with fewest parameters.
    fn template(&self, path: &str) -> Option<&str> {
        let given: Vec<&str> = path.split('/').collect();
        let fits = |template: &str| {
            let parts: Vec<&str> = template.split('/').collect();
            // The only parameter with slashes.
            let rest = parts.last() == Some(&"{path}") && given.len() >= parts.len();
            (rest || parts.len() == given.len())
                && parts.iter().zip(&given).all(|(part, value)| {
                    (part.starts_with('{') && !value.is_empty()) || part == value
                })
        };
        let paths = self.document["paths"].as_object().expect("paths").keys();
        let paths = paths.map(String::as_str).filter(|template| fits(template));
        paths.min_by_key(|template| template.matches('{').count())
    }

    fn check_header(&self, name: &str, header: &Value, headers: &HeaderMap, context: &str) {
        let Some(value) = headers.get(name) else {
            assert_ne!(header["required"], true, "no {name}: {context}");
            return;
        };
        let text = value.to_str().expect("headers are ASCII");
        let value = if header["schema"]["type"] == "integer" {
            json!(text.parse::<i64>().unwrap_or_else(|_| panic!("{name}: {text}: {context}")))
        } else {
            json!(text)
        };
        self.check_value(&value, &header["schema"], context);
    }

    fn check_body(&self, response: &Value, headers: &HeaderMap, body: &[u8], context: &str) {
        let Some(content) = response["content"].as_object() else {
            assert!(body.is_empty(), "a body that is not described: {context}");
            return;
        };
        let given = headers["content-type"].to_str().expect("headers are ASCII");
        let essence = given.split(';').next().unwrap_or_default();
        let media = content.get(essence).unwrap_or_else(|| panic!("{given}: {context}"));
        if essence.ends_with("json") {
            let body =
                serde_json::from_slice(body).unwrap_or_else(|_| panic!("no JSON: {context}"));
            self.check_value(&body, &media["schema"], context);
        }
    }

    /// Checks that a value is of a schema, with nothing beyond.
    fn check_value(&self, value: &Value, schema: &Value, context: &str) {
        let validator = {
            let mut validators = self.validators.lock().expect("no test panics here");
            let validator = validators.entry(schema.to_string());
            validator.or_insert_with(|| Arc::new(Validator::new(schema, &self.closed))).clone()
        };
        validator.check(value).unwrap_or_else(|error| panic!("{error}\n{context}"));
    }
}

/// What checks values against a schema that names others of a document.
pub struct Validator {
    schemas: Schemas,
    index: SchemaIndex,
}

impl Validator {
    pub fn new(schema: &Value, document: &Value) -> Self {
        const HERE: &str = "https://schema.example/";
        let mut root = schema.clone();
        root["components"] = json!({ "schemas": document["components"]["schemas"] });
        let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
        compiler.set_default_draft(Draft::V2020_12);
        compiler.enable_format_assertions();
        compiler.add_resource(HERE, root).expect("a resource");
        let index = compiler.compile(HERE, &mut schemas).expect("a schema");
        Self { schemas, index }
    }

    pub fn check(&self, value: &Value) -> Result<(), String> {
        self.schemas.validate(value, self.index).map_err(|error| error.to_string())
    }
}

/// Has every object that is described have no other members than those.
pub fn close(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if members.get("properties").is_some_and(Value::is_object)
                && members.get("type").is_some_and(|kind| kind == "object")
            {
                members.entry("additionalProperties").or_insert(false.into());
            }
            members.values_mut().for_each(close);
        }
        Value::Array(elements) => elements.iter_mut().for_each(close),
        _ => {}
    }
}
