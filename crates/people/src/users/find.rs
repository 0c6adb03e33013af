//! Finds one user, and records erased ones.

use std::borrow::Cow;
use std::fmt;
use std::ops::ControlFlow;

use uuid::Uuid;

use crate::users::activity::{Activity, ActivityError};
use crate::users::address::compared;
use crate::users::consent::Consent;
use crate::users::erased_rows::{self, Name, name_hash, name_hashes};
use crate::users::profile::{Field, Profile};
use crate::users::rows::{self, For, Identifier, Kind, StoredUser};
use crate::users::selector::first_ids;
use crate::users::suppressions::{self, AddressStates};
use crate::users::{activity_rows, email_owners, merged_rows, record, service_id};
use gateway::workspaces::Workspace;
use kit::clock::Clock;
use kit::retry::Retry;
use store::{Store, StoreError, Tx};

/// How one user is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserRef<'a> {
    /// By an external_id, otherwise a service_id, otherwise an email.
    Text(&'a str),
    /// By the service_id alone: another user's external_id can be the same text.
    ServiceId(Uuid),
}

impl<'a> From<&'a str> for UserRef<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl From<Uuid> for UserRef<'_> {
    fn from(id: Uuid) -> Self {
        Self::ServiceId(id)
    }
}

impl fmt::Display for UserRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => text.fmt(f),
            Self::ServiceId(id) => id.fmt(f),
        }
    }
}

/// Why one user could not be shown or erased.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    #[error(
        "no user has the external_id, service_id or email {0:?}: `longshore users find` takes \
         other identifiers"
    )]
    NotFound(String),
    #[error(
        "no user has the external_id, service_id or email {0:?}, and no accepted request creates \
         one: `longshore users find` takes other identifiers"
    )]
    NotFoundYet(String),
    #[error(
        "no user has the identifier {0:?} (an external_id, a service_id, an alias as LABEL:NAME, \
         an email address or a phone number): see `longshore users find`"
    )]
    Unknown(String),
    #[error(
        "{} users have this identifier; use one of these service_ids: {}", .0.len(), first_ids(.0)
    )]
    Several(Vec<Uuid>),
    #[error("{0}: {1}")]
    Activity(Uuid, ActivityError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Retry for FindError {
    fn can_retry(&self) -> bool {
        match self {
            Self::Activity(_, error) => error.can_retry(),
            Self::Store(error) => error.can_retry(),
            _ => false,
        }
    }

    fn needs_newer_version(&self) -> bool {
        match self {
            Self::Activity(_, error) => error.needs_newer_version(),
            Self::Store(error) => error.needs_newer_version(),
            _ => false,
        }
    }
}

/// The user's record as of today, with the fields that are never exported, and the subscription
/// states that apply with the user's addresses; compact JSON.
pub async fn show<'a>(
    store: &Store,
    clock: &Clock,
    workspace: &Workspace,
    user: impl Into<UserRef<'a>>,
) -> Result<String, FindError> {
    let user = user.into();
    let mut tx = store.snapshot().await?;
    let user = find(&mut tx, workspace.id, user, For::Reading).await?;
    let body = activity_rows::find_activity(&mut tx, workspace.id, user.service_id).await?;
    let activity = match &body {
        Some(body) => {
            Activity::decode(body).map_err(|e| FindError::Activity(user.service_id, e))?
        }
        None => Activity::default(),
    };
    let (currency, rates) = (&workspace.currency, &workspace.exchange_rates);
    let documents = [(user.service_id, user.doc.as_str())].into_iter();
    let addresses = AddressStates::look_up(&mut tx, workspace.id, documents).await?;
    let document = Profile::parse(&user.doc).map_or(user.doc, |mut profile| {
        if let Some(state) = addresses.of_user(user.service_id) {
            let mut consent = Consent::read(&profile);
            state.apply_to(&mut consent);
            consent.write(&mut profile);
        }
        profile.remove_times();
        profile.to_document()
    });
    Ok(record::show(&document, &activity, clock.today(), currency, rates))
}

/// The user with this external_id, otherwise this service_id, otherwise this email.
pub async fn identify(tx: &mut Tx, workspace: i32, id: &str) -> Result<Uuid, FindError> {
    Ok(find(tx, workspace, UserRef::Text(id), For::ReadingKeys).await?.service_id)
}

/// The names with which `user` can be created again; `id` if it is unknown. A service_id is no such
/// name.
pub fn names<'a>(
    id: impl Into<UserRef<'a>>,
    user: Option<&'a StoredUser>,
) -> Vec<(Name, Cow<'a, str>)> {
    let (external_ids, email) = match (user, id.into()) {
        (Some(user), _) => (external_ids(user), user.email.as_deref().map(Cow::Borrowed)),
        (None, UserRef::Text(id)) => (vec![Cow::Borrowed(id)], Some(compared(id))),
        (None, UserRef::ServiceId(_)) => return Vec::new(),
    };
    let external_ids = external_ids.into_iter().map(|id| (Name::ExternalId, id));
    external_ids.chain(email.map(|email| (Name::Email, email))).collect()
}

/// The external ids that identify a user; the document must have been read.
pub(crate) fn external_ids(user: &StoredUser) -> Vec<Cow<'_, str>> {
    let deprecated = Profile::parse(&user.doc).unwrap_or_default().deprecated_external_ids();
    let current = user.external_id.as_deref().map(Cow::Borrowed);
    current.into_iter().chain(deprecated.into_iter().map(Cow::Owned)).collect()
}

