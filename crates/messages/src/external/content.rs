//! `connected_content`: HTTP requests to the servers that the workspace file allows. The network
//! rules are those of webhooks ([`outbound`]). Redirects are not followed; time, size, number and
//! rate are limited. After repeated failures, requests to a server are paused (circuit breaker).
//! Requests of transactional emails go first, and wait for no others.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use futures::FutureExt as _;
use parking_lot::Mutex;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode};
use serde_json::{Map, Value};
use template::{Answer, ContentRequest, Stop};
use tokio::sync::Semaphore;
use url::Url;

use super::{External, RenderError};
use crate::channels;
use gateway::workspaces::Channel;
use gateway::workspaces::template_data::{ConnectedContent, ContentCredential};
use kit::json::{self, Tree, TreeObject};
use kit::moment::Moment;
use runtime::app::queue::held_by;
use runtime::cache::{Cache, Key};
use runtime::fairness::Holder;
use runtime::outbound::{self, HttpResponse, RequestError, ResponseBody};

/// Time limit of a request, including reading the response.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum bytes of a response.
const MAX_RESPONSE: usize = 1 << 20;

/// Maximum number of concurrent requests of a workspace in a process: of urgent ones, and of
/// others.
const MAX_CONCURRENT_REQUESTS: usize = 32;

/// Consecutive failures after which requests to a server are paused, and for how long.
const MAX_FAILURES: u32 = 20;
const PAUSE_AFTER_FAILURES: Duration = Duration::from_secs(60);

/// Maximum number of servers whose failures are counted.
const MAX_SERVERS: usize = 1_000;

/// Approximate maximum bytes of memory per byte of JSON.
const JSON_MEMORY_FACTOR: usize = 16;

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";

/// The field in which templates find a response's status.
const STATUS: &str = "__http_status__";

/// This process's cached responses, and the state of the servers.
#[derive(Default)]
pub struct Fetches {
    /// Concurrent equal requests wait for the first one.
    cache: Cache<CacheKey, Fetched>,
    workspaces: Mutex<HashMap<i32, Arc<WorkspaceLimits>>>,
}

/// A workspace's request; urgent ones do not wait for others.
#[derive(Clone, PartialEq, Eq, Hash)]
struct CacheKey {
    workspace: i32,
    is_urgent: bool,
    request: ContentRequest,
}

impl Key for CacheKey {
    fn workspace(&self) -> i32 {
        self.workspace
    }
}

/// The result of a request.
#[derive(Clone)]
struct Fetched {
    answer: Arc<Answer>,
    failure: Option<Failure>,
}

#[derive(Clone)]
struct Failure {
    text: String,
    /// Whether the same request may succeed later.
    is_temporary: bool,
    /// How long to wait at least.
    after: Option<Duration>,
}

impl Failure {
    fn permanent(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_temporary: false, after: None }
    }

    fn temporary(text: impl Into<String>, after: Option<Duration>) -> Self {
        Self { text: text.into(), is_temporary: true, after }
    }
}

impl From<Failure> for Fetched {
    fn from(failure: Failure) -> Self {
        Self { answer: Arc::new(Answer::Nothing), failure: Some(failure) }
    }
}

/// State that all requests of a workspace share.
struct WorkspaceLimits {
    permits: Semaphore,
    urgent_permits: Semaphore,
    /// When the next request may be made.
    next: Mutex<Moment>,
    /// Held by the first of the waiting requests, of those that are not urgent.
    first: tokio::sync::Mutex<()>,
    servers: Mutex<HashMap<String, Server>>,
}

#[derive(Default)]
struct Server {
    failures: u32,
    paused_until: Option<Moment>,
}

impl WorkspaceLimits {
    fn new() -> Self {
        Self {
            permits: Semaphore::new(MAX_CONCURRENT_REQUESTS),
            urgent_permits: Semaphore::new(MAX_CONCURRENT_REQUESTS),
            next: Mutex::new(Moment::now()),
            first: tokio::sync::Mutex::default(),
            servers: Mutex::default(),
        }
    }

