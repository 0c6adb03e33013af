//! The document: all operations, what they have in common, and the schemas that they name.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::transform::{RecursiveTransform, Transform as _};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

use super::introduction::introduction;
use super::operation::{Body, Operation, Refusals, ResponseDoc, Shape, Tag};
use super::samples::samples;
use super::webhook::{self, Webhook};
use super::{Access, conditions};
use crate::formats::Error;
use crate::scim::ScimErrorBody;
use crate::{ApiError, idempotency};
use kit::derived_ids;
use runtime::config::Config;

pub(super) const VERSION: &str = "3.1.1";

type Object = Map<String, Value>;

/// The document of the operations with their paths, and of the outgoing requests.
pub(super) fn document<'a>(
    operations: impl Iterator<Item = &'a (String, Operation)>,
    webhooks: &[Webhook],
    config: &Config,
) -> Value {
    let mut writer = Writer::new();
    let base = config.public_base();
    let (mut paths, mut tags) = (Object::new(), Vec::new());
    let mut add_tag = |tag: &Tag| {
        let tag = json!({ "name": tag.name, "description": tag.about });
        if !tags.contains(&tag) {
            tags.push(tag);
        }
    };
    for (path, operation) in operations {
        add_tag(&operation.tag);
        let method = operation.method.as_str().to_ascii_lowercase();
        let methods = paths.entry(path).or_insert_with(|| json!({}));
        let mut written = writer.operation(operation);
        if let Some(samples) = samples(&base, path, operation) {
            written["x-codeSamples"] = samples;
        }
        methods[method] = written;
    }
    let mut outgoing = Object::new();
    for webhook in webhooks {
        add_tag(&webhook.tag);
        outgoing.insert(webhook.name.into(), json!({ "post": writer.webhook(webhook) }));
    }
    let responses = share_responses(&mut paths);
    let mut document = json!({
        "openapi": VERSION,
        "info": {
            "title": "Longshore",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
            "description": introduction(config),
        },
        "servers": servers(config),
        "tags": tags,
        "paths": paths,
        "webhooks": outgoing,
        "components": {
            "securitySchemes": security_schemes(),
            "parameters": parameters(),
            "headers": headers(),
            "responses": responses,
            "schemas": writer.schemas(),
        },
    });
    conditions::rewrite_schemas(&mut document);
    document
}

/// The address of the server.
pub(super) fn servers(config: &Config) -> Value {
    json!([{ "url": config.public_base() }])
}

fn security_schemes() -> Value {
    json!({
        "ApiKey": {
            "type": "http", "scheme": "bearer",
            "description": "A workspace's API key, created with `longshore key create` or \
                            declared in the workspace file. `x-permission` is the permission that \
                            an operation needs.",
        },
        "ScimToken": {
            "type": "http", "scheme": "bearer",
            "description": "A SCIM token of the installation, created with `longshore scim-token \
                            create` or declared in the workspace file.",
        },
        "Signature": {
            "type": "apiKey", "in": "header", "name": "webhook-signature",
            "description": "The request is signed as in Standard Webhooks, with the secret that \
                            the workspace declares. The value is `v1,` and the HMAC-SHA256, in \
                            base64, of `webhook-id`, `webhook-timestamp` and the body, joined by \
                            `.`.",
        },
    })
}

/// Parameters that several operations share, by their names in the components.
fn parameters() -> Value {
    json!({
        "RequestId": {
            "in": "header", "name": "X-Request-Id", "schema": { "type": "string" },
            "description": "The request's ID, in every log line for the request and the work that \
                            follows: 1 to 128 ASCII letters, digits and `-_.:+/=@`. Any other \
                            value is replaced by a generated ID.",
        },
        "RequestOrigin": {
            "in": "header", "name": "X-Request-Origin", "required": true,
            "schema": { "type": "string", "minLength": 1 },
            "description": "The origin of the request; any value.",
            "example": "idp.acme.example",
        },
    })
}

const RETRY_AFTER: &str = "Retry-After";

