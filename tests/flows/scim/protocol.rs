//! What all requests have in common: keys, errors, tokens and limits.

use super::*;

on_both_stores!(World =>
    a_call_under_a_key_is_done_once,
    every_error_is_one_of_the_protocol,
    calls_of_users_are_counted_together,
    a_revoked_token_ends,
    tokens_are_accepted_only_from_their_networks,
    refused_calls_do_not_use_up_the_companys_budget,
    capabilities_are_published,
    a_token_can_waive_the_origin,
);

async fn a_call_under_a_key_is_done_once(world: World) {
    let make = |key: &str, name: &str| {
        let body = json!({ "schemas": [USER], "userName": name });
        let request = world.request(Method::POST, USERS).json(&body);
        answer(request.header("idempotency-key", key.to_owned()))
    };
    // At once: one makes the user, the others have its response.
    let answers = join_all((0..5).map(|_| make("k", "ann"))).await;
    for again in &answers {
        assert_eq!((again.status.as_u16(), &again.body), (201, &answers[0].body));
        assert_eq!(again.headers["content-type"], "application/scim+json");
        assert_eq!(again.headers["location"], answers[0].headers["location"]);
        assert_eq!(again.headers["etag"], "W/\"1\"");
    }
    assert_eq!(world.get(USERS).await.body["totalResults"], 1);
    refused(&make("k", "bo").await, 422, None);
    // What is refused leaves nothing under the key.
    refused(&make("other", "ann").await, 409, Some("uniqueness"));
    assert_eq!(make("other", "bo").await.status, 201);
    refused(&make("", "cy").await, 400, None);

    let id = &answers[0].body["id"];
    let add = |id: &Value, key: &str, value: &str| {
        let operation = json!({ "op": "replace", "path": "department", "value": value });
        let body = json!({ "schemas": [PATCH], "Operations": [operation] });
        let request = world.request(Method::PATCH, &at(id)).json(&body);
        answer(request.header("idempotency-key", key.to_owned()))
    };
    let first = add(id, "k", "CRM").await;
    assert_eq!(first.body["department"], "CRM", "{first:?}");
    assert_eq!(add(id, "later", "HR").await.body["department"], "HR");
    assert_eq!(add(id, "k", "CRM").await.body, first.body, "the first answer, and no change");
    assert_eq!(world.get(&at(id)).await.body["department"], "HR");
    let bo = make("other", "bo").await.body;
    assert_eq!(add(&bo["id"], "k", "IT").await.body["department"], "IT", "another user's key");
}

async fn every_error_is_one_of_the_protocol(world: World) {
    let bare = |method: Method, path: &str| answer(world.bare(method, path));
    for path in [USERS, "/scim/v2/Schemas", "/scim/v2/ServiceProviderConfig"] {
        let missing = bare(Method::GET, path).await;
        refused(&missing, 401, None);
        assert_eq!(missing.headers["www-authenticate"], "Bearer");
    }
    let unknown = world.bare(Method::GET, USERS).bearer_auth("token-of-nobody-at-all");
    refused(&answer(unknown).await, 401, None);
    for origin in [None, Some("")] {
        let mut request = world.bare(Method::GET, USERS).bearer_auth(TOKEN);
        if let Some(origin) = origin {
            request = request.header("x-request-origin", origin);
        }
        refused(&answer(request).await, 400, None);
    }
    for path in ["/scim/v2", "/scim/v2/", "/scim/v2/Teams", "/scim/v2/Users/1/2"] {
        refused(&bare(Method::GET, path).await, 404, None);
        refused(&bare(Method::PATCH, path).await, 404, None);
    }
    for path in ["/scim/v2/Schemas/%ff", "/scim/v2/ResourceTypes/%ff", "/scim/v2/Users/%ff"] {
        refused(&world.get(path).await, 404, None);
    }
    for (method, path, allow) in [
        (Method::PATCH, USERS, "GET,HEAD,POST"),
        (Method::POST, "/scim/v2/Schemas", "GET,HEAD"),
        (Method::GET, "/scim/v2/.search", "POST"),
    ] {
        let wrong = bare(method, path).await;
        refused(&wrong, 405, None);
        assert_eq!(wrong.headers["allow"], allow);
    }
    let large = world.request(Method::POST, USERS).header("content-type", "application/json");
    refused(&answer(large.body(" ".repeat(LIMIT + 1))).await, 413, None);
    let plain = world.request(Method::POST, USERS).header("content-type", "text/plain");
    refused(&answer(plain.body("{}")).await, 415, None);
    refused(&world.get("/scim/v2/Schemas?filter=x").await, 403, None);
    refused(&world.get("/scim/v2/Me").await, 501, None);
    world.installation.app.store.close().await;
    let away = world.get(USERS).await;
    refused(&away, 503, None);
    assert!(away.headers.contains_key("retry-after"), "{away:?}");
}

