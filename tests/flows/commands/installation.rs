//! The folder of an installation: created, private, missing or broken.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use super::{longshore_in, text};
use crate::support::process;

/// An installation begins with these, for its owner alone.
#[tokio::test(flavor = "multi_thread")]
async fn an_installation_begins_with_apply_or_migrate() {
    let file = tempfile::NamedTempFile::with_suffix(".yaml").expect("a file");
    std::fs::write(file.path(), "workspace: acme\n").expect("the file is written");
    let apply = ["apply", file.path().to_str().expect("a path of ASCII")];
    for arguments in [&["migrate"][..], &apply] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let output = longshore_in(directory.path(), arguments).await;
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        let data = directory.path().join("longshore-data");
        let mode = data.metadata().expect("the data directory").permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{arguments:?}");
        for entry in data.read_dir().expect("the data directory") {
            let entry = entry.expect("an entry");
            let name = entry.file_name().into_string().expect("a name of ASCII");
            let mode = entry.metadata().expect("its metadata").permissions().mode();
            if name.contains(".db") || name == "secret.key" {
                assert_eq!(mode & 0o777, 0o600, "{name} after {arguments:?}");
            }
        }
        let output = longshore_in(directory.path(), &["key", "list"]).await;
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
}

/// Those that a former release left readable to others.
#[tokio::test(flavor = "multi_thread")]
async fn databases_become_private() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let data = directory.path().join("longshore-data");
    longshore_in(directory.path(), &["migrate"]).await;
    let mode =
        |name: &str| data.join(name).metadata().expect("a database").permissions().mode() & 0o777;
    for name in ["store.db", "log.db"] {
        let open = std::fs::Permissions::from_mode(0o644);
        std::fs::set_permissions(data.join(name), open).expect("its mode is changed");
    }
    longshore_in(directory.path(), &["key", "list"]).await;
    assert_eq!((mode("store.db"), mode("log.db")), (0o600, 0o600));
}

/// Every other command names the folder that has no installation, and makes none.
#[tokio::test(flavor = "multi_thread")]
async fn a_folder_without_an_installation_is_named() {
    let file = tempfile::NamedTempFile::with_suffix(".yaml").expect("a file");
    std::fs::write(file.path(), "workspace: acme\n").expect("the file is written");
    let dry = ["apply", file.path().to_str().expect("a path of ASCII"), "--dry-run"];
    for arguments in [
        &["deliveries", "list"][..],
        &["dead-letters", "list"],
        &["catalogs", "list"],
        &["workspaces", "list"],
        &["key", "list"],
        &["signing-key", "list"],
        &["scim-token", "list"],
        &["users", "show", "nobody"],
        &["control-group", "show"],
        &["schedules", "list"],
        &["dispatches", "list"],
        &["console-log"],
        &["invalid-numbers", "list"],
        &["audit", "list"],
        &["log", "status"],
        &["processes"],
        &["history"],
        &["campaigns", "stats"],
        &["campaigns", "list"],
        &["segments", "list"],
        &["users", "find", "nobody"],
        &["cards", "ann"],
        &["messages", "ann"],
        &["sla"],
        &["import", "-"],
        &["doctor"],
        &["doctor", "--json"],
        &dry,
    ] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let output = longshore_in(directory.path(), arguments).await;
        let shown = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {shown}");
        let folder = directory.path().canonicalize().expect("a path").join("longshore-data");
        assert!(shown.contains(&folder.display().to_string()), "{arguments:?}: {shown}");
        let made = std::fs::read_dir(directory.path()).expect("the directory").count();
        assert_eq!(made, 0, "{arguments:?}");
    }
}

/// Another user than the owner of the data directory.
#[tokio::test(flavor = "multi_thread")]
async fn the_wrong_user_is_told_about_permissions() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let made = longshore_in(directory.path(), &["migrate"]).await;
    assert!(made.status.success(), "{}", text(&made.stderr));
    let data = directory.path().join("longshore-data");
    assert_eq!(data.metadata().expect("the directory").mode() & 0o777, 0o700);
    // The program, where the other user can reach it.
    let program = directory.path().join("longshore");
    std::fs::hard_link(process::BINARY, &program)
        .or_else(|_| std::fs::copy(process::BINARY, &program).map(drop))
        .expect("a program");
    std::fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).expect("a mode");
    let owner = data.metadata().expect("the directory").uid();
    let other = 65_534;
    if owner != 0 {
        // Only root can become another user. Others can lose the permission.
        std::fs::set_permissions(&data, Permissions::from_mode(0o0)).expect("a mode");
        let output = longshore_in(directory.path(), &["key", "list"]).await;
        let error = text(&output.stderr);
        assert!(error.contains("no permission to read"), "{error}");
        return std::fs::set_permissions(&data, Permissions::from_mode(0o700)).expect("a mode");
    }
    for arguments in [&["key", "list"][..], &["export", "list"], &["doctor"]] {
        let mut command = process::program("setpriv", directory.path(), &Default::default());
        command.args([format!("--reuid={other}"), "--clear-groups".to_owned()]).arg(&program);
        command.args(arguments);
        let output = process::output(command).await;
        let shown = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {shown}");
        let expected = format!("belongs to the user {owner}, and this is the user {other}");
        assert!(shown.contains("no permission to read") && shown.contains(&expected), "{shown}");
        assert!(!shown.contains("there is no installation"), "{shown}");
    }
}

/// As it is of a setting, though it is read only when it is needed.
#[tokio::test(flavor = "multi_thread")]
async fn a_broken_key_file_ends_with_the_status_of_settings() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let made = longshore_in(directory.path(), &["migrate"]).await;
    assert!(made.status.success(), "{}", text(&made.stderr));
    let data = directory.path().join("longshore-data");
    std::fs::write(data.join("secret.key"), "no key").expect("the key's file");
    for command in [&["migrate"][..], &["key", "list"]] {
        let output = longshore_in(directory.path(), command).await;
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{command:?}: {error}");
        assert!(error.contains("secret.key"), "{command:?}: {error}");
    }
}
