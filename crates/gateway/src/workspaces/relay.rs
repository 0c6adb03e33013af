//! The address of an SMTP relay, as the workspace file writes it.

use percent_encoding::percent_decode_str;
use secrecy::SecretString;
use url::{Host, Url};

/// The port of submission, and the port of submission with TLS from the first byte (RFC 8314).
const SUBMISSION: u16 = 587;
const SUBMISSIONS: u16 = 465;

/// The relay of emails: its address and login.
#[derive(Clone, Debug)]
pub struct Relay {
    /// A host name, or an IP address without brackets.
    pub host: String,
    pub port: u16,
    pub tls: Tls,
    pub login: Option<Login>,
}

/// How a connection is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tls {
    /// TLS from the first byte.
    Wrapped,
    /// With STARTTLS, before anything else is sent.
    Required,
    /// With STARTTLS, if the relay offers it.
    Opportunistic,
    /// No encryption.
    None,
}

#[derive(Clone, Debug)]
pub struct Login {
    pub user: String,
    pub password: SecretString,
}

impl Relay {
    /// Parses `smtp://user:password@host:port?tls=…` or `smtps://…`. A password needs TLS, unless
    /// `tls=none` allows to send it without. No error repeats the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let url = Url::parse(text).map_err(|error| format!("not a valid URL ({error})"))?;
        if !matches!(url.scheme(), "smtp" | "smtps") {
            return Err("expected smtp://host:port or smtps://host:port".into());
        }
        let host = match url.host() {
            Some(Host::Domain(name)) if is_host(name) => name.to_owned(),
            Some(Host::Ipv4(address)) => address.to_string(),
            Some(Host::Ipv6(address)) => address.to_string(),
            _ => return Err("the host is missing".into()),
        };
        if !matches!(url.path(), "" | "/") || url.fragment().is_some() {
            return Err("only ?tls=none or ?tls=required may follow the host and port; in a user \
                        name or password, write `/`, `?`, `#`, `@`, `:` and `%` as %2F, %3F, %23, \
                        %40, %3A and %25"
                .into());
        }
        let login = login(&url)?;
        let tls = match (url.scheme(), url.query().unwrap_or_default()) {
            ("smtps", "" | "tls=required") => Tls::Wrapped,
            ("smtps", "tls=none") => {
                return Err("smtps always uses TLS: use smtp with tls=none".into());
            }
            ("smtp", "tls=none") => Tls::None,
            ("smtp", "tls=required") => Tls::Required,
            ("smtp", "") if login.is_some() => Tls::Required,
            ("smtp", "") => Tls::Opportunistic,
            _ => return Err("unknown setting: expected tls=none or tls=required".into()),
        };
        let default_port = if tls == Tls::Wrapped { SUBMISSIONS } else { SUBMISSION };
        let port = match url.port() {
            Some(0) => return Err("the port must be 1 to 65535".into()),
            port => port.unwrap_or(default_port),
        };
        Ok(Self { host, port, tls, login })
    }

    /// The address without the login.
    pub fn address(&self) -> String {
        let scheme = if self.tls == Tls::Wrapped { "smtps" } else { "smtp" };
        let Self { host, port, .. } = self;
        if host.contains(':') {
            format!("{scheme}://[{host}]:{port}")
        } else {
            format!("{scheme}://{host}:{port}")
        }
    }
}

fn login(url: &Url) -> Result<Option<Login>, String> {
    let decoded = |text: &str| {
        percent_decode_str(text)
            .decode_utf8()
            .ok()
            .filter(|text| !text.is_empty() && !text.contains(char::is_control))
            .map(String::from)
            .ok_or("the user name and password must be UTF-8 without control characters")
    };
    match (url.username(), url.password()) {
        ("", None) => Ok(None),
        ("", Some(_)) | (_, None) => Err("set both a user name and a password, or neither".into()),
        (user, Some(password)) => {
            Ok(Some(Login { user: decoded(user)?, password: decoded(password)?.into() }))
        }
    }
}

fn is_host(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    (1..=253).contains(&name.len()) && name.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use secrecy::ExposeSecret as _;

    use super::*;

    #[test]
    fn relay_urls_determine_host_port_and_tls() {
        for (text, host, port, tls) in [
            ("smtp://relay.acme.example", "relay.acme.example", 587, Tls::Opportunistic),
            ("smtp://127.0.0.1:2525", "127.0.0.1", 2525, Tls::Opportunistic),
            ("smtp://[::1]:25/?tls=none", "::1", 25, Tls::None),
            ("smtp://relay?tls=required", "relay", 587, Tls::Required),
            ("smtps://relay", "relay", 465, Tls::Wrapped),
            ("smtps://relay:4465?tls=required", "relay", 4465, Tls::Wrapped),
            ("smtp://u:p@relay", "relay", 587, Tls::Required),
            ("smtp://u:p@relay?tls=none", "relay", 587, Tls::None),
            ("smtps://u:p@relay", "relay", 465, Tls::Wrapped),
        ] {
            let relay = Relay::parse(text).unwrap();
            assert_eq!((relay.host.as_str(), relay.port, relay.tls), (host, port, tls), "{text}");
            assert_eq!(relay.login.is_some(), text.contains('@'), "{text}");
        }
        assert_eq!(Relay::parse("smtp://u:p@[::1]").unwrap().address(), "smtp://[::1]:587");
        assert_eq!(Relay::parse("smtps://u:p@relay").unwrap().address(), "smtps://relay:465");
    }

    #[test]
    fn names_and_passwords_are_decoded_and_not_shown() {
        let relay = Relay::parse("smtp://ann%40acme.example:p%2Fss+w%25rd@relay").unwrap();
        let login = relay.login.as_ref().unwrap();
        assert_eq!(login.user, "ann@acme.example");
        assert_eq!(login.password.expose_secret(), "p/ss+w%rd");
        assert!(!format!("{relay:?}").contains("w%rd"));
    }

    #[test]
    fn invalid_relays_are_rejected_without_showing_secrets() {
        for text in [
            "",
            "relay:25",
            "http://hidden@relay",
            "smtp:",
            "smtp://",
            "smtp://:25",
            "smtp://re%20lay",
            "smtp://hidden@relay",
            "smtp://:hidden@relay",
            "smtp://u:hidden/x@relay",
            "smtp://relay/hidden",
            "smtp://relay#hidden",
            "smtp://relay:0",
            "smtp://relay:99999",
            "smtp://relay?tls=hidden",
            "smtp://relay?hidden",
            "smtps://u:hidden@relay?tls=none",
            "smtp://u:%ff@relay",
            "smtp://u:a%0Ahidden@relay",
        ] {
            let error = Relay::parse(text).expect_err(text);
            assert!(!error.contains("hidden"), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in "(smtps?://)?(\\PC|[:@/?#%\\[\\]])*") {
            let _ = Relay::parse(&text);
        }

        #[test]
        fn every_password_can_be_written(password in "\\PC{1,40}") {
            let encoded: String = password.bytes().map(|byte| format!("%{byte:02X}")).collect();
            let relay = Relay::parse(&format!("smtp://u:{encoded}@relay")).unwrap();
            let login = relay.login.unwrap();
            prop_assert_eq!(login.password.expose_secret(), &password);
        }
    }
}
