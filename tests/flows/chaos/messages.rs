//! Gateways and workers are killed at random moments while messages go out over all channels.
//! In the end what the receivers took, and the cards in the store, are held against what was
//! acknowledged: each user has each message once, under one id; nothing is missing. What came
//! twice over the wire came under the same id, and is counted.
//!
//! `scripts/chaos messages` runs it at full size; without it, a small form is a test like others.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom as _, SliceRandom as _};
use rand::{RngExt as _, SeedableRng as _};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{WORKERS, count, seed};
use crate::support::channel_receivers::{ChannelReceivers, Mark, WIRED, external_id, stored_cards};
use crate::support::fleet::{Backend, Fleet};
use crate::support::process::free_port;
use crate::support::{Api, WorkspaceFile, open_work, stores};

const GATEWAYS: [&str; 2] = ["gateway", "gateway-2"];

const SEND: &str = "/messages/send";
const SEGMENT: &str = "5f0e6b1a-9c3d-4e7f-8a2b-1c0d9e8f7a01";

/// Sends to all users, distinguished by an attribute.
const WHOLE: usize = 4;

/// Users that a request lists.
const NAMED: usize = 50;

/// Every channel: those over the wire, and content cards.
const CHANNELS: usize = WIRED.len() + 1;

/// How long work in progress may stand still, and a request may wait for its response.
const TIMEOUT: Duration = Duration::from_secs(300);

/// How much there is to do.
struct Scale {
    messages: usize,
    kills: usize,
    seed: u64,
}

impl Scale {
    /// As `scripts/chaos` asks, or small.
    fn from_environment() -> Self {
        Self { messages: count("MESSAGES", 18_000), kills: count("KILLS", 5), seed: seed() }
    }

    /// Sends that name users: a fifth of the messages are theirs.
    fn named(&self) -> usize {
        (self.messages / 5).div_ceil(NAMED * CHANNELS)
    }

    fn users(&self) -> usize {
        (self.messages - self.named() * NAMED * CHANNELS).div_ceil(WHOLE * CHANNELS)
    }
}

/// A send, and the numbers of the users that it is for.
struct Order {
    number: usize,
    body: Value,
    users: Vec<usize>,
}

struct Scene {
    fleet: Fleet,
    gateways: Vec<Api>,
    /// Where the second gateway listens.
    second: String,
    receivers: Arc<ChannelReceivers>,
    users: usize,
}

impl Scene {
    async fn new(scale: &Scale) -> Self {
        let users = scale.users();
        println!("{} messages to {users} users", scale.messages);
        let receivers = Arc::new(ChannelReceivers::start().await);
        let settings = [
            ("LONGSHORE_LOG__APPEND_TIMEOUT_MS", "3000".to_owned()),
            ("LONGSHORE_WORKER__LEASE_MS", "2000".to_owned()),
            ("LONGSHORE_MESSAGES__RETRY_MS", "500".to_owned()),
        ];
        let mut fleet = Fleet::start(Backend::Fleet(WORKERS.len()), &settings).await;
        let everybody = json!({ "custom_attribute": {
            "custom_attribute_name": "number", "comparison": "exists",
        } });
        let segments = json!([{ "id": SEGMENT, "name": "Everybody", "audience": everybody }]);
        let mut workspace =
            WorkspaceFile::new("acme").permitted(&["messages.send"]).with("segments", segments);
        for (name, value) in receivers.declared() {
            workspace = workspace.with(name, value);
        }
        let api = fleet.apply(std::slice::from_ref(&workspace)).await.remove(0);
        let second = format!("127.0.0.1:{}", free_port());
        let other = Api::new(&format!("http://{second}"), &workspace.key);
        fleet.launch_with(GATEWAYS[1], &[("LONGSHORE_LISTEN", &second)]).await;
        fleet.ready(GATEWAYS[1]).await;
        let records: Vec<String> = (0..users).map(ChannelReceivers::record).collect();
        fleet.import(&workspace.name, &records).await;
        Self { fleet, gateways: vec![api, other], second, receivers, users }
    }

