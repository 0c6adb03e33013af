//! Removes push tokens that no device has any longer.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::large_rows::lock_users;
use super::profile::{Field, Profile};
use super::rows::put_users;
use super::service_id;
use super::token_rows;
use super::tokens::{self, Token, TokenKey};
use store::{ByteBudget, StoreError, Tx};

/// A token of a user to remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidToken {
    pub service_id: Uuid,
    /// None means any app.
    pub app_id: Option<String>,
    pub token: String,
    /// When the reported message was sent, in milliseconds since the epoch: a token that was
    /// registered later stays.
    pub sent_at: i64,
}

impl InvalidToken {
    fn matches(&self, stored: &Token<'_>) -> bool {
        let is_of_app = |app_id: &String| *app_id == stored.app_id;
        self.token == stored.token && self.app_id.as_ref().is_none_or(is_of_app)
    }
}

/// Removes tokens from the profiles that have them, in the caller's transaction; returns the number
/// of profiles. Rows are locked like those of tracked changes, so that neither loses the other's.
/// Erased users and missing tokens are skipped.
pub async fn remove_tokens(
    tx: &mut Tx,
    workspace: i32,
    invalid: &[InvalidToken],
) -> Result<usize, StoreError> {
    let mut by_user: BTreeMap<Uuid, Vec<&InvalidToken>> = BTreeMap::new();
    for token in invalid.iter().filter(|token| service_id::bucket(&token.service_id).is_some()) {
        by_user.entry(token.service_id).or_default().push(token);
    }
    let ids: Vec<Uuid> = by_user.keys().copied().collect();
    let found = lock_users(tx, workspace, &ids, &mut ByteBudget::unlimited()).await?;
    // A registration locks the profile, too, so all times are those of the locked profiles.
    let keys: BTreeSet<TokenKey> = found.iter().flat_map(|user| keys(&user.doc)).collect();
    let registered = token_rows::find(tx, workspace, &keys).await?;
    let mut changed = Vec::new();
    for mut user in found {
        let invalid = by_user.get(&user.service_id).map_or(&[][..], Vec::as_slice);
        let is_removed = |token: &Token<'_>| {
            let owner = registered.get(&token.key());
            let owner = owner.filter(|owner| owner.service_id == user.service_id);
            // An estimated time is the last that is possible.
            let registered_at = owner.map_or(0, |owner| owner.registered_at.saturating_abs());
            invalid.iter().any(|invalid| invalid.matches(token) && registered_at <= invalid.sent_at)
        };
        if let Some(document) = without(&user.doc, is_removed) {
            user.doc = document;
            changed.push(user);
        }
    }
    changed.sort_unstable_by_key(|user| {
        let slice = service_id::bucket(&user.service_id).map(service_id::slice_of);
        (slice, user.service_id)
    });
    put_users(tx, workspace, &changed).await?;
    Ok(changed.len())
}

/// The keys of the tokens in a document; none if it is unreadable.
pub(super) fn keys(document: &str) -> Vec<TokenKey> {
    let profile = Profile::parse(document).unwrap_or_default();
    profile.get(Field::PushTokens).map(tokens::keys).unwrap_or_default()
}

/// The document without some tokens; none if it has none of them, or is unreadable.
pub(super) fn without(document: &str, is_removed: impl Fn(&Token<'_>) -> bool) -> Option<String> {
    let mut profile = Profile::parse(document).ok()?;
    let others = tokens::without(profile.get(Field::PushTokens)?, is_removed)?;
    profile.replace(Field::PushTokens, others.map(String::into_boxed_str));
    Some(profile.to_document())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unregistered_tokens_are_removed() {
        let token_t = r#"{"app_id":"a","token":"t"}"#;
        let token_of_other_app = r#"{"app_id":"b","token":"t","device_id":"d"}"#;
        let token_u = r#"{"app_id":"a","token":"u","kind":"live_activity"}"#;
        let document = |tokens: &[&str]| match tokens {
            [] => r#"{"first_name":"Ann"}"#.to_owned(),
            tokens => format!(r#"{{"first_name":"Ann","push_tokens":[{}]}}"#, tokens.join(",")),
        };
        let invalid = |app_id: Option<&str>, token: &str| InvalidToken {
            service_id: Uuid::nil(),
            app_id: app_id.map(str::to_owned),
            token: token.to_owned(),
            sent_at: 0,
        };
        let without = |document: &str, invalid: &[&InvalidToken]| {
            super::without(document, |token| invalid.iter().any(|invalid| invalid.matches(token)))
        };
        let all = document(&[token_t, token_of_other_app, token_u]);
        assert_eq!(
            without(&all, &[&invalid(Some("a"), "t")]),
            Some(document(&[token_of_other_app, token_u]))
        );
        assert_eq!(without(&all, &[&invalid(None, "t")]), Some(document(&[token_u])));
        assert_eq!(
            without(&all, &[&invalid(None, "t"), &invalid(Some("a"), "u")]),
            Some(document(&[]))
        );
        for unknown in [invalid(Some("c"), "t"), invalid(None, "v"), invalid(Some("b"), "u")] {
            assert_eq!(without(&all, &[&unknown]), None);
        }
        assert_eq!(without(&document(&[]), &[&invalid(None, "t")]), None);
        assert_eq!(without("[]", &[&invalid(None, "t")]), None);
    }
}
