//! Calls as a client makes them behind a load balancer: to a gateway that is ready, and once
//! more at another where the first does not answer.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rand::RngExt as _;
use reqwest::{Method, StatusCode};
use serde_json::Value;

use super::herd::Herd;
use crate::support::Api;

/// How long one attempt may take.
const ATTEMPT: Duration = Duration::from_secs(10);

/// How long a call may remain without its acknowledgement.
const TIMEOUT: Duration = Duration::from_secs(300);

/// What a call is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Track,
    Keyless,
    Catalog,
    Send,
    Transactional,
    Schedule,
    Export,
    Status,
}

impl Kind {
    /// Those that come so often that it is seen by them when calls are answered again.
    pub const FREQUENT: [Self; 5] =
        [Self::Track, Self::Keyless, Self::Catalog, Self::Send, Self::Transactional];
}

/// A request to send.
pub struct Call<'a> {
    pub kind: Kind,
    /// With the workspace's key.
    pub workspace: usize,
    pub method: Method,
    pub path: &'a str,
    /// JSON; empty where there is none.
    pub body: &'a str,
    pub key: Option<&'a str>,
}

/// The outcome of one attempt.
enum Tried {
    Answered(StatusCode, Value),
    /// It cannot have been done.
    Unsent(String),
    /// It may have been done.
    Unknown(String),
}

/// How calls fared.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub calls: usize,
    /// Second attempts.
    pub retries: usize,
    /// Those of which the second attempt failed, too, or must not be sent.
    pub failed: usize,
    /// Why attempts failed, and how many for that.
    pub reasons: BTreeMap<String, usize>,
}

#[derive(Default)]
struct Notes {
    tally: Tally,
    /// From when on the first success of each kind at each gateway is looked for, and when it was.
    since: Option<Instant>,
    first: BTreeMap<(Kind, usize), Instant>,
    /// Calls that failed and continue, by a number, with their beginning; and when one that began
    /// before `since` was answered last.
    open: BTreeMap<usize, Instant>,
    answered: Option<Instant>,
}

pub struct Gates {
    herd: Arc<Herd>,
    /// The names of the gateways, and for each the clients of each workspace.
    gateways: Vec<(String, Vec<Api>)>,
    /// The number of the next call.
    next: AtomicUsize,
    notes: Mutex<Notes>,
}

impl Gates {
    pub fn new(herd: Arc<Herd>, gateways: Vec<(String, Vec<Api>)>) -> Self {
        Self { herd, gateways, next: AtomicUsize::new(0), notes: Mutex::default() }
    }

    fn notes<T>(&self, f: impl FnOnce(&mut Notes) -> T) -> T {
        f(&mut self.notes.lock().expect("no test panics here"))
    }

    /// A client of a workspace at one gateway.
    pub fn at(&self, gateway: usize, workspace: usize) -> &Api {
        &self.gateways[gateway].1[workspace]
    }

    /// How calls fared since this was asked last.
    pub fn take_tally(&self) -> Tally {
        self.notes(|notes| std::mem::take(&mut notes.tally))
    }

    /// From now on the first success of each kind at each gateway is looked for.
    pub fn look_for_success(&self) {
        self.notes(|notes| {
            (notes.since, notes.first, notes.answered) =
                (Some(Instant::now()), BTreeMap::new(), None);
        });
    }

    /// When each gateway had answered calls of all frequent kinds that began after
    /// [`look_for_success`](Self::look_for_success) with 2xx, and every one was answered that had
    /// failed before; or of which kind there is none yet, and where.
    pub fn all_succeeded(&self) -> Result<Instant, Vec<String>> {
        let wanted = Kind::FREQUENT
            .iter()
            .flat_map(|kind| (0..self.gateways.len()).map(move |gateway| (*kind, gateway)));
        self.notes(|notes| {
            let (mut missing, mut last) = (Vec::new(), notes.answered);
            for (kind, gateway) in wanted {
                match notes.first.get(&(kind, gateway)) {
                    Some(at) => last = last.max(Some(*at)),
                    None => missing.push(format!("{kind:?} at {}", self.gateways[gateway].0)),
                }
            }
            let is_open = notes.open.values().any(|began| Some(*began) < notes.since);
            last.filter(|_| missing.is_empty() && !is_open).ok_or(missing)
        })
    }

