//! The workspace's deliveries.

use longshore::app::App;
use longshore::deliveries::{self, NewDelivery};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{World, all, ids, post_once, workspace_id};
use crate::support::eventually;
use crate::support::fleet::Backend;
use crate::support::receiver::{Receiver, ScriptedResponse};
use crate::support::stores::on_pool;

const BODY: &str = r#"{"success":true,"url":"https://example.com/download?signature=hidden"}"#;
const SHOWN_BODY: &str = r#"{"success":true,"url":"https://example.com/download?signature=***"}"#;

async fn enqueue(app: &App, workspace_id: i32, subject: &str, url: String) -> Uuid {
    let mut tx = app.store.write().await.expect("a transaction");
    let delivery = NewDelivery {
        workspace_id,
        kind: deliveries::EXPORT_CALLBACK,
        subject: subject.into(),
        follows: None,
        url,
        body: BODY.into(),
        request_id: "request-1".into(),
    };
    let id = deliveries::enqueue(&mut tx, &app.config, &app.clock, delivery).await.expect("stored");
    tx.commit().await.expect("a commit");
    id
}

async fn deliveries_are_listed_shown_and_sent_again(backend: Backend) {
    let world = World::start(backend).await;
    let app = world.app().await;
    let (acme, beta) = (workspace_id(&app, "acme").await, workspace_id(&app, "beta").await);
    let receiver = Receiver::start([]).await;
    let mut own = Vec::new();
    for number in 0..5 {
        let subject = format!("subject-{number}");
        let id = enqueue(&app, acme, &subject, receiver.url("/hidden-path")).await;
        own.insert(0, id.to_string());
        enqueue(&app, beta, "other", receiver.url("/")).await;
    }
    receiver.wait_for(10).await;
    let delivered = |found: &[Value]| found.iter().all(|entry| entry["state"] == "delivered");
    eventually("all are delivered", || async {
        delivered(&all(&world.acme, "/deliveries", "deliveries", async || {}).await)
    })
    .await;
    let all_in_one = world.acme.get("/deliveries?limit=5").await.body;
    assert_eq!(ids(all_in_one["deliveries"].as_array().expect("an array")), own);
    assert!(all_in_one.get("next_cursor").is_none(), "{all_in_one}");
    // Entries that come in between move no other.
    let listed = all(&world.acme, "/deliveries", "deliveries", async || {
        enqueue(&app, acme, "later", receiver.url("/")).await;
    })
    .await;
    assert_eq!(ids(&listed), own);
    let text = json!(listed).to_string();
    assert!(!text.contains("hidden-path") && !text.contains("success"), "{text}");
    for (query, expected) in [
        ("subject=subject-3", &own[1..2]),
        ("subject=subject-3&state=delivered", &own[1..2]),
        ("subject=subject-3&state=given_up", &[]),
        ("subject=other", &[]),
        ("receiver=https://elsewhere.example", &[]),
        ("until=2020-01-01", &[]),
        ("since=2999-01-01", &[]),
    ] {
        let page = world.acme.get(&format!("/deliveries?{query}")).await;
        let found = page.body["deliveries"].as_array().unwrap_or_else(|| panic!("{page:?}"));
        assert_eq!(ids(found), expected, "{query}");
        // A page searches no deliveries of other workspaces.
        assert!(page.body.get("next_cursor").is_none(), "{query}: {page:?}");
    }
    let empty_range = world.acme.get("/deliveries?since=2026-01-02&until=2026-01-01").await;
    assert_eq!(empty_range.status, 400, "{empty_range:?}");
    let at = listed[0]["receiver"].as_str().expect("a receiver");
    let page = world.acme.get(&format!("/deliveries?receiver={at}&subject=subject-0")).await;
    assert_eq!(ids(page.body["deliveries"].as_array().expect("an array")), own[4..]);

    // Programs of release 0.2.0 stored the receiver as the job.
    let old = kit::derived_ids::v8(&[at.as_bytes()]);
    let last = Uuid::parse_str(&own[4]).expect("an id");
    let set = "UPDATE deliveries SET receiver = $1 WHERE id = $2";
    on_pool!(&app.store, pool => sqlx::query(set).bind(old).bind(last).execute(pool).await.map(drop))
        .expect("an update");
    for subject in ["subject-0", "subject-1"] {
        let query = format!("receiver={at}&subject={subject}");
        let page = world.acme.get(&format!("/deliveries?{query}")).await;
        assert_eq!(page.body["deliveries"].as_array().map(Vec::len), Some(1), "{query}: {page:?}");
    }

    let path = format!("/deliveries/{}", own[0]);
    let shown = world.acme.get(&path).await;
    assert_eq!((shown.status.as_u16(), &shown.body["body"]), (200, &json!(SHOWN_BODY)));
    let webhook_id = shown.body["webhook_id"].as_str().expect("a webhook-id");
    assert_eq!(world.acme.get(&format!("/deliveries/{webhook_id}")).await.body, shown.body);

    // It is sent again with the same id; while the receiver fails, it is pending.
    receiver.script([ScriptedResponse::Says(500, "no disk".into())]);
    let resend = format!("{path}/resend");
    let resent = world.acme.post(&resend, &json!({})).await;
    assert_eq!((resent.status.as_u16(), &resent.body["state"]), (200, &json!("pending")));
    eventually("it failed or was delivered", || async {
        let shown = world.acme.get(&path).await.body;
        shown["attempts"].as_i64() > Some(1)
    })
    .await;
    let sent_again = || {
        let received = receiver.received();
        received.iter().filter(|sent| sent.header("webhook-id") == webhook_id).count()
    };
    eventually("it is sent again", || async { sent_again() >= 2 }).await;

    for (api, path, status) in [
        (&world.beta, path.as_str(), 404),
        (&world.few, path.as_str(), 403),
        (&world.few, "/deliveries", 403),
        (&world.acme, "/deliveries/7", 404),
        (&world.acme, "/deliveries/%FF", 404),
        (&world.acme, "/deliveries/%27%20OR%201%3D1", 404),
        (&world.acme, "/deliveries?state=lost", 400),
        (&world.acme, "/deliveries?receiver=%00", 400),
        (&world.acme, "/deliveries?cursor=AAAA", 400),
        (&world.acme, "/deliveries?limit=101", 400),
    ] {
        let response = api.get(path).await;
        assert_eq!(response.status, status, "{path}: {response:?}");
    }
    assert_eq!(world.beta.post(&resend, &json!({})).await.status, 404);
    assert_eq!(world.few.post(&resend, &json!({})).await.status, 403);
    app.log.close().await;
    app.store.close().await;
    world.close().await;
}

