//! The gateway over a real connection: what calls are refused for and in which order, and
//! what surrounds every call.

mod coding;
mod conduct;
mod keys;
mod limits;
mod unauthenticated;

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Extension, Router};
use longshore::app::App;
use longshore::config::Config;
use longshore::gateway::app::App as GatewayApp;
use longshore::gateway::{self, ApiError, Caller, Json, protected};
use longshore::listen;
use longshore::telemetry::{self, process::Process};
use longshore::worker::Role;
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::support::eventually;
use crate::support::installation::Installation;
use crate::support::stores::{TestStore, on_postgres, on_sqlite};

const KEY: &str = "key-that-may-track-users";
const OTHER_KEY: &str = "key-that-may-list-campaigns";
const KEY_ELSEWHERE: &str = "key-of-another-workspace";
const REMOTE_KEY: &str = "key-from-another-network";
const LIMIT: usize = 1_024;

const WORKSPACE: &str = "
workspace: acme
currency: USD
keys:
  - {name: right, secret: key-that-may-track-users, permissions: [users.track]}
  - {name: other, secret: key-that-may-list-campaigns, permissions: [campaigns.list]}
  - name: remote
    secret: key-from-another-network
    permissions: [campaigns.list]
    allow: [198.51.100.0/24]
---
workspace: other
currency: USD
keys:
  - {name: right, secret: key-of-another-workspace, permissions: [users.track]}
";

/// What the handlers of the test have begun and ended.
#[derive(Clone, Default)]
struct Seen {
    begun: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
}

#[derive(serde::Deserialize)]
struct Thing {
    name: String,
}

async fn make(
    Extension(caller): Extension<Caller>,
    Json(thing): Json<Thing>,
) -> (StatusCode, axum::Json<Value>) {
    let body = json!({
        "name": thing.name, "workspace": caller.workspace.name, "request_id": caller.request_id,
    });
    (StatusCode::CREATED, axum::Json(body))
}

/// Writes to the store after a while.
async fn slow(
    State(app): State<GatewayApp>,
    Extension(seen): Extension<Seen>,
) -> Result<String, ApiError> {
    seen.begun.fetch_add(1, Ordering::SeqCst);
    let tx = app.store.write().await?;
    tokio::time::sleep(Duration::from_millis(300)).await;
    tx.commit().await?;
    seen.ended.fetch_add(1, Ordering::SeqCst);
    Ok("done".into())
}

async fn fail(Path(how): Path<String>) -> Result<(), ApiError> {
    match how.as_str() {
        "panic" => panic!("the handler panics, as the test wants"),
        "unavailable" => Err(ApiError::Unavailable("broker-7 is away".into())),
        _ => Err(ApiError::Internal("row 7 is broken".into())),
    }
}

/// A gateway that listens.
struct Gateway {
    app: App,
    address: SocketAddr,
    shutdown: CancellationToken,
    server: JoinHandle<()>,
    seen: Seen,
    client: reqwest::Client,
}

impl Gateway {
    async fn start(app: App) -> Self {
        let seen = Seen::default();
        let domains = Router::new()
            .route("/things", protected("users.track", post(make)))
            .route("/remote", protected("campaigns.list", post(make)))
            .route("/text", protected("campaigns.list", get(async || "some text")))
            .route("/unlimited", protected("transactional.send", post(make)))
            .route("/slow", protected("users.track", post(slow)).layer(Extension(seen.clone())))
            .route("/fail/{how}", get(fail));
        let local = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = listen::bind(local, "LONGSHORE_LISTEN").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let router = gateway::router(app.gateway.clone(), domains.with_state(app.gateway.clone()));
        let served = gateway::serve(app.gateway.clone(), router, listener, shutdown.clone());
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { app, address, shutdown, server: tokio::spawn(served), seen, client }
    }

    fn call(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("http://{}{path}", self.address))
    }

    /// Writes `text` to a connection of its own.
    async fn raw(&self, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }

    async fn close(self) {
        self.shutdown.cancel();
        self.server.await.unwrap();
    }
}

/// A gateway on an installation of its own.
struct World {
    installation: Installation,
    gateway: Gateway,
}

impl Deref for World {
    type Target = Gateway;

    fn deref(&self) -> &Gateway {
        &self.gateway
    }
}

impl World {
    async fn open(store: TestStore, change: impl FnOnce(&mut Config)) -> Self {
        Self::with(store, WORKSPACE, change).await
    }

