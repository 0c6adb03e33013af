//! Metrics of tracking.

use super::Kind;

/// A rejected object.
#[derive(Debug)]
pub struct RejectedObject {
    pub kind: Kind,
    /// The invalid field, if the API defines its name.
    pub reason: &'static str,
}

/// Counts objects that were appended to the log.
pub(super) fn accepted(kind: Kind, objects: usize) {
    if objects > 0 {
        metrics::counter!("longshore_track_objects_total", "array" => kind.name())
            .increment(objects as u64);
    }
}

/// Counts rejected objects.
pub(super) fn rejected(objects: &[RejectedObject]) {
    for RejectedObject { kind, reason } in objects {
        metrics::counter!(
            "longshore_track_refused_total", "array" => kind.name(), "reason" => *reason
        )
        .increment(1);
    }
}
