//! Users: creating, changing and reading them.

use super::*;

on_both_stores!(World =>
    the_lookup_of_the_contract,
    users_are_created_read_replaced_and_deleted,
    user_names_are_unique_ignoring_case,
    concurrent_creations_of_a_user_succeed_once,
    a_patch_changes_only_its_paths,
    at_most_one_value_is_primary,
    permissions_name_existing_app_groups,
    invalid_users_are_rejected,
    versions_guard_against_lost_changes,
    parts_of_a_user_are_answered,
);

async fn the_lookup_of_the_contract(world: World) {
    let made = world.send(Method::POST, USERS, &ann()).await;
    assert_eq!(made.status, 201, "{made:?}");
    for encoded in [
        "?filter=userName%20eq%20%22ann%2B1%40ACME.example%22",
        "?filter=userName%20eq%20%22ann+1@acme.example%22",
        "?filter=userName+eq+%22ann%2B1%40acme.example%22",
    ] {
        let request = world.request(Method::GET, &format!("{USERS}{encoded}"));
        let found = answer(request.header("content-type", "application/json")).await;
        assert_eq!(found.status, 200, "{found:?}");
        assert_eq!(found.headers["content-type"], "application/scim+json");
        assert_eq!(found.body["schemas"], json!([LIST]), "{found:?}");
        assert_eq!(found.body["totalResults"], 1, "{encoded}: {found:?}");
        let user = &found.body["Resources"][0];
        let mut expected = ann();
        for name in ["password", "schemas"] {
            expected.as_object_mut().unwrap().remove(name);
        }
        expected["lastSignInAt"] = json!("Thursday, January 1, 1970 12:00:00 AM");
        let group = &mut expected["permissions"]["appGroup"][0];
        group["appGroupId"] = AppGroup::from_workspace("acme").id.into();
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(&user[name], value, "{name}");
        }
        assert!(uuid::Uuid::parse_str(user["id"].as_str().unwrap()).is_ok());
    }
    let nobody = world.get(&format!("{USERS}?filter=userName%20eq%20%22nobody%22")).await;
    assert_eq!(nobody.status, 200);
    assert_eq!((&nobody.body["totalResults"], &nobody.body["Resources"]), (&json!(0), &json!([])));
}

async fn users_are_created_read_replaced_and_deleted(world: World) {
    let request = world.request(Method::POST, USERS).body(ann().to_string());
    let made = answer(request.header("content-type", "application/scim+json; charset=utf-8")).await;
    assert_eq!(made.status, 201, "{made:?}");
    let id = &made.body["id"];
    let location = format!("https://api.acme.example{}", at(id));
    assert_eq!(made.headers["location"], location.as_str());
    assert_eq!(made.headers["etag"], "W/\"1\"");
    let meta = &made.body["meta"];
    assert_eq!((&meta["resourceType"], &meta["location"]), (&json!("User"), &json!(location)));
    assert_eq!(meta["created"], meta["lastModified"]);

    let read = world.get(&at(id)).await;
    assert_eq!((read.status.as_u16(), &read.body), (200, &made.body));

    let smaller =
        json!({ "schemas": [USER], "USERNAME": "bo@acme.example", "active": false, "id": "x" });
    let replaced = world.send(Method::PUT, &at(id), &smaller).await;
    assert_eq!(replaced.status, 200, "{replaced:?}");
    let field = |name: &str| &replaced.body[name];
    assert_eq!(
        (field("id"), field("userName"), field("active")),
        (id, &json!("bo@acme.example"), &json!(false))
    );
    for name in ["name", "department", "permissions", "externalId"] {
        assert!(field(name).is_null(), "{name}: {replaced:?}");
    }
    assert_eq!(field("meta")["version"], "W/\"2\"");
    assert_eq!(world.get(&at(id)).await.body, replaced.body);

    let deleted = answer(world.request(Method::DELETE, &at(id))).await;
    assert_eq!((deleted.status.as_u16(), deleted.body), (204, Value::Null));
    refused(&world.get(&at(id)).await, 404, None);
    refused(&answer(world.request(Method::DELETE, &at(id))).await, 404, None);
    refused(&world.send(Method::PUT, &at(id), &smaller).await, 404, None);
    refused(&world.patch(id, json!([{ "op": "remove", "path": "name" }])).await, 404, None);
    refused(&world.get(&format!("{USERS}/no-uuid")).await, 404, None);
}