    async fn with(store: TestStore, workspace: &str, change: impl FnOnce(&mut Config)) -> Self {
        let installation = Installation::open(store, workspace, |config| {
            config.gateway.max_body_bytes = LIMIT;
            config.gateway.request_timeout_seconds = 30;
            change(config);
        })
        .await;
        let gateway = Gateway::start(installation.app.clone()).await;
        Self { installation, gateway }
    }

    /// Another gateway on the same installation, with settings as `change` leaves them.
    async fn another(&self, change: impl FnOnce(&mut Config)) -> Gateway {
        let mut config = Config::clone(&self.installation.app.config);
        change(&mut config);
        Gateway::start(App::open(config).await.unwrap()).await
    }

    async fn close(self) {
        self.gateway.close().await;
    }
}

async fn message(response: Response) -> String {
    let body: Value = response.json().await.expect("an error body is JSON");
    body["message"].as_str().expect("an error body has a message").to_owned()
}

async fn checks_have_a_fixed_order(store: TestStore) {
    let world = World::open(store, |_| {}).await;
    let large = || "x".repeat(LIMIT + 1);
    // Each request is wrong in every way that is looked at later.
    let post = |key: Option<&str>, kind: &str, body: String| {
        let call = world.call(Method::POST, "/things").header("content-type", kind).body(body);
        match key {
            Some(key) => call.bearer_auth(key),
            None => call,
        }
    };
    let unknown_path = world.call(Method::POST, "/thing").body(large());
    let wrong_method = world.call(Method::DELETE, "/things").body(large());
    let cases = [
        (unknown_path, 404, "not-found"),
        (wrong_method, 405, "method-not-allowed"),
        (post(None, "text/plain", large()), 401, "unauthenticated"),
        (post(Some("no-such-key"), "text/plain", large()), 401, "unauthenticated"),
        (post(Some(REMOTE_KEY), "text/plain", large()), 403, "address-not-allowed"),
        (post(Some(OTHER_KEY), "text/plain", large()), 403, "permission-denied"),
        (post(Some(KEY), "text/plain", large()), 413, "body-too-large"),
        (post(Some(KEY), "text/plain", "{".into()), 415, "unsupported-media-type"),
        (post(Some(KEY), "application/json", "{\"name\":1,\n}".into()), 400, "invalid-json"),
        (post(Some(KEY), "application/json", "{\"name\":1}".into()), 400, "invalid-field"),
        (post(Some(KEY), "application/json", "[]".into()), 400, "invalid-json"),
        (post(Some(KEY), "application/json", String::new()), 400, "invalid-json"),
    ];
    for (request, status, code) in cases {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), status, "{code}");
        assert_eq!(response.headers()["content-type"], "application/json");
        let allow = response.headers().get("allow").map(|allow| allow.to_str().unwrap().to_owned());
        assert_eq!(allow.as_deref(), (status == 405).then_some("POST"));
        let error: Value = response.json().await.unwrap();
        assert_eq!(error["code"], code, "{error}");
    }
    let good = post(Some(KEY), "application/json; charset=utf-8", r#"{"name":"n"}"#.into());
    let response = good.send().await.unwrap();
    assert_eq!(response.status(), 201);
    let id = response.headers()["x-request-id"].to_str().unwrap().to_owned();
    let body: Value = response.json().await.unwrap();
    assert_eq!(body, json!({ "name": "n", "workspace": "acme", "request_id": id }));
    world.close().await;
}

async fn a_body_without_a_declared_size_is_limited_as_well(store: TestStore) {
    let world = World::open(store, |_| {}).await;
    let chunks =
        futures::stream::iter((0..8).map(|_| Ok::<_, std::io::Error>(vec![b' '; LIMIT / 4])));
    let call = world.call(Method::POST, "/things").bearer_auth(KEY);
    let call = call.header("content-type", "application/json");
    let response = call.body(reqwest::Body::wrap_stream(chunks)).send().await.unwrap();
    assert_eq!(response.status(), 413);
    world.close().await;
}

