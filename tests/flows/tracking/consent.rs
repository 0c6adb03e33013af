//! The user's decisions to get messages or not, in whatever order and by whatever name they come.

mod histories;

use histories::{Histories, Request};

use super::model::Random;
use super::*;

on_both_stores!(World =>
    a_decision_that_waited_in_another_partition_undoes_nothing,
    opt_outs_hold_when_users_become_one,
    opt_outs_from_before_an_upgrade_hold,
    an_unsubscribed_address_stays_unsubscribed,
    ids_of_merged_users_are_kept_until_the_kept_user_is_erased,
    a_rename_that_is_too_large_changes_nothing,
    decisions_hold_if_a_clock_is_ahead,
);

const AT: i64 = 1_790_000_000_000;

impl World {
    /// A message with objects that were received at a time.
    fn request(&self, at: i64, objects: &[Value]) -> Message {
        let batch = json!({
            "v": 2, "workspace": self.workspace.id, "received_at": at, "objects": objects
        });
        message(batch.to_string())
    }

    /// Applies an object that was received at a time, in milliseconds after [`AT`].
    async fn received(&self, ms: i64, object: Value) {
        self.apply(&[self.request(AT + ms, &[object])]).await;
    }

    /// Applies both copies of a change.
    async fn identity(&self, ms: i64, user: Value, change: Value) {
        for object in histories::copies(user, change) {
            self.received(ms, object).await;
        }
    }

    async fn service_id(&self, user: &str) -> Value {
        json!({ "service_id": self.show(user).await["service_id"] })
    }

    async fn replace_documents(&self, document: &str) {
        let sql = "UPDATE users SET doc = $1";
        on_pool!(&self.app.store, pool => {
            sqlx::query(sql).bind(document).execute(pool).await.unwrap();
        });
    }

    async fn documents(&self) -> Vec<Value> {
        let sql = "SELECT doc FROM users WHERE workspace_id = $1";
        let documents: Vec<String> = on_pool!(&self.app.store, pool => {
            sqlx::query_scalar(sql).bind(self.workspace.id).fetch_all(pool).await
        })
        .unwrap();
        documents.iter().map(|document| serde_json::from_str(document).unwrap()).collect()
    }
}

fn id(id: &str) -> Value {
    json!({ "external_id": id })
}

fn set(user: Value, fields: Value) -> Value {
    json!({ "attributes": { "user": user, "update_only": false, "fields": fields } })
}

fn emails(state: &str) -> Value {
    json!({ "email_subscribe": state })
}

async fn a_decision_that_waited_in_another_partition_undoes_nothing(world: World) {
    world.received(0, set(id("ann"), json!({ "email": "ann@acme.example" }))).await;
    let by_link = world.service_id("ann").await;
    let group =
        |state: &str| json!({ "attributes": { "user": id("ann"), "groups": { "g": state } } });
    let all = |state: &str| {
        let groups = [json!({ "subscription_group_id": "h", "subscription_state": state })];
        json!({ "push_subscribe": state, "subscription_groups": groups })
    };
    // The link's partition is ahead of that of the external id.
    world.received(10, set(by_link.clone(), emails("unsubscribed"))).await;
    world.received(5, set(id("ann"), emails("subscribed"))).await;
    world.received(10, group("unsubscribed")).await;
    world.received(5, group("subscribed")).await;
    world.received(10, set(id("ann"), all("unsubscribed"))).await;
    world.received(5, set(by_link.clone(), all("subscribed"))).await;
    let ann = world.show("ann").await;
    assert_eq!(ann["email_subscribe"], "unsubscribed");
    assert_eq!(ann["push_subscribe"], "unsubscribed");
    let groups = ann["subscription_groups"].as_array().unwrap();
    assert!(groups.iter().all(|group| group["subscription_state"] == "unsubscribed"), "{ann}");
    assert_eq!(groups.len(), 2);
    // A later decision holds, and is not undone either.
    world.received(20, set(id("ann"), emails("opted_in"))).await;
    world.received(15, set(by_link, emails("unsubscribed"))).await;
    assert_eq!(world.show("ann").await["email_subscribe"], "opted_in");
}

