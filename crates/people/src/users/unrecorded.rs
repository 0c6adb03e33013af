//! Records what profiles have from before an upgrade, or from a worker of the previous version
//! during it: the owners of push tokens, and the addresses whose users unsubscribed.
//!
//! The migration states until when daily passes look for them. If several users have a token, and
//! none is recorded as its owner, it stays with the one whose profile was written last.

use std::collections::{BTreeMap, BTreeSet};

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::activity_rows::Cursor;
use super::large_rows::lock_users;
use super::rows::{self, For, StoredUser};
use super::tokens::{Registered, Registrations, Token, TokenKey};
use super::{devices, service_id, suppressions, token_rows};
use store::claims;
use store::{ByteBudget, Store, StoreError, settings};

/// The name of the setting of the migration: milliseconds since the epoch.
const UNTIL: &str = "push_tokens.recorded_until";

/// Users of one transaction.
const PAGE: i64 = 50;

/// One pass through a slice.
pub async fn record(store: &Store, slice: i16, stop: &CancellationToken) -> Result<(), StoreError> {
    let mut after = Cursor { workspace: i32::MIN, service_id: Uuid::nil(), key: -1 };
    while !stop.is_cancelled() {
        let mut tx = store.snapshot().await?;
        let until = settings::get(&mut tx, UNTIL).await?.and_then(|until| until.parse().ok());
        let now = claims::now(&mut tx).await?;
        if until.is_none_or(|until: i64| until < now) {
            break;
        }
        let page = token_rows::users_after(&mut tx, slice, after, PAGE).await?;
        drop(tx);
        let Some(last) = page.last() else { break };
        after = *last;
        for users in page.chunk_by(|a, b| a.workspace == b.workspace) {
            let ids: Vec<Uuid> = users.iter().map(|user| user.service_id).collect();
            record_users(store, users[0].workspace, ids).await?;
        }
    }
    Ok(())
}

async fn record_users(store: &Store, workspace: i32, mut ids: Vec<Uuid>) -> Result<(), StoreError> {
    let mut tx = store.write().await?;
    let users = rows::find_users(&mut tx, workspace, &ids, For::Reading).await?;
    let keys: BTreeSet<TokenKey> = users.iter().flat_map(|user| devices::keys(&user.doc)).collect();
    let mut registrations = Registrations::lock(&mut tx, workspace, &keys).await?;
    ids.extend(registrations.owners());
    let users = lock_users(&mut tx, workspace, &ids, &mut ByteBudget::unlimited()).await?;
    let opt_outs: Vec<_> = users.iter().flat_map(suppressions::own_opt_outs).collect();
    let mut lost: BTreeMap<Uuid, BTreeSet<TokenKey>> = BTreeMap::new();
    for user in &users {
        // Tokens that were registered since are recorded already.
        for key in devices::keys(&user.doc).into_iter().filter(|key| keys.contains(key)) {
            let loser = match registrations.estimate(key, user.service_id, user.attributes_at) {
                Registered::Own => continue,
                Registered::OfAnother => user.service_id,
                Registered::TakenFrom(owner) => owner,
            };
            lost.entry(loser).or_default().insert(key);
        }
    }
    let mut changed: Vec<StoredUser> = Vec::new();
    for user in users {
        let Some(lost) = lost.get(&user.service_id) else { continue };
        let is_lost = |token: &Token<'_>| lost.contains(&token.key());
        changed.extend(devices::without(&user.doc, is_lost).map(|doc| StoredUser { doc, ..user }));
    }
    changed.sort_unstable_by_key(|user| {
        let slice = service_id::bucket(&user.service_id).map(service_id::slice_of);
        (slice, user.service_id)
    });
    rows::put_users(&mut tx, workspace, &changed).await?;
    registrations.write(&mut tx, workspace).await?;
    suppressions::decide(&mut tx, workspace, &opt_outs).await?;
    tx.commit().await
}
