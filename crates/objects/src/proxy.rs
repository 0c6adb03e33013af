//! The HTTP proxy in front of the operator's storage. Storages of workspaces never use it: a proxy
//! would resolve and reach names that the operator did not choose.

use std::env;

use super::ObjectError;

/// A proxy for https endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Proxy {
    pub url: String,
    /// The hosts that are reached without it, separated by commas.
    pub except: String,
}

impl Proxy {
    /// `HTTPS_PROXY` and `NO_PROXY` of the environment, in upper or lower case.
    pub fn from_environment() -> Result<Option<Self>, ObjectError> {
        let read = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let except = || read("NO_PROXY").or_else(|| read("no_proxy")).unwrap_or_default();
        for name in ["HTTPS_PROXY", "https_proxy"] {
            if let Some(url) = read(name) {
                return Self::new(name, url, except()).map(Some);
            }
        }
        Ok(None)
    }

    /// A URL without a scheme is a host.
    fn new(name: &str, url: String, except: String) -> Result<Self, ObjectError> {
        match url.split_once("://") {
            None => Ok(Self { url: format!("http://{url}"), except }),
            Some((scheme, _))
                if ["http", "https"].iter().any(|s| scheme.eq_ignore_ascii_case(s)) =>
            {
                Ok(Self { url, except })
            }
            Some(_) => Err(ObjectError::Settings(format!(
                "{name} must begin with http:// or https://: a SOCKS proxy cannot be used"
            ))),
        }
    }
}

/// The error of a proxy that cannot be used. Its URL may contain a password.
pub(super) fn invalid() -> ObjectError {
    ObjectError::Settings("HTTPS_PROXY is not a valid URL".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_an_http_proxy() {
        for (url, expected) in [
            ("proxy.example:3128", "http://proxy.example:3128"),
            ("https://proxy.example", "https://proxy.example"),
            ("HTTP://proxy.example", "HTTP://proxy.example"),
        ] {
            let proxy = Proxy::new("HTTPS_PROXY", url.into(), String::new());
            assert_eq!(proxy.unwrap().url, expected);
        }
    }

    #[test]
    fn a_socks_proxy_is_refused_with_the_name_of_the_variable() {
        for url in ["socks5://ann:pass-word@proxy.example:1080", "socks5h://p", "ftp://p"] {
            let error = Proxy::new("https_proxy", url.into(), String::new()).unwrap_err();
            let ObjectError::Settings(text) = error else { panic!("{error:?}") };
            assert!(text.contains("https_proxy") && !text.contains("pass-word"), "{text}");
        }
    }
}
