//! A request's body: how large, of what type, JSON, and of the members that a call takes.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::error::Category;

use super::ApiError;
use crate::app::App;
use crate::compute::{Memory, Reserved};

/// How long and how many times its limit a body that is too large is read on, so that its
/// sender gets to read the answer.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_TIMES: usize = 4;

/// How long a call waits for room for its body (`gateway.memory_bytes`).
const ROOM_WAIT: Duration = Duration::from_secs(1);

/// Bytes up to which an error may repeat the value that is wrong.
const LONGEST_ERROR: usize = 200;

/// A request's JSON body, as an extractor: over the size limit 413, no room for it beside those
/// of other requests 503, another Content-Type 415, not JSON 400 with line and column, wrong
/// members 400 naming the member.
pub struct Json<T>(pub T);

impl<T: DeserializeOwned> FromRequest<App> for Json<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        JsonText::from_request(request, app).await?.parse().map(Self)
    }
}

/// The same for a handler that has the body's text borrowed by what is read from it: not yet
/// looked at beyond its size, Content-Type and encoding.
pub struct JsonText {
    text: String,
    /// None of what was no request's.
    room: Option<Reserved>,
}

impl JsonText {
    /// Reads the members; the errors are those of [`Json`].
    pub fn parse<'a, T: Deserialize<'a>>(&'a self) -> Result<T, ApiError> {
        parse(&self.text)
    }

    /// Its length in bytes.
    pub fn bytes(&self) -> usize {
        self.text.len()
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        self.text.as_bytes()
    }

    /// Hands over its room in memory, for as long as what is made of it is there: that has
    /// about as many bytes.
    pub(super) fn take_room(&mut self) -> Option<Reserved> {
        self.room.take()
    }
}

impl FromRequest<App> for JsonText {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let limit = app.config.gateway.max_body_bytes;
        let patience = Duration::from_secs(app.config.gateway.request_timeout_seconds);
        let (head, body) = request.into_parts();
        let (body, room) = tokio::time::timeout(patience, read(body, limit, &app.bodies))
            .await
            .map_err(|_| ApiError::TooSlow)??;
        if !body.is_empty() && !is_json(&head.headers) {
            return Err(ApiError::UnsupportedMediaType);
        }
        Ok(Self { text: utf8(body)?, room: Some(room) })
    }
}

impl From<String> for JsonText {
    fn from(text: String) -> Self {
        Self { text, room: None }
    }
}

/// Reads a body up to `limit` bytes, once there is room for it in `memory`: for the bytes that
/// it declares, or for the most that it may have.
async fn read(
    mut body: Body,
    limit: usize,
    memory: &Memory,
) -> Result<(Bytes, Reserved), ApiError> {
    let declared = axum::body::HttpBody::size_hint(&body);
    if declared.lower() > limit as u64 {
        discard(body, limit).await;
        return Err(ApiError::TooLarge);
    }
    let most = declared.exact().map_or(limit, |bytes| bytes as usize);
    let Ok(mut room) = tokio::time::timeout(ROOM_WAIT, memory.reserve(most)).await else {
        discard(body, limit).await;
        return Err(ApiError::Unavailable("there is no room for the request's body".into()));
    };
    let read = Limited::new(&mut body, limit).collect().await;
    match read {
        Ok(collected) => {
            let bytes = collected.to_bytes();
            room.shrink(bytes.len());
            Ok((bytes, room))
        }
        Err(error) if error.is::<LengthLimitError>() => {
            discard(body, limit).await;
            Err(ApiError::TooLarge)
        }
        Err(_) => Err(ApiError::Invalid("The request body could not be read to its end".into())),
    }
}

/// Reads on and keeps nothing: a connection that is closed on a sender takes the answer
/// with it.
async fn discard(body: Body, limit: usize) {
    let rest = Limited::new(body, limit.saturating_mul(LINGER_TIMES));
    let mut rest = std::pin::pin!(rest);
    let read = async { while let Some(Ok(_)) = rest.frame().await {} };
    // Running out of time is as good as coming to the end.
    let _ = tokio::time::timeout(LINGER, read).await;
}

/// `application/json`, or a type built on it (`application/…+json`), with any parameters.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok())
    else {
        return false;
    };
    let essence = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence
        .strip_prefix("application/")
        .is_some_and(|subtype| subtype == "json" || subtype.ends_with("+json"))
}

fn utf8(body: Bytes) -> Result<String, ApiError> {
    String::from_utf8(body.into()).map_err(|error| {
        let position = error.utf8_error().valid_up_to();
        ApiError::Invalid(format!("The request body is not valid UTF-8 at byte {position}"))
    })
}

