//! The statuses of the endpoints of users and of catalogs.

use reqwest::Method;
use serde_json::json;

use super::super::world::{CATALOG, GROUP, World};
use super::{Seen, once_and_again};

pub async fn users_and_catalogs(world: &World, seen: &mut Seen) {
    let alias = json!({ "alias_name": "n", "alias_label": "l" });
    let merge = json!({
        "identifier_to_merge": { "external_id": "x" }, "identifier_to_keep": { "external_id": "y" },
    });
    let rename = json!({ "current_external_id": "x", "new_external_id": "y" });
    let update = json!({ "alias_label": "l", "old_alias_name": "n", "new_alias_name": "m" });
    let identify = json!({ "external_id": "x", "user_alias": alias });
    let group = json!({ "subscription_group_id": GROUP, "subscription_state": "subscribed" });
    let (mut of_one_user, mut of_users) = (group.clone(), group);
    of_one_user["external_id"] = "x".into();
    of_one_user["phone"] = "+15550177".into();
    of_users["external_ids"] = json!(["x"]);
    of_users["phones"] = json!(["+15550177"]);
    let fields = json!([{ "name": "id", "type": "string" }]);
    let suppressed = json!({
        "emails": ["a@b"], "phones": ["+15550177"], "subscription_group_id": GROUP,
    });
    for (path, body, status) in [
        ("/users/delete", json!({ "external_ids": ["x"] }), 201),
        ("/users/alias/new", json!({ "user_aliases": [alias] }), 201),
        ("/users/alias/update", json!({ "alias_updates": [update] }), 201),
        ("/users/identify", json!({ "aliases_to_identify": [identify] }), 201),
        ("/users/merge", json!({ "merge_updates": [merge] }), 202),
        ("/users/external_ids/rename", json!({ "external_id_renames": [rename] }), 201),
        ("/users/external_ids/remove", json!({ "external_ids": ["x"] }), 201),
        ("/subscription/status/set", of_one_user, 201),
        ("/v2/subscription/status/set", json!({ "subscription_groups": [of_users] }), 201),
        ("/email/status", json!({ "email": "a@b", "subscription_state": "subscribed" }), 201),
        ("/suppressions/add", suppressed.clone(), 201),
        ("/suppressions/lift", suppressed.clone(), 201),
        ("/catalogs", json!({ "catalogs": [{ "name": "made", "fields": fields }] }), 201),
    ] {
        once_and_again(world, seen, (Method::POST, path), &body, status).await;
    }
    let get = |path: &str| world.api.request(Method::GET, path);
    let state = format!("/subscription/status/get?subscription_group_id={GROUP}");
    seen.see(get(&format!("{state}&external_id=x&phone=15550177")), 200).await;
    seen.see(get(&format!("{state}&phone=x")), 400).await;
    seen.see(get(&state), 400).await;
    seen.see(get("/suppressions/count"), 200).await;
    seen.see(get("/suppressions/check?email=a@b"), 200).await;
    seen.see(get("/suppressions/check"), 400).await;
    seen.see(get("/catalogs"), 200).await;
    for (method, item) in [
        (Method::POST, json!({ "id": "a", "City": "Oslo" })),
        (Method::PUT, json!({ "id": "a", "City": "Rome" })),
        (Method::DELETE, json!({ "id": "a" })),
    ] {
        let (items, none) = (format!("/catalogs/{CATALOG}/items"), "/catalogs/none/items");
        let body = json!({ "items": [item] });
        once_and_again(world, seen, (method.clone(), &items), &body, 202).await;
        seen.see(world.api.request(method, none).json(&body), 404).await;
    }
    let (item, none) = (format!("/catalogs/{CATALOG}/items/b"), "/catalogs/none/items/b");
    let body = json!({ "items": [{ "City": "Oslo" }] });
    for method in [Method::POST, Method::PUT, Method::PATCH] {
        once_and_again(world, seen, (method.clone(), &item), &body, 202).await;
        seen.see(world.api.request(method, none).json(&body), 404).await;
    }
    world.fleet.applied().await;
    seen.see(get(&item), 200).await;
    seen.see(get(none), 404).await;
    seen.see(get(&format!("/catalogs/{CATALOG}/items")), 200).await;
    seen.see(get(&format!("/catalogs/{CATALOG}/items?cursor=")), 400).await;
    seen.see(get("/catalogs/none/items"), 404).await;
    let delete = |path: &str| world.api.request(Method::DELETE, path);
    once_and_again(world, seen, (Method::DELETE, &item), &json!({}), 202).await;
    seen.see(delete(&format!("/catalogs/{CATALOG}/items/a%20b")), 400).await;
    seen.see(delete(none), 404).await;
    seen.see(delete("/catalogs/made"), 202).await;
    seen.see(delete("/catalogs/made"), 404).await;
}
