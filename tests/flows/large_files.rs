//! Files that are too large for one upload: built in pieces, uploaded in parts, and complete
//! whatever happens between two of them.

use std::time::Duration;

use serde_json::{Value, json};

use objects::{Objects, STREAM_MEMORY_BYTES};

use crate::support::api::{ALL_FIELDS, Accepted, files_done};
use crate::support::checker::{self, ExpectedExport};
use crate::support::fleet::{Backend, Fleet, notice_lost_workers};
use crate::support::proxy::{Proxy, ProxyMode};
use crate::support::storage::TestStorage;
use crate::support::{Api, WorkspaceFile, eventually, user_records};

/// All are in one file of about 50 MB.
const USERS: usize = 4_000;

/// Less than the file, so the file is never completely in memory.
const MEMORY: usize = 36 << 20;

/// What a worker may have resident, with the program itself.
const MAX_RESIDENT: u64 = 320 << 20;

fn settings() -> [(&'static str, String); 6] {
    [
        ("LONGSHORE_EXPORTS__USERS_PER_FILE", "5000".to_owned()),
        ("LONGSHORE_EXPORTS__MEMORY_BYTES", MEMORY.to_string()),
        ("LONGSHORE_EXPORTS__REQUEUE_SECONDS", "2".to_owned()),
        ("LONGSHORE_EXPORTS__ATTEMPTS", "20".to_owned()),
        ("LONGSHORE_WORKER__LEASE_MS", "1000".to_owned()),
        ("LONGSHORE_WORKER__DRAIN_SECONDS", "2".to_owned()),
    ]
}

/// A user whose 16 KB hardly compress, the same for the same number.
fn record(number: usize) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut state = number as u64;
    let mut text = || -> String {
        let character = |_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            char::from(ALPHABET[(state >> 58) as usize])
        };
        (0..250).map(character).collect()
    };
    let attributes: serde_json::Map<String, Value> =
        (0..64).map(|n| (format!("text_{n}"), json!(text()))).collect();
    json!({ "external_id": format!("user-{number}"), "custom_attributes": attributes }).to_string()
}

struct Scene {
    fleet: Fleet,
    api: Api,
    storage: Option<TestStorage>,
    records: Vec<String>,
}

impl Scene {
    /// `failpoint` is one of the worker.
    async fn new(backend: Backend, storage: Option<TestStorage>, failpoint: Option<&str>) -> Self {
        let mut fleet = Fleet::prepare(backend, &settings(), notice_lost_workers).await;
        let mut workspace = WorkspaceFile::new("acme");
        if let Some(storage) = &storage {
            workspace = workspace.with_storage(storage);
        }
        let api = fleet.apply(std::slice::from_ref(&workspace)).await.remove(0);
        let records: Vec<String> = (0..USERS).map(record).collect();
        fleet.import("acme", &records).await;
        fleet.launch_all(failpoint.map(|point| ("worker-1", point))).await;
        Self { fleet, api, storage, records }
    }

    /// Starts the worker again, with another fail point.
    async fn launch_failing(&mut self, failpoint: &str) {
        self.fleet.terminate("worker-1").await;
        self.fleet.launch_with("worker-1", &[("FAILPOINTS", failpoint)]).await;
        self.fleet.ready("worker-1").await;
    }

    async fn request(&self, format: Option<&str>) -> Accepted {
        let mut body = json!({ "fields_to_export": ALL_FIELDS });
        if let Some(format) = format {
            body["output_format"] = json!(format);
        }
        self.api.export(&body).await
    }

    /// Cancels an export, as a client does: 503 asks it to repeat the request. A worker that is
    /// stopped in a transaction, such as that of its lease, holds a lock until the database ends
    /// the session.
    async fn cancel(&self, accepted: &Accepted) {
        let path = format!("/users/export/{}", accepted.prefix);
        eventually("the export is cancelled", || async {
            let response = self.api.delete(&path).await;
            let outcome = (response.status.as_u16(), &response.body["state"]);
            assert!([200, 503].contains(&outcome.0), "{response:?}");
            assert!(outcome.0 == 503 || outcome.1 == "cancelled", "{response:?}");
            outcome.0 == 200
        })
        .await;
    }

    /// One file with every user once, as its manifest states; and nothing else is left.
    async fn ends_complete(&self, accepted: &Accepted, extension: &str) {
        let prefix = &accepted.prefix;
        let status = self.api.done(prefix).await;
        let days = checker::export_days(&status);
        let wanted = ExpectedExport { fields: &ALL_FIELDS, days, prefix };
        let files = match &self.storage {
            Some(storage) => {
                let segment = self.fleet.segment_id("acme").await;
                checker::own_files(storage, &segment, extension, &wanted).await
            }
            None => checker::downloaded(&self.api.download(accepted.address()).await),
        };
        checker::check_export(&files, 1, &self.records, &wanted);
        if let Some(storage) = &self.storage {
            let only_the_file = || async { storage.list_files().await.len() == 1 };
            eventually("only the file is in own storage", only_the_file).await;
        }
        self.has_no_pieces().await;
    }

    async fn has_no_pieces(&self) {
        let config = self.fleet.config();
        let secrets = config.secret_key().unwrap();
        let objects = Objects::open(&config.objects_url(), &secrets).await.unwrap();
        let none = || async {
            let entries = objects.list("exports/").await.unwrap();
            !entries.iter().any(|entry| entry.key.contains("/parts/"))
        };
        eventually("no piece is left", none).await;
    }
}

