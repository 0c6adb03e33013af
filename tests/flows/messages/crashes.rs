//! Processes that end or hang between two durable effects of a dispatch: every user's message is
//! taken, under one id, and counted once.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::support::fleet::{Backend, Fleet, notice_lost_workers};
use crate::support::receiver::{Receiver, ScriptedResponse};
use crate::support::{Api, WorkspaceFile, eventually, killed, stores};

const CAMPAIGN: &str = "4f0e6b1a-9c3d-4e7f-8a2b-1c0d9e8f7a71";
const SEGMENT: &str = "4f0e6b1a-9c3d-4e7f-8a2b-1c0d9e8f7a72";
const USERS: usize = 90;

fn settings() -> [(&'static str, String); 7] {
    [
        ("LONGSHORE_MESSAGES__PART_USERS", "20".to_owned()),
        ("LONGSHORE_MESSAGES__BATCH_USERS", "6".to_owned()),
        ("LONGSHORE_MESSAGES__PARTS_IN_FLIGHT", "2".to_owned()),
        ("LONGSHORE_MESSAGES__RETRY_MS", "100".to_owned()),
        ("LONGSHORE_MESSAGES__ATTEMPTS", "20".to_owned()),
        ("LONGSHORE_WORKER__LEASE_MS", "1000".to_owned()),
        ("LONGSHORE_WORKER__DRAIN_SECONDS", "2".to_owned()),
    ]
}

struct Scene {
    fleet: Fleet,
    api: Api,
    receiver: Receiver,
}

impl Scene {
    /// `failing` is a process and its fail points.
    async fn new(backend: Backend, failing: Option<(&str, &str)>) -> Self {
        let mut fleet = Fleet::prepare(backend, &settings(), notice_lost_workers).await;
        let receiver = Receiver::start([]).await;
        let audience = json!({ "custom_attribute": {
            "custom_attribute_name": "number", "comparison": "exists",
        } });
        let workspace = WorkspaceFile::new("acme")
            .permitted(&["messages.send"])
            .with("segments", json!([{ "id": SEGMENT, "name": "All", "audience": audience }]))
            .with("campaigns", json!([{ "id": CAMPAIGN, "name": "News", "type": "api" }]));
        let api = fleet.apply(std::slice::from_ref(&workspace)).await.remove(0);
        let record = |number: usize| {
            let id = format!("u{number}");
            json!({ "external_id": id, "custom_attributes": { "number": number } }).to_string()
        };
        fleet.import("acme", &(0..USERS).map(record).collect::<Vec<_>>()).await;
        fleet.launch_all(failing).await;
        Self { fleet, api, receiver }
    }

    /// Sends to everybody; returns the dispatch's id.
    async fn send(&self, members: Value) -> String {
        let mut body = json!({
            "campaign_id": CAMPAIGN,
            "messages": { "webhook": {
                "url": self.receiver.url("/"), "request_method": "POST",
                "body": "{{${external_id}}}",
            } },
        });
        for (name, value) in members.as_object().expect("members") {
            body[name] = value.clone();
        }
        let answer = self.api.post("/messages/send", &body).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.body["dispatch_id"].as_str().expect("a dispatch_id").to_owned()
    }

    async fn shown(&self, dispatch: &str) -> Option<Value> {
        let output = self.fleet.command(&["dispatches", "show", dispatch, "--json"]).await;
        serde_json::from_slice(&output.stdout).ok()
    }

    /// Waits until exactly one dispatch is done.
    async fn one_is_done(&self) {
        let done = "SELECT count(*) FROM dispatches WHERE state = 'done'";
        stores::wait_for_count(&self.fleet.database_url(), done, |count| count == 1).await;
    }

    /// Every user's message was taken under one id of its own, and counts once.
    async fn is_whole(&self, dispatch: &str, users: &BTreeSet<String>) {
        self.one_is_done().await;
        let mut ids: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for request in self.receiver.received() {
            let user = String::from_utf8(request.body.to_vec()).expect("UTF-8");
            ids.entry(user).or_default().insert(request.header("webhook-id").to_owned());
        }
        assert_eq!(&ids.keys().cloned().collect::<BTreeSet<_>>(), users);
        assert!(ids.values().all(|ids| ids.len() == 1), "{ids:?}");
        let shown = self.shown(dispatch).await.expect("it is shown");
        assert_eq!(
            (&shown["state"], &shown["sent"], &shown["waiting"]),
            (&json!("done"), &json!(users.len()), &json!(0)),
            "{shown}"
        );
        assert_eq!(shown["note"], Value::Null, "{shown}");
        let stats = self.fleet.run(&["campaigns", "stats", "--json"]).await;
        let stats: Value = serde_json::from_str(stats.trim()).expect("a line of JSON");
        assert_eq!(stats["sent"], users.len(), "{stats}");
    }
}

fn everybody() -> BTreeSet<String> {
    (0..USERS).map(|number| format!("u{number}")).collect()
}

/// The process ends at `point`, and another continues.
async fn killed_at(backend: Backend, name: &str, point: &str) {
    let mut scene = Scene::new(backend, Some((name, &format!("{point}=kill")))).await;
    let dispatch = scene.send(json!({ "broadcast": true, "segment_id": SEGMENT })).await;
    scene.fleet.wait_until_exited(name).await;
    scene.fleet.launch(name).await;
    scene.is_whole(&dispatch, &everybody()).await;
    scene.fleet.close().await;
}

killed! {
    planned_standalone: Backend::Embedded, "standalone", "dispatch::planned";
    noted_standalone: Backend::Embedded, "standalone", "dispatch::noted@4";
    committed_standalone: Backend::Embedded, "standalone", "dispatch::committed@4";
    rendered_standalone: Backend::Embedded, "standalone", "dispatch::rendered@3";
    sent_standalone: Backend::Embedded, "standalone", "dispatch::sent@5";
    settled_standalone: Backend::Embedded, "standalone", "dispatch::settled@3";
    leaving_standalone: Backend::Embedded, "standalone", "dispatch::leaving@2";
    left_standalone: Backend::Embedded, "standalone", "dispatch::left@2";
    looked_in_a_fleet: Backend::Fleet(1), "worker-1", "dispatch::looked";
    #[ignore = "scripts/test --all"]
    noted_in_a_fleet: Backend::Fleet(1), "worker-1", "dispatch::noted@4";
    #[ignore = "scripts/test --all"]
    committed_in_a_fleet: Backend::Fleet(1), "worker-1", "dispatch::committed@4";
    #[ignore = "scripts/test --all"]
    rendered_in_a_fleet: Backend::Fleet(1), "worker-1", "dispatch::rendered@3";
    #[ignore = "scripts/test --all"]
    sent_in_a_fleet: Backend::Fleet(1), "worker-1", "dispatch::sent@5";
    #[ignore = "scripts/test --all"]
    settled_in_a_fleet: Backend::Fleet(1), "worker-1", "dispatch::settled@3";
    #[ignore = "scripts/test --all"]
    leaving_in_a_fleet: Backend::Fleet(1), "worker-1", "dispatch::leaving@2";
    #[ignore = "scripts/test --all"]
    left_in_a_fleet: Backend::Fleet(1), "worker-1", "dispatch::left@2";
}

/// A worker that slept through its lease passes on what another has passed on meanwhile: under the
/// same ids, and nothing counts twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_worker_is_ignored() {
    let failing = Some(("worker-1", "dispatch::rendered@2=stop"));
    let mut scene = Scene::new(Backend::Fleet(1), failing).await;
    let dispatch = scene.send(json!({ "broadcast": true, "segment_id": SEGMENT })).await;
    let fleet = &scene.fleet;
    eventually("the worker sleeps", || async { fleet.is_stopped("worker-1") }).await;
    scene.fleet.launch("worker-2").await;
    scene.is_whole(&dispatch, &everybody()).await;
    scene.fleet.resume("worker-1");
    scene.fleet.terminate("worker-1").await;
    scene.is_whole(&dispatch, &everybody()).await;
    scene.fleet.close().await;
}

