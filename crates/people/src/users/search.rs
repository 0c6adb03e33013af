//! Finds users by whatever identifier an operator has (docs/reference/command-line.md).

use std::borrow::Cow;

use serde::Serialize;
use uuid::Uuid;

use super::address;
use super::find::FindError;
use super::hint_rows::{self, Hint};
use super::profile::Alias;
use super::recipient::Recipient;
use super::rows::{self, For, Kind, StoredUser};
use super::{merged_rows, service_id};
use store::{StoreError, Tx, text_enum};

/// Maximum number of users who are found by an email address or a phone number.
const MAX_HINTS: i64 = 100;

/// Maximum number of colons in an alias, each of which may be the end of its label.
const MAX_COLONS: usize = 8;

text_enum! {
    /// The kind of an identifier.
    pub enum IdentifierKind {
        ExternalId = "external_id",
        ServiceId = "service_id",
        /// The id of a user who was merged into this one.
        MergedServiceId = "merged_service_id",
        UserAlias = "user_alias",
        Email = "email",
        Phone = "phone",
    }
}

/// A user, and the kind of identifier that the text is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FoundUser {
    pub found_by: IdentifierKind,
    pub service_id: Uuid,
    pub external_id: Option<String>,
    pub email: Option<String>,
}

/// Every user with this external_id, service_id, alias (`LABEL:NAME`), email address or phone
/// number; each user once, by the first kind that fits. Addresses with an international host name
/// are found in both of its forms.
pub async fn search(tx: &mut Tx, workspace: i32, text: &str) -> Result<Vec<FoundUser>, StoreError> {
    let mut candidates: Vec<(IdentifierKind, Uuid)> = Vec::new();
    let external_ids = rows::find_identifiers(tx, workspace, Kind::ExternalId, &[text]).await?;
    candidates.extend(external_ids.iter().map(|id| (IdentifierKind::ExternalId, id.service_id)));
    let as_service_id = Uuid::parse_str(text).ok().filter(|id| service_id::bucket(id).is_some());
    if let Some(id) = as_service_id {
        let present = merged_rows::present(tx, workspace, id).await?;
        let kind =
            if present == id { IdentifierKind::ServiceId } else { IdentifierKind::MergedServiceId };
        candidates.push((kind, present));
    }
    let aliases = alias_keys(text);
    let aliases: Vec<&str> = aliases.iter().map(String::as_str).collect();
    let aliases = rows::find_identifiers(tx, workspace, Kind::Alias, &aliases).await?;
    candidates.extend(aliases.iter().map(|id| (IdentifierKind::UserAlias, id.service_id)));
    let emails = if text.contains('@') { address::spellings(text) } else { Vec::new() };
    let wanted: Vec<&str> = emails.iter().map(Cow::as_ref).collect();
    let hints = hint_rows::find(tx, workspace, Hint::Email, &wanted, MAX_HINTS).await?;
    candidates.extend(hints.into_iter().map(|(_, id)| (IdentifierKind::Email, id)));
    let phone = kit::phone::e164(text);
    let phones: Vec<&str> = phone.iter().map(String::as_str).collect();
    let phones = hint_rows::find(tx, workspace, Hint::Phone, &phones, MAX_HINTS).await?;
    candidates.extend(phones.into_iter().map(|(_, id)| (IdentifierKind::Phone, id)));

    let ids: Vec<Uuid> = candidates.iter().map(|(_, id)| *id).collect();
    let users = rows::find_users(tx, workspace, &ids, For::Reading).await?;
    let mut found: Vec<FoundUser> = Vec::new();
    for (found_by, id) in candidates {
        let is_new = !found.iter().any(|user| user.service_id == id);
        let Some(user) = users.iter().find(|user| user.service_id == id && is_new) else {
            continue;
        };
        // Of addresses and numbers there are only hints.
        let fits = match found_by {
            IdentifierKind::Email => user.address() == Some(address::compared(text)),
            IdentifierKind::Phone => has_phone(user, phone.as_deref()),
            _ => true,
        };
        if fits {
            let StoredUser { external_id, email, .. } = user.clone();
            found.push(FoundUser { found_by, service_id: id, external_id, email });
        }
    }
    Ok(found)
}

