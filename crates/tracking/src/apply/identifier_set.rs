//! The identifiers that objects need, and whether they change the identified users.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use uuid::Uuid;

use super::bulk::ReceivedObject;
use crate::message::{Attributes, Object};
use people::users::address::compared;
use people::users::identifier::Identifier;
use people::users::profile::Field;
use people::users::service_id;
use people::users::tokens::{self, TokenKey};

/// How objects use an identifier.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdentifierUse {
    /// Whether an object changes the profile.
    pub changes: bool,
    /// Whether an object changes or removes the email of the user.
    pub changes_email: bool,
    /// When the first and the last objects that would create the user were accepted.
    pub creates: Option<(i64, i64)>,
}

impl IdentifierUse {
    fn add(&mut self, object: &Object<'_>, received_at: i64) {
        self.changes |= matches!(object, Object::Attributes(_));
        if !object.update_only() {
            let (first, last) = self.creates.unwrap_or((received_at, received_at));
            self.creates = Some((first.min(received_at), last.max(received_at)));
        }
    }
}

/// A state of emails that an object sets by address.
#[derive(Clone, Debug)]
pub struct AddressState {
    pub state: Option<String>,
    /// In milliseconds since the epoch.
    pub received_at: i64,
}

/// The identifiers that objects name, each once.
#[derive(Debug, Default)]
pub struct IdentifierSet<'a> {
    pub external_ids: HashMap<&'a str, IdentifierUse>,
    /// By label and name.
    pub aliases: HashMap<(&'a str, &'a str), IdentifierUse>,
    /// Only ids that a user can have.
    pub service_ids: HashMap<Uuid, IdentifierUse>,
    /// In the form in which emails are compared.
    pub emails: HashMap<Cow<'a, str>, IdentifierUse>,
    /// The states of emails that objects set by address, in their order.
    pub address_states: HashMap<Cow<'a, str>, Vec<AddressState>>,
    /// The push tokens that objects register.
    pub tokens: BTreeSet<TokenKey>,
    /// Whether an object changes or removes a user's email.
    pub changes_emails: bool,
    /// The users whose email objects write, and the emails in the form in which they are compared;
    /// none if it is removed.
    pub written_emails: Vec<(&'a Identifier<'a>, Option<String>)>,
}

impl<'a> IdentifierSet<'a> {
    pub(super) fn from_objects(objects: &[ReceivedObject<'a>]) -> Self {
        let mut identifier_set = Self::default();
        for received in objects {
            let ReceivedObject { object, received_at } = *received;
            let usage = match object.user() {
                Identifier::ExternalId(id) => identifier_set.external_ids.entry(id).or_default(),
                Identifier::ServiceId(id) if service_id::bucket(id).is_some() => {
                    identifier_set.service_ids.entry(*id).or_default()
                }
                Identifier::ServiceId(_) => continue,
                Identifier::UserAlias(alias) => {
                    let key = (alias.alias_label.as_ref(), alias.alias_name.as_ref());
                    identifier_set.aliases.entry(key).or_default()
                }
                Identifier::Email(email) => {
                    identifier_set.emails.entry(compared(email)).or_default()
                }
            };
            usage.add(object, received_at);
            if let Object::Attributes(attributes) = object {
                let mut fields = attributes.fields.0.iter();
                if let Some((_, email)) = fields.find(|(name, _)| name == Field::Email.name()) {
                    usage.changes_email = true;
                    identifier_set.changes_emails = true;
                    let email: Option<String> = serde_json::from_str(email.get()).ok();
                    let email = email.map(|email| compared(&email).into_owned());
                    identifier_set.written_emails.push((object.user(), email));
                }
                if let Some((email, state)) = state_by_address(received) {
                    identifier_set.address_states.entry(email).or_default().push(state);
                }
                identifier_set.tokens.extend(registered_tokens(attributes));
            }
        }
        identifier_set
    }
}

/// The push tokens that an object registers.
pub fn registered_tokens(attributes: &Attributes<'_>) -> Vec<TokenKey> {
    let fields = attributes.fields.0.iter();
    let lists = fields.filter(|(name, _)| name == Field::PushTokens.name());
    lists.flat_map(|(_, value)| tokens::keys(value.get())).collect()
}

/// The address whose state of emails an object sets, and the state.
pub(super) fn state_by_address<'m>(
    received: &ReceivedObject<'m>,
) -> Option<(Cow<'m, str>, AddressState)> {
    let ReceivedObject { object, received_at } = *received;
    let Object::Attributes(Attributes { user: Identifier::Email(email), fields, .. }) = object
    else {
        return None;
    };
    let mut fields = fields.0.iter();
    let (_, state) = fields.find(|(name, _)| name == Field::EmailSubscribe.name())?;
    let state = serde_json::from_str(state.get()).unwrap_or_default();
    Some((compared(email), AddressState { state, received_at }))
}
