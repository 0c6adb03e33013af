//! The requests with which a workspace reads about itself.

use longshore::app::App;
use longshore::deliveries::{self, NewDelivery};
use longshore::workspaces;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::super::filled;
use super::super::world::{SEGMENT, World};
use super::{Seen, once_and_again};
use crate::support::stores::on_pool;

pub async fn reading(world: &World, seen: &mut Seen) {
    let get = |path: &str| world.api.request(Method::GET, path);
    let post = |path: &str, body: Value| world.api.request(Method::POST, path).json(&body);
    world.fleet.import("acme", &[json!({ "external_id": "eve" }).to_string()]).await;
    seen.see(post("/users/messages", json!({ "external_id": "eve" })), 200).await;
    seen.see(post("/users/messages", json!({})), 400).await;
    seen.see(post("/users/messages", json!({ "external_id": "nobody" })), 404).await;
    for path in ["/segments/size", "/segments/sample"] {
        seen.see(post(path, json!({ "segment_id": SEGMENT })), 200).await;
        seen.see(post(path, json!({})), 400).await;
    }
    let app = App::open(world.fleet.config()).await.expect("all opens");
    let mut tx = app.store.write().await.expect("a transaction");
    let acme = workspaces::by_name(&mut tx, "acme").await.expect("a query").expect("acme").id;
    let following = |follows| NewDelivery {
        workspace_id: acme,
        kind: deliveries::EXPORT_CALLBACK,
        subject: "status".into(),
        follows,
        // Nobody listens there.
        url: "http://127.0.0.1:1/".into(),
        body: "{}".into(),
        request_id: "r".into(),
    };
    let first = deliveries::enqueue(&mut tx, &app.config, &app.clock, following(None));
    let first = first.await.expect("stored");
    // No worker gets it while the first one is pending.
    let delivery = deliveries::enqueue(&mut tx, &app.config, &app.clock, following(Some(first)));
    let delivery = delivery.await.expect("stored");
    tx.commit().await.expect("a commit");
    let (path, unknown) = (format!("/deliveries/{delivery}"), filled("/deliveries/{id}"));
    seen.see(get("/deliveries"), 200).await;
    seen.see(get("/deliveries?state=lost"), 400).await;
    seen.see(get(&path), 200).await;
    seen.see(get(&unknown), 404).await;
    seen.see(post(&format!("{path}/resend"), json!({})), 409).await;
    seen.see(post(&format!("{unknown}/resend"), json!({})), 404).await;
    let end = "UPDATE deliveries SET state = 'given_up' WHERE id = $1";
    on_pool!(&app.store, pool => sqlx::query(end).bind(delivery).execute(pool).await.map(drop))
        .expect("an update");
    let resend = format!("{path}/resend");
    once_and_again(world, seen, (Method::POST, &resend), &json!({}), 200).await;

    let bury = "INSERT INTO dead_letters
                    (id, consumer_group, topic, partition, position, appended_at, key, payload,
                     request_id, reason, attempts, created_at, workspace_id)
                VALUES ($1, 'ingest', 'tracking', 0, $2, 0, $3, $4, 'r', 'why', 1, $2, $5)";
    let mut dead_letters = Vec::new();
    let object = json!({ "attributes": {
        "user": { "external_id": "eve" }, "fields": { "first_name": "Eve" } } });
    for (position, objects) in [(1_i64, json!([object])), (2, json!(7)), (3, json!([object]))] {
        let id = Uuid::now_v7();
        let payload = json!({
            "v": 1, "workspace": acme, "received_at": 1_795_262_400_000_i64, "objects": objects,
        })
        .to_string();
        on_pool!(&app.store, pool => {
            let insert = sqlx::query(bury).bind(id).bind(position).bind(&b"key"[..]);
            insert.bind(payload.as_bytes()).bind(acme).execute(pool).await.map(drop)
        })
        .expect("an insert");
        dead_letters.push(format!("/dead_letters/{id}"));
    }
    let unknown = filled("/dead_letters/{id}");
    seen.see(get("/dead_letters"), 200).await;
    seen.see(get("/dead_letters?limit=0"), 400).await;
    seen.see(get(&dead_letters[0]), 200).await;
    seen.see(get(&unknown), 404).await;
    let retry = format!("{}/retry", dead_letters[0]);
    once_and_again(world, seen, (Method::POST, &retry), &json!({}), 200).await;
    seen.see(post(&format!("{}/retry", dead_letters[1]), json!({})), 409).await;
    seen.see(post(&format!("{unknown}/retry"), json!({})), 404).await;
    seen.see(world.api.request(Method::DELETE, &dead_letters[2]), 200).await;
    seen.see(world.api.request(Method::DELETE, &unknown), 404).await;
    app.log.close().await;
    app.store.close().await;
}
