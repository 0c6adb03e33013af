//! Deliveries that an operator sends again, or shows.

use serde_json::{Value, json};

use super::*;

/// The receiver is repaired long before the next attempt.
async fn a_pending_delivery_can_be_sent_at_once(store: TestStore) {
    let world = World::open(store).await;
    let receiver = Receiver::start([ScriptedResponse::Busy("7200".into())]).await;
    let id = world.enqueue(receiver.url("/hook")).await;
    let waiting = world.wait_for_failure(id).await;
    assert_eq!(waiting.state, State::Pending);
    assert!(waiting.next_at > Some(world.app().clock.now_ms() + HOUR_MS / 2));
    deliveries::resend(world.app(), id).await.unwrap();
    let delivery = world.wait_for(id, State::Delivered).await;
    assert_eq!(delivery.attempts, 2);
    assert_eq!(delivery.retry_until, waiting.retry_until, "requests do not prolong the attempts");
    callback_at(&receiver, "/hook", &secret()).await;
    assert!(take(world.app()).await.is_empty());
    world.close().await;
}

async fn a_worker_that_holds_a_delivery_is_not_disturbed(store: TestStore) {
    let installation = Installation::open(store, WORKSPACE, settings).await;
    let app = &installation.app;
    let receiver = Receiver::start([]).await;
    let id = enqueue(&installation, receiver.url("/hook")).await;
    let claims = take(app).await;
    let before = find(app, id).await;
    deliveries::resend(app, id).await.unwrap();
    let after = find(app, id).await;
    assert_eq!((after.next_at, after.retry_until), (before.next_at, before.retry_until));
    assert!(take(app).await.is_empty());
    deliveries::run(app, &app.messages, &claims[0], &CancellationToken::new()).await.unwrap();
    assert_eq!(find(app, id).await.state, State::Delivered);
    assert_eq!(receiver.received().len(), 1);
}

/// Each request makes at most one attempt due, and the pauses grow on.
async fn a_due_delivery_stays_as_it_is(store: TestStore) {
    let installation = Installation::open(store, WORKSPACE, settings).await;
    let app = &installation.app;
    let busy = std::iter::repeat_n(ScriptedResponse::Busy("7200".into()), 2);
    let receiver = Receiver::start(busy).await;
    let id = enqueue(&installation, receiver.url("/hook")).await;
    let before = find(app, id).await;
    deliveries::resend(app, id).await.unwrap();
    let after = find(app, id).await;
    assert_eq!((after.next_at, after.retry_until), (before.next_at, before.retry_until));
    let audit = installation.printed(&["audit", "list", "--json"]).await.join("\n");
    assert!(!audit.contains("delivery.resend"), "nothing changed: {audit}");
    let mut attempts = Vec::new();
    for _ in 0..2 {
        let claims = take(app).await;
        attempts.extend(claims.iter().map(|claim| claim.attempt));
        deliveries::run(app, &app.messages, &claims[0], &CancellationToken::new()).await.unwrap();
        assert!(take(app).await.is_empty(), "the next attempt is later");
        for _ in 0..3 {
            deliveries::resend(app, id).await.unwrap();
        }
    }
    assert_eq!(attempts, [1, 2]);
    assert_eq!(receiver.received().len(), 2);
}

/// Deliveries about one subject arrive in order, also if all pending ones are sent at once.
async fn all_pending_deliveries_can_be_sent_at_once(store: TestStore) {
    let world = World::open(store).await;
    let receiver = Receiver::start([ScriptedResponse::Busy("7200".into())]).await;
    let first = world.enqueue(receiver.url("/first")).await;
    world.wait_for_failure(first).await;
    let app = world.app();
    let mut tx = app.store.write().await.unwrap();
    let second = NewDelivery {
        workspace_id: world.installation.workspace,
        kind: deliveries::EXPORT_CALLBACK,
        subject: "prefix".into(),
        follows: Some(first),
        url: receiver.url("/second"),
        body: BODY.into(),
        request_id: "request-1".into(),
    };
    let second = deliveries::enqueue(&mut tx, &app.config, &app.clock, second).await.unwrap();
    tx.commit().await.unwrap();
    let refused = deliveries::resend(app, second).await;
    assert!(matches!(refused, Err(DeliveryError::Waiting(_))), "{refused:?}");
    assert!(take(app).await.is_empty());
    assert!(deliveries::resend_in_state(app, first, State::Pending).await.unwrap());
    world.wait_for(first, State::Delivered).await;
    world.wait_for(second, State::Delivered).await;
    let paths: Vec<String> =
        receiver.received().iter().map(|sent| sent.uri.path().to_owned()).collect();
    assert_eq!(paths, ["/first", "/first", "/second"]);
    let is_pending = deliveries::resend_in_state(app, first, State::Pending).await.unwrap();
    assert!(!is_pending, "what was delivered in the meantime is not sent again");
    world.close().await;
}

