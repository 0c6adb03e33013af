//! Finds the user of a record, and changes the rows.
//!
//! All users that a batch could touch are looked up together; then the records are applied one
//! after the other, each with the effects of those before; then the changed users are written, each
//! once.
//!
//! The first known identifier of a record decides, in this order: service_id, external_id, alias.
//! An email identifies a user only if the record has none of these: of several users with the
//! address, the one written last that has an external_id, otherwise the one written last. A
//! replaced profile keeps its service_id, its bucket, and the identifiers that the record does not
//! contain: a user's identity is independent of the profile. It also [keeps](kept) fields that
//! exports do not contain. A push token of the record is removed from the user who had it. A record
//! with the service_id of a merged user is rejected: that id stands for the kept user.

mod find;
mod write;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

use jiff::civil::Date;
use uuid::Uuid;

use super::kept::{self, AddressChanges, Kept};
use super::overlap::Identities;
use super::{ImportError, MAX_REMOVED, new_rows, removed};
use crate::users::activity::Activity;
use crate::users::address::compared;
use crate::users::consent::{self, Consent};
use crate::users::erased_rows::Name;
use crate::users::profile::{Alias, Field, MAX_BYTES, MergedProfile, Profile, check};
use crate::users::record::{Record, RecordError};
use crate::users::rows::{self, For, Identifier, Kind, StoredUser};
use crate::users::service_id::{self, Generator};
use crate::users::suppressions::{
    self, Address, AddressState, AddressStates, Contact, NewDecision,
};
use crate::users::tokens::{self, Registered, Registrations, Token, TokenKey};
use crate::users::{devices, email_owners, large_rows, merged_rows, name_locks};
use kit::clock::format_time;
use store::{StoreError, Tx};

/// A user of the batch: as stored, or new.
struct ImportedUser<'r> {
    service_id: Uuid,
    /// The row as it was read.
    stored: Option<StoredUser>,
    /// The aliases of the row as it was read.
    stored_aliases: Vec<Alias>,
    external_id: Option<String>,
    aliases: Vec<Alias>,
    /// Former external ids that still identify the user.
    deprecated_ids: Vec<String>,
    email: Option<String>,
    phone: Option<String>,
    /// The values of these fields, as JSON.
    created_at: String,
    time_zone: Option<String>,
    /// The part of the profile that a record does not replace.
    kept: Profile,
    /// The opt-outs of the record that was applied last.
    opt_outs: Vec<NewDecision<'static>>,
    /// When it was written: in milliseconds since the epoch, then by order within the batch.
    written: (i64, usize),
    change: Option<Change<'r>>,
}

struct Change<'r> {
    doc: String,
    /// That of the record; none for a user who only lost push tokens.
    activity: Option<&'r Activity<'static>>,
}

/// The effect of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    pub is_new: bool,
    /// Whether a state stays `unsubscribed` although the record has another one.
    pub is_overruled: bool,
}

/// The email and the phone number of a record.
type RecordAddress<'r> = (Option<Cow<'r, str>>, Option<Cow<'r, str>>);

/// The users of a batch of records.
#[derive(Default)]
pub struct ImportedUsers<'r> {
    imported: Vec<ImportedUser<'r>>,
    // The values are indexes into `imported`.
    by_id: HashMap<Uuid, usize>,
    by_external_id: HashMap<String, usize>,
    by_alias: HashMap<String, usize>,
    /// Only for the addresses that identify the user of a record.
    by_email: HashMap<Cow<'r, str>, Vec<usize>>,
    tokens: Registrations,
    /// The users into which users of records were merged.
    merged: HashMap<Uuid, Uuid>,
    /// What was known before about the addresses of records that set a state, by the address.
    address_states: HashMap<RecordAddress<'r>, AddressState>,
    /// The opt-outs of the records before, by the address.
    opt_outs: HashMap<String, Vec<NewDecision<'static>>>,
    applied: usize,
}

/// How an address is compared.
fn address_key(address: &Address<'_>) -> Option<String> {
    match address {
        Address::Email(email) => Some(compared(email).into_owned()),
        Address::Phone(phone) => Some(phone.to_string()),
        Address::Hashed(_) => None,
    }
}

