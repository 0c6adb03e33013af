//! The disk of an installation on one machine is full: store and log at once.

use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use serde_json::json;

use super::{PER_FILE, SLOW, endure, settings};
use crate::support::api::{ALL_FIELDS, EXPORT};
use crate::support::checker::{self, ExpectedExport};
use crate::support::eventually;
use crate::support::fleet::{Backend, Fleet};
use crate::support::proxy::{Proxy, ProxyMode};
use crate::support::storage::TestStorage;
use crate::support::{WorkspaceFile, process, stores, user_records};

const PARTS: usize = 20;

/// The size of the disk.
const MEBIBYTES: u32 = 24;

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk() {
    Fleet::can_mount().await;
    let storage = TestStorage::s3().await;
    let proxy = Proxy::to(storage.endpoint()).await;
    let mut fleet = Fleet::start(Backend::Embedded, &settings()).await;
    let workspace = WorkspaceFile::new("acme").with_storage(&storage.at(&proxy.endpoint()));
    let api = fleet.apply(std::slice::from_ref(&workspace)).await.remove(0);
    let records: Vec<String> =
        (0..PARTS * PER_FILE).map(|number| user_records::simple(number, 1)).collect();
    fleet.import("acme", &records).await;
    let segment = fleet.segment_id("acme").await;
    fleet.terminate("standalone").await;
    fleet.launch_on_disk(MEBIBYTES).await;

    proxy.set(SLOW);
    let accepted = api.export_all().await;
    api.wait_for_files(&accepted.prefix, 2).await;
    let data = fleet.seen_by("standalone", &fleet.directory().join("data"));
    fill(&data).await;
    let answer = api.post(EXPORT, &json!({ "fields_to_export": ["email"] })).await;
    assert_eq!(answer.status, 503, "{answer:?}");
    eventually("it is not ready", async || fleet.readiness("standalone").await.0 == 503).await;
    let (_, reasons) = fleet.readiness("standalone").await;
    assert!(reasons.contains("cannot write to the database"), "{reasons}");
    assert!(reasons.contains("cannot append to the log"), "{reasons}");
    endure(&fleet, "the disk: full").await;
    assert_eq!(api.status(&accepted.prefix).await["state"], "running");

    std::fs::remove_file(data.join(FILLER)).expect("room is made");
    fleet.ready("standalone").await;
    proxy.set(ProxyMode::Open);
    let status = api.done(&accepted.prefix).await;
    let days = checker::export_days(&status);
    let wanted = ExpectedExport { fields: &ALL_FIELDS, days, prefix: &accepted.prefix };
    let files = checker::own_files(&storage, &segment, "zip", &wanted).await;
    checker::check_export(&files, PARTS, &records, &wanted);
    let another = api.export_all().await;
    api.done(&another.prefix).await;
    fleet.close().await;
}

/// Only the disk of the objects is full: what reads no object works.
#[tokio::test(flavor = "multi_thread")]
async fn exports_are_listed_while_the_disk_of_the_objects_is_full() {
    Fleet::can_mount().await;
    let fleet = Fleet::start(Backend::Embedded, &[]).await;
    let api = fleet.apply(&[WorkspaceFile::new("acme")]).await.remove(0);
    let prefix = api.export_all().await.prefix;
    api.done(&prefix).await;
    let objects = fleet.directory().join("disk");
    std::fs::create_dir(&objects).expect("a directory");
    let mut environment = fleet.environment().clone();
    environment.insert("LONGSHORE_OBJECTS_URL".into(), format!("file://{}", objects.display()));
    // No file or folder can be created.
    let script = "mount -t tmpfs -o nr_inodes=1 tmpfs disk\nexec \"$0\" \"$@\"";
    let run = async |arguments: &[&str]| {
        let mut command = process::program("unshare", fleet.directory(), &environment);
        command.args(["--mount", "--map-root-user", "bash", "-euc", script, process::BINARY]);
        command.args(arguments);
        process::output(command).await
    };
    for arguments in [&["export", "list"][..], &["export", "status", &prefix]] {
        let output = run(arguments).await;
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {error}");
        assert!(String::from_utf8_lossy(&output.stdout).contains(&prefix), "{arguments:?}");
    }
    let doctor = run(&["doctor"]).await;
    let said = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(!doctor.status.success() && said.contains("disk is full"), "{said}");
    fleet.close().await;
}

const FILLER: &str = "filler";

/// Leaves no room below the directory, nor within the files that already exist.
async fn fill(data: &Path) {
    let store = format!("sqlite://{}", data.join("store.db").display());
    stores::execute(&store, "PRAGMA wal_checkpoint(TRUNCATE)").await;
    let mut filler = File::create(data.join(FILLER)).expect("a file on the disk");
    let full = loop {
        if let Err(error) = filler.write_all(&[1; 4_096]) {
            break error;
        }
    };
    assert_eq!(full.kind(), ErrorKind::StorageFull);
}
