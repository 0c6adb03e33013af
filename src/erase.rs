//! Erases one user with all data in every domain.

use futures::future::BoxFuture;
use uuid::Uuid;

use crate::messages::channels::cards;
use crate::messages::dispatch;
use crate::transactional;
use crate::users::find::{self, FindError, find_optional, names};
use crate::users::name_locks;
use crate::users::rows::For;
use crate::workspaces::Workspace;
use kit::fail_point;
use store::claims::now;
use store::{Store, StoreError, Tx};

/// Erases a user with all data, in one transaction; returns the user's ids. The erasure is
/// remembered for a while, because the log may still contain earlier requests, which must not
/// create the user again. The same holds if no user has the id ([`FindError::NotFoundYet`]): the user
/// may exist only in the log.
pub async fn erase(store: &Store, workspace: &Workspace, id: &str) -> Result<Uuid, FindError> {
    let (mut tx, user) = loop {
        let mut tx = store.write().await?;
        let seen = find_optional(&mut tx, workspace.id, id, For::Reading).await?;
        fail_point!("erase::looked");
        // Locked before the profile, like everywhere.
        name_locks::lock(&mut tx, workspace.id, &names(id, seen.as_ref())).await?;
        let user = find_optional(&mut tx, workspace.id, id, For::Erasing).await?;
        // If the names differ, another writer has created the user or changed its identifiers
        // meanwhile: try again.
        if names(id, user.as_ref()) == names(id, seen.as_ref()) {
            break (tx, user);
        }
    };
    let now = now(&mut tx).await?;
    let forgotten = names(id, user.as_ref());
    find::erase(&mut tx, workspace.id, &forgotten, user.as_ref(), now).await?;
    if let Some(user) = &user {
        erase_rows(&mut tx, workspace.id, user.service_id).await?;
    }
    fail_point!("erase::written");
    tx.commit().await?;
    user.map(|user| user.service_id).ok_or_else(|| FindError::NotFoundYet(id.to_owned()))
}

/// Removes the data that other domains have of a user whose profile is removed.
pub fn erase_rows(
    tx: &mut Tx,
    workspace: i32,
    service_id: Uuid,
) -> BoxFuture<'_, Result<(), StoreError>> {
    Box::pin(async move {
        dispatch::erase_user(tx, workspace, service_id).await?;
        cards::erase_user(tx, workspace, service_id).await?;
        transactional::rows::erase_user(tx, workspace, service_id).await
    })
}