impl<'r> ImportedUsers<'r> {
    /// The users that one of the records may identify or take a push token from. Locks in the order
    /// of tracking: addresses that can create users, push tokens, profiles.
    pub async fn look_up(
        tx: &mut Tx,
        workspace: i32,
        records: &'r [Record],
        purpose: For,
    ) -> Result<Self, ImportError> {
        let external_ids: Vec<&str> =
            records.iter().filter_map(|r| r.external_id.as_deref()).collect();
        let alias_keys: Vec<String> =
            records.iter().flat_map(|r| &r.aliases).map(Alias::key).collect();
        let alias_keys: Vec<&str> = alias_keys.iter().map(String::as_str).collect();
        let by_email: HashMap<Cow<'r, str>, Vec<usize>> = records
            .iter()
            .filter(|r| by_email_only(r))
            .filter_map(Record::address)
            .map(|email| (email, Vec::new()))
            .collect();
        let emails: Vec<&str> = by_email.keys().map(Cow::as_ref).collect();

        let mut known =
            rows::find_identifiers(tx, workspace, Kind::ExternalId, &external_ids).await?;
        known.extend(rows::find_identifiers(tx, workspace, Kind::Alias, &alias_keys).await?);
        let mut ids: Vec<Uuid> = known.iter().map(|identifier| identifier.service_id).collect();
        let others = {
            let known: HashSet<&Uuid> = ids.iter().collect();
            let given = records.iter().filter_map(|record| record.service_id);
            given.filter(|id| !known.contains(id)).collect()
        };
        ids.extend(new_rows::existing(tx, workspace, others).await?);

        // Records may change the users found so far, so an address identifies one of these, or the
        // owner among the others.
        let known_ids: HashSet<Uuid> = ids.iter().copied().collect();
        let is_other = |user: &StoredUser| !known_ids.contains(&user.service_id);
        let mut owners = email_owners::find(tx, workspace, &emails, is_other).await?;
        if tx.is_postgres() && purpose != For::Reading {
            let unowned: Vec<&str> =
                emails.iter().copied().filter(|email| !owners.contains_key(*email)).collect();
            lock_emails(tx, workspace, &unowned).await?;
            // Another transaction may have created a user with one of them before the lock.
            owners.extend(email_owners::find(tx, workspace, &unowned, is_other).await?);
        }
        ids.extend(owners.values().map(|owner| owner.service_id));

        let token_keys = records.iter().flat_map(|r| r.push_tokens.iter().copied()).collect();
        let tokens = match purpose {
            For::Reading => Registrations::find(tx, workspace, &token_keys).await?,
            _ => Registrations::lock(tx, workspace, &token_keys).await?,
        };
        ids.extend(tokens.owners());
        let address_states = address_states(tx, workspace, records).await?;
        let mut imported = Self {
            imported: Vec::with_capacity(records.len()),
            by_id: HashMap::with_capacity(records.len()),
            by_external_id: HashMap::with_capacity(external_ids.len()),
            by_email,
            tokens,
            address_states,
            ..Self::default()
        };
        for user in rows::find_users(tx, workspace, &ids, purpose).await? {
            imported.add_stored(user);
        }
        // The owners of addresses were not locked before.
        for (email, owner) in &owners {
            let index = imported.by_id.get(&owner.service_id);
            let user = index.and_then(|index| imported.imported.get(*index));
            if user.and_then(ImportedUser::address).as_deref() != Some(email.as_str()) {
                return Err(ImportError::Conflict);
            }
        }
        // After the rows are locked: a user that was not found is not merged later.
        let unknown = records.iter().filter_map(|record| record.service_id);
        let unknown: Vec<Uuid> = unknown.filter(|id| !imported.by_id.contains_key(id)).collect();
        imported.merged = merged_rows::find_merged(tx, workspace, &unknown).await?;
        for Identifier { kind, value, service_id } in known {
            // Erased between the two reads: the next attempt sees a consistent state.
            let index = *imported.by_id.get(&service_id).ok_or(ImportError::Conflict)?;
            imported.owners_mut(kind).insert(value, index);
        }
        Ok(imported)
    }

    /// What identifies the users who were found.
    pub fn identities(&self) -> Identities {
        let mut identities = Identities::default();
        for user in &self.imported {
            identities.add_id(user.service_id);
            user.identifiers().iter().for_each(|(kind, value)| identities.add(*kind, value));
            user.deprecated_ids.iter().for_each(|id| identities.add(Kind::ExternalId, id));
            user.email.iter().for_each(|email| identities.add_email(email));
            let tokens = user.kept.get(Field::PushTokens).map(tokens::keys).unwrap_or_default();
            tokens.iter().for_each(|token| identities.add_token(token));
        }
        identities
    }

