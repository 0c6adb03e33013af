//! The global control group: a set of randomly chosen slices (hundreds of `random_bucket`)
//! that covers a whole percentage of the users.

use rand::seq::index;
use serde::Serialize;
use uuid::Uuid;

use super::rows;
use kit::clock::serialize_time;
use store::{StoreError, Tx};

pub use super::rows::known_groups;

/// `random_bucket` is 0 to one less than this.
pub const BUCKETS: u16 = 10_000;

/// A workspace's users are split into this many slices by `random_bucket / 100`.
pub const SLICES: i16 = 100;

/// Highest usual percentage of a group; a note warns about a higher one.
pub const MAX_USUAL_PERCENT: i32 = 15;

/// The global control group: the slices that belong to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlGroup {
    pub segment_id: Uuid,
    pub percent: i32,
    /// Ascending, each 0 to 99.
    pub slices: Vec<i16>,
}

impl ControlGroup {
    /// A new group of randomly chosen slices; `percent` is 1 to 100.
    fn choose(percent: i32) -> Self {
        let slices = usize::from(SLICES.unsigned_abs());
        let count = usize::try_from(percent).unwrap_or(0).min(slices);
        let mut chosen: Vec<i16> = index::sample(&mut rand::rng(), slices, count)
            .into_iter()
            .filter_map(|slice| i16::try_from(slice).ok())
            .collect();
        chosen.sort_unstable();
        Self { segment_id: Uuid::new_v4(), percent, slices: chosen }
    }
}

/// Creates a new group with a new segment id, and activates it. Running exports of the former group
/// continue with it.
pub async fn renew(
    tx: &mut Tx,
    workspace: i32,
    percent: i32,
    now: i64,
) -> Result<ControlGroup, StoreError> {
    let group = ControlGroup::choose(percent);
    rows::lock(tx, workspace).await?;
    rows::activate(tx, workspace, &group, now).await?;
    Ok(group)
}

/// A group that the workspace has, or had before it was renewed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KnownGroup {
    pub segment_id: Uuid,
    pub percent: i32,
    pub active: bool,
    #[serde(serialize_with = "serialize_time")]
    pub created_at: i64,
}

/// Activates a group that the workspace had before, with its segment id and its users. None: it
/// never had such a group. To activate the active one changes nothing.
pub async fn activate(
    tx: &mut Tx,
    workspace: i32,
    segment_id: Uuid,
) -> Result<Option<ControlGroup>, StoreError> {
    rows::lock(tx, workspace).await?;
    if !rows::known_groups(tx, workspace).await?.iter().any(|known| known.segment_id == segment_id)
    {
        return Ok(None);
    }
    rows::activate_again(tx, workspace, segment_id).await?;
    rows::control_group(tx, workspace).await
}

/// The current number of users in the group.
pub async fn users(tx: &mut Tx, workspace: i32, group: &ControlGroup) -> Result<i64, StoreError> {
    users_in(tx, workspace, group.slices.iter().copied()).await
}

/// The current number of all users of a workspace.
pub async fn all_users(tx: &mut Tx, workspace: i32) -> Result<i64, StoreError> {
    users_in(tx, workspace, 0..SLICES).await
}

async fn users_in(
    tx: &mut Tx,
    workspace: i32,
    slices: impl IntoIterator<Item = i16>,
) -> Result<i64, StoreError> {
    let mut users = 0;
    for slice in slices {
        users += rows::users_in_slice(tx, workspace, slice).await?;
    }
    Ok(users)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_as_many_slices_as_percent() {
        for percent in [1, 5, 15, 99, 100] {
            let group = ControlGroup::choose(percent);
            assert_eq!(group.slices.len(), percent as usize);
            assert!(group.slices.is_sorted_by(|a, b| a < b));
            assert!(group.slices.iter().all(|slice| (0..SLICES).contains(slice)));
        }
        // 5 of 100 slices: two choices are equal with a probability of one in 75 million.
        assert_ne!(ControlGroup::choose(5).slices, ControlGroup::choose(5).slices);
    }
}
