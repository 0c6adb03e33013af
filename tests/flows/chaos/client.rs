//! Clients of tracking: each sends one request after the other, the same again under the same key
//! until it is acknowledged, and then records the required effect in its ledger.
//!
//! About most users all clients write, by all four identifiers; what they do adds up in any order.
//! What does not, the attributes of a step, is written of each user by one client under one
//! identifier, so that the last one acknowledged is the one that stays.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use reqwest::{Method, StatusCode, header};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::ledger::{CURRENCIES, Effect, Ledger};
use crate::support::Api;
use crate::support::fleet::Operator;

/// How many there are.
pub const CLIENTS: usize = 8;

/// Objects that an array may have.
const MAX: usize = 75;

/// Of so many users one is to be erased.
const ERASED: usize = 199;

/// How long a request may remain without its acknowledgement.
const TIMEOUT: Duration = Duration::from_secs(300);

const DAY: i64 = 86_400_000;

const PRODUCTS: [&str; 12] = [
    "tea",
    "coffee",
    "milk",
    "żurek",
    "pão de queijo",
    "茶",
    "salt",
    "\"quoted\"",
    "rice",
    "oats",
    "figs",
    "plum",
];

const EVENTS: [&str; 4] = ["seen", "shared", "left", "came back"];

/// What clients know of the users.
pub struct Users {
    /// Of the users who were there before, by number.
    pub service_ids: Vec<Uuid>,
    /// How many more users may exist, created by their first objects.
    pub new: usize,
    /// The latest moment of what they did.
    pub until: i64,
    /// Whether some are erased in the end.
    pub some_are_erased: bool,
}

impl Users {
    /// What a user of a number is imported as.
    pub fn record(number: usize) -> String {
        json!({
            "external_id": external_id(number),
            "email": format!("User-{number}@acme.example"),
            "user_aliases": [{ "alias_name": format!("card {number}"), "alias_label": "crm" }],
        })
        .to_string()
    }

    /// Whether a user is erased in the end.
    pub fn is_erased(&self, number: usize) -> bool {
        self.some_are_erased && number.is_multiple_of(ERASED) && number < self.service_ids.len()
    }

    /// An object about a user, by one of the identifiers; of who was not there before there is
    /// one only.
    fn object(&self, number: usize, identifier: usize) -> Map<String, Value> {
        let (name, value) = match identifier {
            _ if number >= self.service_ids.len() => ("external_id", json!(external_id(number))),
            0 => ("external_id", json!(external_id(number))),
            1 => ("email", json!(format!("user-{number}@ACME.example"))),
            2 => ("service_id", json!(self.service_ids[number])),
            _ => {
                let name = format!("card {number}");
                ("user_alias", json!({ "alias_name": name, "alias_label": "crm" }))
            }
        };
        Map::from_iter([(name.to_owned(), value)])
    }
}

const IDENTIFIERS: usize = 4;

fn external_id(number: usize) -> String {
    format!("user-{number:06}")
}

/// The number of a user who is called so.
pub fn number_of(external_id: &str) -> usize {
    let number = external_id.strip_prefix("user-").and_then(|number| number.parse().ok());
    number.unwrap_or_else(|| panic!("nobody is called {external_id}"))
}

/// What a client is to send in all.
#[derive(Clone, Copy, Debug)]
pub struct Quota {
    pub purchases: usize,
    pub events: usize,
}

impl Quota {
    /// More than anybody sends; a quarter as many events as purchases.
    pub const ENDLESS: Self = Self { purchases: 1 << 40, events: 1 << 38 };
}

/// What clients have done.
#[derive(Default)]
pub struct Progress {
    /// Purchases acknowledged.
    pub purchases: AtomicUsize,
    pub requests: AtomicUsize,
    /// Tries that were not acknowledged.
    pub repeats: AtomicUsize,
    pub erased: AtomicUsize,
}

