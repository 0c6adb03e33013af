//! Notifications about exports that fail, are late or are done, to a URL, to Slack and by email.

#[cfg(debug_assertions)]
mod crashes;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::callbacks::verified;
use crate::support::fleet::{Backend, Fleet, notice_lost_workers};
use crate::support::proxy::{Proxy, ProxyMode};
use crate::support::receiver::{Received, Receiver, ScriptedResponse};
use crate::support::scripted_relay::{AcceptedEmail, Action, ScriptedRelay, Step};
use crate::support::storage::TestStorage;
use crate::support::stores;
use crate::support::{Api, WorkspaceFile, eventually, user_records};

const USERS: usize = 5;

/// What the entries sign with: not the secret of the callbacks.
const OWN_SECRET: &str = "own-secret-of-a-receiver";

/// The path of Slack, which nothing may print.
const SLACK: &str = "/services/T0/B0/a-secret-path";

const ADDRESSES: [&str; 2] = ["data@acme.example", "ops@acme.example"];

/// A workspace that declares receivers of each kind, on this machine.
struct Scene {
    fleet: Fleet,
    api: Api,
    proxy: Proxy,
    workspace: WorkspaceFile,
    receiver: Receiver,
    relay: ScriptedRelay,
    _place: TestStorage,
}

impl Scene {
    /// `attempts` are those of an export's parts; the way to its storage is in `mode`. `failing` is
    /// a process and its fail points.
    async fn new(
        backend: Backend,
        (attempts, late_after): (u32, &str),
        mode: ProxyMode,
        failing: Option<(&str, &str)>,
    ) -> Self {
        let settings = [
            ("LONGSHORE_EXPORTS__ATTEMPTS", attempts.to_string()),
            ("LONGSHORE_EXPORTS__RETRY_MS", "50".to_owned()),
            ("LONGSHORE_DELIVERIES__RETRY_MS", "50".to_owned()),
            ("LONGSHORE_WORKER__LEASE_MS", "1000".to_owned()),
            ("LONGSHORE_WORKER__DRAIN_SECONDS", "2".to_owned()),
        ];
        let mut fleet = Fleet::prepare(backend, &settings, notice_lost_workers).await;
        let storage = TestStorage::s3().await;
        let proxy = Proxy::to(storage.endpoint()).await;
        let receiver = Receiver::start([]).await;
        let relay = ScriptedRelay::start(&[], []).await;
        let from = "Acme exports <exports@acme.example>";
        let notify = json!([
            { "webhook": { "url": receiver.url("/hook"), "secret": OWN_SECRET } },
            {
                "on": ["export_failed", "export_late", "export_done"],
                "webhook": { "url": receiver.url("/own"), "secret": OWN_SECRET },
            },
            {
                "on": ["export_done"],
                "webhook": { "url": receiver.url("/done"), "secret": OWN_SECRET },
            },
            { "on": ["export_failed"], "slack": { "url": receiver.url(SLACK) } },
            { "on": ["export_failed"], "email": { "to": ADDRESSES } },
        ]);
        let workspace = WorkspaceFile::new("acme")
            .with_storage(&storage.at(&proxy.endpoint()))
            .with("email", json!({ "smtp": relay.url("", ""), "from": from }))
            .with("export_late_after", json!(late_after))
            .with("notify", notify);
        let api = fleet.apply(std::slice::from_ref(&workspace)).await.remove(0);
        let records: Vec<String> =
            (0..USERS).map(|number| user_records::simple(number, 1)).collect();
        fleet.import("acme", &records).await;
        proxy.set(mode);
        fleet.launch_all(failing).await;
        Self { fleet, api, proxy, workspace, receiver, relay, _place: storage }
    }

    /// With an export that fails at its second attempt.
    async fn failing(backend: Backend, failing: Option<(&str, &str)>) -> Self {
        Self::new(backend, (2, "6h"), ProxyMode::Closed, failing).await
    }

    /// With an export that retries and is soon late.
    async fn late(backend: Backend, failing: Option<(&str, &str)>) -> Self {
        Self::new(backend, (1_000, "1s"), ProxyMode::Closed, failing).await
    }

