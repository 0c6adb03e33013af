//! One request to a receiver: where it may go, how long it may take, what is kept of the
//! answer.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode, header};
use tokio::sync::OnceCell;
use url::Url;

use super::address::Resolver;
use super::signature::Signed;
use crate::config::Config;

const USER_AGENT: &str = concat!("longshore/", env!("CARGO_PKG_VERSION"));

/// Bytes of a refusing answer's body that are read, and characters of it that are kept.
const READ_BYTES: usize = 4 << 10;
const KEPT_CHARACTERS: usize = 500;

/// How long an unused connection to a receiver is kept.
const IDLE: Duration = Duration::from_secs(30);

/// What callbacks are sent with. Cheap to clone; made ready at the first use, since it
/// reads the system's certificates.
#[derive(Clone, Debug)]
pub struct Sender {
    allowed: Arc<[IpNet]>,
    connect_timeout: Duration,
    timeout: Duration,
    client: Arc<OnceCell<Client>>,
}

/// Why an attempt failed, for the operator; holds no credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The receiver's status, where it answered.
    pub status: Option<u16>,
    pub error: String,
}

impl Failure {
    /// A failure without an answer.
    pub fn unanswered(error: impl Into<String>) -> Self {
        Self { status: None, error: kept(&error.into()) }
    }
}

impl Sender {
    pub fn new(config: &Config) -> Self {
        Self {
            allowed: config.allow_private.as_slice().into(),
            connect_timeout: Duration::from_secs(config.deliveries.connect_seconds),
            timeout: Duration::from_secs(config.deliveries.timeout_seconds),
            client: Arc::default(),
        }
    }

    /// POSTs `body` to `url`, which was checked; answers the status, where it was a 2xx.
    pub async fn post(&self, url: Url, signed: Signed, body: String) -> Result<u16, Failure> {
        let client = self
            .client
            .get_or_try_init(|| async { self.connect() })
            .await
            .map_err(|error| Failure::unanswered(causes(&error)))?;
        let secrets = secrets_of(&url);
        let answer = client
            .post(url)
            .header(header::CONTENT_TYPE, "application/json")
            .header("webhook-id", signed.id)
            .header("webhook-timestamp", signed.timestamp)
            .header("webhook-signature", signed.signature)
            .body(body)
            .send()
            .await
            .map_err(|error| self.unanswered(error))?;
        if answer.status().is_success() {
            return Ok(answer.status().as_u16());
        }
        Err(refused(answer, &secrets).await)
    }

    fn connect(&self) -> Result<Client, reqwest::Error> {
        Client::builder()
            .user_agent(USER_AGENT)
            .dns_resolver(Resolver { allowed: self.allowed.clone() })
            // An address that a receiver names itself was never checked.
            .redirect(Policy::none())
            .no_proxy()
            .referer(false)
            .connect_timeout(self.connect_timeout)
            .timeout(self.timeout)
            .pool_idle_timeout(IDLE)
            .build()
    }

    fn unanswered(&self, error: reqwest::Error) -> Failure {
        // The address may hold a password or a token.
        let error = error.without_url();
        Failure::unanswered(match (error.is_timeout(), error.is_connect()) {
            (true, true) => format!("not connected within {:?}", self.connect_timeout),
            (true, false) => format!("no answer within {:?}", self.timeout),
            _ => causes(&error),
        })
    }
}

/// What a receiver said with another status than 2xx.
async fn refused(answer: Response, secrets: &[String]) -> Failure {
    let status = answer.status();
    let reason = status.canonical_reason().unwrap_or("an unknown status");
    let mut error = format!("the receiver answered {} {reason}", status.as_u16());
    if status.is_redirection() && status != StatusCode::NOT_MODIFIED {
        error.push_str("; redirects are not followed");
    }
    let mut text = String::from_utf8_lossy(&beginning(answer).await).into_owned();
    for secret in secrets {
        text = text.replace(secret.as_str(), "…");
    }
    if !text.trim().is_empty() {
        error = format!("{error}: {}", text.trim());
    }
    Failure { status: Some(status.as_u16()), error: kept(&error) }
}

/// The first bytes of a body; what cannot be read in time is left.
async fn beginning(mut answer: Response) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < READ_BYTES {
        match answer.chunk().await {
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
            Ok(None) | Err(_) => break,
        }
    }
    bytes.truncate(READ_BYTES);
    bytes
}

/// What of an address a receiver may repeat and nobody may read: its password and its
/// query.
fn secrets_of(url: &Url) -> Vec<String> {
    let query = url.query().into_iter().map(str::to_owned);
    let values = url.query_pairs().map(|(_, value)| value.into_owned());
    let password = url.password().map(str::to_owned);
    // A short value is no secret, and would make the text unreadable.
    query.chain(values).chain(password).filter(|secret| secret.len() >= 6).collect()
}

/// An error's text with that of its causes.
fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// A text as it is kept: in one line, without NUL, of bounded length.
fn kept(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(plain).take(KEPT_CHARACTERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_short_and_plain() {
        assert_eq!(kept("a\0b\nc"), "a b c");
        assert_eq!(kept(&"é".repeat(10_000)).chars().count(), KEPT_CHARACTERS);
    }

    #[test]
    fn passwords_and_queries_of_an_address_are_secrets() {
        let url = Url::parse("https://user:pass-word@h/p?token=abcdef%21&a=1").unwrap();
        assert_eq!(secrets_of(&url), ["token=abcdef%21&a=1", "abcdef!", "pass-word"]);
        assert!(secrets_of(&Url::parse("https://h/p").unwrap()).is_empty());
    }
}
