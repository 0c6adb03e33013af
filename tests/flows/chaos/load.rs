//! The mixed load: tracking with and without keys, edits of catalogs, sends, transactional
//! emails, schedules a little ahead, exports with and without own storage and callbacks. What
//! is acknowledged goes into the books.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::books::{Books, Ended};
use super::client::{CLIENTS, Client, Quota, Users};
use super::gates::{Call, Gates, Kind};
use super::taken::Taken;
use crate::support::api::{ALL_FIELDS, EXPORT};
use crate::support::channel_receivers::{external_id, mark};
use crate::support::fleet::Operator;

/// The workspaces, by their numbers: with own storage, and without.
pub const OWN: usize = 0;
pub const PLAIN: usize = 1;

pub const RECEIPT: &str = "7d0c41a8-3f5e-4b7a-9c1d-2e6f8a90b1c2";
pub const CATALOG: &str = "places";

/// Users who are sent messages, and items of the catalog.
pub const ADDRESSEES: usize = 300;
pub const ITEMS: usize = 400;

/// Clients of the catalog, each with its own items.
const EDITORS: usize = 2;

/// How an export's state is asked for.
const POLL: Duration = Duration::from_millis(200);

/// What all of it needs.
pub struct World {
    pub gates: Arc<Gates>,
    pub books: Arc<Books>,
    pub taken: Arc<Taken>,
    pub users: Arc<Users>,
    /// Of the callbacks of each workspace.
    pub secrets: Vec<Vec<u8>>,
    pub operator: Operator,
    pub seed: u64,
    /// How often calls come, in percent of the usual.
    pub pace: u32,
    /// How far ahead is scheduled.
    pub ahead: Duration,
    /// While it is, no client begins anything.
    pub is_quiet: watch::Sender<bool>,
    pub numbers: Numbers,
}

/// The next numbers: of sends, schedules and transactional emails together, and of users that only
/// one request is about.
#[derive(Default)]
pub struct Numbers {
    sends: AtomicUsize,
    alone: AtomicUsize,
}

/// The load while it continues.
pub struct Load {
    stop: CancellationToken,
    running: JoinSet<()>,
}

impl World {
    fn random(&self, of: u64) -> StdRng {
        StdRng::seed_from_u64(self.seed.wrapping_mul(31).wrapping_add(of))
    }

    /// Ticks at moments that are so far apart at the usual pace; what is missed is not made up.
    fn every(&self, milliseconds: u64) -> Interval {
        let period = milliseconds * 100 / u64::from(self.pace.max(1));
        let mut interval = tokio::time::interval(Duration::from_millis(period.max(1)));
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        interval
    }

    fn addressees(&self, random: &mut StdRng, count: usize) -> Vec<usize> {
        let all: Vec<usize> = (0..ADDRESSEES).collect();
        all.sample(random, count).copied().collect()
    }

    /// A POST under a key of its own, until it is answered, which must be 201.
    async fn post(&self, kind: Kind, path: &str, body: &Value, key: &str) -> Value {
        let (text, method) = (body.to_string(), Method::POST);
        let call = Call { kind, workspace: OWN, method, path, body: &text, key: Some(key) };
        let (status, answer) = self.gates.answered(call).await;
        assert_eq!(status, StatusCode::CREATED, "{path}: {answer}");
        answer
    }
}

impl Load {
    /// Begins all of it.
    pub fn start(world: Arc<World>) -> Self {
        let (stop, mut running) = (CancellationToken::new(), JoinSet::new());
        for number in 0..CLIENTS {
            running.spawn(track(world.clone(), number, stop.clone()));
        }
        running.spawn(track_alone(world.clone(), stop.clone()));
        for number in 0..EDITORS {
            running.spawn(edit(world.clone(), number, stop.clone()));
        }
        running.spawn(send(world.clone(), stop.clone()));
        running.spawn(transact(world.clone(), stop.clone()));
        running.spawn(schedule(world.clone(), stop.clone()));
        running.spawn(export(world.clone(), OWN, stop.clone()));
        running.spawn(export(world, PLAIN, stop.clone()));
        Self { stop, running }
    }

    /// Panics where a client has.
    pub fn check(&mut self) {
        while let Some(done) = self.running.try_join_next() {
            match done {
                Err(error) => std::panic::resume_unwind(error.into_panic()),
                Ok(()) => assert!(self.stop.is_cancelled(), "a client has ended by itself"),
            }
        }
    }

    /// Ends it; what is in progress is acknowledged first.
    pub async fn stop(mut self) {
        self.stop.cancel();
        while let Some(done) = self.running.join_next().await {
            if let Err(error) = done {
                std::panic::resume_unwind(error.into_panic());
            }
        }
    }
}

/// Whether there is another turn, once its time has come and it is not quiet.
async fn goes_on(world: &World, stop: &CancellationToken, interval: &mut Interval) -> bool {
    let mut is_quiet = world.is_quiet.subscribe();
    let turn = async {
        interval.tick().await;
        is_quiet.wait_for(|is_quiet| !is_quiet).await.is_ok()
    };
    tokio::select! {
        biased;
        () = stop.cancelled() => false,
        is_turn = turn => is_turn,
    }
}