    /// All sends in a random order.
    fn orders(&self, scale: &Scale, random: &mut StdRng) -> Vec<Order> {
        let all: Vec<usize> = (0..self.users).collect();
        let mut targets: Vec<Option<Vec<usize>>> = (0..scale.named())
            .map(|_| Some(all.sample(random, NAMED).copied().collect()))
            .chain((0..WHOLE).map(|_| None))
            .collect();
        targets.shuffle(random);
        let order = |(number, target): (usize, Option<Vec<usize>>)| {
            let mut body = json!({ "messages": self.receivers.messages(number) });
            match &target {
                Some(users) => {
                    let ids: Vec<String> = users.iter().map(|user| external_id(*user)).collect();
                    body["external_user_ids"] = ids.into();
                }
                None => {
                    body["broadcast"] = true.into();
                    if number.is_multiple_of(2) {
                        body["segment_id"] = SEGMENT.into();
                    } else {
                        let tier = |value: &str| {
                            json!({ "custom_attribute": {
                            "custom_attribute_name": "tier", "comparison": "equals", "value": value,
                        } })
                        };
                        body["audience"] = json!({ "OR": [tier("gold"), tier("tin")] });
                    }
                }
            }
            Order { number, body, users: target.unwrap_or_else(|| all.clone()) }
        };
        targets.into_iter().enumerate().map(order).collect()
    }

    fn client(&self) -> Client {
        Client {
            gateways: self.gateways.clone(),
            receivers: self.receivers.clone(),
            ahead: self.users * WIRED.len(),
            repeats: 0,
        }
    }

    /// Does something to a process, which no other cause may have ended.
    async fn kill(&mut self, name: &str, random: &mut StdRng) {
        assert!(self.fleet.is_running(name), "{name} has ended by itself");
        println!("  kill -9 {name}, {} messages taken", self.receivers.count());
        self.fleet.kill(name);
        tokio::time::sleep(Duration::from_millis(random.random_range(0..1_000))).await;
        let listen = [("LONGSHORE_LISTEN", self.second.as_str())];
        let more = if name == GATEWAYS[1] { &listen[..] } else { &[] };
        self.fleet.launch_with(name, more).await;
    }

