//! Workers are killed and stopped at random moments of exports; the objects in the bucket and the
//! received callbacks are checked from outside at the end. `scripts/chaos export` runs it at full
//! size; without it, a small form is a test like others.

mod all;
mod books;
mod client;
mod clocks;
mod faults;
mod gates;
mod herd;
mod ingest;
mod ledger;
mod load;
mod messages;
mod recovery;
mod restore;
mod soak;
mod stage;
mod steps;
mod taken;
mod upgrade;

use std::process::Command;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::json;

use crate::support::api::{ALL_FIELDS, Api};
use crate::support::checker::{self, ExpectedExport, Records};
use crate::support::fleet::{Backend, Fleet};
use crate::support::proxy::{Proxy, ProxyMode};
use crate::support::receiver::Receiver;
use crate::support::storage::TestStorage;
use crate::support::{WorkspaceFile, callbacks, eventually, open_work};

const WORKERS: [&str; 3] = ["worker-1", "worker-2", "worker-3"];

const LEASE: Duration = Duration::from_secs(2);

/// A number that `scripts/chaos` asks for.
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(format!("CHAOS_{name}")).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("CHAOS_{name} is no number: {text}")))
}

fn count(name: &str, small: usize) -> usize {
    number(name).map_or(small, |number| number as usize)
}

/// What all choices follow from; prints it.
fn seed() -> u64 {
    let seed = number("SEED").unwrap_or_else(rand::random);
    println!("seed {seed} (CHAOS_SEED repeats the choices)");
    seed
}

/// How much there is to do.
struct Scale {
    users: usize,
    per_file: usize,
    kills: usize,
    stops: usize,
    seed: u64,
}

impl Scale {
    /// As `scripts/chaos` asks, or small.
    fn from_environment() -> Self {
        Self {
            users: count("USERS", 10_000),
            per_file: count("PER_FILE", 250),
            kills: count("KILLS", 6),
            stops: count("STOPS", 2),
            seed: seed(),
        }
    }

    /// How long an export may take: many times as long as it does.
    fn export_timeout(&self) -> Duration {
        Duration::from_secs(600) + Duration::from_millis(1) * self.users as u32
    }
}

/// Exports of many users on the real servers, over a way to the S3 server that can be slow.
struct Scene {
    fleet: Fleet,
    api: Api,
    storage: TestStorage,
    proxy: Proxy,
    workspace: WorkspaceFile,
    receiver: Receiver,
    records: Records,
    files: usize,
    /// Each export's prefix; its callback goes to a path of that name.
    exports: Vec<String>,
}

impl Scene {
    async fn new(scale: &Scale) -> Self {
        println!("{} users", scale.users);
        let storage = TestStorage::s3().await;
        let proxy = Proxy::to(storage.endpoint()).await;
        let settings = [
            ("LONGSHORE_EXPORTS__USERS_PER_FILE", scale.per_file.to_string()),
            ("LONGSHORE_EXPORTS__ATTEMPTS", "100".to_owned()),
            ("LONGSHORE_EXPORTS__REQUEUE_SECONDS", "2".to_owned()),
            ("LONGSHORE_WORKER__LEASE_MS", LEASE.as_millis().to_string()),
        ];
        let fleet = Fleet::start(Backend::Fleet(WORKERS.len()), &settings).await;
        let workspace = WorkspaceFile::new("acme").with_storage(&storage.at(&proxy.endpoint()));
        let api = fleet.apply(std::slice::from_ref(&workspace)).await.remove(0);
        let api = api.with_timeout(scale.export_timeout());
        let (users, seed) = (scale.users, scale.seed);
        fleet
            .shell(&format!(
                "\"$LONGSHORE\" generate --users {users} --seed {seed} | tee users.ndjson | \
                 \"$LONGSHORE\" import - > import.out"
            ))
            .await;
        let records = Records::open(&fleet.directory().join("users.ndjson"));
        assert_eq!(records.count(), users);
        let files = users.div_ceil(scale.per_file);
        let receiver = Receiver::start([]).await;
        Self {
            fleet,
            api,
            storage,
            proxy,
            workspace,
            receiver,
            records,
            files,
            exports: Vec::new(),
        }
    }

    /// Asks for an export of all fields, with a callback.
    async fn begin(&mut self) -> String {
        let path = format!("/{}", self.exports.len());
        let callback = self.receiver.url(&path);
        let body = json!({ "fields_to_export": ALL_FIELDS, "callback_endpoint": callback });
        let prefix = self.api.export(&body).await.prefix;
        println!("export {prefix}");
        self.exports.push(prefix.clone());
        prefix
    }

