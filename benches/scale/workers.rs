//! Real workers: processes with one thread each that computes, on PostgreSQL, Kafka and the S3
//! server.

use std::time::{Duration, Instant};

use serde_json::json;
use sqlx::PgPool;

use crate::figures::Figures;
use crate::machine::{Servers, cores};
use crate::settle::settle;
use crate::support::api::ALL_FIELDS;
use crate::support::fleet::{Backend, Fleet};
use crate::support::storage::TestStorage;
use crate::support::{Api, WorkspaceFile};
use crate::throttle::{TURNS, Throttle};

const MAX: usize = 4;

/// Between looks at how far an export is.
const LOOK: Duration = Duration::from_millis(20);

pub struct Workers {
    pub fleet: Fleet,
    api: Api,
    storage: TestStorage,
    pub pool: PgPool,
    pub users: usize,
    servers: Servers,
    running: usize,
}

/// One export.
struct Export {
    /// From the start of planning to the end.
    seconds: f64,
    /// Between a fifth and nine tenths of the parts.
    steady: f64,
    parts: i64,
    worker_cores: f64,
    postgres: f64,
    s3: f64,
    idle: f64,
}

impl Workers {
    /// A new installation with a workspace of so many users, all in the control group.
    pub async fn with_users(users: usize) -> Self {
        let storage = TestStorage::s3().await;
        let settings = [
            ("RUST_LOG", "warn".to_owned()),
            ("LONGSHORE_DATABASE__MAX_CONNECTIONS", "16".to_owned()),
            ("LONGSHORE_WORKER__POLL_MS", "500".to_owned()),
            ("LONGSHORE_WORKER__COMPUTE_THREADS", "1".to_owned()),
        ];
        let fleet = Fleet::start(Backend::Fleet(0), &settings).await;
        let workspace = WorkspaceFile::new("bench").with_storage(&storage);
        let api = fleet.apply(&[workspace]).await.remove(0);
        fleet
            .shell(&format!("\"$LONGSHORE\" generate --users {users} | \"$LONGSHORE\" import -"))
            .await;
        let pool = PgPool::connect(&fleet.database_url()).await.expect("PostgreSQL answers");
        settle(&pool).await;
        let servers = Servers::find(&pool).await;
        Self { fleet, api, storage, pool, users, servers, running: 0 }
    }

    /// Exports with one to four workers, one case after the other in each run: at full speed,
    /// and at a quarter of it. Answers what a part took one worker, too.
    pub async fn measure(&mut self, runs: usize) -> (Figures, Duration) {
        let title = format!("{} users, workers with one thread that computes", self.users);
        let (mut figures, mut parts) = (Figures::new(title), Vec::new());
        for run in 1..=runs {
            println!("run {run} of {runs}");
            for slow in [false, true] {
                let mut alone = None;
                for workers in 1..=MAX {
                    self.have(workers).await;
                    let export = self.export(slow).await;
                    let first = alone.get_or_insert_with(|| {
                        // What the machine would do if all of it did nothing else.
                        let busy = cores() - export.idle;
                        (export.steady, export.steady * cores() / busy.max(0.1))
                    });
                    if !slow && workers == 1 {
                        let users = self.users as f64 / export.parts as f64;
                        parts.push(users / export.steady);
                    }
                    let name = if slow {
                        format!("{workers} at 1/{TURNS} of it")
                    } else {
                        format!("{workers} at full speed")
                    };
                    figures.add(&name, self.figures_of(&export, workers as f64, *first));
                }
            }
        }
        self.have(0).await;
        parts.sort_by(f64::total_cmp);
        (figures, Duration::from_secs_f64(parts[parts.len() / 2]))
    }

