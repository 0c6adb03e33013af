//! Dry runs of exports: the estimate against the export, the test of the destination, and that
//! nothing is created.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::api::{ALL_FIELDS, Api, ApiResponse, EXPORT, answer};
use crate::support::fleet::{Backend, Fleet};
use crate::support::storage::TestStorage;
use crate::support::workspace::WorkspaceFile;
use crate::support::{process, stores, user_records};

const SEGMENT: &str = "/users/export/segment";

const PERMISSIONS: [&str; 3] =
    ["users.export.global_control_group", "users.export.segment", "segments.list"];

async fn start(backend: Backend, workspace: &WorkspaceFile, records: &[String]) -> (Fleet, Api) {
    let fleet = Fleet::start(backend, &[]).await;
    let api = fleet.apply(std::slice::from_ref(workspace)).await.remove(0);
    fleet.import("acme", records).await;
    (fleet, api)
}

fn workspace() -> WorkspaceFile {
    WorkspaceFile::new("acme").permitted(&PERMISSIONS)
}

/// Users whose attribute `number` ascends in the order of their creation.
fn numbered(count: usize) -> Vec<String> {
    (0..count).map(|number| user_records::simple(number, 1)).collect()
}

/// An estimate of an accepted request.
async fn dry_run(api: &Api, path: &str, mut body: Value) -> Value {
    body["dry_run"] = true.into();
    let response = api.post(path, &body).await;
    assert_eq!(response.status, 200, "{body}: {response:?}");
    assert_eq!(
        (&response.body["message"], &response.body["dry_run"]),
        (&json!("success"), &json!(true))
    );
    response.body
}

async fn exports(api: &Api) -> Vec<Value> {
    let listed = api.get("/users/export").await.body;
    listed["exports"].as_array().expect("an array").clone()
}

