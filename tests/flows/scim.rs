//! SCIM over a real connection, on SQLite and on PostgreSQL.

mod apply;
mod attributes;
mod conformance;
#[cfg(debug_assertions)]
mod crash;
mod entra;
mod groups;
mod known;
mod okta;
mod provider;

use std::net::SocketAddr;
use std::ops::Deref;

use futures::future::join_all;
use ipnet::IpNet;
use longshore::app::App;
use longshore::gateway;
use longshore::scim::resource::AppGroup;
use longshore::scim::tokens::{self, NewToken, TokenError};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use url::form_urlencoded;

use crate::support::api::{ApiResponse, answer};
use crate::support::eventually;
use crate::support::installation::Installation;
use crate::support::stores::{TestStore, on_both_stores, on_pool, on_postgres};

on_both_stores!(World =>
    the_lookup_of_the_contract,
    users_are_created_read_replaced_and_deleted,
    user_names_are_unique_ignoring_case,
    of_two_that_make_the_same_user_one_does,
    filters_find_the_matching_users,
    hostile_filters_are_refused,
    users_are_listed_in_pages,
    a_search_is_a_list_by_post,
    a_patch_changes_only_its_paths,
    permissions_name_existing_app_groups,
    invalid_users_are_rejected,
    versions_guard_against_lost_changes,
    parts_of_a_user_are_answered,
    a_call_under_a_key_is_done_once,
    every_error_is_one_of_the_protocol,
    calls_of_users_are_counted_together,
    a_revoked_token_ends,
    tokens_are_accepted_only_from_their_networks,
    refused_calls_do_not_use_up_the_companys_budget,
    capabilities_are_published,
    a_token_can_waive_the_origin,
);

const TOKEN: &str = "token-of-the-identity-provider";
const LIMIT: usize = 64 << 10;

const FILE: &str = "
workspace: acme
---
workspace: other
---
company: Acme Inc.
scim_tokens:
  - {name: idp, secret: token-of-the-identity-provider}
  - {name: provider, secret: token-without-an-origin, require_origin: false}
";

/// Its requests need no `X-Request-Origin`.
const WITHOUT_ORIGIN: &str = "token-without-an-origin";

const USER: &str = "urn:ietf:params:scim:schemas:core:2.0:User";
const PATCH: &str = "urn:ietf:params:scim:api:messages:2.0:PatchOp";
const SEARCH: &str = "urn:ietf:params:scim:api:messages:2.0:SearchRequest";
const GROUP: &str = "urn:ietf:params:scim:schemas:core:2.0:Group";
const ENTERPRISE: &str = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User";
const LIST: &str = "urn:ietf:params:scim:api:messages:2.0:ListResponse";
const ERROR: &str = "urn:ietf:params:scim:api:messages:2.0:Error";
const USERS: &str = "/scim/v2/Users";
const GROUPS: &str = "/scim/v2/Groups";

/// A gateway that listens.
struct Gateway {
    app: App,
    base: String,
    shutdown: CancellationToken,
    client: reqwest::Client,
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

/// A gateway on an installation of its own.
struct World {
    installation: Installation,
    gateway: Gateway,
}

impl Deref for World {
    type Target = Gateway;

    fn deref(&self) -> &Gateway {
        &self.gateway
    }
}

impl World {
    async fn new(store: TestStore) -> Self {
        let installation = Installation::open(store, FILE, |config| {
            config.gateway.listen = SocketAddr::from(([127, 0, 0, 1], 0));
            config.gateway.max_body_bytes = LIMIT;
            config.public_url = Some("https://api.acme.example".parse().unwrap());
            config.trusted_proxies = vec!["127.0.0.1/32".parse().unwrap()];
        })
        .await;
        let gateway = Gateway::start(installation.app.clone()).await;
        Self { installation, gateway }
    }

    async fn make_token(&self, name: &str, allow: &[IpNet]) -> Result<String, TokenError> {
        let mut tx = self.app.store.write().await.unwrap();
        let token = NewToken { name, allow, requires_origin: true, declared: false };
        let secret = tokens::create(&mut tx, &self.app.clock, token).await?;
        tx.commit().await.unwrap();
        Ok(secret)
    }

    async fn revoke_token(&self, name: &str) {
        let mut tx = self.app.store.write().await.unwrap();
        tokens::revoke(&mut tx, &self.app.clock, name).await.unwrap();
        tx.commit().await.unwrap();
    }
}

impl Gateway {
    async fn start(app: App) -> Self {
        let listener = gateway::bind(app.config.gateway.listen, "LONGSHORE_LISTEN").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let shutdown = CancellationToken::new();
        let router = gateway::router(app.gateway.clone(), longshore::cli::routes(Some(&app)));
        tokio::spawn(gateway::serve(app.gateway.clone(), router, listener, shutdown.clone()));
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { app, base, shutdown, client }
    }

