//! What Microsoft Entra sends (its published examples): users, soft deletion, groups.

use super::provider::{Provider, is_member, path};
use super::*;

on_both_stores!(World =>
    looks_users_up,
    provisions_a_user,
    changes_attributes,
    disables_and_deletes_a_user,
    provisions_a_group,
);

fn user() -> Value {
    json!({
        "schemas": [USER, ENTERPRISE],
        "externalId": "0a21f0f2-8d2a-4f8e-bf98-7363c4aed4ef",
        "userName": "Test_User_ab6490ee@testuser.example",
        "active": true,
        "emails": [{ "primary": true, "type": "work", "value": "Test_User_fd0ea19b@testuser.example" }],
        "meta": { "resourceType": "User" },
        "name": {
            "formatted": "givenName familyName", "familyName": "familyName",
            "givenName": "givenName",
        },
        "roles": [],
        ENTERPRISE: { "department": "bob", "manager": { "value": "SuzzyQ" } },
    })
}

async fn made(entra: &Provider<'_>) -> Value {
    let made = entra.post(USERS, &user()).await;
    assert_eq!(made.status, 201, "{made:?}");
    made.body
}

async fn looks_users_up(world: World) {
    let entra = Provider(&world);
    let nobody = r#"userName eq "non-existent user""#;
    assert!(entra.found(USERS, nobody).await.is_empty());
    let id = made(&entra).await["id"].clone();
    for filter in [
        r#"userName eq "Test_User_ab6490ee@testuser.example""#,
        r#"externalId eq "0a21f0f2-8d2a-4f8e-bf98-7363c4aed4ef""#,
        r#"emails[type eq "work"].value eq "Test_User_fd0ea19b@testuser.example""#,
        r#"emails.value Eq "test_user_fd0ea19b@testuser.example""#,
        r#"(active eq true) and (NAME.familyname eq "familyName")"#,
        r#"urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:department eq "bob""#,
        &format!("id eq {id}"),
        &format!(r#"id eq {id} and manager pr or externalId eq "x""#).replace("manager", "name"),
    ] {
        assert_eq!(entra.found(USERS, filter).await, std::slice::from_ref(&id), "{filter}");
    }
    for filter in [
        r#"externalId eq "0A21F0F2-8d2a-4f8e-bf98-7363c4aed4ef""#,
        r#"id eq "00000000-0000-0000-0000-000000000000""#,
        r#"id eq "nobody""#,
        r#"active eq false"#,
        &format!("not (id eq {id})"),
    ] {
        assert!(entra.found(USERS, filter).await.is_empty(), "{filter}");
    }
    let query = "?filter=externalId+eq+%220a21f0f2-8d2a-4f8e-bf98-7363c4aed4ef%22&attributes=id";
    let part = entra.get(&format!("{USERS}{query}")).await;
    let names: Vec<&String> = part.body["Resources"][0].as_object().unwrap().keys().collect();
    assert_eq!(names, ["id", "schemas"]);
}

async fn provisions_a_user(world: World) {
    let entra = Provider(&world);
    let made = made(&entra).await;
    for name in ["schemas", "externalId", "userName", "active", "emails", "name", ENTERPRISE] {
        assert_eq!(made[name], user()[name], "{name}");
    }
    assert_eq!(made["department"], "bob", "the same value");
    assert_eq!(entra.get(&path(USERS, &made)).await.body, made);
    // Of two departments, the one that was changed counts.
    let mut changed = made.clone();
    changed["department"] = json!("alice");
    let replaced = entra.send(Method::PUT, &path(USERS, &made), &changed).await.body;
    assert_eq!(
        (&replaced["department"], &replaced[ENTERPRISE]["department"]),
        (&json!("alice"), &json!("alice"))
    );
    let mut changed = replaced.clone();
    changed[ENTERPRISE]["department"] = json!("carol");
    let replaced = entra.send(Method::PUT, &path(USERS, &made), &changed).await.body;
    assert_eq!(replaced["department"], "carol");
}

async fn changes_attributes(world: World) {
    let entra = Provider(&world);
    let at = path(USERS, &made(&entra).await);
    let changed = entra
        .patched(
            &at,
            json!([
                { "op": "Replace", "path": "emails[type eq \"work\"].value", "value": "new@acme.example" },
                { "op": "Replace", "path": "name.familyName", "value": "updated" },
                { "op": "Add", "path": format!("{ENTERPRISE}:employeeNumber"), "value": "701984" },
                { "op": "Replace", "path": format!("{ENTERPRISE}:department"), "value": "Sales" },
                { "op": "Add", "path": format!("{ENTERPRISE}:manager"), "value": "Bo" },
                { "op": "Add", "path": "phoneNumbers[type eq \"mobile\"].value", "value": "+15550100" },
                { "op": "Add", "path": "addresses[type eq \"work\"].postalCode", "value": "98052" },
                { "op": "Add", "path": "roles[primary eq \"True\"].value", "value": "admin" },
                { "op": "Add", "path": "title", "value": "Engineer" },
                { "op": "Add", "path": "preferredLanguage", "value": "en-US" },
            ]),
        )
        .await;
    // Nothing has such an attribute, so the operation would have no effect.
    let tag = "urn:ietf:params:scim:schemas:extension:Acme:2.0:User:tag";
    let foreign = json!([{ "op": "Add", "path": tag, "value": "x" }]);
    let foreign = json!({ "schemas": [PATCH], "Operations": foreign });
    let refused = world.send(Method::PATCH, &at, &foreign).await;
    let scim_type = refused.body["scimType"].as_str();
    assert_eq!((refused.status.as_u16(), scim_type), (400, Some("invalidPath")));
    assert_eq!(
        changed["emails"],
        json!([{ "primary": true, "type": "work", "value": "new@acme.example" }])
    );
    assert_eq!(changed["name"]["familyName"], "updated");
    assert_eq!(
        changed[ENTERPRISE],
        json!({ "employeeNumber": "701984", "department": "Sales", "manager": { "value": "Bo" } })
    );
    assert_eq!(changed["phoneNumbers"], json!([{ "type": "mobile", "value": "+15550100" }]));
    assert_eq!(changed["roles"], json!([{ "primary": true, "value": "admin" }]));
    assert_eq!((&changed["title"], &changed["department"]), (&json!("Engineer"), &json!("Sales")));

    // Without a path: names and paths as names.
    let changed = entra
        .patched(
            &at,
            json!([{ "op": "Replace", "value": {
                "displayName": "Ann Lee", "name.givenName": "Ann", "active": "True",
                "emails[type eq \"work\"].value": "ann@acme.example",
                "emails[type eq \"other\"].value": "other@acme.example",
                format!("{ENTERPRISE}:department"): "HR", "nobody": "x",
            } }]),
        )
        .await;
    assert_eq!(changed["name"]["givenName"], "Ann");
    assert_eq!(changed["emails"][0]["value"], "ann@acme.example");
    assert_eq!(changed["emails"][1], json!({ "type": "other", "value": "other@acme.example" }));
    assert_eq!(
        (&changed["displayName"], &changed["department"]),
        (&json!("Ann Lee"), &json!("HR"))
    );

    let changed = entra
        .patched(
            &at,
            json!([
                { "op": "Remove", "path": format!("{ENTERPRISE}:manager") },
                { "op": "Remove", "path": "phoneNumbers[type eq \"mobile\"].value" },
                { "op": "Remove", "path": "emails[type eq \"other\"]" },
                { "op": "Remove", "path": "title" },
            ]),
        )
        .await;
    assert!(changed["title"].is_null() && changed[ENTERPRISE]["manager"].is_null(), "{changed}");
    assert_eq!(changed["emails"].as_array().unwrap().len(), 1);
}

async fn disables_and_deletes_a_user(world: World) {
    let entra = Provider(&world);
    let at = path(USERS, &made(&entra).await);
    for (value, active) in
        [(json!(false), false), (json!("True"), true), (json!("False"), false), (json!(true), true)]
    {
        let operation = json!({ "op": "Replace", "path": "active", "value": value });
        assert_eq!(entra.patched(&at, json!([operation])).await["active"], active);
    }
    let operation = json!({ "op": "Replace", "value": { "active": "False" } });
    assert_eq!(entra.patched(&at, json!([operation])).await["active"], false);
    assert_eq!(entra.found(USERS, "active eq false").await.len(), 1, "it is still there");
    assert_eq!(entra.delete(&at).await.status, 204);
    refused(&entra.get(&at).await, 404, None);
}

async fn provisions_a_group(world: World) {
    let entra = Provider(&world);
    let user = made(&entra).await;
    let name = r#"displayName eq "displayName""#;
    let query = "?excludedAttributes=members&filter=displayName+eq+%22displayName%22";
    assert_eq!(entra.get(&format!("{GROUPS}{query}")).await.body["totalResults"], 0);
    let body = json!({
        "schemas": [GROUP, "http://schemas.microsoft.com/2006/11/ResourceManagement/ADSCIM/2.0/Group"],
        "externalId": "8aa1a0c0-c4c3-4bc0-b4a5-2ef676900159",
        "displayName": "displayName",
        "meta": { "resourceType": "Group" },
    });
    let made = entra.post(GROUPS, &body).await;
    assert_eq!(made.status, 201, "{made:?}");
    let group = made.body;
    assert_eq!(group["externalId"], body["externalId"]);
    let at = path(GROUPS, &group);
    assert_eq!(entra.found(GROUPS, name).await, [group["id"].clone()]);
    let by_id = r#"externalId eq "8aa1a0c0-c4c3-4bc0-b4a5-2ef676900159""#;
    assert_eq!(entra.found(GROUPS, by_id).await, [group["id"].clone()]);

    let rename = json!([{ "op": "Replace", "path": "displayName", "value": "updated" }]);
    assert_eq!(entra.patched(&at, rename).await["displayName"], "updated");
    let member = json!([{ "$ref": null, "value": user["id"] }]);
    let add = json!([{ "op": "Add", "path": "members", "value": member }]);
    entra.patched(&at, add.clone()).await;
    assert!(is_member(&entra, &user, &group).await);
    let without = entra.get(&format!("{at}?excludedAttributes=members")).await;
    assert_eq!(without.status, 200);
    assert!(without.body["members"].is_null() && without.body["displayName"].is_string());
    // Whether somebody is a member.
    let membership = |id: &Value| format!("id eq {} and members eq {id}", group["id"]);
    assert_eq!(entra.found(GROUPS, &membership(&user["id"])).await.len(), 1);
    assert_eq!(entra.found(GROUPS, &membership(&group["id"])).await.len(), 0);

    for remove in [
        json!([{ "op": "Remove", "path": "members", "value": member }]),
        json!([{ "op": "Remove", "path": format!("members[value eq {}]", user["id"]) }]),
        json!([{ "op": "Remove", "path": "members" }]),
    ] {
        entra.patched(&at, add.clone()).await;
        entra.patched(&at, remove.clone()).await;
        assert!(!is_member(&entra, &user, &group).await, "{remove}");
    }
    let unknown = json!([{ "op": "Add", "path": "members", "value": [{ "value": group["id"] }] }]);
    assert!(entra.patched(&at, unknown).await["members"].is_null(), "it is no user");
    assert_eq!(entra.delete(&at).await.status, 204);
    refused(&entra.get(&at).await, 404, None);
}
