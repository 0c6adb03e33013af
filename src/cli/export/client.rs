//! A client of the API's export endpoints.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use reqwest::header::{IF_RANGE, RANGE};
use reqwest::redirect::Policy;
use reqwest::{Method, RequestBuilder, StatusCode};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use url::Url;
use uuid::Uuid;

use super::events::Events;
use crate::cli::table::{Cell, number, optional, progress, state, text, time_in};
use gateway::warnings::Warning;
use kit::errors::{causes, with_causes};
use kit::words::{after_colon, count};
use proof::manifest::is_object_prefix;
use proof::verify::Trust;

mod list;

/// How long the client retries if the service is down or asks for a retry.
pub(super) const TIMEOUT: Duration = Duration::from_secs(60);
pub(super) const PAUSE: Duration = Duration::from_secs(2);

/// Where exports are requested.
const CONTROL_GROUP: &str = "/users/export/global_control_group";
const SEGMENT: &str = "/users/export/segment";

/// The path of a request with this body.
fn request_path(Body(fields): &Body) -> &'static str {
    let is_of_segment = ["segment_id", "audience"].iter().any(|name| fields.contains_key(name));
    if is_of_segment { SEGMENT } else { CONTROL_GROUP }
}

/// The fields of a request, each as JSON: an audience has all digits of its numbers.
#[derive(Default, Serialize)]
pub struct Body(BTreeMap<&'static str, Box<RawValue>>);

impl Body {
    pub fn set(&mut self, name: &'static str, value: &impl Serialize) -> serde_json::Result<()> {
        self.0.insert(name, to_raw_value(value)?);
        Ok(())
    }
}

const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Maximum number of redirects of one request.
const MAX_REDIRECTS: usize = 10;

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error(
        "cannot reach {address} ({cause}): start the service, such as with `longshore \
         standalone`, or set its URL with --url"
    )]
    Unreachable { address: String, cause: String },
    #[error(
        "{from} redirected the request to {address}, which cannot be reached from this machine \
         ({cause}): use a machine that can reach it, or configure a storage endpoint that clients \
         can reach"
    )]
    RedirectUnreachable { from: String, address: String, cause: String },
    #[error("{address}: {}", with_causes(.error))]
    Http { address: String, error: reqwest::Error },
    #[error("{who} responded {status}{}", after_colon(.message))]
    Refused { who: String, status: StatusCode, message: String },
    #[error("cannot read the API's response: {0}")]
    Response(#[from] serde_json::Error),
    #[error("the API's response has an unexpected object_prefix: {0:?}")]
    Prefix(String),
    #[error("the list has no export with the object_prefix {0}")]
    NotListed(String),
    #[error("{0}")]
    File(#[from] std::io::Error),
}

impl ClientError {
    /// Whether a retry may help.
    pub(super) fn can_retry(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::RedirectUnreachable { .. } => true,
            // A connection that was lost, before the response or within its body, too.
            Self::Http { error, .. } => {
                error.is_timeout() || error.is_request() || error.is_body() || error.is_decode()
            }
            Self::Refused { status, .. } => matches!(status.as_u16(), 429 | 502..=504),
            Self::Response(_) | Self::Prefix(_) | Self::NotListed(_) | Self::File(_) => false,
        }
    }
}

/// The response to a request.
#[derive(Deserialize)]
pub struct Requested {
    pub object_prefix: String,
    pub url: Option<String>,
    #[serde(default)]
    pub warnings: Vec<ShownWarning>,
}

/// A warning. Gateways of 0.2.0 return its text.
#[derive(Deserialize)]
#[serde(untagged)]
pub enum ShownWarning {
    Warning(Warning),
    Text(String),
}

impl Display for ShownWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Warning(warning) => f.write_str(&warning.to_line()),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// The response to a dry run.
#[derive(Deserialize)]
pub struct DryRun {
    pub users: EstimatedUsers,
    pub files: u64,
    pub bytes: Estimate,
    pub seconds: Estimate,
    pub exports_in_progress: u64,
    pub destination: TestedDestination,
    #[serde(default)]
    pub warnings: Vec<ShownWarning>,
}

