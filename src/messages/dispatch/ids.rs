//! Whose claims are whose.

use rand::RngExt as _;
use uuid::Uuid;

/// The job and the item of a claim for named users. The job is the workspace's, so that sends of
/// one workspace share the workers with those of others, and so that looking for work takes no
/// longer where many wait.
pub(super) fn named_claim(workspace: i32) -> (Uuid, i64) {
    let job = Uuid::from_u128(0x6d65_7373_6167_6573 << 64 | u128::from(workspace.unsigned_abs()));
    (job, rand::rng().random_range(0..i64::MAX))
}
