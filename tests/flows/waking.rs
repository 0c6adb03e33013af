//! Workers that wait for work: woken by what is offered here or in another process, and by time.
//! Each waits for hours between two looks, so that nothing else can explain that it finds work.

use std::time::Duration;

use longshore::app::App;
use longshore::kinds;
use longshore::worker::{self, Role};
use secrecy::ExposeSecret as _;
use store::Store;
use store::claims;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::support::eventually;
use crate::support::installation::Installation;
use crate::support::stores::{TestStore, count, execute, on_both_stores, on_pool};

on_both_stores!(delayed_work_starts_when_due,);

const HOURS_MS: u64 = 6 * 60 * 60 * 1000;

/// A worker that looks for callbacks to send. Those of these tests do not exist, so it only
/// removes their claims.
struct Worker {
    app: App,
    stop: CancellationToken,
    running: JoinHandle<()>,
}

impl Worker {
    async fn start(test: &TestStore, poll_ms: u64) -> Self {
        let mut config = test.config.clone();
        config.worker.poll_ms = poll_ms;
        config.worker.lease_ms = HOURS_MS;
        let app = App::open(config).await.unwrap();
        let stop = CancellationToken::new();
        let running = tokio::spawn({
            let (app, stop) = (app.clone(), stop.clone());
            async move { worker::run(app, &[Role::Deliveries], stop).await.unwrap() }
        });
        Self { app, stop, running }
    }

    /// Waits until it listens and has nothing to do.
    async fn idle(&self) {
        eventually("it listens", || async { self.app.store.wake().is_listening() }).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
    }

    async fn stop(self) {
        self.stop.cancel();
        self.running.await.unwrap();
    }
}

async fn offer(store: &Store, delay: Duration) {
    let mut tx = store.write().await.unwrap();
    claims::offer(&mut tx, kinds::DELIVERY, Uuid::new_v4(), 0, delay).await.unwrap();
    tx.commit().await.unwrap();
}

async fn all_work_is_claimed(store: &Store) {
    let sql = "SELECT count(*) FROM claims WHERE kind = 'delivery'";
    eventually("the worker takes what is offered", || async {
        let left: i64 = on_pool!(store, pool => {
            sqlx::query_scalar(sql).fetch_one(pool).await.unwrap()
        });
        left == 0
    })
    .await;
}

async fn delayed_work_starts_when_due(test: TestStore) {
    let delay = Duration::from_secs(2);
    // Its worker is lost: the lease runs out.
    offer(&test.store, Duration::ZERO).await;
    let lost = claims::take(&test.store, kinds::DELIVERY, 1, 8, delay, &[]).await.unwrap();
    assert_eq!(lost.claims.len(), 1);
    let worker = Worker::start(&test, HOURS_MS).await;
    all_work_is_claimed(&test.store).await;
    offer(&worker.app.store, delay).await;
    all_work_is_claimed(&test.store).await;
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_offer_wakes_workers_of_other_processes() {
    let test = TestStore::postgres().await;
    let worker = Worker::start(&test, HOURS_MS).await;
    // Whoever offers through another store is a process of its own.
    for _ in 0..3 {
        worker.idle().await;
        offer(&test.store, Duration::ZERO).await;
        all_work_is_claimed(&test.store).await;
    }
    // Also what one offers that ends at once.
    worker.idle().await;
    let brief = longshore::app::connect(&test.config).await.unwrap();
    offer(&brief, Duration::ZERO).await;
    brief.close().await;
    all_work_is_claimed(&test.store).await;
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_that_lost_its_connection_listens_again() {
    let test = TestStore::postgres().await;
    let worker = Worker::start(&test, HOURS_MS).await;
    for _ in 0..2 {
        worker.idle().await;
        let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                   WHERE datname = current_database() AND application_name = 'longshore wake'";
        let url = test.config.database.url.as_ref().unwrap().expose_secret();
        assert!(execute(url, cut).await > 0);
        // It is notified of none of what is offered meanwhile.
        offer(&test.store, Duration::ZERO).await;
        all_work_is_claimed(&test.store).await;
        worker.idle().await;
        offer(&test.store, Duration::ZERO).await;
        all_work_is_claimed(&test.store).await;
    }
    worker.stop().await;
}

/// As behind a pooler in transaction mode.
#[tokio::test(flavor = "multi_thread")]
async fn workers_poll_without_notifications_and_doctor_reports_it() {
    const NOTE: &str = "notifications do not arrive";
    let test = TestStore::postgres().await;
    let installation = Installation::open(test, r#"{ "workspace": "acme" }"#, |_| {}).await;
    let doctor = async || {
        let output = installation.run(&["doctor"]).await;
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let said = doctor().await;
    assert!(!said.contains(NOTE), "{said}");

    let url = installation.store.config.database.url.as_ref().unwrap().expose_secret();
    for sql in [
        "CREATE FUNCTION public.pg_notify(text, text) RETURNS void LANGUAGE sql AS 'SELECT'",
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog',
                                    current_database()); END $$",
    ] {
        execute(url, sql).await;
    }
    let said = doctor().await;
    assert!(said.contains(NOTE), "{said}");
    let worker = Worker::start(&installation.store, 50).await;
    // Its first look may find the first.
    for _ in 0..3 {
        offer(&installation.store.store, Duration::ZERO).await;
        all_work_is_claimed(&installation.store.store).await;
    }
    assert!(!worker.app.store.wake().is_listening());
    worker.stop().await;
}

/// The statements of a session run on changing connections of the server.
#[tokio::test(flavor = "multi_thread")]
async fn workers_do_not_listen_behind_a_pooler_in_transaction_mode() {
    let test = TestStore::postgres().await;
    let installation = Installation::open(test, r#"{ "workspace": "acme" }"#, |_| {}).await;
    let url = installation.store.config.database.url.as_ref().unwrap().expose_secret();
    for sql in [
        "CREATE FUNCTION public.pg_backend_pid() RETURNS int LANGUAGE sql AS
             'SELECT (random() * 1e9)::int'",
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog',
                                    current_database()); END $$",
    ] {
        execute(url, sql).await;
    }
    let output = installation.run(&["doctor"]).await;
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && said.contains("a pooler in transaction mode"), "{said}");
    let worker = Worker::start(&installation.store, 50).await;
    offer(&installation.store.store, Duration::ZERO).await;
    all_work_is_claimed(&installation.store.store).await;
    assert!(!worker.app.store.wake().is_listening());
    let listening = "SELECT count(*) FROM pg_stat_activity
                     WHERE datname = current_database() AND query ILIKE 'LISTEN%'";
    assert_eq!(count(url, listening).await, 0);
    worker.stop().await;
}
