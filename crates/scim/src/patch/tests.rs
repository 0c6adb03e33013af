mod values;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::schema::USERS;

const ACME: &str = "0b0a";

fn user() -> Value {
    json!({
        "userName": "ann@acme.example",
        "active": true,
        "name": { "givenName": "Ann", "familyName": "Lee" },
        "permissions": {
            "companyPermissions": ["a", "b"],
            "appGroup": [
                {
                    "appGroupId": ACME, "appGroupName": "acme", "appGroupPermissions": ["send"],
                    "team": [{ "teamId": "t1", "teamPermissions": ["x"] }],
                },
                { "appGroupId": "0b0b", "appGroupName": "[other]", "appGroupPermissions": ["see"] },
            ],
        },
    })
}

fn patched(operations: Value) -> Result<Value, ScimError> {
    let body = json!({ "schemas": [PATCH], "Operations": operations });
    let (Value::Object(body), Value::Object(mut user)) = (body, user()) else { panic!() };
    Patch::read(body, &USERS)?.apply(&mut user)?;
    USERS.read(user).map(Value::from)
}

/// The user after one operation, which leaves all but `changed` as it was.
fn becomes(operation: Value, pointer: &str, changed: Value) {
    let mut user_after =
        patched(json!([operation])).unwrap_or_else(|error| panic!("{operation}: {error:?}"));
    assert_eq!(user_after.pointer(pointer).cloned().unwrap_or_default(), changed, "{operation}");
    let mut user_before = user();
    for user in [&mut user_after, &mut user_before] {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        if let Some(Value::Object(parent)) = user.pointer_mut(parent) {
            parent.remove(name);
        }
    }
    assert_eq!(user_after, user_before, "{operation}");
}

fn refused(operation: Value) -> ScimType {
    match patched(json!([operation])) {
        Err(ScimError::Refused { scim_type: Some(scim_type), .. }) => scim_type,
        other => panic!("{operation}: {other:?}"),
    }
}

#[test]
fn single_values_are_set_and_removed() {
    for op in ["add", "replace", "Add", "REPLACE"] {
        becomes(
            json!({ "op": op, "path": "department", "value": "CRM" }),
            "/department",
            json!("CRM"),
        );
        becomes(json!({ "op": op, "path": "USERNAME", "value": "b" }), "/userName", json!("b"));
        becomes(json!({ "op": op, "path": "active", "value": "False" }), "/active", json!(false));
        becomes(
            json!({ "op": op, "path": "name.givenName", "value": "Bo" }),
            "/name/givenName",
            json!("Bo"),
        );
        becomes(
            json!({ "op": op, "path": "name", "value": { "givenName": "Bo" } }),
            "/name/givenName",
            json!("Bo"),
        );
        becomes(
            json!({ "op": op, "value": { "externalId": "7", "id": "x", "other": 1 } }),
            "/externalId",
            json!("7"),
        );
        for schema in [schema::USER, schema::ENTERPRISE] {
            let (path, crm) = (format!("{schema}:department"), json!("CRM"));
            let by_path = json!({ "op": op, "path": path, "value": "CRM" });
            becomes(by_path, "/department", crm.clone());
            becomes(json!({ "op": op, "value": { path: "CRM" } }), "/department", crm.clone());
            let members = json!({ "department": "CRM", "other": "x" });
            let by_schema = json!({ "op": op, "path": schema, "value": members });
            becomes(by_schema, "/department", crm.clone());
            becomes(json!({ "op": op, "value": { schema: members } }), "/department", crm);
        }
        becomes(
            json!({ "op": op, "value": { "name.givenName": "Bo", "name.other": "x" } }),
            "/name/givenName",
            json!("Bo"),
        );
        becomes(
            json!({ "op": op, "value": {
                "permissions.appGroup[appGroupName eq \"acme\"].team[teamId eq \"t1\"].teamName": "t",
            } }),
            "/permissions/appGroup/0/team/0/teamName",
            json!("t"),
        );
    }
    becomes(json!({ "op": "remove", "path": "name.familyName" }), "/name/familyName", Value::Null);
    becomes(json!({ "op": "remove", "path": "name" }), "/name", Value::Null);
    becomes(json!({ "op": "remove", "path": "department" }), "/department", Value::Null);
    becomes(json!({ "op": "replace", "path": "name", "value": null }), "/name", Value::Null);
    becomes(json!({ "op": "replace", "value": { "name": null } }), "/name", Value::Null);
    becomes(json!({ "op": "add", "value": { "name": null } }), "/name", user()["name"].clone());
}

