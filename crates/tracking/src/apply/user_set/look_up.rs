//! Looks up the users that objects may identify.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use uuid::Uuid;

use super::super::ApplyError;
use super::super::identifier_set::IdentifierSet;
use super::{ExternalIdOwner, UserIndex, UserSet, key_order};
use kit::fail_point;
use people::users::erased_rows::{self, Name, name_hashes};
use people::users::profile::Alias;
use people::users::rows::{self, Kind, StoredUser};
use people::users::service_id::Generator;
use people::users::tokens::Registrations;
use people::users::{email_owners, large_rows, merged_rows, name_locks};
use store::{ByteBudget, Tx};

/// Users who are locked together.
const PAGE: usize = 2_000;

impl<'a> UserSet<'a> {
    /// Looks up the users that objects may identify, locks the profiles that they may change, and
    /// creates users for unknown external ids.
    pub async fn look_up(
        tx: &mut Tx,
        workspace: i32,
        identifier_set: &IdentifierSet<'a>,
        ids: &'a Generator,
        budget: &'a mut ByteBudget,
    ) -> Result<Self, ApplyError> {
        let mut user_set = Self {
            workspace,
            ids,
            budget,
            users: Vec::new(),
            by_id: HashMap::new(),
            external_ids: HashMap::with_capacity(identifier_set.external_ids.len()),
            aliases: HashMap::new(),
            emails: HashMap::new(),
            locked_emails: HashSet::new(),
            decisions: Vec::new(),
            erased: HashMap::new(),
            tokens: Registrations::default(),
            is_outdated: false,
        };
        let mut changed_users = Vec::new();
        user_set.look_up_external_ids(tx, identifier_set, &mut changed_users).await?;
        user_set.look_up_aliases(tx, identifier_set, &mut changed_users).await?;
        let ids: Vec<Uuid> = identifier_set.service_ids.keys().copied().collect();
        let merged = merged_rows::find_merged(tx, workspace, &ids).await?;
        for (id, usage) in &identifier_set.service_ids {
            let present = merged.get(id).copied().unwrap_or(*id);
            let index = user_set.index(present, false);
            user_set.by_id.insert(*id, index);
            changed_users.extend(usage.changes.then_some(present));
        }
        let owners = user_set.look_up_emails(tx, identifier_set, &mut changed_users).await?;
        user_set.look_up_tokens(tx, identifier_set, &mut changed_users).await?;
        fail_point!("tracking::named");
        user_set.open(tx, changed_users).await?;
        // The owners of emails were not locked before.
        let lost = |(email, owner): &(String, UserIndex)| {
            user_set.users[owner.0].user.address().as_deref() != Some(email.as_str())
        };
        if owners.iter().any(lost) {
            return Err(ApplyError::Changed);
        }
        Ok(user_set)
    }

    async fn look_up_external_ids(
        &mut self,
        tx: &mut Tx,
        identifier_set: &IdentifierSet<'a>,
        changed_users: &mut Vec<Uuid>,
    ) -> Result<(), ApplyError> {
        let values: Vec<&'a str> = identifier_set.external_ids.keys().copied().collect();
        let mut owners = self.owners(tx, &values).await?;
        let unknown: Vec<&'a str> =
            values.into_iter().filter(|value| !owners.contains_key(*value)).collect();
        let mut new = self.new_owners(identifier_set, &unknown);
        fail_point!("tracking::looked");
        if rows::add_identifiers(tx, self.workspace, &new).await? != new.len() as u64 {
            // Another partition has created some of them meanwhile.
            let values: Vec<&str> = new.iter().map(|new| new.value.as_str()).collect();
            let now = self.owners(tx, &values).await?;
            new.retain(|new| now.get(&new.value) == Some(&new.service_id));
            let new: HashSet<Uuid> = new.iter().map(|new| new.service_id).collect();
            owners.extend(now.into_iter().filter(|(_, id)| !new.contains(id)));
        }
        self.remove_erased(tx, identifier_set, &mut new).await?;
        let mut new: HashMap<String, Uuid> =
            new.into_iter().map(|new| (new.value, new.service_id)).collect();
        for (value, usage) in &identifier_set.external_ids {
            let owner = match (owners.remove(*value), new.remove(*value)) {
                (Some(id), _) => {
                    changed_users.extend(usage.changes.then_some(id));
                    ExternalIdOwner::Known(self.index(id, true))
                }
                (None, Some(id)) => ExternalIdOwner::New(id),
                (None, None) => ExternalIdOwner::NoUser,
            };
            self.external_ids.insert(value, owner);
        }
        Ok(())
    }

