//! SSE-KMS: what is sent to S3, to a server of the test's own, because the S3 server of the tests
//! has no KMS.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method};
use axum::response::{IntoResponse as _, Response};
use objects::{ObjectError, Objects, Put, S3Settings, Sizes, probe};
use tokio::net::TcpListener;

use super::{ANY, MIB, in_chunks, key, options, pattern};
use crate::support::servers;

const KEY: &str = "arn:aws:kms:eu-west-1:111122223333:key/b7f7b6b2-2b5c-4b34-9d3c-6b1f3c9a8e55";

/// Not the MD5 of anything.
const TAG: &str = "\"an-opaque-tag-1\"";

const SIZE: usize = 11 * MIB;

/// A request to the server.
#[derive(Debug)]
struct Sent {
    operation: &'static str,
    headers: HeaderMap,
}

type Requests = Arc<Mutex<Vec<Sent>>>;

fn operation(method: &Method, query: &str, headers: &HeaderMap) -> &'static str {
    let (is_part, is_copy) =
        (query.contains("partNumber="), headers.contains_key("x-amz-copy-source"));
    match (method.as_str(), is_part, is_copy) {
        ("PUT", false, false) => "PutObject",
        ("PUT", false, true) => "CopyObject",
        ("PUT", true, false) => "UploadPart",
        ("PUT", true, true) => "UploadPartCopy",
        ("HEAD", ..) => "HeadObject",
        ("POST", ..) if query.contains("uploads") => "CreateMultipartUpload",
        ("POST", ..) => "CompleteMultipartUpload",
        _ => "another",
    }
}

async fn respond(State(requests): State<Requests>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    to_bytes(body, usize::MAX).await.expect("a body");
    let operation = operation(&head.method, head.uri.query().unwrap_or_default(), &head.headers);
    requests.lock().unwrap().push(Sent { operation, headers: head.headers });
    let text = match operation {
        "CreateMultipartUpload" => {
            "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>"
                .to_owned()
        }
        "CompleteMultipartUpload" => "<CompleteMultipartUploadResult/>".to_owned(),
        "CopyObject" => format!("<CopyObjectResult><ETag>{TAG}</ETag></CopyObjectResult>"),
        "UploadPartCopy" => format!("<CopyPartResult><ETag>{TAG}</ETag></CopyPartResult>"),
        _ => String::new(),
    };
    let mut response = Response::new(Body::from(text));
    let headers = response.headers_mut();
    headers.insert("etag", TAG.parse().unwrap());
    headers.insert("x-amz-server-side-encryption", "aws:kms".parse().unwrap());
    if operation == "HeadObject" {
        headers.insert("content-length", SIZE.into());
    }
    response.into_response()
}

/// A bucket on a server that only records requests.
async fn recording() -> (S3Settings, Requests) {
    servers::install_tls();
    let requests = Requests::default();
    let router = Router::new().fallback(respond).with_state(requests.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    let settings = S3Settings {
        bucket: "exports".into(),
        endpoint: Some(endpoint),
        access_key_id: Some("an-id".into()),
        secret_access_key: Some("a-secret".into()),
        path_style: true,
        sse_kms_key_id: Some(KEY.into()),
        ..S3Settings::default()
    };
    (settings, requests)
}

#[tokio::test]
async fn every_request_that_creates_an_object_has_the_kms_key() {
    let (settings, requests) = recording().await;
    let sizes = |copy| Sizes { part: 5 * MIB as u64, copy, page: 1000 };
    let undivided = Objects::s3(&settings).await.unwrap().with_sizes(sizes(5 << 30));
    let in_parts = undivided.clone().with_sizes(sizes(5 * MIB as u64));
    let body = pattern(SIZE);
    let put = undivided.put(&key("a"), body.clone(), options(true)).await.unwrap();
    assert_eq!(put, Put::Written);
    undivided.put_stream(&key("b"), SIZE as u64, in_chunks(&body), options(false)).await.unwrap();
    undivided.copy(&key("a"), &key("c"), ANY).await.unwrap();
    in_parts.copy(&key("a"), &key("c"), ANY).await.unwrap();

    let requests = requests.lock().unwrap();
    let header = |sent: &Sent, name: &str| {
        sent.headers.get(name).map(|value| value.to_str().unwrap().to_owned())
    };
    let count =
        |operation: &str| requests.iter().filter(|sent| sent.operation == operation).count();
    for (operation, times) in [
        ("PutObject", 1),
        ("CopyObject", 1),
        ("CreateMultipartUpload", 2),
        ("UploadPart", 3),
        ("UploadPartCopy", 3),
    ] {
        assert_eq!(count(operation), times, "{operation}: {requests:?}");
    }
    for sent in requests.iter() {
        let creates =
            ["PutObject", "CopyObject", "CreateMultipartUpload"].contains(&sent.operation);
        let kms = [
            header(sent, "x-amz-server-side-encryption"),
            header(sent, "x-amz-server-side-encryption-aws-kms-key-id"),
        ];
        // S3 refuses them in requests for parts.
        let expected = if creates { [Some("aws:kms"), Some(KEY)] } else { [None, None] };
        assert_eq!(kms.each_ref().map(Option::as_deref), expected, "{sent:?}");
        // The tag is the store's own, whatever it is made of.
        if sent.operation.contains("Copy") {
            assert_eq!(header(sent, "x-amz-copy-source-if-match").as_deref(), Some(TAG));
        }
    }
}

#[tokio::test]
async fn without_a_key_the_encryption_is_that_of_the_bucket() {
    let (settings, requests) = recording().await;
    let settings = S3Settings { sse_kms_key_id: None, ..settings };
    let objects = Objects::s3(&settings).await.unwrap();
    objects.put(&key("a"), pattern(9), options(false)).await.unwrap();
    let requests = requests.lock().unwrap();
    let is_encryption = |name: &str| name.starts_with("x-amz-server-side-encryption");
    assert!(!requests[0].headers.keys().any(|name| is_encryption(name.as_str())), "{requests:?}");
}

/// Otherwise files would lie there without the encryption that was asked for.
#[tokio::test]
async fn a_store_that_ignores_the_kms_key_is_rejected() {
    servers::install_tls();
    let (settings, _bucket) = servers::new_bucket().await;
    let bucket = Objects::s3(&settings).await.unwrap();
    let settings = S3Settings { sse_kms_key_id: Some(KEY.into()), ..settings };
    let with_key = Objects::s3(&settings).await.unwrap();
    for error in [
        probe::own_storage(&with_key).await.unwrap_err(),
        with_key.put(&key("a"), pattern(9), options(false)).await.unwrap_err(),
    ] {
        assert!(matches!(error, ObjectError::Refused(_)), "{error:?}");
        assert!(error.to_string().contains("sse_kms_key_id"), "{error}");
    }
    assert!(bucket.list("").await.unwrap().is_empty(), "what was written is deleted");
}
