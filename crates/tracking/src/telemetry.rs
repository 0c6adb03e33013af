//! Metrics of tracking.

use super::Kind;

/// Counts objects that were appended to the log.
pub(super) fn taken(kind: Kind, objects: usize) {
    if objects > 0 {
        metrics::counter!("longshore_track_objects_total", "array" => kind.name())
            .increment(objects as u64);
    }
}

/// Counts rejected objects, each with the invalid field, if the API defines its name.
pub(super) fn refused(objects: &[(Kind, &'static str)]) {
    for (kind, reason) in objects {
        metrics::counter!(
            "longshore_track_refused_total", "array" => kind.name(), "reason" => *reason
        )
        .increment(1);
    }
}
