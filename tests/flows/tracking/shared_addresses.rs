//! Thousands of users have one email address, such as a placeholder.

use std::sync::Arc;

use longshore::users::find::FindError;
use longshore::users::suppressions::AddressStates;
use store::Store;

use super::*;
use crate::support::stores::{on_postgres, wait_until_blocked};

on_both_stores!(World =>
    a_shared_address_identifies_one_user,
    a_state_by_address_reaches_all_users,
    a_line_of_an_import_replaces_the_owner_of_an_address,
    an_error_names_few_of_the_users_with_an_address,
);

const ADDRESS: &str = "noreply@bücher.example";
const OTHER_SPELLING: &str = "noreply@xn--bcher-kva.example";

/// Their documents together are larger than what one transaction may read.
const USERS: usize = 3_000;

fn id(n: usize) -> Value {
    json!({ "external_id": format!("user {n}") })
}

fn alias(n: usize) -> Value {
    json!({ "alias_name": n.to_string(), "alias_label": "crm" })
}

fn address() -> Value {
    json!({ "email": ADDRESS })
}

fn touched(user: Value) -> Value {
    written(user, json!({}), json!({ "touched": true }))
}

fn state(user: Value, state: &str) -> Value {
    written(user, json!({ "email_subscribe": state }), json!({}))
}

/// Imports users with the address, of which each tenth has only an alias. Then user 5 is written,
/// and after that user 7, and after that one without an external id. Returns a time after that.
async fn with_users(world: &World) -> i64 {
    let line = |n: usize| {
        let text = "x".repeat(if n.is_multiple_of(2) { 6_000 } else { 100 });
        let mut line = json!({ "email": ADDRESS, "custom_attributes": { "text": text } });
        if n % 10 == 3 {
            line["user_aliases"] = json!([alias(n)]);
        } else {
            line["external_id"] = format!("user {n}").into();
        }
        line
    };
    world.import(&(0..USERS).map(line).collect::<Vec<_>>()).await;
    let imported = world.app.clock.now_ms();
    let users = [id(5), id(7), json!({ "user_alias": alias(13) })];
    for (received_at, user) in (imported + 1..).zip(users) {
        world.apply(&[world.message(received_at, &[touched(user)])]).await;
    }
    let now = imported + 10;
    eventually("time goes on", async || world.app.clock.now_ms() > now).await;
    now
}

async fn a_shared_address_identifies_one_user(world: World) {
    let now = with_users(&world).await;
    // A message for each object: one object alone has no limit.
    let apply = async |at: i64, objects: Vec<Value>| {
        let messages: Vec<Message> =
            objects.into_iter().map(|object| world.message(at, &[object])).collect();
        try_apply(&world.ingest, &world.app, &messages).await.unwrap();
    };
    let tier = |tier: &str| written(address(), json!({}), json!({ "tier": tier }));
    apply(now, vec![by(address())("tea"), tier("gold")]).await;
    assert_eq!(world.bought("user 7", "tea").await, 2);
    assert_eq!(world.show("user 7").await["custom_attributes"]["tier"], "gold");
    // If the owner gets another address, the next one is the owner.
    let moves = written(id(7), json!({ "email": "7@acme.example" }), json!({}));
    apply(now + 10, vec![moves, by(address())("milk"), tier("silver")]).await;
    assert_eq!(world.bought("user 5", "milk").await, 2);
    assert_eq!(world.show("user 5").await["custom_attributes"]["tier"], "silver");
    assert_eq!(world.show("user 7").await["custom_attributes"]["tier"], "gold");
    // The last one without an external id is identified.
    let copy = json!({ "identity": { "user": address(), "change": { "identify": "new" } } });
    let mut second = copy.clone();
    second["identity"]["is_second"] = true.into();
    let request = json!({
        "v": 2, "workspace": world.workspace.id, "received_at": now + 20, "objects": [copy, second],
    });
    world.apply(&[message(request.to_string())]).await;
    assert_eq!(world.show("new").await["user_aliases"], json!([alias(13)]));
    assert_eq!(world.ids().await.len(), USERS);
}

