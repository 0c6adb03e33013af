//! `POST /users/export/ids`: each way to name users, the records, and what is refused.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::api::{Api, ApiResponse};
use crate::support::fleet::{Backend, Fleet};
use crate::support::workspace::WorkspaceFile;
use crate::support::{eventually, stores, user_records};

const IDS: &str = "/users/export/ids";

const PERMISSIONS: [&str; 4] =
    ["users.export.ids", "users.export.global_control_group", "users.track", "users.merge"];

fn workspace() -> WorkspaceFile {
    let aliases = json!({ "service_id": "their_id" });
    WorkspaceFile::new("acme").permitted(&PERMISSIONS).with("aliases", aliases)
}

async fn start(backend: Backend, records: &[String]) -> (Fleet, Api) {
    let fleet = Fleet::start(backend, &[]).await;
    let api = fleet.apply(&[workspace()]).await.remove(0);
    fleet.import("acme", records).await;
    (fleet, api)
}

fn people() -> Vec<String> {
    let alias = |name: &str| json!([{ "alias_name": name, "alias_label": "crm" }]);
    [
        json!({ "external_id": "ann", "email": "Ann@acme.example", "phone": "+15550100" }),
        json!({ "external_id": "bob", "email": "shared@acme.example", "user_aliases": alias("2") }),
        json!({
            "external_id": "cat", "email": "shared@acme.example", "phone": "+15550100",
            "custom_attributes": { "phone": "+15550199" },
        }),
        json!({ "user_aliases": alias("4"), "phone": "+15550104" }),
    ]
    .map(|record| record.to_string())
    .into()
}

/// An accepted request: the values of a field of its users.
async fn names(api: &Api, body: Value, field: &str) -> (Vec<Value>, Value) {
    let response = api.post(IDS, &body).await;
    assert_eq!(response.status, 201, "{body}: {response:?}");
    assert_eq!(response.body["message"], "success");
    assert_eq!(response.body.get("errors"), None, "{response:?}");
    let users = response.body["users"].as_array().expect("an array").iter();
    (users.map(|user| user[field].clone()).collect(), response.body["invalid_user_ids"].clone())
}

