//! Filters, pages and searches.

use super::*;

on_both_stores!(World =>
    filters_find_the_matching_users,
    hostile_filters_are_refused,
    users_are_listed_in_pages,
    a_search_is_a_list_by_post,
);

async fn filters_find_the_matching_users(world: World) {
    for name in ["ann@acme.example", "Anton@other.example", "bo_b@acme.example", "b%@x", "q\"\\@x"]
    {
        world.create(name).await;
    }
    for (filter, expected) in [
        (r#"userName eq "ANN@acme.example""#, vec!["ann@acme.example"]),
        (r#"userName eq "ann""#, vec![]),
        (r#"userName sw "AN""#, vec!["ann@acme.example", "Anton@other.example"]),
        (r#"username CO "ACME""#, vec!["ann@acme.example", "bo_b@acme.example"]),
        (r#"userName co "_""#, vec!["bo_b@acme.example"]),
        (r#"userName sw "b%""#, vec!["b%@x"]),
        (r#"userName co "\"\\""#, vec!["q\"\\@x"]),
        (r#"userName co "\\""#, vec!["q\"\\@x"]),
        (
            r#"userName sw "an" and userName co "other" and userName co "@""#,
            vec!["Anton@other.example"],
        ),
        (r#"userName sw "an" and userName eq "bo_b@acme.example""#, vec![]),
        (
            r#"urn:ietf:params:scim:schemas:core:2.0:User:userName sw "an""#,
            vec!["ann@acme.example", "Anton@other.example"],
        ),
    ] {
        let (total, names) = world.found(filter).await;
        assert_eq!(
            (total as usize, &names),
            (expected.len(), &expected.iter().map(|name| (*name).to_owned()).collect()),
            "{filter}"
        );
    }
    assert_eq!(world.found(r#"userName sw """#).await.0, 5);
}

async fn hostile_filters_are_refused(world: World) {
    world.create("ann@acme.example").await;
    // As long as a head of 16 KiB has room for.
    let deep = format!("{}userName eq \"a\"{}", "(".repeat(2_000), ")".repeat(2_000));
    let wide = vec!["userName eq \"a\""; 400].join(" and ");
    let long = format!("userName eq \"{}", "a".repeat(14_000));
    for filter in [
        "",
        "userName",
        "userName is \"a\"",
        "userName eq \"a\" or",
        "not userName eq \"a\"",
        "name eq \"Ann\"",
        "emails[type eq \"work\"",
        "userName eq 'a'",
        "userName eq \"a\"; DROP TABLE dashboard_users",
        "ｕｓｅｒName eq \"a\"",
        "userName eq \u{201c}a\u{201d}",
        &deep,
        &wide,
        &long,
    ] {
        refused(&world.filtered(filter).await, 400, Some("invalidFilter"));
    }
    // These are filters; nobody is like that.
    for value in ["x' OR '1'='1", "\\u0000", "%", "🙂\\ud83d\\ude00", &"é".repeat(2_000)] {
        assert_eq!(world.found(&format!("userName eq \"{value}\"")).await.0, 0, "{value}");
        assert_eq!(world.found(&format!("userName sw \"{value}\"")).await.0, 0, "{value}");
    }
    let long = format!("userName co \"{}\"", "%".repeat(60_000));
    let body = json!({ "schemas": [SEARCH], "filter": long });
    let found = world.send(Method::POST, "/scim/v2/Users/.search", &body).await;
    assert_eq!(found.body["totalResults"], 0, "{found:?}");
    assert_eq!(world.found("userName sw \"a\"").await.0, 1);
}

async fn users_are_listed_in_pages(world: World) {
    let mut made = Vec::new();
    for number in 0..105 {
        let name = format!("u{number}@acme.example");
        world.create(&name).await;
        made.push(name);
    }
    for (query, expected) in [
        ("", &made[..100]),
        ("?startIndex=101", &made[100..]),
        ("?startIndex=101&count=2", &made[100..102]),
        ("?startIndex=-3&count=1", &made[..1]),
        ("?count=1000", &made[..100]),
        ("?startIndex=106", &[]),
        ("?count=0", &[]),
        ("?count=-1", &[]),
        ("?sortBy=userName&sortOrder=descending&count=1", &made[..1]),
    ] {
        let page = world.get(&format!("{USERS}{query}")).await;
        assert_eq!(page.status, 200, "{query}: {page:?}");
        assert_eq!(names(&page), expected, "{query}");
        assert_eq!(page.body["totalResults"], 105, "{query}");
        assert_eq!(page.body["itemsPerPage"], expected.len(), "{query}");
    }
    assert_eq!(world.get(&format!("{USERS}?startIndex=7&count=1")).await.body["startIndex"], 7);
    for query in ["?startIndex=x", "?count=1.5", "?count=99999999999999999999"] {
        refused(&world.get(&format!("{USERS}{query}")).await, 400, Some("invalidValue"));
    }
}

async fn a_search_is_a_list_by_post(world: World) {
    for name in ["ann@acme.example", "bo@acme.example", "cy@other.example"] {
        world.create(name).await;
    }
    let body = json!({
        "schemas": [SEARCH], "filter": "userName co \"acme\"", "startIndex": 2, "count": 5,
        "attributes": ["userName"],
    });
    for path in ["/scim/v2/Users/.search", "/scim/v2/.search"] {
        let found = world.send(Method::POST, path, &body).await;
        assert_eq!(found.status, 200, "{found:?}");
        assert_eq!(found.body["totalResults"], 2);
        let user = found.body["Resources"][0].as_object().unwrap();
        assert_eq!(user["userName"], "bo@acme.example");
        let names: Vec<&str> = user.keys().map(String::as_str).collect();
        assert_eq!(names, ["id", "schemas", "userName"]);
    }
    for (name, value, scim_type) in [
        ("schemas", json!([]), "invalidSyntax"),
        ("filter", json!("userName"), "invalidFilter"),
        ("filter", json!(1), "invalidFilter"),
        ("count", json!("many"), "invalidValue"),
        ("attributes", json!("userName"), "invalidValue"),
        ("attributes", json!([1]), "invalidValue"),
        ("attributes", json!(vec!["userName"; 101]), "invalidValue"),
        ("excludedAttributes", json!(["name"]), "invalidValue"),
    ] {
        let mut wrong = body.clone();
        wrong[name] = value;
        let answer = world.send(Method::POST, "/scim/v2/Users/.search", &wrong).await;
        refused(&answer, 400, Some(scim_type));
    }
    // Under a key it is done again, and the key has to be one.
    let search = |path: &str, key: &'static str| {
        answer(world.request(Method::POST, path).header("idempotency-key", key).json(&body))
    };
    for path in ["/scim/v2/Users/.search", "/scim/v2/.search"] {
        assert_eq!(search(path, "k").await.body["totalResults"], 2);
        refused(&search(path, "").await, 400, None);
    }
    let both = json!({ "schemas": [SEARCH], "filter": "id pr", "startIndex": 3, "count": 5 });
    let group = json!({ "schemas": [GROUP], "displayName": "One" });
    assert_eq!(world.send(Method::POST, GROUPS, &group).await.status, 201);
    let found = world.send(Method::POST, "/scim/v2/.search", &both).await;
    assert_eq!(found.body["totalResults"], 4, "{found:?}");
    let kinds = found.body["Resources"].as_array().unwrap().iter();
    let kinds: Vec<&Value> = kinds.map(|resource| &resource["meta"]["resourceType"]).collect();
    assert_eq!(kinds, ["User", "Group"], "groups come after users");
    world.create("di@acme.example").await;
    assert_eq!(search("/scim/v2/.search", "k").await.body["totalResults"], 3);
}
