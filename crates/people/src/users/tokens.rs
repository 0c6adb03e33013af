//! The owners of push tokens: a token belongs to the user who registered it last.
//!
//! A profile lists the user's tokens; `push_tokens` has the owner of each token and the time of the
//! registration. A token that another user registers is removed from its former owner, and a
//! registration that was received before that of the owner has no effect, in whatever order they
//! are applied.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::token_rows;
use store::{StoreError, Tx};

/// Identifies a token of an app in a workspace.
pub type TokenKey = [u8; 32];

/// The identity of a token.
#[derive(Deserialize)]
pub struct Token<'a> {
    #[serde(borrow)]
    pub app_id: Cow<'a, str>,
    #[serde(borrow)]
    pub token: Cow<'a, str>,
}

impl Token<'_> {
    /// A hash, so that the table contains no token.
    pub fn key(&self) -> TokenKey {
        let app_id = self.app_id.to_ascii_lowercase();
        let length = (app_id.len() as u64).to_be_bytes();
        let hash = Sha256::new().chain_update(length).chain_update(app_id);
        hash.chain_update(self.token.as_bytes()).finalize().into()
    }
}

/// The owner of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration {
    pub service_id: Uuid,
    /// When it was received, in milliseconds since the epoch. Negative if it is an estimate.
    pub registered_at: i64,
}

/// The keys of the tokens in a profile's field.
pub fn keys(json: &str) -> Vec<TokenKey> {
    let tokens: Vec<Token<'_>> = serde_json::from_str(json).unwrap_or_default();
    tokens.iter().map(Token::key).collect()
}

/// The tokens of both fields; if both have a token, that of the first.
pub fn merged(first: &str, second: &str) -> String {
    let first_keys = keys(first);
    let others = without(second, |token| first_keys.contains(&token.key()));
    let others = match &others {
        None => second,
        Some(None) => "[]",
        Some(Some(others)) => others,
    };
    match (inside(first), inside(others)) {
        ("", others) => format!("[{others}]"),
        (first, "") => format!("[{first}]"),
        (first, others) => format!("[{first},{others}]"),
    }
}

fn inside(array: &str) -> &str {
    let inside = array.trim().strip_prefix('[').and_then(|array| array.strip_suffix(']'));
    inside.unwrap_or_default().trim()
}

/// A profile's field without some tokens, which is absent if it would be empty; none if nothing
/// changes.
pub fn without(json: &str, is_removed: impl Fn(&Token<'_>) -> bool) -> Option<Option<String>> {
    let tokens: Vec<&RawValue> = serde_json::from_str(json).ok()?;
    let is_removed = |token: &RawValue| {
        serde_json::from_str::<Token<'_>>(token.get()).is_ok_and(|token| is_removed(&token))
    };
    let others: Vec<&str> =
        tokens.iter().filter(|token| !is_removed(token)).map(|token| token.get()).collect();
    if others.len() == tokens.len() {
        return None;
    }
    Some((!others.is_empty()).then(|| format!("[{}]", others.join(","))))
}

/// The effect of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registered {
    /// The token belongs to the user.
    Own,
    /// It belongs to the user now, and is to be removed from this one.
    TakenFrom(Uuid),
    /// It belongs to another user, who registered it later.
    OfAnother,
}

/// The owners of tokens in a transaction, locked until its end.
#[derive(Debug, Default)]
pub struct Registrations {
    owners: HashMap<TokenKey, Registration>,
    /// The locked tokens without an owner.
    free: BTreeSet<TokenKey>,
    changed: BTreeSet<TokenKey>,
}

impl Registrations {
    /// Locks tokens, in the order of their keys: before profiles.
    pub async fn lock(
        tx: &mut Tx,
        workspace: i32,
        keys: &BTreeSet<TokenKey>,
    ) -> Result<Self, StoreError> {
        let owners = token_rows::lock(tx, workspace, keys).await?;
        let free = keys.iter().filter(|key| !owners.contains_key(*key)).copied().collect();
        Ok(Self { owners, free, changed: BTreeSet::new() })
    }

    /// The same without locks, for reading.
    pub async fn find(
        tx: &mut Tx,
        workspace: i32,
        keys: &BTreeSet<TokenKey>,
    ) -> Result<Self, StoreError> {
        let owners = token_rows::find(tx, workspace, keys).await?;
        Ok(Self { owners, ..Self::default() })
    }

    /// The users who may lose a token.
    pub fn owners(&self) -> Vec<Uuid> {
        self.owners.values().map(|owner| owner.service_id).collect()
    }

    /// Replaces merged owners with the kept users.
    pub fn move_merged(&mut self, merged: &HashMap<Uuid, Uuid>) {
        for owner in self.owners.values_mut() {
            owner.service_id = merged.get(&owner.service_id).copied().unwrap_or(owner.service_id);
        }
    }

