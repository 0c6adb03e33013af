//! Everything that depends on `LONGSHORE_SECRET_KEY`: credentials encrypted at rest, random-looking
//! names that can be derived again, and signatures of download URLs.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use hmac::{Hmac, Mac};
use rand::Rng as _;
use sha2::Sha256;

use crate::retry::Retry;

const NONCE: usize = 24;

#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error("a secret key must be 32 bytes in base64 (create one with: openssl rand -base64 32)")]
    BadKey,
    #[error(
        "a stored secret cannot be decrypted with this LONGSHORE_SECRET_KEY; if the key was \
         changed, set LONGSHORE_SECRET_KEY_OLD to the previous one"
    )]
    CannotOpen,
}

impl Retry for SecretError {}

/// The installation's secret key, and during a rotation the previous one.
///
/// Each purpose has its own derived key, so that a value for one purpose is useless for another.
#[derive(Clone)]
pub struct SecretKey {
    current: [u8; 32],
    old: Option<[u8; 32]>,
}

impl std::fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretKey(…)")
    }
}

impl SecretKey {
    /// Parses base64 texts of 32 bytes each.
    pub fn parse(current: &str, old: Option<&str>) -> Result<Self, SecretError> {
        Ok(Self { current: decode(current)?, old: old.map(decode).transpose()? })
    }

    /// A new random key, as base64.
    pub fn generate() -> String {
        BASE64_STANDARD.encode(random_bytes::<32>())
    }

    /// Encrypts `plain` (XChaCha20-Poly1305 with a random nonce). `context` identifies what the
    /// secret belongs to, such as a row's id: decryption needs the same context.
    pub fn seal(&self, context: &str, plain: &[u8]) -> Vec<u8> {
        let nonce = random_bytes::<NONCE>();
        let sealed = cipher(&self.current)
            .encrypt(&XNonce::from(nonce), Payload { msg: plain, aad: context.as_bytes() })
            .expect("encrypting in memory cannot fail");
        [nonce.as_slice(), &sealed].concat()
    }

    /// Decrypts the output of [`seal`](Self::seal), with the current key or the previous one.
    pub fn open(&self, context: &str, sealed: &[u8]) -> Result<Vec<u8>, SecretError> {
        let (nonce, msg) = sealed.split_first_chunk::<NONCE>().ok_or(SecretError::CannotOpen)?;
        [Some(&self.current), self.old.as_ref()]
            .into_iter()
            .flatten()
            .find_map(|key| {
                cipher(key)
                    .decrypt(&XNonce::from(*nonce), Payload { msg, aad: context.as_bytes() })
                    .ok()
            })
            .ok_or(SecretError::CannotOpen)
    }

    /// A keyed hash of `parts` for one `purpose`: looks random, but is always the same.
    pub fn derive(&self, purpose: &str, parts: &[&[u8]]) -> [u8; 32] {
        keyed_hash(&self.current, purpose, parts)
    }

    /// Whether `tag` is [`derive`](Self::derive) of the same parts, with the current key or the
    /// previous one; in constant time.
    pub fn verify(&self, purpose: &str, parts: &[&[u8]], tag: &[u8]) -> bool {
        [Some(&self.current), self.old.as_ref()]
            .into_iter()
            .flatten()
            .any(|key| mac(key, purpose, parts).verify_slice(tag).is_ok())
    }
}

fn decode(text: &str) -> Result<[u8; 32], SecretError> {
    let bytes = BASE64_STANDARD.decode(text.trim()).map_err(|_| SecretError::BadKey)?;
    bytes.try_into().map_err(|_| SecretError::BadKey)
}

fn cipher(key: &[u8; 32]) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(&keyed_hash(key, "seal", &[]).into())
}

fn mac(key: &[u8; 32], purpose: &str, parts: &[&[u8]]) -> Hmac<Sha256> {
    let mut mac = <Hmac<Sha256> as hmac::KeyInit>::new_from_slice(key)
        .expect("HMAC takes a key of any length");
    // Lengths are hashed too, so that different lists of parts never collide.
    for part in std::iter::once(&purpose.as_bytes()).chain(parts) {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part);
    }
    mac
}

/// A keyed hash of `parts` for one `purpose`.
pub fn keyed_hash(key: &[u8; 32], purpose: &str, parts: &[&[u8]]) -> [u8; 32] {
    mac(key, purpose, parts).finalize().into_bytes().into()
}

/// Bytes from the system's generator, for keys, nonces and tokens.
pub fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    rand::rng().fill_bytes(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> SecretKey {
        SecretKey::parse(&SecretKey::generate(), None).unwrap()
    }

    #[test]
    fn sealed_secrets_open_only_with_their_context_and_key() {
        let key = key();
        let sealed = key.seal("storage 1", b"s3cr3t");
        assert!(!sealed.windows(6).any(|window| window == b"s3cr3t"));
        assert_eq!(key.open("storage 1", &sealed).unwrap(), b"s3cr3t");
        assert!(key.open("storage 2", &sealed).is_err());
        assert!(self::key().open("storage 1", &sealed).is_err());
        let mut torn = sealed.clone();
        torn[30] ^= 1;
        assert!(key.open("storage 1", &torn).is_err());
        assert!(key.open("storage 1", &sealed[..10]).is_err());
    }

    #[test]
    fn the_former_key_still_opens_and_verifies_while_keys_are_rotated() {
        let (old, new) = (SecretKey::generate(), SecretKey::generate());
        let before = SecretKey::parse(&old, None).unwrap();
        let after = SecretKey::parse(&new, Some(&old)).unwrap();
        assert_eq!(after.open("c", &before.seal("c", b"x")).unwrap(), b"x");
        assert!(after.verify("url", &[b"a"], &before.derive("url", &[b"a"])));
        assert!(!after.verify("url", &[b"b"], &before.derive("url", &[b"a"])));
        assert!(!after.verify("url", &[b"a", b""], &before.derive("url", &[b"a"])));
    }

    #[test]
    fn a_key_of_another_length_is_refused() {
        for text in ["", "c2hvcnQ=", "not base64!"] {
            assert!(SecretKey::parse(text, None).is_err(), "{text:?}");
        }
    }
}