async fn finds_users_by_each_identifier(backend: Backend) {
    let (fleet, api) = start(backend, &people()).await;
    let everybody = json!({
        "external_ids": ["ann", "bob", "cat"],
        "user_aliases": [{ "alias_name": "4", "alias_label": "crm" }],
    });
    let (ids, _) = names(&api, everybody, "service_id").await;
    let alias = |name: &str| json!({ "alias_name": name, "alias_label": "crm" });
    let mut shared = ids[1..3].to_vec();
    shared.sort_by_key(Value::to_string);
    let mut with_number = vec![ids[0].clone(), ids[2].clone()];
    with_number.sort_by_key(Value::to_string);
    let none = Vec::new();
    for (body, users, invalid) in [
        (
            json!({ "external_ids": ["cat", "ann", "cat"] }),
            [2, 0].map(|n| ids[n].clone()).to_vec(),
            json!([]),
        ),
        (json!({ "external_ids": ["Ann"] }), none.clone(), json!(["Ann"])),
        (
            json!({ "service_ids": [ids[3], ids[0]] }),
            [3, 0].map(|n| ids[n].clone()).to_vec(),
            json!([]),
        ),
        (json!({ "their_ids": [ids[1]] }), vec![ids[1].clone()], json!([])),
        (json!({ "their_id": ids[1] }), vec![ids[1].clone()], json!([])),
        (
            json!({ "service_ids": ["018bcfe5-6800-7000-8001-000000000001", "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"] }),
            none.clone(),
            json!(["018bcfe5-6800-7000-8001-000000000001", "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"]),
        ),
        (
            json!({ "user_aliases": [alias("2"), alias("9")] }),
            vec![ids[1].clone()],
            json!([alias("9")]),
        ),
        (
            json!({ "email_addresses": ["ANN@acme.example", "no@acme.example"] }),
            vec![ids[0].clone()],
            json!(["no@acme.example"]),
        ),
        (json!({ "email_addresses": ["shared@acme.example"] }), shared.clone(), json!([])),
        (json!({ "email_address": "shared@acme.example" }), shared.clone(), json!([])),
        (json!({ "phones": ["15550100", "+15550199"] }), with_number.clone(), json!(["+15550199"])),
        (json!({ "phone": "+15550104" }), vec![ids[3].clone()], json!([])),
        // One user by three identifiers, at its first place.
        (
            json!({ "phones": ["+15550100"], "email_addresses": ["ann@acme.example"], "external_ids": ["ann"] }),
            vec![ids[0].clone(), ids[2].clone()],
            json!([]),
        ),
    ] {
        assert_eq!(names(&api, body.clone(), "service_id").await, (users, invalid), "{body}");
    }
    // What is written later is found, and what was written before is not.
    let moved = json!({ "external_id": "ann", "email": "new@acme.example", "phone": "+15550111" });
    assert_eq!(api.post("/users/track", &json!({ "attributes": [moved] })).await.status, 201);
    let both = json!({ "email_addresses": ["new@acme.example"], "phones": ["+15550111"] });
    eventually("the new addresses are found", async || {
        names(&api, both.clone(), "external_id").await == (vec![json!("ann")], json!([]))
    })
    .await;
    let former = json!({ "email_addresses": ["ann@acme.example"], "phones": ["+15550100"] });
    let expected = (vec![json!("cat")], json!(["ann@acme.example"]));
    assert_eq!(names(&api, former, "external_id").await, expected);
    // The id of a merged user stands for the kept one.
    let merge = json!({ "merge_updates": [{
        "identifier_to_merge": { "external_id": "bob" }, "identifier_to_keep": { "external_id": "cat" },
    }] });
    assert_eq!(api.post("/users/merge", &merge).await.status, 202);
    eventually("the users are merged", async || {
        let body = json!({ "service_ids": [ids[1], ids[2]] });
        names(&api, body, "external_id").await == (vec![json!("cat")], json!([]))
    })
    .await;
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn finds_users_by_each_identifier_on_embedded() {
    finds_users_by_each_identifier(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn finds_users_by_each_identifier_on_a_fleet() {
    finds_users_by_each_identifier(Backend::Fleet(1)).await;
}

async fn records_are_those_of_the_files(backend: Backend) {
    let (fleet, api) = start(backend, &user_records::mixed(60).await).await;
    let by_id = |users: Vec<Value>| -> BTreeMap<String, Value> {
        users.into_iter().map(|user| (user["service_id"].to_string(), user)).collect()
    };
    let exported = by_id(api.exported().await);
    let ids: Vec<&Value> = exported.values().map(|user| &user["service_id"]).collect();
    let mut read = Vec::new();
    for ids in ids.chunks(50) {
        let response = api.post(IDS, &json!({ "service_ids": ids })).await;
        assert_eq!(response.status, 201, "{response:?}");
        let users = response.body["users"].as_array().expect("an array").clone();
        // In the order of the request.
        assert!(users.iter().map(|user| &user["service_id"]).eq(ids.iter().copied()));
        read.extend(users);
    }
    assert_eq!(by_id(read), exported);
    // Only the requested fields, with the workspace's name for the id.
    let body = json!({
        "service_ids": &ids[..1], "fields_to_export": ["their_id", "custom_attributes.nobody has this"],
    });
    let response = api.post(IDS, &body).await;
    assert_eq!(response.body["users"], json!([{ "their_id": ids[0] }]), "{response:?}");
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn records_are_those_of_the_files_on_embedded() {
    records_are_those_of_the_files(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn records_are_those_of_the_files_on_a_fleet() {
    records_are_those_of_the_files(Backend::Fleet(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_requests_are_refused() {
    let fleet = Fleet::start(Backend::Embedded, &[]).await;
    let other = WorkspaceFile::new("other").permitted(&["users.export.global_control_group"]);
    let mut apis = fleet.apply(&[workspace(), other]).await;
    let (other, api) = (apis.remove(1), apis.remove(0));
    for (body, field) in [
        (json!({}), "external_ids"),
        (json!({ "external_ids": [], "phones": null }), "external_ids"),
        (json!({ "external_ids": vec!["a"; 51] }), "external_ids"),
        (json!({ "external_ids": vec!["a"; 50], "phone": "+15550100" }), "50 users"),
        (json!({ "external_ids": "a" }), "external_ids"),
        (json!({ "external_ids": ["a"], "external_id": "b" }), "external_ids"),
        (json!({ "external_ids": ["a"], "emails": ["a@b.example"] }), "email_addresses"),
        (json!({ "external_ids": ["a"], "phone_numbers": ["+15550100"] }), "phones"),
        (json!({ "external_ids": ["a"], "device_id": "d" }), "device_id"),
        (json!({ "external_ids": ["a"], "segment_id": "s" }), "segment_id"),
        (json!({ "external_ids": ["a"], "since": "2026-01-01" }), "since"),
        (json!({ "service_ids": ["a"] }), "service_ids[0]"),
        (json!({ "email_addresses": ["a"] }), "email_addresses[0]"),
        (json!({ "phones": ["555"] }), "phones[0]"),
        (json!({ "user_aliases": [{ "alias_name": "a" }] }), "user_aliases[0].alias_label"),
        (json!({ "external_ids": ["a"], "fields_to_export": [] }), "fields_to_export"),
        (json!({ "external_ids": ["a"], "fields_to_export": ["e-mail"] }), "e-mail"),
    ] {
        api.post(IDS, &body).await.refuses(400, field);
    }
    let nobody = json!({ "external_ids": ["a"], "unknown": 1 });
    let response = api.post(IDS, &nobody).await;
    assert_eq!(response.body["invalid_user_ids"], json!(["a"]), "{response:?}");
    assert_eq!(response.headers["x-ratelimit-limit"], "2500");
    let response = other.post(IDS, &nobody).await;
    assert_eq!(
        (response.status.as_u16(), &response.body["permission"]),
        (403, &json!("users.export.ids"))
    );
    assert_eq!(api.get(IDS).await.status, 405);
    fleet.close().await;
}

/// A user is only found in the caller's workspace.
#[tokio::test(flavor = "multi_thread")]
async fn users_of_another_workspace_are_unknown() {
    let fleet = Fleet::start(Backend::Embedded, &[]).await;
    let other = WorkspaceFile::new("other").permitted(&PERMISSIONS);
    let apis = fleet.apply(&[workspace(), other]).await;
    fleet.import("other", &people()).await;
    let body = json!({
        "external_ids": ["ann"], "email_addresses": ["ann@acme.example"], "phones": ["+15550100"],
        "user_aliases": [{ "alias_name": "2", "alias_label": "crm" }],
    });
    let (users, _) = names(&apis[1], body.clone(), "external_id").await;
    let service_id = names(&apis[1], body.clone(), "service_id").await.0.remove(0);
    assert_eq!(users.len(), 3);
    let mut body = body;
    body["service_ids"] = json!([service_id]);
    let (users, invalid) = names(&apis[0], body, "external_id").await;
    assert_eq!((users.len(), invalid.as_array().map(Vec::len)), (0, Some(5)));
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_user_hides_no_other_one() {
    let (fleet, api) = start(Backend::Embedded, &people()).await;
    let broken = "UPDATE users SET doc = '{\"external_id\":' WHERE external_id = 'ann'";
    assert_eq!(stores::execute(&fleet.database_url(), broken).await, 1);
    let body =
        json!({ "external_ids": ["ann", "bob", "nobody"], "fields_to_export": ["external_id"] });
    let ApiResponse { status, body, .. } = api.post(IDS, &body).await;
    assert_eq!(status, 201);
    assert_eq!(body["users"], json!([{ "external_id": "bob" }]), "{body}");
    assert_eq!(body["invalid_user_ids"], json!(["nobody"]), "{body}");
    assert_eq!(body["errors"].as_array().map(Vec::len), Some(1), "{body}");
    assert!(body["errors"][0]["service_id"].is_string(), "{body}");
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_has_limits() {
    let shared = |n: usize| json!({ "external_id": format!("s{n}"), "phone": "+15550100" });
    let large = |n: usize| {
        let text = "x".repeat(900_000);
        json!({ "external_id": format!("l{n}"), "custom_attributes": { "text": text } })
    };
    let records = (0..101).map(shared).chain((0..20).map(large));
    let (fleet, api) =
        start(Backend::Embedded, &records.map(|r| r.to_string()).collect::<Vec<_>>()).await;
    api.post(IDS, &json!({ "phones": ["+15550100"] })).await.refuses(400, "100 users");
    let everybody: Vec<String> = (0..20).map(|n| format!("l{n}")).collect();
    api.post(IDS, &json!({ "external_ids": everybody })).await.refuses(400, "fields_to_export");
    let body = json!({ "external_ids": everybody, "fields_to_export": ["external_id"] });
    assert_eq!(names(&api, body, "external_id").await.0.len(), 20);
    let body = json!({ "external_ids": &everybody[..5] });
    let response = api.request(Method::POST, IDS).json(&body).send().await.expect("a response");
    assert_eq!(response.status(), 201);
    assert!(response.content_length().is_some_and(|bytes| bytes > 4_500_000));
    fleet.close().await;
}