#[derive(Deserialize)]
pub struct EstimatedUsers {
    #[serde(flatten)]
    pub estimate: Estimate,
    pub between: Option<[u64; 2]>,
}

#[derive(Deserialize)]
pub struct Estimate {
    pub estimated: u64,
    pub based_on: Basis,
}

#[derive(Deserialize)]
pub struct Basis {
    pub source: String,
    pub count: Option<u64>,
}

#[derive(Deserialize)]
pub struct TestedDestination {
    pub name: Option<String>,
    pub kind: Option<String>,
    pub location: Option<String>,
    pub is_writable: bool,
    pub error: Option<String>,
}

/// The status of an export.
#[derive(Deserialize)]
pub struct Export {
    pub object_prefix: String,
    pub state: String,
    pub users: DoneCount,
    pub files: DoneCount,
    pub bytes: u64,
    pub requested_at: String,
    /// None: the export is not done, has expired, or a worker of an earlier release completed it.
    pub manifest: Option<IgnoredAny>,
    pub error: Option<String>,
}

#[derive(Deserialize)]
pub struct DoneCount {
    pub done: u64,
    pub total: Option<u64>,
}

impl Export {
    pub(super) fn fields(&self) -> [(&'static str, Cell); 7] {
        [
            ("prefix", text(&self.object_prefix)),
            ("state", state(&self.state)),
            ("users", progress(self.users.done, self.users.total)),
            ("files", progress(self.files.done, self.files.total)),
            ("bytes", number(self.bytes)),
            ("requested", time_in(&self.requested_at)),
            ("error", optional(self.error.as_ref().map(text))),
        ]
    }

    /// Such as `5,001 users in 2 files`.
    pub fn contents(&self) -> String {
        let (users, files) = (self.users.done, self.files.done);
        format!("{} in {}", count(users, "user"), count(files, "file"))
    }

    pub fn error_text(&self) -> &str {
        self.error.as_deref().unwrap_or("no reason given")
    }
}

/// A segment of the workspace.
#[derive(Deserialize)]
pub struct ListedSegment {
    pub id: Uuid,
    pub name: String,
}

#[derive(Deserialize)]
struct SegmentPage {
    segments: Vec<ListedSegment>,
}

/// An HTTP client that waits neither for a dead host nor for a stream that stopped.
pub(super) fn http_client() -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .connect_timeout(Duration::from_secs(10))
        .read_timeout(Duration::from_secs(60))
}

/// A client of one API with one key.
pub struct Client {
    http: reqwest::Client,
    base: String,
    key: String,
    /// Where the current request was redirected to: the client's own errors name only the first
    /// URL.
    redirected: Arc<Mutex<Option<Url>>>,
}

impl Client {
    pub fn new(base: &str, key: String) -> Result<Self, ClientError> {
        let base = base.trim_end_matches('/').to_owned();
        let redirected = Arc::new(Mutex::new(None));
        let latest = redirected.clone();
        let follow = Policy::custom(move |attempt| {
            if attempt.previous().len() > MAX_REDIRECTS {
                return attempt.error("too many redirects");
            }
            *latest.lock() = Some(attempt.url().clone());
            attempt.follow()
        });
        let http = http_client()
            .redirect(follow)
            .build()
            .map_err(|error| ClientError::Http { address: base.clone(), error })?;
        Ok(Self { http, base, key, redirected })
    }

    /// [`new`](Self::new) with a given HTTP client.
    pub fn over(http: reqwest::Client, base: &str, key: String) -> Self {
        let base = base.trim_end_matches('/').to_owned();
        Self { http, base, key, redirected: Arc::default() }
    }

    /// Requests an export. Retries if the service is down only with an Idempotency-Key: otherwise
    /// an earlier request may have arrived.
    pub async fn request(
        &self,
        body: &Body,
        idempotency_key: Option<&str>,
    ) -> Result<Requested, ClientError> {
        let request = || self.authorized(Method::POST, request_path(body)).json(body);
        let response = match idempotency_key {
            None => self.send(request()).await?,
            Some(key) => {
                with_retries(async || self.send(request().header(IDEMPOTENCY_KEY, key)).await)
                    .await?
            }
        };
        let requested: Requested = serde_json::from_slice(&response)?;
        check_prefix(&requested.object_prefix, None)?;
        Ok(requested)
    }

