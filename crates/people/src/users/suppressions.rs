//! What is known about an address itself: an email address or a phone number, whichever users have
//! it, now or later.
//!
//! - A [decision](Reason::Decision) is the last one about the address. `unsubscribed` holds for each
//!   user who has the address, and a user's own later opt-in does not end it. Another state ends the
//!   own opt-outs of the users who had the address when it was decided.
//! - A [complaint](Reason::Complaint) or a [bounce](Reason::Bounce) stops all messages, whatever was
//!   decided; a bounce for some time.
//!
//! An address is stored as a hash with a random key of its workspace ([`Key`]), and is kept when its
//! users are erased. So an import of the same address does not make it reachable again. The
//! profiles of users are not rewritten: [`AddressStates`] are looked up when users are read, and
//! applied to what was read.

use std::borrow::Cow;
use std::cmp::Reverse;

use uuid::Uuid;

use super::Recipient;
use super::address::{compared, mailbox};
use super::consent::{Consent, Topic, UNSUBSCRIBED};
use super::erased_rows::{Name, name_hash, name_hashes, phone_hash};
use super::profile::{Profile, check};
use super::rows::StoredUser;
use super::suppression_rows::{self, Stored};
use kit::secrets;
use store::{StoreError, Tx, text_enum};

pub mod bounces;
mod states;

pub use super::suppression_rows::{EXPIRED, ScopeCount};
pub use states::{AddressDecision, AddressState, AddressStates, Contact, Stop};

/// The scope of an email address. Other scopes are the ids of subscription groups.
pub const EMAIL: &str = "email";

/// The state of a complaint or a bounce.
pub(super) const SUPPRESSED: &str = "suppressed";

text_enum! {
    /// Why something is known about an address.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Reason {
        /// A user's decision.
        Decision = "decision",
        /// A recipient reported a message as spam.
        Complaint = "complaint",
        /// An email was rejected for good because of the address.
        Bounce = "bounce",
    }
}

/// The key of a workspace's hashes. It is stored next to them, and nothing changes it.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(…)")
    }
}

/// The keyed hash of an address.
pub type Hash = [u8; 32];

/// A hash as text.
pub fn hash_to_hex(hash: &Hash) -> String {
    hex::encode(hash)
}

/// Reads a hash from text.
pub fn hash_from_hex(text: &str) -> Option<Hash> {
    hex::decode(text).ok()?.try_into().ok()
}

