//! The frame of every request: its id, its span, its metrics, and its own task.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{AUTHORIZATION, HOST};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Version};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures::FutureExt as _;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;
use uuid::Uuid;

use super::memory::Budgets;
use super::scim;
use super::{ApiError, Connection, body, coding, turned_away};
use crate::app::App;
use crate::traces;
use kit::panics;

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest request id that is accepted from a client.
const LONGEST_ID: usize = 128;

/// The request's id: the client's, or a generated one; and its trace ([`traces`]).
#[derive(Clone, Debug)]
pub struct RequestId(pub String);

/// Limits the number of requests in progress.
#[derive(Clone)]
pub struct ConcurrencyLimit {
    app: App,
    free: Arc<Semaphore>,
}

impl ConcurrencyLimit {
    pub fn new(app: App) -> Self {
        Self { free: app.kept::<Budgets>().requests.clone(), app }
    }
}

/// [`answer`], with errors in the format of the path's protocol.
pub async fn handle_request(
    state: State<ConcurrencyLimit>,
    request: Request,
    next: Next,
) -> Response {
    let is_scim = scim::is_scim(request.uri().path());
    in_its_words(is_scim, answer(state, request, next, is_scim).await)
}

fn in_its_words(is_scim: bool, response: Response) -> Response {
    if is_scim { scim::in_words_of_scim(response) } else { response }
}

/// The error of a head that has more than one interpretation.
fn ambiguity(request: &Request) -> Option<&'static str> {
    let count = |name| request.headers().get_all(name).iter().count();
    // Requests without a connection need no host.
    let is_received = request.extensions().get::<Connection>().is_some();
    let hosts = count(HOST);
    if hosts > 1 || (hosts == 0 && is_received && request.version() == Version::HTTP_11) {
        Some("A request must have one Host header")
    } else if count(AUTHORIZATION) > 1 {
        Some("A request must not have more than one Authorization header")
    } else {
        None
    }
}

/// Handles a request in its own task: if the client disconnects, the handler is not dropped half
/// way, which would return a connection to its pool inside of a transaction.
///
/// A request beyond the limit gets 503 immediately. It holds its place until the response is ready
/// to be sent, so that at most as many responses are compressed as there are places.
async fn answer(
    State(ConcurrencyLimit { app, free }): State<ConcurrencyLimit>,
    mut request: Request,
    next: Next,
    is_scim: bool,
) -> Response {
    let id = request_id(request.headers());
    let path = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let call = Call { id, method: method(request.method()), path: path.unwrap_or_default() };
    let span = tracing::info_span!(
        "request",
        request_id = call.id,
        method = call.method,
        path = call.path,
    );
    if let Some(what) = ambiguity(&request) {
        body::discard_of(request);
        let answer = ApiError::Invalid(what.into()).into_response();
        return span.in_scope(|| call.answered(Instant::now(), answer));
    }
    let Ok(place) = free.try_acquire_owned() else {
        turned_away("busy");
        body::discard_of(request);
        return span
            .in_scope(|| call.answered(Instant::now(), ApiError::Overloaded.into_response()));
    };
    let tasks = request.extensions_mut().remove::<TaskTracker>().unwrap_or_default();
    let carried = traces::begin(&span, request.headers(), &call.id);
    request.extensions_mut().insert(RequestId(carried));
    request.extensions_mut().insert(app.clone());
    let takes_gzip = coding::takes_gzip(request.headers());
    let run = async move {
        let _place = place;
        let response = in_its_words(is_scim, call.run(request, next).await);
        coding::compressed(&app, takes_gzip, response).await
    };
    tasks.spawn(run.instrument(span)).await.unwrap_or_else(|_| {
        ApiError::Unavailable("the process stopped before the request ended".into()).into_response()
    })
}

struct Call {
    id: String,
    method: &'static str,
    /// The matched route; empty where none is.
    path: String,
}

impl Call {
    async fn run(self, request: Request, next: Next) -> Response {
        let started = Instant::now();
        let response = AssertUnwindSafe(next.run(request))
            .catch_unwind()
            .await
            .unwrap_or_else(|panic| internal(&*panic).into_response());
        self.answered(started, response)
    }

    fn answered(self, started: Instant, mut response: Response) -> Response {
        if let Ok(id) = HeaderValue::from_str(&self.id) {
            response.headers_mut().insert(X_REQUEST_ID, id);
        }
        self.record(response.status().as_u16(), started.elapsed().as_secs_f64());
        response
    }

    fn record(self, status: u16, seconds: f64) {
        traces::note_status(status);
        // Fields of the line: those of a span are written into its text one by one.
        tracing::info!(status, latency_ms = (seconds * 1e3).round() as u64, "answered");
        let labels = [
            ("method", self.method.to_owned()),
            ("path", self.path),
            ("status", status.to_string()),
        ];
        metrics::histogram!("longshore_http_request_seconds", &labels[..2]).record(seconds);
        metrics::counter!("longshore_http_requests_total", &labels).increment(1);
    }
}

/// The client's `X-Request-Id` if it is short and plain, else a new one.
fn request_id(headers: &HeaderMap) -> String {
    let plain = |id: &&str| {
        (1..=LONGEST_ID).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:+/=@".contains(&byte))
    };
    headers
        .get(X_REQUEST_ID)
        .and_then(|value| value.to_str().ok())
        .filter(plain)
        .map_or_else(|| Uuid::now_v7().to_string(), str::to_owned)
}

/// The method as a label: clients can send any word.
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
        let longest = "x".repeat(LONGEST_ID);
        assert_eq!(id(longest.as_bytes()), longest);
        let too_long = "x".repeat(LONGEST_ID + 1);
        for bad in [b"".as_slice(), b"a b", b"a\"b", b"{}", b"\xff", too_long.as_bytes()] {
            assert!(Uuid::parse_str(&id(bad)).is_ok(), "{bad:?}");
        }
        assert!(Uuid::parse_str(&request_id(&HeaderMap::new())).is_ok());
    }
}
