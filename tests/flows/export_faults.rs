//! Exports while something is broken: stopped and killed processes, storage and receivers
//! that fail, stored documents that cannot be read, limits that are passed.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::api::{ALL_FIELDS, Accepted, Api};
use crate::support::checker::{self, ExpectedExport};
use crate::support::fleet::{Backend, Fleet, notice_lost_workers};
use crate::support::http_proxy::{ChooseFault, HttpProxy, NO_FAULT, ProxyFault};
use crate::support::process::free_port;
use crate::support::proxy::{Proxy, ProxyMode};
use crate::support::receiver::{Receiver, ScriptedResponse};
use crate::support::storage::TestStorage;
use crate::support::workspace::WorkspaceFile;
use crate::support::{callbacks, eventually, stores, user_records};

/// Parts of the exports here: enough to be in the middle of them.
const PARTS: usize = 40;
const PER_FILE: usize = 25;

/// Small files, quick retries, short leases.
fn settings(attempts: u32) -> Vec<(&'static str, String)> {
    vec![
        ("LONGSHORE_EXPORTS__USERS_PER_FILE", PER_FILE.to_string()),
        ("LONGSHORE_EXPORTS__ATTEMPTS", attempts.to_string()),
        ("LONGSHORE_EXPORTS__RETRY_MS", "50".to_owned()),
        ("LONGSHORE_WORKER__LEASE_MS", "1500".to_owned()),
        ("LONGSHORE_WORKER__DRAIN_SECONDS", "2".to_owned()),
        ("LONGSHORE_DELIVERIES__RETRY_MS", "50".to_owned()),
    ]
}

/// An export to a bucket whose way can be closed.
struct Scene {
    fleet: Fleet,
    api: Api,
    storage: TestStorage,
    proxy: Proxy,
    workspace: WorkspaceFile,
    records: Vec<String>,
}

impl Scene {
    async fn new(backend: Backend, attempts: u32) -> Self {
        let storage = TestStorage::s3().await;
        let proxy = Proxy::to(storage.endpoint()).await;
        let fleet = Fleet::start_with(backend, &settings(attempts), notice_lost_workers).await;
        let workspace = WorkspaceFile::new("acme").with_storage(&storage.at(&proxy.endpoint()));
        let api = fleet.apply(std::slice::from_ref(&workspace)).await.remove(0);
        let records: Vec<String> =
            (0..PARTS * PER_FILE).map(|number| user_records::simple(number, 1)).collect();
        fleet.import("acme", &records).await;
        Self { fleet, api, storage, proxy, workspace, records }
    }

    /// Asks for an export and brings it to where some files are written and others cannot
    /// be.
    async fn half_done(&self) -> Accepted {
        self.proxy.set(ProxyMode::Slow(Duration::from_millis(250)));
        let accepted = self.api.export_all().await;
        self.api.wait_for_files(&accepted.prefix, 3).await;
        self.proxy.set(ProxyMode::Stuck);
        assert_eq!(self.api.status(&accepted.prefix).await["state"], "running");
        accepted
    }

    /// The export ends whole, and nothing else is in the bucket.
    async fn ends_whole(&self, accepted: &Accepted) {
        let status = self.api.done(&accepted.prefix).await;
        let wanted = ExpectedExport {
            fields: &ALL_FIELDS,
            days: checker::export_days(&status),
            prefix: &accepted.prefix,
        };
        let segment = self.fleet.segment_id(&self.workspace.name).await;
        let files = checker::own_files(&self.storage, &segment, "zip", &wanted).await;
        checker::check_export(&files, PARTS, &self.records, &wanted);
        // What an upload left behind that came late is removed again.
        eventually("nothing else is left", || async {
            self.storage.list_files().await.len() == PARTS
        })
        .await;
    }
}

/// SIGTERM in the middle of an export ends with status 0, and the next process continues.
#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_process_is_replaced() {
    let mut scene = Scene::new(Backend::Embedded, 20).await;
    let accepted = scene.half_done().await;
    scene.fleet.terminate("standalone").await;
    scene.proxy.set(ProxyMode::Open);
    scene.fleet.launch("standalone").await;
    scene.ends_whole(&accepted).await;
    scene.fleet.close().await;
}

