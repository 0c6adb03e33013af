//! Combines the states of users and of their email addresses.

use std::borrow::Cow;
use std::collections::{HashSet, VecDeque};

use super::super::ApplyError;
use super::super::bulk::ReceivedObject;
use super::super::draft::Draft;
use super::super::identifier_set::{AddressState, IdentifierSet, state_by_address};
use super::super::opt_outs::OptOuts;
use super::{ExternalIdOwner, UserIndex, UserSet, key_order};
use kit::clock::format_time;
use kit::compute::Cores;
use people::users::consent::{Consent, Topic, UNSUBSCRIBED};
use people::users::erased_rows::Name;
use people::users::identifier::Identifier;
use people::users::profile::Field;
use people::users::rows::StoredUser;
use people::users::{optout_rows, rows};
use store::Tx;
use store::claims;

/// What an attribute object changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct AddressChange {
    /// Whether the user got another email address.
    pub sets_address: bool,
    /// Whether the object set `email_subscribe`.
    pub sets_state: bool,
}

/// The effects of a state that was set by address on users who have the address.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StateEffect {
    /// Whether one of them is unsubscribed.
    has_unsubscribed: bool,
    /// When one of them decided otherwise later, in milliseconds since the epoch.
    later_decision_at: Option<i64>,
}

impl StateEffect {
    fn and(self, other: Self) -> Self {
        Self {
            has_unsubscribed: self.has_unsubscribed || other.has_unsubscribed,
            later_decision_at: self.later_decision_at.max(other.later_decision_at),
        }
    }
}

