//! Changes of who users are: aliases, external ids, merging, erasing. One after the other, each in
//! the order of the log with whatever is tracked of the user it names.
//!
//! A change that names two users is said to the partitions of both. It happens as soon as both
//! users are there, and again if tracking that was received before it creates the one again that
//! went. A user who was created later is left alone.

use std::borrow::Cow;

use futures::future::BoxFuture;
use jiff::civil::Date;
use uuid::Uuid;

use super::super::message::{Identity, IdentityChange};
use super::wanted::compared;
use super::{ApplyError, Dropped};
use crate::users::activity::Activity;
use crate::users::find::{self, Name};
use crate::users::identifier::{Identifier, UserAlias};
use crate::users::profile::{Alias, Field, MAX_BYTES, Profile};
use crate::users::rows::{self, For, Kind, StoredUser};
use crate::users::service_id::{self, Generator};
use crate::users::{activity_rows, keys, name_locks};
use kit::clock::format_time;
use kit::json::{self, Members};
use store::{Room, StoreError, Tx};

/// Removes what the domains that tracking does not know have of a user.
pub type Forget = for<'a> fn(&'a mut Tx, i32, Uuid) -> BoxFuture<'a, Result<(), StoreError>>;

/// The result of a change.
type Outcome = Result<Result<(), Dropped>, ApplyError>;

const UNKNOWN: Outcome = Ok(Err(Dropped::UnknownUser));
const CONFLICT: Outcome = Ok(Err(Dropped::Conflict));

/// Applies changes of one workspace.
pub(super) struct Identities<'a> {
    pub tx: &'a mut Tx,
    pub workspace: i32,
    pub ids: &'a Generator,
    pub forget: Forget,
    pub today: Date,
    /// Users who were created.
    pub created: u64,
}

/// A user whose rows are locked, and the profile.
struct Opened {
    user: StoredUser,
    profile: Profile,
}

