//! The schemas of message objects, generated from the tables that parse them.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::read::{MAX_BYTES, MAX_DEPTH, MAX_VALUES};
use super::table::{EXPIRE_AT, FieldSpec, Kind, MAX_SECONDS, TIME_TO_LIVE, known_fields};
use gateway::formats::{Identifier, schema_of};
use gateway::workspaces::Channel;
use gateway::workspaces::email_templates::EMAIL_TEMPLATE_ID;
use template::MAX_SOURCE;

/// The message objects of a request, by channel.
#[derive(Clone, Debug, Deserialize)]
pub struct Messages(pub Map<String, Value>);

impl JsonSchema for Messages {
    fn schema_name() -> Cow<'static, str> {
        "Messages".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let properties = Channel::OF_MESSAGES.map(|channel| {
            let description = match channel {
                Channel::WhatsApp => "Not allowed in scheduled messages.".to_owned(),
                _ => format!(
                    "At most {MAX_VALUES} values in {MAX_DEPTH} levels, and {MAX_BYTES} bytes of \
                     text. A string with Liquid in it has at most {MAX_SOURCE} bytes. Providers \
                     also receive unknown fields."
                ),
            };
            (channel.name().to_owned(), json!({ "description": description }))
        });
        let valid_messages = Channel::OF_MESSAGES.map(|channel| {
            json!({
                "properties": { channel.name(): message(channel) }, "required": [channel.name()],
            })
        });
        json_schema!({
            "description": "The messages to send, by channel. Strings are Liquid templates, at any \
                            depth. Message objects that cannot be sent are reported in `errors`, \
                            and the others are sent. At least one must be valid.",
            "type": "object", "properties": Map::from_iter(properties), "anyOf": valid_messages,
        })
    }
}

/// A message object.
fn message(channel: Channel) -> Value {
    let fields = known_fields(channel);
    let properties = fields.iter().map(|field| (field.name.to_owned(), value(field)));
    let required: Vec<&str> =
        fields.iter().filter(|field| field.is_required).map(|field| field.name).collect();
    let mut object = json!({
        "type": "object",
        "properties": Map::from_iter(properties),
        "required": required,
    });
    if channel == Channel::ContentCard {
        let only = |name: &str, other: &str| {
            json!({
                "properties": { name: { "not": { "type": "null" } }, other: { "type": "null" } },
                "required": [name],
            })
        };
        object["anyOf"] = json!([only(TIME_TO_LIVE, EXPIRE_AT), only(EXPIRE_AT, TIME_TO_LIVE)]);
    }
    if channel == Channel::Email {
        with_template(&mut object, &required);
    }
    object
}

/// An email template can have all required fields except `app_id`.
fn with_template(email: &mut Value, required: &[&str]) {
    let id = json!({ "type": "string", "format": "uuid" });
    email["properties"][EMAIL_TEMPLATE_ID] = json!({
        "anyOf": [id, { "type": "null" }],
        "description": "ID of an email template that the workspace file declares. The message gets \
                        the fields of the template that it does not have itself, as they are at \
                        the time of the request.",
    });
    email["required"] = json!(["app_id"]);
    email["anyOf"] = json!([
        { "required": required },
        { "properties": { EMAIL_TEMPLATE_ID: id }, "required": [EMAIL_TEMPLATE_ID] },
    ]);
}

fn value(field: &FieldSpec) -> Value {
    let mut value = match field.kind {
        Kind::Text | Kind::Subject | Kind::Address | Kind::Time => {
            json!({ "type": "string", "maxLength": MAX_BYTES })
        }
        Kind::Mailbox | Kind::Mailboxes => {
            // An address or a template. An optional field may also be blank.
            let pattern = if field.is_required { r"@|\{\{|\{%" } else { r"@|\{\{|\{%|^\s*$" };
            json!({ "type": "string", "maxLength": MAX_BYTES, "pattern": pattern })
        }
        Kind::Alert => json!({ "type": ["string", "object"], "maxLength": MAX_BYTES }),
        Kind::Headers => json!({
            "type": "object",
            "propertyNames": { "pattern": r"^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,255}$" },
            "additionalProperties": { "type": ["string", "null"], "maxLength": MAX_BYTES },
        }),
        Kind::Object => json!({ "type": "object" }),
        Kind::Id => schema_of::<Identifier>(),
        Kind::OneOf(names) => json!({ "type": "string", "enum": names }),
        Kind::Group => json!({ "type": "string", "format": "uuid" }),
        Kind::Seconds => json!({ "type": "integer", "minimum": 1, "maximum": MAX_SECONDS }),
    };
    if !field.is_required {
        value = json!({ "anyOf": [value, { "type": "null" }] });
    } else if value["type"] == "string" {
        value["minLength"] = 1.into();
    }
    value["description"] = field.about.into();
    value
}
