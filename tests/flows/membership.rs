//! Who is part of an export: exactly those who were there when it was planned, whenever they were
//! accepted and whatever is written of them later.

mod audiences;

use std::collections::BTreeSet;
use std::io::Cursor;

use log::Message;
use longshore::engine::batches::Handler as _;
use longshore::erase;
use longshore::exports::{Job, part};
use longshore::kinds;
use longshore::topics;
use longshore::tracking::apply::Ingest;
use longshore::users::import::{Importer, Input};
use longshore::users::moment;
use longshore::workspaces::{Workspace, by_id};
use serde_json::{Value, json};
use store::Tx;
use tokio_util::sync::CancellationToken;

use crate::support::export_world::{self, LEASE};
use crate::support::stores::{TestStore, on_both_stores, on_pool, on_postgres};

on_both_stores!(World =>
    users_created_after_the_plan_are_not_exported,
    planned_users_stay_in_the_export_when_changed,
    users_of_before_marks_are_members,
);

/// A control group of everybody, in files of five users.
struct World {
    base: export_world::World,
    ingest: Ingest,
    workspace: Workspace,
}

impl World {
    async fn new(test: TestStore) -> Self {
        let base = export_world::World::new(test).await;
        let all: Vec<i16> = (0..100).collect();
        on_pool!(&base.test.store, pool => {
            let update = sqlx::query("UPDATE control_groups SET slices = $1");
            update.bind(format!("{all:?}")).execute(pool).await.unwrap();
        });
        let mut tx = base.app.store.snapshot().await.unwrap();
        let workspace = by_id(&mut tx, base.workspace).await.unwrap().unwrap();
        drop(tx);
        Self { ingest: Ingest::new(&base.app), base, workspace }
    }

    async fn sql(&self, sql: &'static str) {
        on_pool!(&self.base.test.store, pool => {
            sqlx::query(sql).execute(pool).await.unwrap();
        });
    }

    async fn import(&self, names: impl Iterator<Item = String>) {
        let lines: Vec<String> =
            names.map(|name| json!({ "external_id": name }).to_string()).collect();
        let input = Input::new("users", Cursor::new(lines.join("\n")));
        let (store, clock) = (self.base.app.store.clone(), self.base.app.clock.clone());
        let importer = Importer::new(store, clock, self.workspace.clone());
        let summary = importer.run(vec![input], |_| {}).await.unwrap();
        assert_eq!((summary.lines, summary.bad), (lines.len() as u64, 0));
    }

    /// What the log holds of these, who are accepted now.
    fn tracked(&self, names: impl Iterator<Item = String>) -> Message {
        let object = |name| {
            json!({ "attributes": {
                "user": { "external_id": name }, "fields": {}, "custom": { "a": 1 },
            }})
        };
        let objects: Vec<Value> = names.map(object).collect();
        let batch = json!({
            "v": 1, "workspace": self.workspace.id, "received_at": self.base.app.clock.now_ms(),
            "objects": objects,
        });
        Message {
            topic: topics::TRACKING,
            partition: 0,
            offset: 0,
            appended_at: 0,
            log_time: None,
            key: Vec::new(),
            payload: batch.to_string().into_bytes(),
            request_id: "a-request".into(),
        }
    }

    async fn apply_in(&self, tx: &mut Tx, message: &Message) {
        let prepared = self.ingest.prepare(std::slice::from_ref(message)).await.unwrap();
        let applied = self.ingest.apply(tx, &prepared).await.unwrap();
        self.ingest.applied(applied);
    }

    async fn apply(&self, message: &Message) {
        let mut tx = self.base.app.store.write().await.unwrap();
        self.apply_in(&mut tx, message).await;
        tx.commit().await.unwrap();
    }

    async fn planned(&self) -> Job {
        let job = self.base.queued().await;
        self.base.plan(&job).await;
        job
    }

