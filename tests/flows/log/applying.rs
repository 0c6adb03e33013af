//! The runner of batches: whatever fails, each message is applied once.

mod handler;
mod killed;
mod pieces;
mod repeated;
mod reverted;
mod waiting;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use log::message_ids::{self, Scope};
use log::{Limits, offsets};
use longshore::app::App;
use longshore::config::Mode;
use longshore::engine::batches::dead_letters::{self, DeadLetter};
use longshore::engine::batches::{self, Handler, Options};
use longshore::telemetry;
use longshore::topics;
use secrecy::ExposeSecret as _;
use store::Store;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use self::handler::Tally;
use self::pieces::retry_buried;
use super::batches::{tracked, tracking};
use super::installation::{Installation, longshore};
use super::*;
use crate::lost_commit::losing_the_commit_of;
use crate::support::eventually;
use crate::support::process::Process;
use crate::support::proxy::{Proxy, ProxyMode};
use crate::support::stores::{execute, on_pool};
use crate::support::tracked::read_all;

on_both!(
    all_is_applied_once_by_several_runners,
    a_refused_message_is_found_and_buried_with_the_offset,
    unfinished_messages_are_applied_after_a_restart,
    stopped_partitions_are_reported_and_resume_after_a_reset,
    a_reset_to_the_same_offset_is_one,
);

const GROUP: &str = "tally";

fn options() -> Options {
    Options {
        limits: Limits { messages: 20, bytes: 1 << 20, in_flight: 4 },
        drain: Duration::from_secs(2),
        pause: Duration::from_millis(50),
        too_large_time: Duration::from_millis(500),
    }
}

async fn prepared(test_log: TestLog) -> Installation {
    let installation = Installation::new(test_log).await;
    let sql = "CREATE TABLE tally (payload TEXT PRIMARY KEY, n BIGINT NOT NULL)";
    on_pool!(&installation.test.store, pool => { sqlx::query(sql).execute(pool).await.unwrap(); });
    installation
}

/// How often each payload was applied.
async fn tally(store: &Store) -> BTreeMap<String, i64> {
    let sql = "SELECT payload, n FROM tally";
    let rows: Vec<(String, i64)> =
        on_pool!(store, pool => sqlx::query_as(sql).fetch_all(pool).await).unwrap();
    rows.into_iter().collect()
}

/// Waits until `count` payloads were applied, and checks that none was twice.
async fn until_applied(store: &Store, count: usize) -> BTreeMap<String, i64> {
    eventually("all are applied", async || tally(store).await.len() >= count).await;
    let tally = tally(store).await;
    assert_eq!(tally.len(), count, "{tally:?}");
    assert!(tally.values().all(|n| *n == 1), "{tally:?}");
    tally
}

async fn buried(store: &Store) -> Vec<DeadLetter> {
    dead_letters::page(store, None).await.unwrap()
}

async fn notes(store: &Store) -> i64 {
    let sql = "SELECT count(*) FROM message_attempts";
    on_pool!(store, pool => sqlx::query_scalar(sql).fetch_one(pool).await).unwrap()
}

async fn next(store: &Store, partition: i32) -> i64 {
    let mut tx = store.snapshot().await.unwrap();
    let position = offsets::position(&mut tx, GROUP, topics::TRACKING, partition).await.unwrap();
    position.map_or(0, |position| position.next)
}

struct Running {
    app: App,
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    async fn start(config: &Config, handler: Tally) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let app = App::open(config.clone()).await.unwrap();
        let (shutdown, own) = (CancellationToken::new(), app.clone());
        let stop = shutdown.clone();
        let task = tokio::spawn(async move {
            batches::run(&own, GROUP, topics::TRACKING, handler, options(), stop).await;
        });
        Self { app, shutdown, task }
    }

    async fn stop(self) {
        self.shutdown.cancel();
        tokio::time::timeout(TIMEOUT, self.task).await.expect("it stops").unwrap();
        self.app.log.close().await;
        self.app.store.close().await;
    }
}

