//! Why a sign-in is refused: words and a stable code for the person, the cause for the operator.

use axum::http::StatusCode;

use crate::error::PageError;
use crate::parts;
use store::StoreError;

/// Why a sign-in is refused. A text is the cause, for the operator's log only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The provider did not sign the person in, such as because the person cancelled.
    AccessDenied(String),
    /// The browser did not begin this sign-in, it is too old, or it was used.
    Expired(String),
    /// The provider did not respond as it should.
    ProviderUnavailable(String),
    /// The provider's response fails a check.
    InvalidToken(String),
    /// The token lacks the claim that identifies a person.
    MissingClaim(String),
    /// The provider has not verified the person's email address.
    EmailNotVerified,
    /// No active dashboard user has that name.
    NotADashboardUser { name: String, cause: &'static str },
    /// Another account of the provider has signed the user in before.
    OtherAccount { name: String },
    /// Too many sign-ins wait for the provider.
    Busy,
    /// The network, or all of them, exchanged too many codes, or too many of its codes were refused.
    TooMany,
}

impl Refusal {
    pub fn code(&self) -> &'static str {
        match self {
            Self::AccessDenied(_) => "access-denied",
            Self::Expired(_) => "sign-in-expired",
            Self::ProviderUnavailable(_) => "provider-unavailable",
            Self::InvalidToken(_) => "invalid-token",
            Self::MissingClaim(_) => "missing-claim",
            Self::EmailNotVerified => "email-not-verified",
            Self::NotADashboardUser { .. } => "not-a-dashboard-user",
            Self::OtherAccount { .. } => "other-account",
            Self::Busy => "busy",
            Self::TooMany => "too-many-sign-ins",
        }
    }

    pub fn status(&self) -> StatusCode {
        match self {
            Self::Expired(_) => StatusCode::BAD_REQUEST,
            Self::ProviderUnavailable(_) | Self::InvalidToken(_) => StatusCode::BAD_GATEWAY,
            Self::AccessDenied(_)
            | Self::MissingClaim(_)
            | Self::EmailNotVerified
            | Self::NotADashboardUser { .. }
            | Self::OtherAccount { .. } => StatusCode::FORBIDDEN,
            Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::TooMany => StatusCode::TOO_MANY_REQUESTS,
        }
    }

    /// What the person reads.
    pub fn text(&self) -> String {
        match self {
            Self::AccessDenied(_) => "The identity provider did not sign you in. If you did not \
                                      cancel it, ask an operator whether you may use this \
                                      application."
                .to_owned(),
            Self::Expired(_) => "This sign-in was used already, it took more than ten minutes, or \
                                 it began in another browser. Sign in again."
                .to_owned(),
            Self::ProviderUnavailable(_) => "The identity provider did not respond as expected. \
                                             Try again in a minute. If that does not help, ask \
                                             an operator."
                .to_owned(),
            Self::InvalidToken(_) => "The response of the identity provider failed a check, so \
                                      you are not signed in. Report this to an operator."
                .to_owned(),
            Self::MissingClaim(claim) => format!(
                "The identity provider did not send {claim:?}, which identifies you. \
                 Report this to an operator."
            ),
            Self::EmailNotVerified => "The identity provider has not verified your email address. \
                                       Verify it there, and sign in again."
                .to_owned(),
            Self::NotADashboardUser { name, .. } => format!(
                "{} is not a dashboard user, or is not active. Ask the people who manage access \
                 to add you.",
                parts::cut(name)
            ),
            Self::OtherAccount { name } => format!(
                "Another account of the identity provider has signed in as {} before. If this is \
                 your new account, ask an operator to accept it.",
                parts::cut(name)
            ),
            Self::Busy => "Too many people are signing in. Try again in a minute.".to_owned(),
            Self::TooMany => "Too many sign-ins came from your network. Try again in ten minutes, \
                              or use a sign-in link."
                .to_owned(),
        }
    }

    /// What the operator's log has. No name of a person: the audit log has it, if it is known.
    pub fn cause(&self) -> &str {
        match self {
            Self::AccessDenied(cause)
            | Self::Expired(cause)
            | Self::ProviderUnavailable(cause)
            | Self::InvalidToken(cause) => cause,
            Self::MissingClaim(_) => "the claim is neither in the token nor in the user info",
            Self::EmailNotVerified => "email_verified is not true",
            Self::NotADashboardUser { cause, .. } => cause,
            Self::OtherAccount { .. } => {
                "the user is bound to another subject, or the subject to another user: see \
                 `longshore console reset-identity`"
            }
            Self::Busy => "too many sign-ins wait for the identity provider",
            Self::TooMany => "too many codes of the network were exchanged, or were refused",
        }
    }

    /// Whether the provider has said who the person is: then the refusal is in the audit log.
    pub fn is_of_a_person(&self) -> bool {
        matches!(
            self,
            Self::MissingClaim(_)
                | Self::EmailNotVerified
                | Self::NotADashboardUser { .. }
                | Self::OtherAccount { .. }
        )
    }
}

/// Why a sign-in ends without a session.
#[derive(Debug)]
pub enum Failure {
    Refused(Refusal),
    /// The console failed, not the sign-in.
    Page(PageError),
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<PageError> for Failure {
    fn from(error: PageError) -> Self {
        Self::Page(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Page(error.into())
    }
}