pub struct Client {
    pub number: usize,
    users: Arc<Users>,
    gateways: Vec<Api>,
    operator: Operator,
    quota: Quota,
    random: StdRng,
    progress: Arc<Progress>,
    sent: Quota,
    steps: u64,
    /// Its users to be erased, and how many of them are.
    doomed: Vec<usize>,
    gone: usize,
    ledger: Ledger,
}

/// A request, and its required effect.
#[derive(Default)]
pub struct Request {
    attributes: Vec<Value>,
    events: Vec<Value>,
    purchases: Vec<Value>,
    effects: Vec<(usize, Effect)>,
}

impl Request {
    pub fn body(&self) -> String {
        let arrays = [
            ("attributes", &self.attributes),
            ("events", &self.events),
            ("purchases", &self.purchases),
        ];
        let arrays = arrays.into_iter().filter(|(_, array)| !array.is_empty());
        let body: Map<_, _> = arrays.map(|(name, array)| (name.into(), json!(array))).collect();
        Value::from(body).to_string()
    }

    /// The response takes all of it.
    fn check(&self, answer: &Value) {
        let processed = |name: &str| answer[name].as_u64().unwrap_or(0) as usize;
        let taken = ["attributes_processed", "events_processed", "purchases_processed"];
        let sent = [&self.attributes, &self.events, &self.purchases].map(Vec::len);
        assert_eq!((taken.map(processed), answer.get("errors")), (sent, None), "{answer}");
    }
}

impl Client {
    pub fn new(
        number: usize,
        users: Arc<Users>,
        (gateways, operator): (Vec<Api>, Operator),
        quota: Quota,
        seed: u64,
        progress: Arc<Progress>,
    ) -> Self {
        let known = 0..users.service_ids.len();
        let doomed = known.skip(number).step_by(CLIENTS).filter(|user| users.is_erased(*user));
        Self {
            number,
            doomed: doomed.collect(),
            users,
            gateways,
            operator,
            quota,
            random: StdRng::seed_from_u64(seed.wrapping_add(number as u64)),
            progress,
            sent: Quota { purchases: 0, events: 0 },
            steps: 0,
            gone: 0,
            ledger: Ledger::default(),
        }
    }

    /// What it sends next, for whoever sends it until it is acknowledged. Nobody is erased.
    pub fn compose(&mut self) -> Request {
        self.request(0..0)
    }

    /// Enters a request that was acknowledged.
    pub fn acknowledge(&mut self, request: &Request, answer: &Value) {
        request.check(answer);
        for (user, effect) in &request.effects {
            self.ledger.enter(*user, *effect);
        }
    }

    pub fn into_ledger(self) -> Ledger {
        self.ledger
    }

    /// Sends all of the quota; returns the required effects.
    pub async fn run(mut self) -> Ledger {
        let mut requests = 0;
        while self.sent.purchases < self.quota.purchases {
            let dooms = self.next_doomed();
            let request = self.request(dooms.clone());
            let (key, body) = (format!("client-{}-{requests}", self.number), request.body());
            let answer = self.acknowledged(&key, &body).await;
            if self.random.random_ratio(1, 50) {
                assert_eq!(self.acknowledged(&key, &body).await, answer, "the first answer again");
            }
            requests += 1;
            self.acknowledge(&request, &answer);
            self.progress.purchases.fetch_add(request.purchases.len(), Ordering::SeqCst);
            self.progress.requests.fetch_add(1, Ordering::SeqCst);
            self.erase(dooms).await;
        }
        assert_eq!(self.gone, self.doomed.len());
        self.ledger
    }

    /// Those to be erased next: some in each quarter of the purchases.
    fn next_doomed(&self) -> Range<usize> {
        let due = self.doomed.len() * (self.sent.purchases * 4 / self.quota.purchases + 1) / 4;
        let at_once = (due - self.gone).min(MAX / IDENTIFIERS);
        self.gone..self.gone + at_once
    }

