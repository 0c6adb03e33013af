//! Groups: members, versions, and the permission sets of the workspace file.

use longshore::workspace_file::change::Options;
use longshore::workspace_file::{company, file};

use super::provider::{Provider, is_member, path};
use super::*;

on_both_stores!(World =>
    a_group_grants_its_permission_set,
    a_pushed_group_must_be_a_permission_set,
    a_permission_set_can_be_used_without_a_push,
    permissions_of_groups_are_not_the_users_own,
    versions_count_memberships,
    members_are_users,
    invalid_groups_are_rejected,
    changes_at_once_are_all_kept,
);

const SETS: &str = "
permission_sets:
  - name: Marketing
    permissions:
      company: [see_reports]
      workspaces: [{workspace: acme, permissions: [send_campaigns], teams: [{name: Berlin, permissions: [view]}]}]
  - name: Support
    permissions: {company: [see_users]}
";

/// Declares permission sets.
async fn declare(world: &World, sets: &str, prune: bool) {
    let file = file::read(&format!("{FILE}{sets}"), &|_| None).unwrap();
    let options = Options { dry_run: false, prune, confirmed: false };
    let declared = file.company.expect("a company");
    company::apply_company(&world.app, &declared, options).await.expect("it applies");
}

async fn make(world: &World, name: &str, members: &[&Value]) -> ApiResponse {
    let members: Vec<Value> = members.iter().map(|user| json!({ "value": user["id"] })).collect();
    let body = json!({ "schemas": [GROUP], "displayName": name, "members": members });
    Provider(world).post(GROUPS, &body).await
}

async fn permissions(world: &World, user: &Value) -> Value {
    world.get(&at(&user["id"])).await.body["permissions"].clone()
}

