//! An email template of a workspace's document.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::content;
use gateway::workspaces::email_templates::EmailTemplate;
use gateway::workspaces::rules::{Id, Name, checked};

/// An email template: fields of the API's email object, in which strings are Liquid templates. All
/// fields except `id` and `name` are stored as written: `${…}` in them belongs to a template, and
/// is not read from the environment. They are not encrypted.
#[derive(Deserialize, Serialize, JsonSchema)]
#[schemars(rename = "EmailTemplate")]
pub(crate) struct DeclaredEmailTemplate {
    /// The `email_template_id`, a UUID.
    #[serde(skip_serializing, deserialize_with = "checked::<Id, _>")]
    #[schemars(with = "String")]
    pub id: Uuid,
    #[serde(skip_serializing, deserialize_with = "checked::<Name, _>")]
    pub name: String,
    /// The body as HTML.
    #[schemars(with = "String")]
    pub body: Value,
    /// The subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub subject: Option<Value>,
    /// Plain text, for email objects without a `body`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub plaintext_body: Option<Value>,
    /// The text after the subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub preheader: Option<Value>,
    /// The sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub from: Option<Value>,
    /// Address for replies.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub reply_to: Option<Value>,
    /// Blind copies.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub bcc: Option<Value>,
    /// Additional headers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<Map<String, Value>>,
    /// Not part of the email.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extras: Option<Map<String, Value>>,
}

impl DeclaredEmailTemplate {
    pub fn template(&self) -> EmailTemplate {
        EmailTemplate { id: self.id, name: self.name.clone(), content: content(self) }
    }
}