impl Identities<'_> {
    pub async fn apply(&mut self, identity: &Identity<'_>, received_at: i64) -> Outcome {
        let user = &identity.user;
        match &identity.change {
            IdentityChange::Erase => self.erase(user, received_at).await,
            IdentityChange::AddAlias(alias) => self.add_alias(user, alias, received_at).await,
            IdentityChange::RenameAlias(name) => self.rename_alias(user, name).await,
            IdentityChange::Identify(id) => self.identify(user, id, received_at).await,
            IdentityChange::MergeInto(kept) => self.merge(user, kept, received_at).await,
            IdentityChange::Absorb(gone) => self.merge(gone, user, received_at).await,
            IdentityChange::RenameExternalId(id) => self.rename_id(user, id, received_at).await,
            IdentityChange::RemoveExternalId => self.remove_id(user).await,
        }
    }

    async fn erase(&mut self, who: &Identifier<'_>, received_at: i64) -> Outcome {
        // What was received later in this partition comes later; names are locked as by whoever
        // creates users by them.
        let seen = self.find(who, For::Reading).await?;
        let named = match who {
            Identifier::ExternalId(id) => vec![(Name::ExternalId, Cow::Borrowed(id.as_ref()))],
            _ => Vec::new(),
        };
        let names_seen = seen.as_ref().map_or(named, |user| find::names("", Some(user)));
        name_locks::lock(self.tx, self.workspace, &names_seen).await?;
        let user = self.find(who, For::Erasing).await?;
        let names = user.as_ref().map(|user| find::names("", Some(user)));
        if names.is_some() != seen.is_some() || names.is_some_and(|names| names != names_seen) {
            return Err(ApplyError::Changed);
        }
        find::remove(self.tx, self.workspace, &names_seen, user.as_ref(), received_at).await?;
        match user {
            Some(user) => {
                (self.forget)(self.tx, self.workspace, user.service_id).await?;
                Ok(Ok(()))
            }
            None => UNKNOWN,
        }
    }

    async fn add_alias(
        &mut self,
        who: &Identifier<'_>,
        UserAlias { alias_label, alias_name }: &UserAlias<'_>,
        received_at: i64,
    ) -> Outcome {
        let alias = Alias { label: alias_label.clone().into(), name: alias_name.clone().into() };
        if self.owner(Kind::Alias, &alias.key()).await?.is_some() {
            return CONFLICT;
        }
        let opened = match self.open(who).await? {
            Some(opened) => opened,
            None if matches!(who, Identifier::UserAlias(_)) => self.create(received_at).await?,
            None => return UNKNOWN,
        };
        let Opened { mut user, mut profile } = opened;
        let mut aliases = profile.aliases();
        // Of a label a user has one alias.
        if aliases.iter().any(|other| other.label == alias.label) {
            return CONFLICT;
        }
        aliases.push(alias.clone());
        profile.set_aliases(&aliases);
        if !self.give(Kind::Alias, alias.key(), user.service_id).await? {
            return Err(ApplyError::Changed);
        }
        user.attributes_at = user.attributes_at.max(received_at);
        self.write(user, &profile).await
    }

    async fn rename_alias(&mut self, who: &Identifier<'_>, name: &str) -> Outcome {
        let Identifier::UserAlias(UserAlias { alias_label, alias_name }) = who else {
            return UNKNOWN;
        };
        let Some(Opened { user, mut profile }) = self.open(who).await? else { return UNKNOWN };
        let alias = |name: &str| Alias { label: alias_label.to_string(), name: name.to_owned() };
        let (old, new) = (alias(alias_name), alias(name));
        if !self.give(Kind::Alias, new.key(), user.service_id).await? {
            return CONFLICT;
        }
        self.take(Kind::Alias, old.key(), user.service_id).await?;
        let aliases = profile.aliases().into_iter();
        let aliases: Vec<_> =
            aliases.map(|alias| if alias == old { new.clone() } else { alias }).collect();
        profile.set_aliases(&aliases);
        self.write(user, &profile).await
    }

    async fn identify(&mut self, who: &Identifier<'_>, id: &str, received_at: i64) -> Outcome {
        let Some(Opened { mut user, mut profile }) = self.open(who).await? else { return UNKNOWN };
        if user.external_id.is_some() {
            return CONFLICT;
        }
        let known = Identifier::ExternalId(Cow::Borrowed(id));
        if self.owner(Kind::ExternalId, id).await?.is_some() {
            let Some(kept) = self.open(&known).await? else { return UNKNOWN };
            let (own, theirs) = (profile.aliases(), kept.profile.aliases());
            if own.iter().any(|own| theirs.iter().any(|other| other.label == own.label)) {
                return CONFLICT;
            }
            return self.merge_opened(Opened { user, profile }, kept).await;
        }
        if !self.give(Kind::ExternalId, id.to_owned(), user.service_id).await? {
            return Err(ApplyError::Changed);
        }
        profile.set_text(Field::ExternalId, id);
        user.external_id = Some(id.to_owned());
        user.attributes_at = user.attributes_at.max(received_at);
        self.write(user, &profile).await
    }

    async fn merge(
        &mut self,
        gone: &Identifier<'_>,
        kept: &Identifier<'_>,
        received_at: i64,
    ) -> Outcome {
        let (Some(gone), Some(kept)) = (self.open(gone).await?, self.open(kept).await?) else {
            return UNKNOWN;
        };
        let is_later = service_id::millis(&gone.user.service_id) > received_at;
        if is_later || gone.user.service_id == kept.user.service_id {
            return CONFLICT;
        }
        self.merge_opened(gone, kept).await
    }

    /// Makes a user a part of another one, and removes it.
    async fn merge_opened(&mut self, gone: Opened, kept: Opened) -> Outcome {
        let Opened { mut user, mut profile } = kept;
        merge_profiles(&mut profile, &gone.profile);
        if profile.bytes() > MAX_BYTES {
            return Ok(Err(Dropped::TooLarge));
        }
        let activity = self.merged_activity(&gone.user, &user).await?;
        find::remove(self.tx, self.workspace, &[], Some(&gone.user), 0).await?;
        (self.forget)(self.tx, self.workspace, gone.user.service_id).await?;
        for alias in gone.profile.aliases() {
            self.give(Kind::Alias, alias.key(), user.service_id).await?;
        }
        if user.email.is_none() {
            user.email = profile.text(Field::Email).map(|email| compared(&email).into_owned());
            let email = user.email.iter().map(|email| (email.clone(), user.service_id));
            rows::add_emails(self.tx, self.workspace, &email.collect::<Vec<_>>()).await?;
        }
        user.attributes_at = user.attributes_at.max(gone.user.attributes_at);
        let row = [(user.key, user.service_id, activity)];
        self.write(user, &profile).await?.ok();
        activity_rows::put_activity(self.tx, self.workspace, &row).await?;
        Ok(Ok(()))
    }

    /// What both users did.
    async fn merged_activity(
        &mut self,
        gone: &StoredUser,
        kept: &StoredUser,
    ) -> Result<Vec<u8>, ApplyError> {
        let ids = [gone.service_id, kept.service_id];
        let (workspace, mut room) = (self.workspace, Room::endless());
        let stored = activity_rows::lock_activity(self.tx, workspace, &ids, &mut room).await?;
        let mut all = Activity::default();
        // What the kept user did last decides between what happened at the same moment.
        for id in [kept.service_id, gone.service_id] {
            let found = stored.iter().find(|stored| stored.service_id == id);
            if let Some(body) = found.and_then(|stored| stored.body.as_deref()) {
                let one = Activity::decode(body).map_err(|why| ApplyError::Activity(id, why))?;
                all.absorb(&one);
            }
        }
        all.prune(self.today);
        all.prune_names();
        Ok(all.encode())
    }

    async fn rename_id(&mut self, who: &Identifier<'_>, id: &str, received_at: i64) -> Outcome {
        let Identifier::ExternalId(former) = who else { return UNKNOWN };
        let names = [(Name::ExternalId, Cow::Borrowed(id))];
        name_locks::lock(self.tx, self.workspace, &names).await?;
        let Some(Opened { mut user, mut profile }) = self.open(who).await? else { return UNKNOWN };
        if user.external_id.as_deref() != Some(former.as_ref()) {
            return CONFLICT;
        }
        if self.owner(Kind::ExternalId, id).await?.is_some() {
            // Whoever was tracked by the new id before it was known here is the same user.
            let other = self.open(&Identifier::ExternalId(Cow::Borrowed(id))).await?;
            let other = other.filter(|other| {
                other.user.service_id != user.service_id
                    && service_id::millis(&other.user.service_id) >= received_at
            });
            let Some(other) = other else { return CONFLICT };
            let kept = Opened { user, profile };
            if let Err(why) = self.merge_opened(other, kept).await? {
                return Ok(Err(why));
            }
            let Some(again) = self.open(who).await? else { return UNKNOWN };
            Opened { user, profile } = again;
        }
        if !self.give(Kind::ExternalId, id.to_owned(), user.service_id).await? {
            return Err(ApplyError::Changed);
        }
        let mut deprecated = profile.deprecated_external_ids();
        deprecated.push(former.to_string());
        profile.set_deprecated_external_ids(&deprecated);
        profile.set_text(Field::ExternalId, id);
        user.external_id = Some(id.to_owned());
        self.write(user, &profile).await
    }

    async fn remove_id(&mut self, who: &Identifier<'_>) -> Outcome {
        let Identifier::ExternalId(id) = who else { return UNKNOWN };
        let Some(Opened { user, mut profile }) = self.open(who).await? else { return UNKNOWN };
        if user.external_id.as_deref() == Some(id.as_ref()) {
            return CONFLICT;
        }
        let mut deprecated = profile.deprecated_external_ids();
        deprecated.retain(|other| other != id.as_ref());
        profile.set_deprecated_external_ids(&deprecated);
        self.take(Kind::ExternalId, id.to_string(), user.service_id).await?;
        self.write(user, &profile).await
    }

    async fn owner(&mut self, kind: Kind, value: &str) -> Result<Option<Uuid>, ApplyError> {
        let found = rows::find_identifiers(self.tx, self.workspace, kind, &[value]).await?;
        Ok(found.first().map(|found| found.service_id))
    }

    /// The user, found and locked as `purpose` says.
    async fn find(
        &mut self,
        who: &Identifier<'_>,
        purpose: For,
    ) -> Result<Option<StoredUser>, ApplyError> {
        let (kind, value) = match who {
            Identifier::ExternalId(id) => (Kind::ExternalId, id.to_string()),
            Identifier::UserAlias(UserAlias { alias_label, alias_name }) => {
                (Kind::Alias, Alias::key_of(alias_label, alias_name))
            }
            Identifier::ServiceId(id) if service_id::bucket(id).is_none() => return Ok(None),
            Identifier::ServiceId(id) => {
                return Ok(rows::find_users(self.tx, self.workspace, &[*id], purpose).await?.pop());
            }
            Identifier::Email(email) => return self.find_by_email(email, purpose).await,
        };
        let Some(id) = self.owner(kind, &value).await? else { return Ok(None) };
        let user = rows::find_users(self.tx, self.workspace, &[id], purpose).await?.pop();
        // Who was waited for may have changed it.
        match (self.owner(kind, &value).await? == Some(id), user) {
            (true, Some(user)) => Ok(Some(user)),
            (true, None) => Err(ApplyError::Nobody(id)),
            (false, _) => Err(ApplyError::Changed),
        }
    }

    /// Of those with an address who have no external id, the one written last.
    async fn find_by_email(
        &mut self,
        email: &str,
        purpose: For,
    ) -> Result<Option<StoredUser>, ApplyError> {
        let email = compared(email);
        let hinted = rows::find_emails(self.tx, self.workspace, &[&email]).await?;
        let users = rows::find_users(self.tx, self.workspace, &hinted, purpose).await?;
        let has_it =
            |user: &StoredUser| user.email.as_deref() == Some(&email) && user.external_id.is_none();
        let users = users.into_iter().filter(has_it);
        Ok(users.max_by_key(|user| (user.attributes_at, user.service_id)))
    }

    async fn open(&mut self, who: &Identifier<'_>) -> Result<Option<Opened>, ApplyError> {
        let Some(user) = self.find(who, For::Writing).await? else { return Ok(None) };
        let profile =
            Profile::parse(&user.doc).map_err(|why| ApplyError::Profile(user.service_id, why))?;
        Ok(Some(Opened { user, profile }))
    }

    /// A user who has nothing yet.
    async fn create(&mut self, received_at: i64) -> Result<Opened, ApplyError> {
        let service_id = self.ids.next_anywhere(received_at);
        let mut profile = Profile::default();
        profile.set_text(Field::ServiceId, &service_id.to_string());
        if let Some(bucket) = service_id::bucket(&service_id) {
            profile.set_bucket(bucket);
        }
        profile.set_text(Field::CreatedAt, &format_time(received_at));
        let key = keys::allocate_keys(self.tx, &[service_id]).await?;
        let user = StoredUser {
            key: key.first().copied().unwrap_or_default(),
            service_id,
            external_id: None,
            email: None,
            attributes_at: received_at,
            doc: String::new(),
        };
        self.created += 1;
        Ok(Opened { user, profile })
    }

    /// Has an identifier name a user, unless it names another one.
    async fn give(&mut self, kind: Kind, value: String, id: Uuid) -> Result<bool, ApplyError> {
        let new = [rows::Identifier { kind, value, service_id: id }];
        Ok(rows::add_identifiers(self.tx, self.workspace, &new).await? == 1)
    }

    async fn take(&mut self, kind: Kind, value: String, id: Uuid) -> Result<(), ApplyError> {
        let gone = rows::Identifier { kind, value, service_id: id };
        Ok(rows::remove_identifier(self.tx, self.workspace, &gone).await?)
    }

    async fn write(&mut self, mut user: StoredUser, profile: &Profile) -> Outcome {
        user.doc = profile.to_document();
        rows::put_users(self.tx, self.workspace, &[user]).await?;
        Ok(Ok(()))
    }
}

