//! The hints of users by phone number, which triggers of the database write.

use longshore::erase;
use longshore::setup::migrations::MIGRATIONS;
use longshore::users::mentions::{self, Mention};
use longshore::users::{SLICES, phones};
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;
use store::Store;
use tokio::sync::Notify;

use super::World;
use crate::support::stores::{on_both_stores, on_pool, on_postgres, wait_until_blocked};

on_both_stores!(World =>
    a_number_finds_the_users_who_have_it_now,
    a_number_that_a_custom_attribute_has_becomes_that_of_the_profile_and_back,
    an_erased_user_leaves_no_number_behind,
    migrating_records_the_numbers_of_existing_users,
);

mod of_slices {
    use super::*;

    on_postgres!(World =>
        an_interrupted_recording_continues_with_its_slice,
        a_user_who_changes_or_is_erased_meanwhile_leaves_no_older_number,
        several_processes_record_the_same_numbers_at_once,
    );
}

const NUMBER: &str = "+15550100";
const OTHER: &str = "+15550101";
/// The longest one.
const LONG: &str = "+123456789012345";

/// Two users with the number, and some whose documents only look as if they had one.
fn users() -> Vec<String> {
    [
        json!({ "external_id": "ann", "phone": NUMBER }),
        json!({ "external_id": "bob", "phone": NUMBER, "custom_attributes": { "phone": OTHER } }),
        json!({ "external_id": "cat", "custom_attributes": { "phone": NUMBER } }),
        json!({ "external_id": "dan", "first_name": format!("\"phone\":\"{NUMBER}\"") }),
        json!({ "external_id": "eve" }),
    ]
    .map(|record| record.to_string())
    .into()
}

impl World {
    /// The external ids of the users who have a number.
    async fn having(&self, number: &str) -> Vec<Value> {
        let mut tx = self.store().snapshot().await.unwrap();
        let wanted = [Mention::Phone(number)];
        let found = mentions::find(&mut tx, self.workspace.id, &wanted).await.unwrap();
        tx.commit().await.unwrap();
        let mut users = Vec::new();
        for id in &found[0] {
            users.push(self.show(&id.to_string()).await.unwrap()["external_id"].clone());
        }
        users.sort_by_key(Value::to_string);
        users
    }

    /// Puts the store back to before `phones`, and imports users there. A profile of one of them is
    /// unreadable.
    async fn import_before_the_migration(&self) {
        let drops: &[&str] = if self.store().is_postgres() {
            &[
                "DROP TRIGGER users_added ON users",
                "DROP TRIGGER users_changed ON users",
                "DROP TRIGGER users_deleted ON users",
                "DROP FUNCTION add_phones, change_phone, phone_number, phone_part",
                "DROP TABLE phones",
                "DELETE FROM settings WHERE name = 'phones.recorded'",
            ]
        } else {
            &[
                "DROP TRIGGER users_added",
                "DROP TRIGGER users_before_change",
                "DROP TRIGGER users_changed",
                "DROP TRIGGER users_deleted",
                "DROP VIEW profile_phones",
                "DROP TABLE phones",
            ]
        };
        for drop in drops {
            self.change_schema(drop).await;
        }
        self.import_well(&users()).await;
        self.change_schema("UPDATE users SET doc = '{' WHERE external_id = 'eve'").await;
        self.change_schema("DELETE FROM _sqlx_migrations WHERE version = 14").await;
    }

    /// The next slice of PostgreSQL whose numbers are to be recorded.
    async fn next_slice(&self) -> i16 {
        let mut tx = self.store().snapshot().await.unwrap();
        let next = store::settings::get(&mut tx, "phones.recorded").await.unwrap();
        next.map_or(0, |next| next.parse().unwrap())
    }

    /// Records the numbers of existing users; returns the slices that it read.
    async fn record_phones(&self) -> Vec<i16> {
        let mut slices = Vec::new();
        phones::record(self.store(), |progress| slices.push(progress.slice)).await.unwrap();
        slices
    }

    /// Runs a statement behind the program's back.
    async fn change_schema(&self, sql: &str) {
        let sql = AssertSqlSafe(sql.to_owned());
        on_pool!(self.store(), pool => sqlx::query(sql).execute(pool).await.map(drop)).unwrap();
    }
}

async fn a_number_finds_the_users_who_have_it_now(world: World) {
    world.import_well(&users()).await;
    assert_eq!(world.having(NUMBER).await, ["ann", "bob"]);
    assert_eq!(world.rows("phones").await, 2);
    // Again, with another number, and without one.
    world.import_well(&users()).await;
    assert_eq!(world.rows("phones").await, 2);
    world.import_well(&[json!({ "external_id": "ann", "phone": OTHER }).to_string()]).await;
    assert_eq!(world.having(NUMBER).await, ["bob"]);
    assert_eq!(world.having(OTHER).await, ["ann"]);
    world.import_well(&[json!({ "external_id": "bob" }).to_string()]).await;
    assert_eq!(world.having(NUMBER).await, [] as [Value; 0]);
    assert_eq!(world.rows("phones").await, 1, "former numbers are not hinted at");
}

