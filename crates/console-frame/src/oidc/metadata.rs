//! What a provider publishes about itself (OpenID Connect Discovery 1.0).

use serde::Deserialize;
use url::Url;

use runtime::config::console::oidc::is_confidential;
use runtime::outbound::address::is_of_this_machine;

/// The discovery document, as far as the console uses it.
#[derive(Debug, Deserialize)]
pub struct Metadata {
    issuer: String,
    pub authorization_endpoint: Url,
    pub token_endpoint: Url,
    pub jwks_uri: Url,
    pub userinfo_endpoint: Option<Url>,
    pub token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    pub authorization_response_iss_parameter_supported: bool,
}

impl Metadata {
    /// Whether it is that of the issuer in the settings, and requests may go to its endpoints.
    /// Otherwise, what is wrong. Only a provider on this machine may name endpoints there: others
    /// would send requests with credentials to programs that nobody else can reach.
    pub fn check(&self, issuer: &str) -> Result<(), String> {
        if self.issuer != issuer {
            return Err(format!(
                "its issuer is {:?}, and console.oidc.issuer is {issuer:?}",
                self.issuer
            ));
        }
        let is_local = Url::parse(issuer).is_ok_and(|url| is_of_this_machine(&url));
        let endpoints = [&self.authorization_endpoint, &self.token_endpoint, &self.jwks_uri];
        for url in endpoints.into_iter().chain(&self.userinfo_endpoint) {
            if !is_confidential(url) {
                return Err(format!("{} is not an https URL", url.as_str()));
            }
            if is_of_this_machine(url) && !is_local {
                return Err(format!("{} is on this machine, but the issuer is not", url.as_str()));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_a_provider_on_this_machine_names_endpoints_there() {
        let check = |issuer: &str, field: &str, endpoint: &str| {
            let mut document = json!({
                "issuer": issuer,
                "authorization_endpoint": "https://id.example.com/authorize",
                "token_endpoint": "https://id.example.com/token",
                "jwks_uri": "https://id.example.com/keys",
                "userinfo_endpoint": "https://id.example.com/userinfo",
            });
            document[field] = endpoint.into();
            let metadata: Metadata = serde_json::from_value(document).unwrap();
            metadata.check(issuer)
        };
        let local = [
            "http://127.0.0.1:9000/x",
            "https://127.9.9.9/x",
            "http://localhost/x",
            "https://id.localhost./x",
            "https://[::1]/x",
            "https://[::ffff:127.0.0.1]/x",
            "https://0.0.0.0/x",
        ];
        let fields = ["authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint"];
        for field in fields {
            for endpoint in local {
                let refused = check("https://id.example.com", field, endpoint);
                assert!(refused.is_err(), "{field}: {endpoint}");
                for issuer in ["http://127.0.0.1:9000/tenant", "https://localhost"] {
                    assert_eq!(check(issuer, field, endpoint), Ok(()), "{issuer}: {endpoint}");
                }
            }
            let private = check("https://id.example.com", field, "https://10.0.0.1/x");
            assert_eq!(private, Ok(()), "{field}");
            assert!(check("https://localhost", field, "http://10.0.0.1/x").is_err(), "{field}");
        }
    }
}
