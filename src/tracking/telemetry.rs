//! What tracking counts.

use super::Kind;

/// Objects that are in the log.
pub(super) fn taken(kind: Kind, objects: usize) {
    if objects > 0 {
        metrics::counter!("longshore_track_objects_total", "array" => kind.name())
            .increment(objects as u64);
    }
}

/// An object that was left out. `reason` is the member that is wrong, of those that the API
/// names.
pub(super) fn refused(kind: Kind, reason: &'static str) {
    metrics::counter!(
        "longshore_track_refused_total", "array" => kind.name(), "reason" => reason
    )
    .increment(1);
}
