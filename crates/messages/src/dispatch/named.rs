//! Listed users: their ids, with the data for each user.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use uuid::Uuid;

use super::batch::LoadedUser;
use crate::order::{Named, Who};
use people::users::profile::Alias;
use people::users::rows::{For, Kind, StoredUser, find_identifiers, find_users};
use store::{StoreError, Tx};

/// The resolved users.
pub(super) struct Resolved {
    /// Each user once, with the properties of the first entry.
    pub users: Vec<(Uuid, Arc<Named>)>,
    /// Number of unknown identifiers.
    pub unknown: i64,
}

/// Resolves the listed users.
pub(super) async fn resolve(
    tx: &mut Tx,
    workspace: i32,
    named: &[Named],
) -> Result<Resolved, StoreError> {
    let mut ids: HashMap<(Kind, String), Uuid> = HashMap::new();
    for kind in [Kind::ExternalId, Kind::Alias] {
        let keys: Vec<String> = named.iter().filter_map(|named| key(&named.who, kind)).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        for identifier in find_identifiers(tx, workspace, kind, &keys).await? {
            ids.insert((kind, identifier.value), identifier.service_id);
        }
    }
    let service_id = |who: &Who| match who {
        Who::ServiceId(id) => {
            Some(*id).filter(|id| people::users::service_id::bucket(id).is_some())
        }
        who => [Kind::ExternalId, Kind::Alias]
            .into_iter()
            .find_map(|kind| ids.get(&(kind, key(who, kind)?)).copied()),
    };
    let mut seen = HashSet::new();
    let known: Vec<_> =
        named.iter().filter_map(|named| Some((service_id(&named.who)?, named))).collect();
    let unknown = (named.len() - known.len()) as i64;
    let users = known.into_iter().filter(|(id, _)| seen.insert(*id));
    let users = users.map(|(id, named)| (id, Arc::new(named.clone()))).collect();
    Ok(Resolved { users, unknown })
}

/// An identifier in its stored form.
fn key(who: &Who, kind: Kind) -> Option<String> {
    match (who, kind) {
        (Who::ExternalId(id), Kind::ExternalId) => Some(id.clone()),
        (Who::Alias { label, name }, Kind::Alias) => Some(Alias::key_of(label, name)),
        _ => None,
    }
}

/// The profiles of those users who exist.
pub(super) async fn load_users(
    tx: &mut Tx,
    workspace: i32,
    resolved: Vec<(Uuid, Arc<Named>)>,
) -> Result<Vec<LoadedUser>, StoreError> {
    let ids: Vec<Uuid> = resolved.iter().map(|(id, _)| *id).collect();
    let mut named: HashMap<Uuid, Arc<Named>> = resolved.into_iter().collect();
    let stored = find_users(tx, workspace, &ids, For::Reading).await?;
    let read = |stored: StoredUser| LoadedUser {
        named: named.remove(&stored.service_id),
        service_id: stored.service_id,
        doc: stored.doc,
    };
    Ok(stored.into_iter().map(read).collect())
}
