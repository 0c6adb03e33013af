//! The runner: what becomes of messages that succeed, fail, panic or kill.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::future::pending;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kit::retry::Retry;
use log::{Log, Message};
use longshore::app::App;
use longshore::engine::messages::dead_letters::{self, DeadLetter};
use longshore::engine::messages::{self, Handler, Options};
use longshore::topics;
use store::Store;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::support::stores::{TestStore, on_pool};
use crate::support::{eventually, process};

on_both!(
    a_failure_is_retried_and_holds_up_nobody,
    messages_of_a_key_are_done_one_after_another,
    a_refused_message_is_a_dead_letter_until_it_is_retried,
    a_panic_is_tried_alone_and_then_buried,
    a_killer_ends_three_workers_and_no_neighbour_is_taken_for_it,
    what_a_stopping_runner_does_not_finish_is_handed_back,
    repeats_of_what_fails_take_no_room_from_other_keys,
);

/// A store and a log of their own: SQLite with the embedded log, PostgreSQL with Kafka.
pub struct Installation {
    pub place: Place,
    pub test: TestStore,
}

impl Installation {
    pub async fn new(mut place: Place) -> Self {
        let test = match place.config.log.url.as_str() {
            "embedded" => TestStore::sqlite().await,
            _ => TestStore::postgres().await,
        };
        place.config = Config { log: place.config.log, ..test.config.clone() };
        place.open().await.close().await;
        Self { place, test }
    }

    /// The settings as a process is given them.
    pub fn environment(&self) -> BTreeMap<String, String> {
        let log = &self.place.config.log;
        let mut environment = self.test.environment();
        let own = [
            ("LONGSHORE_LOG_URL", log.url.clone()),
            ("LONGSHORE_LOG__TOPIC_PREFIX", log.topic_prefix.clone()),
            ("LONGSHORE_LOG__REPLICATION", log.replication.to_string()),
        ];
        environment.extend(own.map(|(name, value)| (name.to_owned(), value)));
        environment
    }

    /// As a process that starts does.
    pub async fn open(&self) -> (Store, Log) {
        let log = longshore::app::open_log(&self.place.config).await.unwrap();
        (longshore::app::connect(&self.place.config).await.unwrap(), log)
    }

    async fn start(&self, handler: Acting) -> Running {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let app = App::open(self.place.config.clone()).await.unwrap();
        let (store, log) = (app.store.clone(), app.log.clone());
        let shutdown = CancellationToken::new();
        let options = Options {
            in_flight: 4,
            drain: Duration::from_secs(2),
            pause: Duration::from_millis(50),
            is_noted: true,
        };
        let stop = shutdown.clone();
        let task = tokio::spawn(async move {
            messages::run(&app, "g", topics::TRANSACTIONAL, handler, options, stop).await;
        });
        Running { store, log, shutdown, task }
    }
}

struct Running {
    store: Store,
    log: Log,
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    async fn stop(self) {
        self.shutdown.cancel();
        tokio::time::timeout(PATIENCE, self.task).await.expect("it stops").unwrap();
        self.log.close().await;
        self.store.close().await;
    }

    /// Ends it as `kill -9` would: nothing is finished or handed back.
    async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }

    async fn buried(&self) -> Vec<DeadLetter> {
        dead_letters::page(&self.store, None).await.unwrap()
    }
}

async fn notes(store: &Store) -> i64 {
    let sql = "SELECT count(*) FROM message_attempts";
    on_pool!(store, pool => sqlx::query_scalar(sql).fetch_one(pool).await).unwrap()
}

#[derive(Debug)]
enum Trouble {
    Passing,
    Lasting,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Passing => "not now",
            Self::Lasting => "never",
        })
    }
}

impl Retry for Trouble {
    fn can_retry(&self) -> bool {
        matches!(self, Self::Passing)
    }
}

/// Does what the payload says, and counts by payload what was begun and done.
#[derive(Clone, Default)]
struct Acting {
    begun: Arc<Mutex<HashMap<String, usize>>>,
    done: Arc<Mutex<Vec<String>>>,
    at_work: Arc<AtomicUsize>,
    most_at_work: Arc<AtomicUsize>,
    /// What is refused, fails or hangs succeeds from now on.
    healed: Arc<AtomicBool>,
}

impl Handler for Acting {
    type Error = Trouble;

    async fn handle(&self, message: &Message) -> Result<(), Trouble> {
        let text = text(message);
        *self.begun.lock().unwrap().entry(text.clone()).or_default() += 1;
        let at_work = self.at_work.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_at_work.fetch_max(at_work, Ordering::SeqCst);
        let result = self.act(&text).await;
        self.at_work.fetch_sub(1, Ordering::SeqCst);
        if result.is_ok() {
            self.done.lock().unwrap().push(text);
        }
        result
    }
}

