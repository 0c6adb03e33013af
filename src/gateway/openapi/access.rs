//! Who may make a call, and what every call so protected can be refused for.

use serde_json::{Value, json};

use crate::gateway::refusal::{Refusal, Worded};
use crate::gateway::scim;
use crate::gateway::{ADDRESS_REFUSED, ApiError};
use crate::outbound::signature;
use crate::workspaces::{Budget, Limit};

/// Who may make a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Anybody.
    Open,
    /// Whoever has a key with this permission; counted against its budget.
    Key(&'static str),
    /// Whoever has a SCIM token and says where the call comes from; counted.
    Scim,
    /// Whoever has a SCIM token.
    ScimDiscovery,
    /// Whoever signs the request with this secret of the workspace.
    Signed(&'static str),
}

impl Access {
    /// What the call is counted against, and the limit unless it was changed.
    pub(super) fn budget(self) -> Option<(Budget, Limit)> {
        let budget = match self {
            Self::Open | Self::ScimDiscovery | Self::Signed(_) => None,
            Self::Key(permission) => {
                Budget::of_permission(permission).or(Budget::of_unread(permission))
            }
            Self::Scim => Some(Budget::Scim),
        };
        budget.map(|budget| (budget, budget.default_limit()))
    }

    pub(super) fn is_scim(self) -> bool {
        matches!(self, Self::Scim | Self::ScimDiscovery)
    }

    /// `security` of the operation.
    pub(super) fn security(self) -> Value {
        match self {
            Self::Open => json!([]),
            Self::Key(_) => json!([{ "ApiKey": [] }]),
            Self::Scim | Self::ScimDiscovery => json!([{ "ScimToken": [] }]),
            Self::Signed(_) => json!([{ "Signature": [] }]),
        }
    }

    /// The media types of its bodies: of requests, the first being that of answers.
    pub(super) fn media_types(self) -> &'static [&'static str] {
        match self {
            Self::Open | Self::Key(_) | Self::Signed(_) => &["application/json"],
            Self::Scim | Self::ScimDiscovery => &[scim::CONTENT_TYPE, "application/json"],
        }
    }

    /// An error in the words of the call's protocol.
    pub(super) fn worded(self, error: ApiError) -> Worded {
        match self.is_scim() {
            true => scim::ScimError::from(error).worded(),
            false => error.worded(),
        }
    }

    /// What it needs, in words.
    pub(super) fn in_words(self) -> String {
        let limit = self.budget().map_or(String::new(), |(budget, limit)| {
            let name = budget.name();
            format!(" Each counts against the budget `{name}`: {}.", limit_in_words(limit))
        });
        match self {
            Self::Open => "Needs no key.".to_owned(),
            Self::Key(permission) => {
                format!("Needs an API key with the permission `{permission}`.{limit}")
            }
            Self::Scim => format!("Needs a SCIM token and `X-Request-Origin`.{limit}"),
            Self::ScimDiscovery => "Needs a SCIM token. Not counted.".to_owned(),
            Self::Signed(secret) => format!(
                "Needs a signature with the workspace's `{secret}`, no older than {} seconds. It \
                 is looked at once the body is there. Not counted.",
                signature::TOLERANCE
            ),
        }
    }

    /// What every such call can be refused for before its body is looked at, and why.
    pub(super) fn refusals(self) -> Vec<(ApiError, &'static str)> {
        let mut refusals = Vec::new();
        match self {
            Self::Open => {}
            Self::Signed(_) => {
                let when = "The signature is missing, wrong or too old, or there is no such \
                            workspace";
                refusals.push((ApiError::Unauthenticated, when));
            }
            Self::Key(_) | Self::Scim | Self::ScimDiscovery => {
                refusals.push((ApiError::Unauthenticated, "It is missing, unknown or revoked"));
            }
        }
        let address = match self {
            Self::Open | Self::Signed(_) => None,
            Self::Key(_) => Some("The sender's address is not on the lists of workspace and key"),
            Self::Scim | Self::ScimDiscovery => {
                Some("The sender's address is not on the token's list")
            }
        };
        refusals.extend(address.map(|when| (ApiError::Forbidden(ADDRESS_REFUSED), when)));
        if let Self::Key(permission) = self {
            let when = "The key lacks the permission";
            refusals.push((ApiError::NoPermission(permission), when));
        }
        if let Some((_, limit)) = self.budget() {
            let error = ApiError::RateLimited(limit.seconds.into());
            refusals.push((error, "The window's requests are used up"));
        }
        refusals
    }
}

fn limit_in_words(limit: Limit) -> String {
    let requests = kit::words::count(limit.requests.into(), "request");
    match limit.seconds {
        60 => format!("{requests} a minute"),
        3_600 => format!("{requests} an hour"),
        86_400 => format!("{requests} a day"),
        seconds => format!("{requests} in {seconds} seconds"),
    }
}
