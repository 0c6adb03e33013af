//! Catalogs on both databases: declared and loaded as the workspace file says, edits handed to
//! the worker's handler as a runner does.

mod bounds;
mod gateways;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use kit::retry::Retry as _;
use log::Message;
use longshore::app::App;
use longshore::catalogs::apply::{ApplyEdits, ApplyError};
use longshore::catalogs::{items, known, rows, sweep};
use longshore::engine::batches::Handler as _;
use longshore::setup;
use longshore::topics;
use longshore::workspace_file::apply::apply;
use longshore::workspace_file::change::Options;
use longshore::workspace_file::file;
use longshore::workspaces::only_or_named;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::eventually;
use crate::support::stores::{TestStore, on_both_stores};

on_both_stores!(World =>
    a_catalog_is_declared_and_loaded_once,
    edits_stay_until_the_file_changes,
    removed_declarations_are_deleted_only_with_prune,
    a_file_with_bad_lines_changes_nothing,
    a_type_is_kept_while_there_are_items,
    edits_are_merged_in_their_order,
    edits_of_missing_items_are_recorded,
    a_recreated_catalog_is_new,
    an_edit_of_a_former_catalog_is_applied_to_the_one_of_its_name,
    items_of_a_deleted_catalog_go_with_the_next_pass,
    edits_of_one_item_at_once_all_count,
    old_edit_outcomes_are_deleted,
    definitions_stay_usable_while_the_store_is_down,
);

struct World {
    app: App,
    edits: ApplyEdits,
    _test: TestStore,
}

impl World {
    async fn new(test: TestStore) -> Self {
        let app = App::open(test.config.clone()).await.unwrap();
        setup::run(&app).await.unwrap();
        Self { edits: ApplyEdits::new(&app), app, _test: test }
    }