/// The command succeeds although some deliveries wait for others.
async fn the_command_sends_all_pending_deliveries(store: TestStore) {
    let installation = Installation::open(store, WORKSPACE, settings).await;
    let app = &installation.app;
    let first = enqueue(&installation, "https://example.com/".into()).await;
    let mut tx = app.store.write().await.unwrap();
    let second = NewDelivery {
        workspace_id: installation.workspace,
        kind: deliveries::EXPORT_CALLBACK,
        subject: "prefix".into(),
        follows: Some(first),
        url: "https://example.com/".into(),
        body: BODY.into(),
        request_id: "request-1".into(),
    };
    let second = deliveries::enqueue(&mut tx, &app.config, &app.clock, second).await.unwrap();
    tx.commit().await.unwrap();
    let lines = installation.printed(&["deliveries", "resend", "--state", "pending"]).await;
    let ids = lines.iter().map(|line| line.split(' ').next().unwrap());
    assert_eq!(ids.collect::<Vec<_>>(), [first.to_string(), second.to_string()]);
    let again = ["deliveries", "resend", "--state", "pending", "--json"];
    let again: Value = serde_json::from_str(&installation.printed(&again).await.concat()).unwrap();
    let results = again["deliveries"].as_array().unwrap().iter();
    let results: Vec<_> = results.map(|one| (&one["id"], &one["result"])).collect();
    let ids = [first, second].map(|id| json!(id));
    assert_eq!(results, [(&ids[0], &json!("sent_now")), (&ids[1], &json!("waiting"))]);
    let refused = installation.run(&["deliveries", "resend", &second.to_string(), "--json"]).await;
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let refused: Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert_eq!((&refused["deliveries"], &refused["failed"][0]["id"]), (&json!([]), &ids[1]));
    assert_eq!(take(app).await.len(), 1, "the second waits for the first");
}

async fn all_given_up_deliveries_can_be_resent(store: TestStore) {
    let world = World::open(store).await;
    let other = world.add_workspace("other").await;
    let receiver =
        Receiver::start(std::iter::repeat_n(ScriptedResponse::Status(503), 100_000)).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(world.enqueue(receiver.url("/hook")).await);
    }
    let of_other = world.enqueue_of(other, receiver.url("/other")).await;
    for id in ids.iter().chain([&of_other]) {
        let delivery = world.wait_for_failure(*id).await;
        world.app().clock.set(from_ms(delivery.retry_until + 1));
    }
    for id in ids.iter().chain([&of_other]) {
        world.wait_for(*id, State::GivenUp).await;
    }
    receiver.clear_script();
    let resend = ["deliveries", "resend", "--state", "given_up", "--workspace", "acme"];
    assert_eq!(world.installation.printed(&resend).await.len(), 3);
    for id in ids {
        world.wait_for(id, State::Delivered).await;
    }
    assert_eq!(world.find(of_other).await.state, State::GivenUp);
    world.close().await;
}

/// A download address needs no key, so its signature is shown nowhere.
async fn shown_bodies_have_no_signatures(store: TestStore) {
    let installation = Installation::open(store, WORKSPACE, settings).await;
    let app = &installation.app;
    let mut tx = app.store.write().await.unwrap();
    let delivery = NewDelivery {
        workspace_id: installation.workspace,
        kind: deliveries::EXPORT_CALLBACK,
        subject: "prefix".into(),
        follows: None,
        url: "https://example.com/".into(),
        body: r#"{"success":true,"url":"https://example.com/download?signature=hidden-1_"}"#.into(),
        request_id: "request-1".into(),
    };
    let id = deliveries::enqueue(&mut tx, &app.config, &app.clock, delivery).await.unwrap();
    tx.commit().await.unwrap();
    let id = id.to_string();
    for command in [&["list", "--json"][..], &["show", &id], &["show", &id, "--json"]] {
        let command = [&["deliveries"], command].concat();
        let shown = installation.printed(&command).await.join("\n");
        assert!(shown.contains("signature=***") && !shown.contains("hidden-1_"), "{shown}");
    }
}

on_sqlite!(
    a_pending_delivery_can_be_sent_at_once,
    a_worker_that_holds_a_delivery_is_not_disturbed,
    a_due_delivery_stays_as_it_is,
    all_pending_deliveries_can_be_sent_at_once,
    the_command_sends_all_pending_deliveries,
    all_given_up_deliveries_can_be_resent,
    shown_bodies_have_no_signatures,
);

on_postgres!(
    a_pending_delivery_can_be_sent_at_once,
    a_worker_that_holds_a_delivery_is_not_disturbed,
    a_due_delivery_stays_as_it_is,
    all_pending_deliveries_can_be_sent_at_once,
    the_command_sends_all_pending_deliveries,
    all_given_up_deliveries_can_be_resent,
);
