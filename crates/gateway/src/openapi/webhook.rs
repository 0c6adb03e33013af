//! The description of an outgoing request.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};

use super::operation::{Shape, Tag};
use runtime::outbound::signature::{ID, SIGNATURE, TIMESTAMP, TOLERANCE};

/// The section for requests to customers' URLs.
pub const SENT_TO_OTHERS: Tag = Tag {
    name: "Outgoing requests",
    about: "Signed requests to URLs that the workspace declares or a request contains. They are \
            not sent to private networks unless the operator allows it, and redirects are not \
            followed.",
};

/// A POST that is signed as in Standard Webhooks.
pub struct Webhook {
    pub(super) name: &'static str,
    pub(super) tag: Tag,
    pub(super) summary: &'static str,
    pub(super) about: &'static str,
    pub(super) body: Shape,
    pub(super) examples: Vec<(&'static str, Value)>,
    pub(super) responses: Vec<ResponseDoc>,
}

/// A receiver's response.
pub(super) struct ResponseDoc {
    /// A status, or a class of them such as `4XX`.
    pub status: &'static str,
    pub about: &'static str,
    pub shape: Option<Shape>,
}

impl Webhook {
    /// A request with a body of this type. Names are unique, including those of operations.
    pub fn new<T: JsonSchema>(name: &'static str, tag: Tag, summary: &'static str) -> Self {
        let body: fn(&mut SchemaGenerator) -> Schema = SchemaGenerator::subschema_for::<T>;
        let (examples, responses) = (Vec::new(), Vec::new());
        Self { name, tag, summary, about: "", body, examples, responses }
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Sets the description, in CommonMark with only paragraphs and `code`.
    pub fn about(mut self, text: &'static str) -> Self {
        self.about = text;
        self
    }

    /// Adds an example of its body, with its description.
    pub fn example(mut self, title: &'static str, value: Value) -> Self {
        self.examples.push((title, value));
        self
    }

    /// Adds the meaning of a response with this status.
    pub fn answered(mut self, status: &'static str, about: &'static str) -> Self {
        self.responses.push(ResponseDoc { status, about, shape: None });
        self
    }

    /// The same for a response whose body is read.
    pub fn answered_with<T: JsonSchema>(
        mut self,
        status: &'static str,
        about: &'static str,
    ) -> Self {
        let shape: fn(&mut SchemaGenerator) -> Schema = SchemaGenerator::subschema_for::<T>;
        self.responses.push(ResponseDoc { status, about, shape: Some(shape) });
        self
    }

    /// Adds the meaning of statuses for requests that are retried until they succeed.
    pub fn retried(self) -> Self {
        self.answered("2XX", "Received.").answered(
            "default",
            "Any other status, or no response: the request is retried with the same `webhook-id`, \
             after increasing pauses.",
        )
    }
}

/// The headers of a signed request.
pub(super) fn parameters() -> Value {
    let header = |name: String, about: String| {
        json!({
            "in": "header", "name": name, "required": true, "description": about,
            "schema": { "type": "string" },
        })
    };
    json!([
        header(ID.to_string(), "Identifies the message; the same for each attempt.".into()),
        header(
            TIMESTAMP.to_string(),
            format!(
                "Time of this attempt, in seconds since the Unix epoch. Receivers should reject a \
                 time that differs by more than {TOLERANCE} seconds."
            ),
        ),
        header(
            SIGNATURE.to_string(),
            "`v1,` and the HMAC-SHA256, in base64, of `webhook-id`, `webhook-timestamp` and the \
             body, joined by `.`. The key is the bytes of the secret (base64 after `whsec_`)."
                .into(),
        ),
    ])
}
