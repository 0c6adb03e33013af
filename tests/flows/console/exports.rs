//! Exports on the pages of the console: requested, watched, cancelled, repeated, downloaded.

mod list;
mod streams;

use std::time::Duration;

use regex::Regex;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::Api;
use crate::support::api::EXPORT;
use crate::support::checker;
use crate::support::console::{self, Browser, PageResponse};
use crate::support::eventually;
use crate::support::fleet::{Backend, Fleet};
use crate::support::proxy::{Proxy, ProxyMode};
use crate::support::user_records;
use crate::support::workspace::WorkspaceFile;

/// Users in the workspace, and in a file.
const USERS: usize = 40;
const PER_FILE: usize = 10;

const NEW: &str = "/w/acme/exports/new";

const GOLD: Uuid = Uuid::from_u128(0x3c9f_0a52_8f1e_4c57_9a3e_0d5b_1c2e_7f60);

/// The segment of everybody with an address.
fn segments(name: &str) -> Value {
    let subscribed = |comparison: &str| json!({ "email_subscription_status": { "comparison": comparison, "value": "subscribed" } });
    json!([{
        "id": GOLD, "name": name,
        "audience": { "OR": [subscribed("is"), subscribed("is_not")] },
    }])
}

fn workspace(name: &str) -> WorkspaceFile {
    let permissions = ["users.export.global_control_group", "users.export.segment", "users.track"];
    WorkspaceFile::new(name).permitted(&permissions).with("segments", segments("Gold"))
}

fn settings() -> Vec<(&'static str, String)> {
    let per_file = ("LONGSHORE_EXPORTS__USERS_PER_FILE", PER_FILE.to_string());
    console::settings().into_iter().chain([per_file]).collect()
}

/// A fleet with the workspace and its users, and a client of its API.
async fn fleet(backend: Backend, workspace: WorkspaceFile) -> (Fleet, Api) {
    let fleet = Fleet::start(backend, &settings()).await;
    let name = workspace.name.clone();
    let api = fleet.apply(&[workspace]).await.remove(0);
    let records: Vec<String> = (0..USERS).map(|number| user_records::simple(number, 1)).collect();
    fleet.import(&name, &records).await;
    (fleet, api)
}

