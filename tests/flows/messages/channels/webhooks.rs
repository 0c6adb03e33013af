//! Webhooks: what is on the wire, and what the answers mean.

use std::time::Duration;

use longshore::messages::Outcome;
use longshore::workspaces::Channel;
use longshore::workspaces::settings::Secret;
use serde_json::{Value, json};

use super::{Message, World, webhook_secret};
use crate::support::callbacks::verified;
use crate::support::receiver::{Receiver, ScriptedResponse};
use crate::support::stores::{TestStore, on_sqlite};

on_sqlite!(
    requests_are_sent_as_declared,
    both_secrets_sign_while_they_are_changed,
    answers_decide,
    no_private_network_is_reached,
);

fn webhook(url: &str, more: Value) -> Message {
    let mut object = json!({ "url": url, "request_method": "POST", "body": "{\"a\":1}" });
    object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Message::new(Channel::Webhook, object, json!({}))
}

async fn requests_are_sent_as_declared(store: TestStore) {
    let world = World::new(store).await;
    let receiver = Receiver::start([]).await;
    let more = json!({ "request_headers": { "X-Order": "17", "Authorization": "Bearer x" } });
    let message = webhook(&receiver.url("/hook?a=1"), more);
    for _ in 0..2 {
        assert_eq!(world.send(&message).await, Outcome::Sent);
    }
    let delete = json!({ "request_method": "DELETE", "body": null });
    assert_eq!(world.send(&webhook(&receiver.url("/gone"), delete)).await, Outcome::Sent);
    let received = receiver.received();
    for request in &received[..2] {
        assert_eq!(verified(request, &webhook_secret()), json!({ "a": 1 }));
        assert_eq!(request.header("webhook-id"), message.id.to_string());
        assert_eq!(
            (request.header("x-order"), request.header("authorization")),
            ("17", "Bearer x")
        );
        assert_eq!(request.uri, "/hook?a=1");
    }
    assert_eq!((&received[2].method, received[2].body.len()), (&reqwest::Method::DELETE, 0));
}

async fn both_secrets_sign_while_they_are_changed(store: TestStore) {
    let mut world = World::new(store).await;
    let former = b"the former secret of webhooks".to_vec();
    world.settings.webhooks.secret_old = Some(Secret(former.clone()));
    let receiver = Receiver::start([]).await;
    assert_eq!(world.send(&webhook(&receiver.url("/hook"), json!({}))).await, Outcome::Sent);
    for secret in [webhook_secret(), former] {
        assert_eq!(verified(&receiver.received()[0], &secret), json!({ "a": 1 }));
    }
}

async fn answers_decide(store: TestStore) {
    let world = World::new(store).await;
    let receiver = Receiver::start([]).await;
    let message = webhook(&receiver.url("/hook?token=hidden-token"), json!({}));
    for status in [200, 201, 204, 299] {
        receiver.script([ScriptedResponse::Status(status)]);
        assert_eq!(world.send(&message).await, Outcome::Sent, "{status}");
    }
    for answer in [
        ScriptedResponse::Status(408),
        ScriptedResponse::Status(429),
        ScriptedResponse::Status(500),
        ScriptedResponse::Status(503),
    ] {
        receiver.script([answer.clone()]);
        let outcome = world.send(&message).await;
        assert!(matches!(&outcome, Outcome::Later { after: None, .. }), "{answer:?}: {outcome:?}");
    }
    for answer in [
        ScriptedResponse::Hang,
        ScriptedResponse::Close,
        ScriptedResponse::Status(502),
        ScriptedResponse::Status(504),
    ] {
        receiver.script([answer.clone()]);
        let outcome = world.send(&message).await;
        assert!(matches!(outcome, Outcome::NoResponse { .. }), "{answer:?}: {outcome:?}");
    }
    for answer in [
        ScriptedResponse::Says(400, "no hidden-token".into()),
        ScriptedResponse::Status(404),
        ScriptedResponse::Status(410),
        ScriptedResponse::Redirect(receiver.url("/elsewhere")),
    ] {
        receiver.script([answer.clone()]);
        let outcome = world.send(&message).await;
        let Outcome::Failed(why) = &outcome else { panic!("{answer:?}: {outcome:?}") };
        assert!(!why.contains("hidden-token"), "{why}");
    }
    assert!(receiver.received().iter().all(|request| request.uri.path() == "/hook"));
    for (asked, waits) in [("7", 7), ("99999999", 3_600), ("Sun, 06 Nov 1994 08:49:37 GMT", 0)] {
        receiver.script([ScriptedResponse::Busy(asked.into())]);
        let outcome = world.send(&message).await;
        let after = Some(Duration::from_secs(waits));
        assert!(matches!(&outcome, Outcome::Later { after: a, .. } if *a == after), "{outcome:?}");
    }
}

async fn no_private_network_is_reached(store: TestStore) {
    let world = World::with(store, |config| config.allow_private.clear()).await;
    let receiver = Receiver::start([]).await;
    for host in ["127.0.0.1", "localhost", "0x7f.1", "[::ffff:127.0.0.1]"] {
        let outcome = world.send(&webhook(&receiver.url_at(host, "/hook"), json!({}))).await;
        assert!(
            matches!(&outcome, Outcome::Failed(why) if why.contains("loopback")),
            "{outcome:?}"
        );
    }
    let long = format!("https://acme.example/{}", "x".repeat(3_000));
    for url in ["", "acme.example", "ftp://acme.example", &long] {
        assert!(matches!(world.send(&webhook(url, json!({}))).await, Outcome::Failed(_)), "{url}");
    }
    assert!(receiver.received().is_empty());
}
