//! What former releases left, `tests/upgrade/<release>`: this program migrates it, reads all of it,
//! and brings everything that was in progress to its end, once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use log::NewMessage;
use longshore::topics;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::dump;
use super::installed::{KEY, ReceiverAddresses, SECRET_KEY, keyed};
use crate::support::callbacks;
use crate::support::files::{project, read};
use crate::support::fleet::{Backend, Fleet};
use crate::support::receiver::{Received, Receiver};
use crate::support::scripted_relay::ScriptedRelay;
use crate::support::{Api, eventually, stores};

/// Where the corpora are.
pub fn folder() -> PathBuf {
    project("tests/upgrade")
}

/// The releases that there are corpora of.
pub fn releases() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder()).expect("tests/upgrade").map(|entry| entry.unwrap());
    let mut releases: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    releases.sort();
    assert!(!releases.is_empty(), "no corpus: see tests/upgrade/README.md");
    releases
}

/// A message of the log that nobody has worked on; the key in base64.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Line {
    pub topic: String,
    pub partition: i32,
    pub key: String,
    pub payload: String,
    pub request_id: String,
}

/// A file below `objects`, its bytes in base64.
#[derive(Serialize, Deserialize)]
pub struct Object {
    pub path: PathBuf,
    pub bytes: String,
}

pub fn lines<T: serde::de::DeserializeOwned>(file: &Path) -> Vec<T> {
    let text = read(file);
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

pub fn written(lines: &[impl Serialize]) -> String {
    lines.iter().map(|line| serde_json::to_string(line).unwrap() + "\n").collect()
}

/// When the store was stored, in milliseconds since the epoch.
pub fn made_at(release: &Path) -> i64 {
    let about: Value = serde_json::from_str(&read(release.join("about.json"))).expect("JSON");
    about["made_at"].as_i64().expect("a time")
}

/// Those who receive what is sent, where the rows say. Another run may be there still.
pub async fn receivers(addresses: ReceiverAddresses) -> (Receiver, ScriptedRelay) {
    let free = async || {
        let bound = std::net::TcpListener::bind(addresses.http()).is_ok();
        bound && std::net::TcpListener::bind(addresses.mail()).is_ok()
    };
    eventually("the receivers' addresses are free", free).await;
    (
        Receiver::start_at(addresses.http(), []).await,
        ScriptedRelay::start_at(addresses.mail(), &[], []).await,
    )
}

fn put_objects(release: &Path, backend: &str, to: &Path) {
    for object in lines::<Object>(&release.join(backend).join("objects.ndjson")) {
        let file = to.join(&object.path);
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("the folder");
        let bytes = BASE64_STANDARD.decode(&object.bytes).expect("base64");
        std::fs::write(file, bytes).expect("the object");
    }
}

/// An installation as the release left it, with the times moved on to today: what was scheduled
/// is due. Nothing runs yet.
async fn restored(backend: Backend, release: &Path) -> Fleet {
    let settings = [
        ("LONGSHORE_SECRET_KEY", SECRET_KEY.to_owned()),
        ("LONGSHORE_EXPORTS__REQUEUE_SECONDS", "1".to_owned()),
        ("LONGSHORE_WORKER__LEASE_MS", "2000".to_owned()),
    ];
    let fleet = Fleet::new_empty(backend, &settings).await;
    let directory = fleet.directory().to_owned();
    let database = fleet.database_url();
    let on = match backend {
        Backend::Embedded => {
            let data = directory.join("data");
            std::fs::create_dir(&data).expect("the data directory");
            let file = |name: &str| release.join("sqlite").join(name);
            dump::to_file(&data.join("store.db"), &read(file("store.sql"))).await;
            dump::to_file(&data.join("log.db"), &read(file("log.sql"))).await;
            put_objects(release, "sqlite", &data.join("objects"));
            "sqlite"
        }
        Backend::Fleet(_) => {
            let file = release.join("postgres/store.sql");
            dump::to_database(&database, &read(&file)).await;
            put_objects(release, "postgres", &directory.join("objects"));
            "postgres"
        }
    };
    let now = jiff::Timestamp::now().as_millisecond();
    dump::shift(&database, now - made_at(release) - 60_000).await;
    let output = fleet.command(&["migrate"]).await;
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{on} of {} cannot be migrated: {error}\nUntil the release is out, a migration that was \
         changed needs another corpus: see tests/upgrade/README.md",
        release.display()
    );
    if on == "postgres" {
        let log = fleet.log().await;
        let message = |line: Line| {
            Some(NewMessage {
                // Of a topic that is used no more nobody reads anything.
                topic: topics::from_name(&line.topic)?,
                key: BASE64_STANDARD.decode(&line.key).expect("base64"),
                partition: Some(line.partition),
                payload: line.payload.into_bytes(),
                request_id: line.request_id,
            })
        };
        let messages = lines(&release.join("messages.ndjson")).into_iter().filter_map(message);
        log.append(messages.collect()).await.expect("they are appended");
        log.close().await;
        // The cluster is another one than that of the release.
        for topic in ["tracking", "catalogs", "messages"] {
            fleet.run(&["log", "reset", "--topic", topic, "--all", "--to", "earliest"]).await;
        }
    }
    fleet
}

