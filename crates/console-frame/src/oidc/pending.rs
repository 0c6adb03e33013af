//! A sign-in in progress: what the console sent to the identity provider, sealed in a cookie.
//!
//! The cookie binds the sign-in to the browser that began it. Beginning one writes nothing into the
//! database, so strangers cannot fill it. A sign-in is used up ([`use_up`]) before its code is
//! exchanged: each asks the provider once, whatever the result.

use std::cmp::Reverse;

use axum::http::header::{HeaderName, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::app::App;
use crate::session;
use crate::session_rows as rows;
use runtime::config::Config;
use runtime::credentials::{hash, random_secret};
use store::{StoreError, Tx};

/// How long a person may take at the provider.
pub const VALID_SECONDS: i64 = 600;

/// The longest address to return to, in bytes; browsers keep 4 KiB of a cookie.
const MAX_NEXT_BYTES: usize = 1_000;

/// Sign-ins in progress in one browser, each in a cookie of its own: people sign in in several tabs.
/// Each has up to two KiB, and proxies limit the headers of a request.
const MAX_IN_BROWSER: usize = 4;

/// What the sealed text is for: nothing else that this installation seals opens as a sign-in.
const CONTEXT: &str = "sign-in to the console";

/// A sign-in in progress.
#[derive(Debug, Serialize, Deserialize)]
pub struct Pending {
    /// Comes back in the address, to which another site can send a browser.
    pub state: String,
    /// Comes back in the token.
    pub nonce: String,
    /// Proves to the provider that the code is used by whoever asked for it (PKCE).
    pub verifier: String,
    /// The path to return to.
    pub next: String,
    /// In milliseconds since the epoch.
    pub began_at: i64,
}

impl Pending {
    /// A new sign-in that returns to `next`, a path of the console.
    pub fn new(app: &App, next: &str) -> Self {
        Self {
            state: random_secret(""),
            nonce: random_secret(""),
            verifier: random_secret(""),
            next: if next.len() > MAX_NEXT_BYTES { "/".to_owned() } else { next.to_owned() },
            began_at: app.clock.now_ms(),
        }
    }

    /// The hash of the verifier for the provider (S256).
    pub fn challenge(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(self.verifier.as_bytes()))
    }

    /// `Set-Cookie` with the sign-in, and those that remove the oldest ones if the browser that sent
    /// `headers` has too many.
    pub fn cookies(&self, app: &App, headers: &HeaderMap) -> Vec<(HeaderName, HeaderValue)> {
        let json = serde_json::to_vec(self).expect("texts and a number are JSON");
        let sealed = BASE64_URL_SAFE_NO_PAD.encode(app.secrets.seal(CONTEXT, &json));
        let prefix = session::cookie_name_of(&app.config, "sign-in");
        let others = session::cookies(headers).filter(|(name, _)| name.starts_with(&prefix));
        let began_at = |sealed: &str| Self::open(app, sealed).map_or(0, |other| other.began_at);
        let mut others: Vec<_> =
            others.map(|(name, sealed)| (Reverse(began_at(sealed)), name)).collect();
        others.sort();
        let removed = others.iter().skip(MAX_IN_BROWSER - 1);
        let removed = removed.map(|(_, name)| session::set_cookie(&app.config, name, "", 0));
        let name = cookie_name(&app.config, &self.state);
        let own = session::set_cookie(&app.config, &name, &sealed, VALID_SECONDS);
        removed.chain([own]).map(|cookie| (SET_COOKIE, cookie)).collect()
    }

    /// What a cookie has.
    fn open(app: &App, sealed: &str) -> Option<Self> {
        let sealed = BASE64_URL_SAFE_NO_PAD.decode(sealed).ok()?;
        serde_json::from_slice(&app.secrets.open(CONTEXT, &sealed).ok()?).ok()
    }

    /// The sign-in that the browser began and that has this state. Otherwise, what is wrong.
    pub fn from_request(app: &App, headers: &HeaderMap, state: &str) -> Result<Self, &'static str> {
        let cookie = session::cookie(headers, &cookie_name(&app.config, state));
        let cookie = cookie.ok_or("the browser has no cookie of this sign-in")?;
        let pending = Self::open(app, cookie)
            .ok_or("the cookie of the sign-in is not one of this console")?;
        if pending.state != state {
            return Err("the state is that of another sign-in");
        }
        if app.clock.now_ms() >= pending.expires_at() {
            return Err("the sign-in took too long");
        }
        Ok(pending)
    }

    fn expires_at(&self) -> i64 {
        self.began_at + VALID_SECONDS * 1_000
    }
}

/// `Set-Cookie` that removes the sign-in with this state from the browser.
pub fn no_cookie(config: &Config, state: &str) -> HeaderValue {
    session::set_cookie(config, &cookie_name(config, state), "", 0)
}

/// Marks a sign-in as used; false if it was already.
pub async fn use_up(tx: &mut Tx, pending: &Pending) -> Result<bool, StoreError> {
    rows::use_sign_in(tx, &hash(&pending.state), pending.expires_at()).await
}

/// As for the session's cookie, with the beginning of the hash of the state.
fn cookie_name(config: &Config, state: &str) -> String {
    let name = session::cookie_name_of(config, "sign-in");
    let tag = BASE64_URL_SAFE_NO_PAD.encode(&hash(state)[..6]);
    format!("{name}.{tag}")
}
