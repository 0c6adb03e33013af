//! What tracking counts.

use super::Kind;

/// Objects that are in the log.
pub(super) fn taken(kind: Kind, objects: usize) {
    if objects > 0 {
        metrics::counter!("longshore_track_objects_total", "array" => kind.name())
            .increment(objects as u64);
    }
}

/// Objects that were left out, each with the member that is wrong, of those that the API names.
pub(super) fn refused(objects: &[(Kind, &'static str)]) {
    for (kind, reason) in objects {
        metrics::counter!(
            "longshore_track_refused_total", "array" => kind.name(), "reason" => *reason
        )
        .increment(1);
    }
}
