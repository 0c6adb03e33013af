//! The calls of exports, as a customer sees them: every rule with its message, status, list,
//! cancel, and the life of a download address.

mod destinations;
mod downloads;
mod fields;
mod ranges;
mod repeats;

use std::time::Duration;

use reqwest::{Method, header};
use serde_json::{Value, json};

use crate::support::api::{Api, EXPORT, answer};
use crate::support::checker;
use crate::support::fleet::{Backend, Fleet};
use crate::support::proxy::{Proxy, ProxyMode};
use crate::support::storage::TestStorage;
use crate::support::workspace::WorkspaceFile;
use crate::support::{eventually, process, servers, stores, user_records};

const PERMISSION: &str = "users.export.global_control_group";

/// What a person who asks for the erasure has to know.
#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_names_the_downloads_that_have_the_user() {
    let (fleet, api) = with_users(Backend::Embedded, WorkspaceFile::new("acme"), 3, &[]).await;
    let prefix = api.export_all().await.prefix;
    let status = api.done(&prefix).await;
    let expires_at = status["expires_at"].as_str().expect("a time");
    let until = &expires_at[..19];
    // Not those of an export that failed or was cancelled.
    let cancelled = api.export_all().await.prefix;
    api.delete(&format!("/users/export/{cancelled}")).await;
    let dry = fleet.run(&["users", "delete", "user-000001", "--dry-run"]).await;
    let line = format!("the download of {prefix} may still have the user, until {until}");
    assert!(dry.contains(&line), "{line} is missing in: {dry}");
    let erased = fleet.command(&["users", "delete", "user-000001"]).await;
    let said = String::from_utf8_lossy(&erased.stderr).into_owned();
    assert!(erased.status.success() && said.contains(&line), "{said}");
    let erased = fleet.run(&["users", "delete", "user-000002", "--json"]).await;
    let erased: Value = serde_json::from_str(&erased).expect("JSON");
    let [download] = &erased["downloads"].as_array().expect("a list")[..] else {
        panic!("{erased}")
    };
    assert_eq!(download["service_id"], erased["erased"][0]);
    assert_eq!(download["download"]["object_prefix"], prefix.as_str());
    assert!(download["download"]["expires_at"].as_str().expect("a time").starts_with(until));
    // The URL has expired.
    let expired = "UPDATE export_jobs SET expires_at = 1";
    stores::execute(&fleet.database_url(), expired).await;
    let erased = fleet.run(&["users", "delete", "user-000000", "--json"]).await;
    let erased: Value = serde_json::from_str(&erased).expect("JSON");
    assert_eq!(erased["downloads"], json!([]));
    fleet.close().await;
}

/// A fleet of one with a workspace of so many users.
async fn with_users(
    backend: Backend,
    workspace: WorkspaceFile,
    users: usize,
    settings: &[(&str, String)],
) -> (Fleet, Api) {
    let fleet = Fleet::start(backend, settings).await;
    let name = workspace.name.clone();
    let api = fleet.apply(&[workspace]).await.remove(0);
    let records: Vec<String> = (0..users).map(|number| user_records::simple(number, 1)).collect();
    if users > 0 {
        fleet.import(&name, &records).await;
    }
    (fleet, api)
}

