//! Parses requests that send transactional emails (docs/reference/api/transactional.md).

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;

use gateway::formats::{Identifier, UserAlias, exactly_one};
use gateway::warnings::{Warning, Warnings};
use gateway::{ApiError, fields};
use kit::json::ObjectText;
use messages::recipient::{IDENTIFIER_FIELDS, Members, Properties, User};
use tracking::formats::RecipientAttributes;
use tracking::immediate;

/// Maximum characters of an external_send_id.
const MAX_ID_LENGTH: usize = 255;

/// The pattern of an external_send_id. The same as `^[a-zA-Z0-9-_+\\/=]+$`, in which some regex
/// dialects see a range.
const ID_PATTERN: &str = r"^[a-zA-Z0-9_+\\/=\-]+$";

/// The recipient of an email, and the data for its template.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct TransactionalSend {
    external_send_id: Option<ExternalSendId>,
    /// Templates can read these as `api_trigger_properties`. At most 50 KiB of JSON.
    trigger_properties: Option<Properties>,
    recipient: Recipient,
}

/// Your own identifier of the send, such as an id in base64; every postback contains it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", inline, extend(
    "minLength" = 1, "maxLength" = MAX_ID_LENGTH, "pattern" = ID_PATTERN,
))]
struct ExternalSendId(String);

impl TryFrom<String> for ExternalSendId {
    type Error = String;

    fn try_from(id: String) -> Result<Self, String> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || br"-_+\/=".contains(&byte);
        if (1..=MAX_ID_LENGTH).contains(&id.len()) && id.bytes().all(is_plain) {
            Ok(Self(id))
        } else {
            Err(format!(
                r"must be a string of at most {MAX_ID_LENGTH} characters that matches ^[a-zA-Z0-9-_+\\/=]+$"
            ))
        }
    }
}

/// A user, identified by exactly one of `external_user_id` and `user_alias`.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "TransactionalRecipient", transform = exactly_one(IDENTIFIER_FIELDS))]
struct Recipient {
    external_user_id: Option<Identifier>,
    user_alias: Option<UserAlias>,
    #[schemars(with = "Option<RecipientAttributes>")]
    attributes: Option<Box<RawValue>>,
}

/// A checked request.
#[derive(Debug)]
pub struct Request {
    pub external_send_id: Option<String>,
    pub trigger_properties: Option<ObjectText>,
    pub recipient: User,
    /// The attributes, in the form for [`immediate`].
    pub attributes: Option<String>,
    /// Fields that have no effect.
    pub warnings: Vec<Warning>,
}

impl Request {
    /// Reads the fields of a body that a workspace sent.
    pub fn read(body: &Members, workspace: i32, received_at: i64) -> Result<Self, ApiError> {
        let (request, warnings) = fields::read_request(body)?;
        let TransactionalSend { external_send_id, trigger_properties, recipient } = request;
        let Recipient { external_user_id, user_alias, attributes } = recipient;
        let user = User::from_fields(external_user_id, user_alias)
            .map_err(|why| ApiError::invalid_field(format!("recipient {why}")))?;
        let mut warnings = Warnings::from(warnings);
        let attributes = attributes.map(|attributes| {
            let checked =
                immediate::check(workspace, &user.identifier(), attributes.get(), received_at);
            let (attributes, ignored) = checked
                .map_err(|why| ApiError::invalid_field(format!("recipient.attributes: {why}")))?;
            for (field, code) in ignored {
                warnings.push(Warning::new(format!("recipient.attributes.{field}"), code));
            }
            Ok::<_, ApiError>(attributes)
        });
        Ok(Self {
            external_send_id: external_send_id.map(|ExternalSendId(id)| id),
            trigger_properties: trigger_properties.map(|Properties(properties)| properties),
            attributes: attributes.transpose()?,
            recipient: user,
            warnings: warnings.into_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use people::users::rows::Kind;

    fn read(body: Value) -> Result<Request, String> {
        let read = Request::read(body.as_object().unwrap(), 7, 5);
        read.map_err(|error| error.message().into_owned())
    }

    #[test]
    fn valid_requests_are_read() {
        let request = read(json!({
            "external_send_id": r"aZ09-_+\/=",
            "trigger_properties": { "order": { "total": 5 } },
            "recipient": {
                "external_user_id": "ann", "user_alias": null,
                "attributes": { "first_name": "Ann", "email_subscribe": "" }, "unknown": 5,
            },
            "unknown": 5,
        }));
        let request = request.unwrap();
        assert_eq!(request.external_send_id.as_deref(), Some(r"aZ09-_+\/="));
        let properties = request.trigger_properties.as_ref().unwrap();
        assert_eq!(properties.as_str(), r#"{"order":{"total":5}}"#);
        assert_eq!(request.recipient, User::ExternalUserId(Identifier("ann".into())));
        assert!(request.attributes.as_ref().unwrap().contains(r#"{"first_name":"Ann"}"#));
        let warnings: Vec<&str> = request.warnings.iter().map(|warning| &*warning.field).collect();
        assert_eq!(warnings, ["unknown", "recipient.attributes.email_subscribe"]);
        let alias = json!({ "alias_name": "a", "alias_label": "l" });
        let request = read(json!({ "recipient": { "user_alias": alias } })).unwrap();
        let (kind, _) = request.recipient.key();
        assert_eq!(kind, Kind::Alias);
        assert!(request.attributes.is_none() && request.external_send_id.is_none());
        let stored = serde_json::to_value(&request.recipient).unwrap();
        assert_eq!(stored, json!({ "user_alias": alias }));
    }

    #[test]
    fn errors_name_the_invalid_field() {
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
        let alias = json!({ "alias_name": "a", "alias_label": "l" });
        for (body, text) in [
            (json!({ "recipient": {} }), "recipient must have exactly one of"),
            (ann(json!({ "user_alias": alias })), "recipient must have exactly one of"),
            (with("external_send_id", json!("")), "external_send_id must be"),
            (with("external_send_id", json!("a b")), "external_send_id must be"),
            (with("external_send_id", json!("é")), "external_send_id must be"),
            (with("external_send_id", json!("a".repeat(256))), "external_send_id must be"),
            (
                ann(json!({ "attributes": { "email": "nowhere" } })),
                "recipient.attributes: email: expected an email address",
            ),
            (
                ann(json!({ "attributes": { "external_id": "bob" } })),
                "recipient.attributes: external_id cannot be set",
            ),
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
