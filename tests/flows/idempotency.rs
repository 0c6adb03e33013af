//! `Idempotency-Key`: the responses to requests with a key, and that consumers that store ids apply
//! each message once.

mod changes;
#[cfg(debug_assertions)]
mod gateways;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use futures::future::join_all;
use jiff::Timestamp;
use log::{Message, NewMessage};
use longshore::app::App;
use longshore::gateway::idempotency::{
    self, Begun, Derived, IdempotencyKey, Received, StoredResponse,
};
use longshore::gateway::{ApiError, JsonText};
use longshore::topics;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::lost_commit::losing_the_answer_of;
use crate::support::eventually;
use crate::support::installation::Installation;
use crate::support::stores::{TestStore, on_both_stores, on_pool};
use crate::support::tracked::{DeduplicatingConsumer, read_all};

const WORKSPACE: &str = "workspace: acme\ncurrency: USD\n";

const HOUR_MS: i64 = 3_600_000;

/// How long an append may take, which the lease follows from: longer than any test.
const APPEND_MS: u64 = 600_000;

/// Longer than the lease.
const LEASE_MS: i64 = 2 * APPEND_MS as i64;

/// Every lease is up.
const NO_LEASES: &str = "UPDATE idempotency_claims SET leased_until = 0";

/// The messages of a body: itself to each partition, with how it was received.
fn messages(body: &Value, received: Received) -> Vec<NewMessage> {
    let message = |partition| NewMessage {
        topic: topics::TRACKING,
        key: Vec::new(),
        partition: Some(partition),
        payload: format!("{}-{} {body}", received.at, received.id).into_bytes(),
        request_id: "r".into(),
    };
    (0..PARTITIONS).map(message).collect()
}

/// Appends the messages of a body, and answers it with itself. Every other request claims its key
/// without a look-up before.
async fn echo(
    app: &App,
    key: Option<IdempotencyKey>,
    body: &Value,
) -> Result<StoredResponse, ApiError> {
    static REQUESTS: AtomicUsize = AtomicUsize::new(0);
    let body = body.to_string().into();
    if REQUESTS.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
        return Ok(idempotency::append_derived(app, key, body, derive).await?.0);
    }
    let turn = match idempotency::begin_append(app, key, body).await? {
        Begun::Replay(response) => return Ok(response),
        Begun::Turn(turn) => turn,
    };
    let Derived { messages, response, .. } = derive(turn.body(), turn.received())?;
    turn.append(messages, response).await
}

fn derive(body: &JsonText, received: Received) -> Result<Derived<()>, ApiError> {
    let body = body.parse::<Value>(&[])?;
    let response = StoredResponse::json(StatusCode::ACCEPTED, &json!({ "got": body }))?;
    Ok(Derived { messages: messages(&body, received), response, outcome: () })
}

const PARTITIONS: i32 = 4;

/// The keys of a case.
const KEYS: Range<u8> = 0..3;

/// One installation with the embedded log, and gateways on it.
struct World {
    installation: Installation,
}

impl World {
    async fn new(store: TestStore) -> Self {
        let installation = Installation::open(store, WORKSPACE, |config| {
            config.log.append_timeout_ms = APPEND_MS;
        });
        Self { installation: installation.await }
    }

    fn app(&self) -> &App {
        &self.installation.app
    }

    /// Another gateway, or one that is started again.
    async fn another(&self) -> App {
        let app = App::open((*self.app().config).clone()).await.unwrap();
        app.with_clock(self.app().clock.clone())
    }

    /// Sets the gateways' clock, which is not the database's.
    fn at(&self, ms: i64) {
        self.app().clock.set(Timestamp::from_millisecond(ms).unwrap());
    }

    async fn execute(&self, sql: &'static str) {
        execute(self.app(), sql).await;
    }

    async fn claims(&self) -> i64 {
        let sql = "SELECT count(*) FROM idempotency_claims";
        on_pool!(&self.app().store, pool => sqlx::query_scalar(sql).fetch_one(pool).await).unwrap()
    }

    async fn messages(&self, at_least: usize) -> Vec<Message> {
        read_all(&self.app().log, |messages| messages.len() >= at_least).await
    }
}

async fn execute(app: &App, sql: &'static str) {
    on_pool!(&app.store, pool => {
        sqlx::query(sql).execute(pool).await.map(|_| ()).expect(sql);
    });
}

