//! The outcome of claimed rows whose work fails, panics, sleeps or is stopped.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kit::retry::Retry;
use longshore::engine::shares::{self, Handler, Options};
use longshore::kinds;
use secrecy::ExposeSecret as _;
use store::Store;
use store::claims::{self, Claim, ClaimError, Job, Kind};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::support::eventually;
use crate::support::proxy::{Proxy, ProxyMode};
use crate::support::stores::{TestStore, on_both_stores};

on_both_stores!(
    each_row_ends_as_its_work_does,
    work_for_a_newer_worker_is_retried_from_time_to_time,
    workspaces_do_not_starve_another,
);

#[derive(Debug, thiserror::Error)]
#[error("failed as told")]
struct Failure {
    transient: bool,
}

impl Retry for Failure {
    fn can_retry(&self) -> bool {
        self.transient
    }
}

/// Fails by the row's number, and notes what was done.
struct Scripted {
    store: Store,
    runs: Mutex<HashMap<i64, u32>>,
    done: Mutex<Vec<i64>>,
    given_up: Mutex<Vec<(i64, bool)>>,
}

const FINE: i64 = 0;
const TRANSIENT_ONCE: i64 = 1;
const PANICS_ONCE: i64 = 2;
const PERMANENT: i64 = 3;
const NEVER_WELL: i64 = 4;
const WAITS_FOR_STOP: i64 = 5;

impl Handler for Scripted {
    type Error = Failure;
    const KIND: Kind = kinds::EXPORT_PART;

    async fn handle(&self, claim: &Claim, stop: &CancellationToken) -> Result<(), Failure> {
        let run = {
            let mut runs = self.runs.lock().unwrap();
            let run = runs.entry(claim.item).or_default();
            *run += 1;
            *run
        };
        match claim.item {
            TRANSIENT_ONCE if run == 1 => return Err(Failure { transient: true }),
            PANICS_ONCE if run == 1 => panic!("as told"),
            PERMANENT => return Err(Failure { transient: false }),
            NEVER_WELL => return Err(Failure { transient: true }),
            WAITS_FOR_STOP => {
                stop.cancelled().await;
                return Err(Failure { transient: true });
            }
            _ => {}
        }
        let mut tx = self.store.write().await.unwrap();
        claims::finish(&mut tx, claim).await.map_err(|_| Failure { transient: false })?;
        tx.commit().await.unwrap();
        self.done.lock().unwrap().push(claim.item);
        Ok(())
    }

    async fn give_up(&self, claim: &Claim, error: Option<&Failure>) -> Result<(), ClaimError> {
        let mut tx = self.store.write().await?;
        claims::finish(&mut tx, claim).await?;
        tx.commit().await?;
        self.given_up.lock().unwrap().push((claim.item, error.is_some()));
        Ok(())
    }
}

fn options() -> Options {
    Options {
        in_flight: 8,
        per_workspace: usize::MAX,
        per_receiver: 100,
        attempts: 3,
        pause: Duration::from_millis(1),
        lease: Duration::from_secs(60),
        poll: Duration::from_millis(10),
        drain: Duration::from_millis(200),
    }
}

/// Works on rows until it is asked to stop.
fn start<H: Handler>(store: &Store, work: &Arc<H>) -> (JoinHandle<()>, CancellationToken) {
    let shutdown = CancellationToken::new();
    let running = shares::run(store.clone(), work.clone(), options(), shutdown.clone());
    (tokio::spawn(running), shutdown)
}

async fn offer(store: &Store, job: impl Into<Job>, items: std::ops::Range<i64>) {
    let mut tx = store.write().await.unwrap();
    claims::offer_range(&mut tx, kinds::EXPORT_PART, job, items, Duration::ZERO).await.unwrap();
    tx.commit().await.unwrap();
}

