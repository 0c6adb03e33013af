//! The needs of objects: their identifiers, and the changes of the identified users.

use std::borrow::Cow;
use std::collections::HashMap;

use uuid::Uuid;

use super::super::message::Object;
use crate::users::identifier::Identifier;
use crate::users::profile::Field;
use crate::users::service_id;

/// What objects do with an identifier.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wish {
    /// One changes the profile.
    pub changes: bool,
    /// When the first and the last objects that would create the user were accepted.
    pub makes: Option<(i64, i64)>,
}

impl Wish {
    fn add(&mut self, object: &Object<'_>, received_at: i64) {
        self.changes |= matches!(object, Object::Attributes(_));
        if !object.update_only() {
            let (first, last) = self.makes.unwrap_or((received_at, received_at));
            self.makes = Some((first.min(received_at), last.max(received_at)));
        }
    }
}

/// The identifiers that objects name, each once.
#[derive(Debug, Default)]
pub struct Wanted<'a> {
    pub external_ids: HashMap<&'a str, Wish>,
    /// By label and name.
    pub aliases: HashMap<(&'a str, &'a str), Wish>,
    /// Those that a user can have.
    pub service_ids: HashMap<Uuid, Wish>,
    /// As emails are compared.
    pub emails: HashMap<Cow<'a, str>, Wish>,
    /// An object changes or removes a user's email.
    pub changes_emails: bool,
}

impl<'a> Wanted<'a> {
    /// The needs of objects, each with the time when it was accepted.
    pub fn of(objects: &[(i64, &'a Object<'a>)]) -> Self {
        let mut wanted = Self::default();
        for (received_at, object) in objects {
            let wish = match object.user() {
                Identifier::ExternalId(id) => wanted.external_ids.entry(id).or_default(),
                Identifier::ServiceId(id) if service_id::bucket(id).is_some() => {
                    wanted.service_ids.entry(*id).or_default()
                }
                Identifier::ServiceId(_) => continue,
                Identifier::UserAlias(alias) => {
                    let key = (alias.alias_label.as_ref(), alias.alias_name.as_ref());
                    wanted.aliases.entry(key).or_default()
                }
                Identifier::Email(email) => wanted.emails.entry(compared(email)).or_default(),
            };
            wish.add(object, *received_at);
            if let Object::Attributes(attributes) = object {
                let mut names = attributes.fields.0.iter().map(|(name, _)| name);
                wanted.changes_emails |= names.any(|name| name == Field::Email.name());
            }
        }
        wanted
    }
}

/// An email as emails are compared.
pub fn compared(email: &str) -> Cow<'_, str> {
    match email.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase()) {
        true => Cow::Borrowed(email),
        false => Cow::Owned(email.to_lowercase()),
    }
}
