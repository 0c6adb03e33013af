//! Users: profiles, identities, activity; import and generate.
//!
//! A user is a row of `users` (the profile, one serialized JSON document) and beside it,
//! in the same order, a row of `activity` (one packed body). `identifiers` says which user
//! an external id or an alias belongs to, `emails` which users may have an address.
//!
//! | module | is about |
//! |---|---|
//! | [`service_id`] | the id that carries its user's bucket |
//! | [`profile`] | the stored document, its fields and what each may hold |
//! | [`activity`] | purchases, events and revenue, packed |
//! | [`record`] | a user as one line: what import takes and `users show` gives |
//! | [`import`] | from lines to rows, and who is meant by a line |
//! | [`generate`] | lifelike users, the same for the same seed |
//! | [`moment`] | who was there at a moment |
//! | [`scan`] | users in order: what an export cuts into parts and reads |
//! | [`devices`] | push tokens that are gone |
//! | [`erase`] | finding one user, and erasing |
//! | [`sweep`] | forgetting what is no longer kept of users whom nobody writes |

use uuid::Uuid;

pub mod activity;
pub(crate) mod activity_rows;
pub mod devices;
pub mod erase;
pub mod generate;
pub mod import;
pub(crate) mod json;
pub(crate) mod keys;
pub mod large_rows;
pub mod moment;
pub mod money;
pub(crate) mod name_locks;
pub mod profile;
pub mod record;
pub(crate) mod rows;
pub mod scan;
pub mod service_id;
pub mod sweep;

/// `random_bucket` is 0 to one less than this.
pub const BUCKETS: u16 = 10_000;

/// A workspace's users are cut into this many slices by `random_bucket / 100`.
pub const SLICES: i16 = 100;

/// Where a user stands in the order of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub slice: i16,
    pub service_id: Uuid,
}

impl Position {
    /// Before every user.
    pub const START: Self = Self { slice: -1, service_id: Uuid::nil() };
}
