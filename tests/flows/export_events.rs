//! The stream of an export's events: what it sends, how it ends, and what it may hold.

use serde_json::json;

use crate::support::api::answer;
use crate::support::events::{Events, request};
use crate::support::fleet::{Backend, Fleet};
use crate::support::process::{self, Process};
use crate::support::proxy::{Proxy, ProxyMode};
use crate::support::stores::execute;
use crate::support::{Api, WorkspaceFile, eventually, user_records};

/// A gateway and a worker with a workspace of 40 users, in files of ten.
async fn fleet(settings: &[(&str, &str)]) -> (Fleet, Api) {
    let settings = settings.iter().chain(&[("LONGSHORE_EXPORTS__USERS_PER_FILE", "10")]);
    let settings: Vec<(&str, String)> =
        settings.map(|(name, value)| (*name, (*value).to_owned())).collect();
    let fleet = Fleet::start(Backend::Fleet(1), &settings).await;
    let api = fleet.apply(&[WorkspaceFile::new("acme")]).await.remove(0);
    let records: Vec<String> = (0..40).map(|number| user_records::simple(number, 1)).collect();
    fleet.import("acme", &records).await;
    (fleet, api)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_shows_the_progress_and_ends_with_the_export() {
    let (mut fleet, api) = fleet(&[]).await;
    fleet.stop("worker-1");
    let prefix = api.export_all().await.prefix;
    let mut events = Events::open(&api, &prefix).await;
    let (name, first) = events.next().await.expect("an event at once");
    assert_eq!(
        (name.as_str(), &first["state"], &first["phase"]),
        ("status", &json!("queued"), &json!("queued"))
    );
    fleet.resume("worker-1");
    let mut events = events.rest().await;
    assert_eq!(events.pop(), Some(("end".to_owned(), json!({ "state": "done" }))));
    let (_, last) = events.last().expect("a status").clone();
    assert!(events.iter().all(|(name, _)| name == "status"), "{events:?}");
    let done: Vec<u64> =
        events.iter().filter_map(|(_, status)| status["users"]["done"].as_u64()).collect();
    assert!(done.is_sorted(), "{done:?}");
    // The last one is what GET returns.
    let status = api.status(&prefix).await;
    assert_eq!(last, status);
    assert!(status["url"].is_string() && status.get("phase").is_none(), "{status}");
    // A client that connects after the end gets the status and the end again.
    let again = Events::open(&api, &prefix).await.rest().await;
    let names: Vec<&str> = again.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["status", "end"]);
    assert_eq!(again[0].1, status);
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_started_export_is_sent_again_without_a_change() {
    let (fleet, api) = fleet(&[]).await;
    let prefix = api.export_all().await.prefix;
    api.done(&prefix).await;
    // All its work is done, so nothing changes it.
    let reopened = "UPDATE export_jobs
                    SET state = 'running', finished_at = NULL, completed_at = NULL";
    execute(&fleet.database_url(), reopened).await;
    let mut events = Events::open(&api, &prefix).await;
    let (_, first) = events.next().await.expect("an event at once");
    let (name, second) = events.next().await.expect("an event after some seconds");
    assert_eq!((name.as_str(), &second["users"]), ("status", &first["users"]));
    assert_eq!(second["state"], "running");
    fleet.close().await;
}

/// Another stream of the process may know only an older status.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_not_older_than_the_status_before_it() {
    let (mut fleet, api) = fleet(&[]).await;
    fleet.stop("worker-1");
    let prefix = api.export_all().await.prefix;
    let key = ["key", "create", "--workspace", "acme", "--name", "second", "--permission"];
    let key = fleet.run(&[&key[..], &["users.export.global_control_group"]].concat()).await;
    let other = Api::new(fleet.base(), key.trim());
    let mut first = Events::open(&api, &prefix).await;
    first.next().await.expect("an event at once");
    // By now, the status is read once a second.
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    for (state, changed) in [
        ("planning", "UPDATE export_jobs SET state = 'planning'"),
        ("running", "UPDATE export_jobs SET state = 'running'"),
    ] {
        execute(&fleet.database_url(), changed).await;
        assert_eq!(api.status(&prefix).await["state"], state);
        let mut events = Events::open(&other, &prefix).await;
        assert_eq!(events.next().await.expect("an event at once").1["state"], state);
        assert_eq!(first.next().await.expect("a change").1["state"], state);
    }
    let undone = "UPDATE export_jobs SET state = 'queued'";
    execute(&fleet.database_url(), undone).await;
    fleet.resume("worker-1");
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_key_has_one_stream_of_an_export() {
    let (mut fleet, api) = fleet(&[]).await;
    let other = WorkspaceFile::new("beta");
    let may_not = WorkspaceFile::new("gamma").permitted(&["users.track"]);
    let [other, may_not] = fleet.apply(&[other, may_not]).await.try_into().ok().expect("two");
    fleet.stop("worker-1");
    let prefix = api.export_all().await.prefix;
    let unknown = "00000000-0000-4000-8000-000000000000-1";
    answer(request(&other, &prefix)).await.refuses(404, "object_prefix");
    answer(request(&api, unknown)).await.refuses(404, "object_prefix");
    assert_eq!(answer(request(&may_not, &prefix)).await.status, 403);
    assert_eq!(answer(request(&Api::new(fleet.base(), "unknown"), &prefix)).await.status, 401);
    // A second stream ends the first one.
    let mut first = Events::open(&api, &prefix).await;
    assert!(first.next().await.is_some());
    let mut second = Events::open(&api, &prefix).await;
    let rest = first.rest().await;
    assert_eq!(rest, [("replaced".to_owned(), json!({}))]);
    assert!(second.next().await.is_some());
    // Another key has its own.
    let key = ["key", "create", "--workspace", "acme", "--name", "second"];
    let key = fleet
        .run(&[&key[..], &["--permission", "users.export.global_control_group"]].concat())
        .await;
    let third = Events::open(&Api::new(fleet.base(), key.trim()), &prefix).await;
    // Cancelled: both end with it.
    assert_eq!(api.delete(&format!("/users/export/{prefix}")).await.status, 200);
    for events in [second, third] {
        let end = events.rest().await.pop();
        assert_eq!(end, Some(("end".to_owned(), json!({ "state": "cancelled" }))));
    }
    fleet.resume("worker-1");
    fleet.close().await;
}

/// With two slots for requests, and one for the streams of a workspace.
#[tokio::test(flavor = "multi_thread")]
async fn streams_hold_slots_of_their_own() {
    let settings =
        [("LONGSHORE_GATEWAY__CONNECTIONS", "16"), ("LONGSHORE_GATEWAY__REQUESTS_IN_FLIGHT", "2")];
    let (mut fleet, api) = fleet(&settings).await;
    fleet.stop("worker-1");
    let [first, second] = [api.export_all().await, api.export_all().await];
    let held = Events::open(&api, &first.prefix).await;
    let refused = answer(request(&api, &second.prefix)).await;
    assert_eq!(refused.status, 503);
    assert!(refused.headers.contains_key("retry-after"), "{refused:?}");
    assert_eq!(api.status(&second.prefix).await["state"], "queued");
    // A client that reconnects has the slot of its former stream.
    let mut held = {
        let reconnected = Events::open(&api, &first.prefix).await;
        drop(held);
        reconnected
    };
    assert!(held.next().await.is_some());
    // The command line polls without a stream.
    fleet.resume("worker-1");
    let arguments =
        ["export", "run", "--fields", "email", "--url", fleet.base(), "--key", api.key()];
    fleet.run(&arguments).await;
    drop(held);
    eventually("the slot is free", || async {
        request(&api, &second.prefix).send().await.expect("a response").status() == 200
    })
    .await;
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_with_its_gateway_or_its_key() {
    let (mut fleet, api) = fleet(&[]).await;
    fleet.stop("worker-1");
    let prefix = api.export_all().await.prefix;
    let events = Events::open(&api, &prefix).await;
    fleet.terminate("gateway").await;
    // Without an end: a client continues with the next gateway.
    assert!(events.rest().await.iter().all(|(name, _)| name == "status"));
    assert!(
        !fleet.printed().contains("shutdown deadline passed"),
        "the stream outlasted the drain"
    );
    fleet.launch("gateway").await;
    let events = Events::open(&api, &prefix).await;
    fleet.run(&["key", "revoke", "integrator", "--workspace", "acme"]).await;
    assert!(events.rest().await.iter().all(|(name, _)| name == "status"));
    assert_eq!(answer(request(&api, &prefix)).await.status, 401);
    fleet.resume("worker-1");
    fleet.close().await;
}

/// Streams that the gateway has accepted.
async fn opened_streams(fleet: &Fleet) -> f64 {
    let metrics = fleet.metrics("gateway").await;
    let is_counted = |line: &&str| {
        line.starts_with("longshore_http_requests_total")
            && line.contains("{object_prefix}/events\"")
            && line.contains("status=\"200\"")
    };
    let line = metrics.lines().find(is_counted);
    line.and_then(|line| line.rsplit_once(' ')?.1.parse().ok()).unwrap_or(0.0)
}

#[tokio::test(flavor = "multi_thread")]
async fn export_run_continues_after_a_lost_connection() {
    let (mut fleet, api) = fleet(&[]).await;
    let proxy = Proxy::to(fleet.base()).await;
    fleet.stop("worker-1");
    let output = fleet.directory().join("fetched");
    let mut command = process::command(fleet.directory(), &Default::default());
    command.args(["export", "run", "--fields", "email", "--url", &proxy.endpoint()]);
    command.args(["--key", api.key(), "--output"]).arg(&output);
    let mut export = Process::start("export", fleet.directory(), command);
    eventually("it follows the export", || async { opened_streams(&fleet).await >= 1.0 }).await;
    proxy.set(ProxyMode::Closed);
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    proxy.set(ProxyMode::Open);
    eventually("it follows it again", || async { opened_streams(&fleet).await >= 2.0 }).await;
    let prefix = api.get("/users/export").await.body["exports"][0]["object_prefix"].clone();
    let prefix = prefix.as_str().expect("an export");
    // Whatever ends it now, its output shows how to get the file.
    assert!(export.printed().contains(&format!("export download {prefix}")));
    fleet.resume("worker-1");
    eventually("it ends", || std::future::ready(!export.is_running())).await;
    assert!(export.ended().is_some_and(|status| status.success()), "{}", export.printed());
    assert!(output.join(format!("{prefix}.zip")).exists());
    fleet.close().await;
}
