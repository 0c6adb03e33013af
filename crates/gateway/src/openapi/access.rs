//! Who may send a request, and the errors of the access checks.

use serde_json::{Value, json};

use crate::refusal::{ErrorResponse, Refusal};
use crate::scim;
use crate::workspaces::{Budget, Limit};
use crate::{ADDRESS_REFUSED, ApiError};
use runtime::outbound::signature;

/// Who may send a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everyone.
    Open,
    /// Callers with a key that has this permission; counts against its budget.
    Key(&'static str),
    /// Callers with a key that has any of these permissions; counts against the first one's budget.
    AnyKey(&'static [&'static str]),
    /// Callers with a key that has the one of these permissions that the request turns out to need;
    /// counts against the budget of that one.
    OneOf(&'static [&'static str]),
    /// Callers with a SCIM token and `X-Request-Origin`; counted.
    Scim,
    /// Callers with a SCIM token.
    ScimDiscovery,
    /// Senders that sign the request with this secret of the workspace.
    Signed(&'static str),
}

impl Access {
    /// The budget of the request, and its default limit.
    pub(super) fn budget(self) -> Option<(Budget, Limit)> {
        let budget = match self {
            Self::Open | Self::ScimDiscovery | Self::Signed(_) => None,
            Self::Key(_) | Self::AnyKey(_) | Self::OneOf(_) => {
                let permission = self.permissions().first()?;
                Budget::from_permission(permission).or(Budget::for_unread_body(permission))
            }
            Self::Scim => Some(Budget::Scim),
        };
        budget.map(|budget| (budget, budget.default_limit()))
    }

    /// The permissions of which a key needs one.
    pub(super) fn permissions(&self) -> &[&'static str] {
        match self {
            Self::Key(permission) => std::slice::from_ref(permission),
            Self::AnyKey(permissions) | Self::OneOf(permissions) => permissions,
            _ => &[],
        }
    }

    pub(super) fn is_scim(self) -> bool {
        matches!(self, Self::Scim | Self::ScimDiscovery)
    }

    /// The field `security` of the operation.
    pub(super) fn security(self) -> Value {
        match self {
            Self::Open => json!([]),
            Self::Key(_) | Self::AnyKey(_) | Self::OneOf(_) => json!([{ "ApiKey": [] }]),
            Self::Scim | Self::ScimDiscovery => json!([{ "ScimToken": [] }]),
            Self::Signed(_) => json!([{ "Signature": [] }]),
        }
    }

    /// The media types of request bodies; the first one is also the media type of responses.
    pub(super) fn media_types(self) -> &'static [&'static str] {
        match self {
            Self::Open | Self::Key(_) | Self::AnyKey(_) | Self::OneOf(_) | Self::Signed(_) => {
                &["application/json"]
            }
            Self::Scim | Self::ScimDiscovery => &[scim::CONTENT_TYPE, "application/json"],
        }
    }

    /// An error in the format of the protocol.
    pub(super) fn error_response(self, error: ApiError) -> ErrorResponse {
        if self.is_scim() {
            scim::ScimError::from(error).error_response()
        } else {
            error.error_response()
        }
    }

    /// The requirement, as text.
    pub(super) fn describe(self) -> String {
        let limit = self.budget().map_or(String::new(), |(budget, limit)| {
            let name = budget.name();
            format!(
                " Each request counts against the rate limit `{name}`: {}.",
                describe_limit(limit)
            )
        });
        match self {
            Self::Open => "Needs no key.".to_owned(),
            Self::Key(permission) => {
                format!("Needs an API key with the permission `{permission}`.{limit}")
            }
            Self::AnyKey(permissions) => {
                let names = permissions.join("` or `");
                format!("Needs an API key with the permission `{names}`.{limit}")
            }
            Self::OneOf(permissions) => {
                let names = permissions.join("` or `");
                format!(
                    "Needs an API key with the permission `{names}`. Each request counts against \
                     the rate limit of the permission that it needs."
                )
            }
            Self::Scim => format!("Needs a SCIM token and `X-Request-Origin`.{limit}"),
            Self::ScimDiscovery => "Needs a SCIM token. No rate limit.".to_owned(),
            Self::Signed(secret) => format!(
                "Needs a signature with the workspace's `{secret}`, at most {} seconds old. The \
                 signature is checked after the body is received. No rate limit.",
                signature::TOLERANCE
            ),
        }
    }

    /// The errors of the checks before the body is read, with their descriptions.
    pub(super) fn refusals(self) -> Vec<(ApiError, &'static str)> {
        let mut refusals = Vec::new();
        match self {
            Self::Open => {}
            Self::Signed(_) => {
                let when = "The signature is missing, invalid or too old, or the workspace does \
                            not exist";
                refusals.push((ApiError::Unauthenticated, when));
            }
            Self::Key(_) | Self::AnyKey(_) | Self::OneOf(_) | Self::Scim | Self::ScimDiscovery => {
                refusals.push((
                    ApiError::Unauthenticated,
                    "The key or token is missing, unknown or revoked",
                ));
            }
        }
        let address = match self {
            Self::Open | Self::Signed(_) => None,
            Self::Key(_) | Self::AnyKey(_) | Self::OneOf(_) => {
                Some("The sender's address is not on the allowlists of the workspace and the key")
            }
            Self::Scim | Self::ScimDiscovery => {
                Some("The sender's address is not on the token's allowlist")
            }
        };
        refusals.extend(address.map(|when| (ApiError::Forbidden(ADDRESS_REFUSED), when)));
        if !self.permissions().is_empty() {
            let when = "The key lacks the permission";
            refusals.push((ApiError::NoPermission(self.permissions().to_vec()), when));
        }
        if let Some((_, limit)) = self.budget() {
            let error = ApiError::RateLimited(limit.seconds.into());
            refusals.push((error, "The rate limit is exceeded"));
        }
        refusals
    }
}

fn describe_limit(limit: Limit) -> String {
    let requests = kit::words::count(limit.requests.into(), "request");
    match limit.seconds {
        60 => format!("{requests} a minute"),
        3_600 => format!("{requests} an hour"),
        86_400 => format!("{requests} a day"),
        seconds => format!("{requests} in {seconds} seconds"),
    }
}
