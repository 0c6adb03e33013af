//! Signed addresses, at which anyone can download an object.

use std::time::Duration;

use objects::{AzureSettings, Files, Objects, S3Settings, content_disposition};

use super::{Backend, key, on_every_backend, options, pattern};
use crate::support::{eventually, servers};

on_every_backend!(a_signed_address_is_served_until_it_expires);

async fn a_signed_address_is_served_until_it_expires(backend: Backend) {
    let (objects, key, body) = (&backend.objects, key("signed"), pattern(100_000));
    objects.put(&key, body.clone(), options(false)).await.unwrap();
    let base = match objects {
        Objects::Files(files) => serve((**files).clone()).await,
        _ => String::new(),
    };
    let sign = async |seconds, name| {
        let valid = Duration::from_secs(seconds);
        format!("{base}{}", objects.signed_get(&key, valid, name).await.unwrap())
    };
    let client = reqwest::Client::new();
    let answer = client.get(sign(60, "users of May.zip").await).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let offered = answer.headers()["content-disposition"].to_str().unwrap().to_owned();
    assert_eq!(offered, "attachment; filename=\"users of May.zip\"");
    assert_eq!(answer.bytes().await.unwrap(), body);

    let range = client.get(sign(60, "a.zip").await).header("range", "bytes=10-19").send().await;
    assert_eq!(range.unwrap().bytes().await.unwrap(), body.slice(10..20));

    let short = sign(1, "a.zip").await;
    eventually("the address expires", || async {
        client.get(&short).send().await.unwrap().status() == 403
    })
    .await;
    let others = sign(60, "a.zip").await.replace("/signed", "/other");
    assert_eq!(client.get(others).send().await.unwrap().status(), 403);
}

/// Serves files as the gateway does.
async fn serve(files: Files) -> String {
    use axum::extract::{Request, State};
    use axum::response::{IntoResponse as _, Response};
    async fn download(State(files): State<Files>, request: Request) -> Response {
        let uri = request.uri().clone();
        let path = uri.path().strip_prefix("/objects/").unwrap();
        let now = jiff::Timestamp::now();
        let Ok(download) = files.verify(path, uri.query().unwrap_or_default(), now) else {
            return axum::http::StatusCode::FORBIDDEN.into_response();
        };
        let served = tower_http::services::ServeFile::new(download.file);
        let mut answer = tower::ServiceExt::oneshot(served, request).await.into_response();
        let disposition = content_disposition(&download.name).parse().unwrap();
        answer.headers_mut().insert("content-disposition", disposition);
        answer
    }
    servers::install_tls();
    let router = axum::Router::new()
        .route("/objects/{*path}", axum::routing::get(download))
        .with_state(files);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

/// Those who download may reach the storage by another address than the service does.
#[tokio::test]
async fn a_signed_address_is_below_the_public_endpoint() {
    servers::install_tls();
    let (s3, _bucket) = servers::new_bucket().await;
    let (azure, _container) = servers::new_container().await;
    let by_name = |endpoint: &Option<String>| {
        endpoint.as_ref().map(|endpoint| endpoint.replace("127.0.0.1", "localhost"))
    };
    let s3 = S3Settings { public_endpoint: by_name(&s3.endpoint), ..s3 };
    let azure = AzureSettings { public_endpoint: by_name(&azure.endpoint), ..azure };
    let public = [s3.public_endpoint.clone().unwrap(), azure.public_endpoint.clone().unwrap()];
    let all = [Objects::s3(&s3).await.unwrap(), Objects::azure(&azure).unwrap()];
    for (objects, public) in all.iter().zip(public) {
        let (key, body) = (key("signed"), pattern(1000));
        objects.put(&key, body.clone(), options(false)).await.unwrap();
        let signed = objects.signed_get(&key, Duration::from_secs(60), "a.zip").await.unwrap();
        assert!(signed.starts_with(&public), "{signed} is not below {public}");
        let answer = reqwest::get(&signed).await.unwrap();
        assert_eq!(answer.status(), 200, "{signed}");
        assert_eq!(answer.bytes().await.unwrap(), body);
    }
}
