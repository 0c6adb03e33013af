//! A day after exports of every end nothing of them is left that nobody asked for: no object,
//! no unfinished upload, no temporary file, no row of work.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::support::api::ALL_FIELDS;
use crate::support::fleet::{Backend, Fleet, notice_lost_workers};
use crate::support::http_proxy::{ChooseFault, HttpProxy, NO_FAULT, ProxyFault};
use crate::support::proxy::{Proxy, ProxyMode};
use crate::support::receiver::{Receiver, ScriptedResponse};
use crate::support::storage::TestStorage;
use crate::support::{WorkspaceFile, eventually, open_work, stores, user_records};

const PARTS: usize = 12;
const PER_FILE: usize = 10;

fn settings(built: &TestStorage) -> Vec<(&'static str, String)> {
    vec![
        ("LONGSHORE_OBJECTS_URL", built.objects_url()),
        ("LONGSHORE_EXPORTS__USERS_PER_FILE", PER_FILE.to_string()),
        ("LONGSHORE_EXPORTS__PARTS_IN_FLIGHT", "1".to_owned()),
        ("LONGSHORE_EXPORTS__RETRY_MS", "50".to_owned()),
        ("LONGSHORE_WORKER__LEASE_MS", "1000".to_owned()),
        ("LONGSHORE_DELIVERIES__RETRY_MS", "50".to_owned()),
    ]
}

/// Refuses what is written.
const REFUSE: ChooseFault = |method, _| {
    let refused = ProxyFault::Respond(403, "<Error><Code>AccessDenied</Code></Error>");
    (method == reqwest::Method::PUT).then_some(refused)
};

async fn exports_of_every_end(backend: Backend, worker: &str, built: TestStorage) {
    let storage = TestStorage::s3().await;
    let http_proxy = HttpProxy::start(storage.endpoint(), NO_FAULT).await;
    let proxy = Proxy::to(&http_proxy.endpoint()).await;
    let mut fleet = Fleet::start_with(backend, &settings(&built), notice_lost_workers).await;
    let workspaces = [
        WorkspaceFile::new("own").with_storage(&storage.at(&proxy.endpoint())),
        WorkspaceFile::new("url"),
    ];
    let [own, url] = fleet.apply(&workspaces).await.try_into().ok().expect("two");
    let records: Vec<String> =
        (0..PARTS * PER_FILE).map(|number| user_records::simple(number, 1)).collect();
    for workspace in &workspaces {
        fleet.import(&workspace.name, &records).await;
    }
    let receiver = Receiver::start([ScriptedResponse::Status(500)]).await;
    let body = json!({ "fields_to_export": ALL_FIELDS, "callback_endpoint": receiver.url("/") });

    // Cancelled half way, and failed half way.
    proxy.set(ProxyMode::Slow(std::time::Duration::from_millis(200)));
    let cancelled = own.export(&body).await;
    own.wait_for_files(&cancelled.prefix, 2).await;
    let answer = own.delete(&format!("/users/export/{}", cancelled.prefix)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let failed = own.export(&body).await;
    own.wait_for_files(&failed.prefix, 2).await;
    http_proxy.inject(REFUSE);
    own.failed(&failed.prefix).await;
    http_proxy.inject(NO_FAULT);

    // Done with a worker that was killed half way, in own storage and behind a url.
    let complete = own.export(&body).await;
    own.wait_for_files(&complete.prefix, 2).await;
    let behind_url = url.export(&body).await;
    fleet.kill(worker);
    fleet.launch(worker).await;
    proxy.set(ProxyMode::Open);
    own.done(&complete.prefix).await;
    url.done(&behind_url.prefix).await;
    // Failed for a user who cannot be read.
    let broken = "UPDATE users SET doc = '[]' WHERE external_id = 'user-000017'";
    stores::execute(&fleet.database_url(), broken).await;
    let unread = url.export(&body).await;
    url.failed(&unread.prefix).await;

    open_work::wait_until_done(&fleet).await;
    open_work::expire_exports(&fleet).await;
    eventually("only the whole export is in own storage", || async {
        let keys = storage.list_files().await;
        keys.len() == PARTS && keys.iter().all(|key| key.contains(&complete.prefix))
    })
    .await;
    assert_eq!(built.list().await, Vec::<String>::new());
    // Four callbacks, one of them twice; the cancelled export has none.
    assert_eq!(receiver.wait_for(5).await.len(), 5);
    assert_eq!(strange_files(fleet.directory()), Vec::<PathBuf>::new());
    fleet.close().await;
}

/// Files of the installation that are neither its databases nor its key, nor of the test.
fn strange_files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() {
            found.extend(strange_files(&path));
            continue;
        }
        let of_database = ["store.db", "log.db"].iter().any(|database| name.starts_with(database));
        let of_test = [".out", ".err", ".yaml"].iter().any(|end| name.ends_with(end));
        if !of_database && !of_test && name != "secret.key" && !name.ends_with(".lock") {
            found.push(path);
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn standalone() {
    exports_of_every_end(Backend::Embedded, "standalone", TestStorage::files()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_fleet() {
    exports_of_every_end(Backend::Fleet(2), "worker-1", TestStorage::s3().await).await;
}
