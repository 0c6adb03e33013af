//! The calls of Canvas schedules as they are described.

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use super::api::{CREATE, DELETE, SENT, no_canvas, no_schedule};
use super::request::{CanvasRequest, read_delete};
use crate::audience::openapi::ConnectedAudience;
use crate::gateway::openapi::Tag;
use crate::gateway::openapi::shapes::{
    Identifier, Success, UserAlias, members, or_null, saying, shape,
};
use crate::gateway::{Access, ApiError, Operation};
use crate::messages::members::MOST_USERS;
use crate::messages::openapi::ScheduleObject;
use crate::messages::when::PAST;

const TAG: Tag =
    Tag { name: "Canvas schedules", about: "Sends of a Canvas that wait for their time." };

const CANVAS: &str = "0b0a6c8e-6d0c-4f39-9d0b-6f0f6f9a2c11";
const SCHEDULE: &str = "019a9f3e-7c11-7d22-8e33-9f44a055b166";

pub(super) fn create() -> Operation {
    let operation = Operation::new(Method::POST, "scheduleCanvas", TAG, "Schedule a Canvas")
        .by(Access::Key(CREATE))
        .about(
            "For users, for an audience, or for everybody who is not in the global control group. \
             It is sent once, within a second of its time, as the Canvas is declared then. One \
             whose time passes while nothing can send it is sent afterwards if it is less than an \
             hour late, and else is missed.",
        )
        .repeatable()
        .takes::<ScheduleRequest>([("One user, on their morning", example())])
        .answers::<Scheduled>(
            StatusCode::CREATED,
            "It is scheduled.",
            json!({
                "dispatch_id": "5f0e6b1a9c3d4e7f8a2b1c0d9e8f7a6b", "schedule_id": SCHEDULE,
                "message": "success",
            }),
        )
        .with_link(
            "deleteSchedule",
            json!({ "requestBody": {
            "canvas_id": "$request.body#/canvas_id", "schedule_id": "$response.body#/schedule_id",
        } }),
        )
        .refuses(&no_canvas(), "The workspace has no such Canvas")
        .refuses(
            &ApiError::Invalid(PAST.into()),
            "The time is past, in every zone where that counts",
        );
    operation.refuses_some(wrong_requests(), "A member is wrong")
}

fn example() -> Value {
    json!({
        "canvas_id": CANVAS,
        "schedule": { "time": "2127-01-01T09:00:00", "in_local_time": true },
        "recipients": [{ "external_user_id": "ann", "trigger_properties": { "seats": 2 } }],
        "canvas_entry_properties": { "city": "Oslo" },
    })
}

/// What is said of bodies that are each wrong in another way.
fn wrong_requests() -> [Result<CanvasRequest, String>; 4] {
    let changes = [
        json!({ "recipients": [{}] }),
        json!({ "recipients": [] }),
        json!({ "broadcast": true }),
        json!({ "recipients": [], "broadcast": true, "audience": { "AND": [] } }),
    ];
    changes.map(|change| {
        let mut body = members(example());
        body.extend(members(change));
        CanvasRequest::read(&body)
    })
}

shape! {
    /// What is sent, when and to whom: to users who are named, of whom an audience may be a part;
    /// or with `broadcast` to an audience, or to everybody.
    ScheduleRequest = |generator| {
        let recipients = json!({
            "type": "array", "items": generator.subschema_for::<Recipient>(),
        });
        json!({
            "type": "object",
            "properties": {
                "canvas_id": { "type": "string", "description": "Of a Canvas that the workspace file declares." },
                "schedule": generator.subschema_for::<ScheduleObject>(),
                "audience": or_null(generator.subschema_for::<ConnectedAudience>()),
                "canvas_entry_properties": or_null(saying("For everybody.", json!({ "type": "object" }))),
            },
            "required": ["canvas_id", "schedule"],
            "anyOf": [
                {
                    "properties": {
                        "recipients": {
                            "allOf": [recipients], "minItems": 1, "maxItems": MOST_USERS,
                        },
                        "broadcast": { "enum": [false, null], "default": false },
                    },
                    "required": ["recipients"],
                },
                {
                    "properties": {
                        "broadcast": { "const": true },
                        "recipients": { "type": ["array", "null"], "maxItems": 0 },
                    },
                    "required": ["broadcast"],
                },
            ],
        })
    }
}

shape! {
    /// A user, by one of two names.
    Recipient = |generator| {
        let absent = json!({ "type": "null" });
        let id = generator.subschema_for::<Identifier>();
        let alias = generator.subschema_for::<UserAlias>();
        json!({
            "type": "object",
            "properties": {
                "trigger_properties": { "type": ["object", "null"] },
                "canvas_entry_properties": { "type": ["object", "null"] },
            },
            "anyOf": [
                {
                    "properties": { "external_user_id": id, "user_alias": absent },
                    "required": ["external_user_id"],
                },
                {
                    "properties": { "user_alias": alias, "external_user_id": absent },
                    "required": ["user_alias"],
                },
            ],
        })
    }
}

shape! {
    /// What was scheduled.
    Scheduled = |_| json!({
        "type": "object",
        "properties": {
            "dispatch_id": { "type": "string", "pattern": "^[0-9a-f]{32}$" },
            "schedule_id": { "type": "string", "format": "uuid" },
            "message": { "const": "success" },
        },
        "required": ["dispatch_id", "schedule_id", "message"],
    })
}

pub(super) fn delete() -> Operation {
    let operation =
        Operation::new(Method::POST, "deleteSchedule", TAG, "Cancel a Canvas's schedule")
            .by(Access::Key(DELETE))
            .about(
                "Cancelling again gives the same answer. Of what is being sent, the part that is \
                 not sent yet is kept back as far as that can be done.",
            )
            .repeatable()
            .takes::<ScheduleDeletion>([(
                "A schedule",
                json!({ "canvas_id": CANVAS, "schedule_id": SCHEDULE }),
            )])
            .answers::<Success>(
                StatusCode::CREATED,
                "It is cancelled.",
                json!({ "message": "success" }),
            )
            .refuses(&no_canvas(), "The workspace has no such Canvas")
            .refuses(&no_schedule(), "The Canvas has no such schedule")
            .refuses(&ApiError::Invalid(SENT.into()), "It was sent");
    let wrong = [json!({}), json!({ "canvas_id": CANVAS, "schedule_id": 5 })];
    operation.refuses_some(wrong.map(|body| read_delete(&members(body))), "A member is wrong")
}

shape! {
    /// Which schedule of which Canvas.
    ScheduleDeletion = |_| json!({
        "type": "object",
        "properties": {
            "canvas_id": { "type": "string" },
            "schedule_id": { "type": "string", "description": "As the schedule was answered." },
        },
        "required": ["canvas_id", "schedule_id"],
    })
}