/// The value of a hidden field.
fn hidden(page: &PageResponse, name: &str) -> String {
    let input = Regex::new(&format!(r#"name="{name}" value="([^"]+)""#)).expect("an expression");
    input.captures(&page.text).unwrap_or_else(|| panic!("no {name}: {page:?}"))[1].to_owned()
}

/// The key of a new form.
async fn request_key(browser: &Browser) -> String {
    hidden(&browser.get(NEW).await, "request_key")
}

/// The export to which a redirect leads.
fn created(response: &PageResponse) -> String {
    assert_eq!(response.status, 303, "{response:?}");
    let prefix = response.location().strip_prefix("/w/acme/exports/");
    prefix.unwrap_or_else(|| panic!("{response:?}")).to_owned()
}

fn address(prefix: &str) -> String {
    format!("/w/acme/exports/{prefix}")
}

/// The exports of all workspaces.
async fn exports(fleet: &Fleet) -> Vec<Value> {
    let printed = fleet.run(&["export", "list", "--limit", "500", "--json", "--key", ""]).await;
    printed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The actions of the console in the audit log that begin like this, the latest first.
async fn audited(fleet: &Fleet, action: &str) -> Vec<(String, String, String)> {
    let printed = fleet.run(&["audit", "list", "--action", action, "--json"]).await;
    let entries = printed.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let text = |entry: &Value, name: &str| entry[name].as_str().expect("a text").to_owned();
    entries
        .map(|entry| (text(&entry, "action"), text(&entry, "object"), text(&entry, "actor")))
        .filter(|(.., actor)| actor.starts_with("console:"))
        .collect()
}

async fn an_export_is_requested_by_form_downloaded_and_verified(backend: Backend) {
    let (fleet, api) = fleet(backend, workspace("acme")).await;
    let browser = Browser::signed_in(&fleet, "ana", "admin").await;
    let key = request_key(&browser).await;
    let form = [
        ("request_key", key.as_str()),
        ("audience", "segment"),
        ("segment_id", &GOLD.to_string()),
        ("field", "external_id"),
        ("group", "identifiers"),
        ("more_fields", "custom_attributes.number\r\n"),
        ("output_format", "zip"),
        ("destination", "url"),
        ("users_per_file", "20"),
        ("callback_endpoint", ""),
        ("do", "request"),
    ];
    let prefix = created(&browser.post(NEW, &form).await);
    let status = api.done(&prefix).await;
    assert_eq!((&status["users"]["done"], &status["files"]["done"]), (&json!(USERS), &json!(2)));

    let page = browser.get(&address(&prefix)).await;
    assert_eq!(page.status, 200);
    for part in ["Segment Gold", "Done", "custom_attributes.number", "ssh-keygen -Y verify"] {
        assert!(page.text.contains(part), "{part}: {}", page.text);
    }
    let sha256 = status["manifest"]["sha256"].as_str().expect("a hash");
    assert!(page.text.contains(sha256), "{}", page.text);
    let secret = status["url"].as_str().expect("a URL").rsplit('=').next().expect("a signature");
    assert!(!page.text.contains(secret), "the page has the signed address");

    let download = browser.get(&format!("{}/download", address(&prefix))).await;
    assert_eq!(
        (download.status.as_u16(), download.location()),
        (303, status["url"].as_str().unwrap())
    );
    let files = checker::downloaded(&api.download(download.location()).await);
    assert_eq!(files.len(), 2);
    fleet.run(&["export", "verify", download.location(), "--records"]).await;
    let expected = ["export.download", "export.request"]
        .map(|action| (action.to_owned(), prefix.clone(), "console:ana".to_owned()));
    assert_eq!(audited(&fleet, "export.").await, expected);
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_is_requested_by_form_downloaded_and_verified_embedded() {
    an_export_is_requested_by_form_downloaded_and_verified(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_is_requested_by_form_downloaded_and_verified_in_a_fleet() {
    an_export_is_requested_by_form_downloaded_and_verified(Backend::Fleet(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_estimate_creates_nothing_and_keeps_the_values() {
    let (fleet, _) = fleet(Backend::Embedded, workspace("acme")).await;
    let browser = Browser::signed_in(&fleet, "ana", "operator").await;
    let form = [
        ("audience", "control_group"),
        ("group", "every"),
        ("users_per_file", "15"),
        ("callback_endpoint", "https://hooks.acme.example/x"),
        ("do", "estimate"),
    ];
    let page = browser.post(NEW, &form).await;
    assert_eq!(page.status, 200, "{page:?}");
    for part in ["<b>40</b>", "A test file was written", "https://hooks.acme.example/x", "15"] {
        assert!(page.text.contains(part), "{part}: {}", page.text);
    }
    assert_eq!(exports(&fleet).await, Vec::<Value>::new());
    assert!(audited(&fleet, "export.").await.is_empty());
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_are_next_to_the_fields_that_they_are_about() {
    let (fleet, _) = fleet(Backend::Embedded, workspace("acme").with_percent(None)).await;
    let browser = Browser::signed_in(&fleet, "ana", "operator").await;
    let gold = GOLD.to_string();
    let valid = [("audience", "segment"), ("segment_id", gold.as_str()), ("field", "email")];
    let hostile = "\"><script>alert(1)</script>";
    for (name, value) in [
        ("users_per_file", "0"),
        ("users_per_file", hostile),
        ("callback_endpoint", "http://10.0.0.1/"),
        ("callback_endpoint", hostile),
        ("destination", "nowhere"),
        ("output_format", "rar"),
    ] {
        for button in ["request", "estimate"] {
            let form = [&valid[..], &[(name, value), ("do", button)]].concat();
            let page = browser.post(NEW, &form).await;
            assert_eq!(page.status, 422, "{name}={value}: {page:?}");
            assert!(page.text.contains(&format!("id=\"{name}-error\"")), "{name}: {}", page.text);
            assert!(!page.text.contains("<script>alert"), "{}", page.text);
        }
    }
    for (form, part) in [
        (vec![("audience", "segment"), ("segment_id", gold.as_str())], "fields_to_export-error"),
        (vec![valid[0], valid[1], ("field", "shoe_size")], "fields_to_export-error"),
        (vec![valid[0], ("segment_id", "gold"), valid[2]], "segment_id-error"),
        (vec![valid[0], ("segment_id", &Uuid::nil().to_string()), valid[2]], "segment_id-error"),
        (vec![("audience", "control_group"), valid[2]], "control group"),
    ] {
        let page = browser.post(NEW, &form).await;
        assert_eq!(page.status, 422, "{form:?}: {page:?}");
        assert!(page.text.contains(part), "{part}: {}", page.text);
    }
    // All at once, with their labels.
    let form = [
        ("audience", "segment"),
        ("segment_id", "gold"),
        ("field", "email"),
        ("more_fields", "shoe_size"),
        ("destination", "nowhere"),
        ("output_format", "rar"),
        ("users_per_file", "0"),
        ("callback_endpoint", "http://10.0.0.1/"),
    ];
    let page = browser.post(NEW, &form).await;
    assert_eq!(page.status, 422, "{page:?}");
    let named = form.iter().filter(|(name, _)| !["audience", "field"].contains(name));
    for (name, _) in named {
        for part in [format!("id=\"{name}-error\""), format!("href=\"#{name}\"")] {
            assert!(page.text.contains(&part), "{part}: {}", page.text);
        }
    }
    for label in ["Segment: ", "Users in a file must", "Callback address", "Destination: "] {
        assert!(page.text.contains(label), "{label}: {}", page.text);
    }
    assert_eq!(exports(&fleet).await, Vec::<Value>::new());
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_that_is_sent_twice_creates_one_export() {
    let (fleet, api) = fleet(Backend::Embedded, workspace("acme")).await;
    let browser = Browser::signed_in(&fleet, "ana", "operator").await;
    let (key, token) = (request_key(&browser).await, browser.form_token().await);
    let form = |field: &'static str| {
        [
            ("form_token", token.as_str()),
            ("request_key", key.as_str()),
            ("audience", "control_group"),
            ("field", field),
        ]
    };
    let (email, phone) = (form("email"), form("phone"));
    let (first, second) = tokio::join!(browser.submit(NEW, &email), browser.submit(NEW, &email));
    let prefix = created(&first);
    assert_eq!(created(&second), prefix);
    // Later, and after the person changed it.
    assert_eq!(created(&browser.submit(NEW, &email).await), prefix);
    assert_ne!(created(&browser.submit(NEW, &phone).await), prefix);
    assert_eq!(exports(&fleet).await.len(), 2);
    assert_eq!(audited(&fleet, "export.request").await.len(), 2);

    // So is a repeat.
    api.done(&prefix).await;
    let page = browser.get(&address(&prefix)).await;
    let key = hidden(&page, "request_key");
    let repeat = [("form_token", token.as_str()), ("request_key", key.as_str())];
    let path = format!("{}/repeat", address(&prefix));
    let (first, second) =
        tokio::join!(browser.submit(&path, &repeat), browser.submit(&path, &repeat));
    assert_eq!(created(&first), created(&second));
    assert_eq!(exports(&fleet).await.len(), 3);
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_is_cancelled_before_its_end_and_not_after() {
    let (mut fleet, api) = fleet(Backend::Fleet(1), workspace("acme")).await;
    let browser = Browser::signed_in(&fleet, "ana", "operator").await;
    fleet.stop("worker-1");
    let prefix = api.export_all().await.prefix;
    let cancel = format!("{}/cancel", address(&prefix));
    let page = browser.get(&address(&prefix)).await;
    assert!(page.text.contains(&cancel) && page.text.contains("Waits for a worker"), "{page:?}");
    for _ in 0..2 {
        assert_eq!(created(&browser.post(&cancel, &[]).await), prefix);
    }
    assert_eq!(api.status(&prefix).await["state"], "cancelled");
    let page = browser.get(&address(&prefix)).await;
    assert!(page.text.contains("Cancelled") && !page.text.contains(&cancel), "{page:?}");
    assert_eq!(audited(&fleet, "export.cancel").await.len(), 1);

    fleet.resume("worker-1");
    let done = api.export_all().await.prefix;
    api.done(&done).await;
    let refused = browser.post(&format!("{}/cancel", address(&done)), &[]).await;
    assert_eq!(refused.status, 409, "{refused:?}");
    assert!(refused.text.contains("can no longer be cancelled"), "{refused:?}");
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_export_shows_why_and_is_repeated() {
    let file = workspace("acme");
    let (mut fleet, api) = fleet(Backend::Fleet(1), file.clone()).await;
    let browser = Browser::signed_in(&fleet, "ana", "operator").await;
    fleet.stop("worker-1");
    let body = json!({ "segment_id": GOLD, "fields_to_export": ["email"] });
    let accepted = api.post("/users/export/segment", &body).await;
    let prefix = accepted.body["object_prefix"].as_str().expect("an export").to_owned();
    let before =
        browser.post(&format!("{}/repeat", address(&prefix)), &[("request_key", "k")]).await;
    assert_eq!(before.status, 409, "{before:?}");
    fleet.prune(&[file.clone().with("segments", json!([]))]).await;
    fleet.resume("worker-1");
    let error = api.failed(&prefix).await;

    let page = browser.get(&address(&prefix)).await;
    assert!(page.text.contains(&error), "{error}: {}", page.text);
    assert!(page.text.contains("docs/runbooks/export-failed.md"), "{}", page.text);
    let repeat = format!("{}/repeat", address(&prefix));
    let refused = browser.post(&repeat, &[("request_key", "a")]).await;
    assert_eq!(refused.status, 400, "the segment does not exist: {refused:?}");
    fleet.apply(&[file]).await;
    let new = created(&browser.post(&repeat, &[("request_key", "a")]).await);
    assert_ne!(new, prefix);
    api.done(&new).await;
    let entry = ("export.repeat".to_owned(), new, "console:ana".to_owned());
    assert_eq!(audited(&fleet, "export.repeat").await, [entry]);
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_action_needs_its_right() {
    let (fleet, api) = fleet(Backend::Embedded, workspace("acme")).await;
    let viewer = Browser::signed_in(&fleet, "vic", "viewer").await;
    let operator = Browser::signed_in(&fleet, "ana", "operator").await;
    let prefix = api.export_all().await.prefix;
    api.done(&prefix).await;
    let path = |action: &str| format!("{}{action}", address(&prefix));
    assert_eq!(viewer.get(&path("")).await.status, 200);
    for action in ["/cancel", "/repeat"] {
        assert_eq!(viewer.post(&path(action), &[]).await.status, 403, "{action}");
    }
    assert_eq!(viewer.get(NEW).await.status, 403);
    assert_eq!(viewer.post(NEW, &[("field", "email")]).await.status, 403);
    let page = viewer.get("/w/acme/exports").await;
    assert!(!page.text.contains("/exports/new"), "{page:?}");
    // Personal data.
    for browser in [&viewer, &operator] {
        assert_eq!(browser.get(&path("/download")).await.status, 403);
        let page = browser.get(&path("")).await;
        assert!(!page.text.contains(&path("/download")), "{page:?}");
    }
    // The callback would have the address of the files.
    let form = [
        ("audience", "control_group"),
        ("field", "email"),
        ("callback_endpoint", "https://hooks.acme.example/x"),
    ];
    let page = operator.post(NEW, &form).await;
    assert_eq!(page.status, 422, "{page:?}");
    assert!(page.text.contains("exports.download"), "{}", page.text);
    // So would that of a repeat.
    let body = json!({
        "fields_to_export": ["email"], "callback_endpoint": "https://hooks.acme.example/x",
    });
    let with_callback = api.export(&body).await.prefix;
    api.done(&with_callback).await;
    let repeat = format!("{}/repeat", address(&with_callback));
    let page = operator.post(&repeat, &[("request_key", "k")]).await;
    assert_eq!(page.status, 400, "{page:?}");
    assert!(page.text.contains("exports.download"), "{}", page.text);
    assert!(audited(&fleet, "export.").await.is_empty());
    assert_eq!(exports(&fleet).await.len(), 2);
    let admin = Browser::signed_in(&fleet, "eve", "admin").await;
    created(&admin.post(&repeat, &[("request_key", "k")]).await);
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn exports_of_another_workspace_do_not_exist() {
    let (fleet, api) = fleet(Backend::Embedded, workspace("acme")).await;
    fleet.apply(&[workspace("beta")]).await;
    let browser = Browser::signed_in(&fleet, "ana", "admin").await;
    let prefix = api.export_all().await.prefix;
    api.done(&prefix).await;
    let view = format!("/live?view={}", Uuid::new_v4());
    for (workspace, prefix) in [
        ("beta", prefix.as_str()),
        ("nowhere", prefix.as_str()),
        ("acme", "1f0c7a52-3a55-4b0e-9d3e-6f1c5e2b7a10-1795249527"),
        ("acme", "%00"),
    ] {
        let path = |action: &str| format!("/w/{workspace}/exports/{prefix}{action}");
        for action in ["", "/download", view.as_str()] {
            assert_eq!(browser.get(&path(action)).await.status, 404, "{}", path(action));
        }
        for action in ["/cancel", "/repeat"] {
            let response = browser.post(&path(action), &[("request_key", "k")]).await;
            assert_eq!(response.status, 404, "{}", path(action));
        }
    }
    assert_eq!(exports(&fleet).await.len(), 1);
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_shows_the_progress_and_the_end() {
    let (mut fleet, api) = fleet(Backend::Fleet(1), workspace("acme")).await;
    let browser = Browser::signed_in(&fleet, "ana", "viewer").await;
    fleet.stop("worker-1");
    let prefix = api.export_all().await.prefix;
    let page = browser.get(&address(&prefix)).await;
    let stream = Regex::new(r#"hx-sse:connect="([^"]+)""#).expect("an expression");
    let stream = stream.captures(&page.text).unwrap_or_else(|| panic!("{page:?}"))[1].to_owned();

    let open = || async {
        let response = browser.request(Method::GET, &stream).send().await.expect("a response");
        assert_eq!(
            (response.status().as_u16(), &response.headers()["content-type"]),
            (200, &"text/event-stream".parse().unwrap())
        );
        response
    };
    let mut first = open().await;
    let chunk = first.chunk().await.expect("a chunk").expect("a message");
    let message = String::from_utf8_lossy(&chunk).into_owned();
    assert!(message.contains("data:") && message.contains("Waits for a worker"), "{message}");
    // The page connects again: its former stream ends.
    let second = open().await;
    let rest = first.text().await.expect("a text");
    assert!(rest.ends_with("event: close\ndata: {}\n\n"), "{rest}");
    fleet.resume("worker-1");
    let text = tokio::time::timeout(Duration::from_secs(120), second.text()).await;
    let text = text.expect("the stream ends").expect("a text");
    let (figures, end) = text.split_once("event: ended\n").unwrap_or_else(|| panic!("{text}"));
    assert!(figures.contains("users in 4 files"), "{text}");
    assert!(end.ends_with("event: close\ndata: {}\n\n"), "{text}");
    // An ended export has no stream on its page.
    let page = browser.get(&address(&prefix)).await;
    assert!(!page.text.contains("hx-sse:connect"), "{page:?}");
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_down_gives_a_page_that_reloads() {
    let database = crate::support::servers::variable("LONGSHORE_TEST_POSTGRES");
    let proxy = Proxy::to(&database).await;
    let fleet = Fleet::start_with(Backend::Fleet(1), &settings(), |environment| {
        let url = environment.get_mut("LONGSHORE_DATABASE_URL").expect("a database");
        *url = proxy.instead_of(url);
    })
    .await;
    fleet.apply(&[workspace("acme")]).await;
    let browser = Browser::signed_in(&fleet, "ana", "viewer").await;
    proxy.set(ProxyMode::Refused);
    let page = browser.get("/w/acme/exports").await;
    assert_eq!(page.status, 503, "{page:?}");
    let reloads = page.text.contains("http-equiv=\"refresh\"");
    assert!(reloads || page.headers.contains_key("refresh"), "{page:?}");
    proxy.set(ProxyMode::Open);
    eventually("the page is back", || async { browser.get("/w/acme/exports").await.status == 200 })
        .await;
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_the_console_count_like_those_of_the_api() {
    let limit = json!({ "users.export.global_control_group": { "requests": 2, "seconds": 3_600 } });
    let (fleet, api) = fleet(Backend::Embedded, workspace("acme").with("rate_limits", limit)).await;
    let browser = Browser::signed_in(&fleet, "ana", "operator").await;
    let form = [("audience", "control_group"), ("field", "email")];
    created(&browser.post(NEW, &form).await);
    let body = json!({ "fields_to_export": ["email"] });
    assert_eq!(api.post(EXPORT, &body).await.status, 201);
    let refused = browser.post(NEW, &form).await;
    assert_eq!(refused.status, 429, "{refused:?}");
    assert!(refused.headers.contains_key("retry-after"), "{refused:?}");
    assert_eq!(exports(&fleet).await.len(), 2);
    fleet.close().await;
}
