//! Slow receivers of one workspace do not delay the messages of others.

use reqwest::Method;
use serde_json::{Value, json};

use super::send_api::SEND;
use crate::support::fleet::{Backend, Fleet};
use crate::support::receiver::{Receiver, ScriptedResponse};
use crate::support::{WorkspaceFile, eventually};

/// Messages of one workspace that the worker sends at the same time.
const PLACES: usize = 4;

fn send(users: &[String], receiver: &Receiver) -> Value {
    let webhook = json!({
        "url": receiver.url("/webhook"), "request_method": "POST", "body": "x",
    });
    json!({ "external_user_ids": users, "messages": { "webhook": webhook } })
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_receivers_of_a_workspace_delay_no_other() {
    let settings = [
        ("LONGSHORE_MESSAGES__SENDS_IN_FLIGHT", PLACES.to_string()),
        ("LONGSHORE_DELIVERIES__TIMEOUT_SECONDS", "60".to_owned()),
    ];
    let fleet = Fleet::start(Backend::Embedded, &settings).await;
    let names = ["slow", "quick"];
    let files = names.map(|name| WorkspaceFile::new(name).permitted(&["messages.send"]));
    let apis = fleet.apply(&files).await;
    let users: Vec<String> = (0..40).map(|number| format!("u{number}")).collect();
    let records: Vec<String> =
        users.iter().map(|name| json!({ "external_id": name }).to_string()).collect();
    for name in names {
        fleet.import(name, &records).await;
    }
    let hanging = Receiver::start(std::iter::repeat_n(ScriptedResponse::Hang, 1_000)).await;
    let receiver = Receiver::start([]).await;
    let request = apis[0].request(Method::POST, SEND).json(&send(&users, &hanging));
    assert_eq!(request.send().await.expect("a response").status(), 201);
    eventually("the slow receiver has all that it gets", || async {
        hanging.received().len() == PLACES
    })
    .await;
    let request = apis[1].request(Method::POST, SEND).json(&send(&users[..1], &receiver));
    assert_eq!(request.send().await.expect("a response").status(), 201);
    receiver.wait_for(1).await;
    assert_eq!(hanging.received().len(), PLACES, "the quick one waited for the slow ones");
    fleet.close().await;
}
