//! Metrics of dispatches.

use crate::dispatch::state::State;

/// A dispatch that ended: its state, and the time since it was accepted. Counted before the
/// transaction commits, so a failed commit may be counted again.
pub(super) fn ended(state: State, accepted_at: i64, now: i64) {
    metrics::counter!("longshore_dispatches_total", "state" => state.name()).increment(1);
    let seconds = now.saturating_sub(accepted_at).max(0) as f64 / 1_000.0;
    metrics::histogram!("longshore_dispatch_duration_seconds", "state" => state.name())
        .record(seconds);
}

/// Counts a part that its worker has finished for now.
pub(super) fn part(outcome: &'static str) {
    metrics::counter!("longshore_dispatch_parts_total", "outcome" => outcome).increment(1);
}
