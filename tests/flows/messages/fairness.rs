//! Slow receivers and templates do not delay the messages of other workspaces, or of other sends.

use std::time::Duration;

use serde_json::{Value, json};

use super::send_api::SEND;
use crate::support::fleet::{Backend, Fleet};
use crate::support::receiver::{Receiver, ScriptedResponse};
use crate::support::{Api, WorkspaceFile, eventually, open_work};

/// Messages of one workspace that the worker sends at the same time.
const PLACES: usize = 4;

const USERS: usize = 40;

/// Takes about 400,000 of the 500,000 steps of a rendering.
const SLOW_TEMPLATE: &str =
    "{% for i in (1..100) %}{% for j in (1..4000) %}{% endfor %}{% endfor %}x";

struct Scene {
    fleet: Fleet,
    /// Of two workspaces with the same users.
    apis: Vec<Api>,
    users: Vec<String>,
}

impl Scene {
    async fn new(settings: &[(&str, String)]) -> Self {
        let fleet = Fleet::start(Backend::Embedded, settings).await;
        let names = ["slow", "quick"];
        let files = names.map(|name| WorkspaceFile::new(name).permitted(&["messages.send"]));
        let apis = fleet.apply(&files).await;
        let users: Vec<String> = (0..USERS).map(|number| format!("u{number}")).collect();
        let records: Vec<String> =
            users.iter().map(|name| json!({ "external_id": name }).to_string()).collect();
        for name in names {
            fleet.import(name, &records).await;
        }
        Self { fleet, apis, users }
    }

    /// Sends a webhook to the first users of a workspace.
    async fn send(&self, workspace: usize, users: usize, receiver: &Receiver, text: &str) {
        let webhook = json!({
            "url": receiver.url("/webhook"), "request_method": "POST", "body": text,
        });
        let body: Value = json!({
            "external_user_ids": &self.users[..users], "messages": { "webhook": webhook },
        });
        let response = self.apis[workspace].post(SEND, &body).await;
        assert_eq!(response.status, 201, "{response:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_receivers_of_a_workspace_delay_no_other() {
    let scene = Scene::new(&[
        ("LONGSHORE_MESSAGES__SENDS_IN_FLIGHT", PLACES.to_string()),
        ("LONGSHORE_DELIVERIES__TIMEOUT_SECONDS", "60".to_owned()),
    ])
    .await;
    let hanging = Receiver::start(std::iter::repeat_n(ScriptedResponse::Hang, 1_000)).await;
    let receiver = Receiver::start([]).await;
    scene.send(0, USERS, &hanging, "x").await;
    eventually("the slow receiver has all that it gets", || async {
        hanging.received().len() == PLACES
    })
    .await;
    scene.send(1, 1, &receiver, "x").await;
    receiver.wait_for(1).await;
    assert_eq!(hanging.received().len(), PLACES, "the quick one waited for the slow ones");
    hanging.clear_script();
    hanging.release();
    scene.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_templates_of_a_workspace_delay_no_other() {
    const SENDS: usize = 10;
    // Hundreds of slow messages are left when the worker ends.
    let scene = Scene::new(&[
        ("LONGSHORE_WORKER__COMPUTE_THREADS", "1".to_owned()),
        ("LONGSHORE_WORKER__DRAIN_SECONDS", "2".to_owned()),
    ])
    .await;
    let (slow, quick) = (Receiver::start([]).await, Receiver::start([]).await);
    for _ in 0..SENDS {
        scene.send(0, USERS, &slow, SLOW_TEMPLATE).await;
    }
    slow.wait_for(1).await;
    scene.send(1, 1, &quick, "x").await;
    quick.wait_for(1).await;
    let before = slow.received().len();
    assert!(before < SENDS * USERS / 2, "{before} slow messages were rendered before");
    scene.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_send_gives_up_its_place_before_all_its_messages_have_started() {
    let scene = Scene::new(&[
        ("LONGSHORE_MESSAGES__NAMED_IN_FLIGHT", "1".to_owned()),
        ("LONGSHORE_MESSAGES__SENDS_IN_FLIGHT", "1".to_owned()),
        ("LONGSHORE_DELIVERIES__TIMEOUT_SECONDS", "60".to_owned()),
    ])
    .await;
    // All of them would take more than five minutes.
    let response = ScriptedResponse::Slow(Duration::from_secs(8));
    let slow = Receiver::start(std::iter::repeat_n(response, 1_000)).await;
    let quick = Receiver::start([]).await;
    scene.send(0, USERS, &slow, "{{${external_id}}}").await;
    slow.wait_for(1).await;
    scene.send(0, 1, &quick, "x").await;
    quick.wait_for(1).await;
    slow.clear_script();
    open_work::wait_until_done(&scene.fleet).await;
    let mut texts: Vec<String> = slow
        .received()
        .iter()
        .map(|request| String::from_utf8_lossy(&request.body).into_owned())
        .collect();
    texts.sort();
    let mut users = scene.users.clone();
    users.sort();
    assert_eq!(texts, users, "each user got one message");
    scene.fleet.close().await;
}
