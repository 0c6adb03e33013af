//! The users of a dispatch that goes to the recipients of an earlier one. Only the ids come from
//! the earlier dispatch: whether a user gets the message now, is decided by the user's data of now.

use std::collections::HashSet;

use uuid::Uuid;

use super::batch::LoadedUser;
use super::error::DispatchError;
use super::past_rows;
use crate::order::PastRecipients;
use people::users::rows::{For, StoredUser, find_users};
use store::Tx;

/// Some recipients of a part of the earlier dispatch, in order.
pub(super) struct PastPage {
    pub users: Vec<LoadedUser>,
    /// Number of recipients, and of those who do not exist.
    pub walked: i64,
    pub unknown: i64,
    /// The last recipient; none if there are no others.
    pub last: Option<Uuid>,
}

/// Number of parts of the earlier dispatch. An error if it was deleted: then its recipients are no
/// longer known, and must not be skipped silently.
pub(super) async fn parts(
    tx: &mut Tx,
    workspace: i32,
    past: &PastRecipients,
) -> Result<i64, DispatchError> {
    let parts = past_rows::parts(tx, workspace, past.dispatch_id).await?;
    parts.ok_or_else(|| {
        let id = past.dispatch_id.simple();
        DispatchError::Permanent(format!("the dispatch {id} was deleted"))
    })
}

/// The recipients after a user.
pub(super) async fn page(
    tx: &mut Tx,
    workspace: i32,
    past: &PastRecipients,
    (part, after): (i64, Uuid),
    limit: i64,
) -> Result<PastPage, DispatchError> {
    parts(tx, workspace, past).await?;
    let ids = past_rows::users_of_part(tx, past, part, after, limit).await?;
    let stored = find_users(tx, workspace, &ids, For::Reading).await?;
    let known: HashSet<Uuid> = stored.iter().map(|user| user.service_id).collect();
    let read = |StoredUser { service_id, doc, .. }| LoadedUser { service_id, doc, named: None };
    Ok(PastPage {
        users: stored.into_iter().map(read).collect(),
        walked: ids.len() as i64,
        unknown: ids.iter().filter(|id| !known.contains(id)).count() as i64,
        last: ids.last().copied(),
    })
}
