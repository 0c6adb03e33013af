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
//! | [`find`] | finding one user |
//! | [`recipient`] | a user as messages see them |
//! | [`identifier`] | by what calls name a user |
//! | [`sweep`] | forgetting what is no longer kept of users whom nobody writes |

use uuid::Uuid;

pub mod activity;
pub(crate) mod activity_rows;
pub mod devices;
pub mod find;
pub mod generate;
pub mod identifier;
pub mod import;
pub(crate) mod keys;
pub mod large_rows;
pub mod moment;
pub(crate) mod name_locks;
pub mod profile;
pub mod recipient;
pub mod record;
pub(crate) mod rows;
pub mod scan;
pub mod service_id;
pub mod sweep;

pub use recipient::Recipient;

pub use crate::workspaces::groups::{BUCKETS, SLICES};

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
