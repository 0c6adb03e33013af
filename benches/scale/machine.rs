//! Who used the processors, by `/proc`.

use std::time::{Duration, Instant};

use sqlx::PgPool;

/// The servers that share the machine.
pub struct Servers {
    postmaster: u32,
    s3: u32,
}

/// Processor time used up to a moment.
#[derive(Clone, Copy)]
pub struct CpuTimes {
    at: Instant,
    postgres: Duration,
    s3: Duration,
    bench: Duration,
    idle: Duration,
}

/// Processors that were used on average between two moments.
pub struct CpuUsage {
    pub seconds: f64,
    pub postgres: f64,
    pub s3: f64,
    pub bench: f64,
    pub idle: f64,
}

impl Servers {
    pub async fn find(pool: &PgPool) -> Self {
        let backend = sqlx::query_scalar::<_, i32>("SELECT pg_backend_pid()").fetch_one(pool);
        let backend = backend.await.expect("PostgreSQL answers").unsigned_abs();
        let endpoint = crate::support::servers::variable("LONGSHORE_TEST_S3_ENDPOINT");
        let address = endpoint.trim_start_matches("http://").to_owned();
        let s3 = processes().into_iter().find(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).any(|argument| argument == address.as_bytes())
        });
        Self {
            postmaster: stat(backend).expect("the backend is there").parent,
            s3: s3.expect("the S3 server runs on this machine"),
        }
    }

    pub fn now(&self) -> CpuTimes {
        let of = |pid| stat(pid).map_or(Duration::ZERO, |stat| stat.own + stat.of_ended);
        let backends = processes().into_iter().filter_map(stat);
        let backends = backends.filter(|stat| stat.parent == self.postmaster);
        CpuTimes {
            at: Instant::now(),
            postgres: of(self.postmaster) + backends.map(|stat| stat.own).sum::<Duration>(),
            s3: of(self.s3),
            bench: of(std::process::id()),
            idle: idle(),
        }
    }

    pub fn since(&self, before: CpuTimes) -> CpuUsage {
        let now = self.now();
        let seconds = now.at.duration_since(before.at).as_secs_f64();
        let used = |now: Duration, before: Duration| {
            now.saturating_sub(before).as_secs_f64() / seconds.max(1e-9)
        };
        CpuUsage {
            seconds,
            postgres: used(now.postgres, before.postgres),
            s3: used(now.s3, before.s3),
            bench: used(now.bench, before.bench),
            idle: used(now.idle, before.idle),
        }
    }
}

pub fn cores() -> f64 {
    std::thread::available_parallelism().map_or(1, usize::from) as f64
}

struct Stat {
    parent: u32,
    own: Duration,
    /// Of children that ended and were waited for.
    of_ended: Duration,
}

/// None where the process has ended.
fn stat(pid: u32) -> Option<Stat> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Behind its name, which may hold anything: the 4th, and the 14th to the 17th.
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse().ok().map(in_time);
    Some(Stat {
        parent: fields.get(1)?.parse().ok()?,
        own: ticks(11)? + ticks(12)?,
        of_ended: ticks(13)? + ticks(14)?,
    })
}

fn processes() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("/proc is there");
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Time that processors had nothing to do; waiting for a disk counts.
fn idle() -> Duration {
    let text = std::fs::read_to_string("/proc/stat").expect("/proc is there");
    let fields: Vec<&str> = text.lines().next().unwrap_or_default().split_whitespace().collect();
    fields[4..6].iter().filter_map(|ticks| ticks.parse().ok()).map(in_time).sum()
}

/// Linux counts in hundredths of a second.
fn in_time(ticks: u64) -> Duration {
    Duration::from_millis(ticks * 10)
}
