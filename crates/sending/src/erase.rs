//! Erases one user with all data in every domain.

use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::json;
use uuid::Uuid;

use crate::transactional;
use gateway::workspaces::Workspace;
use kit::fail_point;
use kit::retry::{Retry as _, TimedRetries};
use messages::channels::cards;
use messages::dispatch;
use people::users::find::{self, FindError, UserRef, find_optional, names};
use people::users::rows::For;
use people::users::{name_locks, token_rows};
use runtime::audit::{self, Entry};
use store::claims::now;
use store::{Store, StoreError, Tx};
use tracking::apply::UserHooks;

/// For how long a transaction that fails is tried again.
const RETRY_TIME: Duration = Duration::from_secs(30);

/// What an erasure is called in the audit log.
pub const ACTION: &str = "user.delete";

/// Erases a user with all data, for a command; otherwise like [`erase_with`].
pub async fn erase(store: &Store, workspace: &Workspace, id: &str) -> Result<Uuid, FindError> {
    let entry = Entry::from_command(Some(workspace.id), ACTION, "", json!({}));
    erase_with(store, workspace, id.into(), &entry).await
}

/// Erases a user with all data in one transaction; returns the user's id. `entry` goes into the
/// audit log, with this id as its object. The erasure is remembered for a while, because the log
/// may still contain earlier requests, which must not create the user again. The same holds if no
/// user has the id ([`FindError::NotFoundYet`]): the user may exist only in the log. Tries again
/// for a while if the transaction fails, as after a deadlock.
pub async fn erase_with(
    store: &Store,
    workspace: &Workspace,
    user: UserRef<'_>,
    entry: &Entry,
) -> Result<Uuid, FindError> {
    let mut tries = TimedRetries::within(RETRY_TIME);
    let mut maybe_erased = None;
    loop {
        match try_erase(store, workspace, user, entry, &mut maybe_erased).await {
            // An earlier attempt may have erased the user, although its commit returned an error;
            // or the user has got another identifier since.
            Err(FindError::NotFoundYet(id)) => {
                let Some(erased) = maybe_erased else { return Err(FindError::NotFoundYet(id)) };
                let by_own_id = try_erase(store, workspace, erased.into(), entry, &mut None).await;
                return match by_own_id {
                    Err(FindError::NotFoundYet(_)) => Ok(erased),
                    result => result,
                };
            }
            Err(error) if error.can_retry() && tries.again().await => {
                tracing::warn!(%error, "cannot erase a user; retrying");
            }
            result => return result,
        }
    }
}

/// Locks in the order of tracking: names, push tokens, the profile. Sets `maybe_erased` to the user
/// before the commit.
async fn try_erase(
    store: &Store,
    workspace: &Workspace,
    id: UserRef<'_>,
    entry: &Entry,
    maybe_erased: &mut Option<Uuid>,
) -> Result<Uuid, FindError> {
    let (mut tx, user) = loop {
        let mut tx = store.write().await?;
        let seen = find_optional(&mut tx, workspace.id, id, For::Reading).await?;
        fail_point!("erase::looked");
        name_locks::lock(&mut tx, workspace.id, &names(id, seen.as_ref())).await?;
        if let Some(seen) = &seen {
            token_rows::lock_of_users(&mut tx, workspace.id, &[seen.service_id]).await?;
        }
        let user = find_optional(&mut tx, workspace.id, id, For::Erasing).await?;
        // If the names differ, another writer has created the user or changed its identifiers
        // meanwhile: try again.
        if names(id, user.as_ref()) == names(id, seen.as_ref()) {
            break (tx, user);
        }
    };
    let now = now(&mut tx).await?;
    let erased_names = names(id, user.as_ref());
    let ids = find::erase(&mut tx, workspace.id, &erased_names, user.as_ref(), now).await?;
    erase_rows(&mut tx, workspace.id, ids).await?;
    if let Some(user) = &user {
        // The id alone refers to nothing any more.
        let entry = Entry { object: user.service_id.to_string(), ..entry.clone() };
        audit::record(&mut tx, now, &entry).await?;
    }
    fail_point!("erase::written");
    if let Some(user) = &user {
        *maybe_erased = Some(user.service_id);
    }
    tx.commit().await?;
    user.map(|user| user.service_id).ok_or_else(|| FindError::NotFoundYet(id.to_string()))
}

/// What tracking does with other data of the users that it erases or merges.
pub const HOOKS: UserHooks = UserHooks { erase: erase_rows, merge: merge_rows };

/// Removes the data of these users.
fn erase_rows(
    tx: &mut Tx,
    workspace: i32,
    ids: Vec<Uuid>,
) -> BoxFuture<'_, Result<(), StoreError>> {
    Box::pin(async move {
        for id in ids {
            dispatch::erase_user(tx, workspace, id).await?;
            cards::erase_user(tx, workspace, id).await?;
            transactional::rows::erase_user(tx, workspace, id).await?;
        }
        Ok(())
    })
}

/// Moves the cards of a merged user to the kept one. Messages and transactional emails keep the id
/// of the merged user, because reports refer to it.
fn merge_rows(
    tx: &mut Tx,
    workspace: i32,
    merged: Uuid,
    kept: Uuid,
) -> BoxFuture<'_, Result<(), StoreError>> {
    Box::pin(cards::move_to(tx, workspace, merged, kept))
}
