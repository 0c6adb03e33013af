//! Real gateways that end, or lose the log or their client, in the middle of a call with a key:
//! the client sends it again until it is answered, and everything is applied once.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use log::Message;
use longshore::tracking::message::Batch;
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::Connection as _;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};

use crate::support::api::{ApiResponse, answer};
use crate::support::fleet::{Backend, Fleet};
use crate::support::proxy::{Proxy, ProxyMode};
use crate::support::tracked::read_all;
use crate::support::{Api, WorkspaceFile, eventually, killed, servers, stores};

const KEY: &str = "\"8e03978e-40d5-43e8-bc93-6894a57f9324\"";

/// Users of the request, on all partitions.
const USERS: usize = 40;

/// How long a client continues to try.
const TIMEOUT: Duration = Duration::from_secs(180);

/// Milliseconds that an append may take: short, and with it the lease; or longer than any test.
const SHORT: u32 = 1_500;
const LONG: u32 = 55_000;

struct Scene {
    fleet: Fleet,
    api: Api,
    /// The process that has the gateway.
    gateway: &'static str,
}

impl Scene {
    async fn new(backend: Backend) -> Self {
        Self::with(backend, SHORT, None, None).await
    }

    /// With a way to the broker that can be cut, once the worker has its partitions: one that
    /// loses the broker while it joins is waited for by its group for minutes.
    async fn with(
        backend: Backend,
        append_ms: u32,
        broker: Option<&Proxy>,
        failpoints: Option<&str>,
    ) -> Self {
        let settings = [("LONGSHORE_LOG__APPEND_TIMEOUT_MS", append_ms.to_string())];
        let fleet = Fleet::prepare(backend, &settings, |environment| {
            if let Some(broker) = broker {
                let address = format!("kafka://{}", broker.address());
                environment.insert("LONGSHORE_LOG_URL".into(), address);
            }
        });
        let mut fleet = fleet.await;
        let api = fleet.apply(&[WorkspaceFile::new("acme")]).await.remove(0);
        let gateway = if backend == Backend::Embedded { "standalone" } else { "gateway" };
        fleet.launch_all(failpoints.map(|failpoints| (gateway, failpoints))).await;
        if broker.is_some() {
            fleet.applied().await;
        }
        Self { fleet, api, gateway }
    }

    fn body() -> Value {
        let event =
            |n| json!({ "external_id": format!("u{n}"), "name": "seen", "time": "2999-01-01" });
        json!({ "events": (0..USERS).map(event).chain([json!(7)]).collect::<Vec<_>>() })
    }

    fn request(&self) -> reqwest::RequestBuilder {
        let request = self.api.request(Method::POST, "/users/track");
        request.header("idempotency-key", KEY).json(&Self::body())
    }