    /// Runs the parts of a planned export, and holds its users against these.
    async fn holds(&self, job: &Job, wanted: impl Iterator<Item = String>) {
        for claim in self.base.take(kinds::EXPORT_PART, job, LEASE).await {
            part::run(&self.base.app, &claim, &CancellationToken::new()).await.unwrap();
        }
        let mut found = BTreeSet::new();
        for (file, text) in self.base.zip(job).await {
            assert!(text.lines().count() <= 5, "{file} has {} users", text.lines().count());
            for line in text.lines() {
                let user: Value = serde_json::from_str(line).unwrap();
                let name = user["external_id"].as_str().unwrap().to_owned();
                assert!(found.insert(name), "{line} is there twice");
            }
        }
        assert_eq!(found, wanted.collect());
        self.sql("DELETE FROM claims").await;
    }
}

fn names(kind: &str, count: usize) -> impl Iterator<Item = String> {
    (0..count).map(move |number| format!("{kind} {number}"))
}

/// Ids of users who are tracked are of the time of their receipt.
async fn users_created_after_the_plan_are_not_exported(world: World) {
    world.import(names("known", 12)).await;
    let waiting = world.tracked(names("tracked", 300));
    world.import(names("imported", 1)).await;
    let job = world.planned().await;
    assert_eq!(world.base.progress(&job).await.users, Some(13));
    world.apply(&waiting).await;
    world.import(names("late", 20)).await;
    world.holds(&job, names("known", 12).chain(names("imported", 1))).await;

    let job = world.planned().await;
    let all = names("known", 12).chain(names("imported", 1)).chain(names("tracked", 300));
    world.holds(&job, all.chain(names("late", 20))).await;
}

async fn planned_users_stay_in_the_export_when_changed(world: World) {
    world.import(names("known", 12)).await;
    let job = world.planned().await;
    world.import(names("known", 6)).await;
    world.apply(&world.tracked(names("known", 9))).await;
    // Who comes back is somebody else.
    let app = &world.base.app;
    for name in ["known 1", "known 11"] {
        erase::erase(&app.store, &world.workspace, name).await.unwrap();
    }
    world.import(std::iter::once("known 1".to_owned())).await;
    let gone = ["known 1", "known 11"];
    world.holds(&job, names("known", 12).filter(|name| !gone.contains(&name.as_str()))).await;
}

async fn users_of_before_marks_are_members(world: World) {
    world.import(names("known", 12)).await;
    let unmarked = if world.base.app.store.is_postgres() {
        "UPDATE users SET created_in = NULL"
    } else {
        "UPDATE users SET created_in = 0"
    };
    world.sql(unmarked).await;
    let job = world.planned().await;
    world.apply(&world.tracked(names("tracked", 40))).await;
    world.apply(&world.tracked(names("known", 3))).await;
    world.holds(&job, names("known", 12)).await;
}

mod at_once {
    use super::*;

    // SQLite has one writer.
    on_postgres!(World =>
        users_of_a_transaction_that_ends_after_the_plan_are_in_no_file,
        a_returning_server_is_newer_than_its_replacement,
        earlier_starts_of_servers_are_not_needed,
        exports_are_exact_after_a_restore,
        a_program_of_before_marks_users_too,
    );

    async fn users_of_a_transaction_that_ends_after_the_plan_are_in_no_file(world: World) {
        world.import(names("known", 7)).await;
        let mut early = world.base.app.store.write().await.unwrap();
        world.apply_in(&mut early, &world.tracked(names("early", 30))).await;
        world.import(names("imported", 1)).await;
        let job = world.planned().await;
        early.commit().await.unwrap();
        world.holds(&job, names("known", 7).chain(names("imported", 1))).await;
    }

    /// A restore to a server that has seen fewer transactions, or more.
    async fn exports_are_exact_after_a_restore(world: World) {
        for moved in [
            "UPDATE users SET created_in = created_in + 1000000000",
            "UPDATE users SET created_in = created_in % 281474976710656 / 2",
        ] {
            world.sql("DELETE FROM users").await;
            world.sql("DELETE FROM identifiers").await;
            world.import(names("known", 12)).await;
            let under_way = world.planned().await;
            world.sql("UPDATE server_starts SET started = started || ' of before'").await;
            world.apply(&world.tracked(names("tracked", 40))).await;
            world.holds(&under_way, names("known", 12)).await;
            // As if the server of before had got further, or not as far.
            world.sql("UPDATE server_starts SET started = started || ' of before'").await;
            world.sql(moved).await;
            let job = world.planned().await;
            world.import(names("late", 20)).await;
            world.holds(&job, names("known", 12).chain(names("tracked", 40))).await;
        }
    }