async fn a_delivery_is_sent_again_once_for_each_key(backend: Backend) {
    let world = World::start(backend).await;
    let app = world.app().await;
    let acme = workspace_id(&app, "acme").await;
    let receiver = Receiver::start([]).await;
    let mut paths = Vec::new();
    for subject in ["first", "second"] {
        let id = enqueue(&app, acme, subject, receiver.url("/")).await;
        paths.push(format!("/deliveries/{id}"));
    }
    let state = async |path: &str| {
        let shown = world.acme.get(path).await.body;
        (shown["state"].clone(), shown["attempts"].clone())
    };
    let delivered = async |path: &str, attempts: u32| {
        eventually("it is delivered", || async {
            state(path).await == (json!("delivered"), json!(attempts))
        })
        .await;
    };
    let resend =
        async |path: &str, key: &str| post_once(&world.acme, &format!("{path}/resend"), key).await;
    for path in paths.iter().map(String::as_str) {
        delivered(path, 1).await;
        assert_eq!(resend(path, "é").await.status, 400);
        let first = resend(path, "once").await;
        assert_eq!((first.status.as_u16(), &first.body["state"]), (200, &json!("pending")));
        delivered(path, 2).await;
        let again = resend(path, "once").await;
        assert_eq!((again.status, again.body), (first.status, first.body));
        assert_eq!(state(path).await, (json!("delivered"), json!(2)), "it is not sent again");
    }
    let path = paths[0].as_str();
    assert_eq!(resend(path, "other").await.status, 200);
    delivered(path, 3).await;
    app.log.close().await;
    app.store.close().await;
    world.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_is_sent_again_once_for_each_key_on_sqlite() {
    a_delivery_is_sent_again_once_for_each_key(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_is_sent_again_once_for_each_key_on_postgres() {
    a_delivery_is_sent_again_once_for_each_key(Backend::Fleet(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_are_listed_shown_and_sent_again_on_sqlite() {
    deliveries_are_listed_shown_and_sent_again(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_are_listed_shown_and_sent_again_on_postgres() {
    deliveries_are_listed_shown_and_sent_again(Backend::Fleet(1)).await;
}
