//! Changes of two users, however far the partition of one is behind that of the other.

use std::sync::Arc;

use longshore::tracking::apply::Ingest;
use tokio::task::JoinSet;

use super::*;
use crate::support::stores::on_postgres;

on_both_stores!(World =>
    merges_follow_earlier_messages_of_both_partitions,
    a_merge_does_not_depend_on_clocks,
    a_copy_that_is_delivered_again_changes_nothing,
    chained_merges_resolve_to_the_last_user,
    deleting_the_kept_user_deletes_the_merged_one,
    renames_follow_the_deletion_that_frees_the_id,
    a_deletion_reaches_a_user_renamed_before_it,
    users_given_the_id_later_are_not_merged,
    no_rename_to_the_id_of_a_user_who_exists,
    data_by_the_service_id_of_a_merged_user_counts_for_the_kept_one,
    no_user_is_identified_as_a_deleted_user,
    deleting_a_merged_user_by_service_id_deletes_the_kept_one,
    an_email_of_several_users_identifies_none_that_must_be_the_only_one,
);

/// When the requests of a test are received, in milliseconds since the epoch.
const AT: i64 = 1_790_000_000_000;

fn id(id: &str) -> Value {
    json!({ "external_id": id })
}

fn alias(name: &str) -> Value {
    json!({ "user_alias": { "alias_name": name, "alias_label": "crm" } })
}

/// The copies of a change: the one in the partition of the first user, and that of the second.
fn copies(user: Value, change: Value) -> [Value; 2] {
    let copy = json!({ "identity": { "user": user, "change": change } });
    let mut second = copy.clone();
    second["identity"]["is_second"] = true.into();
    [copy, second]
}

fn merge(gone: &str, kept: &str) -> [Value; 2] {
    copies(id(gone), json!({ "merge_into": id(kept) }))
}

fn rename(from: &str, to: &str) -> [Value; 2] {
    copies(id(from), json!({ "rename_external_id": to }))
}

fn delete(user: &str) -> Value {
    json!({ "identity": { "user": id(user), "change": "erase" } })
}

impl World {
    /// Applies an object that was received at a time, in milliseconds after [`AT`].
    async fn at(&self, ms: i64, object: &Value) {
        self.apply(&[self.change(ms, object)]).await;
    }

    fn change(&self, ms: i64, object: &Value) -> Message {
        let mut message = self.message(AT + ms, std::slice::from_ref(object));
        if object["identity"].is_object() {
            let mut batch: Value = serde_json::from_slice(&message.payload).unwrap();
            batch["v"] = 2.into();
            message.payload = batch.to_string().into_bytes();
        }
        message
    }

    async fn is_known(&self, user: &str) -> bool {
        longshore::users::find::show(&self.app.store, &self.app.clock, &self.workspace, user)
            .await
            .is_ok()
    }
}

async fn merges_follow_earlier_messages_of_both_partitions(world: World) {
    let [first, second] = merge("gone", "kept");
    world.at(0, &by(id("gone"))("tea")).await;
    // The partition of the kept user is ahead.
    world.at(10, &by(id("kept"))("tea")).await;
    world.at(20, &second).await;
    assert!(world.is_known("gone").await, "the other partition has not reached it");
    // Received before the merge, applied after its first copy.
    world.at(15, &update_only(by(id("gone"))("tea"))).await;
    world.at(20, &first).await;
    assert!(!world.is_known("gone").await);
    assert_eq!(world.bought("kept", "tea").await, 6);
}

async fn a_merge_does_not_depend_on_clocks(world: World) {
    // A gateway whose clock is an hour ahead.
    world.at(3_600_000, &by(id("ahead"))("tea")).await;
    world.at(0, &by(id("gone"))("tea")).await;
    world.at(0, &by(id("kept"))("tea")).await;
    for copy in merge("gone", "kept").iter().chain(&merge("ahead", "kept")) {
        world.at(500, copy).await;
    }
    assert!(!world.is_known("gone").await && !world.is_known("ahead").await);
    assert_eq!(world.bought("kept", "tea").await, 6);
}