/// A way to the S3 server.
async fn way_to_s3() -> Proxy {
    Proxy::to(&servers::variable("LONGSHORE_TEST_S3_ENDPOINT")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_members_of_a_request_are_checked() {
    let nobody = WorkspaceFile::new("nobody").with_percent(None);
    let (fleet, api) = with_users(Backend::Embedded, WorkspaceFile::new("acme"), 3, &[]).await;
    for (body, parts) in [
        (json!({}), &["fields_to_export"][..]),
        (json!({ "fields_to_export": null }), &["fields_to_export"]),
        (json!({ "fields_to_export": [] }), &["fields_to_export", "at least one"]),
        (json!({ "fields_to_export": "email" }), &["fields_to_export", "an array"]),
        (json!({ "fields_to_export": ["email", 5] }), &["fields_to_export[1]", "a string"]),
        (json!({ "fields_to_export": ["email", "shoe_size"] }), &["fields_to_export", "shoe_size"]),
        (json!({ "fields_to_export": ["Email"] }), &["fields_to_export", "Email"]),
        (json!({ "fields_to_export": vec!["email"; 1_001] }), &["fields_to_export", "1000"]),
        (json!({ "fields_to_export": ["custom_attributes."] }), &["fields_to_export"]),
        // Stored, and never exported.
        (json!({ "fields_to_export": ["push_tokens"] }), &["fields_to_export", "push_tokens"]),
    ] {
        let answer = api.post(EXPORT, &body).await;
        parts.iter().for_each(|part| answer.refuses(400, part));
    }
    for (member, value, part) in [
        ("output_format", json!("rar"), "zip or gzip"),
        ("output_format", json!("ZIP"), "zip or gzip"),
        ("output_format", json!(1), "a string"),
        ("callback_endpoint", json!(5), "string"),
        ("callback_endpoint", json!("garbage"), "http://"),
        ("callback_endpoint", json!("/only/a/path"), "http://"),
        ("callback_endpoint", json!("https://*.acme.example/"), "name"),
        ("callback_endpoint", json!("https://acme..example/"), "name"),
        ("callback_endpoint", json!("ftp://acme.example/"), "http"),
        ("callback_endpoint", json!("file:///etc/passwd"), "http"),
        ("callback_endpoint", json!("http://10.0.0.1/"), "private"),
        ("callback_endpoint", json!("http://172.16.9.9:8080/x"), "private"),
        ("callback_endpoint", json!("http://192.168.1.1/"), "private"),
        ("callback_endpoint", json!("http://0x0a000001/"), "private"),
        ("callback_endpoint", json!("http://[::ffff:10.0.0.1]/"), "private"),
        ("callback_endpoint", json!("http://[fd00::1]/"), "unique-local"),
        ("callback_endpoint", json!("http://[::1]/"), "loopback"),
        ("callback_endpoint", json!("http://169.254.169.254/latest/meta-data"), "link-local"),
        ("callback_endpoint", json!("http://224.0.0.1/"), "multicast"),
        // Other requests select users with these.
        ("segment_id", json!(7), "not supported"),
        ("audience", json!({}), "not supported"),
        ("since", json!("2026-11-01"), "not supported"),
    ] {
        let answer =
            api.post(EXPORT, &json!({ "fields_to_export": ["email"], member: value })).await;
        answer.refuses(400, member);
        answer.refuses(400, part);
    }
    // Unknown, it could be a misspelt limit.
    let unknown = json!({ "fields_to_export": ["email"], "unknown": { "a": [] } });
    let refused = api.post(EXPORT, &unknown).await;
    refused.refuses(400, "unknown: unknown field");
    // Null is absent, and an empty callback is none.
    for body in [
        json!({
            "fields_to_export": ["email"], "output_format": null, "callback_endpoint": null
        }),
        json!({ "fields_to_export": ["email"], "callback_endpoint": "", "output_format": "gzip" }),
        json!({ "fields_to_export": ["email", "email", "custom_attributes.number"] }),
        json!({ "fields_to_export": ["external_id", "custom_attributes.a\u{0}b"] }),
    ] {
        let accepted = api.export(&body).await;
        assert!(accepted.address().starts_with(fleet.base()), "{accepted:?}");
        api.done(&accepted.prefix).await;
        // Without own storage it is a ZIP, whatever was asked for.
        assert_eq!(checker::downloaded(&api.download(accepted.address()).await).len(), 1);
    }
    assert_eq!(fleet.run(&["deliveries", "list", "--json"]).await, "");

    // What has no effect is named, under a key in the first response and in each repeat.
    let warnings = async |body: Value| {
        let ask = || api.request(Method::POST, EXPORT).header("idempotency-key", body.to_string());
        let (first, again) = (answer(ask().json(&body)).await, answer(ask().json(&body)).await);
        assert_eq!((first.status.as_u16(), &first.body), (201, &again.body), "{first:?}");
        first.body["warnings"].clone()
    };
    let named = |warnings: &Value, names: &[&str]| {
        let warnings = warnings.as_array().unwrap_or_else(|| panic!("{warnings}"));
        assert_eq!(warnings.len(), names.len(), "{warnings:?}");
        for name in names {
            let is_named = |warning: &Value| warning.to_string().contains(name);
            assert!(warnings.iter().any(is_named), "{name}: {warnings:?}");
        }
    };
    let misspelt =
        json!({ "fields_to_export": ["email"], "calback_endpoint": "https://a.example/" });
    api.post(EXPORT, &misspelt).await.refuses(400, "did you mean callback_endpoint?");
    let gzip = json!({ "fields_to_export": ["email"], "output_format": "gzip" });
    named(&warnings(gzip).await, &["output_format"]);
    let zip = json!({ "fields_to_export": ["email"], "output_format": "zip" });
    assert_eq!(warnings(zip).await, Value::Null);
    let command = ["export", "run", "--fields", "email", "--format", "gzip"];
    let mut run = process::command(fleet.directory(), &Default::default());
    run.args(command).args(["--url", fleet.base(), "--key", api.key()]);
    let run = process::output(run).await;
    assert!(run.status.success(), "{run:?}");
    assert!(String::from_utf8_lossy(&run.stderr).contains("output_format"), "{run:?}");

    let api = fleet.apply(&[nobody]).await.remove(0);
    let answer = api.post(EXPORT, &json!({ "fields_to_export": ["email"] })).await;
    answer.refuses(400, "control group");
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_became_invalid_gets_its_stored_response() {
    let mut fleet = Fleet::start(Backend::Embedded, &[]).await;
    let file = WorkspaceFile::new("acme");
    let aliased = file.clone().with("aliases", json!({ "service_id": "their_id" }));
    let api = fleet.apply(&[aliased]).await.remove(0);
    let aliased = json!({ "fields_to_export": ["their_id"] });
    let local = json!({
        "fields_to_export": ["email"], "callback_endpoint": "http://127.0.0.1:9/exports",
    });
    let export = async |key: &str, body: &Value| {
        answer(api.request(Method::POST, EXPORT).header("idempotency-key", key).json(body)).await
    };
    let first = [export("aliased", &aliased).await, export("local", &local).await];
    assert!(first.iter().all(|first| first.status == 201), "{first:?}");

    // Neither the field nor the callback is allowed any more.
    fleet.apply(&[file]).await;
    fleet.terminate("standalone").await;
    fleet.launch_with("standalone", &[("LONGSHORE_ALLOW_PRIVATE", "10.0.0.0/8")]).await;
    fleet.ready("standalone").await;
    let again = [export("aliased", &aliased).await, export("local", &local).await];
    for (again, first) in again.iter().zip(&first) {
        assert_eq!((again.status, &again.body), (first.status, &first.body));
    }
    export("new", &aliased).await.refuses(400, "fields_to_export");
    export("new", &local).await.refuses(400, "callback_endpoint");
    // A dry run does not use its key.
    for (key, body) in [("aliased", aliased), ("local", local)] {
        let mut estimate = body;
        estimate["dry_run"] = true.into();
        assert_eq!(export(key, &estimate).await.status, 400, "{estimate}");
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn permissions_and_networks_limit_calls() {
    let workspace = WorkspaceFile::new("acme");
    let key = |name: &str, permission: &str, allow: &[&str]| {
        let secret = format!("{name}-{}", servers::new_name());
        json!({ "name": name, "secret": secret, "permissions": [permission], "allow": allow })
    };
    let keys = [
        json!({ "name": "integrator", "secret": workspace.key, "permissions": [PERMISSION] }),
        key("tracker", "users.track", &[]),
        key("elsewhere", PERMISSION, &["203.0.113.0/24"]),
        key("here", PERMISSION, &["127.0.0.0/8"]),
        key("both", "users.track", &["203.0.113.0/24"]),
    ];
    let fleet = Fleet::start(Backend::Embedded, &[]).await;
    let api = fleet.apply(&[workspace.with("keys", keys.to_vec().into())]).await.remove(0);
    let far = WorkspaceFile::new("far").with("ip_allowlist", json!(["198.51.100.0/24"]));
    let far = fleet.apply(&[far]).await.remove(0);
    let with_key = |key: &str| Api::new(fleet.base(), key);
    let with = |index: usize| with_key(keys[index]["secret"].as_str().expect("a secret"));
    let body = json!({ "fields_to_export": ["email"] });
    let (forbidden, address) =
        ("You do not have permission to access this resource", "Invalid whitelisted IPs");
    let unknown = "Error authenticating credentials";

    assert_eq!(with(3).post(EXPORT, &body).await.status, 201);
    with_key("nobody's key").post(EXPORT, &body).await.refuses(401, unknown);
    with(1).post(EXPORT, &body).await.refuses(403, forbidden);
    with(2).post(EXPORT, &body).await.refuses(403, address);
    far.post(EXPORT, &body).await.refuses(403, address);
    // The address is looked at before the permission, and both before the body.
    with(4).post(EXPORT, &body).await.refuses(403, address);
    with(1).post(EXPORT, &json!({})).await.refuses(403, forbidden);
    let bare = reqwest::Client::new().post(format!("{}{EXPORT}", fleet.base()));
    for request in [
        bare.try_clone().expect("a request"),
        bare.try_clone().expect("a request").header(header::AUTHORIZATION, "Basic abc"),
        bare.header(header::AUTHORIZATION, "Bearer "),
    ] {
        answer(request.json(&body)).await.refuses(401, unknown);
    }
    // A proxy that nobody named is not believed.
    let forwarded = with(2).request(Method::POST, EXPORT).header("x-forwarded-for", "203.0.113.9");
    answer(forwarded.json(&body)).await.refuses(403, address);
    for path in ["/users/export", "/users/export/unknown"] {
        with(1).get(path).await.refuses(403, forbidden);
    }
    assert_eq!(with(1).post(EXPORT, &body).await.body["permission"], PERMISSION);
    assert!(with(2).post(EXPORT, &body).await.body.get("permission").is_none());

    // Another workspace's exports are as unknown as none.
    let other = fleet.apply(&[WorkspaceFile::new("other")]).await.remove(0);
    let accepted = api.export(&body).await;
    let path = format!("/users/export/{}", accepted.prefix);
    other.get(&path).await.refuses(404, "object_prefix");
    other.delete(&path).await.refuses(404, "object_prefix");
    assert_eq!(other.get("/users/export").await.body["exports"], json!([]));

    // A revoked key stops within seconds.
    fleet.run(&["key", "revoke", "here", "--workspace", "acme"]).await;
    eventually("the key is revoked", || async { with(3).post(EXPORT, &body).await.status == 401 })
        .await;
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_are_not_understood() {
    let (fleet, api) = with_users(Backend::Embedded, WorkspaceFile::new("acme"), 0, &[]).await;
    for path in ["/users", "/users/export/global_control_group/x", "/nowhere"] {
        api.post(path, &json!({})).await.refuses(404, "");
    }
    // Even without a key: the path comes first, then the method.
    let client = reqwest::Client::new();
    answer(client.get(format!("{}/nowhere", fleet.base()))).await.refuses(404, "");
    for (method, path, allowed) in [
        (Method::PUT, EXPORT, "POST"),
        (Method::PATCH, EXPORT, "POST"),
        (Method::POST, "/", "GET"),
        (Method::POST, "/users/export", "GET"),
        (Method::PUT, "/users/export/unknown", "DELETE"),
    ] {
        let answer = answer(client.request(method, format!("{}{path}", fleet.base()))).await;
        answer.refuses(405, "");
        let allow = answer.headers["allow"].to_str().expect("text");
        assert!(allow.contains(allowed), "{path}: {allow}");
    }
    let post = || api.request(Method::POST, EXPORT);
    let typed =
        |body: &'static str| post().header(header::CONTENT_TYPE, "application/json").body(body);
    for body in ["{", "", "fields", "{\"fields_to_export\":[\"email\"]} x", "[1]", "\"text\""] {
        answer(typed(body)).await.refuses(400, "");
    }
    answer(typed("{\"fields_to_export\":\n}")).await.refuses(400, "line 2");
    answer(typed("[]")).await.refuses(400, "must be a JSON object");
    answer(post().header(header::CONTENT_TYPE, "application/json").body(vec![0xff, b'{']))
        .await
        .refuses(400, "");
    for content_type in ["text/plain", "application/x-www-form-urlencoded", "json"] {
        let request = post().header(header::CONTENT_TYPE, content_type);
        answer(request.body("{\"fields_to_export\":[\"email\"]}")).await.refuses(415, "");
    }
    answer(post().body("{\"fields_to_export\":[\"email\"]}")).await.refuses(415, "");
    let accepted = post().header(header::CONTENT_TYPE, "application/json; charset=utf-8");
    assert_eq!(answer(accepted.body("{\"fields_to_export\":[\"email\"]}")).await.status, 201);

    // Size comes before type and content.
    let large = format!("{{\"fields_to_export\":[\"{}\"]}}", "x".repeat(4 << 20));
    answer(post().header(header::CONTENT_TYPE, "text/plain").body(large)).await.refuses(413, "");

    // The request id is echoed, and created if there is none.
    let echoed = answer(api.request(Method::GET, "/users/export").header("x-request-id", "mine-7"));
    assert_eq!(echoed.await.headers["x-request-id"], "mine-7");
    assert!(!api.get("/users/export").await.headers["x-request-id"].is_empty());
    // The operations are not on the API's listener.
    for path in ["/healthz", "/readyz", "/metrics"] {
        api.get(path).await.refuses(404, "");
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn exports_are_watched_and_listed() {
    let (fleet, api) = with_users(Backend::Embedded, WorkspaceFile::new("acme"), 7, &[]).await;
    let mut prefixes = Vec::new();
    for _ in 0..5 {
        prefixes.push(api.export(&json!({ "fields_to_export": ["email"] })).await.prefix);
    }
    for prefix in &prefixes {
        let status = api.done(prefix).await;
        assert_eq!(status["object_prefix"], **prefix);
        assert_eq!(status["users"], json!({ "done": 7, "total": 7 }));
        assert_eq!(status["files"], json!({ "done": 1, "total": 1 }));
        assert!(status["bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{status}");
        let time = |name: &str| -> jiff::Timestamp {
            status[name]
                .as_str()
                .and_then(|text| text.parse().ok())
                .unwrap_or_else(|| panic!("{name}: {status}"))
        };
        assert_eq!(status["requested_at"].as_str().map(str::len), Some(24), "{status}");
        assert!(time("requested_at") <= time("started_at"));
        assert!(time("started_at") <= time("finished_at"));
        let valid = time("expires_at").duration_since(time("finished_at"));
        assert_eq!(valid.as_secs(), 4 * 3_600, "a download address is valid for 4 hours");
    }
    // Latest first, page by page.
    prefixes.reverse();
    let (mut listed, mut pages, mut path) = (Vec::new(), 0, "/users/export?limit=2".to_owned());
    loop {
        let answer = api.get(&path).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let exports = answer.body["exports"].as_array().expect("an array").clone();
        assert!(exports.len() <= 2);
        listed.extend(
            exports.iter().map(|export| export["object_prefix"].as_str().expect("text").to_owned()),
        );
        pages += 1;
        match answer.body["next_cursor"].as_str() {
            Some(cursor) => path = format!("/users/export?limit=2&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!((listed, pages), (prefixes.clone(), 3));
    for (query, part) in [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("limit=x", "limit"),
        ("cursor=x", "cursor"),
        ("cursor=%00", "cursor"),
    ] {
        api.get(&format!("/users/export?{query}")).await.refuses(400, part);
    }
    for prefix in ["unknown", "unknown-1", "%00", "%ff", "00000000-0000-4000-8000-000000000000-1"] {
        let path = format!("/users/export/{prefix}");
        api.get(&path).await.refuses(404, "object_prefix");
        api.delete(&path).await.refuses(404, "object_prefix");
    }
    // What is done stays done.
    let path = format!("/users/export/{}", prefixes[0]);
    api.delete(&path).await.refuses(409, "done");
    assert_eq!(api.status(&prefixes[0]).await["state"], "done");

    // The same with the command line.
    let (url, key) = (fleet.base(), api.key());
    let shown =
        fleet.run(&["export", "status", &prefixes[0], "--url", url, "--key", key, "--json"]).await;
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(shown["state"], "done");
    let output = fleet.directory().join("fetched");
    std::fs::create_dir_all(&output).expect("a directory");
    let output = output.to_str().expect("a path of ASCII");
    let fields = "email,external_id";
    fleet
        .run(&["export", "run", "--fields", fields, "--output", output, "--url", url, "--key", key])
        .await;
    let files = std::fs::read_dir(output).expect("a directory");
    let mut files = files.map(|file| file.expect("a file").path());
    let file = files.find(|file| file.extension().is_some_and(|end| end == "zip")).expect("a ZIP");
    let bytes = std::fs::read(file).expect("a file");
    assert_eq!(checker::downloaded(&bytes).len(), 1);
    fleet.close().await;
}

/// Cancelled while parts are in progress: what was uploaded is removed, and the callback is not
/// sent.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_export_leaves_nothing() {
    let (storage, proxy) = (TestStorage::s3().await, way_to_s3().await);
    let settings = [
        ("LONGSHORE_EXPORTS__USERS_PER_FILE", "10".to_owned()),
        ("LONGSHORE_EXPORTS__PARTS_IN_FLIGHT", "1".to_owned()),
    ];
    let workspace = WorkspaceFile::new("acme").with_storage(&storage.at(&proxy.endpoint()));
    let (fleet, api) = with_users(Backend::Embedded, workspace, 400, &settings).await;
    proxy.set(ProxyMode::Slow(Duration::from_millis(100)));
    let accepted = api.export_all().await;
    api.wait_for_files(&accepted.prefix, 3).await;
    assert!(!storage.list().await.is_empty());
    let answer = api.delete(&format!("/users/export/{}", accepted.prefix)).await;
    assert_eq!((answer.status.as_u16(), &answer.body["state"]), (200, &json!("cancelled")));
    proxy.set(ProxyMode::Open);
    eventually("nothing is left", || async { storage.list().await.is_empty() }).await;
    // Asking again changes nothing, and nobody continues with it.
    assert_eq!(api.delete(&format!("/users/export/{}", accepted.prefix)).await.status, 200);
    let status = api.status(&accepted.prefix).await;
    assert_eq!(status["state"], "cancelled");
    // The next one is whole.
    let accepted = api.export_all().await;
    assert_eq!(api.done(&accepted.prefix).await["files"]["done"], 40);
    eventually("nothing else is left", || async { storage.list_files().await.len() == 40 }).await;
    fleet.close().await;
}

/// The names of other requests are no `object_prefix`.
#[tokio::test(flavor = "multi_thread")]
async fn names_of_requests_are_not_exports() {
    let (fleet, api) = with_users(Backend::Embedded, WorkspaceFile::new("acme"), 0, &[]).await;
    for path in ["/users/export/segment", "/users/export/ids"] {
        for method in [Method::GET, Method::DELETE] {
            let answer = answer(api.request(method, path)).await;
            assert_eq!(
                (answer.status.as_u16(), &answer.headers["allow"]),
                (405, &"POST".parse().unwrap())
            );
        }
    }
    let answer = api.get(EXPORT).await;
    assert_eq!((answer.status.as_u16(), &answer.headers["allow"]), (405, &"POST".parse().unwrap()));
    fleet.close().await;
}
