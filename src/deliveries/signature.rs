//! How a receiver knows that a callback is ours and not a repeat: the headers of Standard
//! Webhooks.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// The headers of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// `webhook-id`: the same for every attempt.
    pub id: String,
    /// `webhook-timestamp`: Unix seconds of the attempt.
    pub timestamp: String,
    /// `webhook-signature`: `v1,` and the HMAC-SHA256 of `id.timestamp.body` in base64.
    pub signature: String,
}

/// Signs `body` with the bytes behind a workspace's `whsec_…`.
pub fn sign(secret: &[u8], id: String, unix_seconds: i64, body: &str) -> Signed {
    let timestamp = unix_seconds.to_string();
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("any length serves");
    for part in [&id, ".", &timestamp, ".", body] {
        mac.update(part.as_bytes());
    }
    let signature = format!("v1,{}", BASE64_STANDARD.encode(mac.finalize().into_bytes()));
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
}