    fn figures_of(
        &self,
        export: &Export,
        workers: f64,
        (alone, full): (f64, f64),
    ) -> Vec<(&'static str, f64)> {
        let ideal = workers * alone;
        vec![
            ("users/s", self.users as f64 / export.seconds),
            ("steady", export.steady),
            ("of ideal", export.steady / ideal),
            ("of cores", export.steady / ideal.min(full)),
            ("workers", export.worker_cores),
            ("postgres", export.postgres),
            ("s3", export.s3),
            ("idle", export.idle),
            ("users/CPU-s", export.steady / export.worker_cores),
        ]
    }

    /// Sees to it that so many workers run.
    pub async fn have(&mut self, workers: usize) {
        while self.running < workers {
            self.running += 1;
            self.fleet.launch(&name(self.running)).await;
        }
        while self.running > workers {
            self.fleet.terminate(&name(self.running)).await;
            self.running -= 1;
        }
    }

    async fn export(&self, slow: bool) -> Export {
        let accepted = self.api.export(&json!({ "fields_to_export": ALL_FIELDS })).await;
        let mut parts = self.look(&accepted.prefix).await;
        while parts.is_none() {
            tokio::time::sleep(LOOK).await;
            parts = self.look(&accepted.prefix).await;
        }
        let pids: Vec<u32> = (1..=self.running).map(|number| self.pid(number)).collect();
        let throttle = slow.then(|| Throttle::of(&pids));
        let (before, cpu, began) = (self.servers.now(), self.cpu(), Instant::now());
        let mut done = Vec::new();
        let all = loop {
            match self.look(&accepted.prefix).await {
                Some((parts, left)) => done.push((began.elapsed(), parts - left)),
                None => unreachable!("it was planned"),
            }
            let (parts, left) = parts.expect("it was planned");
            if done.last().is_some_and(|(_, done)| *done == parts) {
                break parts;
            }
            assert!(left <= parts, "parts are counted down");
            tokio::time::sleep(LOOK).await;
        };
        let used = self.servers.since(before);
        let worker_cores = (self.cpu() - cpu).as_secs_f64() / used.seconds;
        drop(throttle);
        let status = self.api.done(&accepted.prefix).await;
        assert_eq!(status["users"]["done"], self.users, "{status}");
        let time = |name: &str| -> jiff::Timestamp {
            status[name].as_str().and_then(|text| text.parse().ok()).expect("a time")
        };
        let seconds = time("finished_at").duration_since(time("started_at")).as_secs_f64();
        self.storage.destroy().await;
        self.storage.restore().await;
        Export {
            seconds,
            steady: steady(&done, all) * self.users as f64 / all as f64,
            parts: all,
            worker_cores,
            postgres: used.postgres,
            s3: used.s3,
            idle: used.idle,
        }
    }

    /// Parts in all and left; none until it is planned.
    async fn look(&self, prefix: &str) -> Option<(i64, i64)> {
        let sql = "SELECT parts, (SELECT coalesce(sum(parts_left), 0)::bigint
                                  FROM export_counts WHERE job_id = export_jobs.id)
                   FROM export_jobs WHERE object_prefix = $1 AND parts IS NOT NULL";
        let look = sqlx::query_as(sql).bind(prefix).fetch_optional(&self.pool);
        look.await.expect("PostgreSQL answers")
    }

    fn pid(&self, number: usize) -> u32 {
        self.fleet.system_status(&name(number), "Pid").parse().expect("a number")
    }

    fn cpu(&self) -> Duration {
        (1..=self.running).map(|number| self.fleet.cpu(&name(number))).sum()
    }

    pub async fn close(self) {
        self.pool.close().await;
        self.fleet.close().await;
    }
}

fn name(number: usize) -> String {
    format!("worker-{number}")
}

/// Parts a second from a fifth of all on to nine tenths.
pub fn steady(done: &[(Duration, i64)], all: i64) -> f64 {
    let reached = |part: f64| done.iter().find(|(_, done)| *done as f64 >= part * all as f64);
    let (Some(from), Some(to)) = (reached(0.2), reached(0.9)) else { return f64::NAN };
    (to.1 - from.1) as f64 / (to.0 - from.0).as_secs_f64()
}