async fn user_names_are_unique_ignoring_case(world: World) {
    let ann = world.create("ann@acme.example").await;
    let bo = world.create("bÖ@acme.example").await;
    for taken in ["ann@acme.example", "ANN@Acme.Example", "bö@acme.example"] {
        let body = json!({ "schemas": [USER], "userName": taken });
        refused(&world.send(Method::POST, USERS, &body).await, 409, Some("uniqueness"));
    }
    let body = json!({ "schemas": [USER], "userName": "Bö@acme.example" });
    refused(&world.send(Method::PUT, &at(&ann["id"]), &body).await, 409, Some("uniqueness"));
    let rename = json!([{ "op": "replace", "path": "userName", "value": "ANN@acme.example" }]);
    refused(&world.patch(&bo["id"], rename.clone()).await, 409, Some("uniqueness"));
    // One's own name in another case is a change like any other.
    let renamed = world.patch(&ann["id"], rename).await;
    assert_eq!(renamed.body["userName"], "ANN@acme.example", "{renamed:?}");
}

async fn concurrent_creations_of_a_user_succeed_once(world: World) {
    let bodies = ["ann@acme.example", "Ann@acme.example", "ANN@acme.example", "anN@acme.example"]
        .map(|name| json!({ "schemas": [USER], "userName": name }));
    let answers = join_all(bodies.iter().map(|body| world.send(Method::POST, USERS, body))).await;
    let made = answers.iter().filter(|answer| answer.status == 201).count();
    assert_eq!(made, 1, "{answers:?}");
    for answer in answers.iter().filter(|answer| answer.status != 201) {
        refused(answer, 409, Some("uniqueness"));
    }
    assert_eq!(world.found("userName co \"@\"").await.0, 1);
}

async fn a_patch_changes_only_its_paths(world: World) {
    let made = world.send(Method::POST, USERS, &ann()).await.body;
    let id = &made["id"];
    let patched = world
        .patch(
            id,
            json!([
                { "op": "Replace", "path": "active", "value": "False" },
                { "op": "add", "value": { "department": "Sales" } },
                { "op": "remove", "path": "name.familyName" },
                { "op": "add", "path": "permissions.appGroup", "value": [{ "appGroupName": "other" }] },
                {
                    "op": "replace",
                    "path": "permissions.appGroup[appGroupName eq \"acme\"].appGroupPermissions",
                    "value": ["see"],
                },
            ]),
        )
        .await;
    assert_eq!(patched.status, 200, "{patched:?}");
    let user = &patched.body;
    assert_eq!((&user["active"], &user["department"]), (&json!(false), &json!("Sales")));
    assert_eq!(user["name"], json!({ "givenName": "Ann" }));
    let groups = user["permissions"]["appGroup"].as_array().unwrap();
    assert_eq!(groups[0]["appGroupPermissions"], json!(["see"]));
    assert_eq!(groups[1]["appGroupId"], AppGroup::from_workspace("other").id.as_str());
    assert_eq!(world.get(&at(id)).await.body, *user);

    // Paths as names of a value, and the schema in which others have the department.
    let patched = world
        .patch(
            id,
            json!([
                { "op": "replace", "value": { "name.givenName": "Bo", "active": true } },
                { "op": "replace", "path": format!("{ENTERPRISE}:department"), "value": "HR" },
            ]),
        )
        .await;
    assert_eq!(patched.status, 200, "{patched:?}");
    let user = &patched.body;
    assert_eq!((&user["active"], &user["department"]), (&json!(true), &json!("HR")));
    assert_eq!(user["name"], json!({ "givenName": "Bo" }));
    assert_eq!(world.get(&at(id)).await.body, *user);

    // All operations or none.
    let half = json!([
        { "op": "replace", "path": "department", "value": "CRM" },
        { "op": "replace", "path": "id", "value": "x" },
    ]);
    refused(&world.patch(id, half).await, 400, Some("mutability"));
    let half = json!([
        { "op": "replace", "path": "department", "value": "CRM" },
        { "op": "add", "path": "permissions.appGroup", "value": { "appGroupName": "none" } },
    ]);
    refused(&world.patch(id, half).await, 400, Some("invalidValue"));
    refused(&world.patch(id, json!([{ "op": "remove" }])).await, 400, Some("noTarget"));
    refused(
        &world.patch(id, json!([{ "op": "add", "path": "x", "value": 1 }])).await,
        400,
        Some("invalidPath"),
    );
    assert_eq!(world.get(&at(id)).await.body, *user);
    // What changes nothing is no change.
    let same = world.patch(id, json!([{ "op": "replace", "path": "active", "value": true }])).await;
    assert_eq!(same.body, *user);

    let with_extension = json!({
        "schemas": [USER, ENTERPRISE], "userName": "ann@acme.example",
        ENTERPRISE: { "department": "Ops", "employeeNumber": "7" },
    });
    let replaced = world.send(Method::PUT, &at(id), &with_extension).await;
    assert_eq!(replaced.status, 200, "{replaced:?}");
    assert_eq!(replaced.body["department"], "Ops");
}

