//! Users who unsubscribe, change their device or are erased while their message waits behind a slow
//! receiver.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::sending::Sending;
use crate::support::eventually;
use crate::support::fleet::{Backend, Fleet};
use crate::support::receiver::{Received, ScriptedResponse};
use crate::support::scripted_relay::ScriptedRelay;
use crate::support::workspace::WorkspaceFile;

const APP: &str = "4f0e6b1a-9c3d-4e7f-8a2b-1c0d9e8f7a64";

/// A change that was applied this long ago holds for every message that has not started.
const TAKES_EFFECT: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_wait_respect_later_decisions_standalone() {
    decide_while_messages_wait(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_wait_respect_later_decisions_in_a_fleet() {
    decide_while_messages_wait(Backend::Fleet(1)).await;
}

fn tokens(token: &str) -> Value {
    json!([{ "app_id": APP, "token": token }])
}

/// The user and the token of a push message.
fn destination(request: &Received) -> (String, String) {
    let body: Value = serde_json::from_slice(&request.body).expect("JSON");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    (text(&body["user"]["external_id"]), text(&body["to"]["tokens"][0]["token"]))
}

async fn decide_while_messages_wait(backend: Backend) {
    // One message at a time, so the others wait for the first one.
    let settings = [
        ("LONGSHORE_MESSAGES__SENDS_IN_FLIGHT", "1".to_owned()),
        ("LONGSHORE_DELIVERIES__TIMEOUT_SECONDS", "120".to_owned()),
    ];
    let sending = Sending::start(backend, &settings, |receiver| {
        let secret = "a-secret-of-more-than-24-bytes,-plain";
        let push = json!({ "url": receiver.url("/push"), "secret": secret });
        vec![
            ("providers", json!({ "push": push })),
            ("apps", json!([{ "id": APP, "name": "A", "platform": "ios" }])),
        ]
    })
    .await;
    let names = ["ann", "bob", "cid", "dee", "eve"];
    let record = |name: &str| json!({ "external_id": name, "push_tokens": tokens(name) });
    let records: Vec<String> = names.iter().map(|name| record(name).to_string()).collect();
    sending.fleet.import("acme", &records).await;
    let release = CancellationToken::new();
    sending.receiver.script([ScriptedResponse::Held(release.clone())]);
    let body = json!({
        "external_user_ids": names, "messages": { "apple_push": { "alert": "Hello" } },
    });
    let sent = sending.api.post("/messages/send", &body).await;
    assert_eq!(sent.status, 201, "{sent:?}");
    let dispatch = sent.body["dispatch_id"].as_str().expect("a dispatch_id").to_owned();
    let (first, _) = destination(&sending.receiver.wait_for(1).await[0]);

    let waiting: Vec<&str> = names.into_iter().filter(|name| *name != first).collect();
    let [leaves, moves, erased, stays] = waiting[..] else { panic!("{waiting:?}") };
    let changes = json!({ "attributes": [
        { "external_id": leaves, "push_subscribe": "unsubscribed" },
        { "external_id": moves, "push_tokens": null },
        { "external_id": moves, "push_tokens": tokens("new") },
    ] });
    assert_eq!(sending.api.post("/users/track", &changes).await.status, 201);
    sending.fleet.applied().await;
    sending.fleet.run(&["users", "delete", erased]).await;
    tokio::time::sleep(TAKES_EFFECT).await;
    release.cancel();
    sending.all_ended().await;

    let received: BTreeSet<(String, String)> =
        sending.receiver.received().iter().map(destination).collect();
    let expected = [(first.as_str(), first.as_str()), (moves, "new"), (stays, stays)];
    let expected = expected.map(|(user, token)| (user.to_owned(), token.to_owned()));
    assert_eq!(received, BTreeSet::from(expected));
    let printed = sending.fleet.run(&["dispatches", "recipients", &dispatch, "--json"]).await;
    let recipients: Vec<Value> =
        printed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(recipients.len(), 4, "{printed}");
    let left = recipients.iter().find(|recipient| recipient["external_user_id"] == leaves);
    let left = left.unwrap_or_else(|| panic!("{leaves} is missing: {printed}"));
    assert_eq!(left["outcome"], "unreachable", "{left}");
    assert!(left["reason"].is_string(), "{left}");
    sending.fleet.close().await;
}

/// One sync with empty columns re-subscribes nobody.
#[tokio::test(flavor = "multi_thread")]
async fn empty_values_of_a_sync_do_not_end_an_opt_out() {
    let sending = Sending::start(Backend::Embedded, &[], |receiver| {
        let secret = "a-secret-of-more-than-24-bytes,-plain";
        let push = json!({ "url": receiver.url("/push"), "secret": secret });
        vec![
            ("providers", json!({ "push": push })),
            ("apps", json!([{ "id": APP, "name": "A", "platform": "ios" }])),
        ]
    })
    .await;
    let names = ["ann", "bob"];
    let record = |name: &str| json!({ "external_id": name, "push_tokens": tokens(name) });
    let records: Vec<String> = names.iter().map(|name| record(name).to_string()).collect();
    sending.fleet.import("acme", &records).await;
    for value in [json!("unsubscribed"), json!(null), json!("")] {
        let attributes = json!([{ "external_id": "ann", "push_subscribe": value }]);
        let body = json!({ "attributes": attributes });
        assert_eq!(sending.api.post("/users/track", &body).await.status, 201);
    }
    sending.fleet.applied().await;
    tokio::time::sleep(TAKES_EFFECT).await;
    let body = json!({
        "external_user_ids": names, "messages": { "apple_push": { "alert": "Hello" } },
    });
    assert_eq!(sending.api.post("/messages/send", &body).await.status, 201);
    sending.receiver.wait_for(1).await;
    sending.all_ended().await;
    let received: Vec<(String, String)> =
        sending.receiver.received().iter().map(destination).collect();
    assert_eq!(received, [("bob".to_owned(), "bob".to_owned())]);
    sending.fleet.close().await;
}

/// Opt-outs that are older than the address of an erased user, and those with another spelling of an
/// address.
#[tokio::test(flavor = "multi_thread")]
async fn opt_outs_reach_the_mailbox_also_of_erased_users_who_come_back() {
    let relay = ScriptedRelay::start(&[], []).await;
    let fleet = Fleet::start(Backend::Embedded, &[]).await;
    let permissions =
        ["messages.send", "users.track", "email.status", "suppressions.list", "suppressions.edit"];
    let email = json!({ "smtp": relay.url("", ""), "from": "hello@acme.example" });
    let file = WorkspaceFile::new("acme").with_percent(None).permitted(&permissions);
    let file = file.with("apps", json!([{ "id": APP, "name": "A", "platform": "ios" }]));
    let api = fleet.apply(&[file.with("email", email)]).await.remove(0);
    let addresses = [
        ("moves", "moves@acme.example"),
        ("late", "late@acme.example"),
        ("by_status", "\u{fc}b@acme.example"),
        ("invisible", "q@acme.example"),
        ("added", "\u{e9}ve@acme.example"),
        ("lifted", "\u{f1}u@acme.example"),
        ("stays", "stays@acme.example"),
    ];
    let users = addresses.map(|(user, address)| json!({ "external_id": user, "email": address }));
    let track = async |attributes: Value| {
        let body = json!({ "attributes": attributes });
        assert_eq!(api.post("/users/track", &body).await.status, 201);
        fleet.applied().await;
    };
    track(json!([
        { "external_id": "moves", "email": "before@acme.example" },
        { "external_id": "moves", "email_subscribe": "unsubscribed" },
        { "external_id": "late", "email_subscribe": "unsubscribed" },
    ]))
    .await;
    track(json!(users)).await;
    for user in ["moves", "late"] {
        fleet.run(&["users", "delete", user]).await;
    }
    for (address, state) in [
        ("u\u{308}b@acme.example", "unsubscribed"),
        ("q\u{200b}@acme.example", "unsubscribed"),
        ("n\u{303}u@acme.example", "unsubscribed"),
    ] {
        let body = json!({ "email": address, "subscription_state": state });
        assert_eq!(api.post("/email/status", &body).await.status, 201);
    }
    fleet.run(&["suppressions", "add", "e\u{301}ve@acme.example"]).await;
    let body = json!({ "emails": ["n\u{303}U@acme.example"] });
    assert_eq!(api.post("/suppressions/lift", &body).await.status, 201);
    fleet.applied().await;
    fleet.import("acme", &users.map(|user| user.to_string())).await;

    let is_suppressed = async |address: &str| {
        let checked = fleet.run(&["suppressions", "check", address, "--json"]).await;
        let checked: Value = serde_json::from_str(&checked).expect("JSON");
        checked["suppressed"].as_bool().expect("a boolean")
    };
    for (user, address) in addresses {
        let expected = !matches!(user, "lifted" | "stays");
        assert_eq!(is_suppressed(address).await, expected, "{user}");
    }
    assert!(is_suppressed("E\u{301}ve@acme.example").await);
    let sent = api
        .post(
            "/messages/send",
            &json!({
                "external_user_ids": addresses.map(|(user, _)| user).iter()
                    .filter(|user| **user != "lifted").collect::<Vec<_>>(),
                "messages": { "email": {
                    "app_id": APP, "from": "hello@acme.example", "subject": "Hi",
                    "body": "<p>Hi</p>",
                } },
            }),
        )
        .await;
    assert_eq!(sent.status, 201, "{sent:?}");
    let dispatch = sent.body["dispatch_id"].as_str().expect("a dispatch_id").to_owned();
    eventually("the send has ended", || async {
        let shown = fleet.run(&["dispatches", "show", &dispatch, "--json"]).await;
        serde_json::from_str::<Value>(&shown).expect("JSON")["state"] == "done"
    })
    .await;
    let accepted: Vec<String> = relay.accepted().into_iter().flat_map(|email| email.to).collect();
    assert_eq!(accepted, ["stays@acme.example"]);
    fleet.close().await;
}
