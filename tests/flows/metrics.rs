//! What an operator sees at `/metrics`: of the work of the whole fleet, on both databases, and of
//! each process.

mod fleet;

use std::collections::{BTreeMap, BTreeSet};

use log::NewMessage;
use longshore::kinds;
use longshore::telemetry::metrics as declared;
use longshore::topics;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::api::answer;
use crate::support::fleet::{Backend, Fleet};
use crate::support::proxy::{Proxy, ProxyMode};
use crate::support::receiver::Receiver;
use crate::support::stores::execute;
use crate::support::{WorkspaceFile, eventually, user_records};

/// The values by series, as they are printed.
type Values = BTreeMap<String, f64>;

fn values(text: &str) -> Values {
    let series = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    series
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').expect("a value");
            (name.to_owned(), value.parse().unwrap_or_else(|_| panic!("{line}")))
        })
        .collect()
}

/// The fleet's metrics without their time.
fn fleet_values(values: &Values) -> Values {
    let is_of_fleet = |name: &str| {
        ["longshore_job", "longshore_work_", "longshore_dead_letters"]
            .iter()
            .any(|start| name.starts_with(start))
    };
    values
        .iter()
        .filter(|(name, _)| is_of_fleet(name))
        .map(|(name, value)| (name.clone(), *value))
        .collect()
}

/// Those of them that are not 0; the ages in tens of seconds.
fn nonzero_values(values: &Values) -> BTreeMap<String, i64> {
    let all = fleet_values(values);
    // Ten jobs in their states and the kinds of work with their ages, and the topics.
    let count = 2 * 10 + 3 * kinds::ALL.len() + topics::ALL.len();
    assert_eq!(all.len(), count, "{all:?}");
    let there = all.into_iter().filter(|(_, value)| *value != 0.0);
    there
        .map(|(name, value)| {
            let tens = if name.contains("_seconds") { value / 10.0 } else { value };
            (name.replace("longshore_", ""), tens as i64)
        })
        .collect()
}

const SEEN: &str = "longshore_fleet_seen_timestamp_seconds";

/// A fleet of real processes, with its gateway's metrics.
struct Scene {
    fleet: Fleet,
    gateway: &'static str,
    worker: &'static str,
}

impl Scene {
    async fn shows(&self, process: &str) -> Values {
        let text = self.fleet.metrics(process).await;
        are_declared(&text);
        values(&text)
    }

    /// Waits until the gateway reports this of the fleet.
    async fn tells(&self, name: &str, value: f64) {
        eventually(&format!("{name} is {value}"), async || {
            self.shows(self.gateway).await.get(name) == Some(&value)
        })
        .await;
    }
}

/// Checks that each series has the labels that are declared, and each metric its help.
fn are_declared(text: &str) {
    for metric in declared::all() {
        let help = format!("# HELP {} {}\n", metric.name, metric.help.replace('\\', "\\\\"));
        let is_there = text.contains(&format!("# TYPE {} {}\n", metric.name, metric.kind.name()));
        assert_eq!(is_there, text.contains(&help), "{}", metric.name);
    }
    for series in values(text).keys() {
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        let metric = declared::all().find(|m| m.name == name || Some(m.name) == base);
        let metric = metric.unwrap_or_else(|| panic!("{name} is not declared"));
        let labels = labels.trim_end_matches('}').split("\",");
        let names: BTreeSet<&str> = labels
            .filter_map(|label| Some(label.split_once('=')?.0))
            .filter(|l| *l != "le")
            .collect();
        assert_eq!(names, BTreeSet::from_iter(metric.labels.iter().copied()), "{series}");
    }
}

