//! A worker of exports whose parts sleep: all that it does with the database is what a real one
//! does, through the same code, with connections of its own.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use longshore::app::App;
use longshore::config::Config;
use longshore::engine::shares::{self, Handler, Options};
use longshore::exports::rows::{self, PartResult};
use longshore::exports::{ExportError, cleanup, finish, state};
use longshore::kinds;
use rand::RngExt as _;
use store::claims::{self, Claim, ClaimError, Kind};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Parts of one worker at once: two for its one thread.
const IN_FLIGHT: usize = 2;

/// What a part's work comes to.
const RESULT: PartResult = PartResult {
    users: crate::jobs::PER_PART,
    raw_bytes: 7_000_000,
    bytes: 1_200_000,
    crc32: 1,
    sha256: Some([0; 32]),
    broken: Vec::new(),
};

/// How long what the workers did took.
#[derive(Default)]
pub struct Timings {
    /// From a place that is free to the work that fills it.
    pub claims: Mutex<Vec<Duration>>,
    /// The transaction that counts a part.
    pub dones: Mutex<Vec<Duration>>,
    /// What came before is not to be seen.
    since: Mutex<Option<Instant>>,
}

impl Timings {
    pub fn restart(&self) {
        *self.since.lock().expect("no panic") = Some(Instant::now());
        self.claims.lock().expect("no panic").clear();
        self.dones.lock().expect("no panic").clear();
    }

    fn since(&self) -> Option<Instant> {
        *self.since.lock().expect("no panic")
    }
}

pub struct Worker {
    app: App,
    stop: CancellationToken,
    loops: JoinSet<()>,
}

impl Worker {
    /// Starts one, with the loops of the role `exports`; with `all` those of every role that
    /// look for claims.
    pub async fn start(config: &Config, part: Duration, all: bool, seen: &Arc<Timings>) -> Self {
        let app = App::open(config.clone()).await.expect("the worker opens");
        let worker = config.worker.clone();
        let options = |in_flight| {
            Options {
                in_flight,
                per_workspace: usize::MAX,
                per_receiver: u32::MAX,
                attempts: config.exports.attempts,
                pause: Duration::from_millis(config.exports.retry_ms),
                lease: config.lease(),
                poll: Duration::from_millis(worker.poll_ms),
                drain: Duration::from_secs(1),
            }
            .with_workspace_limit(in_flight)
        };
        let stop = CancellationToken::new();
        let mut loops = JoinSet::new();
        let (wake, listening) = (app.store.wake().clone(), stop.clone());
        loops.spawn(async move { wake.listen(listening).await });
        let parts = Parts {
            app: app.clone(),
            thread: Semaphore::new(1),
            part,
            free: Mutex::default(),
            seen: seen.clone(),
        };
        share(&app, parts, options(IN_FLIGHT), &stop, &mut loops);
        share(&app, Finish(app.clone()), options(2), &stop, &mut loops);
        share(&app, Cleanup(app.clone()), options(2), &stop, &mut loops);
        if all {
            share(&app, Idle::<0>, options(config.deliveries.in_flight), &stop, &mut loops);
            share(&app, Idle::<1>, options(1), &stop, &mut loops);
            share(&app, Idle::<2>, options(4), &stop, &mut loops);
            share(&app, Idle::<3>, options(2), &stop, &mut loops);
            share(&app, Idle::<4>, options(2), &stop, &mut loops);
            share(&app, Idle::<5>, options(config.messages.named_in_flight), &stop, &mut loops);
        }
        Self { app, stop, loops }
    }

    pub async fn stop(mut self) {
        self.stop.cancel();
        while self.loops.join_next().await.is_some() {}
        self.app.store.close().await;
        self.app.log.close().await;
    }
}

fn share(
    app: &App,
    handler: impl Handler,
    options: Options,
    stop: &CancellationToken,
    loops: &mut JoinSet<()>,
) {
    loops.spawn(shares::run(app.store.clone(), Arc::new(handler), options, stop.clone()));
}