impl Acting {
    async fn act(&self, text: &str) -> Result<(), Trouble> {
        let healed = self.healed.load(Ordering::SeqCst);
        match text.split(' ').next().unwrap_or_default() {
            "fail" if !healed => Err(Trouble::Passing),
            "refuse" if !healed => Err(Trouble::Lasting),
            "hang" if !healed => pending().await,
            "kill" => pending().await,
            "panic" => {
                self.at_work.fetch_sub(1, Ordering::SeqCst);
                panic!("this one")
            }
            _ => {
                tokio::time::sleep(Duration::from_millis(5)).await;
                Ok(())
            }
        }
    }

    fn begun(&self, text: &str) -> usize {
        self.begun.lock().unwrap().get(text).copied().unwrap_or(0)
    }

    fn done(&self, text: &str) -> usize {
        self.done.lock().unwrap().iter().filter(|done| *done == text).count()
    }
}

async fn a_failure_is_retried_and_holds_up_nobody(place: Place) {
    let installation = Installation::new(place).await;
    let acting = Acting::default();
    let running = installation.start(acting.clone()).await;
    // More that fail than may be at work at once, and one that waits behind its own key.
    let failing: Vec<_> = (0..10).map(|n| message(&format!("f{n}"), format!("fail {n}"))).collect();
    running.log.append(failing).await.unwrap();
    running.log.append(vec![message("f0", "behind")]).await.unwrap();
    let fine: Vec<_> = (0..30).map(|n| message(&format!("k{n}"), format!("fine {n}"))).collect();
    running.log.append(fine).await.unwrap();
    eventually("the others are done", || async { acting.done.lock().unwrap().len() == 30 }).await;
    eventually("they are tried again", || async { acting.begun("fail 3") >= 3 }).await;
    assert_eq!(acting.begun("behind"), 0);

    acting.healed.store(true, Ordering::SeqCst);
    eventually("all are done", || async { acting.done.lock().unwrap().len() == 41 }).await;
    assert!(running.buried().await.is_empty());
    eventually("no note is left", || async { notes(&running.store).await == 0 }).await;
    running.stop().await;
}

async fn messages_of_a_key_are_done_one_after_another(place: Place) {
    let installation = Installation::new(place).await;
    let acting = Acting::default();
    let running = installation.start(acting.clone()).await;
    let all =
        (0..20).flat_map(|n| (0..8).map(move |k| message(&format!("k{k}"), format!("{k} {n}"))));
    running.log.append(all.collect()).await.unwrap();
    eventually("all are done", || async { acting.done.lock().unwrap().len() >= 160 }).await;
    let done = acting.done.lock().unwrap().clone();
    for k in 0..8 {
        let of_key: Vec<_> = done.iter().filter(|d| d.starts_with(&format!("{k} "))).collect();
        assert_eq!(
            of_key,
            (0..20).map(|n| format!("{k} {n}")).collect::<Vec<_>>().iter().collect::<Vec<_>>()
        );
    }
    let most = acting.most_at_work.load(Ordering::SeqCst);
    assert!((2..=4).contains(&most), "{most} were at work at once");
    running.stop().await;

    // Acknowledged: the next runner finds nothing to do.
    let second = Acting::default();
    let running = installation.start(second.clone()).await;
    running.log.append(vec![message("k0", "after")]).await.unwrap();
    eventually("the new one is done", || async { second.done("after") == 1 }).await;
    assert_eq!(second.begun.lock().unwrap().len(), 1);
    running.stop().await;
}

async fn a_refused_message_is_a_dead_letter_until_it_is_retried(place: Place) {
    let installation = Installation::new(place).await;
    let acting = Acting::default();
    let running = installation.start(acting.clone()).await;
    running.log.append(vec![message("a", "refuse 1"), message("a", "fine")]).await.unwrap();
    eventually("its neighbour is done", || async { acting.done("fine") == 1 }).await;
    let buried = running.buried().await;
    assert_eq!(buried.len(), 1);
    let letter = &buried[0];
    assert_eq!((letter.consumer_group.as_str(), letter.topic.as_str()), ("g", "transactional"));
    assert_eq!((letter.key.as_slice(), letter.payload.as_slice()), (&b"a"[..], &b"refuse 1"[..]));
    assert_eq!((letter.request_id.as_str(), letter.reason.as_str()), ("request-of-a", "never"));
    assert_eq!(letter.attempts, 1);
    eventually("no note is left", || async { notes(&running.store).await == 0 }).await;

    acting.healed.store(true, Ordering::SeqCst);
    dead_letters::retry(&running.store, &running.log, letter.id).await.unwrap();
    eventually("it is done", || async { acting.done("refuse 1") == 1 }).await;
    assert!(running.buried().await.is_empty());
    let unknown = dead_letters::retry(&running.store, &running.log, letter.id).await;
    assert!(unknown.unwrap_err().to_string().contains(&letter.id.to_string()));
    assert!(dead_letters::discard(&running.store, letter.id).await.is_err());
    running.stop().await;
}

