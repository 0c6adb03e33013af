//! A real receiver of callbacks on this machine: it stores what it gets, and responds as scripted.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// How long a test waits for what must come.
const TIMEOUT: Duration = Duration::from_secs(180);

/// How one request is answered.
#[derive(Clone, Debug)]
pub enum ScriptedResponse {
    Status(u16),
    /// A status, with a body.
    Says(u16, String),
    /// 503 with this `Retry-After`.
    Busy(String),
    /// 200, after a while.
    Slow(Duration),
    /// 200, once this is cancelled.
    Held(CancellationToken),
    /// Never; the connection is closed once the receiver [releases](Receiver::release) its requests.
    Hang,
    /// 302 to an address.
    Redirect(String),
    /// A status, and the beginning of a body that never ends.
    Endless(u16),
    /// The connection is closed instead.
    Close,
}

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Received {
    pub at: Timestamp,
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Received {
    /// A header's text; panics where there is none.
    pub fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).unwrap_or_else(|| panic!("no header {name}"));
        value.to_str().unwrap()
    }
}

/// Listens until it is dropped.
pub struct Receiver {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: CancellationToken,
}

#[derive(Default)]
struct Shared {
    script: Mutex<VecDeque<ScriptedResponse>>,
    received: Mutex<Vec<Received>>,
    released: CancellationToken,
}

impl Receiver {
    /// Answers the first requests as `script` says, one after the other, and all others
    /// with 200.
    pub async fn start(script: impl IntoIterator<Item = ScriptedResponse>) -> Self {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), script).await
    }

    /// The same at an address.
    pub async fn start_at(
        address: SocketAddr,
        script: impl IntoIterator<Item = ScriptedResponse>,
    ) -> Self {
        let script = Mutex::new(script.into_iter().collect());
        let shared = Arc::new(Shared { script, ..Shared::default() });
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let router = Router::new().fallback(receive).with_state(shared.clone());
        let stopped = stop.clone();
        tokio::spawn(async move {
            tokio::select! {
                served = async { axum::serve(listener, router).await } => served.unwrap(),
                () = stopped.cancelled() => {}
            }
        });
        Self { address, shared, stop }
    }

    /// An address at this receiver, by number.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// An address at this receiver, by a host's name.
    pub fn url_at(&self, host: &str, path: &str) -> String {
        format!("http://{host}:{}{path}", self.address.port())
    }

    /// Answers further requests as `script` says.
    pub fn script(&self, script: impl IntoIterator<Item = ScriptedResponse>) {
        self.shared.script.lock().unwrap().extend(script);
    }

    /// Drops what is left of the script: from now on all gets 200.
    pub fn clear_script(&self) {
        self.shared.script.lock().unwrap().clear();
    }

    /// Closes the connections of requests that [hang](ScriptedResponse::Hang), now and later, so that
    /// a worker which ends does not wait for their timeout.
    pub fn release(&self) {
        self.shared.released.cancel();
    }

    pub fn received(&self) -> Vec<Received> {
        self.shared.received.lock().unwrap().clone()
    }

    /// Waits until `count` requests have come.
    pub async fn wait_for(&self, count: usize) -> Vec<Received> {
        let since = Instant::now();
        loop {
            let received = self.received();
            if received.len() >= count {
                return received;
            }
            assert!(
                since.elapsed() < TIMEOUT,
                "{} of {count} requests came within {TIMEOUT:?}",
                received.len()
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn receive(
    State(shared): State<Arc<Shared>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    shared.received.lock().unwrap().push(Received {
        at: Timestamp::now(),
        method,
        uri,
        headers,
        body,
    });
    let response = shared.script.lock().unwrap().pop_front();
    match response {
        None => StatusCode::OK.into_response(),
        Some(ScriptedResponse::Status(status)) => {
            StatusCode::from_u16(status).unwrap().into_response()
        }
        Some(ScriptedResponse::Says(status, text)) => {
            (StatusCode::from_u16(status).unwrap(), text).into_response()
        }
        Some(ScriptedResponse::Endless(status)) => {
            let beginning = stream::iter([Ok::<_, Infallible>("the beginning")]);
            let body = Body::from_stream(beginning.chain(stream::pending()));
            (StatusCode::from_u16(status).unwrap(), body).into_response()
        }
        Some(ScriptedResponse::Busy(wait)) => {
            (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, wait)]).into_response()
        }
        Some(ScriptedResponse::Slow(time)) => {
            tokio::time::sleep(time).await;
            StatusCode::OK.into_response()
        }
        Some(ScriptedResponse::Held(release)) => {
            release.cancelled().await;
            StatusCode::OK.into_response()
        }
        Some(ScriptedResponse::Redirect(to)) => {
            (StatusCode::FOUND, [(header::LOCATION, to)]).into_response()
        }
        Some(ScriptedResponse::Hang) => {
            shared.released.cancelled().await;
            panic!("the receiver closes a connection that hung");
        }
        // hyper closes a connection whose handler panics, without a response.
        Some(ScriptedResponse::Close) => panic!("the receiver closes the connection, as scripted"),
    }
}
