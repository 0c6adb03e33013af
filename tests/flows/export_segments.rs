//! Exports of segments and audiences, as a customer sees them.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::api::{Api, EXPORT};
use crate::support::checker::{self, ExpectedExport};
use crate::support::fleet::{Backend, Fleet};
use crate::support::process;
use crate::support::storage::TestStorage;
use crate::support::workspace::WorkspaceFile;

const SEGMENT: &str = "/users/export/segment";
const PERMISSIONS: [&str; 4] = [
    "users.export.global_control_group",
    "users.export.segment",
    "segments.list",
    "segments.details",
];

/// Users in the workspace.
const USERS: usize = 1_000;

const GOLD: Uuid = Uuid::from_u128(0x3c9f_0a52_8f1e_4c57_9a3e_0d5b_1c2e_7f60);

/// Every tenth user is of the segment.
fn gold() -> Value {
    json!({ "custom_attribute": {
        "custom_attribute_name": "tier", "comparison": "equals", "value": "gold" } })
}

fn workspace(name: &str) -> WorkspaceFile {
    let segments = json!([{ "id": GOLD, "name": "Gold", "audience": gold() }]);
    WorkspaceFile::new(name)
        .permitted(&PERMISSIONS)
        .with_percent(Some(5))
        .with("segments", segments)
}

async fn with_users(backend: Backend, workspace: WorkspaceFile) -> (Fleet, Api) {
    let fleet = Fleet::start(backend, &[]).await;
    let name = workspace.name.clone();
    let api = fleet.apply(&[workspace]).await.remove(0);
    let user = |n: usize| {
        let tier = if n.is_multiple_of(10) { "gold" } else { "basic" };
        json!({ "external_id": format!("u {n}"), "custom_attributes": { "tier": tier, "n": n } })
            .to_string()
    };
    fleet.import(&name, &(0..USERS).map(user).collect::<Vec<_>>()).await;
    (fleet, api)
}

fn names(wanted: impl Iterator<Item = usize>) -> BTreeSet<String> {
    wanted.map(|n| format!("u {n}")).collect()
}

/// Requests an export that must be accepted; returns its prefix and URL.
async fn accepted(api: &Api, body: &Value) -> (String, Option<String>) {
    let answer = api.post(SEGMENT, body).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let text = |name: &str| answer.body[name].as_str().map(str::to_owned);
    (text("object_prefix").expect("a prefix"), text("url"))
}

/// The external ids of lines, each of which must be there once.
fn external_ids(lines: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in lines.lines() {
        let user: Value = serde_json::from_str(line).expect("JSON");
        let id = user["external_id"].as_str().expect("an id").to_owned();
        assert!(found.insert(id), "{line} is there twice");
    }
    found
}

async fn downloaded(api: &Api, url: &str) -> BTreeSet<String> {
    let files = checker::downloaded(&api.download(url).await);
    let lines: Vec<u8> = files.into_iter().flat_map(|file| file.bytes).collect();
    external_ids(&String::from_utf8(lines).expect("UTF-8"))
}