async fn bodies_are_rejected_while_memory_is_full(store: TestStore) {
    let world = World::open(store, |config| config.gateway.memory_bytes = LIMIT).await;
    let body = r#"{"name":"n"}"#;
    let head = format!(
        "POST /things HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {KEY}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let post = || {
        let call = world.call(Method::POST, "/things").bearer_auth(KEY);
        call.header("content-type", "application/json").body(body).send()
    };
    // Of this call only the head comes, and that takes all the room.
    let mut slow = world.raw(&head).await;
    eventually("there is no room", async || {
        let answer = post().await.unwrap();
        answer.status() == 503 && answer.headers()["retry-after"] == "5"
    })
    .await;
    slow.write_all(body.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    slow.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 201");
    eventually("there is room again", async || post().await.unwrap().status() == 201).await;
    world.close().await;
}

async fn one_workspace_leaves_room_for_bodies_of_others(store: TestStore) {
    let world = World::open(store, |config| config.gateway.memory_bytes = 8 * LIMIT).await;
    let body = json!({ "name": "x".repeat(LIMIT - 20) }).to_string();
    let post = async |key: &str| {
        let call = world.call(Method::POST, "/things").bearer_auth(key);
        let call = call.header("content-type", "application/json").body(body.clone());
        call.send().await.unwrap().status().as_u16()
    };
    let head = format!(
        "POST /things HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {KEY}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{{",
        body.len()
    );
    // Of these calls only the heads come, as often as all the room has space for.
    let mut slow = Vec::new();
    for _ in 0..12 {
        slow.push(world.raw(&head).await);
    }
    eventually("one workspace has its share", async || post(KEY).await == 503).await;
    for _ in 0..5 {
        assert_eq!(post(KEY_ELSEWHERE).await, 201);
    }
    drop(slow);
    eventually("there is room again", async || post(KEY).await == 201).await;
    world.close().await;
}

async fn a_forwarded_address_counts_behind_a_trusted_proxy(store: TestStore) {
    let world = World::open(store, |config| {
        config.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    })
    .await;
    for (forwarded, status) in [
        (Some("198.51.100.7"), 201),
        (Some("203.0.113.1, 198.51.100.7, 127.0.0.2"), 201),
        (Some("198.51.100.7, 203.0.113.1"), 403),
        (Some("unknown"), 403),
        (None, 403),
    ] {
        let mut call = world.call(Method::POST, "/remote").bearer_auth(REMOTE_KEY);
        if let Some(forwarded) = forwarded {
            call = call.header("x-forwarded-for", forwarded);
        }
        let response = call.json(&json!({ "name": "n" })).send().await.unwrap();
        assert_eq!(response.status(), status, "{forwarded:?}");
    }
    world.close().await;
}

async fn valid_request_ids_are_echoed(store: TestStore) {
    let world = World::open(store, |_| {}).await;
    let good = world.call(Method::GET, "/nowhere").header("x-request-id", "mine-1");
    assert_eq!(good.send().await.unwrap().headers()["x-request-id"], "mine-1");
    for bad in ["a b", "{\"a\":1}", &"x".repeat(129)] {
        let call = world.call(Method::GET, "/nowhere").header("x-request-id", bad);
        let response = call.send().await.unwrap();
        let id = response.headers()["x-request-id"].to_str().unwrap();
        assert!(uuid::Uuid::parse_str(id).is_ok(), "{id}");
    }
    world.close().await;
}

async fn errors_reveal_no_internals(store: TestStore) {
    let world = World::open(store, |_| {}).await;
    for (how, status) in [("panic", 500), ("internal", 500), ("unavailable", 503)] {
        let response = world.call(Method::GET, &format!("/fail/{how}")).send().await.unwrap();
        assert_eq!(response.status(), status);
        assert!(response.headers().contains_key("x-request-id"));
        assert_eq!(response.headers().contains_key("retry-after"), status == 503);
        let text = message(response).await;
        assert!(["panics", "row 7", "broker-7"].iter().all(|part| !text.contains(part)), "{text}");
    }
    world.close().await;
}

async fn a_client_that_hangs_up_does_not_stop_its_handler(store: TestStore) {
    let world = World::open(store, |_| {}).await;
    let seen = world.seen.clone();
    let head = format!(
        "POST /slow HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\nContent-Length: 0\r\n\r\n"
    );
    let stream = world.raw(&head).await;
    eventually("the handler has begun", || async { seen.begun.load(Ordering::SeqCst) == 1 }).await;
    assert_eq!(seen.ended.load(Ordering::SeqCst), 0, "the client hangs up while it works");
    drop(stream);
    eventually("the handler has ended", || async { seen.ended.load(Ordering::SeqCst) == 1 }).await;
    world.close().await;
}

async fn slow_clients_are_let_go(store: TestStore) {
    let world = World::open(store, |config| config.gateway.request_timeout_seconds = 1).await;
    let mut answer = String::new();
    let mut half_a_head = world.raw("POST /things HTTP/1.1\r\nHost: x\r\n").await;
    half_a_head.read_to_string(&mut answer).await.unwrap();
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{answer}");
    let head = format!(
        "POST /things HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\n\
         Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{\"na"
    );
    let mut half_a_body = world.raw(&head).await;
    let mut answer = String::new();
    half_a_body.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(answer.contains("not received in time"), "{answer}");
    world.close().await;
}

async fn calls_under_way_are_answered_before_the_end(store: TestStore) {
    let world = World::open(store, |_| {}).await;
    // A connection that waits for its next request holds up nothing.
    let _idle = TcpStream::connect(world.address).await.unwrap();
    let call = world.call(Method::POST, "/slow").bearer_auth(KEY);
    let answer = tokio::spawn(call.send());
    let seen = world.seen.clone();
    eventually("the handler has begun", || async { seen.begun.load(Ordering::SeqCst) == 1 }).await;
    world.shutdown.cancel();
    let response = answer.await.unwrap().expect("an answer");
    assert_eq!(response.status(), 200);
    assert_eq!(response.text().await.unwrap(), "done");
    let address = world.address;
    world.close().await;
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
}

async fn the_operations_listener_reports_a_gateways_health(store: TestStore) {
    reports_its_health(store, Process::gateway()).await;
}

async fn the_operations_listener_reports_a_workers_health(store: TestStore) {
    reports_its_health(store, Process::worker(&Role::ALL)).await;
}

async fn reports_its_health(store: TestStore, process: Process) {
    let installation = Installation::open(store, WORKSPACE, |_| {}).await;
    let metrics = telemetry::metrics::recorder::install().unwrap();
    let listener = listen::bind(SocketAddr::from(([127, 0, 0, 1], 0)), "x").await.unwrap();
    let address = listener.local_addr().unwrap();
    let draining = CancellationToken::new();
    let app = installation.app.clone();
    let served = telemetry::ops::serve(
        app,
        process.clone(),
        metrics,
        telemetry::fleet::FleetMetrics::default(),
        listener,
        draining.clone(),
    );
    let server = tokio::spawn(served);
    let ask = async |path: &str| {
        let response = reqwest::get(format!("http://{address}{path}")).await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    };
    assert_eq!(ask("/healthz").await, (200, "ok\n".into()));
    assert_eq!(ask("/readyz").await, (200, "ready\n".into()));
    let (status, text) = ask("/metrics").await;
    assert_eq!(status, 200);
    let version = env!("CARGO_PKG_VERSION");
    assert!(
        text.contains(&format!(
            "longshore_build_info{{version=\"{version}\",revision=\"unknown\"}} 1"
        )),
        "{text}"
    );
    assert!(text.contains("# HELP longshore_build_info"), "{text}");
    installation.app.store.close().await;
    let (status, text) = ask("/readyz").await;
    let expected = if process.accepts_requests() { 200 } else { 503 };
    assert_eq!((status, text.contains("database")), (expected, true), "{text}");
    draining.cancel();
    let (status, text) = ask("/readyz").await;
    assert_eq!((status, text.contains("stopping")), (503, true), "{text}");
    assert_eq!(ask("/healthz").await.0, 200);
    server.abort();
}

on_sqlite!(
    checks_have_a_fixed_order,
    a_body_without_a_declared_size_is_limited_as_well,
    bodies_are_rejected_while_memory_is_full,
    one_workspace_leaves_room_for_bodies_of_others,
    a_forwarded_address_counts_behind_a_trusted_proxy,
    valid_request_ids_are_echoed,
    errors_reveal_no_internals,
    a_client_that_hangs_up_does_not_stop_its_handler,
    slow_clients_are_let_go,
    calls_under_way_are_answered_before_the_end,
    the_operations_listener_reports_a_gateways_health,
    the_operations_listener_reports_a_workers_health,
);

// What the database has a part in.
on_postgres!(
    checks_have_a_fixed_order,
    a_client_that_hangs_up_does_not_stop_its_handler,
    the_operations_listener_reports_a_gateways_health,
    the_operations_listener_reports_a_workers_health,
);