async fn an_erased_user_leaves_no_number_behind(world: World) {
    world.import_well(&users()).await;
    for user in ["ann", "bob", "cat"] {
        erase::erase(world.store(), &world.workspace, user).await.unwrap();
    }
    assert_eq!(world.rows("phones").await, 0);
}

async fn a_number_that_a_custom_attribute_has_becomes_that_of_the_profile_and_back(world: World) {
    let attributes = json!({ "phone": LONG });
    let with = json!({ "external_id": "ann", "phone": LONG, "custom_attributes": attributes });
    let without = json!({ "external_id": "ann", "custom_attributes": attributes });
    for (user, hints) in [(&without, 0), (&with, 1), (&without, 0), (&with, 1)] {
        world.import_well(&[user.to_string()]).await;
        assert_eq!(world.rows("phones").await, hints, "{user}");
    }
    assert_eq!(world.having(LONG).await, ["ann"]);
}

async fn migrating_records_the_numbers_of_existing_users(world: World) {
    world.import_before_the_migration().await;
    MIGRATIONS.run(world.store()).await.unwrap();
    let slices = world.record_phones().await;
    if world.store().is_postgres() {
        assert_eq!(slices, Vec::from_iter(0..SLICES));
        assert_eq!(world.next_slice().await, SLICES);
    }
    assert_eq!(world.having(NUMBER).await, ["ann", "bob"]);
    assert_eq!(world.rows("phones").await, 2);
    assert_eq!(world.record_phones().await, [] as [i16; 0], "there is nothing left");
}

async fn an_interrupted_recording_continues_with_its_slice(world: World) {
    world.import_before_the_migration().await;
    MIGRATIONS.run(world.store()).await.unwrap();
    let half = Notify::new();
    let report = |progress: phones::Progress| {
        if progress.slice == SLICES / 2 {
            half.notify_one();
        }
    };
    tokio::select! {
        // It is dropped at its next wait, perhaps inside a transaction.
        biased;
        () = half.notified() => {}
        _ = phones::record(world.store(), report) => panic!("it was not interrupted"),
    }
    let next = world.next_slice().await;
    assert!((SLICES / 2 + 1..SLICES).contains(&next), "{next}");
    // Users of these slices that are read again would get their hints back.
    world.change_schema("DELETE FROM phones").await;
    assert_eq!(world.record_phones().await, Vec::from_iter(next..SLICES));
    let sql = format!("SELECT count(*) FROM users WHERE slice >= {next} AND phone_part(doc) <> ''");
    let sql = AssertSqlSafe(sql);
    let rest: i64 =
        on_pool!(world.store(), pool => sqlx::query_scalar(sql).fetch_one(pool).await).unwrap();
    assert_eq!(world.rows("phones").await, rest);
}

async fn a_user_who_changes_or_is_erased_meanwhile_leaves_no_older_number(world: World) {
    world.import_before_the_migration().await;
    MIGRATIONS.run(world.store()).await.unwrap();
    let mut writer = world.store().write().await.unwrap();
    for sql in [
        "DELETE FROM users WHERE external_id = 'ann'".to_owned(),
        format!(
            "UPDATE users SET doc = replace(doc, '{NUMBER}', '{OTHER}')
                 WHERE external_id = 'bob'"
        ),
    ] {
        let sql = AssertSqlSafe(sql);
        store::on!(&mut writer, c => sqlx::query(sql).execute(c).await.map(drop)).unwrap();
    }
    let Store::Postgres { pool, .. } = world.store() else { panic!("PostgreSQL") };
    let commit = async {
        // The recording waits for the writer.
        wait_until_blocked(pool).await;
        writer.commit().await.unwrap();
    };
    tokio::join!(world.record_phones(), commit);
    assert_eq!(world.having(NUMBER).await, [] as [Value; 0]);
    assert_eq!(world.having(OTHER).await, ["bob"]);
    assert_eq!(world.rows("phones").await, 1);
}

async fn several_processes_record_the_same_numbers_at_once(world: World) {
    world.import_before_the_migration().await;
    MIGRATIONS.run(world.store()).await.unwrap();
    tokio::join!(world.record_phones(), world.record_phones(), world.record_phones());
    assert_eq!(world.having(NUMBER).await, ["ann", "bob"]);
    assert_eq!(world.rows("phones").await, 2);
    assert_eq!(world.next_slice().await, SLICES);
}