    fn add_stored(&mut self, user: StoredUser) {
        // A document that cannot be read is replaced like any other; its aliases are not known.
        let profile = Profile::parse(&user.doc).unwrap_or_default();
        let created_at = profile.get(Field::CreatedAt).map(str::to_owned);
        let time_zone = profile.get(Field::TimeZone).map(str::to_owned);
        let aliases = profile.aliases();
        self.add(ImportedUser {
            service_id: user.service_id,
            external_id: user.external_id.clone(),
            stored_aliases: aliases.clone(),
            aliases,
            deprecated_ids: profile.deprecated_external_ids(),
            email: user.email.clone(),
            phone: profile.text(Field::Phone),
            created_at: created_at
                .unwrap_or_else(|| time_json(service_id::millis(&user.service_id))),
            time_zone,
            kept: kept::part(profile),
            opt_outs: Vec::new(),
            written: (user.attributes_at, 0),
            stored: Some(user),
            change: None,
        });
    }

    fn add(&mut self, user: ImportedUser<'r>) -> usize {
        let index = self.imported.len();
        self.by_id.insert(user.service_id, index);
        self.index_email(user.email.as_deref(), index);
        self.imported.push(user);
        index
    }

    fn index_email(&mut self, email: Option<&str>, index: usize) {
        if let Some(indexes) = email.and_then(|email| self.by_email.get_mut(&*compared(email))) {
            indexes.push(index);
        }
    }

    /// Applies a record at a time by the database's clock, or returns the error.
    pub fn apply(
        &mut self,
        record: &'r Record,
        ids: &Generator,
        now_ms: i64,
    ) -> Result<Applied, String> {
        let found = self.find(record)?;
        self.check_clashes(record, found)?;
        let service_id = match (found, record.service_id, record.random_bucket) {
            (Some(index), _, _) => self.imported[index].service_id,
            (None, Some(id), _) => id,
            (None, None, Some(bucket)) => ids.next(now_ms, bucket),
            (None, None, None) => ids.next_anywhere(now_ms),
        };
        let before = found.map(|index| &self.imported[index]);
        let (user, doc, is_overruled) = self.merge(record, service_id, before, now_ms);
        if doc.len() > MAX_BYTES {
            return Err(RecordError::TooLarge.to_string());
        }
        self.applied += 1;
        for opt_out in &user.opt_outs {
            if let Some(key) = address_key(&opt_out.address) {
                self.opt_outs.entry(key).or_default().push(opt_out.clone());
            }
        }
        let change = Change { doc, activity: Some(&record.activity) };
        let user = ImportedUser { written: (now_ms, self.applied), change: Some(change), ..user };
        match found {
            Some(index) => self.replace(index, user),
            None => {
                let index = self.add(user);
                self.index_identifiers(index);
            }
        }
        self.register_tokens(record, service_id, now_ms);
        Ok(Applied { is_new: found.is_none(), is_overruled })
    }

