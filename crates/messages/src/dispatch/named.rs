//! Listed users: their ids, with the data for each user.
//!
//! Users are looked up when their messages are stored. Later, an identifier may refer to another
//! user, so a list with data for users is then stored again, with the ids that were found.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use uuid::Uuid;

use super::batch::LoadedUser;
use crate::order::{Named, Who};
use people::users::merged_rows;
use people::users::profile::Alias;
use people::users::rows::{For, Kind, StoredUser, find_identifiers, find_users};
use store::{StoreError, Tx};

/// The resolved users.
pub(super) struct Resolved<'n> {
    /// Each user once, with the properties of the first entry.
    pub users: Vec<(Uuid, Arc<Named>)>,
    /// The entries with unknown identifiers.
    pub unknown: Vec<&'n Named>,
}

/// Resolves the listed users. The id of a merged user stands for the kept user.
pub(super) async fn resolve<'n>(
    tx: &mut Tx,
    workspace: i32,
    named: &'n [Named],
) -> Result<Resolved<'n>, StoreError> {
    let mut ids: HashMap<(Kind, String), Uuid> = HashMap::new();
    for kind in [Kind::ExternalId, Kind::Alias] {
        let keys: Vec<String> = named.iter().filter_map(|named| key(&named.who, kind)).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        for identifier in find_identifiers(tx, workspace, kind, &keys).await? {
            ids.insert((kind, identifier.value), identifier.service_id);
        }
    }
    let service_ids: Vec<Uuid> = named.iter().filter_map(Named::service_id).collect();
    let merged = merged_rows::find_merged(tx, workspace, &service_ids).await?;
    let service_id = |who: &Who| match who {
        Who::ServiceId(id) => {
            let id = merged.get(id).unwrap_or(id);
            Some(*id).filter(|id| people::users::service_id::bucket(id).is_some())
        }
        who => [Kind::ExternalId, Kind::Alias]
            .into_iter()
            .find_map(|kind| ids.get(&(kind, key(who, kind)?)).copied()),
    };
    let (mut users, mut unknown, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
    for named in named {
        match service_id(&named.who) {
            None => unknown.push(named),
            Some(id) if seen.insert(id) => users.push((id, Arc::new(named.clone()))),
            Some(_) => {}
        }
    }
    Ok(Resolved { users, unknown })
}

impl Resolved<'_> {
    /// The list with the ids of its users, to be stored with their messages. None if the stored
    /// list will do: no user has data, or all are listed by their ids.
    pub fn with_ids(&self, named: &[Named]) -> Option<Vec<Named>> {
        let is_by_id = |(id, named): &(Uuid, Arc<Named>)| named.service_id() == Some(*id);
        if !named.iter().any(Named::has_data) || self.users.iter().all(is_by_id) {
            return None;
        }
        let users = self.users.iter().map(|(id, named)| {
            let who = Who::ServiceId(*id);
            Named { who, ..Named::clone(named) }
        });
        // To explain later why a user got no message.
        Some(users.chain(self.unknown.iter().copied().cloned()).collect())
    }
}

/// The entries of users whose messages are stored, as far as they are known. None if no user has
/// data, so that entries make no difference.
pub(super) async fn stored_entries(
    tx: &mut Tx,
    workspace: i32,
    named: &[Named],
    users: &[Uuid],
) -> Result<Option<HashMap<Uuid, Arc<Named>>>, StoreError> {
    if !named.iter().any(Named::has_data) {
        return Ok(None);
    }
    let mut entries: HashMap<Uuid, Arc<Named>> = HashMap::new();
    for named in named {
        if let Some(id) = named.service_id().filter(|id| users.contains(id)) {
            entries.entry(id).or_insert_with(|| Arc::new(named.clone()));
        }
    }
    if users.iter().any(|id| !entries.contains_key(id)) {
        // Version 0.2.0 did not store the ids.
        for (id, named) in resolve(tx, workspace, named).await?.users {
            entries.entry(id).or_insert(named);
        }
    }
    Ok(Some(entries))
}

impl Named {
    fn service_id(&self) -> Option<Uuid> {
        match self.who {
            Who::ServiceId(id) => Some(id),
            Who::ExternalId(_) | Who::Alias { .. } => None,
        }
    }
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
