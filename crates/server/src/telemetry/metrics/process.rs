//! The process and its use of resources. The gauges are read on request
//! ([`process`](crate::telemetry::process)).

use super::{Group, Metric, counter, gauge, histogram};

pub const GROUP: Group = Group { title: "The process", metrics: METRICS };

const METRICS: &[Metric] = &[
    gauge(
        "longshore_build_info",
        &["version", "revision"],
        "Always 1; the labels are this program's version and the revision that it was built from",
    ),
    gauge(
        "longshore_process_info",
        &["role"],
        "Always 1, for each role of this process: gateway, exports, deliveries, ingest, catalogs, \
         messages, transactional, standalone",
    ),
    counter(
        "process_cpu_seconds_total",
        &[],
        "Processor time that this process has used in seconds",
    ),
    gauge("process_resident_memory_bytes", &[], "Resident memory of this process in bytes"),
    gauge("process_open_fds", &[], "Number of open file descriptors"),
    gauge("process_max_fds", &[], "Maximum number of open file descriptors"),
    gauge("process_start_time_seconds", &[], "Start time of this process, in seconds since 1970"),
    counter(
        "longshore_log_lines_dropped_total",
        &[],
        "Total number of log lines dropped because standard error was not read or failed",
    ),
    counter(
        "longshore_spans_dropped_total",
        &[],
        "Total number of spans dropped because the collector of traces.url was down or slow",
    ),
    gauge(
        "longshore_compute_jobs",
        &["state"],
        "Number of processor-bound tasks, by state: running, or waiting for a processor",
    ),
    gauge(
        "longshore_compute_threads",
        &[],
        "Maximum number of processor-bound tasks of one workspace that run at the same time",
    ),
    gauge(
        "longshore_memory_bytes",
        &["budget"],
        "Reserved bytes of a memory budget of this worker: exports (exports.memory_bytes)",
    ),
    gauge(
        "longshore_memory_bytes_max",
        &["budget"],
        "Size of the memory budget in bytes; work that exceeds it waits",
    ),
    gauge(
        "longshore_pool_connections",
        &["pool", "state"],
        "Number of open connections to the database, by state (idle, used) and pool: main, \
         console, transactional and claims (PostgreSQL), writer (SQLite, where the others only \
         read)",
    ),
    gauge("longshore_pool_connections_max", &["pool"], "Maximum number of connections of the pool"),
    histogram(
        "longshore_pool_wait_seconds",
        &["pool"],
        "Time in seconds until a transaction was started, mostly waiting for a connection of the \
         pool",
    ),
    gauge(
        "longshore_log_bytes",
        &[],
        "Size of the embedded log in bytes: log.db and its write-ahead log",
    ),
    gauge(
        "longshore_store_bytes",
        &[],
        "Size of the SQLite store in bytes: its file and its write-ahead log",
    ),
    gauge(
        "longshore_data_free_bytes",
        &[],
        "Free space on the file system of the data directory in bytes; only in standalone",
    ),
];
