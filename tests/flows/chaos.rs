//! Workers are killed and stopped at random moments of exports; what lies in the bucket in the
//! end, and what the receiver of callbacks was told, is looked at from outside.
//! `scripts/chaos export` runs it at full size; without it, a small form is a test like others.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};

use crate::support::api::ALL_FIELDS;
use crate::support::checker::{self, Wanted};
use crate::support::fleet::{Backend, Fleet};
use crate::support::places::Place;
use crate::support::proxy::{Proxy, Way};
use crate::support::receiver::Receiver;
use crate::support::{WorkspaceFile, callbacks, eventually, leftovers, servers};

const WORKERS: [&str; 3] = ["worker-1", "worker-2", "worker-3"];

const LEASE: Duration = Duration::from_secs(2);

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
        let number = |name: &str| -> Option<u64> {
            let text = std::env::var(format!("CHAOS_{name}")).ok()?;
            Some(text.parse().unwrap_or_else(|_| panic!("CHAOS_{name} is no number: {text}")))
        };
        let count = |name, small| number(name).map_or(small, |number| number as usize);
        Self {
            users: count("USERS", 10_000),
            per_file: count("PER_FILE", 250),
            kills: count("KILLS", 6),
            stops: count("STOPS", 2),
            seed: number("SEED").unwrap_or_else(rand::random),
        }
    }
}

struct Chaos {
    fleet: Fleet,
    random: StdRng,
    kills: usize,
    stops: usize,
}

impl Chaos {
    /// Does something to a worker, as long as there is something left to do.
    async fn strike(&mut self) {
        let worker = WORKERS[self.random.random_range(0..WORKERS.len())];
        let left = self.kills + self.stops;
        if left == 0 {
            return;
        }
        if self.random.random_range(0..left) < self.kills {
            self.kills -= 1;
            println!("  kill -9 {worker}");
            self.fleet.kill(worker);
            self.pause(0..1_000).await;
            self.fleet.launch_with(worker, &[]).await;
        } else {
            self.stops -= 1;
            println!("  SIGSTOP {worker}, past its lease");
            self.fleet.stop(worker);
            tokio::time::sleep(LEASE * 2).await;
            self.fleet.go_on(worker);
        }
    }

    async fn pause(&mut self, milliseconds: std::ops::Range<u64>) {
        let pause = Duration::from_millis(self.random.random_range(milliseconds));
        tokio::time::sleep(pause).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn chaos() {
    let scale = Scale::from_environment();
    println!("{} users, seed {} (CHAOS_SEED repeats the choices)", scale.users, scale.seed);
    let place = Place::s3().await;
    let proxy = Proxy::to(&servers::variable("LONGSHORE_TEST_S3_ENDPOINT")).await;
    let settings = [
        ("LONGSHORE_EXPORTS__USERS_PER_FILE", scale.per_file.to_string()),
        ("LONGSHORE_EXPORTS__ATTEMPTS", "100".to_owned()),
        ("LONGSHORE_EXPORTS__REQUEUE_SECONDS", "2".to_owned()),
        ("LONGSHORE_WORKER__LEASE_MS", LEASE.as_millis().to_string()),
    ];
    let fleet = Fleet::start(Backend::Fleet(WORKERS.len()), &settings).await;
    let workspace = WorkspaceFile::new("acme").with_storage(&place.at(&proxy.endpoint()));
    let api = fleet.apply(std::slice::from_ref(&workspace)).await.remove(0);
    let (users, seed) = (scale.users, scale.seed);
    fleet
        .shell(&format!(
            "\"$LONGSHORE\" generate --users {users} --seed {seed} > users.ndjson; \
             \"$LONGSHORE\" import users.ndjson > import.out"
        ))
        .await;
    let records = std::fs::read_to_string(fleet.directory().join("users.ndjson"));
    let records: Vec<String> = records.expect("the users").lines().map(str::to_owned).collect();
    let receiver = Receiver::start([]).await;
    let mut chaos = Chaos {
        fleet,
        random: StdRng::seed_from_u64(scale.seed),
        kills: scale.kills,
        stops: scale.stops,
    };

    // So that there is something under way to be hit.
    proxy.set(Way::Slow(Duration::from_millis(20)));
    let mut exports = Vec::new();
    while chaos.kills + chaos.stops > 0 {
        let path = format!("/{}", exports.len());
        let body =
            json!({ "fields_to_export": ALL_FIELDS, "callback_endpoint": receiver.url(&path) });
        let (prefix, began) = (api.export(&body).await.prefix, Instant::now());
        println!("export {prefix}");
        let is_open = |state: &Value| {
            ["queued", "planning", "running", "finishing"].iter().any(|open| state == open)
        };
        while is_open(&api.status(&prefix).await["state"]) {
            chaos.pause(0..700).await;
            if is_open(&api.status(&prefix).await["state"]) {
                chaos.strike().await;
            }
        }
        println!("  ended after {:.1} s", began.elapsed().as_secs_f64());
        exports.push((prefix, path));
    }
    proxy.set(Way::Open);

    let Chaos { mut fleet, .. } = chaos;
    for worker in WORKERS {
        fleet.ready(worker).await;
    }
    let segment = fleet.segment_id(&workspace.name).await;
    let parts = scale.users.div_ceil(scale.per_file);
    for (prefix, path) in &exports {
        let status = api.done(prefix).await;
        let wanted = Wanted { fields: &ALL_FIELDS, days: checker::days_of(&status), prefix };
        let files = checker::own_files(&place, &segment, "zip", &wanted).await;
        checker::check_whole(&files, parts, &records, &wanted);
        eventually("the callback is there", || async {
            receiver.received().iter().any(|one| one.uri.path() == path)
        })
        .await;
    }
    // One callback an export: repeated requests are of the same id.
    let mut ids: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for one in receiver.received() {
        let told = callbacks::verified(&one, &workspace.callback_secret);
        assert_eq!(told, json!({ "success": true }));
        ids.entry(one.uri.path().to_owned()).or_default().push(one.header("webhook-id").to_owned());
    }
    for (path, mut ids) in ids {
        ids.dedup();
        assert_eq!(ids.len(), 1, "callbacks at {path}");
    }
    eventually("only the files of the exports are left", || async {
        place.list().await.len() == parts * exports.len()
    })
    .await;
    leftovers::no_work(&fleet).await;
    leftovers::a_day_passes(&fleet).await;
    assert_eq!(place.list().await.len(), parts * exports.len());
    println!("{} exports, each of every user once; nothing is left over", exports.len());
    fleet.close().await;
}
