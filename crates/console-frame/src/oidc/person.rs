//! The dashboard user that a token signs in, and the rights of the user at this moment.

use uuid::Uuid;

use super::refusal::{Failure, Refusal};
use super::token::{self, Claims};
use crate::app::App;
use crate::rights::Rights;
use crate::session::{self, Access, Browser, NewSession, SignIn};
use gateway::workspaces;
use runtime::config::console::oidc::OidcClient;
use scim::sign_in::{self as users, Binding, Identity};
use store::{StoreError, Tx};

/// How such a session began.
pub const METHOD: &str = "oidc";

/// Who somebody is, as the identity provider says.
#[derive(Debug)]
pub struct Verified {
    /// The value of the claim.
    pub name: String,
    identity: Identity,
}

impl Verified {
    /// From the claims of a token that passed all checks.
    pub fn from_claims(client: &OidcClient, claims: &Claims) -> Result<Self, Refusal> {
        let name = token::person(claims, &client.claim)
            .ok_or_else(|| Refusal::MissingClaim(client.claim.clone()))?;
        if token::is_unverified(claims, &client.claim) {
            return Err(Refusal::EmailNotVerified);
        }
        let subject = claims.get("sub").and_then(|subject| subject.as_str()).unwrap_or_default();
        let identity = Identity { issuer: client.issuer.clone(), subject: subject.to_owned() };
        Ok(Self { name: name.to_owned(), identity })
    }
}

/// Begins the session of a person, whose sign-in is used up.
pub async fn sign_in(
    app: &App,
    tx: &mut Tx,
    verified: &Verified,
    browser: Browser,
) -> Result<NewSession, Failure> {
    let now = app.database_now(tx).await?;
    let name = &verified.name;
    let unknown = |cause| Refusal::NotADashboardUser { name: name.clone(), cause };
    // SCIM folds more letters, and to a mail server, a dotted and a dotless i are two addresses.
    let user = users::by_name_locked(tx, name).await?;
    let user = user.filter(|user| user.user_name.eq_ignore_ascii_case(name));
    let user = user.ok_or_else(|| unknown("no dashboard user has this userName"))?;
    if !user.is_active {
        return Err(unknown("the dashboard user is not active").into());
    }
    let bound = match users::bind(tx, user.id, &verified.identity, now).await? {
        Binding::First => Some(verified.identity.clone()),
        Binding::Same => None,
        Binding::Other => return Err(Refusal::OtherAccount { name: name.clone() }.into()),
    };
    let sign_in =
        SignIn { person: user.user_name, method: METHOD, access: Access::DashboardUser(user.id) };
    let new = session::begin(tx, now, sign_in, browser).await?;
    Ok(NewSession { bound, ..new })
}

/// The name and the rights of a dashboard user. None if the user was deleted or is not active.
pub async fn current(
    app: &App,
    tx: &mut Tx,
    user: Uuid,
) -> Result<Option<(String, Rights)>, StoreError> {
    let user = users::by_id(tx, user).await?.filter(|user| user.is_active);
    let Some(user) = user else { return Ok(None) };
    let workspaces = workspaces::ids(tx).await?;
    let rights = app.permissions.rights(&user.permissions, &workspaces);
    Ok(Some((user.user_name, rights)))
}
