//! What becomes of claimed rows whose work fails, panics, sleeps or is stopped.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longshore::bell::Bell;
use longshore::claims::{self, Claim, ClaimError, Kind};
use longshore::retry::Retry;
use longshore::store::Store;
use longshore::worker::shares::{self, Handler, Options};
use secrecy::ExposeSecret as _;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::support::eventually;
use crate::support::proxy::{Proxy, Way};
use crate::support::stores::{TestStore, on_both_stores};

on_both_stores!(each_row_ends_as_its_work_does,);

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
    const KIND: Kind = Kind::ExportPart;

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
        per_job: 100,
        attempts: 3,
        pause: Duration::from_millis(1),
        lease: Duration::from_secs(60),
        poll: Duration::from_millis(10),
        drain: Duration::from_millis(200),
    }
}

async fn offer(store: &Store, job: Uuid, items: std::ops::Range<i64>) {
    let mut tx = store.write().await.unwrap();
    claims::offer_range(&mut tx, Kind::ExportPart, job, items, Duration::ZERO).await.unwrap();
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
        let taken = claims::take(&store, Kind::ExportPart, 1, 100, Duration::ZERO).await;
        assert_eq!(taken.unwrap()[0].attempt, attempt);
    }
    offer(&store, job, 0..6).await;
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(shares::run(
        store.clone(),
        work.clone(),
        options(),
        Bell::default(),
        shutdown.clone(),
    ));
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
    let taken = claims::take(&store, Kind::ExportPart, 9, 100, options().lease).await;
    let taken = taken.unwrap();
    assert_eq!(taken.iter().map(|claim| claim.item).collect::<Vec<_>>(), [WAITS_FOR_STOP]);
}

/// A connection that was cut without a word never answers and never fails.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_fell_silent_keeps_no_worker_from_stopping() {
    let test = TestStore::postgres().await;
    let mut config = test.config.clone();
    let address = config.database.url.unwrap();
    let proxy = Proxy::to(address.expose_secret()).await;
    config.database.url = Some(proxy.instead_of(address.expose_secret()).into());
    let store = Store::connect(&config).await.unwrap();
    let work = Arc::new(Scripted {
        store: store.clone(),
        runs: Mutex::default(),
        done: Mutex::default(),
        given_up: Mutex::default(),
    });
    offer(&test.store, Uuid::new_v4(), FINE..FINE + 1).await;
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(shares::run(
        store,
        work.clone(),
        options(),
        Bell::default(),
        shutdown.clone(),
    ));
    eventually("it works", || async { work.done.lock().unwrap().len() == 1 }).await;
    proxy.set(Way::Stuck);
    // Time for a look that nobody answers.
    tokio::time::sleep(options().poll * 20).await;
    shutdown.cancel();
    let stopped = tokio::time::timeout(Duration::from_secs(40), running).await;
    stopped.expect("it stops").unwrap();
    drop(proxy);
}
