//! The call as it is described.

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use super::api::{PERMISSION, in_its_words};
use super::request::{MOST_BYTES, Start};
use crate::audience::openapi::ConnectedAudience;
use crate::gateway::openapi::Tag;
use crate::gateway::openapi::shapes::{Identifier, Success, Time, members, or_null, saying, shape};
use crate::gateway::{Access, ApiError, Operation};
use crate::messages::members::MOST_USERS;
use crate::messages::request::UNKNOWN_SEGMENT;
use crate::workspaces::settings::Settings;

const TAG: Tag = Tag { name: "Live activities", about: "Activities of iOS apps." };

const APP: &str = "7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33";

pub(super) fn start() -> Operation {
    Operation::new(Method::POST, "startLiveActivity", TAG, "Start a live activity")
        .by(Access::Key(PERMISSION))
        .about(
            "On the devices of users who have a token of the kind `live_activity` for the app, \
             through the push provider. Answered once it is durable; it is sent soon after. Who \
             has unsubscribed from push messages is left out; frequency capping is not looked at.",
        )
        .repeatable()
        .takes::<LiveActivityStart>([("For one user", example())])
        .answers::<Success>(StatusCode::CREATED, "It is durable.", json!({ "message": "success" }))
        .refuses_some(wrong_requests(), "A member is wrong")
        .refuses(&ApiError::Invalid(UNKNOWN_SEGMENT.into()), "The workspace has no such segment")
        .refuses_as::<LiveActivityError>(StatusCode::BAD_REQUEST, in_its_words)
}

fn example() -> Value {
    json!({
        "app_id": APP,
        "activity_id": "order-1907",
        "activity_attributes_type": "DeliveryAttributes",
        "activity_attributes": { "restaurant": "Corner Café" },
        "content_state": { "courier": "Ola", "minutes": 25 },
        "stale_date": "2127-01-01T12:30:00Z",
        "notification": { "alert": { "title": "On its way", "body": "25 minutes to go" } },
        "external_user_ids": ["ann"],
    })
}

/// What is said of bodies that are each wrong in another way.
fn wrong_requests() -> [Result<Start, String>; 2] {
    let mut without_app = members(example());
    without_app.remove("app_id");
    [without_app, members(example())].map(|body| Start::read(&body, &Settings::default()))
}

shape! {
    /// What is started, where, and for whom: exactly one of `external_user_ids`,
    /// `custom_audience` and `segment_id` is given.
    LiveActivityStart = |generator| {
        let id = generator.subschema_for::<Identifier>();
        let time = generator.subschema_for::<Time>();
        let date = |about: &str| or_null(saying(about, json!({ "allOf": [time] })));
        let users = json!({ "type": "array", "items": id, "minItems": 1, "maxItems": MOST_USERS });
        let audience = generator.subschema_for::<ConnectedAudience>();
        let segment = json!({ "type": "string", "format": "uuid" });
        let options = [
            ("external_user_ids", users),
            ("custom_audience", json!(audience)),
            ("segment_id", saying("Of a segment that the workspace file declares.", segment)),
        ];
        let names = options.each_ref().map(|(name, _)| *name);
        let option = |(name, schema): (&str, Value)| {
            let mut properties = members(json!({ name: schema }));
            let others = names.iter().filter(|other| **other != name);
            properties.extend(others.map(|other| ((*other).to_owned(), json!({ "type": "null" }))));
            json!({ "properties": properties, "required": [name] })
        };
        let about = format!(
            "Attributes, content state and alert together are at most {MOST_BYTES} bytes of JSON; \
             Apple's push service takes 4 KB."
        );
        json!({
            "type": "object",
            "properties": {
                "app_id": saying(
                    "Of an iOS app that the workspace file declares.",
                    json!({ "type": "string", "format": "uuid" }),
                ),
                "activity_id": generator.subschema_for::<Identifier>(),
                "activity_attributes_type": saying(
                    "One of the app's `activity_types`.", json!({ "type": "string" }),
                ),
                "activity_attributes": saying(&about, json!({ "type": "object" })),
                "content_state": saying(
                    "In the shape that the app's `ContentState` has.", json!({ "type": "object" }),
                ),
                "dismissal_date": date(
                    "When it leaves the screen; a past time removes it at once.",
                ),
                "stale_date": date("When its content counts as outdated."),
                "notification": generator.subschema_for::<LiveActivityNotification>(),
            },
            "required": [
                "app_id", "activity_id", "activity_attributes_type", "activity_attributes",
                "content_state", "notification",
            ],
            "anyOf": options.map(option),
        })
    }
}

shape! {
    /// What is shown when it starts. The alert should have a title and a body: texts, which are
    /// Liquid templates, or objects that name texts of the app, such as `{"loc-key": "ON_ITS_WAY"}`; other members of it are
    /// passed on. A string is an alert with that body.
    LiveActivityNotification = |_| {
        let text = json!({ "type": ["string", "object", "null"] });
        json!({
            "type": "object",
            "properties": {
                "alert": { "anyOf": [
                    { "type": "object", "properties": { "title": text, "body": text } },
                    { "type": "string" },
                ] },
                "sound": {
                    "type": ["string", "null"], "description": "Where the alert has none.",
                },
            },
            "required": ["alert"],
        })
    }
}

shape! {
    /// What is wrong, for people.
    LiveActivityError = |_| json!({
        "type": "object",
        "properties": { "error": { "type": "string" } },
        "required": ["error"],
    })
}