    /// Waits until the rate limit allows another request. Urgent requests reserve the next turn
    /// immediately, so that they wait only for other urgent ones.
    async fn wait_for_turn(&self, requests_per_second: u32, is_urgent: bool) {
        let interval = Duration::from_secs(1) / requests_per_second.max(1);
        let _first = if is_urgent { None } else { Some(self.first.lock().await) };
        loop {
            let (turn, is_reserved) = {
                let (mut next, now) = (self.next.lock(), Moment::now());
                let turn = (*next).max(now);
                let is_reserved = is_urgent || turn == now;
                if is_reserved {
                    *next = turn + interval;
                }
                (turn, is_reserved)
            };
            tokio::time::sleep(turn.remaining()).await;
            if is_reserved {
                return;
            }
        }
    }

    /// How long requests to a server are still paused.
    fn remaining_pause(&self, server: &str) -> Option<Duration> {
        let until = self.servers.lock().get(server)?.paused_until?;
        Some(until.remaining()).filter(|pause| !pause.is_zero())
    }

    /// Counts a failure of a server, or resets the count.
    fn record(&self, server: &str, has_failed: bool) {
        let mut servers = self.servers.lock();
        if !has_failed {
            servers.remove(server);
            return;
        }
        if servers.len() >= MAX_SERVERS {
            servers.clear();
        }
        let server = servers.entry(server.to_owned()).or_default();
        server.failures += 1;
        if server.failures >= MAX_FAILURES {
            // After the pause, one more failure starts it again.
            server.paused_until = Some(Moment::now() + PAUSE_AFTER_FAILURES);
        }
    }
}

/// Resolves a template's request.
pub async fn answer(
    external: &External<'_>,
    request: &ContentRequest,
    warnings: &mut Vec<String>,
) -> Result<Arc<Answer>, RenderError> {
    let Fetched { answer, failure } = fetch_cached(external, request).await?;
    let Some(Failure { text, is_temporary, after }) = failure else { return Ok(answer) };
    // Not the whole URL, because some paths contain a secret.
    let reason = format!("connected_content from {}: {text}", outbound::shown(&request.url));
    if is_temporary && request.retries {
        return Err(RenderError::Later { reason, after, is_counted: true });
    }
    tracing::debug!(reason, "connected_content request failed");
    warnings.push(reason);
    Ok(answer)
}

/// The result of a request, from the cache if the request allows it.
async fn fetch_cached(
    external: &External<'_>,
    request: &ContentRequest,
) -> Result<Fetched, RenderError> {
    let (url, allowed) = match address(external, request) {
        Ok(checked) => checked,
        Err(text) => return Ok(Failure::permanent(text).into()),
    };
    let credential = match &request.credential {
        None => None,
        // Without the credential, the server would return other content.
        Some(name) => match allowed.credential(name).filter(|credential| credential.is_for(&url)) {
            Some(credential) => Some(credential),
            None => {
                let host = url.host_str().unwrap_or_default();
                let text = format!("connected_content has no credential {name} for {host}");
                return Err(RenderError::Stopped(Stop::Failed(text)));
            }
        },
    };
    let http_request = match http_request(request, url, credential) {
        Ok(http_request) => http_request,
        Err(text) => return Ok(Failure::permanent(text).into()),
    };
    let fetches = &external.app.fetches;
    let read = async {
        let fetched = fetch(external, fetches, allowed, http_request).await;
        let bytes = match (&fetched.failure, &*fetched.answer) {
            (Some(_), _) => None,
            (None, Answer::Text(text)) => Some(text.len()),
            (None, Answer::Json(_)) => Some(fetched.size()),
            (None, Answer::Nothing) => Some(0),
        };
        let bytes = bytes.map(|bytes| bytes + request.bytes());
        let outcome = if fetched.failure.is_some() { "failed" } else { "answered" };
        metrics::counter!("longshore_connected_content_requests_total", "outcome" => outcome)
            .increment(1);
        (fetched, bytes)
    }
    .boxed();
    Ok(match request.max_age {
        None => read.await.0,
        Some(seconds) => {
            let age = Duration::from_secs(seconds.into());
            let &External { workspace_id: workspace, is_urgent, .. } = external;
            let key = CacheKey { workspace, is_urgent, request: request.clone() };
            fetches.cache.get(key, age, read).await
        }
    })
}