    async fn is_open(&self, prefix: &str) -> bool {
        let state = &self.api.status(prefix).await["state"];
        ["queued", "planning", "running", "finishing"].iter().any(|open| state == open)
    }

    /// Looks at everything from outside, and ends.
    async fn check(mut self) {
        for worker in WORKERS {
            self.fleet.ready(worker).await;
        }
        let segment = self.fleet.segment_id(&self.workspace.name).await;
        for prefix in &self.exports {
            let status = self.api.done(prefix).await;
            let wanted =
                ExpectedExport { fields: &ALL_FIELDS, days: checker::export_days(&status), prefix };
            self.records.check(&self.storage, &segment, self.files, &wanted).await;
        }
        let files = self.files * self.exports.len();
        eventually("only the files of the exports are left", || async {
            self.storage.list_files().await.len() == files
        })
        .await;
        open_work::wait_until_done(&self.fleet).await;
        for number in 0..self.exports.len() {
            let (path, secret) = (format!("/{number}"), &self.workspace.callback_secret);
            let told = callbacks::callback_at(&self.receiver, &path, secret).await;
            assert_eq!(callbacks::without_manifest(told), json!({ "success": true }));
        }
        open_work::expire_exports(&self.fleet).await;
        assert_eq!(self.storage.list_files().await.len(), files);
        println!("{} exports, each of every user once; nothing is left over", self.exports.len());
        self.fleet.close().await;
    }
}

/// What is still to be done to the workers.
struct Strikes {
    random: StdRng,
    kills: usize,
    stops: usize,
}

impl Strikes {
    fn left(&self) -> usize {
        self.kills + self.stops
    }

    /// Does something to a worker, which no other cause may have ended.
    async fn strike(&mut self, fleet: &mut Fleet) {
        let worker = WORKERS[self.random.random_range(0..WORKERS.len())];
        assert!(fleet.is_running(worker), "{worker} has ended by itself");
        if self.random.random_range(0..self.left()) < self.kills {
            self.kills -= 1;
            println!("  kill -9 {worker}");
            fleet.kill(worker);
            self.pause(0..1_000).await;
            fleet.launch_with(worker, &[]).await;
        } else {
            self.stops -= 1;
            println!("  SIGSTOP {worker}, past its lease");
            fleet.stop(worker);
            tokio::time::sleep(LEASE * 2).await;
            fleet.resume(worker);
        }
    }

    async fn pause(&mut self, milliseconds: std::ops::Range<u64>) {
        let pause = Duration::from_millis(self.random.random_range(milliseconds));
        tokio::time::sleep(pause).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "scripts/test --all"]
async fn chaos() {
    let scale = Scale::from_environment();
    let mut scene = Scene::new(&scale).await;
    let mut strikes = Strikes {
        random: StdRng::seed_from_u64(scale.seed),
        kills: scale.kills,
        stops: scale.stops,
    };
    // So that there is something in progress to be hit.
    scene.proxy.set(ProxyMode::Slow(Duration::from_millis(20)));
    while strikes.left() > 0 {
        let (prefix, began) = (scene.begin().await, Instant::now());
        while strikes.left() > 0 && scene.is_open(&prefix).await {
            strikes.pause(0..700).await;
            if scene.is_open(&prefix).await {
                strikes.strike(&mut scene.fleet).await;
            }
        }
        scene.api.done(&prefix).await;
        println!("  ended after {:.1} s", began.elapsed().as_secs_f64());
    }
    scene.proxy.set(ProxyMode::Open);
    scene.check().await;
}

/// The servers that all share. Dropped, they run again.
struct Servers {
    since: Instant,
    /// What makes them as before, to whatever end the test comes.
    remedies: &'static [&'static str],
}

impl Servers {
    fn new(remedies: &'static [&'static str]) -> Self {
        Self { since: Instant::now(), remedies }
    }

    /// Runs `scripts/services` with these words.
    async fn tell(&self, words: &str) {
        println!("  after {:.1} s: {words}", self.since.elapsed().as_secs_f64());
        let told = words.to_owned();
        let done = tokio::task::spawn_blocking(move || services(&told)).await;
        assert!(done.expect("it was waited for"), "scripts/services {words}");
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for words in self.remedies {
            if !services(words) {
                eprintln!("this is left to be done: scripts/services {words}");
            }
        }
    }
}

/// Whether `scripts/services` succeeds with these words.
fn services(words: &str) -> bool {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/services");
    let status = Command::new(script).args(words.split(' ')).status();
    status.is_ok_and(|status| status.success())
}
