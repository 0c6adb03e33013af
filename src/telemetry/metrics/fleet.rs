//! What there is to do in the whole fleet, as gateways read it from the store
//! ([`fleet`](crate::telemetry::fleet)).

use super::{Group, Metric, counter, gauge};

pub const GROUP: Group = Group { title: "Work of the fleet", metrics: METRICS };

const METRICS: &[Metric] = &[
    gauge(
        "longshore_jobs",
        &["kind", "state"],
        "Jobs that have not ended, by kind and state: export (queued, planning, running, \
         finishing), dispatch (planning, running), schedule (pending), delivery (pending; \
         given_up, which are kept), transactional (waiting). Counted up to 100,000",
    ),
    gauge(
        "longshore_job_oldest_seconds",
        &["kind", "state"],
        "How long the oldest of longshore_jobs is in its state: of dispatches since they were \
         taken in, of running exports since they were planned, of schedules since the time that \
         they were for; 0 where there is none",
    ),
    gauge(
        "longshore_work_ready",
        &["kind"],
        "Pieces of work that could be begun now and that no worker holds, by kind: \
         export_plan, export_part, export_finish, export_cleanup, delivery, activity_sweep, \
         schedule, dispatch_plan, dispatch_part, dispatch_named. Counted up to 100,000",
    ),
    gauge(
        "longshore_work_held",
        &["kind"],
        "Pieces of work that a worker holds, by kind. Counted up to 100,000",
    ),
    gauge(
        "longshore_work_oldest_seconds",
        &["kind"],
        "How long the oldest of longshore_work_ready waits for a worker, by kind; 0 where there \
         is none",
    ),
    gauge(
        "longshore_dead_letters",
        &["topic"],
        "Messages of the log that are kept as dead letters, by topic. Counted up to 100,000",
    ),
    gauge(
        "longshore_fleet_seen_timestamp_seconds",
        &[],
        "When the store was last read for the metrics of the whole fleet, in seconds since 1970. \
         While it cannot be read, none of them is shown but this one",
    ),
    counter(
        "longshore_claims_taken_over_total",
        &["kind"],
        "Pieces of work that this worker took over since their lease ran out, by kind: \
         export_plan, export_part, export_finish, export_cleanup, delivery, activity_sweep, \
         schedule, dispatch_plan, dispatch_part, dispatch_named. The worker that held them was lost, or did \
         not reach the store",
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
    ]),
];