    /// The user of a record, the document, and whether a state of the record is overruled. `before`
    /// is the user as it was.
    fn merge(
        &self,
        record: &Record,
        service_id: Uuid,
        before: Option<&ImportedUser<'_>>,
        decided_at: i64,
    ) -> (ImportedUser<'r>, String, bool) {
        let nothing = Profile::default();
        let stored = before.map_or(&nothing, |before| &before.kept);
        let phone = record.profile.text(Field::Phone);
        // A user who is created with an address has made no decision before.
        let changes = before.map(|before| AddressChanges {
            email: before.address() != record.address(),
            phone: before.phone != phone,
        });
        let Kept { profile: mut kept, mut overruled, mut consent } =
            kept::after(stored, &record.profile, changes.unwrap_or_default(), decided_at);
        let contact = Contact::of(&record.profile);
        // What the record says alone: an opt-out reaches the address even if the user decided
        // otherwise later.
        let mut own = Consent::default();
        own.import(&record.profile, decided_at);
        let opt_outs = suppressions::opt_outs(&own, &contact);
        let before_addresses = consent.opt_outs();
        let email = contact.email.as_deref().map(|email| compared(email).into_owned());
        let keys: Vec<String> =
            email.into_iter().chain(contact.phone.as_deref().map(str::to_owned)).collect();
        if let Some(state) = self.address_states.get(&(contact.email, contact.phone)) {
            state.apply_to(&mut consent);
        }
        if record.profile.fields().any(|(field, _)| consent::is_state(field)) {
            for opt_out in keys.iter().filter_map(|key| self.opt_outs.get(key)).flatten() {
                consent.apply_address(opt_out.topic(), &opt_out.state, opt_out.at);
            }
        }
        overruled += consent.opt_outs().saturating_sub(before_addresses);
        let time_zone = record.profile.get(Field::TimeZone).map(str::to_owned);
        if before.is_some_and(|before| before.time_zone != time_zone) {
            kept.set_time_zone_changed_at(decided_at);
        }
        let mut profile = MergedProfile::new(&kept);
        for (field, value) in record.profile.fields().filter(|(field, _)| field.is_exported()) {
            profile.set_json(field, value);
        }
        profile.set_text(Field::ServiceId, &service_id.to_string());
        if let Some(bucket) = service_id::bucket(&service_id) {
            profile.set_json(Field::RandomBucket, bucket.to_string());
        }
        let deprecated_ids = before.map(|before| before.deprecated_ids.clone()).unwrap_or_default();
        if !deprecated_ids.is_empty() {
            profile.set_json(Field::DeprecatedExternalIds, check::texts_json(&deprecated_ids));
        }
        let given = record.external_id.clone().filter(|id| !deprecated_ids.contains(id));
        let external_id = given.or_else(|| before.and_then(|before| before.external_id.clone()));
        if let Some(external_id) = &external_id {
            profile.set_text(Field::ExternalId, external_id);
        }
        let mut aliases = record.aliases.clone();
        let more = before.iter().flat_map(|before| &before.aliases);
        aliases.extend(more.filter(|alias| !record.aliases.contains(alias)).cloned());
        if !aliases.is_empty() {
            profile.set_json(Field::UserAliases, check::aliases_json(&aliases));
        }
        let created_at = match (profile.get(Field::CreatedAt), before) {
            (Some(given), _) => given.to_owned(),
            (None, Some(before)) => before.created_at.clone(),
            (None, None) => time_json(service_id::millis(&service_id)),
        };
        profile.set_json(Field::CreatedAt, created_at.as_str());
        let doc = profile.into_document();
        let user = ImportedUser {
            service_id,
            stored: None,
            stored_aliases: Vec::new(),
            external_id,
            aliases,
            deprecated_ids,
            email: record.email.clone(),
            phone,
            created_at,
            time_zone,
            kept,
            opt_outs,
            written: (0, 0),
            change: None,
        };
        (user, doc, overruled > 0)
    }

    fn register_tokens(&mut self, record: &Record, service_id: Uuid, at: i64) {
        for &key in &record.push_tokens {
            // A line is older than the time of its import: a registration that was received before
            // and is applied later wins, too.
            let loser = match self.tokens.estimate(key, service_id, at) {
                Registered::Own => continue,
                Registered::OfAnother => service_id,
                Registered::TakenFrom(owner) => owner,
            };
            if let Some(user) =
                self.by_id.get(&loser).and_then(|index| self.imported.get_mut(*index))
            {
                user.remove_token(&key);
            }
        }
    }

    fn owner(&self, kind: Kind, value: &str) -> Option<usize> {
        let owners = match kind {
            Kind::ExternalId => &self.by_external_id,
            Kind::Alias => &self.by_alias,
        };
        owners.get(value).copied()
    }

    fn owners_mut(&mut self, kind: Kind) -> &mut HashMap<String, usize> {
        match kind {
            Kind::ExternalId => &mut self.by_external_id,
            Kind::Alias => &mut self.by_alias,
        }
    }

    fn replace(&mut self, index: usize, user: ImportedUser<'r>) {
        let has_new_address = self.imported[index].address() != user.address();
        let before = std::mem::replace(&mut self.imported[index], user);
        if let Some(old) = before.external_id {
            self.by_external_id.remove(&old);
        }
        let user = &mut self.imported[index];
        // Those of addresses that the user no longer has, too.
        user.opt_outs.extend(before.opt_outs);
        user.stored = before.stored;
        user.stored_aliases = before.stored_aliases;
        if has_new_address {
            let email = user.email.clone();
            self.index_email(email.as_deref(), index);
        }
        self.index_identifiers(index);
    }

    fn index_identifiers(&mut self, index: usize) {
        let user = &self.imported[index];
        self.by_external_id.extend(user.external_id.iter().map(|id| (id.clone(), index)));
        self.by_alias.extend(user.aliases.iter().map(|alias| (alias.key(), index)));
    }

