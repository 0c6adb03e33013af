//! The size of a segment, and a sample of its users.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};

use super::{GOLD, World, gold};
use crate::support::fleet::{Backend, Fleet};
use crate::support::{Api, WorkspaceFile, eventually, user_records};

const SIZE: &str = "/segments/size";
const SAMPLE: &str = "/segments/sample";

/// Users. Every tenth one is in the segment.
const USERS: usize = 300;

async fn segments_are_counted_and_sampled(backend: Backend) {
    let world = World::start(backend).await;
    let user = |n: usize| {
        let tier = if n.is_multiple_of(10) { "gold" } else { "basic" };
        json!({ "external_id": format!("u{n}"), "custom_attributes": { "tier": tier } }).to_string()
    };
    world.fleet.import("acme", &(0..USERS).map(user).collect::<Vec<_>>()).await;
    let exact = json!({
        "estimated": USERS / 10, "exact": true, "based_on": { "source": "all_users" },
    });
    for target in [json!({ "segment_id": GOLD }), json!({ "audience": gold() })] {
        let counted = world.acme.post(SIZE, &target).await;
        assert_eq!(counted.status, 200, "{counted:?}");
        assert_eq!(counted.body, json!({ "message": "success", "size": exact }));
    }
    let body = json!({ "segment_id": GOLD, "limit": 7, "fields_to_export": ["external_id"] });
    let sampled = world.acme.post(SAMPLE, &body).await;
    assert_eq!((sampled.status.as_u16(), &sampled.body["size"]), (200, &exact));
    let users = sampled.body["users"].as_array().expect("an array");
    let found: BTreeSet<&str> =
        users.iter().filter_map(|user| user["external_id"].as_str()).collect();
    let of_segment: BTreeSet<String> = (0..USERS).step_by(10).map(|n| format!("u{n}")).collect();
    assert_eq!((users.len(), found.len()), (7, 7), "each once");
    assert!(found.iter().all(|id| of_segment.contains(*id)), "{found:?}");
    // All of them, and none.
    let all = world.acme.post(SAMPLE, &json!({ "segment_id": GOLD, "limit": 100 })).await;
    assert_eq!(all.body["users"].as_array().map(Vec::len), Some(USERS / 10));
    let none = json!({ "audience": { "custom_attribute": {
        "custom_attribute_name": "tier", "comparison": "equals", "value": "lost" } } });
    assert_eq!(world.acme.post(SAMPLE, &none).await.body["users"], json!([]));
    // More than are counted at a time wait, and are not rejected.
    let sizes = join_all((0..3).map(|_| async {
        world.acme.post(SIZE, &json!({ "segment_id": GOLD })).await.status.as_u16()
    }));
    assert_eq!(sizes.await, [200; 3]);
    for (api, path, body, status) in [
        (&world.beta, SIZE, json!({ "segment_id": GOLD }), 400),
        (&world.beta, SAMPLE, json!({ "segment_id": GOLD }), 400),
        (&world.few, SIZE, json!({ "segment_id": GOLD }), 403),
        (&world.few, SAMPLE, json!({ "segment_id": GOLD }), 403),
        (&world.acme, SIZE, json!({}), 400),
        (&world.acme, SIZE, json!({ "segment_id": GOLD, "audience": gold() }), 400),
        (&world.acme, SIZE, json!({ "audience": nested(50) }), 400),
        (&world.acme, SAMPLE, json!({ "segment_id": GOLD, "limit": 0 }), 400),
        (&world.acme, SAMPLE, json!({ "segment_id": GOLD, "external_ids": ["u1"] }), 400),
    ] {
        let response = api.post(path, &body).await;
        assert_eq!(response.status, status, "{path}: {response:?}");
    }
    world.close().await;
}

/// A condition in many others.
fn nested(depth: usize) -> Value {
    (0..depth).fold(gold(), |inner, _| json!({ "AND": vec![inner] }))
}

