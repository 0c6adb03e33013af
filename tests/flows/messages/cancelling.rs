//! A send is cancelled while its receiver is slow: once its state is `cancelled`, nothing more
//! arrives, and its counts are those of the receiver. If its worker was lost, the messages that may
//! have arrived are known.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::sending::{Sending, message, slow};
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
    assert_eq!(shown["may_still_be_sent"], 0, "{shown}");
    assert!(arrived.len() < USERS, "the send was complete before it was cancelled");
    assert_eq!(count("sent"), messages.len(), "{shown}");
    assert_eq!(count("sent") + count("cancelled"), count("walked"), "{shown}");
    assert_eq!((count("users"), count("waiting")), (USERS, 0), "{shown}");

    let Sending { fleet, receiver, .. } = sending;
    fleet.close().await;
    assert_eq!(receiver.received().len(), arrived.len(), "messages arrived later");
}

/// A send whose worker is lost after its messages left and before it stored that; and its id.
#[cfg(debug_assertions)]
async fn lose_the_worker(
    backend: Backend,
    name: &str,
    more: &[(&str, String)],
) -> (Sending, String) {
    let settings = [
        ("LONGSHORE_MESSAGES__PART_USERS", "20".to_owned()),
        ("LONGSHORE_MESSAGES__BATCH_USERS", "6".to_owned()),
        ("LONGSHORE_MESSAGES__PARTS_IN_FLIGHT", "2".to_owned()),
        ("LONGSHORE_WORKER__LEASE_MS", "1000".to_owned()),
    ];
    let settings = [&settings[..], more].concat();
    let mut sending = Sending::start(backend, &settings, |_| Vec::new()).await;
    let ids: Vec<String> = (0..90).map(|number| format!("u{number}")).collect();
    let users: Vec<(&str, Option<&str>)> = ids.iter().map(|id| (id.as_str(), None)).collect();
    sending.import(&users).await;
    sending.fleet.kill(name);
    sending.fleet.launch_with(name, &[("FAILPOINTS", "dispatch::sent@3=kill")]).await;
    sending.fleet.ready(name).await;
    let (_, schedule) = sending.schedule_soon(|due| json!({ "time": due.to_string() })).await;
    sending.fleet.wait_until_exited(name).await;
    let dispatch = sending.shown(&schedule).await["dispatch_id"].as_str().unwrap().to_owned();
    (sending, dispatch)
}

async fn show(sending: &Sending, dispatch: &str) -> Value {
    let shown = sending.fleet.run(&["dispatches", "show", dispatch, "--json"]).await;
    serde_json::from_str(&shown).expect("JSON")
}

/// Everybody who got a message is shown, either as sent or with the reason why that is unknown:
/// once its send is in the state `end`, which gives messages the outcome `given_up`.
async fn check_uncertain(sending: &Sending, dispatch: &str, end: &str, given_up: &str) {
    eventually(&format!("it is {end}"), || async { show(sending, dispatch).await["state"] == end })
        .await;
    let arguments = ["dispatches", "recipients", dispatch, "--limit", "1000", "--json"];
    let printed = sending.fleet.run(&arguments).await;
    let recipients: Vec<Value> =
        printed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let of = |outcome: &str, has_reason: bool| -> BTreeSet<String> {
        let found = recipients.iter().filter(|recipient| {
            recipient["outcome"] == outcome && recipient.get("reason").is_some() == has_reason
        });
        found.map(|found| found["external_user_id"].as_str().unwrap().to_owned()).collect()
    };
    let received: BTreeSet<String> = sending.sent().into_iter().map(|sent| sent.user).collect();
    let (sent, uncertain) = (of("sent", false), of(given_up, true));
    assert!(sent.is_subset(&received), "{sent:?} {received:?}");
    let unknown: BTreeSet<String> = received.difference(&sent).cloned().collect();
    assert!(!unknown.is_empty() && unknown.is_subset(&uncertain), "{unknown:?} {uncertain:?}");
    let shown = show(sending, dispatch).await;
    assert_eq!(shown["may_have_been_sent"], uncertain.len(), "{shown}");
    let reason = shown["reasons"].as_array().expect("an array");
    let reason = reason.iter().find(|reason| {
        let text = reason["reason"].as_str().expect("a text");
        text.contains("may have been sent")
    });
    let reason = reason.unwrap_or_else(|| panic!("no reason: {shown}"));
    assert_eq!(reason["messages"], uncertain.len(), "{shown}");
}