/// The texts of requests to a path, each id once.
fn texts(received: &[Received], path: &str) -> Vec<String> {
    let of_path = received.iter().filter(|request| request.uri.path() == path);
    let by_id: BTreeMap<String, String> = of_path
        .map(|request| {
            let id = request.header("webhook-id").to_owned();
            (id, String::from_utf8_lossy(&request.body).into_owned())
        })
        .collect();
    let mut texts: Vec<String> = by_id.into_values().collect();
    texts.sort();
    texts
}

fn sorted(texts: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut texts: Vec<String> = texts.into_iter().collect();
    texts.sort();
    texts
}

async fn is_finished(backend: Backend) {
    let addresses = ReceiverAddresses::new(backend != Backend::Embedded);
    for release in releases() {
        let (receiver, relay) = receivers(addresses).await;
        let mut fleet = restored(backend, &release).await;
        match backend {
            Backend::Embedded => fleet.launch("standalone").await,
            Backend::Fleet(_) => {
                fleet.launch("gateway").await;
                fleet.launch("worker-1").await;
            }
        }
        let api = Api::new(fleet.base(), KEY);
        let database = fleet.database_url();
        // Requests with keys: stored responses are returned again, and unfinished work is done.
        for key in ["answered", "left"] {
            let (status, body) = keyed(&api, key).await;
            assert_eq!((status, &body["attributes_processed"]), (201, &json!(1)), "{key}: {body}");
        }
        fleet.applied().await;
        for sql in [
            "SELECT count(*) FROM export_jobs WHERE state <> 'done'",
            "SELECT count(*) FROM messages WHERE state IN ('pending', 'waiting')",
            "SELECT count(*) FROM deliveries WHERE state <> 'delivered'",
            "SELECT count(*) FROM transactional_emails WHERE state <> 'sent'",
            "SELECT count(*) FROM dispatches WHERE state <> 'done'",
            "SELECT count(*) FROM schedules WHERE state <> 'sent' AND timing = 'instant'",
            "SELECT count(*) FROM claims
             WHERE kind NOT IN ('export_cleanup', 'activity_sweep', 'schedule')",
        ] {
            stores::wait_for_count(&database, sql, |count| count == 0).await;
        }
        check_sent(&receiver, &relay);
        check_users(&api).await;
        check_commands(&fleet).await;
        fleet.close().await;
        drop((receiver, relay));
    }
}

