//! A request that is made to others, as it is described.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};

use super::operation::{Shape, Tag};
use crate::outbound::signature::{ID, SIGNATURE, TIMESTAMP, TOLERANCE};

/// The section of what is sent to addresses of others.
pub const SENT_TO_OTHERS: Tag = Tag {
    name: "What is sent to others",
    about: "Signed requests to addresses that the workspace declares or a call gives. None is \
            ever made into a private network, unless the operator allows it, and none follows a \
            redirect.",
};

/// A POST that is signed as Standard Webhooks are.
pub struct Webhook {
    pub(super) name: &'static str,
    pub(super) tag: Tag,
    pub(super) summary: &'static str,
    pub(super) about: &'static str,
    pub(super) body: Shape,
    pub(super) examples: Vec<(&'static str, Value)>,
    pub(super) answers: Vec<Answer>,
}

/// What its receiver may answer.
pub(super) struct Answer {
    /// A status, or a class of them such as `4XX`.
    pub status: &'static str,
    pub about: &'static str,
    pub shape: Option<Shape>,
}

impl Webhook {
    /// With a body of this shape. Names are unique, among operations too.
    pub fn new<T: JsonSchema>(name: &'static str, tag: Tag, summary: &'static str) -> Self {
        let body: fn(&mut SchemaGenerator) -> Schema = SchemaGenerator::subschema_for::<T>;
        let (examples, answers) = (Vec::new(), Vec::new());
        Self { name, tag, summary, about: "", body, examples, answers }
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    /// When it is made, in CommonMark of paragraphs and `code` alone.
    pub fn about(mut self, text: &'static str) -> Self {
        self.about = text;
        self
    }

    /// With an example of its body, by what it shows.
    pub fn example(mut self, what: &'static str, value: Value) -> Self {
        self.examples.push((what, value));
        self
    }

    /// What an answer with such a status means.
    pub fn answered(mut self, status: &'static str, about: &'static str) -> Self {
        self.answers.push(Answer { status, about, shape: None });
        self
    }

    /// The same of an answer whose body is read.
    pub fn answered_with<T: JsonSchema>(
        mut self,
        status: &'static str,
        about: &'static str,
    ) -> Self {
        let shape: fn(&mut SchemaGenerator) -> Schema = SchemaGenerator::subschema_for::<T>;
        self.answers.push(Answer { status, about, shape: Some(shape) });
        self
    }

    /// Taken, passing troubles, and what else there is: as all are tried again.
    pub fn retried(self) -> Self {
        self.answered("2XX", "It was taken.").answered(
            "default",
            "Anything else, and no answer: it comes again under the same `webhook-id`, after \
             pauses that grow.",
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
        header(ID.to_string(), "The same each time that it is sent.".into()),
        header(
            TIMESTAMP.to_string(),
            format!(
                "When it was sent this time, in seconds since the Unix epoch. Best refused where \
                 that is more than {TOLERANCE} seconds off."
            ),
        ),
        header(
            SIGNATURE.to_string(),
            "`v1,` and the HMAC-SHA256, in base64, of `webhook-id`, `webhook-timestamp` and the \
             body with a `.` between each, with the bytes of the secret (of what follows \
             `whsec_`, which is base64)."
                .into(),
        ),
    ])
}