    /// A gateway that is ready, but for one, if there is any; any of them, since by turns calls of
    /// one kind may all come to the same.
    fn choose(&self, but: Option<usize>) -> usize {
        let first = rand::rng().random_range(0..self.gateways.len());
        let turns = (0..self.gateways.len()).map(|n| (first + n) % self.gateways.len());
        let others = turns.filter(|n| Some(*n) != but);
        let ready = others.clone().find(|n| self.herd.is_ready(&self.gateways[*n].0));
        ready.or(others.clone().next()).unwrap_or(0)
    }

    async fn attempt(&self, gateway: usize, call: &Call<'_>) -> Tried {
        let began = Instant::now();
        let api = &self.gateways[gateway].1[call.workspace];
        let mut request = api.request(call.method.clone(), call.path).timeout(ATTEMPT);
        if !call.body.is_empty() {
            request = request.header("content-type", "application/json").body(call.body.to_owned());
        }
        if let Some(key) = call.key {
            request = request.header("idempotency-key", key);
        }
        let answer = match request.send().await {
            Ok(answer) => answer,
            Err(error) if error.is_connect() => return Tried::Unsent("no connection".into()),
            Err(error) if error.is_timeout() => return Tried::Unknown("no answer in time".into()),
            Err(_) => return Tried::Unknown("the connection broke off".into()),
        };
        let status = answer.status();
        let Ok(text) = answer.text().await else {
            return Tried::Unknown("the answer broke off".into());
        };
        if status.is_server_error() || status == StatusCode::CONFLICT {
            return Tried::Unknown(status.as_u16().to_string());
        }
        if status.is_success() {
            self.notes(|notes| {
                if notes.since.is_some_and(|since| since <= began) {
                    notes.first.entry((call.kind, gateway)).or_insert_with(Instant::now);
                }
            });
        }
        Tried::Answered(status, serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    /// Makes a call whose repeats do no harm until it is answered, each time at one gateway
    /// and then at another.
    pub async fn answered(&self, call: Call<'_>) -> (StatusCode, Value) {
        let since = Instant::now();
        self.notes(|notes| notes.tally.calls += 1);
        let (number, mut last) = (self.next.fetch_add(1, Ordering::Relaxed), None);
        for attempt in 0.. {
            let gateway = self.choose(last.filter(|_| attempt % 2 == 1));
            last = Some(gateway);
            let why = match self.attempt(gateway, &call).await {
                Tried::Answered(status, body) => {
                    self.close(number);
                    return (status, body);
                }
                Tried::Unsent(why) | Tried::Unknown(why) => why,
            };
            self.notes(|notes| notes.open.insert(number, since));
            self.failed(&call, &why, attempt % 2 == 0);
            assert!(since.elapsed() < TIMEOUT, "{} {}: {why}", call.method, call.path);
            if attempt % 2 == 1 {
                let pause = rand::rng().random_range(100..500);
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
        }
        unreachable!("attempts have no end")
    }

    fn close(&self, number: usize) {
        self.notes(|notes| {
            if notes.open.remove(&number).is_some_and(|began| Some(began) < notes.since) {
                notes.answered = Some(Instant::now());
            }
        });
    }

    /// Notes an attempt that failed, after which there is another, or there is none.
    fn failed(&self, call: &Call<'_>, why: &str, is_retried: bool) {
        let reason = format!("{:?}: {why}", call.kind);
        self.notes(|notes| {
            *notes.tally.reasons.entry(reason).or_default() += 1;
            if is_retried { notes.tally.retries += 1 } else { notes.tally.failed += 1 }
        });
    }

    /// Makes a call that must not be made twice: a second time only where the first cannot have
    /// been done. None where it may have been done or not.
    pub async fn once(&self, call: Call<'_>) -> Option<(StatusCode, Value)> {
        self.notes(|notes| notes.tally.calls += 1);
        let mut last = None;
        for is_retried in [true, false] {
            let gateway = self.choose(last);
            last = Some(gateway);
            match self.attempt(gateway, &call).await {
                Tried::Answered(status, body) => return Some((status, body)),
                Tried::Unsent(why) => self.failed(&call, &why, is_retried),
                Tried::Unknown(why) => {
                    self.failed(&call, &why, false);
                    return None;
                }
            }
        }
        None
    }
}
