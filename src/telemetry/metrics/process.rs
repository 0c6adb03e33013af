//! What a process is, and how much of its room is taken. The gauges are read as they are asked
//! for ([`process`](crate::telemetry::process)).

use super::{Group, Metric, counter, gauge, histogram};

pub const GROUP: Group = Group { title: "The process", metrics: METRICS };

const METRICS: &[Metric] = &[
    gauge(
        "longshore_build_info",
        &["version", "revision"],
        "1; the labels are this program's version and the revision that it was built from",
    ),
    gauge(
        "longshore_process_info",
        &["role"],
        "1 for each role that this process has: gateway, exports, deliveries, ingest, catalogs, \
         messages, transactional, standalone",
    ),
    counter(
        "process_cpu_seconds_total",
        &[],
        "Processor time that this process used, in whole seconds",
    ),
    gauge("process_resident_memory_bytes", &[], "Memory of this process"),
    gauge("process_open_fds", &[], "File descriptors that are open"),
    gauge("process_max_fds", &[], "File descriptors that may be open at most"),
    gauge("process_start_time_seconds", &[], "When this process started, in seconds since 1970"),
    counter(
        "longshore_log_lines_dropped_total",
        &[],
        "Log lines that were not written, since nobody read standard error or it failed",
    ),
    gauge(
        "longshore_compute_jobs",
        &["state"],
        "Pieces of work that need a processor, by state: running, or waiting for one",
    ),
    gauge(
        "longshore_compute_threads",
        &[],
        "Pieces of work that may run on the processors at once",
    ),
    gauge(
        "longshore_memory_bytes",
        &["budget"],
        "Bytes that are set aside of a budget of this worker: exports (exports.memory_bytes)",
    ),
    gauge(
        "longshore_memory_bytes_max",
        &["budget"],
        "Bytes that the budget has: what comes when they are taken waits",
    ),
    gauge(
        "longshore_pool_connections",
        &["pool", "state"],
        "Connections to the database that are open, by state (idle, used) and pool: main, \
         transactional (of PostgreSQL), writer (of SQLite, where main only reads)",
    ),
    gauge("longshore_pool_connections_max", &["pool"], "Connections that the pool may open"),
    histogram(
        "longshore_pool_wait_seconds",
        &["pool"],
        "Time until a transaction was begun: most of it is waiting for a connection of the pool",
    ),
    gauge(
        "longshore_log_bytes",
        &[],
        "Size of the embedded log: log.db and what is not merged into it yet",
    ),
    gauge(
        "longshore_store_bytes",
        &[],
        "Size of the SQLite store: its file and what is not merged into it yet",
    ),
    gauge(
        "longshore_data_free_bytes",
        &[],
        "Room that is left on the file system of the data directory; of standalone alone",
    ),
];