/// An email address or a phone number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address<'a> {
    /// In any spelling.
    Email(Cow<'a, str>),
    /// In E.164, with its plus.
    Phone(Cow<'a, str>),
    /// The hash of an address that is not known.
    Hashed(Hash),
}

impl Key {
    /// A key from the store.
    pub(super) fn new(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    pub(super) fn random() -> Self {
        Self(secrets::random_bytes())
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The stored form of an address.
    pub fn hash(&self, address: &Address<'_>) -> Hash {
        match address {
            Address::Email(email) => self.keyed(&name_hash(Name::Email, &mailbox(email))),
            Address::Phone(phone) => self.keyed(&phone_hash(phone)),
            Address::Hashed(hash) => *hash,
        }
    }

    /// The hashes that rows about an address can have: earlier ones have that of a spelling.
    fn hashes(&self, address: &Address<'_>) -> impl Iterator<Item = Hash> {
        let spelling = match address {
            Address::Email(email) => Some(compared(email)).filter(|text| *text != mailbox(email)),
            Address::Phone(_) | Address::Hashed(_) => None,
        };
        let spelling = spelling.map(|text| self.keyed(&name_hash(Name::Email, &text)));
        std::iter::once(self.hash(address)).chain(spelling)
    }

    fn keyed(&self, plain: &Hash) -> Hash {
        secrets::keyed_hash(&self.0, "address", &[plain])
    }
}

/// The hashes without a key that an earlier release stored of an email address.
fn earlier_hashes(email: &str) -> Vec<Hash> {
    let mut hashes = name_hashes(Name::Email, email);
    hashes.extend(name_hashes(Name::Email, &mailbox(email)));
    hashes.sort_unstable();
    hashes.dedup();
    hashes
}

/// A decision about an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDecision<'a> {
    pub address: Address<'a>,
    /// [`EMAIL`], or the id of a subscription group.
    pub scope: Cow<'a, str>,
    /// `unsubscribed`, `subscribed` or `opted_in`.
    pub state: Cow<'a, str>,
    /// When it was received, in milliseconds since the epoch.
    pub at: i64,
}

impl<'a> NewDecision<'a> {
    /// An opt-out of emails.
    pub fn email_opt_out(email: impl Into<Cow<'a, str>>, at: i64) -> Self {
        let (scope, state) = (EMAIL.into(), UNSUBSCRIBED.into());
        Self { address: Address::Email(email.into()), scope, state, at }
    }

    /// An opt-out of a subscription group.
    pub fn group_opt_out(
        phone: impl Into<Cow<'a, str>>,
        group: impl Into<Cow<'a, str>>,
        at: i64,
    ) -> Self {
        let (scope, state) = (group.into(), UNSUBSCRIBED.into());
        Self { address: Address::Phone(phone.into()), scope, state, at }
    }

    /// What the decision is about.
    pub fn topic(&self) -> Topic<'_> {
        if self.scope == EMAIL { Topic::Email } else { Topic::Group(&self.scope) }
    }

    fn stored(&self, key: &Key) -> Stored {
        Stored {
            who: key.hash(&self.address).to_vec(),
            scope: self.scope.clone().into_owned(),
            reason: Reason::Decision,
            state: self.state.clone().into_owned(),
            decided_at: self.at,
            until: None,
            cause: None,
        }
    }
}

/// Stores decisions: of several about an address and a scope, the last one, whatever the order in
/// which they are stored. Of two at the same time, `unsubscribed` holds.
pub async fn decide(
    tx: &mut Tx,
    workspace: i32,
    decisions: &[NewDecision<'_>],
) -> Result<(), StoreError> {
    if decisions.is_empty() {
        return Ok(());
    }
    let key = suppression_rows::ensure_key(tx, workspace).await?;
    let rows = decisions.iter().map(|decision| decision.stored(&key)).collect();
    suppression_rows::put(tx, workspace, rows).await?;
    let emails = decisions.iter().filter_map(|decision| match &decision.address {
        // An opt-out also replaces one of the same time.
        Address::Email(email) => {
            Some((email, decision.at + i64::from(decision.state == UNSUBSCRIBED)))
        }
        Address::Phone(_) | Address::Hashed(_) => None,
    });
    let hashes = |(email, at): (&Cow<'_, str>, i64)| {
        earlier_hashes(email).into_iter().map(move |hash| (hash, at))
    };
    suppression_rows::remove_earlier(tx, workspace, emails.flat_map(hashes).collect()).await
}

/// Stores that recipients at email addresses complained about an email at these times, in
/// milliseconds since the epoch.
pub async fn complain(
    tx: &mut Tx,
    workspace: i32,
    emails: &[(Hash, i64)],
) -> Result<(), StoreError> {
    let row = |(email, at): &(Hash, i64)| Stored {
        who: email.to_vec(),
        scope: EMAIL.to_owned(),
        reason: Reason::Complaint,
        state: SUPPRESSED.to_owned(),
        decided_at: *at,
        until: None,
        cause: None,
    };
    suppression_rows::put(tx, workspace, emails.iter().map(row).collect()).await
}

/// What is known about an address for one scope and reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownState {
    /// [`EMAIL`], or the id of a subscription group.
    pub scope: String,
    pub reason: Reason,
    pub state: String,
    /// In milliseconds since the epoch.
    pub at: i64,
    /// When it ends: only of a bounce.
    pub until: Option<i64>,
    /// The dispatch of the email that bounced.
    pub dispatch_id: Option<Uuid>,
}

impl KnownState {
    /// Whether no messages are sent because of it.
    pub fn is_suppressed(&self) -> bool {
        matches!(self.state.as_str(), UNSUBSCRIBED | SUPPRESSED)
    }
}

/// The number of a workspace's addresses that get no messages, by scope and reason.
pub async fn counts(tx: &mut Tx, workspace: i32) -> Result<Vec<ScopeCount>, StoreError> {
    let (mut counts, earlier) = suppression_rows::count(tx, workspace).await?;
    let is_decision =
        |count: &&mut ScopeCount| count.scope == EMAIL && count.reason == Reason::Decision;
    match counts.iter_mut().find(is_decision) {
        Some(count) => count.addresses += earlier,
        None if earlier > 0 => {
            let (scope, reason) = (EMAIL.to_owned(), Reason::Decision);
            counts.push(ScopeCount { scope, reason, addresses: earlier });
        }
        None => {}
    }
    Ok(counts)
}

/// Whether something is known about any address of a workspace.
pub async fn has_any(tx: &mut Tx, workspace: i32) -> Result<bool, StoreError> {
    Ok(!suppression_rows::known(tx, workspace).await?.is_empty())
}

/// All that is known about an address.
pub async fn check(
    tx: &mut Tx,
    workspace: i32,
    address: &Address<'_>,
) -> Result<Vec<KnownState>, StoreError> {
    let known = suppression_rows::known(tx, workspace).await?;
    let mut states = Vec::new();
    if let Some(key) = &known.key {
        let hashes: Vec<Hash> = key.hashes(address).collect();
        for row in suppression_rows::find(tx, workspace, &hashes, known.now).await? {
            let Stored { scope, reason, state, decided_at: at, until, cause: dispatch_id, .. } =
                row;
            states.push(KnownState { scope, reason, state, at, until, dispatch_id });
        }
    }
    if let Address::Email(email) = address {
        let hashes = earlier_hashes(email);
        for (_, at) in suppression_rows::find_earlier(tx, workspace, &hashes).await? {
            let (scope, state) = (EMAIL.to_owned(), UNSUBSCRIBED.to_owned());
            let (reason, until, dispatch_id) = (Reason::Decision, None, None);
            states.push(KnownState { scope, reason, state, at, until, dispatch_id });
        }
    }
    // Of several decisions about the same, the last one; of the same time, the opt-out.
    states.sort_by_cached_key(|state| {
        let last = Reverse((state.at, state.state == UNSUBSCRIBED));
        (state.scope.clone(), state.reason, last)
    });
    states.dedup_by(|a, b| (&a.scope, a.reason) == (&b.scope, b.reason));
    Ok(states)
}

/// Ends what stops messages to addresses in their scopes: opt-outs, and for emails complaints and
/// bounces.
/// Returns how many addresses were suppressed.
pub async fn lift(
    tx: &mut Tx,
    workspace: i32,
    addresses: &[(Address<'_>, String)],
    now: i64,
) -> Result<u64, StoreError> {
    let key = key(tx, workspace).await?;
    let mut addresses: Vec<(Hash, &Address<'_>, &str)> = addresses
        .iter()
        .map(|(address, scope)| (key.hash(address), address, scope.as_str()))
        .collect();
    // In the order in which rows are locked.
    addresses.sort_unstable_by_key(|(hash, _, scope)| (*hash, *scope));
    let (mut decisions, mut lifted) = (Vec::new(), 0);
    for (_, address, scope) in addresses {
        let mut known = check(tx, workspace, address).await?;
        known.retain(|state| state.scope == scope && state.is_suppressed());
        lifted += u64::from(!known.is_empty());
        if known.iter().any(|state| state.reason != Reason::Decision) {
            for hash in key.hashes(address) {
                suppression_rows::remove_stops(tx, workspace, &hash).await?;
            }
        }
        // Later than the opt-out, also if the clock of its gateway was ahead.
        let at = known.iter().map(|state| state.at + 1).max().unwrap_or_default().max(now);
        let (address, scope) = (address.clone(), Cow::Owned(scope.to_owned()));
        decisions.push(NewDecision { address, scope, state: "subscribed".into(), at });
    }
    decide(tx, workspace, &decisions).await?;
    Ok(lifted)
}

/// The key of a workspace, which is created the first time.
pub async fn key(tx: &mut Tx, workspace: i32) -> Result<Key, StoreError> {
    suppression_rows::ensure_key(tx, workspace).await
}

/// The key of a workspace, if it was created before.
pub async fn stored_key(tx: &mut Tx, workspace: i32) -> Result<Option<Key>, StoreError> {
    Ok(suppression_rows::known(tx, workspace).await?.key)
}

/// A stored user's decisions and addresses. A profile that cannot be read has none.
fn own(user: &StoredUser) -> (Consent, Contact<'static>) {
    let profile = Profile::parse(&user.doc).unwrap_or_default();
    (Consent::read(&profile).with_opt_outs_at(user.attributes_at), Contact::of(&profile))
}

/// The opt-outs of a stored user, for the addresses that the user has.
pub fn own_opt_outs(user: &StoredUser) -> Vec<NewDecision<'static>> {
    let (consent, contact) = own(user);
    opt_outs(&consent, &contact)
}

/// Stores the opt-outs of a user who is removed, for those addresses that the user does not leave to
/// `kept`. An opt-out that is older than the address counts since the user got the address.
pub async fn keep_opt_outs(
    tx: &mut Tx,
    workspace: i32,
    user: &StoredUser,
    kept: &Profile,
) -> Result<(), StoreError> {
    let ((consent, contact), kept) = (own(user), Contact::of(kept));
    let mut decisions = all_opt_outs(&consent, &contact);
    decisions.retain_mut(|decision| {
        decision.at = decision.at.max(consent.address_at(decision.topic()));
        match &decision.address {
            Address::Email(had) => kept.email.as_deref().map(mailbox) != Some(mailbox(had)),
            address => kept.phone.clone().map(Address::Phone).as_ref() != Some(address),
        }
    });
    if let Some(email) = &user.email {
        // The hash of an earlier release has no key.
        let hashes = earlier_hashes(email);
        let earlier = suppression_rows::find_earlier(tx, workspace, &hashes).await?;
        let earlier = earlier.into_iter().map(|(_, at)| at).max();
        decisions.extend(earlier.map(|at| NewDecision::email_opt_out(email.clone(), at)));
    }
    decide(tx, workspace, &decisions).await
}

/// The opt-outs in a user's decisions that were made since the user got the address.
pub fn opt_outs(consent: &Consent, contact: &Contact<'_>) -> Vec<NewDecision<'static>> {
    let mut opt_outs = all_opt_outs(consent, contact);
    opt_outs.retain(|opt_out| consent.is_of_present_address(opt_out.topic(), opt_out.at));
    opt_outs
}

fn all_opt_outs(consent: &Consent, contact: &Contact<'_>) -> Vec<NewDecision<'static>> {
    let opt_out = |(topic, state, at): (Topic<'_>, &str, i64)| match topic {
        _ if state != UNSUBSCRIBED => None,
        Topic::Email => {
            let email = contact.email.as_deref()?;
            Some(NewDecision::email_opt_out(email.to_owned(), at))
        }
        Topic::Push => None,
        Topic::Group(id) => {
            let phone = contact.phone.as_deref()?;
            Some(NewDecision::group_opt_out(phone.to_owned(), id.to_owned(), at))
        }
    };
    consent.states().filter_map(opt_out).collect()
}

/// A stored user as messages see the user, with what applies to the user's addresses.
pub async fn recipient(
    tx: &mut Tx,
    workspace: i32,
    user: &StoredUser,
) -> Result<Recipient, StoreError> {
    let id = user.service_id;
    let mut recipient = Recipient::read(id, &user.doc)
        .map_err(|error| StoreError::Corrupt(format!("users.doc of {id}: {error}")))?;
    let documents = std::iter::once((id, user.doc.as_str()));
    AddressStates::look_up(tx, workspace, documents).await?.apply(&mut recipient, &user.doc);
    Ok(recipient)
}

/// The id of a subscription group as it is compared.
pub fn group_scope(id: &str) -> Cow<'_, str> {
    check::group_id(id)
}

#[cfg(test)]
mod tests;