/// The same with the machine's power cut.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_process_is_replaced() {
    let mut scene = Scene::new(Backend::Embedded, 20).await;
    let accepted = scene.half_done().await;
    scene.fleet.kill("standalone");
    scene.proxy.set(ProxyMode::Open);
    scene.fleet.launch("standalone").await;
    scene.ends_whole(&accepted).await;
    scene.fleet.close().await;
}

/// Of a fleet, one worker is killed in the middle of its parts and another is stopped: the
/// third ends the export.
#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_continues_without_lost_workers() {
    let mut scene = Scene::new(Backend::Fleet(3), 20).await;
    let accepted = scene.half_done().await;
    scene.fleet.kill("worker-1");
    scene.fleet.terminate("worker-2").await;
    scene.proxy.set(ProxyMode::Open);
    scene.ends_whole(&accepted).await;
    // And they come back.
    scene.fleet.launch("worker-1").await;
    scene.fleet.launch("worker-2").await;
    scene.fleet.kill("worker-3");
    let accepted = scene.api.export_all().await;
    scene.api.done(&accepted.prefix).await;
    scene.fleet.close().await;
}

/// A storage that is down for a while costs time only.
#[tokio::test(flavor = "multi_thread")]
async fn an_outage_of_the_storage_is_waited_out() {
    let scene = Scene::new(Backend::Embedded, 50).await;
    let accepted = scene.half_done().await;
    scene.proxy.set(ProxyMode::Closed);
    let is_told = |status: &Value| status["error"].is_string();
    let status = scene.api.status_when(&accepted.prefix, "its storage fails", is_told).await;
    assert_eq!(status["state"], "running", "{status}");
    scene.proxy.set(ProxyMode::Open);
    scene.ends_whole(&accepted).await;
    scene.fleet.close().await;
}

/// While a storage takes nothing the export's status says why, long before its last attempt, and so
/// does `/readyz`, which stays 200: the rest continues. Once it takes files again, neither does.
#[tokio::test(flavor = "multi_thread")]
async fn failing_storage_is_reported_at_once() {
    let scene = Scene::new(Backend::Embedded, 1_000).await;
    scene.proxy.set(ProxyMode::Closed);
    let accepted = scene.api.export_all().await;
    let is_told = |status: &Value| status["error"].is_string();
    let status = scene.api.status_when(&accepted.prefix, "its storage fails", is_told).await;
    assert_eq!(status["state"], "running", "{status}");
    let error = status["error"].as_str().expect("a text");
    assert!(error.contains("cloud storage"), "{error}");
    for secret in scene.workspace.secrets() {
        assert!(!error.contains(&secret), "a secret is in the error");
    }
    eventually("the worker tells it", || async {
        let (status, text) = scene.fleet.readiness("standalone").await;
        assert_eq!(status, 200, "{text}");
        text.contains(&accepted.prefix)
    })
    .await;
    scene.proxy.set(ProxyMode::Open);
    scene.ends_whole(&accepted).await;
    assert_eq!(scene.api.status(&accepted.prefix).await.get("error"), None);
    eventually("the worker tells nothing more", || async {
        scene.fleet.readiness("standalone").await == (200, "ready\n".into())
    })
    .await;
    scene.fleet.close().await;
}

