//! Gateways and workers are killed at random moments while clients track, and in the long form
//! the servers behind them are started again. In the end an export and the store are held
//! against what was acknowledged: nothing is lost, nothing counts twice, and who was erased
//! stays erased.
//!
//! `scripts/chaos ingest` runs it at full size; without it, a small form is a test like others.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::json;
use sqlx::Connection as _;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::client::{CLIENTS, Client, Progress, Quota, Users, number_of};
use super::ledger::{EUR_RATE, FIELDS, Ledger};
use super::{Servers, count, seed};
use crate::support::checker::{self, ExpectedExport};
use crate::support::fleet::{Backend, Fleet};
use crate::support::process::free_port;
use crate::support::storage::TestStorage;
use crate::support::{Api, WorkspaceFile, open_work, stores};

const PROCESSES: [&str; 5] = ["gateway", "gateway-2", "worker-1", "worker-2", "worker-3"];

/// How much there is to do.
struct Scale {
    users: usize,
    quota: Quota,
    kills: usize,
    seed: u64,
}

impl Scale {
    /// As `scripts/chaos` asks, or small.
    fn from_environment() -> Self {
        Self {
            users: count("USERS", 50_000),
            quota: Quota {
                purchases: count("PURCHASES", 100_000),
                events: count("EVENTS", 20_000),
            },
            kills: count("KILLS", 6),
            seed: seed(),
        }
    }
}

struct Scene {
    fleet: Fleet,
    gateways: Vec<Api>,
    /// Where the second gateway listens.
    second: String,
    storage: TestStorage,
    workspace: WorkspaceFile,
    users: Arc<Users>,
}

impl Scene {
    async fn new(scale: &Scale) -> Self {
        let Quota { purchases, events } = scale.quota;
        println!("{purchases} purchases and {events} events of {} users", scale.users);
        let settings = [
            ("LONGSHORE_LOG__PARTITIONS", "6".to_owned()),
            // With it the lease of a request whose gateway was killed is short.
            ("LONGSHORE_LOG__APPEND_TIMEOUT_MS", "3000".to_owned()),
            ("LONGSHORE_WORKER__LEASE_MS", "2000".to_owned()),
        ];
        let mut fleet = Fleet::start(Backend::Fleet(3), &settings).await;
        let storage = TestStorage::s3().await;
        let workspace = WorkspaceFile::new("acme")
            .unlimited()
            .with_storage(&storage)
            .with("exchange_rates", json!({ "EUR": EUR_RATE }));
        let api = fleet.apply(std::slice::from_ref(&workspace)).await.remove(0);
        let second = format!("127.0.0.1:{}", free_port());
        let other = Api::new(&format!("http://{second}"), &workspace.key);
        fleet.launch_with(PROCESSES[1], &[("LONGSHORE_LISTEN", &second)]).await;
        fleet.ready(PROCESSES[1]).await;
        let records: Vec<String> = (0..scale.users).map(Users::record).collect();
        fleet.import(&workspace.name, &records).await;
        let users = Arc::new(Users {
            service_ids: service_ids(&fleet.database_url(), scale.users).await,
            new: scale.users / 100,
            until: jiff::Timestamp::now().as_millisecond(),
            some_are_erased: true,
        });
        Self { fleet, gateways: vec![api, other], second, storage, workspace, users }
    }

    fn clients(&self, scale: &Scale) -> Clients {
        let progress = Arc::new(Progress::default());
        let mut running = JoinSet::new();
        for number in 0..CLIENTS {
            let share = |all: usize| all / CLIENTS + usize::from(number < all % CLIENTS);
            let quota = Quota {
                purchases: share(scale.quota.purchases),
                events: share(scale.quota.events),
            };
            let way = (self.gateways.clone(), self.fleet.operator());
            let (users, progress) = (self.users.clone(), progress.clone());
            running.spawn(Client::new(number, users, way, quota, scale.seed, progress).run());
        }
        Clients { running, progress, ledger: Ledger::default() }
    }