async fn all_is_applied_once_by_several_runners(test_log: TestLog) {
    let installation = prepared(test_log).await;
    let (store, log) = installation.open().await;
    let config = &installation.test_log.config;
    let first = Running::start(config, Tally::default()).await;
    for partition in 0..4 {
        log.append(tracked(partition, 0, 200)).await.unwrap();
    }
    eventually("it works", async || !tally(&store).await.is_empty()).await;
    // The embedded log has one process that consumes.
    let second = match config.log.url.as_str() {
        "embedded" => None,
        _ => Some(Running::start(config, Tally::default()).await),
    };
    for partition in 0..4 {
        log.append(tracked(partition, 200, 200)).await.unwrap();
    }
    until_applied(&store, 1_600).await;
    for partition in 0..4 {
        assert_eq!(next(&store, partition).await, 400);
    }
    first.stop().await;
    if let Some(second) = second {
        second.stop().await;
    }
    assert_eq!((buried(&store).await.len(), notes(&store).await), (0, 0));
    log.close().await;
}

async fn a_refused_message_is_found_and_buried_with_the_offset(test_log: TestLog) {
    let installation = prepared(test_log).await;
    let (store, log) = installation.open().await;
    let mut messages = tracked(0, 0, 40);
    messages[13] = tracking(0, "refuse it");
    messages[14] = tracking(0, "panic");
    log.append(messages).await.unwrap();
    let handler = Tally::default();
    let running = Running::start(&installation.test_log.config, handler.clone()).await;
    let applied = until_applied(&store, 38).await;
    assert!(!applied.contains_key("0/refuse it"), "{applied:?}");
    eventually("the offset is at the end", async || next(&store, 0).await == 40).await;
    let letters = buried(&store).await;
    let told: Vec<_> = letters.iter().map(|l| (l.position, l.reason.as_str())).collect();
    assert_eq!(told, [(13, "never"), (14, "it panicked: this one")]);
    assert_eq!(
        (letters[0].topic.as_str(), letters[0].consumer_group.as_str()),
        ("tracking", GROUP)
    );

    let refused = retry_buried(&store, &handler, letters[0].id).await.unwrap_err();
    assert!(refused.to_string().contains("it failed again: never"), "{refused}");
    assert_eq!(buried(&store).await.len(), 2);
    handler.healed.store(true, Ordering::SeqCst);
    retry_buried(&store, &handler, letters[0].id).await.unwrap();
    assert!(retry_buried(&store, &handler, letters[0].id).await.is_err(), "it is gone");
    assert_eq!(until_applied(&store, 39).await["0/refuse it"], 1);
    assert_eq!(buried(&store).await.len(), 1);
    running.stop().await;
    log.close().await;
}

async fn unfinished_messages_are_applied_after_a_restart(test_log: TestLog) {
    let installation = prepared(test_log).await;
    let (store, log) = installation.open().await;
    log.append(vec![tracking(0, "fail"), tracking(0, "behind")]).await.unwrap();
    let handler = Tally::default();
    let running = Running::start(&installation.test_log.config, handler.clone()).await;
    eventually("it is tried", async || handler.begun.load(Ordering::SeqCst) >= 2).await;
    running.stop().await;
    assert_eq!((next(&store, 0).await, notes(&store).await), (0, 0), "a clean end");

    handler.healed.store(true, Ordering::SeqCst);
    let running = Running::start(&installation.test_log.config, handler).await;
    until_applied(&store, 2).await;
    running.stop().await;
    log.close().await;
}