    /// Registers a token for a user, at the time when that was received.
    pub fn register(&mut self, key: TokenKey, service_id: Uuid, received_at: i64) -> Registered {
        let former = self.owners.get(&key).copied();
        let is_other = |owner: &Registration| owner.service_id != service_id;
        let registered = match former.filter(is_other) {
            Some(owner) if owner.registered_at > received_at => return Registered::OfAnother,
            Some(owner) => Registered::TakenFrom(owner.service_id),
            None => Registered::Own,
        };
        let registered_at =
            former.map_or(received_at, |owner| owner.registered_at.max(received_at));
        self.owners.insert(key, Registration { service_id, registered_at });
        self.changed.insert(key);
        registered
    }

    /// Records the owner of a token that a profile has: without a registration, that is the user
    /// whose profile was written last, at `written_at`.
    pub fn estimate(&mut self, key: TokenKey, service_id: Uuid, written_at: i64) -> Registered {
        let registered = match self.owners.get(&key) {
            None => Registered::Own,
            Some(owner) => {
                let is_own = owner.service_id == service_id;
                if owner.registered_at > 0 || owner.registered_at < -written_at {
                    return if is_own { Registered::Own } else { Registered::OfAnother };
                }
                if is_own { Registered::Own } else { Registered::TakenFrom(owner.service_id) }
            }
        };
        self.owners.insert(key, Registration { service_id, registered_at: -written_at });
        self.changed.insert(key);
        registered
    }

    /// Writes the new owners.
    pub async fn write(self, tx: &mut Tx, workspace: i32) -> Result<(), StoreError> {
        let Self { owners, free, changed } = self;
        let rows: BTreeMap<TokenKey, Registration> =
            changed.iter().filter_map(|key| Some((*key, *owners.get(key)?))).collect();
        token_rows::put(tx, workspace, &rows).await?;
        let unused = free.difference(&changed).copied().collect();
        token_rows::unlock_unused(tx, workspace, &unused).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_compared_by_app_and_token() {
        let key =
            |app_id: &str, token: &str| Token { app_id: app_id.into(), token: token.into() }.key();
        assert_eq!(key("AB-1", "t"), key("ab-1", "t"));
        for other in [key("ab-1", "T"), key("ab", "-1t"), key("ab-2", "t")] {
            assert_ne!(key("ab-1", "t"), other);
        }
    }

    #[test]
    fn fields_are_merged_and_reduced() {
        let token = |app: &str, token: &str, more: &str| {
            format!(r#"{{"app_id":"{app}","token":"{token}"{more}}}"#)
        };
        let (token_t, token_u) = (token("a", "t", r#","device_id":"d""#), token("a", "u", ""));
        let list = |tokens: &[&str]| format!("[{}]", tokens.join(","));
        let same = token("A", "t", "");
        for (first, second, both) in [
            (list(&[&token_t]), list(&[&same, &token_u]), list(&[&token_t, &token_u])),
            (list(&[&token_t]), list(&[&same]), list(&[&token_t])),
            (list(&[&token_t]), list(&[&token_u]), list(&[&token_t, &token_u])),
            (list(&[]), list(&[&token_u]), list(&[&token_u])),
        ] {
            assert_eq!(merged(&first, &second), both);
        }
        assert_eq!(
            without(&list(&[&token_t, &token_u]), |t| t.token == "u"),
            Some(Some(list(&[&token_t])))
        );
        assert_eq!(without(&list(&[&token_t]), |t| t.token == "t"), Some(None));
        assert_eq!(without(&list(&[&token_t]), |t| t.token == "x"), None);
        assert_eq!(without("{}", |_| true), None);
    }

    #[test]
    fn the_registration_received_last_wins_in_any_order() {
        let (ann, ben, key) = (Uuid::from_u128(1), Uuid::from_u128(2), [0; 32]);
        let mut in_order = Registrations::default();
        assert_eq!(in_order.register(key, ann, 10), Registered::Own);
        assert_eq!(in_order.register(key, ben, 20), Registered::TakenFrom(ann));
        assert_eq!(in_order.register(key, ann, 15), Registered::OfAnother);
        let mut late = Registrations::default();
        assert_eq!(late.register(key, ben, 20), Registered::Own);
        assert_eq!(late.register(key, ann, 10), Registered::OfAnother);
        assert_eq!(late.register(key, ben, 5), Registered::Own);
        assert_eq!(late.owners, in_order.owners);
        // Without a registration, the profile that was written last counts.
        let mut unrecorded = Registrations::default();
        assert_eq!(unrecorded.estimate(key, ann, 30), Registered::Own);
        assert_eq!(unrecorded.estimate(key, ben, 20), Registered::OfAnother);
        assert_eq!(unrecorded.estimate(key, ben, 40), Registered::TakenFrom(ann));
        assert_eq!(in_order.estimate(key, ann, 50), Registered::OfAnother);
        // An estimate gives way to every registration.
        let estimate = Registration { service_id: ann, registered_at: -30 };
        let mut estimated = Registrations { owners: [(key, estimate)].into(), ..late };
        assert_eq!(estimated.register(key, ben, 20), Registered::TakenFrom(ann));
    }
}
