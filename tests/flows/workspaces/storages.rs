//! Named storages of workspaces.

use kit::secrets::SecretKey;
use longshore::exports::sweep;
use longshore::setup;
use longshore::workspace_file::change::Options;
use longshore::workspaces;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{World, acme, lines};
use crate::support::servers;
use crate::support::storage::TestStorage;
use crate::support::stores::{on_both_stores, on_pool};

on_both_stores!(World =>
    named_storages_are_tried_kept_changed_and_removed,
    credentials_of_named_storages_are_encrypted_and_rotated,
    replaced_settings_are_deleted_once_no_export_has_them,
);

fn named(name: &str, test_storage: &TestStorage) -> Value {
    let (kind, settings) = test_storage.storage();
    json!({ "name": name, kind: settings })
}

fn file(storages: &[Value]) -> String {
    acme(&format!("storages: {}\n", json!(storages)))
}

fn bucket(test_storage: &TestStorage) -> String {
    test_storage.storage().1["bucket"].as_str().unwrap().to_owned()
}

impl World {
    /// The ids of these storages.
    async fn named_storages<const N: usize>(&self, names: [&str; N]) -> [Uuid; N] {
        let workspace = self.workspace().await;
        let mut tx = self.app.store.snapshot().await.unwrap();
        let stored = workspaces::named_storages(&mut tx, workspace.id).await.unwrap();
        let stored_names: Vec<&str> = stored.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(stored_names, names);
        std::array::from_fn(|n| stored[n].1)
    }

    async fn are_stored(&self, settings: Uuid) -> bool {
        let mut tx = self.app.store.snapshot().await.unwrap();
        workspaces::storage::kind(&mut tx, settings).await.is_ok()
    }

    /// Runs a statement about exports with settings.
    async fn change_exports(&self, sql: &'static str, settings: Uuid) {
        let changed = on_pool!(&self.app.store, pool => {
            sqlx::query(sql).bind(settings).execute(pool).await.map(|done| done.rows_affected())
        });
        assert_eq!(changed.expect(sql), 1, "{sql}");
    }
}

async fn named_storages_are_tried_kept_changed_and_removed(world: World) {
    let (first, second) = (TestStorage::s3().await, TestStorage::s3().await);
    let azure = TestStorage::azure().await;
    let missing = servers::new_name();
    let text = file(&[named("warehouse", &first), named("lake", &azure)]);
    let error = world.apply(&text.replace(&bucket(&first), &missing)).await.err().unwrap();
    assert!(error.contains("storages.warehouse") && error.contains(&missing), "{error}");
    assert!(!error.contains(&first.secret().unwrap()), "{error}");
    let mut tx = world.app.store.snapshot().await.unwrap();
    assert!(workspaces::list(&mut tx).await.unwrap().is_empty(), "a refused file left something");
    drop(tx);

    let added = lines(&world.apply(&text).await.unwrap());
    for start in ["+ storages.warehouse (bucket ", "+ storages.lake (container "] {
        assert!(added.iter().any(|line| line.starts_with(start)), "{added:?}");
    }
    let [lake, warehouse] = world.named_storages(["lake", "warehouse"]).await;
    assert!(world.apply(&text).await.unwrap().changes.is_empty());
    assert_eq!(world.named_storages(["lake", "warehouse"]).await, [lake, warehouse]);
    // They are used by those that name them.
    assert_eq!(world.workspace().await.own_storage(), None);
    let doctor = world.run(&["doctor", "--json"]).await;
    let doctor = String::from_utf8(doctor.stdout).unwrap();
    for subject in ["storages.warehouse of acme", "storages.lake of acme"] {
        let finding = doctor.lines().find(|line| line.contains(subject));
        let finding: Value = serde_json::from_str(finding.expect(subject)).unwrap();
        assert_eq!(finding["ok"], true, "{finding}");
    }

    let moved = file(&[named("warehouse", &second), named("lake", &azure)]);
    let changed = lines(&world.apply(&moved).await.unwrap());
    let [line] = changed.as_slice() else { panic!("{changed:?}") };
    assert!(
        line.starts_with("~ storages.warehouse (") && line.contains(&bucket(&second)),
        "{line}"
    );
    let [same_lake, moved] = world.named_storages(["lake", "warehouse"]).await;
    assert!(same_lake == lake && moved != warehouse);

    let kept = world.apply(&acme("")).await.unwrap();
    assert!(kept.changes.is_empty(), "{:?}", lines(&kept));
    assert!(kept.notes.iter().any(|note| note.contains("storages.lake")), "{:?}", kept.notes);
    let prune = Options { prune: true, ..Options::default() };
    let removed = lines(&world.apply_with(&acme(""), prune).await.unwrap());
    assert_eq!(removed.len(), 2, "{removed:?}");
    world.named_storages([]).await;
    assert!(world.apply_with(&acme(""), prune).await.unwrap().changes.is_empty());
    // Exports that were requested before keep theirs.
    for storage in [lake, warehouse, moved] {
        workspaces::open_storage(&world.app, storage).await.unwrap();
    }
}

