//! The database loses a plan whose files are already written, as in a failover to an asynchronous
//! standby: the export is planned again, and its folder has the files of the second plan only.

use uuid::Uuid;

use super::{PARTS, Scene};
use crate::support::fleet::Backend;
use crate::support::storage::TestStorage;
use crate::support::{eventually, killed, stores};

/// Brings the only export back to the moment before its plan.
async fn lose_the_plan(scene: &Scene) {
    for statement in [
        "DELETE FROM claims WHERE kind IN ('export_part', 'export_finish')",
        "DELETE FROM export_parts",
        "DELETE FROM export_counts",
        "UPDATE export_jobs
         SET state = 'queued', plan = NULL, users = NULL, parts = NULL, shards = NULL,
             shards_left = NULL, completed_at = NULL",
        "INSERT INTO claims (kind, job, item, due_at, workspace_id)
         SELECT 'export_plan', id, 0, 0, workspace_id FROM export_jobs",
    ] {
        stores::execute(&scene.fleet.database_url(), statement).await;
    }
}

/// The process ends at `point`, when so many files are written, and the plan is lost.
async fn killed_at(point: &str, written: usize) {
    let failing = format!("{point}=kill");
    let mut scene = Scene::own(Backend::Fleet(1), ("worker-1", &failing)).await;
    let accepted = scene.request().await;
    scene.fleet.wait_until_exited("worker-1").await;
    let storage = scene.storage.as_ref().expect("own storage");
    assert_eq!(storage.list_files().await.len(), written);
    lose_the_plan(&scene).await;
    scene.fleet.launch("worker-1").await;
    scene.ends_whole(&accepted.prefix).await;
    scene.fleet.close().await;
}

killed! {
    while_files_are_written: "part::uploaded@3", 3;
    after_the_manifest: "finish::stored", PARTS;
}

/// A worker of the lost plan writes a file after the export is done. What others write there stays.
#[tokio::test(flavor = "multi_thread")]
async fn late_files_are_deleted_from_a_finished_export() {
    let storage = TestStorage::s3().await;
    let scene = Scene::new(Backend::Fleet(1), Some(storage.clone()), ("gateway", "")).await;
    let accepted = scene.request().await;
    scene.ends_whole(&accepted.prefix).await;
    let files = storage.list_files().await;
    let (folder, _) = files[0].rsplit_once('/').expect("a folder");
    let late = format!("{folder}/{}.zip", Uuid::new_v4());
    let others = ["_SUCCESS", "users.zip", "unpacked/users.json"];
    let others = others.map(|name| format!("{folder}/{name}"));
    for key in others.iter().chain([&late]) {
        storage.put(key, b"of others").await;
    }
    let database = scene.fleet.database_url();
    eventually("the late file is deleted", || async {
        let due = "UPDATE claims SET due_at = 0 WHERE kind = 'export_cleanup' AND owner IS NULL";
        stores::execute(&database, due).await;
        !storage.list().await.contains(&late)
    })
    .await;
    let mut expected: Vec<String> = files.into_iter().chain(others).collect();
    expected.sort();
    assert_eq!(storage.list_files().await, expected);
    scene.fleet.close().await;
}
