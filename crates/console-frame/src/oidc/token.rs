//! The checks of an ID token (OpenID Connect Core, section 3.1.3.7).

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::keys::{Algorithm, Key};

/// Difference between the clocks of the provider and of this machine that is accepted.
const SKEW_SECONDS: f64 = 300.0;

/// The longest subject that is stored, in bytes; OpenID Connect allows 255.
const MAX_SUBJECT_BYTES: usize = 255;

/// The longest value of a claim that identifies a person, in bytes.
const MAX_CLAIM_BYTES: usize = 1_000;

/// The claim with an email address, and the one that says whether the provider has verified it.
const EMAIL: &str = "email";
const EMAIL_VERIFIED: &str = "email_verified";

/// The claims of a person, as a token or the user info has them.
pub type Claims = Map<String, Value>;

/// What a token must have.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    pub issuer: &'a str,
    pub client_id: &'a str,
    pub nonce: &'a str,
    /// When the browser began the sign-in, and the current time, in seconds since the epoch.
    pub began_at: i64,
    pub now: i64,
}

/// Why a token is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    #[error("it is not a signed token (JWS)")]
    Format,
    #[error("its algorithm is neither RS256 nor ES256")]
    Algorithm,
    #[error("it needs an extension that is not supported (crit)")]
    Extension,
    #[error("no key of the provider has its key id (kid)")]
    UnknownKey,
    #[error("its signature is wrong")]
    Signature,
    #[error("its issuer (iss) is another one")]
    Issuer,
    #[error("it is for another client (aud, azp)")]
    Audience,
    #[error("it is for another sign-in (nonce)")]
    Nonce,
    #[error("it has expired, or has no time of expiry (exp)")]
    Expired,
    #[error("it was issued at another time (iat, nbf)")]
    IssuedAt,
    #[error("its subject (sub) is missing or too long")]
    Subject,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

/// The claims of a token, after all checks.
pub fn verify(token: &str, keys: &[Key], expected: Expected<'_>) -> Result<Claims, TokenError> {
    let (signed, signature) = token.rsplit_once('.').ok_or(TokenError::Format)?;
    let (header, payload) = signed.split_once('.').ok_or(TokenError::Format)?;
    let header: Header = decoded(header)?;
    let algorithm = Algorithm::from_name(&header.alg).ok_or(TokenError::Algorithm)?;
    if header.crit.is_some() {
        return Err(TokenError::Extension);
    }
    let mut keys = candidates(keys, algorithm, header.kid.as_deref()).peekable();
    keys.peek().ok_or(TokenError::UnknownKey)?;
    let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).map_err(|_| TokenError::Format)?;
    if !keys.any(|key| key.verify(signed.as_bytes(), &signature)) {
        return Err(TokenError::Signature);
    }
    let claims: Claims = decoded(payload)?;
    check(&claims, expected)?;
    Ok(claims)
}

fn decoded<'de, T: Deserialize<'de>>(part: &str) -> Result<T, TokenError> {
    let json = BASE64_URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::Format)?;
    let value: Value = serde_json::from_slice(&json).map_err(|_| TokenError::Format)?;
    T::deserialize(value).map_err(|_| TokenError::Format)
}

/// The keys that can be that of a token: those with its key id, or all for its algorithm if it has
/// none. While a provider replaces a key, it may publish two.
fn candidates<'a>(
    keys: &'a [Key],
    algorithm: Algorithm,
    id: Option<&'a str>,
) -> impl Iterator<Item = &'a Key> {
    let keys = keys.iter().filter(move |key| key.algorithm() == algorithm);
    keys.filter(move |key| id.is_none() || key.id.as_deref() == id)
}

