//! All attributes of users: stored, returned and found.

use super::*;

on_both_stores!(World =>
    every_attribute_is_returned,
    filters_find_every_attribute,
    long_lists_are_filtered,
);

/// A user with every attribute that clients write.
pub fn complete() -> Value {
    let values =
        |value: &str| json!([{ "value": value, "type": "work", "primary": true, "display": "d" }]);
    let mut user = ann();
    let more = json!({
        "schemas": [USER, ENTERPRISE],
        "name": {
            "formatted": "Dr. Ann M. Lee II", "givenName": "Ann", "familyName": "Lee",
            "middleName": "M.", "honorificPrefix": "Dr.", "honorificSuffix": "II",
        },
        "displayName": "Ann Lee", "nickName": "Annie",
        "profileUrl": format!("https://acme.example/{}", "a".repeat(1_000)),
        "title": "Engineer", "userType": "Employee", "preferredLanguage": "en-US",
        "locale": "en-US", "timezone": "Europe/Berlin",
        "emails": values("ann@acme.example"),
        "phoneNumbers": values("+15550100"),
        "ims": values("ann"),
        "photos": values("https://acme.example/ann.png"),
        "addresses": [{
            "formatted": "1 Main St\u{20}Oslo", "streetAddress": "1 Main St", "locality": "Oslo",
            "region": "Oslo", "postalCode": "0150", "country": "NO", "type": "work", "primary": true,
        }],
        "entitlements": values("license"),
        "roles": values("admin"),
        ENTERPRISE: {
            "employeeNumber": "701984", "costCenter": "4130", "organization": "Acme",
            "division": "Parks", "department": "CRM",
            "manager": { "value": "26118915", "$ref": "../Users/26118915", "displayName": "Bo" },
        },
    });
    user.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    user
}

async fn every_attribute_is_returned(world: World) {
    let sent = complete();
    let made = world.send(Method::POST, USERS, &sent).await;
    assert_eq!(made.status, 201, "{made:?}");
    for (name, value) in sent.as_object().unwrap() {
        if !["password", "lastSignInAt", "permissions"].contains(&name.as_str()) {
            assert_eq!(made.body[name], *value, "{name}");
        }
    }
    let path = at(&made.body["id"]);
    assert_eq!(world.get(&path).await.body, made.body);
    // What was returned can be written again, and is no change.
    let replaced = world.send(Method::PUT, &path, &made.body).await;
    assert_eq!((replaced.status.as_u16(), &replaced.body), (200, &made.body));
    let part =
        world.get(&format!("{path}?attributes=emails.value,{ENTERPRISE}:manager")).await.body;
    assert_eq!(part["emails"], json!([{ "value": "ann@acme.example" }]));
    assert_eq!(part[ENTERPRISE], json!({ "manager": sent[ENTERPRISE]["manager"] }));
    let without = world.get(&format!("{path}?excludedAttributes={ENTERPRISE}")).await.body;
    assert!(without[ENTERPRISE].is_null() && without["emails"].is_array(), "{without}");
    // A body without them removes them.
    let smaller = json!({ "schemas": [USER], "userName": "ann@acme.example" });
    let replaced = world.send(Method::PUT, &path, &smaller).await.body;
    let mut names: Vec<&String> = replaced.as_object().unwrap().keys().collect();
    names.sort_unstable();
    assert_eq!(names, ["active", "id", "lastSignInAt", "meta", "schemas", "userName"]);
}

async fn filters_find_every_attribute(world: World) {
    let made = world.send(Method::POST, USERS, &complete()).await.body;
    world.create("bo@acme.example").await;
    let name = made["userName"].as_str().unwrap().to_owned();
    for filter in [
        r#"displayName eq "ann lee""#,
        r#"title pr"#,
        r#"emails eq "ann@acme.example""#,
        r#"photos.value ew ".png" and phoneNumbers co "555""#,
        r#"addresses[country eq "no"]"#,
        r#"permissions.companyPermissions eq "manage_company_settings""#,
        r#"permissions.appGroup.appGroupName eq "acme""#,
        r#"urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:manager.displayName sw "b""#,
        r#"not (userName sw "bo")"#,
        r#"userName ne "BO@acme.example" and externalId eq "00u1""#,
        r#"meta.resourceType eq "User" and title eq "engineer""#,
    ] {
        assert_eq!(world.found(filter).await, (1, vec![name.clone()]), "{filter}");
    }
    let (total, _) = world.found(r#"meta.lastModified gt "2020-01-01T00:00:00Z""#).await;
    assert_eq!(total, 2);
    assert_eq!(world.found(r#"userName pr or title pr"#).await.0, 2);
    refused(&world.filtered("nobody eq \"x\"").await, 400, Some("invalidFilter"));
}

/// More users than are read at a time.
async fn long_lists_are_filtered(world: World) {
    let users = (0..620).map(|number| {
        let active = number % 2 == 0;
        let body = json!({ "schemas": [USER], "userName": format!("u{number}"), "active": active });
        let world = &world;
        async move { assert_eq!(world.send(Method::POST, USERS, &body).await.status, 201) }
    });
    for user in users {
        user.await;
    }
    let query = "?filter=active%20eq%20true&startIndex=301&count=7&attributes=userName";
    let page = world.get(&format!("{USERS}{query}")).await;
    assert_eq!(page.body["totalResults"], 310, "{page:?}");
    assert_eq!(names(&page), ["u600", "u602", "u604", "u606", "u608", "u610", "u612"]);
}
