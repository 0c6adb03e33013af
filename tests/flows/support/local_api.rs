//! An API client within this process, on an installation of the test's own.

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request, header};
use longshore::app::App;
use longshore::{gateway, routes};
use serde_json::Value;
use tower::ServiceExt as _;

/// What was answered: the status, and the body, null where that is not JSON.
pub type LocalResponse = (u16, Value);

/// Sends requests with a key of a workspace.
#[derive(Clone)]
pub struct LocalApi {
    router: Router,
    key: &'static str,
}

impl LocalApi {
    pub fn new(app: &App, key: &'static str) -> Self {
        Self { router: gateway::router(app.gateway.clone(), routes(Some(app))), key }
    }

    /// The same with another key.
    pub fn with_key(&self, key: &'static str) -> Self {
        Self { router: self.router.clone(), key }
    }

    pub async fn get(&self, path: &str) -> LocalResponse {
        self.send(Method::GET, path, None, String::new()).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> LocalResponse {
        self.send(Method::POST, path, None, body.to_string()).await
    }

    /// A POST with an `Idempotency-Key`.
    pub async fn post_once(&self, path: &str, key: &str, body: &Value) -> LocalResponse {
        self.send(Method::POST, path, Some(key), body.to_string()).await
    }

    /// A POST of any text.
    pub async fn post_text(&self, path: &str, body: String) -> LocalResponse {
        self.send(Method::POST, path, None, body).await
    }

    /// A POST that must be refused with this status; returns the message.
    pub async fn refusal(&self, path: &str, body: &Value, status: u16) -> String {
        let response = self.post(path, body).await;
        assert_eq!(response.0, status, "{body}: {response:?}");
        response.1["message"].as_str().unwrap_or_else(|| panic!("{response:?}")).to_owned()
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        idempotency_key: Option<&str>,
        body: String,
    ) -> LocalResponse {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::AUTHORIZATION, format!("Bearer {}", self.key))
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(key) = idempotency_key {
            request = request.header("idempotency-key", key);
        }
        let request = request.body(Body::from(body)).expect("a request");
        let response = self.router.clone().oneshot(request).await.expect("an answer");
        let status = response.status().as_u16();
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.expect("a body");
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }
}
