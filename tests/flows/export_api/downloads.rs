//! The life of a download address, and who may use it.

use serde_json::{Value, json};

use super::{way_to_s3, with_users};
use crate::support::api::ALL_FIELDS;
use crate::support::checker::{self, ExpectedExport};
use crate::support::fleet::Backend;
use crate::support::proxy::ProxyMode;
use crate::support::storage::TestStorage;
use crate::support::workspace::WorkspaceFile;
use crate::support::{eventually, stores, user_records};

/// A download address: not before the export is ready, not with another signature, not
/// after its time; and then the file is gone from the storage, too.
#[tokio::test(flavor = "multi_thread")]
async fn the_life_of_a_download_address() {
    let (storage, proxy) = (TestStorage::s3().await, way_to_s3().await);
    let settings = [("LONGSHORE_OBJECTS_URL", storage.at(&proxy.endpoint()).objects_url())];
    let (fleet, api) =
        with_users(Backend::Embedded, WorkspaceFile::new("acme"), 50, &settings).await;
    proxy.set(ProxyMode::Closed);
    let accepted = api.export_all().await;
    let address = accepted.address();
    api.open(address).await.refuses(403, "not ready");
    // Known to nobody without its signature, ready or not.
    let (path, signature) = address.split_once("signature=").expect("a signature");
    let mut other: Vec<char> = signature.chars().collect();
    other[3] = if other[3] == 'A' { 'B' } else { 'A' };
    let forged = [
        path.trim_end_matches('?').to_owned(),
        format!("{path}signature="),
        format!("{path}signature={signature}&signature=x"),
        address.replace(&accepted.prefix, "%ff"),
        format!("{path}signature={}", other.iter().collect::<String>()),
        format!("{path}signature={}", &signature[1..]),
        address.replace(&accepted.prefix, &format!("{}0", accepted.prefix)),
    ];
    for address in &forged {
        api.open(address).await.refuses(404, "");
    }
    proxy.set(ProxyMode::Open);
    let status = api.done(&accepted.prefix).await;
    for address in &forged {
        api.open(address).await.refuses(404, "");
    }
    let archive = api.download(address).await;
    let wanted = ExpectedExport {
        fields: &ALL_FIELDS,
        days: checker::export_days(&status),
        prefix: &accepted.prefix,
    };
    let users = checker::lines(&checker::downloaded(&archive), &wanted);
    let records: Vec<String> = (0..50).map(|number| user_records::simple(number, 1)).collect();
    checker::check(&users, checker::exactly(&records), &wanted);

    // Four hours later, according to the rows.
    let database = fleet.database_url();
    stores::execute(&database, "UPDATE export_jobs SET expires_at = 1").await;
    stores::execute(&database, "UPDATE claims SET due_at = 1 WHERE kind = 'export_cleanup'").await;
    api.open(address).await.refuses(403, "expired");
    eventually("the file is gone", || async { storage.list().await.is_empty() }).await;
    api.open(address).await.refuses(403, "expired");
    fleet.close().await;
}

/// A download is for the workspace's `ip_allowlist`, at its address and at the one that this
/// redirects to.
#[tokio::test(flavor = "multi_thread")]
async fn downloads_are_for_the_allowed_addresses() {
    let from = |networks: Value| WorkspaceFile::new("acme").with("ip_allowlist", networks);
    let here = from(json!(["127.0.0.0/8"]));
    let (fleet, api) = with_users(Backend::Embedded, here, 3, &[]).await;
    let accepted = api.export_all().await;
    api.done(&accepted.prefix).await;
    let redirected = api.open(accepted.address()).await;
    assert_eq!(
        (redirected.status.as_u16(), &redirected.headers["cache-control"]),
        (302, &"no-store".parse().unwrap())
    );
    let file = redirected.headers["location"].to_str().expect("an address").to_owned();
    let archive = api.open(&file).await;
    assert_eq!(
        (archive.status.as_u16(), &archive.headers["cache-control"]),
        (200, &"no-store".parse().unwrap())
    );
    fleet.apply(&[from(json!(["203.0.113.0/24"]))]).await;
    for address in [accepted.address(), &file] {
        api.open(address).await.refuses(403, "Invalid whitelisted IPs");
    }
    // Who has no signature learns nothing.
    api.open(accepted.address().split('?').next().expect("a path")).await.refuses(404, "");
    fleet.apply(&[from(json!(["203.0.113.0/24", "127.0.0.1"]))]).await;
    assert_eq!(checker::downloaded(&api.download(accepted.address()).await).len(), 1);
    fleet.close().await;
}
