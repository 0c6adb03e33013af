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
    /// When the first and the last objects that would create the user were received.
    pub creates: Option<(i64, i64)>,
}

impl IdentifierUse {
    fn add(&mut self, object: &Object<'_>, at: i64) {
        self.changes |= matches!(object, Object::Attributes(_));
        if !object.update_only() {
            let (first, last) = self.creates.unwrap_or((at, at));
            self.creates = Some((first.min(at), last.max(at)));
        }
    }
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
    /// The push tokens that objects register.
    pub tokens: BTreeSet<TokenKey>,
    /// Whether an object changes or removes a user's email.
    pub changes_emails: bool,
}

impl<'a> IdentifierSet<'a> {
    pub(super) fn from_objects(objects: &[ReceivedObject<'a>]) -> Self {
        let mut identifier_set = Self::default();
        for received in objects {
            let ReceivedObject { object, at, .. } = *received;
            if object.address().is_some() {
                continue;
            }
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
            usage.add(object, at.ms());
            if let Object::Attributes(attributes) = object {
                let mut fields = attributes.fields.0.iter();
                if fields.any(|(name, _)| name == Field::Email.name()) {
                    usage.changes_email = true;
                    identifier_set.changes_emails = true;
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
