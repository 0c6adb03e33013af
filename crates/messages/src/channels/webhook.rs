//! Webhooks: a customer's own request (docs/reference/api/message-objects.md), signed with the
//! message's id and a secret that signs nothing else. It is sent to a private network only if that
//! is allowed (`allow_private`), and does not follow redirects.

use axum::http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::Method;
use serde_json::{Map, Value};
use url::Url;

use super::{MAX_HEADERS, http};
use crate::app::App;
use crate::{Outcome, Outgoing};
use runtime::config::Config;
use runtime::outbound;
use runtime::outbound::signature;
use runtime::outbound::{Request, ResponseBody};

/// Maximum bytes of a request's body.
const MAX_BYTES: usize = 1 << 20;

/// Headers that concern the connection, or identify the sender.
const RESERVED: [&str; 16] = [
    "connection",
    "content-encoding",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "webhook-id",
    "webhook-signature",
    "webhook-timestamp",
];

pub async fn send(app: &App, message: &Outgoing<'_>) -> Outcome {
    let mut request = match read_request(&message.rendered.object, &app.config) {
        Ok(request) => request,
        Err(why) => return Outcome::Failed(why),
    };
    let now = app.clock.now().as_second();
    let (secrets, id) = (message.settings.webhooks.each(), message.id.to_string());
    let signed = signature::sign_with_each(secrets, id, now, &request.body);
    for (name, value) in signed.signature_headers() {
        request.headers.insert(name, value);
    }
    match app.sender.request(request, &app.clock).await {
        Ok(answer) => http::outcome(&answer),
        Err(no_response) => http::no_response(no_response),
    }
}

/// Reads the message object; the error names the invalid field.
fn read_request(object: &Map<String, Value>, config: &Config) -> Result<Request, String> {
    let url = object.get("url").and_then(Value::as_str).unwrap_or_default().trim();
    let url: Url = outbound::check_address(url, config).map_err(|why| format!("url {why}"))?;
    let method = match object.get("request_method").and_then(Value::as_str) {
        Some("GET") => Method::GET,
        Some("POST") => Method::POST,
        Some("PUT") => Method::PUT,
        Some("DELETE") => Method::DELETE,
        _ => return Err("request_method must be GET, POST, PUT or DELETE".into()),
    };
    let mut headers = headers(object.get("request_headers"))?;
    let body = object.get("body").and_then(Value::as_str).unwrap_or_default().to_owned();
    if body.len() > MAX_BYTES {
        return Err(format!("body must be at most {MAX_BYTES} bytes"));
    }
    if !body.is_empty() {
        headers.entry(CONTENT_TYPE).or_insert_with(|| {
            let is_json = serde_json::from_str::<serde::de::IgnoredAny>(&body).is_ok();
            let default = if is_json { "application/json" } else { "text/plain; charset=utf-8" };
            HeaderValue::from_static(default)
        });
    }
    let response = ResponseBody::ErrorText;
    Ok(Request { method, url, headers, body, timeout: None, response })
}

fn headers(given: Option<&Value>) -> Result<HeaderMap, String> {
    let Some(given) = given else { return Ok(HeaderMap::new()) };
    let given = given.as_object().filter(|headers| headers.len() <= MAX_HEADERS);
    let given = given.ok_or_else(|| {
        format!("request_headers must be an object of at most {MAX_HEADERS} strings")
    })?;
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let header = check_header(name).map_err(|why| format!("request_headers.{name}: {why}"))?;
        let value = value.as_str().and_then(|text| HeaderValue::from_str(text).ok());
        let value = value
            .ok_or_else(|| format!("request_headers.{name}: expected a string of one line"))?;
        headers.insert(header, value);
    }
    Ok(headers)
}

/// Checks that a webhook may have a header with that name.
pub(super) fn check_header(name: &str) -> Result<HeaderName, String> {
    let name = HeaderName::from_bytes(name.as_bytes());
    let name = name.map_err(|_| "invalid header name".to_owned())?;
    if RESERVED.contains(&name.as_str()) {
        return Err("this header is reserved for the service".into());
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read_json(object: Value) -> Result<Request, String> {
        read_request(object.as_object().unwrap(), &Config::default())
    }

    fn webhook(change: Value) -> Value {
        let mut object = json!({ "url": "https://acme.example/hook", "request_method": "POST" });
        object.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        object
    }

    #[test]
    fn a_body_is_sent_as_it_is() {
        for (body, sent, content_type) in [
            (json!("{\"a\":1}"), "{\"a\":1}", Some("application/json")),
            (json!("a=1"), "a=1", Some("text/plain; charset=utf-8")),
            (json!(""), "", None),
        ] {
            let request = read_json(webhook(json!({ "body": body }))).unwrap();
            assert_eq!(request.body, sent);
            let header = request.headers.get(CONTENT_TYPE).map(|value| value.to_str().unwrap());
            assert_eq!(header, content_type);
        }
        let own =
            json!({ "request_headers": { "content-type": "text/csv", "X-N": "7" }, "body": "a" });
        let request = read_json(webhook(own)).unwrap();
        assert_eq!(
            (&request.headers["content-type"], &request.headers["x-n"]),
            (&"text/csv".parse().unwrap(), &"7".parse().unwrap())
        );
    }

    #[test]
    fn invalid_webhooks_are_rejected() {
        let long = format!("https://acme.example/{}", "x".repeat(outbound::MAX_URL_LENGTH));
        for (change, text) in [
            (json!({ "url": "" }), "url must begin with"),
            (json!({ "url": null }), "url must begin with"),
            (json!({ "url": "ftp://acme.example" }), "url must begin with http:// or https://"),
            (json!({ "url": "http://127.0.0.1/" }), "url must not point to a loopback address"),
            (
                json!({ "url": "http://[::ffff:10.0.0.1]/" }),
                "url must not point to a private address",
            ),
            (json!({ "url": long }), "url must be at most 2048 bytes long"),
            (json!({ "request_method": "PATCH" }), "request_method must be"),
            (json!({ "request_headers": [] }), "request_headers must be an object"),
            (json!({ "request_headers": { "Host": "x" } }), "request_headers.Host: this header is"),
            (
                json!({ "request_headers": { "webhook-id": "x" } }),
                "request_headers.webhook-id: this",
            ),
            (json!({ "request_headers": { "a b": "x" } }), "request_headers.a b: invalid"),
            (
                json!({ "request_headers": { "a": "x\r\nb: c" } }),
                "request_headers.a: expected a string of one",
            ),
            (json!({ "body": "x".repeat(MAX_BYTES + 1) }), "body must be at most"),
        ] {
            let error = read_json(webhook(change)).map(drop).unwrap_err();
            assert!(error.starts_with(text), "{error}");
        }
    }
}