async fn a_group_grants_its_permission_set(world: World) {
    declare(&world, SETS, false).await;
    let user = world.send(Method::POST, USERS, &ann()).await.body;
    let made = make(&world, "marketing", &[&user]).await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(made.body["displayName"], "Marketing", "as the file has it");
    let all = permissions(&world, &user).await;
    assert_eq!(all["companyPermissions"], json!(["manage_company_settings", "see_reports"]));
    assert_eq!(all["appGroup"].as_array().unwrap().len(), 1, "{all}");
    assert_eq!(all["appGroup"][0]["team"][0]["teamPermissions"], json!(["view"]));
    assert_eq!(world.found(r#"permissions.companyPermissions eq "see_reports""#).await.0, 1);

    let changed = SETS.replace("see_reports", "see_all");
    declare(&world, &changed, false).await;
    let all = permissions(&world, &user).await;
    assert_eq!(all["companyPermissions"], json!(["manage_company_settings", "see_all"]));

    // The identity provider deletes the group, and creates it again.
    let provider = Provider(&world);
    assert_eq!(provider.delete(&path(GROUPS, &made.body)).await.status, 204);
    refused(&provider.get(&path(GROUPS, &made.body)).await, 404, None);
    assert_eq!(permissions(&world, &user).await, user["permissions"]);
    assert_eq!(make(&world, "Marketing", &[&user]).await.status, 201);
    refused(&make(&world, "Marketing", &[]).await, 409, Some("uniqueness"));
    declare(&world, "", true).await;
    assert_eq!(provider.found(GROUPS, "displayName pr").await.len(), 0);
    assert_eq!(permissions(&world, &user).await, user["permissions"]);
}

async fn a_pushed_group_must_be_a_permission_set(world: World) {
    let free = make(&world, "Free", &[]).await;
    assert_eq!(free.status, 201, "there are no permission sets");
    declare(&world, SETS, false).await;
    let unknown = make(&world, "Sales", &[]).await;
    refused(&unknown, 400, Some("invalidValue"));
    assert!(unknown.body["detail"].as_str().unwrap().contains("Marketing, Support"), "{unknown:?}");
    let provider = Provider(&world);
    let rename = |name: &str| json!([{ "op": "replace", "path": "displayName", "value": name }]);
    let patch = |name: &str| json!({ "schemas": [PATCH], "Operations": rename(name) });
    let at = path(GROUPS, &free.body);
    refused(&provider.send(Method::PATCH, &at, &patch("Sales")).await, 400, Some("invalidValue"));
    refused(&provider.send(Method::PATCH, &at, &patch("Support")).await, 409, Some("uniqueness"));
    let set = make(&world, "Support", &[]).await.body;
    let at = path(GROUPS, &set);
    refused(&provider.send(Method::PATCH, &at, &patch("Help")).await, 400, Some("mutability"));
    assert_eq!(provider.patched(&at, rename("SUPPORT")).await["displayName"], "Support");
}

async fn a_permission_set_can_be_used_without_a_push(world: World) {
    let user = world.create("ann@acme.example").await;
    // A group that was pushed before becomes the set of its name, with its members.
    let pushed = make(&world, "SUPPORT", &[&user]).await.body;
    declare(&world, SETS, false).await;
    let provider = Provider(&world);
    assert!(is_member(&provider, &user, &pushed).await);
    let all = permissions(&world, &user).await;
    assert_eq!(all["companyPermissions"], json!(["see_users"]));
    let found = provider.found(GROUPS, r#"displayName eq "marketing""#).await;
    let group = json!({ "id": found[0] });
    let add = json!([{ "op": "add", "path": "members", "value": [{ "value": user["id"] }] }]);
    provider.patched(&path(GROUPS, &group), add).await;
    assert!(is_member(&provider, &user, &group).await);
    let all = permissions(&world, &user).await;
    assert_eq!(all["companyPermissions"], json!(["see_users", "see_reports"]));
}

async fn permissions_of_groups_are_not_the_users_own(world: World) {
    declare(&world, SETS, false).await;
    let own = json!({ "companyPermissions": ["see_users"], "appGroup": [] });
    let body = json!({ "schemas": [USER], "userName": "ann", "permissions": own });
    let ann = world.send(Method::POST, USERS, &body).await.body;
    let bo = world.create("bo").await;
    let marketing = make(&world, "Marketing", &[&ann, &bo]).await.body;
    let support = make(&world, "Support", &[&ann]).await.body;
    for user in [&ann, &bo] {
        let mut shown = world.get(&at(&user["id"])).await.body;
        shown["title"] = json!("Engineer");
        let replaced = world.send(Method::PUT, &at(&user["id"]), &shown).await;
        assert_eq!(replaced.status, 200, "{replaced:?}");
        assert_eq!(replaced.body["permissions"], shown["permissions"]);
        assert_eq!(replaced.body["groups"], shown["groups"]);
    }
    for group in [marketing, support] {
        assert_eq!(Provider(&world).delete(&path(GROUPS, &group)).await.status, 204);
    }
    assert_eq!(permissions(&world, &ann).await, own);
    assert_eq!(permissions(&world, &bo).await, Value::Null);
}

async fn versions_count_memberships(world: World) {
    let (ann, bo) = (world.create("ann").await, world.create("bo").await);
    let group = make(&world, "One", &[&ann]).await;
    assert_eq!(group.headers["etag"], "W/\"1\"");
    let provider = Provider(&world);
    let at_group = path(GROUPS, &group.body);
    let version = async |path: &str| provider.get(path).await.body["meta"]["version"].clone();
    assert_eq!(version(&at(&ann["id"])).await, "W/\"2\"");
    let add = json!([{ "op": "add", "path": "members", "value": [{ "value": bo["id"] }] }]);
    provider.patched(&at_group, add.clone()).await;
    assert_eq!(version(&at(&bo["id"])).await, "W/\"2\"");
    assert_eq!(version(&at(&ann["id"])).await, "W/\"2\"");
    assert_eq!(provider.patched(&at_group, add).await["meta"]["version"], "W/\"2\"", "no change");
    assert_eq!(provider.delete(&at(&bo["id"])).await.status, 204);
    let left = provider.get(&at_group).await;
    assert_eq!(left.headers["etag"], "W/\"3\"");
    assert_eq!(left.body["members"].as_array().unwrap().len(), 1);
    let stale = world.request(Method::DELETE, &at_group).header("if-match", "W/\"2\"");
    refused(&answer(stale).await, 412, None);
    let fresh = world.request(Method::GET, &at_group).header("if-none-match", "W/\"3\"");
    assert_eq!(answer(fresh).await.status, 304);
}

async fn members_are_users(world: World) {
    let ann = world.create("ann").await;
    let reference = json!({
        "schemas": [GROUP], "displayName": "By reference",
        "members": [{ "$ref": ann["meta"]["location"] }],
    });
    let made = Provider(&world).post(GROUPS, &reference).await.body;
    assert_eq!(made["members"][0]["value"], ann["id"], "{made}");
    assert_eq!(made["members"][0]["type"], "User");
    let body = json!({ "schemas": [GROUP], "displayName": "x", "members": [{ "type": "User" }] });
    refused(&Provider(&world).post(GROUPS, &body).await, 400, Some("invalidValue"));
    let others = json!([{ "value": "x" }, { "value": made["id"] }, { "value": ann["id"] }]);
    let at = path(GROUPS, &made);
    let add = json!([{ "op": "add", "path": "members", "value": others }]);
    let patched = Provider(&world).patched(&at, add).await;
    assert_eq!(patched["members"], made["members"], "others are ignored");
    assert_eq!(patched["meta"]["version"], "W/\"1\"", "no change");
    assert_eq!(Provider(&world).found(GROUPS, "displayName pr").await.len(), 1, "all or nothing");
    let body = json!({ "schemas": [SEARCH], "filter": format!("members.value eq {}", ann["id"]) });
    let found = world.send(Method::POST, "/scim/v2/Groups/.search", &body).await;
    assert_eq!(found.body["totalResults"], 1, "{found:?}");
    let by_group = format!("groups.value eq {}", made["id"]);
    assert_eq!(world.found(&by_group).await.0, 1);
}

async fn invalid_groups_are_rejected(world: World) {
    for (body, scim_type) in [
        (json!({ "displayName": "x" }), "invalidSyntax"),
        (json!({ "schemas": [USER], "displayName": "x" }), "invalidSyntax"),
        (json!({ "schemas": [GROUP] }), "invalidValue"),
        (json!({ "schemas": [GROUP], "displayName": "" }), "invalidValue"),
        (json!({ "schemas": [GROUP], "displayName": 7 }), "invalidValue"),
        (json!({ "schemas": [GROUP], "displayName": "x", "members": 7 }), "invalidValue"),
    ] {
        refused(&world.send(Method::POST, GROUPS, &body).await, 400, Some(scim_type));
    }
    let free = make(&world, "Free", &[]).await.body;
    let remove =
        json!({ "schemas": [PATCH], "Operations": [{ "op": "remove", "path": "displayName" }] });
    let at = path(GROUPS, &free);
    refused(&world.send(Method::PATCH, &at, &remove).await, 400, Some("mutability"));
    refused(&world.get(&format!("{GROUPS}/{}", uuid::Uuid::nil())).await, 404, None);
    let again = json!({ "schemas": [GROUP], "displayName": "again" });
    let keyed = || world.request(Method::POST, GROUPS).header("idempotency-key", "k").json(&again);
    let first = answer(keyed()).await;
    assert_eq!((first.status.as_u16(), answer(keyed()).await.body), (201, first.body));
}

async fn changes_at_once_are_all_kept(world: World) {
    let mut users = Vec::new();
    for number in 0..8 {
        users.push(world.create(&format!("u{number}")).await);
    }
    let group = make(&world, "One", &[]).await.body;
    let other = make(&world, "Other", &users.iter().collect::<Vec<_>>()).await.body;
    let provider = Provider(&world);
    let add = |user: &Value| {
        let add = json!([{ "op": "add", "path": "members", "value": [{ "value": user["id"] }] }]);
        let body = json!({ "schemas": [PATCH], "Operations": add });
        let (provider, path) = (&provider, path(GROUPS, &group));
        async move { provider.send(Method::PATCH, &path, &body).await.status.as_u16() }
    };
    let delete = async { provider.delete(&path(GROUPS, &other)).await.status.as_u16() };
    let (added, deleted) = tokio::join!(join_all(users.iter().map(add)), delete);
    assert_eq!((added, deleted), (vec![200; 8], 204));
    for user in &users {
        assert!(is_member(&provider, user, &group).await);
    }
}
