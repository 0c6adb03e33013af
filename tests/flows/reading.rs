//! What a workspace reads about itself over HTTP: messages of users, sizes and samples of segments,
//! deliveries, dead letters. What other workspaces have is unknown.

mod dead_letters;
mod deliveries;
mod segments;
mod user_messages;

use longshore::app::App;
use longshore::workspaces;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::api::{ApiResponse, answer};
use crate::support::fleet::{Backend, Fleet};
use crate::support::{Api, WorkspaceFile};

const PERMISSIONS: [&str; 12] = [
    "messages.send",
    "users.export.ids",
    "users.messages",
    "segments.size",
    "segments.sample",
    "deliveries.list",
    "deliveries.get",
    "deliveries.resend",
    "dead_letters.list",
    "dead_letters.get",
    "dead_letters.retry",
    "dead_letters.discard",
];

const GOLD: Uuid = Uuid::from_u128(0x3c9f_0a52_8f1e_4c57_9a3e_0d5b_1c2e_7f60);

/// Two workspaces, and a key of a third one that may only track.
struct World {
    fleet: Fleet,
    acme: Api,
    beta: Api,
    few: Api,
}

fn gold() -> Value {
    json!({ "custom_attribute": {
        "custom_attribute_name": "tier", "comparison": "equals", "value": "gold" } })
}

impl World {
    async fn start(backend: Backend) -> Self {
        let fleet = Fleet::start(backend, &[]).await;
        let of = |name: &str| WorkspaceFile::new(name).with_percent(None);
        let segments = json!([{ "id": GOLD, "name": "Gold", "audience": gold() }]);
        let files = [
            of("acme").permitted(&PERMISSIONS).with("segments", segments),
            of("beta").permitted(&PERMISSIONS),
            of("few").permitted(&["users.track"]),
        ];
        let [acme, beta, few]: [Api; 3] = fleet.apply(&files).await.try_into().ok().expect("three");
        Self { fleet, acme, beta, few }
    }

    /// The store and the rest of the installation, for what no request can cause.
    async fn app(&self) -> App {
        App::open(self.fleet.config()).await.expect("all opens")
    }

    async fn close(self) {
        self.fleet.close().await;
    }
}

async fn workspace_id(app: &App, name: &str) -> i32 {
    let mut tx = app.store.snapshot().await.expect("a transaction");
    workspaces::by_name(&mut tx, name).await.expect("a query").expect("the workspace").id
}

/// A POST with an `Idempotency-Key`.
async fn post_once(api: &Api, path: &str, key: &str) -> ApiResponse {
    answer(api.request(Method::POST, path).header("idempotency-key", key)).await
}

/// All entries of a list, in pages of two; `between` runs after each page. A cursor leads to an
/// entry.
async fn all(api: &Api, path: &str, name: &str, between: impl AsyncFn()) -> Vec<Value> {
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = api.get(&format!("{path}?limit=2{cursor}")).await;
        assert_eq!(page.status, 200, "{page:?}");
        let entries = page.body[name].as_array().expect("an array");
        assert!(cursor.is_empty() || !entries.is_empty(), "{path}: an empty page");
        found.extend(entries.iter().cloned());
        let Some(next) = page.body["next_cursor"].as_str() else { return found };
        cursor = format!("&cursor={next}");
        between().await;
    }
}

/// The ids of entries.
fn ids(entries: &[Value]) -> Vec<&str> {
    entries.iter().map(|entry| entry["id"].as_str().expect("an id")).collect()
}
