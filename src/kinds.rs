//! What workers share out among them as claims.

use store::claims::Kind;

/// The planning of an export; the job is the export.
pub const EXPORT_PLAN: Kind = Kind::one_work("export_plan");
/// A part of an export; the job is the export, the item the part's number.
pub const EXPORT_PART: Kind = Kind::one_work("export_part");
/// The finishing of an export; the job is the export.
pub const EXPORT_FINISH: Kind = Kind::one_work("export_finish");
/// The removal of what an export must not leave behind; the job is the export.
pub const EXPORT_CLEANUP: Kind = Kind::one_work("export_cleanup");
/// A callback; the job is its receiver, the item is from the delivery's id.
pub const DELIVERY: Kind = Kind::new("delivery");
/// Forgetting old activity; the item is a slice.
pub const ACTIVITY_SWEEP: Kind = Kind::new("activity_sweep");
/// A schedule; the job is its workspace, the item is from the schedule's id.
pub const SCHEDULE: Kind = Kind::new("schedule");
/// Cutting the users of a dispatch into parts; the job is the dispatch, the item the wave.
pub const DISPATCH_PLAN: Kind = Kind::one_work("dispatch_plan");
/// A part of a dispatch; the job is the dispatch, the item the part's number.
pub const DISPATCH_PART: Kind = Kind::one_work("dispatch_part");
/// The users that a dispatch names; the job is the workspace, the item is random.
pub const DISPATCH_NAMED: Kind = Kind::new("dispatch_named");

pub const ALL: [Kind; 10] = [
    EXPORT_PLAN,
    EXPORT_PART,
    EXPORT_FINISH,
    EXPORT_CLEANUP,
    DELIVERY,
    ACTIVITY_SWEEP,
    SCHEDULE,
    DISPATCH_PLAN,
    DISPATCH_PART,
    DISPATCH_NAMED,
];
