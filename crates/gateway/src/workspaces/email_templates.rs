//! Email templates of the workspace file. An email object names one in `email_template_id`, and
//! gets from it the fields that it does not set itself.
//!
//! The gateway fills the email objects of requests, and `apply` those of campaigns and Canvases. So
//! accepted requests and stored campaigns are complete. A later change of the template does not
//! change them, and workers of every version can read them.

use serde::Serialize;
use serde_json::{Map, Value};
use uuid::Uuid;

/// The field of an email object that names its template.
pub const EMAIL_TEMPLATE_ID: &str = "email_template_id";

/// Maximum number of email templates of a workspace, and of bytes of all together.
pub const MAX_TEMPLATES: usize = 1_000;
pub const MAX_TEMPLATES_BYTES: usize = 16 << 20;

const BODY: &str = "body";
const PLAINTEXT_BODY: &str = "plaintext_body";

/// An email template, as the workspace file declares it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EmailTemplate {
    pub id: Uuid,
    pub name: String,
    /// Fields of an email object.
    #[serde(flatten)]
    pub content: Map<String, Value>,
}

impl EmailTemplate {
    /// Replaces the `email_template_id` of an email object with the template's fields. Fields of
    /// the object override them.
    pub fn fill(&self, email: &mut Map<String, Value>) {
        email.remove(EMAIL_TEMPLATE_ID);
        email.retain(|_, value| !value.is_null());
        // The template's plain text belongs to the template's body.
        let has_own_body = email.contains_key(BODY);
        for (name, value) in &self.content {
            if !(has_own_body && name == PLAINTEXT_BODY) {
                email.entry(name.as_str()).or_insert_with(|| value.clone());
            }
        }
    }
}

/// The template that an email object names; none if it names none, or if its id is not a UUID.
pub fn template_id(email: &Map<String, Value>) -> Option<Uuid> {
    Uuid::try_parse(email.get(EMAIL_TEMPLATE_ID)?.as_str()?).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn filled(email: Value) -> Value {
        let content = json!({ "subject": "Hi", "body": "<p>Hi</p>", "plaintext_body": "Hi" });
        let template = EmailTemplate {
            id: Uuid::nil(),
            name: "Welcome".into(),
            content: content.as_object().unwrap().clone(),
        };
        let mut email = email.as_object().unwrap().clone();
        template.fill(&mut email);
        email.into()
    }

    #[test]
    fn fields_of_the_object_override_those_of_the_template() {
        let id = Uuid::nil();
        assert_eq!(
            filled(json!({ "email_template_id": id, "app_id": "a", "subject": null })),
            json!({ "app_id": "a", "subject": "Hi", "body": "<p>Hi</p>", "plaintext_body": "Hi" }),
        );
        assert_eq!(
            filled(json!({ "email_template_id": id, "subject": "", "plaintext_body": "Yo" })),
            json!({ "subject": "", "body": "<p>Hi</p>", "plaintext_body": "Yo" }),
        );
    }

    #[test]
    fn a_body_of_the_object_has_no_plain_text_of_the_template() {
        assert_eq!(filled(json!({ "body": "Yo" })), json!({ "subject": "Hi", "body": "Yo" }));
        let both = json!({ "subject": "Hi", "body": "Yo", "plaintext_body": "Yo" });
        assert_eq!(filled(both.clone()), both);
    }

    #[test]
    fn an_id_is_a_uuid() {
        let id = |id: Value| template_id(json!({ "email_template_id": id }).as_object().unwrap());
        let upper = "9B2F6C1E-0D3A-4E57-8C41-5A7D2E9F6B10";
        assert_eq!(id(json!(upper)), Uuid::try_parse(upper).ok());
        assert_eq!([id(json!("welcome")), id(json!(5)), id(json!(null))], [None; 3]);
    }
}