/// Reads the members of a JSON object. Where that fails, what is wrong with the JSON is said
/// before what is wrong with its members.
fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, ApiError> {
    let is_object = text.trim_ascii_start().starts_with('{');
    if is_object && let Ok(value) = serde_json::from_str(text) {
        return Ok(value);
    }
    serde_json::from_str::<IgnoredAny>(text).map_err(|error| not_json(&error))?;
    if !is_object {
        return Err(ApiError::Invalid("The request body must be a JSON object".into()));
    }
    let mut json = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let cause = error.into_inner();
        match cause.classify() {
            Category::Data => ApiError::Invalid(wrong_member(&path, &cause)),
            Category::Syntax | Category::Eof | Category::Io => not_json(&cause),
        }
    })
}

/// The error's own text ends with its line and column.
fn not_json(error: &serde_json::Error) -> ApiError {
    ApiError::Invalid(format!("The request body is not valid JSON: {error}"))
}

fn wrong_member(path: &str, error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
    // It may repeat a value of any length.
    let what = match what.rsplit_once(", expected ") {
        Some((_, expected)) if what.len() > LONGEST_ERROR => {
            format!("invalid type, expected {expected}")
        }
        _ => what.to_owned(),
    };
    // The root is a dot: there the text itself names what is missing.
    if path == "." { what } else { format!("{path}: {what}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct Shape {
        name: String,
        #[serde(default)]
        many: Vec<u8>,
    }

    fn refusal(body: &[u8]) -> String {
        let body = Bytes::copy_from_slice(body);
        match utf8(body).and_then(|text| parse::<Shape>(&text)) {
            Err(ApiError::Invalid(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_body_is_read_and_unknown_members_are_ignored() {
        let shape: Shape = parse(r#"{"name":"n","other":[1],"many":[1,2]}"#).unwrap();
        assert_eq!((shape.name.as_str(), shape.many.as_slice()), ("n", &[1u8, 2][..]));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (body, parts) in [
            (&b""[..], &["not valid JSON", "line 1 column 0"][..]),
            (b"{\"name\":\n x}", &["not valid JSON", "line 2 column 2"]),
            (br#"{"name":"n"} x"#, &["not valid JSON", "line 1 column 14"]),
            (b"\xff", &["UTF-8", "byte 0"]),
            (br#"{"name":1}"#, &["name: invalid type: integer `1`, expected a string"]),
            (br#"{"name":"n","many":[1,"x"]}"#, &["many[1]: invalid type"]),
            (br#"{}"#, &["missing field `name`"]),
            (b" [1]", &["The request body must be a JSON object"]),
            (b"null", &["The request body must be a JSON object"]),
            // The JSON comes first, whatever its members are.
            (br#"{"name":1,}"#, &["not valid JSON"]),
        ] {
            let text = refusal(body);
            for part in parts {
                assert!(text.contains(part), "{:?}: {text}", String::from_utf8_lossy(body));
            }
        }
        assert!(!refusal(br#"{"name":1}"#).contains("line"));
        let deep = [vec![b'['; 10_000], vec![b']'; 10_000]].concat();
        let nested = [&br#"{"name":"n","deep":"#[..], &deep, b"}"].concat();
        let nested = String::from_utf8(nested).unwrap();
        assert!(parse::<Shape>(&nested).is_ok(), "unknown members are skipped at any depth");
        assert!(parse::<serde_json::Value>(&nested).is_err(), "wanted ones are not");
    }

    #[test]
    fn types_of_json_are_taken() {
        let taken = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, value.parse().unwrap());
            is_json(&headers)
        };
        for yes in [
            "application/json",
            "Application/JSON; charset=utf-8",
            "application/scim+json",
            "application/json ;charset=UTF-8",
        ] {
            assert!(taken(yes), "{yes}");
        }
        for no in ["", "text/json", "text/plain", "application/jsonp", "application/x-json"] {
            assert!(!taken(no), "{no}");
        }
        assert!(!is_json(&HeaderMap::new()));
    }

    #[tokio::test]
    async fn a_body_over_the_limit_is_refused_declared_or_not() {
        let whole = || Body::from(vec![b' '; 11]);
        let chunks = || {
            let chunk = Ok::<_, std::io::Error>(Bytes::from_static(b"      "));
            Body::from_stream(futures::stream::iter([chunk, Ok(Bytes::from_static(b"     "))]))
        };
        let memory = Memory::new(1 << 10);
        for body in [whole(), chunks()] {
            assert!(matches!(read(body, 10, &memory).await, Err(ApiError::TooLarge)));
        }
        for body in [whole(), chunks()] {
            assert_eq!(read(body, 11, &memory).await.unwrap().0.len(), 11);
        }
    }
}