async fn credentials_of_named_storages_are_encrypted_and_rotated(world: World) {
    let test_storage = TestStorage::s3().await;
    world.apply(&file(&[named("warehouse", &test_storage)])).await.unwrap();
    let [warehouse] = world.named_storages(["warehouse"]).await;
    let (stored, secret) = (world.everything_stored().await, test_storage.secret().unwrap());
    let is_there = |text: &[u8]| stored.windows(text.len()).any(|window| window == text);
    assert!(is_there(b"warehouse") && !is_there(secret.as_bytes()));

    let (new, former) = (SecretKey::generate(), world.test.config.secret_key.as_ref());
    let both = world.with_secret_key(&new, former).await;
    assert!(setup::run(&both).await.unwrap().rotated, "the keys were rotated");
    let only_new = world.with_secret_key(&new, None).await;
    workspaces::open_storage(&only_new, warehouse).await.unwrap();
    assert!(workspaces::open_storage(&world.app, warehouse).await.is_err());
}

async fn replaced_settings_are_deleted_once_no_export_has_them(world: World) {
    let (first, second) = (TestStorage::s3().await, TestStorage::s3().await);
    let own_storage = TestStorage::s3().await;
    let (own, _) = super::storage(&own_storage);
    let text =
        |lake: &TestStorage| acme(&format!("{own}storages: {}\n", json!([named("lake", lake)])));
    let stop = CancellationToken::new();
    world.apply(&text(&first)).await.unwrap();
    let own = world.workspace().await.s3_storage.expect("own storage");
    let [replaced] = world.named_storages(["lake"]).await;
    assert!(sweep::unused_settings(&world.app).await.unwrap().is_empty());
    world.apply(&text(&second)).await.unwrap();
    let [current] = world.named_storages(["lake"]).await;
    let unused = sweep::unused_settings(&world.app).await.unwrap();
    assert_eq!(unused, [replaced]);

    // A request that read them before stores its export late.
    let requested = "INSERT INTO export_jobs (id, workspace_id, object_prefix, segment_id, state,
                         fields, format, storage_id, request_id, requested_at, queued_at)
                     SELECT id, workspace_id, 'late', id, 'queued', '[]', 'zip', id, 'r', 0, 0
                     FROM storages WHERE id = $1";
    world.change_exports(requested, replaced).await;
    sweep::delete_settings(&world.app, &unused, &stop).await.unwrap();
    assert!(world.are_stored(replaced).await);
    assert!(sweep::unused_settings(&world.app).await.unwrap().is_empty());

    world.change_exports("DELETE FROM export_jobs WHERE storage_id = $1", replaced).await;
    let unused = sweep::unused_settings(&world.app).await.unwrap();
    assert_eq!(unused, [replaced]);
    // Others that are replaced meanwhile stay until the next pass.
    world.apply(&text(&first)).await.unwrap();
    sweep::delete_settings(&world.app, &unused, &stop).await.unwrap();
    assert!(!world.are_stored(replaced).await);
    assert_eq!(sweep::unused_settings(&world.app).await.unwrap(), [current]);
    let [latest] = world.named_storages(["lake"]).await;
    for settings in [own, current, latest] {
        workspaces::open_storage(&world.app, settings).await.unwrap();
    }
}
