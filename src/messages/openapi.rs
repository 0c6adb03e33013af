//! The calls that send and schedule messages, as they are described.

use axum::http::{Method, StatusCode};
use schemars::SchemaGenerator;
use serde_json::{Value, json};
use uuid::Uuid;

use super::api::{SCHEDULE, SEND};
use super::content::openapi::Messages;
use super::members::{MOST_PROPERTIES, MOST_USERS};
use super::request::{
    ARCHIVED_CAMPAIGN, INVALID_CAMPAIGN, MOST_SEND_ID, NO_MESSAGE, PAUSED_CAMPAIGN,
    UNKNOWN_SEGMENT, read_schedule, read_send,
};
use crate::audience::openapi::ConnectedAudience;
use crate::campaigns::{ApiCampaign, ApiCampaigns};
use crate::gateway::openapi::Tag;
use crate::gateway::openapi::shapes::Time;
use crate::gateway::openapi::shapes::{
    Identifier, UserAlias, error_with, members, or_null, saying, shape,
};
use crate::gateway::{Access, ApiError, Operation};
use crate::workspaces::settings::Settings;

const TAG: Tag = Tag {
    name: "Messages",
    about: "To users who are named, to a segment, or to an audience; now or later.",
};

const CAMPAIGN: &str = "3c9f0a52-8f1e-4c57-9a3e-0d5b1c2e7f60";
const SEGMENT: Uuid = Uuid::from_u128(0x8a1d_0f5e_2c3b_4d6a_9e7f_0123_4567_89ab);
const SCHEDULE_ID: &str = "019a9f3e-7c11-7d22-8e33-9f44a055b166";
const DISPATCH: &str = "5f0e6b1a9c3d4e7f8a2b1c0d9e8f7a6b";

pub(super) fn send() -> Operation {
    let operation = Operation::new(Method::POST, "sendMessages", TAG, "Send messages now")
        .by(Access::Key(SEND))
        .about(
            "Answered once it is durable; sent soon after, once to each user by each channel. \
             Users who do not exist are skipped. Where a segment or an audience is meant as a \
             whole, the call counts against the budget `messages.send.audience` instead: 250 \
             requests a minute.",
        )
        .repeatable()
        .takes::<SendRequest>([
            ("To users who are named", to_users()),
            ("To a segment", to_segment(json!({}))),
        ])
        .answers::<Sent>(
            StatusCode::CREATED,
            "It is durable.",
            json!({ "dispatch_id": DISPATCH, "send_id": "spring", "message": "success" }),
        );
    let operation = refuses_targets(operation, to_users(), |body| {
        read_send(&members(body), &settings(), &campaigns()).map(drop).map_err(ApiError::from)
    });
    operation.refuses(&ApiError::TooLarge, "Written anew it has too many bytes")
}

pub(crate) fn schedule() -> Operation {
    let operation = Operation::new(Method::POST, "scheduleMessages", TAG, "Schedule messages")
        .by(Access::Key(SCHEDULE))
        .about(
            "For a time that is one for all, or on everybody's own clock. `longshore schedules` \
             shows and cancels what is scheduled.",
        )
        .repeatable()
        .takes::<ScheduleMessagesRequest>([
            ("To a user, on their morning", on_a_morning()),
            (
                "To a segment, what a campaign declares",
                scheduled(to_segment(json!({
                    "messages": null, "campaign_id": CAMPAIGN,
                }))),
            ),
        ])
        .answers::<ScheduledMessages>(
            StatusCode::CREATED,
            "It is scheduled.",
            json!({
                "dispatch_id": DISPATCH, "schedule_id": SCHEDULE_ID, "message": "success",
                "errors": [{ "type": "it cannot be scheduled", "path": "messages.whats_app" }],
            }),
        );
    let operation = refuses_targets(operation, on_a_morning(), |body| {
        read_schedule(&members(body), None, &settings(), &campaigns())
            .map(drop)
            .map_err(ApiError::from)
    });
    operation.refuses(
        &ApiError::Invalid(super::when::PAST.into()),
        "The time is past, in every zone where that counts",
    )
}