async fn a_segment_is_exported_to_own_storage(backend: Backend) {
    let storage = TestStorage::s3().await;
    let (fleet, api) = with_users(backend, workspace("acme").with_storage(&storage)).await;
    let body = json!({
        "segment_id": GOLD, "fields_to_export": ["external_id"], "users_per_file": 30,
        "output_format": "gzip",
    });
    let (prefix, url) = accepted(&api, &body).await;
    assert_eq!(url, None);
    let status = api.done(&prefix).await;
    assert_eq!((&status["audience"], &status["segment_id"]), (&json!("segment"), &json!(GOLD)));
    assert_eq!(status["files"], json!({ "done": 4, "total": 4 }), "parts follow matching users");
    let days = checker::export_days(&status);
    let wanted = ExpectedExport { fields: &["external_id"], days, prefix: &prefix };
    let files = checker::own_files(&storage, &GOLD.to_string(), "gz", &wanted).await;
    let lines: Vec<u8> = files.into_iter().flat_map(|file| file.bytes).collect();
    let found = external_ids(&String::from_utf8(lines).expect("UTF-8"));
    assert_eq!(found, names((0..USERS).step_by(10)));

    // The list and the status need the permission of the request.
    let listed = api.get("/users/export").await.body;
    assert_eq!(listed["exports"][0]["object_prefix"], prefix);
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn standalone_exports_a_segment_to_own_storage() {
    a_segment_is_exported_to_own_storage(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_exports_a_segment_to_own_storage() {
    a_segment_is_exported_to_own_storage(Backend::Fleet(2)).await;
}

/// With the command, whose files and lists of names keep every digit and comma.
#[tokio::test(flavor = "multi_thread")]
async fn numbers_of_an_audience_are_compared_to_the_last_digit() {
    let fleet = Fleet::start(Backend::Embedded, &[]).await;
    let api = fleet.apply(&[workspace("acme")]).await.remove(0);
    let numbers = [
        "18446744073709551617",
        "18446744073709551616",
        "123456789012345678.123456789",
        "123456789012345678.12345679",
        "-9223372036854775809",
        "-9223372036854775808",
    ];
    let user = |(n, number): (usize, &&str)| {
        format!(r#"{{"external_id":"u {n}","custom_attributes":{{"n":{number},"a,b":{n}}}}}"#)
    };
    fleet.import("acme", &numbers.iter().enumerate().map(user).collect::<Vec<_>>()).await;
    let leaf = |number: &&str| {
        format!(
            r#"{{"custom_attribute":{{"custom_attribute_name":"n","comparison":"equals","value":{number}}}}}"#
        )
    };
    let leaves: Vec<String> = numbers.iter().step_by(2).map(leaf).collect();
    let file = fleet.directory().join("audience.json");
    std::fs::write(&file, format!(r#"{{"OR":[{}]}}"#, leaves.join(","))).expect("a file");
    let output = fleet.directory().join("exported");
    let mut command = process::command(fleet.directory(), &Default::default());
    command.args(["export", "run", "--fields", r#""custom_attributes.a,b""#]);
    command.args(["--fields", "external_id", "--url", fleet.base(), "--key", api.key()]);
    command.arg("--audience").arg(&file).arg("--output").arg(&output);
    let shown = process::output(command).await;
    assert!(shown.status.success(), "{shown:?}");

    let read = |end: &str| {
        let files =
            std::fs::read_dir(&output).expect("a directory").map(|file| file.expect("a file"));
        let mut paths = files.map(|file| file.path());
        let is_named = |path: &std::path::PathBuf| path.to_string_lossy().ends_with(end);
        std::fs::read(paths.find(is_named).expect(end)).expect("a file")
    };
    let files = checker::downloaded(&read(".zip"));
    let lines: Vec<u8> = files.into_iter().flat_map(|file| file.bytes).collect();
    let lines = String::from_utf8(lines).expect("UTF-8");
    assert_eq!(external_ids(&lines), names((0..numbers.len()).step_by(2)));
    for line in lines.lines() {
        let user: Value = serde_json::from_str(line).expect("JSON");
        let n = user["custom_attributes"]["a,b"].as_u64().expect("the attribute with a comma");
        assert_eq!(user["external_id"], format!("u {n}"));
    }
    let manifest = String::from_utf8(read(".manifest.json")).expect("UTF-8");
    assert!(numbers.iter().step_by(2).all(|number| manifest.contains(number)), "{manifest}");
    let manifest: Value = manifest.parse().expect("JSON");
    assert_eq!(manifest["currency"], "USD");
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_audience_and_all_users_are_exported() {
    let (fleet, api) = with_users(Backend::Embedded, workspace("acme")).await;
    let segments = api.get("/segments/list").await.body["segments"].clone();
    let names_of: Vec<&str> =
        segments.as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap()).collect();
    assert_eq!(names_of, ["All users", "Gold"]);
    let all = json!({ "segment_id": segments[0]["id"], "fields_to_export": ["external_id"] });
    let (of_segment, url) = accepted(&api, &all).await;
    api.done(&of_segment).await;
    assert_eq!(downloaded(&api, &url.unwrap()).await, names(0..USERS));

    let few = json!({ "custom_attribute": {
        "custom_attribute_name": "n", "comparison": "less_than", "value": 700 } });
    let audience = json!({ "AND": [gold(), few] });
    let body = json!({
        "audience": audience, "fields_to_export": ["external_id"], "users_per_file": 25,
    });
    let (connected, url) = accepted(&api, &body).await;
    let status = api.done(&connected).await;
    assert_eq!((&status["audience"], &status["files"]["done"]), (&json!("connected"), &json!(3)));
    assert_eq!(downloaded(&api, &url.unwrap()).await, names((0..700).step_by(10)));

    let of_group = api.export(&json!({ "fields_to_export": ["external_id"] })).await.prefix;
    for (permission, listed) in
        [(PERMISSIONS[0], &[&of_group][..]), (PERMISSIONS[1], &[&connected, &of_segment])]
    {
        let create = ["key", "create", "--name", permission, "--permission", permission];
        let limited = Api::new(fleet.base(), fleet.run(&create).await.trim());
        let page = limited.get("/users/export").await.body;
        let prefixes: Vec<&Value> = page["exports"]
            .as_array()
            .unwrap()
            .iter()
            .map(|export| &export["object_prefix"])
            .collect();
        assert_eq!(prefixes, listed, "{permission}");
    }

    let nobody = json!({
        "audience": { "custom_attribute": {
            "custom_attribute_name": "none", "comparison": "exists" } },
        "fields_to_export": ["external_id"],
    });
    let (prefix, url) = accepted(&api, &nobody).await;
    assert_eq!(api.done(&prefix).await["users"]["total"], 0);
    assert_eq!(downloaded(&api, &url.unwrap()).await, BTreeSet::new());
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_finds_a_segment_by_its_name() {
    let (fleet, api) = with_users(Backend::Embedded, workspace("acme")).await;
    let run = async |segment: &str| {
        let mut command = process::command(fleet.directory(), fleet.environment());
        command.args(["export", "run", "--fields", "external_id", "--dry-run", "--json"]);
        command.args(["--segment", segment, "--url", fleet.base(), "--key", api.key()]);
        process::output(command).await
    };
    for segment in ["Gold", &GOLD.to_string()] {
        let output = run(segment).await;
        assert_eq!(output.status.code(), Some(0), "{segment}: {output:?}");
        let estimate: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(estimate["users"]["estimated"], USERS / 10, "{segment}: {estimate}");
    }
    let output = run("Silver").await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("longshore segments list"), "{error}");
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_for_segments_are_checked() {
    let only_group = WorkspaceFile::new("other");
    let fleet = Fleet::start(Backend::Embedded, &[]).await;
    let apis = fleet.apply(&[workspace("acme"), only_group]).await;
    let (api, of_group) = (&apis[0], &apis[1]);
    let fields = json!(["external_id"]);
    for (body, code) in [
        (json!({ "fields_to_export": fields }), "invalid-field"),
        (json!({ "fields_to_export": fields, "segment_id": Uuid::nil() }), "invalid-field"),
        (json!({ "fields_to_export": fields, "segment_id": "gold" }), "invalid-field"),
        (json!({ "fields_to_export": fields, "segment_id": 5 }), "invalid-field"),
        (
            json!({ "fields_to_export": fields, "segment_id": GOLD, "audience": gold() }),
            "invalid-field",
        ),
        (json!({ "fields_to_export": fields, "audience": { "OR": [] } }), "invalid-field"),
        (json!({ "segment_id": GOLD }), "missing-field"),
        (
            json!({ "fields_to_export": fields, "segment_id": GOLD, "users_per_file": 0 }),
            "invalid-field",
        ),
        (
            json!({ "fields_to_export": fields, "segment_id": GOLD, "since": "2026-01-01" }),
            "invalid-field",
        ),
    ] {
        let answer = api.post(SEGMENT, &body).await;
        assert_eq!(answer.status, 400, "{body}: {answer:?}");
        assert_eq!(answer.body["code"], code, "{body}: {answer:?}");
    }
    assert_eq!(api.get("/users/export").await.body["exports"], json!([]));

    // What would narrow the control group's export is not ignored.
    for (field, value) in [("segment_id", json!(GOLD)), ("audience", gold()), ("filter", json!({}))]
    {
        let mut body = json!({ "fields_to_export": fields });
        body[field] = value;
        let answer = api.post(EXPORT, &body).await;
        assert_eq!(answer.status, 400, "{field}: {answer:?}");
    }

    // A key for the control group neither requests nor sees exports of segments.
    let body = json!({ "fields_to_export": fields, "segment_id": GOLD });
    assert_eq!(of_group.post(SEGMENT, &body).await.status, 403);
    let (prefix, _) = accepted(api, &body).await;
    assert_eq!(of_group.get(&format!("/users/export/{prefix}")).await.status, 404);
    fleet.close().await;
}
