//! Users: profiles, identities, activity; import and generate.
//!
//! A user is a row of `users` (the profile, one serialized JSON document) and, in the same order, a
//! row of `activity` (one packed body). `identifiers` has the user of each external id and alias,
//! `emails` the users who may have an address, and `phones` those who may have a number. Triggers
//! of the database write `phones`.
//!
//! | module | is about |
//! |---|---|
//! | [`service_id`] | the id, which contains its user's bucket |
//! | [`profile`] | the stored document, its fields and their allowed values |
//! | [`consent`] | the user's decisions to get messages or not, in the order of their receipt |
//! | [`activity`] | purchases, events and revenue, packed |
//! | [`record`] | a user as one line, for import and `users show` |
//! | [`import`] | from lines to rows, and the user of each line |
//! | [`generate`] | realistic users, the same for the same seed |
//! | [`moment`] | the users that existed at a moment |
//! | [`scan`] | users in order: splitting into parts, and reading, for exports |
//! | [`tokens`] | the owners of push tokens |
//! | [`devices`] | removal of push tokens |
//! | [`find`], [`mentions`], [`selector`] | finding one user; the users that a request mentions; the one that it is about |
//! | [`address`] | the spellings of an email address |
//! | [`email_owners`] | the users who have an address, and the one that it identifies |
//! | [`suppressions`] | what was decided about an address, and which addresses get no messages |
//! | [`saved_suppressions`] | copying suppressions to another database |
//! | [`phones`] | the phone numbers of users from before an upgrade |
//! | [`recipient`] | a user as messages see them |
//! | [`identifier`] | the identifiers of users in requests |
//! | [`sweep`] | deletion of expired data of users without writes |
//! | [`rows`] and the modules `…_rows` | the SQL |
//! | [`keys`], [`name_locks`] | the keys of users in SQLite; locks on unused names in PostgreSQL |

use uuid::Uuid;

pub mod activity;
pub mod activity_rows;
pub mod consent;
pub mod devices;
pub mod email_owners;
pub mod erased_rows;
pub mod find;
pub mod generate;
mod hint_rows;
pub mod identifier;
pub mod import;
pub mod keys;
pub mod large_rows;
pub mod listed;
pub mod mentions;
pub mod merged_rows;
pub mod moment;
pub mod name_locks;
pub mod phones;
pub mod profile;
pub mod recipient;
pub mod record;
pub mod rows;
pub mod sample;
pub mod saved_suppressions;
pub mod scan;
pub mod search;
pub mod selector;
pub mod service_id;
mod suppression_rows;
pub mod suppressions;
pub mod sweep;
pub mod token_rows;
pub mod tokens;
mod unrecorded;

pub use kit::email_address as address;
pub use recipient::Recipient;

pub use gateway::workspaces::groups::{BUCKETS, SLICES};

/// A user's position in the order of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub slice: i16,
    pub service_id: Uuid,
}

impl Position {
    /// Before every user.
    pub const START: Self = Self { slice: -1, service_id: Uuid::nil() };
}
