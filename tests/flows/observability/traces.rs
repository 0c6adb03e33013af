//! Traces, as an OpenTelemetry collector receives them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::prometheus::Prometheus;
use crate::support::api::EXPORT;
use crate::support::files::project;
use crate::support::fleet::{Backend, Fleet};
use crate::support::process::{self, Process, free_port};
use crate::support::receiver::Receiver;
use crate::support::{WorkspaceFile, eventually, user_records};

/// The trace of a caller.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

fn traceparent(is_sampled: bool) -> String {
    format!("00-{TRACE}-b7ad6b7169203331-0{}", u8::from(is_sampled))
}

/// A collector that sends its spans to a receiver, as JSON.
struct Collector {
    _process: Process,
    _directory: TempDir,
    url: String,
    out: Receiver,
}

async fn binary() -> PathBuf {
    let mut command = Command::new(project("scripts/collector"));
    command.stderr(Stdio::inherit());
    let output = process::output(command).await;
    assert!(output.status.success(), "scripts/collector: {}", output.status);
    String::from_utf8(output.stdout).expect("a path").trim().into()
}

impl Collector {
    async fn start() -> Self {
        let (out, directory) = (Receiver::start([]).await, tempfile::tempdir().expect("a folder"));
        let address = format!("127.0.0.1:{}", free_port());
        // JSON is YAML.
        let config = json!({
            "receivers": { "otlp": { "protocols": { "http": { "endpoint": address } } } },
            "exporters": { "otlp_http": {
                "endpoint": out.url(""), "encoding": "json", "compression": "none",
            } },
            "service": {
                "pipelines": { "traces": { "receivers": ["otlp"], "exporters": ["otlp_http"] } },
                "telemetry": { "metrics": { "level": "none" } },
            },
        });
        let mut command = Command::new(binary().await);
        command.arg(format!("--config=yaml:{config}")).stdin(Stdio::null());
        let mut process = Process::start("collector", directory.path(), command);
        eventually("the collector listens", || {
            assert!(process.is_running(), "the collector has ended\n{}", process.tail());
            async { tokio::net::TcpStream::connect(&address).await.is_ok() }
        })
        .await;
        Self { _process: process, _directory: directory, url: format!("http://{address}"), out }
    }

    /// The spans so far.
    fn spans(&self) -> Vec<Value> {
        let bodies = self.out.received().into_iter().map(|request| request.body);
        let bodies = bodies.map(|body| serde_json::from_slice::<Value>(&body).expect("JSON"));
        let mut spans = Vec::new();
        for body in bodies {
            for resource in body["resourceSpans"].as_array().into_iter().flatten() {
                for scope in resource["scopeSpans"].as_array().into_iter().flatten() {
                    spans.extend(scope["spans"].as_array().into_iter().flatten().cloned());
                }
            }
        }
        spans
    }