fn check(claims: &Claims, expected: Expected<'_>) -> Result<(), TokenError> {
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    let seconds = |name: &str| claims.get(name).and_then(Value::as_f64);
    let now = expected.now as f64;
    if text("iss") != Some(expected.issuer) {
        return Err(TokenError::Issuer);
    }
    let is_for_client = match claims.get("aud") {
        Some(Value::String(audience)) => audience == expected.client_id,
        Some(Value::Array(audiences)) => {
            // The party to which a token for several was issued.
            let is_party = audiences.len() == 1 || claims.contains_key("azp");
            is_party && audiences.iter().any(|audience| audience == expected.client_id)
        }
        _ => false,
    };
    let is_party = claims.get("azp").is_none_or(|party| party == expected.client_id);
    if !is_for_client || !is_party {
        return Err(TokenError::Audience);
    }
    if text("nonce") != Some(expected.nonce) {
        return Err(TokenError::Nonce);
    }
    if seconds("exp").is_none_or(|expires| expires + SKEW_SECONDS <= now) {
        return Err(TokenError::Expired);
    }
    let earliest = expected.began_at as f64 - SKEW_SECONDS;
    let latest = now + SKEW_SECONDS;
    let was_issued = seconds("iat").is_some_and(|at| (earliest..=latest).contains(&at));
    let is_valid_yet =
        claims.get("nbf").is_none_or(|from| from.as_f64().is_some_and(|from| from <= latest));
    if !was_issued || !is_valid_yet {
        return Err(TokenError::IssuedAt);
    }
    let is_subject =
        |subject: &str| (1..=MAX_SUBJECT_BYTES).contains(&subject.len()) && is_plain(subject);
    if !text("sub").is_some_and(is_subject) {
        return Err(TokenError::Subject);
    }
    Ok(())
}

/// Whether a text can be stored and shown.
fn is_plain(text: &str) -> bool {
    !text.contains(char::is_control)
}

/// The value of the claim that identifies a person. None if it is missing or unusable.
pub fn person<'a>(claims: &'a Claims, claim: &str) -> Option<&'a str> {
    let value = claims.get(claim)?.as_str()?;
    ((1..=MAX_CLAIM_BYTES).contains(&value.len()) && is_plain(value)).then_some(value)
}

/// Whether the claims say what [`is_unverified`] reads, if the claim needs it.
pub fn says_verified(claims: &Claims, claim: &str) -> bool {
    claim != EMAIL || claims.contains_key(EMAIL_VERIFIED)
}

/// The claims of a token and of the user info: what the token says counts. But an address is from
/// the same document as whether it is verified.
pub fn with_user_info(mut token: Claims, mut user_info: Claims) -> Claims {
    if user_info.contains_key(EMAIL) {
        token.remove(EMAIL);
        token.remove(EMAIL_VERIFIED);
    }
    user_info.extend(token);
    user_info
}