/// From the first call to the last callback, as a gateway without workers sees it first.
async fn open_work_is_reported(backend: Backend) {
    let receiver = Receiver::start([]).await;
    let callbacks = Proxy::to(&receiver.url("/")).await;
    callbacks.set(ProxyMode::Refused);
    let settings = [
        ("LONGSHORE_OPS__WATCH_SECONDS", "1".to_owned()),
        ("LONGSHORE_DELIVERIES__RETRY_MS", "50".to_owned()),
    ];
    let (gateway, worker) = match backend {
        Backend::Embedded => ("standalone", "standalone"),
        Backend::Fleet(_) => ("gateway", "worker-1"),
    };
    let mut scene = Scene { fleet: Fleet::start(backend, &settings).await, gateway, worker };
    let permissions = ["users.export.global_control_group", "messages.schedule.create"];
    let workspace = WorkspaceFile::new("acme").permitted(&permissions);
    let api = scene.fleet.apply(std::slice::from_ref(&workspace)).await.remove(0);
    let records: Vec<String> = (0..20).map(|number| user_records::simple(number, 1)).collect();
    scene.fleet.import("acme", &records).await;

    let callback = callbacks.instead_of(&receiver.url("/"));
    let body = json!({ "fields_to_export": ["email"], "callback_endpoint": callback });
    let accepted = api.export(&body).await;
    if gateway != worker {
        scene.tells("longshore_jobs{kind=\"export\",state=\"queued\"}", 1.0).await;
        scene.fleet.launch(worker).await;
    }
    api.done(&accepted.prefix).await;
    scene.tells("longshore_jobs{kind=\"delivery\",state=\"pending\"}", 1.0).await;
    let shown = scene.shows(gateway).await;
    assert!(shown["longshore_job_oldest_seconds{kind=\"delivery\",state=\"pending\"}"] < 180.0);
    scene.tells("longshore_jobs{kind=\"export\",state=\"queued\"}", 0.0).await;
    // Its time is up.
    let database = scene.fleet.database_url();
    execute(&database, "UPDATE deliveries SET retry_until = 0").await;
    scene.tells("longshore_jobs{kind=\"delivery\",state=\"given_up\"}", 1.0).await;

    let unreadable = NewMessage {
        topic: topics::EXPORTS,
        key: b"k".to_vec(),
        partition: None,
        payload: b"no export".to_vec(),
        request_id: "r".into(),
    };
    let log = scene.fleet.log().await;
    log.append(vec![unreadable]).await.unwrap();
    log.close().await;
    scene.tells("longshore_dead_letters{topic=\"exports\"}", 1.0).await;

    schedules_count_once(&scene, &api).await;
    expired_claims_are_reported(&scene).await;
    each_process_reports_its_metrics(&scene).await;

    // All is fixed.
    callbacks.set(ProxyMode::Open);
    let listed = scene.fleet.run(&["deliveries", "list", "--json"]).await;
    scene.fleet.run(&["deliveries", "resend", &id_in(&listed)]).await;
    let listed = scene.fleet.run(&["dead-letters", "list", "--json"]).await;
    scene.fleet.run(&["dead-letters", "discard", &id_in(&listed)]).await;
    let listed = scene.fleet.run(&["schedules", "list", "--json"]).await;
    scene.fleet.run(&["schedules", "cancel", &id_in(&listed)]).await;
    eventually("nothing is left", async || nonzero_values(&scene.shows(gateway).await).is_empty())
        .await;
    scene.fleet.close().await;
}

/// The id of the only thing that a command listed.
fn id_in(listed: &str) -> String {
    let entry: Value = serde_json::from_str(listed).unwrap_or_else(|_| panic!("one of {listed}"));
    entry["id"].as_str().expect("an id").to_owned()
}

async fn schedules_count_once(scene: &Scene, api: &crate::support::Api) {
    let body = json!({
        "schedule": { "time": "2099-01-01T00:00:00Z" }, "external_user_ids": ["ann"],
        "messages": { "webhook": { "url": "https://example.com", "request_method": "POST",
                                   "body": "hi" } },
    });
    for _ in 0..2 {
        let request = api.request(Method::POST, "/messages/schedule/create");
        let answer = answer(request.header("Idempotency-Key", "once").json(&body)).await;
        assert_eq!(answer.status, 201, "{answer:?}");
    }
    scene.tells("longshore_send_requests_total{kind=\"schedule\"}", 1.0).await;
    scene.tells("longshore_idempotency_total{outcome=\"repeated\"}", 1.0).await;
    scene.tells("longshore_jobs{kind=\"schedule\",state=\"pending\"}", 1.0).await;
    scene.tells("longshore_job_oldest_seconds{kind=\"schedule\",state=\"pending\"}", 0.0).await;
}

