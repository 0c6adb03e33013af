//! A send that is cancelled, and a schedule that is changed, are in the audit log.

use serde_json::{Value, json};

use super::sending::{Sending, slow};
use crate::support::fleet::Backend;

const USERS: usize = 1_000;

async fn entries(sending: &Sending, action: &str) -> Vec<Value> {
    let printed = sending.fleet.run(&["audit", "list", "--action", action, "--json"]).await;
    printed.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_send_is_recorded_once_with_the_key() {
    let sending = Sending::start(Backend::Embedded, &[], |_| Vec::new()).await;
    let ids: Vec<String> = (0..USERS).map(|number| format!("u{number}")).collect();
    let users: Vec<(&str, Option<&str>)> = ids.iter().map(|id| (id.as_str(), None)).collect();
    sending.import(&users).await;
    for _ in 0..3 {
        sending.receiver.script(slow(100));
    }
    let (_, schedule) = sending.schedule_soon(|due| json!({ "time": due.to_string() })).await;
    sending.receiver.wait_for(20).await;
    let dispatch = sending.shown(&schedule).await["dispatch_id"].as_str().unwrap().to_owned();
    for _ in 0..2 {
        let path = format!("/messages/dispatches/{dispatch}");
        let cancelled = sending.api.delete(&path).await;
        assert_eq!(cancelled.status, 200, "{cancelled:?}");
    }
    let found = entries(&sending, "dispatch.").await;
    assert_eq!(found.len(), 1, "{found:?}");
    let entry = &found[0];
    assert_eq!((&entry["action"], &entry["object"]), (&json!("dispatch.cancel"), &json!(dispatch)));
    assert_eq!(
        (&entry["actor"], &entry["address"]),
        (&json!("key:integrator"), &json!("127.0.0.1"))
    );
    assert_eq!(entry["details"]["before"], "running", "{entry}");
    let after = entry["details"]["after"].as_str().expect("a state");
    assert!(["cancelling", "cancelled"].contains(&after), "{entry}");

    // By a command: of a schedule whose time is far.
    let far = sending.schedule(json!({ "time": "2199-01-01T00:00:00Z" })).await;
    sending.fleet.run(&["schedules", "cancel", &far]).await;
    let found = entries(&sending, "schedule.cancel").await;
    assert_eq!(found.len(), 1, "{found:?}");
    let entry = &found[0];
    assert_eq!((&entry["object"], &entry["workspace"]), (&json!(far), &json!("acme")));
    let states = json!({ "before": "pending", "after": "cancelled" });
    assert_eq!(entry["details"], states, "{entry}");
    assert!(entry["actor"].as_str().is_some_and(|actor| actor.starts_with("command:")), "{entry}");
    let created = entries(&sending, "schedule.create").await;
    assert!(created.iter().any(|entry| entry["object"] == *far), "{created:?}");
    sending.fleet.close().await;
}
