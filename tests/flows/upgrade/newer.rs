//! What a newer program wrote: it waits, and nothing of it is lost.

use log::{NewMessage, Topic};
use longshore::topics;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::fleet::{Backend, Fleet};
use crate::support::receiver::Receiver;
use crate::support::workspace::WorkspaceFile;
use crate::support::{eventually, open_work, stores};

const DEAD: &str = "SELECT count(*) FROM dead_letters";

fn worker(backend: Backend) -> &'static str {
    match backend {
        Backend::Embedded => "standalone",
        Backend::Fleet(_) => "worker-1",
    }
}

/// A message of each topic that only a newer worker can read, behind one that this one can.
async fn messages_wait(backend: Backend) {
    // An export whose message comes behind is planned without it.
    let settings = [("LONGSHORE_EXPORTS__REQUEUE_SECONDS", "1".to_owned())];
    let mut fleet = Fleet::start(backend, &settings).await;
    let api = fleet.apply(&[WorkspaceFile::new("acme")]).await.remove(0);
    let before = json!({ "attributes": [{ "external_id": "ann", "first_name": "Ann" }] });
    assert_eq!(api.post("/users/track", &before).await.status, 201);
    let log = fleet.log().await;
    let newer = |topic: &Topic| NewMessage {
        topic: *topic,
        key: Uuid::new_v4().as_bytes().to_vec(),
        partition: Some(1),
        payload: br#"{"v":9,"what":"nobody knows yet"}"#.to_vec(),
        request_id: "of-tomorrow".to_owned(),
    };
    log.append(topics::ALL.iter().map(newer).collect()).await.expect("they are appended");
    let worker = worker(backend);
    let waits = async |fleet: &Fleet| {
        for topic in topics::ALL {
            let line = format!("partition 1 of {} waits at offset ", topic.name());
            eventually(&line, || async {
                let (status, text) = fleet.readiness(worker).await;
                let said = text.lines().find(|said| said.starts_with(&line));
                status == 200
                    && said.is_some_and(|said| said.ends_with("waits for a newer longshore"))
            })
            .await;
        }
    };
    waits(&fleet).await;
    // However often workers come and go.
    for _ in 0..2 {
        fleet.terminate(worker).await;
        fleet.launch(worker).await;
    }
    // Nor if one is killed; of one in a group Kafka takes its time to notice.
    if backend == Backend::Embedded {
        fleet.kill(worker);
        fleet.launch(worker).await;
    }
    waits(&fleet).await;
    assert_eq!(stores::count(&fleet.database_url(), DEAD).await, 0);
    fleet.run(&["users", "show", "ann"]).await;
    // Other partitions continue, and so do exports.
    let users: Vec<Value> = (0..20).map(|n| json!({ "external_id": format!("u{n}") })).collect();
    let answer = api.post("/users/track", &json!({ "attributes": users })).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let users = "SELECT count(*) FROM users";
    stores::wait_for_count(&fleet.database_url(), users, |count| count > 5).await;
    api.done(&api.export_all().await.prefix).await;
    log.close().await;
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_wait_standalone() {
    messages_wait(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_wait_in_a_fleet() {
    messages_wait(Backend::Fleet(1)).await;
}

/// What the worker printed when it left something to a newer one.
async fn leaves(fleet: &Fleet, text: &str, times: usize) {
    eventually(text, || async {
        let printed = fleet.printed();
        printed.lines().filter(|line| line.contains(text)).count() >= times
    })
    .await;
}

/// Rows that a newer program wrote, in the middle of what there is to do; then they are as this
/// program knows them, as if that one had done its part, and all comes to its end, once.
#[tokio::test(flavor = "multi_thread")]
async fn rows_wait() {
    let receiver = Receiver::start([]).await;
    // A try that counts would be the last.
    let settings = [("LONGSHORE_EXPORTS__ATTEMPTS", "1".to_owned())];
    let mut fleet = Fleet::start(Backend::Fleet(1), &settings).await;
    let permissions = ["messages.send", "users.track", "users.export.global_control_group"];
    let workspace = WorkspaceFile::new("acme").permitted(&permissions);
    let api = fleet.apply(std::slice::from_ref(&workspace)).await.remove(0);
    let buy = async || {
        let answer = api
            .post(
                "/users/track",
                &json!({ "purchases": [{
                    "external_id": "ann", "product_id": "tea", "currency": "USD", "price": 2.5,
                    "time": jiff::Timestamp::now().to_string(),
                }] }),
            )
            .await;
        assert_eq!(answer.status, 201, "{answer:?}");
    };
    buy().await;
    fleet.applied().await;
    let database = fleet.database_url();
    let execute = async |sql: &'static str| {
        assert!(stores::execute(&database, sql).await > 0, "{sql}");
    };

    // What is read of the workspace, in work that was accepted before.
    fleet.terminate("worker-1").await;
    buy().await;
    let first = api.export_all().await.prefix;
    let webhook = json!({
        "url": receiver.url("/hook"), "request_method": "POST", "body": "{{${external_id}}}",
    });
    let send = json!({ "external_user_ids": ["ann"], "messages": { "webhook": webhook } });
    assert_eq!(api.post("/messages/send", &send).await.status, 201);
    execute("UPDATE workspaces SET frequency_capping = '{\"v\":2,\"rules\":[]}'").await;
    execute(
        "INSERT INTO claims (kind, job, item, due_at)
         VALUES ('of_tomorrow', '00000000-0000-4000-8000-000000000007', 7, 0)",
    )
    .await;
    fleet.launch("worker-1").await;
    leaves(&fleet, "left for a newer worker", 3).await;
    let said = "frequency_capping of acme has version 2, which this version does not support";
    eventually("it says for what it waits", || async {
        let (status, text) = fleet.readiness("worker-1").await;
        status == 200 && text.contains(said)
    })
    .await;
    execute("UPDATE workspaces SET frequency_capping = '[]'").await;
    fleet.applied().await;
    api.done(&first).await;
    receiver.wait_for(1).await;

    // Packed activity: the user is not skipped, neither by exports nor by what comes next.
    execute("UPDATE activity SET body = set_byte(body, 0, 2)").await;
    let second = api.export_all().await.prefix;
    buy().await;
    leaves(&fleet, "packed activity has version 2", 3).await;
    assert_eq!(api.status(&second).await["state"], "running");
    eventually("the partition says that it waits", || async {
        fleet.readiness("worker-1").await.1.contains("of tracking waits at offset")
    })
    .await;
    execute("UPDATE activity SET body = set_byte(body, 0, 1)").await;
    api.done(&second).await;
    fleet.applied().await;

    let users = api.exported().await;
    assert_eq!(users.len(), 1, "{users:?}");
    assert_eq!(users[0]["total_revenue"], 7.5, "each purchase counts once: {users:?}");
    let received = receiver.received();
    assert!(received.len() == 1 && received[0].body == "ann", "{received:?}");
    assert_eq!(stores::count(&database, DEAD).await, 0);
    let untouched = "SELECT count(*) FROM claims
                     WHERE kind = 'of_tomorrow' AND attempt = 0 AND owner IS NULL AND due_at = 0";
    assert_eq!(stores::count(&database, untouched).await, 1);
    execute("DELETE FROM claims WHERE kind = 'of_tomorrow'").await;
    open_work::wait_until_done(&fleet).await;
    fleet.close().await;
}
