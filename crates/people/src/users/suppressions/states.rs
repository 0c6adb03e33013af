//! What applies to users because of their addresses.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Deserialize;
use uuid::Uuid;

use super::{Address, EMAIL, Hash, Reason, earlier_hashes};
use crate::users::Recipient;
use crate::users::consent::{Consent, Topic, UNSUBSCRIBED};
use crate::users::profile::{Field, Profile, check};
use crate::users::suppression_rows::{self, Known, Stored};
use store::claims;
use store::{StoreError, Tx};

/// The addresses in a document.
#[derive(Debug, Default, Deserialize)]
pub struct Contact<'d> {
    #[serde(borrow, default)]
    pub email: Option<Cow<'d, str>>,
    #[serde(borrow, default)]
    pub phone: Option<Cow<'d, str>>,
}

impl Contact<'_> {
    pub fn of(profile: &Profile) -> Self {
        let text = |field| profile.text(field).map(Cow::Owned);
        Self { email: text(Field::Email), phone: text(Field::Phone) }
    }
}

/// The last decision about an address and scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressDecision {
    pub state: String,
    /// In milliseconds since the epoch.
    pub at: i64,
}

/// What is known about the addresses of one user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressState {
    email: Option<AddressDecision>,
    groups: Vec<(String, AddressDecision)>,
    stopped: Option<Stop>,
}

/// Why no message may be sent to an address, whatever its user decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    pub reason: Reason,
    /// When it ends, in milliseconds since the epoch; none if it does not.
    pub until: Option<i64>,
}

impl AddressState {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn add(&mut self, row: &Stored) {
        let decision = || AddressDecision { state: row.state.clone(), at: row.decided_at };
        match row.reason {
            Reason::Complaint | Reason::Bounce => {
                // A complaint does not end.
                let stop = Stop { reason: row.reason, until: row.until };
                self.stopped = self.stopped.filter(|had| had.until.is_none()).or(Some(stop));
            }
            Reason::Decision if row.scope == EMAIL => self.add_email(decision()),
            Reason::Decision => self.groups.push((row.scope.clone(), decision())),
        }
    }

    /// Adds a decision about emails: rows can have several, about different spellings.
    fn add_email(&mut self, new: AddressDecision) {
        let order = |of: &AddressDecision| (of.at, of.state == UNSUBSCRIBED);
        if self.email.as_ref().is_none_or(|known| order(known) <= order(&new)) {
            self.email = Some(new);
        }
    }

    /// The last decision about the address in a subscription group.
    pub fn group(&self, id: &str) -> Option<&AddressDecision> {
        let id = check::group_id(id);
        self.groups.iter().find(|(group, _)| *group == id).map(|(_, decision)| decision)
    }

    /// Whether the last decision about the email address is an opt-out.
    pub fn is_email_unsubscribed(&self) -> bool {
        self.email.as_ref().is_some_and(|decision| decision.state == UNSUBSCRIBED)
    }

    /// Why no message may be sent to the email address, whatever the user decided.
    pub fn stopped(&self) -> Option<Stop> {
        self.stopped
    }

    /// Changes a user's own decisions to what applies to the user.
    pub fn apply_to(&self, consent: &mut Consent) {
        if let Some(AddressDecision { state, at }) = &self.email {
            consent.apply_address(Topic::Email, state, *at);
        }
        for (group, AddressDecision { state, at }) in &self.groups {
            consent.apply_address(Topic::Group(group), state, *at);
        }
    }

    /// A document with what applies to the user; none if it cannot be read.
    pub fn applied(&self, document: &str) -> Option<String> {
        let mut profile = Profile::parse(document).ok()?;
        let mut consent = Consent::read(&profile);
        self.apply_to(&mut consent);
        consent.write(&mut profile);
        Some(profile.to_document())
    }

    /// Changes a user who was read from this document to what applies to the user.
    pub(super) fn apply_to_recipient(&self, recipient: &mut Recipient, document: &str) {
        recipient.stopped = self.stopped;
        let Ok(mut profile) = Profile::parse(document) else { return };
        let mut consent = Consent::read(&profile);
        self.apply_to(&mut consent);
        consent.write(&mut profile);
        recipient.set_states(&profile);
    }
}

/// What is known about the addresses of some users.
#[derive(Clone, Debug, Default)]
pub struct AddressStates {
    /// Only users of whose addresses something is known.
    users: HashMap<Uuid, AddressState>,
}