/// With what is said of bodies that are each wrong in another way, over one that is right.
fn refuses_targets(
    operation: Operation,
    right: Value,
    read: impl Fn(Value) -> Result<(), ApiError>,
) -> Operation {
    let changes = [
        json!({ "external_user_ids": null }),
        json!({ "broadcast": true }),
        json!({ "external_user_ids": null, "segment_id": SEGMENT }),
        json!({ "external_user_ids": vec!["ann"; MOST_USERS + 1] }),
        json!({ "audience": { "AND": [] } }),
        json!({ "recipients": [{}] }),
        json!({ "send_id": "" }),
        json!({ "recipient_subscription_state": "some" }),
    ];
    let wrong = changes.map(|change| {
        let mut body = right.clone();
        for (name, value) in members(change) {
            body[name] = value;
        }
        read(body)
    });
    let wrong_template = ApiError::InvalidMany(
        "messages.webhook.body: line 1, column 7: a tag is not closed".into(),
        vec![json!({
            "type": "line 1, column 7: a tag is not closed", "path": "messages.webhook.body",
        })],
    );
    let no_message = vec![json!({
        "type": "the workspace declares no providers.push", "path": "messages.apple_push",
    })];
    let mut operation = operation
        .refuses_in::<MessagesError>(StatusCode::BAD_REQUEST)
        .refuses_some(wrong, "A member is wrong")
        .refuses(&ApiError::Invalid(UNKNOWN_SEGMENT.into()), "The workspace has no such segment");
    for (text, when) in [
        (INVALID_CAMPAIGN, "The workspace has no such campaign of type api"),
        (ARCHIVED_CAMPAIGN, "The campaign is archived"),
        (PAUSED_CAMPAIGN, "The campaign is paused"),
    ] {
        operation = operation.refuses(&ApiError::Invalid(text.into()), when);
    }
    operation
        .refuses(&wrong_template, "A message object makes the whole request fail")
        .refuses(&ApiError::InvalidMany(NO_MESSAGE.into(), no_message), "Nothing can be sent")
}

/// A workspace that has the segment of the examples, and its campaigns.
fn settings() -> Settings {
    Settings { segments: [SEGMENT].into(), ..Settings::default() }
}

fn campaigns() -> ApiCampaigns {
    let campaign = CAMPAIGN.parse().map(|id: Uuid| (id, ApiCampaign::default()));
    campaign.into_iter().collect()
}

fn webhook() -> Value {
    json!({ "webhook": {
        "url": "https://hooks.acme.example/{{${user_id}}}", "request_method": "POST",
        "body": "{\"name\": \"{{${first_name}}}\"}",
    }})
}

fn to_users() -> Value {
    json!({
        "external_user_ids": ["ann"],
        "recipients": [{ "external_user_id": "bob", "trigger_properties": { "seats": 2 } }],
        "campaign_id": CAMPAIGN, "send_id": "spring",
        "messages": webhook(),
    })
}

/// With these members over those that are right.
fn to_segment(change: Value) -> Value {
    let mut body = json!({ "broadcast": true, "segment_id": SEGMENT, "messages": webhook() });
    for (name, value) in members(change) {
        body[name] = value;
    }
    body
}

fn scheduled(mut body: Value) -> Value {
    body["schedule"] = json!({ "time": "2127-01-01T09:00:00Z" });
    body
}

fn on_a_morning() -> Value {
    json!({
        "external_user_ids": ["ann"],
        "schedule": { "time": "2127-01-01T09:00:00", "in_local_time": true },
        "messages": webhook(),
    })
}

/// A request of either call: `more` are members that it has besides.
fn request(generator: &mut SchemaGenerator, more: Value, required: &[&str]) -> Value {
    let ids = json!({ "type": "array", "items": generator.subschema_for::<Identifier>() });
    let aliases = json!({ "type": "array", "items": generator.subschema_for::<UserAlias>() });
    let recipients =
        json!({ "type": "array", "items": generator.subschema_for::<MessageRecipient>() });
    let of_users =
        [("external_user_ids", ids), ("user_aliases", aliases), ("recipients", recipients)];
    let at_most = |schema: &Value| or_null(json!({ "allOf": [schema], "maxItems": MOST_USERS }));
    let named = of_users.each_ref().map(|(name, schema)| {
        json!({
            "properties": {
                *name: { "allOf": [schema], "minItems": 1, "maxItems": MOST_USERS },
                "broadcast": { "enum": [false, null], "default": false },
            },
            "required": [name],
        })
    });
    let [by_id, by_alias, recipients] = named;
    let nobody = json!({ "type": ["array", "null"], "maxItems": 0 });
    let segment = saying(
        "Of a segment that the workspace file declares.",
        json!({ "type": "string", "format": "uuid" }),
    );
    let audience = json!(generator.subschema_for::<ConnectedAudience>());
    let limits = [("segment_id", segment.clone()), ("audience", audience.clone())];
    let limit = |(name, schema): &(&str, Value)| json!({ "properties": { *name: schema }, "required": [name] });
    // Alone they say nothing of for whom it is.
    let recipients = json!({ "allOf": [recipients, { "anyOf": limits.each_ref().map(limit) }] });
    let whole = limits.map(|(name, schema)| {
        json!({
            "properties": {
                name: schema,
                "broadcast": { "const": true },
                "external_user_ids": nobody, "user_aliases": nobody, "recipients": nobody,
            },
            "required": [name, "broadcast"],
        })
    });
    let mut properties = members(json!({
        "segment_id": or_null(segment),
        "audience": or_null(audience),
        "campaign_id": or_null(saying(
            "Of a campaign of type api: its statistics are kept.",
            json!({ "type": "string", "format": "uuid" }),
        )),
        "send_id": or_null(saying(
            "The caller's own name of the send; answered again.",
            json!({
                "type": "string", "minLength": 1, "maxLength": MOST_SEND_ID, "pattern": "^[ -~]*$",
            }),
        )),
        "recipient_subscription_state": {
            "enum": ["opted_in", "subscribed", "all", null], "default": "subscribed",
            "description": "To whom emails and push messages go, by the user's `email_subscribe` or \
                            `push_subscribe`: those who have opted in; those and the subscribed; or \
                            all, the unsubscribed too. SMS and WhatsApp messages always need the \
                            user in the message's subscription group. Webhooks, content cards: \
                            everybody.",
        },
    }));
    properties.extend(of_users.iter().map(|(name, schema)| ((*name).to_owned(), at_most(schema))));
    properties.extend(members(more));
    let any: Vec<Value> = [by_id, by_alias, recipients].into_iter().chain(whole).collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "anyOf": any,
    })
}

