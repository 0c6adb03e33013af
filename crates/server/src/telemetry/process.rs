//! The process and its use of resources: read whenever its metrics are requested.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::fs::statvfs;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::lines;
use super::metrics::recorder::render_in_own_recorder;
use crate::app::App;
use crate::worker::Role;
use store::Store;
use store::pools::PoolStatus;

/// What a process is for.
#[derive(Clone, Debug)]
pub struct Process {
    roles: Vec<&'static str>,
}

const GATEWAY: &str = "gateway";
const STANDALONE: &str = "standalone";

impl Process {
    pub fn gateway() -> Self {
        Self { roles: vec![GATEWAY] }
    }

    pub fn worker(roles: &[Role]) -> Self {
        Self { roles: Role::with_included(roles).map(Role::name).collect() }
    }

    pub fn standalone() -> Self {
        let workers = Role::ALL.map(Role::name);
        Self { roles: [&[GATEWAY, STANDALONE][..], &workers].concat() }
    }

    pub fn roles(&self) -> &[&'static str] {
        &self.roles
    }

    /// Whether it accepts requests. Requests with known keys whose work goes to the log need no
    /// store, so a gateway stays ready after the first check: otherwise the load balancer would
    /// remove all gateways together. A worker needs the store for everything.
    pub fn accepts_requests(&self) -> bool {
        self.has_role(GATEWAY)
    }

    fn has_role(&self, role: &str) -> bool {
        self.roles.contains(&role)
    }

    /// The current metrics of the process. Reads files, so never call it on an async thread.
    pub fn render(&self, app: &App) -> String {
        render_in_own_recorder(|| {
            for role in self.roles.iter().copied() {
                metrics::gauge!("longshore_process_info", "role" => role).set(1.0);
            }
            emit_usage();
            emit_cores(app);
            app.stores().into_iter().flat_map(Store::pools).for_each(emit_pool);
            if self.accepts_requests() {
                emit_requests(app);
            }
            if self.has_role(Role::Exports.name()) {
                let (held, limit) = app.memory.used_and_limit();
                metrics::gauge!("longshore_memory_bytes", "budget" => "exports").set(held as f64);
                metrics::gauge!("longshore_memory_bytes_max", "budget" => "exports")
                    .set(limit as f64);
            }
            if self.has_role(STANDALONE) {
                emit_data_files(app);
            }
        })
    }
}

/// The system's data about the process; none if unavailable.
fn emit_usage() {
    metrics::counter!("longshore_log_lines_dropped_total").absolute(lines::dropped());
    let used = Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default();
    metrics::counter!("process_cpu_seconds_total").absolute(used.as_secs());
    if let Some(bytes) = fs::read_to_string("/proc/self/status").ok().and_then(|s| resident(&s)) {
        metrics::gauge!("process_resident_memory_bytes").set(bytes);
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        // The count itself uses one.
        metrics::gauge!("process_open_fds").set(open.count().saturating_sub(1) as f64);
    }
    if let Some(limit) = getrlimit(Resource::Nofile).current {
        metrics::gauge!("process_max_fds").set(limit as f64);
    }
}

/// `VmRSS:     1234 kB`.
fn resident(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0)
}

fn emit_cores(app: &App) {
    let (running, waiting) = app.cores.running_and_waiting();
    metrics::gauge!("longshore_compute_jobs", "state" => "running").set(running as f64);
    metrics::gauge!("longshore_compute_jobs", "state" => "waiting").set(waiting as f64);
    metrics::gauge!("longshore_compute_threads").set(app.cores.count() as f64);
}

fn emit_pool(PoolStatus { pool, idle, used, max }: PoolStatus) {
    for (state, connections) in [("idle", idle), ("used", used)] {
        metrics::gauge!("longshore_pool_connections", "pool" => pool, "state" => state)
            .set(connections);
    }
    metrics::gauge!("longshore_pool_connections_max", "pool" => pool).set(max);
}

fn emit_requests(app: &App) {
    let limit = app.config.gateway.requests_in_flight;
    let capacity = &app.capacity;
    let in_flight = limit.saturating_sub(capacity.slots.available_permits());
    metrics::gauge!("longshore_http_requests_in_flight").set(in_flight as f64);
    metrics::gauge!("longshore_http_requests_in_flight_max").set(limit as f64);
    let (held, limit) = capacity.body_memory.used_and_limit();
    metrics::gauge!("longshore_http_body_bytes").set(held as f64);
    metrics::gauge!("longshore_http_body_bytes_max").set(limit as f64);
}

/// The files of the log and the store in the data directory, if they exist.
fn emit_data_files(app: &App) {
    let config = &app.config;
    if config.log.url == "embedded" {
        metrics::gauge!("longshore_log_bytes")
            .set(size_with_wal(&config.data.join("log.db")) as f64);
    }
    if let Some(file) = config.database_file() {
        metrics::gauge!("longshore_store_bytes").set(size_with_wal(&file) as f64);
    }
    if let Ok(file_system) = statvfs(&config.data) {
        let free = file_system.f_bavail.saturating_mul(file_system.f_frsize);
        metrics::gauge!("longshore_data_free_bytes").set(free as f64);
    }
}

/// Bytes of an SQLite database: of its file, and of the one that it writes to first.
fn size_with_wal(file: &Path) -> u64 {
    let mut wal = file.as_os_str().to_owned();
    wal.push("-wal");
    let bytes = |path: &Path| fs::metadata(path).map_or(0, |metadata| metadata.len());
    bytes(file) + bytes(Path::new(&wal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_a_process_is_read() {
        assert_eq!(resident("Name:\tx\nVmRSS:\t    2048 kB\nThreads:\t3\n"), Some(2_097_152.0));
        assert_eq!(resident("Name:\tx\n"), None);
    }

    #[test]
    fn a_worker_has_the_roles_that_it_was_given() {
        assert_eq!(Process::worker(&[Role::Exports]).roles, ["exports"]);
        // The role of all messages includes transactional emails.
        assert_eq!(Process::worker(&[Role::Messages]).roles, ["messages", "transactional"]);
        let alone = Process::standalone();
        assert!(alone.accepts_requests() && alone.has_role("exports") && alone.roles.len() == 8);
    }
}