/// The worker that held a row is gone.
async fn expired_claims_are_reported(scene: &Scene) {
    const LOSE: &str =
        "UPDATE claims SET owner = '00000000-0000-0000-0000-000000000001', due_at = 0
                        WHERE kind = 'activity_sweep' AND item = 7";
    let name =
        format!("longshore_claims_taken_over_total{{kind=\"{}\"}}", kinds::ACTIVITY_SWEEP.name());
    assert_eq!(scene.shows(scene.worker).await[&name], 0.0);
    assert_eq!(execute(&scene.fleet.database_url(), LOSE).await, 1);
    eventually("it is taken over", async || {
        scene.shows(scene.worker).await.get(&name) == Some(&1.0)
    })
    .await;
}

async fn each_process_reports_its_metrics(scene: &Scene) {
    let is_alone = scene.gateway == scene.worker;
    let (gateway, worker) = (scene.shows(scene.gateway).await, scene.shows(scene.worker).await);
    let mut roles: BTreeSet<String> =
        ["exports", "deliveries", "ingest", "catalogs", "messages", "transactional"]
            .map(str::to_owned)
            .into();
    if is_alone {
        roles.extend(["gateway", "standalone"].map(str::to_owned));
    } else {
        assert_eq!(gateway["longshore_process_info{role=\"gateway\"}"], 1.0);
    }
    let told = worker.keys().filter_map(|name| {
        name.strip_prefix("longshore_process_info{role=\"")?.strip_suffix("\"}").map(str::to_owned)
    });
    assert_eq!(told.collect::<BTreeSet<_>>(), roles);
    for process in [&gateway, &worker] {
        assert!(process["process_resident_memory_bytes"] > 1e6, "{process:?}");
        assert!(process["process_open_fds"] > 3.0, "{process:?}");
        assert!(process["process_open_fds"] < process["process_max_fds"], "{process:?}");
        assert!(process["process_start_time_seconds"] > 1.6e9, "{process:?}");
        assert!(process.contains_key("process_cpu_seconds_total"), "{process:?}");
        assert!(process["longshore_compute_threads"] >= 1.0, "{process:?}");
        let open: f64 = ["idle", "used"]
            .map(|s| process[&format!("longshore_pool_connections{{pool=\"main\",state=\"{s}\"}}")])
            .iter()
            .sum();
        let max_connections = process["longshore_pool_connections_max{pool=\"main\"}"];
        assert!((1.0..=max_connections).contains(&open), "{open} of {max_connections}");
        assert!(process["longshore_pool_wait_seconds_count{pool=\"main\"}"] > 0.0, "{process:?}");
        let other = if is_alone { "writer" } else { "transactional" };
        assert!(
            process.contains_key(&format!("longshore_pool_connections_max{{pool=\"{other}\"}}"))
        );
    }
    assert_eq!(gateway["longshore_http_requests_in_flight"], 0.0);
    assert_eq!(gateway["longshore_http_requests_in_flight_max"], 1024.0);
    assert_eq!(gateway["longshore_http_body_bytes_max"], 32.0 * 1024.0 * 1024.0);
    assert_eq!(worker["longshore_memory_bytes{budget=\"exports\"}"], 0.0);
    assert_eq!(worker["longshore_memory_bytes_max{budget=\"exports\"}"], 144.0 * 1024.0 * 1024.0);
    for name in ["longshore_log_bytes", "longshore_store_bytes", "longshore_data_free_bytes"] {
        assert_eq!(worker.get(name).is_some_and(|bytes| *bytes > 4096.0), is_alone, "{name}");
    }
    if !is_alone {
        assert_eq!(fleet_values(&worker), Values::new(), "gateways tell it");
        assert!(!worker.contains_key(SEEN) && !worker.contains_key("longshore_http_body_bytes"));
        assert!(!gateway.contains_key("longshore_memory_bytes{budget=\"exports\"}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_process_reports_open_work() {
    open_work_is_reported(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn several_processes_report_open_work() {
    open_work_is_reported(Backend::Fleet(0)).await;
}
