//! Output that cannot be written, as with `| head -1` and `> /dev/full`.

use std::fs::{self, OpenOptions};
use std::io::PipeWriter;
use std::path::Path;
use std::process::Output;

use serde_json::Value;
use sqlx::Connection as _;

use super::{longshore_in, text};
use crate::support::process;

const USERS: usize = 35;

async fn prepared() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let users = (0..USERS).map(|number| format!("{{\"external_id\":\"user-{number}\"}}\n"));
    for (name, content) in [
        ("acme.yaml", "workspace: acme\ncontrol_group: {percent: 5}\n".to_owned()),
        ("users.ndjson", users.collect()),
    ] {
        fs::write(directory.path().join(name), content).expect("a file");
    }
    for arguments in [&["apply", "acme.yaml"][..], &["import", "users.ndjson"]] {
        let output = longshore_in(directory.path(), arguments).await;
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }
    directory
}

/// A pipe whose reader is gone.
fn closed_pipe() -> PipeWriter {
    let (_, writer) = std::io::pipe().expect("a pipe");
    writer
}

/// Runs a command whose output has no place.
async fn on_a_full_disk(directory: &Path, arguments: &[&str]) -> Output {
    let full = OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    let mut command = process::command(directory, &Default::default());
    command.args(arguments).stdout(full);
    process::output(command).await
}

async fn rows(directory: &Path, list: &[&str]) -> Vec<Value> {
    let output = longshore_in(directory, list).await;
    assert!(output.status.success(), "{output:?}");
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_pipe_ends_no_change_halfway() {
    for with_stderr in [false, true] {
        let directory = prepared().await;
        let mut command = process::command(directory.path(), &Default::default());
        command.args(["users", "delete"]);
        command.args((0..USERS).map(|number| format!("user-{number}"))).arg("nobody");
        command.stdout(closed_pipe());
        if with_stderr {
            command.stderr(closed_pipe());
        }
        let output = process::output(command).await;
        assert_eq!(output.status.code(), Some(1), "nobody was not erased: {output:?}");
        let sample = ["segments", "sample", "All users", "--limit", "100", "--json"];
        let remaining = rows(directory.path(), &sample).await;
        assert!(remaining.is_empty(), "{remaining:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_change_with_a_closed_pipe_has_the_status_of_one() {
    let directory = prepared().await;
    let mut command = process::command(directory.path(), &Default::default());
    command.args(["users", "delete", "user-0", "user-1"]).stdout(closed_pipe());
    let output = process::output(command).await;
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(141), String::new()));
    for user in ["user-0", "user-1"] {
        let shown = longshore_in(directory.path(), &["users", "show", user]).await;
        assert_eq!(shown.status.code(), Some(1), "{user}");
    }
}

/// The last item cannot be read, which only a command that gets there notices.
#[tokio::test(flavor = "multi_thread")]
async fn a_closed_pipe_ends_the_reading_of_a_catalog() {
    let directory = prepared().await;
    let catalog = "workspace: acme
control_group: {percent: 5}
catalogs: [{name: towns, fields: [{name: Name, type: string}], items: towns.ndjson}]
";
    let items = (0..3_500).map(|number| format!("{{\"id\":\"town-{number:04}\"}}\n"));
    fs::write(directory.path().join("towns.ndjson"), items.collect::<String>()).expect("a file");
    fs::write(directory.path().join("acme.yaml"), catalog).expect("a file");
    let applied = longshore_in(directory.path(), &["apply", "acme.yaml"]).await;
    assert!(applied.status.success(), "{applied:?}");
    let store = format!("sqlite://{}", directory.path().join("longshore-data/store.db").display());
    let mut store = sqlx::SqliteConnection::connect(&store).await.expect("the store");
    let damage = "UPDATE catalog_items SET doc = x'ff' WHERE item_id = 'town-3499'";
    let damaged = sqlx::query(damage).execute(&mut store).await.expect("an update");
    assert_eq!(damaged.rows_affected(), 1);
    store.close().await.expect("it is closed");
    let output = longshore_in(directory.path(), &["catalogs", "items", "towns"]).await;
    assert_eq!((output.status.code(), text(&output.stdout).lines().count()), (Some(1), 3_000));
    let mut command = process::command(directory.path(), &Default::default());
    command.args(["catalogs", "items", "towns"]).stdout(closed_pipe());
    let output = process::output(command).await;
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(141), String::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_an_error_and_not_a_panic() {
    let directory = prepared().await;
    let create = ["key", "create", "--name", "old", "--permission", "users.track"];
    for arguments in [&create[..], &["key", "revoke", "old"]] {
        assert!(longshore_in(directory.path(), arguments).await.status.success());
    }
    for arguments in [
        &["key", "revocations"][..],
        &["config", "show"],
        &["users", "show", "user-0"],
        &["signing-key", "rotate"],
        &["completions", "bash"],
    ] {
        let output = on_a_full_disk(directory.path(), arguments).await;
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {error}");
        let line = "longshore: cannot write to standard output: No space left on device";
        assert!(error.contains(line), "{arguments:?}: {error}");
        assert!(!error.contains("panicked"), "{arguments:?}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_was_not_printed_is_an_error_with_the_revocation() {
    let directory = prepared().await;
    let key = ["key", "create", "--permission", "users.track", "--name"];
    let token = ["scim-token", "create", "--name"];
    for (create, name, options) in [
        (&key[..], "first", &[][..]),
        (&key, "second", &["--json"]),
        (&token, "third", &[]),
        (&token, "fourth", &["--json"]),
    ] {
        let arguments = [create, &[name], options].concat();
        let output = on_a_full_disk(directory.path(), &arguments).await;
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        let command = error.split('`').nth(1).expect("a command");
        let words: Vec<&str> = command.split(' ').skip(1).collect();
        assert!(words.contains(&name), "{error}");
        let revoked = longshore_in(directory.path(), &words).await;
        assert!(revoked.status.success(), "{revoked:?}");
    }
}
