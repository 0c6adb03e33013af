//! Storage that is missing, refuses, or loses and garbles its responses.

use axum::http::Method;
use bytes::Bytes;
use kit::retry::Retry as _;
use longshore::exports::part::write_once;
use longshore::exports::rows::PartResult;
use longshore::exports::{Cause, ExportError};
use objects::probe;
use objects::{AzureSettings, ObjectError, Objects, S3Settings};

use super::{ANY, MIB, in_chunks, key, options, pattern, read};
use crate::support::http_proxy::{ChooseFault, HttpProxy, ProxyFault};
use crate::support::servers;
use crate::support::temporary::Temporary;

/// Asserts that every call is refused for good, in those words and without `secret`.
async fn assert_refused(objects: &Objects, words: &str, secret: &str) {
    let body = Bytes::from_static(b"x");
    let errors = [
        objects.put(&key("a"), body.clone(), options(true)).await.err(),
        objects.list("a/").await.err(),
        probe::own_storage(objects).await.err(),
        probe::build_storage(objects).await.err(),
    ];
    for error in errors {
        let error = error.expect("refused");
        let (shown, told) = (format!("{error} {error:?} {objects:?}"), error.to_string());
        assert!(matches!(error, ObjectError::Refused(_)) && !error.can_retry(), "{shown}");
        assert!(told.contains(words), "{words:?} is not in: {told}");
        assert!(!shown.contains(secret), "{shown}");
    }
}

#[tokio::test]
async fn s3_reports_invalid_settings() {
    servers::install_tls();
    let (good, _bucket) = servers::new_bucket().await;
    let secret = good.secret_access_key.clone().unwrap();
    let absent = servers::s3_settings(&servers::new_name());
    let open = async |settings| Objects::s3(&settings).await.unwrap();
    assert_refused(&open(absent.clone()).await, "does not exist", &secret).await;
    let wrong = S3Settings { secret_access_key: Some("wr0ng-secret".into()), ..good.clone() };
    let words = "secret_access_key does not belong to the access_key_id";
    assert_refused(&open(wrong).await, words, "wr0ng-secret").await;
    let unknown = S3Settings { access_key_id: Some("nobody".into()), ..good };
    assert_refused(&open(unknown).await, "does not know the access_key_id", &secret).await;
}

#[tokio::test]
async fn azure_reports_invalid_settings() {
    servers::install_tls();
    let (good, _container) = servers::new_container().await;
    let secret = good.access_key.clone().unwrap();
    let absent = servers::azure_settings(&servers::new_name());
    assert_refused(&Objects::azure(&absent).unwrap(), "does not exist", &secret).await;
    let wrong = AzureSettings { access_key: Some("d3JvbmctNTVjcjN0".into()), ..good.clone() };
    let words = "access_key does not belong to the account";
    assert_refused(&Objects::azure(&wrong).unwrap(), words, "d3JvbmctNTVjcjN0").await;
    let token = Some("sv=2022-11-02&ss=b&srt=sco&sp=rwdl&se=2020-01-01T00:00:00Z&sig=aGlkZGVu");
    let expired = AzureSettings { access_key: None, sas_token: token.map(String::from), ..good };
    let expired = Objects::azure(&expired).unwrap();
    assert_refused(&expired, "sas_token is not valid", "aGlkZGVu").await;
}

#[tokio::test]
async fn a_missing_store_is_a_retryable_error() {
    servers::install_tls();
    // Bound and closed again: nobody listens there.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = Some(format!("http://{}", listener.local_addr().unwrap()));
    drop(listener);
    let s3 = S3Settings { endpoint: endpoint.clone(), ..servers::s3_settings("anything") };
    let azure = AzureSettings { endpoint, ..servers::azure_settings("anything") };
    for objects in [Objects::s3(&s3).await.unwrap(), Objects::azure(&azure).unwrap()] {
        let error = objects.put(&key("a"), Bytes::new(), options(false)).await.unwrap_err();
        assert!(error.can_retry(), "{error:?}");
        assert!(error.to_string().contains("cannot reach"), "{error}");
    }
}

