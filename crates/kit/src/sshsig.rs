//! Signatures that `ssh-keygen -Y verify` checks: SSHSIG with Ed25519, as in OpenSSH's file
//! PROTOCOL.sshsig.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use sha2::{Digest as _, Sha256, Sha512};

use crate::retry::Retry;
use crate::words;

mod allowed_signers;

pub use allowed_signers::{AllowedSigner, AllowedSigners, InvalidLine, SignerError};

/// The type of the keys, and of their signatures.
const KEY_TYPE: &str = "ssh-ed25519";

/// The hash with which we sign: the default of `ssh-keygen`.
const HASH: &str = "sha512";

const MAGIC: &[u8; 6] = b"SSHSIG";
const VERSION: u32 = 1;
const BEGIN: &str = "-----BEGIN SSH SIGNATURE-----";
const END: &str = "-----END SSH SIGNATURE-----";

/// Characters in a line of base64.
const LINE: usize = 70;

/// Maximum number of characters of a name from a signature in an error.
const NAME: usize = 60;

/// Why a signature is not valid, or a key cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SshSigError {
    #[error("not an SSH signature: {0}")]
    Malformed(&'static str),
    #[error("keys of type {0:?} are not supported: expected {KEY_TYPE}")]
    KeyType(String),
    #[error("the hash {0:?} is not supported: expected sha512 or sha256")]
    Hash(String),
    #[error("the signature is for the namespace {found:?}, not {expected:?}")]
    Namespace { found: String, expected: String },
    #[error("the signature does not match the signed data")]
    Mismatch,
    #[error("not a public key: expected {KEY_TYPE} and the key in base64")]
    PublicKey,
}

impl Retry for SshSigError {}

/// A public key. Its text is `ssh-ed25519 AAAA…`, as in a `.pub` file of `ssh-keygen`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The hash that `ssh-keygen` shows: `SHA256:…`.
    pub fn fingerprint(&self) -> String {
        format!("SHA256:{}", BASE64_STANDARD_NO_PAD.encode(Sha256::digest(self.blob())))
    }

    /// The key in SSH's binary format.
    fn blob(&self) -> Vec<u8> {
        let mut blob = Vec::new();
        put_string(&mut blob, KEY_TYPE.as_bytes());
        put_string(&mut blob, &self.0);
        blob
    }

    fn from_blob(blob: &[u8]) -> Result<Self, SshSigError> {
        let mut fields = Fields(blob);
        let key_type = fields.string().ok_or(SshSigError::PublicKey)?;
        if key_type != KEY_TYPE.as_bytes() {
            return Err(SshSigError::KeyType(shown(key_type)));
        }
        let bytes = fields.string().filter(|_| fields.is_empty());
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or(SshSigError::PublicKey)
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{KEY_TYPE} {}", BASE64_STANDARD.encode(self.blob()))
    }
}

/// Reads the text of a public key, with or without a comment.
impl FromStr for PublicKey {
    type Err = SshSigError;

    fn from_str(text: &str) -> Result<Self, SshSigError> {
        let mut words = text.split_ascii_whitespace();
        match (words.next(), words.next()) {
            (Some(KEY_TYPE), Some(base64)) => {
                let blob = BASE64_STANDARD.decode(base64);
                Self::from_blob(&blob.map_err(|_| SshSigError::PublicKey)?)
            }
            (Some(key_type), Some(_)) => Err(SshSigError::KeyType(shown(key_type.as_bytes()))),
            _ => Err(SshSigError::PublicKey),
        }
    }
}

/// A private key.
pub struct PrivateKey(Ed25519KeyPair);

impl PrivateKey {
    /// The key of a seed, which is 32 random bytes: whoever has the seed has the key.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(Ed25519KeyPair::from_seed_unchecked(seed).expect("32 bytes are a seed"))
    }

    pub fn public_key(&self) -> PublicKey {
        PublicKey(self.0.public_key().as_ref().try_into().expect("a public key has 32 bytes"))
    }

    /// Signs `message` for a purpose, the namespace. Returns the content of a `.sig` file.
    pub fn sign(&self, namespace: &str, message: &[u8]) -> String {
        let signed = signed_data(namespace, HASH, &Sha512::digest(message));
        let mut signature = Vec::new();
        put_string(&mut signature, KEY_TYPE.as_bytes());
        put_string(&mut signature, self.0.sign(&signed).as_ref());

        let mut blob = [MAGIC.as_slice(), &VERSION.to_be_bytes()].concat();
        put_string(&mut blob, &self.public_key().blob());
        put_string(&mut blob, namespace.as_bytes());
        put_string(&mut blob, b"");
        put_string(&mut blob, HASH.as_bytes());
        put_string(&mut blob, &signature);
        armor(&blob)
    }
}