fn key(key: &str) -> IdempotencyKey {
    IdempotencyKey { workspace: 1, endpoint: "POST /x".into(), key: key.into() }
}

/// Status, body, and whether there is a `Retry-After`.
type Answer = (u16, String, bool);

async fn call(app: &App, key: Option<IdempotencyKey>, body: &Value) -> Answer {
    let response = echo(app, key, body).await.into_response();
    let (status, headers) = (response.status(), response.headers().clone());
    assert_eq!(headers["content-type"], "application/json");
    let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    let body = String::from_utf8(body.to_vec()).unwrap();
    (status.as_u16(), body, headers.contains_key("retry-after"))
}

fn accepted(body: &Value) -> Answer {
    (202, json!({ "got": body }).to_string(), false)
}

fn refused(status: u16, code: &str, answer: &Answer) {
    let part = format!("\"code\":\"{code}\"");
    assert!(answer.0 == status && answer.1.contains(&part), "{status} {code}: {answer:?}");
}

on_both_stores!(
    World =>
    the_first_answer_is_given_again,
    keys_of_others_are_others,
    a_key_holds_for_a_day,
    abandoned_requests_are_retried_after_their_lease,
    failed_appends_release_their_claim_at_once,
    claims_of_another_version_are_not_taken_over,
    of_many_at_once_one_does_it,
);

async fn the_first_answer_is_given_again(world: World) {
    let (app, other) = (world.app(), world.another().await);
    let body = json!({ "a": [1, "ü"] });
    for gateway in [app, &other, app] {
        assert_eq!(call(gateway, Some(key("k")), &body).await, accepted(&body));
    }
    let another = call(&other, Some(key("k")), &json!({ "a": [1, "u"] })).await;
    refused(422, "key-reused", &another);
    assert!(!another.2);
    // What is no such request needs no claim.
    refused(400, "invalid-json", &call(app, Some(key("none")), &json!(1)).await);
    assert_eq!(call(app, None, &body).await, accepted(&body));
    assert_eq!(world.claims().await, 1);
    let messages = world.messages(8).await;
    assert_eq!(messages.len(), 8, "those under the key, and those without");
    assert_eq!(messages.iter().filter(|message| message.key.is_empty()).count(), 4);
}

async fn keys_of_others_are_others(world: World) {
    let of_another = IdempotencyKey { workspace: 2, ..key("k") };
    let of_another_call = IdempotencyKey { endpoint: "POST /y".into(), ..key("k") };
    for (number, key) in [key("k"), of_another, of_another_call, key("K")].into_iter().enumerate() {
        let body = json!({ "n": number });
        assert_eq!(call(world.app(), Some(key), &body).await, accepted(&body));
    }
    let messages = world.messages(16).await;
    assert_eq!(DeduplicatingConsumer::new().await.applied(&messages).await.len(), 16);
}

async fn a_key_holds_for_a_day(world: World) {
    let app = world.app();
    let (first, second) = (json!({ "n": 1 }), json!({ "n": 2 }));
    assert_eq!(call(app, Some(key("k")), &first).await, accepted(&first));
    assert_eq!(call(app, Some(key("l")), &first).await, accepted(&first));
    // A gateway whose clock is wrong takes nothing from the others.
    let now = app.clock.now_ms();
    for wrong in [now + 25 * HOUR_MS, now - 25 * HOUR_MS] {
        world.at(wrong);
        refused(422, "key-reused", &call(app, Some(key("k")), &second).await);
        idempotency::sweep(app, &CancellationToken::new()).await.unwrap();
        assert_eq!(world.claims().await, 2);
    }
    world.execute("UPDATE idempotency_claims SET claimed_at = claimed_at - 82800000").await;
    refused(422, "key-reused", &call(app, Some(key("k")), &second).await);
    idempotency::sweep(app, &CancellationToken::new()).await.unwrap();
    assert_eq!(world.claims().await, 2);
    world.execute("UPDATE idempotency_claims SET claimed_at = claimed_at - 3600000").await;
    assert_eq!(call(app, Some(key("k")), &second).await, accepted(&second));
    assert_eq!(call(app, Some(key("k")), &second).await, accepted(&second));
    idempotency::sweep(app, &CancellationToken::new()).await.unwrap();
    assert_eq!(world.claims().await, 1, "the new one");
    let messages = world.messages(12).await;
    assert_eq!(
        DeduplicatingConsumer::new().await.applied(&messages).await.len(),
        12,
        "of three requests"
    );
}