async fn opt_outs_hold_when_users_become_one(world: World) {
    let out = json!({ "email": "a@acme.example", "email_subscribe": "unsubscribed" });
    let alias = |name: &str| json!({"user_alias": {"alias_name": name, "alias_label": "crm"}});
    for (n, way) in ["merge", "identify", "rename"].into_iter().enumerate() {
        let [kept, gone] = [format!("kept {n}"), format!("gone {n}")];
        world.received(0, set(id(&kept), emails("subscribed"))).await;
        match way {
            "merge" => {
                world.received(0, set(id(&gone), out.clone())).await;
                world.identity(5, id(&gone), json!({ "merge_into": id(&kept) })).await;
            }
            "identify" => {
                let add = json!({ "alias_name": gone, "alias_label": "crm" });
                let add = json!({ "user": alias(&gone), "change": { "add_alias": add } });
                world.received(0, json!({ "identity": add })).await;
                world.received(0, set(alias(&gone), out.clone())).await;
                world.identity(5, alias(&gone), json!({ "identify": kept })).await;
            }
            _ => {
                // The partition of the new id is ahead.
                let [first, second] =
                    histories::copies(id(&kept), json!({ "rename_external_id": gone }));
                world.received(5, second).await;
                world.received(7, set(id(&gone), out.clone())).await;
                world.received(5, first).await;
            }
        }
        let user = world.show(&kept).await;
        assert_eq!(user["email"], "a@acme.example", "{way}");
        assert_eq!(user["email_subscribe"], "unsubscribed", "{way}");
        // What was received before does not undo it; what is received later does.
        world.received(4, set(id(&kept), emails("subscribed"))).await;
        assert_eq!(world.show(&kept).await["email_subscribe"], "unsubscribed", "{way}");
        world.received(9, set(id(&kept), emails("subscribed"))).await;
        assert_eq!(world.show(&kept).await["email_subscribe"], "subscribed", "{way}");
        let removed = set(id(&kept), json!({ "email": null }));
        world.received(10, removed).await;
    }
}

/// Before an upgrade, neither times nor addresses were recorded.
async fn opt_outs_from_before_an_upgrade_hold(world: World) {
    let address = |user: &str| set(id(user), json!({ "email": "a@acme.example" }));
    world.received(5, address("ann")).await;
    world.received(10, set(id("ann"), emails("unsubscribed"))).await;
    world.execute("DELETE FROM unsubscribed_emails").await;
    let document = json!({
        "service_id": world.show("ann").await["service_id"], "external_id": "ann",
        "email": "a@acme.example", "email_subscribe": "unsubscribed",
    });
    world.replace_documents(&document.to_string()).await;
    // Received before, and applied later.
    world.received(7, set(id("ann"), emails("subscribed"))).await;
    assert_eq!(world.show("ann").await["email_subscribe"], "unsubscribed");
    world.replace_documents(&document.to_string()).await;
    world.sweep().await;
    world.received(20, address("bob")).await;
    assert_eq!(world.show("bob").await["email_subscribe"], "unsubscribed");
    world.received(30, set(id("ann"), emails("subscribed"))).await;
    assert_eq!(world.show("ann").await["email_subscribe"], "subscribed");
}

async fn an_unsubscribed_address_stays_unsubscribed(world: World) {
    let state = async |user: &str| world.show(user).await["email_subscribe"].clone();
    let address = |user: &str, email: &str| set(id(user), json!({ "email": email }));
    let by_email =
        |email: &str, state: &str| update_only(set(json!({ "email": email }), emails(state)));
    // Before anybody has it: the user's partition is behind.
    world.received(10, by_email("a@acme.example", "unsubscribed")).await;
    world.received(5, address("ann", "A@acme.example")).await;
    assert_eq!(state("ann").await, "unsubscribed");
    // It moves to another user.
    world.received(20, set(id("ann"), json!({ "email": null }))).await;
    world.received(30, set(id("bob"), emails("subscribed"))).await;
    world.received(40, address("bob", "a@acme.example")).await;
    assert_eq!(state("bob").await, "unsubscribed");
    // All who have it, until it is subscribed again.
    world.received(50, by_email("a@acme.example", "subscribed")).await;
    world.received(60, address("cay", "a@acme.example")).await;
    assert_eq!((state("bob").await, state("cay").await), ("subscribed".into(), Value::Null));
    world.received(70, by_email("a@acme.example", "unsubscribed")).await;
    assert_eq!(
        (state("bob").await, state("cay").await),
        ("unsubscribed".into(), "unsubscribed".into())
    );
    // By email, a user is created with the state of the address.
    world.received(80, set(json!({ "email": "b@acme.example" }), emails("unsubscribed"))).await;
    world.received(90, json!({ "identity": { "user": id("ann"), "change": "erase" } })).await;
    // With the address, the user decides for it.
    let both = json!({ "email": "b@acme.example", "email_subscribe": "opted_in" });
    world.received(100, set(id("dee"), both)).await;
    assert_eq!(state("dee").await, "opted_in");
    // Nothing is known of an erased user, except by other users with the address.
    world
        .received(
            110,
            set(id("eve"), json!({ "email": "e@acme.example", "email_subscribe": "unsubscribed" })),
        )
        .await;
    world.received(120, json!({ "identity": { "user": id("eve"), "change": "erase" } })).await;
    world.received(115, by_email("e@acme.example", "unsubscribed")).await;
    world.received(130, address("eve", "e@acme.example")).await;
    assert_eq!(state("eve").await, Value::Null);
}