/// Checks a signature; returns the key that signed `message` for this namespace. The caller decides
/// whether that key is trusted: see [`AllowedSigners::find`].
pub fn verify(armored: &str, namespace: &str, message: &[u8]) -> Result<PublicKey, SshSigError> {
    let blob = dearmor(armored)?;
    let signature = Signature::read(&blob)?;
    if signature.namespace != namespace.as_bytes() {
        let (found, expected) = (shown(signature.namespace), namespace.to_owned());
        return Err(SshSigError::Namespace { found, expected });
    }
    let signed = match signature.hash {
        b"sha512" => signed_data(namespace, "sha512", &Sha512::digest(message)),
        b"sha256" => signed_data(namespace, "sha256", &Sha256::digest(message)),
        other => return Err(SshSigError::Hash(shown(other))),
    };
    UnparsedPublicKey::new(&ED25519, signature.key.as_bytes())
        .verify(&signed, signature.bytes)
        .map_err(|_| SshSigError::Mismatch)?;
    Ok(signature.key)
}

/// What is signed instead of the message.
fn signed_data(namespace: &str, hash: &str, digest: &[u8]) -> Vec<u8> {
    let mut signed = MAGIC.to_vec();
    put_string(&mut signed, namespace.as_bytes());
    put_string(&mut signed, b"");
    put_string(&mut signed, hash.as_bytes());
    put_string(&mut signed, digest);
    signed
}

/// The content of a signature file.
struct Signature<'a> {
    key: PublicKey,
    namespace: &'a [u8],
    hash: &'a [u8],
    bytes: &'a [u8],
}

impl<'a> Signature<'a> {
    fn read(blob: &'a [u8]) -> Result<Self, SshSigError> {
        let incomplete = || SshSigError::Malformed("it is incomplete");
        let fields = blob.strip_prefix(MAGIC.as_slice());
        let mut fields = Fields(fields.ok_or(SshSigError::Malformed("it has another format"))?);
        if fields.number().ok_or_else(incomplete)? != VERSION {
            return Err(SshSigError::Malformed("it has another version"));
        }
        let key = PublicKey::from_blob(fields.string().ok_or_else(incomplete)?)?;
        let namespace = fields.string().ok_or_else(incomplete)?;
        let reserved = fields.string().ok_or_else(incomplete)?;
        let hash = fields.string().ok_or_else(incomplete)?;
        let mut signature = Fields(fields.string().ok_or_else(incomplete)?);
        let key_type = signature.string().ok_or_else(incomplete)?;
        let bytes = signature.string().ok_or_else(incomplete)?;
        if key_type != KEY_TYPE.as_bytes() {
            return Err(SshSigError::KeyType(shown(key_type)));
        }
        // Nothing may differ from what was signed, not even what has no meaning.
        if !reserved.is_empty() || !signature.is_empty() || !fields.is_empty() {
            return Err(SshSigError::Malformed("it has unknown content"));
        }
        Ok(Self { key, namespace, hash, bytes })
    }
}

fn armor(blob: &[u8]) -> String {
    let base64 = BASE64_STANDARD.encode(blob);
    let mut armored = format!("{BEGIN}\n");
    for (index, character) in base64.chars().enumerate() {
        if index > 0 && index.is_multiple_of(LINE) {
            armored.push('\n');
        }
        armored.push(character);
    }
    armored + "\n" + END + "\n"
}

fn dearmor(armored: &str) -> Result<Vec<u8>, SshSigError> {
    let body = armored.strip_prefix(BEGIN).and_then(|rest| rest.trim_end().strip_suffix(END));
    let body = body.ok_or(SshSigError::Malformed("it has no begin or no end"))?;
    let base64: String = body.split_ascii_whitespace().collect();
    let blob = BASE64_STANDARD.decode(base64);
    blob.map_err(|_| SshSigError::Malformed("it is not base64"))
}

/// Adds a string in SSH's binary format (RFC 4251, section 5).
fn put_string(blob: &mut Vec<u8>, string: &[u8]) {
    let length = u32::try_from(string.len()).expect("names, keys and hashes are short");
    blob.extend_from_slice(&length.to_be_bytes());
    blob.extend_from_slice(string);
}

/// The rest of the fields in SSH's binary format.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn number(&mut self) -> Option<u32> {
        let (number, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*number))
    }

    fn string(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (string, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(string)
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A name from a signature, for an error.
fn shown(name: &[u8]) -> String {
    words::beginning(&String::from_utf8_lossy(name), NAME).into_owned()
}

#[cfg(test)]
mod tests;
