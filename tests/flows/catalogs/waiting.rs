//! Locks on PostgreSQL between edits and declarations.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;

use store::{Store, Tx};

use super::*;
use crate::support::stores::on_postgres;

on_postgres!(World =>
    edits_go_on_while_a_file_is_read,
    declarations_are_not_starved_by_edits,
);

/// Has a file of items at a path that is read twice: the second time it comes to its end after
/// `go_on`.
fn serve(path: PathBuf, lines: String, go_on: mpsc::Receiver<()>) {
    make_pipe(&path);
    std::thread::spawn(move || {
        let open = || std::fs::File::options().write(true).open(&path).unwrap();
        let mut first_pipe = open();
        first_pipe.write_all(lines.as_bytes()).unwrap();
        // Another pipe, before the first one ends: what goes into it is for the second time.
        std::fs::remove_file(&path).unwrap();
        make_pipe(&path);
        drop(first_pipe);
        let mut halting = open();
        halting.write_all(lines.as_bytes()).unwrap();
        go_on.recv().unwrap();
    });
}

fn make_pipe(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status().expect("mkfifo is there");
    assert!(made.success());
}

/// Whether items were read, and more are waited for.
async fn is_reading(store: &Store) -> bool {
    let Store::Postgres { pool, .. } = store else { panic!("this is about PostgreSQL") };
    let sql = "SELECT count(*) FROM pg_stat_activity
               WHERE datname = current_database() AND state = 'idle in transaction'
                 AND query LIKE 'INSERT INTO staged_items%'";
    let reading: i64 = sqlx::query_scalar(sql).fetch_one(pool).await.unwrap();
    reading == 1
}

async fn edits_go_on_while_a_file_is_read(world: World) {
    let catalog = world.restaurants(&["a", "b"]).await.catalog.id;
    let directory = tempfile::tempdir().unwrap();
    let rest = (0..1_500).map(|n| json!({ "id": format!("r{n}"), "City": "Lima" }).to_string());
    let mut lines = vec![json!({ "id": "a", "City": "Rome" }).to_string()];
    lines.extend(rest);
    let (go_on, wait) = mpsc::channel();
    serve(directory.path().join("r.ndjson"), lines.join("\n"), wait);
    let text = json!({ "workspace": "acme", "catalogs": restaurants() }).to_string();
    let mut declared = file::read(&text, &|_| None).unwrap().workspaces.remove(0);
    declared.relative_to(directory.path());
    let app = world.app.clone();
    let applying =
        tokio::spawn(async move { apply(&app, &declared, Options::default()).await.unwrap() });
    eventually("the file is read", async || is_reading(&world.app.store).await).await;
    let to_nara = |id: &str| json!({ "id": id, "values": { "City": "Nara" } });
    let edit = json!([to_nara("a"), to_nara("b")]);
    world.try_apply(&[world.message(catalog, &edit)]).await.unwrap();
    assert_eq!(world.items().await[1]["City"], "Nara");
    go_on.send(()).unwrap();
    applying.await.unwrap();
    let stored = world.stored().await.remove(0);
    assert_eq!((stored.items, stored.stale_items), (1_502, 1));
    let items = world.items().await;
    assert_eq!(items[0], json!({ "id": "a", "City": "Rome" }), "the file's is the last word");
    assert_eq!(items[1], json!({ "id": "b", "City": "Nara" }));
}

/// Begins to apply edits of a catalog.
async fn share(store: Store, catalog: i32) -> Tx {
    let mut tx = store.write().await.unwrap();
    assert_eq!(rows::share(&mut tx, &[catalog]).await.unwrap().len(), 1);
    tx
}

/// How many wait for a catalog.
async fn waiting(store: &Store) -> i64 {
    let Store::Postgres { pool, .. } = store else { panic!("this is about PostgreSQL") };
    let sql = "SELECT count(*) FROM pg_locks
               WHERE NOT granted AND locktype = 'advisory' AND database =
                   (SELECT oid FROM pg_database WHERE datname = current_database())";
    sqlx::query_scalar(sql).fetch_one(pool).await.unwrap()
}

async fn declarations_are_not_starved_by_edits(world: World) {
    let catalog = world.restaurants(&["a"]).await.catalog.id;
    let store = &world.app.store;
    let (first, beside) =
        (share(store.clone(), catalog).await, share(store.clone(), catalog).await);
    let alone = store.clone();
    let declares = tokio::spawn(async move {
        let mut tx = alone.write().await.unwrap();
        rows::lock(&mut tx, &[catalog]).await.unwrap();
        tx
    });
    eventually("it waits for the edits", async || waiting(store).await == 1).await;
    let later = tokio::spawn(share(store.clone(), catalog));
    eventually("an edit that comes later waits for it", async || waiting(store).await == 2).await;
    first.commit().await.unwrap();
    beside.commit().await.unwrap();
    let declared = declares.await.unwrap();
    assert_eq!(waiting(store).await, 1);
    declared.commit().await.unwrap();
    later.await.unwrap().commit().await.unwrap();
}