    /// The deliveries about the export.
    async fn listed(&self, prefix: &str) -> Vec<Value> {
        let arguments = ["deliveries", "list", "--subject", prefix, "--json"];
        let printed = self.fleet.run(&arguments).await;
        assert!(!printed.contains(SLACK), "a secret is in the list: {printed}");
        printed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// Waits until `count` deliveries about the export are there, and all are delivered.
    async fn delivered(&self, prefix: &str, count: usize) {
        eventually("all notifications are delivered", || async {
            let rows = self.listed(prefix).await;
            assert!(rows.len() <= count, "{count} deliveries are expected: {rows:?}");
            rows.len() == count && rows.iter().all(|row| row["state"] == "delivered")
        })
        .await;
    }

    fn received_at(&self, path: &str) -> Vec<Received> {
        let received = self.receiver.received().into_iter();
        received.filter(|request| request.uri.path() == path).collect()
    }

    /// The one notification of a type at a path, however often it was sent.
    fn notification(&self, path: &str, kind: &str) -> Value {
        let of_kind = self.received_at(path).into_iter().filter_map(|request| {
            let body = verified(&request, OWN_SECRET.as_bytes());
            (body["type"] == kind).then(|| (request.header("webhook-id").to_owned(), body))
        });
        let of_kind: Vec<(String, Value)> = of_kind.collect();
        let ids: BTreeSet<&str> = of_kind.iter().map(|(id, _)| id.as_str()).collect();
        assert_eq!(ids.len(), 1, "{kind} at {path}: {of_kind:?}");
        of_kind[0].1.clone()
    }

    fn emails_to(&self, address: &str) -> Vec<AcceptedEmail> {
        let accepted = self.relay.accepted().into_iter();
        accepted.filter(|email| email.to.iter().any(|to| to.contains(address))).collect()
    }

    /// Everything that is sent after a failure, with the error of the export's status.
    async fn is_notified_of_the_failure(&self, prefix: &str) {
        let error = self.api.failed(prefix).await;
        self.delivered(prefix, 3 + ADDRESSES.len()).await;
        for path in ["/hook", "/own"] {
            let body = self.notification(path, "export.failed");
            assert_eq!((&body["workspace"], &body["state"]), (&json!("acme"), &json!("failed")));
            assert_eq!((&body["object_prefix"], &body["error"]), (&json!(prefix), &json!(error)));
            assert_eq!(body["users"], json!({ "done": 0, "total": USERS }));
            let status_url = body["status_url"].as_str().expect("a URL");
            assert!(status_url.ends_with(&format!("/users/export/{prefix}")), "{status_url}");
        }
        assert!(self.received_at("/done").is_empty(), "nobody asked for failures there");
        let slack = self.received_at(SLACK);
        assert!(!slack.is_empty());
        for request in &slack {
            assert!(request.headers.get("webhook-signature").is_none(), "Slack gets no signature");
            let body: Value = serde_json::from_slice(&request.body).expect("JSON");
            assert_eq!(body.as_object().expect("an object").len(), 1, "{body}");
            let text = body["text"].as_str().expect("a text");
            assert!(text.contains(&format!("longshore export status {prefix}")), "{text}");
        }
        for address in ADDRESSES {
            let emails = self.emails_to(address);
            let ids: BTreeSet<_> = emails.iter().map(|email| email.header("Message-ID")).collect();
            assert_eq!(ids.len(), 1, "{emails:?}");
            let email = &emails[0];
            assert_eq!(email.to.len(), 1, "each address gets an email of its own");
            assert!(email.from.contains("exports@acme.example"), "{email:?}");
            let subject = email.header("Subject").expect("a subject");
            assert!(subject.contains("Export failed: acme"), "{subject}");
        }
    }

    async fn close(self) {
        assert!(!self.fleet.printed().contains(SLACK), "a secret is in a log");
        self.fleet.close().await;
    }
}

async fn a_failure(backend: Backend) {
    let scene = Scene::failing(backend, None).await;
    let accepted = scene.api.export_all().await;
    scene.is_notified_of_the_failure(&accepted.prefix).await;
    assert_eq!(scene.api.status(&accepted.prefix).await.get("late_at"), None);
    scene.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_export_notifies_each_receiver_once() {
    a_failure(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_export_of_a_fleet_notifies_each_receiver_once() {
    a_failure(Backend::Fleet(2)).await;
}

/// Late once, while it retries; then it ends.
async fn a_late_export(backend: Backend) {
    let scene = Scene::late(backend, None).await;
    let accepted = scene.api.export_all().await;
    scene.delivered(&accepted.prefix, 2).await;
    for path in ["/hook", "/own"] {
        let body = scene.notification(path, "export.late");
        let is_open = ["queued", "planning", "running"].contains(&body["state"].as_str().unwrap());
        assert!(is_open && body["object_prefix"] == accepted.prefix.as_str(), "{body}");
    }
    let late_at = scene.api.status(&accepted.prefix).await["late_at"].take();
    assert!(late_at.is_string(), "{late_at}");
    let operators = ["export", "status", &accepted.prefix, "--json"];
    let shown: Value = serde_json::from_str(&scene.fleet.run(&operators).await).expect("JSON");
    assert_eq!(shown["late_at"], late_at);
    let listed = scene.fleet.run(&["export", "list", "--json"]).await;
    let listed: Value = serde_json::from_str(listed.lines().next().expect("a line")).expect("JSON");
    assert_eq!(listed["late_at"], late_at);
    scene.proxy.set(ProxyMode::Open);
    let ended = scene.api.done(&accepted.prefix).await;
    assert_eq!(ended["late_at"], late_at);
    scene.delivered(&accepted.prefix, 4).await;
    for path in ["/own", "/done"] {
        let body = scene.notification(path, "export.done");
        assert_eq!(body["users"], json!({ "done": USERS, "total": USERS }));
        assert_eq!((&body["state"], body.get("error")), (&json!("done"), None));
    }
    scene.close().await;
}

/// Between two checks for late exports.
#[tokio::test(flavor = "multi_thread")]
async fn a_short_export_is_late_when_it_ends() {
    let scene = Scene::new(Backend::Embedded, (1_000, "6h"), ProxyMode::Open, None).await;
    let at_once = "UPDATE workspaces SET export_late_ms = 1";
    stores::execute(&scene.fleet.database_url(), at_once).await;
    for _ in 0..3 {
        let accepted = scene.api.export_all().await;
        let ended = scene.api.done(&accepted.prefix).await;
        assert!(ended["late_at"].is_string(), "{ended}");
        scene.delivered(&accepted.prefix, 4).await;
    }
    scene.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_export_notifies_once_and_again_at_its_end() {
    a_late_export(Backend::Embedded).await;
}

/// Each of the workers looks for late exports.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_export_of_a_fleet_notifies_once_and_again_at_its_end() {
    a_late_export(Backend::Fleet(2)).await;
}

/// A callback reports ends only.
#[tokio::test(flavor = "multi_thread")]
async fn lateness_is_not_sent_to_the_callback_endpoint() {
    let scene = Scene::late(Backend::Embedded, None).await;
    let body = json!({
        "fields_to_export": ["external_id"],
        "callback_endpoint": scene.receiver.url("/callback"),
    });
    let accepted = scene.api.export(&body).await;
    scene.delivered(&accepted.prefix, 2).await;
    assert!(scene.received_at("/callback").is_empty());
    scene.proxy.set(ProxyMode::Open);
    scene.api.done(&accepted.prefix).await;
    scene.delivered(&accepted.prefix, 5).await;
    let callbacks = scene.received_at("/callback");
    for callback in &callbacks {
        assert_eq!(verified(callback, &scene.workspace.callback_secret)["success"], true);
    }
    assert!(!callbacks.is_empty());
    scene.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_export_notifies_nobody() {
    let scene = Scene::new(Backend::Embedded, (1_000, "6h"), ProxyMode::Closed, None).await;
    let accepted = scene.api.export_all().await;
    let answer = scene.api.delete(&format!("/users/export/{}", accepted.prefix)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    scene.delivered(&accepted.prefix, 0).await;
    assert!(scene.receiver.received().is_empty() && scene.relay.accepted().is_empty());
    scene.close().await;
}

/// The URL of a receiver is stored only encrypted. A notification whose receiver is removed ends at
/// once, and does not count as given up; that of another receiver is retried.
#[tokio::test(flavor = "multi_thread")]
async fn a_notification_ends_when_its_receiver_is_removed() {
    let scene = Scene::failing(Backend::Embedded, None).await;
    scene.receiver.script(std::iter::repeat_n(ScriptedResponse::Status(503), 100_000));
    let accepted = scene.api.export_all().await;
    scene.api.failed(&accepted.prefix).await;
    let in_state = async |state: &str| {
        let rows = scene.listed(&accepted.prefix).await.into_iter();
        rows.filter(|row| row["state"] == state).collect::<Vec<Value>>()
    };
    eventually("each webhook failed", || async {
        let pending = in_state("pending").await;
        pending.len() == 3 && pending.iter().all(|row| row["last_status"] == 503)
    })
    .await;
    let database = scene.fleet.database_url();
    let stored = "SELECT count(*) FROM deliveries WHERE url LIKE '%/hook%' OR url LIKE '%/T0/%'";
    assert_eq!(stores::count(&database, stored).await, 0);

    let only_own = json!([
        { "webhook": { "url": scene.receiver.url("/own"), "secret": OWN_SECRET } },
    ]);
    let workspace = scene.workspace.clone().with("notify", only_own);
    scene.fleet.apply(&[workspace]).await;
    eventually("two have ended", || async { in_state("given_up").await.len() == 2 }).await;
    for row in in_state("given_up").await {
        assert!(row["finished_at"].as_str() < row["retry_until"].as_str(), "{row}");
    }
    assert_eq!(in_state("pending").await.len(), 1);
    scene.receiver.clear_script();
    eventually("the other one arrives", || async { in_state("pending").await.is_empty() }).await;
    scene.notification("/own", "export.failed");
    scene.close().await;
}

/// A relay that is busy gets the email again, under the same Message-ID, and an address that it
/// rejects does not stop the other one.
#[tokio::test(flavor = "multi_thread")]
async fn an_email_is_retried_until_the_relay_accepts_it() {
    let scene = Scene::failing(Backend::Embedded, None).await;
    scene.relay.script([
        (Step::To, Action::Reply(451, "later")),
        (Step::To, Action::Reply(550, "not known yet")),
        (Step::End, Action::AcceptAndClose),
    ]);
    let accepted = scene.api.export_all().await;
    scene.is_notified_of_the_failure(&accepted.prefix).await;
    assert_eq!(scene.relay.accepted().len(), ADDRESSES.len() + 1);
    scene.close().await;
}