async fn calls_of_users_are_counted_together(world: World) {
    const COUNT: &str = "x-ratelimit-remaining";
    let read = world.get(USERS).await;
    assert_eq!(read.headers["x-ratelimit-limit"], "5000");
    assert_eq!(read.headers[COUNT], "4999");
    let bare = answer(world.bare(Method::GET, USERS).bearer_auth(TOKEN)).await;
    refused(&bare, 400, None);
    assert_eq!(bare.headers[COUNT], "4998");
    assert!(!world.get("/scim/v2/Schemas").await.headers.contains_key(COUNT));
    let used = "UPDATE rate_limits SET used = 5000 WHERE workspace_id = 0 AND budget = 'scim'";
    on_pool!(&world.installation.app.store, pool => {
        assert_eq!(sqlx::query(used).execute(pool).await.unwrap().rows_affected(), 1);
    });
    // Some have been asked for already.
    let mut last = read;
    for _ in 0..100 {
        if last.status == 200 {
            last = world.get(USERS).await;
        }
    }
    refused(&last, 429, None);
    assert_eq!(last.headers[COUNT], "0");
    let wait: i64 = last.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=86_400).contains(&wait), "{wait}");
}

async fn a_revoked_token_ends(world: World) {
    let secret = world.make_token("by hand", &[]).await.unwrap();
    assert!(world.make_token("by hand", &[]).await.is_err(), "the name is taken");
    let call = || answer(world.request_with(&secret, Method::GET, USERS));
    assert_eq!(call().await.status, 200);
    eventually("its use is noted", || async {
        let mut tx = world.app.store.snapshot().await.unwrap();
        let all = tokens::list(&mut tx).await.unwrap();
        all.iter().any(|token| token.name == "by hand" && token.last_used_at.is_some())
    })
    .await;
    world.revoke_token("by hand").await;
    let mut tx = world.app.store.write().await.unwrap();
    let again = tokens::revoke(&mut tx, &world.app.clock, "by hand").await;
    assert!(again.is_err(), "it is ended already");
    tx.commit().await.unwrap();
    eventually("it has ended", || async { call().await.status == 401 }).await;
    refused(&call().await, 401, None);
    assert_eq!(world.get(USERS).await.status, 200, "other tokens go on");
}

async fn tokens_are_accepted_only_from_their_networks(world: World) {
    let networks = ["198.51.100.0/24".parse().unwrap()];
    let token = world.make_token("remote", &networks).await.unwrap();
    let call = |path: &str, sender: Option<&'static str>| {
        let mut request = world.request_with(&token, Method::GET, path);
        if let Some(sender) = sender {
            request = request.header("x-forwarded-for", sender);
        }
        answer(request)
    };
    for path in [USERS, "/scim/v2/Schemas", "/scim/v2/ServiceProviderConfig"] {
        for sender in [None, Some("203.0.113.9"), Some("nobody knows")] {
            let outside = call(path, sender).await;
            refused(&outside, 403, None);
            assert_eq!(outside.body["detail"], "Invalid whitelisted IPs");
        }
        assert_eq!(call(path, Some("198.51.100.7")).await.status, 200, "{path}");
    }
    // Looked at before the header.
    let bare = answer(world.bare(Method::GET, USERS).bearer_auth(&token)).await;
    refused(&bare, 403, None);
    assert!(bare.headers.contains_key("x-ratelimit-remaining"), "{bare:?}");
}

