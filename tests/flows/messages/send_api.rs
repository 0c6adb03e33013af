//! `POST /messages/send`: what becomes an order, and what is refused; on SQLite and on PostgreSQL.

mod rejected;

use std::collections::BTreeSet;

use jiff::Timestamp;
use kit::json::ObjectText;
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
    properties_are_limited_by_their_bytes,
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
    pub installation: Installation,
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
        let installation = Installation::open(store, &file(), |_| {}).await;
        let world = Self { api: LocalApi::new(&installation.app, KEY), installation };
        world.at(NOW);
        world
    }

    pub fn at(&self, ms: i64) {
        self.installation.app.clock.set(Timestamp::from_millisecond(ms).unwrap());
    }

    pub async fn taken(&self, body: &Value) -> Value {
        let (status, answer) = self.api.post(SEND, body).await;
        assert_eq!((status, &answer["message"]), (201, &json!("success")), "{body}: {answer}");
        answer
    }

    pub async fn orders(&self) -> Vec<(Message, Order)> {
        read_orders(&self.installation.app).await
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
    let unknown = json!({ "field": "unknown", "code": "unknown-field", "count": 1 });
    let expected = json!({
        "dispatch_id": dispatch, "send_id": "spring 1", "message": "success", "warnings": [unknown],
    });
    assert_eq!(answer, expected);

    let order = world.order().await;
    assert_eq!(order.dispatch_id.simple().to_string(), dispatch);
    assert_eq!((order.workspace_id, order.kind), (world.installation.workspace, Kind::Send));
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
    assert_eq!(order.target.audience, tier().as_object().map(ObjectText::from));
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

async fn properties_are_limited_by_their_bytes(world: World) {
    // Just below 50 KB for each user.
    let many = json!({ "n": vec![1; 25_000] });
    let recipient = |id: &str| json!({ "external_user_id": id, "trigger_properties": many });
    world.taken(&body(json!({ "recipients": [recipient("ann"), recipient("bob")] }))).await;
    let users = world.order().await.target.users;
    let properties: Vec<Value> = users.iter().map(|user| json!(user.trigger_properties)).collect();
    assert!(properties == [many.clone(), many]);
}