async fn a_panic_is_tried_alone_and_then_buried(place: Place) {
    let installation = Installation::new(place).await;
    let acting = Acting::default();
    let running = installation.start(acting.clone()).await;
    running.log.append(vec![message("a", "panic now"), message("a", "fine")]).await.unwrap();
    eventually("its neighbour is done", || async { acting.done("fine") == 1 }).await;
    let buried = running.buried().await;
    assert_eq!(buried.len(), 1);
    assert!(buried[0].reason.contains("panicked") && buried[0].reason.contains("this one"));
    assert_eq!((acting.begun("panic now"), buried[0].attempts), (3, 3));
    eventually("no note is left", || async { notes(&running.store).await == 0 }).await;
    dead_letters::discard(&running.store, buried[0].id).await.unwrap();
    assert!(running.buried().await.is_empty());
    running.stop().await;
}

async fn a_killer_ends_three_workers_and_no_neighbour_is_taken_for_it(place: Place) {
    let installation = Installation::new(place).await;
    let acting = Acting::default();
    let (_store, log) = installation.open().await;
    let messages = ["hang 1", "kill", "hang 2", "hang 3"].map(|text| message(text, text));
    log.append(messages.to_vec()).await.unwrap();
    log.close().await;

    // Twice all four are at work when the worker ends.
    for death in 1..=2 {
        let running = installation.start(acting.clone()).await;
        eventually("all are at work", || async {
            ["hang 1", "kill", "hang 2", "hang 3"].iter().all(|text| acting.begun(text) == death)
        })
        .await;
        running.kill().await;
    }
    // Then each is tried alone; the killer's turn ends the third worker.
    acting.healed.store(true, Ordering::SeqCst);
    acting.at_work.store(0, Ordering::SeqCst);
    acting.most_at_work.store(0, Ordering::SeqCst);
    let running = installation.start(acting.clone()).await;
    eventually("it is tried alone", || async { acting.begun("kill") == 3 }).await;
    running.kill().await;
    assert_eq!(acting.most_at_work.load(Ordering::SeqCst), 1);

    let running = installation.start(acting.clone()).await;
    eventually("it is buried", || async { running.buried().await.len() == 1 }).await;
    eventually("its neighbours are done", || async {
        ["hang 1", "hang 2", "hang 3"].iter().all(|text| acting.done(text) >= 1)
    })
    .await;
    let buried = running.buried().await;
    assert_eq!(buried[0].payload, b"kill");
    assert!(buried[0].reason.contains("ended its worker 3 times"), "{}", buried[0].reason);
    assert_eq!(buried.len(), 1);
    assert_eq!(acting.begun("kill"), 3);
    eventually("no note is left", || async { notes(&running.store).await == 0 }).await;
    running.stop().await;
}

async fn what_a_stopping_runner_does_not_finish_is_handed_back(place: Place) {
    let installation = Installation::new(place).await;
    let acting = Acting::default();
    let running = installation.start(acting.clone()).await;
    let messages = [("a", "fail 1"), ("a", "behind"), ("b", "hang 1"), ("c", "fine")];
    running.log.append(messages.map(|(key, text)| message(key, text)).to_vec()).await.unwrap();
    eventually("all have begun", || async {
        acting.begun("fail 1") >= 1 && acting.begun("hang 1") == 1 && acting.done("fine") == 1
    })
    .await;
    let begun = Instant::now();
    running.stop().await;
    assert!(begun.elapsed() < PATIENCE / 2, "{:?}", begun.elapsed());

    let (store, log) = installation.open().await;
    assert_eq!(notes(&store).await, 0, "handing back is a clean end");
    log.close().await;
    store.close().await;
    acting.healed.store(true, Ordering::SeqCst);
    let running = installation.start(acting.clone()).await;
    eventually("all are done", || async {
        ["fail 1", "behind", "hang 1"].iter().all(|text| acting.done(text) == 1)
    })
    .await;
    running.stop().await;
}

