//! The command line as an operator meets it.

mod colours;
mod health;
mod installation;
mod json;
mod lists;
mod output;
mod secrets;
mod waiting;

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::support::eventually;
use crate::support::fleet::{Backend, Fleet};
use crate::support::process::{self, Process};
use crate::support::workspace::WorkspaceFile;

async fn longshore(arguments: &[&str]) -> Output {
    let directory = tempfile::tempdir().expect("a temporary directory");
    longshore_in(directory.path(), arguments).await
}

async fn longshore_in(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = process::command(directory, &Default::default());
    command.args(arguments);
    process::output(command).await
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The names below `Commands:` of a help text, `help` left out.
fn commands_of(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    lines
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

/// Every command, and every command of a command, has a help text with an example.
#[tokio::test(flavor = "multi_thread")]
async fn every_command_has_a_help_text_with_an_example() {
    let help = longshore(&["--help"]).await;
    assert!(help.status.success());
    let mut wanted: Vec<Vec<String>> =
        commands_of(&text(&help.stdout)).into_iter().map(|name| vec![name]).collect();
    assert!(wanted.len() >= 15, "{wanted:?}");
    while let Some(path) = wanted.pop() {
        let mut arguments: Vec<&str> = path.iter().map(String::as_str).collect();
        arguments.push("--help");
        let help = longshore(&arguments).await;
        let shown = text(&help.stdout);
        assert!(help.status.success(), "{path:?}");
        assert!(shown.contains("Example"), "{path:?} has no example:\n{shown}");
        let names = commands_of(&shown).into_iter();
        wanted.extend(names.map(|name| [path.clone(), vec![name]].concat()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_commands_exit_with_an_error() {
    for arguments in [
        &["nothing-like-it"][..],
        &["apply", "no-such-file.yaml"],
        &["import", "no-such-file.ndjson"],
        &["control-group", "show"],
        &["users", "show", "nobody"],
        &[
            "export",
            "cancel",
            "unknown-1",
            "--url",
            "http://127.0.0.1:1",
            "--key",
            "a key of nobody",
        ],
    ] {
        let output = longshore(arguments).await;
        assert!(!output.status.success(), "{arguments:?}");
        assert!(!output.stderr.is_empty(), "{arguments:?} says nothing");
        assert!(!text(&output.stderr).contains("panicked"), "{}", text(&output.stderr));
    }
}

/// A template is checked as a request checks it, and rendered for a user.
#[tokio::test(flavor = "multi_thread")]
async fn templates_are_checked_and_rendered_before_they_are_sent() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
    let run = |arguments: &'static [&'static str]| longshore_in(directory.path(), arguments);
    write("acme.yaml", "workspace: acme\n");
    write("users.ndjson", r#"{"external_id":"ann","first_name":"Ann","home_city":"Oslo"}"#);
    for arguments in [&["apply", "acme.yaml"][..], &["import", "users.ndjson"]] {
        let output = run(arguments).await;
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    }
    write(
        "hello.liquid",
        "Hello {{${first_name}}} of {{${city}}}, {{api_trigger_properties.${n}}}\n",
    );
    write("name.liquid", "a\n  {{${frist_name}}}\n");
    write("tag.liquid", "{% if true %}");
    write("aborts.liquid", "{% abort_message('not today') %}");
    write("extras.liquid", "x{% message_extras :key city :value {{${home_city}}} %}");

    let output = run(&["template", "check", "hello.liquid", "aborts.liquid"]).await;
    assert!(output.status.success(), "{}", text(&output.stderr));
    let output = run(&["template", "check", "hello.liquid", "name.liquid", "tag.liquid"]).await;
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(errors.contains("name.liquid:2:5: ") && errors.contains("${first_name}"), "{errors}");
    assert!(errors.contains("tag.liquid:1:1: ") && !errors.contains("hello.liquid"), "{errors}");

    let output = run(&[
        "template",
        "render",
        "hello.liquid",
        "--user",
        "ann",
        "--workspace",
        "acme",
        "--trigger-properties",
        r#"{"n":"number 7"}"#,
    ])
    .await;
    assert_eq!(text(&output.stdout), "Hello Ann of Oslo, number 7\n", "{}", text(&output.stderr));
    assert!(output.status.success());
    let output = run(&["template", "render", "extras.liquid", "--user", "ann"]).await;
    assert_eq!(text(&output.stdout), "x");
    assert!(text(&output.stderr).contains(r#"{"city":"Oslo"}"#), "{}", text(&output.stderr));
    for (file, user, named) in [
        ("name.liquid", "ann", "name.liquid:2:5: "),
        ("aborts.liquid", "ann", "not today"),
        ("hello.liquid", "nobody", "nobody"),
        ("none.liquid", "ann", "none.liquid"),
    ] {
        let mut command = process::command(directory.path(), &Default::default());
        command.args(["template", "render", file, "--user", user]);
        let output = process::output(command).await;
        assert_eq!(output.status.code(), Some(1), "{file}");
        assert!(output.stdout.is_empty() && text(&output.stderr).contains(named), "{file}");
    }
}

/// What Kubernetes sets for a Service called `longshore` is no setting.
#[tokio::test(flavor = "multi_thread")]
async fn variables_of_a_kubernetes_service_are_ignored_with_one_warning() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let service = [
        ("LONGSHORE_PORT", "tcp://10.96.0.7:80"),
        ("LONGSHORE_SERVICE_HOST", "10.96.0.7"),
        ("LONGSHORE_SERVICE_PORT", "80"),
        ("LONGSHORE_SERVICE_PORT_HTTP", "80"),
        ("LONGSHORE_PORT_80_TCP", "tcp://10.96.0.7:80"),
        ("LONGSHORE_PORT_80_TCP_ADDR", "10.96.0.7"),
        ("LONGSHORE_PORT_80_TCP_PORT", "80"),
        ("LONGSHORE_PORT_80_TCP_PROTO", "tcp"),
    ];
    let mut command = process::command(directory.path(), &Default::default());
    command.arg("migrate").envs(service);
    let output = process::output(command).await;
    let error = text(&output.stderr);
    assert!(output.status.success(), "{error}");
    assert_eq!(error.lines().filter(|line| line.contains("LONGSHORE_")).count(), 1, "{error}");

    let mut command = process::command(directory.path(), &Default::default());
    command.arg("migrate").envs(service).env("LONGSHORE_SERVICE_HOTS", "10.96.0.7");
    let output = process::output(command).await;
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("LONGSHORE_SERVICE_HOTS"));
}

/// Settings, fields of the workspace file and options.
#[tokio::test(flavor = "multi_thread")]
async fn misspelt_names_are_answered_with_a_suggestion() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let in_directory = |arguments: &[&str], setting: Option<&str>| {
        let mut command = process::command(directory.path(), &Default::default());
        command.args(arguments);
        command.envs(setting.map(|name| (name, "1")));
        process::output(command)
    };
    let file = directory.path().join("acme.yaml");
    std::fs::write(&file, "workspace: acme\ncontrol_grup: {percent: 5}\n").expect("written");
    for (arguments, setting, meant) in [
        (&["migrate"][..], Some("LONGSHORE_DATABSE_URL"), "LONGSHORE_DATABASE_URL"),
        (&["migrate"], Some("LONGSHORE_WORKER__LEASE_SM"), "LONGSHORE_WORKER__LEASE_MS"),
        (&["apply", "acme.yaml"], None, "did you mean control_group?"),
        (&["apply", "acme.yaml", "--dryrun"], None, "--dry-run"),
        (&["doctr"], None, "doctor"),
    ] {
        let output = in_directory(arguments, setting).await;
        let error = text(&output.stderr);
        assert!(!output.status.success(), "{arguments:?}");
        assert!(error.contains(meant), "{arguments:?}: {error}");
    }
    // A field that stands one level too high.
    std::fs::write(&file, "workspace: acme\ncontrol_group:\npercent: 5\n").expect("written");
    let error = text(&in_directory(&["apply", "acme.yaml"], None).await.stderr);
    assert!(error.contains("line 3") && error.contains("indentation"), "{error}");
    assert!(!directory.path().join("longshore-data").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_cannot_work_does_not_start() {
    for (arguments, named) in [
        (&["gateway"][..], &["LOG_URL", "DATABASE_URL", "OBJECTS_URL", "PUBLIC_URL"][..]),
        (&["worker"], &["LOG_URL", "DATABASE_URL", "OBJECTS_URL", "PUBLIC_URL"]),
        (&["standalone", "--listen", "0.0.0.0:8080"], &["PUBLIC_URL"]),
        (&["export", "list", "--url", "localhost:8080", "--key", "a\nkey"], &["URL", "KEY"]),
    ] {
        let output = longshore(arguments).await;
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        for name in named {
            assert!(error.contains(&format!("LONGSHORE_{name}")), "{arguments:?}: {error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_service_is_named() {
    let arguments = ["export", "list", "--url", "http://127.0.0.1:1", "--key", "a key of nobody"];
    let error = text(&longshore(&arguments).await.stderr);
    for part in ["cannot reach http://127.0.0.1:1 ", "refused", "standalone", "--url"] {
        assert!(error.contains(part), "{part} is missing in: {error}");
    }
}

/// As with `longshore doctor | head -1`.
#[tokio::test(flavor = "multi_thread")]
async fn a_closed_pipe_ends_the_command() {
    let fleet = Fleet::prepare(Backend::Embedded, &[], |_| {}).await;
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = process::command(fleet.directory(), fleet.environment());
    command.arg("doctor").stdout(writer);
    let output = process::output(command).await;
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(141), String::new()));
}

/// The host behind a redirect is named, and not only the one that was asked.
#[tokio::test(flavor = "multi_thread")]
async fn the_host_that_failed_behind_a_redirect_is_named() {
    let gone = format!("http://127.0.0.1:{}", process::free_port());
    // A gateway whose downloads lead to a storage that only it can reach.
    let redirecting = {
        let location = format!("{gone}/bucket/archive.zip");
        let router = axum::Router::new().route(
            "/users/export/{prefix}/download",
            axum::routing::get(move || {
                std::future::ready((
                    axum::http::StatusCode::FOUND,
                    [("location", location.clone())],
                ))
            }),
        );
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        tokio::spawn(async move { axum::serve(listener, router).await });
        address
    };
    let settings = [("LONGSHORE_PUBLIC_URL", redirecting.clone())];
    let fleet = Fleet::start(Backend::Embedded, &settings).await;
    let api = fleet.apply(&[WorkspaceFile::new("acme")]).await.remove(0);
    let output = fleet.directory().join("fetched");
    let mut command = process::command(fleet.directory(), &Default::default());
    command.args(["export", "run", "--fields", "email", "--url", fleet.base()]);
    command.args(["--key", api.key(), "--output"]).arg(&output);
    let shown = process::output(command).await;
    let error = text(&shown.stderr);
    assert_eq!(shown.status.code(), Some(1), "{error}");
    let last = error.lines().last().expect("an error");
    for part in [&gone, &redirecting, "redirect"] {
        assert!(last.contains(part), "{part} is missing in: {last}");
    }
    fleet.close().await;
}

/// Ended while the file is fetched: leaves only the folder in which a download continues, and
/// prints the command.
#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_fetch_can_be_continued() {
    let stuck = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let public = format!("http://{}", stuck.local_addr().expect("an address"));
    let fleet = Fleet::start(Backend::Embedded, &[("LONGSHORE_PUBLIC_URL", public)]).await;
    let api = fleet.apply(&[WorkspaceFile::new("acme")]).await.remove(0);
    let output = fleet.directory().join("fetched");
    let mut command = process::command(fleet.directory(), &Default::default());
    command.args(["export", "run", "--fields", "email", "--url", fleet.base()]);
    command.args(["--key", api.key(), "--output"]).arg(&output);
    let mut export = Process::start("export", fleet.directory(), command);
    let download = tokio::time::timeout(Duration::from_secs(180), stuck.accept()).await;
    let (mut connection, _) = download.expect("a request in time").expect("a connection");
    assert_ne!(connection.read(&mut [0; 4_096]).await.expect("a request is read"), 0);
    let half = b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf";
    connection.write_all(half).await.expect("half an answer is sent");
    let files = || std::fs::read_dir(&output).expect("a directory").count();
    eventually("a download is begun", || async { files() == 1 }).await;
    assert_eq!(export.terminate().await.code(), Some(130));
    assert!(export.printed().contains("to continue: longshore"), "{}", export.printed());
    assert_eq!(files(), 1, "only the folder in which it continues");
    fleet.close().await;
}