async fn stopped_partitions_are_reported_and_resume_after_a_reset(test_log: TestLog) {
    let installation = prepared(test_log).await;
    let (store, log) = installation.open().await;
    let running = Running::start(&installation.test_log.config, Tally::default()).await;
    log.append(tracked(1, 0, 3)).await.unwrap();
    until_applied(&store, 3).await;
    running.stop().await;
    // As by a log that was put back to an older state.
    let sql = "UPDATE log_offsets SET next = 70 WHERE partition = 1";
    on_pool!(&store, pool => { sqlx::query(sql).execute(pool).await.unwrap(); });
    log.append(tracked(2, 0, 3)).await.unwrap();

    let metrics = telemetry::metrics::recorder::install().unwrap();
    let running = Running::start(&installation.test_log.config, Tally::default()).await;
    until_applied(&store, 6).await;
    eventually("it is told", async || {
        let notices = running.app.health_warnings.all().join("\n");
        notices.contains("partition 1 of tracking is stopped at offset 70")
    })
    .await;
    assert!(metrics.render().contains("longshore_log_stopped_partitions{topic=\"tracking\""));
    log.append(tracked(1, 3, 3)).await.unwrap();
    let (ok, printed) = longshore(&installation, &["migrate"]).await;
    assert!(ok, "{printed}");
    let to_3 = ["log", "reset", "--topic", "tracking", "--partition", "1", "--to", "3"];
    let (ok, printed) = longshore(&installation, &to_3).await;
    assert!(ok, "{printed}");
    until_applied(&store, 9).await;
    eventually("it is taken back", async || running.app.health_warnings.all().is_empty()).await;
    running.stop().await;
    log.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_partitions_are_reported() {
    let proxy = Proxy::to_kafka(&servers::kafka()).await;
    let mut installation = prepared(TestLog::kafka()).await;
    installation.test_log.config.log.url = format!("kafka://{}", proxy.address());
    let metrics = telemetry::metrics::recorder::install().unwrap();
    proxy.set(ProxyMode::WithoutOffsetsOf(2));
    let running = Running::start(&installation.test_log.config, Tally::default()).await;
    eventually("it alone is told", async || {
        let notices = running.app.health_warnings.all();
        notices.len() == 1 && notices[0].contains("partition 2 of tracking waits")
    })
    .await;
    assert!(metrics.render().contains("longshore_log_waiting_partitions{topic=\"tracking\""));
    proxy.set(ProxyMode::Open);
    eventually("it is taken back", async || running.app.health_warnings.all().is_empty()).await;
    running.stop().await;
}

async fn a_reset_to_the_same_offset_is_one(test_log: TestLog) {
    let installation = prepared(test_log).await;
    let (store, log) = installation.open().await;
    let running = Running::start(&installation.test_log.config, Tally::default()).await;
    log.append(tracked(1, 0, 3)).await.unwrap();
    until_applied(&store, 3).await;
    running.stop().await;
    let sql = "UPDATE log_offsets SET next = 5 WHERE partition = 1";
    on_pool!(&store, pool => { sqlx::query(sql).execute(pool).await.unwrap(); });
    let running = Running::start(&installation.test_log.config, Tally::default()).await;
    eventually("it is told", async || !running.app.health_warnings.all().is_empty()).await;
    // The log has the offset by now, but what lies before it was never applied.
    log.append(tracked(1, 3, 5)).await.unwrap();
    tokio::time::sleep(QUIET).await;
    until_applied(&store, 3).await;
    let (ok, printed) = longshore(&installation, &["migrate"]).await;
    assert!(ok, "{printed}");
    let to_5 = ["log", "reset", "--topic", "tracking", "--partition", "1", "--to", "5"];
    let (ok, printed) = longshore(&installation, &to_5).await;
    assert!(ok && printed.contains("was at 5, continues at 5"), "{printed}");
    until_applied(&store, 6).await;
    running.stop().await;
    log.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_response_is_lost_is_not_repeated() {
    let mut installation = prepared(TestLog::kafka()).await;
    let (store, log) = installation.open().await;
    let address = installation.test_log.config.database.url.clone().unwrap();
    let (address, lost) = losing_the_commit_of("tally", address.expose_secret()).await;
    installation.test_log.config.database.url = Some(address.into());
    log.append(tracked(0, 0, 10)).await.unwrap();
    let handler = Tally::default();
    let running = Running::start(&installation.test_log.config, handler.clone()).await;
    until_applied(&store, 10).await;
    assert!(lost.load(Ordering::SeqCst), "the commit was answered");
    log.append(tracked(0, 10, 10)).await.unwrap();
    until_applied(&store, 20).await;
    running.stop().await;
    log.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_whose_commit_response_is_lost_is_applied() {
    let installation = prepared(TestLog::kafka()).await;
    let (store, log) = installation.open().await;
    let config = &installation.test_log.config;
    log.append(vec![tracking(0, "refuse"), tracking(0, "refuse it & panic")]).await.unwrap();
    let handler = Tally::default();
    let running = Running::start(config, handler.clone()).await;
    eventually("it is buried", async || buried(&store).await.len() == 2).await;
    running.stop().await;
    handler.healed.store(true, Ordering::SeqCst);
    let letters = buried(&store).await;
    for (letter, done) in [(&letters[0], true), (&letters[1], false)] {
        let address = config.database.url.as_ref().unwrap().expose_secret();
        let (address, lost) = losing_the_commit_of("tally", address).await;
        let mut config = config.clone();
        config.database.url = Some(address.into());
        let losing = longshore::app::connect(&config).await.unwrap();
        let tried = retry_buried(&losing, &handler, letter.id).await;
        assert!(lost.load(Ordering::SeqCst), "the commit was answered");
        assert_eq!(tried.is_ok(), done, "{tried:?}");
    }
    until_applied(&store, 2).await;
    let left = buried(&store).await;
    assert_eq!((left.len(), left[0].payload.as_slice()), (1, &b"panic"[..]));
    assert!(retry_buried(&store, &handler, letters[0].id).await.is_err(), "it is gone");
    log.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_manage_dead_letters_of_a_running_process() {
    let installation = prepared(TestLog::embedded()).await;
    assert!(longshore(&installation, &["migrate"]).await.0);
    let running = Running::start(&installation.test_log.config, Tally::default()).await;
    let messages = ["refuse 1", "refuse 2"].map(|payload| tracking(0, payload));
    running.app.log.append(messages.into()).await.unwrap();
    eventually("both are dead letters", async || buried(&running.app.store).await.len() == 2).await;

    let command = async |arguments: &[&str]| longshore(&installation, arguments).await;
    let (ok, text) = command(&["dead-letters", "list"]).await;
    assert!(ok && text.lines().filter(|line| line.contains("tracking")).count() == 2, "{text}");
    let (ok, text) = command(&["dead-letters", "list", "--json"]).await;
    assert!(ok, "{text}");
    let listed: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(listed.len(), 2);
    assert_eq!((&listed[0]["topic"], &listed[0]["offset"]), (&"tracking".into(), &0.into()));

    let id = listed[0]["id"].as_str().unwrap();
    let (ok, text) = command(&["dead-letters", "show", id]).await;
    assert!(ok && text.contains("refuse 1") && text.contains("request-of-k"), "{text}");
    let (ok, text) = command(&["dead-letters", "list", "--json", "--after", id]).await;
    assert!(ok && text.lines().count() == 1 && !text.contains(id), "{text}");
    assert!(command(&["dead-letters", "discard", id]).await.0);
    let (ok, text) = command(&["dead-letters", "discard", id]).await;
    assert!(!ok && text.contains(id), "{text}");
    assert!(!command(&["dead-letters", "retry"]).await.0, "an id or --all is required");
    let (ok, text) = command(&["dead-letters", "discard", "--all", "--dry-run"]).await;
    assert!(ok && text.contains(listed[1]["id"].as_str().unwrap()), "{text}");
    assert_eq!(buried(&running.app.store).await.len(), 1, "a dry run discards nothing");
    let (ok, text) = command(&["dead-letters", "discard", "--all", "--json"]).await;
    let discarded = serde_json::json!({"discarded": [listed[1]["id"]], "failed": []});
    assert!(ok && text.contains(&discarded.to_string()), "{text}");
    assert!(buried(&running.app.store).await.is_empty());
    running.stop().await;
}

/// A recreated log assigns the same places again.
#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_of_a_former_log_are_distinct() {
    let installation = prepared(TestLog::embedded()).await;
    assert!(longshore(&installation, &["migrate"]).await.0);
    for (buried_before, payload) in [(0, "refuse 1"), (1, "refuse 2")] {
        let running = Running::start(&installation.test_log.config, Tally::default()).await;
        running.app.log.append(vec![tracking(0, payload)]).await.unwrap();
        if buried_before > 0 {
            let reset = ["log", "reset", "--topic", "tracking", "--partition", "0"];
            let (ok, text) =
                longshore(&installation, &[&reset[..], &["--to", "earliest"]].concat()).await;
            assert!(ok, "{text}");
        }
        let count = buried_before + 1;
        let store = &running.app.store;
        eventually("it is buried", async || buried(store).await.len() == count).await;
        assert_eq!(buried(store).await[buried_before].position, 0);
        running.stop().await;
        for file in ["log.db", "log.db-wal", "log.db-shm"] {
            let _ = std::fs::remove_file(installation.test_log.config.data.join(file));
        }
    }
}