async fn at_most_one_value_is_primary(world: World) {
    let email = |name: &str, primary: Value| {
        let value = format!("{name}@acme.example");
        json!({ "value": value, "type": name, "primary": primary })
    };
    let with = |emails: Value| json!({ "schemas": [USER], "userName": "ann", "emails": emails });
    let both = json!([email("work", true.into()), email("home", "True".into())]);
    refused(&world.send(Method::POST, USERS, &with(both.clone())).await, 400, Some("invalidValue"));
    let work = with(json!([email("work", true.into())]));
    let made = world.send(Method::POST, USERS, &work).await;
    assert_eq!(made.status, 201, "{made:?}");
    let id = &made.body["id"];
    let replaced = world.send(Method::PUT, &at(id), &with(both.clone())).await;
    refused(&replaced, 400, Some("invalidValue"));
    let add = |value: Value| json!([{ "op": "add", "path": "emails", "value": value }]);
    refused(&world.patch(id, add(both)).await, 400, Some("invalidValue"));
    assert_eq!(world.get(&at(id)).await.body, made.body);

    let added = world.patch(id, add(json!([email("home", "True".into())]))).await;
    assert_eq!(added.status, 200, "{added:?}");
    let expected = json!([email("work", false.into()), email("home", true.into())]);
    assert_eq!(added.body["emails"], expected);
    let path = "emails[type eq \"work\"].primary";
    let back = world.patch(id, json!([{ "op": "replace", "path": path, "value": true }])).await;
    let expected = json!([email("work", true.into()), email("home", false.into())]);
    assert_eq!(back.body["emails"], expected, "{back:?}");
    assert_eq!(world.get(&at(id)).await.body, back.body);
}

async fn permissions_name_existing_app_groups(world: World) {
    let acme = AppGroup::from_workspace("acme").id;
    let with = |group: Value| {
        let groups = if group.is_array() { group } else { json!([group]) };
        json!({ "schemas": [USER], "userName": "ann", "permissions": { "appGroup": groups } })
    };
    for wrong in [
        json!({ "appGroupName": "Acme" }),
        json!({ "appGroupId": "7" }),
        json!({ "appGroupId": acme, "appGroupName": "other" }),
        json!({ "appGroupPermissions": ["send"] }),
        json!([{ "appGroupName": "acme" }, { "appGroupId": acme }]),
        json!({ "appGroupName": "acme", "team": [{ "teamPermissions": ["x"] }] }),
    ] {
        let answer = world.send(Method::POST, USERS, &with(wrong)).await;
        refused(&answer, 400, Some("invalidValue"));
    }
    let by_id = json!({ "appGroupId": acme.to_uppercase() });
    let made = world.send(Method::POST, USERS, &with(by_id)).await;
    assert_eq!(
        made.body["permissions"],
        json!({
            "companyPermissions": [],
            "appGroup": [{
                "appGroupId": acme, "appGroupName": "acme", "appGroupPermissions": [],
            }],
        })
    );
}