/// Headers of responses, by name. A response that lists a header always has it, except
/// `Retry-After` of a 409. That one has the same description everywhere, because generators make
/// one type of the responses with the same body.
fn headers() -> Value {
    let header = |about: &str, schema: Value| json!({ "description": about, "required": true, "schema": schema });
    let count = json!({ "type": "integer", "minimum": 0 });
    json!({
        "X-Request-Id": header("The request's ID.", json!({ "type": "string", "minLength": 1 })),
        "X-RateLimit-Limit": header("Number of requests per window.", count.clone()),
        "X-RateLimit-Remaining": header(
            "Number of requests left in this window. An estimate, because other requests may be \
             in progress.", count.clone(),
        ),
        "X-RateLimit-Reset": header(
            "Start of the next window, in seconds since the Unix epoch.", count.clone(),
        ),
        RETRY_AFTER: {
            "description": "Seconds to wait before a retry. A 429 or 503 always has it; a 409 only \
                            if a retry can help.",
            "schema": count,
        },
        "WWW-Authenticate": header("The authentication scheme.", json!({ "const": "Bearer" })),
    })
}

/// Writes operations, and collects the schemas that they use: deserialization schemas of requests,
/// serialization schemas of responses.
struct Writer {
    requests: SchemaGenerator,
    responses: SchemaGenerator,
    /// Writes the bodies of outgoing requests in one piece, because generators of clients make
    /// types only of the schemas that the API refers to.
    webhooks: SchemaGenerator,
}

impl Writer {
    fn new() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        let returned = settings.clone().with_transform(RecursiveTransform(as_returned));
        let inline = settings.clone().with(|settings| settings.inline_subschemas = true);
        Self {
            requests: settings.into_generator(),
            responses: returned.for_serialize().into_generator(),
            webhooks: inline.for_serialize().into_generator(),
        }
    }

    fn schemas(mut self) -> Object {
        let mut schemas = self.requests.take_definitions(true);
        schemas.extend(self.responses.take_definitions(true));
        schemas.values_mut().for_each(without_booleans);
        schemas
    }

    fn operation(&mut self, operation: &Operation) -> Value {
        let Operation { access, parameters, .. } = operation;
        let about = [operation.about.as_str(), &access.describe()].join("\n\n");
        let mut written = json!({
            "operationId": operation.id,
            "tags": [operation.tag.name],
            "summary": operation.summary,
            "description": about.trim(),
            "security": access.security(),
            "parameters": parameters.iter().cloned().chain(shared_parameters(operation)).collect::<Vec<_>>(),
            "responses": self.responses(operation),
        });
        if let [permission, ..] = access.permissions() {
            written["x-permission"] = (*permission).into();
        }
        let is_found_late = matches!(access, Access::OneOf(_));
        if let Some((budget, limit)) = access.budget().filter(|_| !is_found_late) {
            written["x-rate-limit"] = json!({
                "budget": budget.name(), "requests": limit.requests, "seconds": limit.seconds,
            });
        }
        if let Some(Body { shape, examples }) = &operation.body {
            let media =
                json!({ "schema": shape(&mut self.requests), "examples": numbered(examples) });
            let types = access.media_types().iter();
            let content: Object = types.map(|name| ((*name).to_owned(), media.clone())).collect();
            written["requestBody"] = json!({ "required": true, "content": content });
        }
        written
    }

    fn webhook(&mut self, webhook: &Webhook) -> Value {
        let mut schema = (webhook.body)(&mut self.webhooks);
        RecursiveTransform(as_returned).transform(&mut schema);
        let mut schema = json!(schema);
        without_booleans(&mut schema);
        let media = json!({ "schema": schema, "examples": numbered(&webhook.examples) });
        let responses = webhook.responses.iter().map(|answer| {
            let mut response = json!({ "description": answer.about });
            if let Some(shape) = answer.shape {
                let schema = shape(&mut self.requests);
                response["content"] = json!({ "application/json": { "schema": schema } });
            }
            (answer.status.to_owned(), response)
        });
        let responses: Object = responses.collect();
        json!({
            "operationId": webhook.name,
            "tags": [webhook.tag.name],
            "summary": webhook.summary,
            "description": webhook.about,
            "security": [{ "Signature": [] }],
            "parameters": webhook::parameters(),
            "requestBody": { "required": true, "content": { "application/json": media } },
            "responses": responses,
        })
    }

    fn responses(&mut self, operation: &Operation) -> Object {
        let responses = operation.responses.iter();
        let mut responses: Object = responses
            .map(|answer| (answer.status.as_str().to_owned(), self.answer(operation, answer)))
            .collect();
        for (status, refusals) in &operation.refusals {
            responses.insert(status.to_string(), self.refusals(operation, *status, refusals));
        }
        for (error, when) in [
            (
                ApiError::Internal(String::new()),
                "An internal error; report the `X-Request-Id` to the operator",
            ),
            (
                ApiError::Unavailable(String::new()),
                "The service is overloaded, or a dependency is unavailable",
            ),
        ] {
            let error = operation.access.error_response(error);
            let refusals = Refusals {
                shape: None,
                cases: vec![(when, error.body)],
                some_retry: error.retries,
            };
            let status = error.status.as_u16();
            responses.insert(status.to_string(), self.refusals(operation, status, &refusals));
        }
        responses
    }

    fn answer(&mut self, operation: &Operation, answer: &ResponseDoc) -> Value {
        let mut headers = shared_headers(operation, answer.status.as_u16());
        for (name, header) in &answer.headers {
            headers.insert((*name).to_owned(), header.clone());
        }
        let mut response = json!({ "description": answer.about, "headers": headers });
        for content in &answer.contents {
            let media_type = content.media_type.unwrap_or(operation.access.media_types()[0]);
            let mut media = json!({ "schema": (content.shape)(&mut self.responses) });
            if let Some(example) = &content.example {
                media["example"] = without_references(example);
            }
            response["content"][media_type] = media;
        }
        if !answer.links.is_empty() {
            let links = answer.links.iter().map(|(to, link)| {
                let mut link = link.clone();
                link["operationId"] = (*to).into();
                ((*to).to_owned(), link)
            });
            response["links"] = links.collect::<Object>().into();
        }
        response
    }

    fn refusals(&mut self, operation: &Operation, status: u16, refusals: &Refusals) -> Value {
        let mut headers = shared_headers(operation, status);
        if refusals.some_retry {
            headers.insert(RETRY_AFTER.into(), reference("headers", RETRY_AFTER));
        }
        let common: Shape = if operation.access.is_scim() {
            subschema::<ScimErrorBody<'_>>
        } else {
            subschema::<Error<'_>>
        };
        let schema = refusals.shape.unwrap_or(common)(&mut self.responses);
        let mut about: Vec<&str> = refusals.cases.iter().map(|(when, _)| *when).collect();
        about.dedup();
        json!({
            "description": about.join("; ") + ".",
            "headers": headers,
            "content": { operation.access.media_types()[0]: {
                "schema": schema, "examples": numbered(&refusals.cases),
            } },
        })
    }
}

