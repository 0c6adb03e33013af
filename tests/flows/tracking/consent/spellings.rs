//! Decisions about an email address, and about a subscription group, hold in each of its spellings.

use super::*;

on_both_stores!(World =>
    an_opt_out_by_address_holds_for_both_spellings_of_its_host,
    both_spellings_in_one_request_are_one_address,
    another_spelling_of_an_address_is_no_new_address,
    opt_outs_and_erasures_from_before_an_upgrade_hold_for_both_spellings,
    both_spellings_identify_one_user,
    a_subscription_group_has_one_state_in_all_spellings,
    groups_that_an_earlier_version_stored_keep_their_opt_outs,
);

const UNICODE: &str = "ann@bücher.example";
const ASCII: &str = "ann@xn--bcher-kva.example";

/// The spelling in a profile, and that of a relay, or the other way round.
const ORDERS: [[&str; 2]; 2] = [[UNICODE, ASCII], [ASCII, UNICODE]];

const GROUP: &str = "7d0c6f5e-4b1a-4e0f-9a55-2f6d1c3b8a90";
const UPPER: &str = "7D0C6F5E-4B1A-4E0F-9A55-2F6D1C3B8A90";

impl World {
    async fn is_out(&self, user: &str) -> bool {
        self.show(user).await["email_subscribe"] == "unsubscribed"
    }

    async fn groups(&self, user: &str) -> Value {
        self.show(user).await["subscription_groups"].clone()
    }

    /// Deletes the hash of a spelling, which earlier versions did not store.
    async fn delete_hash(&self, sql: &'static str, email: &str) {
        let hash = name_hash(Name::Email, email).to_vec();
        let deleted = on_pool!(&self.app.store, pool => {
            sqlx::query(sql).bind(hash).execute(pool).await.unwrap().rows_affected()
        });
        assert_eq!(deleted, 1);
    }
}

fn address(user: &str, email: &str) -> Value {
    set(id(user), json!({ "email": email }))
}

async fn an_opt_out_by_address_holds_for_both_spellings_of_its_host(mut world: World) {
    for (n, [stored, reported]) in ORDERS.into_iter().enumerate() {
        world.another(&format!("acme {n}")).await;
        world.received(0, address("ann", stored)).await;
        world.received(0, address("bob", reported)).await;
        world.received(10, about(reported, "unsubscribed")).await;
        // Users who get the address later.
        world.received(20, address("cay", stored)).await;
        world.received(20, address("dee", reported)).await;
        for user in ["ann", "bob", "cay", "dee"] {
            assert!(world.is_out(user).await, "{stored}: {user}");
        }
        world.received(30, about(stored, "subscribed")).await;
        for user in ["ann", "bob", "cay", "dee"] {
            assert!(!world.is_out(user).await, "{stored}: {user}");
        }
        // A line of an import also counts for later lines.
        let line = |user: &str, email: &str, state: &str| json!({ "external_id": user, "email": email, "email_subscribe": state });
        world
            .import(&[line("eve", stored, "unsubscribed"), line("fay", reported, "subscribed")])
            .await;
        assert!(world.is_out("fay").await, "{stored}");
        // An opt-out of a user's own.
        world.received(40, address("gil", reported)).await;
        assert!(world.is_out("gil").await, "{stored}");
    }
}

async fn both_spellings_in_one_request_are_one_address(mut world: World) {
    for (n, [stored, reported]) in ORDERS.into_iter().enumerate() {
        world.another(&format!("acme {n}")).await;
        let objects = [
            address("ann", stored),
            about(reported, "unsubscribed"),
            address("bob", reported),
            address("cay", stored),
        ];
        world.apply(&[world.request(AT, &objects)]).await;
        for user in ["ann", "bob", "cay"] {
            assert!(world.is_out(user).await, "{stored}: {user}");
        }
    }
}

async fn another_spelling_of_an_address_is_no_new_address(world: World) {
    world.received(0, address("ann", UNICODE)).await;
    world.received(10, about(ASCII, "unsubscribed")).await;
    world.received(20, address("ann", ASCII)).await;
    assert!(world.is_out("ann").await);
    world.received(30, about(UNICODE, "opted_in")).await;
    world.received(40, address("ann", UNICODE)).await;
    let ann = world.show("ann").await;
    assert_eq!((&ann["email"], &ann["email_subscribe"]), (&json!(UNICODE), &json!("opted_in")));
    assert_eq!(world.count("emails").await, 1);
}

