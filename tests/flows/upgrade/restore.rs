//! A backup of `standalone` that is taken while it works, and what a restore of it has.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _};

use crate::support::fleet::{Backend, Fleet};
use crate::support::workspace::WorkspaceFile;
use crate::support::{Api, eventually, open_work, stores};

/// As docs/runbooks/restore-backup.md describes.
async fn vacuum_into(from: &Path, to: &Path) {
    let options = SqliteConnectOptions::new().filename(from);
    let mut file = SqliteConnection::connect_with(&options).await.expect("the file opens");
    let sql = format!("VACUUM INTO '{}'", to.display());
    file.execute(AssertSqlSafe(sql)).await.expect("it is copied");
    file.close().await.expect("it closes");
}

/// Clients that each make users of their own, one call after the other, and store who was
/// acknowledged.
async fn client(
    api: Api,
    number: usize,
    acknowledged: Arc<Mutex<Vec<String>>>,
    stop: Arc<AtomicBool>,
) {
    for n in 0.. {
        if stop.load(Ordering::SeqCst) {
            return;
        }
        let id = format!("c{number}-{n}");
        let body = json!({
            "attributes": [{ "external_id": id, "visits": { "inc": 1 } }],
            "purchases": [{ "external_id": id, "product_id": "tea", "currency": "USD",
                            "price": 1, "time": jiff::Timestamp::now().to_string() }],
        });
        let call = api.request(Method::POST, "/users/track");
        let call = if n % 2 == 0 { call.header("idempotency-key", &id) } else { call };
        if let Ok(answer) = call.json(&body).send().await
            && answer.status() == 201
        {
            acknowledged.lock().expect("no test panics here").push(id);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_under_load_contains_all_acknowledged_requests() {
    let settings = [("LONGSHORE_EXPORTS__REQUEUE_SECONDS", "1".to_owned())];
    let mut fleet = Fleet::start(Backend::Embedded, &settings).await;
    let api = fleet.apply(&[WorkspaceFile::new("acme").unlimited()]).await.remove(0);
    let acknowledged = Arc::new(Mutex::new(Vec::new()));
    let stop = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..4)
        .map(|n| tokio::spawn(client(api.clone(), n, acknowledged.clone(), stop.clone())))
        .collect();
    let count = || acknowledged.lock().expect("no test panics here").len();
    eventually("there is a load", || async { count() > 100 }).await;
    // One that waits in the backup.
    let export = api.export_all().await.prefix;

    let data = fleet.directory().join("data");
    let kept = fleet.directory().join("kept");
    std::fs::create_dir(&kept).expect("the folder");
    let (store, copy) = (data.join("store.db"), kept.join("store.db"));
    let notes = "SELECT count(*) FROM message_attempts";
    let before = loop {
        let before = acknowledged.lock().expect("no test panics here").clone();
        vacuum_into(&store, &copy).await;
        // The log's copy is later: of a message that is just being begun here it has the end, and
        // then nobody removes the note of its beginning, which harms nothing but the last check.
        if stores::count(&format!("sqlite://{}", copy.display()), notes).await == 0 {
            break before;
        }
        std::fs::remove_file(&copy).expect("the copy is removed");
    };
    // What is acknowledged in between makes the log newer than the store, and not the other way.
    let between = count() + 30;
    eventually("the load goes on", || async { count() > between }).await;
    vacuum_into(&data.join("log.db"), &kept.join("log.db")).await;
    let after = count() + 30;
    eventually("the load goes on", || async { count() > after }).await;
    fleet.kill("standalone");
    stop.store(true, Ordering::SeqCst);
    for client in clients {
        client.await.expect("no panic");
    }

    for file in ["store.db", "log.db"] {
        for end in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(data.join(format!("{file}{end}")));
        }
        std::fs::copy(kept.join(file), data.join(file)).expect("it is put back");
    }
    fleet.launch("standalone").await;
    fleet.applied().await;
    assert_eq!(api.ended(&export).await["state"], "done");
    let users = api.exported().await;
    let mut found = std::collections::HashSet::new();
    for user in &users {
        let id = user["external_id"].as_str().expect("an id");
        assert!(found.insert(id), "{id} is there twice");
        assert_eq!(user["custom_attributes"]["visits"], 1, "{user}");
        assert_eq!(user["total_revenue"].as_f64(), Some(1.0), "{user}");
    }
    let missing: Vec<&String> = before.iter().filter(|id| !found.contains(id.as_str())).collect();
    assert!(missing.is_empty(), "acknowledged before the back-up, and gone: {missing:?}");
    let of_log = found.len() - before.len();
    assert!(of_log >= 30, "what the log has behind the store is applied again: {of_log}");
    eventually("no partition is stopped", || async {
        fleet.readiness("standalone").await.1 == "ready\n"
    })
    .await;
    // And it continues from there.
    let body = json!({ "attributes": [{ "external_id": "later" }] });
    assert_eq!(api.post("/users/track", &body).await.status, 201);
    fleet.applied().await;
    fleet.run(&["users", "show", "later"]).await;
    open_work::wait_until_done(&fleet).await;
    tokio::time::timeout(Duration::from_secs(180), fleet.close()).await.expect("it ends");
}

/// A backup of `standalone`, as the guide says, into a folder.
pub async fn back_up(fleet: &Fleet, name: &str) -> PathBuf {
    let (data, folder) = (fleet.directory().join("data"), fleet.directory().join(name));
    std::fs::create_dir(&folder).expect("the folder");
    for file in ["store.db", "log.db"] {
        vacuum_into(&data.join(file), &folder.join(file)).await;
    }
    std::fs::write(folder.join("complete"), "").expect("it is complete");
    folder
}

/// Users with these ids are tracked, and applied.
async fn track(fleet: &Fleet, api: &Api, ids: &[&str]) {
    for id in ids {
        let body = json!({ "attributes": [{ "external_id": id, "visits": { "inc": 1 } }] });
        assert_eq!(api.post("/users/track", &body).await.status, 201);
    }
    fleet.applied().await;
}

/// The users, by their number of visits.
async fn visits(api: &Api) -> BTreeMap<String, i64> {
    let users = api.exported().await.into_iter();
    let read = |user: serde_json::Value| {
        let id = user["external_id"].as_str().expect("an id").to_owned();
        (id, user["custom_attributes"]["visits"].as_i64().expect("visits"))
    };
    users.map(read).collect()
}

fn each_once(ids: &[&str]) -> BTreeMap<String, i64> {
    ids.iter().map(|id| ((*id).to_owned(), 1)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_applies_what_was_accepted_after_the_backup() {
    let mut fleet = Fleet::start(Backend::Embedded, &[]).await;
    let api = fleet.apply(&[WorkspaceFile::new("acme").unlimited()]).await.remove(0);
    track(&fleet, &api, &["before-1", "before-2"]).await;
    let folder = back_up(&fleet, "kept").await;
    track(&fleet, &api, &["after-1", "after-2", "before-1"]).await;
    let restore = ["backup", "restore", folder.to_str().expect("UTF-8"), "--json"];
    let running = fleet.command(&restore).await;
    assert!(!running.status.success(), "it was restored under a running process");

    fleet.kill("standalone");
    let data = fleet.directory().join("data");
    std::fs::write(data.join("store.db"), "damaged").expect("it is damaged");
    let restored: Value = serde_json::from_str(&fleet.run(&restore).await).expect("JSON");
    assert_eq!((&restored["log"], &restored["messages"]), (&json!("kept"), &json!(3)));
    let aside: Vec<String> = std::fs::read_dir(&data)
        .expect("the folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
        .filter(|name| name.contains("before-restore"))
        .collect();
    assert!(aside.iter().any(|name| name.starts_with("store.db.")), "{aside:?}");
    assert_eq!(restored["set_aside"].as_array().map(Vec::len), Some(aside.len()), "{restored}");
    assert!(!aside.iter().any(|name| name.starts_with("log.db.")), "{aside:?}");
    fleet.launch("standalone").await;
    fleet.applied().await;
    let mut expected = each_once(&["before-1", "before-2", "after-1", "after-2"]);
    expected.insert("before-1".into(), 2);
    assert_eq!(visits(&api).await, expected);
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_keeps_no_log_that_does_not_continue_the_backup() {
    let mut fleet = Fleet::start(Backend::Embedded, &[]).await;
    let api = fleet.apply(&[WorkspaceFile::new("acme").unlimited()]).await.remove(0);
    track(&fleet, &api, &["before-1"]).await;
    let older = back_up(&fleet, "older").await;
    track(&fleet, &api, &["before-2", "before-3", "before-1"]).await;
    let folder = back_up(&fleet, "kept").await;
    let restore = ["backup", "restore", folder.to_str().expect("UTF-8")];
    let replace = [restore[0], restore[1], restore[2], "--replace-log", "--json"];
    track(&fleet, &api, &["after-1"]).await;
    fleet.kill("standalone");
    let data = fleet.directory().join("data");
    let put = |name: &str, bytes: &[u8]| {
        for end in ["-wal", "-shm"] {
            let _ = std::fs::remove_file(data.join(format!("{name}{end}")));
        }
        std::fs::write(data.join(name), bytes).expect("it is written");
    };
    put("store.db", b"damaged");
    let foreign = {
        let other = Fleet::start(Backend::Embedded, &[]).await;
        let folder = back_up(&other, "kept").await;
        let bytes = std::fs::read(folder.join("log.db")).expect("a log");
        other.close().await;
        bytes
    };
    let old = std::fs::read(older.join("log.db")).expect("a log");
    for log in [b"damaged".as_slice(), &foreign, &old] {
        put("log.db", log);
        let refused = fleet.command(&restore).await;
        let error = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && error.contains("--replace-log"), "{error}");
        assert_eq!(std::fs::read(data.join("store.db")).expect("a file"), b"damaged");
        assert!(std::fs::read(data.join("log.db")).expect("a log") == log, "it was changed");
    }
    let restored: Value = serde_json::from_str(&fleet.run(&replace).await).expect("JSON");
    assert_eq!(restored["log"], "from_backup", "{restored}");
    fleet.launch("standalone").await;
    fleet.applied().await;
    let mut expected = each_once(&["before-1", "before-2", "before-3"]);
    expected.insert("before-1".into(), 2);
    assert_eq!(visits(&api).await, expected);

    // Without a log, and without the rest of the data directory.
    fleet.kill("standalone");
    for entry in std::fs::read_dir(&data).expect("the folder") {
        let path = entry.expect("an entry").path();
        if path.is_file() && !path.ends_with("secret.key") {
            std::fs::remove_file(path).expect("it is removed");
        }
    }
    let incomplete = fleet.directory().join("incomplete");
    std::fs::create_dir(&incomplete).expect("the folder");
    std::fs::copy(folder.join("store.db"), incomplete.join("store.db")).expect("a copy");
    let refused = ["backup", "restore", incomplete.to_str().expect("UTF-8")];
    assert!(!fleet.command(&refused).await.status.success());
    fleet.run(&restore).await;
    fleet.launch("standalone").await;
    fleet.applied().await;
    assert_eq!(visits(&api).await, expected);
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_log_is_not_taken_for_the_one_that_was_lost() {
    let mut fleet = Fleet::start(Backend::Embedded, &[]).await;
    let api = fleet.apply(&[WorkspaceFile::new("acme").unlimited()]).await.remove(0);
    let data = fleet.directory().join("data");
    let restore = |folder: &Path| {
        ["backup", "restore", folder.to_str().expect("UTF-8")].map(str::to_owned).to_vec()
    };
    let expected = |visits: &[(&str, i64)]| -> BTreeMap<String, i64> {
        visits.iter().map(|(id, visits)| ((*id).to_owned(), *visits)).collect()
    };
    track(&fleet, &api, &["ann", "ben"]).await;
    let first = restore(&back_up(&fleet, "first").await);
    track(&fleet, &api, &["ann", "ben"]).await;
    let of_lost = restore(&back_up(&fleet, "of-lost").await);
    fleet.kill("standalone");
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(data.join(format!("log.db{end}")));
    }
    run_and_launch(&mut fleet, &first).await;
    assert_eq!(visits(&api).await, expected(&[("ann", 1), ("ben", 1)]));
    // The same partitions, so the log has other messages at the same offsets.
    track(&fleet, &api, &["ann", "ben", "ann", "ben"]).await;
    let of_restored = restore(&back_up(&fleet, "of-restored").await);
    track(&fleet, &api, &["ann", "ben", "cay"]).await;

    fleet.kill("standalone");
    assert!(!run(&fleet, &of_lost).await, "its offsets are those of the lost log");
    // An earlier backup: the log has its messages, and all after it.
    run_and_launch(&mut fleet, &first).await;
    let all = expected(&[("ann", 4), ("ben", 4), ("cay", 1)]);
    assert_eq!(visits(&api).await, all);
    fleet.kill("standalone");
    run_and_launch(&mut fleet, &of_restored).await;
    assert_eq!(visits(&api).await, all);

    // The other way round: back to the lost log, and to backups of both after that.
    fleet.kill("standalone");
    let replace: Vec<String> = of_lost.iter().cloned().chain(["--replace-log".into()]).collect();
    run_and_launch(&mut fleet, &replace).await;
    assert_eq!(visits(&api).await, expected(&[("ann", 2), ("ben", 2)]));
    track(&fleet, &api, &["ann", "ben", "ann", "ben", "dan"]).await;
    fleet.kill("standalone");
    assert!(!run(&fleet, &of_restored).await, "its offsets are those of a replaced log");
    for backup in [&first, &of_lost] {
        run_and_launch(&mut fleet, backup).await;
        assert_eq!(visits(&api).await, expected(&[("ann", 4), ("ben", 4), ("dan", 1)]));
        fleet.kill("standalone");
    }
    fleet.launch("standalone").await;
    fleet.close().await;
}

/// Whether a command succeeds.
async fn run(fleet: &Fleet, arguments: &[String]) -> bool {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    fleet.command(&arguments).await.status.success()
}

/// Runs a restore, starts `standalone`, and waits until the log is applied.
async fn run_and_launch(fleet: &mut Fleet, arguments: &[String]) {
    assert!(run(fleet, arguments).await, "{arguments:?}");
    fleet.launch("standalone").await;
    fleet.applied().await;
}