/// The bucket and the container of tests, behind a proxy that injects `fault`.
async fn behind(fault: ChooseFault) -> [(Objects, HttpProxy, Temporary); 2] {
    let (s3, bucket) = servers::new_bucket().await;
    let (azure, container) = servers::new_container().await;
    let for_s3 = HttpProxy::start(s3.endpoint.as_deref().unwrap(), fault).await;
    let for_azure = HttpProxy::start(azure.endpoint.as_deref().unwrap(), fault).await;
    let s3 = S3Settings { endpoint: Some(for_s3.endpoint()), ..s3 };
    let azure = AzureSettings { endpoint: Some(for_azure.endpoint()), ..azure };
    let (s3, azure) = (Objects::s3(&s3).await.unwrap(), Objects::azure(&azure).unwrap());
    [(s3, for_s3, bucket), (azure, for_azure, container)]
}

const NO_SUCH_UPLOAD: &str = "<Error><Code>NoSuchUpload</Code></Error>";

/// The request that makes an object of parts.
fn completes(method: &Method, query: &str) -> bool {
    (method == Method::POST && query.contains("uploadId=")) || query.contains("comp=blocklist")
}

#[tokio::test]
async fn an_upload_whose_last_response_is_lost_is_complete() {
    let fault = |method: &Method, query: &str| {
        if !completes(method, query) {
            None
        } else if method == Method::POST {
            // Not every S3 server knows an upload that it has completed.
            Some(ProxyFault::LoseResponseThen(404, NO_SUCH_UPLOAD))
        } else {
            Some(ProxyFault::LoseResponse)
        }
    };
    for (objects, http_proxy, _place) in behind(fault).await {
        let (key, body) = (key("large"), pattern(20 * MIB));
        let size = body.len() as u64;
        objects.put_stream(&key, size, in_chunks(&body), options(false)).await.unwrap();
        assert_eq!(http_proxy.caught(), 2, "{objects}");
        assert!(read(&objects, &key).await == body, "{objects}: what is read differs");
    }
}

#[tokio::test]
async fn a_lost_upload_can_be_restarted() {
    let lost: ChooseFault = |method, query| {
        completes(method, query).then_some(ProxyFault::Respond(404, NO_SUCH_UPLOAD))
    };
    let without_list: ChooseFault = |method, query| {
        if completes(method, query) {
            Some(ProxyFault::Respond(404, NO_SUCH_UPLOAD))
        } else {
            [Method::HEAD, Method::GET].contains(method).then_some(ProxyFault::HideMissing)
        }
    };
    for fault in [lost, without_list] {
        let [(s3, _http_proxy, _place), _] = behind(fault).await;
        let (key, body) = (key("gone"), pattern(20 * MIB));
        let streamed = s3.put_stream(&key, body.len() as u64, in_chunks(&body), options(false));
        let error = streamed.await.unwrap_err();
        assert!(error.can_retry(), "{error:?}");
    }
}

#[tokio::test]
async fn a_success_that_is_garbled_or_holds_an_error_may_pass() {
    let cut: ChooseFault = |_, query| {
        query
            .contains("list")
            .then_some(ProxyFault::Respond(200, "<ListBucketResult><Contents><Ke"))
    };
    let no_xml: ChooseFault = |_, query| {
        query.contains("list").then_some(ProxyFault::Respond(200, "Please log in first"))
    };
    for fault in [cut, no_xml] {
        for (objects, _http_proxy, _place) in behind(fault).await {
            let error = objects.list("a/").await.unwrap_err();
            assert!(error.can_retry(), "{error:?}");
        }
    }
    let failing = |method: &Method, query: &str| {
        let error = "<Error><Code>InternalError</Code><Message>Again.</Message></Error>";
        let copies = method == Method::PUT && query.contains("x-id=CopyObject");
        (copies || completes(method, query)).then_some(ProxyFault::Respond(200, error))
    };
    let [(s3, _http_proxy, _place), _] = behind(failing).await;
    let (from, body) = (key("from"), pattern(9 * MIB));
    let streamed = s3.put_stream(&from, body.len() as u64, in_chunks(&body), options(false));
    let error = streamed.await.unwrap_err();
    assert!(error.can_retry(), "{error:?}");
    s3.put(&from, body.slice(..9), options(false)).await.unwrap();
    let error = s3.copy(&from, &key("to"), ANY).await.unwrap_err();
    assert!(error.can_retry(), "{error:?}");
}