fn override_capping() -> Value {
    json!({
        "type": ["boolean", "null"], "default": false,
        "description": "Frequency capping is not looked at.",
    })
}

shape! {
    /// When it is sent. A time is past once it is in every zone, if it is meant in each user's
    /// own.
    pub ScheduleObject = |generator| json!({
        "type": "object",
        "properties": {
            "time": generator.subschema_for::<Time>(),
            "in_local_time": {
                "type": ["boolean", "null"], "default": false,
                "description": "The time is read without its zone, and meant in each user's own, or in \
                                the workspace's where they have none. Who is in a zone where it was \
                                past by an hour or more already is sent nothing.",
            },
            "at_optimal_time": {
                "type": ["boolean", "null"], "default": false,
                "description": "Likewise, at the hour of that day in which the user was most often \
                                active, of those still to come; at the time given where nothing \
                                is known. Goes before `in_local_time`.",
            },
        },
        "required": ["time"],
    })
}

shape! {
    /// What is sent, and to whom: to at most 50 users who are named over `external_user_ids`,
    /// `user_aliases` and `recipients`, of whom a segment and an audience may be a part; or with
    /// `broadcast` to a segment, to an audience, or to those of a segment who are in an audience.
    SendRequest = |generator| {
        let more = json!({
            "messages": generator.subschema_for::<Messages>(),
            "override_frequency_capping": override_capping(),
        });
        request(generator, more, &["messages"])
    }
}

shape! {
    /// What is scheduled, for when, and for whom, as when it is sent now; the message objects may
    /// be those that the campaign declares, as it does now.
    ScheduleMessagesRequest = |generator| {
        let more = json!({
            "schedule": generator.subschema_for::<ScheduleObject>(),
            "messages": or_null(generator.subschema_for::<Messages>()),
            "override_messaging_limits": override_capping(),
        });
        let request = request(generator, more, &["schedule"]);
        let declared = json!({
            "properties": { "campaign_id": { "type": "string" }, "messages": { "type": "null" } },
            "required": ["campaign_id"],
        });
        let given = json!({
            "properties": { "messages": { "type": "object" } }, "required": ["messages"],
        });
        json!({ "allOf": [request, { "anyOf": [given, declared] }] })
    }
}

shape! {
    /// A user, by one of two names, with what templates find under `api_trigger_properties`.
    MessageRecipient = |generator| {
        let absent = json!({ "type": "null" });
        let id = generator.subschema_for::<Identifier>();
        let alias = generator.subschema_for::<UserAlias>();
        let about = format!("At most {MOST_PROPERTIES} bytes of JSON.");
        json!({
            "type": "object",
            "properties": {
                "trigger_properties": saying(&about, json!({ "type": ["object", "null"] })),
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

/// What is answered: with these members besides.
fn taken(generator: &mut SchemaGenerator, more: Value) -> Value {
    let mut properties = members(json!({
        "dispatch_id": { "type": "string", "pattern": "^[0-9a-f]{32}$" },
        "send_id": saying("As it was given.", json!({ "type": "string" })),
        "message": { "const": "success" },
        "errors": saying(
            "Of message objects that are left out.",
            json!({ "type": "array", "items": generator.subschema_for::<MessageProblem>() }),
        ),
    }));
    let more = members(more);
    let names = ["dispatch_id", "message"].into_iter().map(str::to_owned);
    let required: Vec<String> = names.chain(more.keys().cloned()).collect();
    properties.extend(more);
    json!({ "type": "object", "properties": properties, "required": required })
}

shape! {
    /// What is sent.
    Sent = |generator| taken(generator, json!({}))
}

shape! {
    /// What was scheduled, and can be seen under `schedule_id`.
    ScheduledMessages = |generator| {
        taken(generator, json!({ "schedule_id": { "type": "string", "format": "uuid" } }))
    }
}

shape! {
    /// What is wrong with a message object, and where.
    MessageProblem = |_| json!({
        "type": "object",
        "properties": { "type": { "type": "string" }, "path": { "type": "string" } },
        "required": ["type", "path"],
    })
}

shape! {
    /// What is wrong, and where it is about message objects, with each of them.
    MessagesError = |generator| error_with::<MessageProblem>(generator)
}
