//! What an import keeps of the users that it replaces, and what a dry run reports.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::World;
use crate::support::stores::on_both_stores;

on_both_stores!(World =>
    an_import_keeps_what_exports_do_not_contain,
    unsubscribed_users_stay_unsubscribed,
    a_push_token_belongs_to_the_user_imported_last,
    a_dry_run_counts_what_would_be_removed,
    a_line_may_have_the_other_name_of_service_id,
);

fn group(id: &str, state: &str) -> Value {
    json!({ "subscription_group_id": id, "subscription_state": state })
}

fn token(token: &str) -> Value {
    json!({ "app_id": "app", "token": token })
}

async fn import(world: &World, records: &[Value]) -> longshore::users::import::Summary {
    let lines: Vec<String> = records.iter().map(Value::to_string).collect();
    world.import_well(&lines).await
}

async fn an_import_keeps_what_exports_do_not_contain(world: World) {
    let kept = json!({
        "email_subscribe": "unsubscribed", "push_subscribe": "opted_in",
        "subscription_groups": [group("g", "unsubscribed"), group("h", "subscribed")],
        "push_tokens": [token("t")], "current_location": {"longitude": 1.5, "latitude": -2},
        "date_of_first_session": "2021-06-28T17:02:43.032Z",
        "date_of_last_session": "2021-06-29T00:00:00.000Z",
    });
    let mut ann = kept.clone();
    ann["external_id"] = json!("ann");
    ann["first_name"] = json!("Anm");
    import(&world, &[ann]).await;
    let corrected = [
        json!({"external_id": "ann", "last_name": "Lee"}),
        // Null is as if it were absent, and so is nothing.
        json!({
            "external_id": "ann", "last_name": "Lee", "email_subscribe": null,
            "push_subscribe": "", "subscription_groups": [], "push_tokens": null,
        }),
        json!({"external_id": "ann", "last_name": "Lee", "push_tokens": []}),
    ];
    for record in &corrected {
        // Alone, and after another line of the batch.
        for records in [&[record.clone()][..], &corrected] {
            assert_eq!(import(&world, records).await.kept_unsubscribed, 0);
            let shown = world.show("ann").await.unwrap();
            assert_eq!(shown.get("first_name"), None);
            for (name, value) in kept.as_object().unwrap() {
                assert_eq!(&shown[name], value, "{name} after {record}");
            }
        }
    }
}

async fn unsubscribed_users_stay_unsubscribed(world: World) {
    let user = |id: &str, email: &str, group_state: &str| {
        json!({
            "external_id": id, "email_subscribe": email,
            "subscription_groups": [group("g", group_state)],
        })
    };
    import(
        &world,
        &[user("ann", "unsubscribed", "subscribed"), user("ben", "subscribed", "unsubscribed")],
    )
    .await;
    let all_in = [user("ann", "subscribed", "subscribed"), user("ben", "opted_in", "subscribed")];
    let out = user("ann", "subscribed", "unsubscribed");
    assert_eq!(import(&world, &all_in).await.kept_unsubscribed, 2);
    assert_eq!(import(&world, &[out, all_in[0].clone()]).await.kept_unsubscribed, 2);
    for (id, email, group_state) in
        [("ann", "unsubscribed", "unsubscribed"), ("ben", "opted_in", "unsubscribed")]
    {
        let shown = world.show(id).await.unwrap();
        assert_eq!(shown["email_subscribe"], email);
        assert_eq!(shown["subscription_groups"], json!([group("g", group_state)]));
    }
}

async fn a_push_token_belongs_to_the_user_imported_last(world: World) {
    let user = |id: &str, tokens: &[Value]| json!({"external_id": id, "push_tokens": tokens});
    import(&world, &[user("ann", &[token("t"), token("u")]), user("cat", &[])]).await;
    let before = world.show("ann").await.unwrap();
    import(&world, &[user("ben", &[token("t")])]).await;
    assert_eq!(world.show("ann").await.unwrap()["push_tokens"], json!([token("u")]));
    assert_eq!(world.show("ben").await.unwrap()["push_tokens"], json!([token("t")]));
    // Within a batch, with a user who is replaced before and after.
    import(
        &world,
        &[
            user("ben", &[token("u")]),
            user("cat", &[token("t")]),
            user("dan", &[token("t")]),
            user("ann", &[]),
        ],
    )
    .await;
    for (id, tokens) in [
        ("ann", Value::Null),
        ("ben", json!([token("u")])),
        ("cat", Value::Null),
        ("dan", json!([token("t")])),
    ] {
        let shown = world.show(id).await.unwrap();
        assert_eq!(shown.get("push_tokens").cloned().unwrap_or_default(), tokens, "{id}");
    }
    assert_eq!(world.show("ann").await.unwrap()["created_at"], before["created_at"]);
    assert_eq!(world.rows("push_tokens").await, 2);
    longshore::erase::erase(world.store(), &world.workspace, "ben").await.unwrap();
    assert_eq!(world.rows("push_tokens").await, 1);
}

