//! The workspace's dead letters.

use longshore::app::App;
use longshore::engine::batches::dead_letters;
use reqwest::Method;
use runtime::audit::{self, Filter, Record};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{World, all, ids, post_once, workspace_id};
use crate::support::api::answer;
use crate::support::fleet::Backend;
use crate::support::stores::on_pool;

const PATH: &str = "/dead_letters";

/// Stores a dead letter as a program of the release before does: without a workspace.
async fn bury(app: &App, position: i64, payload: &str) -> String {
    let id = Uuid::now_v7();
    let sql = "INSERT INTO dead_letters
                   (id, consumer_group, topic, partition, position, appended_at, key, payload,
                    request_id, reason, attempts, created_at)
               VALUES ($1, 'ingest', 'tracking', 0, $2, 0, $3, $4, 'request-1;trace', 'why', 1, $2)";
    on_pool!(&app.store, pool => {
        let insert = sqlx::query(sql).bind(id).bind(position).bind(&b"key"[..]);
        insert.bind(payload.as_bytes()).execute(pool).await.map(drop)
    })
    .expect("an insert");
    id.to_string()
}

/// A message that creates a user.
fn creating(workspace: i32, user: &str) -> String {
    let object = json!({ "attributes": {
        "user": { "external_id": user }, "fields": { "first_name": "é".repeat(40_000) } } });
    json!({ "v": 1, "workspace": workspace, "received_at": 1_795_262_400_000_i64,
            "objects": [object] })
    .to_string()
}

/// The retries in the audit log, the oldest first, with their results.
async fn retries(app: &App) -> Vec<(String, Value)> {
    let action = Some("dead_letter.retry".to_owned());
    let filter = Filter { action, limit: 10, ..Filter::default() };
    let entries = audit::list(&mut app.store.snapshot().await.unwrap(), &filter).await.unwrap();
    let result = |entry: &Record| (entry.object.clone(), entry.details["result"].clone());
    entries.iter().rev().map(result).collect()
}

async fn only_own_dead_letters_are_listed_retried_and_discarded(backend: Backend) {
    let world = World::start(backend).await;
    let app = world.app().await;
    let (acme, beta) = (workspace_id(&app, "acme").await, workspace_id(&app, "beta").await);
    let mut own = Vec::new();
    for position in 0..5 {
        own.push(bury(&app, position, &creating(acme, &format!("risen-{position}"))).await);
    }
    let other = bury(&app, 5, &creating(beta, "other")).await;
    let damaged = bury(&app, 6, &format!(r#"{{"v":1,"workspace":{acme},"objects":7}}"#)).await;
    let nobodys = bury(&app, 7, "no message").await;
    let endless = CancellationToken::new();
    dead_letters::determine_workspaces(&app.store, &endless).await.expect("they are determined");
    own.push(damaged.clone());

    let listed = all(&world.acme, PATH, "dead_letters", async || {}).await;
    assert_eq!(ids(&listed), own);
    assert_eq!(listed[0]["request_id"], "request-1");
    assert!(!json!(listed).to_string().contains("risen"), "a list has no personal data");
    let others = all(&world.beta, PATH, "dead_letters", async || {}).await;
    assert_eq!(ids(&others), [&other]);

    let path = |id: &str| format!("{PATH}/{id}");
    let shown = world.acme.get(&path(&own[0])).await;
    let payload = shown.body["payload"].as_str().unwrap_or_else(|| panic!("{shown:?}"));
    assert!((60 << 10..=64 << 10).contains(&payload.len()), "{}", payload.len());
    assert_eq!(shown.body["is_truncated"], json!(true));

    let retry = |id: &str| format!("{PATH}/{id}/retry");
    assert_eq!(post_once(&world.acme, &retry(&own[0]), "é").await.status, 400);
    let applied = post_once(&world.acme, &retry(&own[0]), "once").await;
    assert_eq!((applied.status.as_u16(), &applied.body["message"]), (200, &json!("success")));
    let found = world.acme.post("/users/export/ids", &json!({ "external_ids": ["risen-0"] })).await;
    assert_eq!(found.body["users"].as_array().map(Vec::len), Some(1), "{found:?}");
    // A repeat gets the first response. The key is of one dead letter.
    let again = post_once(&world.acme, &retry(&own[0]), "once").await;
    assert_eq!((again.status, again.body), (applied.status, applied.body));
    assert_eq!(world.acme.post(&retry(&own[0]), &json!({})).await.status, 404, "it is applied");
    for (api, key) in [(&world.acme, "other"), (&world.beta, "once")] {
        assert_eq!(post_once(api, &retry(&own[0]), key).await.status, 404, "{key}");
    }
    let other_body = world.acme.request(Method::POST, &retry(&own[0])).json(&json!({}));
    let other_body = answer(other_body.header("idempotency-key", "once")).await;
    assert_eq!((other_body.status.as_u16(), &other_body.body["code"]), (422, &json!("key-reused")));
    let failed = post_once(&world.acme, &retry(&damaged), "once").await;
    assert_eq!((failed.status.as_u16(), &failed.body["code"]), (409, &json!("conflict")));

    // One is discarded between two pages; the others keep their places.
    let rest = all(&world.acme, PATH, "dead_letters", async || {
        world.acme.delete(&path(&own[1])).await;
    })
    .await;
    assert_eq!(ids(&rest), own[1..]);
    assert_eq!(world.acme.delete(&path(&own[1])).await.status, 404);
    let gone = world.acme.post("/users/export/ids", &json!({ "external_ids": ["risen-1"] })).await;
    assert_eq!(gone.body["users"], json!([]));

    for (api, id, status) in [
        (&world.acme, other.as_str(), 404),
        (&world.acme, nobodys.as_str(), 404),
        (&world.acme, "7", 404),
        (&world.acme, "%FF", 404),
        (&world.few, own[2].as_str(), 403),
        (&world.beta, own[2].as_str(), 404),
    ] {
        assert_eq!(api.get(&path(id)).await.status, status, "{id}");
        assert_eq!(api.post(&retry(id), &json!({})).await.status, status, "{id}");
        assert_eq!(api.delete(&path(id)).await.status, status, "{id}");
    }
    assert_eq!(world.acme.get(&format!("{PATH}?cursor=x")).await.status, 400);
    assert_eq!(world.few.get(PATH).await.status, 403);
    assert_eq!(
        retries(&app).await,
        [(own[0].clone(), json!("applied")), (damaged, json!("failed"))]
    );
    let left: Vec<Value> = all(&world.acme, PATH, "dead_letters", async || {}).await;
    assert_eq!(ids(&left), own[2..]);
    app.log.close().await;
    app.store.close().await;
    world.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_own_dead_letters_are_listed_retried_and_discarded_on_sqlite() {
    only_own_dead_letters_are_listed_retried_and_discarded(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_own_dead_letters_are_listed_retried_and_discarded_on_postgres() {
    only_own_dead_letters_are_listed_retried_and_discarded(Backend::Fleet(1)).await;
}
