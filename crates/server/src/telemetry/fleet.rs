//! Metrics of the whole fleet's work. Each gateway reads them from the store every
//! `ops.watch_seconds`: there is always a gateway, and all of them read the same values.
//!
//! The values are dropped as soon as they cannot be refreshed: an unknown number is not shown.

mod rows;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::metrics::recorder::{render_in_own_recorder, since_1970};
use crate::app::App;
use kit::retry;
use runtime::backups;
use runtime::config::Config;
use runtime::kinds;
use runtime::topics;
use runtime::work_rows::{self, Work};
use store::claims::{self, Kind};
use store::{Store, StoreError, from_row, within_timeout_and_permit};

/// Time limit of a response from the store.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The count of each kind stops at this number, so that a query stays cheap.
const MAX: i64 = 100_000;

/// The values as metrics text. Cheap to clone.
#[derive(Clone, Default)]
pub struct FleetMetrics(Arc<Mutex<String>>);

impl FleetMetrics {
    /// The current values; empty before the first query.
    pub fn render(&self) -> String {
        self.0.lock().clone()
    }

    fn set(&self, text: String) {
        *self.0.lock() = text;
    }
}

/// The result of one read of the store. Times are milliseconds by the database's clock.
#[derive(Debug)]
struct FleetSnapshot {
    now: i64,
    jobs: Vec<Jobs>,
    work: Vec<Work>,
    /// By topic.
    dead_letters: Vec<(String, i64)>,
    last_backup: Option<i64>,
}

/// Jobs of one kind in one state.
#[derive(Debug)]
struct Jobs {
    job: String,
    state: String,
    count: i64,
    /// When the oldest job entered this state; for schedules, the time of the earliest one.
    since: Option<i64>,
}
from_row! { Jobs { job, state, count, since } }

/// Reads the store into `metrics` periodically until `shutdown`.
pub async fn watch(app: App, metrics: FleetMetrics, shutdown: CancellationToken) {
    let pause = Duration::from_secs(app.config.ops.watch_seconds);
    // One at a time.
    let query_permits = Arc::new(Semaphore::new(1));
    let mut seen_at = None;
    while !shutdown.is_cancelled() {
        match fleet_snapshot(&app, &query_permits).await {
            Ok(fleet_snapshot) => {
                let at = since_1970();
                seen_at = Some(at);
                metrics.set(render_in_own_recorder(|| {
                    fleet_snapshot.emit();
                    emit_seen(at);
                }));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot read the work of the fleet");
                metrics.set(render_in_own_recorder(|| seen_at.into_iter().for_each(emit_seen)));
            }
        }
        retry::wait(pause, &shutdown).await;
    }
    // Queries stop while the last requests are served.
    metrics.set(String::new());
}

async fn fleet_snapshot(
    app: &App,
    query_permits: &Arc<Semaphore>,
) -> Result<FleetSnapshot, StoreError> {
    let (store, config) = (app.store.clone(), app.config.clone());
    let fleet_snapshot = async move { read(&store, &config).await };
    within_timeout_and_permit(fleet_snapshot, query_permits, TIMEOUT).await
}

async fn read(store: &Store, config: &Config) -> Result<FleetSnapshot, StoreError> {
    let mut tx = store.snapshot().await?;
    let now = claims::now(&mut tx).await?;
    let mut jobs = rows::exports(&mut tx, MAX).await?;
    jobs.append(&mut rows::jobs(&mut tx, deliveries::retry_ms(config), MAX).await?);
    let work = work_rows::work(&mut tx, now, MAX).await?;
    let mut dead_letters = Vec::new();
    for topic in topics::ALL {
        let name = topic.name();
        dead_letters.push((name.to_owned(), rows::dead_letters(&mut tx, name, MAX).await?));
    }
    let last_backup = backups::last(&mut tx).await?;
    tx.commit().await?;
    Ok(FleetSnapshot { now, jobs, work, dead_letters, last_backup })
}

fn emit_seen(at: f64) {
    metrics::gauge!("longshore_fleet_seen_timestamp_seconds").set(at);
}

/// The states of exports in the metrics; empty states read no row.
const EXPORTS: [&str; 4] = ["queued", "planning", "running", "finishing"];

impl FleetSnapshot {
    fn emit(&self) {
        for state in EXPORTS {
            emit_jobs("export", state, 0, 0.0);
        }
        for jobs in &self.jobs {
            emit_jobs(&jobs.job, &jobs.state, jobs.count, self.seconds_since(jobs.since));
        }
        for kind in kinds::ALL.map(Kind::name) {
            let work = self.work.iter().find(|work| work.kind == kind);
            let (ready, held) = work.map_or((0, 0), |work| (work.ready, work.held));
            let oldest = self.seconds_since(work.and_then(|work| work.since));
            metrics::gauge!("longshore_work_ready", "kind" => kind).set(ready as f64);
            metrics::gauge!("longshore_work_held", "kind" => kind).set(held as f64);
            metrics::gauge!("longshore_work_oldest_seconds", "kind" => kind).set(oldest);
        }
        for (topic, count) in &self.dead_letters {
            metrics::gauge!("longshore_dead_letters", "topic" => topic.clone()).set(*count as f64);
        }
        let backup = self.last_backup.map_or(0.0, |at| at as f64 / 1e3);
        metrics::gauge!("longshore_backup_last_success_timestamp_seconds").set(backup);
    }

    fn seconds_since(&self, since: Option<i64>) -> f64 {
        since.map_or(0.0, |since| self.now.saturating_sub(since).max(0) as f64 / 1e3)
    }
}

/// The label is not `job`, because Prometheus adds a label of that name to everything that it
/// scrapes.
fn emit_jobs(kind: &str, state: &str, count: i64, oldest: f64) {
    let labels = [("kind", kind.to_owned()), ("state", state.to_owned())];
    metrics::gauge!("longshore_jobs", &labels).set(count as f64);
    metrics::gauge!("longshore_job_oldest_seconds", &labels).set(oldest);
}
