//! The hostile workspace: what it does as fast as its connections allow, whatever the response is.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::support::proxy::{Proxy, ProxyMode};
use crate::support::storage::TestStorage;
use crate::support::{Api, WorkspaceFile, user_records};

/// Users with a text of 16 KiB each.
const USERS: usize = 500;

/// How long its receiver takes for each message.
const SLOW: Duration = Duration::from_secs(10);

/// The name of its storage.
const SLOW_STORAGE: &str = "slow";

/// How long each piece of a request takes to its storage.
const SLOW_PIECE: Duration = Duration::from_secs(3);

/// What it does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// Sizes of audiences whose patterns need many states.
    Patterns,
    /// Thousands of schedules.
    Schedules,
    /// Sends to all users with a template that takes long, to a receiver that takes long.
    Templates,
    /// Exports of audiences with such patterns, and of all users.
    Exports,
    /// Exports of all users to a storage of its own that takes long.
    Storage,
    All,
}

impl Activity {
    pub const ALL: [Self; 6] =
        [Self::Patterns, Self::Schedules, Self::Templates, Self::Exports, Self::Storage, Self::All];

    pub fn name(self) -> &'static str {
        match self {
            Self::Patterns => "patterns",
            Self::Schedules => "schedules",
            Self::Templates => "templates, slow receiver",
            Self::Exports => "exports",
            Self::Storage => "exports, slow storage",
            Self::All => "all of these",
        }
    }
}

/// Its own storage: the S3 server, over a way that becomes slow.
pub struct SlowStorage {
    storage: TestStorage,
    proxy: Proxy,
}

impl SlowStorage {
    pub async fn new() -> Self {
        let storage = TestStorage::s3().await;
        let proxy = Proxy::to(storage.endpoint()).await;
        Self { storage: storage.at(&proxy.endpoint()), proxy }
    }

    /// The workspace with the storage, which is tested when that is applied.
    pub fn declared(&self, workspace: WorkspaceFile) -> WorkspaceFile {
        workspace.with_named_storage(SLOW_STORAGE, &self.storage)
    }
}

pub struct Hostile {
    api: Api,
    connections: usize,
    receiver: SocketAddr,
    _storage: SlowStorage,
}

/// What it does now.
pub struct Working {
    tasks: JoinSet<()>,
    responses: Arc<AtomicUsize>,
}

impl Hostile {
    pub async fn new(api: Api, connections: usize, storage: SlowStorage) -> Self {
        storage.proxy.set(ProxyMode::Slow(SLOW_PIECE));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("an address");
        let receiver = listener.local_addr().expect("an address");
        let router = Router::new().fallback(|| tokio::time::sleep(SLOW));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { api, connections, receiver, _storage: storage }
    }

    /// Its users, to be imported.
    pub fn users(&self) -> Vec<String> {
        user_records::with_bits(USERS)
    }

    /// Begins, on all connections.
    pub fn begin(&self, activity: Activity) -> Working {
        let (mut tasks, responses) = (JoinSet::new(), Arc::new(AtomicUsize::new(0)));
        let requests = Arc::new(self.requests(activity));
        for connection in 0..self.connections {
            let (api, requests, responses) =
                (self.api.clone(), requests.clone(), responses.clone());
            tasks.spawn(async move {
                for (path, body) in requests.iter().cycle().skip(connection) {
                    api.post(path, body).await;
                    responses.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        Working { tasks, responses }
    }

    fn requests(&self, activity: Activity) -> Vec<(&'static str, Value)> {
        let includes = |other| activity == other || activity == Activity::All;
        let mut requests = Vec::new();
        if includes(Activity::Patterns) {
            for states in [2_000, 500, 100, 20] {
                requests.push(("/segments/size", json!({ "audience": matching(states) })));
                requests.push(("/segments/sample", json!({ "audience": matching(states) })));
            }
        }
        if includes(Activity::Schedules) {
            let webhook = self.webhook("x");
            let body = json!({
                "external_user_ids": ["u1"], "messages": { "webhook": webhook },
                "schedule": { "time": "2099-01-01T00:00:00Z" },
            });
            requests.push(("/messages/schedule/create", body));
        }
        if includes(Activity::Templates) {
            let template = "{% for i in (1..300) %}{% for j in (1..300) %}{{ i | times: j }}\
                            {% endfor %}{% endfor %}";
            for audience in [json!({ "OR": [matching(20), everybody()] }), everybody()] {
                let messages = json!({ "webhook": self.webhook(template) });
                let body = json!({ "broadcast": true, "audience": audience, "messages": messages });
                requests.push(("/messages/send", body));
            }
        }
        if includes(Activity::Storage) {
            let body = json!({
                "audience": everybody(), "users_per_file": 100, "destination": SLOW_STORAGE,
            });
            requests.push(("/users/export/segment", body));
        }
        if includes(Activity::Exports) {
            for audience in [matching(500), everybody()] {
                let body = json!({ "audience": audience, "users_per_file": 100 });
                requests.push(("/users/export/segment", body));
            }
        }
        requests
    }

    fn webhook(&self, body: &str) -> Value {
        let url = format!("http://{}/", self.receiver);
        json!({ "url": url, "request_method": "POST", "body": body })
    }
}

impl Working {
    /// Ends, and returns how many responses came.
    pub async fn end(mut self) -> usize {
        self.tasks.shutdown().await;
        self.responses.load(Ordering::Relaxed)
    }
}

/// Users whose bits match any of 25 patterns of about so many states.
fn matching(states: usize) -> Value {
    let pattern = |n| {
        json!({ "custom_attribute": {
            "custom_attribute_name": "bits", "comparison": "matches_regex",
            "value": format!("[01]*1[01]{{{}}}a", states + n) } })
    };
    json!({ "OR": (0..25).map(pattern).collect::<Vec<_>>() })
}

fn everybody() -> Value {
    json!({ "custom_attribute": { "custom_attribute_name": "lost", "comparison": "does_not_exist" } })
}
