//! The runner of batches: whatever fails, each message is applied once.

mod repeated;

use std::collections::BTreeMap;
use std::fmt;
use std::future::pending;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use longshore::app::App;
use longshore::config::Mode;
use longshore::log::message_ids::{self, Scope};
use longshore::log::{Limits, Message, offsets};
use longshore::retry::Retry;
use longshore::store::{Store, StoreError, Tx};
use longshore::telemetry;
use longshore::worker::batches::{self, Handler, Options, dead_letters};
use longshore::worker::messages::dead_letters::{self as letters, DeadLetter};
use secrecy::ExposeSecret as _;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::batches::{tracked, tracking};
use super::running::{Installation, longshore};
use super::*;
use crate::lost_commit::losing_the_commit_of;
use crate::support::eventually;
use crate::support::process::Process;
use crate::support::proxy::{Proxy, Way};
use crate::support::stores::{execute, on_pool};
use crate::support::tracked::take_all;

on_both!(
    all_is_applied_once_by_several_runners,
    a_refused_message_is_found_and_buried_with_the_offset,
    of_a_message_only_the_parts_that_fail_are_buried,
    what_is_too_much_together_is_done_in_pieces,
    what_an_operator_can_mend_is_waited_for_and_told,
    who_must_be_alone_waits_for_nobody_that_is_stuck,
    what_fails_for_now_waits_and_holds_up_no_other_partition,
    what_a_stopping_runner_does_not_finish_is_handed_back,
    a_stopped_partition_is_told_and_goes_on_after_a_reset,
    a_reset_to_the_same_offset_is_one,
    killed_at_random_moments_all_is_applied_once,
    a_killer_ends_few_workers_and_no_neighbour_is_taken_for_it,
    a_message_whose_workers_are_killed_is_not_taken_for_a_killer,
);

const GROUP: &str = "tally";