async fn refused_calls_do_not_use_up_the_companys_budget(world: World) {
    const COUNT: &str = "x-ratelimit-remaining";
    let networks = ["198.51.100.0/24".parse().unwrap()];
    let token = world.make_token("remote", &networks).await.unwrap();
    let now = jiff::Timestamp::now();
    world.app.clock.set(now);
    assert_eq!(world.get(USERS).await.headers[COUNT], "4999");
    let (mut refusals, mut limited) = (0, 0);
    for _ in 0..75 {
        // The configuration has no rate limit.
        let schemas = world.request_with(&token, Method::GET, "/scim/v2/Schemas");
        refused(&answer(schemas).await, 403, None);
        let outside = answer(world.request_with(&token, Method::GET, USERS)).await;
        match outside.status.as_u16() {
            403 => refusals += 1,
            status => {
                assert_eq!(status, 429);
                assert!(outside.headers.contains_key("retry-after"));
                limited += 1;
            }
        }
    }
    assert_eq!((refusals, limited), (60, 15));
    assert_eq!(world.get(USERS).await.headers[COUNT], "4998");
    // From its network, the token works all the time.
    let inside = world.request_with(&token, Method::GET, USERS);
    assert_eq!(answer(inside.header("x-forwarded-for", "198.51.100.7")).await.status, 200);
    world.app.clock.set(now + jiff::SignedDuration::from_mins(1));
    refused(&answer(world.request_with(&token, Method::GET, USERS)).await, 403, None);
}

async fn capabilities_are_published(world: World) {
    let config = world.get("/scim/v2/ServiceProviderConfig").await;
    let supported = |name: &str| config.body[name]["supported"].as_bool();
    assert_eq!(
        ["patch", "filter", "etag", "sort", "bulk", "changePassword"].map(supported),
        [Some(true), Some(true), Some(true), Some(false), Some(false), Some(false)],
        "{config:?}"
    );
    let types = world.get("/scim/v2/ResourceTypes").await.body;
    assert_eq!(
        (&types["totalResults"], &types["Resources"][0]["schema"]),
        (&json!(2), &json!(USER))
    );
    let extensions = &types["Resources"][0]["schemaExtensions"];
    assert_eq!(*extensions, json!([{ "schema": ENTERPRISE, "required": false }]));
    assert_eq!(world.get("/scim/v2/ResourceTypes/Group").await.body["schema"], GROUP);
    assert_eq!(world.get("/scim/v2/ResourceTypes/User").await.body, types["Resources"][0]);
    refused(&world.get("/scim/v2/ResourceTypes/Team").await, 404, None);
    for path in ["ServiceProviderConfig/", "Schemas/", "ResourceTypes/", "Users/", "Groups/"] {
        assert_eq!(world.get(&format!("/scim/v2/{path}")).await.status, 200, "{path}");
    }
    for urn in [USER, GROUP, ENTERPRISE] {
        assert_eq!(world.get(&format!("/scim/v2/Schemas/{urn}")).await.body["id"], urn);
    }
    let schemas = world.get("/scim/v2/Schemas").await.body;
    let schema = &schemas["Resources"][0];
    assert_eq!(world.get(&format!("/scim/v2/Schemas/{USER}")).await.body, *schema);
    refused(&world.get("/scim/v2/Schemas/x").await, 404, None);
    // It lists what a user gets, and nothing else.
    let made = world.send(Method::POST, USERS, &attributes::complete()).await.body;
    let mut listed: Vec<&str> = schema["attributes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|a| a["name"].as_str().unwrap())
        .collect();
    // Those of groups are there once the user is in one.
    listed.retain(|name| *name != "groups");
    listed.extend(["schemas", "id", "externalId", "meta", ENTERPRISE]);
    let mut answered: Vec<&str> = made.as_object().unwrap().keys().map(String::as_str).collect();
    listed.sort_unstable();
    answered.sort_unstable();
    assert_eq!(listed, answered);
    assert!(schema.to_string().contains(&AppGroup::from_workspace("other").id), "{schema}");
}

async fn a_token_can_waive_the_origin(world: World) {
    for path in [USERS, GROUPS] {
        let with = |token: &str| world.bare(Method::GET, path).bearer_auth(token);
        refused(&answer(with(TOKEN)).await, 400, None);
        assert_eq!(answer(with(WITHOUT_ORIGIN)).await.status, 200, "{path}");
        let both = with(WITHOUT_ORIGIN).header("x-request-origin", "idp.acme.example");
        assert_eq!(answer(both).await.status, 200, "{path}");
    }
}
