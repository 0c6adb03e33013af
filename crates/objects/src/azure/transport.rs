//! The project's own HTTP client, because the SDK is built without one.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use azure_core::error::ErrorKind;
use azure_core::headers::{HeaderName, HeaderValue, Headers};
use azure_core::{Body, HttpClient, Request, Response, StatusCode};
use futures::{TryStreamExt as _, stream};
use http_body_util::{BodyExt as _, Limited};
use jiff::{SignedDuration, Timestamp};
use tokio::time::timeout;

use crate::ObjectError;
use crate::bounds::max_bytes;
use crate::failure::{clock_skew, innermost};
use crate::proxy::Proxy;

const CONNECT: Duration = Duration::from_secs(5);
/// Idle time without a received byte of an object, and the time limit of one attempt of any other
/// request: long enough to send a part of 8 MiB at 70 KB/s.
const READ_IDLE: Duration = Duration::from_secs(120);

/// The headers that say when to repeat a request.
const PAUSES: [&str; 3] = ["retry-after", "retry-after-ms", "x-ms-retry-after-ms"];

/// The difference between this machine's clock and the service's, from the latest rejection.
#[derive(Debug, Default)]
pub(super) struct ServiceClock(AtomicI64);

impl ServiceClock {
    pub fn skew(&self) -> SignedDuration {
        SignedDuration::from_secs(self.0.load(Ordering::Relaxed))
    }
}

/// A request without a response. The text has no URL, which may contain a signature.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Unreached(String);

#[derive(Debug)]
pub(super) struct Transport {
    client: reqwest::Client,
    clock: Arc<ServiceClock>,
}

impl Transport {
    pub fn new(clock: Arc<ServiceClock>, proxy: Option<Proxy>) -> Result<Self, ObjectError> {
        let mut builder = reqwest::Client::builder().no_proxy();
        if let Some(Proxy { url, except }) = proxy {
            let except = reqwest::NoProxy::from_string(&except);
            let proxy = reqwest::Proxy::https(url).map_err(|_| crate::proxy::invalid())?;
            builder = builder.proxy(proxy.no_proxy(except));
        }
        let client = builder
            .connect_timeout(CONNECT)
            .read_timeout(READ_IDLE)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| {
                ObjectError::Settings(format!("cannot create an HTTP client: {error}"))
            })?;
        Ok(Self { client, clock })
    }

    async fn execute(&self, request: &Request) -> azure_core::Result<Response> {
        let timed_out = |_| {
            let error = format!("no response within {} seconds", READ_IDLE.as_secs());
            azure_core::Error::new(ErrorKind::Io, Unreached(error))
        };
        timeout(READ_IDLE, self.execute_once(request)).await.map_err(timed_out)?
    }

    /// A response with its whole body, or with the stream of an object.
    async fn execute_once(&self, request: &Request) -> azure_core::Result<Response> {
        let method = reqwest::Method::from_bytes(request.method().as_ref().as_bytes());
        let method = method.map_err(|error| azure_core::Error::new(ErrorKind::Other, error))?;
        let mut sent = self.client.request(method, request.url().clone());
        for (name, value) in request.headers().iter() {
            sent = sent.header(name.as_str(), value.as_str());
        }
        if let Body::Bytes(bytes) = request.body() {
            sent = sent.body(bytes.clone());
        }
        let answer = sent.send().await.map_err(unreached)?;
        let status = StatusCode::try_from(answer.status().as_u16())
            .map_err(|_| ErrorKind::DataConversion.into_error())?;
        let mut headers = Headers::new();
        for (name, value) in answer.headers() {
            // The SDK would wait for as long as the server says, without a limit.
            if PAUSES.contains(&name.as_str()) {
                continue;
            }
            if let Ok(value) = value.to_str() {
                let name = HeaderName::from(name.as_str().to_owned());
                headers.insert(name, HeaderValue::from(value.to_owned()));
            }
        }
        self.note_clock(&answer);
        let is_success = answer.status().is_success();
        if is_success && reads_object(request) {
            let body = answer.bytes_stream().map_err(unreached);
            return Ok(Response::new(status, headers, Box::pin(body)));
        }
        let body = Limited::new(reqwest::Body::from(answer), max_bytes(is_success));
        let body = body.collect().await.map_err(unread)?.to_bytes();
        let body = stream::once(std::future::ready(Ok(body)));
        Ok(Response::new(status, headers, Box::pin(body)))
    }

    fn note_clock(&self, answer: &reqwest::Response) {
        let date = answer.headers().get("date").and_then(|date| date.to_str().ok());
        if let Some(skew) = date.and_then(|date| clock_skew(date, Timestamp::now())) {
            self.clock.0.store(skew.as_secs(), Ordering::Relaxed);
        }
    }
}

/// Only a list also uses GET; its query has a `comp`.
fn reads_object(request: &Request) -> bool {
    let is_get = request.method().as_ref() == "GET";
    is_get && !request.url().query_pairs().any(|(name, _)| name == "comp")
}

/// The error of a body that is too long, or that ended early.
fn unread(error: Box<dyn std::error::Error + Send + Sync>) -> azure_core::Error {
    match error.downcast() {
        Ok(error) => unreached(*error),
        Err(error) => azure_core::Error::new(ErrorKind::DataConversion, error),
    }
}

fn unreached(error: reqwest::Error) -> azure_core::Error {
    azure_core::Error::new(ErrorKind::Io, Unreached(innermost(&error.without_url())))
}

type Executing<'a> = Pin<Box<dyn Future<Output = azure_core::Result<Response>> + Send + 'a>>;

impl HttpClient for Transport {
    // The type that the `async_trait` macro would generate.
    fn execute_request<'a, 'b, 'c>(&'a self, request: &'b Request) -> Executing<'c>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        Box::pin(self.execute(request))
    }
}
