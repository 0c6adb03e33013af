//! Commands that delete ask a person, and never a script.

use std::fs::File;
use std::path::Path;
use std::process::Output;

use crate::support::process;

async fn prepared() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
    write("acme.yaml", "workspace: acme\ncontrol_group: {percent: 5}\n");
    write("users.ndjson", r#"{"external_id":"ann","first_name":"Ann","email":"ann@acme.example"}"#);
    write("fewer.ndjson", r#"{"external_id":"ann","first_name":"Anna"}"#);
    for arguments in [&["apply", "acme.yaml"][..], &["import", "users.ndjson"]] {
        let output = without_terminal(directory.path(), arguments).await;
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }
    directory
}

async fn without_terminal(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = process::command(directory, &Default::default());
    command.args(arguments);
    process::output(command).await
}

/// Runs a command on a terminal on which somebody types `answer`.
async fn on_terminal(directory: &Path, arguments: &str, answer: &str) -> Output {
    let typed = directory.join("typed");
    std::fs::write(&typed, answer).unwrap();
    let mut command = process::on_terminal(directory, arguments);
    command.stdin(File::open(typed).unwrap());
    process::output(command).await
}

async fn has_email(directory: &Path) -> bool {
    let shown = without_terminal(directory, &["users", "show", "ann", "--json"]).await;
    shown.status.success() && String::from_utf8_lossy(&shown.stdout).contains("ann@acme.example")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_on_a_terminal_needs_a_yes() {
    let directory = prepared().await;
    for answer in ["n\n", "\n"] {
        let output = on_terminal(directory.path(), "users delete ann", answer).await;
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(has_email(directory.path()).await);
    }
    let output = on_terminal(directory.path(), "users delete ann", "y\n").await;
    assert!(output.status.success(), "{output:?}");
    assert!(!has_email(directory.path()).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn yes_and_scripts_are_not_asked() {
    let directory = prepared().await;
    let renew = "control-group renew --percent 3";
    let output = on_terminal(directory.path(), &format!("{renew} --yes"), "").await;
    assert!(output.status.success(), "{output:?}");
    let refused = on_terminal(directory.path(), renew, "n\n").await;
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let words: Vec<&str> = renew.split(' ').collect();
    assert!(without_terminal(directory.path(), &words).await.status.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_on_a_terminal_needs_a_yes() {
    let directory = prepared().await;
    let create = ["key", "create", "--name", "app", "--permission", "users.track"];
    assert!(without_terminal(directory.path(), &create).await.status.success());
    let is_active = async || {
        let listed = without_terminal(directory.path(), &["key", "list", "--json"]).await;
        String::from_utf8_lossy(&listed.stdout).contains(r#""revoked_at":null"#)
    };
    let dry = without_terminal(directory.path(), &["key", "revoke", "app", "--dry-run"]).await;
    assert!(dry.status.success() && is_active().await, "{dry:?}");
    let refused = on_terminal(directory.path(), "key revoke app", "n\n").await;
    assert_eq!((refused.status.code(), is_active().await), (Some(1), true), "{refused:?}");
    let confirmed = on_terminal(directory.path(), "key revoke app", "y\n").await;
    assert!(confirmed.status.success() && !is_active().await, "{confirmed:?}");
}

/// As with `2>log`: whoever started it still sits at the terminal, and sees the question there.
#[tokio::test(flavor = "multi_thread")]
async fn redirected_output_does_not_skip_the_question() {
    let directory = prepared().await;
    for redirection in ["2>err.txt", ">out.txt", ">out.txt 2>err.txt"] {
        let erase = format!("users delete ann {redirection}");
        let refused = on_terminal(directory.path(), &erase, "n\n").await;
        assert_eq!(refused.status.code(), Some(1), "{redirection}: {refused:?}");
        let shown = String::from_utf8_lossy(&refused.stdout);
        assert!(shown.contains("[y/N]"), "{redirection}: {shown}");
        assert!(has_email(directory.path()).await, "{redirection}");
    }
    let confirmed = on_terminal(directory.path(), "users delete ann 2>err.txt", "y\n").await;
    assert!(confirmed.status.success(), "{confirmed:?}");
    assert!(!has_email(directory.path()).await);
}

/// There is nothing to lose.
#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_of_nobody_does_not_ask() {
    let directory = prepared().await;
    let output = on_terminal(directory.path(), "users delete nobody", "").await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(!String::from_utf8_lossy(&output.stdout).contains("[y/N]"), "{output:?}");
}

/// Only one that takes something away.
#[tokio::test(flavor = "multi_thread")]
async fn an_import_that_removes_fields_asks_on_a_terminal() {
    let directory = prepared().await;
    let same = on_terminal(directory.path(), "import users.ndjson", "").await;
    assert!(same.status.success(), "{same:?}");
    let refused = on_terminal(directory.path(), "import fewer.ndjson", "n\n").await;
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(has_email(directory.path()).await);
    let confirmed = on_terminal(directory.path(), "import fewer.ndjson", "y\n").await;
    assert!(confirmed.status.success(), "{confirmed:?}");
    assert!(!has_email(directory.path()).await);
}

/// A count that was not made is not a count of 0.
#[tokio::test(flavor = "multi_thread")]
async fn removed_fields_are_reported_only_where_they_were_counted() {
    let directory = prepared().await;
    let summary = async |arguments: &[&str]| {
        let output = without_terminal(directory.path(), arguments).await;
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice::<serde_json::Value>(&output.stdout).expect("a summary")
    };
    let dry = summary(&["import", "fewer.ndjson", "--json", "--dry-run"]).await;
    assert_eq!(dry["removed"]["email"], 1, "{dry}");
    let imported = summary(&["import", "fewer.ndjson", "--json"]).await;
    assert!(imported.get("removed").is_none(), "{imported}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prune_asks_on_a_terminal() {
    let directory = prepared().await;
    let file = |text: &str| std::fs::write(directory.path().join("acme.yaml"), text).unwrap();
    file(
        "workspace: acme\ncontrol_group: {percent: 5}\ncatalogs: [{name: shops, fields: [{name: city, type: string}]}]\n",
    );
    let applied = without_terminal(directory.path(), &["apply", "acme.yaml"]).await;
    assert!(applied.status.success(), "{applied:?}");
    file("workspace: acme\ncontrol_group: {percent: 5}\n");
    let catalogs = async || {
        let listed = without_terminal(directory.path(), &["catalogs", "list", "--json"]).await;
        String::from_utf8_lossy(&listed.stdout).lines().count()
    };
    let refused = on_terminal(directory.path(), "apply acme.yaml --prune", "n\n").await;
    assert_eq!((refused.status.code(), catalogs().await), (Some(1), 1), "{refused:?}");
    let confirmed = on_terminal(directory.path(), "apply acme.yaml --prune", "y\n").await;
    assert!(confirmed.status.success(), "{confirmed:?}");
    assert_eq!(catalogs().await, 0);
}
