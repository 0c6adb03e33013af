//! The transactional call as it is described.

use axum::http::{Method, StatusCode};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::api::{PERMISSION, answer, bad_id, check, queued};
use super::request::{ID_PATTERN, LONGEST_ID, Request};
use super::{State, rows};
use crate::campaigns::{Campaign, Kind};
use crate::gateway::openapi::Tag;
use crate::gateway::openapi::shapes::{Identifier, UserAlias, members, or_null, shape};
use crate::gateway::{Access, Operation};
use crate::messages::members::MOST_PROPERTIES;
use crate::tracking::openapi::AttributesBeside;
use kit::clock::hours;

const TAG: Tag = Tag { name: "Transactional email", about: "One email to one user, at once." };

pub(super) fn send() -> Operation {
    const { assert!(rows::KEY_HOLDS.as_secs() == hours(24).as_secs()) };
    let operation =
        Operation::new(Method::POST, "sendTransactional", TAG, "Send a transactional email")
            .by(Access::Key(PERMISSION))
            .about(
                "The email of a transactional campaign goes to one user, whatever they subscribe \
                 to. Not counted against any limit: beyond what the campaign's package covers in \
                 an hour emails are sent all the same.\n\nThe attributes are written before the \
                 email is rendered, so its template has them; with attributes, an external_user_id \
                 that nobody has makes a user.\n\nAn `external_send_id` stands for its send for 24 \
                 hours: sent again, nothing is sent, and the answer is that of the first send as \
                 it is by now.\n\nWhat becomes of the email is told to the address that the \
                 workspace declares as `email.status_postback`, by a POST for each of the states \
                 `sent`, `processed`, `delivered`, `bounced` and `aborted` that it comes to, in \
                 their order.",
            )
            .in_path(
                "campaign_id",
                "Of a transactional campaign that the workspace file declares.",
                json!({ "type": "string", "format": "uuid" }),
            )
            .repeatable()
            .takes::<TransactionalSend>([("A receipt", example())])
            .answers::<TransactionalSent>(StatusCode::CREATED, "It is to be sent.", sent())
            .answers::<TransactionalSent>(
                StatusCode::OK,
                "The `external_send_id` had its send before; nothing is sent.",
                json!({
                    "dispatch_id": sent()["dispatch_id"], "status": State::Delivered,
                    "metadata": sent()["metadata"],
                }),
            )
            .refuses(&bad_id(), "The campaign_id is not a UUID")
            .refuses(
                &queued(),
                "The external_send_id had its send in the last 24 hours, of which nothing is \
                 known yet, or no more",
            );
    let campaign = |kind| Campaign {
        id: Uuid::nil(),
        kind,
        name: String::new(),
        tags: Vec::new(),
        archived: false,
        paused: false,
        content: Map::new(),
    };
    let refused = [
        (None, "The workspace has no such campaign"),
        (Some(campaign(Kind::Api)), "The campaign is of another type"),
        (
            Some(Campaign { archived: true, ..campaign(Kind::Transactional) }),
            "The campaign is archived",
        ),
        (
            Some(Campaign { paused: true, ..campaign(Kind::Transactional) }),
            "The campaign is paused",
        ),
    ];
    let operation = refused.into_iter().fold(operation, |operation, (campaign, when)| {
        operation.refuses_some([check(campaign.as_ref())], when)
    });
    operation.refuses_some(wrong_requests(), "A member is wrong")
}

fn example() -> Value {
    json!({
        "external_send_id": "b3JkZXItMTAwNA==",
        "trigger_properties": { "order": 1004, "total": "59.90 EUR" },
        "recipient": {
            "external_user_id": "ann",
            "attributes": { "first_name": "Ann", "email": "ann@example.com" },
        },
    })
}

fn sent() -> Value {
    let (dispatch_id, campaign_id) = (
        Uuid::from_u128(0x5f0e_6b1a_9c3d_4e7f_8a2b_1c0d_9e8f_7a6b),
        Uuid::from_u128(0x7d0c_41a8_3f5e_4b7a_9c1d_2e6f_8a90_b1c2),
    );
    let times = (1_795_248_000_120, 1_795_248_000_123);
    answer(dispatch_id, State::Processing, (campaign_id, Some("b3JkZXItMTAwNA==")), times)
}

/// What is said of bodies that are each wrong in another way.
fn wrong_requests() -> [Result<Request, String>; 6] {
    let changes = [
        json!({ "recipient": null }),
        json!({ "recipient": {} }),
        json!({ "recipient": { "external_user_id": "ann", "attributes": { "email": "nowhere" } } }),
        json!({ "recipient": { "user_alias": { "alias_name": "ann" } } }),
        json!({ "external_send_id": "order 1004" }),
        json!({ "trigger_properties": [] }),
    ];
    changes.map(|change| {
        let mut body = members(example());
        body.extend(members(change));
        Request::read(&body, 0, 0)
    })
}

shape! {
    /// To whom an email goes, and with what in its template.
    TransactionalSend = |generator| {
        const { assert!(MOST_PROPERTIES == 50 << 10) };
        let about = "What the send is called by who asks for it, such as an id in base64; it is \
                     in every postback.";
        json!({
            "type": "object",
            "properties": {
                "external_send_id": {
                    "type": ["string", "null"], "description": about, "pattern": ID_PATTERN,
                    "minLength": 1, "maxLength": LONGEST_ID,
                },
                "trigger_properties": {
                    "type": ["object", "null"],
                    "description": "`api_trigger_properties` of the template; at most 50 KiB.",
                },
                "recipient": generator.subschema_for::<TransactionalRecipient>(),
            },
            "required": ["recipient"],
        })
    }
}

shape! {
    /// A user, by one of two names.
    TransactionalRecipient = |generator| {
        let absent = json!({ "type": "null" });
        let id = generator.subschema_for::<Identifier>();
        let alias = generator.subschema_for::<UserAlias>();
        json!({
            "type": "object",
            "properties": { "attributes": or_null(generator.subschema_for::<AttributesBeside>()) },
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
    /// A send, and how far it has come. Times are like `2026-11-21T08:00:00.120+00:00`.
    TransactionalSent = |_| {
        let time = json!({ "type": "string", "format": "date-time" });
        json!({
            "type": "object",
            "properties": {
                "dispatch_id": { "type": "string", "pattern": "^[0-9a-f]{32}$" },
                "status": {
                    "enum": State::ALL,
                    "description": "`processing` before the first of the others. `sent`: the relay \
                                    has it; `processed`: it has prepared it; `delivered`, \
                                    `bounced`: what the recipient's provider said; `aborted`: it \
                                    could not be dispatched.",
                },
                "metadata": {
                    "type": "object",
                    "properties": {
                        "campaign_api_id": { "type": "string", "format": "uuid" },
                        "external_send_id": { "type": "string" },
                        "received_at": time,
                        "enqueued_at": time,
                    },
                    "required": ["campaign_api_id", "received_at", "enqueued_at"],
                },
            },
            "required": ["dispatch_id", "status", "metadata"],
        })
    }
}
