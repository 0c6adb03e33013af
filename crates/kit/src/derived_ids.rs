//! UUIDs that are derived from content: the first 16 bytes of its SHA-256, so that the same content
//! always has the same id. Such ids are stored, so each place must keep its function and its parts.
//!
//! The hash is that of the parts' concatenation. To distinguish `a`, `bc` from `ab`, `c`, give all
//! parts but one a fixed length.

use sha2::{Digest as _, Sha256};
use uuid::{Builder, Uuid};

/// The hash as a UUID of version 8, which is for derived ids.
pub fn v8(parts: &[&[u8]]) -> Uuid {
    Builder::from_custom_bytes(first_bytes(parts)).into_uuid()
}

/// The hash as a UUID of version 4, which looks random. If nobody may guess it, a part must be
/// secret.
pub fn v4(parts: &[&[u8]]) -> Uuid {
    Builder::from_random_bytes(first_bytes(parts)).into_uuid()
}

/// The hash unchanged: all 128 bits, without a version.
pub fn unversioned(parts: &[&[u8]]) -> Uuid {
    Uuid::from_bytes(first_bytes(parts))
}

fn first_bytes(parts: &[&[u8]]) -> [u8; 16] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
    }
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.finalize()[..16]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SHA-256 of `abc` begins with ba7816bf 8f01cfea 414140de 5dae2223 (FIPS 180-4). A version
    /// replaces the digit after the second hyphen, and two bits after the third.
    #[test]
    fn stored_ids_never_change() {
        let id = |text: &str| Uuid::parse_str(text).unwrap();
        for parts in [&[b"abc".as_slice()][..], &[b"a", b"", b"bc"]] {
            assert_eq!(v8(parts), id("ba7816bf-8f01-8fea-8141-40de5dae2223"));
            assert_eq!(v4(parts), id("ba7816bf-8f01-4fea-8141-40de5dae2223"));
            assert_eq!(unversioned(parts), id("ba7816bf-8f01-cfea-4141-40de5dae2223"));
        }
    }
}
