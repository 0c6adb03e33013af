//! Handles every request: sets its id, span and metrics, and runs it in its own task.

use std::any::Any;
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{AUTHORIZATION, HOST};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Version};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures::FutureExt as _;
use metrics::{Counter, Histogram};
use parking_lot::RwLock;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;
use uuid::Uuid;

use super::scim;
use super::{ApiError, Connection, body, coding, count_refused};
use crate::app::App;
use kit::panics;
use runtime::traces;

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest request id that is accepted from a client.
const MAX_ID_LENGTH: usize = 128;

/// The request's id: the client's, or a generated one; and its trace ([`traces`]).
#[derive(Clone, Debug)]
pub struct RequestId(pub String);

/// Limits the number of requests in progress, and counts all requests.
#[derive(Clone)]
pub struct ConcurrencyLimit {
    app: App,
    free: Arc<Semaphore>,
    metrics: Arc<RequestMetrics>,
}

impl ConcurrencyLimit {
    pub fn new(app: App) -> Self {
        let free = app.capacity.slots.clone();
        Self { app, free, metrics: Arc::default() }
    }

    /// A limit of its own.
    pub fn with_slots(app: App, slots: usize) -> Self {
        Self { app, free: Arc::new(Semaphore::new(slots)), metrics: Arc::default() }
    }
}

/// [`response`], with errors in the format of the path's protocol.
pub async fn handle_request(
    state: State<ConcurrencyLimit>,
    request: Request,
    next: Next,
) -> Response {
    let is_scim = scim::is_scim(request.uri().path());
    in_path_format(is_scim, response(state, request, next, is_scim).await)
}

fn in_path_format(is_scim: bool, response: Response) -> Response {
    if is_scim { scim::to_scim_error(response) } else { response }
}

/// The error if the headers are ambiguous.
fn ambiguity(request: &Request) -> Option<&'static str> {
    let count = |name| request.headers().get_all(name).iter().count();
    // Requests that did not come over a connection need no host.
    let is_received = request.extensions().get::<Connection>().is_some();
    let hosts = count(HOST);
    if hosts > 1 || (hosts == 0 && is_received && request.version() == Version::HTTP_11) {
        Some("A request must have exactly one Host header")
    } else if count(AUTHORIZATION) > 1 {
        Some("A request must not have more than one Authorization header")
    } else {
        None
    }
}

tokio::task_local! {
    /// Cancelled when the client of the request that the task handles disconnects.
    static CLIENT_GONE: CancellationToken;
}

/// Is cancelled when the client of the request that this task handles disconnects: long work for
/// the response can then end.
pub fn client_gone() -> CancellationToken {
    CLIENT_GONE.try_with(CancellationToken::clone).unwrap_or_default()
}

/// Handles a request in its own task, so that the handler is not dropped halfway if the client
/// disconnects: that would return a database connection to its pool inside a transaction.
///
/// A request beyond the limit gets 503 immediately. A request holds its slot until the response is
/// ready to be sent, which also limits how many responses are compressed at a time.
async fn response(
    State(ConcurrencyLimit { app, free, metrics }): State<ConcurrencyLimit>,
    mut request: Request,
    next: Next,
    is_scim: bool,
) -> Response {
    let id = request_id(request.headers());
    let path = request.extensions().get::<MatchedPath>().cloned();
    let handled = HandledRequest { id, method: method(request.method()), path, metrics };
    let span = tracing::info_span!(
        "request",
        request_id = handled.id,
        method = handled.method,
        path = handled.path(),
    );
    if let Some(error) = ambiguity(&request) {
        body::discard_request(request);
        let response = ApiError::Invalid(error.into()).into_response();
        return span.in_scope(|| handled.finish(Instant::now(), response));
    }
    let Ok(slot) = free.try_acquire_owned() else {
        count_refused("busy");
        body::discard_request(request);
        return span
            .in_scope(|| handled.finish(Instant::now(), ApiError::Overloaded.into_response()));
    };
    let tasks = request.extensions_mut().remove::<TaskTracker>().unwrap_or_default();
    let carried = traces::begin(&span, request.headers(), &handled.id);
    request.extensions_mut().insert(RequestId(carried));
    request.extensions_mut().insert(app.clone());
    let accepts_gzip = coding::accepts_gzip(request.headers());
    let run = async move {
        let _slot = slot;
        let response = in_path_format(is_scim, handled.run(request, next).await);
        coding::compressed(&app, accepts_gzip, response).await
    };
    // Dropped with this future if the client disconnects.
    let gone = CancellationToken::new();
    let _client = gone.clone().drop_guard();
    tasks.spawn(CLIENT_GONE.scope(gone, run.instrument(span))).await.unwrap_or_else(|_| {
        ApiError::Unavailable("the process stopped before the request ended".into()).into_response()
    })
}

