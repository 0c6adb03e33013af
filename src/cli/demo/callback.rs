//! Receives the export-ready callback, as an integrator's service would.

use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use serde_json::Value;
use tokio::sync::mpsc;

use super::CommandResult;
use crate::outbound::signature;

/// Time limit for the callback after the export is done.
const TIMEOUT: Duration = Duration::from_secs(60);

pub struct Receiver {
    pub url: String,
    callbacks: tokio::sync::Mutex<mpsc::UnboundedReceiver<Result<Value, String>>>,
}

#[derive(Clone)]
struct Inbox {
    secret: Vec<u8>,
    callbacks: mpsc::UnboundedSender<Result<Value, String>>,
}

impl Receiver {
    pub async fn start(secret: Vec<u8>) -> CommandResult<Self> {
        let (sender, callbacks) = mpsc::unbounded_channel();
        let router = Router::new()
            .route("/callback", post(receive))
            .with_state(Inbox { secret, callbacks: sender });
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
        let url = format!("http://{}/callback", listener.local_addr()?);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self { url, callbacks: tokio::sync::Mutex::new(callbacks) })
    }

    /// Waits for the callback, which must be signed and report that `url` is ready.
    pub async fn wait(&self, url: &str) -> CommandResult {
        let mut callbacks = self.callbacks.lock().await;
        let body = tokio::time::timeout(TIMEOUT, callbacks.recv())
            .await
            .map_err(|_| "no callback arrived")?
            .ok_or("the receiver stopped")??;
        if body["success"] != true || body["url"] != url {
            return Err(format!("the callback reports {body}").into());
        }
        Ok(())
    }
}

async fn receive(State(inbox): State<Inbox>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let verified = verify(&inbox.secret, &headers, &body);
    let status = if verified.is_ok() { StatusCode::NO_CONTENT } else { StatusCode::UNAUTHORIZED };
    let _ = inbox.callbacks.send(verified);
    status
}

/// The check that every receiver should do (Standard Webhooks).
fn verify(secret: &[u8], headers: &HeaderMap, body: &[u8]) -> Result<Value, String> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let (Some(id), Some(timestamp), Some(signature)) =
        (header("webhook-id"), header("webhook-timestamp"), header("webhook-signature"))
    else {
        return Err("the callback is not signed".into());
    };
    let text = std::str::from_utf8(body).map_err(|error| error.to_string())?;
    let seconds = timestamp.parse().map_err(|_| "the callback's timestamp is not a number")?;
    if signature::sign(secret, id.to_owned(), seconds, text).signature != signature {
        return Err("the callback's signature is wrong".into());
    }
    serde_json::from_str(text).map_err(|error| error.to_string())
}