fn subschema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// Examples by number, each with its description.
fn numbered(examples: &[(&str, Value)]) -> Object {
    let examples = examples.iter().zip(1..);
    let example = |((about, value), number): (&(&str, Value), usize)| {
        (number.to_string(), json!({ "summary": about, "value": without_references(value) }))
    };
    examples.map(example).collect()
}

/// An example without fields called `$ref`, which SCIM has: many programs follow them as references
/// of the document.
fn without_references(example: &Value) -> Value {
    match example {
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(name, _)| *name != "$ref");
            fields.map(|(name, field)| (name.clone(), without_references(field))).collect()
        }
        Value::Array(elements) => elements.iter().map(without_references).collect(),
        other => other.clone(),
    }
}

/// Writes schemas that are `true` as objects, because many programs expect that of every schema.
/// `additionalProperties` can be a boolean in all versions.
fn without_booleans(schema: &mut Value) {
    const SCHEMA_LISTS: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
    const SCHEMAS: [&str; 8] =
        ["items", "not", "if", "then", "else", "contains", "propertyNames", "additionalProperties"];
    if *schema == Value::Bool(true) {
        *schema = json!({});
    }
    let Some(keywords) = schema.as_object_mut() else { return };
    for (name, value) in keywords {
        match (name.as_str(), value) {
            ("properties", Value::Object(fields)) => fields.values_mut().for_each(without_booleans),
            (name, Value::Array(parts)) if SCHEMA_LISTS.contains(&name) => {
                parts.iter_mut().for_each(without_booleans);
            }
            ("additionalProperties", Value::Bool(_)) => {}
            (name, part) if SCHEMAS.contains(&name) => without_booleans(part),
            _ => {}
        }
    }
}

fn reference(kind: &str, name: &str) -> Value {
    json!({ "$ref": format!("#/components/{kind}/{name}") })
}

