//! Finds the users of objects, and changes their profiles.
//!
//! All users that objects can identify are looked up together, and unknown external ids get a new
//! user immediately. Then the objects are applied in order, each with the effects of those before.
//! Of several profiles with an email, the one with an external id that was written last counts; if
//! two were written in the same millisecond, the newer one.
//!
//! Any number of users may have one email. Of those that no object changes, only the one that the
//! email identifies is here.
//!
//! Unlike an external id, an email is not unique. But of partitions and imports that create a user
//! by an email alone at the same moment, the later one finds the user of the earlier one, because
//! the email is [locked](people::users::name_locks).

mod look_up;
mod tokens;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};

use uuid::Uuid;

use super::super::message::{Attributes, Object};
use super::ApplyError;
use super::draft::{self, Draft, TooLarge};
use super::identifier_set::registered_tokens;
use super::order_time::OrderTime;
use super::tally::Dropped;
use kit::clock::format_time;
use people::users::address::{self, compared};
use people::users::consent;
use people::users::email_owners::Rank;
use people::users::erased_rows::Name;
use people::users::identifier::Identifier;
use people::users::profile::{Alias, Field, Profile};
use people::users::rows::{self, Kind, StoredUser};
use people::users::service_id::{self, Generator};
use people::users::suppressions::{self, Contact, NewDecision};
use people::users::tokens::Registrations;
use people::users::{activity_rows, keys, merged_rows};
use store::{ByteBudget, Tx};

/// Memory of a custom attribute or one of its elements, in addition to its text.
const PIECE: usize = 64;

/// The index of a user in the [`UserSet`] that returned it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserIndex(usize);

/// A user that objects may identify.
#[derive(Debug)]
struct UserEntry {
    /// The current state, except for the document, which is the stored one. For a user that was not
    /// read, only the id is known.
    user: StoredUser,
    /// The stored row; none for a new user.
    found: Option<Found>,
    draft: Option<Draft>,
}

#[derive(Debug)]
struct Found {
    email: Option<String>,
    attributes_at: i64,
    /// Whether the user is known to exist from more than an object.
    is_sure: bool,
    is_gone: bool,
}

/// The owner of an external id.
#[derive(Clone, Copy, Debug)]
enum ExternalIdOwner {
    Known(UserIndex),
    /// A new user, created by the first object that can create it.
    New(Uuid),
    NoUser,
}

/// The users of a workspace that objects may identify.
pub struct UserSet<'a> {
    workspace: i32,
    ids: &'a Generator,
    /// Remaining memory for documents and activity.
    budget: &'a mut ByteBudget,
    users: Vec<UserEntry>,
    by_id: HashMap<Uuid, UserIndex>,
    external_ids: HashMap<&'a str, ExternalIdOwner>,
    aliases: HashMap<(&'a str, &'a str), UserIndex>,
    /// The users who have an email, by the email as it is compared, as in all maps below.
    emails: HashMap<String, BTreeSet<Rank>>,
    /// Emails with which users may be created.
    locked_emails: HashSet<String>,
    /// What the batch decides about addresses.
    decisions: Vec<NewDecision<'static>>,
    /// When the user with an identifier was erased.
    erased: HashMap<Vec<u8>, i64>,
    /// The owners of the push tokens that objects register.
    tokens: Registrations,
    /// Whether a user got another email since it was looked up.
    is_outdated: bool,
}

impl<'a> UserSet<'a> {
    /// The index of a stored user, which is added if it is new here.
    fn index(&mut self, id: Uuid, is_sure: bool) -> UserIndex {
        let index = *self.by_id.entry(id).or_insert(UserIndex(self.users.len()));
        if index.0 == self.users.len() {
            let found = Found { email: None, attributes_at: 0, is_sure, is_gone: false };
            let user = StoredUser {
                key: 0,
                service_id: id,
                external_id: None,
                email: None,
                attributes_at: 0,
                doc: String::new(),
            };
            self.users.push(UserEntry { user, found: Some(found), draft: None });
        }
        if let Some(found) = &mut self.users[index.0].found {
            found.is_sure |= is_sure;
        }
        index
    }

    /// Sets the row of a user that has an index.
    fn set_row(&mut self, user: StoredUser) {
        let Some(index) = self.by_id.get(&user.service_id).copied() else { return };
        self.unindex_email(index);
        let entry = &mut self.users[index.0];
        if let Some(found) = &mut entry.found {
            found.email.clone_from(&user.email);
            found.attributes_at = user.attributes_at;
        }
        entry.user = user;
        self.index_email(index);
    }

