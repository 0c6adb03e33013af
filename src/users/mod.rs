//! Users: profiles, identities, activity; import and generate.

use uuid::Uuid;

pub mod activity;
pub mod scan;

/// A workspace's users are cut into this many slices by `random_bucket / 100`.
pub const SLICES: i16 = 100;

/// Where a user stands in the order of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub slice: i16,
    pub service_id: Uuid,
}
