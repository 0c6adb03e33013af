//! What a call asks to be sent (src/gateway/README.md, Sending a transactional email).

use serde_json::Value;

use crate::messages::members::{self, Members, User, member};
use crate::tracking::at_once;

/// Characters of an external_send_id.
pub const LONGEST_ID: usize = 255;

/// What an external_send_id looks like; the same as `^[a-zA-Z0-9-_+\\/=]+$`, in which some
/// dialects see a range.
pub const ID_PATTERN: &str = r"^[a-zA-Z0-9_+\\/=\-]+$";

/// The members of a body, checked.
#[derive(Debug)]
pub struct Request {
    pub external_send_id: Option<String>,
    pub trigger_properties: Option<Members>,
    pub recipient: User,
    /// As [`at_once`] takes them.
    pub attributes: Option<String>,
}

impl Request {
    /// Reads the members of a body that a workspace sent; the error names the one that is wrong.
    /// Unknown ones are ignored, and an explicit null means absent.
    pub fn read(body: &Members, workspace: i32, received_at: i64) -> Result<Self, String> {
        let external_send_id =
            member(body, "external_send_id").map(external_send_id).transpose()?;
        let trigger_properties = members::properties(body, "trigger_properties", "")?;
        let recipient = member(body, "recipient").ok_or("recipient is required")?;
        let recipient = recipient.as_object().ok_or("recipient must be an object")?;
        let user = members::user(recipient, "recipient")?;
        let attributes = member(recipient, "attributes").map(|attributes| {
            let attributes =
                attributes.as_object().ok_or("recipient.attributes must be an object")?;
            at_once::check(workspace, &user.identifier(), attributes, received_at)
                .map_err(|why| format!("recipient.attributes: {why}"))
        });
        Ok(Self {
            external_send_id,
            trigger_properties,
            attributes: attributes.transpose()?,
            recipient: user,
        })
    }
}

fn external_send_id(value: &Value) -> Result<String, String> {
    let is_id = |id: &&str| {
        (1..=LONGEST_ID).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || br"-_+\/=".contains(&byte))
    };
    value.as_str().filter(is_id).map(str::to_owned).ok_or_else(|| {
        format!(
            r"external_send_id must be a string of at most {LONGEST_ID} characters that matches ^[a-zA-Z0-9-_+\\/=]+$"
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::users::rows::Kind;

    fn read(body: Value) -> Result<Request, String> {
        Request::read(body.as_object().unwrap(), 7, 5)
    }

    #[test]
    fn what_is_asked_is_read() {
        let request = read(json!({
            "external_send_id": r"aZ09-_+\/=",
            "trigger_properties": { "order": { "total": 5 } },
            "recipient": {
                "external_user_id": "ann", "user_alias": null,
                "attributes": { "first_name": "Ann" }, "unknown": 5,
            },
            "unknown": 5,
        }));
        let request = request.unwrap();
        assert_eq!(request.external_send_id.as_deref(), Some(r"aZ09-_+\/="));
        assert_eq!(Value::Object(request.trigger_properties.unwrap())["order"]["total"], 5);
        assert_eq!(request.recipient, User::ExternalUserId("ann".into()));
        assert!(request.attributes.unwrap().contains(r#"{"first_name":"Ann"}"#));
        let alias = json!({ "alias_name": "a", "alias_label": "l" });
        let request = read(json!({ "recipient": { "user_alias": alias } })).unwrap();
        assert_eq!(request.recipient.key().0, Kind::Alias);
        assert!(request.attributes.is_none() && request.external_send_id.is_none());
        let kept = serde_json::to_value(&request.recipient).unwrap();
        assert_eq!(kept, json!({ "user_alias": alias }));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let ann = |more: Value| {
            let mut recipient = json!({ "external_user_id": "ann" });
            for (name, value) in more.as_object().unwrap() {
                recipient[name] = value.clone();
            }
            json!({ "recipient": recipient })
        };
        let with = |name: &str, value: Value| {
            let mut body = ann(json!({}));
            body[name] = value;
            body
        };
        for (body, text) in [
            (json!({}), "recipient is required"),
            (json!({ "recipient": "ann" }), "recipient must be an object"),
            (json!({ "recipient": {} }), "recipient must have one of"),
            (ann(json!({ "user_alias": {} })), "recipient must have one of"),
            (ann(json!({ "external_user_id": "" })), "recipient.external_user_id is empty"),
            (ann(json!({ "external_user_id": 5 })), "recipient.external_user_id must be a string"),
            (
                json!({ "recipient": { "user_alias": { "alias_name": "a" } } }),
                "recipient.user_alias.alias_label is required",
            ),
            (ann(json!({ "attributes": [] })), "recipient.attributes must be an object"),
            (
                ann(json!({ "attributes": { "email": "nowhere" } })),
                "recipient.attributes: email: expected an email address",
            ),
            (
                ann(json!({ "attributes": { "external_id": "bob" } })),
                "recipient.attributes: external_id: cannot be set",
            ),
            (with("external_send_id", json!("")), "external_send_id must be"),
            (with("external_send_id", json!(5)), "external_send_id must be"),
            (with("external_send_id", json!("a b")), "external_send_id must be"),
            (with("external_send_id", json!("é")), "external_send_id must be"),
            (with("external_send_id", json!("a\n")), "external_send_id must be"),
            (with("external_send_id", json!("a".repeat(256))), "external_send_id must be"),
            (with("trigger_properties", json!([])), "trigger_properties must be an object"),
            (
                with("trigger_properties", json!({ "a": "x".repeat(51 << 10) })),
                "trigger_properties must be at most",
            ),
        ] {
            let error = read(body).unwrap_err();
            assert!(error.starts_with(text), "{error}: not {text}");
        }
    }
}
