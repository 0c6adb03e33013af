//! What exports count.

use std::time::Duration;

use super::{Job, State};

/// A stage of a part: the time it took, and the bytes that came out of it.
pub(super) fn stage(name: &'static str, time: Duration, bytes: u64) {
    metrics::histogram!("longshore_export_stage_seconds", "stage" => name)
        .record(time.as_secs_f64());
    metrics::counter!("longshore_export_stage_bytes_total", "stage" => name).increment(bytes);
}

/// Has every line of the claim's work name the request that it is done for.
pub(super) fn note_request(job: &Job) {
    tracing::Span::current().record("request_id", &job.request_id);
}

/// A job that ended: how, why, and how long after it was asked for. Counted before the
/// transaction commits, so one that does not may be counted again.
pub(super) fn ended(job: &Job, state: State, cause: &'static str, now: i64) {
    let labels = [("state", state.name()), ("cause", cause)];
    metrics::counter!("longshore_exports_total", &labels).increment(1);
    let seconds = (now - job.requested_at) as f64 / 1_000.0;
    metrics::histogram!("longshore_export_duration_seconds", "state" => state.name())
        .record(seconds);
}

/// What an export that is done gave out.
pub(super) fn delivered(files: i64, users: i64, bytes: i64) {
    let count = |value: i64| u64::try_from(value).unwrap_or(0);
    metrics::counter!("longshore_export_files_total").increment(count(files));
    metrics::counter!("longshore_export_users_total").increment(count(users));
    metrics::counter!("longshore_export_bytes_total").increment(count(bytes));
}