/// Whether the provider has not verified the email address that identifies the person. Some
/// providers, such as Entra, do not say; some write the boolean as a text.
pub fn is_unverified(claims: &Claims, claim: &str) -> bool {
    let is_true = |verified: &Value| *verified == true || *verified == "true";
    claim == EMAIL && claims.get(EMAIL_VERIFIED).is_some_and(|verified| !is_true(verified))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NOW: i64 = 1_800_000_000;

    fn expected() -> Expected<'static> {
        Expected {
            issuer: "https://id.example.com",
            client_id: "console",
            nonce: "n",
            began_at: NOW - 60,
            now: NOW,
        }
    }

    fn claims(changes: Value) -> Claims {
        let mut claims = json!({
            "iss": "https://id.example.com", "aud": "console", "sub": "1", "nonce": "n",
            "iat": NOW, "exp": NOW + 3_600, "email": "ann@acme.example",
        });
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        let Value::Object(mut claims) = claims else { unreachable!() };
        claims.retain(|_, value| !value.is_null());
        claims
    }

    #[test]
    fn claims_for_this_client_and_this_sign_in_pass() {
        for changes in [
            json!({}),
            json!({"aud": ["console"]}),
            json!({"aud": ["console", "other"], "azp": "console"}),
            json!({"exp": NOW - 299}),
            json!({"iat": NOW + 299, "nbf": NOW + 299}),
            json!({"iat": NOW - 60 - 299}),
            json!({"exp": 1.9e9}),
        ] {
            assert_eq!(check(&claims(changes.clone()), expected()), Ok(()), "{changes}");
        }
    }

    #[test]
    fn other_claims_are_rejected() {
        use TokenError::{Audience, Expired, IssuedAt, Issuer, Nonce, Subject};
        for (changes, error) in [
            (json!({"iss": "https://id.example.com/"}), Issuer),
            (json!({"iss": null}), Issuer),
            (json!({"aud": "other"}), Audience),
            (json!({"aud": null}), Audience),
            (json!({"aud": []}), Audience),
            (json!({"aud": ["console", "other"]}), Audience),
            (json!({"aud": ["console", "other"], "azp": "other"}), Audience),
            (json!({"azp": "other"}), Audience),
            (json!({"nonce": "m"}), Nonce),
            (json!({"nonce": null}), Nonce),
            (json!({"exp": NOW - 300}), Expired),
            (json!({"exp": null}), Expired),
            (json!({"exp": "9999999999"}), Expired),
            (json!({"iat": NOW + 301}), IssuedAt),
            (json!({"iat": NOW - 60 - 301}), IssuedAt),
            (json!({"iat": null}), IssuedAt),
            (json!({"nbf": NOW + 301}), IssuedAt),
            (json!({"nbf": "0"}), IssuedAt),
            (json!({"sub": ""}), Subject),
            (json!({"sub": "x".repeat(256)}), Subject),
            (json!({"sub": "a\0"}), Subject),
            (json!({"sub": 7}), Subject),
        ] {
            assert_eq!(check(&claims(changes.clone()), expected()), Err(error), "{changes}");
        }
    }

    #[test]
    fn tokens_without_an_accepted_signature_are_rejected() {
        let token = |header: Value| {
            let encoded =
                |value: Value| BASE64_URL_SAFE_NO_PAD.encode(serde_json::to_vec(&value).unwrap());
            format!("{}.{}.", encoded(header), encoded(Value::Object(claims(json!({})))))
        };
        for (header, error) in [
            (json!({"alg": "none"}), TokenError::Algorithm),
            (json!({"alg": "HS256"}), TokenError::Algorithm),
            (json!({"alg": "rs256"}), TokenError::Algorithm),
            (json!({"alg": "RS256", "crit": ["b64"]}), TokenError::Extension),
            (json!({"alg": "RS256", "kid": "a"}), TokenError::UnknownKey),
            (json!({"alg": "RS256"}), TokenError::UnknownKey),
            (json!({"alg": 1}), TokenError::Format),
        ] {
            assert_eq!(verify(&token(header.clone()), &[], expected()), Err(error), "{header}");
        }
        for text in ["", ".", "..", "a.b.c", "e30.e30", "e30.e30.e30.e30.e30"] {
            assert_eq!(verify(text, &[], expected()), Err(TokenError::Format), "{text}");
        }
    }

    #[test]
    fn an_address_counts_unless_the_provider_says_that_it_is_not_verified() {
        let is_unverified = |verified: Value, claim| {
            is_unverified(&claims(json!({"email_verified": verified})), claim)
        };
        for verified in [json!(null), json!(true), json!("true")] {
            assert!(!is_unverified(verified.clone(), "email"), "{verified}");
        }
        for verified in [json!(false), json!("false"), json!(0)] {
            assert!(is_unverified(verified.clone(), "email"), "{verified}");
            assert!(!is_unverified(verified, "upn"));
        }
        let info = claims(json!({"email": "ben@acme.example", "email_verified": false}));
        let both = with_user_info(claims(json!({"email_verified": true})), info.clone());
        assert_eq!(
            (both.get(EMAIL), both.get(EMAIL_VERIFIED)),
            (info.get(EMAIL), Some(&json!(false)))
        );
        let both = with_user_info(claims(json!({})), claims(json!({"email": null})));
        assert_eq!(person(&both, "email"), Some("ann@acme.example"));
        assert_eq!(person(&claims(json!({})), "email"), Some("ann@acme.example"));
        assert_eq!(person(&claims(json!({"email": ["a"]})), "email"), None);
        assert_eq!(person(&claims(json!({"email": "a\n"})), "email"), None);
    }
}
