//! The state of the installation: its processes, its log and its leases, without secrets.

use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::execute;
use crate::support::console::{self, Browser, PageResponse};
use crate::support::fleet::{Backend, Fleet};
use crate::support::stores::on_pool;
use crate::support::{WorkspaceFile, eventually};

/// The part of the page that is updated, if it is not `known`.
async fn update(browser: &Browser, known: Option<&str>) -> PageResponse {
    let mut request = browser.request(Method::GET, "/system").header("HX-Request", "true");
    if let Some(known) = known {
        request = request.header("If-None-Match", known);
    }
    browser.send("/system", request).await
}

async fn processes(fleet: &Fleet) -> Vec<Value> {
    let printed = fleet.run(&["processes", "--json"]).await;
    printed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// A process of another release, which was not seen for a while.
async fn add_process(fleet: &Fleet) {
    let sql = "INSERT INTO processes (id, host, pid, roles, version, started_at, seen_at)
               SELECT $1, '<b>lost', 7, 'exports', '0.0.1', seen_at - 600000, seen_at - 600000
               FROM processes LIMIT 1";
    let store = longshore::app::connect(&fleet.config()).await.expect("the store opens");
    on_pool!(&store, pool => {
        sqlx::query(sql).bind(Uuid::now_v7()).execute(pool).await.map(drop)
    })
    .expect("an insert");
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_leases_and_the_log_are_shown() {
    let mut fleet = Fleet::start(Backend::Fleet(1), &console::settings()).await;
    let vera = Browser::signed_in(&fleet, "vera", "viewer").await;
    eventually("the processes are listed", async || processes(&fleet).await.len() == 2).await;
    let listed = processes(&fleet).await;
    assert!(listed.iter().any(|process| process["roles"] == "gateway"), "{listed:?}");
    assert!(listed.iter().all(|process| process["version"] == env!("CARGO_PKG_VERSION")));

    add_process(&fleet).await;
    let lease = "INSERT INTO claims (kind, job, item, due_at, attempt, owner)
                 SELECT 'export_part', id, 7, 9999999999999, 3, id FROM processes
                 WHERE version = $1";
    assert_eq!(execute(&fleet, lease, "0.0.1").await, 1);
    let page = vera.get("/system").await;
    assert_eq!(page.status, 200, "{page:?}");
    let text = page.text;
    assert_eq!(text.matches("Runs").count(), 2, "{text}");
    assert!(text.contains("Missing") && text.contains("&lt;b&gt;lost"), "{text}");
    assert!(text.contains("other version") && text.contains("0.0.1"), "{text}");
    assert!(text.contains("Parts of exports"), "{text}");
    fleet.assert_no_secret_in("the page of the system", &text);

    // An update has only the part that changes, and is not sent again while it is the same.
    let first = update(&vera, None).await;
    assert_eq!(first.status, 200, "{first:?}");
    assert!(first.text.contains("Missing") && !first.text.contains("<html"), "{}", first.text);
    let tag = first.headers["etag"].to_str().expect("ASCII").to_owned();
    assert!(matches!(update(&vera, Some(&tag)).await.status.as_u16(), 200 | 304));

    // A process that stops is not listed any more.
    fleet.terminate("worker-1").await;
    eventually("the worker is not listed", async || processes(&fleet).await.len() == 2).await;
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_that_are_up_to_date_are_listed_only_on_request() {
    let fleet = Fleet::start(Backend::Embedded, &console::settings()).await;
    let api = fleet.apply(&[WorkspaceFile::new("acme")]).await.remove(0);
    let vera = Browser::signed_in(&fleet, "vera", "viewer").await;
    let tracked = json!({ "attributes": [{ "external_id": "ann" }] });
    let response = api.post("/users/track", &tracked).await;
    assert!(response.status.is_success(), "{response:?}");
    fleet.applied().await;
    eventually("all partitions are up to date", async || {
        vera.get("/system").await.text.contains("partitions are up to date")
    })
    .await;
    let all = vera.get("/system?all=1").await.text;
    assert!(all.contains("partition-tracking-0-") && all.contains("Up to date"), "{all}");

    let status = fleet.command(&["log", "status"]).await;
    assert!(status.status.success() && status.stdout.is_empty(), "{status:?}");
    let all = fleet.run(&["log", "status", "--all"]).await;
    let json = fleet.run(&["log", "status", "--json"]).await;
    assert!(all.contains("tracking") && all.lines().count() == json.lines().count() + 1, "{all}");

    // A partition that stopped is listed alone.
    let sql = "UPDATE log_offsets SET log_id = $1 WHERE topic = 'tracking' AND partition = 1";
    assert_eq!(execute(&fleet, sql, "another log").await, 1);
    let status = fleet.command(&["log", "status"]).await;
    let printed = String::from_utf8(status.stdout.clone()).expect("text");
    assert_eq!(status.status.code(), Some(1), "{status:?}");
    assert_eq!(printed.lines().count(), 2, "only the stopped one is listed: {printed}");
    eventually("the stopped partition is shown", async || {
        let text = vera.get("/system").await.text;
        text.contains("A partition of the log stopped") && text.contains("Stopped")
    })
    .await;
    fleet.close().await;
}
