//! `users delete` takes what messages keep of a user, also under the ids of merged users.

use serde_json::json;

use super::sending::{CANVAS, CREATE, Sending, from_now, message};
use crate::support::fleet::Backend;
use crate::support::receiver::ScriptedResponse;

const HOUR: i64 = 3_600_000;

#[tokio::test(flavor = "multi_thread")]
async fn an_erased_user_has_no_messages_standalone() {
    is_erased(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erased_user_has_no_messages_in_a_fleet() {
    is_erased(Backend::Fleet(1)).await;
}

async fn is_erased(backend: Backend) {
    let card = json!({
        "type": "CLASSIC", "title": "Dear {{${external_id}}}", "description": "x",
        "time_to_live": 3_600,
    });
    let sending = Sending::start(backend, &[], |receiver| {
        let mut messages = message(receiver, "hello");
        messages["content_card"] = card;
        vec![("canvases", json!([{ "id": CANVAS, "name": "Onboarding", "messages": messages }]))]
    })
    .await;
    sending.import(&[("ann", None), ("bob", None), ("cid", None)]).await;
    sending.schedule(json!({ "time": from_now(HOUR).to_string() })).await;
    // One who is gone before it is sent gets nothing.
    sending.fleet.run(&["users", "delete", "cid"]).await;
    sending.pass(HOUR).await;
    sending.at_rest(2).await;
    assert_eq!(sending.users(), ["ann", "bob"]);
    let kept = async || {
        let messages = sending.count("SELECT count(*) FROM messages").await;
        (messages, sending.count("SELECT count(*) FROM content_cards").await)
    };
    assert_eq!(kept().await, (4, 2));
    let shown = sending.fleet.run(&["cards", "ann", "--json"]).await;
    assert!(shown.contains("Dear ann"), "{shown}");

    sending.fleet.run(&["users", "delete", "ann"]).await;
    assert_eq!(kept().await, (2, 1));
    let left = sending.fleet.run(&["cards", "bob", "--json"]).await;
    assert!(left.contains("Dear bob"), "{left}");
    sending.fleet.close().await;
}

/// Neither to the user who has the identifier now, nor to everybody when no user is left.
#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_is_not_sent_to_a_user_who_was_erased_since() {
    let sending = Sending::start(Backend::Embedded, &[], |_| Vec::new()).await;
    let users = [("ann", None), ("bob", None), ("cid", None)];
    sending.import(&users).await;
    let mut ids = Vec::new();
    for listed in [&["ann", "bob"][..], &["ann"]] {
        let recipient = |id: &&str| json!({ "external_user_id": id });
        let body = json!({
            "canvas_id": CANVAS, "schedule": { "time": from_now(HOUR).to_string() },
            "recipients": listed.iter().map(recipient).collect::<Vec<_>>(),
        });
        let answer = sending.api.post(CREATE, &body).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        ids.push(answer.body["schedule_id"].as_str().expect("a schedule_id").to_owned());
    }
    sending.fleet.run(&["users", "delete", "ann"]).await;
    sending.import(&users[..1]).await;
    sending.pass(HOUR).await;
    for id in &ids {
        sending.state(id, "sent").await;
    }
    sending.at_rest(1).await;
    assert_eq!(sending.users(), ["bob"]);
    // A schedule that has ended lists nobody.
    for (id, count) in ids.iter().zip([2, 1]) {
        let request = &sending.shown(id).await["request"];
        let text = request.to_string();
        assert!(!text.contains("\"ann\"") && !text.contains("\"bob\""), "{text}");
        assert_eq!(request["recipients"].as_array().map(Vec::len), Some(count), "{text}");
    }
    sending.fleet.close().await;
}

/// A merge loses no outcome: the message of the merged user that waits fails, and the card moves.
#[tokio::test(flavor = "multi_thread")]
async fn messages_and_cards_of_a_merged_user_are_erased_with_the_kept_user() {
    let card = json!({
        "type": "CLASSIC", "title": "Dear {{${external_id}}}", "description": "x",
        "time_to_live": 3_600,
    });
    let settings = [("LONGSHORE_MESSAGES__RETRY_MS", "100".to_owned())];
    let sending = Sending::start(Backend::Embedded, &settings, |receiver| {
        let mut messages = message(receiver, "hello");
        messages["content_card"] = card;
        vec![("canvases", json!([{ "id": CANVAS, "name": "Onboarding", "messages": messages }]))]
    })
    .await;
    // Far more than are tried before the merge: the pauses double.
    sending.receiver.script((0..30).map(|_| ScriptedResponse::Status(503)));
    sending.import(&[("bob", None)]).await;
    sending.schedule(json!({ "time": from_now(HOUR).to_string() })).await;
    sending.pass(HOUR).await;
    sending
        .wait_for_count("SELECT count(*) FROM messages WHERE state = 'waiting'", |n| n == 1)
        .await;
    sending.wait_for_count("SELECT count(*) FROM content_cards", |n| n == 1).await;
    sending.import(&[("ann", None)]).await;
    let merge = json!({ "merge_updates": [{
        "identifier_to_merge": { "external_id": "bob" },
        "identifier_to_keep": { "external_id": "ann" },
    }] });
    assert_eq!(sending.api.post("/users/merge", &merge).await.status, 202);
    sending.fleet.applied().await;
    sending.all_ended().await;
    let failed = "SELECT count(*) FROM messages WHERE state = 'failed' AND reason IS NOT NULL";
    assert_eq!(sending.count(failed).await, 1);
    assert_eq!(sending.count("SELECT count(*) FROM messages WHERE state = 'sent'").await, 1);
    let shown = sending.fleet.run(&["cards", "ann", "--json"]).await;
    assert!(shown.contains("Dear bob"), "{shown}");

    sending.fleet.run(&["users", "delete", "ann"]).await;
    let left = "SELECT (SELECT count(*) FROM messages) + (SELECT count(*) FROM content_cards)";
    assert_eq!(sending.count(left).await, 0);
    sending.fleet.close().await;
}
