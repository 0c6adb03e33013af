//! The kinds of work that workers claim.

use store::claims::Kind;
use uuid::Uuid;

/// The planning of an export; the job is the export.
pub const EXPORT_PLAN: Kind = Kind::single_task("export_plan");
/// A part of an export; the job is the export, the item the part's number.
pub const EXPORT_PART: Kind = Kind::single_task("export_part");
/// The finishing of an export; the job is the export.
pub const EXPORT_FINISH: Kind = Kind::single_task("export_finish");
/// The deletion of an export's leftover files; the job is the export.
pub const EXPORT_CLEANUP: Kind = Kind::single_task("export_cleanup");
/// A callback; the job is its workspace's deliveries to its receiver, the item is from the
/// delivery's id.
pub const DELIVERY: Kind = Kind::new("delivery");
/// Deleting old activity; the item is a slice.
pub const ACTIVITY_SWEEP: Kind = Kind::new("activity_sweep");
/// A schedule; the job is its workspace, the item is from the schedule's id.
pub const SCHEDULE: Kind = Kind::new("schedule");
/// Splitting the users of a dispatch into parts; the job is the dispatch, the item the wave.
pub const DISPATCH_PLAN: Kind = Kind::single_task("dispatch_plan");
/// A part of a dispatch; the job is the dispatch, the item the part's number.
pub const DISPATCH_PART: Kind = Kind::single_task("dispatch_part");
/// A transactional email; the job is its workspace, the item is from its dispatch_id.
pub const TRANSACTIONAL: Kind = Kind::new("transactional");
/// The listed users of a dispatch; the job is the workspace, the item is random.
pub const DISPATCH_NAMED: Kind = Kind::new("dispatch_named");

/// Not claimed: wakes the workers that send a dispatch which has ended.
pub const DISPATCH_END: Kind = Kind::new("dispatch_end");

pub const ALL: [Kind; 11] = [
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
    TRANSACTIONAL,
];

/// The job of a workspace's claims: so the workspaces share the workers, and queries for work take
/// no longer if one has many waiting rows.
pub fn job_of_workspace(workspace: i32) -> Uuid {
    Uuid::from_u128(0x6d65_7373_6167_6573 << 64 | u128::from(workspace.unsigned_abs()))
}

/// The workspace of a job from [`job_of_workspace`].
pub fn workspace_of_job(job: Uuid) -> i32 {
    job.as_u128() as i32
}

/// The item of a claim for this id: the random end of the UUID, as a number from 0.
pub fn item_of(id: Uuid) -> i64 {
    let (_, low) = id.as_u64_pair();
    (low & (u64::MAX >> 1)) as i64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_job_leads_to_its_workspace() {
        for workspace in [1, 77, i32::MAX] {
            assert_eq!(workspace_of_job(job_of_workspace(workspace)), workspace);
        }
    }

    #[test]
    fn items_are_numbers_from_zero_up_and_differ() {
        let items: BTreeSet<i64> = (0..1_000).map(|_| item_of(Uuid::now_v7())).collect();
        assert_eq!(items.len(), 1_000);
        assert!(items.iter().all(|item| *item >= 0));
    }
}
