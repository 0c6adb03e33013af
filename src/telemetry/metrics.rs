//! Every metric there is, with its unit and help text, and the recorder behind them.
//!
//! A metric is emitted where it happens, with the macros of the `metrics` crate, and
//! declared here. Names end in their unit (`_seconds`, `_bytes`), counters in `_total`;
//! labels have few values: never an id, an address or a name that a customer chose.

use std::sync::{Mutex, PoisonError};

use metrics::Unit;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use super::TelemetryError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// A metric as declared.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    pub name: &'static str,
    pub kind: Kind,
    pub unit: Unit,
    /// With its labels and their values.
    pub help: &'static str,
}

const fn counter(name: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Counter, unit: Unit::Count, help }
}

const fn gauge(name: &'static str, unit: Unit, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Gauge, unit, help }
}

const fn histogram(name: &'static str, unit: Unit, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Histogram, unit, help }
}

/// Every metric, by name.
pub const METRICS: &[Metric] = &[
    histogram(
        "longshore_batch_messages",
        Unit::Count,
        "Messages of a batch that was taken to be applied, by topic",
    ),
    histogram(
        "longshore_batch_seconds",
        Unit::Seconds,
        "Time from taking a batch until it was applied or let go, by topic",
    ),
    counter(
        "longshore_batches_total",
        "Batches taken, by topic and outcome: done, handed_back, or lost to another worker",
    ),
    gauge("longshore_build_info", Unit::Count, "1; the label version is this program's"),
    counter(
        "longshore_catalog_items_applied_total",
        "Items of PATCH /catalogs/{catalog_name}/items whose edit was applied",
    ),
    counter(
        "longshore_catalog_items_total",
        "Items of PATCH /catalogs/{catalog_name}/items that were taken",
    ),
    counter(
        "longshore_catalog_items_unknown_total",
        "Items of taken edits that their catalog does not have: nothing was made of them",
    ),
    counter(
        "longshore_catalog_refused_total",
        "Calls of PATCH /catalogs/{catalog_name}/items that were refused, by code; one that is \
         refused for several codes counts in each",
    ),
    counter(
        "longshore_deliveries_total",
        "Attempts at callbacks and status postbacks by outcome: delivered, retried, given_up, or \
         lost to another worker",
    ),
    histogram(
        "longshore_delivery_attempt_seconds",
        Unit::Seconds,
        "Time from sending a callback to its receiver's answer or the failure",
    ),
    counter("longshore_export_bytes_total", "Bytes of the files of exports that were done"),
    counter(
        "longshore_export_cleanup_failures_total",
        "Times that what an export left could not be removed from its storage; tried again",
    ),
    histogram(
        "longshore_export_duration_seconds",
        Unit::Seconds,
        "Time from the request of an export to its end, by state (done, failed, cancelled)",
    ),
    counter("longshore_export_files_total", "Files of exports that were done"),
    counter(
        "longshore_export_part_outgrown_total",
        "Parts that needed more memory than was set aside, and were begun again with more",
    ),
    counter(
        "longshore_export_revenue_without_rate_total",
        "Amounts left out of total_revenue for want of an exchange rate, by currency",
    ),
    counter(
        "longshore_export_stage_bytes_total",
        "Bytes through a stage of the export's parts, by stage (read, project, compress, upload)",
    ),
    histogram(
        "longshore_export_stage_seconds",
        Unit::Seconds,
        "Time of a part in a stage, by stage (read, project, compress, upload)",
    ),
    counter("longshore_export_users_total", "Users in exports that were done"),
    counter(
        "longshore_exports_total",
        "Exports that ended, by state (done, failed, cancelled) and, where failed, cause",
    ),
    histogram(
        "longshore_dispatch_duration_seconds",
        Unit::Seconds,
        "Time from taking a send to its end, by state (done, failed, cancelled)",
    ),
    gauge(
        "longshore_dispatch_lag_seconds",
        Unit::Seconds,
        "How long the oldest part of a send waits that could be worked on, over the fleet",
    ),
    counter(
        "longshore_dispatch_left_out_total",
        "Who is left out of sends, by reason: users who are unknown, not_in_audience or of the \
         control_group; messages that are unsubscribed or capped",
    ),
    counter(
        "longshore_dispatch_messages_total",
        "Messages by channel and outcome: sent, unreachable, aborted, failed, bounced, or waiting \
         for another attempt",
    ),
    counter(
        "longshore_dispatch_parts_total",
        "Parts of sends that a worker left, by outcome: done, waits (for messages that were not \
         taken yet), given_up",
    ),
    histogram(
        "longshore_dispatch_render_seconds",
        Unit::Seconds,
        "Time of rendering the messages of a batch of users",
    ),
    counter("longshore_dispatch_users_total", "Users who were looked at, whether they are sent to"),
    counter("longshore_dispatches_total", "Sends that ended, by state (done, failed, cancelled)"),
    histogram(
        "longshore_http_request_seconds",
        Unit::Seconds,
        "Time to answer a call, by method and path; path is the route, empty where none matched",
    ),
    counter(
        "longshore_http_requests_total",
        "Calls answered, by method, path and status; path is the route, empty where none matched",
    ),
    counter(
        "longshore_idempotency_total",
        "Calls with an Idempotency-Key, by what was under it: new, repeated, taken_over, under_way \
         (409), other_body (422), unrepeatable (409)",
    ),
    histogram(
        "longshore_log_append_seconds",
        Unit::Seconds,
        "Time until an append was durable or had failed, by outcome (ok, error)",
    ),
    counter("longshore_log_appended_total", "Messages appended, by outcome (ok, error)"),
    counter(
        "longshore_log_consumed_total",
        "Messages given out to be worked on, by topic and group",
    ),
    gauge(
        "longshore_log_lag_messages",
        Unit::Count,
        "Messages not applied of a partition that this process has, by topic, group, partition",
    ),
    gauge(
        "longshore_log_lag_seconds",
        Unit::Seconds,
        "Age of the oldest of them, by topic, group and partition",
    ),
    gauge(
        "longshore_log_stopped_partitions",
        Unit::Count,
        "Partitions that cannot go on until somebody says where, by topic and group",
    ),
    gauge(
        "longshore_log_waiting_partitions",
        Unit::Count,
        "Partitions of which it is not known yet where to go on, by topic and group",
    ),
    histogram(
        "longshore_message_attempt_seconds",
        Unit::Seconds,
        "Time from handing a message to its channel until it was answered or failed, by channel",
    ),
    counter(
        "longshore_message_attempts_total",
        "Messages handed to their channel, by channel and outcome: sent, unreachable, bounced, \
         failed, or later (not taken this time)",
    ),
    counter(
        "longshore_message_reports_total",
        "Reports of what became of messages, by type: invalid_number, unregistered_device, \
         processed, delivered, bounced, failed, unsubscribed",
    ),
    histogram("longshore_message_seconds", Unit::Seconds, "Time of work on a message, by topic"),
    counter(
        "longshore_messages_total",
        "Messages worked on, by topic and outcome (done, dead_letter, repeated, handed_back)",
    ),
    counter(
        "longshore_orders_total",
        "Orders to send that were taken in, by kind: send, schedule; live activities and Canvases are \
         not counted",
    ),
    counter(
        "longshore_rate_limit_alone_total",
        "Requests that this gateway counted alone since the database did not answer, by budget",
    ),
    counter("longshore_rate_limit_refused_total", "Requests answered 429, by budget"),
    histogram(
        "longshore_schedule_delay_seconds",
        Unit::Seconds,
        "Time from the moment that something was scheduled for until its sending began",
    ),
    counter(
        "longshore_schedules_fired_total",
        "Moments of schedules that came, by outcome: begun, wave (a later one of a time on the \
         wall), missed",
    ),
    counter(
        "longshore_smtp_connections_total",
        "Connections to relays by outcome: opened, or failed",
    ),
    counter(
        "longshore_track_applied_total",
        "Objects of POST /users/track that were applied, by array (attributes, events, purchases)",
    ),
    counter(
        "longshore_track_changes_ignored_total",
        "Changes of custom attributes (inc, add, remove) that did not fit the value there was",
    ),
    counter(
        "longshore_track_dropped_total",
        "Objects that came to nothing, by array and reason: unknown_user, erased (since they were \
         taken), too_large (the profile with them)",
    ),
    counter(
        "longshore_track_names_forgotten_total",
        "Names of products and events that went from a user's activity, which has too many",
    ),
    counter(
        "longshore_track_objects_total",
        "Objects of POST /users/track that were taken, by array (attributes, events, purchases)",
    ),
    counter(
        "longshore_track_refused_total",
        "Objects of POST /users/track that were left out, by array and reason: the member that \
         is wrong, identifier where nobody is named, object where it cannot be read at all",
    ),
    counter(
        "longshore_track_products_unlisted_total",
        "Purchases of products that their workspace does not list, having as many as it may",
    ),
    counter(
        "longshore_track_revenue_outside_windows_total",
        "Purchases that lie within no conversion window, and are no revenue",
    ),
    counter(
        "longshore_track_revenue_without_rate_total",
        "Purchases that total_revenue leaves out for want of an exchange rate, by currency",
    ),
    counter(
        "longshore_track_sends_triggered_total",
        "Sends of triggered campaigns that purchases began, each for up to 500 users",
    ),
    counter(
        "longshore_transactional_calls_total",
        "Calls of the transactional endpoint that were taken, by outcome: new, or repeated (the \
         external_send_id had its send)",
    ),
    counter(
        "longshore_transactional_emails_total",
        "Transactional emails that came to a state, by state: sent, processed, delivered, bounced, \
         aborted",
    ),
    histogram(
        "longshore_transactional_handover_seconds",
        Unit::Seconds,
        "Time from the call for a transactional email until the relay had it",
    ),
    gauge(
        "longshore_transactional_minute_share",
        Unit::Count,
        "Share of the transactional emails of the running hour and the last one that were handed \
         over within a minute, by coverage by their campaigns' packages: covered, beyond",
    ),
    counter(
        "longshore_transactional_put_off_total",
        "Times that a transactional email was not taken by its relay, and is tried again",
    ),
    counter("longshore_track_users_created_total", "Users made by what was tracked of them"),
];