/// A worker that has never been able to write where exports are built is not ready, and says why.
/// A gateway writes none, and needs none.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_reports_unwritable_storage() {
    let storage = TestStorage::s3().await;
    let proxy = Proxy::to(storage.endpoint()).await;
    let objects = storage.at(&proxy.endpoint()).objects_url();
    let settings = [("LONGSHORE_OBJECTS_URL", objects)];
    let mut fleet = Fleet::prepare(Backend::Fleet(1), &settings, |_| {}).await;
    let tells = async |fleet: &Fleet, status: u16| {
        eventually("the worker tells it", || async {
            let (answered, text) = fleet.readiness("worker-1").await;
            text.contains("cannot write objects") && answered == status
        })
        .await;
    };
    // It is ready until it has tried.
    proxy.set(ProxyMode::Stuck);
    fleet.launch("worker-1").await;
    proxy.set(ProxyMode::Closed);
    tells(&fleet, 503).await;
    fleet.launch("gateway").await;
    assert_eq!(fleet.readiness("gateway").await, (200, "ready\n".into()));
    proxy.set(ProxyMode::Open);
    eventually("the worker is ready", || async {
        fleet.readiness("worker-1").await == (200, "ready\n".into())
    })
    .await;
    assert_eq!(storage.list().await, [""; 0], "nothing is left of the looks");
    fleet.close().await;
}

/// Where a store cannot write only if nothing is there, a worker that slept could replace a file
/// that is counted: `doctor` refuses such a store, and no export is written to it.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_without_conditional_writes_is_refused() {
    const NOT_IMPLEMENTED: ChooseFault = |method, _| {
        let body = "<Error><Code>NotImplemented</Code><Message>no</Message></Error>";
        (method == "PUT").then_some(ProxyFault::RespondIfConditional(501, body))
    };
    const IGNORED: ChooseFault =
        |method, _| (method == "PUT").then_some(ProxyFault::RespondIfConditional(200, ""));
    let storage = TestStorage::s3().await;
    let http_proxy = HttpProxy::start(storage.endpoint(), NO_FAULT).await;
    let fleet = Fleet::start(Backend::Embedded, &settings(3)).await;
    let workspace = WorkspaceFile::new("acme").with_storage(&storage.at(&http_proxy.endpoint()));
    let api = fleet.apply(&[workspace]).await.remove(0);
    fleet.import("acme", &[user_records::simple(1, 1)]).await;
    let doctor = async || fleet.command(&["doctor", "--json"]).await;
    assert!(doctor().await.status.success(), "{:?}", doctor().await);
    for fault in [IGNORED, NOT_IMPLEMENTED] {
        http_proxy.inject(fault);
        let output = doctor().await;
        assert!(!output.status.success(), "{output:?}");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("conditional writes"), "{said}");
    }
    let accepted = api.export_all().await;
    let error = api.failed(&accepted.prefix).await;
    assert!(error.contains("conditional writes"), "{error}");
    assert_eq!(storage.list().await, [""; 0]);
    http_proxy.inject(NO_FAULT);
    let accepted = api.export_all().await;
    api.done(&accepted.prefix).await;
    assert_eq!(storage.list_files().await.len(), 1);
    fleet.close().await;
}

