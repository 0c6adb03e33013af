//! Removes push tokens that no device has any longer.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::large_rows::lock_users;
use super::profile::{Field, Profile};
use super::rows::put_users;
use super::service_id;
use store::{ByteBudget, StoreError, Tx};

/// A token of a user to remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidToken {
    pub service_id: Uuid,
    /// None means any app.
    pub app_id: Option<String>,
    pub token: String,
}

/// The identity of a token.
#[derive(Deserialize)]
struct Stored<'a> {
    #[serde(borrow)]
    app_id: Cow<'a, str>,
    #[serde(borrow)]
    token: Cow<'a, str>,
}

impl InvalidToken {
    fn is(&self, stored: &Stored<'_>) -> bool {
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
    gone: &[InvalidToken],
) -> Result<usize, StoreError> {
    let mut by_user: BTreeMap<Uuid, Vec<&InvalidToken>> = BTreeMap::new();
    for one in gone.iter().filter(|one| service_id::bucket(&one.service_id).is_some()) {
        by_user.entry(one.service_id).or_default().push(one);
    }
    let ids: Vec<Uuid> = by_user.keys().copied().collect();
    let found = lock_users(tx, workspace, &ids, &mut ByteBudget::unlimited()).await?;
    let mut changed = Vec::new();
    for mut user in found {
        let gone = by_user.get(&user.service_id).map_or(&[][..], Vec::as_slice);
        if let Some(document) = without(&user.doc, gone) {
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

/// The document without some tokens; none if it has none of them, or is unreadable.
fn without(document: &str, gone: &[&InvalidToken]) -> Option<String> {
    let mut profile = Profile::parse(document).ok()?;
    let stored = profile.get(Field::PushTokens)?.to_owned();
    let tokens: Vec<&RawValue> = serde_json::from_str(&stored).ok()?;
    let is_gone = |token: &RawValue| {
        let token = serde_json::from_str::<Stored<'_>>(token.get());
        token.is_ok_and(|token| gone.iter().any(|gone| gone.is(&token)))
    };
    let left: Vec<&str> =
        tokens.iter().filter(|token| !is_gone(token)).map(|token| token.get()).collect();
    if left.len() == tokens.len() {
        return None;
    }
    match left.is_empty() {
        true => profile.clear(Field::PushTokens),
        false => profile.set_json(Field::PushTokens, format!("[{}]", left.join(","))),
    }
    Some(profile.to_document())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unregistered_tokens_are_removed() {
        let one = r#"{"app_id":"a","token":"t"}"#;
        let of_other_app = r#"{"app_id":"b","token":"t","device_id":"d"}"#;
        let other = r#"{"app_id":"a","token":"u","kind":"live_activity"}"#;
        let document = |tokens: &[&str]| match tokens {
            [] => r#"{"first_name":"Ann"}"#.to_owned(),
            tokens => format!(r#"{{"first_name":"Ann","push_tokens":[{}]}}"#, tokens.join(",")),
        };
        let gone = |app_id: Option<&str>, token: &str| InvalidToken {
            service_id: Uuid::nil(),
            app_id: app_id.map(str::to_owned),
            token: token.to_owned(),
        };
        let all = document(&[one, of_other_app, other]);
        assert_eq!(without(&all, &[&gone(Some("a"), "t")]), Some(document(&[of_other_app, other])));
        assert_eq!(without(&all, &[&gone(None, "t")]), Some(document(&[other])));
        assert_eq!(without(&all, &[&gone(None, "t"), &gone(Some("a"), "u")]), Some(document(&[])));
        for none in [gone(Some("c"), "t"), gone(None, "v"), gone(Some("b"), "u")] {
            assert_eq!(without(&all, &[&none]), None);
        }
        assert_eq!(without(&document(&[]), &[&gone(None, "t")]), None);
        assert_eq!(without("[]", &[&gone(None, "t")]), None);
    }
}