/// Removes a user's rows and identifiers, and records the erasure of `names`: data that was
/// received until `erased_at` does not create a user with one of them.
pub async fn remove(
    tx: &mut Tx,
    workspace: i32,
    names: &[(Name, Cow<'_, str>)],
    user: Option<&StoredUser>,
    erased_at: i64,
) -> Result<(), StoreError> {
    if let Some(user) = user {
        remove_identifiers(tx, workspace, user).await?;
    }
    for (kind, value) in names {
        for hash in name_hashes(*kind, value) {
            erased_rows::add(tx, workspace, hash, erased_at).await?;
        }
    }
    match user {
        Some(user) => rows::remove_user(tx, workspace, user).await,
        None => Ok(()),
    }
}

/// Like [`remove`], for a user who was not merged into another one: also records the erasure of the
/// user's aliases, and deletes the ids of users who were merged into this one. The user's opt-outs
/// stay known by the addresses: another user who gets one of them is not sent messages. Returns all
/// ids of the user: other domains may have data of each.
pub async fn erase(
    tx: &mut Tx,
    workspace: i32,
    names: &[(Name, Cow<'_, str>)],
    user: Option<&StoredUser>,
    erased_at: i64,
) -> Result<Vec<Uuid>, StoreError> {
    remove(tx, workspace, names, user, erased_at).await?;
    let Some(user) = user else { return Ok(Vec::new()) };
    suppressions::keep_opt_outs(tx, workspace, user, &Profile::default()).await?;
    for alias in Profile::parse(&user.doc).unwrap_or_default().aliases() {
        erased_rows::add(tx, workspace, name_hash(Name::Alias, &alias.key()), erased_at).await?;
    }
    let mut ids = merged_rows::delete_merged(tx, workspace, user.service_id).await?;
    ids.push(user.service_id);
    Ok(ids)
}

pub(crate) async fn remove_identifiers(
    tx: &mut Tx,
    workspace: i32,
    user: &StoredUser,
) -> Result<(), StoreError> {
    let id = user.service_id;
    let Ok(profile) = Profile::parse(&user.doc) else {
        return rows::sweep_identifiers(tx, workspace, id).await;
    };
    // If the field is unreadable, so is the document: its aliases are not known.
    let aliases = profile.aliases();
    if aliases.is_empty() && profile.get(Field::UserAliases).is_some() {
        return rows::sweep_identifiers(tx, workspace, id).await;
    }
    let external_ids = external_ids(user).into_iter().map(Cow::into_owned);
    let external_ids = external_ids.map(|value| (Kind::ExternalId, value));
    let aliases = aliases.iter().map(|alias| (Kind::Alias, alias.key()));
    for (kind, value) in external_ids.chain(aliases) {
        let identifier = Identifier { kind, value, service_id: id };
        rows::remove_identifier(tx, workspace, &identifier).await?;
    }
    if let Some(email) = &user.email {
        rows::remove_emails(tx, workspace, &[(email.clone(), id)]).await?;
    }
    Ok(())
}

pub async fn find_optional(
    tx: &mut Tx,
    workspace: i32,
    user: UserRef<'_>,
    purpose: For,
) -> Result<Option<StoredUser>, FindError> {
    match find(tx, workspace, user, purpose).await {
        Err(FindError::NotFound(_)) => Ok(None),
        found => found.map(Some),
    }
}

async fn find(
    tx: &mut Tx,
    workspace: i32,
    user: UserRef<'_>,
    purpose: For,
) -> Result<StoredUser, FindError> {
    let id = match user {
        UserRef::Text(id) => id,
        UserRef::ServiceId(id) => {
            let user = match service_id::bucket(&id) {
                Some(_) => rows::find_users(tx, workspace, &[id], purpose).await?.pop(),
                None => None,
            };
            return user.ok_or_else(|| FindError::NotFound(id.to_string()));
        }
    };
    let mut ids: Vec<Uuid> = rows::find_identifiers(tx, workspace, Kind::ExternalId, &[id])
        .await?
        .into_iter()
        .map(|identifier| identifier.service_id)
        .collect();
    let is_external = !ids.is_empty();
    if !is_external {
        ids.extend(Uuid::parse_str(id).ok().filter(|id| service_id::bucket(id).is_some()));
    }
    let mut users = rows::find_users(tx, workspace, &ids, purpose).await?;
    if is_external {
        // The transaction that this one waited for may have given the user another external_id.
        let current = rows::find_identifiers(tx, workspace, Kind::ExternalId, &[id]).await?;
        users.retain(|user| current.iter().any(|owned| owned.service_id == user.service_id));
    }
    if users.is_empty() {
        let mut holders: Vec<Uuid> = Vec::new();
        let visit = |user: StoredUser| {
            holders.push(user.service_id);
            ControlFlow::Continue(())
        };
        email_owners::for_each_holder(tx, workspace, &[id], visit).await?;
        if holders.len() > 1 {
            return Err(FindError::Several(holders));
        }
        users = rows::find_users(tx, workspace, &holders, purpose).await?;
        users.retain(|user| user.address() == Some(compared(id)));
    }
    users.pop().ok_or_else(|| FindError::NotFound(id.to_owned()))
}