struct Parts {
    app: App,
    /// The one that computes.
    thread: Semaphore,
    part: Duration,
    /// Since when places are free that were taken before.
    free: Mutex<Vec<Instant>>,
    seen: Arc<Timings>,
}

impl Handler for Parts {
    type Error = ExportError;
    const KIND: Kind = kinds::EXPORT_PART;

    /// As `exports::part` does it, but for the users and the file.
    async fn handle(&self, claim: &Claim, _: &CancellationToken) -> Result<(), ExportError> {
        let free = self.free.lock().expect("no panic").pop();
        if let Some(since) = free.filter(|since| Some(*since) > self.seen.since()) {
            self.seen.claims.lock().expect("no panic").push(since.elapsed());
        }
        let part = rows::part_to_do(&self.app.store, claim.job, claim.item).await?;
        let is_wanted = part.is_some();
        if is_wanted {
            // Whoever reads users has a snapshot and a connection for as long.
            let mut tx = self.app.store.snapshot().await?;
            claims::now(&mut tx).await?;
            let thread = self.thread.acquire().await.expect("never closed");
            // Real parts differ, too. If all took equally long, a fleet that begins at once would
            // also complete its parts at the same moments.
            let part = self.part.mul_f64(rand::rng().random_range(0.5..1.5));
            tokio::time::sleep(part).await;
            drop(thread);
            tx.commit().await?;
        }
        let began = Instant::now();
        let mut tx = self.app.store.write_by_keys().await?;
        if is_wanted {
            state::part_done(&self.app, &mut tx, claim, &RESULT).await?;
        } else {
            claims::finish(&mut tx, claim).await?;
        }
        tx.commit().await?;
        self.seen.dones.lock().expect("no panic").push(began.elapsed());
        self.free.lock().expect("no panic").push(Instant::now());
        Ok(())
    }

    async fn give_up(&self, claim: &Claim, error: Option<&ExportError>) -> Result<(), ClaimError> {
        state::give_up(&self.app, claim, error).await
    }
}

struct Finish(App);

impl Handler for Finish {
    type Error = ExportError;
    const KIND: Kind = kinds::EXPORT_FINISH;

    async fn handle(&self, claim: &Claim, stop: &CancellationToken) -> Result<(), ExportError> {
        finish::finish(&self.0, claim, stop).await
    }

    async fn give_up(&self, claim: &Claim, error: Option<&ExportError>) -> Result<(), ClaimError> {
        state::give_up(&self.0, claim, error).await
    }
}

struct Cleanup(App);

impl Handler for Cleanup {
    type Error = ClaimError;
    const KIND: Kind = kinds::EXPORT_CLEANUP;

    async fn handle(&self, claim: &Claim, stop: &CancellationToken) -> Result<(), ClaimError> {
        cleanup::clean(&self.0, claim, stop).await
    }

    async fn give_up(&self, claim: &Claim, _: Option<&ClaimError>) -> Result<(), ClaimError> {
        claims::release(&self.0.store, claim, shares::MAX_BACKOFF).await
    }
}

/// Looks for what never comes here.
struct Idle<const N: usize>;

impl<const N: usize> Handler for Idle<N> {
    type Error = ClaimError;
    const KIND: Kind = [
        kinds::DELIVERY,
        kinds::ACTIVITY_SWEEP,
        kinds::SCHEDULE,
        kinds::DISPATCH_PLAN,
        kinds::DISPATCH_PART,
        kinds::DISPATCH_NAMED,
    ][N];

    async fn handle(&self, _: &Claim, _: &CancellationToken) -> Result<(), ClaimError> {
        unreachable!("nothing of {} is offered", Self::KIND.name())
    }

    async fn give_up(&self, _: &Claim, _: Option<&ClaimError>) -> Result<(), ClaimError> {
        unreachable!("nothing of {} is offered", Self::KIND.name())
    }
}
