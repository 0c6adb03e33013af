//! The console's settings: pages for people, on a listener of their own.

pub mod oidc;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use super::check::has_user;
use super::{Config, Mode};

/// The console.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Console {
    /// Address on which the console listens, or `off`. It must differ from those of the API and the
    /// operations listener. `standalone` listens on 127.0.0.1:8081 by default, and continues
    /// without the console if that address is in use. A gateway has no console unless this is set.
    #[schemars(with = "Option<String>")]
    pub listen: Option<ConsoleListen>,
    /// URL at which browsers reach the console. It may have a path, for a proxy that serves the
    /// console below it. Its host or port must differ from those of `public_url`. With `https`,
    /// browsers send the session only over TLS. The default is `http://` and `console.listen`.
    #[schemars(with = "Option<String>")]
    pub public_url: Option<Url>,
    /// Maximum number of database connections that only the console of this process uses, at
    /// least 1. They are opened when needed.
    pub connections: u32,
    /// Rights of people who sign in with OpenID Connect: the name of a permission in SCIM, and the
    /// list of the rights that it grants. It replaces the rights of this permission in the built-in
    /// table, which `longshore console rights --permissions` prints. Names that are in neither
    /// grant nothing. In the environment, rights are separated by commas.
    pub permissions: BTreeMap<String, Vec<String>>,
    /// Sign-in with OpenID Connect.
    pub oidc: oidc::Oidc,
}

impl Default for Console {
    fn default() -> Self {
        Self {
            listen: None,
            public_url: None,
            connections: 4,
            permissions: BTreeMap::new(),
            oidc: oidc::Oidc::default(),
        }
    }
}

/// Where the console listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ConsoleListen {
    Off,
    At(SocketAddr),
}

impl FromStr for ConsoleListen {
    type Err = std::net::AddrParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "off" => Ok(Self::Off),
            address => address.parse().map(Self::At),
        }
    }
}

impl TryFrom<String> for ConsoleListen {
    type Error = std::net::AddrParseError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl fmt::Display for ConsoleListen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::At(address) => address.fmt(f),
        }
    }
}

impl From<ConsoleListen> for String {
    fn from(listen: ConsoleListen) -> Self {
        listen.to_string()
    }
}

impl Console {
    /// The first segments of the console's own paths. A public URL cannot have them: where a proxy
    /// removes its path, they would have two meanings.
    pub const OWN_SEGMENTS: [&str; 11] = [
        "assets",
        "audit",
        "dead-letters",
        "history",
        "overview",
        "people",
        "preferences",
        "sign-in",
        "sign-out",
        "system",
        "w",
    ];

    /// Where the console of `standalone` listens unless something else is set.
    pub const STANDALONE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8081);

    /// The address that is set, if the console is on.
    pub fn address(&self) -> Option<SocketAddr> {
        match self.listen {
            Some(ConsoleListen::At(address)) => Some(address),
            Some(ConsoleListen::Off) | None => None,
        }
    }
}

impl Config {
    /// The URL at which browsers reach the console.
    pub fn console_url(&self) -> Url {
        let default = || {
            let address = self.console.address().unwrap_or(Console::STANDALONE);
            Url::parse(&format!("http://{address}")).expect("an address is a host and a port")
        };
        self.console.public_url.clone().unwrap_or_else(default)
    }

    /// The path of the console's URL, without a slash at the end; empty for `/`.
    pub fn console_base_path(&self) -> String {
        self.console_url().path().trim_end_matches('/').to_owned()
    }

