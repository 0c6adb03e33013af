//! What keys, rate limits and `Idempotency-Key` cost: the same calls of one purchase on servers
//! in this process, one of which asks for no key. Nothing is logged here, so that what is
//! compared weighs as much as it can.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use longshore::app::App;
use longshore::gateway::{self, Caller};
use longshore::tracking;
use longshore::workspaces;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::WARM_UP;
use crate::figures::Figures;
use crate::load::{Kind, Requests, send_for, use_key};
use crate::support::WorkspaceFile;
use crate::support::fleet::Fleet;

/// Requests under a key for each second of a run, which needs new ones: more than it makes.
const KEYED_PER_SECOND: usize = 20_000;

/// A limit that is counted as the API's are, and beyond what can be called here: the database
/// is asked about 200 times a second.
pub fn workspace() -> WorkspaceFile {
    let limit = serde_json::json!({ "requests": 60_000, "seconds": 1 });
    WorkspaceFile::new("limited").with("rate_limits", serde_json::json!({ "users.track": limit }))
}

/// Two servers of one installation.
pub struct Checks<'a> {
    key: String,
    customers: &'a [String],
    open: Server,
    guarded: Server,
    calls: Arc<Vec<Vec<u8>>>,
    runs: u64,
}

impl<'a> Checks<'a> {
    /// `key` is the one of the [`workspace`].
    pub async fn start(fleet: &Fleet, key: &str, customers: &'a [String]) -> Self {
        let app = App::open(fleet.config()).await.expect("all opens");
        let mut tx = app.store.snapshot().await.expect("the store answers");
        let workspace = workspaces::by_name(&mut tx, "limited").await.expect("the store answers");
        drop(tx);
        let caller = Caller {
            workspace: Arc::new(workspace.expect("the workspace is applied")),
            key_id: Uuid::new_v4(),
            key_name: "benchmark".into(),
            address: None,
            permissions: Arc::default(),
            request_id: Uuid::new_v4().to_string(),
        };
        let open = Router::new()
            .route(tracking::api::PATH, tracking::api::unprotected())
            .layer(Extension(caller));
        let open = Server::start(&app, open.with_state(app.messages.clone())).await;
        let guarded =
            Server::start(&app, tracking::api::routes().with_app(Some(&app.messages))).await;
        let mut calls = Requests::new(2, customers, guarded.address, key);
        let calls = calls.make(50_000, Kind::Purchase, 1);
        use_key(guarded.address, &calls).await;
        Self { key: key.to_owned(), customers, open, guarded, calls, runs: 0 }
    }

    pub async fn run(&mut self, time: Duration, connections: usize, figures: &mut Figures) {
        self.runs += 1;
        let calls = Requests::new(10 + self.runs, self.customers, self.guarded.address, &self.key);
        let keyed = KEYED_PER_SECOND * time.as_secs() as usize;
        let keyed = calls.with_idempotency_keys().make(keyed, Kind::Purchase, 1);
        let mut bound = None;
        for (name, server, calls) in [
            ("no key, no limit", &self.open, &self.calls),
            ("key and limit", &self.guarded, &self.calls),
            ("key, limit and Idempotency-Key", &self.guarded, &keyed),
        ] {
            send_for(WARM_UP, connections, server.address, self.calls.clone()).await;
            let sent = send_for(time, connections, server.address, calls.clone()).await;
            let has_keys = !Arc::ptr_eq(calls, &keyed) || sent.calls() < keyed.len();
            assert!(has_keys, "more keys are needed");
            let per_second = sent.calls() as f64 / sent.seconds;
            let of_bound = per_second / *bound.get_or_insert(per_second);
            figures.add(
                name,
                vec![
                    ("calls/s", per_second),
                    ("of no key", of_bound),
                    ("p50 ms", sent.percentile(50)),
                    ("p99 ms", sent.percentile(99)),
                ],
            );
        }
    }

    pub async fn stop(self) {
        self.open.stop().await;
        self.guarded.stop().await;
    }
}

struct Server {
    address: SocketAddr,
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

impl Server {
    async fn start(app: &App, routes: impl Into<Router>) -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = tokio::net::TcpListener::bind(any).await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let shutdown = CancellationToken::new();
        let router = gateway::router(app.gateway.clone(), routes);
        let task =
            tokio::spawn(gateway::serve(app.gateway.clone(), router, listener, shutdown.clone()));
        Self { address, shutdown, task }
    }

    async fn stop(self) {
        self.shutdown.cancel();
        self.task.await.expect("the server ends");
    }
}