    /// Estimates an export that would be requested with this body.
    pub async fn dry_run(&self, body: &Body) -> Result<(DryRun, Value), ClientError> {
        let response =
            self.send(self.authorized(Method::POST, request_path(body)).json(body)).await?;
        let raw: Value = serde_json::from_slice(&response)?;
        Ok((DryRun::deserialize(&raw)?, raw))
    }

    /// Requests an ended export again.
    pub async fn repeat(&self, prefix: &str) -> Result<(Requested, Value), ClientError> {
        let path = format!("/users/export/{prefix}/repeat");
        let response = self.send(self.authorized(Method::POST, &path)).await?;
        let raw: Value = serde_json::from_slice(&response)?;
        let requested = Requested::deserialize(&raw)?;
        check_prefix(&requested.object_prefix, None)?;
        Ok((requested, raw))
    }

    pub async fn status(&self, prefix: &str) -> Result<(Export, Value), ClientError> {
        let path = format!("/users/export/{prefix}");
        let response = self.send(self.authorized(Method::GET, &path)).await?;
        read_status(prefix, serde_json::from_slice(&response)?)
    }

    /// [`status`](Self::status) of an export in progress: retries if the service is down.
    pub async fn status_with_retries(&self, prefix: &str) -> Result<(Export, Value), ClientError> {
        with_retries(async || self.status(prefix).await).await
    }

    /// The stream of events of an export.
    pub async fn events(&self, prefix: &str) -> Result<Events, ClientError> {
        let path = format!("/users/export/{prefix}/events");
        Ok(Events::new(self.execute(self.authorized(Method::GET, &path)).await?))
    }

    pub async fn cancel(&self, prefix: &str) -> Result<(Export, Value), ClientError> {
        let path = format!("/users/export/{prefix}");
        let response = self.send(self.authorized(Method::DELETE, &path)).await?;
        read_status(prefix, serde_json::from_slice(&response)?)
    }

    /// All segments of the workspace.
    pub async fn segments(&self) -> Result<Vec<ListedSegment>, ClientError> {
        let mut segments = Vec::new();
        for page in 0_u32.. {
            let path = format!("/segments/list?page={page}");
            let response = self.send(self.authorized(Method::GET, &path)).await?;
            let page: SegmentPage = serde_json::from_slice(&response)?;
            if page.segments.is_empty() {
                break;
            }
            segments.extend(page.segments);
        }
        Ok(segments)
    }

    /// Requests a file, or its rest after some bytes if its ETag is still the same. The URL needs
    /// no key. The response is a success, or 416: nothing is missing.
    pub(super) async fn open(
        &self,
        url: &str,
        rest: Option<(u64, &str)>,
    ) -> Result<reqwest::Response, ClientError> {
        let mut request = self.http.get(url);
        if let Some((length, etag)) = rest {
            request = request.header(RANGE, format!("bytes={length}-")).header(IF_RANGE, etag);
        }
        self.execute(request).await
    }

    /// The client, for requests without the key.
    pub(super) fn http(&self) -> &reqwest::Client {
        &self.http
    }

    /// The keys that this API serves.
    pub(super) fn as_trusted_gateway(&self) -> Trust {
        Trust::Gateway { client: self.http.clone(), base: self.base.clone() }
    }

