//! The description of one operation.

use std::collections::BTreeMap;

use axum::http::{Method, StatusCode};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Value, json};

use super::Access;
use crate::fields::NO_SELECTOR;
use crate::formats::{Success, schema_of};
use crate::refusal::{ErrorResponse, Refusal};
use crate::{ApiError, Code};

/// A group of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    pub name: &'static str,
    pub about: &'static str,
}

/// Gets the schema of a type from a generator.
pub(super) type Shape = fn(&mut SchemaGenerator) -> Schema;

fn shape_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// An operation: a method of a route.
pub struct Operation {
    pub(super) method: Method,
    pub(super) id: &'static str,
    pub(super) tag: Tag,
    pub(super) summary: &'static str,
    pub(super) about: String,
    pub(super) access: Access,
    pub(super) parameters: Vec<Value>,
    pub(super) takes_key: bool,
    pub(super) body: Option<Body>,
    pub(super) responses: Vec<ResponseDoc>,
    pub(super) refusals: BTreeMap<u16, Refusals>,
}

/// A request's body.
pub(super) struct Body {
    pub shape: Shape,
    pub examples: Vec<(&'static str, Value)>,
}

/// A response that is not an error.
pub(super) struct ResponseDoc {
    pub status: StatusCode,
    pub about: &'static str,
    /// One for each media type; none if there is no body.
    pub contents: Vec<Content>,
    pub headers: Vec<(&'static str, Value)>,
    pub links: Vec<(&'static str, Value)>,
}

pub(super) struct Content {
    /// If it differs from that of the operation's [`Access`].
    pub media_type: Option<&'static str>,
    pub shape: Shape,
    pub example: Option<Value>,
}

impl Content {
    fn new<T: JsonSchema>(media_type: Option<&'static str>) -> Self {
        Self { media_type, shape: shape_of::<T>, example: None }
    }
}

/// The errors of one status.
#[derive(Default)]
pub(super) struct Refusals {
    /// The body's type, if it differs from the common one.
    pub shape: Option<Shape>,
    pub cases: Vec<(&'static str, Value)>,
    /// Whether some of these errors have a `Retry-After`.
    pub some_retry: bool,
}

impl Operation {
    /// An operation that needs no key. Ids are unique, and become function names in generated
    /// clients.
    pub fn new(method: Method, id: &'static str, tag: Tag, summary: &'static str) -> Self {
        Self {
            method,
            id,
            tag,
            summary,
            about: String::new(),
            access: Access::Open,
            parameters: Vec::new(),
            takes_key: false,
            body: None,
            responses: Vec::new(),
            refusals: BTreeMap::new(),
        }
    }

    /// Sets the description, in CommonMark with only paragraphs and `code`.
    pub fn about(mut self, text: impl Into<String>) -> Self {
        self.about = text.into();
        self
    }

    /// Sets who may send the request. Set it first: the format of errors depends on it.
    pub fn by(mut self, access: Access) -> Self {
        self.access = access;
        for (error, when) in access.refusals() {
            self = self.refuses_as_all(error, when);
        }
        self
    }

    /// Adds a path parameter; an invalid value counts as an unknown resource.
    pub fn in_path(self, name: &str, about: &str, schema: Value) -> Self {
        self.parameter(json!({
            "in": "path", "name": name, "required": true, "description": about, "schema": schema,
        }))
    }

    /// Adds an optional query parameter.
    pub fn in_query(self, name: &str, about: &str, schema: Value) -> Self {
        self.parameter(
            json!({ "in": "query", "name": name, "description": about, "schema": schema }),
        )
    }

    /// Adds a query parameter without which the request is rejected.
    pub fn requires_in_query(self, name: &str, about: &str, schema: Value) -> Self {
        self.parameter(json!({
            "in": "query", "name": name, "required": true, "description": about, "schema": schema,
        }))
    }

    /// Adds the number of a page, from 0; a page has `size` entries, called `entries`.
    pub fn takes_page(self, size: i64, entries: &str) -> Self {
        let about = format!(
            "Page number, from 0. A page has {size} {entries}; pages after the last one are empty."
        );
        self.in_query("page", &about, json!({ "type": "integer", "minimum": 0, "default": 0 }))
    }

    /// Adds any other parameter.
    pub fn parameter(mut self, parameter: Value) -> Self {
        self.parameters.push(parameter);
        self
    }

    /// Adds an `Idempotency-Key`.
    pub fn repeatable(mut self) -> Self {
        self.takes_key = true;
        for (error, when) in crate::idempotency::refusals() {
            self = self.refuses_as_all(error, when);
        }
        self
    }

    /// Sets the type of the request body, and adds an example.
    pub fn takes<T: JsonSchema>(mut self, title: &'static str, example: Value) -> Self {
        self.body = Some(Body { shape: shape_of::<T>, examples: vec![(title, example)] });
        for (error, when) in crate::body::refusals() {
            self = self.refuses_as_all(error, when);
        }
        let required = schema_of::<T>()["required"][0].as_str().map(str::to_owned);
        if let Some(name) = required.filter(|_| !self.access.is_scim()) {
            let error = ApiError::Field(Code::MissingField, format!("{name} is required"));
            self = self.refuses_as_all(error, "A field is missing or invalid");
        }
        self
    }

    /// For a request without fields, whose body may be an empty object: adds the errors of others.
    pub fn takes_no_fields(mut self) -> Self {
        for (error, when) in crate::body::refusals() {
            self = self.refuses_as_all(error, when);
        }
        let error = ApiError::invalid_field(format!("dry_run {NO_SELECTOR}"));
        self.refuses_as_all(error, "The body has a field that would limit the request")
    }

    /// Adds a response with a body of this type, in the media type of its [`Access`].
    pub fn returns<T: JsonSchema>(self, status: StatusCode, about: &'static str) -> Self {
        self.add_response(status, about, vec![Content::new::<T>(None)])
    }

    /// Adds an example body to the last response, for operations without an example of a request.
    pub fn with_example(mut self, example: impl Serialize) -> Self {
        let content = self.responses.last_mut().and_then(|response| response.contents.last_mut());
        content.into_iter().for_each(|content| content.example = Some(json!(example)));
        self
    }

    /// Adds a response without data.
    pub fn returns_success(self, status: StatusCode, about: &'static str) -> Self {
        self.returns::<Success>(status, about)
    }

    /// Adds a response in another media type.
    pub fn returns_as<T: JsonSchema>(
        self,
        status: StatusCode,
        about: &'static str,
        media_type: &'static str,
    ) -> Self {
        self.add_response(status, about, vec![Content::new::<T>(Some(media_type))])
    }

    /// Adds another media type to the last response; `Accept` of the request selects one.
    pub fn or_as<T: JsonSchema>(mut self, media_type: &'static str) -> Self {
        self.responses.last_mut().into_iter().for_each(|response| {
            response.contents.push(Content::new::<T>(Some(media_type)));
        });
        self
    }

    /// Adds a response without a body.
    pub fn returns_empty(self, status: StatusCode, about: &'static str) -> Self {
        self.add_response(status, about, Vec::new())
    }

    fn add_response(
        mut self,
        status: StatusCode,
        about: &'static str,
        contents: Vec<Content>,
    ) -> Self {
        let (headers, links) = (Vec::new(), Vec::new());
        self.responses.push(ResponseDoc { status, about, contents, headers, links });
        self
    }

    /// Adds a header that the last response always has.
    pub fn with_header(mut self, name: &'static str, about: &str, schema: Value) -> Self {
        let header = json!({ "description": about, "required": true, "schema": schema });
        self.responses.last_mut().into_iter().for_each(|response| {
            response.headers.push((name, header.clone()));
        });
        self
    }

    /// Adds a link from the last response to another operation, with its parameters: generators
    /// refuse a link with a body.
    pub fn with_link(mut self, operation: &'static str, link: Value) -> Self {
        self.responses.last_mut().into_iter().for_each(|response| {
            response.links.push((operation, link.clone()));
        });
        self
    }

    /// Adds an error, in the format of this operation.
    pub fn refuses(mut self, error: &impl Refusal, when: &'static str) -> Self {
        self.add(error.error_response(), when);
        self
    }

    /// Adds the errors among some results: their messages become examples.
    pub fn refuses_some<T>(
        self,
        results: impl IntoIterator<Item = Result<T, impl Refusal>>,
        when: &'static str,
    ) -> Self {
        let errors = results.into_iter().filter_map(Result::err);
        errors.fold(self, |operation, error| operation.refuses(&error, when))
    }

    /// Sets the type of the bodies of errors with this status.
    pub fn refuses_in<T: JsonSchema>(mut self, status: StatusCode) -> Self {
        self.refusals.entry(status.as_u16()).or_default().shape = Some(shape_of::<T>);
        self
    }

    /// Sets the type of the bodies of the errors with this status added so far, and converts their
    /// examples from the common format.
    pub fn refuses_as<T: JsonSchema>(
        mut self,
        status: StatusCode,
        convert: impl Fn(&Value) -> Value,
    ) -> Self {
        let refusals = self.refusals.entry(status.as_u16()).or_default();
        refusals.shape = Some(shape_of::<T>);
        for (_, body) in &mut refusals.cases {
            *body = convert(body);
        }
        self
    }

    /// Adds an error that other operations share.
    pub(super) fn refuses_as_all(mut self, error: ApiError, when: &'static str) -> Self {
        self.add(self.access.error_response(error), when);
        self
    }

    fn add(&mut self, ErrorResponse { status, body, retries }: ErrorResponse, when: &'static str) {
        let refusals = self.refusals.entry(status.as_u16()).or_default();
        refusals.some_retry |= retries;
        refusals.cases.push((when, body));
    }
}
