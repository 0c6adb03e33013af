use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::FutureExt as _;
use hyper::body::{Frame, SizeHint};

use super::*;
use axum::http::HeaderValue;

#[derive(Debug, Deserialize)]
struct Shape {
    name: String,
    #[serde(default)]
    numbers: Vec<u8>,
}

fn refusal(body: &[u8]) -> String {
    match utf8(body.to_vec()).and_then(|text| parse::<Shape>(&text, &[])) {
        Err(ApiError::Field(_, text)) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_body_is_read_and_unknown_fields_are_ignored() {
    let shape: Shape = parse(r#"{"name":"n","other":[1],"numbers":[1,2]}"#, &[]).unwrap();
    assert_eq!((shape.name.as_str(), shape.numbers.as_slice()), ("n", &[1u8, 2][..]));
}

#[test]
fn a_request_without_fields_accepts_only_what_changes_nothing() {
    let check = |text: &str| {
        let checked = JsonText::from(text.to_owned()).check_no_fields();
        checked.map_err(|error| error.message().into_owned())
    };
    for text in ["", " \n", "null", "{}", r#"{"other":1}"#, r#"{"dry_run":false,"filters":[ ]}"#] {
        assert_eq!(check(text), Ok(()), "{text}");
    }
    for (text, part) in [
        ("[]", "must be a JSON object"),
        ("{", "not valid JSON"),
        (r#"{"a":1,"a":1}"#, "duplicate field"),
        (r#"{"dry_run":true}"#, "dry_run is not supported by this request"),
        (r#"{"external_ids":["a"]}"#, "external_ids is not supported by this request"),
    ] {
        let error = check(text).unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
    }
}

#[test]
fn errors_name_the_invalid_field() {
    for (body, parts) in [
        (&b""[..], &["not valid JSON", "line 1 column 0"][..]),
        (b"{\"name\":\n x}", &["not valid JSON", "line 2 column 2"]),
        (br#"{"name":"n"} x"#, &["not valid JSON", "line 1 column 14"]),
        (b"\xff", &["UTF-8", "byte 0"]),
        (br#"{"name":1}"#, &["name must be a string"]),
        (br#"{"name":"n","numbers":[1,"x"]}"#, &["numbers[1] must be u8"]),
        (br#"{}"#, &["missing field `name`"]),
        (b" [1]", &["The request body must be a JSON object"]),
        (b"null", &["The request body must be a JSON object"]),
        // A syntax error takes precedence over the fields.
        (br#"{"name":1,}"#, &["not valid JSON"]),
        (br#"{"name":"a","name":"a",}"#, &["not valid JSON"]),
        // A duplicate field takes precedence over other errors of the fields.
        (br#"{"name":1,"name":"a"}"#, &["name: duplicate field"]),
        (br#"{"name":1,"other":[{"a":1,"\u0061":2}]}"#, &["a: duplicate field"]),
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
    assert!(parse::<Shape>(&nested, &[]).is_ok(), "unknown fields are skipped at any depth");
    assert!(parse::<serde_json::Value>(&nested, &[]).is_err(), "known ones are not");
}

#[test]
fn errors_of_valid_json_name_the_value() {
    let deep = ["[".repeat(200), "]".repeat(200)].concat();
    for (value, reason) in [
        ("1e400", "has a number beyond the range of a double"),
        ("-1e400", "has a number beyond the range of a double"),
        (r#""\ud800""#, "has half of a surrogate pair"),
        (deep.as_str(), "is nested too deeply"),
    ] {
        for (path, body) in [
            ("a.b[1]", format!(r#"{{"a":{{"b":[0,{value}]}}}}"#)),
            ("trigger_properties", format!(r#"{{"trigger_properties":{{"a":{value}}}}}"#)),
        ] {
            let error = JsonText::from(body.clone()).object().unwrap_err();
            let text = error.message();
            assert_eq!(error.code(), Code::InvalidField, "{body}: {text}");
            assert!(text.starts_with(path) && text.ends_with(reason), "{text}");
            assert!(text.len() < 200, "{text}");
        }
        let body = format!(r#"{{"name":"n","other":{value}}}"#);
        assert!(parse::<Shape>(&body, &[]).is_ok());
        let read = parse::<serde_json::Map<String, Value>>(&body, &[]);
        let error = read.unwrap_err();
        assert_eq!(error.code(), Code::InvalidField, "{body}");
        assert!(error.message().ends_with(reason), "{}", error.message());
    }
}

#[test]
fn fields_that_are_checked_apart_can_have_duplicates_inside() {
    let inside = r#"{"numbers":[],"list":[{"a":1,"a":2}],"name":"n"}"#;
    assert!(parse::<Shape>(inside, &["list"]).is_ok());
    for body in [
        r#"{"name":"n","list":[{"a":1,"a":2}]}"#,
        r#"{"name":"n","list":[],"list":[]}"#,
        r#"{"name":"n","x":{"list":[{"a":1,"a":2}]}}"#,
        r#"{"list":[{"a":1,"a":2}],"name":"n","x":{"b":1,"b":2}}"#,
    ] {
        let given: &[&str] =
            if body.contains("\"x\"") || body.contains("[],") { &["list"] } else { &[] };
        let error = parse::<Shape>(body, given).unwrap_err();
        assert_eq!(error.code(), Code::DuplicateField, "{body}");
    }
}

#[test]
fn json_content_types_are_accepted() {
    let is_json = |value| is_json_type(Some(&HeaderValue::from_static(value)));
    for yes in [
        "application/json",
        "Application/JSON; charset=utf-8",
        "application/scim+json",
        "application/json ;charset=UTF-8",
    ] {
        assert!(is_json(yes), "{yes}");
    }
    for no in ["", "text/json", "text/plain", "application/jsonp", "application/x-json"] {
        assert!(!is_json(no), "{no}");
    }
    assert!(!is_json_type(None));
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_declared_or_not() {
    let declared = || Body::from(vec![b' '; 11]);
    let chunks = || {
        let chunk = Ok::<_, std::io::Error>(Bytes::from_static(b"      "));
        Body::from_stream(futures::stream::iter([chunk, Ok(Bytes::from_static(b"     "))]))
    };
    let memory = SharedMemory::halves(1 << 10);
    let limits = |max_bytes| ReadLimits {
        memory: &memory,
        holder: Holder::Workspace(1),
        max_bytes,
        first_bytes: FIRST_BYTES,
        is_authenticated: true,
    };
    let (head, ()) = Request::new(()).into_parts();
    for body in [declared(), chunks()] {
        assert!(matches!(read_or_discard(&head, body, &limits(10)).await, Err(ApiError::TooLarge)));
    }
    for body in [declared(), chunks()] {
        assert_eq!(read_or_discard(&head, body, &limits(11)).await.unwrap().0.len(), 11);
    }
}

/// A body of one byte that never arrives.
struct Withheld;

impl axum::body::HttpBody for Withheld {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Pending
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(1)
    }
}

#[tokio::test]
async fn small_unauthenticated_bodies_reserve_their_first_bytes() {
    let memory = SharedMemory::eighths(512 << 10);
    let limits = ReadLimits {
        memory: &memory,
        holder: Holder::Source([127, 0, 0, 1].into()),
        max_bytes: 64 << 10,
        first_bytes: FIRST_UNAUTHENTICATED_BYTES,
        is_authenticated: false,
    };
    let (head, ()) = Request::new(()).into_parts();
    for bytes in ["", "{", "{}"] {
        let (_, reserved) = read_or_discard(&head, Body::from(bytes), &limits).await.unwrap();
        assert_eq!(memory.used_and_limit().0, bytes.len().div_ceil(1 << 10) << 10);
        drop(reserved);
    }
    let mut held = Vec::new();
    for number in 1..=4 {
        let mut reads = Box::pin(read_or_discard(&head, Body::new(Withheld), &limits));
        assert!(reads.as_mut().now_or_never().is_none());
        assert_eq!(memory.used_and_limit().0, number * FIRST_UNAUTHENTICATED_BYTES);
        held.push(reads);
    }
    let refused = read_or_discard(&head, Body::new(Withheld), &limits).await;
    assert!(matches!(refused, Err(ApiError::Unavailable(_))));
    drop(held);
    assert_eq!(memory.used_and_limit().0, 0);
    // The decompressed bytes count together with the received ones.
    assert_eq!(limits.decoded_limit(10 << 10), 54 << 10);
}