    /// Adds a user to those who have the user's email.
    fn index_email(&mut self, index: UserIndex) {
        let user = &self.users[index.0].user;
        if let Some(email) = user.address() {
            self.emails.entry(email.into_owned()).or_default().insert(Rank::new(user));
        }
    }

    /// Removes a user whose row will change from those who have the user's email.
    fn unindex_email(&mut self, index: UserIndex) {
        let user = &self.users[index.0].user;
        if let Some(email) = user.address()
            && let Some(users) = self.emails.get_mut(&*email)
        {
            users.remove(&Rank::new(user));
        }
    }

    /// Handles users that were not found. Users known only from objects do not exist, unless they
    /// were merged meanwhile; the others were erased or merged.
    async fn check_missing(
        &mut self,
        tx: &mut Tx,
        missing: &HashSet<Uuid>,
    ) -> Result<(), ApplyError> {
        let mut sure = HashSet::new();
        for id in missing {
            if let Some(found) =
                self.by_id.get(id).and_then(|index| self.users[index.0].found.as_mut())
            {
                found.is_gone = true;
                sure.extend(found.is_sure.then_some(*id));
            }
        }
        let unsure: Vec<Uuid> = missing.difference(&sure).copied().collect();
        if !merged_rows::find_merged(tx, self.workspace, &unsure).await?.is_empty() {
            return Err(ApplyError::Changed);
        }
        if sure.is_empty() {
            return Ok(());
        }
        // If an identifier still refers to the user, the user would be missing each time.
        let is_missing = |user: &UserIndex| sure.contains(&self.service_id(*user));
        let external_ids: Vec<&str> = self
            .external_ids
            .iter()
            .filter(|(_, owner)| matches!(owner, ExternalIdOwner::Known(user) if is_missing(user)))
            .map(|(value, _)| *value)
            .collect();
        let aliases = self.aliases.iter().filter(|(_, user)| is_missing(user));
        let aliases: Vec<String> =
            aliases.map(|((label, name), _)| Alias::key_of(label, name)).collect();
        let aliases: Vec<&str> = aliases.iter().map(String::as_str).collect();
        for (kind, values) in [(Kind::ExternalId, external_ids), (Kind::Alias, aliases)] {
            let known = rows::find_identifiers(tx, self.workspace, kind, &values).await?;
            if let Some(known) = known.iter().find(|known| sure.contains(&known.service_id)) {
                return Err(ApplyError::NoProfile(known.service_id));
            }
        }
        Err(ApplyError::Changed)
    }

    /// The index of the user that an object identifies; it may create the user.
    pub fn find_or_create(
        &mut self,
        object: &'a Object<'a>,
        at: OrderTime,
    ) -> Result<UserIndex, Dropped> {
        let at = at.ms();
        let creates = !object.update_only();
        let found = match object.user() {
            Identifier::ExternalId(id) => {
                let (owner, id) = (self.external_ids.get(id.as_ref()).copied(), id.as_ref());
                return match owner {
                    Some(ExternalIdOwner::Known(user)) => Ok(user),
                    _ if !creates => Err(Dropped::UnknownUser),
                    _ if self.is_erased(Name::ExternalId, id, at) => Err(Dropped::Erased),
                    Some(ExternalIdOwner::New(service_id)) => {
                        let user = self.create(service_id, Some(id), None, at);
                        self.external_ids.insert(id, ExternalIdOwner::Known(user));
                        Ok(user)
                    }
                    _ => Err(Dropped::UnknownUser),
                };
            }
            Identifier::ServiceId(id) => self.by_id.get(id).copied(),
            Identifier::UserAlias(alias) => {
                let key = (alias.alias_label.as_ref(), alias.alias_name.as_ref());
                self.aliases.get(&key).copied()
            }
            Identifier::Email(email) => {
                let compared = compared(email);
                match self.owner_of_email(&compared) {
                    None if !creates => None,
                    None if self.is_erased(Name::Email, &compared, at) => {
                        return Err(Dropped::Erased);
                    }
                    None => {
                        self.is_outdated |= !self.locked_emails.contains(compared.as_ref());
                        let id = self.ids.next_anywhere(at);
                        Some(self.create(id, None, Some(email), at))
                    }
                    found => found,
                }
            }
        };
        found.filter(|user| self.exists(*user)).ok_or(Dropped::UnknownUser)
    }

    /// Whether a user exists. One that only an object names counts as existing until its rows are
    /// read.
    pub fn exists(&self, user: UserIndex) -> bool {
        self.users[user.0].found.as_ref().is_none_or(|found| !found.is_gone)
    }

    fn owner_of_email(&self, email: &str) -> Option<UserIndex> {
        let owner = self.emails.get(email)?.last()?;
        self.by_id.get(&owner.service_id).copied()
    }