/// Gives a profile what it lacks and the other one has.
fn merge_profiles(kept: &mut Profile, gone: &Profile) {
    for field in Field::ALL {
        let Some(value) = gone.get(field) else { continue };
        let own = kept.get(field);
        let merged = match field {
            Field::ServiceId
            | Field::ExternalId
            | Field::RandomBucket
            | Field::CreatedAt
            | Field::DeprecatedExternalIds => continue,
            Field::UserAliases => {
                let mut aliases = kept.aliases();
                aliases.extend(gone.aliases());
                kept.set_aliases(&aliases);
                continue;
            }
            // Texts of one form, which compare as the times do.
            Field::DateOfFirstSession => own.filter(|own| *own < value).unwrap_or(value).to_owned(),
            Field::DateOfLastSession => own.filter(|own| *own > value).unwrap_or(value).to_owned(),
            Field::CustomAttributes => match own.and_then(|own| merged_members(own, value)) {
                Some(members) => members,
                None => own.unwrap_or(value).to_owned(),
            },
            _ => own.unwrap_or(value).to_owned(),
        };
        kept.set_json(field, merged);
    }
}

/// The fields of both objects, those of the first where both have one.
fn merged_members(own: &str, others: &str) -> Option<String> {
    let (own, others): (Members<'_>, Members<'_>) =
        (json::parse(own).ok()?, json::parse(others).ok()?);
    let more = others.0.iter().filter(|(name, _)| own.get(name).is_none());
    let mut out = String::new();
    for (name, value) in own.0.iter().chain(more) {
        out.push(if out.is_empty() { '{' } else { ',' });
        json::push_string(&mut out, name);
        out.push(':');
        out.push_str(value.get());
    }
    out.push('}');
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_gets_what_it_lacks() {
        let profile = |json: &str| Profile::parse(json).unwrap();
        let mut kept = profile(
            r#"{"service_id":"k","first_name":"Ann","custom_attributes":{"a":1},"date_of_first_session":"2020","date_of_last_session":"2021"}"#,
        );
        let gone = profile(
            r#"{"service_id":"g","external_id":"x","first_name":"Old","last_name":"Lee","custom_attributes":{"a":2,"b":1.10},"date_of_first_session":"2019","date_of_last_session":"2022"}"#,
        );
        merge_profiles(&mut kept, &gone);
        assert_eq!(
            kept.to_document(),
            r#"{"service_id":"k","first_name":"Ann","last_name":"Lee","custom_attributes":{"a":1,"b":1.10},"date_of_first_session":"2019","date_of_last_session":"2022"}"#
        );
    }
}
