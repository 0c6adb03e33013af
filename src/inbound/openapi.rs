//! What comes back, as it is described.

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use super::api::{no_link, no_provider};
use super::feedback::{PROVIDERS, TYPES};
use super::unsubscribe::WINDOW;
use super::{LONGEST_REASON, MOST_REPORTS, events, feedback};
use crate::gateway::openapi::Tag;
use crate::gateway::openapi::shapes::{Success, Time, saying, shape};
use crate::gateway::{Access, ApiError, JsonText, Operation};

const TAG: Tag = Tag {
    name: "Reports",
    about: "What providers and relays say of messages, and users who want no more emails.",
};

const MESSAGE: &str = "0192f1d0c3a47b0e8f5a3c9d2e1b0a96.0190b9a61c0070008000000000000000.sms";
const MESSAGE_ID: &str =
    "<0192f1d0c3a47b0e8f5a3c9d2e1b0a96.0190b9a61c0070008000000000000000@acme.example>";

fn of_workspace(operation: Operation) -> Operation {
    let name = json!({ "type": "string", "minLength": 1, "examples": ["acme"] });
    let mut operation = operation.parameter(json!({
        "in": "query", "name": "workspace", "required": true, "schema": name,
        "description": "Whose messages they were.",
    }));
    for (name, about) in [
        (
            "webhook-id",
            "Of the sender's choice, another one for each request. One that comes again within a \
             day changes nothing more.",
        ),
        ("webhook-timestamp", "When it was signed, in seconds since the Unix epoch."),
    ] {
        operation = operation.parameter(json!({
            "in": "header", "name": name, "required": true, "description": about,
            "schema": { "type": "string", "minLength": 1 },
        }));
    }
    operation
}

pub(super) fn feedback() -> Operation {
    let wrong = |reports: Value| {
        feedback::read(&JsonText::from(json!({ "reports": reports }).to_string()), 0)
    };
    let operation = Operation::new(
        Method::POST,
        "reportMessages",
        TAG,
        "Report what became of push, SMS and WhatsApp messages",
    )
    .by(Access::Signed("providers.feedback_secret"))
    .about(
        "For the provider that messages are handed to. An invalid number is sent nothing more \
         until somebody takes it off the list (`POST /sms/invalid_phone_numbers/remove`); a \
         device that is not registered any more is removed from the user's profile. A message \
         that is not known is passed over.",
    )
    .in_path("provider", "Who reports.", json!({ "enum": PROVIDERS }))
    .takes::<Feedback>([
        (
            "A number and a device",
            json!({ "reports": [
                { "type": TYPES[0], "number": "+15550100" },
                { "type": TYPES[1], "id": MESSAGE, "token": "740f4707bebcf74f", "app_id": "app" },
            ] }),
        ),
        (
            "What became of two messages",
            json!({ "reports": [
                { "type": TYPES[2], "id": MESSAGE, "at": "2026-11-21T08:58:43Z" },
                { "type": TYPES[3], "id": MESSAGE, "reason": "blocked by the carrier" },
            ] }),
        ),
    ])
    .answers::<Success>(StatusCode::OK, "All of it is written.", json!({ "message": "success" }))
    .refuses(&no_provider(), "Nobody of that name reports")
    .refuses_some(
        [
            wrong(json!([])),
            wrong(json!([{ "type": "read" }])),
            wrong(json!([{ "type": TYPES[0], "number": "555" }])),
        ],
        "A report is wrong; nothing of them is written",
    );
    of_workspace(operation)
}

shape! {
    /// Reports of messages.
    Feedback = |generator| {
        let time = generator.subschema_for::<Time>();
        let id = saying("The message's, as the provider was given it.", json!({ "type": "string" }));
        let report = |kind: &str, properties: Value, required: &[&str]| {
            let mut schema = json!({
                "type": "object",
                "properties": { "type": { "const": kind } },
                "required": ["type"],
            });
            if let (Some(to), Value::Object(from)) = (schema["properties"].as_object_mut(), properties) {
                to.extend(from);
            }
            if let Some(all) = schema["required"].as_array_mut() {
                all.extend(required.iter().map(|name| json!(name)));
            }
            schema
        };
        let why = json!({
            "type": ["string", "null"],
            "description": format!("Why; {LONGEST_REASON} characters of it are kept."),
        });
        json!({
            "type": "object",
            "properties": { "reports": {
                "type": "array", "minItems": 1, "maxItems": MOST_REPORTS,
                "items": { "oneOf": [
                    report(TYPES[0], json!({ "number": {
                        "type": "string", "pattern": r"^\+?[0-9]{7,15}$",
                        "description": "E.164; the plus may be missing.",
                    } }), &["number"]),
                    report(TYPES[1], json!({
                        "id": saying("Of a message that went to it.", json!({ "type": "string" })),
                        "token": { "type": "string" },
                        "app_id": saying("Of any app, where it is absent.", json!({ "type": ["string", "null"] })),
                    }), &["id", "token"]),
                    report(TYPES[2], json!({
                        "id": id, "at": { "anyOf": [time, { "type": "null" }] },
                    }), &["id"]),
                    report(TYPES[3], json!({
                        "id": id, "at": { "anyOf": [time, { "type": "null" }] }, "reason": why,
                    }), &["id"]),
                ] },
            } },
            "required": ["reports"],
        })
    }
}

