//! Sends a request to a receiver, within limits, and returns the stored part of the response.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use jiff::fmt::rfc2822;
use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, Response, StatusCode, header};
use tokio::sync::OnceCell;
use tokio::time::timeout;
use url::Url;

use crate::config::Config;
use crate::outbound::address::{LookupFailed, NameLookups, Refused, Resolver};
use crate::traces;
use kit::clock::Clock;
use kit::moment::Moment;

const USER_AGENT: &str = concat!("longshore/", env!("CARGO_PKG_VERSION"));

/// Maximum bytes that are read of a body that matters only as the text of an error, and maximum
/// characters that are stored.
const READ_BYTES: usize = 4 << 10;
const MAX_STORED_CHARACTERS: usize = 500;

/// How long a body is read after the status: one that comes slowly must not hold the request's
/// place.
const READ_TIME: Duration = Duration::from_secs(2);

/// The longest `Retry-After` that is respected, so that no server delays a message for days.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3_600);

/// The text for customers if a host name leads to no allowed address. It is the same if the name does
/// not exist: a customer must not learn which internal names exist, and where they lead.
const NO_ADDRESS: &str = "the host name has no address that is allowed";

/// How long an unused connection to a receiver is kept.
const IDLE: Duration = Duration::from_secs(30);

/// The HTTP client of callbacks. Cheap to clone; created at the first use, because it reads the
/// system's certificates.
#[derive(Clone, Debug)]
pub struct Sender {
    allowed: Arc<[IpNet]>,
    lookups: NameLookups,
    connect_timeout: Duration,
    timeout: Duration,
    /// Whether errors show what a host name resolves to.
    shows_addresses: bool,
    client: Arc<OnceCell<Client>>,
}

/// Why an attempt failed, for the operator; holds no credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The receiver's status, if it responded.
    pub status: Option<u16>,
    /// The delay of its `Retry-After`.
    pub retry_after: Option<Duration>,
    pub error: String,
}

impl Failure {
    /// A failure without a response from the receiver.
    pub fn no_response(error: impl Into<String>) -> Self {
        Self { status: None, retry_after: None, error: stored_text(&error.into()) }
    }
}

/// A request to a checked URL.
pub struct Request {
    pub method: Method,
    pub url: Url,
    pub headers: HeaderMap,
    pub body: String,
    /// Time limit until the response is read, if it differs from the configured one.
    pub timeout: Option<Duration>,
    pub response: ResponseBody,
}

/// What a request needs of its response's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseBody {
    /// Its beginning as the text of an error; nothing if the status is 2xx.
    ErrorText,
    /// At most this many bytes.
    Bytes(usize),
}

/// Why there is no response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// Nothing of the request can have arrived: there was no connection. Also if the host name leads
    /// to no allowed address. It must not matter why: customers could learn from retries which
    /// internal names exist.
    NotSent(String),
    /// The request may have arrived, but no complete response came.
    NoResponse(String),
}

impl RequestError {
    pub fn into_text(self) -> String {
        match self {
            Self::NotSent(text) | Self::NoResponse(text) => text,
        }
    }
}

/// A receiver's response, whatever its status.
#[derive(Clone, Debug)]
pub struct HttpResponse {
    pub status: StatusCode,
    /// The delay of its `Retry-After`.
    pub retry_after: Option<Duration>,
    pub content_type: Option<String>,
    /// The beginning of the body.
    pub body: Vec<u8>,
    /// Whether `body` is the whole body.
    pub is_complete: bool,
    secrets: Vec<String>,
}

impl HttpResponse {
    /// The response as text, without the secrets of the URL.
    pub fn summary(&self) -> String {
        let status = self.status;
        let reason = status.canonical_reason().unwrap_or("an unknown status");
        let mut error = format!("the receiver responded {} {reason}", status.as_u16());
        if status.is_redirection() && status != StatusCode::NOT_MODIFIED {
            error.push_str("; redirects are not followed");
        }
        let body = &self.body[..self.body.len().min(READ_BYTES)];
        let mut text = String::from_utf8_lossy(body).into_owned();
        for secret in &self.secrets {
            text = text.replace(secret.as_str(), "…");
        }
        if !text.trim().is_empty() {
            error = format!("{error}: {}", text.trim());
        }
        stored_text(&error)
    }
}

