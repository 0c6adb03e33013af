//! The operations listener: `/healthz`, `/readyz`, `/metrics`; never on the API's own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::fleet::FleetMetrics;
use super::metrics::exemplars;
use super::process::Process;
use super::writes::{WriteCheck, WriteErrors};
use crate::app::App;
use crate::setup::migrations::MIGRATIONS;
use runtime::traces;
use store::migrate::Schema;
use store::{StoreError, within_timeout_and_permit};

/// Time limit of a response from the store, before the process counts as not ready.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);

/// Concurrent checks of the store; further ones fail.
const MAX_STORE_CHECKS: usize = 4;

/// The content type of the text format of Prometheus.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Interval of the recorder's upkeep.
const UPKEEP: Duration = Duration::from_secs(5);

#[derive(Clone)]
struct Ops {
    app: App,
    process: Process,
    metrics: PrometheusHandle,
    fleet: FleetMetrics,
    draining: CancellationToken,
    query_permits: Arc<Semaphore>,
    /// Whether the store was ever ready, and could be written.
    was_ready: Arc<AtomicBool>,
    writes: Arc<WriteCheck>,
}

/// The routes of the operations listener. Once `draining` is cancelled the process is not
/// ready any more.
fn router(
    app: App,
    process: Process,
    metrics: PrometheusHandle,
    fleet: FleetMetrics,
    draining: CancellationToken,
) -> Router {
    let query_permits = Arc::new(Semaphore::new(MAX_STORE_CHECKS));
    let was_ready = Arc::new(AtomicBool::new(false));
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .route("/metrics", get(render))
        .with_state(Ops {
            app,
            process,
            metrics,
            fleet,
            draining,
            query_permits,
            was_ready,
            writes: Arc::default(),
        })
}

/// Serves until it is dropped, so that a draining process can still be watched.
pub async fn serve(
    app: App,
    process: Process,
    metrics: PrometheusHandle,
    fleet: FleetMetrics,
    listener: TcpListener,
    draining: CancellationToken,
) -> std::io::Result<()> {
    let router = router(app, process, metrics.clone(), fleet, draining);
    let upkeep = async {
        loop {
            sleep(UPKEEP).await;
            metrics.run_upkeep();
        }
    };
    tokio::select! {
        result = axum::serve(listener, router) => result,
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
            if schema.is_newer() {
                notes.push(format!("the database is {schema}"));
            }
            let errors = ops.writes.errors(&ops.app).await;
            if errors.store.is_none() {
                ops.was_ready.store(true, Ordering::Relaxed);
            }
            let lines = if ops.tolerates_write_errors(&errors) { &mut notes } else { &mut missing };
            lines.extend(errors.store.into_iter().chain(errors.log));
        }
        Err(error) if ops.tolerates(&error) => notes.push(error.to_string()),
        Err(error) => missing.push(error.to_string()),
    }
    // Requests are still accepted; but a worker is set up wrong.
    let is_set_up = ops.process.accepts_requests() || !ops.app.health_warnings.never_worked();
    let (status, mut lines) = if missing.is_empty() && is_set_up {
        (StatusCode::OK, vec!["ready".to_owned()])
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, missing)
    };
    lines.append(&mut notes);
    lines.extend(ops.app.health_warnings.all());
    (status, lines.join("\n") + "\n")
}

/// The recorded metrics, the process's current state, and the fleet's: with exemplars for whoever
/// accepts OpenMetrics, if there are any.
async fn render(State(ops): State<Ops>, headers: HeaderMap) -> impl IntoResponse {
    let accepted = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    let has_exemplars = traces::is_on()
        && accepted.is_some_and(|accept| accept.contains("application/openmetrics-text"));
    let render = move || {
        let text = ops.metrics.render() + &ops.process.render(&ops.app) + &ops.fleet.render();
        if has_exemplars { exemplars::openmetrics(&text) } else { text }
    };
    // Files are read.
    let text = spawn_blocking(render).await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR);
    let content_type = if has_exemplars { exemplars::OPENMETRICS } else { TEXT };
    ([(header::CONTENT_TYPE, content_type)], text)
}

impl Ops {
    /// Whether the process can do its work although the store does not work any more.
    fn tolerates_failures(&self) -> bool {
        self.process.accepts_requests() && self.was_ready.load(Ordering::Relaxed)
    }

    /// Whether the process can do its work although the store is not ready.
    fn tolerates(&self, error: &StoreError) -> bool {
        self.tolerates_failures() && !matches!(error, StoreError::Version(_))
    }

    /// The same for failed writes: requests whose work goes to Kafka need no write to the store.
    fn tolerates_write_errors(&self, errors: &WriteErrors) -> bool {
        self.tolerates_failures() && !self.app.log.is_embedded() && errors.log.is_none()
    }

    /// Whether the store responds in time, and has a supported schema.
    async fn store_ready(&self) -> Result<Schema, StoreError> {
        let store = self.app.store.clone();
        let check = async move { MIGRATIONS.check(&store).await };
        within_timeout_and_permit(check, &self.query_permits, STORE_TIMEOUT).await
    }
}
