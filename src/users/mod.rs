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
//! | [`scan`] | users in order: what an export cuts into parts and reads |
//! | [`erase`] | finding one user, and erasing |

use uuid::Uuid;

pub mod activity;
pub mod erase;
pub mod generate;
pub mod import;
pub(crate) mod json;
pub mod money;
pub mod profile;
pub mod record;
mod rows;
pub mod scan;
pub mod service_id;

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

/// The workspace whose users a command works on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub id: i32,
    pub name: String,
    /// ISO 4217: what `total_revenue` of a record is in.
    pub currency: String,
}

/// Why there is no workspace to work on.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    #[error("there is no workspace {0:?}: declare it in a file and run `longshore apply FILE`")]
    Unknown(String),
    #[error("there is no workspace yet: declare one in a file and run `longshore apply FILE`")]
    None,
    #[error("there are several workspaces, so --workspace is needed: {}", .0.join(", "))]
    Several(Vec<String>),
    #[error(transparent)]
    Store(#[from] crate::store::StoreError),
}

impl crate::retry::Retry for TargetError {
    fn can_retry(&self) -> bool {
        matches!(self, Self::Store(error) if error.can_retry())
    }
}

/// The workspace called `name`; without a name, the only one there is.
pub async fn target(
    store: &crate::store::Store,
    name: Option<&str>,
) -> Result<Target, TargetError> {
    let mut all = rows::targets(&mut store.snapshot().await?).await?;
    match name {
        Some(name) => {
            let found = all.into_iter().find(|target| target.name == name);
            found.ok_or_else(|| TargetError::Unknown(name.to_owned()))
        }
        None if all.len() > 1 => {
            Err(TargetError::Several(all.into_iter().map(|target| target.name).collect()))
        }
        None => all.pop().ok_or(TargetError::None),
    }
}
