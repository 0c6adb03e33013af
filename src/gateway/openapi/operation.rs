//! The description of one operation.

use std::collections::BTreeMap;

use axum::http::{Method, StatusCode};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Value, json};

use super::Access;
use crate::gateway::formats::{Success, schema_of};
use crate::gateway::refusal::{Refusal, Worded};
use crate::gateway::{ApiError, Code};

/// What calls are grouped by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    pub name: &'static str,
    pub about: &'static str,
}

/// Asks a generator for the schema of a type.
pub(super) type Shape = fn(&mut SchemaGenerator) -> Schema;

fn shape_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// A call: a method of a route.
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
    pub(super) answers: Vec<Answer>,
    pub(super) refusals: BTreeMap<u16, Refusals>,
}

/// A request's body.
pub(super) struct Body {
    pub shape: Shape,
    pub examples: Vec<(&'static str, Value)>,
}

/// A response that is not an error.
pub(super) struct Answer {
    pub status: StatusCode,
    pub about: &'static str,
    pub content: Option<Content>,
    pub headers: Vec<(&'static str, Value)>,
    pub links: Vec<(&'static str, Value)>,
}

pub(super) struct Content {
    /// Where it is not that of the operation's [`Access`].
    pub media_type: Option<&'static str>,
    pub shape: Shape,
    pub example: Option<Value>,
}

/// The errors of one status.
#[derive(Default)]
pub(super) struct Refusals {
    /// Where it is not that of every error.
    pub shape: Option<Shape>,
    pub cases: Vec<(&'static str, Value)>,
    /// Whether any of them, and whether all, have a `Retry-After`.
    pub some_retry: bool,
    pub all_retry: bool,
}

impl Operation {
    /// An operation that needs no key. Ids are unique, and names in generated clients.
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
            answers: Vec::new(),
            refusals: BTreeMap::new(),
        }
    }

    /// Its description, in CommonMark with only paragraphs and `code`.
    pub fn about(mut self, text: impl Into<String>) -> Self {
        self.about = text.into();
        self
    }

    /// Who may send it. Set it first: the format of errors depends on it.
    pub fn by(mut self, access: Access) -> Self {
        self.access = access;
        for (error, when) in access.refusals() {
            self = self.refuses_as_all(error, when);
        }
        self
    }

    /// Adds a parameter in the path; an invalid value is an unknown resource.
    pub fn in_path(self, name: &str, about: &str, schema: Value) -> Self {
        self.parameter(json!({
            "in": "path", "name": name, "required": true, "description": about, "schema": schema,
        }))
    }

    /// With a parameter in the query that may be absent.
    pub fn in_query(self, name: &str, about: &str, schema: Value) -> Self {
        self.parameter(
            json!({ "in": "query", "name": name, "description": about, "schema": schema }),
        )
    }

    /// With any other parameter.
    pub fn parameter(mut self, parameter: Value) -> Self {
        self.parameters.push(parameter);
        self
    }

    /// With an `Idempotency-Key`.
    pub fn repeatable(mut self) -> Self {
        self.takes_key = true;
        for (error, when) in crate::gateway::idempotency::refusals() {
            self = self.refuses_as_all(error, when);
        }
        self
    }

    /// With a body of this shape, and an example of it.
    pub fn takes<T: JsonSchema>(mut self, what: &'static str, example: Value) -> Self {
        self.body = Some(Body { shape: shape_of::<T>, examples: vec![(what, example)] });
        for (error, when) in crate::gateway::body::refusals() {
            self = self.refuses_as_all(error, when);
        }
        let required = schema_of::<T>()["required"][0].as_str().map(str::to_owned);
        if let Some(name) = required.filter(|_| !self.access.is_scim()) {
            let error = ApiError::Field(Code::MissingField, format!("{name} is required"));
            self = self.refuses_as_all(error, "A field is missing or invalid");
        }
        self
    }

    /// With a response that has a body of this shape, in the media type of its [`Access`].
    pub fn answers<T: JsonSchema>(self, status: StatusCode, about: &'static str) -> Self {
        let (media_type, example) = (None, None);
        self.answer(status, about, Some(Content { media_type, shape: shape_of::<T>, example }))
    }

    /// The last response has such a body: for operations without an example of a request.
    pub fn such_as(mut self, example: impl Serialize) -> Self {
        let content = self.answers.last_mut().and_then(|answer| answer.content.as_mut());
        content.into_iter().for_each(|content| content.example = Some(json!(example)));
        self
    }

    /// Adds a response without data.
    pub fn answers_success(self, status: StatusCode, about: &'static str) -> Self {
        self.answers::<Success>(status, about)
    }

    /// With a response in a media type of its own.
    pub fn answers_as<T: JsonSchema>(
        self,
        status: StatusCode,
        about: &'static str,
        media_type: &'static str,
    ) -> Self {
        let (media_type, example) = (Some(media_type), None);
        self.answer(status, about, Some(Content { media_type, shape: shape_of::<T>, example }))
    }

    /// With a response that has no body.
    pub fn answers_empty(self, status: StatusCode, about: &'static str) -> Self {
        self.answer(status, about, None)
    }

    fn answer(mut self, status: StatusCode, about: &'static str, content: Option<Content>) -> Self {
        let (headers, links) = (Vec::new(), Vec::new());
        self.answers.push(Answer { status, about, content, headers, links });
        self
    }

    /// The last response always has a header.
    pub fn with_header(mut self, name: &'static str, about: &str, schema: Value) -> Self {
        let header = json!({ "description": about, "required": true, "schema": schema });
        self.answers.last_mut().into_iter().for_each(|answer| {
            answer.headers.push((name, header.clone()));
        });
        self
    }

    /// The last response has input of another operation: parameters, or its body.
    pub fn with_link(mut self, operation: &'static str, link: Value) -> Self {
        self.answers.last_mut().into_iter().for_each(|answer| {
            answer.links.push((operation, link.clone()));
        });
        self
    }

    /// Adds an error, in the format of this operation.
    pub fn refuses(mut self, error: &impl Refusal, when: &'static str) -> Self {
        self.add(error.worded(), when);
        self
    }

    /// Adds the errors among some results: their messages become examples.
    pub fn refuses_some<T>(
        self,
        wrong: impl IntoIterator<Item = Result<T, impl Refusal>>,
        when: &'static str,
    ) -> Self {
        let errors = wrong.into_iter().filter_map(Result::err);
        errors.fold(self, |operation, error| operation.refuses(&error, when))
    }

    /// Errors with this status have a body of this type.
    pub fn refuses_in<T: JsonSchema>(mut self, status: StatusCode) -> Self {
        self.refusals.entry(status.as_u16()).or_default().shape = Some(shape_of::<T>);
        self
    }

    /// Errors with this status so far have bodies of this type, converted from the common format.
    pub fn refuses_as<T: JsonSchema>(
        mut self,
        status: StatusCode,
        word: impl Fn(&Value) -> Value,
    ) -> Self {
        let refusals = self.refusals.entry(status.as_u16()).or_default();
        refusals.shape = Some(shape_of::<T>);
        for (_, body) in &mut refusals.cases {
            *body = word(body);
        }
        self
    }

    /// Adds an error that other operations share.
    pub(super) fn refuses_as_all(mut self, error: ApiError, when: &'static str) -> Self {
        self.add(self.access.worded(error), when);
        self
    }

    fn add(&mut self, Worded { status, body, retries }: Worded, when: &'static str) {
        let refusals = self.refusals.entry(status.as_u16()).or_default();
        refusals.all_retry = retries && (refusals.all_retry || refusals.cases.is_empty());
        refusals.some_retry |= retries;
        refusals.cases.push((when, body));
    }
}