    /// Does something to a process, which no other cause may have ended.
    async fn kill(&mut self, name: &str, random: &mut StdRng) {
        assert!(self.fleet.is_running(name), "{name} has ended by itself");
        println!("  kill -9 {name}");
        self.fleet.kill(name);
        tokio::time::sleep(Duration::from_millis(random.random_range(0..1_000))).await;
        let listen = [("LONGSHORE_LISTEN", self.second.as_str())];
        let more = if name == PROCESSES[1] { &listen[..] } else { &[] };
        self.fleet.launch_with(name, more).await;
    }

    async fn all_ready(&mut self) {
        for name in PROCESSES {
            self.fleet.ready(name).await;
        }
    }

    /// Holds an export that begins now, and the store, against the ledger.
    async fn check(&self, ledger: &Ledger) {
        let api = self.gateways[0].clone().with_timeout(Duration::from_secs(1_800));
        let prefix = api.export(&json!({ "fields_to_export": FIELDS })).await.prefix;
        let status = api.done(&prefix).await;
        let segment = self.fleet.segment_id(&self.workspace.name).await;
        let days = checker::export_days(&status);
        let wanted = ExpectedExport { fields: &FIELDS, days, prefix: &prefix };
        let known = self.users.service_ids.len();
        let (mut exported, mut by_id) = (HashSet::new(), HashMap::new());
        checker::each_user(&self.storage, &segment, &wanted, |user| {
            let external_id = user["external_id"].as_str();
            let number = number_of(external_id.unwrap_or_else(|| panic!("who is this: {user}")));
            assert!(!self.users.is_erased(number), "{number} is there again: {user}");
            assert!(number < known || ledger.has(number), "nobody made {number}: {user}");
            assert!(exported.insert(number), "{number} is there twice");
            let id: Uuid = user["service_id"].as_str().expect("an id").parse().expect("a UUID");
            assert!(self.users.service_ids.get(number).is_none_or(|known| *known == id), "{user}");
            by_id.insert(id, Some(number));
            ledger.check(number, &user);
        })
        .await;
        let all = (0..known + self.users.new)
            .filter(|number| *number < known || ledger.has(*number))
            .filter(|number| !self.users.is_erased(*number));
        let missing: Vec<usize> = all.filter(|number| !exported.contains(number)).collect();
        assert!(missing.is_empty(), "{} users are missing: {missing:?}", missing.len());
        let database = self.fleet.database_url();
        ledger.check_revenue(&database, &by_id).await;
        self.nothing_of_the_erased(&database).await;
    }

    async fn nothing_of_the_erased(&self, database: &str) {
        let numbers = 0..self.users.service_ids.len();
        let erased = numbers.filter(|number| self.users.is_erased(*number));
        let ids: Vec<Uuid> = erased.map(|number| self.users.service_ids[number]).collect();
        let mut database = sqlx::PgConnection::connect(database).await.expect("PostgreSQL answers");
        for sql in [
            "SELECT count(*) FROM users WHERE service_id = ANY($1)",
            "SELECT count(*) FROM activity WHERE service_id = ANY($1)",
            "SELECT count(*) FROM identifiers WHERE service_id = ANY($1)",
            "SELECT count(*) FROM emails WHERE service_id = ANY($1)",
        ] {
            let count: i64 =
                sqlx::query_scalar(sql).bind(&ids).fetch_one(&mut database).await.expect(sql);
            assert_eq!(count, 0, "{sql}");
        }
    }
}

/// The ids that the store gave to users, by number.
pub async fn service_ids(database: &str, users: usize) -> Vec<Uuid> {
    let mut database = sqlx::PgConnection::connect(database).await.expect("PostgreSQL answers");
    let sql = "SELECT external_id, service_id FROM users";
    let rows: Vec<(String, Uuid)> =
        sqlx::query_as(sql).fetch_all(&mut database).await.expect("users are read");
    assert_eq!(rows.len(), users);
    let mut ids = vec![Uuid::nil(); users];
    rows.iter().for_each(|(external_id, id)| ids[number_of(external_id)] = *id);
    ids
}

struct Clients {
    running: JoinSet<Ledger>,
    progress: Arc<Progress>,
    /// Of those who are done.
    ledger: Ledger,
}