    /// The names of the spans of the caller's trace.
    fn names(&self) -> BTreeSet<String> {
        let spans = self.spans().into_iter().filter(|span| span["traceId"] == TRACE);
        spans.filter_map(|span| span["name"].as_str().map(str::to_owned)).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_follows_a_request_into_its_work_and_its_callback() {
    let collector = Collector::start().await;
    let settings = [("LONGSHORE_TRACES_URL", collector.url.clone())];
    let fleet = Fleet::start(Backend::Embedded, &settings).await;
    let file =
        WorkspaceFile::new("acme").permitted(&["users.track", "users.export.global_control_group"]);
    let api = fleet.apply(&[file]).await.remove(0);
    fleet.import("acme", &[user_records::simple(1, 1)]).await;
    let receiver = Receiver::start([]).await;
    let track = json!({ "events": [{ "external_id": "a", "name": "seen", "time": "2026-01-01T00:00:00Z" }] });
    let export = json!({
        "fields_to_export": ["external_id"], "callback_endpoint": receiver.url("/callback"),
    });
    for (path, body) in [("/users/track", track), (EXPORT, export)] {
        let request = api.request(Method::POST, path).header("traceparent", traceparent(true));
        let answer = request.header("x-request-id", "mine").json(&body).send().await;
        let answer = answer.expect("an answer");
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()["x-request-id"]),
            (201, &"mine".parse().unwrap())
        );
    }
    let called = receiver.wait_for(1).await.remove(0);
    assert!(called.header("traceparent").contains(TRACE), "{called:?}");
    let expected = [
        "POST /users/track",
        "POST /users/export/global_control_group",
        "process tracking",
        "export_part",
        "POST export_callback",
    ];
    let expected: BTreeSet<String> = expected.map(str::to_owned).into();
    eventually("all spans are there", || async { collector.names().is_superset(&expected) }).await;
    let spans = collector.spans();
    let request = spans.iter().find(|span| span["name"] == "POST /users/track");
    assert_eq!(request.expect("a span")["parentSpanId"], "b7ad6b7169203331");
    // Log lines have the request id without its trace.
    assert!(fleet.printed().contains("request_id=\"mine\""));
    assert!(!fleet.printed().contains(TRACE), "{}", fleet.printed());
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_its_caller_does_not_trace_has_no_spans() {
    let collector = Collector::start().await;
    let settings = [("LONGSHORE_TRACES_URL", collector.url.clone())];
    let fleet = Fleet::start(Backend::Embedded, &settings).await;
    let api =
        fleet.apply(&[WorkspaceFile::new("acme").permitted(&["users.track"])]).await.remove(0);
    let track = json!({ "attributes": [{ "external_id": "a", "plan": "x" }] });
    let request = api.request(Method::POST, "/users/track").json(&track);
    let unsampled = request.header("traceparent", traceparent(false)).send().await;
    assert_eq!(unsampled.expect("a response").status(), 201);
    assert_eq!(api.post("/users/track", &track).await.status, 201);
    eventually("the other request has spans", || async {
        collector.spans().iter().any(|span| span["name"] == "POST /users/track")
    })
    .await;
    assert!(collector.names().is_empty(), "{:?}", collector.names());
    fleet.close().await;
}

/// From a slow request or part on a dashboard to its trace.
#[tokio::test(flavor = "multi_thread")]
async fn histograms_have_exemplars_of_their_traces() {
    let collector = Collector::start().await;
    let settings = [("LONGSHORE_TRACES_URL", collector.url.clone())];
    let fleet = Fleet::start(Backend::Embedded, &settings).await;
    let file = WorkspaceFile::new("acme").permitted(&["users.export.global_control_group"]);
    let api = fleet.apply(&[file]).await.remove(0);
    fleet.import("acme", &[user_records::simple(1, 1)]).await;
    let prometheus = Prometheus::start(&BTreeMap::from([("one", fleet.ops_addresses())])).await;
    let request = api.request(Method::POST, EXPORT).header("traceparent", traceparent(true));
    let response = request.json(&json!({ "fields_to_export": ["external_id"] })).send().await;
    assert_eq!(response.expect("a response").status(), 201);
    for name in ["http_request", "export_stage", "export_duration"] {
        let selector = format!("longshore_{name}_seconds_bucket");
        eventually("an exemplar is stored", || async {
            prometheus.traces(&selector).await.contains(TRACE)
        })
        .await;
    }
    let families = prometheus.series("{__name__=~\"longshore_.+\"}").await;
    assert!(families > 100, "{families}");
    // Clients that accept the text format only get it without exemplars.
    let text = fleet.metrics("standalone").await;
    assert!(!text.contains("trace_id") && !text.contains("# EOF"), "{text}");
    fleet.close().await;
}

/// A collector that is down, and one that accepts connections and never responds.
#[tokio::test(flavor = "multi_thread")]
async fn an_unavailable_collector_drops_spans_without_blocking() {
    let hanging = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let hanging_port = hanging.local_addr().expect("an address").port();
    for port in [free_port(), hanging_port] {
        let settings = [("LONGSHORE_TRACES_URL", format!("http://127.0.0.1:{port}"))];
        let fleet = Fleet::start(Backend::Embedded, &settings).await;
        let file = WorkspaceFile::new("acme").permitted(&["users.track"]);
        let api = fleet.apply(&[file]).await.remove(0);
        let track = json!({ "attributes": [{ "external_id": "a", "plan": "x" }] });
        for _ in 0..20 {
            assert_eq!(api.post("/users/track", &track).await.status, 201);
        }
        eventually("dropped spans are counted", || async {
            let metrics = fleet.metrics("standalone").await;
            let mut lines = metrics.lines();
            let line = lines.find(|line| line.starts_with("longshore_spans_dropped_total "));
            line.is_some_and(|line| !line.ends_with(" 0"))
        })
        .await;
        fleet.close().await;
    }
}