/// As a gateway leaves it that ended before it kept its response.
const UNANSWERED: &str = "UPDATE idempotency_claims SET status = NULL, answer = NULL";

async fn abandoned_requests_are_retried_after_their_lease(world: World) {
    let (app, body) = (world.app(), json!({ "n": 1 }));
    call(app, Some(key("k")), &body).await;
    world.execute(UNANSWERED).await;
    let early = call(app, Some(key("k")), &body).await;
    refused(409, "in-progress", &early);
    assert!(early.2, "says when to try again");
    refused(422, "key-reused", &call(app, Some(key("k")), &json!({})).await);
    // A gateway whose clock is ahead waits as long as the others.
    world.at(app.clock.now_ms() + LEASE_MS);
    refused(409, "in-progress", &call(app, Some(key("k")), &body).await);
    world.execute(NO_LEASES).await;
    assert_eq!(call(app, Some(key("k")), &body).await, accepted(&body));
    world.execute(NO_LEASES).await;
    assert_eq!(call(app, Some(key("k")), &body).await, accepted(&body));
    let messages = world.messages(8).await;
    assert_eq!(messages.len(), 8, "appended twice");
    let mut each: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for message in &messages {
        let same = (message.partition, message.key.clone(), message.payload.clone());
        each.entry(same).or_default().push(message.offset);
    }
    assert!(each.len() == 4 && each.values().all(|offsets| offsets.len() == 2), "{each:?}");
    assert_eq!(DeduplicatingConsumer::new().await.applied(&messages).await.len(), 4);
}

async fn failed_appends_release_their_claim_at_once(world: World) {
    let (cut, body) = (world.another().await, json!({ "n": 1 }));
    cut.log.close().await;
    for _ in 0..2 {
        let answer = call(&cut, Some(key("k")), &body).await;
        refused(503, "unavailable", &answer);
    }
    assert_eq!(world.claims().await, 1);
    assert_eq!(call(world.app(), Some(key("k")), &body).await, accepted(&body));
    assert_eq!(call(&cut, Some(key("k")), &body).await, accepted(&body), "it needs no log");
    assert_eq!(world.messages(4).await.len(), 4);
}

async fn claims_of_another_version_are_not_taken_over(world: World) {
    let (app, body) = (world.app(), json!({ "n": 1 }));
    call(app, Some(key("k")), &body).await;
    world.execute(UNANSWERED).await;
    let by_another_version = "UPDATE idempotency_claims SET leased_until = 0, messages = body";
    world.execute(by_another_version).await;
    for _ in 0..2 {
        refused(409, "conflict", &call(app, Some(key("k")), &body).await);
    }
    let rejects = |_: &JsonText, _| Err(ApiError::Invalid("not valid for this version".into()));
    let body = body.to_string().into();
    let repeat = idempotency::append_derived::<()>(app, Some(key("k")), body, rejects).await;
    assert!(
        matches!(repeat, Err(ApiError::Conflict(_))),
        "400 would promise that nothing was done"
    );
    assert_eq!(world.messages(4).await.len(), 4, "those of the first");
}