/// The users who have a phone number in E.164; at most 100 of them.
pub async fn phone_holders(
    tx: &mut Tx,
    workspace: i32,
    phone: &str,
) -> Result<Vec<StoredUser>, StoreError> {
    let hints = hint_rows::find(tx, workspace, Hint::Phone, &[phone], MAX_HINTS).await?;
    let ids: Vec<Uuid> = hints.into_iter().map(|(_, id)| id).collect();
    let mut users = rows::find_users(tx, workspace, &ids, For::Reading).await?;
    users.retain(|user| has_phone(user, Some(phone)));
    Ok(users)
}

/// The only user with this identifier, of any kind. An external_id or a service_id is of one user,
/// even if it looks like another user's alias, address or number.
pub async fn identify(tx: &mut Tx, workspace: i32, text: &str) -> Result<Uuid, FindError> {
    let found = search(tx, workspace, text).await?;
    only(&found).map_err(|ids| {
        if ids.is_empty() { FindError::Unknown(text.to_owned()) } else { FindError::Several(ids) }
    })
}

/// The error has all users, since none is certain.
fn only(found: &[FoundUser]) -> Result<Uuid, Vec<Uuid>> {
    let is_certain = |user: &FoundUser| {
        use IdentifierKind as Kind;
        matches!(user.found_by, Kind::ExternalId | Kind::ServiceId | Kind::MergedServiceId)
    };
    match found {
        [user] => Ok(user.service_id),
        [user, ..] if is_certain(user) => Ok(user.service_id),
        several => Err(several.iter().map(|user| user.service_id).collect()),
    }
}

/// An unreadable profile has no number.
fn has_phone(user: &StoredUser, phone: Option<&str>) -> bool {
    let recipient = Recipient::read(user.service_id, &user.doc);
    phone.is_some() && recipient.is_ok_and(|recipient| recipient.phone() == phone)
}

/// The stored forms of `LABEL:NAME`; several, because both parts may have colons.
fn alias_keys(text: &str) -> Vec<String> {
    let colons = text.match_indices(':').take(MAX_COLONS);
    colons.map(|(colon, _)| Alias::key_of(&text[..colon], &text[colon + 1..])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_users_are_an_error_unless_one_is_certain() {
        let ids: [Uuid; 2] = std::array::from_fn(|_| Uuid::now_v7());
        let found = |kinds: &[IdentifierKind]| {
            let users = kinds.iter().zip(ids).map(|(found_by, service_id)| FoundUser {
                found_by: *found_by,
                service_id,
                external_id: None,
                email: None,
            });
            only(&users.collect::<Vec<_>>())
        };
        use IdentifierKind::{Email, ExternalId, MergedServiceId, Phone, UserAlias};
        assert_eq!(found(&[]), Err(Vec::new()));
        for alone in IdentifierKind::ALL {
            assert_eq!(found(&[alone]), Ok(ids[0]));
        }
        for first in [ExternalId, MergedServiceId] {
            assert_eq!(found(&[first, Email]), Ok(ids[0]));
        }
        for several in [[Email, Email], [Phone, Phone], [UserAlias, Email]] {
            assert_eq!(found(&several), Err(ids.to_vec()));
        }
    }

    #[test]
    fn each_colon_may_end_the_label() {
        assert_eq!(alias_keys("crm:a:7"), ["crm\u{1f}a:7", "crm:a\u{1f}7"]);
        assert!(alias_keys("ann").is_empty());
        assert_eq!(alias_keys(&":".repeat(50)).len(), MAX_COLONS);
    }
}