    /// Waits until so many messages were taken, as long as there come any.
    async fn wait_for_messages(&self, messages: usize) {
        let (mut received, mut since) = (self.receivers.count(), Instant::now());
        while self.receivers.count() < messages {
            if self.receivers.count() > received {
                (received, since) = (self.receivers.count(), Instant::now());
            }
            assert!(since.elapsed() < TIMEOUT, "no more than {received} of {messages} come");
            self.receivers.check();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// The cards in the store: one for each dispatch and user, and no other.
    async fn check_cards(&self, dispatches: &HashMap<Uuid, &Order>) {
        let mut found = stored_cards(&self.fleet.database_url()).await;
        let mut must: Vec<(Uuid, usize)> = dispatches
            .iter()
            .flat_map(|(id, order)| order.users.iter().map(|user| (*id, *user)))
            .collect();
        found.sort_unstable();
        must.sort_unstable();
        assert_eq!(found.len(), must.len(), "cards, and those that must be");
        assert!(found == must, "cards of other users");
    }
}

/// Who sends: one order after the other, so that there is always something in progress, each the
/// same again under the same key until it is acknowledged, and some at both gateways at once.
struct Client {
    gateways: Vec<Api>,
    receivers: Arc<ChannelReceivers>,
    /// How many messages may be in progress.
    ahead: usize,
    repeats: usize,
}

impl Client {
    /// The dispatch of each order, and how often one was sent again.
    async fn run(mut self, orders: Arc<Vec<Order>>) -> (Vec<Uuid>, usize) {
        let (mut dispatches, mut asked) = (Vec::new(), 0);
        for order in orders.iter() {
            while asked > self.receivers.count() + self.ahead {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            dispatches.push(self.send(order).await);
            asked += order.users.len() * WIRED.len();
        }
        (dispatches, self.repeats)
    }

    async fn send(&mut self, order: &Order) -> Uuid {
        let (key, since) = (Uuid::new_v4().to_string(), Instant::now());
        let places = if order.number.is_multiple_of(5) { 0..2 } else { 0..1 };
        loop {
            let attempt = async |gateway: &Api| {
                let request = gateway.request(Method::POST, SEND).json(&order.body);
                acknowledged(request.header("idempotency-key", &key).send().await).await
            };
            let answers = join_all(self.gateways[places.clone()].iter().map(attempt)).await;
            let mut answers = answers.into_iter().flatten();
            if let Some(dispatch) = answers.next() {
                assert!(answers.all(|other| other == dispatch), "one key, and two dispatches");
                return dispatch;
            }
            assert!(since.elapsed() < TIMEOUT, "order {} is not acknowledged", order.number);
            self.repeats += 1;
            self.gateways.rotate_left(1);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// The dispatch, where a send was acknowledged; none where it is to be sent again.
async fn acknowledged(answer: reqwest::Result<reqwest::Response>) -> Option<Uuid> {
    let answer = answer.ok()?;
    let status = answer.status();
    let body: Value = answer.json().await.ok()?;
    match status {
        StatusCode::CREATED => {
            assert_eq!(body["errors"], Value::Null, "{body}");
            let id = body["dispatch_id"].as_str().unwrap_or_else(|| panic!("{body}"));
            assert_eq!(id.len(), 32, "{body}");
            Some(id.parse().expect("an id"))
        }
        StatusCode::CONFLICT => None,
        status if status.is_server_error() => None,
        status => panic!("{status}: {body}"),
    }
}

/// Who is killed, each once so many messages were taken, in a random order: workers in their
/// turns, and of the gateways each once.
fn strikes(scale: &Scale, all: usize, random: &mut StdRng) -> Vec<(usize, &'static str)> {
    let mut names: Vec<&str> = WORKERS.iter().cycle().take(scale.kills).copied().collect();
    names.extend(GATEWAYS);
    names.shuffle(random);
    let mut moments: Vec<usize> =
        names.iter().map(|_| random.random_range(all / 50..all * 19 / 20)).collect();
    moments.sort_unstable();
    moments.into_iter().zip(names).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "scripts/test --all"]
async fn messages() {
    let scale = Scale::from_environment();
    let mut scene = Scene::new(&scale).await;
    let mut random = StdRng::seed_from_u64(scale.seed);
    let orders = Arc::new(scene.orders(&scale, &mut random));
    let over_wire: usize = orders.iter().map(|order| order.users.len() * WIRED.len()).sum();
    let (strikes, began) = (strikes(&scale, over_wire, &mut random), Instant::now());
    let client = tokio::spawn(scene.client().run(orders.clone()));
    for (messages, name) in strikes {
        scene.wait_for_messages(messages).await;
        scene.kill(name, &mut random).await;
    }
    let (dispatches, repeats) = client.await.expect("all is acknowledged");
    println!(
        "  {} requests, sent again {repeats} times, in {:.1} s",
        orders.len(),
        began.elapsed().as_secs_f64()
    );
    for name in GATEWAYS.iter().chain(&WORKERS) {
        scene.fleet.ready(name).await;
    }
    scene.wait_for_messages(over_wire).await;
    println!("  all are taken after {:.1} s", began.elapsed().as_secs_f64());
    open_work::wait_until_done(&scene.fleet).await;
    println!("  nothing is left to be done after {:.1} s", began.elapsed().as_secs_f64());
    let must = orders.iter().flat_map(|order| {
        let users = order.users.iter();
        users.flat_map(|user| WIRED.map(|channel| mark(order, channel, *user)))
    });
    let (repeated, refused) = scene.receivers.check_all(must);
    let sent = "SELECT count(*) FROM messages WHERE state = 'sent'";
    let all = over_wire / WIRED.len() * CHANNELS;
    assert_eq!(stores::count(&scene.fleet.database_url(), sent).await, all as i64);
    scene.check_cards(&dispatches.into_iter().zip(orders.iter()).collect()).await;
    println!(
        "  {over_wire} messages and the cards are there once; came again under the same id: \
         {repeated:?}, {refused} of them refused once"
    );
    scene.fleet.close().await;
}

fn mark(order: &Order, channel: &str, user: usize) -> Mark {
    (order.number as u32, channel.to_owned(), user as u32)
}
