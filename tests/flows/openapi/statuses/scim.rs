//! The statuses of the requests about dashboard users and groups.

use reqwest::Method;
use serde_json::{Value, json};

use super::super::UNKNOWN;
use super::super::world::World;
use super::Seen;
use crate::support::api::ApiResponse;

pub async fn users_and_groups(world: &World, seen: &mut Seen) {
    let get = |path: &str| world.scim(Method::GET, path);
    let user = |name: &str| {
        json!({
            "schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"], "userName": name,
            "name": { "givenName": "Ann", "familyName": "Lee" }, "externalId": "7",
            "department": "Sales",
            "permissions": {
                "companyPermissions": ["admin"],
                "appGroup": [{ "appGroupName": "acme", "appGroupPermissions": ["x"],
                               "team": [{ "teamName": "t", "teamPermissions": ["y"] }] }],
            },
        })
    };
    let group = |name: &str| json!({ "schemas": ["urn:ietf:params:scim:schemas:core:2.0:Group"], "displayName": name });
    scim_resources(world, seen, "/Users", "userName", user).await;
    scim_resources(world, seen, "/Groups", "displayName", group).await;
    let search =
        json!({ "schemas": ["urn:ietf:params:scim:api:messages:2.0:SearchRequest"], "count": 1.0 });
    for path in ["/.search", "/Users/.search", "/Groups/.search"] {
        seen.see(world.scim(Method::POST, path).json(&search), 200).await;
    }
    for path in ["/ServiceProviderConfig", "/ResourceTypes", "/ResourceTypes/User", "/Schemas"] {
        seen.see(get(path), 200).await;
    }
    seen.see(get("/Schemas/urn:ietf:params:scim:schemas:core:2.0:User"), 200).await;
    for list in ["/ResourceTypes", "/Schemas"] {
        seen.see(get(&format!("{list}?filter=x")), 403).await;
        seen.see(get(&format!("{list}/none")), 404).await;
    }
}

/// The requests about one kind of resources; `key` is the attribute with their names.
async fn scim_resources(
    world: &World,
    seen: &mut Seen,
    endpoint: &str,
    key: &str,
    resource: impl Fn(&str) -> Value,
) {
    let get = |path: &str| world.scim(Method::GET, path);
    let create = || world.scim(Method::POST, endpoint);
    let made = create()
        .json(&resource("ann@acme.example"))
        .header("idempotency-key", format!("a{endpoint}"));
    let made = seen.see(made, 201).await;
    seen.see(create().json(&resource("ann@acme.example")), 409).await;
    seen.see(
        create()
            .json(&resource("b@acme.example"))
            .header("idempotency-key", format!("a{endpoint}")),
        422,
    )
    .await;
    let bob = seen.see(create().json(&resource("bob@acme.example")), 201).await;
    let path =
        |response: &ApiResponse| format!("{endpoint}/{}", response.body["id"].as_str().unwrap());
    let (ann, bob, nobody) = (path(&made), path(&bob), format!("{endpoint}/{UNKNOWN}"));
    seen.see(get(&format!("{endpoint}?count=1&filter={key}%20sw%20%22a%22")), 200).await;
    for wrong in ["filter=x", "count=1&count=1", "attributes=id&excludedAttributes=id"] {
        seen.see(get(&format!("{endpoint}?{wrong}")), 400).await;
    }
    seen.see(get(&format!("{ann}?attributes=meta.location")), 200).await;
    seen.see(get(&ann).header("if-none-match", "*"), 304).await;
    seen.see(get(&nobody), 404).await;
    seen.see(world.keyed(Method::GET, &format!("/scim/v2{ann}")), 400).await;
    let patch = json!({
        "schemas": ["urn:ietf:params:scim:api:messages:2.0:PatchOp"],
        "Operations": [{ "op": "replace", "path": key, "value": "bob@acme.example" }],
    });
    let mut good = patch.clone();
    good["Operations"][0]["value"] = "ann2@acme.example".into();
    for (method, body, good) in [
        (Method::PUT, resource("bob@acme.example"), resource("ann@acme.example")),
        (Method::PATCH, patch, good),
    ] {
        let change = |path: &str| world.scim(method.clone(), path);
        seen.see(change(&ann).json(&good), 200).await;
        seen.see(change(&ann).json(&body), 409).await;
        seen.see(change(&ann).json(&json!({})), 400).await;
        seen.see(change(&nobody).json(&good), 404).await;
        seen.see(change(&ann).json(&good).header("if-match", "\"0\""), 412).await;
        if method == Method::PATCH {
            seen.see(
                change(&ann).json(&good).header("idempotency-key", format!("p{endpoint}")),
                200,
            )
            .await;
            seen.see(
                change(&ann).json(&body).header("idempotency-key", format!("p{endpoint}")),
                422,
            )
            .await;
        }
    }
    let delete = |path: &str| world.scim(Method::DELETE, path);
    seen.see(world.keyed(Method::DELETE, &format!("/scim/v2{bob}")), 400).await;
    seen.see(delete(&bob).header("if-match", "\"0\""), 412).await;
    seen.see(delete(&bob), 204).await;
    seen.see(delete(&bob), 404).await;
}
