//! Exports go to the destination of their request.

use serde_json::{Value, json};

use super::with_users;
use crate::support::api::EXPORT;
use crate::support::checker;
use crate::support::fleet::Backend;
use crate::support::proxy::{Proxy, ProxyMode};
use crate::support::storage::TestStorage;
use crate::support::workspace::WorkspaceFile;

fn to(destination: Option<&str>) -> Value {
    json!({ "fields_to_export": ["email"], "destination": destination })
}

async fn has_files(storage: &TestStorage, prefix: &str) -> bool {
    storage.list().await.iter().any(|key| key.contains(prefix))
}

#[tokio::test(flavor = "multi_thread")]
async fn exports_go_to_the_destination_of_their_request() {
    let own = TestStorage::s3().await;
    let (warehouse, lake) = (TestStorage::s3().await, TestStorage::azure().await);
    let workspace = WorkspaceFile::new("acme")
        .with_storage(&own)
        .with_named_storage("warehouse", &warehouse)
        .with_named_storage("lake", &lake);
    let (fleet, api) = with_users(Backend::Embedded, workspace, 3, &[]).await;
    for (destination, storage) in [
        (None, Some(&own)),
        (Some("s3"), Some(&own)),
        (Some("warehouse"), Some(&warehouse)),
        (Some("lake"), Some(&lake)),
        (Some("url"), None),
    ] {
        let accepted = api.export(&to(destination)).await;
        let status = api.done(&accepted.prefix).await;
        assert_eq!(status["destination"], json!(destination), "{status}");
        for other in [&own, &warehouse, &lake] {
            let expected = storage.is_some_and(|storage| std::ptr::eq(storage, other));
            assert_eq!(has_files(other, &accepted.prefix).await, expected, "{destination:?}");
        }
        assert_eq!(accepted.url.is_none(), storage.is_some(), "{destination:?}");
        if let Some(url) = &accepted.url {
            assert_eq!(checker::downloaded(&api.download(url).await).len(), 1);
        }
    }
    let listed = api.get("/users/export").await.body;
    assert_eq!(listed["exports"][0]["destination"], "url", "{listed}");
    assert_eq!(listed["exports"][4]["destination"], Value::Null, "{listed}");

    // The second is a kind of storage that the workspace does not have.
    for unknown in ["warehous", "azure"] {
        let refused = api.post(EXPORT, &to(Some(unknown))).await;
        for part in ["destination", unknown, "url", "s3", "warehouse", "lake"] {
            refused.refuses(400, part);
        }
        assert_eq!(refused.body["code"], "invalid-field", "{refused:?}");
    }
    for wrong in [json!(""), json!("Lake"), json!(7), json!(["lake"])] {
        let body = json!({ "fields_to_export": ["email"], "destination": wrong });
        api.post(EXPORT, &body).await.refuses(400, "destination");
    }
    let listed = api.get("/users/export").await.body;
    assert_eq!(listed["exports"].as_array().map(Vec::len), Some(5), "{listed}");
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_url_is_a_destination_without_storage() {
    let (fleet, api) = with_users(Backend::Embedded, WorkspaceFile::new("acme"), 1, &[]).await;
    let accepted = api.export(&to(Some("url"))).await;
    api.done(&accepted.prefix).await;
    assert!(accepted.url.is_some(), "{accepted:?}");
    api.post(EXPORT, &to(Some("s3"))).await.refuses(400, "destination");
    fleet.close().await;
}

/// An export keeps the storage that it was requested with.
#[tokio::test(flavor = "multi_thread")]
async fn an_export_ends_in_a_storage_that_was_removed_meanwhile() {
    let warehouse = TestStorage::s3().await;
    let proxy = Proxy::to(warehouse.endpoint()).await;
    let bare = WorkspaceFile::new("acme");
    let declared = bare.clone().with_named_storage("warehouse", &warehouse.at(&proxy.endpoint()));
    let (fleet, api) = with_users(Backend::Embedded, declared, 3, &[]).await;
    proxy.set(ProxyMode::Stuck);
    let accepted = api.export(&to(Some("warehouse"))).await;
    api.status_when(&accepted.prefix, "running", |status| status["state"] == "running").await;

    let file = fleet.write_file("bare.yaml", bare.document().as_bytes());
    let file = file.to_str().expect("a path of ASCII");
    let applied = fleet.run(&["apply", file, "--prune"]).await;
    assert!(applied.contains("- storages.warehouse"), "{applied}");
    api.post(EXPORT, &to(Some("warehouse"))).await.refuses(400, "destination");

    proxy.set(ProxyMode::Open);
    let status = api.done(&accepted.prefix).await;
    assert_eq!(status["destination"], "warehouse", "{status}");
    assert!(has_files(&warehouse, &accepted.prefix).await);
    fleet.close().await;
}
