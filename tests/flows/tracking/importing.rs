//! Imports of users that others create or erase at the same time, by an email alone: no index keeps
//! emails unique.

use longshore::erase;
use serde_json::{Value, json};
use sqlx::postgres::PgPool;
use sqlx::{Postgres, Transaction};
use store::Store;

use super::{World, by};
use crate::support::stores::{on_postgres, wait_until_blocked, wait_until_blocked_where};

// SQLite has one writer.
on_postgres!(World =>
    simultaneous_imports_create_each_user_once,
    an_import_and_tracking_create_a_user_once,
    an_import_and_tracking_with_two_spellings_create_a_user_once,
    an_erasure_by_email_waits_for_an_import,
);

const USERS: usize = 50;

fn email(n: usize) -> Value {
    json!({ "email": format!("{n}@acme.example") })
}

fn pool(world: &World) -> &PgPool {
    let Store::Postgres { pool, .. } = &world.app.store else { panic!("PostgreSQL") };
    pool
}

/// Until this is committed, no transaction that creates users by email gets beyond its look-up.
async fn hold_writes(pool: &PgPool) -> Transaction<'static, Postgres> {
    let mut writes = pool.begin().await.unwrap();
    sqlx::query("LOCK TABLE emails IN SHARE MODE").execute(&mut *writes).await.unwrap();
    writes
}

/// Commits when two sessions wait.
async fn release_two(pool: &PgPool, writes: Transaction<'static, Postgres>) {
    let first = wait_until_blocked(pool).await;
    wait_until_blocked_where(pool, &format!("pid <> {first}")).await;
    writes.commit().await.unwrap();
}

async fn simultaneous_imports_create_each_user_once(world: World) {
    let known = USERS / 2;
    world.import(&(0..known).map(email).collect::<Vec<_>>()).await;
    let records: Vec<Value> = (0..USERS).map(email).collect();
    let pool = pool(&world);
    let writes = hold_writes(pool).await;
    let (first, second, ()) = tokio::join!(
        world.try_import(&records),
        world.try_import(&records),
        release_two(pool, writes)
    );
    let mut created = [first.created, second.created];
    created.sort_unstable();
    assert_eq!(created, [0, (USERS - known) as u64]);
    assert_eq!((first.bad, second.bad), (0, 0));
    assert_eq!(world.ids().await.len(), USERS);
    assert_eq!(world.count("emails").await, USERS as i64);
}

async fn an_import_and_tracking_create_a_user_once(world: World) {
    let pool = pool(&world);
    let writes = hold_writes(pool).await;
    let (records, objects) = ([email(0)], [by(email(0))("tea")]);
    tokio::join!(world.import(&records), world.track(&objects), release_two(pool, writes));
    assert_eq!(world.ids().await.len(), 1);
}

async fn an_import_and_tracking_with_two_spellings_create_a_user_once(world: World) {
    let pool = pool(&world);
    let writes = hold_writes(pool).await;
    let records = [json!({ "email": "ann@bücher.example" })];
    let objects = [by(json!({ "email": "ann@xn--bcher-kva.example" }))("tea")];
    tokio::join!(world.import(&records), world.track(&objects), release_two(pool, writes));
    assert_eq!(world.ids().await.len(), 1);
}

async fn an_erasure_by_email_waits_for_an_import(world: World) {
    let pool = pool(&world);
    let writes = hold_writes(pool).await;
    let erased = async {
        let import = wait_until_blocked(pool).await;
        let release = async {
            wait_until_blocked_where(pool, &format!("pid <> {import}")).await;
            writes.commit().await.unwrap();
        };
        let erased = erase::erase(&world.app.store, &world.workspace, "0@acme.example");
        tokio::join!(erased, release).0
    };
    let records = [email(0)];
    let ((), erased) = tokio::join!(world.import(&records), erased);
    assert!(erased.is_ok(), "{erased:?}");
    assert_eq!(world.ids().await.len(), 0);
    assert_eq!(world.count("emails").await, 0);
}
