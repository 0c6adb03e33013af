//! What commands that do something print with `--json`.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::{longshore_in, text};

/// The exit status, and the objects that a command prints.
async fn run(directory: &Path, arguments: &[&str]) -> (Option<i32>, Vec<Value>) {
    let output = longshore_in(directory, &[arguments, &["--json"]].concat()).await;
    let lines = text(&output.stdout);
    let objects = lines.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    (output.status.code(), objects)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_migration_reports_the_schema() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (status, checked) = run(directory.path(), &["migrate", "--check"]).await;
    assert_eq!((status, &checked[0]["schema"]), (Some(0), &json!(0)), "{checked:?}");
    for _ in 0..2 {
        let (status, migrated) = run(directory.path(), &["migrate"]).await;
        let own = &checked[0]["own_schema"];
        let expected = json!({ "schema": own, "own_schema": own, "rotated_secrets": false });
        assert_eq!((status, migrated), (Some(0), vec![expected]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recorded_backup_has_its_time() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    run(directory.path(), &["migrate"]).await;
    let (status, recorded) = run(directory.path(), &["backup", "record"]).await;
    assert_eq!((status, recorded.len()), (Some(0), 1));
    let time = recorded[0]["recorded_at"].as_str().expect("a time");
    assert!(time.parse::<jiff::Timestamp>().is_ok(), "{time}");
}

#[tokio::test(flavor = "multi_thread")]
async fn templates_have_the_place_of_their_error_and_the_rendered_text() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for (name, content) in [
        ("acme.yaml", "workspace: acme\n"),
        ("users.ndjson", r#"{"external_id":"ann","first_name":"Ann"}"#),
        ("hello.liquid", "Hello {{${first_name}}}{% message_extras :key city :value Oslo %}"),
        ("name.liquid", "a\n  {{${frist_name}}}\n"),
        ("aborts.liquid", "{% abort_message('not today') %}"),
    ] {
        fs::write(directory.path().join(name), content).expect("a file");
    }
    for arguments in [&["apply", "acme.yaml"][..], &["import", "users.ndjson"]] {
        let output = longshore_in(directory.path(), arguments).await;
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    }
    let files = ["template", "check", "hello.liquid", "name.liquid", "none.liquid"];
    let (status, checked) = run(directory.path(), &files).await;
    assert_eq!((status, checked.len()), (Some(1), 3), "{checked:?}");
    assert_eq!(checked[0], json!({ "file": "hello.liquid", "error": null }));
    assert_eq!((&checked[1]["line"], &checked[1]["column"]), (&json!(2), &json!(5)));
    assert!(checked[1]["error"].is_string() && checked[2]["error"].is_string(), "{checked:?}");

    let render = async |file: &str| {
        let arguments = ["template", "render", file, "--user", "ann"];
        run(directory.path(), &arguments).await
    };
    let rendered = json!({ "rendered": "Hello Ann", "message_extras": { "city": "Oslo" } });
    assert_eq!(render("hello.liquid").await, (Some(0), vec![rendered]));
    let aborted = json!({ "aborted": "not today" });
    assert_eq!(render("aborts.liquid").await, (Some(1), vec![aborted]));
}