#[test]
fn a_replacement_removes_the_members_that_it_empties() {
    let groups = "/permissions/appGroup";
    for empty in [json!([]), json!(null)] {
        let value = json!({ "appGroup": empty });
        let by_path = json!({ "op": "replace", "path": "permissions", "value": value });
        becomes(by_path, groups, Value::Null);
        let by_value = json!({ "op": "replace", "value": { "permissions": value } });
        becomes(by_value, groups, Value::Null);
        let added = json!({ "op": "add", "path": "permissions", "value": value });
        becomes(added, groups, user()["permissions"]["appGroup"].clone());
    }
    let name = json!({ "familyName": null, "givenName": "Bo" });
    let renamed = patched(json!([{ "op": "replace", "path": "name", "value": name }])).unwrap();
    assert_eq!(renamed["name"], json!({ "givenName": "Bo" }));
}

#[test]
fn values_of_many_are_added_replaced_and_removed() {
    let company = "permissions.companyPermissions";
    let pointer = "/permissions/companyPermissions";
    becomes(
        json!({ "op": "add", "path": company, "value": ["b", "c"] }),
        pointer,
        json!(["a", "b", "c"]),
    );
    becomes(json!({ "op": "add", "path": company, "value": "c" }), pointer, json!(["a", "b", "c"]));
    becomes(json!({ "op": "replace", "path": company, "value": ["c"] }), pointer, json!(["c"]));
    becomes(json!({ "op": "remove", "path": company }), pointer, Value::Null);
    becomes(
        json!({ "op": "remove", "path": format!("{company}[value eq \"a\"]") }),
        pointer,
        json!(["b"]),
    );
    becomes(
        json!({ "op": "replace", "path": format!("{company}[value sw \"a\"]"), "value": "z" }),
        pointer,
        json!(["z", "b"]),
    );
    let value = json!({ "companyPermissions": ["c"] });
    becomes(
        json!({ "op": "add", "path": "permissions", "value": value }),
        pointer,
        json!(["a", "b", "c"]),
    );
    becomes(
        json!({ "op": "replace", "path": "permissions", "value": value }),
        pointer,
        json!(["c"]),
    );
}

#[test]
fn filters_select_the_patched_values() {
    let acme = "permissions.appGroup[appGroupName eq \"acme\"]";
    let pointer = "/permissions/appGroup/0/appGroupPermissions";
    let path = format!("{acme}.appGroupPermissions");
    becomes(
        json!({ "op": "add", "path": path, "value": ["see"] }),
        pointer,
        json!(["send", "see"]),
    );
    becomes(json!({ "op": "replace", "path": path, "value": ["see"] }), pointer, json!(["see"]));
    becomes(json!({ "op": "remove", "path": path }), pointer, Value::Null);
    let path = format!("{acme}.team[teamId eq \"t1\"].teamPermissions");
    becomes(
        json!({ "op": "add", "path": path, "value": "y" }),
        "/permissions/appGroup/0/team/0/teamPermissions",
        json!(["x", "y"]),
    );
    let path = "permissions.appGroup[appGroupName eq \"[other]\" and appGroupId sw \"0b\"]";
    becomes(
        json!({ "op": "remove", "path": path }),
        "/permissions/appGroup",
        json!([user()["permissions"]["appGroup"][0]]),
    );
    let value = json!({ "appGroupName": "third" });
    becomes(
        json!({ "op": "replace", "path": acme, "value": value }),
        "/permissions/appGroup",
        json!([value, user()["permissions"]["appGroup"][1]]),
    );
    becomes(
        json!({ "op": "remove", "path": "permissions.appGroup[appGroupName eq \"x\"]" }),
        "/permissions/none",
        Value::Null,
    );
    let everywhere =
        json!({ "op": "add", "path": "permissions.appGroup.appGroupPermissions", "value": ["z"] });
    let user = patched(json!([everywhere])).unwrap();
    for group in user["permissions"]["appGroup"].as_array().unwrap() {
        assert_eq!(group["appGroupPermissions"][1], "z", "{user}");
    }
}

#[test]
fn operations_are_done_in_their_order() {
    let user = patched(json!([
        { "op": "remove", "path": "permissions" },
        { "op": "add", "path": "permissions.appGroup", "value": { "appGroupName": "acme" } },
        { "op": "add", "path": "permissions.appGroup[appGroupName eq \"acme\"].appGroupPermissions", "value": "send" },
    ]));
    let expected =
        json!({ "appGroup": [{ "appGroupName": "acme", "appGroupPermissions": ["send"] }] });
    assert_eq!(user.unwrap()["permissions"], expected);
}