/// Upper bounds of histograms, in seconds: from a look-up to a large export's part.
const SECONDS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0];

/// The same for transactional emails: with the goal and with the minute of the SLA.
const HANDOVER_SECONDS: &[f64] =
    &[0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0];

/// The same for whole exports: from a handful of users to millions, or a day's trouble.
const EXPORT_SECONDS: &[f64] =
    &[0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0, 21600.0];

/// The same for messages of a batch.
const MESSAGES: &[f64] = &[1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1_000.0, 3_000.0, 10_000.0];

/// The recorder of this process, once there is one.
static INSTALLED: Mutex<Option<PrometheusHandle>> = Mutex::new(None);

/// Begins to record, with every metric described, and answers what renders them. Called
/// again, it answers the same.
pub fn install() -> Result<PrometheusHandle, TelemetryError> {
    let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = &*installed {
        return Ok(handle.clone());
    }
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), SECONDS)?
        .set_buckets_for_metric(
            Matcher::Full("longshore_export_duration_seconds".into()),
            EXPORT_SECONDS,
        )?
        .set_buckets_for_metric(
            Matcher::Full("longshore_transactional_handover_seconds".into()),
            HANDOVER_SECONDS,
        )?
        .set_buckets_for_metric(
            Matcher::Full("longshore_dispatch_duration_seconds".into()),
            EXPORT_SECONDS,
        )?
        .set_buckets_for_metric(Matcher::Full("longshore_batch_messages".into()), MESSAGES)?
        .install_recorder()?;
    METRICS.iter().for_each(describe);
    metrics::gauge!("longshore_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    *installed = Some(handle.clone());
    Ok(handle)
}

