//! What the other workspaces do, and how long it takes: calls, exports and messages at an even
//! pace, each by the next workspace.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::Uri;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep, timeout};

use crate::support::Api;
use crate::unique;

/// Users of each workspace.
const USERS: usize = 20;

/// Between two of a kind.
const CALL_PACE: Duration = Duration::from_millis(20);
const EXPORT_PACE: Duration = Duration::from_millis(500);
const MESSAGE_PACE: Duration = Duration::from_millis(200);

/// Between looks at an export's status.
const LOOK: Duration = Duration::from_millis(20);

/// What takes longer is late.
const LATEST: Duration = Duration::from_secs(60);

pub struct Others {
    apis: Vec<Api>,
    /// By how much every pace is multiplied.
    slower: u32,
    arrivals: Arrivals,
}

/// How long things of a kind took, in milliseconds.
#[derive(Default)]
pub struct Times {
    sorted: Vec<f64>,
    /// Those that were refused, or took too long. They count as the longest time.
    pub late: usize,
}

#[derive(Default)]
pub struct Latencies {
    pub calls: Times,
    pub exports: Times,
    pub messages: Times,
}

#[derive(Clone, Copy)]
enum Kind {
    Call,
    Export,
    Message,
}

impl Others {
    pub async fn new(apis: Vec<Api>, slower: u32) -> Self {
        let users: Vec<_> =
            (0..USERS).map(|n| json!({ "external_id": format!("u{n}"), "tier": "gold" })).collect();
        for api in &apis {
            let tracked = api.post("/users/track", &json!({ "attributes": users })).await;
            assert_eq!(tracked.status, 201, "{tracked:?}");
        }
        Self { apis, slower, arrivals: Arrivals::start().await }
    }

    /// Works for so long, and waits for the end of all that began.
    pub async fn measure(&self, time: Duration) -> Latencies {
        let (calls, exports, messages) = tokio::join!(
            self.repeat(Kind::Call, CALL_PACE, time),
            self.repeat(Kind::Export, EXPORT_PACE, time),
            self.repeat(Kind::Message, MESSAGE_PACE, time),
        );
        Latencies { calls, exports, messages }
    }

    async fn repeat(&self, kind: Kind, pace: Duration, time: Duration) -> Times {
        let mut ticks = interval(pace * self.slower);
        let (began, mut tasks) = (Instant::now(), JoinSet::new());
        let mut apis = self.apis.iter().cycle();
        while began.elapsed() < time {
            let due = ticks.tick().await;
            let Some(api) = apis.next().cloned() else { break };
            let arrivals = self.arrivals.clone();
            tasks.spawn(async move {
                let done = timeout(LATEST, async {
                    match kind {
                        Kind::Call => call(&api).await,
                        Kind::Export => export(&api).await,
                        Kind::Message => message(&api, &arrivals).await,
                    }
                });
                let is_done = done.await.unwrap_or(false);
                is_done.then(|| due.elapsed())
            });
        }
        let mut times = Vec::new();
        while let Some(time) = tasks.join_next().await {
            times.push(time.ok().flatten());
        }
        Times::new(times)
    }
}

async fn call(api: &Api) -> bool {
    let body = json!({ "attributes": [{ "external_id": "u1", "visits": 1 }] });
    api.post("/users/track", &body).await.status == 201
}

/// From the request to the last file.
async fn export(api: &Api) -> bool {
    let audience = json!({ "custom_attribute": {
        "custom_attribute_name": "tier", "comparison": "matches_regex", "value": "^g" } });
    let body = json!({ "audience": audience, "fields_to_export": ["external_id"] });
    let accepted = api.post("/users/export/segment", &body).await;
    let Some(prefix) = accepted.body["object_prefix"].as_str() else { return false };
    loop {
        match api.get(&format!("/users/export/{prefix}")).await.body["state"].as_str() {
            Some("done") => return true,
            Some("failed" | "cancelled") => return false,
            _ => sleep(LOOK).await,
        }
    }
}

/// From the request to the receiver.
async fn message(api: &Api, arrivals: &Arrivals) -> bool {
    let (url, arrived) = arrivals.expect();
    let webhook = json!({ "url": url, "request_method": "POST", "body": "{{ ${user_id} }}" });
    let body = json!({ "external_user_ids": ["u1"], "messages": { "webhook": webhook } });
    api.post("/messages/send", &body).await.status == 201 && arrived.await.is_ok()
}

impl Times {
    fn new(times: Vec<Option<Duration>>) -> Self {
        let late = times.iter().filter(|time| time.is_none()).count();
        let ms = |time: Option<Duration>| time.unwrap_or(LATEST).as_secs_f64() * 1e3;
        let mut sorted: Vec<f64> = times.into_iter().map(ms).collect();
        sorted.sort_by(f64::total_cmp);
        Self { sorted, late }
    }

    pub fn count(&self) -> usize {
        self.sorted.len()
    }

    pub fn percentile(&self, percent: usize) -> f64 {
        let index = (self.sorted.len() * percent).div_ceil(100).max(1) - 1;
        self.sorted.get(index).copied().unwrap_or(f64::NAN)
    }
}

/// A receiver that notices the first request for each path.
#[derive(Clone)]
struct Arrivals {
    address: SocketAddr,
    expected: Expected,
}

type Expected = Arc<Mutex<HashMap<String, oneshot::Sender<()>>>>;

impl Arrivals {
    async fn start() -> Self {
        let expected = Expected::default();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("an address");
        let address = listener.local_addr().expect("an address");
        let router = Router::new().fallback(arrive).with_state(expected.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, expected }
    }

    /// An address, and what ends once a request for it has come.
    fn expect(&self) -> (String, oneshot::Receiver<()>) {
        let (sender, receiver) = oneshot::channel();
        let path = format!("/{}", unique());
        let url = format!("http://{}{path}", self.address);
        self.expected.lock().expect("nothing panics").insert(path, sender);
        (url, receiver)
    }
}

async fn arrive(State(expected): State<Expected>, uri: Uri) {
    let sender = expected.lock().expect("nothing panics").remove(uri.path());
    if let Some(sender) = sender {
        // Nobody waits for one that is late.
        let _ = sender.send(());
    }
}
