//! A client of server-sent events.

use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt as _};
use reqwest::Method;
use serde_json::Value;

use super::Api;

/// An open stream of an export's events.
pub struct Events {
    chunks: BoxStream<'static, reqwest::Result<Bytes>>,
    text: String,
}

/// An event: its name, and its data.
pub type Event = (String, Value);

impl Events {
    /// Opens one, which must be accepted.
    pub async fn open(api: &Api, prefix: &str) -> Self {
        let response = request(api, prefix).send().await.expect("a response");
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert!(!response.headers().contains_key("content-encoding"));
        Self { chunks: response.bytes_stream().boxed(), text: String::new() }
    }

    /// The next event; none at the end.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            while let Some((event, rest)) = self.text.split_once("\n\n") {
                let field = |name: &str| {
                    let line = event.lines().find_map(|line| line.strip_prefix(name));
                    line.map(|value| value.trim_start().to_owned())
                };
                let found = (field("event:"), field("data:"));
                self.text = rest.to_owned();
                if let (Some(name), Some(data)) = found {
                    return Some((name, serde_json::from_str(&data).expect("JSON")));
                }
            }
            let chunk = self.chunks.next().await?.ok()?;
            self.text += std::str::from_utf8(&chunk).expect("ASCII");
        }
    }

    /// The events up to the end of the stream.
    pub async fn rest(mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }
}

/// The request for an export's events.
pub fn request(api: &Api, prefix: &str) -> reqwest::RequestBuilder {
    let request = api.request(Method::GET, &format!("/users/export/{prefix}/events"));
    request.header("accept-encoding", "gzip")
}