/// Objects of all kinds about many users.
async fn track(world: Arc<World>, number: usize, stop: CancellationToken) {
    let way = (Vec::new(), world.operator.clone());
    let users = world.users.clone();
    let mut client = Client::new(number, users, way, Quota::ENDLESS, world.seed, Arc::default());
    let mut interval = world.every(1_600);
    for request in 0.. {
        if !goes_on(&world, &stop, &mut interval).await {
            break;
        }
        let composed = client.compose();
        let (body, key) = (composed.body(), format!("client-{number}-{request}"));
        let (method, path) = (Method::POST, "/users/track");
        let key = Some(key.as_str());
        let call = Call { kind: Kind::Track, workspace: OWN, method, path, body: &body, key };
        let (status, answer) = world.gates.answered(call).await;
        assert_eq!(status, StatusCode::CREATED, "{answer}");
        client.acknowledge(&composed, &answer);
    }
    world.books.merge(client.into_ledger());
}

/// The external id of a user that one call alone is about.
pub fn alone_id(number: usize) -> String {
    format!("alone-{number}")
}

/// What such a call says of its user; all of it must be there, or nothing.
fn about_alone(number: usize, until: i64) -> Value {
    let (id, time) = (alone_id(number), Timestamp::from_millisecond(until).expect("a time"));
    json!({
        "attributes": [{ "external_id": id, "visits": { "inc": 1 } }],
        "events": [{ "external_id": id, "name": "seen", "time": time.to_string() }],
        "purchases": [{ "external_id": id, "product_id": "tea", "currency": "USD", "price": 1.5,
                        "time": time.to_string() }],
    })
}

/// Calls without a key, each about a user of its own.
async fn track_alone(world: Arc<World>, stop: CancellationToken) {
    let mut interval = world.every(400);
    while goes_on(&world, &stop, &mut interval).await {
        let number = world.numbers.alone.fetch_add(1, Ordering::Relaxed);
        let body = about_alone(number, world.users.until).to_string();
        let (kind, method, path) = (Kind::Keyless, Method::POST, "/users/track");
        let call = Call { kind, workspace: OWN, method, path, body: &body, key: None };
        let answer = world.gates.once(call).await;
        if let Some((status, answer)) = &answer {
            assert_eq!(*status, StatusCode::CREATED, "{answer}");
        }
        world.books.enter_alone(number, answer.is_some());
    }
}

pub fn item_id(number: usize) -> String {
    format!("place-{number}")
}

/// Edits of items that nobody else edits, in their order.
async fn edit(world: Arc<World>, number: usize, stop: CancellationToken) {
    let (mut random, mut interval) = (world.random(100 + number as u64), world.every(600));
    let own: Vec<usize> = (number..ITEMS).step_by(EDITORS).collect();
    let path = format!("/catalogs/{CATALOG}/items");
    for value in 1.. {
        if !goes_on(&world, &stop, &mut interval).await {
            return;
        }
        let count = random.random_range(1..=20);
        let items: Vec<String> = own.sample(&mut random, count).map(|n| item_id(*n)).collect();
        let edits = items.iter().map(|id| json!({ "id": id, "value": value }));
        let body = json!({ "items": Value::from_iter(edits) }).to_string();
        let (key, method) = (Uuid::new_v4().to_string(), Method::PATCH);
        let key = Some(key.as_str());
        let (kind, path) = (Kind::Catalog, path.as_str());
        let call = Call { kind, workspace: OWN, method, path, body: &body, key };
        let (status, answer) = world.gates.answered(call).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
        world.books.enter_items(&items, value);
    }
}

fn webhook(world: &World, send: usize) -> Value {
    json!({
        "url": world.taken.url("/webhook"), "request_method": "POST",
        "body": mark(send, "webhook"), "request_headers": { "content-type": "text/plain" },
    })
}

fn external_ids(users: &[usize]) -> Vec<String> {
    users.iter().map(|user| external_id(*user)).collect()
}

/// Webhooks, emails and content cards to users who are named.
async fn send(world: Arc<World>, stop: CancellationToken) {
    let (mut random, mut interval) = (world.random(200), world.every(500));
    while goes_on(&world, &stop, &mut interval).await {
        let send = world.numbers.sends.fetch_add(1, Ordering::Relaxed);
        let count = random.random_range(1..=10);
        let users = world.addressees(&mut random, count);
        let body = json!({
            "external_user_ids": external_ids(&users),
            "messages": {
                "webhook": webhook(&world, send),
                "email": {
                    "app_id": "web", "from": "Acme <hello@acme.example>",
                    "subject": mark(send, "email"), "body": "<p>Hello</p>",
                },
                "content_card": {
                    "type": "CLASSIC", "title": mark(send, "content_card"),
                    "description": "Hello", "expire_at": "2127-01-01T00:00:00Z",
                },
            },
        });
        let key = Uuid::new_v4().to_string();
        let answer = world.post(Kind::Send, "/messages/send", &body, &key).await;
        assert_eq!(answer["errors"], Value::Null, "{answer}");
        let dispatch = answer["dispatch_id"].as_str().and_then(|id| id.parse().ok());
        let dispatch = dispatch.unwrap_or_else(|| panic!("no dispatch: {answer}"));
        world.books.expect(send, &["webhook", "email"], &users, 0);
        world.books.expect_cards(dispatch, &users);
    }
}