struct HandledRequest {
    id: String,
    method: &'static str,
    /// The matched route.
    path: Option<MatchedPath>,
    metrics: Arc<RequestMetrics>,
}

impl HandledRequest {
    /// The matched route; empty if none matches.
    fn path(&self) -> &str {
        self.path.as_ref().map_or("", MatchedPath::as_str)
    }

    async fn run(self, request: Request, next: Next) -> Response {
        let started = Instant::now();
        let response = AssertUnwindSafe(next.run(request))
            .catch_unwind()
            .await
            .unwrap_or_else(|panic| internal(&*panic).into_response());
        self.finish(started, response)
    }

    fn finish(self, started: Instant, mut response: Response) -> Response {
        if let Ok(id) = HeaderValue::from_str(&self.id) {
            response.headers_mut().insert(X_REQUEST_ID, id);
        }
        self.record(response.status().as_u16(), started.elapsed().as_secs_f64());
        response
    }

    fn record(&self, status: u16, seconds: f64) {
        traces::record_status(status);
        // The fields are on the log line itself: those of a span are written into its text one by
        // one.
        tracing::info!(status, latency_ms = (seconds * 1e3).round() as u64, "answered");
        self.metrics.record(self.method, self.path(), status, seconds);
    }
}

/// The series of a route, by method and status.
type OfRoute = HashMap<(&'static str, u16), Series>;

/// The metrics of each route, by method and status. They are found by their labels once, because
/// that takes longer than to record a request.
#[derive(Default)]
struct RequestMetrics(RwLock<HashMap<String, OfRoute>>);

struct Series {
    seconds: Histogram,
    requests: Counter,
}

impl RequestMetrics {
    fn record(&self, method: &'static str, path: &str, status: u16, seconds: f64) {
        let routes = self.0.read();
        if let Some(series) = routes.get(path).and_then(|route| route.get(&(method, status))) {
            return series.record(seconds);
        }
        drop(routes);
        let series = Series::new(method, path, status);
        series.record(seconds);
        self.0.write().entry(path.to_owned()).or_default().insert((method, status), series);
    }
}

impl Series {
    fn new(method: &'static str, path: &str, status: u16) -> Self {
        let labels = [
            ("method", method.to_owned()),
            ("path", path.to_owned()),
            ("status", status.to_string()),
        ];
        Self {
            seconds: metrics::histogram!("longshore_http_request_seconds", &labels[..2]),
            requests: metrics::counter!("longshore_http_requests_total", &labels),
        }
    }

    fn record(&self, seconds: f64) {
        self.seconds.record(seconds);
        self.requests.increment(1);
    }
}

/// The client's `X-Request-Id` if its length and characters are allowed, else a new id.
fn request_id(headers: &HeaderMap) -> String {
    let plain = |id: &&str| {
        (1..=MAX_ID_LENGTH).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:+/=@".contains(&byte))
    };
    headers
        .get(X_REQUEST_ID)
        .and_then(|value| value.to_str().ok())
        .filter(plain)
        .map_or_else(|| Uuid::now_v7().to_string(), str::to_owned)
}

/// The method as a metric label. Clients can send any method, so unknown ones share a label.
fn method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

fn internal(panic: &(dyn Any + Send)) -> ApiError {
    ApiError::Internal(format!("a handler panicked: {}", panics::text(panic)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_request_ids_are_kept_and_others_replaced() {
        let id = |value: &[u8]| {
            let mut headers = HeaderMap::new();
            headers.insert(X_REQUEST_ID, HeaderValue::from_bytes(value).unwrap());
            request_id(&headers)
        };
        assert_eq!(id(b"a-1_B.2:c/d=@+"), "a-1_B.2:c/d=@+");
        let longest = "x".repeat(MAX_ID_LENGTH);
        assert_eq!(id(longest.as_bytes()), longest);
        let too_long = "x".repeat(MAX_ID_LENGTH + 1);
        for bad in [b"".as_slice(), b"a b", b"a\"b", b"{}", b"\xff", too_long.as_bytes()] {
            assert!(Uuid::parse_str(&id(bad)).is_ok(), "{bad:?}");
        }
        assert!(Uuid::parse_str(&request_id(&HeaderMap::new())).is_ok());
    }
}