    /// Without anything that a call needs.
    fn bare(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.base))
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.request_with(TOKEN, method, path)
    }

    fn request_with(&self, token: &str, method: Method, path: &str) -> RequestBuilder {
        self.bare(method, path).bearer_auth(token).header("x-request-origin", "idp.acme.example")
    }

    async fn get(&self, path: &str) -> ApiResponse {
        answer(self.request(Method::GET, path)).await
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> ApiResponse {
        answer(self.request(method, path).json(body)).await
    }

    async fn create(&self, user_name: &str) -> Value {
        let body = json!({ "schemas": [USER], "userName": user_name });
        let made = self.send(Method::POST, USERS, &body).await;
        assert_eq!(made.status, 201, "{made:?}");
        made.body
    }

    async fn patch(&self, id: &Value, operations: Value) -> ApiResponse {
        let body = json!({ "schemas": [PATCH], "Operations": operations });
        self.send(Method::PATCH, &at(id), &body).await
    }

    async fn filtered(&self, filter: &str) -> ApiResponse {
        let query: String = form_urlencoded::byte_serialize(filter.as_bytes()).collect();
        self.get(&format!("{USERS}?filter={}", query.replace('+', "%20"))).await
    }

    /// The names that a filter finds, and how many it says that there are.
    async fn found(&self, filter: &str) -> (u64, Vec<String>) {
        let found = self.filtered(filter).await;
        assert_eq!(found.status, 200, "{filter}: {found:?}");
        (found.body["totalResults"].as_u64().unwrap(), names(&found))
    }
}

fn at(id: &Value) -> String {
    format!("{USERS}/{}", id.as_str().unwrap())
}

fn names(found: &ApiResponse) -> Vec<String> {
    let users = found.body["Resources"].as_array().unwrap_or_else(|| panic!("{found:?}"));
    users.iter().map(|user| user["userName"].as_str().unwrap().to_owned()).collect()
}

/// An error as the protocol has them.
fn refused(answer: &ApiResponse, status: u16, scim_type: Option<&str>) {
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.headers["content-type"], "application/scim+json", "{answer:?}");
    assert_eq!(answer.body["schemas"], json!([ERROR]), "{answer:?}");
    assert_eq!(answer.body["status"], status.to_string(), "{answer:?}");
    assert_eq!(answer.body["scimType"].as_str(), scim_type, "{answer:?}");
    assert!(!answer.body["detail"].as_str().unwrap().is_empty(), "{answer:?}");
}

/// Somebody who has everything.
fn ann() -> Value {
    json!({
        "schemas": [USER],
        "userName": "Ann+1@acme.example",
        "externalId": "00u1",
        "name": { "givenName": "Ann", "familyName": "Lee" },
        "active": true,
        "department": "CRM",
        "permissions": {
            "companyPermissions": ["manage_company_settings"],
            "appGroup": [{
                "appGroupName": "acme",
                "appGroupPermissions": ["send_campaigns"],
                "team": [{ "teamName": "Berlin", "teamPermissions": ["view"] }],
            }],
        },
        "password": "not kept",
        "lastSignInAt": "not taken",
    })
}

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
        group["appGroupId"] = AppGroup::of("acme").id.into();
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
    let is = |name: &str| &replaced.body[name];
    assert_eq!(
        (is("id"), is("userName"), is("active")),
        (id, &json!("bo@acme.example"), &json!(false))
    );
    for name in ["name", "department", "permissions", "externalId"] {
        assert!(is(name).is_null(), "{name}: {replaced:?}");
    }
    assert_eq!(is("meta")["version"], "W/\"2\"");
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

async fn of_two_that_make_the_same_user_one_does(world: World) {
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
    let kinds: Vec<&Value> = kinds.map(|one| &one["meta"]["resourceType"]).collect();
    assert_eq!(kinds, ["User", "Group"], "groups come after users");
    world.create("di@acme.example").await;
    assert_eq!(search("/scim/v2/.search", "k").await.body["totalResults"], 3);
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
    assert_eq!(groups[1]["appGroupId"], AppGroup::of("other").id.as_str());
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

async fn permissions_name_existing_app_groups(world: World) {
    let acme = AppGroup::of("acme").id;
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
    for number in 0..150 {
        let path = if number % 2 == 0 { USERS } else { "/scim/v2/Schemas" };
        let outside = answer(world.request_with(&token, Method::GET, path)).await;
        match outside.status.as_u16() {
            403 => refusals += 1,
            status => {
                assert_eq!(status, 429);
                assert!(outside.headers.contains_key("retry-after"));
                limited += 1;
            }
        }
    }
    assert_eq!((refusals, limited), (60, 90));
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
    assert!(schema.to_string().contains(&AppGroup::of("other").id), "{schema}");
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