async fn repeats_of_what_fails_take_no_room_from_other_keys(place: Place) {
    let installation = Installation::new(place).await;
    let acting = Acting::default();
    let running = installation.start(acting.clone()).await;
    // More than the runner holds at once.
    running.log.append(vec![message("a", "fail 1"); 200]).await.unwrap();
    eventually("it is begun", async || acting.begun("fail 1") >= 1).await;
    let others: Vec<_> = (0..8).map(|n| message(&format!("k{n}"), format!("fine {n}"))).collect();
    running.log.append(others).await.unwrap();
    eventually("the others are done", async || acting.done.lock().unwrap().len() == 8).await;

    acting.healed.store(true, Ordering::SeqCst);
    eventually("it is done, and once more for all that came later", async || {
        acting.done("fail 1") >= 2
    })
    .await;
    running.stop().await;

    // All were acknowledged: the next runner finds nothing to do.
    let second = Acting::default();
    let running = installation.start(second.clone()).await;
    running.log.append(vec![message("a", "after")]).await.unwrap();
    eventually("the new one is done", async || second.done("after") == 1).await;
    assert_eq!(second.begun.lock().unwrap().len(), 1);
    running.stop().await;
}

/// In a log that was made anew, places are given out again.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_made_anew_is_not_taken_for_the_former_one() {
    let installation = Installation::new(Place::embedded()).await;
    let acting = Acting::default();
    let running = installation.start(acting.clone()).await;
    running.log.append(vec![message("a", "refuse 1")]).await.unwrap();
    eventually("it is buried", async || running.buried().await.len() == 1).await;
    // A note as a worker leaves it that was ended by a message it had alone.
    running.log.append(vec![message("a", "hang 1")]).await.unwrap();
    eventually("it is at work", async || acting.begun("hang 1") == 1).await;
    let sql = "UPDATE message_attempts SET alone = 1";
    let Store::Sqlite { write, .. } = &running.store else { panic!("SQLite was asked for") };
    sqlx::query(sql).execute(write).await.unwrap();
    running.kill().await;

    for file in ["log.db", "log.db-wal", "log.db-shm"] {
        let _ = std::fs::remove_file(installation.place.config.data.join(file));
    }
    let running = installation.start(acting.clone()).await;
    running.log.append(vec![message("a", "refuse 2"), message("a", "fine")]).await.unwrap();
    eventually("the second is buried too", async || running.buried().await.len() == 2).await;
    eventually("the innocent one is done", async || acting.done("fine") == 1).await;
    let buried = running.buried().await;
    assert_eq!((buried[0].position, &*buried[0].payload), (0, &b"refuse 1"[..]));
    assert_eq!((buried[1].position, &*buried[1].payload), (0, &b"refuse 2"[..]));
    running.stop().await;
}

/// A command beside a running installation, as an operator types it.
pub async fn longshore(installation: &Installation, arguments: &[&str]) -> (bool, String) {
    let mut command = process::command(&installation.test.config.data, &installation.environment());
    command.args(arguments);
    let output = process::output(command).await;
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_lists_and_retries_beside_a_running_process() {
    let installation = Installation::new(Place::embedded()).await;
    let (ok, text) = longshore(&installation, &["migrate"]).await;
    assert!(ok, "{text}");
    let acting = Acting::default();
    let running = installation.start(acting.clone()).await;
    running.log.append(vec![message("a", "refuse 1"), message("b", "refuse 2")]).await.unwrap();
    eventually("both are buried", || async { running.buried().await.len() == 2 }).await;

    let (ok, text) = longshore(&installation, &["dead-letters", "list"]).await;
    assert!(ok && text.contains("refuse 1") && text.contains("reason  never"), "{text}");
    assert!(text.contains("request request-of-a") && text.contains("2 dead letters"), "{text}");
    let (ok, text) = longshore(&installation, &["dead-letters", "list", "--json"]).await;
    let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert!(ok);
    assert_eq!((&first["topic"], &first["reason"]), (&"transactional".into(), &"never".into()));
    let id = first["id"].as_str().unwrap();

    let (ok, text) = longshore(&installation, &["dead-letters", "discard", id]).await;
    assert!(ok, "{text}");
    let (ok, text) = longshore(&installation, &["dead-letters", "discard", id]).await;
    assert!(!ok && text.contains(id), "{text}");
    assert!(!longshore(&installation, &["dead-letters", "retry"]).await.0, "it must be said which");

    acting.healed.store(true, Ordering::SeqCst);
    let (ok, text) = longshore(&installation, &["dead-letters", "retry", "--all"]).await;
    assert!(ok, "{text}");
    eventually("the other is done", || async { acting.done.lock().unwrap().len() == 1 }).await;
    assert!(running.buried().await.is_empty());
    let (ok, text) = longshore(&installation, &["dead-letters", "retry", "--all"]).await;
    assert!(ok && text == "there are no dead letters\n", "{text}");
    running.stop().await;
}
