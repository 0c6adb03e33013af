//! The listener: accepts, limits and ends connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::http::{Method, StatusCode};
use axum::middleware;
use axum::response::{IntoResponse as _, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use super::eviction::{Close, Connection, ConnectionSlots, Slots, Watched};
use super::request::{self, ConcurrencyLimit};
use super::{ApiError, body, path};
use crate::app::App;

/// Size of a connection's buffer, which limits a request's head.
pub const HEAD_BYTES: usize = 16 << 10;

/// Pause after a failed accept (such as for lack of file descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// How long a new connection waits for a slot before an idle or other connection is closed.
const SLOT_WAIT: Duration = Duration::from_millis(100);

/// The gateway's router: the routes of `domains`, and the shared layers.
pub fn router(app: App, domains: impl Into<Router>) -> Router {
    let limit = ConcurrencyLimit::new(app);
    domains
        .into()
        .fallback(no_path)
        .method_not_allowed_fallback(other_method)
        .layer(middleware::from_fn_with_state(limit, request::handle_request))
}

/// The router of pages for people: the layer of [`router`] with `limit` requests in progress, and
/// with responses of its own for unknown paths and methods.
pub fn page_router(app: App, pages: Router, limit: usize) -> Router {
    let limit = ConcurrencyLimit::with_slots(app, limit);
    pages.layer(middleware::from_fn_with_state(limit, request::handle_request))
}

/// The response for an unknown path.
pub async fn no_path(request: Request) -> ApiError {
    body::discard_request(request);
    ApiError::NotFound("Unknown path".into())
}

/// The response for an unsupported method: the router adds `Allow`, which is also the response to
/// OPTIONS.
async fn other_method(request: Request) -> Response {
    let is_options = request.method() == Method::OPTIONS;
    body::discard_request(request);
    if is_options {
        StatusCode::NO_CONTENT.into_response()
    } else {
        ApiError::MethodNotAllowed.into_response()
    }
}

/// The limits of a listener.
#[derive(Clone, Copy, Debug)]
pub struct ListenerLimits {
    /// Connections at the same time; at most half of them without an authenticated request.
    pub connections: usize,
    /// Heads of unauthenticated requests that have not arrived yet, each [`HEAD_BYTES`].
    pub heads: usize,
    /// Those of one address.
    pub heads_of_address: usize,
}

impl ListenerLimits {
    /// Those of the API.
    fn for_api(app: &App) -> Self {
        let gateway = &app.config.gateway;
        let heads = gateway.unauthenticated_memory() / HEAD_BYTES;
        Self { connections: gateway.connections, heads, heads_of_address: heads / 8 }
    }
}

/// Serves requests of the API until `shutdown`. Then accepts no new ones, and waits for those in
/// progress, at most `worker.drain_seconds`.
pub async fn serve(app: App, router: Router, listener: TcpListener, shutdown: CancellationToken) {
    let limits = ListenerLimits::for_api(&app);
    serve_with_limits(app, router, listener, limits, shutdown).await;
}

/// [`serve`] with the limits of another listener.
pub async fn serve_with_limits(
    app: App,
    router: Router,
    listener: TcpListener,
    limits: ListenerLimits,
    shutdown: CancellationToken,
) {
    let unauthenticated = limits.connections / 2;
    let server = Server {
        router,
        slots: ConnectionSlots {
            unauthenticated: Slots::new(unauthenticated, unauthenticated),
            heads: Slots::new(limits.heads, limits.heads_of_address),
            idle: Slots::new(usize::MAX, usize::MAX),
        },
        request_timeout: Duration::from_secs(app.config.gateway.request_timeout_seconds),
        free: Arc::new(Semaphore::new(limits.connections)),
        connections: TaskTracker::new(),
        handlers: TaskTracker::new(),
        shutdown,
        cut: CancellationToken::new(),
    };
    while let Some((stream, peer, slot)) = server.accept(&listener).await {
        let connection = server.clone().connection(stream, peer);
        server.connections.spawn(async move {
            let _slot = slot;
            connection.await;
        });
    }
    drop(listener);
    server.drain(Duration::from_secs(app.config.worker.drain_seconds)).await;
}

#[derive(Clone)]
struct Server {
    router: Router,
    /// Time limit for a head to arrive, and for the client to read a response.
    request_timeout: Duration,
    /// Slots for connections. While all are in use, idle ones are closed; while none is idle,
    /// further ones wait in the system's queue.
    free: Arc<Semaphore>,
    slots: ConnectionSlots,
    connections: TaskTracker,
    /// Handlers outlive connections whose client has disconnected.
    handlers: TaskTracker,
    shutdown: CancellationToken,
    /// Ends the connections that outlast the drain.
    cut: CancellationToken,
}

impl Server {
    /// The next connection; none once the server is shutting down.
    async fn accept(
        &self,
        listener: &TcpListener,
    ) -> Option<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
        loop {
            let accepted = async {
                let (stream, peer) = listener.accept().await?;
                Ok::<_, std::io::Error>((stream, peer, self.slot().await?))
            };
            let accepted = tokio::select! {
                biased;
                () = self.shutdown.cancelled() => return None,
                accepted = accepted => accepted,
            };
            match accepted {
                Ok(connection) => return Some(connection),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// A slot for an accepted connection.
    async fn slot(&self) -> std::io::Result<OwnedSemaphorePermit> {
        if let Ok(slot) = self.free.clone().try_acquire_owned() {
            return Ok(slot);
        }
        // If unauthenticated connections use their whole share, the last one that arrived closed
        // another, which releases its slot now.
        let mut must_close_idle = !self.slots.unauthenticated.is_full();
        loop {
            if must_close_idle {
                self.slots.idle.close_one();
            }
            let slot = tokio::time::timeout(SLOT_WAIT, self.free.clone().acquire_owned());
            match slot.await {
                Ok(slot) => return slot.map_err(std::io::Error::other),
                Err(_) => must_close_idle = true,
            }
        }
    }

    async fn connection(self, stream: TcpStream, peer: SocketAddr) {
        // Without TCP_NODELAY, small responses wait for the client's acknowledgement. An error here
        // has no other effect.
        let _ = stream.set_nodelay(true);
        // The shutdown cancels it as well: long responses wait for it.
        let close = Close { now: CancellationToken::new(), when_idle: self.shutdown.child_token() };
        let source = body::network(peer.ip());
        let connection = Connection::new(source, close.clone(), self.slots);
        let mut stream = TimeoutStream::new(Watched { stream, connection: connection.clone() });
        stream.set_write_timeout(Some(self.request_timeout));
        let (router, handlers) = (self.router, self.handlers);
        let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
            connection.head_received();
            let mut request = request.map(Body::new);
            if let Some(uri) = path::normalized(request.uri()) {
                *request.uri_mut() = uri;
            }
            request.extensions_mut().insert(ConnectInfo(peer));
            request.extensions_mut().insert(handlers.clone());
            request.extensions_mut().insert(connection.clone());
            let (response, connection) = (router.clone().oneshot(request), connection.clone());
            async move {
                let response = response.await;
                connection.response_ready();
                response
            }
        });
        // The time limit for a head also limits how long an idle connection is kept.
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.request_timeout)
            .max_buf_size(HEAD_BYTES)
            .serve_connection(TokioIo::new(Box::pin(stream)), service);
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = close.now.cancelled() => return,
            () = close.when_idle.cancelled() => {
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    ended = connection => ended,
                    () = self.cut.cancelled() => return,
                    () = close.now.cancelled() => return,
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%peer, %error, "connection closed with an error");
        }
    }

    async fn drain(self, time: Duration) {
        self.connections.close();
        self.handlers.close();
        let ended = async {
            self.connections.wait().await;
            self.handlers.wait().await;
        };
        if tokio::time::timeout(time, ended).await.is_err() {
            let (connections, handlers) = (self.connections.len(), self.handlers.len());
            tracing::warn!(
                connections,
                handlers,
                "shutdown deadline passed with requests in progress"
            );
            self.cut.cancel();
        }
    }
}
