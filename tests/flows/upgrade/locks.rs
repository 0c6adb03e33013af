//! A migration whose lock is not free.

use longshore::setup::migrations::MIGRATIONS;
use store::migrate::{Migrations, Step};
use store::{Store, on};

use crate::support::eventually;
use crate::support::stores::TestStore;

/// Number of transactions that wait for a lock on the users.
async fn waiting(store: &Store) -> i64 {
    let Store::Postgres { pool, .. } = store else { panic!("this is about PostgreSQL") };
    let sql = "SELECT count(*) FROM pg_locks
               WHERE NOT granted AND relation = 'users'::regclass AND database =
                   (SELECT oid FROM pg_database WHERE datname = current_database())";
    sqlx::query_scalar(sql).fetch_one(pool).await.unwrap()
}

async fn read_users(store: &Store) -> store::Tx {
    let mut tx = store.write().await.unwrap();
    let sql = "SELECT count(*) FROM users";
    let _: i64 = on!(&mut tx, c => sqlx::query_scalar(sql).fetch_one(c).await).unwrap();
    tx
}

#[tokio::test(flavor = "multi_thread")]
async fn a_migration_lets_others_work_until_its_lock_is_free() {
    let test = TestStore::postgres().await;
    let store = &test.store;
    let (last, _) = MIGRATIONS.names().last().unwrap();
    let step = Step {
        version: last + 1,
        name: "nickname",
        postgres: "ALTER TABLE users ADD COLUMN nickname TEXT",
        sqlite: "",
    };
    let migrations = Migrations::new(&[step]);

    let reader = read_users(store).await;
    let others_work = async {
        eventually("the migration waits", async || waiting(store).await == 1).await;
        // Waits behind the migration, and gets the table in its pause.
        read_users(store).await.commit().await.unwrap();
        reader.commit().await.unwrap();
    };
    let (schema, ()) = tokio::join!(migrations.run(store), others_work);
    assert_eq!(schema.unwrap().at, last + 1);
}