impl<'a> UserSet<'a> {
    /// Looks up which of the addresses that users may get are unsubscribed. Users whose objects
    /// write only the address that they already have get no new address.
    pub(super) async fn look_up_opt_outs(
        &mut self,
        tx: &mut Tx,
        identifier_set: &IdentifierSet<'a>,
    ) -> Result<(), ApplyError> {
        let written = &identifier_set.written_emails;
        // Other identifiers may be those of any user.
        let index_of = |user: &Identifier<'_>| match user {
            Identifier::ExternalId(id) => match self.external_ids.get(id.as_ref()) {
                Some(ExternalIdOwner::Known(index)) => Some(*index),
                _ => None,
            },
            _ => None,
        };
        let is_stored = |user: &Identifier<'_>, email: Option<&str>| {
            let stored = index_of(user).map(|index| self.users[index.0].user.address());
            stored.is_some_and(|stored| stored.as_deref() == email)
        };
        let changed = written.iter().filter(|(user, email)| !is_stored(user, email.as_deref()));
        let changed: HashSet<Option<UserIndex>> = changed.map(|(user, _)| index_of(user)).collect();
        let includes_all = changed.contains(&None);
        let emails: HashSet<&str> = written
            .iter()
            .filter(|(user, _)| includes_all || changed.contains(&index_of(user)))
            .filter_map(|(_, email)| email.as_deref())
            .chain(identifier_set.emails.keys().map(Cow::as_ref))
            .collect();
        let emails: Vec<&str> = emails.into_iter().collect();
        self.opt_outs = OptOuts::look_up(tx, self.workspace, &emails).await?;
        Ok(())
    }

    /// Combines the states of a user and of the user's email address, after an object that was
    /// received at a time changed one of them.
    pub(super) fn meet_address(
        &mut self,
        index: UserIndex,
        AddressChange { sets_address, sets_state }: AddressChange,
        at: i64,
    ) -> Result<(), ApplyError> {
        let email = self.users[index.0].user.address().map(Cow::into_owned);
        let Some(email) = email else { return Ok(()) };
        let unsubscribed_at = self.opt_outs.unsubscribed_at(&email);
        let is_created = self.is_new(index);
        let draft = self.draft(index)?;
        let mut consent = draft.consent();
        // A user who is created with the address has no other state.
        let has_none = is_created && unsubscribed_at.is_none() && consent == Consent::default();
        if sets_address && !has_none {
            consent.meet_address(unsubscribed_at, at, sets_state);
            draft.set_consent(&consent);
        }
        match consent.unsubscribed_at() {
            Some(at) => self.opt_outs.unsubscribe(&email, at),
            None if consent.email_decided_at() == at => self.opt_outs.subscribe(&email, at),
            None => {}
        }
        Ok(())
    }

    /// Applies a state of emails that was set by address: it applies to all users who have the
    /// address, and to those who get it later.
    pub fn apply_email_state_by_address(
        &mut self,
        received: &ReceivedObject<'_>,
        now: i64,
    ) -> Result<(), ApplyError> {
        let Some((email, state)) = state_by_address(received) else { return Ok(()) };
        let erased_at = self.erasure_after(&email, &state);
        let others = self.state_effects.get_mut(email.as_ref()).and_then(VecDeque::pop_front);
        let mut effect = others.unwrap_or_default();
        let users = self.emails.get(email.as_ref()).into_iter().flatten();
        let users = users.filter_map(|rank| self.by_id.get(&rank.service_id).copied());
        let users: Vec<UserIndex> = users.filter(|user| self.exists(*user)).collect();
        for index in users {
            effect = effect.and(decide_by_address(self.draft(index)?, &state, erased_at, now));
        }
        let at = state.received_at.min(now);
        if state.state.as_deref() != Some(UNSUBSCRIBED) {
            self.opt_outs.subscribe(&email, at);
        } else if effect.later_decision_at.is_none()
            && (effect.has_unsubscribed || erased_at.is_none())
        {
            // After an erasure, the address counts as unsubscribed only if another user of it is.
            self.opt_outs.unsubscribe_by_address(&email, at);
        }
        Ok(())
    }

    /// Applies the states that objects set by address to locked users that no other object changes,
    /// and writes these users.
    pub(super) async fn decide_for_holders(
        &mut self,
        tx: &mut Tx,
        cores: &Cores,
        users: Vec<StoredUser>,
    ) -> Result<(), ApplyError> {
        if users.is_empty() {
            return Ok(());
        }
        // After the locks: decisions that were stored before are not later.
        let now = claims::now(tx).await?;
        let mut changed = cores.compute_here(|| self.decided(users, now))?;
        changed.sort_unstable_by_key(|user| key_order(&user.service_id));
        Ok(rows::put_users(tx, self.workspace, &changed).await?)
    }

    /// The users that the states change.
    fn decided(&mut self, users: Vec<StoredUser>, now: i64) -> Result<Vec<StoredUser>, ApplyError> {
        let mut changed = Vec::new();
        for user in users {
            let Some(email) = user.address().map(Cow::into_owned) else { continue };
            let Some(states) = self.address_states.get(email.as_str()) else { continue };
            let mut draft = Draft::open(&user.doc, user.attributes_at)
                .map_err(|why| ApplyError::Profile(user.service_id, why))?;
            for (number, state) in states.iter().enumerate() {
                let erased_at = self.erasure_after(&email, state);
                let effect = decide_by_address(&mut draft, state, erased_at, now);
                let effects = self.state_effects.entry(email.clone()).or_default();
                if effects.len() == number {
                    effects.push_back(effect);
                } else {
                    effects[number] = effects[number].and(effect);
                }
            }
            let doc = draft.into_document();
            if doc != user.doc {
                changed.push(StoredUser { doc, ..user });
            }
        }
        Ok(changed)
    }

    /// Stores unsubscribed addresses. If another transaction unsubscribed an address that a user
    /// gets here, this one starts again. If another one gave a user an address that is unsubscribed
    /// here, this one also changes that user.
    pub(super) async fn write_opt_outs(
        &mut self,
        tx: &mut Tx,
        cores: &Cores,
        new_addresses: &[&str],
    ) -> Result<(), ApplyError> {
        // SQLite has one writer.
        if matches!(tx, Tx::Postgres(_)) {
            let workspace = self.workspace;
            optout_rows::lock(tx, workspace, new_addresses, &self.opt_outs.unsubscribed()).await?;
            let stored = optout_rows::find(tx, workspace, new_addresses).await?;
            if stored.keys().any(|email| !self.opt_outs.is_known(email)) {
                return Err(ApplyError::Changed);
            }
            self.decide_for_new_holders(tx, cores).await?;
        }
        Ok(self.opt_outs.write(tx, self.workspace).await?)
    }

    /// Applies the states that objects set by address to users who got the address since it was
    /// looked up. To start again instead would be endless if many users have the address, and
    /// others get it all the time. The locks of the addresses are held, so there are no more.
    async fn decide_for_new_holders(
        &mut self,
        tx: &mut Tx,
        cores: &Cores,
    ) -> Result<(), ApplyError> {
        let decided = self.opt_outs.decided_by_address();
        let mut users = rows::find_emails(tx, self.workspace, &decided).await?;
        users.retain(|user| !self.locked.contains(user));
        self.lock(tx, cores, users, &HashSet::new()).await?;
        for (email, effects) in std::mem::take(&mut self.state_effects) {
            let Some(states) = self.address_states.get(email.as_str()) else { continue };
            for (AddressState { state, .. }, effect) in states.iter().zip(effects) {
                // As if the user got the address, and decided, after this transaction.
                if let (Some(UNSUBSCRIBED), Some(at)) = (state.as_deref(), effect.later_decision_at)
                {
                    self.opt_outs.subscribe(&email, at);
                }
            }
        }
        Ok(())
    }

    /// When a user of an address was erased, if that was after the state was received.
    fn erasure_after(&self, email: &str, state: &AddressState) -> Option<i64> {
        self.erased_at(Name::Email, email).filter(|erased| state.received_at <= *erased)
    }
}

/// Applies a state that was set by address to a user who has the address; returns the effect.
fn decide_by_address(
    draft: &mut Draft,
    AddressState { state, received_at }: &AddressState,
    erased_at: Option<i64>,
    now: i64,
) -> StateEffect {
    let at = (*received_at).min(now);
    // A user who was created after the erasure is a different user. The time in a service_id is not
    // compared, because it can be later than `created_at` if older requests wait in the log.
    let created_at = draft.text(Field::CreatedAt);
    let is_later = |at| created_at.is_some_and(|created_at| *created_at > *format_time(at));
    if erased_at.is_some_and(is_later) {
        return StateEffect::default();
    }
    let mut consent = draft.consent();
    consent.decide(Topic::Email, state.as_deref(), at);
    draft.set_consent(&consent);
    let has_unsubscribed = consent.unsubscribed_at().is_some();
    let decided_at = consent.email_decided_at();
    StateEffect {
        has_unsubscribed,
        later_decision_at: (!has_unsubscribed && decided_at > at).then_some(decided_at),
    }
}