#[test]
fn patched_values_have_a_total_size_limit() {
    let groups: Vec<_> = (0..500).map(|n| json!({ "appGroupName": n.to_string() })).collect();
    let teams = vec![json!({ "teamName": "t", "teamPermissions": vec!["x"; 100] }); 100];
    // A few KiB at each of 500 places: a short body that would use a lot of memory.
    let operations = json!([
        { "op": "add", "path": "permissions.appGroup", "value": &groups[..400] },
        { "op": "replace", "path": "permissions.appGroup.team", "value": teams },
    ]);
    assert!(patched(operations).is_err());
    let operations = json!([
        { "op": "add", "path": "permissions.appGroup", "value": &groups[..400] },
        { "op": "replace", "path": "permissions.appGroup.appGroupPermissions", "value": ["x"] },
        { "op": "remove", "path": "permissions.appGroup.appGroupPermissions" },
    ]);
    assert!(patched(operations).is_ok());
}

#[test]
fn invalid_operations_have_their_scim_type() {
    use ScimType::{InvalidFilter, InvalidPath, InvalidSyntax, InvalidValue, Mutability, NoTarget};
    for (operation, expected) in [
        (json!(1), InvalidSyntax),
        (json!({ "op": "move", "path": "name" }), InvalidSyntax),
        (json!({ "op": "remove", "path": "department", "value": "CRM" }), InvalidSyntax),
        (json!({ "op": "remove" }), NoTarget),
        (
            json!({ "op": "add", "path": "permissions.appGroup[appGroupName eq \"x\"].team", "value": [] }),
            NoTarget,
        ),
        (
            json!({ "op": "replace", "path": "permissions.companyPermissions[value eq \"x\"]", "value": "y" }),
            NoTarget,
        ),
        (json!({ "op": "remove", "path": "userName" }), Mutability),
        (json!({ "op": "replace", "path": "userName", "value": null }), Mutability),
        (json!({ "op": "replace", "path": "id", "value": "x" }), Mutability),
        (json!({ "op": "remove", "path": "meta.version" }), Mutability),
        (json!({ "op": "add", "path": "lastSignInAt", "value": "x" }), Mutability),
        (json!({ "op": "add", "path": 7, "value": "x" }), InvalidPath),
        (json!({ "op": "add", "path": "", "value": "x" }), InvalidPath),
        (json!({ "op": "add", "path": "nobody", "value": "x" }), InvalidPath),
        (json!({ "op": "add", "path": "name.other", "value": "x" }), InvalidPath),
        (json!({ "op": "add", "path": "name..givenName", "value": "x" }), InvalidPath),
        (
            json!({ "op": "add", "path": format!("{}:userName.x", schema::USER), "value": "x" }),
            InvalidPath,
        ),
        (json!({ "op": "add", "value": { "name[givenName eq \"Ann\"]": "x" } }), InvalidPath),
        (json!({ "op": "remove", "path": schema::USER }), NoTarget),
        (json!({ "op": "add", "path": "department.x", "value": "x" }), InvalidPath),
        (json!({ "op": "add", "path": "name[givenName eq \"Ann\"]", "value": "x" }), InvalidPath),
        (
            json!({ "op": "add", "path": "permissions.appGroup[x eq \"y\"]", "value": "x" }),
            InvalidFilter,
        ),
        (
            json!({ "op": "add", "path": "permissions.appGroup[appGroupId eq \"y\"", "value": "x" }),
            InvalidPath,
        ),
        (
            json!({ "op": "add", "path": "permissions.appGroup[appGroupId eq \"y\"]x", "value": "x" }),
            InvalidPath,
        ),
        (
            json!({ "op": "add", "path": "permissions.appGroup[appGroupId is]", "value": "x" }),
            InvalidFilter,
        ),
        (json!({ "op": "add", "path": "department" }), InvalidValue),
        (json!({ "op": "add", "value": "x" }), InvalidValue),
        (json!({ "op": "add", "path": "department", "value": 1 }), InvalidValue),
        (json!({ "op": "add", "path": "department", "value": "x".repeat(256) }), InvalidValue),
        (json!({ "op": "add", "path": "department", "value": "a\u{0}" }), InvalidValue),
        (json!({ "op": "add", "path": "active", "value": 1 }), InvalidValue),
        (json!({ "op": "add", "path": "name", "value": "Ann" }), InvalidValue),
        (
            json!({ "op": "add", "path": "permissions.companyPermissions", "value": vec!["x"; 501] }),
            InvalidValue,
        ),
        (
            json!({ "op": "add", "path": "permissions.companyPermissions", "value": (0..500).map(|n| n.to_string()).collect::<Vec<_>>() }),
            InvalidValue,
        ),
    ] {
        assert_eq!(refused(operation.clone()), expected, "{operation}");
    }
    for operations in
        [json!([]), json!({}), json!(vec![json!({ "op": "remove", "path": "name" }); 101])]
    {
        assert!(patched(operations).is_err());
    }
    let long = json!([{ "op": "remove", "path": "x".repeat(10_000) }]);
    assert!(matches!(patched(long), Err(ScimError::Refused { detail, .. }) if detail.len() < 200));
    let Value::Object(body) = json!({ "Operations": [{ "op": "remove", "path": "name" }] }) else {
        panic!()
    };
    assert!(Patch::read(body, &USERS).is_err(), "it does not say what it is");
}