async fn ids_of_merged_users_are_kept_until_the_kept_user_is_erased(world: World) {
    for user in ["a", "b", "c"] {
        world.received(0, set(id(user), json!({ "first_name": user }))).await;
    }
    let former = world.service_id("a").await;
    world.identity(1, id("a"), json!({ "merge_into": id("b") })).await;
    world.identity(2, id("b"), json!({ "merge_into": id("c") })).await;
    world.execute("UPDATE merged_users SET merged_at = 5").await;
    world.sweep().await;
    world.received(3, set(former.clone(), emails("unsubscribed"))).await;
    assert_eq!(world.show("c").await["email_subscribe"], "unsubscribed");
    world.received(4, json!({ "identity": { "user": id("c"), "change": "erase" } })).await;
    assert_eq!(world.count("merged_users").await, 0);
    world.received(5, set(former, emails("unsubscribed"))).await;
    assert_eq!(world.ids().await.len(), 0);
}

async fn a_rename_that_is_too_large_changes_nothing(world: World) {
    let half = |name: &str| {
        let custom = json!({ name: "x".repeat((1 << 19) + 10) });
        json!({ "attributes": { "user": id(name), "custom": custom } })
    };
    world.received(0, half("a")).await;
    // The partition of the new id is ahead.
    let [first, second] = histories::copies(id("a"), json!({ "rename_external_id": "b" }));
    world.received(5, second).await;
    world.received(7, half("b")).await;
    world.received(5, first).await;
    assert_eq!(world.ids().await.len(), 2);
    for user in ["a", "b"] {
        let shown = world.show(user).await;
        let names = shown["custom_attributes"].as_object().unwrap().keys();
        let names: Vec<&str> = names.map(String::as_str).collect();
        assert_eq!((shown["external_id"].as_str(), names), (Some(user), vec![user]));
    }
    assert_eq!(world.count("merged_users").await, 0);
}

async fn decisions_hold_if_a_clock_is_ahead(world: World) {
    let now = world.app.clock.now_ms();
    let year = 365 * DAY;
    let ahead = world.request(now + year, &[set(id("ann"), emails("subscribed"))]);
    world.apply(&[ahead]).await;
    let later = world.app.clock.now_ms() + 1_000;
    eventually("it is later", async || world.app.clock.now_ms() > later).await;
    let out = world.request(later, &[set(id("ann"), emails("unsubscribed"))]);
    world.apply(&[out]).await;
    assert_eq!(world.show("ann").await["email_subscribe"], "unsubscribed");
}

/// Applies histories at the same time, with partitions that are behind, and compares every decision.
async fn decisions_match_the_model(world: &mut World, rounds: u64, of_round: usize) {
    for seed in 0..rounds {
        world.another(&format!("acme {seed}")).await;
        let mut random = Random::new(seed);
        let mut histories = Histories::new(&mut random, of_round);
        replay(world, &mut random, histories.start()).await;
        histories.know_ids(&world.documents().await);
        for _ in 0..2 {
            let requests = histories.go_on(&mut random);
            replay(world, &mut random, requests).await;
        }
        histories.check(&world.documents().await, seed);
    }
}

/// Applies requests in batches: in order within a partition, while one partition is stopped. Some
/// batches are rolled back first, as if the worker had ended before the commit.
async fn replay(world: &World, random: &mut Random, requests: Vec<Request>) {
    let mut partitions: Vec<Vec<Message>> = vec![Vec::new(); histories::PARTITIONS];
    for Request { partition, at, objects } in requests {
        partitions[partition].push(world.request(at, &objects));
    }
    let stopped = random.below(histories::PARTITIONS as i64) as usize;
    while partitions.iter().any(|partition| !partition.is_empty()) {
        let is_alone = (0..partitions.len()).all(|at| at == stopped || partitions[at].is_empty());
        let at = random.below(partitions.len() as i64) as usize;
        if partitions[at].is_empty() || (at == stopped && !is_alone) {
            continue;
        }
        let count = (1 + random.below(400) as usize).min(partitions[at].len());
        let batch: Vec<Message> = partitions[at].drain(..count).collect();
        if random.below(10) == 0 {
            let prepared = world.ingest.prepare(&batch).await.unwrap();
            let mut tx = world.app.store.write().await.unwrap();
            let _ = world.ingest.apply(&mut tx, &prepared).await;
            drop(tx);
        }
        world.apply(&batch).await;
    }
}

/// Many random histories of a few users each.
mod random_histories {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn end_with_the_last_decisions() {
        let mut world = World::new(TestStore::sqlite().await).await;
        decisions_match_the_model(&mut world, 2, 1_000).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "scripts/test --all"]
    async fn end_with_the_last_decisions_on_sqlite() {
        let mut world = World::new(TestStore::sqlite().await).await;
        decisions_match_the_model(&mut world, 20, 1_000).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "scripts/test --all"]
    async fn end_with_the_last_decisions_on_postgresql() {
        let mut world = World::new(TestStore::postgres().await).await;
        decisions_match_the_model(&mut world, 20, 1_000).await;
    }
}
