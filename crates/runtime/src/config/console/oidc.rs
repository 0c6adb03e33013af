//! The settings with which people sign in to the console by OpenID Connect.

use schemars::JsonSchema;
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use url::Url;

use super::has_user;
use crate::outbound::address::is_of_this_machine;

/// Sign-in with OpenID Connect.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Oidc {
    /// The issuer of the identity provider, exactly as its tokens name it, such as
    /// `https://login.microsoftonline.com/TENANT/v2.0`. Turns the sign-in on. An `https` URL, or an
    /// `http` URL of this machine. The provider may be in a private network. Needs
    /// `console.public_url`.
    pub issuer: Option<String>,
    /// The client id that the identity provider has given the console. Required with the issuer.
    pub client_id: Option<String>,
    /// The client secret, if the identity provider has given one.
    #[serde(skip_serializing)]
    #[schemars(with = "Option<String>")]
    pub client_secret: Option<SecretString>,
    /// The claim that identifies a person: its value must be the `userName` of an active dashboard
    /// user. If it is `email` and the provider sends `email_verified`, that must be true.
    pub claim: String,
    /// The scopes to request, separated by spaces. `openid` must be one of them.
    pub scopes: String,
}

impl Default for Oidc {
    fn default() -> Self {
        Self {
            issuer: None,
            client_id: None,
            client_secret: None,
            claim: "email".to_owned(),
            scopes: "openid email".to_owned(),
        }
    }
}

/// The settings of an identity provider, checked.
#[derive(Clone, Debug)]
pub struct OidcClient {
    /// Exactly as it was set.
    pub issuer: String,
    pub client_id: String,
    client_secret: Option<SecretString>,
    pub claim: String,
    pub scopes: String,
}

impl OidcClient {
    /// The secret, for requests to the provider only.
    pub fn secret(&self) -> Option<&str> {
        self.client_secret.as_ref().map(|secret| secret.expose_secret())
    }

    /// The host of the issuer, for people.
    pub fn host(&self) -> &str {
        let rest = self.issuer.split_once("://").map_or(self.issuer.as_str(), |(_, rest)| rest);
        rest.split('/').next().unwrap_or_default()
    }
}

/// Whether requests with credentials may go to a URL: only over TLS, or within this machine.
pub fn is_confidential(url: &Url) -> bool {
    url.scheme() == "https" || (url.scheme() == "http" && is_of_this_machine(url))
}

impl Oidc {
    /// The client, if the sign-in is on.
    pub fn client(&self) -> Option<OidcClient> {
        Some(OidcClient {
            issuer: self.issuer.clone()?,
            client_id: self.client_id.clone()?,
            client_secret: self.client_secret.clone(),
            claim: self.claim.clone(),
            scopes: self.scopes.clone(),
        })
    }