fn describe(metric: &Metric) {
    match metric.kind {
        Kind::Counter => metrics::describe_counter!(metric.name, metric.unit, metric.help),
        Kind::Gauge => metrics::describe_gauge!(metric.name, metric.unit, metric.help),
        Kind::Histogram => metrics::describe_histogram!(metric.name, metric.unit, metric.help),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn names_say_what_they_count() {
        for metric in METRICS {
            let name = metric.name;
            assert!(name.starts_with("longshore_"), "{name}");
            assert_eq!(name.ends_with("_total"), metric.kind == Kind::Counter, "{name}");
            assert_eq!(name.ends_with("_seconds"), metric.unit == Unit::Seconds, "{name}");
            assert!(METRICS.iter().filter(|other| other.name == name).count() == 1, "{name}");
        }
    }

    /// The names given to the macros of `metrics` below `directory`.
    fn emitted(directory: &Path, names: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                emitted(&path, names);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            for call in ["counter!(", "gauge!(", "histogram!("] {
                names.extend(text.split(call).skip(1).filter_map(|rest| {
                    let (name, _) = rest.trim_start().strip_prefix('"')?.split_once('"')?;
                    name.starts_with("longshore_").then(|| name.to_owned())
                }));
            }
        }
    }

    #[test]
    fn what_is_emitted_is_declared_and_the_other_way_round() {
        let mut names = BTreeSet::new();
        emitted(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut names);
        let declared: BTreeSet<String> = METRICS.iter().map(|m| m.name.to_owned()).collect();
        assert_eq!(names, declared);
    }
}
