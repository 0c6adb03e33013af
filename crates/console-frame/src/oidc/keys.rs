//! The keys of an identity provider (RFC 7517), and signatures of tokens with them (RFC 7515).
//!
//! Only RS256 and ES256: every provider has one of them, and a list without `none` and without
//! shared secrets leaves no token to confuse them with.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;
use serde_json::Value;

/// Keys of a set that are read.
const MAX_KEYS: usize = 100;

/// A coordinate of a point of P-256, in bytes.
const COORDINATE: usize = 32;

kit::named! {
    /// An algorithm of signatures.
    pub enum Algorithm {
        Rs256 = "RS256",
        Es256 = "ES256",
    }
}

/// A public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    pub id: Option<String>,
    material: Material,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Material {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// An uncompressed point.
    P256(Vec<u8>),
}

/// A key as a provider writes it.
#[derive(Deserialize)]
struct WrittenKey {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

/// The usable keys of a set. Sets may have others, such as for encryption.
pub fn read_set(set: &Value) -> Option<Vec<Key>> {
    let keys = set.get("keys")?.as_array()?.iter().take(MAX_KEYS);
    Some(keys.filter_map(|key| WrittenKey::deserialize(key).ok()?.read()).collect())
}

impl WrittenKey {
    fn read(self) -> Option<Key> {
        if self.purpose.is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        let bytes = |text: Option<String>| BASE64_URL_SAFE_NO_PAD.decode(text?).ok();
        // Some providers write a zero before a number.
        let number = |text| -> Option<Vec<u8>> {
            let bytes: Vec<u8> = bytes(text)?;
            Some(bytes.into_iter().skip_while(|byte| *byte == 0).collect())
        };
        let (material, algorithm) = match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", _) => {
                (Material::Rsa { n: number(self.n)?, e: number(self.e)? }, Algorithm::Rs256)
            }
            ("EC", Some("P-256")) => {
                let (x, y) = (bytes(self.x)?, bytes(self.y)?);
                let is_point = x.len() == COORDINATE && y.len() == COORDINATE;
                let point = is_point.then(|| [&[4][..], &x, &y].concat())?;
                (Material::P256(point), Algorithm::Es256)
            }
            _ => return None,
        };
        let is_for = self.alg.is_none_or(|alg| alg == algorithm.name());
        is_for.then_some(Key { id: self.kid, material })
    }
}

impl Key {
    pub fn algorithm(&self) -> Algorithm {
        match self.material {
            Material::Rsa { .. } => Algorithm::Rs256,
            Material::P256(_) => Algorithm::Es256,
        }
    }

    /// Whether `signature` is that of `signed` with this key.
    pub fn verify(&self, signed: &[u8], signature: &[u8]) -> bool {
        let verified = match &self.material {
            Material::Rsa { n, e } => RsaPublicKeyComponents { n, e }.verify(
                &RSA_PKCS1_2048_8192_SHA256,
                signed,
                signature,
            ),
            Material::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(signed, signature)
            }
        };
        verified.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The example of RFC 7515, appendix A.3.
    const X: &str = "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU";
    const Y: &str = "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0";
    const SIGNED: &str = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh\
                          0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
    const SIGNATURE: &str = "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxf\
                             KTUJqPP3-Kg6NU1Q";

    fn point() -> Value {
        json!({"kty": "EC", "crv": "P-256", "kid": "a", "x": X, "y": Y})
    }

    #[test]
    fn the_example_of_the_rfc_is_verified() {
        let keys = read_set(&json!({"keys": [point()]})).unwrap();
        let signature = BASE64_URL_SAFE_NO_PAD.decode(SIGNATURE).unwrap();
        assert!(keys[0].verify(SIGNED.as_bytes(), &signature));
        assert!(!keys[0].verify(&SIGNED.as_bytes()[1..], &signature));
        assert!(!keys[0].verify(SIGNED.as_bytes(), &signature[1..]));
        assert!(!keys[0].verify(SIGNED.as_bytes(), &[]));
    }

    #[test]
    fn only_keys_for_signatures_are_usable() {
        let with = |name: &str, value: &str| {
            let mut key = point();
            key[name] = value.into();
            key
        };
        let unusable = json!({"keys": [
            with("use", "enc"), with("alg", "ES384"), with("crv", "P-384"), with("x", "AAAA"),
            with("y", "?"), with("kty", "oct"), with("kty", "RSA"), 7, {},
            {"kty": "oct", "k": "c2VjcmV0"},
        ]});
        assert_eq!(read_set(&unusable), Some(Vec::new()));
        assert_eq!(read_set(&json!({"keys": [with("use", "sig")]})).unwrap().len(), 1);
        assert_eq!(read_set(&json!({"keys": 1})), None);
        let rsa = json!({"keys": [{"kty": "RSA", "n": "AAEB", "e": "AQAB"}]});
        assert_eq!(read_set(&rsa).unwrap()[0].algorithm(), Algorithm::Rs256);
    }
}
