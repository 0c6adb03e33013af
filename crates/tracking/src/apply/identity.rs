//! Identity changes: aliases, external ids, merging, erasing. They are applied one after the other,
//! each in the order of the log with the other data tracked for the user that it names.
//!
//! A change that names two users is in the partitions of both. In each partition, the user that the
//! name identifies there is recorded, and the change is applied once both are recorded. So it comes
//! after everything received before it for either user, however far one partition is behind the
//! other.

mod merge;

use std::borrow::Cow;
use std::ops::ControlFlow;

use futures::future::BoxFuture;
use jiff::civil::Date;
use uuid::Uuid;

use self::merge::{Meeting, merge_profiles};
use super::super::message::{Identity, IdentityChange};
use super::identity_rows::{self, Reached};
use super::order_time::OrderTime;
use super::{ApplyError, Dropped};
use kit::clock::format_time;
use people::users::address::compared;
use people::users::erased_rows::{self, Name, name_hash};
use people::users::identifier::{Identifier, UserAlias};
use people::users::profile::{Alias, Field, MAX_BYTES, Profile};
use people::users::rows::{self, For, Kind, StoredUser};
use people::users::service_id::{self, Generator};
use people::users::{email_owners, find, keys, merged_rows, name_locks, token_rows};
use store::{StoreError, Tx};

/// Removes the data of users of a workspace.
type EraseHook = for<'a> fn(&'a mut Tx, i32, Vec<Uuid>) -> BoxFuture<'a, Result<(), StoreError>>;

/// Moves data of the first user to the second one.
type MergeHook = for<'a> fn(&'a mut Tx, i32, Uuid, Uuid) -> BoxFuture<'a, Result<(), StoreError>>;

/// Changes of users in the domains that tracking does not know.
#[derive(Clone, Copy)]
pub struct UserHooks {
    /// Gets all ids of an erased user: also those of users who were merged into it.
    pub erase: EraseHook,
    /// Gets a merged user and the kept one. The id of the merged user stands for the kept one from
    /// now on ([`merged_rows`]), so data may also stay.
    pub merge: MergeHook,
}

impl Default for UserHooks {
    fn default() -> Self {
        Self {
            erase: |_, _, _| Box::pin(async { Ok(()) }),
            merge: |_, _, _, _| Box::pin(async { Ok(()) }),
        }
    }
}

/// The result of a change.
type Outcome = Result<Result<(), Dropped>, ApplyError>;

/// How much the clocks of brokers and of the database may differ, in milliseconds.
const MAX_CLOCK_DIFFERENCE_MS: i64 = 5_000;

const UNKNOWN: Outcome = Ok(Err(Dropped::UnknownUser));
const CONFLICT: Outcome = Ok(Err(Dropped::Conflict));
const TOO_LARGE: Outcome = Ok(Err(Dropped::TooLarge));

/// Applies changes of one workspace.
pub(super) struct Identities<'a> {
    pub tx: &'a mut Tx,
    pub workspace: i32,
    pub ids: &'a Generator,
    pub hooks: UserHooks,
    pub today: Date,
    /// The database's time, in milliseconds since the epoch.
    pub now: i64,
    /// The latest time of a decision.
    pub latest: i64,
    /// Number of users who were created.
    pub created: u64,
}

/// A user whose rows are locked, and the profile.
struct Opened {
    user: StoredUser,
    profile: Profile,
}

impl Opened {
    fn read(user: StoredUser) -> Result<Self, ApplyError> {
        match Profile::parse(&user.doc) {
            Ok(profile) => Ok(Self { user, profile }),
            Err(why) => Err(ApplyError::Profile(user.service_id, why)),
        }
    }
}