    /// A request of a random size, and for certain about each of those who are erased next, by
    /// each identifier: it is received before that, and applied perhaps after.
    fn request(&mut self, dooms: Range<usize>) -> Request {
        let mut request = Request::default();
        for at in dooms {
            for identifier in 0..IDENTIFIERS {
                let object = self.users.object(self.doomed[at], identifier);
                request.purchases.push(self.purchase(object).0);
            }
        }
        let size = self.random.random_range(1..=MAX).max(request.purchases.len());
        let size = size.min(self.quota.purchases - self.sent.purchases);
        while request.purchases.len() < size {
            let (user, object) = self.about_anyone();
            let (object, effect) = self.purchase(object);
            request.purchases.push(object);
            request.effects.extend(user.map(|user| (user, effect)));
        }
        self.sent.purchases += request.purchases.len();

        let due = self.quota.events * self.sent.purchases / self.quota.purchases;
        let due = due.saturating_sub(self.sent.events).min(MAX);
        for _ in 0..due {
            let (user, mut object) = self.about_anyone();
            let (name, at) = (EVENTS[self.random.random_range(0..EVENTS.len())], self.moment());
            object.insert("name".into(), json!(name));
            object.insert("time".into(), self.time(at));
            request.events.push(object.into());
            request.effects.extend(user.map(|user| (user, Effect::Event { name, at })));
        }
        self.sent.events += due;

        for _ in 0..self.random.random_range(0..size / 5 + 2) {
            let (user, mut object) = self.about_anyone();
            object.insert("visits".into(), json!({ "inc": 1 }));
            request.attributes.push(object.into());
            request.effects.extend(user.map(|user| (user, Effect::Visit)));
            let (user, object) = self.step();
            request.attributes.push(object);
            request.effects.push((user, Effect::Step(self.steps)));
        }
        request
    }

    /// The beginning of an object about a user, and the user if it must count.
    fn about_anyone(&mut self) -> (Option<usize>, Map<String, Value>) {
        let identifier = self.random.random_range(0..IDENTIFIERS);
        if !self.doomed.is_empty() && self.random.random_ratio(1, 25) {
            let at = self.random.random_range(0..self.doomed.len());
            let mut object = self.users.object(self.doomed[at], identifier);
            if at < self.gone {
                object.insert("_update_existing_only".into(), json!(true));
            }
            return (None, object);
        }
        let known = self.users.service_ids.len();
        let number = if self.random.random_ratio(1, 40) {
            known + self.random.random_range(0..self.users.new)
        } else {
            self.lasting(0, 1)
        };
        (Some(number), self.users.object(number, identifier))
    }

    /// A user who was there before and is not erased: of those behind the first `skip` every
    /// so manyeth.
    fn lasting(&mut self, skip: usize, step: usize) -> usize {
        let count = (self.users.service_ids.len() - skip).div_ceil(step);
        loop {
            let number = skip + step * self.random.random_range(0..count);
            if !self.users.is_erased(number) {
                return number;
            }
        }
    }

    /// Attributes that nobody else sets.
    fn step(&mut self) -> (usize, Value) {
        let number = self.lasting(self.number, CLIENTS);
        let mut object = self.users.object(number, number / CLIENTS % IDENTIFIERS);
        self.steps += 1;
        object.insert("step".into(), json!(self.steps));
        object.insert("first_name".into(), json!(format!("step {}", self.steps)));
        (number, object.into())
    }

    fn purchase(&mut self, mut object: Map<String, Value>) -> (Value, Effect) {
        let product = PRODUCTS[self.random.random_range(0..PRODUCTS.len())];
        let currency = self.random.random_range(0..CURRENCIES.len());
        let price = self.random.random_range(0..20_000);
        let quantity = self.random.random_range(1..=3);
        let at = self.moment();
        object.extend([
            ("product_id".to_owned(), json!(product)),
            ("currency".to_owned(), json!(CURRENCIES[currency].0)),
            ("price".to_owned(), json!(price as f64 / 100.0)),
            ("quantity".to_owned(), json!(quantity)),
            ("time".to_owned(), self.time(at)),
        ]);
        (object.into(), Effect::Purchase { product, currency, price, quantity, at })
    }