impl Clients {
    /// Waits until so many purchases are acknowledged. A client that fails ends the test.
    async fn have_bought(&mut self, purchases: usize) {
        while self.progress.purchases.load(Ordering::SeqCst) < purchases {
            tokio::select! {
                Some(done) = self.running.join_next() => self.end(done),
                () = tokio::time::sleep(Duration::from_millis(5)) => {}
            }
        }
    }

    fn end(&mut self, done: Result<Ledger, tokio::task::JoinError>) {
        match done {
            Ok(ledger) => self.ledger.merge(ledger),
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    async fn done(mut self) -> (Ledger, Arc<Progress>) {
        while let Some(done) = self.running.join_next().await {
            self.end(done);
        }
        (self.ledger, self.progress)
    }
}

/// What is done meanwhile.
enum Strike {
    Kill(&'static str),
    /// `scripts/services restart`
    Restart(&'static str),
}

/// All that is done, in a random order, each once so many purchases are acknowledged.
fn strikes(scale: &Scale, restarts: &[&'static str], random: &mut StdRng) -> Vec<(usize, Strike)> {
    // Each process in its turn: none is spared.
    let kills = PROCESSES.iter().cycle().take(scale.kills).map(|name| Strike::Kill(name));
    let mut strikes: Vec<Strike> = kills.collect();
    strikes.extend(restarts.iter().map(|server| Strike::Restart(server)));
    strikes.shuffle(random);
    let all = scale.quota.purchases;
    let mut moments: Vec<usize> =
        strikes.iter().map(|_| random.random_range(all / 50..all * 19 / 20)).collect();
    moments.sort_unstable();
    moments.into_iter().zip(strikes).collect()
}

async fn ingest_under(restarts: &[&'static str]) {
    let scale = Scale::from_environment();
    let mut scene = Scene::new(&scale).await;
    // Dropped before the scene, which removes what it has on them.
    let servers = Servers::new(if restarts.is_empty() { &[] } else { &[START] });
    let mut random = StdRng::seed_from_u64(scale.seed);
    let (mut clients, began) = (scene.clients(&scale), Instant::now());
    for (purchases, strike) in strikes(&scale, restarts, &mut random) {
        clients.have_bought(purchases).await;
        match strike {
            Strike::Kill(name) => scene.kill(name, &mut random).await,
            Strike::Restart(server) => {
                // Who starts without them ends, and its supervisor starts it again.
                scene.all_ready().await;
                servers.tell(&format!("restart {server}")).await;
            }
        }
    }
    let (ledger, progress) = clients.done().await;
    let figure = |figure: &std::sync::atomic::AtomicUsize| figure.load(Ordering::SeqCst);
    let requests = figure(&progress.requests);
    println!(
        "  {requests} requests, sent again {} times, and {} users erased in {:.1} s",
        figure(&progress.repeats),
        figure(&progress.erased),
        began.elapsed().as_secs_f64()
    );
    scene.all_ready().await;
    scene.fleet.applied().await;
    println!("  all is applied after {:.1} s", began.elapsed().as_secs_f64());
    scene.check(&ledger).await;
    open_work::wait_until_done(&scene.fleet).await;
    let database = scene.fleet.database_url();
    let claims = "SELECT count(*) FROM idempotency_claims";
    assert_eq!(stores::count(&database, claims).await, requests as i64);
    // A response that could not be kept is a response all the same.
    if restarts.is_empty() {
        let open = "SELECT count(*) FROM idempotency_claims WHERE status IS NULL";
        assert_eq!(stores::count(&database, open).await, 0);
    }
    let (purchases, events) = ledger.totals();
    println!("  {purchases} bought and {events} events count once; those erased stay so");
    scene.fleet.close().await;
}

const START: &str = "start kafka postgres";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "scripts/test --all"]
async fn ingest() {
    ingest_under(&[]).await;
}

/// The same with the servers started again in the middle. Others use them, so `scripts/chaos
/// ingest` asks for it alone.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "restarts the servers: scripts/chaos ingest"]
async fn with_servers_on_request() {
    tokio::select! {
        () = ingest_under(&["kafka", "kafka", "postgres"]) => {}
        // What is in progress is dropped, and the servers are as before.
        _ = tokio::signal::ctrl_c() => panic!("interrupted"),
    }
}
