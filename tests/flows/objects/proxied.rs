//! Where requests to a storage go: below the path of an endpoint, and through the proxy of the
//! operator's own storage.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use objects::{Objects, S3Settings};
use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpListener;

use super::{key, options};
use crate::support::eventually;
use crate::support::fleet::{Backend, Fleet};
use crate::support::servers;
use crate::support::storage::TestStorage;
use crate::support::workspace::WorkspaceFile;

#[tokio::test]
async fn the_path_of_an_endpoint_is_before_the_bucket() {
    servers::install_tls();
    let paths: Arc<Mutex<Vec<String>>> = Arc::default();
    let note = |State(paths): State<Arc<Mutex<Vec<String>>>>, request: Request| async move {
        paths.lock().push(request.uri().path().to_owned());
        StatusCode::OK
    };
    let router = axum::Router::new().fallback(note).with_state(paths.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    for (endpoint, expected) in [
        (format!("http://{address}/a/path"), "/a/path/bucket/"),
        (format!("http://{address}/a/path/"), "/a/path/bucket/"),
        (format!("http://{address}"), "/bucket/"),
    ] {
        let settings = S3Settings {
            endpoint: Some(endpoint.clone()),
            public_endpoint: Some(endpoint.clone()),
            path_style: true,
            ..servers::s3_settings("bucket")
        };
        let objects = Objects::s3(&settings).await.unwrap();
        objects.put(&key("a"), "a".into(), options(false)).await.unwrap();
        let path = paths.lock().pop().expect("a request");
        assert!(path.starts_with(expected), "{endpoint}: {path}");
        let signed = objects.signed_get("a", std::time::Duration::from_secs(60), "a").await;
        let signed = url::Url::parse(&signed.unwrap()).unwrap();
        assert!(signed.path().starts_with(expected), "{endpoint}: {signed}");
    }
}

/// The first lines of the requests to a proxy that serves none.
async fn closing_proxy() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = lines.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut line = String::new();
            if BufReader::new(&mut stream).read_line(&mut line).await.is_ok() {
                noted.lock().push(line.trim().to_owned());
            }
        }
    });
    (url, lines)
}

/// Only the storage of the operator is behind the proxy: a proxy would look up names that a
/// workspace chose.
#[tokio::test(flavor = "multi_thread")]
async fn only_the_operators_storage_is_behind_a_proxy() {
    for (scheme, own) in [("s3", TestStorage::s3().await), ("azure", TestStorage::azure().await)] {
        let (url, lines) = closing_proxy().await;
        let objects_url = match scheme {
            "s3" => {
                "s3://built?region=eu-west-1&endpoint=https://operator.invalid\
                     &path_style=true&access_key_id=a&secret_access_key=b"
            }
            _ => "azure://built?account=a&access_key=a2V5&endpoint=https://operator.invalid",
        };
        let settings = [("HTTPS_PROXY", url), ("LONGSHORE_OBJECTS_URL", objects_url.to_owned())];
        let mut fleet = Fleet::prepare(Backend::Embedded, &settings, |_| {}).await;
        fleet.launch("standalone").await;
        let is_asked = async || {
            lines.lock().iter().any(|line| line.starts_with("CONNECT operator.invalid:443"))
        };
        eventually("the operator's storage is asked for", is_asked).await;
        let own = own.at("https://tenant.invalid");
        let workspace = WorkspaceFile::new("acme").with_storage(&own);
        let file = fleet.write_file("acme.yaml", workspace.document().as_bytes());
        // It tests the storage as a gateway does.
        let applied = fleet.command(&["apply", file.to_str().expect("a path of ASCII")]).await;
        let printed = String::from_utf8_lossy(&applied.stderr);
        assert!(!applied.status.success() && printed.contains("lookup address"), "{applied:?}");
        let lines = lines.lock().clone();
        assert!(lines.iter().all(|line| !line.contains("tenant.invalid")), "{lines:?}");
        fleet.close().await;
    }
}