async fn each_row_ends_as_its_work_does(test: TestStore) {
    let (store, job) = (test.store.clone(), Uuid::new_v4());
    let work = Arc::new(Scripted {
        store: store.clone(),
        runs: Mutex::default(),
        done: Mutex::default(),
        given_up: Mutex::default(),
    });
    // A row that ended three workers before: taken with an expired lease each time.
    offer(&store, job, 9..10).await;
    for attempt in 1..=3 {
        let taken = claims::take(&store, kinds::EXPORT_PART, 1, 100, Duration::ZERO, &[]).await;
        assert_eq!(taken.unwrap().claims[0].attempt, attempt);
    }
    offer(&store, job, 0..6).await;
    let (running, shutdown) = start(&store, &work);
    eventually("all rows that can end have ended", || async {
        work.done.lock().unwrap().len() == 3 && work.given_up.lock().unwrap().len() == 3
    })
    .await;
    let mut done = work.done.lock().unwrap().clone();
    done.sort_unstable();
    assert_eq!(done, [FINE, TRANSIENT_ONCE, PANICS_ONCE]);
    let mut given_up = work.given_up.lock().unwrap().clone();
    given_up.sort_unstable();
    assert_eq!(given_up, [(PERMANENT, true), (NEVER_WELL, true), (9, false)]);
    assert_eq!(work.runs.lock().unwrap()[&NEVER_WELL], 3);
    assert!(!work.runs.lock().unwrap().contains_key(&9), "a killer is not tried again");

    // Stopping hands back what does not end by itself: another may take it at once.
    shutdown.cancel();
    running.await.unwrap();
    let taken = claims::take(&store, kinds::EXPORT_PART, 9, 100, options().lease, &[]).await;
    let taken = taken.unwrap().claims;
    assert_eq!(taken.iter().map(|claim| claim.item).collect::<Vec<_>>(), [WAITS_FOR_STOP]);
}

/// Does the rows of some jobs only once it may.
struct Stalled {
    store: Store,
    slow: [Uuid; 2],
    may_end: CancellationToken,
    begun: AtomicUsize,
    done: Mutex<Vec<Uuid>>,
}

impl Handler for Stalled {
    type Error = Failure;
    const KIND: Kind = kinds::EXPORT_PART;

    async fn handle(&self, claim: &Claim, _: &CancellationToken) -> Result<(), Failure> {
        if self.slow.contains(&claim.job) {
            self.begun.fetch_add(1, Ordering::SeqCst);
            self.may_end.cancelled().await;
        }
        let mut tx = self.store.write().await.unwrap();
        claims::finish(&mut tx, claim).await.map_err(|_| Failure { transient: false })?;
        tx.commit().await.unwrap();
        self.done.lock().unwrap().push(claim.job);
        Ok(())
    }

    async fn give_up(&self, claim: &Claim, _: Option<&Failure>) -> Result<(), ClaimError> {
        panic!("{claim:?} is given up");
    }
}

async fn workspaces_do_not_starve_another(test: TestStore) {
    const SHARE: usize = 4;
    let store = test.store.clone();
    let [quick, slow @ ..] = [(); 3].map(|()| Uuid::new_v4());
    let work = Arc::new(Stalled {
        store: store.clone(),
        slow,
        may_end: CancellationToken::new(),
        begun: AtomicUsize::new(0),
        done: Mutex::default(),
    });
    // Only offers and rows that end bring more work.
    let rare = Duration::from_secs(600);
    let shared = Options { lease: rare, poll: rare, ..options() }.with_workspace_limit(SHARE);
    let shutdown = CancellationToken::new();
    let running = shares::run(store.clone(), work.clone(), shared, shutdown.clone());
    let running = tokio::spawn(running);
    // The first one alone has its share, the second one half of what is free then.
    for (workspace, job, begun) in [(1, slow[0], SHARE), (2, slow[1], SHARE + SHARE / 2)] {
        offer(&store, Job::new(workspace, job), 0..40).await;
        eventually("a slow workspace has its share", async || {
            work.begun.load(Ordering::SeqCst) >= begun
        })
        .await;
    }
    offer(&store, Job::new(3, quick), 0..40).await;
    eventually("the quick workspace's job is done", async || work.done.lock().unwrap().len() == 40)
        .await;
    assert!(work.done.lock().unwrap().iter().all(|job| *job == quick));
    assert_eq!(work.begun.load(Ordering::SeqCst), SHARE + SHARE / 2);
    work.may_end.cancel();
    eventually("all is done", async || work.done.lock().unwrap().len() == 120).await;
    shutdown.cancel();
    running.await.unwrap();
}

