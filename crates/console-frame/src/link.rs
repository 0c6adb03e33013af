//! Links that sign a person in to the console, once (docs/explanation/console.md).
//!
//! The token is in the fragment of the address, which browsers never send: it is in no log of a
//! proxy. Only the form of the sign-in page sends it, so a preview of the link does not use it up.

use serde::Serialize;

use crate::rights::{Rights, Role};
use crate::session::{Access, Browser, NewSession, SignIn};
use crate::{session, session_rows};
use kit::clock::serialize_time;
use runtime::app::App;
use runtime::credentials::{hash, random_secret};
use store::{StoreError, Tx};

/// How long a link is valid.
pub const VALID_MINUTES: i64 = 10;

/// The beginning of every token, which shows its kind.
const PREFIX: &str = "lsl_";

/// The longest name of a person, in characters.
const MAX_NAME_CHARS: usize = 100;

/// A link that was just created.
#[derive(Clone, Debug, Serialize)]
pub struct NewLink {
    /// The address with the token: a secret.
    pub url: String,
    pub person: String,
    pub role: Role,
    #[serde(serialize_with = "serialize_time")]
    pub created_at: i64,
    #[serde(serialize_with = "serialize_time")]
    pub expires_at: i64,
}

/// Whether a person can have that name: the audit log and pages show it.
pub fn is_name(name: &str) -> bool {
    (1..=MAX_NAME_CHARS).contains(&name.chars().count())
        && name.trim() == name
        && !name.chars().any(char::is_control)
}

/// Creates a link.
pub async fn create(
    app: &App,
    tx: &mut Tx,
    person: &str,
    role: Role,
) -> Result<NewLink, StoreError> {
    let token = random_secret(PREFIX);
    let base = app.config.console_url();
    let now = app.database_now(tx).await?;
    let link = NewLink {
        url: format!("{}/sign-in#{token}", base.as_str().trim_end_matches('/')),
        person: person.to_owned(),
        role,
        created_at: now,
        expires_at: now + VALID_MINUTES * 60_000,
    };
    session_rows::insert_link(tx, &hash(&token), &link).await?;
    Ok(link)
}

/// Whether a token is that of a valid link that nobody has used. Only reads.
pub async fn is_valid(app: &App, tx: &mut Tx, token: &str) -> Result<bool, StoreError> {
    if !token.starts_with(PREFIX) {
        return Ok(false);
    }
    let now = app.database_now(tx).await?;
    session_rows::is_link(tx, now, &hash(token)).await
}

/// Uses a link up, and begins the session of its person. None if the link is unknown, expired or
/// used: of two requests with the same token, only one gets a session.
///
/// Both take effect with the transaction. If the process ends before the browser has the secret,
/// nobody has it, and the person needs another link.
pub async fn sign_in(
    app: &App,
    tx: &mut Tx,
    token: &str,
    browser: Browser,
) -> Result<Option<NewSession>, StoreError> {
    let now = app.database_now(tx).await?;
    let Some((person, role)) = session_rows::use_link(tx, now, &hash(token)).await? else {
        return Ok(None);
    };
    // A newer release may have created the link.
    let Some(role) = Role::from_name(&role) else {
        return Err(store::documents::unknown("console_links.role", person, &role));
    };
    let access = Access::Rights(Rights::from_role(role));
    let sign_in = SignIn { person, method: "link", access };
    session::begin(tx, now, sign_in, browser).await.map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_on_a_page() {
        for name in ["ana", "Ana Lima", "o'brien@example.com", "日本"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", " ana", "a\nb", &"x".repeat(101)] {
            assert!(!is_name(name), "{name:?}");
        }
    }
}
