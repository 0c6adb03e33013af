//! The whole fleet's work, as gateways read it from the store ([`fleet`](crate::telemetry::fleet)).

use super::{Group, Metric, counter, gauge};

pub const GROUP: Group = Group { title: "Work of the fleet", metrics: METRICS };

const METRICS: &[Metric] = &[
    gauge(
        "longshore_jobs",
        &["kind", "state"],
        "Number of jobs that have not ended, by kind and state: export (queued, planning, \
         running, finishing), dispatch (planning, running), schedule (pending), delivery \
         (pending; given_up, which are kept), transactional (waiting). Counted up to 100,000",
    ),
    gauge(
        "longshore_job_oldest_seconds",
        &["kind", "state"],
        "Age in seconds of the oldest job in longshore_jobs, by kind and state; 0 if there is \
         none. The age of a dispatch counts from its acceptance, of a running export from its \
         planning, and of a schedule from its time",
    ),
    gauge(
        "longshore_work_ready",
        &["kind"],
        "Number of work items that are due and that no worker holds, by kind: export_plan, \
         export_part, export_finish, export_cleanup, delivery, activity_sweep, schedule, \
         dispatch_plan, dispatch_part, dispatch_named, transactional. Counted up to 100,000",
    ),
    gauge(
        "longshore_work_held",
        &["kind"],
        "Number of work items that a worker holds, by kind. Counted up to 100,000",
    ),
    gauge(
        "longshore_work_oldest_seconds",
        &["kind"],
        "Time that the oldest work item in longshore_work_ready has waited for a worker in \
         seconds, by kind; 0 if there is none",
    ),
    gauge(
        "longshore_dead_letters",
        &["topic"],
        "Number of dead letters, by topic. Counted up to 100,000",
    ),
    gauge(
        "longshore_backup_last_success_timestamp_seconds",
        &[],
        "Time of the last backup that `longshore backup record` recorded, in seconds since 1970; \
         0 if none was recorded",
    ),
    gauge(
        "longshore_fleet_seen_timestamp_seconds",
        &[],
        "Time when the store was last read for the metrics of the whole fleet, in seconds since \
         1970. While it cannot be read, this is the only one of these metrics that is shown",
    ),
    counter(
        "longshore_claims_taken_over_total",
        &["kind"],
        "Total number of work items that this worker took over after their lease expired, by \
         kind: export_plan, export_part, export_finish, export_cleanup, delivery, activity_sweep, \
         schedule, dispatch_plan, dispatch_part, dispatch_named, transactional. The worker that \
         held them was lost, or could not reach the store",
    )
    .begins_at_0(&[
        &["export_plan"],
        &["export_part"],
        &["export_finish"],
        &["export_cleanup"],
        &["delivery"],
        &["activity_sweep"],
        &["schedule"],
        &["dispatch_plan"],
        &["dispatch_part"],
        &["dispatch_named"],
        &["transactional"],
    ]),
];
