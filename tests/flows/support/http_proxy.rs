//! An HTTP proxy that changes, drops or answers requests of a test.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use tokio::task::JoinHandle;

use super::servers;

/// What is done to a request.
#[derive(Clone, Copy, Debug)]
pub enum ProxyFault {
    /// It is led on, and the first such answered with an error all the same.
    LoseResponse,
    /// The same, and later ones are answered so.
    LoseResponseThen(u16, &'static str),
    /// It is not led on, and answered so.
    Respond(u16, &'static str),
    /// The same where it is to write only if nothing is there.
    RespondIfConditional(u16, &'static str),
    /// It is led on, and a 404 becomes the 403 of S3 for a key that may not list.
    HideMissing,
}

/// Chooses by a request's method and query.
pub type ChooseFault = fn(&Method, &str) -> Option<ProxyFault>;

/// Leaves every request alone.
pub const NO_FAULT: ChooseFault = |_, _| None;

/// Listens until it is dropped.
pub struct HttpProxy {
    endpoint: String,
    fault: Arc<Mutex<ChooseFault>>,
    caught: Arc<AtomicUsize>,
    serving: JoinHandle<()>,
}

#[derive(Clone)]
struct ProxyState {
    client: reqwest::Client,
    /// `http://host:port`.
    server: String,
    fault: Arc<Mutex<ChooseFault>>,
    caught: Arc<AtomicUsize>,
}

impl HttpProxy {
    /// A way to `server` (`http://host:port` and maybe a path).
    pub async fn start(server: &str, fault: ChooseFault) -> Self {
        servers::install_tls();
        let server = url::Url::parse(server).expect("an address");
        let (fault, caught) = (Arc::new(Mutex::new(fault)), Arc::new(AtomicUsize::new(0)));
        let proxy = ProxyState {
            client: reqwest::Client::new(),
            server: server.origin().ascii_serialization(),
            fault: fault.clone(),
            caught: caught.clone(),
        };
        let router = axum::Router::new().fallback(forward).with_state(proxy);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address: SocketAddr = listener.local_addr().expect("an address");
        let serving = tokio::spawn(async move {
            axum::serve(listener, router).await.expect("served");
        });
        let endpoint = format!("http://{address}{}", server.path().trim_end_matches('/'));
        Self { endpoint, fault, caught, serving }
    }

    /// The server's address by this way.
    pub fn endpoint(&self) -> String {
        self.endpoint.clone()
    }

    /// Injects another fault from now on.
    pub fn inject(&self, fault: ChooseFault) {
        *self.fault.lock().expect("no test panics here") = fault;
    }

    /// How many requests there were for which there is a fault.
    pub fn caught(&self) -> usize {
        self.caught.load(Ordering::Relaxed)
    }
}

impl Drop for HttpProxy {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn forward(State(proxy): State<ProxyState>, request: Request) -> Response {
    let choose = *proxy.fault.lock().expect("no test panics here");
    let fault = choose(request.method(), request.uri().query().unwrap_or_default());
    let Some(fault) = fault else { return forward_unchanged(&proxy, request).await };
    let is_first = proxy.caught.fetch_add(1, Ordering::Relaxed) == 0;
    match fault {
        ProxyFault::LoseResponse | ProxyFault::LoseResponseThen(..) if is_first => {
            let response = forward_unchanged(&proxy, request).await;
            assert!(response.status().is_success(), "{response:?}");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
        ProxyFault::LoseResponse => forward_unchanged(&proxy, request).await,
        ProxyFault::HideMissing => {
            let response = forward_unchanged(&proxy, request).await;
            if response.status() != StatusCode::NOT_FOUND {
                return response;
            }
            let text = "<Error><Code>AccessDenied</Code></Error>";
            (StatusCode::FORBIDDEN, [("content-type", "application/xml")], text).into_response()
        }
        ProxyFault::RespondIfConditional(..)
            if !request.headers().contains_key("if-none-match") =>
        {
            forward_unchanged(&proxy, request).await
        }
        ProxyFault::LoseResponseThen(status, text)
        | ProxyFault::Respond(status, text)
        | ProxyFault::RespondIfConditional(status, text) => {
            // Read to its end, so that the connection can be used again.
            to_bytes(request.into_body(), usize::MAX).await.expect("a body");
            let status = StatusCode::from_u16(status).expect("a status");
            (status, [("content-type", "application/xml")], text).into_response()
        }
    }
}

/// With the headers as they are, since they are signed.
async fn forward_unchanged(proxy: &ProxyState, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let address = format!("{}{}", proxy.server, head.uri);
    let body = to_bytes(body, usize::MAX).await.expect("a body");
    let sent = proxy.client.request(head.method, address).headers(head.headers).body(body);
    let response = sent.send().await.expect("a response");
    let (status, mut headers) = (response.status(), response.headers().clone());
    headers.remove("transfer-encoding");
    let body = Body::from(response.bytes().await.expect("the whole response"));
    (status, headers, body).into_response()
}