    /// Sends until it gets 201, as a client does.
    async fn send_again(&self) -> ApiResponse {
        let since = Instant::now();
        loop {
            let answered = answer(self.request()).await;
            match answered.status.as_u16() {
                201 => return answered,
                409 | 503 => assert!(answered.headers.contains_key("retry-after"), "{answered:?}"),
                _ => panic!("{answered:?}"),
            }
            assert!(since.elapsed() < TIMEOUT, "{answered:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// The gateway has ended in the middle of the call.
    async fn killed_at(backend: Backend, point: &str) -> Self {
        let failpoints = format!("{point}=kill");
        let mut scene = Self::with(backend, SHORT, None, Some(&failpoints)).await;
        assert!(scene.request().send().await.is_err(), "an answer");
        scene.fleet.wait_until_exited(scene.gateway).await;
        scene
    }

    /// The call is answered, the same each time; each of its events is applied once, as an export
    /// shows, and all with one time. Returns how often each was in the log.
    async fn ends_whole(self) -> Vec<usize> {
        let first = self.send_again().await;
        assert_eq!(first.body["events_processed"], USERS, "{first:?}");
        assert_eq!(first.body["errors"][0]["index"], USERS, "{first:?}");
        let again = answer(self.request()).await;
        assert_eq!((again.status, &again.body), (first.status, &first.body));
        let log = self.fleet.log().await;
        let has_every_user = |messages: &[Message]| times(messages.iter()).len() == USERS;
        let messages = read_all(&log, has_every_user).await;
        log.close().await;
        self.fleet.applied().await;
        let users = self.api.exported().await;
        let once = |user: &Value| user["custom_events"][0]["count"] == 1;
        assert!(users.len() == USERS && users.iter().all(once), "{users:?}");
        let received: Vec<i64> = messages
            .iter()
            .map(|message| Batch::decode(&message.payload).unwrap().received_at)
            .collect();
        assert!(received.windows(2).all(|pair| pair[0] == pair[1]), "{received:?}");
        self.fleet.close().await;
        times(messages.iter()).into_values().collect()
    }
}

/// How often there is each object.
fn times<'a>(messages: impl Iterator<Item = &'a Message>) -> BTreeMap<String, usize> {
    let mut times = BTreeMap::new();
    for message in messages {
        for object in Batch::decode(&message.payload).unwrap().objects {
            *times.entry(serde_json::to_string(&object).unwrap()).or_default() += 1;
        }
    }
    times
}

/// How often each object must be in the log in the end.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Copies {
    One,
    Two,
    /// Not known: the broker may have had any of them.
    Any,
}

async fn killed_at(backend: Backend, point: &str, copies: Copies) {
    let mut scene = Scene::killed_at(backend, point).await;
    scene.fleet.launch(scene.gateway).await;
    let times = scene.ends_whole().await;
    let wanted = |times: &usize| match copies {
        Copies::One => *times == 1,
        Copies::Two => *times == 2,
        Copies::Any => true,
    };
    assert!(times.iter().all(wanted), "{copies:?}: {times:?}");
}

killed! {
    before_the_append_embedded: Backend::Embedded, "idempotency::claimed", Copies::One;
    #[ignore = "scripts/test --all"]
    before_the_append_on_kafka: Backend::Fleet(1), "idempotency::claimed", Copies::One;
    within_the_append_embedded: Backend::Embedded, "log::written", Copies::Two;
    within_the_append_on_kafka: Backend::Fleet(1), "log::delivered", Copies::Any;
    after_the_append_embedded: Backend::Embedded, "idempotency::appended", Copies::Two;
    #[ignore = "scripts/test --all"]
    after_the_append_on_kafka: Backend::Fleet(1), "idempotency::appended", Copies::Two;
    before_the_answer_embedded: Backend::Embedded, "idempotency::finished", Copies::One;
    #[ignore = "scripts/test --all"]
    before_the_answer_on_kafka: Backend::Fleet(1), "idempotency::finished", Copies::One;
}

/// Of the request's messages the log has some only.
#[tokio::test(flavor = "multi_thread")]
async fn between_two_appends() {
    let mut scene = Scene::killed_at(Backend::Embedded, "log::written").await;
    let log = format!("sqlite://{}", scene.fleet.directory().join("data/log.db").display());
    for gone in [
        "DELETE FROM messages WHERE topic = 'tracking' AND partition < 2",
        "DELETE FROM ends WHERE topic = 'tracking' AND partition < 2",
    ] {
        assert!(stores::execute(&log, gone).await > 0, "{gone}");
    }
    scene.fleet.launch(scene.gateway).await;
    let times = scene.ends_whole().await;
    assert!(times.contains(&1) && times.contains(&2), "{times:?}");
}

/// Who dies in taking over leaves a claim that is taken over again.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_gateways_one_after_the_other() {
    let mut scene = Scene::killed_at(Backend::Embedded, "idempotency::appended").await;
    scene.fleet.launch_with(scene.gateway, &[("FAILPOINTS", "log::written=kill")]).await;
    scene.fleet.ready(scene.gateway).await;
    let since = Instant::now();
    while scene.request().send().await.is_ok() {
        assert!(since.elapsed() < TIMEOUT, "it never takes the claim over");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    scene.fleet.kill(scene.gateway);
    scene.fleet.launch(scene.gateway).await;
    assert!(scene.ends_whole().await.iter().all(|times| *times == 3));
}

/// A gateway that sleeps through its lease appends nothing: another one may have the claim.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_lost_its_lease_appends_nothing() {
    let stops = Some("idempotency::claimed=stop");
    let mut scene = Scene::with(Backend::Embedded, SHORT, None, stops).await;
    let call = tokio::spawn(answer(scene.request()));
    eventually("the gateway sleeps", || async { scene.fleet.is_stopped(scene.gateway) }).await;
    let database = scene.fleet.database_url();
    let expired = "SELECT count(*) FROM idempotency_claims
                   WHERE leased_until < CAST(unixepoch('subsec') * 1000 AS INTEGER)";
    stores::wait_for_count(&database, expired, |count| count == 1).await;
    scene.fleet.resume(scene.gateway);
    call.await.unwrap().refuses(409, "still in progress");
    assert!(scene.ends_whole().await.iter().all(|times| *times == 1));
}

