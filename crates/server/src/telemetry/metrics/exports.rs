//! Exports and their callbacks.

use super::{EXPORT_SECONDS, Group, Metric, counter, histogram};

pub const GROUP: Group = Group { title: "Exports and deliveries", metrics: METRICS };

const METRICS: &[Metric] = &[
    counter(
        "longshore_exports_total",
        &["state", "cause"],
        "Total number of ended exports, by state (done, failed, cancelled) and cause: limit, \
         deleted, broken_users, own_storage, objects, store, workers_lost or internal if it failed, asked \
         if it was cancelled, none if it is done",
    )
    .begins_at_0(&[
        &["done", "none"],
        &["cancelled", "asked"],
        &["failed", "limit"],
        &["failed", "broken_users"],
        &["failed", "own_storage"],
        &["failed", "objects"],
        &["failed", "store"],
        &["failed", "workers_lost"],
        &["failed", "internal"],
    ]),
    histogram(
        "longshore_export_duration_seconds",
        &["state"],
        "Time in seconds from the request of an export to its end, by state (done, failed, \
         cancelled)",
    )
    .bounds(EXPORT_SECONDS),
    counter("longshore_export_files_total", &[], "Total number of files in completed exports"),
    counter("longshore_export_users_total", &[], "Total number of users in completed exports"),
    counter(
        "longshore_export_bytes_total",
        &[],
        "Total size of the files of completed exports in bytes",
    ),
    histogram(
        "longshore_export_stage_seconds",
        &["stage"],
        "Time that an export part spent in a stage in seconds, by stage (read, project, compress, \
         upload)",
    ),
    counter(
        "longshore_export_stage_bytes_total",
        &["stage"],
        "Total number of bytes processed by a stage of export parts, by stage (read, project, \
         compress, upload)",
    ),
    counter(
        "longshore_export_part_memory_restarts_total",
        &[],
        "Total number of export parts that were restarted because they needed more memory than \
         reserved",
    )
    .begins_at_0(&[&[]]),
    counter(
        "longshore_export_revenue_without_rate_total",
        &["currency"],
        "Total number of amounts not included in total_revenue because the exchange rate is \
         missing, by currency (ISO 4217)",
    ),
    counter(
        "longshore_export_cleanup_failures_total",
        &[],
        "Total number of failed attempts to delete the files of an export; each is retried",
    )
    .begins_at_0(&[&[]]),
    counter(
        "longshore_deliveries_total",
        &["outcome"],
        "Total number of attempts to send a callback, status postback or notification, by outcome: \
         delivered, retried, given_up, or lost to another worker",
    )
    .begins_at_0(&[&["delivered"], &["retried"], &["given_up"], &["lost"]]),
    histogram(
        "longshore_delivery_attempt_seconds",
        &[],
        "Time in seconds from sending a callback to the response or failure",
    ),
];
