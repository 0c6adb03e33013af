//! Aliases, external ids, merging and deleting.

use serde_json::{Value, json};

use super::World;

fn alias(name: &str) -> Value {
    json!({ "alias_name": name, "alias_label": "crm" })
}

fn aliases(user: &Value) -> Vec<String> {
    let aliases = user["user_aliases"].as_array().cloned().unwrap_or_default();
    aliases.iter().map(|alias| alias["alias_name"].as_str().unwrap().to_owned()).collect()
}

fn event(user: Value, name: &str) -> Value {
    let mut event = json!({ "name": name, "time": "2026-11-20T08:00:00Z" });
    event.as_object_mut().unwrap().extend(user.as_object().unwrap().clone());
    event
}

#[tokio::test(flavor = "multi_thread")]
async fn aliases_are_added_renamed_and_identified() {
    let world = World::start(&[]).await;
    world.track(json!([{ "external_id": "ann", "tier": 1 }])).await;
    let new = json!({ "user_aliases": [
        { "external_id": "ann", "alias_name": "a", "alias_label": "crm" },
        { "external_id": "nobody", "alias_name": "x", "alias_label": "crm" },
        { "alias_name": "b", "alias_label": "crm" },
    ] });
    assert_eq!(world.done("/users/alias/new", new).await["aliases_processed"], 3);
    world.fleet.applied().await;
    world.track(json!([{ "user_alias": alias("a"), "first_name": "Ann" }])).await;
    world.track(json!([{ "user_alias": alias("b"), "first_name": "Bob" }])).await;
    assert_eq!(world.user("ann").await["first_name"], "Ann");

    // Of a label a user has one alias, and nobody gets another user's.
    let again = json!({ "user_aliases": [
        { "external_id": "ann", "alias_name": "c", "alias_label": "crm" },
    ] });
    world.done("/users/alias/new", again).await;
    let rename = |from: &str, to: &str| {
        json!({ "alias_updates": [
            { "alias_label": "crm", "old_alias_name": from, "new_alias_name": to },
        ] })
    };
    world.done("/users/alias/update", rename("a", "b")).await;
    assert_eq!(aliases(&world.user("ann").await), ["a"]);
    world.done("/users/alias/update", rename("a", "d")).await;
    assert_eq!(aliases(&world.user("ann").await), ["d"]);

    // Who is known by an alias alone becomes somebody.
    let identify = |id: &str, name: &str| json!({ "aliases_to_identify": [{ "external_id": id, "user_alias": alias(name) }] });
    world.done("/users/identify", identify("bob", "b")).await;
    let bob = world.user("bob").await;
    assert_eq!((&bob["first_name"], aliases(&bob)), (&json!("Bob"), vec!["b".to_owned()]));
    world.refused("/users/identify", json!({}), 400, "invalid-field").await;
    world.refused("/users/alias/new", json!({ "user_aliases": [] }), 400, "invalid-field").await;
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prioritization_is_respected_or_rejected() {
    let world = World::start(&[]).await;
    let identify = |id: &str, prioritization: Value| {
        json!({ "emails_to_identify": [{
            "external_id": id, "email": "ann@example.com", "prioritization": prioritization,
        }] })
    };
    for wrong in [
        json!([]),
        json!(["identified"]),
        json!(["most_recently_updated"]),
        json!(["most_recently_updated", "unidentified"]),
        json!(["unidentified", "least_recently_updated"]),
        json!(["unidentified", "unidentified"]),
        json!("unidentified"),
        json!([1]),
    ] {
        world.refused("/users/identify", identify("ann", wrong), 400, "invalid-field").await;
    }
    let new = json!({ "user_aliases": [
        { "alias_name": "a", "alias_label": "crm" }, { "alias_name": "b", "alias_label": "crm" },
    ] });
    world.done("/users/alias/new", new).await;
    world.fleet.applied().await;
    for name in ["a", "b"] {
        world.track(json!([{ "user_alias": alias(name), "email": "ann@example.com" }])).await;
        world.fleet.applied().await;
    }
    world.done("/users/identify", identify("ann", json!(["unidentified"]))).await;
    assert_eq!(world.user("ann").await, Value::Null);
    let last = json!(["unidentified", "most_recently_updated"]);
    world.done("/users/identify", identify("ann", last)).await;
    assert_eq!(aliases(&world.user("ann").await), ["b"]);
    world.done("/users/identify", identify("bob", json!(["unidentified"]))).await;
    assert_eq!(aliases(&world.user("bob").await), ["a"]);
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn merged_users_have_the_activity_of_both() {
    let world = World::start(&[]).await;
    let purchase = |user: &str, quantity: u8| {
        json!({ "external_id": user, "product_id": "tea", "currency": "USD", "price": 2.5,
                "quantity": quantity, "time": "2026-11-20T08:00:00Z" })
    };
    world
        .done(
            "/users/track",
            json!({
                "attributes": [
                    { "external_id": "old", "first_name": "Old", "last_name": "Lee", "a": 1, "b": 1 },
                    { "external_id": "ann", "first_name": "Ann", "a": 2 },
                ],
                "purchases": [purchase("old", 2), purchase("ann", 3)],
                "events": [event(json!({ "external_id": "old" }), "seen")],
            }),
        )
        .await;
    let merge = json!({ "merge_updates": [{
        "identifier_to_merge": { "external_id": "old" },
        "identifier_to_keep": { "external_id": "ann" },
    }] });
    let answer = world.api.post("/users/merge", &merge).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    let ann = world.user("ann").await;
    assert_eq!(world.user("old").await, Value::Null);
    assert_eq!((&ann["first_name"], &ann["last_name"]), (&json!("Ann"), &json!("Lee")));
    assert_eq!(ann["custom_attributes"], json!({ "a": 2, "b": 1 }));
    assert_eq!((&ann["purchases"][0]["count"], &ann["total_revenue"]), (&json!(5), &json!(12.5)));
    assert_eq!(ann["custom_events"][0]["count"], 1);

    // A user who is tracked with that id later is new, and the merge does not change it.
    world.track(json!([{ "external_id": "old", "first_name": "New" }])).await;
    assert_eq!(world.user("old").await["first_name"], "New");
    let wrong = json!({ "merge_updates": [{
        "identifier_to_merge": {}, "identifier_to_keep": { "external_id": "ann" },
    }] });
    world.refused("/users/merge", wrong, 400, "invalid-field").await;
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renamed_user_is_found_by_both_ids_until_one_is_removed() {
    let world = World::start(&[]).await;
    world.track(json!([{ "external_id": "ann", "a": 1 }, { "external_id": "bob" }])).await;
    let rename = json!({ "external_id_renames": [
        { "current_external_id": "ann", "new_external_id": "ann-2" },
        { "current_external_id": "bob", "new_external_id": "bob" },
    ] });
    let answer = world.done("/users/external_ids/rename", rename).await;
    assert_eq!(answer["external_ids"], json!(["ann-2"]));
    assert_eq!(answer["rename_errors"][0][0], 1, "{answer}");
    // At once, in another partition perhaps.
    world.track(json!([{ "external_id": "ann-2", "b": 2 }])).await;
    world.track(json!([{ "external_id": "ann", "c": 3 }])).await;
    for id in ["ann", "ann-2"] {
        let user = world.user(id).await;
        assert_eq!(user["external_id"], "ann-2", "{user}");
        assert_eq!(user["custom_attributes"], json!({ "a": 1, "b": 2, "c": 3 }), "{user}");
    }
    // The present id stays.
    let remove = |id: &str| json!({ "external_ids": [id] });
    world.done("/users/external_ids/remove", remove("ann-2")).await;
    assert_eq!(world.user("ann-2").await["external_id"], "ann-2");
    let answer = world.done("/users/external_ids/remove", remove("ann")).await;
    assert_eq!(answer["removed_ids"], json!(["ann"]));
    assert_eq!(world.user("ann").await, Value::Null);
    assert_eq!(world.user("ann-2").await["custom_attributes"]["a"], 1);
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_is_in_order_with_tracking_and_not_undone_by_it() {
    let world = World::start(&[]).await;
    let people: Vec<Value> = (0..40)
        .map(|n| json!({ "external_id": format!("u{n}"), "email": format!("u{n}@example.com") }))
        .collect();
    world.track(people.into()).await;
    let ids: Vec<String> = (0..40).map(|n| format!("u{n}")).collect();
    // Nothing waits for what came before it.
    let answer = world.done("/users/delete", json!({ "external_ids": ids })).await;
    assert!(answer["deleted"].as_u64().is_some_and(|deleted| deleted <= 40), "{answer}");
    world.track(json!([{ "external_id": "u0", "a": 1 }])).await;
    assert_eq!(world.user("u0").await["custom_attributes"], json!({ "a": 1 }));
    assert_eq!(world.user("u0").await["email"], Value::Null);
    for id in ["u1", "u39", "u7@example.com"] {
        assert_eq!(world.user(id).await, Value::Null, "{id}");
    }
    let many: Vec<String> = (0..51).map(|n| format!("u{n}")).collect();
    world.refused("/users/delete", json!({ "external_ids": many }), 400, "invalid-field").await;
    world.refused("/users/delete", json!({}), 400, "invalid-field").await;
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_existing_users_count_as_deleted_each_once() {
    let world = World::start(&[]).await;
    world.track(json!([{ "external_id": "ann" }, { "external_id": "bob" }])).await;
    world.fleet.applied().await;
    let add = json!({ "user_aliases": [
        { "external_id": "ann", "alias_name": "a", "alias_label": "crm" },
    ] });
    world.done("/users/alias/new", add).await;
    world.fleet.applied().await;
    let id = world.user("ann").await["service_id"].clone();
    let unknown = "019a0000-0000-7000-8000-000000000000";
    let delete = json!({
        "external_ids": ["ann", "ann", "nobody"], "user_aliases": [alias("a"), alias("z")],
        "service_ids": [id, unknown],
    });
    assert_eq!(world.done("/users/delete", delete.clone()).await["deleted"], 1);
    world.fleet.applied().await;
    assert_eq!(world.user("ann").await, Value::Null);
    assert_eq!(world.done("/users/delete", delete).await["deleted"], 0);
    let both = json!({ "external_ids": ["bob", "nobody"] });
    assert_eq!(world.done("/users/delete", both).await["deleted"], 1);
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_under_a_key_is_made_once() {
    let world = World::start(&[]).await;
    world.track(json!([{ "external_id": "ann" }])).await;
    let delete = json!({ "external_ids": ["ann"] });
    let call = || {
        let request = world.api.request(reqwest::Method::POST, "/users/delete").json(&delete);
        crate::support::api::answer(request.header("idempotency-key", "\"k\""))
    };
    let first = call().await;
    assert_eq!(first.status, 201, "{first:?}");
    world.fleet.applied().await;
    world.track(json!([{ "external_id": "ann", "a": 1 }])).await;
    assert_eq!(call().await.body, first.body);
    assert_eq!(world.user("ann").await["custom_attributes"], json!({ "a": 1 }));
    world.fleet.close().await;
}
