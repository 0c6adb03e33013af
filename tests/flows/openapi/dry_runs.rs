//! `dry_run` of every request that changes something: a request that does not have it must not take
//! effect.

use reqwest::Method;
use serde_json::json;

use super::filled;
use super::world::{CATALOG, World};
use crate::support::api::answer;
use crate::support::contract::CONTRACT;
use crate::support::fleet::Backend;

/// The operations that have dry runs.
const DRY_RUNS: [&str; 2] = ["requestExport", "requestSegmentExport"];

#[tokio::test(flavor = "multi_thread")]
async fn requests_without_a_dry_run_reject_it() {
    let world = World::start(Backend::Embedded).await;
    let mut rejected = 0;
    for (path, method, operation) in CONTRACT.operations() {
        let method = Method::from_bytes(method.to_uppercase().as_bytes()).expect("a method");
        let has_key = operation["security"] == json!([{ "ApiKey": [] }]);
        let id = operation["operationId"].as_str().expect("an id");
        if method == Method::GET || !has_key || DRY_RUNS.contains(&id) {
            continue;
        }
        let path = filled(path).replace("/none", &format!("/{CATALOG}"));
        let send = |body: &str| {
            let request = world.keyed(method.clone(), &path).body(body.to_owned());
            answer(request.header("content-type", "application/json"))
        };
        for body in [r#"{"dry_run":true}"#, r#"{ "dry_run" : "false" }"#] {
            let refused = send(body).await;
            let text = refused.body.to_string();
            assert_eq!(refused.status, 400, "{id} {body}: {text}");
            assert!(text.contains("dry_run is not supported"), "{id} {body}: {text}");
        }
        rejected += 1;
        // A request to many users rejects empty selections, too.
        if !["deleteCatalog", "sendToRecipients"].contains(&id) {
            let sent = send(r#"{"dry_run":false,"recipients":[],"since":null}"#).await;
            let text = sent.body.to_string();
            assert!(!text.contains("is not supported"), "{id}: {text}");
        }
    }
    assert!(rejected > 30, "{rejected}");
    let catalogs = world.keyed(Method::GET, "/catalogs");
    assert!(answer(catalogs).await.body.to_string().contains(CATALOG), "it is still there");
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_body_of_a_request_without_fields_is_optional() {
    let world = World::start(Backend::Embedded).await;
    let json = "application/json";
    for (method, path) in [
        (Method::POST, "/users/export/{object_prefix}/repeat"),
        (Method::DELETE, "/users/export/{object_prefix}"),
        (Method::POST, "/deliveries/{id}/resend"),
        (Method::POST, "/dead_letters/{id}/retry"),
        (Method::DELETE, "/dead_letters/{id}"),
        (Method::DELETE, "/messages/dispatches/{dispatch_id}"),
        (Method::DELETE, "/catalogs/{catalog_name}"),
    ] {
        let path = filled(path);
        for (body, content_type, status) in [
            ("", None, 404),
            ("", Some("application/x-www-form-urlencoded"), 404),
            (" ", Some(json), 404),
            ("{}", Some(json), 404),
            (r#"{"other":1}"#, Some(json), 404),
            ("[]", Some(json), 400),
            (r#"{"other":1,"other":1}"#, Some(json), 400),
            ("dry_run=true", Some("application/x-www-form-urlencoded"), 415),
        ] {
            let mut request = world.keyed(method.clone(), &path).body(body);
            if let Some(content_type) = content_type {
                request = request.header("content-type", content_type);
            }
            let response = answer(request).await;
            assert_eq!(response.status, status, "{method} {path} {body:?}: {response:?}");
        }
    }
    world.fleet.close().await;
}
