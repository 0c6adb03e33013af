//! `longshore export run`: what it waits for, shows and verifies.

use std::process::{Command, Output};

use serde_json::Value;

use crate::support::fleet::{Backend, Fleet};
use crate::support::proxy::{Proxy, ProxyMode};
use crate::support::storage::TestStorage;
use crate::support::{Api, WorkspaceFile, process, user_records};

const USERS: usize = 7;

async fn started(backend: Backend, workspace: WorkspaceFile) -> (Fleet, Api) {
    let settings = [
        ("LONGSHORE_EXPORTS__USERS_PER_FILE", "5".to_owned()),
        ("LONGSHORE_EXPORTS__RETRY_MS", "50".to_owned()),
        ("LONGSHORE_EXPORTS__ATTEMPTS", "1000".to_owned()),
    ];
    let fleet = Fleet::start(backend, &settings).await;
    let api = fleet.apply(&[workspace]).await.remove(0);
    fleet.import("acme", &user_records::generated(USERS).await).await;
    (fleet, api)
}

/// The command, without an installation.
fn export_run(fleet: &Fleet, api: &Api, arguments: &[&str]) -> Command {
    let mut command = process::command(fleet.directory(), &Default::default());
    command.args(["export", "run", "--fields", "email", "--url", fleet.base(), "--key", api.key()]);
    command.args(["--output", "downloaded"]).args(arguments);
    command
}

fn printed(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// The object_prefix of the export.
fn requested(error: &str) -> &str {
    let line = error.lines().find_map(|line| line.strip_prefix("requested "));
    line.unwrap_or_else(|| panic!("nothing was requested: {error}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn files_in_own_storage_are_verified_where_they_are() {
    let storage = TestStorage::s3().await;
    let TestStorage::S3(s3, _) = &storage else { unreachable!() };
    let workspace = WorkspaceFile::new("acme").with_storage(&storage);
    let (fleet, api) = started(Backend::Embedded, workspace).await;
    let keys = reqwest::get(format!("{}/.well-known/longshore/acme/allowed_signers", fleet.base()));
    let keys = keys.await.expect("a response").bytes().await.expect("a body");
    let signers = fleet.write_file("allowed_signers", &keys);
    let pinned = ["--allowed-signers", signers.to_str().expect("a path of ASCII")];
    let credentials = [
        ("AWS_ACCESS_KEY_ID", s3.access_key_id.clone().expect("a key")),
        ("AWS_SECRET_ACCESS_KEY", s3.secret_access_key.clone().expect("a key")),
    ];
    for arguments in [&[][..], &pinned] {
        let mut command = export_run(&fleet, &api, arguments);
        let output = process::output({
            command.envs(credentials.clone());
            command
        })
        .await;
        let (out, error) = printed(&output);
        assert!(output.status.success(), "{error}");
        assert!(error.contains("verified: 7 users in 2 files"), "{error}");
        assert_eq!(error.contains("not pinned"), arguments.is_empty(), "{error}");
        // Where they are, as the status has it.
        let location = api.status(requested(&error)).await["location"].take();
        assert_eq!(Value::from(out.trim_end()), location);
        assert!(out.starts_with(&format!("s3://{}/segment-export/", s3.bucket)), "{out}");
        assert!(error.contains(out.trim_end()), "{error}");
    }
    // Without credentials, it says that it did not verify; with keys, that is an error.
    let none = [("AWS_ACCESS_KEY_ID", "nobody"), ("AWS_SECRET_ACCESS_KEY", "nothing")];
    for (arguments, status) in [(&[][..], 0), (&pinned, 1)] {
        let mut command = export_run(&fleet, &api, arguments);
        let output = process::output({
            command.envs(none);
            command
        })
        .await;
        let (_, error) = printed(&output);
        assert_eq!(output.status.code(), Some(status), "{error}");
        assert!(error.contains("not verified: "), "{error}");
    }
    // A key of somebody else.
    let other = kit::sshsig::PrivateKey::from_seed(&[7; 32]).public_key();
    let other = fleet.write_file("other_signers", format!("acme {other}\n").as_bytes());
    let arguments = ["--allowed-signers", other.to_str().expect("a path of ASCII")];
    let mut command = export_run(&fleet, &api, &arguments);
    let output = process::output({
        command.envs(credentials);
        command
    })
    .await;
    let (_, error) = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("the files are not the export:\n"), "{error}");
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_download_is_verified_with_the_given_keys() {
    let (fleet, api) = started(Backend::Embedded, WorkspaceFile::new("acme")).await;
    let other = kit::sshsig::PrivateKey::from_seed(&[7; 32]).public_key();
    let other = fleet.write_file("other_signers", format!("acme {other}\n").as_bytes());
    let arguments = ["--allowed-signers", other.to_str().expect("a path of ASCII")];
    let output = process::output(export_run(&fleet, &api, &arguments)).await;
    let (_, error) = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("the download is not the export:\n"), "{error}");
    // A file that is missing is found before the request.
    let output = process::output(export_run(&fleet, &api, &["--allowed-signers", "nothing"])).await;
    let (_, error) = printed(&output);
    assert!(output.status.code() == Some(2) && !error.contains("requested"), "{error}");
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_with_the_same_key_follows_the_same_export() {
    let (mut fleet, api) = started(Backend::Fleet(1), WorkspaceFile::new("acme")).await;
    fleet.stop("worker-1");
    let arguments = ["--idempotency-key", "nightly-1", "--timeout", "1s"];
    let output = process::output(export_run(&fleet, &api, &arguments)).await;
    let (_, first) = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{first}");
    let prefix = requested(&first).to_owned();
    let last = first.lines().last().expect("an error");
    assert!(last.contains("--timeout has passed: the export continues; "), "{first}");
    fleet.resume("worker-1");
    let arguments = ["--idempotency-key", "nightly-1", "--timeout", "5m"];
    let output = process::output(export_run(&fleet, &api, &arguments)).await;
    let (out, second) = printed(&output);
    assert!(output.status.success(), "{second}");
    assert_eq!(requested(&second), prefix);
    assert!(out.contains(&prefix), "{out}");
    let output = process::output(export_run(&fleet, &api, &[])).await;
    assert_ne!(requested(&printed(&output).1), prefix);
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_error_of_the_storage_is_shown_while_it_lasts() {
    let storage = TestStorage::s3().await;
    let proxy = Proxy::to(storage.endpoint()).await;
    let workspace = WorkspaceFile::new("acme").with_storage(&storage.at(&proxy.endpoint()));
    let (fleet, api) = started(Backend::Embedded, workspace).await;
    proxy.set(ProxyMode::Closed);
    let output = process::output(export_run(&fleet, &api, &["--timeout", "15s"])).await;
    let (_, error) = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{error}");
    let status = api.status(requested(&error)).await;
    let text = status["error"].as_str().expect("an error");
    let line = format!("the export retries: {text}");
    assert_eq!(error.lines().filter(|shown| **shown == line).count(), 1, "{error}");
    proxy.set(ProxyMode::Open);
    fleet.close().await;
}