/// Transactional emails, each to one user.
async fn transact(world: Arc<World>, stop: CancellationToken) {
    let (mut random, mut interval) = (world.random(300), world.every(400));
    let path = format!("/transactional/v1/campaigns/{RECEIPT}/send");
    while goes_on(&world, &stop, &mut interval).await {
        let send = world.numbers.sends.fetch_add(1, Ordering::Relaxed);
        let users = world.addressees(&mut random, 1);
        let body = json!({
            "recipient": { "external_user_id": external_id(users[0]) },
            "trigger_properties": { "send": send },
        });
        let key = Uuid::new_v4().to_string();
        world.post(Kind::Transactional, &path, &body, &key).await;
        world.books.expect(send, &["transactional"], &users, 0);
    }
}

/// Webhooks that are to be sent a little later.
async fn schedule(world: Arc<World>, stop: CancellationToken) {
    let (mut random, mut interval) = (world.random(400), world.every(3_000));
    while goes_on(&world, &stop, &mut interval).await {
        let send = world.numbers.sends.fetch_add(1, Ordering::Relaxed);
        let users = world.addressees(&mut random, 5);
        let ahead = world.ahead.mul_f64(random.random_range(1.0..2.0));
        let time = Timestamp::now() + ahead;
        let body = json!({
            "external_user_ids": external_ids(&users),
            "messages": { "webhook": webhook(&world, send) },
            "schedule": { "time": time.to_string() },
        });
        let (text, key) = (body.to_string(), Uuid::new_v4().to_string());
        let (method, path) = (Method::POST, "/messages/schedule/create");
        let (kind, key) = (Kind::Schedule, Some(key.as_str()));
        let call = Call { kind, workspace: OWN, method, path, body: &text, key };
        let (status, answer) = world.gates.answered(call).await;
        // Its call may have been without a response for so long.
        if status == StatusCode::BAD_REQUEST && Timestamp::now() > time {
            continue;
        }
        assert_eq!(status, StatusCode::CREATED, "a schedule at {time}: {answer}");
        world.books.expect(send, &["webhook"], &users, time.as_millisecond());
        world.books.expect_schedule(send);
    }
}

/// Exports one after the other, every second with a callback.
async fn export(world: Arc<World>, workspace: usize, stop: CancellationToken) {
    let mut interval = world.every(if workspace == OWN { 5_000 } else { 3_000 });
    let fields: &[&str] = if workspace == OWN { &["external_id", "email"] } else { &ALL_FIELDS };
    for number in 0.. {
        if !goes_on(&world, &stop, &mut interval).await {
            return;
        }
        let path = (number % 2 == 0).then(|| format!("/export/{workspace}/{number}"));
        let mut body = json!({ "fields_to_export": fields });
        if let Some(path) = &path {
            body["callback_endpoint"] = world.taken.url(path).into();
        }
        let callback = path.map(|path| (path, world.secrets[workspace].clone()));
        run_export(&world, workspace, &body, callback).await;
    }
}

/// Asks for an export and waits for its end, which must be good.
pub async fn run_export(
    world: &World,
    workspace: usize,
    body: &Value,
    callback: Option<(String, Vec<u8>)>,
) {
    let (text, key, method) = (body.to_string(), Uuid::new_v4().to_string(), Method::POST);
    let (kind, key) = (Kind::Export, Some(key.as_str()));
    let call = Call { kind, workspace, method, path: EXPORT, body: &text, key };
    let (status, answer) = world.gates.answered(call).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    let prefix = answer["object_prefix"].as_str().unwrap_or_else(|| panic!("{answer}"));
    let (path, url) = (format!("/users/export/{prefix}"), answer["url"].as_str());
    loop {
        let (kind, method, path) = (Kind::Status, Method::GET, path.as_str());
        let call = Call { kind, workspace, method, path, body: "", key: None };
        let (code, status) = world.gates.answered(call).await;
        assert_eq!(code, StatusCode::OK, "{status}");
        match status["state"].as_str() {
            Some("done") => {
                let ended = Ended { workspace, status, url: url.map(str::to_owned) };
                world.books.enter_export(ended, callback);
                return;
            }
            Some("failed" | "cancelled") | None => {
                world.books.blame(format!("an export came to nothing: {status}"));
                return;
            }
            Some(_) => tokio::time::sleep(POLL).await,
        }
    }
}