#[test]
fn identity_providers_write_their_forms() {
    let work = json!([{ "type": "work", "value": "a@acme.example" }]);
    for op in ["Add", "Replace"] {
        becomes(
            json!({ "op": op, "path": "emails[type eq \"work\"].value", "value": "a@acme.example" }),
            "/emails",
            work.clone(),
        );
        becomes(
            json!({ "op": op, "value": {
                "emails[type eq \"work\"].value": "a@acme.example", "id": "x", "nobody": "x",
            } }),
            "/emails",
            work.clone(),
        );
        becomes(
            json!({ "op": op, "path": "roles[primary eq \"True\"].value", "value": "admin" }),
            "/roles",
            json!([{ "primary": true, "value": "admin" }]),
        );
        let extension = format!("/{}", schema::ENTERPRISE);
        let manager = format!("{}:manager", schema::ENTERPRISE);
        becomes(
            json!({ "op": op, "path": manager, "value": "7" }),
            &extension,
            json!({ "manager": { "value": "7" } }),
        );
        becomes(
            json!({ "op": op, "value": { format!("{manager}.displayName"): "Bo" } }),
            &extension,
            json!({ "manager": { "displayName": "Bo" } }),
        );
        // Older clients leave out the URN, and send an array.
        for path in ["manager", &manager] {
            becomes(
                json!({ "op": op, "path": path, "value": [{ "value": "7" }] }),
                &extension,
                json!({ "manager": { "value": "7" } }),
            );
        }
        let dotted = format!("{}.manager", schema::ENTERPRISE);
        for (path, value) in [(dotted.clone(), "7"), (format!("{dotted}.value"), "7")] {
            becomes(
                json!({ "op": op, "path": path, "value": value }),
                &extension,
                json!({ "manager": { "value": "7" } }),
            );
            becomes(
                json!({ "op": op, "value": { path: value } }),
                &extension,
                json!({ "manager": { "value": "7" } }),
            );
        }
        becomes(
            json!({ "op": op, "path": format!("{}.name.givenName", schema::USER), "value": "Bo" }),
            "/name/givenName",
            json!("Bo"),
        );
        // Attributes that Longshore does not have.
        for foreign in [
            "urn:x:schemas:acme:2.0:User:name",
            "urn:x:acme",
            &format!("{}:badge", schema::ENTERPRISE),
            &format!("{}.manager.badge", schema::ENTERPRISE),
            &format!("{}manager", schema::ENTERPRISE),
        ] {
            let operation = json!({ "op": op, "path": foreign, "value": "x" });
            assert_eq!(refused(operation), ScimType::InvalidPath, "{foreign}");
        }
    }
    becomes(
        json!({ "op": "Remove", "path": "permissions.companyPermissions", "value": ["a", "z"] }),
        "/permissions/companyPermissions",
        json!(["b"]),
    );
    becomes(json!({ "op": "remove", "path": schema::ENTERPRISE }), "/none", Value::Null);
    let two = json!([
        { "op": "add", "path": "emails", "value": [
            { "value": "a@x.example", "type": "x" }, { "value": "b@x.example" },
        ] },
        { "op": "replace", "path": "emails[value eq \"A@x.example\"].type", "value": "work" },
        { "op": "remove", "path": "emails", "value": [{ "value": "b@x.example" }] },
        { "op": "replace", "path": "emails[type eq \"work\"].value", "value": "c@x.example" },
    ]);
    let emails = json!([{ "value": "c@x.example", "type": "work" }]);
    assert_eq!(patched(two).unwrap()["emails"], emails);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_path_panics(
        path in "((\\PC|\\[|\\]|\\.|\"|\\\\)|name|permissions|appGroup|companyPermissions|value eq \"a\"|\\[appGroupName sw \"\"\\]|team)*",
        op in "add|replace|remove",
    ) {
        let operation = match op.as_str() {
            "remove" => json!({ "op": op, "path": path }),
            _ => json!({ "op": op, "path": path, "value": ["x"] }),
        };
        let _ = patched(json!([operation]));
    }
}