async fn of_many_at_once_one_does_it(world: World) {
    let (other, body) = (world.another().await, json!({ "n": 1 }));
    let calls = (0..24).map(|n| {
        let (app, body) = (if n % 2 == 0 { world.app() } else { &other }, body.clone());
        async move { call(app, Some(key("k")), &body).await }
    });
    let answers = join_all(calls).await;
    for answer in &answers {
        assert!(*answer == accepted(&body) || answer.0 == 409, "{answer:?}");
    }
    assert!(answers.contains(&accepted(&body)));
    assert_eq!(world.messages(4).await.len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn old_claims_are_removed_all_of_them() {
    let world = World::new(TestStore::sqlite().await).await;
    world
        .execute(
            "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 60100)
             INSERT INTO idempotency_claims
                 (workspace_id, endpoint, key, id, body, messages, received_at, claimed_at,
                  leased_until)
             SELECT 1, 'POST /x', 'k' || n, x'00', x'00', x'00', 0,
                 CASE WHEN n <= 100 THEN unixepoch() * 1000 ELSE n END, 0 FROM n",
        )
        .await;
    idempotency::sweep(world.app(), &CancellationToken::new()).await.unwrap();
    assert_eq!(world.claims().await, 100);
}

/// Whether the claim was written is not known to who asked for it: nobody is at work on it.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_whose_response_is_lost_is_released() {
    let world = World::new(TestStore::postgres().await).await;
    let (near, body) = (world.app(), json!({ "n": 1 }));
    let mut config = (*near.config).clone();
    let address = config.database.url.clone().unwrap();
    let (address, lost) = losing_the_answer_of("idempotency_claims", address.expose_secret()).await;
    config.database.url = Some(address.into());
    let far = App::open(config).await.unwrap();
    refused(503, "unavailable", &call(&far, Some(key("k")), &body).await);
    assert!(lost.load(Ordering::SeqCst), "the claim was answered");
    assert_eq!(world.claims().await, 1);
    eventually("a repeat is worked on", async || {
        call(near, Some(key("k")), &body).await == accepted(&body)
    })
    .await;
}

/// One thing that a client, or fate, does.
#[derive(Clone, Debug)]
enum Step {
    /// A request under one of three keys, at one of two gateways; the gateway ends after so many
    /// microseconds, if it was not faster.
    Send { key: u8, gateway: usize, ends_after: Option<u64> },
    /// So much time that every lease is up.
    Pass,
}

fn step() -> impl Strategy<Value = Step> {
    let ends_after = prop_oneof![Just(None), (0..6_000_u64).prop_map(Some)];
    prop_oneof![
        4 => (KEYS, 0..2_usize, ends_after)
            .prop_map(|(key, gateway, ends_after)| Step::Send { key, gateway, ends_after }),
        1 => Just(Step::Pass),
    ]
}

impl Step {
    async fn run(&self, gateways: &[App; 2], case: usize) {
        match self {
            // By each: what one that ended had left to its connection is done before.
            Self::Pass => {
                for gateway in gateways {
                    execute(gateway, NO_LEASES).await;
                }
            }
            Self::Send { key, gateway, ends_after } => {
                let sent = tokio::spawn(send(gateways[*gateway].clone(), case, *key));
                if let Some(after) = ends_after {
                    tokio::time::sleep(Duration::from_micros(*after)).await;
                    sent.abort();
                }
                let answer = sent.await;
                let is_fine = |answer: Answer| answer.0 == 202 || answer.0 == 409;
                assert!(answer.map_or_else(|error| error.is_cancelled(), is_fine));
            }
        }
    }
}

async fn send(app: App, case: usize, name: u8) -> Answer {
    let body = json!({ "case": case, "key": name });
    let answer = call(&app, Some(key(&format!("{case}-{name}"))), &body).await;
    assert!(answer == accepted(&body) || answer.0 == 409, "{answer:?}");
    answer
}

/// Whatever is sent again, and wherever gateways end: what was sent under a key is applied once.
#[tokio::test(flavor = "multi_thread")]
async fn each_key_is_applied_once() {
    const CASES: usize = 32;
    let world = World::new(TestStore::sqlite().await).await;
    let gateways = [world.app().clone(), world.another().await];
    let rounds = proptest::collection::vec(proptest::collection::vec(step(), 1..4), 1..12);
    let mut runner = TestRunner::default();
    let mut cases = Vec::new();
    for case in 0..CASES {
        let rounds = rounds.new_tree(&mut runner).unwrap().current();
        for round in &rounds {
            join_all(round.iter().map(|step| step.run(&gateways, case))).await;
        }
        Step::Pass.run(&gateways, case).await;
        for key in KEYS {
            let answer = send(gateways[0].clone(), case, key).await;
            assert_eq!(answer.0, 202, "case {case}: {rounds:?}");
        }
        cases.push(rounds);
    }
    let wanted = CASES * KEYS.len() * PARTITIONS as usize;
    let messages = world.messages(wanted).await;
    assert!(messages.len() > wanted, "nothing was ever sent again");
    let mut times: BTreeMap<(usize, i64, i32), usize> = BTreeMap::new();
    for message in DeduplicatingConsumer::new().await.applied(&messages).await {
        let text = String::from_utf8(message.payload.clone()).unwrap();
        let body: Value = serde_json::from_str(text.split_once(' ').unwrap().1).unwrap();
        let case = body["case"].as_u64().unwrap() as usize;
        *times.entry((case, body["key"].as_i64().unwrap(), message.partition)).or_default() += 1;
    }
    assert_eq!(times.len(), wanted);
    for ((case, key, partition), times) in times {
        assert_eq!(times, 1, "key {key}, partition {partition} after {:?}", cases[case]);
    }
}