async fn invalid_users_are_rejected(world: World) {
    let with = |name: &str, value: Value| {
        let mut user = ann();
        user[name] = value;
        user
    };
    let many = json!({ "companyPermissions": vec!["x"; 501] });
    for (body, scim_type) in [
        (with("schemas", json!([PATCH])), "invalidSyntax"),
        (with("schemas", Value::Null), "invalidSyntax"),
        (with("userName", Value::Null), "invalidValue"),
        (with("userName", json!("")), "invalidValue"),
        (with("userName", json!(7)), "invalidValue"),
        (with("userName", json!("x".repeat(256))), "invalidValue"),
        (with("userName", json!("a\u{0}b")), "invalidValue"),
        (with("name", json!("Ann")), "invalidValue"),
        (with("name", json!({ "givenName": ["Ann"] })), "invalidValue"),
        (with("active", json!("maybe")), "invalidValue"),
        (with("permissions", json!([])), "invalidValue"),
        (with("permissions", many), "invalidValue"),
    ] {
        let answer = world.send(Method::POST, USERS, &body).await;
        refused(&answer, 400, Some(scim_type));
    }
    let large =
        json!({ "companyPermissions": (0..280).map(|n| format!("{n:0>240}")).collect::<Vec<_>>() });
    assert_eq!(world.send(Method::POST, USERS, &with("permissions", large)).await.status, 413);
    for text in ["{", "[]", "7", "{\"schemas\":\"", "\u{feff}{}"] {
        let request = world.request(Method::POST, USERS).body(text.to_owned());
        let answer = answer(request.header("content-type", "application/scim+json")).await;
        refused(&answer, 400, Some("invalidSyntax"));
    }
    assert_eq!(world.get(USERS).await.body["totalResults"], 0);
}

async fn versions_guard_against_lost_changes(world: World) {
    let made = world.create("ann@acme.example").await;
    let path = at(&made["id"]);
    let change = |etag: &str, department: &str| {
        let operation = json!({ "op": "replace", "path": "department", "value": department });
        let body = json!({ "schemas": [PATCH], "Operations": [operation] });
        world.request(Method::PATCH, &path).header("if-match", etag).json(&body)
    };
    let changed = answer(change("W/\"1\"", "CRM")).await;
    assert_eq!(changed.headers["etag"], "W/\"2\"", "{changed:?}");
    refused(&answer(change("W/\"1\"", "HR")).await, 412, None);
    assert_eq!(answer(change("*", "HR")).await.status, 200);
    assert_eq!(answer(change("W/\"9\", \"3\"", "IT")).await.status, 200);
    let read = |etag: &str| world.request(Method::GET, &path).header("if-none-match", etag);
    let unchanged = answer(read("W/\"4\"")).await;
    assert_eq!((unchanged.status.as_u16(), &unchanged.body), (304, &Value::Null));
    assert_eq!(unchanged.headers["etag"], "W/\"4\"");
    assert_eq!(answer(read("W/\"3\"")).await.status, 200);
    refused(
        &answer(world.request(Method::DELETE, &path).header("if-match", "\"1\"")).await,
        412,
        None,
    );
    let deleted = world.request(Method::DELETE, &path).header("if-match", "W/\"4\"");
    assert_eq!(answer(deleted).await.status, 204);

    // Changes at once are made one after the other, and none of them is lost.
    let made = world.create("bo@acme.example").await;
    let id = &made["id"];
    let additions = (0..8).map(|number| {
        let path = "permissions.companyPermissions";
        world.patch(id, json!([{ "op": "add", "path": path, "value": number.to_string() }]))
    });
    assert!(join_all(additions).await.iter().all(|answer| answer.status == 200));
    let user = world.get(&at(id)).await.body;
    assert_eq!(user["permissions"]["companyPermissions"].as_array().unwrap().len(), 8);
    assert_eq!(user["meta"]["version"], "W/\"9\"");
}

async fn parts_of_a_user_are_answered(world: World) {
    let made = world.send(Method::POST, &format!("{USERS}?attributes=userName"), &ann()).await;
    assert_eq!(made.body.as_object().unwrap().len(), 3, "{made:?}");
    assert!(made.headers.contains_key("location"));
    let path = at(&made.body["id"]);
    let part = world.get(&format!("{path}?attributes=name.givenName,{USER}:department")).await.body;
    assert_eq!(
        (&part["name"], &part["department"]),
        (&json!({ "givenName": "Ann" }), &json!("CRM"))
    );
    assert!(part["userName"].is_null() && part["meta"].is_null(), "{part}");
    let part = world.get(&format!("{path}?excludedAttributes=name,id,meta")).await.body;
    assert!(part["name"].is_null() && part["meta"].is_null() && part["id"].is_string(), "{part}");
    let both = world.get(&format!("{path}?attributes=name&excludedAttributes=id")).await;
    refused(&both, 400, Some("invalidValue"));
}