    async fn a_returning_server_is_newer_than_its_replacement(world: World) {
        world.import(names("known", 3)).await;
        world
            .sql("INSERT INTO server_starts SELECT max(number) + 1, 'another' FROM server_starts")
            .await;
        // As if the server between had created them.
        world.sql("UPDATE users SET created_in = created_in + (1::bigint << 48)").await;
        let job = world.planned().await;
        world.import(names("late", 5)).await;
        world.holds(&job, names("known", 3)).await;
    }

    async fn earlier_starts_of_servers_are_not_needed(world: World) {
        let starts = async || -> i64 {
            on_pool!(&world.base.test.store, pool => {
                let count = sqlx::query_scalar("SELECT count(*) FROM server_starts");
                count.fetch_one(pool).await.unwrap()
            })
        };
        let stop = CancellationToken::new();
        world.import(names("known", 3)).await;
        for _ in 0..3 {
            let another = "INSERT INTO server_starts
                           SELECT max(number) + 1, 'another ' || max(number) FROM server_starts";
            world.sql(another).await;
        }
        let job = world.planned().await;
        moment::sweep(&world.base.app.store, &stop).await.unwrap();
        assert_eq!(starts().await, 1);
        world.import(names("late", 5)).await;
        assert_eq!(starts().await, 2);
        moment::sweep(&world.base.app.store, &stop).await.unwrap();
        assert_eq!(starts().await, 1);
        world.import(names("later", 5)).await;
        world.holds(&job, names("known", 3)).await;
    }

    async fn a_program_of_before_marks_users_too(world: World) {
        world.import(names("known", 3)).await;
        let job = world.planned().await;
        world.base.add_user(3, 1).await;
        world.holds(&job, names("known", 3)).await;
    }
}

/// Ingestion is stopped while users are tracked and an export is planned.
#[cfg(debug_assertions)]
#[tokio::test(flavor = "multi_thread")]
async fn users_still_in_the_log_are_not_exported() {
    use crate::support::fleet::{Backend, Fleet};
    use crate::support::{WorkspaceFile, checker, eventually, stores, user_records};

    let settings = [
        ("FAILPOINTS", "plan::committed=stop".to_owned()),
        ("LONGSHORE_EXPORTS__USERS_PER_FILE", "10".to_owned()),
    ];
    let mut fleet = Fleet::prepare(Backend::Fleet(2), &settings, |_| {}).await;
    let api = fleet.apply(&[WorkspaceFile::new("acme")]).await.remove(0);
    fleet.launch("gateway").await;
    fleet.launch_roles("worker-1", "exports").await;
    let mut known: Vec<String> = (0..25).map(|number| user_records::simple(number, 1)).collect();
    fleet.import("acme", &known).await;
    for first in (0..200).step_by(50) {
        let user = |number| json!({ "external_id": format!("tracked {number}") });
        let users: Vec<Value> = (first..first + 50).map(user).collect();
        let answer = api.post("/users/track", &json!({ "attributes": users })).await;
        assert_eq!(answer.status, 201, "{answer:?}");
    }
    known.push(user_records::simple(25, 1));
    fleet.import("acme", &known[25..]).await;
    let accepted = api.export(&json!({ "fields_to_export": ["external_id"] })).await;
    eventually("the export is planned", || async { fleet.is_stopped("worker-1") }).await;
    fleet.launch_roles("worker-2", "ingest").await;
    let users = "SELECT count(*) FROM users";
    stores::wait_for_count(&fleet.database_url(), users, |count| count == 226).await;
    fleet.resume("worker-1");
    let status = api.done(&accepted.prefix).await;
    assert_eq!(status["users"]["total"], 26, "{status}");
    let mut found = BTreeSet::new();
    for file in checker::downloaded(&api.download(accepted.address()).await) {
        let text = String::from_utf8(file.bytes).unwrap();
        assert!(text.lines().count() <= 10, "{text}");
        found.extend(text.lines().map(str::to_owned));
    }
    let wanted = (0..26).map(|number| json!({ "external_id": format!("user-{number:06}") }));
    assert_eq!(found, wanted.map(|user| user.to_string()).collect());
    fleet.close().await;
}
