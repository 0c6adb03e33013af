//! A record finds its user by any identifier, and an erased user leaves nothing behind.

use longshore::erase;
use longshore::users::find::FindError;
use longshore::users::service_id;
use serde_json::{Value, json};

use super::World;
use crate::support::stores::{on_both_stores, on_pool};

on_both_stores!(World =>
    a_record_finds_its_user_by_id_then_alias_then_email,
    identifiers_survive_a_replaced_profile,
    identifiers_of_another_user_are_rejected,
    a_row_that_exists_does_not_stop_an_import,
    an_erased_user_leaves_nothing_behind,
    a_shared_address_erases_no_user,
);

async fn a_record_finds_its_user_by_id_then_alias_then_email(world: World) {
    let alias = |name: &str| json!([{"alias_name": name, "alias_label": "crm"}]);
    world
        .import_well(&[
            json!({"external_id": "ann", "email": "Ann@acme.example", "user_aliases": alias("1")})
                .to_string(),
            json!({"user_aliases": alias("2"), "email": "bob@acme.example"}).to_string(),
            json!({"email": "cat@acme.example"}).to_string(),
            json!({"external_id": "cat", "email": "cat@acme.example"}).to_string(),
        ])
        .await;
    assert_eq!(world.count().await, 4);
    for (record, user) in [
        (json!({"external_id": "ann", "last_name": "x1"}), "ann"),
        (json!({"user_aliases": alias("1"), "last_name": "x2"}), "ann"),
        // Nobody has this external_id, and the alias belongs to one without any.
        (json!({"external_id": "bob", "user_aliases": alias("2"), "last_name": "x3"}), "bob"),
        // Two have the address: the one with an external_id counts.
        (json!({"email": "CAT@acme.example", "last_name": "x4"}), "cat"),
    ] {
        let summary = world.import_well(&[record.to_string()]).await;
        assert_eq!((summary.created, summary.replaced), (0, 1), "{record}");
        assert_eq!(world.show(user).await.unwrap()["last_name"], record["last_name"]);
    }
    // The address alone names nobody where an external_id is given.
    world
        .import_well(&[json!({"external_id": "new", "email": "cat@acme.example"}).to_string()])
        .await;
    assert_eq!(world.count().await, 5);
}

async fn identifiers_survive_a_replaced_profile(world: World) {
    let alias = json!([{"alias_name": "1", "alias_label": "crm"}]);
    world
        .import_well(&[json!({
            "external_id": "ann", "user_aliases": alias, "email": "a@b.example",
            "random_bucket": 77, "created_at": "2015-01-01T00:00:00Z", "country": "US",
        })
        .to_string()])
        .await;
    let before = world.show("ann").await.unwrap();
    assert_eq!((&before["random_bucket"], &before["country"]), (&json!(77), &json!("US")));
    world.import_well(&[json!({"email": "a@b.example", "random_bucket": 5}).to_string()]).await;
    let after = world.show("ann").await.unwrap();
    for kept in ["service_id", "external_id", "user_aliases", "random_bucket", "created_at"] {
        assert_eq!(after[kept], before[kept], "{kept}");
    }
    assert_eq!(after.get("country"), None);
}

async fn identifiers_of_another_user_are_rejected(world: World) {
    let alias = |name: &str| json!([{"alias_name": name, "alias_label": "crm"}]);
    let lines = [
        json!({"external_id": "ann", "user_aliases": alias("1")}),
        json!({"external_id": "bob", "user_aliases": alias("1")}),
        json!({"external_id": "cat", "user_aliases": alias("2")}),
        json!({"external_id": "ann", "user_aliases": alias("2"), "first_name": "Ann"}),
        json!({"external_id": "dan"}),
    ];
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    // In one batch, and against what is stored.
    for _ in 0..2 {
        let (summary, bad) = world.import(&lines).await;
        assert_eq!((summary.created + summary.replaced, summary.bad), (3, 2));
        assert_eq!(bad.iter().map(|bad| bad.line).collect::<Vec<_>>(), [2, 4]);
        assert!(bad.iter().all(|bad| bad.reason.contains("belongs to another user")), "{bad:?}");
    }
    assert_eq!(world.show("ann").await.unwrap().get("first_name"), None);
    assert_eq!(world.count().await, 3);
}

async fn a_row_that_exists_does_not_stop_an_import(world: World) {
    let id = service_id::new(1_700_000_000_000, 0, 1, 1);
    let sql = "INSERT INTO emails (workspace_id, email, service_id) VALUES ($1, $2, $3)";
    on_pool!(world.store(), pool => {
        let hint = sqlx::query(sql).bind(world.workspace.id).bind("ann@acme.example").bind(id);
        hint.execute(pool).await.map(drop)
    })
    .unwrap();
    let line = json!({"service_id": id, "external_id": "ann", "email": "ann@acme.example"});
    let summary = world.import_well(&[line.to_string()]).await;
    assert_eq!((summary.created, summary.replaced), (1, 0));
    assert_eq!(world.show("ann").await.unwrap()["service_id"], json!(id));
    assert_eq!((world.rows("identifiers").await, world.rows("emails").await), (1, 1));
}

async fn an_erased_user_leaves_nothing_behind(world: World) {
    let now = kit::clock::format_time(world.clock.now_ms());
    let line = json!({
        "external_id": "ann", "email": "ann@acme.example", "phone": "+15550100",
        "user_aliases": [{"alias_name": "1", "alias_label": "crm"}],
        "custom_events": [{"name": "seen", "first": now, "last": now, "count": 1}],
    })
    .to_string();
    for id in ["ann", "ANN@acme.example", ""] {
        world.import_well(&[line.as_str()]).await;
        let shown = world.show("ann").await.unwrap();
        let service_id = shown["service_id"].as_str().unwrap();
        let id = if id.is_empty() { service_id } else { id };
        let erased = erase::erase(world.store(), &world.workspace, id).await.unwrap();
        assert_eq!(erased.to_string(), service_id);
        for table in ["users", "activity", "identifiers", "emails", "phones"] {
            assert_eq!(world.rows(table).await, 0, "{table} after {id}");
        }
        assert!(matches!(world.show(id).await, Err(FindError::NotFound(_))));
    }
}

async fn a_shared_address_erases_no_user(world: World) {
    world
        .import_well(&[
            json!({"external_id": "a", "email": "x@acme.example"}).to_string(),
            json!({"external_id": "b", "email": "x@acme.example"}).to_string(),
        ])
        .await;
    let refused = erase::erase(world.store(), &world.workspace, "x@acme.example").await;
    assert!(matches!(refused, Err(FindError::Several(ids)) if ids.len() == 2));
    assert_eq!(world.count().await, 2);
}
