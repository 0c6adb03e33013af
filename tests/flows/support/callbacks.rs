//! What a receiver of callbacks checks (Standard Webhooks).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::Value;
use sha2::Sha256;

use super::eventually;
use super::receiver::{Received, Receiver};

/// Seconds by which a callback's time may differ from ours.
const TOLERANCE: i64 = 300;

/// Waits for the callback at a path of the receiver; returns its body. However often it has come,
/// it is of one `webhook-id` and says one thing.
pub async fn callback_at(receiver: &Receiver, path: &str, secret: &[u8]) -> Value {
    let at_path = || {
        let received = receiver.received().into_iter();
        received.filter(|request| request.uri.path() == path).collect::<Vec<_>>()
    };
    eventually("the callback is there", || async { !at_path().is_empty() }).await;
    let received = at_path();
    let body = verified(&received[0], secret);
    for again in &received[1..] {
        assert_eq!(again.header("webhook-id"), received[0].header("webhook-id"), "at {path}");
        assert_eq!(verified(again, secret), body, "at {path}");
    }
    body
}

/// The body of a callback of a finished export but its manifest, which must be there.
pub fn without_manifest(mut body: Value) -> Value {
    let manifest = body.as_object_mut().expect("an object").remove("manifest");
    let manifest = manifest.unwrap_or_else(|| panic!("no manifest: {body}"));
    assert_eq!(manifest["sha256"].as_str().map(str::len), Some(64), "{manifest}");
    assert_ne!(manifest["key"].is_string(), manifest["url"].is_string(), "{manifest}");
    body
}

/// Checks a callback's form, time and signature; returns its body.
pub fn verified(received: &Received, secret: &[u8]) -> Value {
    assert_eq!(received.method, "POST");
    assert!(received.header("content-type").starts_with("application/json"));
    let (id, time) = (received.header("webhook-id"), received.header("webhook-timestamp"));
    let seconds: i64 = time.parse().expect("webhook-timestamp is Unix seconds");
    let age = (received.at.as_second() - seconds).abs();
    assert!(age <= TOLERANCE, "webhook-timestamp is {age} s off");
    let signature = sign(secret, id, time, &received.body);
    let mut signatures = received.header("webhook-signature").split(' ');
    assert!(signatures.any(|given| given == signature), "the signature is not ours");
    serde_json::from_slice(&received.body).expect("the body is JSON")
}

/// The signature of a body under an id at a time, in Unix seconds.
pub fn sign(secret: &[u8], id: &str, time: &str, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("any length serves");
    mac.update(format!("{id}.{time}.").as_bytes());
    mac.update(body);
    format!("v1,{}", BASE64_STANDARD.encode(mac.finalize().into_bytes()))
}
