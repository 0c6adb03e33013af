//! Segments on what users bought: sent to now, later, by name, and as live activities.

use serde_json::{Value, json};

use super::sending::{Sending, from_now, message, ms};
use crate::support::fleet::Backend;

const BOUGHT_LARGE: &str = "cccc0000-0000-4000-8000-000000000001";
const GOLD_TEA: &str = "cccc0000-0000-4000-8000-000000000002";
const NEVER_LARGE: &str = "cccc0000-0000-4000-8000-000000000003";
const APP: &str = "cccc0000-0000-4000-8000-000000000004";

fn bought(comparison: &str, product: Option<&str>) -> Value {
    json!({ "purchase_property": {
        "property_name": "size", "comparison": comparison, "value": "L", "product_id": product,
    } })
}

fn declared() -> Value {
    let gold = json!({ "custom_attribute": {
        "custom_attribute_name": "tier", "comparison": "equals", "value": "gold",
    } });
    json!([
        { "id": BOUGHT_LARGE, "name": "Large", "audience": bought("equals", None) },
        { "id": GOLD_TEA, "name": "Gold", "audience": { "AND": [bought("equals", Some("tea")), gold] } },
        { "id": NEVER_LARGE, "name": "Other", "audience": bought("not_equal", None) },
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_segment_on_purchases_is_sent_to_standalone() {
    is_sent_to(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "scripts/test --all"]
async fn a_segment_on_purchases_is_sent_to_in_a_fleet() {
    is_sent_to(Backend::Fleet(2)).await;
}

async fn is_sent_to(backend: Backend) {
    let sending = Sending::start(backend, &[], |receiver| {
        let push = json!({
            "url": receiver.url("/push"), "secret": "a-secret-of-more-than-24-bytes,-plain",
        });
        let app = json!({
            "id": APP, "name": "A", "platform": "ios", "activity_types": ["Delivery"],
        });
        vec![
            ("segments", declared()),
            ("providers", json!({ "push": push })),
            ("apps", json!([app])),
        ]
    })
    .await;
    let attributes = json!([
        { "external_id": "ann", "tier": "gold", "push_tokens": [
            { "app_id": APP, "token": "t", "kind": "live_activity" },
        ] },
        { "external_id": "bob", "tier": "gold" },
        { "external_id": "cid", "tier": "gold" },
        { "external_id": "dan" },
    ]);
    let purchase = |user: &str, product: &str, size: &str| {
        json!({
            "external_id": user, "product_id": product, "currency": "USD", "price": 1,
            "time": from_now(-60_000).to_string(), "properties": { "size": size },
        })
    };
    let purchases =
        [purchase("ann", "tea", "L"), purchase("bob", "tea", "S"), purchase("dan", "coffee", "L")];
    let tracked = json!({ "attributes": attributes, "purchases": purchases });
    assert_eq!(sending.api.post("/users/track", &tracked).await.status, 201);
    sending.fleet.applied().await;

    let messages = message(&sending.receiver, "hello");
    let send = async |path: &str, members: Value| {
        let mut body = json!({ "messages": messages });
        body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        let answer = sending.api.post(path, &body).await;
        assert_eq!(answer.status, 201, "{members}: {answer:?}");
    };
    let mut expected: Vec<&str> = Vec::new();
    let broadcast = |segment: &str| json!({ "segment_id": segment, "broadcast": true });
    for (members, users) in [
        (broadcast(BOUGHT_LARGE), &["ann", "dan"][..]),
        (broadcast(GOLD_TEA), &["ann"]),
        (broadcast(NEVER_LARGE), &["bob", "cid"]),
        (json!({ "segment_id": BOUGHT_LARGE, "external_user_ids": ["ann", "bob"] }), &["ann"]),
    ] {
        send("/messages/send", members).await;
        expected.extend(users);
        sending.at_rest(expected.len()).await;
    }
    let mut later = broadcast(BOUGHT_LARGE);
    let due = from_now(5_000);
    later["schedule"] = json!({ "time": due.to_string() });
    send("/messages/schedule/create", later).await;
    expected.extend(["ann", "dan"]);
    sending.at_rest(expected.len()).await;
    expected.sort_unstable();
    assert_eq!(sending.users(), expected);
    let records = sending.fleet.run(&["console-log", "--json"]).await;
    let record: Value = serde_json::from_str(records.lines().next().expect("a record")).unwrap();
    assert_eq!(record["call"], "schedule", "{record}");
    assert!(ms(&record["received_at"]) < due.as_millisecond(), "{record}");

    let activity = json!({
        "app_id": APP, "activity_id": "order-7", "activity_attributes_type": "Delivery",
        "activity_attributes": { "order": 7 }, "content_state": { "eta": "12:15" },
        "notification": { "alert": { "title": "On its way", "body": "There at 12:15" } },
        "segment_id": BOUGHT_LARGE,
    });
    let answer = sending.api.post("/messages/live_activity/start", &activity).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let started = "SELECT count(*) FROM messages WHERE channel = 'live_activity'
                   AND state = 'sent'";
    sending.wait_for_count(started, |count| count == 1).await;
    sending.all_ended().await;
    let failed = "SELECT count(*) FROM dispatches WHERE state <> 'done'";
    sending.wait_for_count(failed, |count| count == 0).await;
    sending.fleet.close().await;
}