async fn a_dry_run_counts_what_would_be_removed(world: World) {
    world.migrate();
    let now = kit::clock::format_time(world.clock.now_ms());
    let entry = json!([{"name": "tea", "first": now, "last": now, "count": 1}]);
    let user = |id: &str| {
        json!({
            "external_id": id, "first_name": "Ann", "email_subscribe": "unsubscribed",
            "custom_attributes": {"a": 1, "b": 2}, "purchases": entry, "custom_events": entry,
            "total_revenue": 5, "push_tokens": [token(id)],
        })
    };
    import(&world, &[user("ann"), user("ben")]).await;
    let before = world.everybody().await;
    let lines = [
        json!({"external_id": "ann", "custom_attributes": {"a": 3}, "custom_events": entry}),
        json!({"external_id": "ben", "email_subscribe": "subscribed", "last_name": "Lee"}),
        json!({"external_id": "cat", "push_tokens": [token("ann")], "total_revenue": 3.5}),
        json!({"gender": "x"}),
    ];
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    let (ok, out, err) = world.run(&["import", "-", "--dry-run", "--json"], &lines.join("\n"));
    assert!(!ok && err.contains("1 invalid line"), "{err}");
    let summary: Value = serde_json::from_str(&out).unwrap();
    let removed: BTreeMap<String, u64> =
        serde_json::from_value(summary["removed"].clone()).unwrap();
    let removed: Vec<(&str, u64)> = removed.iter().map(|(name, n)| (name.as_str(), *n)).collect();
    assert_eq!(
        removed,
        [
            ("custom_attributes.a", 1),
            ("custom_attributes.b", 2),
            ("custom_events", 1),
            ("first_name", 2),
            ("purchases", 2),
            ("push_tokens", 1),
            ("total_revenue", 2),
        ]
    );
    for (name, value) in [
        ("created", 1),
        ("replaced", 2),
        ("bad", 1),
        ("kept_unsubscribed", 1),
        ("with_revenue", 1),
        ("lines", 4),
    ] {
        assert_eq!(summary[name], value, "{name}");
    }
    assert_eq!(summary["revenue_currency"], "USD");
    assert_eq!((summary["dry_run"].clone(), world.everybody().await), (json!(true), before));
    let (ok, out, _) = world.run(&["import", "-", "--dry-run"], &lines[..3].join("\n"));
    assert!(ok && out.contains("would be removed: first_name (2 users)"), "{out}");
    assert!(out.contains("total_revenue is in USD, the workspace's currency: 1 line."), "{out}");
    // The same lines do that.
    let (ok, out, _) = world.run(&["import", "-", "--json"], &lines[..3].join("\n"));
    let summary: Value = serde_json::from_str(&out).unwrap();
    assert!(ok && summary.get("removed").is_none(), "only a dry run counts them: {out}");
    let ben = world.show("ben").await.unwrap();
    assert!(ben.get("first_name").is_none() && ben["email_subscribe"] == "unsubscribed", "{ben}");
}

async fn a_line_may_have_the_other_name_of_service_id(mut world: World) {
    import(&world, &[json!({"external_id": "ann"})]).await;
    let id = world.show("ann").await.unwrap()["service_id"].clone();
    world.workspace.aliases.service_id = Some("their_id".to_owned());
    let summary = import(&world, &[json!({"their_id": id, "first_name": "Ann"})]).await;
    assert_eq!((summary.replaced, summary.ignored.len()), (1, 0));
    let shown = world.show("ann").await.unwrap();
    assert_eq!((&shown["first_name"], &shown["service_id"]), (&json!("Ann"), &id));
    assert_eq!(shown.get("their_id"), None);
}
