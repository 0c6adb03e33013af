//! A client of the API's export endpoints.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt as _;
use parking_lot::Mutex;
use reqwest::redirect::Policy;
use reqwest::{Method, RequestBuilder, StatusCode};
use serde::Deserialize;
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use url::Url;

use kit::words::count;

/// How long the client retries if the service is down or asks for a retry.
const TIMEOUT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_secs(2);

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
    #[error("{address}: {}", chain(.error))]
    Http { address: String, error: reqwest::Error },
    #[error("{who} responded {status}: {message}")]
    Refused { who: String, status: StatusCode, message: String },
    #[error("cannot read the API's response: {0}")]
    Response(#[from] serde_json::Error),
    #[error("{0}")]
    File(#[from] std::io::Error),
}

impl ClientError {
    /// Whether a retry may help.
    fn can_retry(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::RedirectUnreachable { .. } => true,
            Self::Http { error, .. } => error.is_timeout(),
            Self::Refused { status, .. } => matches!(status.as_u16(), 429 | 502..=504),
            Self::Response(_) | Self::File(_) => false,
        }
    }
}

/// An error and its chain of causes.
fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    let error: &(dyn std::error::Error + 'static) = error;
    std::iter::successors(Some(error), |error| error.source())
}

fn chain(error: &reqwest::Error) -> String {
    causes(error).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// The response to a request.
#[derive(Deserialize)]
pub struct Requested {
    pub object_prefix: String,
    pub url: Option<String>,
    #[serde(default)]
    pub warnings: Vec<String>,
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
    pub error: Option<String>,
}

#[derive(Deserialize)]
pub struct DoneCount {
    pub done: u64,
    pub total: Option<u64>,
}

impl Export {
    pub fn line(&self) -> String {
        let progress = |count: &DoneCount| match count.total {
            Some(total) => format!("{}/{total}", count.done),
            None => count.done.to_string(),
        };
        let error = self.error.as_ref().map(|error| format!("  {error}")).unwrap_or_default();
        format!(
            "{}  {:9}  {} users  {} files  {} bytes  requested {}{error}",
            self.object_prefix,
            self.state,
            progress(&self.users),
            progress(&self.files),
            self.bytes,
            self.requested_at,
        )
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

#[derive(Deserialize)]
struct Page {
    exports: Vec<Value>,
    next_cursor: Option<String>,
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
        let http = reqwest::Client::builder()
            .connect_timeout(Duration::from_secs(10))
            .read_timeout(Duration::from_secs(60))
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

    /// Requests an export. Retries only if no request has arrived.
    pub async fn request(&self, body: &Value) -> Result<Requested, ClientError> {
        let path = "/users/export/global_control_group";
        let response = self.send(self.authorized(Method::POST, path).json(body)).await?;
        Ok(serde_json::from_slice(&response)?)
    }

    pub async fn status(&self, prefix: &str) -> Result<(Export, Value), ClientError> {
        let path = format!("/users/export/{prefix}");
        read(serde_json::from_slice(&self.send(self.authorized(Method::GET, &path)).await?)?)
    }

    /// [`status`](Self::status) of an export in progress: retries if the service is down.
    pub async fn status_with_retries(&self, prefix: &str) -> Result<(Export, Value), ClientError> {
        let started = tokio::time::Instant::now();
        loop {
            match self.status(prefix).await {
                Err(error) if error.can_retry() && started.elapsed() < TIMEOUT => {
                    tokio::time::sleep(PAUSE).await;
                }
                response => return response,
            }
        }
    }

    pub async fn cancel(&self, prefix: &str) -> Result<(Export, Value), ClientError> {
        let path = format!("/users/export/{prefix}");
        let response = self.send(self.authorized(Method::DELETE, &path)).await?;
        read(serde_json::from_slice(&response)?)
    }

    /// The latest exports, from as many pages as needed.
    pub async fn list(&self, limit: usize) -> Result<Vec<(Export, Value)>, ClientError> {
        let mut exports = Vec::new();
        let mut cursor: Option<String> = None;
        while exports.len() < limit {
            let page = (limit - exports.len()).min(100);
            let mut path = format!("/users/export?limit={page}");
            if let Some(cursor) = &cursor {
                path += &format!("&cursor={cursor}");
            }
            let response = self.send(self.authorized(Method::GET, &path)).await?;
            let page: Page = serde_json::from_slice(&response)?;
            for raw in page.exports {
                exports.push(read(raw)?);
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        Ok(exports)
    }

    /// Downloads a file; the URL needs no key.
    pub async fn fetch(
        &self,
        url: &str,
        file: &Path,
        mut progress: impl FnMut(u64, Option<u64>),
    ) -> Result<(), ClientError> {
        let response = self.execute(self.http.get(url)).await?;
        let total = response.content_length();
        let mut out = tokio::io::BufWriter::new(tokio::fs::File::create(file).await?);
        let mut chunks = response.bytes_stream();
        let mut done = 0;
        while let Some(chunk) = chunks.try_next().await.map_err(|error| self.failed(error))? {
            out.write_all(&chunk).await?;
            done += chunk.len() as u64;
            progress(done, total);
        }
        out.flush().await?;
        Ok(out.into_inner().sync_all().await?)
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
        if status.is_success() {
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
    fn failed(&self, error: reqwest::Error) -> ClientError {
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

/// Scheme, host and port.
fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

fn read(raw: Value) -> Result<(Export, Value), ClientError> {
    Ok((Export::deserialize(&raw)?, raw))
}
