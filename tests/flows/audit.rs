//! The audit log: who changed what, from where, without secrets, for a year.

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::routing::post;
use jiff::SignedDuration;
use kit::clock::Clock;
use longshore::gateway::{self, protected};
use reqwest::Method;
use runtime::audit::{self, Entry, Filter};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::support::api::answer;
use crate::support::fleet::{Backend, Fleet};
use crate::support::installation::Installation;
use crate::support::stores::{TestStore, on_both_stores};
use crate::support::{Api, WorkspaceFile, eventually};

/// The entries that a command lists, the oldest first.
async fn entries(fleet: &Fleet, more: &[&str]) -> Vec<Value> {
    let printed = fleet.run(&[&["audit", "list", "--json"], more].concat()).await;
    printed.lines().rev().map(|line| serde_json::from_str(line).expect(line)).collect()
}

fn actions(entries: &[Value]) -> Vec<&str> {
    entries.iter().map(|entry| entry["action"].as_str().expect("an action")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_recorded_once_with_its_key_and_address() {
    let mut fleet = Fleet::start(Backend::Fleet(1), &[]).await;
    let file = WorkspaceFile::new("acme").permitted(&[
        "users.export.global_control_group",
        "users.track",
        "users.delete",
        "catalogs.create",
    ]);
    let api = fleet.apply(&[file]).await.remove(0);
    // So that the export waits.
    fleet.stop("worker-1");
    let callback = "https://hooks.example.com:8443/secret-path";
    let body =
        json!({ "fields_to_export": ["external_id", "email"], "callback_endpoint": callback });
    let path = "/users/export/global_control_group";
    let mut prefix = Value::Null;
    for _ in 0..2 {
        let request = api.request(Method::POST, path).header("idempotency-key", "one");
        let accepted = answer(request.json(&body)).await;
        assert_eq!(accepted.status, 201, "{accepted:?}");
        prefix = accepted.body["object_prefix"].clone();
    }
    let export = format!("/users/export/{}", prefix.as_str().expect("an object_prefix"));
    for _ in 0..2 {
        let cancelled = api.delete(&export).await;
        assert_eq!(cancelled.status, 200, "{cancelled:?}");
    }
    for _ in 0..2 {
        let delete = json!({ "external_ids": ["ann-4711", "bob-4712"] });
        let request = api.request(Method::POST, "/users/delete").header("idempotency-key", "two");
        let deleted = answer(request.json(&delete)).await;
        assert!(deleted.status.is_success(), "{deleted:?}");
    }
    let catalog = json!({ "catalogs": [{
        "name": "cafes", "fields": [{ "name": "id", "type": "string" }],
    }] });
    let created = api.post("/catalogs", &catalog).await;
    assert_eq!(created.status, 201, "{created:?}");

    // What changes nothing, and what is bulk data.
    let dry_run = json!({ "fields_to_export": ["external_id"], "dry_run": true });
    assert_eq!(api.post(path, &dry_run).await.status, 200);
    assert_eq!(api.post(path, &json!({ "fields_to_export": ["nope"] })).await.status, 400);
    assert_eq!(api.get(&export).await.status, 200);
    let track = json!({ "attributes": [{ "external_id": "cid-4713", "first_name": "Cid" }] });
    assert_eq!(api.post("/users/track", &track).await.status, 201);

    let found = entries(&fleet, &["--actor", "key:integrator"]).await;
    let expected = ["export.request", "export.cancel", "users.delete", "catalog.create"];
    assert_eq!(actions(&found), expected, "{found:?}");
    for entry in &found {
        assert_eq!((&entry["workspace"], &entry["address"]), (&json!("acme"), &json!("127.0.0.1")));
        assert!(entry["details"]["request_id"].is_string(), "{entry}");
        assert_eq!(entry["details"]["key_id"], found[0]["details"]["key_id"], "{entry}");
        assert!(entry["details"]["key_id"].is_string(), "{entry}");
    }
    let [requested, cancelled, deleted, _] = &found[..] else { panic!("{found:?}") };
    assert_eq!((&requested["object"], &cancelled["object"]), (&prefix, &prefix));
    let details = &requested["details"];
    assert_eq!(details["audience"], "control_group");
    assert_eq!(details["fields"], json!(["external_id", "email"]));
    assert_eq!(details["destination"], "url");
    assert_eq!(details["callback"], "https://hooks.example.com:8443");
    assert_eq!(cancelled["details"]["before"], "queued");
    assert_eq!(cancelled["details"]["after"], "cancelled");
    assert_eq!(deleted["details"]["entries"], 2);
    let all = fleet.run(&["audit", "list", "--json"]).await;
    for hidden in ["ann-4711", "bob-4712", "cid-4713", "secret-path"] {
        assert!(!all.contains(hidden), "data of users or a secret is in the log: {all}");
    }
    fleet.assert_no_secret_in("the audit log", &all);
    fleet.resume("worker-1");
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_requests_of_a_key_are_recorded_once_an_hour() {
    let fleet = Fleet::start(Backend::Embedded, &[]).await;
    let api =
        fleet.apply(&[WorkspaceFile::new("acme").permitted(&["users.track"])]).await.remove(0);
    for _ in 0..3 {
        let path = "/users/delete";
        let refused = api.post(path, &json!({ "external_ids": ["ann-4711"] })).await;
        assert_eq!(refused.status, 403, "{refused:?}");
    }
    let create = ["key", "create", "--name", "office", "--permission", "users.track"];
    let create = [&create[..], &["--allow", "192.0.2.0/24"]].concat();
    let secret = fleet.run(&create).await;
    let elsewhere = Api::new(fleet.base(), secret.trim());
    eventually("the key is known", || async {
        elsewhere.post("/users/track", &json!({})).await.status == 403
    })
    .await;
    let refused = ["--action", "key.refused"];
    eventually("both are recorded", || async { entries(&fleet, &refused).await.len() >= 2 }).await;
    let found = entries(&fleet, &refused).await;
    assert_eq!(found.len(), 2, "{found:?}");
    for (entry, actor, permission, code) in [
        (&found[0], "key:integrator", "users.delete", "permission-denied"),
        (&found[1], "key:office", "users.track", "address-not-allowed"),
    ] {
        assert_eq!((&entry["actor"], &entry["object"]), (&json!(actor), &json!(permission)));
        assert_eq!(
            (&entry["details"]["code"], &entry["workspace"]),
            (&json!(code), &json!("acme"))
        );
        assert_eq!(entry["address"], "127.0.0.1");
        assert!(entry["details"]["key_id"].is_string(), "{entry}");
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_applied_file_is_recorded_with_what_it_allows() {
    let fleet = Fleet::start(Backend::Embedded, &[]).await;
    let file = |permissions: &[&str], allowed: Value| {
        WorkspaceFile::new("acme").permitted(permissions).with("ip_allowlist", allowed)
    };
    for (permissions, allowed, expected) in [
        (
            &["users.track"][..],
            json!(["127.0.0.0/8"]),
            json!({ "key integrator": ["users.track", "from everywhere"] }),
        ),
        (
            &["users.track", "users.delete"],
            json!(["127.0.0.1"]),
            json!({ "key integrator": ["users.delete"] }),
        ),
        (
            &["users.track"],
            json!(["127.0.0.1", "::1"]),
            json!({ "ip_allowlist": ["from ::1/128"] }),
        ),
        (&["users.track"], json!([]), json!({ "ip_allowlist": ["from everywhere"] })),
    ] {
        fleet.apply(&[file(permissions, allowed)]).await;
        let found = entries(&fleet, &["--action", "workspace.apply"]).await;
        let last = found.last().expect("an entry");
        assert_eq!(last["details"]["widened"], expected, "{last}");
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_are_recorded_without_secrets() {
    let fleet = Fleet::start(Backend::Embedded, &[]).await;
    let segment = |name: &str| {
        json!([{
            "id": "bbbb0000-0000-4000-8000-000000000003", "name": name,
            "audience": { "email_subscription_status": {
                "comparison": "is", "value": "opted_in",
            } },
        }])
    };
    let file = WorkspaceFile::new("acme");
    fleet.apply(&[file.clone().with("segments", segment("Fans"))]).await;
    let changed = file.with("segments", segment("Friends"));
    fleet.apply(std::slice::from_ref(&changed)).await;
    // Nothing changes.
    fleet.apply(&[changed]).await;
    let create = ["key", "create", "--name", "reader", "--permission", "segments.list"];
    let secret = fleet.run(&create).await;
    fleet.run(&["key", "revoke", "reader"]).await;
    let token = fleet.run(&["scim-token", "create", "--name", "idp"]).await;
    fleet.run(&["control-group", "renew", "--percent", "5"]).await;
    fleet.run(&["signing-key", "rotate"]).await;
    fleet.import("acme", &[json!({ "external_id": "ann-4711" }).to_string()]).await;
    fleet.run(&["users", "delete", "ann-4711"]).await;
    // What changes nothing.
    fleet.run(&["control-group", "renew", "--percent", "7", "--dry-run"]).await;

    let found = entries(&fleet, &[]).await;
    let expected = [
        "workspace.apply",
        "workspace.apply",
        "key.create",
        "key.revoke",
        "scim_token.create",
        "control_group.renew",
        "signing_key.rotate",
        "users.import.start",
        "users.import.end",
        "user.delete",
    ];
    assert_eq!(actions(&found), expected, "{found:?}");
    for entry in &found {
        let actor = entry["actor"].as_str().expect("an actor");
        assert!(actor.len() > "command:".len() && actor.starts_with("command:"), "{entry}");
        assert!(entry["address"].as_str().is_some_and(|host| !host.is_empty()), "{entry}");
    }
    let changes = found[1]["details"]["changes"].as_array().expect("an array");
    assert_eq!(changes.len(), 1, "{changes:?}");
    let change = changes[0].as_str().expect("text");
    assert!(change.starts_with("~ ") && change.contains("segment"), "{change}");
    assert_eq!(found[2]["details"]["after"]["permissions"], json!(["segments.list"]));
    assert_eq!((&found[2]["object"], &found[3]["object"]), (&json!("reader"), &json!("reader")));
    assert_eq!(found[4]["workspace"], Value::Null, "a SCIM token is the installation's");
    assert_eq!(found[5]["details"]["before"]["percent"], 100);
    assert_eq!(found[5]["details"]["after"]["percent"], 5);
    assert_eq!(found[8]["details"]["created"], 1);

    let all = fleet.run(&["audit", "list", "--json"]).await;
    for hidden in [secret.trim(), token.trim(), "ann-4711"] {
        assert!(!all.contains(hidden), "{all}");
    }
    fleet.assert_no_secret_in("the audit log", &all);

    // In pages, and selected.
    let first = fleet.command(&["audit", "list", "--limit", "4", "--json"]).await;
    let hint = String::from_utf8(first.stderr).expect("UTF-8");
    let (_, after) = hint.split_once("--after ").expect("there are more");
    let rest = entries(&fleet, &["--after", after.trim()]).await;
    assert_eq!(actions(&rest), expected[..6]);
    let keys = entries(&fleet, &["--action", "key.", "--workspace", "acme", "--since", "1h"]).await;
    assert_eq!(actions(&keys), ["key.create", "key.revoke"]);
    let table = fleet.run(&["audit", "list", "--action", "key.revoke"]).await;
    assert!(table.starts_with("ID") && table.lines().count() == 2, "{table}");
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_over_scim_has_the_names_of_attributes() {
    let fleet = Fleet::start(Backend::Embedded, &[]).await;
    fleet.apply(&[WorkspaceFile::new("acme")]).await;
    let create = ["scim-token", "create", "--name", "idp", "--without-origin"];
    let token = fleet.run(&create).await;
    let scim = Api::new(fleet.base(), token.trim());
    let user = json!({
        "schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"],
        "userName": "ann-4711@acme.example",
        "name": { "givenName": "Ann-4711", "familyName": "Lee" },
    });
    let created = scim.post("/scim/v2/Users", &user).await;
    assert_eq!(created.status, 201, "{created:?}");
    let id = created.body["id"].as_str().expect("an id");
    let deleted = scim.delete(&format!("/scim/v2/Users/{id}")).await;
    assert_eq!(deleted.status, 204, "{deleted:?}");
    let found = entries(&fleet, &["--actor", "scim:idp"]).await;
    assert_eq!(actions(&found), ["scim.create", "scim.delete"]);
    for entry in &found {
        assert_eq!(entry["object"], format!("User/{id}"));
        assert_eq!(entry["address"], "127.0.0.1");
    }
    let attributes = found[0]["details"]["attributes"].as_array().expect("an array");
    assert!(attributes.contains(&json!("userName")), "{attributes:?}");
    let all = json!(found).to_string().to_lowercase();
    assert!(!all.contains("ann-4711"), "{found:?}");
    fleet.close().await;
}

on_both_stores!(
    an_endpoint_that_records_nothing_is_recorded_with_its_permission,
    entries_are_deleted_after_a_year,
    a_page_continues_within_one_moment,
);

const KEY: &str = "key-that-may-list-campaigns";

async fn an_endpoint_that_records_nothing_is_recorded_with_its_permission(test: TestStore) {
    let yaml = format!(
        "workspace: acme\ncurrency: USD\nkeys:\n  - {{name: opener, secret: {KEY}, \
         permissions: [campaigns.list, users.track]}}\n"
    );
    let installation = Installation::open(test, &yaml, |_| {}).await;
    let app = installation.app.gateway.clone();
    let created = async || StatusCode::CREATED;
    let routes = Router::new()
        .route("/cafes/{id}", protected("campaigns.list", post(created).get(created)))
        .route("/refused", protected("campaigns.list", post(async || StatusCode::CONFLICT)))
        .route("/bulk", protected("users.track", post(created)));
    let router = gateway::router(app.clone(), routes.with_state(app));
    for (method, path) in [
        (Method::POST, "/cafes/ann-4711"),
        (Method::GET, "/cafes/ann-4711"),
        (Method::POST, "/refused"),
        (Method::POST, "/bulk"),
    ] {
        let request = Request::builder().method(method).uri(path);
        let request = request.header("authorization", format!("Bearer {KEY}"));
        let request = request.body(Body::empty()).expect("a request");
        router.clone().oneshot(request).await.expect("a response");
    }
    let filter = Filter { actor: Some("key:opener".into()), limit: 10, ..Filter::default() };
    let mut tx = installation.app.store.snapshot().await.unwrap();
    let found = audit::list(&mut tx, &filter).await.unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    let record = &found[0];
    assert_eq!((&*record.action, &*record.object), ("campaigns.list", "/cafes/{id}"));
    assert_eq!(record.workspace.as_deref(), Some("acme"));
}

fn entry(workspace_id: Option<i32>, object: &str) -> Entry {
    Entry {
        workspace_id,
        actor: "key:a".into(),
        action: "export.cancel",
        object: object.into(),
        address: None,
        details: json!({}),
    }
}

async fn objects(installation: &Installation, filter: &Filter) -> Vec<String> {
    let mut tx = installation.app.store.snapshot().await.unwrap();
    let found = audit::list(&mut tx, filter).await.unwrap();
    found.into_iter().map(|record| record.object).collect()
}

async fn open(test: TestStore) -> Installation {
    let installation = Installation::open(test, "workspace: acme\n", |_| {}).await;
    let mut tx = installation.app.store.write().await.unwrap();
    let now = installation.app.clock.now_ms();
    for (workspace, object) in [(None, "all"), (Some(installation.workspace), "own")] {
        audit::record(&mut tx, now, &entry(workspace, object)).await.unwrap();
    }
    audit::record(&mut tx, now, &entry(Some(i32::MAX), "of a deleted workspace")).await.unwrap();
    tx.commit().await.unwrap();
    installation
}

async fn entries_are_deleted_after_a_year(test: TestStore) {
    let installation = open(test).await;
    let (app, stop) = (&installation.app, CancellationToken::new());
    let filter = Filter { actor: Some("key:a".into()), limit: 10, ..Filter::default() };
    let later = |days: i64| {
        let clock = Clock::system();
        clock.set(clock.now() + SignedDuration::from_hours(24 * days));
        app.with_clock(clock)
    };
    audit::sweep(&later(audit::KEEP_DAYS - 1), &stop).await.unwrap();
    assert_eq!(objects(&installation, &filter).await.len(), 3);
    audit::sweep(&later(audit::KEEP_DAYS + 1), &stop).await.unwrap();
    assert_eq!(objects(&installation, &filter).await, Vec::<String>::new());
}

async fn a_page_continues_within_one_moment(test: TestStore) {
    let installation = open(test).await;
    let mut filter = Filter { action: Some("export.".into()), limit: 1, ..Filter::default() };
    let mut found = Vec::new();
    loop {
        let mut tx = installation.app.store.snapshot().await.unwrap();
        let page = audit::list(&mut tx, &filter).await.unwrap();
        let Some(last) = page.into_iter().next() else { break };
        filter.before = audit::position(&mut tx, last.id).await.unwrap();
        assert_eq!(filter.before, Some((last.at, last.id)));
        found.push(last.object);
    }
    assert_eq!(found, ["of a deleted workspace", "own", "all"]);
    let own = Filter {
        workspace_id: Some(installation.workspace),
        action: Some("export.c".into()),
        limit: 10,
        ..Filter::default()
    };
    assert_eq!(objects(&installation, &own).await, ["own"]);
    let other = Filter { action: Some("xport".into()), limit: 10, ..Filter::default() };
    assert_eq!(objects(&installation, &other).await, Vec::<String>::new());
    let none = Filter { since: Some(i64::MAX), limit: 10, ..Filter::default() };
    assert_eq!(objects(&installation, &none).await, Vec::<String>::new());
}
