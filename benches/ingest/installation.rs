//! Longshore itself: a gateway and one worker on PostgreSQL and Kafka.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use log::Log;
use longshore::topics;
use sqlx::PgPool;

use crate::load::{Kind, Requests, send};
use crate::settle::settle;
use crate::support::fleet::{Backend, Fleet};
use crate::support::{Api, WorkspaceFile};

/// Objects of a call.
const PER_CALL: usize = 75;

const WORKER: &str = "worker-1";

/// Between looks at how far the worker is.
const LOOK: Duration = Duration::from_millis(20);

pub struct Installation {
    fleet: Fleet,
    api: Api,
    pub pool: PgPool,
    pub log: Log,
    /// The external ids of the users who have one.
    pub customers: Vec<String>,
    /// For calls that are others each time.
    seed: u64,
}

/// How fast objects became visible.
pub struct Speed {
    pub per_second: f64,
    /// Processors that the worker used on average.
    pub worker_cores: f64,
    /// The most memory that the worker had resident meanwhile, in bytes.
    pub worker_peak: u64,
}

impl Installation {
    /// A new one, with a workspace of so many users.
    pub async fn with_users(users: usize, settings: BTreeMap<String, String>) -> Self {
        let fleet = Fleet::start_with(Backend::Fleet(1), &[], |all| all.extend(settings)).await;
        let api = fleet.apply(&[WorkspaceFile::new("bench").unlimited()]).await.remove(0);
        fleet
            .shell(&format!("\"$LONGSHORE\" generate --users {users} | \"$LONGSHORE\" import -"))
            .await;
        let pool = PgPool::connect(&fleet.database_url()).await.expect("PostgreSQL answers");
        let sql = "SELECT external_id FROM users WHERE external_id IS NOT NULL";
        let customers = sqlx::query_scalar(sql).fetch_all(&pool).await.expect("users");
        let log = fleet.log().await;
        let installation = Self { fleet, api, pool, log, customers, seed: 0 };
        settle(&installation.pool).await;
        installation
    }

    fn address(&self) -> SocketAddr {
        self.fleet.base().trim_start_matches("http://").parse().expect("an address")
    }

    /// Requests of `objects` in all.
    fn calls(&mut self, kind: Kind, objects: usize) -> Arc<Vec<Vec<u8>>> {
        self.seed += 1;
        let mut calls = Requests::new(self.seed, &self.customers, self.address(), self.api.key());
        calls.make(objects / PER_CALL, kind, PER_CALL)
    }

    /// Fills the topic while no worker is there, then starts one. What it does before it
    /// applied the first batch is not counted.
    pub async fn drain_full_topic(&mut self, kind: Kind, objects: usize) -> Speed {
        self.fleet.terminate(WORKER).await;
        let calls = self.calls(kind, objects);
        send(self.address(), calls).await;
        settle(&self.pool).await;
        let (before, end) = (self.done().await, self.end().await);
        self.fleet.launch_with(WORKER, &[]).await;
        let at_first = self.wait(|done| done > before).await;
        let (began, cpu) = (Instant::now(), self.worker_cpu());
        self.wait(|done| done >= end).await;
        let part = (end - at_first) as f64 / (end - before) as f64;
        let speed = self.speed(objects as f64 * part, began.elapsed(), cpu);
        self.fleet.ready(WORKER).await;
        self.check_applied(kind, objects).await;
        speed
    }

    /// From the first call to the last object that is visible.
    pub async fn end_to_end(&mut self, kind: Kind, objects: usize) -> Speed {
        let calls = self.calls(kind, objects);
        settle(&self.pool).await;
        self.fleet.reset_peak(WORKER);
        let (began, cpu) = (Instant::now(), self.worker_cpu());
        let sent = send(self.address(), calls).await;
        let end = self.end().await;
        self.wait(|done| done >= end).await;
        println!("  the gateway took them in {:.2} s", sent.seconds);
        self.speed(objects as f64, began.elapsed(), cpu)
    }

    fn speed(&self, objects: f64, time: Duration, cpu_before: Duration) -> Speed {
        let seconds = time.as_secs_f64();
        Speed {
            per_second: objects / seconds,
            worker_cores: (self.worker_cpu() - cpu_before).as_secs_f64() / seconds,
            worker_peak: self.fleet.peak(WORKER),
        }
    }

    fn worker_cpu(&self) -> Duration {
        self.fleet.cpu(WORKER)
    }

    /// Messages that are in the log, of all partitions.
    pub async fn end(&self) -> i64 {
        let topic_offsets = self.log.topic_offsets(topics::TRACKING).await.expect("Kafka answers");
        topic_offsets.ranges.iter().map(|range| range.end).sum()
    }

    /// Messages that are applied.
    async fn done(&self) -> i64 {
        let sql = "SELECT coalesce(sum(next), 0)::bigint FROM log_offsets WHERE topic = 'tracking'";
        sqlx::query_scalar(sql).fetch_one(&self.pool).await.expect("offsets")
    }

    async fn wait(&self, is_enough: impl Fn(i64) -> bool) -> i64 {
        loop {
            let done = self.done().await;
            if is_enough(done) {
                return done;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Whether a worker that was just started has applied each object.
    async fn check_applied(&self, kind: Kind, objects: usize) {
        let array = if kind == Kind::Purchase { "purchases" } else { "attributes" };
        let name = format!("longshore_track_applied_total{{array=\"{array}\"}} ");
        let metrics = self.fleet.metrics(WORKER).await;
        let applied = metrics.lines().find_map(|line| line.strip_prefix(&name)?.parse().ok());
        assert_eq!(applied, Some(objects / PER_CALL * PER_CALL), "{name}");
    }

    pub async fn close(self) {
        self.log.close().await;
        self.pool.close().await;
        self.fleet.close().await;
    }
}
