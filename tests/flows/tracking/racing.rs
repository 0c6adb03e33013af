//! Partitions that have to do with the same users at the same time.

use std::sync::Arc;

use longshore::erase;
use longshore::tracking::apply::Ingest;
use serde_json::{Value, json};
use store::Store;
use tokio::task::JoinSet;

use super::{World, apply, by, try_apply, written};
use crate::support::stores::{
    on_both_stores, on_postgres, wait_until_blocked, wait_until_blocked_where,
};

on_both_stores!(World => partitions_that_race_make_one_user,);

async fn partitions_that_race_make_one_user(world: World) {
    const RACERS: usize = 4;
    let users = 40;
    let objects: Vec<Value> = (0..users)
        .flat_map(|n| {
            let user = json!({"external_id": format!("user {n}")});
            [
                written(user.clone(), json!({"email": format!("{n}@acme.example")}), json!({})),
                by(user)("tea"),
                by(json!({"email": format!("{n}@acme.example")}))("milk"),
            ]
        })
        .collect();
    // Who already exists, and has done nothing.
    world.import(&[json!({"external_id": "idle"}), json!({"external_id": "idle too"})]).await;
    let first = ["idle", "idle too"].map(|id| by(json!({"external_id": id}))("tea"));
    let objects = [objects, first.into()].concat();
    let world = Arc::new(world);
    let mut racers = JoinSet::new();
    for racer in 0..RACERS {
        let (world, mut objects) = (world.clone(), objects.clone());
        if racer % 2 == 1 {
            // By kind and user, the other way round.
            objects.reverse();
            let (idle, users) = objects.split_at(2);
            let users = users.chunks(3).flat_map(|user| user.iter().rev());
            objects = idle.iter().chain(users).cloned().collect();
        }
        racers.spawn(async move {
            // As another process.
            let ingest = Ingest::new(&world.app);
            for _ in 0..3 {
                let messages = [world.message(world.app.clock.now_ms(), &objects)];
                apply(&ingest, &world.app, &messages).await;
            }
        });
    }
    while let Some(done) = racers.join_next().await {
        done.unwrap();
    }
    assert_eq!(world.ids().await.len(), users + 2);
    assert_eq!(world.count("identifiers").await, users as i64 + 2);
    assert_eq!(world.bought("idle", "tea").await, 2 * 3 * RACERS);
    for n in 0..users {
        for product in ["tea", "milk"] {
            assert_eq!(world.bought(&format!("user {n}"), product).await, 2 * 3 * RACERS);
        }
    }
}

mod in_circles {
    use super::*;

    // SQLite has one writer.
    on_postgres!(World =>
        concurrent_partitions_do_not_deadlock,
        an_erasure_locks_in_the_order_of_tracking_and_is_tried_again,
    );

    /// Locks like a batch that registers the token of a user again.
    async fn an_erasure_locks_in_the_order_of_tracking_and_is_tried_again(world: World) {
        let tokens = json!({"push_tokens": [{"app_id": "app", "token": "t"}]});
        world.track(&[written(json!({"external_id": "ann"}), tokens, json!({}))]).await;
        let Store::Postgres { pool, .. } = &world.app.store else { panic!("PostgreSQL") };
        let mut tx = pool.begin().await.unwrap();
        sqlx::query("SELECT 1 FROM push_tokens FOR UPDATE").execute(&mut *tx).await.unwrap();
        let (store, workspace) = (world.app.store.clone(), world.workspace.clone());
        let erasing =
            tokio::spawn(async move { erase::erase(&store, &workspace, "ann").await.is_ok() });
        let session = wait_until_blocked(pool).await;
        let profile = sqlx::query("SELECT 1 FROM users FOR NO KEY UPDATE NOWAIT");
        profile.execute(&mut *tx).await.expect("the erasure has not locked it yet");
        let terminate = sqlx::query_scalar::<_, bool>("SELECT pg_terminate_backend($1)");
        let is_terminated = terminate.bind(session).fetch_one(pool).await.unwrap();
        assert!(is_terminated, "the erasure is interrupted");
        wait_until_blocked_where(pool, &format!("pid <> {session}")).await;
        tx.commit().await.unwrap();
        assert!(erasing.await.unwrap());
        assert_eq!(world.ids().await.len(), 0);
    }

    /// Each of two partitions changes the profiles of some users, and begins the activity of
    /// all: neither is ever to be tried again.
    async fn concurrent_partitions_do_not_deadlock(world: World) {
        const USERS: usize = 150;
        let world = Arc::new(world);
        for round in 0..8 {
            let users: Vec<Value> =
                (0..USERS).map(|n| json!({"external_id": format!("{round}-{n}")})).collect();
            world.import(&users).await;
            let mut partitions = JoinSet::new();
            for partition in 0..2 {
                let mut objects: Vec<Value> =
                    users.iter().map(|user| by(user.clone())("tea")).collect();
                let own = users.iter().skip(partition).step_by(2);
                objects.extend(own.map(|user| written(user.clone(), json!({}), json!({"a": 1}))));
                let (world, message) =
                    (world.clone(), world.message(world.app.clock.now_ms(), &objects));
                partitions.spawn(async move {
                    try_apply(&Ingest::new(&world.app), &world.app, &[message]).await.unwrap();
                });
            }
            while let Some(done) = partitions.join_next().await {
                done.unwrap();
            }
            for n in [0, 1, USERS - 1] {
                assert_eq!(world.bought(&format!("{round}-{n}"), "tea").await, 4);
            }
        }
    }
}
