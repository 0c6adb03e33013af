//! Finds users by whatever identifier an operator has (docs/reference/command-line.md).

use serde::Serialize;
use uuid::Uuid;

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
/// number; each user once, by the first kind that fits.
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
    let email = text.to_lowercase();
    let emails = hint_rows::find(tx, workspace, Hint::Email, &[&email], MAX_HINTS).await?;
    candidates.extend(emails.into_iter().map(|(_, id)| (IdentifierKind::Email, id)));
    let phone = phone_number(text);
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
            IdentifierKind::Email => user.email.as_deref() == Some(&*email),
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

/// The number in E.164, as profiles have it, without what people write between the digits.
fn phone_number(text: &str) -> Option<String> {
    let is_separator = |c: char| c.is_whitespace() || matches!(c, '-' | '.' | '(' | ')' | '/');
    let compact = text.replace(is_separator, "");
    let digits = compact.strip_prefix('+').or_else(|| compact.strip_prefix("00"));
    let digits = digits.unwrap_or(&compact);
    let is_number =
        (7..=15).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| format!("+{digits}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_as_people_write_them() {
        for text in ["+4915112345678", "004915112345678", "+49 (151) 1234-5678", "4915112345678"] {
            assert_eq!(phone_number(text).as_deref(), Some("+4915112345678"), "{text}");
        }
        for text in ["", "+", "12345", "ann@acme.example", "+1234567890123456", "+49151x2345678"] {
            assert_eq!(phone_number(text), None, "{text}");
        }
    }

    #[test]
    fn each_colon_may_end_the_label() {
        assert_eq!(alias_keys("crm:a:7"), ["crm\u{1f}a:7", "crm:a\u{1f}7"]);
        assert!(alias_keys("ann").is_empty());
        assert_eq!(alias_keys(&":".repeat(50)).len(), MAX_COLONS);
    }
}
