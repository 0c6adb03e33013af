//! A sign-in in progress: what the console sent to the identity provider, sealed in a cookie.
//!
//! The cookie binds the sign-in to the browser that began it. Beginning one writes nothing into the
//! database, so strangers cannot fill it. A sign-in is used up ([`use_up`]) before its code is
//! exchanged: each asks the provider once, whatever the result.

use axum::http::HeaderMap;
use axum::http::HeaderValue;
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

    /// `Set-Cookie` with the sign-in.
    pub fn cookie(&self, app: &App) -> HeaderValue {
        let json = serde_json::to_vec(self).expect("texts and a number are JSON");
        let sealed = BASE64_URL_SAFE_NO_PAD.encode(app.secrets.seal(CONTEXT, &json));
        session::set_cookie(&app.config, cookie_name(&app.config), &sealed, VALID_SECONDS)
    }

    /// The sign-in that the browser began and that has this state. Otherwise, what is wrong.
    pub fn from_request(app: &App, headers: &HeaderMap, state: &str) -> Result<Self, &'static str> {
        let cookie = session::cookie(headers, cookie_name(&app.config));
        let cookie = cookie.ok_or("the browser has no cookie of a sign-in")?;
        let opened = BASE64_URL_SAFE_NO_PAD.decode(cookie).ok();
        let opened = opened.and_then(|sealed| app.secrets.open(CONTEXT, &sealed).ok());
        let pending: Option<Self> = opened.and_then(|json| serde_json::from_slice(&json).ok());
        let pending = pending.ok_or("the cookie of the sign-in is not one of this console")?;
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

/// `Set-Cookie` that removes the sign-in from the browser.
pub fn no_cookie(config: &Config) -> HeaderValue {
    session::set_cookie(config, cookie_name(config), "", 0)
}

/// Marks a sign-in as used; false if it was already.
pub async fn use_up(tx: &mut Tx, pending: &Pending) -> Result<bool, StoreError> {
    rows::use_sign_in(tx, &hash(&pending.state), pending.expires_at()).await
}

/// As for the session's cookie, but of its own name.
fn cookie_name(config: &Config) -> &'static str {
    if session::is_secure(config) { "__Host-longshore-sign-in" } else { "longshore_sign_in" }
}