impl AddressStates {
    /// For users with these documents.
    pub async fn look_up<'d>(
        tx: &mut Tx,
        workspace: i32,
        documents: impl Iterator<Item = (Uuid, &'d str)>,
    ) -> Result<Self, StoreError> {
        let known = suppression_rows::known(tx, workspace).await?;
        if known.is_empty() {
            return Ok(Self::default());
        }
        // A document that cannot be read has no addresses.
        let contacts = documents.filter_map(|(id, document)| {
            serde_json::from_str(document).ok().map(|contact: Contact<'_>| (id, contact))
        });
        let contacts: Vec<(Uuid, Contact<'_>)> = contacts.collect();
        Self::of_known(tx, workspace, &known, &contacts).await
    }

    /// For users with these addresses.
    pub async fn of_contacts(
        tx: &mut Tx,
        workspace: i32,
        contacts: &[(Uuid, Contact<'_>)],
    ) -> Result<Self, StoreError> {
        let known = suppression_rows::known(tx, workspace).await?;
        Self::of_known(tx, workspace, &known, contacts).await
    }

    async fn of_known(
        tx: &mut Tx,
        workspace: i32,
        known: &Known,
        contacts: &[(Uuid, Contact<'_>)],
    ) -> Result<Self, StoreError> {
        let mut states: HashMap<Uuid, AddressState> = HashMap::new();
        if let Some(key) = &known.key {
            let mut users: HashMap<Hash, Vec<Uuid>> = HashMap::new();
            for (id, contact) in contacts {
                let email = contact.email.clone().map(Address::Email);
                let phone = contact.phone.clone().map(Address::Phone);
                for address in email.into_iter().chain(phone) {
                    for hash in key.hashes(&address) {
                        users.entry(hash).or_default().push(*id);
                    }
                }
            }
            let hashes: Vec<Hash> = users.keys().copied().collect();
            for row in suppression_rows::find(tx, workspace, &hashes, known.now).await? {
                for id in row.hash().and_then(|hash| users.get(&hash)).into_iter().flatten() {
                    states.entry(*id).or_default().add(&row);
                }
            }
        }
        if known.has_earlier {
            let mut users: HashMap<Hash, Vec<Uuid>> = HashMap::new();
            for (id, contact) in contacts {
                let hashes = contact.email.iter().flat_map(|email| earlier_hashes(email));
                hashes.for_each(|hash| users.entry(hash).or_default().push(*id));
            }
            let hashes: Vec<Hash> = users.keys().copied().collect();
            for (hash, at) in suppression_rows::find_earlier(tx, workspace, &hashes).await? {
                for id in users.get(&hash[..]).into_iter().flatten() {
                    let decision = AddressDecision { state: UNSUBSCRIBED.to_owned(), at };
                    states.entry(*id).or_default().add_email(decision);
                }
            }
        }
        states.retain(|_, state| !state.is_empty());
        Ok(Self { users: states })
    }

    /// What is known about one address.
    pub async fn of_address(
        tx: &mut Tx,
        workspace: i32,
        contact: Contact<'_>,
    ) -> Result<AddressState, StoreError> {
        let contacts = [(Uuid::nil(), contact)];
        let mut states = Self::of_contacts(tx, workspace, &contacts).await?;
        Ok(states.users.remove(&Uuid::nil()).unwrap_or_default())
    }

    /// What is known about the address with a hash.
    pub async fn of_hash(
        tx: &mut Tx,
        workspace: i32,
        hash: &Hash,
    ) -> Result<AddressState, StoreError> {
        let (mut state, now) = (AddressState::default(), claims::now(tx).await?);
        for row in suppression_rows::find(tx, workspace, &[*hash], now).await? {
            state.add(&row);
        }
        Ok(state)
    }

    /// Whether nothing is known about any of the addresses.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// What is known about the addresses of a user, if anything.
    pub fn of_user(&self, service_id: Uuid) -> Option<&AddressState> {
        self.users.get(&service_id)
    }

    /// Changes a user who was read from this document to what applies to the user.
    pub fn apply(&self, recipient: &mut Recipient, document: &str) {
        if let Some(state) = self.users.get(&recipient.service_id) {
            state.apply_to_recipient(recipient, document);
        }
    }
}
