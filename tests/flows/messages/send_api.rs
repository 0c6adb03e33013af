//! `POST /messages/send`: what becomes an order, and what is refused; on SQLite and on PostgreSQL.

use std::collections::BTreeSet;

use jiff::Timestamp;
use log::Message;
use longshore::messages::order::{Kind, Order, SubscriptionState, Who};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::installation::Installation;
use crate::support::local_api::LocalApi;
use crate::support::order_log::read_orders;
use crate::support::stores::{TestStore, on_both_stores};

on_both_stores!(World =>
    a_send_request_becomes_an_order,
    every_form_of_recipients_is_accepted,
    duplicate_recipients_are_removed,
    invalid_recipients_are_rejected,
    undeclared_segments_and_campaigns_are_rejected,
    members_that_are_wrong_are_refused_by_name,
    invalid_messages_are_reported_and_the_others_accepted,
    a_template_that_is_wrong_condemns_the_whole,
    invalid_addresses_are_rejected_unless_templates,
    a_variation_that_the_campaign_lacks_is_refused,
    hostile_bodies_do_no_harm,
);

pub const KEY: &str = "key-that-may-send-messages";
pub const OTHER_KEY: &str = "key-of-the-other-workspace";
pub const SEND: &str = "/messages/send";
pub const SEGMENT: &str = "bbbb0000-0000-4000-8000-000000000001";
const SEGMENT_OF_OTHERS: &str = "bbbb0000-0000-4000-8000-000000000002";
pub const CAMPAIGN: &str = "aaaa0000-0000-4000-8000-000000000001";
const VARIATION: &str = "cccc0000-0000-4000-8000-00000000000a";
const ARCHIVED: &str = "aaaa0000-0000-4000-8000-000000000002";
const PAUSED: &str = "aaaa0000-0000-4000-8000-000000000003";
const TRANSACTIONAL: &str = "aaaa0000-0000-4000-8000-000000000004";
const CANVAS: &str = "aaaa0000-0000-4000-8000-000000000005";

/// Noon.
pub const NOW: i64 = 1_795_262_400_000;

pub struct World {
    pub place: Installation,
    pub api: LocalApi,
}

/// Two workspaces: of the first, everything but providers.
pub fn file() -> String {
    let key = |secret: &str| {
        let permissions = ["messages.send", "messages.schedule.create"];
        json!([{ "name": "k", "secret": secret, "permissions": permissions }])
    };
    let tier = json!({ "custom_attribute": {
        "custom_attribute_name": "tier", "comparison": "exists",
    } });
    let segment = |id: &str| json!([{ "id": id, "name": "VIP", "audience": tier }]);
    let email = json!({
        "from": "a@acme.example", "subject": "Thanks", "body": "Thanks",
    });
    let acme = json!({
        "workspace": "acme",
        "keys": key(KEY),
        "segments": segment(SEGMENT),
        "campaigns": [
            {
                "id": CAMPAIGN, "name": "Welcome", "type": "api",
                "variations": [{ "id": VARIATION }], "messages": { "webhook": webhook("declared") },
            },
            { "id": ARCHIVED, "name": "Old", "type": "api", "archived": true },
            { "id": PAUSED, "name": "Later", "type": "api", "paused": true },
            { "id": TRANSACTIONAL, "name": "Receipt", "type": "transactional", "email": email },
        ],
        "canvases": [{
            "id": CANVAS, "name": "Onboarding", "messages": { "webhook": webhook("canvas") },
        }],
        "email": { "smtp": "smtp://relay.acme.example:587" },
    });
    let other = json!({
        "workspace": "other", "keys": key(OTHER_KEY), "segments": segment(SEGMENT_OF_OTHERS),
    });
    format!("{acme}\n---\n{other}\n")
}

pub fn webhook(body: &str) -> Value {
    json!({ "url": "https://hooks.acme.example/", "request_method": "POST", "body": body })
}

