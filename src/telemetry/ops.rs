//! The operations listener: `/healthz`, `/readyz`, `/metrics`; never on the API's own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::fleet::Fleet;
use super::process::Process;
use crate::app::App;
use crate::setup::migrations::MIGRATIONS;
use store::migrate::Schema;
use store::{StoreError, answered_in_turn};

/// Time limit of a response from the store, before the process counts as not ready.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);

/// Concurrent checks of the store; further ones fail.
const STORE_LOOKS: usize = 4;

/// Interval of the recorder's upkeep.
const UPKEEP: Duration = Duration::from_secs(5);

#[derive(Clone)]
struct Ops {
    app: App,
    process: Process,
    metrics: PrometheusHandle,
    draining: CancellationToken,
    looks: Arc<Semaphore>,
    /// Whether the store was ever ready.
    was_ready: Arc<AtomicBool>,
}

/// The routes of the operations listener. Once `draining` is cancelled the process is not
/// ready any more.
fn router(
    app: App,
    process: Process,
    metrics: PrometheusHandle,
    draining: CancellationToken,
) -> Router {
    let looks = Arc::new(Semaphore::new(STORE_LOOKS));
    let was_ready = Arc::new(AtomicBool::new(false));
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .route("/metrics", get(render))
        .with_state(Ops { app, process, metrics, draining, looks, was_ready })
}

/// Serves until it is dropped, so that a draining process can still be watched.
pub async fn serve(
    app: App,
    process: Process,
    metrics: PrometheusHandle,
    listener: TcpListener,
    draining: CancellationToken,
) -> std::io::Result<()> {
    let router = router(app, process, metrics.clone(), draining);
    let upkeep = async {
        loop {
            sleep(UPKEEP).await;
            metrics.run_upkeep();
        }
    };
    tokio::select! {
        served = axum::serve(listener, router) => served,
        never = upkeep => never,
    }
}

/// 200 if requests and work can be accepted, else 503 with the causes, one per line; in both cases
/// followed by warnings.
async fn readyz(State(ops): State<Ops>) -> impl IntoResponse {
    let (mut missing, mut notes) = (Vec::new(), Vec::new());
    if ops.draining.is_cancelled() {
        missing.push("the process is stopping".to_owned());
    }
    match ops.store_ready().await {
        Ok(schema) => {
            ops.was_ready.store(true, Ordering::Relaxed);
            if schema.is_newer() {
                notes.push(format!("the database is {schema}"));
            }
        }
        Err(error) if ops.goes_on_with(&error) => notes.push(error.to_string()),
        Err(error) => missing.push(error.to_string()),
    }
    // Requests are still accepted; but a worker is set up wrong.
    let is_set_up = ops.process.takes_calls() || !ops.app.notices.never_worked();
    let (status, mut lines) = match missing.is_empty() && is_set_up {
        true => (StatusCode::OK, vec!["ready".to_owned()]),
        false => (StatusCode::SERVICE_UNAVAILABLE, missing),
    };
    lines.append(&mut notes);
    lines.extend(ops.app.notices.all());
    (status, lines.join("\n") + "\n")
}

/// The recorded metrics, the process's current state, and the fleet's.
async fn render(State(ops): State<Ops>) -> impl IntoResponse {
    let render = move || {
        ops.metrics.render() + &ops.process.render(&ops.app) + &ops.app.kept::<Fleet>().render()
    };
    // Files are read.
    let text = spawn_blocking(render).await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
}

impl Ops {
    /// Whether the process can do its work although the store is not ready.
    fn goes_on_with(&self, error: &StoreError) -> bool {
        self.process.takes_calls()
            && self.was_ready.load(Ordering::Relaxed)
            && !matches!(error, StoreError::Version(_))
    }

    /// Whether the store responds in time and has a supported schema.
    async fn store_ready(&self) -> Result<Schema, StoreError> {
        let store = self.app.store.clone();
        let look = async move { MIGRATIONS.check(&store).await };
        answered_in_turn(look, &self.looks, STORE_TIMEOUT).await
    }
}