    /// What is wrong with the settings; `has_url` is whether `console.public_url` is set.
    pub(super) fn problems(&self, has_url: bool) -> Vec<String> {
        let issuer = self.issuer.as_deref().map(Url::parse);
        let is_set = issuer.is_some();
        let is_issuer = |url: &Url| {
            is_confidential(url)
                && !has_user(url)
                && url.query().is_none()
                && url.fragment().is_none()
        };
        let is_empty = |text: &Option<String>| text.as_ref().is_none_or(|text| text.is_empty());
        let problems = [
            (
                issuer.is_some_and(|issuer| !issuer.is_ok_and(|url| is_issuer(&url))),
                "console.oidc.issuer (LONGSHORE_CONSOLE_OIDC_ISSUER): expected an https URL \
                 without user, query and fragment, such as https://id.example.com; http is \
                 possible only for 127.0.0.1, [::1] and localhost",
            ),
            (
                is_set && is_empty(&self.client_id),
                "console.oidc.client_id (LONGSHORE_CONSOLE_OIDC_CLIENT_ID) is not set: set it to \
                 the client id that the identity provider has given the console",
            ),
            (
                !is_set && (self.client_id.is_some() || self.client_secret.is_some()),
                "console.oidc.issuer (LONGSHORE_CONSOLE_OIDC_ISSUER) is not set, but the client \
                 id or the client secret is: set all of them, or none",
            ),
            (
                is_set && !has_url,
                "console.public_url (LONGSHORE_CONSOLE_PUBLIC_URL) is not set, and \
                 console.oidc.issuer needs it: the identity provider sends browsers back to this \
                 URL",
            ),
            (
                self.claim.is_empty(),
                "console.oidc.claim must be the name of a claim, such as email",
            ),
            (
                !self.scopes.split_ascii_whitespace().any(|scope| scope == "openid"),
                "console.oidc.scopes must contain openid, such as \"openid email\"",
            ),
        ];
        let wrong = problems.into_iter().filter(|(is_wrong, _)| *is_wrong);
        wrong.map(|(_, text)| text.to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, Mode};

    const ISSUER: (&str, &str) = ("LONGSHORE_CONSOLE_OIDC_ISSUER", "https://id.example.com/t/");
    const CLIENT: (&str, &str) = ("LONGSHORE_CONSOLE_OIDC_CLIENT_ID", "console");
    const SECRET: (&str, &str) = ("LONGSHORE_CONSOLE_OIDC_CLIENT_SECRET", "hidden");
    const URL: (&str, &str) = ("LONGSHORE_CONSOLE_PUBLIC_URL", "https://console.example.com");

    fn config(environment: &[(&str, &str)]) -> Result<Config, String> {
        let environment = environment.iter().map(|(name, value)| (name.into(), value.into()));
        Config::load(None, environment, Mode::Command).map_err(|error| error.to_string())
    }

    #[test]
    fn an_issuer_is_kept_as_it_is_and_the_secret_is_never_shown() {
        let config = config(&[ISSUER, CLIENT, SECRET, URL]).unwrap();
        let client = config.console.oidc.client().unwrap();
        assert_eq!(client.issuer, ISSUER.1);
        assert_eq!((client.host(), client.secret()), ("id.example.com", Some("hidden")));
        assert!(!format!("{config:?}").contains("hidden"));
        assert!(!serde_json::to_string(&config).unwrap().contains("hidden"));
    }

    #[test]
    fn impossible_combinations_are_rejected() {
        let issuer = |value| (ISSUER.0, value);
        for (environment, setting) in [
            (&[ISSUER, CLIENT][..], "console.public_url"),
            (&[ISSUER, URL], "console.oidc.client_id"),
            (&[CLIENT, URL], "console.oidc.issuer"),
            (&[SECRET, URL], "console.oidc.issuer"),
            (&[issuer("http://id.example.com"), CLIENT, URL], "console.oidc.issuer"),
            (&[issuer("https://u:hidden@id.example.com"), CLIENT, URL], "console.oidc.issuer"),
            (&[issuer("https://id.example.com?x=1"), CLIENT, URL], "console.oidc.issuer"),
            (&[issuer("id.example.com"), CLIENT, URL], "console.oidc.issuer"),
            (&[("LONGSHORE_CONSOLE__OIDC__CLAIM", "")], "console.oidc.claim"),
            (&[("LONGSHORE_CONSOLE__OIDC__SCOPES", "email")], "console.oidc.scopes"),
            (&[("LONGSHORE_CONSOLE__OIDC__CLAIMS", "x")], "LONGSHORE_CONSOLE__OIDC__CLAIMS"),
        ] {
            let text = config(environment).unwrap_err();
            assert!(text.contains(setting) && !text.contains("hidden"), "{environment:?}: {text}");
        }
        for local in ["http://127.0.0.1:9000", "http://localhost:1/x", "http://[::1]:2"] {
            assert!(config(&[issuer(local), CLIENT, URL]).is_ok(), "{local}");
        }
    }
}
