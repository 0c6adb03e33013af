//! The header that identifies a claim.

use axum::extract::{MatchedPath, OptionalFromRequestParts};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName};

use crate::{ApiError, COMPANY, Caller, CompanyCaller};

/// The header's name.
pub const HEADER: &str = "Idempotency-Key";

/// The pattern of a valid value.
pub const PATTERN: &str =
    r##"^(?:"(?:[ !#-\[\]-~]|\\["\\]){1,255}"|[!#-~](?:[ -~]{0,253}[!-~])?)$"##;

pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The longest key, in characters.
const MAX_LENGTH: usize = 255;

pub(super) const REFUSED: &str =
    "Idempotency-Key must be one string of 1 to 255 printable ASCII characters";

/// A request's `Idempotency-Key` with its scope: the workspace and the endpoint. As an extractor of
/// a route with a known caller ([`Caller`], [`CompanyCaller`]); none if the header is absent; 400
/// if it is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// The workspace, or the [`COMPANY`].
    pub workspace: i32,
    /// Method and route, such as `POST /users/track`.
    pub endpoint: String,
    pub key: String,
}

impl IdempotencyKey {
    /// The key that a request to this endpoint has with this value of the header.
    pub fn new(workspace: i32, endpoint: String, value: &str) -> Result<Self, ApiError> {
        Ok(Self { workspace, endpoint, key: parse(value)? })
    }

    /// The key within the scope of one object of a route. The object exists, so the length of its
    /// id is limited.
    pub fn within(mut self, object_id: &str) -> Self {
        self.endpoint = format!("{} {object_id}", self.endpoint);
        self
    }
}

impl<S: Sync> OptionalFromRequestParts<S> for IdempotencyKey {
    type Rejection = ApiError;

    async fn from_request_parts(head: &mut Parts, _: &S) -> Result<Option<Self>, ApiError> {
        let Some(key) = read(&head.headers)? else { return Ok(None) };
        let extensions = &head.extensions;
        let workspace = extensions.get::<Caller>().map(|caller| caller.workspace.id);
        let company = extensions.get::<CompanyCaller>().map(|_| COMPANY);
        let (Some(workspace), Some(path)) =
            (workspace.or(company), extensions.get::<MatchedPath>())
        else {
            return Err(ApiError::Internal("a key without a request".into()));
        };
        let endpoint = format!("{} {}", head.method, path.as_str());
        Ok(Some(Self { workspace, endpoint, key }))
    }
}

/// The key: a quoted string as in RFC 8941, or any text without quotes.
pub fn read(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).into_iter();
    let Some(value) = values.next() else { return Ok(None) };
    let text = value.to_str().ok().filter(|_| values.next().is_none());
    text.map_or_else(|| Err(ApiError::Invalid(REFUSED.into())), parse).map(Some)
}

/// The key in the value of a header.
fn parse(value: &str) -> Result<String, ApiError> {
    let key = match value.trim().strip_prefix('"') {
        Some(quoted) => unquoted(quoted),
        None => Some(value.trim().to_owned()),
    };
    let is_key = |key: &String| {
        (1..=MAX_LENGTH).contains(&key.len()) && key.bytes().all(|byte| matches!(byte, b' '..=b'~'))
    };
    key.filter(is_key).ok_or_else(|| ApiError::Invalid(REFUSED.into()))
}

/// The text before the closing quote; a backslash may only come before `"` and `\`.
fn unquoted(text: &str) -> Option<String> {
    let mut key = String::new();
    let mut characters = text.strip_suffix('"')?.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => key.push(characters.next().filter(|next| matches!(next, '"' | '\\'))?),
            '"' => return None,
            other => key.push(other),
        }
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn key(values: &[&[u8]]) -> Result<Option<String>, String> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(IDEMPOTENCY_KEY, HeaderValue::from_bytes(value).unwrap());
        }
        read(&headers).map_err(|error| match error {
            ApiError::Invalid(text) => text,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn a_key_is_a_string_with_quotes_or_without() {
        assert_eq!(key(&[]), Ok(None));
        let longest = "k".repeat(MAX_LENGTH);
        let quoted = format!("\"{longest}\"");
        for (value, expected) in [
            ("8e03978e-40d5", "8e03978e-40d5"),
            ("\"8e03978e-40d5\"", "8e03978e-40d5"),
            ("  a b  ", "a b"),
            (r#""a \"b\" \\ c""#, r#"a "b" \ c"#),
            (r"a\b", r"a\b"),
            (&longest, &longest),
            (&quoted, &longest),
        ] {
            assert_eq!(key(&[value.as_bytes()]), Ok(Some(expected.to_owned())), "{value}");
        }
    }

    #[test]
    fn invalid_keys_are_rejected() {
        let long = "k".repeat(MAX_LENGTH + 1);
        let quoted = format!("\"{long}\"");
        for values in [
            &[&b""[..]][..],
            &[b"  "],
            &[b"\"\""],
            &[b"\""],
            &[b"\"a"],
            &[b"\"a\\\""],
            &[br#""a"b""#],
            &[br#""a\b""#],
            &[b"a\tb"],
            &["é".as_bytes()],
            &[b"\xff"],
            &[b"a", b"a"],
            &[long.as_bytes()],
            &[quoted.as_bytes()],
        ] {
            assert_eq!(key(values), Err(REFUSED.to_owned()), "{values:?}");
        }
    }
}