/// Nothing can be written to the embedded log until this is let go.
async fn held(scene: &Scene) -> SqliteConnection {
    let file = scene.fleet.directory().join("data/log.db");
    let file = SqliteConnectOptions::new().filename(file);
    let mut holder = SqliteConnection::connect_with(&file).await.unwrap();
    sqlx::query("BEGIN IMMEDIATE").execute(&mut holder).await.unwrap();
    holder
}

async fn let_go(mut holder: SqliteConnection) {
    sqlx::query("ROLLBACK").execute(&mut holder).await.unwrap();
    holder.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_log_embedded() {
    let scene = Scene::new(Backend::Embedded).await;
    let holder = held(&scene).await;
    answer(scene.request()).await.refuses(503, "temporarily unavailable");
    let_go(holder).await;
    scene.ends_whole().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_log_on_kafka() {
    let broker = Proxy::to_kafka(&servers::kafka()).await;
    let scene = Scene::with(Backend::Fleet(1), SHORT, Some(&broker), None).await;
    for way in [ProxyMode::Stuck, ProxyMode::Unanswered, ProxyMode::Refused] {
        broker.set(way);
        answer(scene.request()).await.refuses(503, "temporarily unavailable");
    }
    broker.set(ProxyMode::Open);
    scene.ends_whole().await;
}

/// The client hangs up while its call waits for the log.
async fn hangs_up(scene: &Scene) {
    let database = scene.fleet.database_url();
    let call = tokio::spawn(scene.request().send());
    let claims = "SELECT count(*) FROM idempotency_claims";
    stores::wait_for_count(&database, claims, |count| count == 1).await;
    call.abort();
    assert!(call.await.is_err_and(|error| error.is_cancelled()), "an answer");
}

/// The call continues without its client, and is answered when that comes back.
#[tokio::test(flavor = "multi_thread")]
async fn the_client_hangs_up_embedded() {
    let scene = Scene::with(Backend::Embedded, LONG, None, None).await;
    let holder = held(&scene).await;
    hangs_up(&scene).await;
    answer(scene.request()).await.refuses(409, "still in progress");
    let_go(holder).await;
    assert!(scene.ends_whole().await.iter().all(|times| *times == 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_hangs_up_on_kafka() {
    let broker = Proxy::to_kafka(&servers::kafka()).await;
    let scene = Scene::with(Backend::Fleet(1), LONG, Some(&broker), None).await;
    broker.set(ProxyMode::Stuck);
    hangs_up(&scene).await;
    answer(scene.request()).await.refuses(409, "still in progress");
    broker.set(ProxyMode::Open);
    assert!(scene.ends_whole().await.iter().all(|times| *times == 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_keys_are_rejected_and_requests_are_counted() {
    let scene = Scene::new(Backend::Embedded).await;
    let api = &scene.api;
    for key in ["", "\"\"", &"k".repeat(256)] {
        let request = api.request(Method::POST, "/users/track").header("idempotency-key", key);
        answer(request.json(&json!({}))).await.refuses(400, "Idempotency-Key must be one string");
    }
    let nobody = Api::new(scene.fleet.base(), "nobody");
    let request = nobody.request(Method::POST, "/users/track").header("idempotency-key", "");
    answer(request.json(&json!({}))).await.refuses(401, "credentials");
    // What is refused needs no claim, so that the same key can be used for what is right.
    let wrong = scene.request().json(&json!({ "events": [] }));
    answer(wrong).await.refuses(400, "Valid data must be provided");
    for status in [201, 201] {
        assert_eq!(answer(scene.request()).await.status, status);
    }
    let other = scene.request().json(&json!({ "events": [], "other": 1 }));
    answer(other).await.refuses(422, "different request body");
    let mut other = Scene::body();
    other["other"] = json!(1);
    answer(scene.request().json(&other)).await.refuses(422, "different request body");
    let metrics = scene.fleet.metrics("standalone").await;
    for line in [
        r#"longshore_idempotency_total{outcome="new"} 1"#,
        r#"longshore_idempotency_total{outcome="repeated"} 1"#,
        r#"longshore_idempotency_total{outcome="other_body"} 2"#,
        r#"longshore_track_refused_total{array="events",reason="object"} 1"#,
        &format!(r#"longshore_track_objects_total{{array="events"}} {USERS}"#),
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
    scene.ends_whole().await;
}
