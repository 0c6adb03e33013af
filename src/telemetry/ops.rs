//! The operations listener: `/healthz`, `/readyz`, `/metrics`; never on the API's own.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::store::migrate;

/// How long the store may take to answer before the process counts as not ready.
const STORE_PATIENCE: Duration = Duration::from_secs(2);

/// Looks at the store under way at once; further ones say that it does not answer.
const STORE_LOOKS: usize = 4;

/// How often the recorder drops what it need not keep.
const UPKEEP: Duration = Duration::from_secs(5);

#[derive(Clone)]
struct Ops {
    app: App,
    metrics: PrometheusHandle,
    draining: CancellationToken,
    looks: Arc<Semaphore>,
}

/// The routes of the operations listener. Once `draining` is cancelled the process is not
/// ready any more.
pub fn router(app: App, metrics: PrometheusHandle, draining: CancellationToken) -> Router {
    let looks = Arc::new(Semaphore::new(STORE_LOOKS));
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .route("/metrics", get(render))
        .with_state(Ops { app, metrics, draining, looks })
}

/// Answers until it is dropped, so that a process that drains can still be watched.
pub async fn serve(
    app: App,
    metrics: PrometheusHandle,
    listener: TcpListener,
    draining: CancellationToken,
) -> std::io::Result<()> {
    let router = router(app, metrics.clone(), draining);
    let upkeep = async {
        loop {
            tokio::time::sleep(UPKEEP).await;
            metrics.run_upkeep();
        }
    };
    tokio::select! {
        served = axum::serve(listener, router) => served,
        never = upkeep => never,
    }
}

/// 200 when calls and work can be taken, else 503 with what is missing, a line each; after
/// either, what somebody should look at although the rest goes on.
async fn readyz(State(ops): State<Ops>) -> impl IntoResponse {
    let mut missing = Vec::new();
    if ops.draining.is_cancelled() {
        missing.push("the process is stopping".to_owned());
    }
    if let Err(text) = ops.store_ready().await {
        missing.push(text);
    }
    let (status, mut lines) = match missing.is_empty() {
        true => (StatusCode::OK, vec!["ready".to_owned()]),
        false => (StatusCode::SERVICE_UNAVAILABLE, missing),
    };
    lines.extend(ops.app.notices.all());
    (status, lines.join("\n") + "\n")
}

async fn render(State(ops): State<Ops>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], ops.metrics.render())
}

impl Ops {
    /// Whether the store answers in time and has the schema of this program.
    async fn store_ready(&self) -> Result<(), String> {
        let silent = || "the database does not answer".to_owned();
        let permit = self.looks.clone().try_acquire_owned().map_err(|_| silent())?;
        let store = self.app.store.clone();
        // In a task of its own: a look that takes too long is left to come to its end.
        let look = tokio::spawn(async move {
            let checked = migrate::check(&store).await;
            drop(permit);
            checked
        });
        match tokio::time::timeout(STORE_PATIENCE, look).await {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(error))) => Err(error.to_string()),
            Ok(Err(_)) | Err(_) => Err(silent()),
        }
    }
}
