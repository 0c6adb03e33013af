//! A way to an HTTP server on which requests and answers can be tampered with.

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
pub enum Trick {
    /// It is led on, and the first such answered with an error all the same.
    LoseAnswer,
    /// The same, and later ones are answered so.
    LoseAnswerThen(u16, &'static str),
    /// It is not led on, and answered so.
    Answer(u16, &'static str),
    /// The same where it is to write only if nothing is there.
    AnswerConditional(u16, &'static str),
}

/// Chooses by a request's method and query.
pub type PlayTrick = fn(&Method, &str) -> Option<Trick>;

/// Leaves every request alone.
pub const NO_TRICK: PlayTrick = |_, _| None;

/// Listens until it is dropped.
pub struct Middleman {
    endpoint: String,
    trick: Arc<Mutex<PlayTrick>>,
    caught: Arc<AtomicUsize>,
    serving: JoinHandle<()>,
}

#[derive(Clone)]
struct Way {
    client: reqwest::Client,
    /// `http://host:port`.
    server: String,
    trick: Arc<Mutex<PlayTrick>>,
    caught: Arc<AtomicUsize>,
}

impl Middleman {
    /// A way to `server` (`http://host:port` and maybe a path).
    pub async fn start(server: &str, trick: PlayTrick) -> Self {
        servers::install_tls();
        let server = url::Url::parse(server).expect("an address");
        let (trick, caught) = (Arc::new(Mutex::new(trick)), Arc::new(AtomicUsize::new(0)));
        let way = Way {
            client: reqwest::Client::new(),
            server: server.origin().ascii_serialization(),
            trick: trick.clone(),
            caught: caught.clone(),
        };
        let router = axum::Router::new().fallback(lead).with_state(way);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address: SocketAddr = listener.local_addr().expect("an address");
        let serving = tokio::spawn(async move {
            axum::serve(listener, router).await.expect("served");
        });
        let endpoint = format!("http://{address}{}", server.path().trim_end_matches('/'));
        Self { endpoint, trick, caught, serving }
    }

    /// The server's address by this way.
    pub fn endpoint(&self) -> String {
        self.endpoint.clone()
    }

    /// Plays another trick from now on.
    pub fn play(&self, trick: PlayTrick) {
        *self.trick.lock().expect("no test panics here") = trick;
    }

    /// How many requests there were for which there is a trick.
    pub fn caught(&self) -> usize {
        self.caught.load(Ordering::Relaxed)
    }
}

impl Drop for Middleman {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn lead(State(way): State<Way>, request: Request) -> Response {
    let play = *way.trick.lock().expect("no test panics here");
    let trick = play(request.method(), request.uri().query().unwrap_or_default());
    let Some(trick) = trick else { return lead_on(&way, request).await };
    let is_first = way.caught.fetch_add(1, Ordering::Relaxed) == 0;
    match trick {
        Trick::LoseAnswer | Trick::LoseAnswerThen(..) if is_first => {
            let answer = lead_on(&way, request).await;
            assert!(answer.status().is_success(), "{answer:?}");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
        Trick::LoseAnswer => lead_on(&way, request).await,
        Trick::AnswerConditional(..) if !request.headers().contains_key("if-none-match") => {
            lead_on(&way, request).await
        }
        Trick::LoseAnswerThen(status, text)
        | Trick::Answer(status, text)
        | Trick::AnswerConditional(status, text) => {
            // Read to its end, so that the connection can be used again.
            to_bytes(request.into_body(), usize::MAX).await.expect("a body");
            let status = StatusCode::from_u16(status).expect("a status");
            (status, [("content-type", "application/xml")], text).into_response()
        }
    }
}

/// With the headers as they are, since they are signed.
async fn lead_on(way: &Way, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let address = format!("{}{}", way.server, head.uri);
    let body = to_bytes(body, usize::MAX).await.expect("a body");
    let sent = way.client.request(head.method, address).headers(head.headers).body(body);
    let answer = sent.send().await.expect("an answer");
    let (status, mut headers) = (answer.status(), answer.headers().clone());
    headers.remove("transfer-encoding");
    let body = Body::from(answer.bytes().await.expect("the whole answer"));
    (status, headers, body).into_response()
}
