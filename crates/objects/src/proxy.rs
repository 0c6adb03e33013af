//! The HTTP proxy in front of the operator's storage. Storages of workspaces never use it: a proxy
//! would resolve and reach names that the operator did not choose.

use std::env;

/// A proxy for https endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Proxy {
    pub url: String,
    /// The hosts that are reached without it, separated by commas.
    pub except: String,
}

impl Proxy {
    /// `HTTPS_PROXY` and `NO_PROXY` of the environment, in upper or lower case.
    pub fn from_environment() -> Option<Self> {
        let read = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let either = |name: &str| read(name).or_else(|| read(&name.to_lowercase()));
        Some(Self::new(either("HTTPS_PROXY")?, either("NO_PROXY").unwrap_or_default()))
    }

    /// A URL without a scheme is a host.
    fn new(url: String, except: String) -> Self {
        let url = if url.contains("://") { url } else { format!("http://{url}") };
        Self { url, except }
    }
}

/// The error of a proxy that cannot be used. Its URL may contain a password.
pub(super) fn invalid() -> super::ObjectError {
    super::ObjectError::Settings("HTTPS_PROXY is not a valid URL".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_an_http_proxy() {
        for (url, expected) in [
            ("proxy.example:3128", "http://proxy.example:3128"),
            ("https://proxy.example", "https://proxy.example"),
        ] {
            assert_eq!(Proxy::new(url.into(), String::new()).url, expected);
        }
    }
}