    /// The number of users who would lose a field, by the field.
    pub async fn removed(
        &self,
        tx: &mut Tx,
        workspace: i32,
        today: Date,
    ) -> Result<BTreeMap<String, u64>, ImportError> {
        let replaced = || {
            let users = self.imported.iter();
            users.filter_map(|user| Some((user.stored.as_ref()?, user.change.as_ref()?)))
        };
        let ids: Vec<Uuid> = replaced().map(|(stored, _)| stored.service_id).collect();
        let bodies: HashMap<Uuid, Vec<u8>> =
            large_rows::bodies(tx, workspace, &ids).await?.into_iter().collect();
        let mut counts = BTreeMap::new();
        for (stored, change) in replaced() {
            let body = bodies.get(&stored.service_id).map(|body| Activity::decode(body));
            let activity = body.and_then(Result::ok).unwrap_or_default();
            let after = change.activity.unwrap_or(&activity);
            let after = removed::names(&change.doc, after, today);
            let before = removed::names(&stored.doc, &activity, today);
            removed::count(&mut counts, before.difference(&after).cloned(), MAX_REMOVED);
        }
        Ok(counts)
    }
}

impl ImportedUser<'_> {
    /// The email as it is compared.
    fn address(&self) -> Option<Cow<'_, str>> {
        self.email.as_deref().map(compared)
    }

    /// Removes a push token that belongs to another user.
    fn remove_token(&mut self, key: &TokenKey) {
        let is_removed = |token: &Token<'_>| token.key() == *key;
        let stored = self.stored.as_ref().map(|stored| stored.doc.as_str());
        let doc = self.change.as_ref().map(|change| change.doc.as_str()).or(stored);
        let Some(doc) = doc.and_then(|doc| devices::without(doc, is_removed)) else { return };
        self.kept = kept::part(Profile::parse(&doc).unwrap_or_default());
        match &mut self.change {
            Some(change) => change.doc = doc,
            None => self.change = Some(Change { doc, activity: None }),
        }
    }

    fn identifiers(&self) -> Vec<(Kind, String)> {
        let external_id = self.external_id.iter().map(|id| (Kind::ExternalId, id.clone()));
        let aliases = self.aliases.iter().map(|alias| (Kind::Alias, alias.key()));
        external_id.chain(aliases).collect()
    }

    fn stored_identifiers(&self) -> Vec<(Kind, String)> {
        let external_id = self.stored.iter().filter_map(|stored| stored.external_id.clone());
        let external_id = external_id.map(|id| (Kind::ExternalId, id));
        let aliases = self.stored_aliases.iter().map(|alias| (Kind::Alias, alias.key()));
        external_id.chain(aliases).collect()
    }
}

/// Locks addresses without an owner, against other transactions that create a user with one.
async fn lock_emails(tx: &mut Tx, workspace: i32, emails: &[&str]) -> Result<(), StoreError> {
    let names: Vec<(Name, Cow<'_, str>)> =
        emails.iter().map(|email| (Name::Email, Cow::Borrowed(*email))).collect();
    name_locks::lock(tx, workspace, &names).await
}

/// What is known about the addresses of records that set a state.
async fn address_states<'r>(
    tx: &mut Tx,
    workspace: i32,
    records: &'r [Record],
) -> Result<HashMap<RecordAddress<'r>, AddressState>, StoreError> {
    let sets_state =
        |record: &&Record| record.profile.fields().any(|(field, _)| consent::is_state(field));
    let records: Vec<&Record> = records.iter().filter(sets_state).collect();
    let id = |index: usize| Uuid::from_u128(index as u128);
    let contacts = records.iter().enumerate();
    let contacts: Vec<(Uuid, Contact<'_>)> =
        contacts.map(|(index, record)| (id(index), Contact::of(&record.profile))).collect();
    let states = AddressStates::of_contacts(tx, workspace, &contacts).await?;
    let known = contacts.into_iter().filter_map(|(id, Contact { email, phone })| {
        Some(((email, phone), states.of_user(id)?.clone()))
    });
    Ok(known.collect())
}

/// Whether only an email identifies the user.
fn by_email_only(record: &Record) -> bool {
    record.service_id.is_none() && record.external_id.is_none() && record.aliases.is_empty()
}

fn time_json(ms: i64) -> String {
    format!("\"{}\"", format_time(ms))
}
