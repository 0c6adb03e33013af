//! A server of a workspace's storage whose responses and lists have no end.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use objects::{AzureSettings, ObjectError, Objects, S3Settings};
use parking_lot::Mutex;
use serde_json::json;
use tokio::task::JoinHandle;

use super::{key, options};
use crate::support::api::EXPORT;
use crate::support::fleet::{Backend, Fleet};
use crate::support::servers;
use crate::support::storage::TestStorage;
use crate::support::workspace::WorkspaceFile;

/// What has no end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Endless {
    /// Nothing.
    Nothing,
    /// The pause before a write may be repeated.
    Pause,
    /// The response to a rejected write.
    Error,
    /// The response to an accepted write.
    Success,
    /// The object that was written, after its own bytes.
    Object,
    /// A page of a list.
    Page,
    /// The pages of a list: each has full names and another token.
    Pages,
    /// The pages of a list: each refers to itself.
    SamePage,
    /// Nothing: the list of a folder has objects of elsewhere.
    Elsewhere,
}

struct Hostile {
    endpoint: String,
    state: Arc<Mutex<Endless>>,
    serving: JoinHandle<()>,
}

#[derive(Clone)]
struct ServerState {
    endless: Arc<Mutex<Endless>>,
    written: Arc<Mutex<Bytes>>,
    pages: Arc<AtomicU64>,
}

impl Hostile {
    async fn start() -> Self {
        let endless = Arc::new(Mutex::new(Endless::Nothing));
        let state = ServerState {
            endless: endless.clone(),
            written: Arc::default(),
            pages: Arc::default(),
        };
        let router = axum::Router::new().fallback(respond).with_state(state);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
        let serving = tokio::spawn(async move {
            axum::serve(listener, router).await.expect("served");
        });
        Self { endpoint, state: endless, serving }
    }

    fn sends(&self, endless: Endless) {
        *self.state.lock() = endless;
    }

