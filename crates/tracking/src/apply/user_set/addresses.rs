//! Combines the states of users and of their email addresses.

use std::borrow::Cow;
use std::collections::HashSet;

use uuid::Uuid;

use super::super::super::message::Attributes;
use super::super::ApplyError;
use super::super::identifier_set::{IdentifierSet, compared};
use super::super::opt_outs::OptOuts;
use super::{ExternalIdOwner, UserIndex, UserSet};
use kit::clock::format_time;
use people::users::consent::{Consent, Topic, UNSUBSCRIBED};
use people::users::erased_rows::Name;
use people::users::identifier::Identifier;
use people::users::profile::Field;
use people::users::{optout_rows, rows};
use store::Tx;

/// What an attribute object changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct AddressChange {
    /// Whether the user got another email address.
    pub sets_address: bool,
    /// Whether the object set `email_subscribe`.
    pub sets_state: bool,
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
            index_of(user).is_some_and(|index| self.users[index.0].user.email.as_deref() == email)
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
        let Some(email) = self.users[index.0].user.email.clone() else { return Ok(()) };
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
        attributes: &Attributes<'_>,
        received_at: i64,
        now: i64,
    ) -> Result<(), ApplyError> {
        let Identifier::Email(email) = &attributes.user else { return Ok(()) };
        let name = Field::EmailSubscribe.name();
        let Some((_, state)) = attributes.fields.0.iter().find(|(field, _)| field == name) else {
            return Ok(());
        };
        let (email, at) = (compared(email), received_at.min(now));
        let erased_at = self.erased_at(Name::Email, &email).filter(|erased| received_at <= *erased);
        let state: Option<String> = serde_json::from_str(state.get()).unwrap_or_default();
        let (mut reached, mut outlasted) = (false, false);
        for index in self.emails.get(email.as_ref()).cloned().unwrap_or_default() {
            let user = &self.users[index.0].user;
            if user.email.as_deref() != Some(&email) || !self.exists(index) {
                continue;
            }
            let draft = self.draft(index)?;
            // A user who was created after the erasure is a different user. The time in a
            // service_id is not compared, because it can be later than `created_at` if older
            // requests wait in the log.
            let created_at = draft.text(Field::CreatedAt);
            let is_later = |at| created_at.is_some_and(|created_at| *created_at > *format_time(at));
            if erased_at.is_some_and(is_later) {
                continue;
            }
            let mut consent = draft.consent();
            consent.decide(Topic::Email, state.as_deref(), at);
            draft.set_consent(&consent);
            reached |= consent.unsubscribed_at().is_some();
            outlasted |= consent.unsubscribed_at().is_none() && consent.email_decided_at() > at;
        }
        if state.as_deref() != Some(UNSUBSCRIBED) {
            self.opt_outs.subscribe(&email, at);
        } else if !outlasted && (reached || erased_at.is_none()) {
            // After an erasure, the address counts as unsubscribed only if another user of it is.
            self.opt_outs.unsubscribe_by_address(&email, at);
        }
        Ok(())
    }
}

/// Stores unsubscribed addresses. Another transaction may unsubscribe an address that a user gets
/// in this one, or the other way round: one of them waits for the other, and then starts again.
pub(super) async fn write_opt_outs(
    tx: &mut Tx,
    workspace: i32,
    opt_outs: &OptOuts,
    new_emails: &[&str],
    known: &HashSet<Uuid>,
) -> Result<(), ApplyError> {
    // SQLite has one writer.
    if matches!(tx, Tx::Postgres(_)) {
        optout_rows::lock(tx, workspace, new_emails, &opt_outs.unsubscribed()).await?;
        let stored = optout_rows::find(tx, workspace, new_emails).await?;
        let users = rows::find_emails(tx, workspace, &opt_outs.decided_by_address()).await?;
        if stored.keys().any(|email| !opt_outs.is_known(email))
            || users.iter().any(|user| !known.contains(user))
        {
            return Err(ApplyError::Changed);
        }
    }
    Ok(opt_outs.write(tx, workspace).await?)
}