/// What was in progress, and what was called for, was sent: all, and once.
fn check_sent(receiver: &Receiver, relay: &ScriptedRelay) {
    let received = receiver.received();
    // Everybody is in the control group, which Canvases and triggered campaigns leave out.
    let gold = (0..24).step_by(2).map(|n| format!("all u{n}"));
    let others = ["begun u1", "begun u2", "named u7 7", "named u8 ", "scheduled u11"];
    let wanted = sorted(gold.chain(others.map(str::to_owned)));
    assert_eq!(texts(&received, "/hook"), wanted);
    let emails =
        relay.accepted().into_iter().map(|email| email.header("subject").expect("a subject"));
    let wanted = ["begun u1", "begun u2", "receipt begun u4", "receipt called u10"];
    assert_eq!(sorted(emails), wanted.map(str::to_owned));
    for (path, count) in [("/callback-begun", 1), ("/callback", 0), ("/push", 1), ("/states", 2)] {
        assert_eq!(texts(&received, path).len(), count, "{path}");
    }
    let signs = BASE64_STANDARD.decode(&super::installed::SIGNS["whsec_".len()..]).expect("base64");
    let told = received.iter().find(|request| request.uri.path() == "/callback-begun");
    assert_eq!(callbacks::verified(told.expect("it came"), &signs)["success"], true);
}

/// What was tracked counts once.
async fn check_users(api: &Api) {
    let users = api.exported().await;
    let by_id: BTreeMap<&str, &Value> =
        users.iter().map(|user| (user["external_id"].as_str().expect("an id"), user)).collect();
    let mut wanted: Vec<String> = (0..23).map(|n| format!("u{n}")).collect();
    wanted.push("new".to_owned());
    assert_eq!(sorted(by_id.keys().map(|id| (*id).to_owned())), sorted(wanted));
    assert_eq!(users.len(), by_id.len(), "a user is there twice");
    let member = |id: &str, member: &str| by_id[id][member].clone();
    for (id, revenue) in [("u1", 5.0), ("u2", 50.0), ("u5", 9.0), ("u6", 40.0)] {
        assert_eq!(member(id, "total_revenue").as_f64(), Some(revenue), "{id}");
    }
    for (id, visits) in [("u0", 1), ("u5", 4), ("u13", 1), ("u14", 1)] {
        assert_eq!(member(id, "custom_attributes")["visits"], visits, "{id}");
    }
    let five = &by_id["u5"]["custom_attributes"];
    assert_eq!((&five["color"], &five["tags"]), (&json!("red"), &json!(["new"])));
    assert_eq!(member("u5", "first_name"), "Five");
}

/// Everything else can be read.
async fn check_commands(fleet: &Fleet) {
    for (command, part) in [
        (&["users", "show", "u1"][..], "\"tea\""),
        (&["cards", "u2", "--json"], "past"),
        (&["messages", "u2"], "webhook"),
        (&["dispatches", "list"], "done"),
        (&["schedules", "list"], "pending"),
        (&["campaigns", "stats"], ""),
        (&["console-log", "--json"], "{"),
        (&["sla"], ""),
        (&["invalid-numbers", "list"], "+15550199"),
        (&["catalogs", "items", "restaurants"], "\"Roma\""),
        (&["catalogs", "items", "restaurants"], "4.7"),
        (&["catalogs", "edits", "restaurants"], ""),
        (&["control-group", "show"], "100"),
        (&["key", "list"], "k"),
        (&["scim-token", "list"], "idp"),
        (&["dead-letters", "list"], "tracking"),
        (&["deliveries", "list"], "delivered"),
        (&["log", "status", "--all"], "tracking"),
    ] {
        let said = fleet.run(command).await;
        assert!(said.contains(part), "{command:?} has no {part:?}: {said}");
    }
    let database = fleet.database_url();
    let dead = "SELECT count(*) FROM dead_letters";
    assert_eq!(stores::count(&database, dead).await, 1, "the one of the release");
    let people = "SELECT count(*) FROM dashboard_users";
    assert_eq!(stores::count(&database, people).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn work_in_progress_is_finished_standalone() {
    is_finished(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_that_was_under_way_is_finished_in_a_fleet() {
    is_finished(Backend::Fleet(1)).await;
}