    /// What is wrong with the console's settings.
    pub(super) fn console_problems(&self, mode: Mode) -> Vec<String> {
        let Console { public_url, connections, .. } = &self.console;
        let listen = self.console.address();
        let is_listener =
            |other: SocketAddr| listen.is_some_and(|listen| listen.port() != 0 && listen == other);
        let is_reachable = |listen: SocketAddr| !listen.ip().is_unspecified() && listen.port() != 0;
        // A page of the API's origin could read every page of the console.
        let is_of_api = (listen.is_some() || public_url.is_some())
            && Url::parse(&self.public_base())
                .is_ok_and(|api| api.origin() == self.console_url().origin());
        let of_url = |is_wrong: fn(&Url) -> bool| public_url.as_ref().is_some_and(is_wrong);
        let problems = [
            (
                is_listener(self.gateway.listen),
                "console.listen (LONGSHORE_CONSOLE_LISTEN) must not be the API's listener: the \
                 console needs an address of its own"
                    .to_owned(),
            ),
            (
                is_listener(self.ops.listen),
                "console.listen (LONGSHORE_CONSOLE_LISTEN) must not be the operations listener: \
                 the console needs an address of its own"
                    .to_owned(),
            ),
            (
                mode != Mode::Command
                    && public_url.is_none()
                    && listen.is_some_and(|listen| !is_reachable(listen)),
                format!(
                    "console.public_url (LONGSHORE_CONSOLE_PUBLIC_URL) is not set, and browsers \
                     cannot reach {}, where the console listens: set console.public_url to the URL \
                     that browsers use, such as https://console.example.com",
                    listen.map(|listen| listen.to_string()).unwrap_or_default()
                ),
            ),
            (
                of_url(|url| !matches!(url.scheme(), "http" | "https")),
                "console.public_url (LONGSHORE_CONSOLE_PUBLIC_URL): expected an http or https URL"
                    .to_owned(),
            ),
            (
                of_url(has_user),
                "console.public_url (LONGSHORE_CONSOLE_PUBLIC_URL) must not contain a user or \
                 password"
                    .to_owned(),
            ),
            (
                of_url(|url| url.query().is_some() || url.fragment().is_some()),
                "console.public_url (LONGSHORE_CONSOLE_PUBLIC_URL) must not contain a query or \
                 fragment"
                    .to_owned(),
            ),
            (
                // A browser reads a path that begins with it as another host.
                of_url(|url| url.path().contains("//")),
                "console.public_url (LONGSHORE_CONSOLE_PUBLIC_URL) must not contain // in its path"
                    .to_owned(),
            ),
            (
                of_url(|url| {
                    let first = url.path_segments().and_then(|mut segments| segments.next());
                    first.is_some_and(|first| Console::OWN_SEGMENTS.contains(&first))
                }),
                format!(
                    "console.public_url (LONGSHORE_CONSOLE_PUBLIC_URL) must not have a path that \
                     begins with a page of the console ({}): choose another path, such as /console",
                    Console::OWN_SEGMENTS.map(|segment| format!("/{segment}")).join(", ")
                ),
            ),
            (
                is_of_api,
                format!(
                    "console.public_url (LONGSHORE_CONSOLE_PUBLIC_URL) and public_url \
                     (LONGSHORE_PUBLIC_URL) have the same scheme, host and port, {}: the console \
                     needs a host or port of its own",
                    self.console_url().origin().ascii_serialization()
                ),
            ),
            (*connections == 0, "console.connections must be at least 1".to_owned()),
        ];
        let wrong = problems.into_iter().filter(|(is_wrong, _)| *is_wrong).map(|(_, text)| text);
        wrong.chain(self.console.oidc.problems(public_url.is_some())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(mode: Mode, environment: &[(&str, &str)]) -> Result<Config, String> {
        let environment = environment.iter().map(|(name, value)| (name.into(), value.into()));
        Config::load(None, environment, mode).map_err(|error| error.to_string())
    }

    const LISTEN: &str = "LONGSHORE_CONSOLE_LISTEN";
    const URL: &str = "LONGSHORE_CONSOLE_PUBLIC_URL";

    #[test]
    fn the_url_is_the_listener_unless_set() {
        for (environment, url, base_path) in [
            (&[][..], "http://127.0.0.1:8081/", ""),
            (&[(LISTEN, "off")], "http://127.0.0.1:8081/", ""),
            (&[(LISTEN, "[::1]:9000")], "http://[::1]:9000/", ""),
            (&[(URL, "https://ops.example.com/ls/")], "https://ops.example.com/ls/", "/ls"),
        ] {
            let config = config(Mode::Standalone, environment).unwrap();
            assert_eq!(config.console_url().as_str(), url);
            assert_eq!(config.console_base_path(), base_path);
        }
    }

    #[test]
    fn the_console_is_off_unless_an_address_is_set() {
        for (value, address) in [("off", None), ("127.0.0.1:9000", Some("127.0.0.1:9000"))] {
            let config = config(Mode::Command, &[(LISTEN, value)]).unwrap();
            assert_eq!(
                config.console.address().map(|address| address.to_string()).as_deref(),
                address
            );
            assert_eq!(serde_json::to_value(&config).unwrap()["console"]["listen"], value);
        }
        assert_eq!(config(Mode::Command, &[]).unwrap().console.address(), None);
        assert!(config(Mode::Command, &[(LISTEN, "on")]).unwrap_err().contains(LISTEN));
    }

    #[test]
    fn the_console_has_an_address_of_its_own() {
        for (environment, setting) in [
            (&[(LISTEN, "127.0.0.1:8080")][..], "console.listen"),
            (&[(LISTEN, "127.0.0.1:9100")], "console.listen"),
            (&[(LISTEN, "0.0.0.0:8081")], "console.public_url"),
            (&[(LISTEN, "127.0.0.1:0")], "console.public_url"),
            (&[(URL, "http://127.0.0.1:8080/console")], "console.public_url"),
            (
                &[
                    (URL, "https://x.example"),
                    ("LONGSHORE_PUBLIC_URL", "https://x.example:443/api"),
                ],
                "console.public_url",
            ),
            (&[(URL, "ftp://x.example")], "console.public_url"),
            (&[(URL, "https://u:hidden@x.example")], "console.public_url"),
            (&[(URL, "https://x.example/?hidden=1")], "console.public_url"),
            (&[(URL, "https://x.example//evil.example")], "console.public_url"),
            (&[(URL, "https://x.example/w")], "console.public_url"),
            (&[(URL, "https://x.example/people/console/")], "console.public_url"),
            (&[("LONGSHORE_CONSOLE__CONNECTIONS", "0")], "console.connections"),
        ] {
            let text = config(Mode::Standalone, environment).unwrap_err();
            assert!(text.contains(setting) && !text.contains("hidden"), "{environment:?}: {text}");
        }
        let proxied = [(LISTEN, "0.0.0.0:8081"), (URL, "https://x.example/console")];
        assert!(config(Mode::Standalone, &proxied).is_ok());
        assert!(config(Mode::Command, &proxied[..1]).is_ok());
    }
}
