//! `users delete` takes what messages keep of a user.

use serde_json::json;

use super::sending::{CANVAS, Sending, from_now, message};
use crate::support::fleet::Backend;

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