/// Why a message is not applied.
#[derive(Debug)]
enum Trouble {
    Passing,
    TooMuch,
    Lasting,
    Store(StoreError),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passing => f.write_str("not now"),
            Self::TooMuch => f.write_str("too much"),
            Self::Lasting => f.write_str("never"),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl Retry for Trouble {
    fn can_retry(&self) -> bool {
        match self {
            Self::Passing | Self::TooMuch => true,
            Self::Lasting => false,
            Self::Store(error) => error.can_retry(),
        }
    }

    fn is_too_much(&self) -> bool {
        matches!(self, Self::TooMuch)
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Counts each part of a payload (`one & another`) in a table, which shows what was applied
/// twice; and does what it says.
#[derive(Clone, Default)]
struct Tally {
    begun: Arc<AtomicUsize>,
    /// What is refused, fails or hangs succeeds from now on.
    healed: Arc<AtomicBool>,
}

const COUNT: &str = "INSERT INTO tally (payload, n) VALUES ($1, 1)
                     ON CONFLICT (payload) DO UPDATE SET n = tally.n + 1";

impl Handler for Tally {
    type Error = Trouble;
    type Prepared<'m> = Vec<String>;
    type Applied = ();

    async fn prepare(&self, messages: &[Message]) -> Result<Vec<String>, Trouble> {
        let parts = messages.iter().flat_map(|message| self.split(message));
        Ok(parts.map(|part| format!("{}/{}", part.partition, text(&part))).collect())
    }

    fn split(&self, message: &Message) -> Vec<Message> {
        let whole = text(message);
        let part = |part: &str| Message { payload: part.into(), ..message.clone() };
        whole.split(" & ").map(part).collect()
    }

    fn join(&self, parts: &[&Message]) -> Message {
        let texts: Vec<String> = parts.iter().map(|part| text(part)).collect();
        Message { payload: texts.join(" & ").into_bytes(), ..parts[0].clone() }
    }

    async fn apply(&self, tx: &mut Tx, payloads: &Self::Prepared<'_>) -> Result<(), Trouble> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let healed = self.healed.load(Ordering::SeqCst);
        for payload in payloads {
            let done = match tx {
                Tx::Postgres(tx) => sqlx::query(COUNT).bind(payload).execute(&mut **tx).await.err(),
                Tx::Sqlite(tx) => sqlx::query(COUNT).bind(payload).execute(&mut **tx).await.err(),
            };
            if let Some(error) = done {
                return Err(StoreError::from(error).into());
            }
            let (_, asked) = payload.split_once('/').unwrap();
            match asked.split(' ').next().unwrap() {
                "fail" if !healed => return Err(Trouble::Passing),
                "refuse" if !healed => return Err(Trouble::Lasting),
                "few" if payloads.len() > 3 => return Err(Trouble::TooMuch),
                "hang" if !healed => pending().await,
                "panic" => panic!("this one"),
                "kill" => {
                    let id = std::process::id().to_string();
                    Command::new("kill").args(["-s", "KILL", &id]).status().unwrap();
                    pending().await
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn options() -> Options {
    Options {
        limits: Limits { messages: 20, bytes: 1 << 20, in_flight: 4 },
        drain: Duration::from_secs(2),
        pause: Duration::from_millis(50),
    }
}

async fn prepared(place: Place) -> Installation {
    let installation = Installation::new(place).await;
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
    letters::page(store, None).await.unwrap()
}

async fn notes(store: &Store) -> i64 {
    let sql = "SELECT count(*) FROM message_attempts";
    on_pool!(store, pool => sqlx::query_scalar(sql).fetch_one(pool).await).unwrap()
}

async fn next(store: &Store, partition: i32) -> i64 {
    let mut tx = store.snapshot().await.unwrap();
    let place = offsets::place(&mut tx, GROUP, Topic::Tracking, partition).await.unwrap();
    place.map_or(0, |place| place.next)
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
            batches::run(&own, GROUP, Topic::Tracking, handler, options(), stop).await;
        });
        Self { app, shutdown, task }
    }

    async fn stop(self) {
        self.shutdown.cancel();
        tokio::time::timeout(PATIENCE, self.task).await.expect("it stops").unwrap();
        self.app.log.close().await;
        self.app.store.close().await;
    }
}

async fn all_is_applied_once_by_several_runners(place: Place) {
    let installation = prepared(place).await;
    let (store, log) = installation.open().await;
    let config = &installation.place.config;
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

async fn a_refused_message_is_found_and_buried_with_the_offset(place: Place) {
    let installation = prepared(place).await;
    let (store, log) = installation.open().await;
    let mut messages = tracked(0, 0, 40);
    messages[13] = tracking(0, "refuse it");
    messages[14] = tracking(0, "panic");
    log.append(messages).await.unwrap();
    let handler = Tally::default();
    let running = Running::start(&installation.place.config, handler.clone()).await;
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

    let refused = dead_letters::retry(&store, &handler, letters[0].id).await.unwrap_err();
    assert!(refused.to_string().contains("it still cannot be done: never"), "{refused}");
    assert_eq!(buried(&store).await.len(), 2);
    handler.healed.store(true, Ordering::SeqCst);
    dead_letters::retry(&store, &handler, letters[0].id).await.unwrap();
    assert!(dead_letters::retry(&store, &handler, letters[0].id).await.is_err(), "it is gone");
    assert_eq!(until_applied(&store, 39).await["0/refuse it"], 1);
    assert_eq!(buried(&store).await.len(), 1);
    running.stop().await;
    log.close().await;
}

async fn of_a_message_only_the_parts_that_fail_are_buried(place: Place) {
    let installation = prepared(place).await;
    let (store, log) = installation.open().await;
    let mut messages = tracked(0, 0, 6);
    messages[3] = tracking(0, "one & refuse it & two & panic & three");
    // Applied once, also where it comes again.
    messages[3].key = Uuid::new_v4().as_bytes().to_vec();
    messages.push(messages[3].clone());
    log.append(messages).await.unwrap();
    let handler = Tally::default();
    let running = Running::start(&installation.place.config, handler.clone()).await;
    eventually("the offset is at the end", async || next(&store, 0).await == 7).await;
    let applied = until_applied(&store, 8).await;
    let parts = ["0/one", "0/two", "0/three"];
    assert!(parts.iter().all(|part| applied.contains_key(*part)), "{applied:?}");
    let letters = buried(&store).await;
    let told: Vec<_> =
        letters.iter().map(|l| (l.position, l.payload.as_slice(), l.reason.as_str())).collect();
    assert_eq!(told, [(3, &b"refuse it & panic"[..], "never; it panicked: this one")]);

    // What can be done of it goes, and what cannot stays.
    let id = letters[0].id;
    let refused = dead_letters::retry(&store, &handler, id).await.unwrap_err().to_string();
    assert!(!refused.contains("the rest of it was done"), "{refused}");
    handler.healed.store(true, Ordering::SeqCst);
    let refused = dead_letters::retry(&store, &handler, id).await.unwrap_err().to_string();
    assert!(refused.contains("this one (the rest of it was done)"), "{refused}");
    assert_eq!(until_applied(&store, 9).await["0/refuse it"], 1);
    let letters = buried(&store).await;
    assert_eq!((letters.len(), letters[0].payload.as_slice()), (1, &b"panic"[..]));
    running.stop().await;
    log.close().await;
}

async fn what_is_too_much_together_is_done_in_pieces(place: Place) {
    let installation = prepared(place).await;
    let (store, log) = installation.open().await;
    let mut messages = tracked(0, 0, 20);
    messages[7] = tracking(0, "few");
    log.append(messages).await.unwrap();
    let running = Running::start(&installation.place.config, Tally::default()).await;
    until_applied(&store, 20).await;
    running.stop().await;
    assert!(buried(&store).await.is_empty());
    log.close().await;
}

async fn what_an_operator_can_mend_is_waited_for_and_told(place: Place) {
    let installation = prepared(place).await;
    let (store, log) = installation.open().await;
    let do_both = async |sqls: [&'static str; 2]| {
        for sql in sqls {
            on_pool!(&store, pool => { sqlx::raw_sql(sql).execute(pool).await.unwrap(); });
        }
    };
    // Of the kind that no list of passing errors names.
    let (break_it, mend_it) = match store.is_postgres() {
        true => (
            [
                "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS
                 $$BEGIN RAISE 'a plan is stale' USING ERRCODE = '0A000'; END$$",
                "CREATE TRIGGER fails BEFORE INSERT ON tally EXECUTE FUNCTION fail()",
            ],
            ["DROP TRIGGER fails ON tally", "DROP FUNCTION fail"],
        ),
        false => (
            ["ALTER TABLE tally RENAME TO other", "SELECT 1"],
            ["ALTER TABLE other RENAME TO tally", "SELECT 1"],
        ),
    };
    do_both(break_it).await;
    log.append(tracked(0, 0, 10)).await.unwrap();
    let running = Running::start(&installation.place.config, Tally::default()).await;
    eventually("it is told", async || {
        let notices = running.app.notices.all().join("\n");
        notices.contains("partition 0 of tracking waits at offset 0: the database: ")
    })
    .await;
    assert_eq!((buried(&store).await.len(), next(&store, 0).await), (0, 0));
    do_both(mend_it).await;
    until_applied(&store, 10).await;
    eventually("it is taken back", async || running.app.notices.all().is_empty()).await;
    running.stop().await;
    log.close().await;
}

async fn who_must_be_alone_waits_for_nobody_that_is_stuck(place: Place) {
    let installation = prepared(place).await;
    let (store, log) = installation.open().await;
    log.append(vec![tracking(0, "fail")]).await.unwrap();
    let handler = Tally::default();
    let running = Running::start(&installation.place.config, handler.clone()).await;
    eventually("it is tried", async || handler.begun.load(Ordering::SeqCst) >= 2).await;
    // Begun twice by workers that ended.
    log.append(tracked(1, 0, 10)).await.unwrap();
    running.stop().await;
    let all = take_all(&log, |all| all.len() >= 11).await;
    let first = all.iter().find(|message| (message.partition, message.offset) == (1, 0)).unwrap();
    let sql = "INSERT INTO message_attempts VALUES ($1, 'tracking', 1, 0, $2, 2, '0')";
    for removed in ["DELETE FROM tally", "UPDATE log_offsets SET next = 0"] {
        on_pool!(&store, pool => { sqlx::query(removed).execute(pool).await.unwrap(); });
    }
    on_pool!(&store, pool => {
        sqlx::query(sql).bind(GROUP).bind(first.appended_at).execute(pool).await.unwrap();
    });
    let running = Running::start(&installation.place.config, handler.clone()).await;
    until_applied(&store, 10).await;
    log.append(tracked(2, 0, 10)).await.unwrap();
    until_applied(&store, 20).await;
    eventually("the note of who was alone is gone", async || notes(&store).await == 1).await;
    running.stop().await;
    assert_eq!((buried(&store).await.len(), notes(&store).await), (0, 0));
    log.close().await;
}

/// A gateway's clock that is wrong neither makes ids go that are needed, nor lets those that
/// it wrote go early.
#[tokio::test(flavor = "multi_thread")]
async fn ids_are_remembered_by_the_databases_clock() {
    const DAY: i64 = 86_400_000;
    let installation = prepared(Place::embedded()).await;
    let (store, log) = installation.open().await;
    let ids: Vec<Uuid> = (0..3).map(|_| Uuid::new_v4()).collect();
    let with_id =
        |id: &Uuid| NewMessage { key: id.as_bytes().to_vec(), ..tracking(0, id.to_string()) };
    log.append(ids[1..].iter().map(with_id).collect()).await.unwrap();
    let file = format!("sqlite://{}", installation.place.config.data.join("log.db").display());
    // The first is days ahead, the second behind.
    let sql = "UPDATE messages SET appended_at = appended_at
               + CASE position WHEN 0 THEN 259200000 ELSE -259200000 END";
    assert_eq!(execute(&file, sql).await, 2);
    let now = longshore::clock::Clock::system().now_ms();
    let scope = Scope { group: GROUP, topic: Topic::Tracking, partition: 0 };
    let mut tx = store.write().await.unwrap();
    message_ids::remember(&mut tx, scope, &[(ids[0], now)]).await.unwrap();
    tx.commit().await.unwrap();

    let running = Running::start(&installation.place.config, Tally::default()).await;
    until_applied(&store, 2).await;
    running.stop().await;
    let mut tx = store.write().await.unwrap();
    assert!(!message_ids::sweep(&mut tx, scope, now - DAY).await.unwrap());
    assert_eq!(message_ids::known(&mut tx, scope, &ids).await.unwrap().len(), 3);
    log.close().await;
}

async fn what_fails_for_now_waits_and_holds_up_no_other_partition(place: Place) {
    let installation = prepared(place).await;
    let (store, log) = installation.open().await;
    log.append(vec![tracking(0, "fail"), tracking(0, "behind")]).await.unwrap();
    for partition in 1..4 {
        log.append(tracked(partition, 0, 50)).await.unwrap();
    }
    let handler = Tally::default();
    let running = Running::start(&installation.place.config, handler.clone()).await;
    until_applied(&store, 150).await;
    assert_eq!(next(&store, 0).await, 0, "nothing is passed over");
    handler.healed.store(true, Ordering::SeqCst);
    until_applied(&store, 152).await;
    running.stop().await;
    assert_eq!((buried(&store).await.len(), notes(&store).await), (0, 0));
    log.close().await;
}

async fn what_a_stopping_runner_does_not_finish_is_handed_back(place: Place) {
    let installation = prepared(place).await;
    let (store, log) = installation.open().await;
    log.append(vec![tracking(0, "fail"), tracking(0, "behind")]).await.unwrap();
    let handler = Tally::default();
    let running = Running::start(&installation.place.config, handler.clone()).await;
    eventually("it is tried", async || handler.begun.load(Ordering::SeqCst) >= 2).await;
    running.stop().await;
    assert_eq!((next(&store, 0).await, notes(&store).await), (0, 0), "a clean end");

    handler.healed.store(true, Ordering::SeqCst);
    let running = Running::start(&installation.place.config, handler).await;
    until_applied(&store, 2).await;
    running.stop().await;
    log.close().await;
}

async fn a_stopped_partition_is_told_and_goes_on_after_a_reset(place: Place) {
    let installation = prepared(place).await;
    let (store, log) = installation.open().await;
    let running = Running::start(&installation.place.config, Tally::default()).await;
    log.append(tracked(1, 0, 3)).await.unwrap();
    until_applied(&store, 3).await;
    running.stop().await;
    // As by a log that was put back to an older state.
    let sql = "UPDATE log_offsets SET next = 70 WHERE partition = 1";
    on_pool!(&store, pool => { sqlx::query(sql).execute(pool).await.unwrap(); });
    log.append(tracked(2, 0, 3)).await.unwrap();

    let metrics = telemetry::metrics::install().unwrap();
    let running = Running::start(&installation.place.config, Tally::default()).await;
    until_applied(&store, 6).await;
    eventually("it is told", async || {
        let notices = running.app.notices.all().join("\n");
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
    eventually("it is taken back", async || running.app.notices.all().is_empty()).await;
    running.stop().await;
    log.close().await;
}

async fn a_reset_to_the_same_offset_is_one(place: Place) {
    let installation = prepared(place).await;
    let (store, log) = installation.open().await;
    let running = Running::start(&installation.place.config, Tally::default()).await;
    log.append(tracked(1, 0, 3)).await.unwrap();
    until_applied(&store, 3).await;
    running.stop().await;
    let sql = "UPDATE log_offsets SET next = 5 WHERE partition = 1";
    on_pool!(&store, pool => { sqlx::query(sql).execute(pool).await.unwrap(); });
    let running = Running::start(&installation.place.config, Tally::default()).await;
    eventually("it is told", async || !running.app.notices.all().is_empty()).await;
    // The log has the offset by now, but what lies before it was never applied.
    log.append(tracked(1, 3, 5)).await.unwrap();
    tokio::time::sleep(QUIET).await;
    until_applied(&store, 3).await;
    let (ok, printed) = longshore(&installation, &["migrate"]).await;
    assert!(ok, "{printed}");
    let to_5 = ["log", "reset", "--topic", "tracking", "--partition", "1", "--to", "5"];
    let (ok, printed) = longshore(&installation, &to_5).await;
    assert!(ok && printed.contains("was at 5, goes on at 5"), "{printed}");
    until_applied(&store, 6).await;
    running.stop().await;
    log.close().await;
}

/// A way to the database can end at any time; here it does again and again.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_goes_away_is_waited_for() {
    let mut installation = prepared(Place::kafka()).await;
    let (store, log) = installation.open().await;
    let address = installation.place.config.database.url.clone().unwrap();
    let proxy = Proxy::to(address.expose_secret()).await;
    let way = proxy.instead_of(address.expose_secret());
    installation.place.config.database.url = Some(way.into());

    proxy.set(Way::Closed);
    for partition in 0..4 {
        log.append(tracked(partition, 0, 300)).await.unwrap();
    }
    let running = Running::start(&installation.place.config, Tally::default()).await;
    tokio::time::sleep(QUIET).await;
    for _ in 0..5 {
        proxy.set(Way::Open);
        tokio::time::sleep(Duration::from_millis(300)).await;
        proxy.set(Way::Closed);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    proxy.set(Way::Open);
    until_applied(&store, 1_200).await;
    running.stop().await;
    assert!(buried(&store).await.is_empty());
    log.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_answer_is_lost_is_not_repeated() {
    let mut installation = prepared(Place::kafka()).await;
    let (store, log) = installation.open().await;
    let address = installation.place.config.database.url.clone().unwrap();
    let (address, lost) = losing_the_commit_of("tally", address.expose_secret()).await;
    installation.place.config.database.url = Some(address.into());
    log.append(tracked(0, 0, 10)).await.unwrap();
    let handler = Tally::default();
    let running = Running::start(&installation.place.config, handler.clone()).await;
    until_applied(&store, 10).await;
    assert!(lost.load(Ordering::SeqCst), "the commit was answered");
    log.append(tracked(0, 10, 10)).await.unwrap();
    until_applied(&store, 20).await;
    running.stop().await;
    log.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_whose_commit_is_not_answered_is_applied() {
    let mut installation = prepared(Place::kafka()).await;
    let (store, log) = installation.open().await;
    log.append(vec![tracking(0, "refuse")]).await.unwrap();
    let handler = Tally::default();
    let running = Running::start(&installation.place.config, handler.clone()).await;
    eventually("it is buried", async || buried(&store).await.len() == 1).await;
    running.stop().await;
    handler.healed.store(true, Ordering::SeqCst);
    let address = installation.place.config.database.url.clone().unwrap();
    let (address, lost) = losing_the_commit_of("tally", address.expose_secret()).await;
    installation.place.config.database.url = Some(address.into());
    let losing = Store::connect(&installation.place.config).await.unwrap();
    let id = buried(&store).await[0].id;
    dead_letters::retry(&losing, &handler, id).await.unwrap();
    assert!(lost.load(Ordering::SeqCst), "the commit was answered");
    until_applied(&store, 1).await;
    assert!(buried(&store).await.is_empty());
    assert!(dead_letters::retry(&store, &handler, id).await.is_err(), "it is gone");
    log.close().await;
}

/// A runner in a process of its own, which can be killed; not a test by itself.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "other tests start it as a process of its own"]
async fn a_process_that_applies() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = Config::load(None, std::env::vars_os(), Mode::Command).unwrap();
    telemetry::init_tracing(&config).unwrap();
    let app = App::open(config).await.unwrap();
    let never = CancellationToken::new();
    batches::run(&app, GROUP, Topic::Tracking, Tally::default(), options(), never).await;
}

fn start_process(installation: &Installation, failpoints: &str) -> Process {
    let directory = &installation.test.config.data;
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "log::applying::a_process_that_applies", "--ignored", "--nocapture"]);
    command.envs(installation.environment()).env("FAILPOINTS", failpoints);
    Process::start("applies", directory, command)
}

async fn has_ended(process: &mut Process) {
    for _ in 0..6_000 {
        if !process.is_running() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it goes on\n{}", process.tail());
}

async fn killed_at_random_moments_all_is_applied_once(place: Place) {
    let installation = prepared(place).await;
    let (store, log) = installation.open().await;
    let mut appended = 0;
    for round in 0..6u64 {
        for partition in 0..4 {
            log.append(tracked(partition, appended, 150)).await.unwrap();
        }
        appended += 150;
        let done = tally(&store).await.len();
        let mut process = start_process(&installation, "");
        eventually("it works", async || tally(&store).await.len() > done).await;
        tokio::time::sleep(Duration::from_millis(round * 23)).await;
        process.kill();
    }
    let _process = start_process(&installation, "");
    until_applied(&store, 4 * appended).await;
    assert!(buried(&store).await.is_empty());
    log.close().await;
}

async fn a_killer_ends_few_workers_and_no_neighbour_is_taken_for_it(place: Place) {
    let installation = prepared(place).await;
    let (store, log) = installation.open().await;
    let mut messages = tracked(0, 0, 10);
    messages[6] = tracking(0, "kill");
    log.append(messages).await.unwrap();
    log.append(tracked(1, 0, 10)).await.unwrap();
    let mut deaths = 0;
    let mut process = start_process(&installation, "");
    while buried(&store).await.is_empty() {
        tokio::time::sleep(Duration::from_millis(50)).await;
        if !process.is_running() {
            deaths += 1;
            assert!(deaths <= 5, "{}", process.tail());
            process = start_process(&installation, "");
        }
    }
    until_applied(&store, 19).await;
    let letters = buried(&store).await;
    assert_eq!((letters.len(), letters[0].position), (1, 6));
    assert!(letters[0].reason.contains("while nothing else was under way"), "{letters:?}");
    eventually("no note is left", async || notes(&store).await == 0).await;
    assert_eq!(deaths, 4, "it was among the first of an assignment");
    log.close().await;
}

/// What killed them was somebody else: they are together twice, and alone once.
async fn a_message_whose_workers_are_killed_is_not_taken_for_a_killer(place: Place) {
    let installation = prepared(place).await;
    let (store, log) = installation.open().await;
    log.append(vec![tracking(0, "hang 1"), tracking(0, "hang 2")]).await.unwrap();
    let sql = "SELECT coalesce(max(attempts), 0) FROM message_attempts";
    for kill in 1..=3 {
        let mut process = start_process(&installation, "");
        eventually("it is at work", async || {
            let begun: i32 =
                on_pool!(&store, pool => sqlx::query_scalar(sql).fetch_one(pool).await).unwrap();
            begun == kill
        })
        .await;
        process.kill();
    }
    let handler = Tally::default();
    handler.healed.store(true, Ordering::SeqCst);
    let running = Running::start(&installation.place.config, handler).await;
    until_applied(&store, 2).await;
    running.stop().await;
    assert_eq!((buried(&store).await.len(), notes(&store).await), (0, 0));
    log.close().await;
}

#[cfg(feature = "failpoints")]
mod killed_around_the_commit {
    use super::repeated::{doubled, under_ids};
    use super::*;

    on_both!(before_the_commit, after_the_commit, before_the_acknowledgement,);

    /// Of messages some of which come twice under their ids, each is applied once.
    async fn killed_at(place: Place, point: &str) {
        let installation = prepared(place).await;
        let (store, log) = installation.open().await;
        for partition in 0..4 {
            let (without, under) = (tracked(partition, 0, 60), tracked(partition, 60, 40));
            log.append(without).await.unwrap();
            log.append(doubled(&under_ids(1, under))).await.unwrap();
        }
        // At the very first batch, and in the middle.
        for at in [1, 7] {
            has_ended(&mut start_process(&installation, &format!("{point}@{at}=kill"))).await;
        }
        let _process = start_process(&installation, "");
        until_applied(&store, 400).await;
        for partition in 0..4 {
            eventually("all is done", async || next(&store, partition).await == 140).await;
        }
        eventually("no note is left", async || notes(&store).await == 0).await;
        log.close().await;
    }

    async fn before_the_commit(place: Place) {
        killed_at(place, "batch::applied").await;
    }

    async fn after_the_commit(place: Place) {
        killed_at(place, "batch::committed").await;
    }

    async fn before_the_acknowledgement(place: Place) {
        killed_at(place, "batch::done").await;
    }
}
