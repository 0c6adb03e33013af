//! The surroundings of a fleet fail in the middle of exports: the database, the broker, the bucket,
//! the receiver of callbacks, the disk. Whatever it is, nothing spins while it lasts, and once it
//! is over all continues by itself, or has failed with a cause that says what to do.
//!
//! `OUTAGE_SECONDS` says how long each outage lasts; `scripts/chaos outages` makes it a minute.

mod broker;
mod bucket;
mod crash;
mod credentials;
mod database;
mod disk;
mod read_only;
mod receiver;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::api::{ALL_FIELDS, Accepted, Api, files_done};
use crate::support::checker::{self, ExpectedExport};
use crate::support::fleet::{Backend, Fleet};
use crate::support::http_proxy::{HttpProxy, NO_FAULT};
use crate::support::proxy::{Proxy, ProxyMode};
use crate::support::receiver::Receiver;
use crate::support::storage::TestStorage;
use crate::support::{WorkspaceFile, callbacks, eventually, open_work, servers, user_records};

/// Users in a file.
const PER_FILE: usize = 10;

/// So slow is the way to the bucket that exports last as long as a test wants.
const SLOW: ProxyMode = ProxyMode::Slow(Duration::from_millis(400));

/// What a network or a server that is broken does to all that go there.
const BROKEN_WAYS: [ProxyMode; 4] =
    [ProxyMode::Refused, ProxyMode::Stuck, ProxyMode::Unanswered, ProxyMode::Garbled];

/// What a process may use of one processor while something is down, and print a second.
const CPU_SHARE: f64 = 0.5;
const LINES_A_SECOND: f64 = 50.0;

/// How long each outage lasts: longer than leases and the timeouts of clients are here.
fn outage() -> Duration {
    let seconds = std::env::var("OUTAGE_SECONDS").ok();
    let seconds = seconds.map(|text| text.parse().expect("OUTAGE_SECONDS is a number"));
    Duration::from_secs_f64(seconds.unwrap_or(1.5))
}

fn settings() -> Vec<(&'static str, String)> {
    [
        ("LONGSHORE_EXPORTS__USERS_PER_FILE", PER_FILE.to_string().as_str()),
        ("LONGSHORE_EXPORTS__PARTS_IN_FLIGHT", "1"),
        ("LONGSHORE_EXPORTS__ATTEMPTS", "1000"),
        ("LONGSHORE_EXPORTS__RETRY_MS", "20"),
        ("LONGSHORE_EXPORTS__REQUEUE_SECONDS", "1"),
        ("LONGSHORE_WORKER__LEASE_MS", "1000"),
        ("LONGSHORE_DELIVERIES__RETRY_MS", "50"),
        ("LONGSHORE_DELIVERIES__TIMEOUT_SECONDS", "1"),
        ("LONGSHORE_LOG__APPEND_TIMEOUT_MS", "1000"),
        ("LONGSHORE_LOG__KAFKA__SESSION_TIMEOUT_MS", "2000"),
        ("LONGSHORE_LOG__KAFKA__HEARTBEAT_INTERVAL_MS", "500"),
    ]
    .map(|(name, value)| (name, value.to_owned()))
    .into()
}

/// Lets the fault that has begun last, and sees that no process spins meanwhile.
async fn endure(fleet: &Fleet, fault: &str) {
    let (before, since) = (fleet.process_usage(), Instant::now());
    tokio::time::sleep(outage()).await;
    let (after, seconds) = (fleet.process_usage(), since.elapsed().as_secs_f64());
    for (name, before) in before {
        let cpu = (after[&name].cpu - before.cpu).as_secs_f64();
        let lines = (after[&name].lines - before.lines) as f64;
        println!("{fault}: {name} used {cpu:.2} s of {seconds:.1} s and printed {lines} lines");
        assert!(cpu <= seconds * CPU_SHARE, "{name} spins: {cpu} s of {seconds} s");
        assert!(lines <= seconds * LINES_A_SECOND, "{name} printed {lines} lines");
    }
}

/// A fleet, with a proxy on each way out of it.
struct Scene {
    fleet: Fleet,
    api: Api,
    workspace: WorkspaceFile,
    records: Vec<String>,
    /// Files of an export.
    parts: usize,
    storage: TestStorage,
    /// The way to the bucket, on which requests can be tampered with before its end.
    bucket: Proxy,
    http_proxy: HttpProxy,
    database: Proxy,
    broker: Proxy,
    /// The way to the receiver.
    callbacks: Proxy,
    receiver: Receiver,
}