/// Of a newer program's.
#[derive(Debug, thiserror::Error)]
#[error("not known here")]
struct Unknown;

impl Retry for Unknown {
    fn needs_newer_version(&self) -> bool {
        true
    }
}

/// Cannot do the rows of one job, until it can.
struct Older {
    store: Store,
    newer: Uuid,
    is_newer: AtomicBool,
    left: AtomicUsize,
    done: Mutex<Vec<Claim>>,
}

impl Handler for Older {
    type Error = Unknown;
    const KIND: Kind = kinds::EXPORT_PART;

    async fn handle(&self, claim: &Claim, _: &CancellationToken) -> Result<(), Unknown> {
        if claim.job == self.newer && !self.is_newer.load(Ordering::Relaxed) {
            self.left.fetch_add(1, Ordering::Relaxed);
            return Err(Unknown);
        }
        let mut tx = self.store.write().await.unwrap();
        claims::finish(&mut tx, claim).await.unwrap();
        tx.commit().await.unwrap();
        self.done.lock().unwrap().push(*claim);
        Ok(())
    }

    async fn give_up(&self, claim: &Claim, _: Option<&Unknown>) -> Result<(), ClaimError> {
        panic!("{claim:?} is given up");
    }
}

async fn work_for_a_newer_worker_is_retried_from_time_to_time(test: TestStore) {
    const ROWS: usize = 200;
    const KNOWN: i64 = 300;
    let (store, newer, known) = (test.store.clone(), Uuid::new_v4(), Uuid::new_v4());
    let work = Arc::new(Older {
        store: store.clone(),
        newer,
        is_newer: AtomicBool::new(false),
        left: AtomicUsize::new(0),
        done: Mutex::default(),
    });
    offer(&store, newer, 0..ROWS as i64).await;
    let since = Instant::now();
    let (running, shutdown) = start(&store, &work);
    eventually("it has met what it does not know", || async {
        work.left.load(Ordering::Relaxed) > 0
    })
    .await;
    // Meanwhile it does what it knows, and could claim the others each time that it looks for it.
    offer(&store, known, 0..KNOWN).await;
    eventually("the other job is done", || async {
        work.done.lock().unwrap().len() == KNOWN as usize
    })
    .await;
    // As many as it has places, each time that it looks.
    let left = work.left.load(Ordering::Relaxed);
    let looks = 1 + since.elapsed().as_secs() as usize / 5;
    assert!(left <= looks * options().in_flight, "{left} of {ROWS} rows were tried");

    work.is_newer.store(true, Ordering::Relaxed);
    let all = KNOWN as usize + ROWS;
    eventually("all is done", || async { work.done.lock().unwrap().len() == all }).await;
    assert!(work.done.lock().unwrap().iter().all(|claim| claim.attempt == 1), "no try counts");
    shutdown.cancel();
    running.await.unwrap();
}

/// A connection that was cut without a word never answers and never fails.
#[tokio::test(flavor = "multi_thread")]
async fn workers_stop_while_the_store_hangs() {
    let test = TestStore::postgres().await;
    let mut config = test.config.clone();
    let address = config.database.url.unwrap();
    let proxy = Proxy::to(address.expose_secret()).await;
    config.database.url = Some(proxy.instead_of(address.expose_secret()).into());
    let store = longshore::app::connect(&config).await.unwrap();
    let work = Arc::new(Scripted {
        store: store.clone(),
        runs: Mutex::default(),
        done: Mutex::default(),
        given_up: Mutex::default(),
    });
    offer(&test.store, Uuid::new_v4(), FINE..FINE + 1).await;
    let (running, shutdown) = start(&store, &work);
    eventually("it works", || async { work.done.lock().unwrap().len() == 1 }).await;
    proxy.set(ProxyMode::Stuck);
    // Time for a look that nobody answers.
    tokio::time::sleep(options().poll * 20).await;
    shutdown.cancel();
    let stopped = tokio::time::timeout(Duration::from_secs(40), running).await;
    stopped.expect("it stops").unwrap();
    drop(proxy);
}