pub(super) fn events() -> Operation {
    let wrong =
        |events: Value| events::read(&JsonText::from(json!({ "events": events }).to_string()), 0);
    let operation =
        Operation::new(Method::POST, "reportEmails", TAG, "Report what became of emails")
            .by(Access::Signed("email.events_secret"))
            .about(
                "For the relay, or whoever reads what it says. A state that a transactional \
                 email has come to is told by a postback. An email that is not known is passed \
                 over, and so is what is known already.",
            )
            .takes::<EmailEvents>([(
                "One that arrived, and one that did not",
                json!({ "events": [
                    { "type": "delivered", "id": MESSAGE_ID, "at": "2026-11-21T08:58:43Z" },
                    { "type": "bounced", "id": MESSAGE_ID, "code": 550, "reason": "No such user" },
                ] }),
            )])
            .answers::<Success>(
                StatusCode::OK,
                "All of it is written.",
                json!({ "message": "success" }),
            )
            .refuses_some(
                [
                    wrong(json!([])),
                    wrong(json!([{ "type": "opened", "id": MESSAGE_ID }])),
                    wrong(json!([{ "type": "delivered", "id": MESSAGE_ID, "at": "soon" }])),
                ],
                "An event is wrong; nothing of them is written",
            );
    of_workspace(operation)
}

shape! {
    /// What became of emails.
    EmailEvents = |generator| {
        let time = generator.subschema_for::<Time>();
        json!({
            "type": "object",
            "properties": { "events": {
                "type": "array", "minItems": 1, "maxItems": MOST_REPORTS,
                "items": {
                    "type": "object",
                    "properties": {
                        "type": { "enum": events::TYPES },
                        "id": saying(
                            "The email's `Message-ID`, with its brackets or without, or the \
                             message's id.",
                            json!({ "type": "string" }),
                        ),
                        "at": { "anyOf": [time, { "type": "null" }] },
                        "code": saying(
                            "Of SMTP, such as 550 or `5.1.1`.",
                            json!({ "type": ["string", "integer", "null"] }),
                        ),
                        "reason": { "type": ["string", "null"] },
                    },
                    "required": ["type", "id"],
                },
            } },
            "required": ["events"],
        })
    }
}

shape! {
    /// HTML for people.
    UnsubscribePage = |_| json!({ "type": "string" })
}

fn by_token(operation: Operation) -> Operation {
    operation
        .in_path(
            "token",
            "Whose emails: as the `List-Unsubscribe` header of the email has it.",
            json!({ "type": "string", "pattern": "^[A-Za-z0-9_-]{70}$" }),
        )
        .refuses(&no_link(), "It is no such token")
}

pub(super) fn ask() -> Operation {
    let operation =
        Operation::new(Method::GET, "askToUnsubscribe", TAG, "A page to unsubscribe by")
            .about("Changes nothing: mail programs and filters look at every link.")
            .answers_as::<UnsubscribePage>(StatusCode::OK, "A page with a button.", "text/html");
    by_token(operation)
}

pub(super) fn unsubscribe() -> Operation {
    let operation = Operation::new(Method::POST, "unsubscribe", TAG, "Unsubscribe from emails")
        .about(
            "With one click (RFC 8058): the user's `email_subscribe` becomes `unsubscribed`. \
             What the body says does not matter, nor does how often it comes.",
        )
        .refuses(
            &ApiError::RateLimited(WINDOW / 1_000),
            "It came several times in an hour without having taken effect yet",
        )
        .answers_as::<UnsubscribePage>(
            StatusCode::OK,
            "It is durable, and in effect within seconds.",
            "text/html",
        );
    by_token(operation)
}
