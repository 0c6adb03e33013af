//! What a new operator meets first: what `standalone` prints, the front page, and the first request
//! and message of `/docs`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Output, Stdio};

use regex::Regex;
use reqwest::header::ACCEPT;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::contract::CONTRACT;
use crate::support::files::{project, read};
use crate::support::fleet::{Backend, Fleet};
use crate::support::process::{self, Process, free_port};
use crate::support::{WorkspaceFile, eventually, stores};

/// A new place, and an address for the operations listener.
async fn new_place() -> (Fleet, BTreeMap<String, String>, String) {
    let fleet = Fleet::new_empty(Backend::Embedded, &[]).await;
    let ops = format!("127.0.0.1:{}", free_port());
    let mut environment = fleet.environment().clone();
    environment.insert("LONGSHORE_OPS_LISTEN".into(), ops.clone());
    let console = format!("127.0.0.1:{}", free_port());
    environment.insert("LONGSHORE_CONSOLE_LISTEN".into(), console);
    (fleet, environment, ops)
}

async fn is_ready(ops: &str) -> bool {
    let ready = reqwest::get(format!("http://{ops}/readyz")).await;
    ready.is_ok_and(|response| response.status().is_success())
}

/// The lines of `standalone` that runs in a place until it is ready and writes to a pipe or file.
async fn log_lines(
    fleet: &Fleet,
    name: &str,
    environment: &BTreeMap<String, String>,
    ops: &str,
) -> Vec<Value> {
    let mut command = process::command(fleet.directory(), environment);
    command.arg("standalone");
    let mut standalone = Process::start(name, fleet.directory(), command);
    eventually("it is ready", || async { is_ready(ops).await }).await;
    let is_reported = || async { standalone.printed().contains("standalone started") };
    eventually("it has started", is_reported).await;
    assert!(standalone.terminate().await.success());
    let printed = standalone.printed();
    fleet.assert_no_secret_in("a log", &printed);
    printed.lines().map(|line| serde_json::from_str(line).expect("a JSON object")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_terminal_the_start_is_one_log_line() {
    let (fleet, mut environment, ops) = new_place().await;
    environment.remove("LONGSHORE_LOG_FORMAT");
    let lines = log_lines(&fleet, "first", &environment, &ops).await;
    let started: Vec<_> =
        lines.iter().filter(|line| line["message"] == "standalone started").collect();
    let [started] = started[..] else { panic!("{lines:?}") };
    assert_eq!(started["api"], fleet.base());
    assert_eq!(started["docs"], format!("{}/docs", fleet.base()));
    // Without a link: logs are kept, and read by others.
    assert_eq!(started["console"], format!("http://{}/", environment["LONGSHORE_CONSOLE_LISTEN"]));
    assert_eq!(started["operations"], format!("http://{ops}"));
    assert_eq!(started["data"], environment["LONGSHORE_DATA"].as_str());
    let next = started["next"].as_str().expect("a next step");
    let command = format!("LONGSHORE_DATA='{}' longshore apply", environment["LONGSHORE_DATA"]);
    assert!(next.contains(&command), "{next}");
    assert!(lines.iter().all(|line| line["settings"].is_null()), "{lines:?}");

    // Once there is a workspace, the next step is another. The settings are shown on demand.
    fleet.apply(&[WorkspaceFile::new("acme")]).await;
    environment.insert("RUST_LOG".into(), "info,longshore=debug".into());
    let lines = log_lines(&fleet, "second", &environment, &ops).await;
    let started = lines.iter().find(|line| line["message"] == "standalone started");
    let next = started.expect("the event")["next"].as_str().expect("a next step");
    assert!(next.contains("longshore doctor"), "{next}");
    assert!(lines.iter().any(|line| line["settings"].is_string()), "{lines:?}");

    // As for every line, the operator chooses the level.
    environment.insert("RUST_LOG".into(), "warn".into());
    let mut command = process::command(fleet.directory(), &environment);
    command.arg("standalone");
    let mut quiet = Process::start("third", fleet.directory(), command);
    eventually("it is ready", || async { is_ready(&ops).await }).await;
    assert!(quiet.terminate().await.success());
    assert!(!quiet.printed().contains("standalone started"), "{}", quiet.printed());
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_terminal_the_start_is_six_lines() {
    let (fleet, mut environment, ops) = new_place().await;
    environment.remove("LONGSHORE_LOG_FORMAT");
    // `script` runs a command on a terminal of its own.
    let mut command = process::program("script", fleet.directory(), &environment);
    let line = format!("exec '{}' standalone", process::BINARY);
    command.args(["--quiet", "--return", "--command", &line, "/dev/null"]).env("SHELL", "/bin/sh");
    let mut terminal = Process::start("terminal", fleet.directory(), command);
    eventually("it is ready", || async { is_ready(&ops).await }).await;
    eventually("the lines are there", || async { terminal.printed().contains("Next  ") }).await;
    terminal.terminate().await;
    let printed = terminal.printed();
    fleet.assert_no_secret_in("a terminal", &printed);
    let lines = printed.lines().map(str::trim_end);
    let lines: Vec<&str> = lines.skip_while(|line| !line.starts_with("API ")).take(6).collect();
    let shown = |line: &str, name: &str, value: &str| {
        line.split_whitespace().next() == Some(name) && line.contains(value)
    };
    let docs = format!("{}/docs", fleet.base());
    let link = format!("http://{}/sign-in#lsl_", environment["LONGSHORE_CONSOLE_LISTEN"]);
    for (line, (name, value)) in lines.iter().copied().zip([
        ("API", fleet.base()),
        ("Reference", docs.as_str()),
        ("Console", link.as_str()),
        ("Operations", ops.as_str()),
        ("Data", environment["LONGSHORE_DATA"].as_str()),
        ("Next", "longshore apply"),
    ]) {
        assert!(shown(line, name, value), "{printed}");
    }
    assert_eq!(lines.len(), 6, "{printed}");
    assert!(!printed.contains("allow_private"), "the settings: {printed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_front_page_is_html_for_browsers_and_json_for_programs() {
    let fleet = Fleet::start(Backend::Embedded, &[]).await;
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let url = format!("{}/", fleet.base());
    let get = async |accept: Option<&str>| {
        let mut request = client.get(&url);
        if let Some(accept) = accept {
            request = request.header(ACCEPT, accept);
        }
        request.send().await.expect("a response")
    };
    for accept in [None, Some("*/*"), Some("application/json")] {
        let response = get(accept).await;
        assert_eq!(response.headers()["content-type"], "application/json", "{accept:?}");
        let varied: Vec<_> = response.headers().get_all("vary").iter().cloned().collect();
        assert!(varied.iter().any(|name| name == "accept"), "{varied:?}");
        let body = response.bytes().await.expect("a body");
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        for (name, path) in
            [("docs", "/docs"), ("openapi", "/openapi.json"), ("openapi_30", "/openapi-3.0.json")]
        {
            assert_eq!(body[name], path);
            let there = client.get(format!("{}{path}", fleet.base())).send().await;
            assert_eq!(there.expect("a response").status(), StatusCode::OK, "{path}");
        }
        let health = body["health"].as_str().expect("a text");
        let ops = &fleet.ops_addresses()[0];
        assert!(health.contains("/readyz") && health.contains(ops.as_str()), "{body}");
    }
    let page = get(Some("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")).await;
    assert_eq!(page.headers()["content-type"], "text/html; charset=utf-8");
    let policy = page.headers()["content-security-policy"].to_str().expect("ASCII");
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("http"), "{policy}");
    let page = page.text().await.expect("a text");
    for named in ["href=\"/docs\"", "href=\"/openapi.json\"", "/readyz"] {
        assert!(page.contains(named), "{page}");
    }
    // HEAD and other methods, as on every path.
    let head = client.head(&url).send().await.expect("a response");
    assert_eq!(
        (head.status(), head.headers()["content-type"].as_bytes()),
        (StatusCode::OK, &b"application/json"[..])
    );
    assert!(head.bytes().await.expect("no body").is_empty());
    let options = client.request(Method::OPTIONS, &url).send().await.expect("a response");
    assert_eq!(options.status(), StatusCode::NO_CONTENT);
    let post = client.post(&url).send().await.expect("a response");
    assert_eq!(post.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert!(post.headers().contains_key("allow"));
    fleet.close().await;
}

/// The blocks of code at the beginning of `/docs`.
fn first_steps(document: &Value) -> Vec<String> {
    let introduction = document["info"]["description"].as_str().expect("an introduction");
    let blocks = introduction.split("```sh\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap_or_default().to_owned()).collect()
}

/// What a reader of `/docs` does first, as it is written there: creates a key, a user, and a
/// message, which arrives.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_steps_of_the_reference_work() {
    let fleet = Fleet::start(Backend::Embedded, &[]).await;
    fleet.apply(&[WorkspaceFile::new("acme")]).await;
    let document = reqwest::get(format!("{}/openapi.json", fleet.base())).await;
    let document: Value =
        serde_json::from_slice(&document.expect("a response").bytes().await.expect("a document"))
            .expect("JSON");
    let steps = first_steps(&document);
    let [key, request] = &steps[..] else { panic!("{steps:?}") };
    let samples = &document["paths"]["/messages/send"]["post"]["x-codeSamples"];
    let message = samples[0]["source"].as_str().expect("a sample");

    let line = format!(
        "longshore() {{ '{}' \"$@\"; }}\n{key}\n{request}\necho\n\
         until longshore users show ann >/dev/null 2>&1; do sleep 0.2; done\n{message}\necho",
        process::BINARY
    );
    let mut command = process::program("bash", fleet.directory(), fleet.environment());
    command.args(["-c", &format!("set -euo pipefail\n{line}")]).env("no_proxy", "*");
    command.stderr(Stdio::inherit());
    let output = process::output(command).await;
    assert!(output.status.success(), "{line}");
    let printed = String::from_utf8(output.stdout).expect("a text");
    let answers: Vec<Value> =
        printed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let [tracked, sent] = &answers[..] else { panic!("{printed}") };
    assert_eq!(*tracked, json!({ "message": "success", "attributes_processed": 1 }));
    assert!(sent["message"] == "success" && sent["errors"].is_null(), "{sent}");

    let cards = "SELECT count(*) FROM content_cards";
    stores::wait_for_count(&fleet.database_url(), cards, |count| count == 1).await;
    let shown = fleet.run(&["cards", "ann", "--json"]).await;
    assert!(shown.contains("Welcome, Ann"), "{shown}");
    fleet.close().await;
}

/// The output of a command in a directory, without settings.
async fn output_in(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = process::command(directory, &BTreeMap::new());
    command.args(arguments);
    process::output(command).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_of_a_new_installation_lists_every_migration_and_creates_nothing() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let output = output_in(directory.path(), &["migrate", "--check", "--json"]).await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let check: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(check["schema"], 0, "{check}");
    let last = check["steps"].as_array().and_then(|steps| steps.last()).expect("a step");
    assert_eq!(last["version"], check["own_schema"], "{check}");
    let output = output_in(directory.path(), &["migrate", "--check"]).await;
    assert!(String::from_utf8_lossy(&output.stdout).contains("longshore migrate"), "{output:?}");
    let created = std::fs::read_dir(directory.path()).expect("the directory").count();
    assert_eq!(created, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_names_the_runbook_of_a_damaged_store() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let output = output_in(directory.path(), &["migrate"]).await;
    assert!(output.status.success(), "{output:?}");
    let data = directory.path().join("longshore-data");
    for file in ["store.db-wal", "store.db-shm"] {
        let _ = std::fs::remove_file(data.join(file));
    }
    std::fs::write(data.join("store.db"), "damaged ".repeat(1_000)).expect("the file is written");
    let output = output_in(directory.path(), &["doctor", "--json"]).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let findings = String::from_utf8_lossy(&output.stdout).into_owned();
    let findings = findings.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    let failed: Vec<Value> = findings.filter(|finding: &Value| finding["ok"] == false).collect();
    let is_named = |finding: &Value| {
        finding["fix"].as_str().is_some_and(|fix| fix.contains("restore-backup.md"))
    };
    assert!(!failed.is_empty() && failed.iter().all(is_named), "{failed:?}");
}

/// The words of a line that are the same in every run.
fn stable_words(line: &str) -> Vec<&str> {
    line.split_whitespace().filter(|word| !word.contains(|c: char| c.is_ascii_digit())).collect()
}

/// The demonstration itself, small; and the picture of it in README.md, which
/// `scripts/demo-picture` draws.
#[tokio::test(flavor = "multi_thread")]
async fn the_demo_checks_every_line_and_does_the_steps_of_its_picture() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = process::command(directory.path(), &BTreeMap::new());
    command.args(["demo", "--users", "6000"]);
    let output = process::output(command).await;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}\n{errors}");
    assert!(printed.contains("6,000"), "{printed}");

    let is_step = |line: &&str| line.contains("/7  ");
    let picture = read(project("docs/pictures/demo.svg"));
    let text = Regex::new("<text[^>]*>([^<]*)</text>").expect("a regular expression");
    let drawn: Vec<&str> =
        text.captures_iter(&picture).map(|found| found.extract::<1>().1[0]).collect();
    let steps = |lines: Vec<&str>| -> Vec<String> {
        lines.into_iter().filter(is_step).map(|line| stable_words(line).join(" ")).collect()
    };
    assert_eq!(steps(drawn), steps(printed.lines().collect()), "draw docs/pictures/demo.svg again");
}

/// The other document begins in the same way.
#[test]
fn both_documents_begin_with_the_first_steps() {
    let document = longshore::cli::reference::openapi30();
    assert_eq!(first_steps(&document).len(), 2);
    assert_eq!(first_steps(&document), first_steps(&CONTRACT.document));
}

/// Runs the program, waits for its API on IPv6, and requests a page over IPv4.
const ONLY_IPV6: &str = r#"
ip link set lo up
echo 1 > /proc/sys/net/ipv6/bindv6only
"$0" standalone >&2 &
trap 'kill $! && wait $!' EXIT
until curl -gfsS -o /dev/null http://[::1]:8080/openapi.json; do
    kill -0 $!
    sleep 0.2
done
curl -fsS -o /dev/null -w '%{http_code}' http://127.0.0.1:8080/openapi.json
"#;

/// A machine can have the setting that IPv6 sockets do not include IPv4.
#[tokio::test(flavor = "multi_thread")]
async fn every_address_includes_those_of_ipv4_where_sockets_do_not() {
    Fleet::can_mount().await;
    let (fleet, mut environment, _) = new_place().await;
    environment.insert("LONGSHORE_LISTEN".into(), "[::]:8080".into());
    environment.insert("LONGSHORE_PUBLIC_URL".into(), "http://127.0.0.1:8080".into());
    let mut command = process::program("unshare", fleet.directory(), &environment);
    command.args(["--net", "--map-root-user", "bash", "-euc", ONLY_IPV6, process::BINARY]);
    let output = process::output(command).await;
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "200", "{error}");
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_the_storage_cannot_use_is_refused_at_start() {
    let fleet = Fleet::start(Backend::Embedded, &[]).await;
    let mut environment = fleet.environment().clone();
    let url = "s3://exports?region=eu-west-1&access_key_id=id&secret_access_key=secret";
    environment.insert("LONGSHORE_OBJECTS_URL".into(), url.into());
    environment.insert("HTTPS_PROXY".into(), "socks5://ann:pass-word@127.0.0.1:1080".into());
    // The same start as that of each process.
    let mut command = process::command(fleet.directory(), &environment);
    command.args(["export", "list"]);
    let output = process::output(command).await;
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{error}");
    assert!(error.contains("HTTPS_PROXY") && !error.contains("pass-word"), "{error}");
    fleet.close().await;
}