    async fn owners(
        &self,
        tx: &mut Tx,
        values: &[&str],
    ) -> Result<HashMap<String, Uuid>, ApplyError> {
        let known = rows::find_identifiers(tx, self.workspace, Kind::ExternalId, values).await?;
        Ok(known.into_iter().map(|known| (known.value, known.service_id)).collect())
    }

    /// The identifiers to be added, ascending.
    fn new_owners(
        &self,
        identifier_set: &IdentifierSet<'a>,
        unknown: &[&'a str],
    ) -> Vec<rows::Identifier> {
        let mut creates: Vec<(i64, &'a str)> = unknown
            .iter()
            .filter_map(|value| Some((identifier_set.external_ids[value].creates?.0, *value)))
            .collect();
        // The first one is the older one.
        creates.sort_unstable();
        let identifier = |(first, value): (i64, &str)| rows::Identifier {
            kind: Kind::ExternalId,
            value: value.to_owned(),
            service_id: self.ids.next_anywhere(first),
        };
        let mut new: Vec<rows::Identifier> = creates.into_iter().map(identifier).collect();
        new.sort_unstable();
        new
    }

    /// Removes added identifiers again if all objects that would create the user were received
    /// before the user was erased. A later erasure waits for this transaction.
    async fn remove_erased(
        &mut self,
        tx: &mut Tx,
        identifier_set: &IdentifierSet<'a>,
        new: &mut Vec<rows::Identifier>,
    ) -> Result<(), ApplyError> {
        let values = new.iter().map(|new| new.value.as_str());
        self.look_up_erased(tx, Name::ExternalId, values).await?;
        let is_erased = |new: &mut rows::Identifier| {
            let creates =
                identifier_set.external_ids.get(new.value.as_str()).and_then(|usage| usage.creates);
            creates.is_some_and(|(_, last)| self.is_erased(Name::ExternalId, &new.value, last))
        };
        let erased: Vec<rows::Identifier> = new.extract_if(.., is_erased).collect();
        for identifier in &erased {
            rows::remove_identifier(tx, self.workspace, identifier).await?;
        }
        Ok(())
    }

    async fn look_up_erased<'n>(
        &mut self,
        tx: &mut Tx,
        name: Name,
        values: impl Iterator<Item = &'n str>,
    ) -> Result<(), ApplyError> {
        let hashes: Vec<[u8; 32]> = values.flat_map(|value| name_hashes(name, value)).collect();
        self.erased.extend(erased_rows::find(tx, self.workspace, &hashes).await?);
        Ok(())
    }

    pub(super) fn is_erased(&self, name: Name, value: &str, at: i64) -> bool {
        self.erased_at(name, value).is_some_and(|erased_at| at <= erased_at)
    }

    pub(super) fn erased_at(&self, name: Name, value: &str) -> Option<i64> {
        if self.erased.is_empty() {
            return None;
        }
        let hashes = name_hashes(name, value);
        hashes.iter().filter_map(|hash| self.erased.get(&hash[..]).copied()).max()
    }

    async fn look_up_aliases(
        &mut self,
        tx: &mut Tx,
        identifier_set: &IdentifierSet<'a>,
        changed_users: &mut Vec<Uuid>,
    ) -> Result<(), ApplyError> {
        let by_key: HashMap<String, (&'a str, &'a str)> = identifier_set
            .aliases
            .keys()
            .map(|(label, name)| (Alias::key_of(label, name), (*label, *name)))
            .collect();
        let keys: Vec<&str> = by_key.keys().map(String::as_str).collect();
        for known in rows::find_identifiers(tx, self.workspace, Kind::Alias, &keys).await? {
            if let Some(alias) = by_key.get(&known.value) {
                changed_users
                    .extend(identifier_set.aliases[alias].changes.then_some(known.service_id));
                let index = self.index(known.service_id, true);
                self.aliases.insert(*alias, index);
            }
        }
        Ok(())
    }

    /// Looks up the users that emails identify. Returns each email that identifies a user, with
    /// this user.
    async fn look_up_emails(
        &mut self,
        tx: &mut Tx,
        identifier_set: &IdentifierSet<'a>,
        changed_users: &mut Vec<Uuid>,
    ) -> Result<Vec<(String, UserIndex)>, ApplyError> {
        let workspace = self.workspace;
        let emails: Vec<&str> = identifier_set.emails.keys().map(Cow::as_ref).collect();
        // If objects by an email change it, the email identifies one user after the other.
        let emails_to_change =
            identifier_set.emails.iter().filter(|(_, usage)| usage.changes_email);
        let emails_to_change: Vec<&str> =
            emails_to_change.map(|(email, _)| email.as_ref()).collect();
        let visit = |user: StoredUser| {
            self.index(user.service_id, true);
            changed_users.push(user.service_id);
            ControlFlow::Continue(())
        };
        email_owners::for_each_holder(tx, workspace, &emails_to_change, visit).await?;
        let any_email_changes = identifier_set.changes_emails;
        let mut owners = if any_email_changes {
            HashMap::new()
        } else {
            email_owners::find(tx, workspace, &emails, |_| true).await?
        };
        // Including those of existing users, because they may have changed before the object is
        // applied.
        let creates = identifier_set.emails.iter().filter(|(_, usage)| usage.creates.is_some());
        let names: Vec<(Name, Cow<'_, str>)> = creates
            .filter(|(email, _)| !owners.contains_key::<str>(email))
            .map(|(email, _)| (Name::Email, Cow::Borrowed(email.as_ref())))
            .collect();
        fail_point!("tracking::looked_for_emails");
        name_locks::lock(tx, workspace, &names).await?;
        let locked: Vec<&str> = names.iter().map(|(_, email)| email.as_ref()).collect();
        // Another partition may have created a user with one of them before the lock. Users who
        // change may lose an email, so it identifies one of them, or the owner among the others.
        let changing: HashSet<Uuid> = if any_email_changes {
            changed_users.iter().copied().collect()
        } else {
            HashSet::new()
        };
        let unknown = if any_email_changes { &emails } else { &locked };
        let is_other = |user: &StoredUser| !changing.contains(&user.service_id);
        owners.extend(email_owners::find(tx, workspace, unknown, is_other).await?);
        let mut found_users = Vec::with_capacity(owners.len());
        for (email, owner) in owners {
            let usage = identifier_set.emails.get(email.as_str());
            changed_users
                .extend(usage.is_some_and(|usage| usage.changes).then_some(owner.service_id));
            found_users.push((email, self.index(owner.service_id, true)));
            self.set_row(owner);
        }
        self.locked_emails = locked.iter().map(|email| (*email).to_owned()).collect();
        let emails_of_changes = identifier_set.emails.iter().filter(|(_, usage)| usage.changes);
        let emails_of_changes = emails_of_changes.map(|(email, _)| email.as_ref());
        self.look_up_erased(tx, Name::Email, locked.into_iter().chain(emails_of_changes)).await?;
        Ok(found_users)
    }

    /// Locks the users that objects can change, in one order, and reads their profiles.
    async fn open(&mut self, tx: &mut Tx, mut ids: Vec<Uuid>) -> Result<(), ApplyError> {
        let mut missing: HashSet<Uuid> = ids.iter().copied().collect();
        ids.sort_unstable_by_key(key_order);
        ids.dedup();
        for page in ids.chunks(PAGE) {
            let (mut users, large) =
                large_rows::lock_small(tx, self.workspace, page, self.budget).await?;
            users.extend(large_rows::read_large(tx, self.workspace, &large, self.budget).await?);
            for user in users {
                missing.remove(&user.service_id);
                self.set_row(user);
            }
        }
        self.check_missing(tx, &missing).await
    }
}