impl Fetched {
    /// Approximate memory size of a JSON response, in bytes.
    fn size(&self) -> usize {
        match &*self.answer {
            Answer::Json(value) => value.to_json().len() * JSON_MEMORY_FACTOR,
            _ => 0,
        }
    }
}

/// Checks that a request's URL is allowed.
fn address<'a>(
    external: &External<'a>,
    request: &ContentRequest,
) -> Result<(Url, &'a ConnectedContent), String> {
    let allowed = external.settings.connected_content.as_ref();
    let allowed = allowed.ok_or("the workspace file does not allow connected_content")?;
    let url = outbound::check_address(request.url.trim(), &external.app.config)
        .map_err(|why| format!("the URL {why}"))?;
    if allowed.allows(&url) {
        Ok((url, allowed))
    } else {
        Err("the host of the URL is not in connected_content.hosts".into())
    }
}

/// The HTTP request, with its headers and body checked.
fn http_request(
    request: &ContentRequest,
    url: Url,
    credential: Option<&ContentCredential>,
) -> Result<outbound::Request, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in &request.headers {
        let name = name.trim();
        channels::check_header(Channel::Webhook, name).map_err(|why| format!("{name}: {why}"))?;
        let header = HeaderName::from_bytes(name.as_bytes()).ok();
        let value = HeaderValue::from_str(value.trim()).ok();
        let (Some(header), Some(value)) = (header, value) else {
            return Err(format!("{name}: the value must be one line"));
        };
        headers.insert(header, value);
    }
    if let Some(content_type) = &request.content_type {
        let value = HeaderValue::from_str(content_type.trim());
        headers.insert(CONTENT_TYPE, value.map_err(|_| "content_type must be one line")?);
    }
    let mut body = request.body.clone();
    if !body.is_empty() {
        let is_json = |value: &HeaderValue| value.as_bytes().starts_with(JSON.as_bytes());
        if headers.get(CONTENT_TYPE).is_some_and(is_json)
            && !body.trim_start().starts_with(['{', '['])
        {
            // The template has a form, but the content type is JSON.
            let form = url::form_urlencoded::parse(body.as_bytes());
            let fields = form.map(|(name, value)| (name.into_owned(), value.into_owned().into()));
            body = Value::Object(fields.collect::<Map<String, Value>>()).to_string();
        }
        headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static(FORM));
    }
    if let Some(credential) = credential {
        let (name, mut value) = authorization(credential)?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    let method = if request.is_post { Method::POST } else { Method::GET };
    let response = ResponseBody::Bytes(MAX_RESPONSE);
    Ok(outbound::Request { method, url, headers, body, timeout: Some(TIMEOUT), response })
}

fn authorization(credential: &ContentCredential) -> Result<(HeaderName, HeaderValue), String> {
    let unusable = || format!("the credential {} cannot be sent", credential.name);
    let (name, value) = match (&credential.username, &credential.password, &credential.token) {
        (Some(user), Some(password), _) => {
            let pair = [user.as_bytes(), b":", &password.0].concat();
            (AUTHORIZATION, format!("Basic {}", BASE64_STANDARD.encode(pair)).into_bytes())
        }
        (_, _, Some(token)) => {
            let name = credential.header.as_deref().unwrap_or("authorization");
            (HeaderName::from_bytes(name.as_bytes()).map_err(|_| unusable())?, token.0.clone())
        }
        _ => return Err(unusable()),
    };
    Ok((name, HeaderValue::from_bytes(&value).map_err(|_| unusable())?))
}

