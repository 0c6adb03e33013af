//! What Okta sends (its reference of SCIM 2.0): the test of a connection, users, groups.

use super::provider::{Provider, is_member, path};
use super::*;

on_both_stores!(World =>
    tests_the_connection,
    provisions_a_user,
    pushes_a_group,
);

fn profile() -> Value {
    json!({
        "schemas": [USER],
        "userName": "test.user@okta.example",
        "name": { "givenName": "Test", "familyName": "User" },
        "emails": [{ "primary": true, "value": "test.user@okta.example", "type": "work" }],
        "displayName": "Test User",
        "locale": "en-US",
        "externalId": "00ujl29u0le5T6Aj10h7",
        "groups": [],
        "password": "1mz050nq",
        "active": true,
    })
}

async fn tests_the_connection(world: World) {
    let okta = Provider(&world);
    for query in [
        "/scim/v2/ServiceProviderConfig",
        "/scim/v2/Users?startIndex=1&count=2",
        "/scim/v2/Groups?startIndex=1&count=100",
        "/scim/v2/Users?filter=userName%20eq%20%22a%40b.example%22&startIndex=1&count=100",
    ] {
        let answer = okta.get(query).await;
        assert_eq!(answer.status, 200, "{query}: {answer:?}");
        if query.contains('?') {
            assert_eq!(answer.body["totalResults"], 0, "{answer:?}");
            assert_eq!(answer.body["startIndex"], 1, "{answer:?}");
        }
    }
}

async fn provisions_a_user(world: World) {
    let okta = Provider(&world);
    assert!(okta.found(USERS, r#"userName eq "test.user@okta.example""#).await.is_empty());
    let made = okta.post(USERS, &profile()).await;
    assert_eq!(made.status, 201, "{made:?}");
    let user = made.body;
    for name in ["userName", "name", "emails", "displayName", "locale", "externalId", "active"] {
        assert_eq!(user[name], profile()[name], "{name}");
    }
    assert!(user["password"].is_null(), "{user}");
    refused(&okta.post(USERS, &profile()).await, 409, Some("uniqueness"));
    let at = path(USERS, &user);
    assert_eq!(okta.get(&at).await.body, user);
    let found = okta.found(USERS, r#"userName eq "test.user@okta.example""#).await;
    assert_eq!(found, [user["id"].clone()]);

    // A changed profile: the whole user as it was read, with the changes.
    let mut changed = user.clone();
    changed["name"]["familyName"] = json!("Changed");
    changed["name"]["middleName"] = json!("Excited");
    changed["title"] = json!("Engineer");
    let replaced = okta.send(Method::PUT, &at, &changed).await;
    assert_eq!(replaced.status, 200, "{replaced:?}");
    for name in ["name", "title", "emails", "externalId"] {
        assert_eq!(replaced.body[name], changed[name], "{name}");
    }

    // Deactivated and reactivated; both are changes of one attribute.
    for active in [false, true] {
        let operations = json!([{ "op": "replace", "value": { "active": active } }]);
        let patched = okta.patched(&at, operations).await;
        assert_eq!(patched["active"], active);
        assert_eq!(patched["name"], changed["name"]);
    }
    let mut inactive = profile();
    inactive["active"] = json!(false);
    assert_eq!(okta.send(Method::PUT, &at, &inactive).await.body["active"], false);
    let all = okta.get("/scim/v2/Users?startIndex=1&count=100").await;
    assert_eq!(all.body["totalResults"], 1, "{all:?}");
    assert_eq!(okta.delete(&at).await.status, 204);
}

async fn pushes_a_group(world: World) {
    let okta = Provider(&world);
    let ann = okta.post(USERS, &profile()).await.body;
    let bo = world.create("bo@okta.example").await;
    let body = json!({ "schemas": [GROUP], "displayName": "Test SCIMv2", "members": [] });
    let made = okta.post(GROUPS, &body).await;
    assert_eq!(made.status, 201, "{made:?}");
    assert!(made.headers.contains_key("location"), "{made:?}");
    let group = made.body;
    let at = path(GROUPS, &group);
    assert_eq!(okta.get(&at).await.body, group);
    assert_eq!(okta.get("/scim/v2/Groups?startIndex=1&count=100").await.body["totalResults"], 1);
    let found = okta.found(GROUPS, r#"displayName eq "test scimv2""#).await;
    assert_eq!(found, [group["id"].clone()]);
    refused(&okta.post(GROUPS, &body).await, 409, Some("uniqueness"));

    let rename = json!([{
        "op": "replace", "value": { "id": group["id"], "displayName": "Test SCIMv2 renamed" },
    }]);
    assert_eq!(okta.patched(&at, rename).await["displayName"], "Test SCIMv2 renamed");
    let add = json!([{
        "op": "add", "path": "members",
        "value": [{ "value": ann["id"], "display": "test.user@okta.example" }],
    }]);
    okta.patched(&at, add.clone()).await;
    let twice = okta.patched(&at, add).await;
    assert_eq!(twice["members"].as_array().unwrap().len(), 1, "{twice}");
    assert!(is_member(&okta, &ann, &group).await);
    let swap = json!([
        { "op": "remove", "path": format!("members[value eq {}]", ann["id"]) },
        { "op": "add", "path": "members", "value": [{ "value": bo["id"], "display": "bo" }] },
    ]);
    okta.patched(&at, swap).await;
    assert!(!is_member(&okta, &ann, &group).await);
    assert!(is_member(&okta, &bo, &group).await);
    let replace =
        json!([{ "op": "replace", "path": "members", "value": [{ "value": ann["id"] }] }]);
    okta.patched(&at, replace).await;
    assert!(is_member(&okta, &ann, &group).await && !is_member(&okta, &bo, &group).await);

    let new_group = json!({
        "schemas": [GROUP], "id": group["id"], "displayName": "Test SCIMv2",
        "members": [{ "value": bo["id"], "display": "bo@okta.example" }],
    });
    let replaced = okta.send(Method::PUT, &at, &new_group).await;
    assert_eq!(replaced.status, 200, "{replaced:?}");
    assert!(!is_member(&okta, &ann, &group).await && is_member(&okta, &bo, &group).await);
    assert_eq!(okta.delete(&at).await.status, 204);
    refused(&okta.get(&at).await, 404, None);
    assert!(okta.get(&path(USERS, &bo)).await.body["groups"].is_null());
}
