//! The AsyncAPI document of the log's topics, from the types that Longshore writes and reads.

use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{Schema, json_schema};
use serde_json::{Map, Value, json};

use crate::catalogs::message::Edit;
use crate::messages::order::Versioned;
use crate::topics;
use crate::tracking::message::Batch;
use crate::worker::Role;
use log::{MAX_MESSAGE_BYTES, Topic};

/// Where the document has its schemas.
const SCHEMAS: &str = "/components/schemas";

/// What the document has of a topic.
struct Channel {
    topic: Topic,
    /// The role that applies its messages, in the consumer group of that name.
    role: Role,
    /// The name of its message.
    message: &'static str,
    summary: &'static str,
    content_type: &'static str,
    key: &'static str,
    payload: fn(&mut SchemaGenerator) -> Schema,
}

const JSON: &str = "application/json";
const MESSAGE_ID: &str = "The message's id, a UUID of 16 bytes, if the request had an \
                          Idempotency-Key. Two messages with one id are applied once.";

const CHANNELS: [Channel; 4] = [
    Channel {
        topic: topics::EXPORTS,
        role: Role::Exports,
        message: "Export",
        summary: "The id of an export that waits to be planned.",
        content_type: "text/plain",
        key: "The export's id, as text.",
        payload: |_| json_schema!({ "type": "string", "format": "uuid" }),
    },
    Channel {
        topic: topics::TRACKING,
        role: Role::Ingest,
        message: "Batch",
        summary: "Attributes, events and purchases of users, and changes of their identifiers.",
        content_type: JSON,
        key: MESSAGE_ID,
        payload: |generator| generator.subschema_for::<Batch<'_>>(),
    },
    Channel {
        topic: topics::CATALOGS,
        role: Role::Catalogs,
        message: "Edit",
        summary: "Edits of catalog items.",
        content_type: JSON,
        key: MESSAGE_ID,
        payload: |generator| generator.subschema_for::<Edit<'_>>(),
    },
    Channel {
        topic: topics::MESSAGES,
        role: Role::Messages,
        message: "Order",
        summary: "A send request.",
        content_type: JSON,
        key: MESSAGE_ID,
        payload: |generator| generator.subschema_for::<Versioned<'_>>(),
    },
];

/// The document, as AsyncAPI 3.1. Operations are those of Longshore itself: gateways send, and
/// workers receive.
pub fn document() -> Value {
    let mut generator = SchemaSettings::draft07()
        .with(|settings| {
            settings.definitions_path = SCHEMAS.into();
            settings.meta_schema = None;
        })
        .for_serialize()
        .into_generator();
    let (mut channels, mut operations) = (Map::new(), Map::new());
    let mut messages = Map::new();
    for channel in &CHANNELS {
        let (name, message) = (channel.topic.name(), channel.message);
        let payload = (channel.payload)(&mut generator);
        messages.insert(message.into(), self::message(channel, &payload));
        channels.insert(
            name.into(),
            json!({
                "address": format!("{{topicPrefix}}{name}"),
                "description": channel.summary,
                "parameters": { "topicPrefix": {
                    "description": "The setting log.topic_prefix.", "default": "",
                } },
                "messages": {
                    message: { "$ref": format!("#/components/messages/{message}") },
                },
            }),
        );
        let mut operation = |action: &str, summary: &str, bindings: Value| {
            let written = json!({
                "action": action,
                "channel": { "$ref": format!("#/channels/{name}") },
                "summary": summary,
                "bindings": bindings,
                "messages": [{ "$ref": format!("#/channels/{name}/messages/{message}") }],
            });
            operations.insert(format!("{action}{message}"), written);
        };
        operation("send", "A gateway appends an accepted request.", json!({}));
        let group = channel.role.name();
        let group = json!({ "type": "string", "pattern": format!("^.*{group}$"),
            "description": format!("The setting log.topic_prefix, and `{group}`.") });
        let bindings = json!({ "kafka": { "groupId": group, "bindingVersion": "0.5.0" } });
        operation("receive", "A worker applies the message once.", bindings);
    }
    json!({
        "asyncapi": "3.1.0",
        "id": "urn:longshore:log",
        "info": {
            "title": "Longshore: topics of the log",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "The messages that gateways append and workers apply. Other programs \
                            may read these topics, under consumer groups of their own, and must \
                            not append to them. Fields are added and never removed or changed; a \
                            change that readers must not ignore gets another `v`.",
        },
        "defaultContentType": JSON,
        "channels": channels,
        "operations": operations,
        "components": { "messages": messages, "schemas": generator.take_definitions(true) },
    })
}

fn message(channel: &Channel, payload: &Schema) -> Value {
    json!({
        "name": channel.message,
        "title": channel.message,
        "summary": channel.summary,
        "description": format!("At most {MAX_MESSAGE_BYTES} bytes with its key and header."),
        "contentType": channel.content_type,
        "headers": {
            "type": "object",
            "properties": { "request_id": {
                "type": "string",
                "description": "The X-Request-Id of the request, followed by `;` and its \
                                traceparent if it is traced.",
            } },
            "required": ["request_id"],
        },
        "payload": {
            "schemaFormat": "application/schema+json;version=draft-07",
            "schema": payload,
        },
        "bindings": { "kafka": {
            "key": { "type": "string", "description": channel.key },
            "bindingVersion": "0.5.0",
        } },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_topic_is_a_channel() {
        let topics: Vec<Topic> = CHANNELS.iter().map(|channel| channel.topic).collect();
        assert_eq!(topics, topics::ALL);
    }
}