async fn fetch(
    external: &External<'_>,
    fetches: &Fetches,
    allowed: &ConnectedContent,
    request: outbound::Request,
) -> Fetched {
    let workspace = {
        let mut workspaces = fetches.workspaces.lock();
        let new = || Arc::new(WorkspaceLimits::new());
        workspaces.entry(external.workspace_id).or_insert_with(new).clone()
    };
    let server = outbound::shown(request.url.as_str());
    // The semaphores are never closed.
    let permits = if external.is_urgent { &workspace.urgent_permits } else { &workspace.permits };
    let _permit = permits.acquire().await;
    if let Some(pause) = workspace.remaining_pause(&server) {
        let text = "the server failed too often; requests to it are paused";
        return Failure::temporary(text, Some(pause)).into();
    }
    workspace.wait_for_turn(allowed.requests_per_second, external.is_urgent).await;
    let (app, holder) = (external.app, Holder::Workspace(external.workspace_id));
    match held_by(holder, app.sender.request(request, &app.clock)).await {
        Ok(answered) => {
            let status = answered.status;
            let is_temporary = status.is_server_error()
                || matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS);
            workspace.record(&server, is_temporary);
            read_response(&answered, is_temporary)
        }
        Err(RequestError::NotSent(why) | RequestError::NoResponse(why)) => {
            workspace.record(&server, true);
            Failure::temporary(why, None).into()
        }
    }
}

/// Converts a response for the template. An object always gets the status as a field.
fn read_response(response: &HttpResponse, is_temporary: bool) -> Fetched {
    let status = response.status;
    let failure = |text: String| Failure { text, is_temporary, after: response.retry_after };
    if !response.is_complete {
        let text =
            format!("the response has more than {MAX_RESPONSE} bytes or did not end in time");
        return failure(text).into();
    }
    let failed_status = (!status.is_success())
        .then(|| failure(format!("the server responded with status {}", status.as_u16())));
    let has_json_content_type = response.content_type.as_deref().is_some_and(|kind| {
        let kind = kind.split(';').next().unwrap_or_default().trim();
        kind.eq_ignore_ascii_case(JSON) || kind.ends_with("+json")
    });
    let text = str::from_utf8(&response.body).map_err(|error| error.to_string());
    let tree = text.and_then(|text| json::check_readable(text).and_then(|()| Tree::parse(text)));
    let answer = match tree {
        Ok(Tree::Object(object)) => {
            let status = Tree::Number(status.as_u16().to_string().into());
            let status = TreeObject::new([(STATUS.into(), status)]);
            Answer::Json(Tree::Object(object.merged(&status)))
        }
        _ if failed_status.is_some() => Answer::Nothing,
        Ok(value) => Answer::Json(value),
        Err(error) if has_json_content_type => {
            return failure(format!("the response is not JSON: {error}")).into();
        }
        Err(_) => Answer::Text(String::from_utf8_lossy(&response.body).into_owned()),
    };
    Fetched { answer: Arc::new(answer), failure: failed_status }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn urgent_requests_precede_waiting_ones() {
        let workspace = WorkspaceLimits::new();
        let turn = |is_urgent| workspace.wait_for_turn(20, is_urgent);
        turn(false).await;
        let (done, urgent) = (std::cell::Cell::new(0), std::cell::Cell::new(None));
        let others = (0..10).map(|_| async {
            turn(false).await;
            done.set(done.get() + 1);
        });
        let late = async {
            tokio::task::yield_now().await;
            turn(true).await;
            urgent.set(Some(done.get()));
        };
        tokio::join!(futures::future::join_all(others), late);
        assert_eq!((urgent.get(), done.get()), (Some(0), 10));
    }
}