    /// Applies a workspace file that declares these catalogs, with these files of items; returns
    /// the changes and notes.
    async fn declare(
        &self,
        catalogs: Value,
        files: &[(&str, &str)],
        prune: bool,
    ) -> Result<(Vec<String>, Vec<String>), String> {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(directory.path().join(name), text).unwrap();
        }
        let text = json!({ "workspace": "acme", "catalogs": catalogs }).to_string();
        let mut declared = file::read(&text, &|_| None).map_err(|error| error.to_string())?;
        declared.workspaces[0].relative_to(directory.path());
        let options = Options { prune, ..Options::default() };
        let applied = apply(&self.app, &declared.workspaces[0], options)
            .await
            .map_err(|error| error.to_string())?;
        let about_catalogs = |text: &String| text.contains("catalog");
        let changes = applied.changes.iter().map(ToString::to_string).filter(about_catalogs);
        Ok((changes.collect(), applied.notes))
    }

    /// The usual catalog with some items of a city each.
    async fn restaurants(&self, ids: &[&str]) -> rows::StoredCatalog {
        let lines: Vec<String> =
            ids.iter().map(|id| json!({ "id": id, "City": "Oslo" }).to_string()).collect();
        self.declare(restaurants(), &[("r.ndjson", &lines.join("\n"))], false).await.unwrap();
        self.stored().await.remove(0)
    }

    async fn workspace(&self) -> i32 {
        let mut tx = self.app.store.snapshot().await.unwrap();
        only_or_named(&mut tx, None).await.unwrap().id
    }

    async fn stored(&self) -> Vec<rows::StoredCatalog> {
        let workspace = self.workspace().await;
        rows::stored(&mut self.app.store.snapshot().await.unwrap(), workspace).await.unwrap()
    }

    /// All items of the first catalog, as lines.
    async fn items(&self) -> Vec<Value> {
        let catalog = self.stored().await[0].catalog.id;
        let mut tx = self.app.store.snapshot().await.unwrap();
        let (mut lines, mut after) = (Vec::new(), String::new());
        loop {
            let page = rows::items_after(&mut tx, catalog, &after, 1_000).await.unwrap();
            let line = |item: &rows::StoredItem| items::line(&item.item_id, &item.doc);
            lines.extend(page.items.iter().map(|item| serde_json::from_str(&line(item)).unwrap()));
            let Some(last) = page.items.last().filter(|_| page.has_more) else { return lines };
            after.clone_from(&last.item_id);
        }
    }

    fn message(&self, catalog: i32, items: &Value) -> Message {
        self.message_of(1, catalog, items)
    }

    fn message_of(&self, workspace: i32, catalog: i32, items: &Value) -> Message {
        let edit = json!({
            "v": 1, "workspace": workspace, "catalog": catalog,
            "received_at": self.app.clock.now_ms(), "items": items,
        });
        Message {
            topic: topics::CATALOGS,
            partition: 0,
            offset: 0,
            appended_at: 0,
            log_time: None,
            key: Vec::new(),
            payload: edit.to_string().into_bytes(),
            request_id: "a-request".into(),
        }
    }

    async fn try_apply(&self, messages: &[Message]) -> Result<(), ApplyError> {
        let prepared = self.edits.prepare(messages).await?;
        let mut tx = self.app.store.write().await?;
        let applied = self.edits.apply(&mut tx, &prepared).await?;
        tx.commit().await?;
        self.edits.applied(applied);
        Ok(())
    }

    /// As a runner does: again, where that can help.
    async fn apply(&self, messages: &[Message]) {
        eventually("the edits are applied", async || match self.try_apply(messages).await {
            Ok(()) => true,
            Err(error) => {
                assert!(error.can_retry(), "{error}");
                false
            }
        })
        .await;
    }

    /// Applied items, and how many are unknown with the ids of some, of each record of a catalog.
    async fn records(&self, catalog: i32) -> Vec<(i32, i32, String)> {
        let mut tx = self.app.store.snapshot().await.unwrap();
        let records = rows::latest_edits(&mut tx, catalog, None, 100).await.unwrap();
        assert!(records.iter().all(|record| record.request_id == "a-request"), "{records:?}");
        let record = |row: rows::EditRow| (row.applied, row.unknown, row.unknown_ids);
        records.into_iter().map(record).collect()
    }
}

fn restaurants() -> Value {
    let fields = json!([
        { "name": "City", "type": "string" }, { "name": "Rating", "type": "number" },
        { "name": "Open", "type": "boolean" },
    ]);
    json!([{ "name": "restaurants", "fields": fields, "items": "r.ndjson" }])
}

async fn a_catalog_is_declared_and_loaded_once(world: World) {
    let many: Vec<String> =
        (0..2_500).map(|n| json!({ "id": format!("r{n}"), "Rating": n }).to_string()).collect();
    let files = [("r.ndjson", many.join("\n"))];
    let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
    let (changes, notes) = world.declare(restaurants(), &files, false).await.unwrap();
    assert_eq!(
        changes,
        [
            "+ catalog restaurants (City: string, Rating: number, Open: boolean)",
            "+ items of catalog restaurants (2,500 items)",
        ]
    );
    assert_eq!(notes, Vec::<String>::new());
    let stored = world.stored().await.remove(0);
    assert_eq!(
        (stored.items, stored.stale_items, stored.catalog.fields.all().len()),
        (2_500, 0, 3)
    );
    for prune in [false, true] {
        let again = world.declare(restaurants(), &files, prune).await.unwrap();
        assert_eq!(again, (Vec::new(), Vec::new()));
    }
}

async fn edits_stay_until_the_file_changes(world: World) {
    let catalog = world.restaurants(&["a", "b"]).await.catalog.id;
    let edit = json!([{ "id": "a", "values": { "City": "Nara", "Rating": 4.5 } }]);
    world.apply(&[world.message(catalog, &edit)]).await;
    let edited = json!({ "id": "a", "City": "Nara", "Rating": 4.5 });
    world.restaurants(&["a", "b"]).await;
    assert_eq!(world.items().await[0], edited);
    let stored = world.restaurants(&["a", "c"]).await;
    assert_eq!((stored.items, stored.stale_items), (3, 1));
    assert_eq!(world.items().await[0], json!({ "id": "a", "City": "Oslo" }));
}