/// A send whose outcomes the database does not store, because a trigger refuses them; and its id.
async fn refuse_outcomes(backend: Backend, trigger: &[&str]) -> (Sending, String) {
    let settings = [("LONGSHORE_WORKER__LEASE_MS", "1000".to_owned())];
    let sending = Sending::start(backend, &settings, |_| Vec::new()).await;
    sending.import(&[("ann", None), ("bob", None)]).await;
    for sql in trigger {
        sending.execute(sql).await;
    }
    let body = json!({
        "external_user_ids": ["ann", "bob"], "messages": message(&sending.receiver, "hello"),
    });
    let sent = sending.api.post("/messages/send", &body).await;
    assert_eq!(sent.status, 201, "{sent:?}");
    let dispatch = sent.body["dispatch_id"].as_str().expect("a dispatch_id").to_owned();
    let marked = "SELECT count(*) FROM messages WHERE reason IS NOT NULL";
    sending.wait_for_count(marked, |count| count == 2).await;
    (sending, dispatch)
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_may_have_been_sent_if_their_outcomes_are_not_stored_for_a_while() {
    let function = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
                    BEGIN RAISE 'refused' USING ERRCODE = 'serialization_failure'; END $$";
    let trigger = "CREATE TRIGGER refuse BEFORE UPDATE ON messages FOR EACH ROW
                   WHEN (NEW.state = 'sent') EXECUTE FUNCTION refuse()";
    let (sending, dispatch) = refuse_outcomes(Backend::Fleet(1), &[function, trigger]).await;
    sending.fleet.run(&["dispatches", "cancel", &dispatch]).await;
    check_uncertain(&sending, &dispatch, "cancelled", "cancelled").await;
    sending.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_may_have_been_sent_if_their_outcomes_can_never_be_stored() {
    let trigger = "CREATE TRIGGER refuse BEFORE UPDATE ON messages WHEN NEW.state = 'sent'
                   BEGIN SELECT RAISE(ABORT, 'refused'); END";
    let (sending, dispatch) = refuse_outcomes(Backend::Embedded, &[trigger]).await;
    check_uncertain(&sending, &dispatch, "done", "failed").await;
    sending.fleet.close().await;
}

#[cfg(debug_assertions)]
mod lost_workers {
    use super::*;

    async fn cancel(backend: Backend, name: &str) {
        let (mut sending, dispatch) = lose_the_worker(backend, name, &[]).await;
        sending.fleet.run(&["dispatches", "cancel", &dispatch]).await;
        sending.fleet.launch(name).await;
        check_uncertain(&sending, &dispatch, "cancelled", "cancelled").await;
        sending.fleet.close().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_a_lost_worker_may_have_sent_is_shown_standalone() {
        cancel(Backend::Embedded, "standalone").await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_a_lost_worker_may_have_sent_is_shown_in_a_fleet() {
        cancel(Backend::Fleet(1), "worker-1").await;
    }

    /// Messages that are given up after their last attempt keep the reason, too.
    async fn give_up(backend: Backend, name: &str) {
        let attempts = ("LONGSHORE_MESSAGES__ATTEMPTS", "1".to_owned());
        let (mut sending, dispatch) = lose_the_worker(backend, name, &[attempts]).await;
        sending.fleet.launch(name).await;
        check_uncertain(&sending, &dispatch, "done", "failed").await;
        sending.fleet.close().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_the_last_worker_may_have_sent_is_shown_standalone() {
        give_up(Backend::Embedded, "standalone").await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_the_last_worker_may_have_sent_is_shown_in_a_fleet() {
        give_up(Backend::Fleet(1), "worker-1").await;
    }
}