    /// Within what an export shows, also a day later.
    fn moment(&mut self) -> i64 {
        self.users.until - self.random.random_range(0..80 * DAY)
    }

    /// In one of the two forms.
    fn time(&mut self, ms: i64) -> Value {
        let time = Timestamp::from_millisecond(ms).expect("a time");
        if self.random.random_ratio(1, 4) {
            json!(time.strftime("%Y-%m-%dT%H:%M:%S:%3f+0000").to_string())
        } else {
            json!(time.to_string())
        }
    }

    /// Sends a request to either gateway until it is acknowledged; now and then without waiting for
    /// the response.
    async fn acknowledged(&mut self, key: &str, body: &str) -> Value {
        let since = Instant::now();
        loop {
            let gateway = &self.gateways[self.random.random_range(0..self.gateways.len())];
            let timeout = if self.random.random_ratio(1, 50) {
                Duration::from_millis(self.random.random_range(1..20))
            } else {
                Duration::from_secs(30)
            };
            let request = gateway
                .request(Method::POST, "/users/track")
                .header("idempotency-key", key)
                .header(header::CONTENT_TYPE, "application/json")
                .timeout(timeout)
                .body(body.to_owned());
            let why = match answered(request).await {
                Ok(Ok(answer)) => return answer,
                Ok(Err(refused)) => refused,
                Err(error) => error.to_string(),
            };
            assert!(since.elapsed() < TIMEOUT, "{key} is not acknowledged: {why}");
            self.progress.repeats.fetch_add(1, Ordering::SeqCst);
            let pause = self.random.random_range(10..200);
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    }

    /// Erases some of its users as an operator does. No request about them is in progress that
    /// could make them.
    async fn erase(&mut self, dooms: Range<usize>) {
        let since = Instant::now();
        let mut ids: Vec<String> =
            self.doomed[dooms.clone()].iter().map(|number| external_id(*number)).collect();
        let mut is_first = true;
        while !ids.is_empty() {
            let words = ["users", "delete", "--workspace", "acme", "--json"];
            let words: Vec<&str> =
                words.into_iter().chain(ids.iter().map(String::as_str)).collect();
            let output = self.operator.command(&words).await;
            if let Ok(told) = serde_json::from_slice::<Value>(&output.stdout) {
                let failed = told["failed"].as_array().expect("an array");
                // It may have been done, and its response lost.
                let is_left = |failed: &&Value| {
                    is_first || !failed["reason"].to_string().contains("no user has")
                };
                let left = failed.iter().filter(is_left);
                ids = left.map(|failed| failed["id"].as_str().expect("an id").into()).collect();
            }
            assert!(since.elapsed() < TIMEOUT, "{ids:?} are not erased: {output:?}");
            is_first = false;
        }
        self.progress.erased.fetch_add(dooms.len(), Ordering::SeqCst);
        self.gone = dooms.end;
    }
}

/// Sends a request: the response that acknowledges it, or why it is to be sent again.
async fn answered(
    request: reqwest::RequestBuilder,
) -> Result<Result<Value, String>, reqwest::Error> {
    let answer = request.send().await?;
    let (status, may_retry) = (answer.status(), answer.headers().contains_key("retry-after"));
    let text = answer.text().await?;
    match status {
        StatusCode::CREATED => Ok(Ok(serde_json::from_str(&text).expect("JSON"))),
        StatusCode::CONFLICT | StatusCode::SERVICE_UNAVAILABLE if may_retry => {
            Ok(Err(format!("{status} {text}")))
        }
        _ => panic!("{status} {text}"),
    }
}