/// A storage that is unavailable, or refuses its key, for longer than all attempts take: the export waits,
/// says since when and why, and then has each user once.
#[tokio::test(flavor = "multi_thread")]
async fn an_export_waits_for_its_storage_longer_than_its_attempts() {
    const BUSY: ChooseFault =
        |_, _| Some(ProxyFault::Respond(503, "<Error><Code>SlowDown</Code></Error>"));
    const DENIED: ChooseFault =
        |_, _| Some(ProxyFault::Respond(403, "<Error><Code>AccessDenied</Code></Error>"));
    let storage = TestStorage::s3().await;
    let http_proxy = HttpProxy::start(storage.endpoint(), NO_FAULT).await;
    let mut waiting = settings(2);
    waiting.push(("LONGSHORE_EXPORTS__RETRY_HOURS", "24".to_owned()));
    waiting.push(("LONGSHORE_EXPORTS__REFUSED_MINUTES", "15".to_owned()));
    let fleet = Fleet::start(Backend::Embedded, &waiting).await;
    let workspace = WorkspaceFile::new("acme").with_storage(&storage.at(&http_proxy.endpoint()));
    let api = fleet.apply(&[workspace]).await.remove(0);
    fleet.import("acme", &[user_records::simple(1, 1)]).await;
    for (fault, code, hours) in [(BUSY, "SlowDown", 24.0), (DENIED, "access denied", 0.25)] {
        http_proxy.inject(fault);
        let before = http_proxy.caught();
        let accepted = api.export_all().await;
        // The SDK sends a request three times if the store is busy, and a refused one once.
        let requests = if hours < 1.0 { 8 } else { 16 };
        let are_more = async || http_proxy.caught() > before + requests;
        eventually("more attempts than are counted", are_more).await;
        let status = api.status(&accepted.prefix).await;
        assert_eq!(status["state"], "running", "{status}");
        let error = status["error"].as_str().expect("a reason");
        assert!(error.contains(code) && !error.contains("127.0.0.1"), "{error}");
        let times: Vec<jiff::Timestamp> = error
            .split([' ', ','])
            .filter_map(|word| word.trim_end_matches('.').parse().ok())
            .collect();
        let [since, until] = times[..] else { panic!("no times in {error}") };
        assert_eq!(until.duration_since(since).as_secs_f64(), hours * 3_600.0, "{error}");
        if hours > 1.0 {
            // The time of refusals begins with the first one, not with the wait before it.
            let earlier = "UPDATE export_jobs SET waiting_since = waiting_since - 3600000";
            stores::execute(&fleet.database_url(), earlier).await;
            http_proxy.inject(DENIED);
            let is_refused = async || {
                let status = api.status(&accepted.prefix).await;
                assert_eq!(status["state"], "running", "{status}");
                status["error"].as_str().is_some_and(|error| error.contains("access denied"))
            };
            eventually("the store refuses", is_refused).await;
        }
        http_proxy.inject(NO_FAULT);
        let done = api.done(&accepted.prefix).await;
        assert_eq!(done["users"]["total"], 1, "{done}");
        assert_eq!(done.get("error"), None, "{done}");
    }
    assert_eq!(storage.list_files().await.len(), 2);
    fleet.close().await;
}

/// A storage that stays away, or that has gone for good: the job fails, and its status, the
/// callback and a metric say why, without credentials. What was written is removed.
#[tokio::test(flavor = "multi_thread")]
async fn deleted_storage_fails_the_export() {
    let scene = Scene::new(Backend::Embedded, 3).await;
    let receiver = Receiver::start([]).await;
    let body = json!({ "fields_to_export": ALL_FIELDS, "callback_endpoint": receiver.url("/") });

    scene.proxy.set(ProxyMode::Closed);
    let accepted = scene.api.export(&body).await;
    let refused = scene.api.failed(&accepted.prefix).await;
    scene.proxy.set(ProxyMode::Open);
    scene.storage.destroy().await;
    let accepted = scene.api.export(&body).await;
    let missing = scene.api.failed(&accepted.prefix).await;

    let received = receiver.wait_for(2).await;
    let told = received
        .iter()
        .map(|received| callbacks::verified(received, &scene.workspace.callback_secret));
    let told: Vec<Value> = told.collect();
    for error in [&refused, &missing] {
        // Callbacks of two exports come in any order.
        assert!(told.contains(&json!({ "success": false, "error": error })), "{error}: {told:?}");
        assert!(error.contains("cloud storage"), "{error}");
        for secret in scene.workspace.secrets() {
            assert!(!error.contains(&secret), "a secret is in the error");
        }
    }
    assert!(missing.to_lowercase().contains("bucket"), "{missing}");
    eventually("both are counted", || async {
        let metrics = scene.fleet.metrics("standalone").await;
        metrics.lines().any(|line| line.contains("own_storage") && line.ends_with(" 2"))
    })
    .await;

    scene.storage.restore().await;
    let accepted = scene.api.export_all().await;
    scene.ends_whole(&accepted).await;
    scene.fleet.close().await;
}

