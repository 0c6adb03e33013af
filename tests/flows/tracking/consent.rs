//! The user's decisions to get messages or not, in whatever order and by whatever name they come.

mod histories;
mod random_histories;
mod spellings;

use kit::clock::from_ms;
use longshore::users::erased_rows::{Name, name_hash};
use longshore::users::suppressions::AddressStates;

use super::*;

on_both_stores!(World =>
    a_decision_that_waited_in_another_partition_undoes_nothing,
    opt_outs_hold_when_users_become_one,
    opt_outs_from_before_an_upgrade_hold,
    an_unsubscribed_address_stays_unsubscribed,
    an_opt_out_by_address_reaches_users_who_are_older_than_an_erasure,
    an_address_stays_unsubscribed_when_a_duplicate_is_erased,
    an_address_that_is_newer_than_an_opt_out_stays_unsubscribed_when_its_user_is_removed,
    an_import_of_the_new_id_does_not_prevent_a_rename,
    opt_outs_in_a_batch_reach_the_address_of_that_time,
    opt_outs_by_address_of_earlier_releases_hold,
    ids_of_merged_users_are_kept_until_the_kept_user_is_erased,
    imports_do_not_create_merged_users_again,
    lines_of_an_import_count_for_later_lines,
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

    /// All users, with what applies to their addresses, and why these are `stopped`.
    async fn documents(&self) -> Vec<Value> {
        let sql = "SELECT doc FROM users WHERE workspace_id = $1";
        let documents: Vec<String> = on_pool!(&self.app.store, pool => {
            sqlx::query_scalar(sql).bind(self.workspace.id).fetch_all(pool).await
        })
        .unwrap();
        let parse = |document: &str| serde_json::from_str::<Value>(document).unwrap();
        let parsed: Vec<Value> = documents.iter().map(|document| parse(document)).collect();
        let id = |user: &Value| user["service_id"].as_str().unwrap().parse::<Uuid>().unwrap();
        let ids: Vec<Uuid> = parsed.iter().map(id).collect();
        let users = || ids.iter().copied().zip(documents.iter().map(String::as_str));
        let mut tx = self.app.store.snapshot().await.unwrap();
        let states = AddressStates::look_up(&mut tx, self.workspace.id, users()).await;
        let states = states.unwrap();
        let applied = |(id, document)| {
            let Some(state) = states.of_user(id) else { return parse(document) };
            let mut user = parse(&state.applied(document).unwrap());
            user["stopped"] = state.stopped().map(|stop| stop.reason.name()).into();
            user
        };
        users().map(applied).collect()
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

/// A decision about an address, whoever has it.
fn about(email: &str, state: &str) -> Value {
    let mut object = update_only(set(json!({ "email": email }), emails(state)));
    object["attributes"]["address"] = json!({ "email": email });
    object
}

async fn a_decision_that_waited_in_another_partition_undoes_nothing(world: World) {
    world.received(0, set(id("ann"), json!({}))).await;
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
    let alias = |name: &str| json!({"user_alias": {"alias_name": name, "alias_label": "crm"}});
    for (n, way) in ["merge", "identify", "rename"].into_iter().enumerate() {
        let [kept, gone] = [format!("kept {n}"), format!("gone {n}")];
        let email = format!("{way}@acme.example");
        let out = json!({ "email": email, "email_subscribe": "unsubscribed" });
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
        assert_eq!(user["email"], email, "{way}");
        assert_eq!(user["email_subscribe"], "unsubscribed", "{way}");
        // What was received before does not undo it. Nor does what the user decides later, because
        // the address is unsubscribed, too.
        world.received(4, set(id(&kept), emails("subscribed"))).await;
        assert_eq!(world.show(&kept).await["email_subscribe"], "unsubscribed", "{way}");
        world.received(9, set(id(&kept), emails("subscribed"))).await;
        assert_eq!(world.show(&kept).await["email_subscribe"], "unsubscribed", "{way}");
        world.received(10, about(&email, "subscribed")).await;
        assert_eq!(world.show(&kept).await["email_subscribe"], "subscribed", "{way}");
    }
}

/// Before an upgrade, neither times nor addresses were recorded.
async fn opt_outs_from_before_an_upgrade_hold(world: World) {
    let address = |user: &str| set(id(user), json!({ "email": "a@acme.example" }));
    world.received(5, address("ann")).await;
    world.received(10, set(id("ann"), emails("unsubscribed"))).await;
    world.execute("DELETE FROM suppressions").await;
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
    assert_eq!(world.show("ann").await["email_subscribe"], "unsubscribed");
    world.received(40, about("a@acme.example", "subscribed")).await;
    for user in ["ann", "bob"] {
        assert_eq!(world.show(user).await["email_subscribe"], "subscribed", "{user}");
    }
}

async fn an_unsubscribed_address_stays_unsubscribed(world: World) {
    let state = async |user: &str| world.show(user).await["email_subscribe"].clone();
    let address = |user: &str, email: &str| set(id(user), json!({ "email": email }));
    // Before anybody has it: the user's partition is behind.
    world.received(10, about("a@acme.example", "unsubscribed")).await;
    world.received(5, address("ann", "A@acme.example")).await;
    assert_eq!(state("ann").await, "unsubscribed");
    // It moves to another user, and the first one is as before.
    world.received(20, set(id("ann"), json!({ "email": null }))).await;
    assert_eq!(state("ann").await, Value::Null);
    world.received(30, set(id("bob"), emails("subscribed"))).await;
    world.received(40, address("bob", "a@acme.example")).await;
    assert_eq!(state("bob").await, "unsubscribed");
    // A user's own state does not end it, whatever identifies the user.
    world.received(42, set(id("bob"), emails("opted_in"))).await;
    world.received(44, set(json!({ "email": "a@acme.example" }), emails("subscribed"))).await;
    assert_eq!(state("bob").await, "unsubscribed");
    // All who have it, until it is subscribed again.
    world.received(50, about("a@acme.example", "subscribed")).await;
    world.received(60, address("cay", "a@acme.example")).await;
    assert_eq!(
        (state("bob").await, state("cay").await),
        ("subscribed".into(), "subscribed".into())
    );
    // An own opt-out reaches the others.
    world.received(70, set(id("cay"), emails("unsubscribed"))).await;
    for user in ["bob", "cay"] {
        assert_eq!(state(user).await, "unsubscribed", "{user}");
    }
    // By email, a user is created with the state of the address.
    world.received(80, set(json!({ "email": "b@acme.example" }), emails("unsubscribed"))).await;
    world.received(90, json!({ "identity": { "user": id("ann"), "change": "erase" } })).await;
    let both = json!({ "email": "b@acme.example", "email_subscribe": "opted_in" });
    world.received(100, set(id("dee"), both)).await;
    assert_eq!(state("dee").await, "unsubscribed");
    // The address of an erased user stays unsubscribed.
    let own = json!({ "email": "e@acme.example", "email_subscribe": "unsubscribed" });
    world.received(110, set(id("eve"), own)).await;
    world.received(120, json!({ "identity": { "user": id("eve"), "change": "erase" } })).await;
    world.received(130, address("eve", "e@acme.example")).await;
    assert_eq!(state("eve").await, "unsubscribed");
}

async fn opt_outs_in_a_batch_reach_the_address_of_that_time(mut world: World) {
    const A: &str = "a@acme.example";
    const B: &str = "b@acme.example";
    const C: &str = "c@acme.example";
    let ann = |fields: Value| set(id("ann"), fields);
    let address = |email: &str| ann(json!({ "email": email }));
    let subscribed =
        |email: Option<&str>| json!({ "email": email, "email_subscribe": "subscribed" });
    let out = |email: &str| update_only(set(json!({ "email": email }), emails("unsubscribed")));
    let own = || ann(emails("unsubscribed"));
    for is_one_request in [false, true] {
        for case in 0..7 {
            world.another(&format!("acme {is_one_request} {case}")).await;
            world.received(0, address(A)).await;
            let by_id = world.service_id("ann").await;
            let (before, batch, is_out, unsubscribed) = match case {
                // An address that she has only for a moment.
                0 => (vec![out(B)], vec![address(B), address(C)], false, vec![B]),
                // It is also her own opt-out, and she has another address afterwards.
                1 => (vec![], vec![address(B), out(B), address(C)], true, vec![B]),
                // The one that she had before, in between without it.
                2 => (vec![own()], vec![ann(subscribed(Some(B))), address(A)], true, vec![A]),
                3 => (vec![own()], vec![ann(subscribed(None)), address(A)], true, vec![A]),
                4 => {
                    (vec![own()], vec![set(by_id, subscribed(Some(B))), address(A)], true, vec![A])
                }
                // She subscribes with another one. The address that she gets is unsubscribed.
                5 => (vec![out(C)], vec![ann(subscribed(Some(B))), address(C)], true, vec![C]),
                // The one that she has no longer.
                _ => (vec![], vec![address(B), out(A)], false, vec![A]),
            };
            for object in before {
                world.received(5, object).await;
            }
            let requests: Vec<Message> = if is_one_request {
                vec![world.request(AT + 10, &batch)]
            } else {
                let at = (AT + 10)..;
                at.zip(&batch)
                    .map(|(at, object)| world.request(at, std::slice::from_ref(object)))
                    .collect()
            };
            world.apply(&requests).await;
            let is_unsubscribed =
                async |user: &str| world.show(user).await["email_subscribe"] == "unsubscribed";
            assert_eq!(is_unsubscribed("ann").await, is_out, "{case} {is_one_request}");
            for email in [A, B, C] {
                world.received(50, set(id(email), json!({ "email": email }))).await;
                let expected = unsubscribed.contains(&email);
                assert_eq!(
                    is_unsubscribed(email).await,
                    expected,
                    "{case} {is_one_request} {email}"
                );
            }
        }
    }
}

async fn opt_outs_by_address_of_earlier_releases_hold(world: World) {
    // They stored hashes without a key.
    let hash = name_hash(Name::Email, "a@acme.example").to_vec();
    let sql = "INSERT INTO unsubscribed_emails (workspace_id, who, decided_at) VALUES ($1, $2, $3)";
    on_pool!(&world.app.store, pool => {
        sqlx::query(sql).bind(world.workspace.id).bind(hash).bind(AT + 10).execute(pool).await
            .unwrap();
    });
    for user in ["ann", "bob"] {
        world.received(5, set(id(user), json!({ "email": "A@acme.example" }))).await;
        world.received(20, set(id(user), emails("subscribed"))).await;
        assert_eq!(world.show(user).await["email_subscribe"], "unsubscribed", "{user}");
    }
    // The state of the address before it does not end it.
    world.received(5, about("a@acme.example", "subscribed")).await;
    assert_eq!(world.show("ann").await["email_subscribe"], "unsubscribed");
    // Nor does an erasure.
    world.received(30, json!({ "identity": { "user": id("bob"), "change": "erase" } })).await;
    assert_eq!(world.show("ann").await["email_subscribe"], "unsubscribed");
    world.received(40, about("a@acme.example", "opted_in")).await;
    assert_eq!(world.show("ann").await["email_subscribe"], "opted_in");
    assert_eq!(world.count("unsubscribed_emails").await, 0);
}

async fn an_opt_out_by_address_reaches_users_who_are_older_than_an_erasure(world: World) {
    let address = |user: &str| set(id(user), json!({ "email": "a@acme.example" }));
    // Ids that this worker gives from now on are later.
    world.received(1_000, set(id("ann"), json!({}))).await;
    world.received(100, address("bob")).await;
    world.received(110, address("cay")).await;
    world.received(150, json!({ "identity": { "user": id("cay"), "change": "erase" } })).await;
    let out = set(json!({ "email": "a@acme.example" }), emails("unsubscribed"));
    world.received(120, update_only(out)).await;
    assert_eq!(world.show("bob").await["email_subscribe"], "unsubscribed");
    world.received(160, address("dee")).await;
    assert_eq!(world.show("dee").await["email_subscribe"], "unsubscribed");
}

async fn an_address_stays_unsubscribed_when_a_duplicate_is_erased(world: World) {
    let address = |user: &str| set(id(user), json!({ "email": "A@acme.example" }));
    let state = async |user: &str| world.show(user).await["email_subscribe"].clone();
    let erase = |user: &str| json!({ "identity": { "user": id(user), "change": "erase" } });
    for user in ["ann", "bob", "cay"] {
        world.received(0, address(user)).await;
    }
    let out = set(json!({ "email": "a@acme.example" }), emails("unsubscribed"));
    world.received(10, update_only(out)).await;
    world.received(20, erase("ann")).await;
    world.received(30, address("dee")).await;
    assert_eq!(state("dee").await, "unsubscribed");
    world.received(40, erase("dee")).await;
    erase::erase(&world.app.store, &world.workspace, "bob").await.unwrap();
    world.import(&[json!({ "external_id": "eve", "email": "a@acme.example" })]).await;
    assert_eq!(state("eve").await, "unsubscribed");
    // Also when nobody is left who has it.
    for user in ["cay", "eve"] {
        erase::erase(&world.app.store, &world.workspace, user).await.unwrap();
    }
    world.received(50, address("fay")).await;
    assert_eq!(state("fay").await, "unsubscribed");
    // A user's own opt-out is kept with the address.
    world.received(55, about("a@acme.example", "subscribed")).await;
    assert_eq!(state("fay").await, "subscribed");
    let own = json!({ "email": "a@acme.example", "email_subscribe": "unsubscribed" });
    world.received(60, set(id("gil"), own)).await;
    world.received(70, erase("gil")).await;
    assert_eq!(state("fay").await, "unsubscribed");
}

async fn an_address_that_is_newer_than_an_opt_out_stays_unsubscribed_when_its_user_is_removed(
    world: World,
) {
    let group = |user: &str, state: &str| json!({ "attributes": { "user": id(user), "groups": { "g": state } } });
    let contact = |user: &str, phone: usize| json!({ "email": format!("{user}@acme.example"), "phone": format!("+1555010{phone}") });
    let states = async |user: &str| {
        let shown = world.show(user).await;
        let group = &shown["subscription_groups"][0]["subscription_state"];
        [shown["email_subscribe"].clone(), group.clone()]
    };
    let removals = [
        ("ann", json!({ "email": "old@acme.example", "phone": "+15550199" }), "erase"),
        ("bob", json!({}), "erase"),
        ("cay", json!({}), "merge"),
        ("dee", json!({}), "merge of an alias"),
    ];
    world.received(0, set(id("kept"), contact("kept", 9))).await;
    let start = async |phone: usize, user: Value, first: &Value| {
        let name = format!("u{phone}");
        world.received(0, set(user.clone(), first.clone())).await;
        let groups =
            [json!({ "subscription_group_id": "g", "subscription_state": "unsubscribed" })];
        let out = json!({ "email_subscribe": "unsubscribed", "subscription_groups": groups });
        world.received(10, set(user.clone(), out)).await;
        world.received(20, set(user, contact(&name, phone))).await;
        name
    };
    for (phone, (user, first, removal)) in removals.into_iter().enumerate() {
        let name = match removal {
            "erase" => {
                let name = start(phone, id(user), &first).await;
                let erase = json!({ "identity": { "user": id(user), "change": "erase" } });
                world.received(30, erase).await;
                name
            }
            "merge" => {
                let name = start(phone, id(user), &first).await;
                world.identity(30, id(user), json!({ "merge_into": id("kept") })).await;
                name
            }
            _ => {
                let alias = json!({ "alias_name": user, "alias_label": "crm" });
                let by_alias = json!({ "user_alias": alias });
                let add = json!({ "user": by_alias, "change": { "add_alias": alias } });
                world.received(0, json!({ "identity": add })).await;
                let name = start(phone, by_alias.clone(), &first).await;
                world.identity(30, by_alias, json!({ "identify": "kept" })).await;
                name
            }
        };
        let mut line = contact(&name, phone);
        line["external_id"] = name.as_str().into();
        line["email_subscribe"] = "subscribed".into();
        world.import(&[line]).await;
        world.received(40, group(&name, "subscribed")).await;
        assert_eq!(states(&name).await, ["unsubscribed", "unsubscribed"], "{removal} of {user}");
    }
    // A decision about the address since its user got it ends the opt-out, an earlier one does not.
    for (user, ms, state) in [("eve", 25, "subscribed"), ("fay", 15, "unsubscribed")] {
        let address = set(id(user), json!({ "email": format!("{user}@acme.example") }));
        world.received(0, set(id(user), emails("unsubscribed"))).await;
        world.received(ms, about(&format!("{user}@acme.example"), "subscribed")).await;
        world.received(20, address.clone()).await;
        world.received(30, json!({ "identity": { "user": id(user), "change": "erase" } })).await;
        world.received(40, address).await;
        assert_eq!(world.show(user).await["email_subscribe"], state, "{user}");
    }
    // The kept user gets the address, and decides about it.
    let address = json!({ "email": "gil@acme.example" });
    world.received(0, set(id("gil"), emails("unsubscribed"))).await;
    world.received(20, set(id("gil"), address)).await;
    world.received(20, set(id("hal"), json!({}))).await;
    world.identity(30, id("gil"), json!({ "merge_into": id("hal") })).await;
    world.received(40, set(id("hal"), emails("subscribed"))).await;
    let hal = world.show("hal").await;
    assert_eq!(
        (&hal["email"], &hal["email_subscribe"]),
        (&json!("gil@acme.example"), &json!("subscribed"))
    );
}

async fn an_import_of_the_new_id_does_not_prevent_a_rename(world: World) {
    world.received(0, set(id("a"), json!({ "push_subscribe": "unsubscribed" }))).await;
    world.app.clock.set(from_ms(AT + 10_000));
    world.import(&[json!({ "external_id": "b", "push_subscribe": "subscribed" })]).await;
    world.identity(5, id("a"), json!({ "rename_external_id": "b" })).await;
    assert_eq!(world.ids().await.len(), 1);
    assert_eq!(world.show("b").await["push_subscribe"], "unsubscribed");
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

async fn imports_do_not_create_merged_users_again(world: World) {
    for user in ["a", "b", "c"] {
        world.received(0, set(id(user), json!({ "first_name": user }))).await;
    }
    let former = world.service_id("a").await;
    let line = json!({ "service_id": former["service_id"], "external_id": "a" });
    // An import of an earlier version could do so. The user can be merged again.
    world
        .execute(
            "INSERT INTO merged_users (workspace_id, service_id, kept_as, merged_at)
             SELECT gone.workspace_id, gone.service_id, kept.service_id, 1
             FROM users AS gone, users AS kept
             WHERE gone.external_id = 'a' AND kept.external_id = 'c'",
        )
        .await;
    world.identity(1, id("a"), json!({ "merge_into": id("b") })).await;
    let summary = world.try_import(&[line]).await;
    assert_eq!((summary.created, summary.replaced, summary.bad), (0, 0, 1));
    assert_eq!(world.ids().await.len(), 2);
    // Links in old emails reach the kept user.
    world.received(3, set(former, emails("unsubscribed"))).await;
    assert_eq!(world.show("b").await["email_subscribe"], "unsubscribed");
    assert_eq!(world.show("c").await["email_subscribe"], Value::Null);
}

async fn lines_of_an_import_count_for_later_lines(world: World) {
    let line = |user: &str, state: &str| json!({ "external_id": user, "email": "a@acme.example", "email_subscribe": state });
    world.received(0, set(id("cay"), emails("subscribed"))).await;
    let lines = [line("ann", "unsubscribed"), line("bob", "subscribed"), line("cay", "opted_in")];
    let summary = world.try_import(&lines).await;
    assert_eq!((summary.lines, summary.bad, summary.kept_unsubscribed), (3, 0, 2));
    for user in ["ann", "bob", "cay"] {
        assert_eq!(world.show(user).await["email_subscribe"], "unsubscribed", "{user}");
    }
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