/// Earlier versions stored one hash of an address.
async fn opt_outs_and_erasures_from_before_an_upgrade_hold_for_both_spellings(world: World) {
    const OPT_OUT: &str =
        "INSERT INTO unsubscribed_emails (workspace_id, who, decided_at) VALUES ($2, $1, $3)";
    const ERASURE: &str = "DELETE FROM erased WHERE who = $1";
    let hash = name_hash(Name::Email, UNICODE).to_vec();
    on_pool!(&world.app.store, pool => {
        let insert = sqlx::query(OPT_OUT).bind(hash).bind(world.workspace.id).bind(AT + 10);
        insert.execute(pool).await.unwrap();
    });
    world.received(20, address("bob", ASCII)).await;
    assert!(world.is_out("bob").await);
    world.received(30, about(ASCII, "subscribed")).await;
    assert_eq!(world.count("unsubscribed_emails").await, 0);
    for [erased, tracked] in [
        ["cay@bücher.example", "cay@xn--bcher-kva.example"],
        ["dee@xn--bcher-kva.example", "dee@bücher.example"],
    ] {
        assert!(erase::erase(&world.app.store, &world.workspace, erased).await.is_err());
        world.delete_hash(ERASURE, tracked).await;
        world.received(40, set(json!({ "email": tracked }), json!({}))).await;
    }
    assert_eq!(world.ids().await.len(), 1, "only bob");
}

async fn both_spellings_identify_one_user(mut world: World) {
    for (n, [first, second]) in ORDERS.into_iter().enumerate() {
        world.another(&format!("acme {n}")).await;
        let by_email =
            |email: &str, name: &str| set(json!({ "email": email }), json!({ name: "x" }));
        let objects = [by_email(first, "first_name"), by_email(second, "last_name")];
        world.apply(&[world.request(AT, &objects)]).await;
        world.received(10, by_email(second, "home_city")).await;
        let user = world.show(second).await;
        assert_eq!((&user["email"], &user["home_city"]), (&json!(first), &json!("x")));
        world.import(&[json!({ "email": second, "first_name": "Ann" })]).await;
        assert_eq!(world.show(first).await["first_name"], "Ann");
        assert_eq!(world.ids().await.len(), 1, "{first}");
        erase::erase(&world.app.store, &world.workspace, first).await.unwrap();
        assert_eq!(world.count("emails").await, 0);
        // Received before the erasure.
        for email in [first, second] {
            world.received(20, by_email(email, "first_name")).await;
        }
        assert_eq!(world.ids().await.len(), 0, "{first}");
    }
}

fn group(id: &str, state: &str) -> Value {
    json!({ "subscription_group_id": id, "subscription_state": state })
}

fn in_group(user: &str, group: &str, state: &str) -> Value {
    json!({ "attributes": { "user": id(user), "groups": { group: state } } })
}

async fn a_subscription_group_has_one_state_in_all_spellings(world: World) {
    let out = json!([group(GROUP, "unsubscribed")]);
    for (user, [first, second]) in [("ann", [GROUP, UPPER]), ("bob", [UPPER, GROUP])] {
        world.received(0, set(id(user), json!({}))).await;
        world.received(0, in_group(user, first, "subscribed")).await;
        let list = json!({ "subscription_groups": [group(second, "unsubscribed")] });
        world.received(10, set(id(user), list)).await;
        assert_eq!(world.groups(user).await, out, "{user}");
        // Received before, applied later.
        world.received(5, in_group(user, first, "subscribed")).await;
        assert_eq!(world.groups(user).await, out, "{user}");
    }
    let line = |id: &str, state: &str| json!({ "external_id": "cay", "subscription_groups": [group(id, state)] });
    world.import(&[line(UPPER, "subscribed"), line(GROUP, "unsubscribed")]).await;
    assert_eq!(world.try_import(&[line(UPPER, "subscribed")]).await.kept_unsubscribed, 1);
    assert_eq!(world.groups("cay").await, out);
    // The kept user has the opt-out of the merged one.
    let list = json!({ "subscription_groups": [group(UPPER, "subscribed")] });
    world.received(20, set(id("dee"), list)).await;
    world.identity(30, id("ann"), json!({ "merge_into": id("dee") })).await;
    assert_eq!(world.groups("dee").await, out);
}

async fn groups_that_an_earlier_version_stored_keep_their_opt_outs(world: World) {
    world.received(0, set(id("ann"), json!({}))).await;
    let service_id = world.show("ann").await["service_id"].clone();
    let (out, other) = (group(UPPER, "unsubscribed"), group(GROUP, "subscribed"));
    for (ms, groups, state) in [
        (0, [&out, &other], "unsubscribed"),
        (0, [&other, &out], "unsubscribed"),
        (10, [&out, &other], "subscribed"),
        (20, [&other, &out], "subscribed"),
    ] {
        let document = json!({
            "service_id": service_id, "external_id": "ann", "subscription_groups": groups,
        });
        world.replace_documents(&document.to_string()).await;
        world.received(ms, in_group("ann", GROUP, "subscribed")).await;
        assert_eq!(world.groups("ann").await, json!([group(GROUP, state)]), "{ms}");
    }
}