async fn a_copy_that_is_delivered_again_changes_nothing(world: World) {
    let copies = merge("gone", "kept");
    for user in ["gone", "kept"] {
        world.at(0, &by(id(user))("tea")).await;
    }
    for copy in [&copies[0], &copies[0]] {
        world.at(1, copy).await;
    }
    assert!(world.is_known("gone").await, "one copy twice is not both");
    world.at(1, &copies[1]).await;
    world.at(2, &by(id("gone"))("tea")).await;
    for copy in copies.iter().rev().chain(&copies) {
        world.at(1, copy).await;
    }
    assert_eq!(world.bought("gone", "tea").await, 2, "a new user with that id");
    assert_eq!(world.bought("kept", "tea").await, 4);
}

async fn chained_merges_resolve_to_the_last_user(world: World) {
    for user in ["a", "b", "c"] {
        world.at(0, &by(id(user))("tea")).await;
    }
    let ([a, ab], [b, bc]) = (merge("a", "b"), merge("b", "c"));
    // The partition of "a" is behind the others.
    for (ms, copy) in [(1, &ab), (2, &b), (2, &bc), (1, &a)] {
        world.at(ms, copy).await;
    }
    assert!(!world.is_known("a").await && !world.is_known("b").await);
    assert_eq!(world.bought("c", "tea").await, 6);
}

async fn deleting_the_kept_user_deletes_the_merged_one(world: World) {
    for user in ["gone", "kept"] {
        world.at(0, &by(id(user))("tea")).await;
    }
    let [first, second] = merge("gone", "kept");
    world.at(1, &second).await;
    world.at(2, &delete("kept")).await;
    world.at(1, &first).await;
    assert_eq!(world.ids().await.len(), 0);
    // What was received before does not create them again.
    world.at(0, &by(id("gone"))("tea")).await;
    assert_eq!(world.ids().await.len(), 0);
}

async fn renames_follow_the_deletion_that_frees_the_id(world: World) {
    for user in ["a", "b"] {
        world.at(0, &by(id(user))(user)).await;
    }
    let [first, second] = rename("a", "b");
    world.at(2, &first).await;
    world.at(1, &delete("b")).await;
    world.at(2, &second).await;
    assert_eq!(world.ids().await.len(), 1);
    assert_eq!((world.bought("a", "a").await, world.bought("b", "a").await), (2.into(), 2.into()));
}

async fn a_deletion_reaches_a_user_renamed_before_it(world: World) {
    world.at(0, &by(id("a"))("tea")).await;
    let [first, second] = rename("a", "b");
    world.at(1, &second).await;
    world.at(2, &delete("b")).await;
    world.at(1, &first).await;
    assert_eq!(world.ids().await.len(), 0);
    world.at(3, &by(id("b"))("tea")).await;
    assert_eq!(world.bought("b", "tea").await, 2, "a new user");
}

async fn users_given_the_id_later_are_not_merged(world: World) {
    for user in ["kept", "stranger"] {
        world.at(0, &by(id(user))("tea")).await;
    }
    let ([gone, kept], [from, to]) = (merge("gone", "kept"), rename("stranger", "gone"));
    // Nobody has the id when it is to be merged; the partition of the kept user is behind.
    for (ms, copy) in [(1, &gone), (2, &to), (2, &from), (1, &kept)] {
        world.at(ms, copy).await;
    }
    assert_eq!(world.bought("gone", "tea").await, 2);
    assert_eq!(world.bought("kept", "tea").await, 2);
    // Nor is who was given an id taken for the user who is renamed to it.
    let [from, to] = rename("kept", "third");
    world.at(3, &to).await;
    for copy in rename("gone", "third") {
        world.at(4, &copy).await;
    }
    world.at(3, &from).await;
    assert_eq!(world.ids().await.len(), 2);
}

/// Also if that user is deleted while the other partition is behind.
async fn no_rename_to_the_id_of_a_user_who_exists(world: World) {
    for user in ["a", "b"] {
        world.at(0, &by(id(user))(user)).await;
    }
    let [first, second] = rename("a", "b");
    world.at(2, &second).await;
    world.at(3, &delete("b")).await;
    world.at(2, &first).await;
    assert_eq!((world.bought("a", "a").await, world.ids().await.len()), (2.into(), 1));
}