impl Identities<'_> {
    /// Applies a change, or records a copy of a change with two users, which have the same time of
    /// receipt. Returns none if the change waits for its other copy, or was applied before.
    pub async fn apply(
        &mut self,
        identity: &Identity<'_>,
        received_at: i64,
        at: OrderTime,
    ) -> Result<Option<Result<(), Dropped>>, ApplyError> {
        let (user, at) = (&identity.user, at.ms());
        if identity.other().is_some() {
            let is_ambiguous = identity.needs_one_match
                && !identity.is_second
                && self.identifies_several(user).await?;
            let found = if is_ambiguous {
                None
            } else {
                self.find(&identity.partition_identifier(), For::ReadingKeys).await?
            };
            let found = found.map(|user| user.service_id);
            let workspace = self.workspace;
            let reached =
                identity_rows::reach(self.tx, workspace, identity, received_at, at, found).await?;
            let Some(reached) = reached else { return Ok(None) };
            let Some(first) = reached.first else { return Ok(Some(Err(Dropped::UnknownUser))) };
            return self.apply_both(identity, first, reached).await.map(Some);
        }
        let outcome = match &identity.change {
            IdentityChange::Erase => self.erase(user, at).await,
            IdentityChange::AddAlias(alias) => self.add_alias(user, alias, at).await,
            IdentityChange::RenameAlias(name) => self.rename_alias(user, name).await,
            _ => self.remove_id(user).await,
        };
        outcome.map(Some)
    }

    /// Applies a change of the two recorded users; the first one must have existed.
    async fn apply_both(
        &mut self,
        identity: &Identity<'_>,
        first: Uuid,
        reached: Reached,
    ) -> Outcome {
        match (&identity.change, &identity.user) {
            (IdentityChange::MergeInto(_), _) => self.merge(first, reached).await,
            (IdentityChange::Identify(id), _) => self.identify(first, reached, id).await,
            (IdentityChange::RenameExternalId(id), Identifier::ExternalId(former)) => {
                self.rename_id(first, reached, (former, id)).await
            }
            _ => UNKNOWN,
        }
    }

    async fn erase(&mut self, identifier: &Identifier<'_>, at: i64) -> Outcome {
        // Data received later in this partition is applied later. Names are locked as for the
        // creation of users by them.
        let seen = self.find(identifier, For::Reading).await?;
        let names = match identifier {
            Identifier::ExternalId(id) => vec![(Name::ExternalId, Cow::Borrowed(id.as_ref()))],
            _ => Vec::new(),
        };
        let names_seen = seen.as_ref().map_or(names, |user| find::names("", Some(user)));
        name_locks::lock(self.tx, self.workspace, &names_seen).await?;
        if let Some(seen) = &seen {
            token_rows::lock_of_users(self.tx, self.workspace, &[seen.service_id]).await?;
        }
        let user = self.find(identifier, For::Erasing).await?;
        let names = user.as_ref().map(|user| find::names("", Some(user)));
        if names.is_some() != seen.is_some() || names.is_some_and(|names| names != names_seen) {
            return Err(ApplyError::Changed);
        }
        let erased = find::erase(self.tx, self.workspace, &names_seen, user.as_ref(), at).await?;
        if erased.is_empty() {
            return UNKNOWN;
        }
        (self.hooks.erase)(self.tx, self.workspace, erased).await?;
        Ok(Ok(()))
    }

    async fn add_alias(
        &mut self,
        identifier: &Identifier<'_>,
        UserAlias { alias_label, alias_name }: &UserAlias<'_>,
        at: i64,
    ) -> Outcome {
        let alias = Alias { label: alias_label.clone().into(), name: alias_name.clone().into() };
        if self.owner(Kind::Alias, &alias.key()).await?.is_some() {
            return CONFLICT;
        }
        let opened = match self.open(identifier).await? {
            Some(opened) => opened,
            None if matches!(identifier, Identifier::UserAlias(_)) => self.create(at).await?,
            None => return UNKNOWN,
        };
        let Opened { mut user, mut profile } = opened;
        let mut aliases = profile.aliases();
        // A user can have only one alias for each label.
        if aliases.iter().any(|other| other.label == alias.label) {
            return CONFLICT;
        }
        aliases.push(alias.clone());
        profile.set_aliases(&aliases);
        if profile.bytes() > MAX_BYTES {
            return TOO_LARGE;
        }
        if !self.assign(Kind::Alias, alias.key(), user.service_id).await? {
            return Err(ApplyError::Changed);
        }
        user.attributes_at = user.attributes_at.max(at);
        self.write(user, &profile).await
    }

    async fn rename_alias(&mut self, identifier: &Identifier<'_>, name: &str) -> Outcome {
        let Identifier::UserAlias(UserAlias { alias_label, alias_name }) = identifier else {
            return UNKNOWN;
        };
        let Some(Opened { user, mut profile }) = self.open(identifier).await? else {
            return UNKNOWN;
        };
        let alias = |name: &str| Alias { label: alias_label.to_string(), name: name.to_owned() };
        let (old, new) = (alias(alias_name), alias(name));
        let aliases = profile.aliases().into_iter();
        let aliases: Vec<_> =
            aliases.map(|alias| if alias == old { new.clone() } else { alias }).collect();
        profile.set_aliases(&aliases);
        if profile.bytes() > MAX_BYTES {
            return TOO_LARGE;
        }
        if !self.assign(Kind::Alias, new.key(), user.service_id).await? {
            return CONFLICT;
        }
        self.unassign(Kind::Alias, old.key(), user.service_id).await?;
        self.write(user, &profile).await
    }

    async fn identify(&mut self, first: Uuid, reached: Reached, id: &str) -> Outcome {
        let (second, at) = (reached.second, reached.both_at());
        self.lock_name(id).await?;
        let Some(Opened { mut user, mut profile }) = self.open_by_id(first).await? else {
            return UNKNOWN;
        };
        if user.external_id.is_some() {
            return CONFLICT;
        }
        if let Some(erased_at) = self.erased_since(id, reached.second_at).await? {
            return self.erase_opened(user, erased_at).await;
        }
        // If there was no user at that time, one may have been created by tracking the id since.
        let kept = match second {
            Some(second) => Some(self.present(second).await?),
            None => self.owner(Kind::ExternalId, id).await?,
        };
        if let Some(kept) = kept {
            let Some(kept) = self.open_by_id(kept).await? else {
                return match second {
                    Some(_) if self.present(kept).await? == kept => {
                        self.erase_opened(user, at).await
                    }
                    _ => Err(ApplyError::Changed),
                };
            };
            let (own, theirs) = (profile.aliases(), kept.profile.aliases());
            if own.iter().any(|own| theirs.iter().any(|other| other.label == own.label)) {
                return CONFLICT;
            }
            return self.merge_opened(Opened { user, profile }, kept, at).await;
        }
        profile.set_text(Field::ExternalId, id);
        if profile.bytes() > MAX_BYTES {
            return TOO_LARGE;
        }
        if !self.assign(Kind::ExternalId, id.to_owned(), user.service_id).await? {
            return Err(ApplyError::Changed);
        }
        user.external_id = Some(id.to_owned());
        user.attributes_at = user.attributes_at.max(at);
        self.write(user, &profile).await
    }

    async fn rename_id(
        &mut self,
        first: Uuid,
        reached: Reached,
        (former, id): (&str, &str),
    ) -> Outcome {
        self.lock_name(id).await?;
        let Some(Opened { mut user, mut profile }) = self.open_by_id(first).await? else {
            return UNKNOWN;
        };
        let owner = self.owner(Kind::ExternalId, id).await?;
        // The log proves that a user who was found at this position existed.
        if user.external_id.as_deref() != Some(former)
            || reached.second.is_some_and(|second| owner != Some(second))
        {
            return CONFLICT;
        }
        if let Some(erased_at) = self.erased_since(id, reached.second_at).await? {
            return self.erase_opened(user, erased_at).await;
        }
        let other = match owner {
            Some(owner) if owner == user.service_id => return CONFLICT,
            Some(owner) => Some(self.open_by_id(owner).await?.ok_or(ApplyError::Changed)?),
            None => None,
        };
        // If tracking or an import has created a user with the new id since, that is the same user.
        // A user who was given the id is a different user.
        let created_at = other.as_ref().map(|other| other.profile.text(Field::CreatedAt));
        // One who was found there came by an import while the partition was behind, if the clocks of
        // the log and the database are no doubt.
        let doubt = if reached.second.is_some() { MAX_CLOCK_DIFFERENCE_MS } else { 0 };
        let since = format_time(reached.second_at + doubt);
        let is_new = |at: Option<String>| at.is_some_and(|at| *at >= *since);
        if created_at.is_some_and(|at| !is_new(at)) {
            return CONFLICT;
        }
        if let Some(other) = &other {
            merge_profiles(&mut profile, &other.profile, Meeting::OfSameUser, self.now);
        }
        let mut deprecated = profile.deprecated_external_ids();
        deprecated.push(former.to_owned());
        profile.set_deprecated_external_ids(&deprecated);
        profile.set_text(Field::ExternalId, id);
        // Checked before anything is written: the user is renamed and merged, or neither.
        if profile.bytes() > MAX_BYTES {
            return TOO_LARGE;
        }
        if let Some(other) = other {
            self.absorb(other, &mut user, &profile, reached.both_at()).await?;
        }
        if !self.assign(Kind::ExternalId, id.to_owned(), user.service_id).await? {
            return Err(ApplyError::Changed);
        }
        user.external_id = Some(id.to_owned());
        self.write(user, &profile).await
    }

    async fn remove_id(&mut self, identifier: &Identifier<'_>) -> Outcome {
        let Identifier::ExternalId(id) = identifier else { return UNKNOWN };
        let Some(Opened { user, mut profile }) = self.open(identifier).await? else {
            return UNKNOWN;
        };
        if user.external_id.as_deref() == Some(id.as_ref()) {
            return CONFLICT;
        }
        let mut deprecated = profile.deprecated_external_ids();
        deprecated.retain(|other| other != id.as_ref());
        profile.set_deprecated_external_ids(&deprecated);
        self.unassign(Kind::ExternalId, id.to_string(), user.service_id).await?;
        self.write(user, &profile).await
    }

    /// Erases a user that a change would have merged into an erased one.
    async fn erase_opened(&mut self, user: StoredUser, erased_at: i64) -> Outcome {
        let names = find::names("", Some(&user));
        name_locks::lock(self.tx, self.workspace, &names).await?;
        let erased = find::erase(self.tx, self.workspace, &names, Some(&user), erased_at).await?;
        (self.hooks.erase)(self.tx, self.workspace, erased).await?;
        Ok(Ok(()))
    }

    /// Prevents that a user gets an unused external id before the end of the transaction.
    async fn lock_name(&mut self, id: &str) -> Result<(), ApplyError> {
        let names = [(Name::ExternalId, Cow::Borrowed(id))];
        Ok(name_locks::lock(self.tx, self.workspace, &names).await?)
    }

    /// When the user with an external id was erased, if the erasure was received after a change at
    /// this time.
    async fn erased_since(&mut self, id: &str, since: i64) -> Result<Option<i64>, ApplyError> {
        let hashes = [name_hash(Name::ExternalId, id)];
        let erased = erased_rows::find(self.tx, self.workspace, &hashes).await?;
        Ok(erased.first().map(|(_, at)| *at).filter(|at| *at >= since))
    }

    /// The user into which a user was merged; the user itself if it was not merged.
    async fn present(&mut self, id: Uuid) -> Result<Uuid, ApplyError> {
        Ok(merged_rows::present(self.tx, self.workspace, id).await?)
    }

    async fn owner(&mut self, kind: Kind, value: &str) -> Result<Option<Uuid>, ApplyError> {
        let found = rows::find_identifiers(self.tx, self.workspace, kind, &[value]).await?;
        Ok(found.first().map(|found| found.service_id))
    }

    /// Whether the identifier is an email of several users without an external id.
    async fn identifies_several(
        &mut self,
        identifier: &Identifier<'_>,
    ) -> Result<bool, ApplyError> {
        let Identifier::Email(email) = identifier else { return Ok(false) };
        let mut count = 0_u32;
        let visit = |user: StoredUser| {
            count += u32::from(user.external_id.is_none());
            if count > 1 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        email_owners::for_each_holder(self.tx, self.workspace, &[email.as_ref()], visit).await?;
        Ok(count > 1)
    }

    /// Finds a user, and locks it according to `purpose`. The service_id of a merged user
    /// identifies the kept one.
    async fn find(
        &mut self,
        identifier: &Identifier<'_>,
        purpose: For,
    ) -> Result<Option<StoredUser>, ApplyError> {
        let (kind, value) = match identifier {
            Identifier::ExternalId(id) => (Kind::ExternalId, id.to_string()),
            Identifier::UserAlias(UserAlias { alias_label, alias_name }) => {
                (Kind::Alias, Alias::key_of(alias_label, alias_name))
            }
            Identifier::ServiceId(id) if service_id::bucket(id).is_none() => return Ok(None),
            Identifier::ServiceId(id) => {
                let id = self.present(*id).await?;
                let user = rows::find_users(self.tx, self.workspace, &[id], purpose).await?.pop();
                // The transaction that held the lock may have merged it.
                return match user {
                    None if self.present(id).await? != id => Err(ApplyError::Changed),
                    user => Ok(user),
                };
            }
            Identifier::Email(email) => return self.find_by_email(email, purpose).await,
        };
        let Some(id) = self.owner(kind, &value).await? else { return Ok(None) };
        let user = rows::find_users(self.tx, self.workspace, &[id], purpose).await?.pop();
        // The transaction that held the lock may have changed it.
        match (self.owner(kind, &value).await? == Some(id), user) {
            (true, Some(user)) => Ok(Some(user)),
            (true, None) => Err(ApplyError::NoProfile(id)),
            (false, _) => Err(ApplyError::Changed),
        }
    }

    /// Of the users with an email and without an external id, the one written last.
    async fn find_by_email(
        &mut self,
        email: &str,
        purpose: For,
    ) -> Result<Option<StoredUser>, ApplyError> {
        let email = compared(email);
        let has_no_id = |user: &StoredUser| user.external_id.is_none();
        let mut owners = email_owners::find(self.tx, self.workspace, &[&email], has_no_id).await?;
        let Some(last) = owners.remove(email.as_ref()) else { return Ok(None) };
        let user = rows::find_users(self.tx, self.workspace, &[last.service_id], purpose).await?;
        let has_email = |user: &StoredUser| user.address().as_ref() == Some(&email);
        match user.into_iter().next().filter(|user| has_email(user) && has_no_id(user)) {
            Some(user) => Ok(Some(user)),
            None => Err(ApplyError::Changed),
        }
    }

    async fn open(&mut self, identifier: &Identifier<'_>) -> Result<Option<Opened>, ApplyError> {
        self.find(identifier, For::Writing).await?.map(Opened::read).transpose()
    }

    async fn open_by_id(&mut self, id: Uuid) -> Result<Option<Opened>, ApplyError> {
        Ok(self.open_all(&[id]).await?.pop())
    }

    /// The users who still exist, locked in the order of their keys.
    async fn open_all(&mut self, ids: &[Uuid]) -> Result<Vec<Opened>, ApplyError> {
        let users = rows::find_users(self.tx, self.workspace, ids, For::Writing).await?;
        users.into_iter().map(Opened::read).collect()
    }

    /// Creates an empty user.
    async fn create(&mut self, at: i64) -> Result<Opened, ApplyError> {
        let service_id = self.ids.next_anywhere(at);
        let mut profile = Profile::default();
        profile.set_text(Field::ServiceId, &service_id.to_string());
        if let Some(bucket) = service_id::bucket(&service_id) {
            profile.set_bucket(bucket);
        }
        profile.set_text(Field::CreatedAt, &format_time(at));
        let key = keys::allocate_keys(self.tx, &[service_id]).await?;
        let user = StoredUser {
            key: key.first().copied().unwrap_or_default(),
            service_id,
            external_id: None,
            email: None,
            attributes_at: at,
            doc: String::new(),
        };
        self.created += 1;
        Ok(Opened { user, profile })
    }

    /// Assigns an identifier to a user; returns false if another user has it.
    async fn assign(&mut self, kind: Kind, value: String, id: Uuid) -> Result<bool, ApplyError> {
        let new = [rows::Identifier { kind, value, service_id: id }];
        Ok(rows::add_identifiers(self.tx, self.workspace, &new).await? == 1)
    }

    async fn unassign(&mut self, kind: Kind, value: String, id: Uuid) -> Result<(), ApplyError> {
        let removed = rows::Identifier { kind, value, service_id: id };
        Ok(rows::remove_identifier(self.tx, self.workspace, &removed).await?)
    }

    async fn write(&mut self, mut user: StoredUser, profile: &Profile) -> Outcome {
        user.doc = profile.to_document();
        rows::put_users(self.tx, self.workspace, &[user]).await?;
        Ok(Ok(()))
    }
}
