//! Counts the users of a workspace, and finds stretches of them for a sample.

use std::time::Instant;

use uuid::Uuid;

use super::scan::{self, forbid_sort, nth_after};
use store::{StoreError, Tx};

/// The number of users in some slices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SliceCounts {
    /// The counted slices and their users.
    pub slices: Vec<(i16, i64)>,
    /// Users of all slices.
    pub users: i64,
    /// Whether all slices were counted before the deadline.
    pub is_exact: bool,
}

/// Counts the users of `slices`, with the index only. After `deadline`, assumes that the other
/// slices have as many users as the counted ones: users belong to random slices.
pub async fn count(
    tx: &mut Tx,
    workspace: i32,
    slices: &[i16],
    deadline: Instant,
) -> Result<SliceCounts, StoreError> {
    forbid_sort(tx).await?;
    let mut counts = SliceCounts { is_exact: true, ..SliceCounts::default() };
    for &slice in slices {
        if !counts.slices.is_empty() && Instant::now() > deadline {
            counts.is_exact = false;
            let (counted, all) = (counts.slices.len() as i64, slices.len() as i64);
            counts.users = counts.users.saturating_mul(all) / counted;
            break;
        }
        let (users, _) = scan::count(tx, workspace, slice).await?;
        counts.slices.push((slice, users));
        counts.users += users;
    }
    Ok(counts)
}

/// The bounds of a stretch of existing users in a slice: after the first `skipped` users,
/// exclusive, up to the last of the next `users`, inclusive.
pub async fn stretch(
    tx: &mut Tx,
    workspace: i32,
    slice: i16,
    skipped: i64,
    users: i64,
) -> Result<(Uuid, Uuid), StoreError> {
    let after = match skipped {
        0 => Uuid::nil(),
        _ => nth_after(tx, workspace, slice, Uuid::nil(), skipped).await?,
    };
    let up_to = nth_after(tx, workspace, slice, after, users).await?;
    Ok((after, up_to))
}