/// The response to a HEAD has no body, and so no code.
#[tokio::test]
async fn a_rejected_look_up_is_retried_if_its_cause_may_pass() {
    let full: ChooseFault = |method, _| {
        let error = "<Error><Code>QuotaExceeded</Code></Error>";
        [Method::HEAD, Method::GET].contains(method).then_some(ProxyFault::Respond(403, error))
    };
    // As if the cause had passed before the second request.
    let passed: ChooseFault =
        |method, _| (method == Method::HEAD).then_some(ProxyFault::Respond(403, ""));
    for fault in [full, passed] {
        let [(s3, _http_proxy, _place), _] = behind(fault).await;
        let key = key("file");
        let write = async || {
            let (body, result) = (Bytes::from_static(b"x"), PartResult::default());
            write_once(&s3, &key, "application/zip", body, result).await
        };
        write().await.unwrap();
        let error = write().await.unwrap_err();
        assert!(matches!(error, ExportError::Own(_)) && error.can_retry(), "{error:?}");
    }
}

/// Some stores support the condition in PutObject only.
#[tokio::test]
async fn stores_without_conditional_uploads_in_parts_are_reported() {
    let ignored: ChooseFault = |method, query| {
        let completed = "<CompleteMultipartUploadResult/>";
        completes(method, query).then_some(ProxyFault::RespondIfConditional(200, completed))
    };
    let not_implemented: ChooseFault = |method, query| {
        let error = "<Error><Code>NotImplemented</Code></Error>";
        completes(method, query).then_some(ProxyFault::RespondIfConditional(501, error))
    };
    for fault in [ignored, not_implemented] {
        let [(s3, _http_proxy, bucket), _] = behind(fault).await;
        let limits = probe::own_storage(&s3).await.unwrap();
        let [limit] = &limits[..] else { panic!("{limits:?}") };
        assert!(limit.to_string().contains("CompleteMultipartUpload"), "{limit}");
        let Temporary::Bucket(settings) = &bucket else { panic!("not a bucket") };
        assert!(servers::s3_uploads(settings).await.is_empty());
        assert_eq!(s3.list("longshore-probe/").await.unwrap(), []);
    }
}

#[tokio::test]
async fn write_only_keys_are_reported_with_their_limits() {
    let fault = |method: &Method, query: &str| {
        let writes =
            [Method::PUT, Method::POST].contains(method) && !query.contains("x-id=CopyObject");
        (!writes).then_some(ProxyFault::Respond(403, "<Error><Code>AccessDenied</Code></Error>"))
    };
    let [(s3, _http_proxy, _place), _] = behind(fault).await;
    let limits = probe::own_storage(&s3).await.unwrap();
    let cannot = ["read object properties", "read objects", "copy objects", "delete objects"];
    assert_eq!(limits.len(), cannot.len(), "{limits:?}");
    for (limit, verb) in limits.iter().zip(cannot) {
        assert!(limit.to_string().starts_with(&format!("cannot {verb}")), "{limit}");
    }
    let error = probe::build_storage(&s3).await.unwrap_err();
    assert!(error.to_string().contains("access denied"), "{error}");

    // A file that is tried twice fails the export: what is in the first one is unknown.
    let key = key("file");
    let write = async |users: i64| {
        let result = PartResult { users, ..PartResult::default() };
        let body = Bytes::from(users.to_string());
        write_once(&s3, &key, "application/zip", body, result).await
    };
    assert_eq!(write(5).await.unwrap().users, 5);
    let error = write(4).await.unwrap_err();
    assert!(matches!(&error, ExportError::Own(ObjectError::Refused(_))), "{error:?}");
    let failure = error.failure();
    assert_eq!(failure.cause, Cause::OwnStorage);
    assert!(failure.message.contains("s3:GetObject"), "{}", failure.message);
}
