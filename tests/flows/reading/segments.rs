//! The size of a segment, and a sample of its users.

use std::collections::BTreeSet;

use futures::future::join_all;
use serde_json::{Value, json};

use super::{GOLD, World, gold};
use crate::support::fleet::Backend;

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
