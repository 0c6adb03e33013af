//! The headers of Standard Webhooks, by which a receiver authenticates a request and recognizes
//! repeats.

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

pub const ID: HeaderName = HeaderName::from_static("webhook-id");
pub const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
pub const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// How far the timestamp of a request may differ from the receiver's clock, in seconds.
pub const TOLERANCE: i64 = 300;

/// The headers of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// `webhook-id`: the same for every attempt.
    pub id: String,
    /// `webhook-timestamp`: Unix seconds of the attempt.
    pub timestamp: String,
    /// `webhook-signature`: `v1,` and the HMAC-SHA256 of `id.timestamp.body` in base64. While a
    /// secret is rotated, one for each secret, separated by spaces.
    pub signature: String,
}

impl Signed {
    /// All headers of a request with a JSON body.
    pub fn headers(self) -> HeaderMap {
        let json = HeaderValue::from_static("application/json");
        self.signature_headers().chain([(CONTENT_TYPE, json)]).collect()
    }

    /// The signature headers. An id must have only letters, digits and `-_.`.
    pub fn signature_headers(self) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
        let headers = [(ID, self.id), (TIMESTAMP, self.timestamp), (SIGNATURE, self.signature)];
        let headers = headers.into_iter();
        headers.filter_map(|(name, value)| Some((name, HeaderValue::from_str(&value).ok()?)))
    }
}

/// Whether `body` was recently signed with the secret: the timestamp is recent, and one of the
/// signatures (separated by spaces) is valid.
pub fn is_signed(secret: &[u8], headers: &HeaderMap, now: i64, body: &[u8]) -> bool {
    let text = |name: &HeaderName| headers.get(name)?.to_str().ok();
    let (Some(id), Some(timestamp), Some(signatures)) =
        (text(&ID), text(&TIMESTAMP), text(&SIGNATURE))
    else {
        return false;
    };
    if !is_recent(timestamp, now) {
        return false;
    }
    let mac = mac(secret, id, timestamp, body);
    let signatures = signatures.split(' ').filter_map(|signature| signature.strip_prefix("v1,"));
    let mut signatures = signatures.filter_map(|signature| BASE64_STANDARD.decode(signature).ok());
    signatures.any(|signature| mac.clone().verify_slice(&signature).is_ok())
}

/// Whether a `webhook-timestamp` is close enough to `now` (in Unix seconds).
pub fn is_recent(timestamp: &str, now: i64) -> bool {
    let timestamp = timestamp.parse::<i64>().ok();
    timestamp.is_some_and(|timestamp| timestamp.abs_diff(now) <= TOLERANCE.unsigned_abs())
}

fn mac(secret: &[u8], id: &str, timestamp: &str, body: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes a key of any length");
    for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
        mac.update(part);
    }
    mac
}

/// Signs `body` with the decoded bytes of a `whsec_…` secret.
pub fn sign(secret: &[u8], id: String, unix_seconds: i64, body: &str) -> Signed {
    sign_with_each([secret], id, unix_seconds, body)
}

/// Signs `body` with each of the secrets, while a secret is rotated.
pub fn sign_with_each<'a>(
    secrets: impl IntoIterator<Item = &'a [u8]>,
    id: String,
    unix_seconds: i64,
    body: &str,
) -> Signed {
    let timestamp = unix_seconds.to_string();
    let signatures = secrets.into_iter().map(|secret| {
        let mac = mac(secret, &id, &timestamp, body.as_bytes());
        format!("v1,{}", BASE64_STANDARD.encode(mac.finalize().into_bytes()))
    });
    let signature = signatures.collect::<Vec<_>>().join(" ");
    Signed { id, timestamp, signature }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the Standard Webhooks libraries.
    #[test]
    fn the_signature_is_that_of_the_standard() {
        let secret = BASE64_STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signed = sign(
            &secret,
            "msg_p5jXN8AQM9LWM0D4loKWxJek".into(),
            1_614_265_330,
            r#"{"test": 2432232314}"#,
        );
        assert_eq!(signed.timestamp, "1614265330");
        assert_eq!(signed.signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn only_recent_and_valid_signatures_are_accepted() {
        let (secret, now, body) = (b"secret".as_slice(), 1_700_000_000, "{}");
        let headers = |at: i64| sign(secret, "a.b".into(), at, body).headers();
        for at in [now, now - TOLERANCE, now + TOLERANCE] {
            assert!(is_signed(secret, &headers(at), now, body.as_bytes()), "{at}");
        }
        for at in [now - TOLERANCE - 1, now + TOLERANCE + 1, i64::MIN, i64::MAX] {
            assert!(!is_signed(secret, &headers(at), now, body.as_bytes()), "{at}");
        }
        assert!(!is_signed(b"other", &headers(now), now, body.as_bytes()));
        assert!(!is_signed(secret, &headers(now), now, b"{ }"));
        for (name, value) in [
            (ID, "a.c"),
            (TIMESTAMP, "1700000001"),
            (TIMESTAMP, "now"),
            (SIGNATURE, ""),
            (SIGNATURE, "v1,"),
            (SIGNATURE, "v2,AAAA"),
        ] {
            let mut headers = headers(now);
            headers.insert(name, HeaderValue::from_static(value));
            assert!(!is_signed(secret, &headers, now, body.as_bytes()), "{value}");
        }
        let mut missing = headers(now);
        missing.remove(SIGNATURE);
        assert!(!is_signed(secret, &missing, now, body.as_bytes()));
        // One of several signatures, as during a rotation.
        let mut several = headers(now);
        let both = format!("v1,AAAA {}", several[SIGNATURE].to_str().unwrap());
        several.insert(SIGNATURE, both.parse().unwrap());
        assert!(is_signed(secret, &several, now, body.as_bytes()));
    }
}