async fn removed_declarations_are_deleted_only_with_prune(world: World) {
    world.restaurants(&["a", "b", "c"]).await;
    let file = [("r.ndjson", r#"{"id":"a","City":"Oslo"}"#)];
    let (changes, _) = world.declare(restaurants(), &file, false).await.unwrap();
    assert_eq!(changes, ["~ items of catalog restaurants (1 item)"]);
    let (changes, notes) = world.declare(restaurants(), &file, false).await.unwrap();
    assert!(
        changes.is_empty() && notes[0].starts_with("2 items of catalog restaurants"),
        "{notes:?}"
    );
    let (changes, _) = world.declare(restaurants(), &file, true).await.unwrap();
    assert_eq!(changes, ["- items of catalog restaurants (2 items)"]);
    assert_eq!(world.items().await, [json!({ "id": "a", "City": "Oslo" })]);

    let mut fewer = restaurants();
    fewer[0]["fields"].as_array_mut().unwrap().remove(0);
    let text = [("r.ndjson", r#"{"id":"b","Rating":1}"#)];
    let (changes, notes) = world.declare(fewer.clone(), &text, false).await.unwrap();
    assert_eq!(changes[1], "~ items of catalog restaurants (1 item)");
    assert!(notes.iter().any(|note| note.contains("field City")), "{notes:?}");
    assert_eq!(world.stored().await[0].catalog.fields.all().len(), 3);
    world.declare(fewer.clone(), &text, true).await.unwrap();
    assert_eq!(world.stored().await[0].catalog.fields.all().len(), 2);
    assert_eq!(world.items().await, [json!({ "id": "b", "Rating": 1 })]);

    fewer[0].as_object_mut().unwrap().remove("items");
    let (changes, notes) = world.declare(fewer.clone(), &[], false).await.unwrap();
    assert!(changes.is_empty() && notes[0].contains("--prune"), "{changes:?} {notes:?}");
    world.declare(fewer.clone(), &[], true).await.unwrap();
    assert_eq!(world.items().await, Vec::<Value>::new());
    world.declare(json!([]), &[], false).await.unwrap();
    assert_eq!(world.stored().await.len(), 1);
    let (changes, _) = world.declare(json!([]), &[], true).await.unwrap();
    assert_eq!(changes, ["- catalog restaurants (0 items)"]);
    assert_eq!(world.stored().await, []);
}

async fn a_file_with_bad_lines_changes_nothing(world: World) {
    let text = "{\"id\":\"a\"}\n{\"id\":\"b\",\"Rating\":\"x\"}\n{\"id\":\"a\"}\n";
    let error = world.declare(restaurants(), &[("r.ndjson", text)], false).await.unwrap_err();
    for part in ["restaurants", "r.ndjson:2: \"Rating\" is", "r.ndjson:3: duplicate id a"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    let error = world.declare(restaurants(), &[], false).await.unwrap_err();
    assert!(error.contains("r.ndjson: "), "{error}");
    world.declare(json!([]), &[], false).await.unwrap();
    assert_eq!(world.stored().await, []);
}

async fn a_type_is_kept_while_there_are_items(world: World) {
    world.restaurants(&[]).await;
    let mut other = restaurants();
    other[0]["fields"][0]["type"] = "number".into();
    let with_item = [("r.ndjson", r#"{"id":"a","City":7}"#)];
    world.declare(other, &with_item, false).await.unwrap();
    let error = world.declare(restaurants(), &[("r.ndjson", "")], true).await.unwrap_err();
    assert!(error.contains("field City has type number but the file declares string"), "{error}");
}

async fn edits_are_merged_in_their_order(world: World) {
    let catalog = world.restaurants(&["a", "b"]).await.catalog.id;
    let edit = |id: &str, values: Value| json!([{ "id": id, "values": values }]);
    let edits = [
        edit("a", json!({ "City": "Quito", "Rating": 1 })),
        edit("b", json!({ "City": null })),
        edit("a", json!({ "Rating": null, "Open": true })),
        edit("a", json!({ "Rating": 2.50 })),
        edit("b", json!({ "City": null, "Rating": null })),
    ];
    let messages: Vec<Message> = edits.iter().map(|edit| world.message(catalog, edit)).collect();
    world.apply(&messages).await;
    let a = json!({ "id": "a", "City": "Quito", "Open": true, "Rating": 2.5 });
    assert_eq!(world.items().await, [a, json!({ "id": "b" })]);
    // What changes nothing is not written.
    let versions = |items: Vec<rows::StoredItem>| -> Vec<i64> {
        items.iter().map(|item| item.version).collect()
    };
    let read = async || {
        let mut tx = world.app.store.snapshot().await.unwrap();
        versions(rows::items_after(&mut tx, catalog, "", 10).await.unwrap().items)
    };
    let before = read().await;
    world.apply(&messages[4..]).await;
    assert_eq!(read().await, before);
}

async fn edits_of_missing_items_are_recorded(world: World) {
    let catalog = world.restaurants(&["a"]).await.catalog.id;
    let edit = json!([
        { "id": "a", "values": { "Gone": "x", "Rating": "not a number", "Open": false } },
        { "id": "x", "values": { "City": "y" } }, { "id": "y", "values": {} },
    ]);
    let (known, gone) = (world.message(catalog, &edit), world.message(catalog + 100, &edit));
    let elsewhere = world.message_of(2, catalog, &json!([{ "id": "a", "values": {"City": "z"} }]));
    world.apply(&[known, gone, elsewhere]).await;
    let a = json!({ "id": "a", "City": "Oslo", "Open": false });
    assert_eq!(
        world.items().await,
        [a],
        "fields that the catalog has not, or not so, are left out"
    );
    assert_eq!(world.records(catalog).await, [(1, 2, r#"["x","y"]"#.to_owned())]);
    assert_eq!(world.records(catalog + 100).await, []);
    let mut damaged = world.message(catalog, &edit);
    damaged.payload.truncate(20);
    let error = world.try_apply(&[damaged]).await.unwrap_err();
    assert!(!error.can_retry(), "{error}");
    let mut newer = world.message(catalog, &edit);
    newer.payload = br#"{"v":3,"edits":[]}"#.to_vec();
    let error = world.try_apply(&[newer]).await.unwrap_err();
    assert!(error.can_retry() && !error.is_too_large(), "{error}");
}

async fn a_recreated_catalog_is_new(world: World) {
    let edit = json!([{ "id": "a", "values": { "City": "Nara" } }]);
    let before = world.restaurants(&["a"]).await.catalog.id;
    world.apply(&[world.message(before, &edit)]).await;
    world.declare(json!([]), &[], true).await.unwrap();
    let after = world.restaurants(&["a"]).await.catalog.id;
    world.apply(&[world.message(before, &edit)]).await;
    assert_eq!(world.items().await, [json!({ "id": "a", "City": "Oslo" })]);
    // The outcome of its edits goes with the next pass.
    assert_eq!(world.records(before).await.len(), 1);
    world.apply(&[world.message(after, &edit)]).await;
    sweep::sweep(&world.app, &CancellationToken::new()).await.unwrap();
    assert_eq!(world.records(before).await, []);
    assert_eq!(world.records(after).await.len(), 1);
}

async fn an_edit_of_a_former_catalog_is_applied_to_the_one_of_its_name(world: World) {
    let before = world.restaurants(&["a"]).await.catalog.id;
    world.declare(json!([]), &[], true).await.unwrap();
    let after = world.restaurants(&["a"]).await.catalog.id;
    let now = world.app.clock.now_ms();
    let message = |city: &str, received_at: i64| {
        let edit = json!({
            "v": 1, "workspace": 1, "catalog": before, "name": "restaurants",
            "received_at": received_at, "items": [{ "id": "a", "values": { "City": city } }],
        });
        Message { payload: edit.to_string().into_bytes(), ..world.message(before, &json!([])) }
    };
    // The second was accepted before there was another catalog.
    world.apply(&[message("Nara", now), message("Rome", 5)]).await;
    assert_eq!(world.items().await, [json!({ "id": "a", "City": "Nara" })]);
    assert_eq!(world.records(after).await, [(1, 0, "[]".to_owned())]);
    assert_eq!(world.records(before).await, []);
}

async fn items_of_a_deleted_catalog_go_with_the_next_pass(world: World) {
    let before = world.restaurants(&["a", "b"]).await.catalog.id;
    world.declare(json!([]), &[], true).await.unwrap();
    world.restaurants(&["c"]).await;
    let left = async || {
        let mut tx = world.app.store.snapshot().await.unwrap();
        rows::items_after(&mut tx, before, "", 1_000).await.unwrap().items.len()
    };
    assert_eq!(left().await, 2, "a large catalog is not deleted in one transaction");
    sweep::sweep(&world.app, &CancellationToken::new()).await.unwrap();
    assert_eq!(left().await, 0);
    assert_eq!(world.items().await, [json!({ "id": "c", "City": "Oslo" })]);
}

async fn edits_of_one_item_at_once_all_count(world: World) {
    const EDITS: i64 = 25;
    let catalog = world.restaurants(&["a"]).await.catalog.id;
    let world = Arc::new(world);
    let tasks = ["City", "Rating", "Open"].map(|field| {
        let world = world.clone();
        tokio::spawn(async move {
            for n in 0..EDITS {
                let value = match field {
                    "City" => json!(n.to_string()),
                    "Rating" => json!(n),
                    _ => json!(n % 2 == 0),
                };
                let edit = json!([{ "id": "a", "values": { field: value } }]);
                world.apply(&[world.message(catalog, &edit)]).await;
            }
        })
    });
    for task in tasks {
        task.await.unwrap();
    }
    let last = json!({ "id": "a", "City": "24", "Rating": 24, "Open": true });
    assert_eq!(world.items().await, [last]);
    assert_eq!(world.records(catalog).await.len(), 3 * EDITS as usize);
}

async fn old_edit_outcomes_are_deleted(world: World) {
    let catalog = world.restaurants(&["a"]).await.catalog.id;
    let edit = json!([{ "id": "a", "values": { "Rating": 1 } }]);
    world.apply(&[world.message(catalog, &edit)]).await;
    let never = CancellationToken::new();
    sweep::sweep(&world.app, &never).await.unwrap();
    assert_eq!(world.records(catalog).await.len(), 1);
    world.app.clock.set(world.app.clock.now() + sweep::RETENTION + Duration::from_secs(1));
    sweep::sweep(&world.app, &never).await.unwrap();
    assert_eq!(world.records(catalog).await, []);
}

async fn definitions_stay_usable_while_the_store_is_down(world: World) {
    let (id, workspace) = (world.restaurants(&[]).await.catalog.id, world.workspace().await);
    let find = async |name: &'static str| known::find(&world.app, workspace, name).await.unwrap();
    assert_eq!(find("restaurants").await.unwrap().id, id);
    assert!(find("nobody").await.is_none());
    world.app.store.close().await;
    // Longer than they are kept without a look.
    tokio::time::sleep(Duration::from_millis(5_100)).await;
    assert_eq!(find("restaurants").await.unwrap().id, id);
    assert!(known::find(&world.app, workspace + 1, "restaurants").await.is_err());
}