/// A worker that slept while its send was cancelled starts no message. Until another worker has
/// its part, the send is not cancelled yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_worker_sends_nothing_of_a_cancelled_send() {
    let failing = Some(("worker-1", "dispatch::rendered=stop"));
    let mut scene = Scene::new(Backend::Fleet(1), failing).await;
    let dispatch = scene.send(json!({ "broadcast": true, "segment_id": SEGMENT })).await;
    let fleet = &scene.fleet;
    eventually("the worker sleeps", || async { fleet.is_stopped("worker-1") }).await;
    fleet.run(&["dispatches", "cancel", &dispatch]).await;
    assert_eq!(scene.shown(&dispatch).await.expect("a dispatch")["state"], "cancelling");
    scene.fleet.launch("worker-2").await;
    eventually("it is cancelled", || async {
        scene.shown(&dispatch).await.is_some_and(|shown| shown["state"] == "cancelled")
    })
    .await;
    let arrived = scene.receiver.received().len();
    scene.fleet.terminate("worker-2").await;
    scene.fleet.resume("worker-1");
    // Once it has sent another one, it has decided about the first.
    let other = scene.send(json!({ "broadcast": true, "segment_id": SEGMENT })).await;
    scene.one_is_done().await;
    assert_eq!(scene.shown(&other).await.expect("a dispatch")["state"], "done");
    scene.fleet.terminate("worker-1").await;
    let shown = scene.shown(&dispatch).await.expect("a dispatch");
    assert_eq!(scene.receiver.received().len(), arrived + everybody().len(), "{shown}");
    let count = |name: &str| shown[name].as_i64().expect("a count");
    assert_eq!(count("sent") + count("cancelled"), count("walked"), "{shown}");
    scene.fleet.close().await;
}

/// Messages that wait to be tried again are, though their worker was killed.
#[tokio::test(flavor = "multi_thread")]
async fn waiting_messages_survive_a_killed_worker() {
    let mut scene = Scene::new(Backend::Embedded, None).await;
    scene.receiver.script((0..200).map(|_| ScriptedResponse::Status(503)));
    let users = ["u1", "u2", "u3"];
    let dispatch = scene.send(json!({ "external_user_ids": users })).await;
    scene.receiver.wait_for(6).await;
    // The log says so once, with why and of which call.
    let said = || {
        let printed = scene.fleet.printed();
        let about = |line: &&str| line.contains("messages deferred") && line.contains(&dispatch);
        printed.lines().filter(about).map(str::to_owned).collect::<Vec<_>>()
    };
    eventually("it is said", || async { !said().is_empty() }).await;
    let lines = said();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("503") && lines[0].contains("request_id"), "{lines:?}");
    scene.fleet.kill("standalone");
    scene.receiver.clear_script();
    scene.fleet.launch("standalone").await;
    let wanted = users.map(str::to_owned).into();
    scene.is_whole(&dispatch, &wanted).await;
    scene.fleet.close().await;
}