    async fn objects(&self) -> [Objects; 2] {
        let endpoint = Some(self.endpoint.clone());
        let s3 = S3Settings { endpoint: endpoint.clone(), ..servers::s3_settings("hostile") };
        let azure = AzureSettings { endpoint, ..servers::azure_settings("hostile") };
        [Objects::s3(&s3).await.unwrap(), Objects::azure(&azure).unwrap()]
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn forever(beginning: Bytes) -> Body {
    let rest = stream::repeat_with(|| Bytes::from_static(&[b' '; 64 << 10]));
    let bytes = stream::once(std::future::ready(beginning)).chain(rest);
    Body::from_stream(bytes.map(Ok::<_, Infallible>))
}

async fn respond(State(state): State<ServerState>, request: Request) -> Response {
    let endless = *state.endless.lock();
    let (head, body) = request.into_parts();
    let query = head.uri.query().unwrap_or_default();
    let is_list = query.contains("list-type=2") || query.contains("comp=list");
    let is_s3 = !query.contains("comp=list");
    if head.method == Method::PUT {
        let body = to_bytes(body, usize::MAX).await.expect("a body");
        return match endless {
            Endless::Pause => {
                let pause =
                    [("retry-after", "4000000000"), ("x-ms-retry-after-ms", "4000000000000")];
                (StatusCode::SERVICE_UNAVAILABLE, pause).into_response()
            }
            Endless::Error => {
                (StatusCode::FORBIDDEN, forever("<Error><Code>No</Code>".into())).into_response()
            }
            Endless::Success => forever(Bytes::new()).into_response(),
            _ if head.headers.contains_key("if-none-match") => {
                StatusCode::PRECONDITION_FAILED.into_response()
            }
            _ => {
                *state.written.lock() = body;
                StatusCode::OK.into_response()
            }
        };
    }
    match (&head.method, endless) {
        (&Method::GET, Endless::Page) if is_list => {
            forever(if is_s3 { "<ListBucketResult>" } else { "<EnumerationResults>" }.into())
                .into_response()
        }
        (&Method::GET, Endless::Pages) if is_list => {
            let number = state.pages.fetch_add(1, Ordering::Relaxed);
            page(is_s3, &number.to_string(), 1_000)
        }
        (&Method::GET, Endless::SamePage) if is_list => page(is_s3, "same", 1),
        (&Method::GET, Endless::Elsewhere) if is_list => page(is_s3, "", 3),
        (&Method::GET, Endless::Nothing) => state.written.lock().clone().into_response(),
        (&Method::GET, _) => forever(state.written.lock().clone()).into_response(),
        (&Method::HEAD, _) => {
            let length = state.written.lock().len().to_string();
            let headers = [("content-length", length), ("x-amz-meta-probe", "1".to_owned())];
            (HeaderMap::new(), headers).into_response()
        }
        _ => StatusCode::NO_CONTENT.into_response(),
    }
}

fn page(is_s3: bool, token: &str, entries: usize) -> Response {
    let name = "n".repeat(1_000);
    let body = if is_s3 {
        let entry = format!("<Contents><Key>{name}</Key><Size>1</Size></Contents>");
        let next = match token {
            "" => String::new(),
            _ => format!("<NextContinuationToken>{token}</NextContinuationToken>"),
        };
        format!(
            "<ListBucketResult><IsTruncated>{}</IsTruncated>{next}{}</ListBucketResult>",
            !token.is_empty(),
            entry.repeat(entries)
        )
    } else {
        let entry = format!(
            "<Blob><Name>{name}</Name><Properties>\
             <Creation-Time>Sun, 29 Nov 2026 08:00:00 GMT</Creation-Time>\
             <Last-Modified>Sun, 29 Nov 2026 08:00:00 GMT</Last-Modified><Etag>0x1</Etag>\
             <Content-Length>1</Content-Length><Content-Type>a/b</Content-Type>\
             <BlobType>BlockBlob</BlobType></Properties></Blob>"
        );
        format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\"?>\
             <EnumerationResults ServiceEndpoint=\"http://a/\" ContainerName=\"c\">\
             <MaxResults>1000</MaxResults><Blobs>{}</Blobs>\
             <NextMarker>{token}</NextMarker></EnumerationResults>",
            entry.repeat(entries)
        )
    };
    let request_id = "11111111-2222-3333-4444-555555555555";
    ([("x-ms-request-id", request_id)], body).into_response()
}

/// The memory that a dry run may add to a gateway.
const MAX_ADDED_BYTES: u64 = 64 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn endless_responses_to_a_dry_run_fill_no_memory() {
    let hostile = Hostile::start().await;
    let storage = TestStorage::s3().await.at(&hostile.endpoint);
    let fleet = Fleet::start(Backend::Embedded, &[]).await;
    let api = fleet.apply(&[WorkspaceFile::new("acme").with_storage(&storage)]).await.remove(0);
    let body = json!({ "fields_to_export": ["email"], "dry_run": true });
    for (endless, is_writable) in
        [(Endless::Error, false), (Endless::Success, false), (Endless::Object, true)]
    {
        hostile.sends(endless);
        fleet.reset_peak("standalone");
        let before = fleet.peak("standalone");
        let begun = Instant::now();
        let response = api.post(EXPORT, &body).await;
        let added = fleet.peak("standalone").saturating_sub(before);
        assert_eq!(response.status, 200, "{endless:?}: {response:?}");
        let destination = &response.body["destination"];
        assert_eq!(destination["is_writable"], is_writable, "{endless:?}: {destination}");
        if is_writable {
            let warnings = response.body["warnings"].to_string();
            assert!(warnings.contains("differs from what was written"), "{response:?}");
        }
        assert!(added < MAX_ADDED_BYTES, "{endless:?}: {added} more bytes");
        assert!(begun.elapsed() < Duration::from_secs(30), "{endless:?}: {:?}", begun.elapsed());
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_responses_and_lists_are_rejected() {
    servers::install_tls();
    let hostile = Hostile::start().await;
    for objects in hostile.objects().await {
        hostile.sends(Endless::Pause);
        let path = key("a");
        let put = objects.put(&path, Bytes::new(), options(false));
        let put = tokio::time::timeout(Duration::from_secs(120), put).await;
        assert!(matches!(put, Ok(Err(ObjectError::Unavailable(_)))), "{objects}: {put:?}");
        for endless in [Endless::Error, Endless::Success] {
            hostile.sends(endless);
            let error = objects.put(&key("a"), Bytes::new(), options(false)).await.unwrap_err();
            assert!(error.to_string().contains("too long"), "{objects} {endless:?}: {error}");
        }
        for (endless, expected) in [
            (Endless::Page, "too long"),
            (Endless::SamePage, "refers to itself"),
            (Endless::Pages, "too many objects"),
        ] {
            hostile.sends(endless);
            let error = objects.list("a/").await.unwrap_err();
            assert!(matches!(error, ObjectError::Refused(_)), "{objects} {endless:?}: {error:?}");
            assert!(error.to_string().contains(expected), "{objects} {endless:?}: {error}");
        }
        hostile.sends(Endless::Elsewhere);
        assert_eq!(objects.list("a/").await.unwrap(), [], "{objects}");
        assert_eq!(objects.delete_prefix("a/").await.unwrap(), 0, "{objects}");
    }
}