/// A document that is broken in the store is never passed off as exported: the job fails
/// and says how many there are, and whose they are.
async fn broken_documents(backend: Backend) {
    let scene = Scene::new(backend, 3).await;
    let receiver = Receiver::start([]).await;
    let accepted = scene.api.export_all().await;
    scene.ends_whole(&accepted).await;
    let database = scene.fleet.database_url();
    for sql in [
        "UPDATE users SET doc = '{\"email\":' WHERE external_id = 'user-000017'",
        "UPDATE users SET doc = '[]' WHERE external_id = 'user-000500'",
    ] {
        assert_eq!(stores::execute(&database, sql).await, 1);
    }
    let body = json!({ "fields_to_export": ALL_FIELDS, "callback_endpoint": receiver.url("/") });
    let accepted = scene.api.export(&body).await;
    let error = scene.api.failed(&accepted.prefix).await;
    assert!(error.contains("2 users"), "{error}");
    let status = scene.api.status(&accepted.prefix).await;
    let ids = status["broken_users"].as_array().expect("an array").clone();
    assert_eq!(ids.len(), 2, "{status}");
    assert!(ids.iter().all(|id| error.contains(id.as_str().expect("an id"))), "{error}");
    let told =
        callbacks::verified(&receiver.wait_for(1).await[0], &scene.workspace.callback_secret);
    assert_eq!(told, json!({ "success": false, "error": error }));
    // Only the files of the first export stay.
    eventually("nothing is left of it", || async {
        scene.storage.list().await.iter().all(|key| !key.contains(&accepted.prefix))
    })
    .await;
    // The affected users can be erased, and then all is well again.
    for id in &ids {
        let id = id.as_str().expect("an id");
        scene.fleet.run(&["users", "delete", "--workspace", "acme", id]).await;
    }
    let accepted = scene.api.export_all().await;
    let status = scene.api.done(&accepted.prefix).await;
    assert_eq!(status["users"]["total"], PARTS * PER_FILE - 2);
    scene.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_documents_standalone() {
    broken_documents(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "scripts/test --all"]
async fn broken_documents_in_a_fleet() {
    broken_documents(Backend::Fleet(1)).await;
}

/// Receivers that fail hold up nothing: the export is done, the callback is tried again,
/// always under the same id.
#[tokio::test(flavor = "multi_thread")]
async fn receivers_fail() {
    let scene = Scene::new(Backend::Embedded, 3).await;
    let receiver = Receiver::start([
        ScriptedResponse::Status(500),
        ScriptedResponse::Close,
        ScriptedResponse::Redirect("http://127.0.0.1:1/".to_owned()),
        ScriptedResponse::Status(204),
    ])
    .await;
    let request =
        |address: String| json!({ "fields_to_export": ["email"], "callback_endpoint": address });
    let accepted = scene.api.export(&request(receiver.url("/tried"))).await;
    scene.api.done(&accepted.prefix).await;
    let received = receiver.wait_for(4).await;
    assert_eq!(received.len(), 4);
    let secret = &scene.workspace.callback_secret;
    let told = callbacks::callback_at(&receiver, "/tried", secret).await;
    assert_eq!(told["success"], true, "{told}");
    assert_eq!(told["manifest"], scene.api.status(&accepted.prefix).await["manifest"], "{told}");

    let nobody = format!("http://127.0.0.1:{}/", free_port());
    let accepted = scene.api.export(&request(nobody)).await;
    scene.api.done(&accepted.prefix).await;
    let of_nobody = || async {
        let listed = scene.fleet.run(&["deliveries", "list", "--json"]).await;
        let mut rows =
            listed.lines().map(|line| -> Value { serde_json::from_str(line).expect("JSON") });
        rows.find(|row| row["subject"] == *accepted.prefix).expect("the delivery is listed")
    };
    eventually("it was tried twice", || async {
        of_nobody().await["attempts"].as_u64() >= Some(2)
    })
    .await;
    let row = of_nobody().await;
    assert!(row["last_error"].as_str().is_some_and(|error| !error.is_empty()), "{row}");
    let listed = scene.fleet.run(&["deliveries", "list", "--json"]).await;
    assert_eq!(listed.lines().count(), 2);
    let latest: Value = serde_json::from_str(listed.lines().next().expect("a row")).expect("JSON");
    let latest = latest["id"].as_str().expect("an id");
    let next = scene.fleet.run(&["deliveries", "list", "--after", latest, "--json"]).await;
    assert!(next.lines().count() == 1 && !next.contains(latest), "{next}");
    // The first one came once more after its success, if ever: it did not.
    assert_eq!(receiver.received().len(), 4);
    scene.fleet.close().await;
}

/// Without own storage an export may have so many users and bytes.
#[tokio::test(flavor = "multi_thread")]
async fn limits_without_own_storage() {
    let fleet = Fleet::start(Backend::Embedded, &settings(3)).await;
    let receiver = Receiver::start([]).await;
    let body = json!({ "fields_to_export": ALL_FIELDS, "callback_endpoint": receiver.url("/") });
    let records: Vec<String> = (0..300).map(|number| user_records::simple(number, 1)).collect();
    let limited =
        |name: &str, limits: Value| WorkspaceFile::new(name).with("export_limits", limits);
    let workspaces = [
        limited("users", json!({ "users": 299 })),
        limited("bytes", json!({ "bytes": 4_096 })),
        limited("enough", json!({ "users": 300, "bytes": "1MiB" })),
    ];
    let apis = fleet.apply(&workspaces).await;
    for workspace in &workspaces {
        fleet.import(&workspace.name, &records).await;
    }
    for (index, parts) in
        [["299", "own cloud storage"], ["4096 bytes", "fewer fields"]].into_iter().enumerate()
    {
        let accepted = apis[index].export(&body).await;
        let error = apis[index].failed(&accepted.prefix).await;
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        let received = receiver.wait_for(index + 1).await;
        let told = callbacks::verified(&received[index], &workspaces[index].callback_secret);
        assert_eq!(told, json!({ "success": false, "error": error }));
        apis[index].open(accepted.address()).await.refuses(403, "failed");
    }
    let accepted = apis[2].export(&body).await;
    apis[2].done(&accepted.prefix).await;
    fleet.close().await;
}

/// What is stored of an export is not what was written: no retry helps.
#[tokio::test(flavor = "multi_thread")]
async fn an_export_with_a_damaged_part_fails_at_once() {
    let users_per_file = ("LONGSHORE_EXPORTS__USERS_PER_FILE", "1".to_owned());
    let mut fleet = Fleet::start(Backend::Fleet(1), &[users_per_file]).await;
    let api = fleet.apply(&[WorkspaceFile::new("acme")]).await.remove(0);
    let records: Vec<String> = (0..400).map(|number| user_records::simple(number, 1)).collect();
    fleet.import("acme", &records).await;
    let accepted = api.export_all().await;
    api.wait_for_files(&accepted.prefix, 1).await;
    fleet.stop("worker-1");
    assert_eq!(api.status(&accepted.prefix).await["state"], "running");
    let mut damaged = 0;
    for folder in walk(&fleet.directory().join("objects")) {
        for part in parts_in(&folder) {
            let mut file = std::fs::File::options().append(true).open(part).expect("a part");
            file.write_all(b"x").expect("a byte more");
            damaged += 1;
        }
    }
    assert!(damaged > 0);
    fleet.resume("worker-1");
    api.failed(&accepted.prefix).await;
    let shown = fleet.run(&["export", "status", &accepted.prefix, "--json", "--key", ""]).await;
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    assert!(shown["error_detail"].as_str().is_some_and(|text| text.contains("bytes")), "{shown}");
    // Another one is whole.
    let another = api.export_all().await;
    api.done(&another.prefix).await;
    fleet.close().await;
}

/// The folders below one.
fn walk(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    let below = entries.map(|entry| entry.path()).filter(|path| path.is_dir());
    below.flat_map(|path| [vec![path.clone()], walk(&path)].concat()).collect()
}

/// The stored parts in a folder `parts`: their names are numbers.
fn parts_in(folder: &Path) -> Vec<PathBuf> {
    if !folder.ends_with("parts") {
        return Vec::new();
    }
    let is_part = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        path.is_file() && name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    };
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    entries.map(|entry| entry.path()).filter(is_part).collect()
}