impl Scene {
    /// Exports are of so many `parts`.
    async fn new(storage: TestStorage, parts: usize) -> Self {
        Self::with(storage, parts, &servers::variable("LONGSHORE_TEST_POSTGRES")).await
    }

    /// `database` says where the server is, and the login.
    async fn with(storage: TestStorage, parts: usize, database: &str) -> Self {
        let http_proxy = HttpProxy::start(storage.endpoint(), NO_FAULT).await;
        let bucket = Proxy::to(&http_proxy.endpoint()).await;
        let receiver = Receiver::start([]).await;
        let callbacks = Proxy::to(&receiver.url("/")).await;
        let broker = Proxy::to_kafka(&servers::kafka()).await;
        let user = url::Url::parse(database).expect("an address").username().to_owned();
        let database = Proxy::to(database).await;
        let fleet = Fleet::start_with(Backend::Fleet(2), &settings(), |environment| {
            let url = environment.get_mut("LONGSHORE_DATABASE_URL").expect("a database");
            let mut led = url::Url::parse(&database.instead_of(url)).expect("an address");
            led.set_username(&user).expect("an address with a user");
            *url = led.into();
            let log = format!("kafka://{}", broker.address());
            environment.insert("LONGSHORE_LOG_URL".to_owned(), log);
        })
        .await;
        let led = storage.at(&bucket.instead_of(&http_proxy.endpoint()));
        let workspace = WorkspaceFile::new("acme").with_storage(&led);
        let api = fleet.apply(std::slice::from_ref(&workspace)).await.remove(0);
        let records: Vec<String> =
            (0..parts * PER_FILE).map(|number| user_records::simple(number, 1)).collect();
        fleet.import("acme", &records).await;
        Self {
            fleet,
            api,
            workspace,
            records,
            parts,
            storage,
            bucket,
            http_proxy,
            database,
            broker,
            callbacks,
            receiver,
        }
    }

    /// The callback of each export goes to a path of its own.
    async fn request(&self, path: &str) -> Accepted {
        let address = self.callbacks.instead_of(&self.receiver.url(path));
        self.api
            .export(&json!({ "fields_to_export": ALL_FIELDS, "callback_endpoint": address }))
            .await
    }

    /// An export in the middle of its files, which come slowly from now on.
    async fn half_done(&self, path: &str) -> Accepted {
        self.bucket.set(SLOW);
        let accepted = self.request(path).await;
        self.more_files(&accepted, 2).await;
        accepted
    }

    /// Waits until the export, which continues, has so many files more.
    async fn more_files(&self, accepted: &Accepted, count: u64) {
        let before = files_done(&self.api.status(&accepted.prefix).await);
        self.api.wait_for_files(&accepted.prefix, before + count).await;
    }

    /// All processes are ready again, and miss nothing.
    async fn recovered(&self) {
        for name in ["gateway", "worker-1", "worker-2"] {
            eventually(&format!("{name} is ready again"), || async {
                self.fleet.readiness(name).await == (200, "ready\n".into())
            })
            .await;
        }
    }

    /// The export ends whole, and is called back once.
    async fn ends_whole(&self, accepted: &Accepted, path: &str) {
        self.bucket.set(ProxyMode::Open);
        let status = self.api.done(&accepted.prefix).await;
        let days = checker::export_days(&status);
        let wanted = ExpectedExport { fields: &ALL_FIELDS, days, prefix: &accepted.prefix };
        let segment = self.fleet.segment_id(&self.workspace.name).await;
        let files = checker::own_files(&self.storage, &segment, "zip", &wanted).await;
        checker::check_export(&files, self.parts, &self.records, &wanted);
        self.is_called_back(path, &json!({ "success": true })).await;
    }

    /// Requests that came for `path` are of one delivery, and say `body`.
    async fn is_called_back(&self, path: &str, body: &Value) {
        let secret = &self.workspace.callback_secret;
        let mut told = callbacks::callback_at(&self.receiver, path, secret).await;
        if told["success"] == true {
            told = callbacks::without_manifest(told);
        }
        assert_eq!(told, *body);
    }

    /// Of all that happened only the files of whole exports are left.
    async fn leaves_only(self, exports: usize) {
        open_work::wait_until_done(&self.fleet).await;
        open_work::expire_exports(&self.fleet).await;
        eventually("only the files of whole exports are left", || async {
            self.storage.list_files().await.len() == exports * self.parts
        })
        .await;
        self.fleet.close().await;
    }
}
