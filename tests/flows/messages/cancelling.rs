//! A send is cancelled while its receiver is slow: once its state is `cancelled`, nothing more
//! arrives, and its counts are those of the receiver.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::sending::{Sending, slow};
use crate::support::eventually;
use crate::support::fleet::Backend;

const USERS: usize = 3_000;

/// Which command cancels.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Dispatch,
    Schedule,
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_arrives_after_a_send_is_cancelled() {
    cancel(Backend::Embedded, By::Dispatch).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_arrives_after_a_schedule_under_way_is_cancelled() {
    cancel(Backend::Fleet(2), By::Schedule).await;
}

async fn cancel(backend: Backend, by: By) {
    let settings = [("LONGSHORE_MESSAGES__PART_USERS", "1000".to_owned())];
    let sending = Sending::start(backend, &settings, |_| Vec::new()).await;
    let ids: Vec<String> = (0..USERS).map(|number| format!("u{number}")).collect();
    let users: Vec<(&str, Option<&str>)> = ids.iter().map(|id| (id.as_str(), None)).collect();
    sending.import(&users).await;
    for _ in 0..3 {
        sending.receiver.script(slow(100));
    }
    let (_, schedule) = sending.schedule_soon(|due| json!({ "time": due.to_string() })).await;
    sending.receiver.wait_for(300).await;
    let dispatch = sending.shown(&schedule).await["dispatch_id"].as_str().unwrap().to_owned();

    let (command, id) = match by {
        By::Dispatch => ("dispatches", &dispatch),
        By::Schedule => ("schedules", &schedule),
    };
    let printed = sending.fleet.run(&[command, "cancel", id]).await;
    assert!(printed.contains("cancel"), "{printed}");
    let shown = async || -> Value {
        let shown = sending.fleet.run(&[command, "show", id, "--json"]).await;
        serde_json::from_str(&shown).expect("JSON")
    };
    eventually("it is cancelled", || async {
        let shown = shown().await;
        let state = shown["state"].as_str().unwrap();
        assert!(["cancelling", "cancelled"].contains(&state), "{shown}");
        state == "cancelled"
    })
    .await;
    let arrived = sending.sent();
    let shown = sending.fleet.run(&["dispatches", "show", &dispatch, "--json"]).await;
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(shown["state"], "cancelled", "{shown}");
    let count = |name: &str| shown[name].as_u64().unwrap() as usize;
    let messages: BTreeSet<&str> = arrived.iter().map(|sent| sent.id.as_str()).collect();
    assert!(arrived.len() < USERS, "the send was complete before it was cancelled");
    assert_eq!(count("sent"), messages.len(), "{shown}");
    assert_eq!(count("sent") + count("cancelled"), count("walked"), "{shown}");
    assert_eq!((count("users"), count("waiting")), (USERS, 0), "{shown}");

    let Sending { fleet, receiver, .. } = sending;
    fleet.close().await;
    assert_eq!(receiver.received().len(), arrived.len(), "messages arrived later");
}
