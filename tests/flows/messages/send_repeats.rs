//! Calls of `/messages/send` that are sent again: under a key they are one, also where a gateway
//! ended in the middle; on SQLite and on PostgreSQL.

use std::collections::BTreeSet;

use longshore::app::App;
use serde_json::json;
use uuid::Uuid;

use super::send_api::{CAMPAIGN, KEY, NOW, SEGMENT, SEND, World, body, file, to};
use crate::support::local_api::{LocalApi, LocalResponse};
use crate::support::stores::{on_both_stores, on_pool};

on_both_stores!(World =>
    sends_with_a_key_are_idempotent,
    retried_sends_keep_their_dispatch,
);

impl World {
    async fn execute(&self, sql: &'static str) {
        on_pool!(&self.installation.app.store, pool => {
            sqlx::query(sql).execute(pool).await.map(|_| ()).expect(sql);
        });
    }
}

async fn sends_with_a_key_are_idempotent(world: World) {
    let asked = body(json!({}));
    let first = world.api.post_once(SEND, "a", &asked).await;
    assert_eq!(first.0, 201, "{first:?}");
    world.at(NOW + 60_000);
    assert_eq!(world.api.post_once(SEND, "a", &asked).await, first);
    let other: LocalResponse =
        world.api.post_once(SEND, "a", &body(json!({ "send_id": "x" }))).await;
    assert_eq!(other.0, 422, "{other:?}");
    let again = world.api.post_once(SEND, "b", &asked).await;
    let keyless = world.taken(&asked).await;
    let ids = [&first.1, &again.1, &keyless].map(|answer| answer["dispatch_id"].to_string());
    assert_eq!(BTreeSet::from(ids).len(), 3);
    assert_eq!(world.orders().await.len(), 3);
    // What was taken stays taken, whatever the workspace declares since.
    let to_segment = to(json!({ "broadcast": true, "segment_id": SEGMENT }));
    let first = world.api.post_once(SEND, "c", &to_segment).await;
    assert_eq!(first.0, 201, "{first:?}");
    let without = file().replace(SEGMENT, &Uuid::new_v4().to_string());
    world.installation.apply(&without, true).await;
    let another = App::open((*world.installation.app.config).clone()).await.unwrap();
    let forgetful = LocalApi::new(&another, KEY);
    assert_eq!(forgetful.post_once(SEND, "c", &to_segment).await, first);
    assert_eq!(forgetful.post(SEND, &to_segment).await.0, 400);
}

/// As if the gateway had ended before it kept the response: the order may be in the log or not.
async fn retried_sends_keep_their_dispatch(world: World) {
    let asked = body(json!({ "campaign_id": CAMPAIGN, "send_id": "s" }));
    let first = world.api.post_once(SEND, "a", &asked).await;
    assert_eq!(first.0, 201, "{first:?}");
    for _ in 0..2 {
        world
            .execute("UPDATE idempotency_claims SET status = NULL, answer = NULL, leased_until = 0")
            .await;
        world.at(NOW + 3_600_000);
        assert_eq!(world.api.post_once(SEND, "a", &asked).await, first);
    }
    let orders = world.orders().await;
    assert_eq!(orders.len(), 3);
    for (message, order) in &orders {
        let (first, its) = &orders[0];
        assert_eq!((&message.key, message.partition), (&first.key, first.partition));
        assert_eq!(message.payload, first.payload);
        assert_eq!(order.dispatch_id, its.dispatch_id);
    }
    let requests: BTreeSet<&str> =
        orders.iter().map(|(message, _)| message.request_id.as_str()).collect();
    assert_eq!(requests.len(), 3, "each has the id of the request that appended it");
}
