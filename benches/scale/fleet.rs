//! Simulated fleets, on a real database.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use longshore::app::App;
use longshore::config::Config;
use longshore::exports::{Job, State};
use sqlx::PgPool;

use crate::database::{DatabaseMonitor, claims_megabytes, count_statements, print_statements};
use crate::figures::Figures;
use crate::jobs::{ExportRequester, PER_PART};
use crate::machine::Servers;
use crate::settle::settle;
use crate::simulated::{Timings, Worker};
use crate::support::WorkspaceFile;
use crate::support::fleet::{Backend, Fleet};
use crate::support::storage::TestStorage;
use crate::workers::steady;

/// What is to be measured.
pub struct Plan {
    pub users: i64,
    pub workers: Vec<usize>,
    pub part: Duration,
    pub runs: usize,
}

/// After which an export that few workers do is cancelled.
const LONGEST: Duration = Duration::from_secs(15);

/// The same for the first export, during which a large fleet opens its connections.
const LONGEST_FIRST: Duration = Duration::from_secs(60);

/// Connections of each worker: with one thread it is busy with no more, and the test server allows
/// them for two hundred.
const CONNECTIONS: u32 = 5;

/// How long workers look for work where there is none.
const IDLE: Duration = Duration::from_secs(2);

/// Parts of each worker before the export that is measured: by then its connections are open and
/// its statements planned, as of a fleet that has been at work.
const FIRST_PARTS: i64 = 10;

/// Between looks at how far exports are.
const LOOK: Duration = Duration::from_millis(20);

/// Exports that come while a large one is in progress, and their parts.
const SMALL: (usize, i64) = (3, 40);

#[derive(Clone, Copy)]
struct Case {
    workers: usize,
    parts: i64,
    /// Workers look for all that there is to claim, and not only for exports.
    all_roles: bool,
    /// Somebody has a snapshot that is as old as the export.
    old_snapshot: bool,
    /// Small exports come after a while.
    small: bool,
}

impl Case {
    fn name(&self) -> String {
        let more = [
            (self.all_roles, ", all roles"),
            (self.old_snapshot, ", old snapshot"),
            (self.small, ", small exports"),
        ];
        let more: String =
            more.iter().filter(|(is_set, _)| *is_set).map(|(_, name)| *name).collect();
        format!("{} workers, {} parts{more}", self.workers, self.parts)
    }
}

struct Simulation {
    fleet: Fleet,
    config: Config,
    pool: PgPool,
    servers: Servers,
    app: App,
    asker: ExportRequester,
    part: Duration,
    storage: TestStorage,
}

pub async fn measure(plan: &Plan) -> Figures {
    let simulation = Simulation::new(plan.part).await;
    let parts = plan.users / PER_PART;
    let title = format!(
        "simulated workers, a part takes {} ms, {parts} parts are {} users",
        plan.part.as_millis(),
        plan.users
    );
    let mut figures = Figures::new(title);
    let usual = Case { workers: 0, parts, all_roles: false, old_snapshot: false, small: false };
    let mut cases: Vec<Case> =
        plan.workers.iter().map(|workers| Case { workers: *workers, ..usual }).collect();
    let largest = Case { workers: plan.workers.iter().copied().max().unwrap_or(1), ..usual };
    cases.extend([
        Case { all_roles: true, ..largest },
        Case { old_snapshot: true, ..largest },
        Case { small: true, ..largest },
        Case { parts: 5 * parts, ..largest },
    ]);
    for run in 1..=plan.runs {
        println!("run {run} of {}", plan.runs);
        for case in &cases {
            figures.add(&case.name(), simulation.run(*case).await);
        }
    }
    print_statements(&simulation.pool).await;
    simulation.close().await;
    figures
}

impl Simulation {
    async fn new(part: Duration) -> Self {
        let storage = TestStorage::s3().await;
        let settings = [
            ("RUST_LOG", "warn".to_owned()),
            ("LONGSHORE_DATABASE__MAX_CONNECTIONS", CONNECTIONS.to_string()),
            ("LONGSHORE_WORKER__POLL_MS", "500".to_owned()),
        ];
        let fleet = Fleet::start(Backend::Fleet(0), &settings).await;
        fleet.apply(&[WorkspaceFile::new("bench").with_storage(&storage)]).await;
        let config = fleet.config();
        let pool = PgPool::connect(&fleet.database_url()).await.expect("PostgreSQL answers");
        count_statements(&pool).await;
        let servers = Servers::find(&pool).await;
        let app = App::open(config.clone()).await.expect("the app opens");
        let asker = ExportRequester::new(&app, &pool).await;
        Self { fleet, config, pool, servers, app, asker, part, storage }
    }