    fn authorized(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base)).bearer_auth(&self.key)
    }

    async fn send(&self, request: RequestBuilder) -> Result<Vec<u8>, ClientError> {
        let response = self.execute(request).await?;
        Ok(response.bytes().await.map_err(|error| self.failed(error))?.into())
    }

    /// The response, if it is a success; otherwise its `message`, and the missing permission.
    async fn execute(&self, request: RequestBuilder) -> Result<reqwest::Response, ClientError> {
        *self.redirected.lock() = None;
        let response = request.send().await.map_err(|error| self.failed(error))?;
        let status = response.status();
        if status.is_success() || status == StatusCode::RANGE_NOT_SATISFIABLE {
            return Ok(response);
        }
        let who = match &*self.redirected.lock() {
            Some(url) => format!("{} (redirected by the API)", origin(url)),
            None => "the API".to_owned(),
        };
        let text = response.text().await.unwrap_or_default();
        let body = serde_json::from_str::<Value>(&text).unwrap_or_default();
        let message = match (body["message"].as_str(), body["permission"].as_str()) {
            (Some(message), Some(permission)) => format!("{message}: {permission}"),
            (Some(message), None) => message.to_owned(),
            (None, _) => text,
        };
        Err(ClientError::Refused { who, status, message })
    }

    /// The host that failed, and how.
    pub(super) fn failed(&self, error: reqwest::Error) -> ClientError {
        let requested_origin = error.url().map(origin).unwrap_or_else(|| self.base.clone());
        let redirected = self.redirected.lock().as_ref().map(origin);
        let cause = || causes(&error).last().map(ToString::to_string).unwrap_or_default();
        match redirected {
            // A download URL is as secret as a key.
            address if !error.is_connect() => ClientError::Http {
                address: address.unwrap_or(requested_origin),
                error: error.without_url(),
            },
            Some(address) => {
                ClientError::RedirectUnreachable { from: requested_origin, address, cause: cause() }
            }
            None => ClientError::Unreachable { address: requested_origin, cause: cause() },
        }
    }
}

/// Retries a request if the service is down, for [`TIMEOUT`].
async fn with_retries<T>(
    request: impl AsyncFn() -> Result<T, ClientError>,
) -> Result<T, ClientError> {
    let started = tokio::time::Instant::now();
    loop {
        match request().await {
            Err(error) if error.can_retry() && started.elapsed() < TIMEOUT => {
                tokio::time::sleep(PAUSE).await;
            }
            response => return response,
        }
    }
}

/// Scheme, host and port.
fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

fn read(raw: Value) -> Result<(Export, Value), ClientError> {
    Ok((Export::deserialize(&raw)?, raw))
}

/// The status of the requested export.
fn read_status(prefix: &str, raw: Value) -> Result<(Export, Value), ClientError> {
    let (export, raw) = read(raw)?;
    check_prefix(&export.object_prefix, Some(prefix))?;
    Ok((export, raw))
}

/// Checks the prefix that a server sent, because files get their names from it.
fn check_prefix(sent: &str, requested: Option<&str>) -> Result<(), ClientError> {
    if is_object_prefix(sent) && requested.is_none_or(|requested| requested == sent) {
        return Ok(());
    }
    Err(ClientError::Prefix(sent.to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PREFIX: &str = "9d2261c4-4cf3-44b0-909b-455baf540288-1795249898";

    #[test]
    fn a_status_is_that_of_the_requested_export() {
        let status = |prefix: &str| {
            json!({
                "object_prefix": prefix, "state": "done", "users": { "done": 1 },
                "files": { "done": 1 }, "bytes": 1, "requested_at": "2026-11-21T08:29:28.910Z",
            })
        };
        let (export, _) = read_status(PREFIX, status(PREFIX)).unwrap();
        assert_eq!(export.object_prefix, PREFIX);
        let other = PREFIX.replace("-17", "-18");
        for (requested, sent) in [(PREFIX, other.as_str()), ("../x", "../x"), (PREFIX, "")] {
            let error = read_status(requested, status(sent)).err().expect("an error");
            assert!(matches!(&error, ClientError::Prefix(found) if found == sent), "{error}");
            assert!(!error.can_retry());
        }
    }

    #[test]
    fn a_new_export_has_a_prefix_that_can_be_a_file_name() {
        assert!(check_prefix(PREFIX, None).is_ok());
        for sent in ["", "..", "../../x", "/etc/passwd", &format!("../{PREFIX}"), "x-1"] {
            assert!(check_prefix(sent, None).is_err(), "{sent:?}");
        }
    }
}
