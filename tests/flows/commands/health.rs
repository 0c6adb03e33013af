//! The commands that check a running system: `doctor` and `health`.

use serde_json::Value;
use tokio::net::TcpListener;

use super::text;
use crate::support::fleet::{Backend, Fleet};
use crate::support::process;
use crate::support::workspace::WorkspaceFile;

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
async fn doctor_fails(server: &str) -> Vec<Value> {
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
    findings.filter(|finding: &Value| finding["ok"] == false).collect()
}

/// What is read from a database that is down fails with it, and is not reported again.
#[tokio::test(flavor = "multi_thread")]
async fn doctor_reports_each_cause_once() {
    let causes = |failed: &[Value]| -> Vec<String> {
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