#[tokio::test(flavor = "multi_thread")]
async fn segments_are_counted_and_sampled_on_sqlite() {
    segments_are_counted_and_sampled(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn segments_are_counted_and_sampled_on_postgres() {
    segments_are_counted_and_sampled(Backend::Fleet(1)).await;
}

/// An installation whose users have a text of 16 KiB of zeros and ones.
async fn with_long_texts(backend: Backend, users: usize) -> (Fleet, Api) {
    let fleet = Fleet::start(backend, &[]).await;
    let file = WorkspaceFile::new("acme").with_percent(None).unlimited().permitted(&[
        "segments.size",
        "segments.sample",
        "users.export.segment",
        "users.track",
        "messages.send",
        "messages.dispatches.get",
    ]);
    let api = fleet.apply(&[file]).await.remove(0);
    fleet.import("acme", &user_records::with_bits(users)).await;
    (fleet, api)
}

/// Users whose bits match any of these patterns.
fn matching(patterns: impl Iterator<Item = String>) -> Value {
    let pattern = |pattern| {
        json!({ "custom_attribute": {
            "custom_attribute_name": "bits", "comparison": "matches_regex", "value": pattern } })
    };
    json!({ "OR": patterns.map(pattern).collect::<Vec<_>>() })
}

async fn patterns_with_many_states_are_refused_with_their_reason(backend: Backend) {
    let (fleet, api) = with_long_texts(backend, 40).await;
    let audience = matching((2_000..2_025).map(|n| format!("[01]*1[01]{{{n}}}a")));
    let told = "The regular expression \"[01]*1[01]{2000}a\" takes too long";
    let export = json!({
        "audience": audience, "fields_to_export": ["external_id"], "dry_run": true,
    });
    let of_audience = json!({ "audience": audience });
    for (path, body) in
        [(SIZE, &of_audience), (SAMPLE, &of_audience), ("/users/export/segment", &export)]
    {
        let refused = api.post(path, body).await;
        refused.refuses(400, told);
        assert_eq!(refused.body["code"], "audience-too-costly", "{path}");
    }
    let export = json!({ "audience": audience, "fields_to_export": ["external_id"] });
    let accepted = api.post("/users/export/segment", &export).await;
    let prefix = accepted.body["object_prefix"].as_str().expect("a prefix").to_owned();
    let failed = api.failed(&prefix).await;
    assert!(failed.starts_with(told), "{failed}");
    let message = json!({ "url": "http://127.0.0.1:1/", "request_method": "POST", "body": "x" });
    let send =
        json!({ "broadcast": true, "audience": audience, "messages": { "webhook": message } });
    let sent = api.post("/messages/send", &send).await;
    assert_eq!(sent.status, 201, "{sent:?}");
    let dispatch = sent.body["dispatch_id"].as_str().expect("a dispatch_id").to_owned();
    let path = format!("/messages/dispatches/{dispatch}");
    eventually("the send has failed", || async { api.get(&path).await.body["state"] == "failed" })
        .await;
    let shown = fleet.run(&["dispatches", "show", &dispatch]).await;
    assert!(shown.contains("takes too long on the texts of users"), "{shown}");
    // Other patterns and tracking work as before.
    let audience = matching(["^[01]+$".to_owned(), "(?i)\\w{3}@\\w+".to_owned()].into_iter());
    let counted = api.post(SIZE, &json!({ "audience": audience })).await;
    assert_eq!(counted.body["size"]["estimated"], 40, "{counted:?}");
    let track = json!({ "attributes": [{ "external_id": "u0", "tier": "gold" }] });
    assert_eq!(api.post("/users/track", &track).await.status, 201);
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn patterns_with_many_states_are_refused_with_their_reason_on_sqlite() {
    patterns_with_many_states_are_refused_with_their_reason(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn patterns_with_many_states_are_refused_with_their_reason_on_postgres() {
    patterns_with_many_states_are_refused_with_their_reason(Backend::Fleet(1)).await;
}

/// The request would end with 400, after seconds.
#[tokio::test(flavor = "multi_thread")]
async fn an_estimate_ends_when_its_client_disconnects() {
    let (fleet, api) = with_long_texts(Backend::Embedded, 600).await;
    let audience = matching(["[01]*1[01]{500}a".to_owned()].into_iter());
    let body = json!({ "audience": audience });
    let response = tokio::time::timeout(Duration::from_millis(500), api.post(SIZE, &body)).await;
    assert!(response.is_err(), "it takes longer: {response:?}");
    let answered = async || {
        let metrics = fleet.metrics("standalone").await;
        let is_size =
            |line: &&str| line.starts_with("longshore_http_requests_total") && line.contains(SIZE);
        metrics.lines().find(is_size).map(str::to_owned)
    };
    eventually("the request has ended", async || answered().await.is_some()).await;
    let counted = answered().await.expect("a line");
    assert!(counted.contains("status=\"503\""), "{counted}");
    fleet.close().await;
}