async fn data_by_the_service_id_of_a_merged_user_counts_for_the_kept_one(world: World) {
    for user in ["a", "b", "c"] {
        world.at(0, &by(id(user))("tea")).await;
    }
    let former = world.show("a").await["service_id"].clone();
    for copy in merge("a", "b").iter().chain(&merge("b", "c")) {
        world.at(1, copy).await;
    }
    let user = json!({ "service_id": former });
    world.at(0, &by(user.clone())("milk")).await;
    world.at(0, &written(user, json!({ "first_name": "Ann" }), json!({}))).await;
    let kept = world.show("c").await;
    assert_eq!((&kept["first_name"], world.bought("c", "milk").await), (&"Ann".into(), 2.into()));
}

async fn no_user_is_identified_as_a_deleted_user(world: World) {
    world.at(0, &by(id("b"))("tea")).await;
    let add = json!({ "alias_name": "x", "alias_label": "crm" });
    world
        .at(0, &json!({ "identity": { "user": alias("x"), "change": { "add_alias": add } } }))
        .await;
    assert_eq!(world.ids().await.len(), 2);
    let [first, second] = copies(alias("x"), json!({ "identify": "b" }));
    world.at(1, &second).await;
    world.at(2, &delete("b")).await;
    world.at(1, &first).await;
    assert_eq!(world.ids().await.len(), 0);
}

async fn deleting_a_merged_user_by_service_id_deletes_the_kept_one(world: World) {
    for user in ["a", "b", "c", "other"] {
        world.at(0, &by(id(user))("tea")).await;
    }
    let former = world.show("a").await["service_id"].clone();
    for copy in merge("a", "b").iter().chain(&merge("b", "c")) {
        world.at(1, copy).await;
    }
    let erase =
        |id: &Value| json!({ "identity": { "user": { "service_id": id }, "change": "erase" } });
    world.at(2, &erase(&former)).await;
    assert!(world.is_known("other").await && !world.is_known("c").await);
    assert_eq!((world.ids().await.len(), world.count("merged_users").await), (1, 0));
    // What was received before does not create the kept user again.
    world.at(1, &by(id("c"))("tea")).await;
    // An id that identified the user, or never a user.
    for unknown in [former, json!(Uuid::new_v4())] {
        world.at(3, &erase(&unknown)).await;
    }
    assert_eq!(world.ids().await.len(), 1);
}

async fn an_email_of_several_users_identifies_none_that_must_be_the_only_one(world: World) {
    for name in ["x", "y"] {
        let add = json!({ "alias_name": name, "alias_label": "crm" });
        let change = json!({ "user": alias(name), "change": { "add_alias": add } });
        world.at(0, &json!({ "identity": change })).await;
        let email = json!({ "email": "x@acme.example" });
        world.at(if name == "x" { 1 } else { 2 }, &written(alias(name), email, json!({}))).await;
    }
    let identify = |user: &str, needs_one_match: bool| {
        let email = json!({ "email": "x@acme.example" });
        let mut copies = copies(email, json!({ "identify": user }));
        for copy in &mut copies {
            copy["identity"]["needs_one_match"] = needs_one_match.into();
        }
        copies
    };
    let name_of = |user: &Value| user["user_aliases"][0]["alias_name"].clone();
    for copy in identify("ann", true) {
        world.at(3, &copy).await;
    }
    assert!(!world.is_known("ann").await);
    for copy in identify("ann", false) {
        world.at(4, &copy).await;
    }
    assert_eq!(name_of(&world.show("ann").await), "y", "the one that was written last");
    // Of the users with the email, one is left without an external id.
    for copy in identify("ben", true) {
        world.at(5, &copy).await;
    }
    assert_eq!(name_of(&world.show("ben").await), "x");
}

mod at_once {
    use super::*;

    // SQLite has one writer.
    on_postgres!(World => partitions_that_reach_a_merge_together_make_one_user,);

    async fn partitions_that_reach_a_merge_together_make_one_user(world: World) {
        let world = Arc::new(world);
        for round in 0..20 {
            let names = [format!("gone {round}"), format!("kept {round}")];
            let mut partitions = JoinSet::new();
            for (name, copy) in names.iter().zip(merge(&names[0], &names[1])) {
                let messages = [world.change(0, &by(id(name))("tea")), world.change(1, &copy)];
                let world = world.clone();
                partitions.spawn(async move {
                    apply(&Ingest::new(&world.app), &world.app, &messages).await;
                });
            }
            while let Some(done) = partitions.join_next().await {
                done.unwrap();
            }
            assert!(!world.is_known(&names[0]).await, "round {round}");
            assert_eq!(world.bought(&names[1], "tea").await, 4);
        }
    }
}
