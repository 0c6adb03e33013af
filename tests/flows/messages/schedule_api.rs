//! `POST /messages/schedule/create`: what is kept until its time, and what is refused; on SQLite
//! and on PostgreSQL.

use kit::json::ObjectText;
use longshore::messages::order::{Kind, Order, SubscriptionState};
use serde_json::{Value, json};
use uuid::Uuid;

use super::send_api::{self, CAMPAIGN, NOW, OTHER_KEY, SEGMENT, World, tier, webhook};
use crate::support::stores::on_both_stores;

on_both_stores!(World =>
    new_schedules_are_listed_at_once,
    a_campaign_supplies_the_messages,
    invalid_schedules_are_rejected,
    invalid_messages_are_reported_and_the_others_accepted,
    local_times_are_accepted_until_past_everywhere,
    a_call_under_a_key_is_done_once,
);

const CREATE: &str = "/messages/schedule/create";
const LATER: &str = "2026-11-21T14:00:00+01:00";

fn body(members: Value) -> Value {
    let mut body = send_api::body(json!({ "schedule": { "time": LATER } }));
    for (name, value) in members.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

impl World {
    async fn scheduled(&self, body: &Value) -> Value {
        let (status, answer) = self.api.post(CREATE, body).await;
        assert_eq!((status, &answer["message"]), (201, &json!("success")), "{body}: {answer}");
        answer
    }

    async fn listed(&self) -> Vec<Value> {
        let lines = self.installation.printed(&["schedules", "list", "--json"]).await;
        lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The order of the youngest.
    async fn scheduled_order(&self) -> Order {
        serde_json::from_value(self.listed().await[0]["request"].clone()).expect("an order")
    }
}

async fn new_schedules_are_listed_at_once(world: World) {
    let asked = body(json!({
        "broadcast": true, "external_user_ids": null,
        "segment_id": SEGMENT, "audience": tier(), "campaign_id": CAMPAIGN, "send_id": "s",
        "override_messaging_limits": true, "recipient_subscription_state": "all",
        "override_frequency_capping": 5,
    }));
    let answer = world.scheduled(&asked).await;
    let dispatch = answer["dispatch_id"].as_str().unwrap();
    assert!(dispatch.len() == 32 && dispatch.bytes().all(|b| b.is_ascii_hexdigit()), "{answer}");
    let id = answer["schedule_id"].as_str().unwrap();
    assert!(Uuid::parse_str(id).is_ok_and(|parsed| parsed.to_string() == id), "{answer}");
    assert_eq!(answer["send_id"], "s");
    assert!(answer.get("errors").is_none(), "{answer}");

    let listed = world.listed().await;
    let [schedule] = listed.as_slice() else { panic!("{listed:?}") };
    for (name, value) in [
        ("id", json!(id)),
        ("workspace", json!("acme")),
        ("dispatch_id", json!(dispatch)),
        ("canvas_id", Value::Null),
        ("state", json!("pending")),
        ("timing", json!("instant")),
        ("time", json!("2026-11-21T13:00:00.000Z")),
    ] {
        assert_eq!(schedule[name], value, "{schedule}");
    }
    let order = world.scheduled_order().await;
    assert_eq!(order.dispatch_id.simple().to_string(), dispatch);
    assert_eq!((order.workspace_id, order.kind), (world.installation.workspace, Kind::Schedule));
    assert_eq!((order.campaign_id, order.send_id), (CAMPAIGN.parse().ok(), Some("s".into())));
    assert_eq!((order.target.segment_id, order.target.users.len()), (SEGMENT.parse().ok(), 0));
    assert_eq!(order.target.audience, tier().as_object().map(ObjectText::from));
    assert_eq!(order.subscription_state, SubscriptionState::All);
    assert!(order.ignores_capping && order.accepted_at >= NOW);
    assert_eq!(Value::from(order.messages), asked["messages"]);

    let shown = world.installation.printed(&["schedules", "show", id]).await.join("\n");
    assert!(shown.contains("pending") && shown.contains(SEGMENT), "{shown}");
    let cancelled = world.installation.printed(&["schedules", "cancel", id]).await;
    assert_eq!(cancelled, [format!("{id} cancelled")]);
    let again = world.installation.printed(&["schedules", "cancel", id, "--json"]).await.concat();
    let again: Value = serde_json::from_str(&again).expect("JSON");
    let cancelled = json!({ "id": id, "state": "cancelled" });
    assert_eq!(again, json!({ "schedules": [cancelled], "failed": [] }));
    let unknown = Uuid::nil().to_string();
    let refused = world.installation.run(&["schedules", "cancel", &unknown, "--json"]).await;
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let refused: Value = serde_json::from_slice(&refused.stdout).expect("JSON");
    assert_eq!((&refused["schedules"], &refused["failed"][0]["id"]), (&json!([]), &json!(unknown)));
}

async fn a_campaign_supplies_the_messages(world: World) {
    world.scheduled(&body(json!({ "messages": null, "campaign_id": CAMPAIGN }))).await;
    let declared = json!({ "webhook": webhook("declared") });
    assert_eq!(Value::from(world.scheduled_order().await.messages), declared);
    // The call's own go before.
    world.scheduled(&body(json!({ "campaign_id": CAMPAIGN }))).await;
    assert_eq!(Value::from(world.scheduled_order().await.messages), body(json!({}))["messages"]);
    let listed = world.listed().await;
    let latest = listed[0]["id"].as_str().unwrap();
    let next =
        world.installation.printed(&["schedules", "list", "--after", latest, "--json"]).await;
    assert!(next.len() == 1 && !next[0].contains(latest), "{next:?}");
    for members in [json!({ "messages": null }), json!({ "messages": {}, "campaign_id": CAMPAIGN })]
    {
        let said = world.api.refusal(CREATE, &body(members.clone()), 400).await;
        assert!(said.starts_with("No message to send: messages"), "{members}: {said}");
    }
}

async fn invalid_schedules_are_rejected(world: World) {
    for (members, text) in [
        (json!({ "schedule": null }), "schedule is required"),
        (json!({ "schedule": 5 }), "schedule must be an object"),
        (json!({ "schedule": {} }), "schedule.time is required"),
        (json!({ "schedule": { "time": "tomorrow" } }), "schedule.time: "),
        (json!({ "schedule": { "time": "2026-11-21T11:59:59Z" } }), "schedule.time is in the past"),
        (
            json!({ "schedule": { "time": LATER, "in_local_time": 1 } }),
            "schedule.in_local_time must be true or false",
        ),
        (
            json!({ "external_user_ids": null }),
            "at least one of external_user_ids, user_aliases, segment_id",
        ),
        (json!({ "external_user_ids": null, "segment_id": SEGMENT }), "Set broadcast to true"),
        (json!({ "broadcast": true }), "broadcast must not be true"),
        (
            json!({ "external_user_ids": vec!["a"; 30], "recipients": vec![json!({ "external_user_id": "b" }); 21] }),
            "external_user_ids, user_aliases and recipients must have at most 50 users in total",
        ),
        (json!({ "segment_id": Uuid::new_v4() }), "segment_id does not match"),
        (json!({ "campaign_id": Uuid::new_v4() }), "Invalid Campaign ID"),
        (json!({ "campaign_id": Uuid::new_v4(), "messages": null }), "Invalid Campaign ID"),
        (json!({ "override_messaging_limits": "no" }), "override_messaging_limits must be true or"),
        (json!({ "send_id": "é" }), "send_id must be 1 to 64 printable ASCII characters"),
        (json!({ "audience": { "AND": [] } }), "audience.AND: expected a non-empty array"),
        (
            json!({ "messages": { "webhook": webhook("{% if %}") } }),
            "messages.webhook.body: line 1, column",
        ),
    ] {
        let said = world.api.refusal(CREATE, &body(members.clone()), 400).await;
        assert!(said.starts_with(text), "{members}: {said}");
    }
    let deep = format!(r#"{{"schedule":{}{}}}"#, r#"{"a":"#.repeat(10_000), "}".repeat(10_000));
    let (status, answer) = world.api.post_text(CREATE, deep).await;
    assert_eq!(status, 400, "{answer}");
    let other = world.api.with_key(OTHER_KEY);
    let theirs = body(json!({ "campaign_id": CAMPAIGN, "messages": null }));
    assert_eq!(other.refusal(CREATE, &theirs, 400).await, "Invalid Campaign ID");
    assert!(world.listed().await.is_empty());
}

async fn invalid_messages_are_reported_and_the_others_accepted(world: World) {
    let whats_app = json!({
        "app_id": "a", "subscription_group_id": "g", "message_type": "text", "message": {},
    });
    let asked = body(json!({ "messages": { "whats_app": whats_app, "webhook": webhook("x") } }));
    let answer = world.scheduled(&asked).await;
    assert_eq!(answer["errors"].as_array().map(Vec::len), Some(1), "{answer}");
    assert_eq!(answer["errors"][0]["path"], "messages.whats_app");
    assert_eq!(
        Value::from(world.scheduled_order().await.messages),
        json!({ "webhook": webhook("x") })
    );
    let alone = body(json!({ "messages": { "whats_app": whats_app } }));
    let (status, answer) = world.api.post(CREATE, &alone).await;
    assert_eq!(status, 400, "{answer}");
    assert_eq!(answer["code"], "invalid-request", "{answer}");
    assert_eq!(answer["errors"][0]["path"], "messages.whats_app");
}

async fn local_times_are_accepted_until_past_everywhere(world: World) {
    let at = |time: &str, switch: &str| body(json!({ "schedule": { "time": time, switch: true } }));
    for switch in ["in_local_time", "at_optimal_time"] {
        // It is noon in UTC, and midnight in the last zone.
        world.scheduled(&at("2026-11-21T01:00:00+09:00", switch)).await;
        let past = world.api.refusal(CREATE, &at("2026-11-20T23:59:59-11:00", switch), 400).await;
        assert_eq!(past, "schedule.time is in the past");
    }
    let listed = world.listed().await;
    let timings: Vec<&Value> = listed.iter().map(|schedule| &schedule["timing"]).collect();
    assert_eq!(timings, ["optimal", "local"]);
}

async fn a_call_under_a_key_is_done_once(world: World) {
    let asked = body(json!({}));
    let first = world.api.post_once(CREATE, "k", &asked).await;
    assert_eq!(first.0, 201, "{first:?}");
    // Also when the time has come since.
    world.at(NOW + 7_200_000);
    assert_eq!(world.api.post_once(CREATE, "k", &asked).await, first);
    assert_eq!(world.api.post_once(CREATE, "k", &body(json!({ "send_id": "x" }))).await.0, 422);
    // What was refused is not kept.
    assert_eq!(world.api.post_once(CREATE, "late", &asked).await.0, 400);
    world.at(NOW);
    let second = world.api.post_once(CREATE, "late", &asked).await;
    assert_eq!(second.0, 201, "{second:?}");
    assert_ne!(second.1["dispatch_id"], first.1["dispatch_id"]);
    assert_eq!(world.listed().await.len(), 2);
}