fn shared_parameters(operation: &Operation) -> impl Iterator<Item = Value> {
    let origin =
        (operation.access == Access::Scim).then(|| reference("parameters", "RequestOrigin"));
    let key = operation.takes_key.then(|| idempotency_key(operation));
    [origin, key, Some(reference("parameters", "RequestId"))].into_iter().flatten()
}

/// The header, with an example for each example of the body, because another body is rejected with
/// the same key.
fn idempotency_key(operation: &Operation) -> Value {
    let bodies = operation.body.iter().flat_map(|body| &body.examples);
    let mut titles: Vec<&str> = bodies.map(|(about, _)| *about).collect();
    if titles.is_empty() {
        titles.push("A random UUID");
    }
    let examples: Vec<_> = titles
        .into_iter()
        .zip(1..)
        .map(|(about, number)| {
            let key = derived_ids::v4(&[format!("{} {number}", operation.id).as_bytes()]);
            (about, json!(format!("\"{key}\"")))
        })
        .collect();
    json!({
        "in": "header", "name": idempotency::HEADER,
        "schema": { "type": "string", "pattern": idempotency::PATTERN },
        "description": "The same body with the same key is processed once in 24 hours: a repeat \
                        gets the first response. A string of 1 to 255 printable ASCII characters, \
                        with or without quotes; preferably a random UUID.",
        "examples": numbered(&examples),
    })
}

fn shared_headers(operation: &Operation, status: u16) -> Object {
    let mut names = vec!["X-Request-Id"];
    if status == StatusCode::UNAUTHORIZED {
        names.push("WWW-Authenticate");
    } else if status < 500 && operation.access.budget().is_some() {
        names.extend(["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"]);
    }
    names.into_iter().map(|name| (name.to_owned(), reference("headers", name))).collect()
}

/// Moves responses that several operations share to the components.
fn share_responses(paths: &mut Object) -> Object {
    let mut counts: BTreeMap<String, (u32, String)> = BTreeMap::new();
    for_each_response(paths, |status, response| {
        let status = status.to_owned();
        counts.entry(response.to_string()).or_insert((0, status)).0 += 1;
    });
    let mut shared = Object::new();
    let mut names = BTreeMap::new();
    for (response, (_, status)) in counts.into_iter().filter(|(_, (count, _))| *count > 1) {
        let status =
            status.parse::<u16>().ok().and_then(|status| StatusCode::from_u16(status).ok());
        let reason = status.and_then(|status| status.canonical_reason()).unwrap_or_default();
        let reason = reason.replace(' ', "");
        let is_free = |number: &usize| !shared.contains_key(&format!("{reason}{number}"));
        let name =
            (1..).find(is_free).map(|number| format!("{reason}{number}")).unwrap_or_default();
        shared.insert(name.clone(), serde_json::from_str(&response).unwrap_or_default());
        names.insert(response, name);
    }
    for_each_response(paths, |_, response| {
        if let Some(name) = names.get(&response.to_string()) {
            *response = reference("responses", name);
        }
    });
    shared
}

fn for_each_response(paths: &mut Object, mut act: impl FnMut(&str, &mut Value)) {
    let operations = paths.values_mut().filter_map(Value::as_object_mut);
    let operations = operations.flat_map(|path| path.values_mut());
    let responses = operations.filter_map(|operation| operation["responses"].as_object_mut());
    responses.flatten().for_each(|(status, response)| act(status, response));
}

/// Uses the formats of OpenAPI, which has no `uint`. Fields that are omitted when empty are never
/// null.
fn as_returned(schema: &mut Schema) {
    if schema.get("format").is_some_and(|format| format == "uint") {
        schema.remove("format");
    }
    let required = schema.get("required").cloned().unwrap_or_default();
    let Some(fields) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
    let is_required =
        |name: &str| required.as_array().is_some_and(|names| names.contains(&name.into()));
    for (_, field) in fields.iter_mut().filter(|(name, _)| !is_required(name)) {
        let null = json!({ "type": "null" });
        if let Some(kinds) = field.get_mut("type").and_then(Value::as_array_mut) {
            kinds.retain(|kind| kind != "null");
            if let [kind] = kinds.as_slice() {
                field["type"] = kind.clone();
            }
            if let Some(values) = field.get_mut("enum").and_then(Value::as_array_mut) {
                values.retain(|value| !value.is_null());
            }
        } else if let Some(kinds) = field.get_mut("anyOf").and_then(Value::as_array_mut) {
            kinds.retain(|kind| *kind != null);
        }
    }
}
