//! Erasing one user, with all that belongs to it in every domain.

use futures::future::BoxFuture;
use uuid::Uuid;

use crate::messages::channels::cards;
use crate::messages::dispatch;
use crate::transactional;
use crate::users::find::{FindError, find_some, names, remove};
use crate::users::name_locks;
use crate::users::rows::For;
use crate::workspaces::Workspace;
use kit::fail_point;
use store::claims::now;
use store::{Store, StoreError, Tx};

/// Erases a user with all that belongs to it, in one transaction; answers who it was. That
/// it was erased is remembered for a while, since the log may still hold what was taken in
/// before: this makes nobody anew. So it is where nobody has the id
/// ([`FindError::NobodyYet`]): all that there is of them may be in the log.
pub async fn erase(store: &Store, workspace: &Workspace, id: &str) -> Result<Uuid, FindError> {
    let (mut tx, user) = loop {
        let mut tx = store.write().await?;
        let seen = find_some(&mut tx, workspace.id, id, For::Reading).await?;
        fail_point!("erase::looked");
        // Before the profile, as all who lock both.
        name_locks::lock(&mut tx, workspace.id, &names(id, seen.as_ref())).await?;
        let user = find_some(&mut tx, workspace.id, id, For::Erasing).await?;
        // Else another writer was first, and made the user or gave it another name.
        if names(id, user.as_ref()) == names(id, seen.as_ref()) {
            break (tx, user);
        }
    };
    let now = now(&mut tx).await?;
    remove(&mut tx, workspace.id, &names(id, user.as_ref()), user.as_ref(), now).await?;
    if let Some(user) = &user {
        forget(&mut tx, workspace.id, user.service_id).await?;
    }
    fail_point!("erase::written");
    tx.commit().await?;
    user.map(|user| user.service_id).ok_or_else(|| FindError::NobodyYet(id.to_owned()))
}

/// Removes what other domains have of a user whose profile is removed.
pub fn forget(
    tx: &mut Tx,
    workspace: i32,
    service_id: Uuid,
) -> BoxFuture<'_, Result<(), StoreError>> {
    Box::pin(async move {
        dispatch::forget_user(tx, workspace, service_id).await?;
        cards::forget_user(tx, workspace, service_id).await?;
        transactional::rows::erase_user(tx, workspace, service_id).await
    })
}
