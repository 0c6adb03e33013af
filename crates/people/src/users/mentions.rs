//! Finds the users that a request mentions, by any of their identifiers.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};

use uuid::Uuid;

use super::address::{self, compared};
use super::hint_rows::{self, Hint};
use super::identifier::Identifier;
use super::profile::{Alias, Field, Profile};
use super::rows::{self, For, Kind, StoredUser};
use super::{merged_rows, service_id};
use kit::retry::Retry;
use store::{StoreError, Tx};

/// Maximum number of users who may have the mentioned addresses and numbers, for each kind.
const MAX_HINTS: usize = 1_000;

/// Profiles that are read together to check their numbers.
const PAGE: usize = 10;

/// An identifier in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mention<'m> {
    ExternalId(&'m str),
    /// The id of a merged user stands for the kept user.
    ServiceId(Uuid),
    Alias {
        label: &'m str,
        name: &'m str,
    },
    /// In any [spelling](address).
    Email(&'m str),
    /// In E.164.
    Phone(&'m str),
}

impl<'m> From<&'m Identifier<'_>> for Mention<'m> {
    fn from(identifier: &'m Identifier<'_>) -> Self {
        match identifier {
            Identifier::ExternalId(id) => Self::ExternalId(id),
            Identifier::ServiceId(id) => Self::ServiceId(*id),
            Identifier::UserAlias(alias) => {
                Self::Alias { label: &alias.alias_label, name: &alias.alias_name }
            }
            Identifier::Email(email) => Self::Email(email),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum MentionError {
    #[error("more than {MAX_HINTS} users may have these addresses or numbers")]
    TooMany,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Retry for MentionError {
    fn can_retry(&self) -> bool {
        matches!(self, Self::Store(error) if error.can_retry())
    }
}

/// The users of each mention, ascending; several only for an address or a number. It reads what the
/// transaction sees: pass a [snapshot](store::Store::snapshot).
pub async fn find(
    tx: &mut Tx,
    workspace: i32,
    mentions: &[Mention<'_>],
) -> Result<Vec<BTreeSet<Uuid>>, MentionError> {
    let known = Known::read(tx, workspace, mentions).await?;
    let mut candidates: Vec<BTreeSet<Uuid>> =
        mentions.iter().map(|mention| known.candidates(*mention)).collect();
    let ids: BTreeSet<Uuid> = candidates.iter().flatten().copied().collect();
    let ids: Vec<Uuid> = ids.into_iter().collect();
    let users = rows::find_users(tx, workspace, &ids, For::ReadingKeys).await?;
    let users: HashMap<Uuid, StoredUser> =
        users.into_iter().map(|user| (user.service_id, user)).collect();
    let phones = read_phones(tx, workspace, &known.phones, &users).await?;
    for (mention, ids) in mentions.iter().zip(&mut candidates) {
        ids.retain(|id| match mention {
            Mention::Email(email) => {
                users.get(id).and_then(StoredUser::address) == Some(compared(email))
            }
            Mention::Phone(phone) => phones.contains(&((*phone).to_owned(), *id)),
            _ => users.contains_key(id),
        });
    }
    Ok(candidates)
}

/// The stored identifiers and hints of mentions.
struct Known {
    external_ids: HashMap<String, Uuid>,
    aliases: HashMap<String, Uuid>,
    merged: HashMap<Uuid, Uuid>,
    /// By the address as it is compared.
    emails: Vec<(String, Uuid)>,
    phones: Vec<(String, Uuid)>,
}

impl Known {
    async fn read(
        tx: &mut Tx,
        workspace: i32,
        mentions: &[Mention<'_>],
    ) -> Result<Self, MentionError> {
        let (mut external_ids, mut ids) = (BTreeSet::new(), BTreeSet::new());
        let (mut aliases, mut emails, mut phones) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for mention in mentions {
            match *mention {
                Mention::ExternalId(id) => external_ids.insert(id.to_owned()),
                Mention::ServiceId(id) => ids.insert(id),
                Mention::Alias { label, name } => aliases.insert(Alias::key_of(label, name)),
                Mention::Email(email) => {
                    let spellings = address::spellings(email).into_iter();
                    emails.extend(spellings.map(Cow::into_owned));
                    continue;
                }
                Mention::Phone(phone) => phones.insert(phone.to_owned()),
            };
        }
        let ids: Vec<Uuid> = ids.into_iter().collect();
        Ok(Self {
            external_ids: identifiers(tx, workspace, Kind::ExternalId, &external_ids).await?,
            aliases: identifiers(tx, workspace, Kind::Alias, &aliases).await?,
            merged: merged_rows::find_merged(tx, workspace, &ids).await?,
            emails: hints(tx, workspace, Hint::Email, &emails)
                .await?
                .into_iter()
                .map(|(email, id)| (compared(&email).into_owned(), id))
                .collect(),
            phones: hints(tx, workspace, Hint::Phone, &phones).await?,
        })
    }

    /// The users who may be mentioned.
    fn candidates(&self, mention: Mention<'_>) -> BTreeSet<Uuid> {
        match mention {
            Mention::ExternalId(id) => self.external_ids.get(id).copied().into_iter().collect(),
            Mention::ServiceId(id) => {
                let id = self.merged.get(&id).copied().unwrap_or(id);
                // Other ids have no slice, and no user.
                service_id::bucket(&id).map(|_| id).into_iter().collect()
            }
            Mention::Alias { label, name } => {
                self.aliases.get(&Alias::key_of(label, name)).copied().into_iter().collect()
            }
            Mention::Email(email) => hinted(&self.emails, &compared(email)),
            Mention::Phone(phone) => hinted(&self.phones, phone),
        }
    }
}

fn hinted(hints: &[(String, Uuid)], value: &str) -> BTreeSet<Uuid> {
    hints.iter().filter(|(hinted, _)| hinted == value).map(|(_, id)| *id).collect()
}

async fn identifiers(
    tx: &mut Tx,
    workspace: i32,
    kind: Kind,
    values: &BTreeSet<String>,
) -> Result<HashMap<String, Uuid>, StoreError> {
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    let found = rows::find_identifiers(tx, workspace, kind, &values).await?;
    Ok(found.into_iter().map(|found| (found.value, found.service_id)).collect())
}

async fn hints(
    tx: &mut Tx,
    workspace: i32,
    hint: Hint,
    values: &BTreeSet<String>,
) -> Result<Vec<(String, Uuid)>, MentionError> {
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    let hints = hint_rows::find(tx, workspace, hint, &values, MAX_HINTS as i64 + 1).await?;
    if hints.len() > MAX_HINTS { Err(MentionError::TooMany) } else { Ok(hints) }
}

/// The hints that the profiles of existing users confirm. An unreadable profile counts as one that
/// does, because its hint was written from it.
async fn read_phones(
    tx: &mut Tx,
    workspace: i32,
    hints: &[(String, Uuid)],
    users: &HashMap<Uuid, StoredUser>,
) -> Result<HashSet<(String, Uuid)>, StoreError> {
    let ids: BTreeSet<Uuid> =
        hints.iter().map(|(_, id)| *id).filter(|id| users.contains_key(id)).collect();
    let ids: Vec<Uuid> = ids.into_iter().collect();
    let mut confirmed = HashSet::new();
    for page in ids.chunks(PAGE) {
        for user in rows::find_users(tx, workspace, page, For::Reading).await? {
            let profile = Profile::parse(&user.doc);
            let own = hints.iter().filter(|(_, id)| *id == user.service_id);
            confirmed.extend(
                own.filter(|(phone, _)| match &profile {
                    Ok(profile) => profile.text(Field::Phone).as_deref() == Some(phone),
                    Err(_) => true,
                })
                .cloned(),
            );
        }
    }
    Ok(confirmed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_mention_has_its_candidates() {
        let id = |n: u64| service_id::new(1_789_000_000_000, 0, 1, n);
        let [ann, bob, old] = [1, 2, 3].map(id);
        let known = Known {
            external_ids: HashMap::from([("ann".to_owned(), ann)]),
            aliases: HashMap::from([(Alias::key_of("crm", "7"), bob)]),
            merged: HashMap::from([(old, ann)]),
            emails: vec![("x@acme.example".into(), ann), ("x@acme.example".into(), bob)],
            phones: vec![("+15550100".into(), bob)],
        };
        for (mention, users) in [
            (Mention::ExternalId("ann"), vec![ann]),
            (Mention::ExternalId("bob"), vec![]),
            (Mention::ServiceId(bob), vec![bob]),
            (Mention::ServiceId(old), vec![ann]),
            (Mention::ServiceId(Uuid::from_u128(7)), vec![]),
            (Mention::Alias { label: "crm", name: "7" }, vec![bob]),
            (Mention::Alias { label: "7", name: "crm" }, vec![]),
            (Mention::Email("X@Acme.example"), vec![ann, bob]),
            (Mention::Phone("+15550100"), vec![bob]),
            (Mention::Phone("+15550101"), vec![]),
        ] {
            assert!(known.candidates(mention) == users.into_iter().collect(), "{mention:?}");
        }
    }
}