async fn a_state_by_address_reaches_all_users(world: World) {
    let now = with_users(&world).await;
    let counted = async |state: &str| -> usize {
        let sql = "SELECT doc FROM users WHERE workspace_id = $1";
        let documents: Vec<String> = on_pool!(&world.app.store, pool => {
            sqlx::query_scalar(sql).bind(world.workspace.id).fetch_all(pool).await
        })
        .unwrap();
        // No profile is rewritten.
        assert!(documents.iter().all(|document| !document.contains("unsubscribed")));
        let id = |document: &str| -> Uuid {
            let user: Value = serde_json::from_str(document).unwrap();
            user["service_id"].as_str().unwrap().parse().unwrap()
        };
        let users: Vec<(Uuid, &str)> =
            documents.iter().map(|document| (id(document), document.as_str())).collect();
        let mut tx = world.app.store.snapshot().await.unwrap();
        let states =
            AddressStates::look_up(&mut tx, world.workspace.id, users.iter().copied()).await;
        let states = states.unwrap();
        let applied = users.iter().filter_map(|(id, of)| states.of_user(*id)?.applied(of));
        let member = format!(r#""email_subscribe":"{state}""#);
        applied.filter(|document| document.contains(&member)).count()
    };
    let about = |at: i64, new: &str| {
        let mut object = state(address(), new);
        object["attributes"]["address"] = address();
        world.message(at, &[object])
    };
    // With other objects: no user of the address is read.
    let own = world.message(now + 2, &[state(id(5), "opted_in")]);
    assert_eq!(counted("unsubscribed").await, 0);
    world.apply(&[about(now, "unsubscribed"), own]).await;
    assert_eq!(counted("unsubscribed").await, USERS, "a user's own state does not end it");
    world.apply(&[about(now + 1, "subscribed")]).await;
    assert_eq!(counted("subscribed").await, USERS - 1);
    assert_eq!(world.show("user 5").await["email_subscribe"], "opted_in");
    world.apply(&[about(now + 3, "unsubscribed")]).await;
    let gets_it = written(json!({ "external_id": "new" }), address(), json!({}));
    world.apply(&[world.message(now + 4, &[gets_it])]).await;
    assert_eq!(counted("unsubscribed").await, USERS + 1);
}

async fn a_line_of_an_import_replaces_the_owner_of_an_address(world: World) {
    with_users(&world).await;
    let line = |name: &str| json!({ "email": ADDRESS, "first_name": name });
    world.import(&[line("First")]).await;
    assert_eq!(world.show("user 7").await["first_name"], "First");
    // A line before it can take the address from the owner.
    let moves = json!({ "external_id": "user 7", "email": "7@acme.example" });
    world.import(&[moves, line("Second")]).await;
    assert_eq!(world.show("user 5").await["first_name"], "Second");
    assert_eq!(world.ids().await.len(), USERS);
}

async fn an_error_names_few_of_the_users_with_an_address(world: World) {
    let line = |n: usize| json!({ "external_id": format!("user {n}"), "email": ADDRESS });
    world.import(&(0..100).map(line).collect::<Vec<_>>()).await;
    let refused = erase::erase(&world.app.store, &world.workspace, ADDRESS).await.unwrap_err();
    assert!(matches!(&refused, FindError::Several(ids) if ids.len() == 100), "{refused}");
    assert_eq!(refused.to_string().matches('-').count(), 4 * 10, "{refused}");
    assert_eq!(world.ids().await.len(), 100);
}

mod at_the_same_time {
    use super::*;

    // SQLite has one writer.
    on_postgres!(World =>
        an_owner_who_loses_the_address_meanwhile_does_not_change,
        users_who_get_the_address_meanwhile_are_unsubscribed,
        an_opt_in_made_meanwhile_does_not_end_it,
    );

    async fn an_owner_who_loses_the_address_meanwhile_does_not_change(world: World) {
        let now = world.app.clock.now_ms();
        for (ms, user) in [(1, "next"), (2, "owner")] {
            let object = written(json!({ "external_id": user }), address(), json!({}));
            world.apply(&[world.message(now + ms, &[object])]).await;
        }
        let tier = written(address(), json!({}), json!({ "tier": "gold" }));
        let message = world.message(now + 3, &[tier]);
        let Store::Postgres { pool, .. } = world.app.store.clone() else { panic!("PostgreSQL") };
        let mut tx = pool.begin().await.unwrap();
        let moves = "UPDATE users SET email = $2, doc = replace(doc, $1, $2)
                     WHERE external_id = 'owner'";
        let moves = sqlx::query(moves).bind(ADDRESS).bind("other@acme.example");
        moves.execute(&mut *tx).await.unwrap();
        let world = Arc::new(world);
        let (its_world, its_message) = (world.clone(), message.clone());
        let applying = tokio::spawn(async move {
            try_apply(&its_world.ingest, &its_world.app, &[its_message]).await
        });
        wait_until_blocked(&pool).await;
        tx.commit().await.unwrap();
        let error = applying.await.unwrap().unwrap_err();
        assert!(matches!(error, ApplyError::Changed), "{error}");
        world.apply(&[message]).await;
        assert_eq!(world.show("next").await["custom_attributes"], json!({ "tier": "gold" }));
        assert_eq!(world.show("owner").await["custom_attributes"], Value::Null);
        assert_eq!(world.ids().await.len(), 2);
    }

    /// Gives users the address in its other spelling, with these fields: both have the same lock.
    fn gets(user: &str, mut fields: Value) -> Value {
        fields["email"] = OTHER_SPELLING.into();
        written(json!({ "external_id": user }), fields, json!({}))
    }

    /// Unsubscribes the address, in a batch with a purchase of the user "named". Meanwhile, another
    /// partition applies objects that were received later.
    async fn unsubscribe_while(world: World, objects: &[Value]) -> Arc<World> {
        // Earlier than the time of the database, which limits the times of decisions.
        let now = world.app.clock.now_ms() - 1_000;
        world.import(&["named", "other", "busy"].map(|id| json!({ "external_id": id }))).await;
        world.apply(&[world.message(now, &[gets("owner", json!({}))])]).await;
        let [named, busy] = ["named", "busy"].map(|id| by(json!({ "external_id": id }))("tea"));
        let out = state(address(), "unsubscribed");
        let batch = world.message(now + 1, &[out, named, busy]);
        let Store::Postgres { pool, .. } = world.app.store.clone() else { panic!("PostgreSQL") };
        // The batch waits for it once it has looked up the users of the address.
        let mut tx = pool.begin().await.unwrap();
        let busy = sqlx::query("SELECT 1 FROM users WHERE external_id = 'busy' FOR UPDATE");
        busy.execute(&mut *tx).await.unwrap();
        let world = Arc::new(world);
        let its_world = world.clone();
        let work = async move { try_apply(&its_world.ingest, &its_world.app, &[batch]).await };
        let applying = tokio::spawn(work);
        wait_until_blocked(&pool).await;
        let meanwhile = world.message(now + 2, objects);
        try_apply(&Ingest::new(&world.app), &world.app, &[meanwhile]).await.unwrap();
        tx.commit().await.unwrap();
        applying.await.unwrap().expect("it does not start again");
        world.apply(&[world.message(now + 3, &[gets("next", json!({}))])]).await;
        world
    }

    async fn users_who_get_the_address_meanwhile_are_unsubscribed(world: World) {
        let objects = ["named", "other", "new"].map(|user| gets(user, json!({})));
        let world = unsubscribe_while(world, &objects).await;
        for user in ["owner", "named", "other", "new", "next"] {
            assert_eq!(world.show(user).await["email_subscribe"], "unsubscribed", "{user}");
        }
        assert_eq!(world.bought("named", "tea").await, 2);
    }

    async fn an_opt_in_made_meanwhile_does_not_end_it(world: World) {
        let opted_in = json!({ "email_subscribe": "opted_in" });
        let objects = [gets("other", opted_in), gets("new", json!({}))];
        let world = unsubscribe_while(world, &objects).await;
        for user in ["owner", "other", "new", "next"] {
            assert_eq!(world.show(user).await["email_subscribe"], "unsubscribed", "{user}");
        }
    }
}
