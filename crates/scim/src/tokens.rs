//! SCIM tokens: created or declared, found, listed, revoked. They are stored like [API
//! keys](gateway::workspaces::keys), but belong to the installation and all have the same
//! permissions.

use std::collections::HashSet;
use std::sync::Arc;

use ipnet::IpNet;
use serde::Serialize;
use uuid::Uuid;

use super::rows::tokens as rows;
use crate::app::App;
use gateway::workspaces::keys::{self, KeyError};
use kit::clock::{Clock, serialize_optional_time, serialize_time};
use kit::retry::Retry;
use runtime::credentials::revoked::SecretKind;
use runtime::credentials::{Credential, FindError, Hash, hash, random_secret};
use store::{StoreError, Tx};

pub use super::rows::tokens::{
    revoke_token as revoke_by_id, tokens as list, update_token as update,
};

/// An active token.
#[derive(Debug)]
pub struct TokenMatch {
    pub id: Uuid,
    pub name: String,
    /// Networks from which the token can be used; empty for all networks.
    pub allow: Vec<IpNet>,
    /// Whether requests about resources need `X-Request-Origin`.
    pub requires_origin: bool,
}

impl Credential for TokenMatch {
    const NAME: &'static str = "SCIM token";

    fn id(&self) -> Uuid {
        self.id
    }

    async fn find(tx: &mut Tx, hash: &Hash) -> Result<Option<Self>, StoreError> {
        rows::token(tx, hash).await
    }

    async fn all(tx: &mut Tx) -> Result<HashSet<Hash>, StoreError> {
        rows::token_hashes(tx).await
    }

    async fn used(&self, tx: &mut Tx, _: &[&'static str], now: i64) -> Result<(), StoreError> {
        rows::token_used(tx, self.id, now).await
    }
}

/// The token with the secret `presented`, if it exists and is not revoked.
pub async fn find(app: &App, presented: &str) -> Result<Option<Arc<TokenMatch>>, FindError> {
    app.tokens.find(app, presented).await
}

/// Records a use of a token in the background, by an admitted request.
pub fn record_use(app: &App, token: &Arc<TokenMatch>) {
    // All tokens have the same permissions.
    app.tokens.record_use(app, token, &[]);
}

/// Reads the list of active tokens.
pub async fn read_list(app: &App) -> Result<(), FindError> {
    app.tokens.read_list(app).await
}

/// A new token.
#[derive(Clone, Copy, Debug)]
pub struct NewToken<'a> {
    pub name: &'a str,
    pub allow: &'a [IpNet],
    /// Whether requests need `X-Request-Origin`, which some identity providers do not send.
    pub requires_origin: bool,
    /// Whether the company document declares it; `apply` does not change other tokens.
    pub declared: bool,
}

/// A token in a list. Its secret is not stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TokenInfo {
    pub id: Uuid,
    pub name: String,
    #[serde(skip)]
    pub(super) hash: Vec<u8>,
    pub allow: Vec<IpNet>,
    pub requires_origin: bool,
    pub declared: bool,
    /// Milliseconds since the Unix epoch, as for the other times; ISO 8601 in JSON.
    #[serde(serialize_with = "serialize_time")]
    pub created_at: i64,
    #[serde(serialize_with = "serialize_optional_time")]
    pub last_used_at: Option<i64>,
    #[serde(serialize_with = "serialize_optional_time")]
    pub revoked_at: Option<i64>,
}

impl TokenInfo {
    /// Whether this is the token with that secret.
    pub fn has_secret(&self, secret: &str) -> bool {
        self.hash == hash(secret)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The name or the secret is invalid.
    #[error(transparent)]
    Invalid(#[from] KeyError),
    #[error(
        "a token with the name {0} or this secret exists; choose another, or, to rename it in the \
         file, apply with --prune: a revoked secret is never accepted again"
    )]
    Taken(String),
    /// Without the text: it may be the secret of a token.
    #[error("no token has this name or id, or it is revoked: see `longshore scim-token list`")]
    Unknown,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Retry for TokenError {
    fn can_retry(&self) -> bool {
        match self {
            Self::Invalid(error) => error.can_retry(),
            Self::Store(error) => error.can_retry(),
            Self::Taken(_) | Self::Unknown => false,
        }
    }
}

/// Creates a token with a random secret, and returns the secret, which is not stored.
pub async fn create(tx: &mut Tx, clock: &Clock, token: NewToken<'_>) -> Result<String, TokenError> {
    let secret = random_secret("lss_");
    create_with_secret(tx, clock, token, &secret).await?;
    Ok(secret)
}

/// Rejects a secret that was revoked, of whatever kind it was.
pub async fn check_not_revoked(tx: &mut Tx, secret: &str) -> Result<(), TokenError> {
    Ok(keys::check_not_revoked(tx, SecretKind::ScimToken, secret).await?)
}

/// Creates a token with a given secret, which was checked with [`check_not_revoked`].
pub async fn create_with_secret(
    tx: &mut Tx,
    clock: &Clock,
    token: NewToken<'_>,
    secret: &str,
) -> Result<(), TokenError> {
    keys::check_name(token.name)?;
    keys::check_secret(secret)?;
    if rows::insert_token(tx, &hash(secret), token, clock.now_ms()).await? {
        Ok(())
    } else {
        Err(TokenError::Taken(token.name.to_owned()))
    }
}

/// Revokes a token by its name or its id, and returns it. While the database responds, processes
/// may accept it for up to five more seconds.
pub async fn revoke(tx: &mut Tx, clock: &Clock, name_or_id: &str) -> Result<TokenInfo, TokenError> {
    let id = Uuid::parse_str(name_or_id).ok();
    let mut tokens = list(tx).await?;
    tokens.retain(|token| token.revoked_at.is_none());
    // The name of another token may be this id.
    let with_id = tokens.iter().position(|token| Some(token.id) == id);
    let found = with_id.or_else(|| tokens.iter().position(|token| token.name == name_or_id));
    let found = found.ok_or(TokenError::Unknown)?;
    let token = tokens.swap_remove(found);
    // Another process may have revoked it since the list was read.
    if revoke_by_id(tx, token.id, clock.now_ms()).await? {
        Ok(token)
    } else {
        Err(TokenError::Unknown)
    }
}
