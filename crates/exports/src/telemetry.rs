//! Metrics of exports.

use std::time::Duration;

use super::{Job, State};
use runtime::traces;

/// A stage of a part: its time, and the bytes of its output.
pub(super) fn stage(name: &'static str, time: Duration, bytes: u64) {
    metrics::histogram!("longshore_export_stage_seconds", "stage" => name)
        .record(time.as_secs_f64());
    metrics::counter!("longshore_export_stage_bytes_total", "stage" => name).increment(bytes);
}

/// Adds the request id to every log line of the claim's work.
pub(super) fn note_request(job: &Job) {
    traces::continue_trace(&job.request_id);
}

/// A job that ended: its state, its cause, and its time since the request. Counted before the
/// transaction commits, so a failed commit may be counted again.
pub(super) fn ended(job: &Job, state: State, cause: &'static str, now: i64) {
    let labels = [("state", state.name()), ("cause", cause)];
    metrics::counter!("longshore_exports_total", &labels).increment(1);
    let seconds = (now - job.requested_at) as f64 / 1_000.0;
    metrics::histogram!("longshore_export_duration_seconds", "state" => state.name())
        .record(seconds);
}

/// The output of a finished export.
pub(super) fn delivered(files: i64, users: i64, bytes: i64) {
    let count = |value: i64| u64::try_from(value).unwrap_or(0);
    metrics::counter!("longshore_export_files_total").increment(count(files));
    metrics::counter!("longshore_export_users_total").increment(count(users));
    metrics::counter!("longshore_export_bytes_total").increment(count(bytes));
}