#[track_caller]
fn assert_close(estimated: &Value, truth: &Value, tolerance: f64) {
    let (estimated, truth) = (estimated.as_f64().unwrap(), truth.as_f64().unwrap());
    let error = (estimated - truth).abs() / truth;
    assert!(error <= tolerance, "{estimated} instead of {truth}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_creates_nothing_and_leaves_its_key_unused() {
    let storage = TestStorage::s3().await;
    let workspace = workspace().with_storage(&storage);
    let (fleet, api) = start(Backend::Embedded, &workspace, &numbered(30)).await;
    let ask = async |body: Value| -> ApiResponse {
        let request = api.request(Method::POST, EXPORT).header("idempotency-key", "once");
        answer(request.json(&body)).await
    };
    let body = json!({ "fields_to_export": ["email"], "dry_run": true });
    for _ in 0..2 {
        let estimated = ask(body.clone()).await;
        assert_eq!(estimated.status, 200, "{estimated:?}");
        assert_eq!(estimated.body.get("object_prefix"), None);
        let destination = &estimated.body["destination"];
        assert_eq!(
            (&destination["kind"], &destination["is_writable"]),
            (&json!("s3"), &json!(true)),
            "{destination}"
        );
        // The endpoint is the operator's business.
        let location = destination["location"].as_str().expect("a location");
        assert!(location.starts_with("bucket ") && !location.contains("http"), "{location}");
        fleet.assert_no_secret_in("a dry run", &estimated.body.to_string());
    }
    assert!(exports(&api).await.is_empty());
    assert!(storage.list().await.is_empty());
    // The key is free for an export, whose dry run does not repeat it.
    let created = ask(json!({ "fields_to_export": ["phone"] })).await;
    assert_eq!(created.status, 201, "{created:?}");
    assert_eq!(ask(body).await.status, 200);
    api.done(created.body["object_prefix"].as_str().unwrap()).await;
    assert_eq!(exports(&api).await.len(), 1);
    fleet.close().await;
}

/// Users are counted, and the bytes of the first export come from a sample, those of the next ones
/// from the first.
async fn the_estimate_is_near_the_export(backend: Backend) {
    let records = user_records::mixed(4_000).await;
    let (fleet, api) = start(backend, &workspace(), &records).await;
    for (body, source) in [
        (json!({ "fields_to_export": ALL_FIELDS, "destination": "url" }), "sample"),
        (json!({ "fields_to_export": ["email"], "users_per_file": 100 }), "sample"),
        (json!({ "fields_to_export": ["email"], "users_per_file": 100 }), "past_exports"),
    ] {
        let estimate = dry_run(&api, EXPORT, body.clone()).await;
        assert_eq!(estimate["users"]["exact"], true, "{estimate}");
        assert_eq!(estimate["bytes"]["based_on"]["source"], source, "{estimate}");
        assert_eq!(estimate["destination"]["is_writable"], true, "{estimate}");
        assert!(estimate["seconds"]["estimated"].as_u64().unwrap() >= 1, "{estimate}");
        let accepted = api.export(&body).await;
        let status = api.done(&accepted.prefix).await;
        assert_eq!(estimate["users"]["estimated"], status["users"]["total"], "{estimate}");
        assert_eq!(estimate["files"], status["files"]["total"], "{estimate}");
        assert_close(&estimate["bytes"]["estimated"], &status["bytes"], 0.2);
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_estimate_is_near_the_export_standalone() {
    the_estimate_is_near_the_export(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "scripts/test --all"]
async fn the_estimate_is_near_the_export_fleet() {
    the_estimate_is_near_the_export(Backend::Fleet(1)).await;
}

/// Seconds follow what the database has about past exports of the same request, and those of other
/// fields are derived from them.
async fn seconds_follow_past_exports(backend: Backend) {
    const USERS: usize = 4_000;
    let (fleet, api) = start(backend, &workspace(), &numbered(USERS)).await;
    let database = fleet.database_url();
    let body = json!({ "fields_to_export": ["email"] });
    let estimate = async |body: &Value| dry_run(&api, EXPORT, body.clone()).await["seconds"].take();
    assert_eq!(estimate(&body).await["based_on"], json!({ "source": "default" }));

    let export = async || {
        let accepted = api.export(&body).await;
        api.done(&accepted.prefix).await
    };
    export().await;
    let ms = "SELECT finished_at - started_at FROM export_jobs";
    let seconds = stores::count(&database, ms).await as f64 / 1_000.0;
    let learned = estimate(&body).await;
    let based_on = json!({ "source": "past_exports", "count": 1 });
    assert_eq!(learned["based_on"], based_on, "{learned}");
    let difference = learned["estimated"].as_f64().unwrap() - seconds;
    // Estimates are whole seconds.
    assert!(difference.abs() <= 1.0 + 0.3 * seconds, "{learned} instead of {seconds}");

    // The exports took 100, 200 and 300 seconds.
    for _ in 0..2 {
        export().await;
    }
    let slower = "UPDATE export_jobs SET started_at = finished_at - 100000 * (
         SELECT count(*) FROM export_jobs AS earlier
         WHERE earlier.requested_at <= export_jobs.requested_at)";
    assert_eq!(stores::execute(&database, slower).await, 3);
    let learned = estimate(&body).await;
    assert_eq!(learned["based_on"]["count"], 3, "{learned}");
    assert_close(&learned["estimated"], &json!(200), 0.3);
    let more_fields = estimate(&json!({ "fields_to_export": ALL_FIELDS })).await;
    assert_eq!(more_fields["based_on"], json!({ "source": "past_exports" }));
    assert!(
        more_fields["estimated"].as_u64() > learned["estimated"].as_u64(),
        "{more_fields} {learned}"
    );
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn seconds_follow_past_exports_standalone() {
    seconds_follow_past_exports(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "scripts/test --all"]
async fn seconds_follow_past_exports_fleet() {
    seconds_follow_past_exports(Backend::Fleet(1)).await;
}

/// Much of the time of an audience's export is that of the check of all users.
#[tokio::test(flavor = "multi_thread")]
async fn seconds_of_an_audience_follow_its_past_exports() {
    let (fleet, api) = start(Backend::Embedded, &workspace(), &numbered(3_000)).await;
    let body = json!({ "audience": below(1_500), "fields_to_export": ["email"] });
    let accepted = api.post(SEGMENT, &body).await;
    api.done(accepted.body["object_prefix"].as_str().unwrap()).await;
    let slower = "UPDATE export_jobs SET started_at = finished_at - 60000";
    assert_eq!(stores::execute(&fleet.database_url(), slower).await, 1);
    let same = dry_run(&api, SEGMENT, body).await;
    assert_eq!(same["seconds"]["based_on"]["source"], "past_exports", "{same}");
    assert_close(&same["seconds"]["estimated"], &json!(60), 0.3);
    // It is not the speed of exports that check no users.
    let all = dry_run(&api, EXPORT, json!({ "fields_to_export": ["email"] })).await;
    assert_eq!(all["seconds"]["based_on"]["source"], "default", "{all}");
    fleet.close().await;
}

/// Files of another format have other bytes, and the ZIP behind `url` takes another time.
#[tokio::test(flavor = "multi_thread")]
async fn past_exports_are_those_of_the_same_format_and_kind_of_destination() {
    let storage = TestStorage::s3().await;
    let workspace = workspace().with_storage(&storage);
    let (fleet, api) = start(Backend::Embedded, &workspace, &numbered(30)).await;
    let with = |format: &str, url: bool| {
        let mut body = json!({ "fields_to_export": ["email"], "output_format": format });
        if url {
            body["destination"] = "url".into();
        }
        body
    };
    let accepted = api.export(&with("zip", false)).await;
    api.done(&accepted.prefix).await;
    for (format, url, source) in
        [("zip", false, "past_exports"), ("gzip", false, "sample"), ("zip", true, "sample")]
    {
        let estimate = dry_run(&api, EXPORT, with(format, url)).await;
        assert_eq!(estimate["bytes"]["based_on"]["source"], source, "{format} {url}: {estimate}");
    }
    // `url` has one format.
    let accepted = api.export(&with("gzip", true)).await;
    api.done(&accepted.prefix).await;
    let estimate = dry_run(&api, EXPORT, with("zip", true)).await;
    assert_eq!(estimate["bytes"]["based_on"]["source"], "past_exports", "{estimate}");
    fleet.close().await;
}

/// Neither the number of exports of others nor that of their past ones is in an estimate.
#[tokio::test(flavor = "multi_thread")]
async fn an_estimate_counts_only_exports_of_its_workspace() {
    let mut fleet = Fleet::start(Backend::Fleet(1), &[]).await;
    let files = [workspace(), WorkspaceFile::new("beta")];
    let [acme, beta]: [Api; 2] = fleet.apply(&files).await.try_into().ok().expect("two");
    let done = acme.export_all().await.prefix;
    acme.done(&done).await;
    fleet.stop("worker-1");
    let pending = acme.export_all().await.prefix;
    let body = json!({ "fields_to_export": ["email"] });
    for (api, count) in [(&acme, 1), (&beta, 0)] {
        let estimate = dry_run(api, EXPORT, body.clone()).await;
        assert_eq!(estimate["exports_in_progress"], count, "{estimate}");
        assert_eq!(estimate["seconds"]["based_on"].get("count"), None, "{estimate}");
    }
    fleet.resume("worker-1");
    acme.done(&pending).await;
    fleet.close().await;
}

fn below(number: usize) -> Value {
    json!({ "custom_attribute": {
        "custom_attribute_name": "number", "comparison": "less_than", "value": number,
    } })
}

/// Of more users than are read, those created first are neither missed nor preferred.
async fn audiences_are_estimated(backend: Backend) {
    const USERS: usize = 30_000;
    let (fleet, api) = start(backend, &workspace(), &numbered(USERS)).await;
    let of = |users: Value| {
        let mut body = users;
        body["fields_to_export"] = json!(["external_id"]);
        dry_run(&api, SEGMENT, body)
    };
    let segments = api.get("/segments/list").await.body;
    let all = of(json!({ "segment_id": segments["segments"][0]["id"] })).await;
    assert_eq!((&all["users"]["estimated"], &all["users"]["exact"]), (&json!(USERS), &json!(true)));
    for users in [3_000, 21_000] {
        let estimate = of(json!({ "audience": below(users) })).await;
        let estimated = &estimate["users"];
        assert_eq!(estimated["exact"], false, "{estimate}");
        assert_close(&estimated["estimated"], &json!(users), 0.1);
        let bound = |index: usize| estimated["between"][index].as_u64().unwrap();
        let middle = estimated["estimated"].as_u64().unwrap();
        assert!(bound(0) <= middle && middle <= bound(1), "{estimate}");
    }
    let nobody = of(json!({ "audience": below(0) })).await;
    assert_eq!(nobody["users"]["estimated"], 0, "{nobody}");
    assert!(nobody["users"]["between"][1].as_u64().unwrap() > 0, "{nobody}");
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn audiences_are_estimated_standalone() {
    audiences_are_estimated(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "scripts/test --all"]
async fn audiences_are_estimated_fleet() {
    audiences_are_estimated(Backend::Fleet(1)).await;
}

/// Of few users, each is checked; the bytes are those of the users who match.
#[tokio::test(flavor = "multi_thread")]
async fn small_audiences_are_exact() {
    let (fleet, api) = start(Backend::Embedded, &workspace(), &numbered(3_000)).await;
    let body = json!({ "audience": below(500), "fields_to_export": ["email"] });
    let estimate = dry_run(&api, SEGMENT, body.clone()).await;
    assert_eq!(estimate["users"]["estimated"], 500, "{estimate}");
    assert_eq!(estimate["users"]["exact"], true, "{estimate}");
    assert_eq!(estimate["users"].get("between"), None, "{estimate}");
    let accepted = api.post(SEGMENT, &body).await;
    let status = api.done(accepted.body["object_prefix"].as_str().unwrap()).await;
    assert_eq!(status["users"]["total"], 500, "{status}");
    assert_close(&estimate["bytes"]["estimated"], &status["bytes"], 0.2);
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_destination_that_refuses_is_reported_with_its_words() {
    let storage = TestStorage::s3().await;
    let workspace = workspace().with_named_storage("lake", &storage);
    let (fleet, api) = start(Backend::Embedded, &workspace, &numbered(3)).await;
    let body = json!({ "fields_to_export": ["email"], "destination": "lake" });
    storage.destroy().await;
    let refused = dry_run(&api, EXPORT, body.clone()).await;
    let destination = &refused["destination"];
    assert_eq!(
        (&destination["name"], &destination["is_writable"]),
        (&json!("lake"), &json!(false))
    );
    let error = destination["error"].as_str().expect("an error");
    assert!(error.to_lowercase().contains("bucket"), "{error}");
    fleet.assert_no_secret_in("a dry run", &refused.to_string());
    // The rest of the estimate does not depend on it.
    assert_eq!(refused["users"]["estimated"], 3, "{refused}");

    storage.restore().await;
    let accepted = dry_run(&api, EXPORT, body).await;
    assert_eq!(accepted["destination"]["is_writable"], true, "{accepted}");
    assert_eq!(accepted["destination"].get("error"), None, "{accepted}");
    assert!(storage.list().await.is_empty());
    assert!(exports(&api).await.is_empty());
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_that_would_fail_has_a_warning() {
    let limits = json!({ "users": 5 });
    let workspace = workspace().with("export_limits", limits);
    let (fleet, api) = start(Backend::Embedded, &workspace, &numbered(10)).await;
    let estimate = dry_run(&api, EXPORT, json!({ "fields_to_export": ["email"] })).await;
    assert_eq!(estimate["limit"]["users"], 5, "{estimate}");
    let warnings = estimate["warnings"].as_array().expect("an array");
    assert!(
        warnings.iter().any(|warning| warning["message"].as_str().unwrap().contains("10 users")),
        "{estimate}"
    );
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_is_checked_as_a_request() {
    let nobody = workspace().with_percent(None);
    let (fleet, api) = start(Backend::Embedded, &nobody, &numbered(3)).await;
    let no_segment = json!({ "segment_id": "8a1d0f5e-2c3b-4d6a-9e7f-0123456789ab" });
    for (path, wrong, part) in [
        (EXPORT, json!({}), "control group"),
        (SEGMENT, no_segment, "segment_id"),
        (SEGMENT, json!({ "audience": below(1), "destination": "lake" }), "destination"),
        (
            SEGMENT,
            json!({ "audience": below(1), "callback_endpoint": "http://10.0.0.1/" }),
            "callback_endpoint",
        ),
        (SEGMENT, json!({ "audience": below(1), "dry_run": "yes" }), "dry_run"),
    ] {
        let mut body = json!({ "fields_to_export": ["email"], "dry_run": true });
        body.as_object_mut().unwrap().extend(wrong.as_object().unwrap().clone());
        api.post(path, &body).await.refuses(400, part);
    }
    // False is the same as absent.
    let body = json!({
        "fields_to_export": ["email"], "audience": below(1), "dry_run": false,
    });
    let accepted = api.post(SEGMENT, &body).await;
    assert_eq!(accepted.status, 201, "{accepted:?}");
    api.done(accepted.body["object_prefix"].as_str().unwrap()).await;
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_prints_the_estimate() {
    let storage = TestStorage::s3().await;
    let workspace = workspace().with_storage(&storage);
    let (fleet, api) = start(Backend::Embedded, &workspace, &numbered(40)).await;
    let run = async |more: &[&str]| {
        let mut command = process::command(fleet.directory(), &Default::default());
        command.args(["export", "run", "--fields", "email", "--dry-run"]);
        command.args(["--url", fleet.base(), "--key", api.key()]).args(more);
        process::output(command).await
    };
    let table = run(&[]).await;
    assert!(table.status.success(), "{table:?}");
    let printed = String::from_utf8_lossy(&table.stdout).into_owned();
    for part in ["users", "40", "files", "bytes", "seconds", "destination"] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    let json = run(&["--json"]).await;
    let json: Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(json["users"]["estimated"], 40, "{json}");
    storage.destroy().await;
    let refused = run(&[]).await;
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(exports(&api).await.is_empty());
    storage.restore().await;
    fleet.close().await;
}

async fn a_misspelt_attribute_is_named(backend: Backend) {
    let (fleet, api) = start(backend, &workspace(), &numbered(3_000)).await;
    let fields = ["email", "custom_attributes.number", "custom_attributes.nubmer"];
    // Also if nobody matches: the condition is not computed for it.
    for (path, mut body) in [
        (EXPORT, json!({})),
        (SEGMENT, json!({ "audience": below(10) })),
        (SEGMENT, json!({ "audience": below(0) })),
    ] {
        body["fields_to_export"] = json!(fields);
        let created = api.post(path, &body).await;
        assert_eq!(created.status, 201, "{created:?}");
        let warnings = created.body["warnings"].as_array().expect("warnings");
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert_eq!(
            (&warnings[0]["field"], &warnings[0]["code"]),
            (&json!("fields_to_export.custom_attributes.nubmer"), &json!("unknown-attribute")),
        );
    }
    let body = json!({ "fields_to_export": ["custom_attributes.number"] });
    let created = api.post(EXPORT, &body).await;
    assert_eq!(created.status, 201, "{created:?}");
    assert_eq!(created.body.get("warnings"), None);
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_misspelt_attribute_is_named_on_the_embedded_default() {
    a_misspelt_attribute_is_named(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_misspelt_attribute_is_named_on_real_servers() {
    a_misspelt_attribute_is_named(Backend::Fleet(1)).await;
}