    async fn run(&self, case: Case) -> Vec<(&'static str, f64)> {
        settle(&self.pool).await;
        let seen = Arc::new(Timings::default());
        let mut workers = Vec::new();
        for _ in 0..case.workers {
            workers.push(Worker::start(&self.config, self.part, case.all_roles, &seen).await);
        }
        let first = self.asker.queue().await;
        self.asker.run(&first, case.workers as i64 * FIRST_PARTS).await;
        self.follow(&first, LONGEST_FIRST).await;
        self.end(&first).await.expect("it is done soon");
        tokio::time::sleep(IDLE).await;
        seen.restart();
        let old = if case.old_snapshot { Some(self.hold_snapshot().await) } else { None };
        let large = self.asker.queue().await;
        let writing = Instant::now();
        self.asker.run(&large, case.parts).await;
        let written = writing.elapsed();
        let (watch, before) = (DatabaseMonitor::begin(&self.pool).await, self.servers.now());
        let smalls = async { if case.small { self.small_exports().await } else { Vec::new() } };
        let (done, small) = tokio::join!(self.follow(&large, LONGEST), smalls);
        let used = self.servers.since(before);
        let watched = watch.end().await;
        let (table, indexes) = claims_megabytes(&self.pool).await;
        let finishing = self.end(&large).await;
        for worker in workers {
            worker.stop().await;
        }
        drop(old);
        let (time, last) = *done.last().expect("a look");
        let per_second = last as f64 / time.as_secs_f64();
        let ideal = case.workers as f64 / self.part.as_secs_f64();
        let mut figures = vec![
            ("parts/s", per_second),
            ("of ideal", per_second / ideal),
            ("steady", steady(&done, last) / ideal),
            ("claim ms", median_ms(&seen.claims, 50)),
            ("claim 99 %", median_ms(&seen.claims, 99)),
            ("done ms", median_ms(&seen.dones, 50)),
            ("done 99 %", median_ms(&seen.dones, 99)),
            ("postgres", used.postgres),
            ("bench", used.bench),
            ("idle", used.idle),
            ("tx/s", watched.transactions),
            ("connections", watched.connections),
            ("busy", watched.busy),
            ("locked", watched.locked),
            ("claims MB", table),
            ("indexes MB", indexes),
            ("written ms", written.as_secs_f64() * 1e3),
        ];
        figures.extend(watched.statements.map(|statements| ("statements/s", statements)));
        figures.extend(finishing.map(|ms| ("finish ms", ms)));
        if !small.is_empty() {
            let mean = small.iter().sum::<f64>() / small.len() as f64;
            // With the large one they are one more to share among.
            let (exports, parts) = SMALL;
            let fair = parts as f64 * (exports + 1) as f64 / ideal;
            figures.extend([("small s", mean), ("fair s", fair + self.part.as_secs_f64())]);
        }
        figures
    }

    /// Until it is done, or for long enough: when so many parts were done.
    async fn follow(&self, job: &Job, longest: Duration) -> Vec<(Duration, i64)> {
        let (began, mut done) = (Instant::now(), Vec::new());
        loop {
            let progress = self.asker.progress(job).await;
            let count = progress.files_done;
            done.push((began.elapsed(), count));
            if Some(count) == progress.parts || began.elapsed() > longest {
                return done;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Seconds that each small export took, next to the large one.
    async fn small_exports(&self) -> Vec<f64> {
        tokio::time::sleep(IDLE).await;
        let (exports, parts) = SMALL;
        let jobs = futures::future::join_all((0..exports).map(|_| async {
            let job = self.asker.queue().await;
            self.asker.run(&job, parts).await;
            let done = self.follow(&job, LONGEST).await;
            let (time, count) = *done.last().expect("a look");
            assert_eq!(count, parts, "a small export takes longer than {LONGEST:?}");
            (job, time.as_secs_f64())
        }));
        let jobs = jobs.await;
        for (job, _) in &jobs {
            self.end(job).await;
        }
        jobs.into_iter().map(|(_, seconds)| seconds).collect()
    }

    /// Waits for the finishing of a job whose parts are done, and says how many milliseconds
    /// that took; cancels any other.
    async fn end(&self, job: &Job) -> Option<f64> {
        let progress = self.asker.progress(job).await;
        if progress.parts_left != Some(0) {
            self.asker.cancel(job).await;
            return None;
        }
        loop {
            let progress = self.asker.progress(job).await;
            if progress.state == State::Done {
                return Some((progress.finished_at? - progress.completed_at?) as f64);
            }
            assert!(!progress.state.is_final(), "{progress:?}");
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn hold_snapshot(&self) -> store::Tx {
        let mut tx = self.app.store.snapshot().await.expect("PostgreSQL answers");
        store::claims::now(&mut tx).await.expect("PostgreSQL answers");
        tx
    }

    async fn close(self) {
        self.app.store.close().await;
        self.app.log.close().await;
        self.pool.close().await;
        self.fleet.close().await;
        drop(self.storage);
    }
}

/// The latency that so many percent do not exceed.
fn median_ms(all: &Mutex<Vec<Duration>>, percent: usize) -> f64 {
    let mut all = all.lock().expect("no panic").clone();
    all.sort_unstable();
    let at = (all.len() * percent / 100).min(all.len().saturating_sub(1));
    all.get(at).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
}
