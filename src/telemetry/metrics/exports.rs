//! Exports, and the callbacks that tell of them.

use super::{Group, Metric, counter, histogram};

pub const GROUP: Group = Group { title: "Exports and deliveries", metrics: METRICS };

const METRICS: &[Metric] = &[
    counter(
        "longshore_exports_total",
        &["state", "cause"],
        "Exports that ended, by state (done, failed, cancelled) and cause: of a failure limit, \
         broken_users, own_storage, objects, store, workers_lost or internal, else none or asked",
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
        "Time from the request of an export to its end, by state (done, failed, cancelled)",
    ),
    counter("longshore_export_files_total", &[], "Files of exports that were done"),
    counter("longshore_export_users_total", &[], "Users in exports that were done"),
    counter("longshore_export_bytes_total", &[], "Bytes of the files of exports that were done"),
    histogram(
        "longshore_export_stage_seconds",
        &["stage"],
        "Time of a part in a stage, by stage (read, project, compress, upload)",
    ),
    counter(
        "longshore_export_stage_bytes_total",
        &["stage"],
        "Bytes through a stage of the export's parts, by stage (read, project, compress, upload)",
    ),
    counter(
        "longshore_export_part_outgrown_total",
        &[],
        "Parts that needed more memory than was set aside, and were begun again with more",
    )
    .begins_at_0(&[&[]]),
    counter(
        "longshore_export_revenue_without_rate_total",
        &["currency"],
        "Amounts left out of total_revenue for want of an exchange rate, by currency (ISO 4217)",
    ),
    counter(
        "longshore_export_cleanup_failures_total",
        &[],
        "Times that what an export left could not be removed from its storage; tried again",
    )
    .begins_at_0(&[&[]]),
    counter(
        "longshore_deliveries_total",
        &["outcome"],
        "Attempts at callbacks and status postbacks by outcome: delivered, retried, given_up, or \
         lost to another worker",
    )
    .begins_at_0(&[&["delivered"], &["retried"], &["given_up"], &["lost"]]),
    histogram(
        "longshore_delivery_attempt_seconds",
        &[],
        "Time from sending a callback to its receiver's answer or the failure",
    ),
];
