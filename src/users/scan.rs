//! Users in order of (slice, service_id): what an export cuts into parts and reads.

use uuid::Uuid;

use super::Position;
use crate::store::{StoreError, Tx};

/// A group of users, cut into stretches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cuts {
    pub users: i64,
    /// The last user of each stretch, ascending; the last one ends with the last user.
    pub ends: Vec<Position>,
    /// The largest service_id seen; later ones were created after this look.
    pub youngest: Uuid,
}

/// Cuts the users of `slices` (ascending) into stretches of `per_part`.
pub async fn cut(
    _tx: &mut Tx,
    _workspace: i32,
    _slices: &[i16],
    _per_part: u32,
) -> Result<Cuts, StoreError> {
    todo!()
}

/// A stretch of users: those after `after`, up to and with `up_to`, in the slices of
/// `slices`, none younger than `youngest`.
#[derive(Clone, Debug)]
pub struct Stretch<'a> {
    pub workspace: i32,
    pub slices: &'a [i16],
    pub after: Position,
    pub up_to: Position,
    pub youngest: Uuid,
}

/// A user as stored: the document is serialized JSON, the activity is packed
///.
pub struct UserRow<'a> {
    pub service_id: Uuid,
    pub doc: &'a str,
    pub activity: Option<&'a [u8]>,
}

/// Reads a stretch in order, handing each user to `each`, whose error ends the reading and is answered in
/// the inner result.
pub async fn read<E>(
    _tx: &mut Tx,
    _stretch: &Stretch<'_>,
    _each: impl FnMut(UserRow<'_>) -> Result<(), E>,
) -> Result<Result<(), E>, StoreError> {
    todo!()
}