impl Sender {
    pub fn new(config: &Config) -> Self {
        let timeout = Duration::from_secs(config.deliveries.timeout_seconds);
        let connect_timeout = Duration::from_secs(config.deliveries.connect_seconds);
        Self {
            allowed: config.allow_private.as_slice().into(),
            lookups: NameLookups::for_customers(),
            // The shorter one, or the end of the request would hide that there was no connection.
            connect_timeout: connect_timeout.min(timeout / 2),
            timeout,
            shows_addresses: false,
            client: Arc::default(),
        }
    }

    /// The same for URLs that only the operator chooses, such as an identity provider's: it may be
    /// in any network.
    pub fn for_operator(config: &Config) -> Self {
        let every = [IpNet::from(Ipv4Net::default()), IpNet::from(Ipv6Net::default())];
        let lookups = NameLookups::for_operators();
        Self { allowed: every.into(), lookups, ..Self::new(config).showing_addresses() }
    }

    /// The same with errors that only the operator sees.
    pub fn showing_addresses(self) -> Self {
        Self { shows_addresses: true, ..self }
    }

    /// POSTs `body` to the checked `url`; returns the status if it is 2xx.
    pub async fn post(
        &self,
        url: Url,
        mut headers: HeaderMap,
        body: String,
        clock: &Clock,
    ) -> Result<u16, Failure> {
        traces::inject(&mut headers);
        let (method, response) = (Method::POST, ResponseBody::ErrorText);
        let request = Request { method, url, headers, body, timeout: None, response };
        let answered = self.request(request, clock).await;
        match answered {
            Ok(answer) if answer.status.is_success() => Ok(answer.status.as_u16()),
            Ok(answer) => Err(Failure {
                status: Some(answer.status.as_u16()),
                retry_after: answer.retry_after,
                error: answer.summary(),
            }),
            Err(error) => {
                Err(Failure { status: None, retry_after: None, error: error.into_text() })
            }
        }
    }

    /// Sends a request; returns the response, with a limited part of its body.
    pub async fn request(
        &self,
        request: Request,
        clock: &Clock,
    ) -> Result<HttpResponse, RequestError> {
        let client = self
            .client
            .get_or_try_init(|| async { self.connect() })
            .await
            .map_err(|error| RequestError::NotSent(stored_text(&causes(&error))))?;
        let secrets = secrets_of(&request.url);
        let limit = request.timeout.unwrap_or(self.timeout);
        let builder = client.request(request.method, request.url).headers(request.headers);
        let builder = if request.body.is_empty() { builder } else { builder.body(request.body) };
        let answer = builder.timeout(limit).send().await;
        let answer = answer.map_err(|error| self.no_response(error, limit))?;
        let retry_after = answer.headers().get(header::RETRY_AFTER);
        let retry_after = retry_after.and_then(|value| parse_retry_after(value, clock));
        let content_type = answer.headers().get(header::CONTENT_TYPE);
        let content_type = content_type.and_then(|value| value.to_str().ok()).map(str::to_owned);
        let status = answer.status();
        let (body, is_complete) = match request.response {
            ResponseBody::Bytes(max_bytes) => beginning(answer, max_bytes).await,
            ResponseBody::ErrorText if status.is_success() => {
                // Read without anyone waiting, so that the connection can be used again. Most have
                // arrived, and need no task.
                let mut reading = Box::pin(beginning(answer, READ_BYTES));
                if reading.as_mut().now_or_never().is_none() {
                    tokio::spawn(reading);
                }
                (Vec::new(), false)
            }
            ResponseBody::ErrorText => beginning(answer, READ_BYTES).await,
        };
        Ok(HttpResponse { status, retry_after, content_type, body, is_complete, secrets })
    }

    fn connect(&self) -> Result<Client, reqwest::Error> {
        Client::builder()
            .user_agent(USER_AGENT)
            .dns_resolver(Resolver { allowed: self.allowed.clone(), lookups: self.lookups.clone() })
            // The target of a redirect is not a checked address.
            .redirect(Policy::none())
            .no_proxy()
            .referer(false)
            .connect_timeout(self.connect_timeout)
            .timeout(self.timeout)
            .pool_idle_timeout(IDLE)
            .build()
    }

