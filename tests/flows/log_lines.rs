//! Log lines, as a real process writes them to a pipe: nobody who logs waits for who reads.

use std::io::Read as _;
use std::process::{Child, Stdio};
use std::time::Duration;

use reqwest::StatusCode;

use crate::support::eventually;
use crate::support::fleet::{Backend, Fleet};
use crate::support::process::{self, free_port};

/// `standalone` with a pipe for its log lines, which nobody reads yet.
struct Standalone {
    child: Child,
    fleet: Fleet,
    ops: String,
}

impl Standalone {
    async fn start(filter: &str) -> Self {
        let fleet = Fleet::new_empty(Backend::Embedded, &[]).await;
        let ops = format!("127.0.0.1:{}", free_port());
        let mut environment = fleet.environment().clone();
        environment.insert("LONGSHORE_OPS_LISTEN".into(), ops.clone());
        environment.insert("LONGSHORE_LOG_FORMAT".into(), "json".into());
        environment.insert("RUST_LOG".into(), filter.into());
        let mut command = process::command(fleet.directory(), &environment);
        command.arg("standalone").stdout(Stdio::null()).stderr(Stdio::piped());
        let child = command.spawn().expect("the binary starts");
        let standalone = Self { child, fleet, ops };
        eventually("it is ready", || async { standalone.ready().await }).await;
        standalone
    }

    async fn ready(&self) -> bool {
        let answer = reqwest::get(format!("http://{}/readyz", self.ops)).await;
        answer.is_ok_and(|answer| answer.status().is_success())
    }

    /// A call without a key.
    async fn call(&self) -> StatusCode {
        let url = format!("{}/users/track", self.fleet.base());
        reqwest::Client::new().post(url).send().await.expect("an answer").status()
    }

    /// How many lines were dropped.
    async fn dropped(&self) -> u64 {
        let metrics = reqwest::get(format!("http://{}/metrics", self.ops)).await.expect("metrics");
        let metrics = metrics.text().await.expect("a text");
        let line = metrics.lines().find(|line| line.starts_with("longshore_log_lines_dropped"));
        let (_, count) = line.and_then(|line| line.split_once(' ')).expect("it is counted");
        count.parse().expect("a number")
    }

    fn terminate(&self) {
        let id = self.child.id().to_string();
        let sent = std::process::Command::new("kill").args(["-s", "TERM", &id]).status();
        assert!(sent.expect("kill runs").success());
    }

    /// Ends the process, and returns its log lines.
    async fn lines(&mut self) -> Vec<serde_json::Value> {
        let mut stderr = self.child.stderr.take().expect("a pipe");
        self.terminate();
        let read = tokio::task::spawn_blocking(move || {
            let mut text = String::new();
            stderr.read_to_string(&mut text).map(|_| text)
        });
        let text = read.await.expect("it is read").expect("lines are text");
        assert!(self.child.wait().expect("its status").success());
        text.lines().map(|line| serde_json::from_str(line).expect("a whole line")).collect()
    }
}

impl Drop for Standalone {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unread_pipe_does_not_block_the_process() {
    let mut standalone = Standalone::start("trace").await;
    eventually("lines are dropped", || async {
        assert_eq!(standalone.call().await, 401);
        standalone.dropped().await > 0
    })
    .await;
    for _ in 0..100 {
        assert_eq!(standalone.call().await, 401);
    }
    // It ends, too.
    standalone.terminate();
    let ended = async {
        loop {
            if let Some(status) = standalone.child.try_wait().expect("it can be asked for") {
                break status;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let status = tokio::time::timeout(Duration::from_secs(180), ended).await.expect("it ends");
    assert!(status.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_lines_are_written_before_the_end() {
    let mut standalone = Standalone::start("info").await;
    // More than a pipe takes.
    for _ in 0..400 {
        assert_eq!(standalone.call().await, 401);
    }
    let lines = standalone.lines().await;
    let messages: Vec<&str> = lines.iter().filter_map(|line| line["message"].as_str()).collect();
    assert!(messages.contains(&"starting"));
    assert_eq!(messages.iter().filter(|message| **message == "answered").count(), 400);
    assert!(messages.contains(&"stopped"), "{:?}", messages.last());
    assert!(!messages.iter().any(|message| message.contains("log lines dropped")));
}

/// The filter of `docs/how-to/monitor.md`.
#[tokio::test(flavor = "multi_thread")]
async fn lines_for_requests_can_be_turned_off() {
    let page = include_str!("../../docs/how-to/monitor.md");
    let filter = page.lines().find_map(|line| line.strip_prefix("RUST_LOG="));
    let mut standalone = Standalone::start(filter.expect("a filter")).await;
    assert_eq!(standalone.call().await, 401);
    let lines = standalone.lines().await;
    assert!(lines.iter().any(|line| line["message"] == "starting"), "{lines:?}");
    assert!(!lines.iter().any(|line| line["message"] == "answered"), "{lines:?}");
}