/// A body with these members over those that are right.
pub fn body(members: Value) -> Value {
    let mut body = json!({
        "external_user_ids": ["ann"], "messages": { "webhook": webhook("{{${first_name}}}") },
    });
    for (name, value) in members.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

/// The same for no users who are named.
pub fn to(members: Value) -> Value {
    let mut body = body(members);
    body["external_user_ids"] = Value::Null;
    body
}

pub fn tier() -> Value {
    json!({ "OR": [{ "custom_attribute": {
        "custom_attribute_name": "tier", "comparison": "equals", "value": "gold",
    } }] })
}

impl World {
    pub async fn new(store: TestStore) -> Self {
        let place = Installation::open(store, &file(), |_| {}).await;
        let world = Self { api: LocalApi::new(&place.app, KEY), place };
        world.at(NOW);
        world
    }

    pub fn at(&self, ms: i64) {
        self.place.app.clock.set(Timestamp::from_millisecond(ms).unwrap());
    }

    pub async fn taken(&self, body: &Value) -> Value {
        let (status, answer) = self.api.post(SEND, body).await;
        assert_eq!((status, &answer["message"]), (201, &json!("success")), "{body}: {answer}");
        answer
    }

    pub async fn orders(&self) -> Vec<(Message, Order)> {
        read_orders(&self.place.app).await
    }

    /// The only order.
    async fn order(&self) -> Order {
        let orders = self.orders().await;
        let [(_, order)] = orders.as_slice() else { panic!("{orders:?}") };
        order.clone()
    }
}

fn external(id: &str) -> Who {
    Who::ExternalId(id.into())
}

async fn a_send_request_becomes_an_order(world: World) {
    let email = json!({
        "app_id": "app", "from": "a@acme.example", "subject": "Hi {{${first_name}}}", "body": "b",
        "unknown": [1],
    });
    let asked = json!({
        "broadcast": false,
        "external_user_ids": ["ann"],
        "user_aliases": [{ "alias_name": "n", "alias_label": "l" }],
        "recipients": [{ "external_user_id": "bob", "trigger_properties": { "seats": [1, null] } }],
        "segment_id": SEGMENT,
        "audience": tier(),
        "campaign_id": CAMPAIGN,
        "send_id": "spring 1",
        "override_frequency_capping": true,
        "recipient_subscription_state": "opted_in",
        "messages": { "email": email, "webhook": webhook("x"), "sms": null },
        "unknown": 5,
    });
    let answer = world.taken(&asked).await;
    let dispatch = answer["dispatch_id"].as_str().unwrap();
    assert!(dispatch.len() == 32 && dispatch.bytes().all(|b| b.is_ascii_hexdigit()), "{answer}");
    let expected = json!({ "dispatch_id": dispatch, "send_id": "spring 1", "message": "success" });
    assert_eq!(answer, expected);

    let order = world.order().await;
    assert_eq!(order.dispatch_id.simple().to_string(), dispatch);
    assert_eq!((order.workspace_id, order.kind), (world.place.workspace, Kind::Send));
    assert_eq!(order.campaign_id, CAMPAIGN.parse().ok());
    assert_eq!(order.send_id.as_deref(), Some("spring 1"));
    let messages = json!({ "email": asked["messages"]["email"], "webhook": webhook("x") });
    assert_eq!(Value::from(order.messages), messages);
    let alias = Who::Alias { label: "l".into(), name: "n".into() };
    let who: Vec<&Who> = order.target.users.iter().map(|user| &user.who).collect();
    assert_eq!(who, [&external("bob"), &external("ann"), &alias]);
    let properties: Vec<Value> =
        order.target.users.iter().map(|user| json!(user.trigger_properties)).collect();
    assert_eq!(properties, [json!({ "seats": [1, null] }), Value::Null, Value::Null]);
    assert_eq!(order.target.segment_id, SEGMENT.parse().ok());
    assert_eq!(order.target.audience, Some(tier()));
    assert_eq!(order.subscription_state, SubscriptionState::OptedIn);
    assert!(order.ignores_capping && order.accepted_at >= NOW && !order.request_id.is_empty());
}

async fn every_form_of_recipients_is_accepted(world: World) {
    let alias = json!({ "alias_name": "n", "alias_label": "l" });
    let asked = [
        body(json!({})),
        to(json!({ "user_aliases": [alias] })),
        to(json!({ "recipients": [{ "user_alias": alias }], "segment_id": SEGMENT })),
        body(json!({ "recipients": [{ "user_alias": alias, "external_user_id": null }] })),
        body(json!({ "segment_id": SEGMENT })),
        body(json!({ "audience": tier(), "broadcast": null })),
        to(json!({ "segment_id": SEGMENT, "broadcast": true })),
        to(json!({ "audience": tier(), "broadcast": true, "recipients": [] })),
        to(json!({ "segment_id": SEGMENT, "audience": tier(), "broadcast": true })),
    ];
    for (number, asked) in asked.iter().enumerate() {
        world.at(NOW + number as i64 * 1_000);
        world.taken(asked).await;
    }
    let orders = world.orders().await;
    let told: Vec<(usize, bool, bool)> = orders
        .iter()
        .map(|(_, Order { target, .. })| {
            (target.users.len(), target.segment_id.is_some(), target.audience.is_some())
        })
        .collect();
    let expected = [
        (1, false, false),
        (1, false, false),
        (1, true, false),
        (2, false, false),
        (1, true, false),
        (1, false, true),
        (0, true, false),
        (0, false, true),
        (0, true, true),
    ];
    assert_eq!(told, expected);
    let order = &orders[0].1;
    assert_eq!(order.subscription_state, SubscriptionState::Subscribed);
    assert!(!order.ignores_capping && order.campaign_id.is_none() && order.send_id.is_none());
    let ids: BTreeSet<Uuid> = orders.iter().map(|(_, order)| order.dispatch_id).collect();
    assert_eq!(ids.len(), asked.len());
}

async fn duplicate_recipients_are_removed(world: World) {
    let recipient = |n: u32| json!({ "external_user_id": "ann", "trigger_properties": { "n": n } });
    world
        .taken(&body(json!({
            "external_user_ids": ["ann", "bob", "ann"], "recipients": [recipient(1), recipient(2)],
        })))
        .await;
    let users = world.order().await.target.users;
    let who: Vec<&Who> = users.iter().map(|user| &user.who).collect();
    assert_eq!(who, [&external("ann"), &external("bob")]);
    assert_eq!(json!(users[0].trigger_properties), json!({ "n": 1 }));
}

async fn invalid_recipients_are_rejected(world: World) {
    let alias = json!({ "alias_name": "n", "alias_label": "l" });
    let recipient = json!({ "external_user_id": "ann" });
    let nobody =
        "at least one of external_user_ids, user_aliases, segment_id and audience is required";
    let whole = "Set broadcast to true";
    let both = "broadcast must not be true if users are given";
    for (asked, text) in [
        (to(json!({})), nobody),
        (to(json!({ "broadcast": true })), nobody),
        (to(json!({ "recipients": [], "user_aliases": [] })), nobody),
        // They add to users who are named, and do not replace them.
        (to(json!({ "recipients": [recipient] })), nobody),
        (to(json!({ "recipients": [recipient], "external_user_ids": [] })), nobody),
        (to(json!({ "segment_id": SEGMENT })), whole),
        (to(json!({ "audience": tier(), "broadcast": false })), whole),
        (body(json!({ "external_user_ids": [], "segment_id": SEGMENT })), whole),
        (body(json!({ "broadcast": true })), both),
        (to(json!({ "broadcast": true, "user_aliases": [alias] })), both),
        (to(json!({ "broadcast": true, "segment_id": SEGMENT, "recipients": [recipient] })), both),
        (body(json!({ "broadcast": "true" })), "broadcast must be true or false"),
        (
            body(json!({ "external_user_ids": vec!["ann"; 51] })),
            "external_user_ids must have at most 50 elements",
        ),
        (
            body(json!({
                "external_user_ids": vec!["ann"; 20], "user_aliases": vec![alias.clone(); 20],
                "recipients": vec![recipient.clone(); 11],
            })),
            "external_user_ids, user_aliases and recipients must have at most 50 users in total",
        ),
    ] {
        let said = world.api.refusal(SEND, &asked, 400).await;
        assert!(said.starts_with(text), "{asked}: {said}");
    }
    let fifty = body(json!({
        "external_user_ids": vec!["ann"; 20], "user_aliases": vec![alias; 20],
        "recipients": vec![recipient; 10],
    }));
    world.taken(&fifty).await;
    assert_eq!(world.orders().await.len(), 1);
}

async fn undeclared_segments_and_campaigns_are_rejected(world: World) {
    let unknown = Uuid::new_v4().to_string();
    let no_segment = "segment_id does not match a segment in this workspace";
    for id in [&unknown, SEGMENT_OF_OTHERS, "VIP", "", CAMPAIGN] {
        let said = world.api.refusal(SEND, &body(json!({ "segment_id": id })), 400).await;
        assert_eq!(said, no_segment, "{id}");
    }
    for id in [&unknown, "Welcome", "", TRANSACTIONAL, CANVAS, SEGMENT] {
        let said = world.api.refusal(SEND, &body(json!({ "campaign_id": id })), 400).await;
        assert_eq!(said, "Invalid Campaign ID", "{id}");
    }
    for (id, text) in [
        (
            ARCHIVED,
            "The campaign is archived. Unarchive the campaign in order for trigger requests to take effect.",
        ),
        (
            PAUSED,
            "The campaign is paused. Resume the campaign in order for trigger requests to take effect.",
        ),
    ] {
        let said = world.api.refusal(SEND, &body(json!({ "campaign_id": id })), 400).await;
        assert_eq!(said, text);
    }
    let other = world.api.with_key(OTHER_KEY);
    assert_eq!(other.refusal(SEND, &body(json!({ "segment_id": SEGMENT })), 400).await, no_segment);
    assert!(world.orders().await.is_empty());
}

async fn members_that_are_wrong_are_refused_by_name(world: World) {
    let large =
        json!({ "external_user_id": "a", "trigger_properties": { "x": "y".repeat(51_200) } });
    let nested: Value =
        serde_json::from_str(&format!("{}{}", "[".repeat(110), "]".repeat(110))).unwrap();
    let deep = json!({ "external_user_id": "a", "trigger_properties": { "x": nested } });
    let alias = json!({ "alias_name": "n", "alias_label": "l" });
    for (members, text) in [
        (json!({ "external_user_ids": "ann" }), "external_user_ids must be an array"),
        (json!({ "external_user_ids": ["ann", 5] }), "external_user_ids[1] must be a string"),
        (json!({ "external_user_ids": [""] }), "external_user_ids[0] is empty"),
        (json!({ "external_user_ids": ["a\u{0}"] }), "external_user_ids[0] contains a control"),
        (json!({ "external_user_ids": ["é".repeat(256)] }), "external_user_ids[0] has more than"),
        (json!({ "user_aliases": {} }), "user_aliases must be an array"),
        (json!({ "user_aliases": ["n"] }), "user_aliases[0] must be an object"),
        (
            json!({ "user_aliases": [{ "alias_name": "n" }] }),
            "user_aliases[0].alias_label is required",
        ),
        (json!({ "recipients": ["ann"] }), "recipients[0] must be an object"),
        (
            json!({ "recipients": [{}] }),
            "recipients[0] must have exactly one of external_user_id and user_alias",
        ),
        (
            json!({ "recipients": [{ "external_user_id": "a", "user_alias": alias }] }),
            "recipients[0] must have exactly one of",
        ),
        (
            json!({ "recipients": [{ "external_user_id": "a", "trigger_properties": 1 }] }),
            "recipients[0].trigger_properties must be an object",
        ),
        (json!({ "recipients": [large] }), "recipients[0].trigger_properties must be at most"),
        (json!({ "recipients": [deep] }), "recipients[0].trigger_properties is nested too deeply"),
        (json!({ "segment_id": 5 }), "segment_id must be a string"),
        (json!({ "campaign_id": {} }), "campaign_id must be a string"),
        (json!({ "send_id": 5 }), "send_id must be a string"),
        (json!({ "send_id": "" }), "send_id must be 1 to 64 printable ASCII characters"),
        (json!({ "send_id": "x".repeat(65) }), "send_id must be 1 to 64"),
        (json!({ "send_id": "é" }), "send_id must be 1 to 64"),
        (json!({ "send_id": "a\n" }), "send_id must be 1 to 64"),
        (json!({ "override_frequency_capping": 1 }), "override_frequency_capping must be true or"),
        (
            json!({ "recipient_subscription_state": "none" }),
            "recipient_subscription_state must be one of opted_in, subscribed and all",
        ),
        (json!({ "audience": [] }), "audience: expected an object with one condition"),
        (
            json!({ "audience": { "OR": [{ "AND": [] }] } }),
            "audience.OR[0].AND: expected a non-empty array",
        ),
        (json!({ "audience": { "purchase_property": {} } }), "audience: unknown condition"),
        (json!({ "messages": [] }), "messages must be an object"),
    ] {
        let said = world.api.refusal(SEND, &body(members.clone()), 400).await;
        assert!(said.starts_with(text), "{members}: {said}");
    }
    // What another call has means nothing here.
    world.taken(&body(json!({ "override_messaging_limits": 1, "schedule": 5 }))).await;
    let longest = body(json!({ "send_id": "x".repeat(64) }));
    assert_eq!(world.taken(&longest).await["send_id"], "x".repeat(64));
}

async fn invalid_messages_are_reported_and_the_others_accepted(world: World) {
    let push = json!({ "alert": "Hi" });
    let asked = body(json!({ "messages": { "apple_push": push, "webhook": webhook("x") } }));
    let answer = world.taken(&asked).await;
    let errors = answer["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 1, "{answer}");
    assert_eq!(errors[0]["path"], "messages.apple_push");
    assert!(errors[0]["type"].as_str().unwrap().contains("providers.push"), "{answer}");
    let order = world.order().await;
    assert_eq!(Value::from(order.messages), json!({ "webhook": webhook("x") }));

    for messages in [json!(null), json!({}), json!({ "webhook": null }), json!({ "fax": {} })] {
        let said = world.api.refusal(SEND, &body(json!({ "messages": messages })), 400).await;
        assert!(said.starts_with("No message to send: messages"), "{messages}: {said}");
        let (_, answer) = world.api.post(SEND, &body(json!({ "messages": messages }))).await;
        let path = answer["errors"][0]["path"].as_str().unwrap_or_default();
        assert!(path.starts_with("messages"), "{answer}");
    }
    let nothing = body(json!({ "messages": { "apple_push": push, "email": {} } }));
    let (status, answer) = world.api.post(SEND, &nothing).await;
    assert_eq!(status, 400, "{answer}");
    assert_eq!(answer["code"], "invalid-request", "{answer}");
    let paths: BTreeSet<&str> =
        answer["errors"].as_array().unwrap().iter().map(|e| e["path"].as_str().unwrap()).collect();
    assert!(paths.contains("messages.apple_push"), "{answer}");
    assert!(paths.iter().any(|path| path.starts_with("messages.email")), "{answer}");
    assert_eq!(world.orders().await.len(), 1);
}

async fn a_template_that_is_wrong_condemns_the_whole(world: World) {
    let with = |hook: Value| {
        let mut messages = json!({ "email": {
            "app_id": "a", "from": "a@acme.example", "subject": "s", "body": "b",
        } });
        messages["webhook"] = hook;
        body(json!({ "messages": messages }))
    };
    let (status, answer) = world.api.post(SEND, &with(webhook("a\n{% if x %}"))).await;
    assert_eq!(status, 400, "{answer}");
    let said = answer["message"].as_str().unwrap();
    assert!(said.starts_with("messages.webhook.body: line "), "{said}");
    assert!(said.contains("column"), "{said}");
    assert_eq!(answer["errors"][0]["path"], "messages.webhook.body");
    for mistake in ["{{${frist_name}}}", "{{ first_name }}", "{{campaign.${nmae}}}"] {
        let (status, answer) = world.api.post(SEND, &with(webhook(mistake))).await;
        assert_eq!(status, 400, "{answer}");
        let said = answer["message"].as_str().unwrap();
        assert!(said.starts_with("messages.webhook.body: line 1, column "), "{said}");
        assert!(said.contains("name}`?"), "{said}");
    }
    let mut private = webhook("x");
    private["url"] = json!("http://10.0.0.1/");
    let (status, answer) = world.api.post(SEND, &with(private)).await;
    assert_eq!(status, 400, "{answer}");
    assert_eq!(answer["errors"][0]["path"], "messages.webhook.url");
    assert!(world.orders().await.is_empty());
}

async fn invalid_addresses_are_rejected_unless_templates(world: World) {
    let with = |member: &str, value: &str| {
        let mut email = json!({ "app_id": "a", "from": "a@acme.example", "body": "b" });
        email[member] = json!(value);
        body(json!({ "messages": { "email": email, "webhook": webhook("x") } }))
    };
    let eleven = ["a@b.example"; 11].join(", ");
    let template = "{{custom_attribute.${sender}}}";
    for (member, value) in [
        ("from", "nobody"),
        ("from", "a@b@c.example"),
        ("from", "Acme <hello@>"),
        ("from", " "),
        ("from", "a@b.example, c@d.example"),
        ("reply_to", "help"),
        ("bcc", "archive"),
        ("bcc", "a@b.example, archive"),
        ("bcc", &eleven),
    ] {
        for path in [SEND, "/messages/schedule/create"] {
            let mut asked = with(member, value);
            asked["schedule"] = json!({ "time": "2127-01-01T09:00:00Z" });
            let (status, answer) = world.api.post(path, &asked).await;
            assert_eq!(status, 400, "{member} {value}: {answer}");
            let path = format!("messages.email.{member}");
            assert_eq!(answer["errors"][0]["path"], path, "{answer}");
            assert!(answer["message"].as_str().unwrap().starts_with(&path), "{answer}");
        }
    }
    for (member, value) in [
        ("from", "Acme Inc <hello@acme.example>"),
        ("from", "änn@bücher.example"),
        ("from", template),
        ("reply_to", ""),
        ("reply_to", template),
        ("bcc", "a@b.example, C <c@d.example>"),
        ("bcc", "{% if custom_attribute.${copies} %}a@b.example{% endif %}"),
    ] {
        world.taken(&with(member, value)).await;
    }
    assert_eq!(world.orders().await.len(), 7);
}

async fn a_variation_that_the_campaign_lacks_is_refused(world: World) {
    let of = |campaign: Option<&str>, variation: Value| {
        let mut hook = webhook("x");
        hook["message_variation_id"] = variation;
        body(json!({ "campaign_id": campaign, "messages": { "webhook": hook } }))
    };
    for unknown in ["vvvv", "cccc0000-0000-4000-8000-000000000009"] {
        for path in [SEND, "/messages/schedule/create"] {
            let mut asked = of(Some(CAMPAIGN), json!(unknown));
            asked["schedule"] = json!({ "time": "2127-01-01T09:00:00Z" });
            let (status, answer) = world.api.post(path, &asked).await;
            assert_eq!(status, 400, "{answer}");
            let path = "messages.webhook.message_variation_id";
            assert_eq!(answer["errors"][0]["path"], path, "{answer}");
        }
    }
    assert!(world.orders().await.is_empty());
    world.taken(&of(Some(CAMPAIGN), json!(VARIATION))).await;
    world.taken(&of(Some(CAMPAIGN), json!(VARIATION.to_ascii_uppercase()))).await;
    world.taken(&of(Some(CAMPAIGN), Value::Null)).await;
    // Of no campaign it is a label that nothing is kept under.
    world.taken(&of(None, json!("vvvv"))).await;
}

async fn hostile_bodies_do_no_harm(world: World) {
    let nested = |depth: usize| {
        let open = r#"{"AND":["#.repeat(depth);
        let close = "]}".repeat(depth);
        let leaf = tier().to_string();
        format!(r#"{{"broadcast":true,"messages":{{}},"audience":{open}{leaf}{close}}}"#)
    };
    let pattern = |pattern: &str| {
        to(json!({ "broadcast": true, "audience": { "custom_attribute": {
            "custom_attribute_name": "x", "comparison": "matches_regex", "value": pattern,
        } } }))
        .to_string()
    };
    for (text, part) in [
        (nested(10_000), "is nested too deeply"),
        (nested(40), "an audience can nest at most 32 levels"),
        (format!(r#"{{"messages":{}"#, "[".repeat(100_000)), "not valid JSON"),
        (
            format!(r#"{{"external_user_ids":[{}1]}}"#, "1,".repeat(20_000)),
            "more than 20000 values",
        ),
        (format!(r#"{{"external_user_ids":[{}1]}}"#, "1,".repeat(10_000)), "at most 50 elements"),
        (r#"{"$serde_json::private::RawValue":"{}"}"#.into(), "has a field named"),
        (pattern("(a{1000}){1000}"), "the regular expression is too large"),
        (pattern("(?=a)"), "is not a valid regular expression"),
        (r#"{"send_id":"\ud800"}"#.into(), "send_id has half of a surrogate pair"),
        (
            r#"{"messages":{"email":{"subject":1e400}}}"#.into(),
            "messages.email.subject has a number",
        ),
        ("[]".into(), "must be a JSON object"),
        ("".into(), "not valid JSON"),
    ] {
        let (status, answer) = world.api.post_text(SEND, text).await;
        assert_eq!(status, 400, "{part}: {answer}");
        assert!(answer["message"].as_str().unwrap().contains(part), "{part}: {answer}");
    }
    assert!(world.orders().await.is_empty());
}