    fn no_response(&self, error: reqwest::Error, timeout: Duration) -> RequestError {
        let host = error.url().and_then(Url::host_str).unwrap_or_default().to_owned();
        // The URL may contain a password or a token.
        let error = error.without_url();
        let is_about_address =
            is_caused_by::<Refused>(&error) || is_caused_by::<LookupFailed>(&error);
        let text = match (error.is_timeout(), error.is_connect()) {
            (true, true) => format!("not connected within {:?}", self.connect_timeout),
            (true, false) => format!("no response within {timeout:?}"),
            _ if is_about_address && !self.shows_addresses => {
                tracing::warn!(host, error = causes(&error), "cannot send to a host");
                NO_ADDRESS.to_owned()
            }
            _ => causes(&error),
        };
        let text = stored_text(&text);
        if is_about_address || error.is_connect() || error.is_builder() {
            RequestError::NotSent(text)
        } else {
            RequestError::NoResponse(text)
        }
    }
}

fn is_caused_by<E: Error + 'static>(error: &(dyn Error + 'static)) -> bool {
    kit::errors::causes(error).any(|cause| cause.is::<E>())
}

/// The delay of a `Retry-After`: a number of seconds, or a time.
fn parse_retry_after(value: &HeaderValue, clock: &Clock) -> Option<Duration> {
    let text = value.to_str().ok()?.trim();
    let delay = match text.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        // A time in the past means no delay.
        Err(_) => {
            let retry_at = rfc2822::parse(text).ok()?.timestamp();
            Duration::try_from(retry_at.duration_since(clock.now())).unwrap_or_default()
        }
    };
    Some(delay.min(MAX_RETRY_AFTER))
}

/// The first bytes of a body, and whether they are all of it. Bytes that cannot be read in time are
/// ignored.
async fn beginning(mut answer: Response, max_bytes: usize) -> (Vec<u8>, bool) {
    let (mut bytes, mut is_complete) = (Vec::new(), false);
    let deadline = Moment::now() + READ_TIME;
    while bytes.len() <= max_bytes {
        match timeout(deadline.remaining(), answer.chunk()).await {
            Ok(Ok(Some(chunk))) => bytes.extend_from_slice(&chunk),
            Ok(Ok(None)) => {
                is_complete = true;
                break;
            }
            Ok(Err(_)) | Err(_) => break,
        }
    }
    is_complete &= bytes.len() <= max_bytes;
    bytes.truncate(max_bytes);
    (bytes, is_complete)
}

/// The parts of a URL that must not be shown, even if a receiver repeats them: its user and
/// password, its path and its query.
fn secrets_of(url: &Url) -> Vec<String> {
    let query = url.query().into_iter().map(str::to_owned);
    let values = url.query_pairs().map(|(_, value)| value.into_owned());
    let user = [Some(url.username()), url.password()].into_iter().flatten();
    // A short value is not a secret, and replacing it would make the text unreadable.
    let parameters =
        query.chain(values).chain(user.map(str::to_owned)).filter(|value| value.len() >= 6);
    // A path segment that is a plain word is no secret either.
    let steps = url.path().split('/').filter(|step| step.len() >= 12);
    parameters.chain(steps.map(str::to_owned)).collect()
}

/// The text of an error and its causes.
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

/// A text in its stored form: one line, without NUL, of limited length.
pub fn stored_text(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(plain).take(MAX_STORED_CHARACTERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_errors_are_short_and_plain() {
        assert_eq!(stored_text("a\0b\nc"), "a b c");
        assert_eq!(stored_text(&"é".repeat(10_000)).chars().count(), MAX_STORED_CHARACTERS);
    }

    #[test]
    fn retry_after_accepts_seconds_or_a_date() {
        let clock = Clock::system();
        let parse_retry_after =
            |text: &'static str| parse_retry_after(&HeaderValue::from_static(text), &clock);
        assert_eq!(parse_retry_after(" 120 "), Some(Duration::from_secs(120)));
        assert_eq!(parse_retry_after("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO));
        for longer in ["Fri, 31 Dec 2100 23:59:59 GMT", "86400", "18446744073709551615"] {
            assert_eq!(parse_retry_after(longer), Some(MAX_RETRY_AFTER), "{longer}");
        }
        for none in ["", "-1", "soon", "1.5"] {
            assert_eq!(parse_retry_after(none), None, "{none}");
        }
    }

    #[test]
    fn passwords_paths_and_queries_of_an_address_are_secrets() {
        let url = Url::parse("https://user:pass-word@h/p?token=abcdef%21&a=1").unwrap();
        assert_eq!(secrets_of(&url), ["token=abcdef%21&a=1", "abcdef!", "pass-word"]);
        let url = Url::parse("https://h/services/T012/B345/hidden-in-the-path").unwrap();
        assert_eq!(secrets_of(&url), ["hidden-in-the-path"]);
        assert!(secrets_of(&Url::parse("https://h/p").unwrap()).is_empty());
    }
}