async fn is_exported(backend: Backend, storage: Option<TestStorage>, format: Option<&str>) {
    let scene = Scene::new(backend, storage, None).await;
    let accepted = scene.request(format).await;
    scene.ends_complete(&accepted, if format == Some("gzip") { "gz" } else { "zip" }).await;
    let worker = if backend == Backend::Embedded { "standalone" } else { "worker-1" };
    let peak = scene.fleet.peak(worker);
    assert!(peak < MAX_RESIDENT, "{} MB resident", peak >> 20);
    scene.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_zip_is_written_to_s3() {
    is_exported(Backend::Fleet(1), Some(TestStorage::s3().await), Some("zip")).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "scripts/test --all"]
async fn a_large_gzip_file_is_written_to_s3() {
    is_exported(Backend::Embedded, Some(TestStorage::s3().await), Some("gzip")).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "scripts/test --all"]
async fn a_large_zip_is_written_to_azure() {
    is_exported(Backend::Embedded, Some(TestStorage::azure().await), Some("zip")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_gzip_file_is_written_to_azure() {
    is_exported(Backend::Fleet(1), Some(TestStorage::azure().await), Some("gzip")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_file_is_behind_the_url() {
    is_exported(Backend::Embedded, None, None).await;
}

/// Between two pieces, before the upload, in it, and after it.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_killed_leaves_a_large_file_to_another_attempt() {
    let storage = Some(TestStorage::s3().await);
    let mut scene = Scene::new(Backend::Fleet(1), storage, None).await;
    for point in ["part::piece@2", "part::packed", "part::sending@60", "part::uploaded"] {
        scene.launch_failing(&format!("{point}=kill")).await;
        let accepted = scene.request(None).await;
        scene.fleet.wait_until_exited("worker-1").await;
        scene.fleet.launch("worker-1").await;
        scene.ends_complete(&accepted, "zip").await;
        // The next file is to be the only one.
        let storage = scene.storage.as_ref().expect("own storage");
        storage.destroy().await;
        storage.restore().await;
    }
    scene.fleet.close().await;
}

/// The worker sleeps beyond its lease, another one writes the file, and the first one continues.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_wakes_does_not_replace_a_large_file() {
    for storage in [TestStorage::s3().await, TestStorage::azure().await] {
        let point = "part::sending@60=stop";
        let mut scene = Scene::new(Backend::Fleet(2), Some(storage), Some(point)).await;
        let accepted = scene.request(None).await;
        // Whichever worker got the part: only the first one can stop.
        let stopped_or_done = || async {
            let is_done = scene.api.status(&accepted.prefix).await["state"] == "done";
            is_done || scene.fleet.is_stopped("worker-1")
        };
        eventually("worker-1 has stopped, or did not get the part", stopped_or_done).await;
        scene.api.done(&accepted.prefix).await;
        scene.fleet.resume("worker-1");
        scene.ends_complete(&accepted, "zip").await;
        scene.fleet.close().await;
    }
}

/// Cancelled between two pieces, and in the upload.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_large_file_leaves_nothing() {
    let storage = Some(TestStorage::s3().await);
    let mut scene = Scene::new(Backend::Fleet(1), storage, None).await;
    for point in ["part::piece@2=stop", "part::sending@60=stop"] {
        scene.launch_failing(point).await;
        let accepted = scene.request(None).await;
        eventually("the worker is at its fail point", || async {
            scene.fleet.is_stopped("worker-1")
        })
        .await;
        scene.cancel(&accepted).await;
        scene.fleet.resume("worker-1");
        let storage = scene.storage.as_ref().expect("own storage");
        eventually("nothing is left", || async { storage.list().await.is_empty() }).await;
        scene.has_no_pieces().await;
        assert_eq!(scene.api.status(&accepted.prefix).await["state"], "cancelled");
    }
    scene.fleet.close().await;
}

/// A large file that is being uploaded keeps its memory for as long as its storage is slow. Other
/// parts of the workspace wait, and another workspace has enough for its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_storage_of_a_workspace_stops_no_export_of_others() {
    let (storage, settings) = (TestStorage::s3().await, settings());
    // In two files, with memory for the uploads of both.
    let settings = settings.map(|(name, value)| match name {
        "LONGSHORE_EXPORTS__USERS_PER_FILE" => (name, (USERS / 2).to_string()),
        "LONGSHORE_EXPORTS__MEMORY_BYTES" => (name, (72 << 20).to_string()),
        _ => (name, value),
    });
    let proxy = Proxy::to(storage.endpoint()).await;
    let fleet = Fleet::start(Backend::Embedded, &settings).await;
    let slow = WorkspaceFile::new("slow").with_storage(&storage.at(&proxy.endpoint()));
    let apis = fleet.apply(&[slow, WorkspaceFile::new("quick")]).await;
    fleet.import("slow", &(0..USERS).map(record).collect::<Vec<_>>()).await;
    fleet.import("quick", &[user_records::simple(1, 1)]).await;
    proxy.set(ProxyMode::Slow(Duration::from_millis(250)));
    let large = apis[0].export_all().await;
    let held = format!("longshore_memory_bytes{{budget=\"exports\"}} {STREAM_MEMORY_BYTES}");
    eventually("a file is being uploaded", || async {
        fleet.metrics("standalone").await.lines().any(|line| line == held)
    })
    .await;
    proxy.set(ProxyMode::Stuck);
    let api = apis[1].clone().with_timeout(Duration::from_secs(60));
    let small = api.export_all().await;
    api.done(&small.prefix).await;
    let status = apis[0].status(&large.prefix).await;
    assert_eq!((&status["state"], files_done(&status)), (&json!("running"), 0), "{status}");
    proxy.set(ProxyMode::Open);
    apis[0].done(&large.prefix).await;
    fleet.close().await;
}