    fn create(
        &mut self,
        service_id: Uuid,
        external_id: Option<&str>,
        email: Option<&str>,
        created_at: i64,
    ) -> UserIndex {
        let mut profile = Profile::default();
        profile.set_text(Field::ServiceId, &service_id.to_string());
        if let Some(bucket) = service_id::bucket(&service_id) {
            profile.set_bucket(bucket);
        }
        profile.set_text(Field::CreatedAt, &format_time(created_at));
        external_id.into_iter().for_each(|id| profile.set_text(Field::ExternalId, id));
        email.into_iter().for_each(|email| profile.set_text(Field::Email, email));
        let user = StoredUser {
            key: 0,
            service_id,
            external_id: external_id.map(str::to_owned),
            email: email.map(address::stored),
            attributes_at: created_at,
            doc: String::new(),
        };
        let index = UserIndex(self.users.len());
        self.by_id.insert(service_id, index);
        self.users.push(UserEntry { user, found: None, draft: Some(Draft::new(profile)) });
        self.index_email(index);
        index
    }

    /// Changes a profile; returns how many changes did not match. `now` is the database's time.
    pub fn change(
        &mut self,
        index: UserIndex,
        attributes: &Attributes<'_>,
        at: OrderTime,
        now: i64,
    ) -> Result<Result<u64, Dropped>, ApplyError> {
        let decided_at = at.decided(now);
        let writes =
            |field: Field| attributes.fields.0.iter().any(|(name, _)| name == field.name());
        // A new user has no former zone.
        let may_move = writes(Field::TimeZone) && !self.is_new(index);
        let draft = self.draft(index)?;
        let token_bytes = if writes(Field::PushTokens) { draft.token_bytes() } else { 0 };
        let pieces = draft.pieces();
        let former_zone = may_move.then(|| draft.text(Field::TimeZone));
        let former_phone = writes(Field::Phone).then(|| draft.text(Field::Phone));
        let changed = draft.change(attributes, decided_at);
        if let Some(former) = former_zone {
            draft.mark_time_zone(former.as_deref(), now);
        }
        let pieces = draft.pieces() - pieces;
        self.budget.take(pieces * PIECE + token_bytes)?;
        let changed = changed.map_err(|why| ApplyError::Profile(self.service_id(index), why))?;
        let former = self.users[index.0].user.address().map(Cow::into_owned);
        if changed.is_ok() {
            self.unindex_email(index);
            let UserEntry { user, draft, .. } = &mut self.users[index.0];
            user.attributes_at = user.attributes_at.max(at.ms());
            if writes(Field::Email) {
                let email = draft.as_ref().and_then(|draft| draft.text(Field::Email));
                user.email = email.map(|email| address::stored(&email));
            }
            self.index_email(index);
        }
        let email_changed = self.users[index.0].user.address().as_deref() != former.as_deref();
        let is_new = self.is_new(index);
        let draft = self.draft(index)?;
        let phone_changed = former_phone.is_some_and(|former| former != draft.text(Field::Phone));
        let sets_state = !attributes.groups.is_empty()
            || attributes
                .fields
                .0
                .iter()
                .any(|(name, _)| Field::from_name(name).is_some_and(consent::is_state));
        if sets_state || ((email_changed || phone_changed) && !is_new) {
            let mut consent = draft.consent();
            if email_changed && !is_new {
                consent.changed_email(decided_at);
            }
            if phone_changed && !is_new {
                consent.changed_phone(decided_at);
            }
            draft.set_consent(&consent);
            // An opt-out reaches the address, and with it the other users who have it, even if the
            // user decided otherwise later.
            let (email, phone) = (draft.text(Field::Email), draft.text(Field::Phone));
            let contact = Contact { email: email.map(Cow::Owned), phone: phone.map(Cow::Owned) };
            let decided = draft::decisions(attributes, decided_at);
            let opt_outs = suppressions::opt_outs(&decided, &contact).into_iter();
            let is_about_present = |opt_out: &NewDecision<'_>| {
                consent.is_of_present_address(opt_out.topic(), decided_at)
            };
            self.decisions.extend(opt_outs.filter(is_about_present));
            // The user had the address already when an opt-out that was applied before was received.
            let applied = suppressions::opt_outs(&consent, &contact).into_iter();
            self.decisions.extend(applied.filter(|opt_out| opt_out.at > decided_at));
        }
        if changed.is_ok() {
            self.register_tokens(index, &registered_tokens(attributes), decided_at);
        }
        Ok(changed.map_err(|TooLarge| Dropped::TooLarge))
    }

    /// Adds decisions about addresses.
    pub fn decide(&mut self, decisions: Vec<NewDecision<'static>>) {
        self.decisions.extend(decisions);
    }

    /// The profile that objects change.
    fn draft(&mut self, index: UserIndex) -> Result<&mut Draft, ApplyError> {
        let UserEntry { user, draft, .. } = &mut self.users[index.0];
        match draft {
            Some(draft) => Ok(draft),
            None => Ok(draft.insert(
                Draft::open(&user.doc, user.attributes_at)
                    .map_err(|why| ApplyError::Profile(user.service_id, why))?,
            )),
        }
    }

    /// Locks and reads the activity of some users, all of which must exist: a missing one was
    /// erased.
    pub async fn lock_activity(
        &mut self,
        tx: &mut Tx,
        users: &[UserIndex],
    ) -> Result<HashMap<UserIndex, Vec<u8>>, ApplyError> {
        if self.is_outdated {
            return Err(ApplyError::Changed);
        }
        let stored = users.iter().filter(|user| !self.is_new(**user));
        let ids: Vec<Uuid> = stored.map(|user| self.service_id(*user)).collect();
        let mut missing: HashSet<Uuid> = ids.iter().copied().collect();
        let mut bodies = HashMap::with_capacity(ids.len());
        for stored in activity_rows::lock_activity(tx, self.workspace, &ids, self.budget).await? {
            missing.remove(&stored.service_id);
            if let Some(user) = self.by_id.get(&stored.service_id) {
                self.users[user.0].user.key = stored.key;
                bodies.extend(stored.body.map(|body| (*user, body)));
            }
        }
        self.check_missing(tx, &missing).await?;
        Ok(bodies)
    }

    pub fn service_id(&self, user: UserIndex) -> Uuid {
        self.users[user.0].user.service_id
    }

    /// Writes the changed profiles, then activity; returns how many users are new.
    pub async fn write(
        mut self,
        tx: &mut Tx,
        activity: Vec<(UserIndex, Vec<u8>)>,
    ) -> Result<u64, ApplyError> {
        let users = (0..self.users.len()).map(UserIndex);
        let new: Vec<UserIndex> = users.filter(|user| self.is_new(*user)).collect();
        let ids: Vec<Uuid> = new.iter().map(|user| self.service_id(*user)).collect();
        for (user, key) in new.iter().zip(keys::allocate_keys(tx, &ids).await?) {
            self.users[user.0].user.key = key;
        }
        let mut activity: Vec<(i64, Uuid, Vec<u8>)> = activity
            .into_iter()
            .map(|(user, body)| {
                let user = &self.users[user.0].user;
                (user.key, user.service_id, body)
            })
            .collect();
        activity.sort_unstable_by_key(|(_, id, _)| key_order(id));

        let (mut emails, mut former_emails) = (Vec::new(), Vec::new());
        let tokens = std::mem::take(&mut self.tokens);
        let mut users: Vec<StoredUser> = Vec::new();
        for entry in std::mem::take(&mut self.users) {
            let Some((user, former)) = entry.changed() else { continue };
            if user.email != former {
                emails.extend(user.email.clone().map(|email| (email, user.service_id)));
                former_emails.extend(former.map(|email| (email, user.service_id)));
            }
            users.push(user);
        }
        users.sort_unstable_by_key(|user| key_order(&user.service_id));
        emails.sort_unstable();
        former_emails.sort_unstable();
        rows::remove_emails(tx, self.workspace, &former_emails).await?;
        rows::add_emails(tx, self.workspace, &emails).await?;
        rows::put_users(tx, self.workspace, &users).await?;
        suppressions::decide(tx, self.workspace, &self.decisions).await?;
        activity_rows::put_activity(tx, self.workspace, &activity).await?;
        tokens.write(tx, self.workspace).await?;
        Ok(new.len() as u64)
    }

    fn is_new(&self, user: UserIndex) -> bool {
        self.users[user.0].found.is_none()
    }
}

impl UserEntry {
    /// The row to write, if it has changed, and its former email.
    fn changed(self) -> Option<(StoredUser, Option<String>)> {
        let doc = self.draft?.into_document();
        let (attributes_at, former) = match self.found {
            None => (None, None),
            Some(found) => (Some(found.attributes_at), found.email),
        };
        let is_same = doc == self.user.doc && attributes_at == Some(self.user.attributes_at);
        (!is_same).then_some((StoredUser { doc, ..self.user }, former))
    }
}

/// The order of the keys, in which rows of users are written.
fn key_order(id: &Uuid) -> (i16, Uuid) {
    (service_id::bucket(id).map_or(i16::MAX, service_id::slice_of), *id)
}
