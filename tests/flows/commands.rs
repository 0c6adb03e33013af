//! The command line as an operator meets it.

mod colours;
mod json;
mod lists;
mod output;
mod waiting;

use std::os::unix::fs::PermissionsExt as _;
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

#[tokio::test(flavor = "multi_thread")]
async fn doctor_reports_healthy_systems() {
    for backend in [Backend::Embedded, Backend::Fleet(1)] {
        let fleet = Fleet::start(backend, &[]).await;
        fleet.apply(&[WorkspaceFile::new("acme")]).await;
        let found = fleet.run(&["doctor"]).await;
        let (heading, checks) = found.split_once('\n').expect("a heading");
        assert!(heading.starts_with("STATE  CHECK") && checks.lines().count() >= 3, "{found}");
        assert!(checks.lines().all(|line| line.starts_with("ok  ")), "{found}");
        fleet.close().await;
    }
}

/// As containers ask, which have no shell.
#[tokio::test(flavor = "multi_thread")]
async fn health_exits_with_the_readiness_of_the_process() {
    let mut fleet = Fleet::start(Backend::Embedded, &[]).await;
    let health = async |fleet: &Fleet| {
        let mut command = process::command(fleet.directory(), fleet.environment());
        command.env("LONGSHORE_OPS_LISTEN", &fleet.ops_addresses()[0]).arg("health");
        process::output(command).await
    };
    let output = health(&fleet).await;
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout).lines().next(), Some("ready"));
    fleet.kill("standalone");
    let output = health(&fleet).await;
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    fleet.close().await;
}

/// The lines that `doctor` fails on a server of each kind: gone, or one that never answers.
async fn doctor_fails(server: &str) -> Vec<serde_json::Value> {
    let fleet = Fleet::prepare(Backend::Fleet(1), &[], |_| {}).await;
    fleet.apply(&[WorkspaceFile::new("acme")]).await;
    let mut environment = fleet.environment().clone();
    let replaced = [
        ("LONGSHORE_DATABASE_URL", format!("postgres://u:p@{server}/longshore")),
        ("LONGSHORE_LOG_URL", format!("kafka://{server}")),
        (
            "LONGSHORE_OBJECTS_URL",
            format!(
                "s3://bucket/x?endpoint=http://{server}&region=r&path_style=true&\
                 access_key_id=a&secret_access_key=b"
            ),
        ),
    ];
    environment.extend(replaced.map(|(name, value)| (name.to_owned(), value)));
    let mut command = process::command(fleet.directory(), &environment);
    command.args(["doctor", "--json"]);
    let output = process::output(command).await;
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    let findings = shown.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    findings.filter(|finding: &serde_json::Value| finding["ok"] == false).collect()
}

/// What is read from a database that is down fails with it, and is not reported again.
#[tokio::test(flavor = "multi_thread")]
async fn doctor_reports_each_cause_once() {
    let causes = |failed: &[serde_json::Value]| -> Vec<String> {
        let causes = failed.iter().map(|finding| finding["what"].as_str().expect("a text"));
        let mut causes: Vec<String> =
            causes.flat_map(|cause| cause.split(", ")).map(str::to_owned).collect();
        causes.sort();
        causes
    };
    let refused = doctor_fails("127.0.0.1:1").await;
    assert_eq!(causes(&refused), ["database", "log", "objects"], "{refused:?}");
    let mut texts: Vec<_> = refused.iter().map(|finding| finding["text"].to_string()).collect();
    texts.dedup();
    assert_eq!(texts.len(), refused.len(), "{refused:?}");

    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = silent.local_addr().expect("an address").to_string();
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((connection, _)) = silent.accept().await {
            open.push(connection);
        }
    });
    let silent = doctor_fails(&address).await;
    assert_eq!(causes(&silent), ["database", "log", "objects"], "{silent:?}");
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
