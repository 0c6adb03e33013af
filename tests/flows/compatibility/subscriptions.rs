//! Calls that set subscriptions: their bounds, their order with tracking, and their repeats.

use std::time::Duration;

use longshore::workspaces::keys::PERMISSIONS;
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::Connection as _;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};

use super::{GROUP, World};
use crate::support::WorkspaceFile;
use crate::support::api::{ApiResponse, answer};
use crate::support::eventually;
use crate::support::fleet::{Backend, Fleet};
use crate::support::tracked::read_all;

impl World {
    async fn repeatable(&self, path: &str, key: &str, body: &Value) -> ApiResponse {
        let request = self.api.request(Method::POST, path).header("idempotency-key", key);
        answer(request.json(body)).await
    }
}

fn group(ids: std::ops::Range<usize>) -> Value {
    let ids: Vec<String> = ids.map(|n| format!("user{n}")).collect();
    json!({
        "subscription_group_id": GROUP, "subscription_state": "subscribed", "external_ids": ids,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_sets_the_subscriptions_of_fifty_users_at_most() {
    let world = World::start(&[]).await;
    let many = |groups: Value| json!({ "subscription_groups": groups });
    const MANY: &str = "/v2/subscription/status/set";
    world.done(MANY, many(json!([group(0..50)]))).await;
    world.done(MANY, many(json!([group(0..50), group(0..50)]))).await;
    world.refused(MANY, many(json!([group(0..51)])), 400, "invalid-field").await;
    world.refused(MANY, many(json!([group(0..26), group(26..51)])), 400, "invalid-field").await;
    let body_with_users = |name: &str, count: usize| {
        let users: Vec<String> = (0..count).map(|n| format!("u{n}@example.com")).collect();
        let mut body = json!({ "subscription_group_id": GROUP });
        body["subscription_state"] = json!("subscribed");
        body[name] = json!(users);
        body
    };
    for name in ["external_id", "email"] {
        world.done("/subscription/status/set", body_with_users(name, 50)).await;
        world
            .refused("/subscription/status/set", body_with_users(name, 51), 400, "invalid-field")
            .await;
    }
    // It sets no state in a group.
    world.refused("/email/status", body_with_users("email", 50), 400, "unknown-field").await;
    let emails = |count: usize| {
        let mut body = body_with_users("email", count);
        body.as_object_mut().unwrap().remove("subscription_group_id");
        body
    };
    world.done("/email/status", emails(50)).await;
    world.refused("/email/status", emails(51), 400, "invalid-field").await;
    world.refused("/email/status", emails(0), 400, "invalid-field").await;
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_email_status_applies_after_earlier_tracking() {
    let world = World::start(&[]).await;
    let ann = json!([{ "external_id": "ann", "email": "a@example.com" }]);
    world.track(ann).await;
    world.fleet.applied().await;
    let body = json!({ "email": "a@example.com", "subscription_state": "unsubscribed" });
    world.done("/email/status", body).await;
    let log = world.fleet.log().await;
    let messages = read_all(&log, |messages| messages.len() >= 2).await;
    log.close().await;
    let later = &messages[1..];
    assert!(later.iter().any(|of| of.partition == messages[0].partition), "{messages:?}");
    assert_eq!(world.user("ann").await["email_subscribe"], "unsubscribed");
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn states_hold_in_all_spellings_of_an_address_and_of_a_group() {
    // The relay reports the second one.
    const STORED: &str = "ann@bücher.example";
    const REPORTED: &str = "ann@xn--bcher-kva.example";
    let world = World::start(&[]).await;
    let upper = GROUP.to_uppercase();
    let state_in = |group: &str, state: &str| {
        let state = json!({ "subscription_group_id": group, "subscription_state": state });
        json!([state])
    };
    world
        .track(json!([
            { "external_id": "bob", "email": REPORTED },
            { "external_id": "ann", "email": STORED },
        ]))
        .await;
    world.fleet.applied().await;
    let body = json!({ "email": REPORTED, "subscription_state": "unsubscribed" });
    world.done("/email/status", body).await;
    for id in ["ann", "bob"] {
        assert_eq!(world.user(id).await["email_subscribe"], "unsubscribed", "{id}");
    }
    let set = json!({
        "subscription_group_id": GROUP, "subscription_state": "subscribed", "external_id": "ann",
    });
    world.done("/subscription/status/set", set).await;
    let groups = state_in(&upper, "unsubscribed");
    world.track(json!([{ "external_id": "ann", "subscription_groups": groups }])).await;
    let ann = world.user("ann").await;
    assert_eq!(ann["subscription_groups"], state_in(GROUP, "unsubscribed"));
    let query = format!("subscription_group_id={upper}&email={REPORTED}");
    let answer = world.api.get(&format!("/subscription/status/get?{query}")).await;
    assert_eq!(answer.body["status"], json!({ REPORTED: "Unsubscribed" }), "{answer:?}");
    // A decomposed letter or an invisible character makes no other mailbox.
    world.track(json!([{ "external_id": "cay", "email": "ren\u{e9}@example.com" }])).await;
    let emails: Vec<String> = (0..49).map(|n| format!("e\u{301}{n}@example.com")).collect();
    let emails = [emails, vec!["Rene\u{301}\u{200b}@example.com".to_owned()]].concat();
    let set = json!({
        "subscription_group_id": GROUP, "subscription_state": "unsubscribed", "email": emails,
    });
    world.done("/subscription/status/set", set).await;
    let cay = world.user("cay").await;
    assert_eq!(cay["subscription_groups"], state_in(GROUP, "unsubscribed"));
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_email_status_can_be_repeated_when_more_users_have_the_address() {
    let world = World::start(&[]).await;
    let user = |id: &str| json!([{ "external_id": id, "email": "a@example.com" }]);
    world.track(user("ann")).await;
    world.fleet.applied().await;
    let body = json!({ "email": "a@example.com", "subscription_state": "unsubscribed" });
    let set = async || world.repeatable("/email/status", "k", &body).await;
    assert_eq!(set().await.status, 201);
    world.track(user("bob")).await;
    world.fleet.applied().await;
    // As if the gateway had ended before it responded.
    let file = world.fleet.database_url();
    let file = file.strip_prefix("sqlite://").unwrap_or(&file);
    let file = SqliteConnectOptions::new().filename(file).busy_timeout(Duration::from_secs(20));
    let mut file = SqliteConnection::connect_with(&file).await.unwrap();
    let unfinished = "UPDATE idempotency_claims SET status = NULL, answer = NULL, leased_until = 0";
    sqlx::query(unfinished).execute(&mut file).await.unwrap();
    file.close().await.unwrap();
    let repeated = set().await;
    assert_eq!(repeated.status, 201, "{repeated:?}");
    for id in ["ann", "bob"] {
        assert_eq!(world.user(id).await["email_subscribe"], "unsubscribed", "{id}");
    }
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_opt_out_of_a_placeholder_waits_for_no_worker() {
    // Without workers, nothing in the log is applied.
    let fleet = Fleet::start(Backend::Fleet(0), &[]).await;
    let api = fleet.apply(&[WorkspaceFile::new("acme").permitted(PERMISSIONS)]).await.remove(0);
    let record = |id: &str, email: &str| json!({ "external_id": id, "email": email }).to_string();
    let users = (0..1_001).map(|n| record(&format!("user{n}"), "noreply@example.com"));
    let records: Vec<String> = users.chain([record("ann", "a@example.com")]).collect();
    fleet.import("acme", &records).await;
    let unsubscribe = async |email: &str| {
        let body = json!({ "email": email, "subscription_state": "unsubscribed" });
        assert_eq!(api.post("/email/status", &body).await.status, 201);
    };
    let state = async |id: &str| -> Value {
        let shown = fleet.run(&["users", "show", id, "--json"]).await;
        serde_json::from_str::<Value>(&shown).unwrap()["email_subscribe"].clone()
    };
    // A gateway leaves an opt-out to the log if a slow machine takes seconds for it.
    for (id, email) in [("user0", "noreply@example.com"), ("ann", "a@example.com")] {
        eventually("the user is unsubscribed", async || {
            unsubscribe(email).await;
            state(id).await == "unsubscribed"
        })
        .await;
    }
    assert_eq!(state("user1000").await, "unsubscribed");
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_gets_the_first_response_when_the_group_is_gone() {
    let world = World::start(&[]).await;
    let body = json!({ "subscription_groups": [group(0..1)] });
    let set = async |key: &str| world.repeatable("/v2/subscription/status/set", key, &body).await;
    assert_eq!(set("first").await.status, 201);
    let other = json!([{ "id": super::SEGMENT, "channel": "sms", "from": "+15550100" }]);
    let mut file = WorkspaceFile::new("acme").permitted(PERMISSIONS);
    file.key = world.api.key().to_owned();
    let file = file.with("subscription_groups", other);
    let path = world.fleet.write_file("other.yaml", file.document().as_bytes());
    world.fleet.run(&["apply", "--prune", path.to_str().unwrap()]).await;
    const MANY: &str = "/v2/subscription/status/set";
    eventually("the group is gone", async || world.api.post(MANY, &body).await.status == 400).await;
    assert_eq!(set("first").await.status, 201);
    world.fleet.close().await;
}
