//! This program's own commands, run as child processes in the demo's directory.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::CommandResult;

/// Time limit for the service to become ready.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Runs a command to its end. Its output goes to `output`, or is shown if it fails.
pub async fn command(directory: &Path, arguments: &[&str], output: Option<&Path>) -> CommandResult {
    let mut command = longshore(directory)?;
    command.args(arguments).stdout(match output {
        Some(file) => File::create(file)?.into(),
        None => Stdio::piped(),
    });
    let done = tokio::task::spawn_blocking(move || command.output()).await??;
    if done.status.success() {
        return Ok(());
    }
    Err(format!(
        "longshore {} failed:\n{}{}",
        arguments.join(" "),
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    )
    .into())
}

/// This program, in `directory` and without settings from the environment.
fn longshore(directory: &Path) -> std::io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("LONGSHORE_") {
            command.env_remove(name);
        }
    }
    command.current_dir(directory).stdin(Stdio::null()).stderr(Stdio::piped());
    Ok(command)
}

/// The service, stopped when this is dropped.
pub struct Standalone {
    _process: Process,
    pub url: String,
    pub client: reqwest::Client,
}

impl Standalone {
    pub async fn start(directory: &Path) -> CommandResult<Self> {
        let log = directory.join("standalone.log");
        let child = longshore(directory)?
            // The system chooses free ports: another process may take any that is chosen here.
            .args(["standalone", "--listen", "127.0.0.1:0"])
            .env("LONGSHORE_OPS_LISTEN", "127.0.0.1:0")
            .env("LONGSHORE_CONSOLE_LISTEN", "off")
            // The callback's receiver is on this machine.
            .env("LONGSHORE_ALLOW_PRIVATE", "127.0.0.0/8")
            // The log then has the line with its addresses.
            .env("RUST_LOG", "info")
            .stdout(File::create(&log)?)
            .stderr(File::options().append(true).open(&log)?)
            .spawn()?;
        let mut process = Process(child);
        let client = reqwest::Client::builder().no_proxy().build()?;
        let begun = Instant::now();
        loop {
            if let Some(started) = Started::read(&log)
                && started.is_ready(&client).await
            {
                return Ok(Self { _process: process, url: started.api, client });
            }
            let ended = process.0.try_wait()?;
            if ended.is_some() || begun.elapsed() > TIMEOUT {
                let log = std::fs::read_to_string(&log).unwrap_or_default();
                return Err(format!("the service did not start:\n{log}").into());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// A child process, killed when this is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The log line of a start, with the addresses of the service.
#[derive(Deserialize)]
struct Started {
    api: String,
    operations: String,
}

impl Started {
    /// None: the log does not have the line yet. No other line has these fields.
    fn read(log: &Path) -> Option<Self> {
        let log = std::fs::read_to_string(log).ok()?;
        log.lines().find_map(|line| serde_json::from_str(line).ok())
    }

    async fn is_ready(&self, client: &reqwest::Client) -> bool {
        let response = client.get(format!("{}/readyz", self.operations)).send().await;
        response.is_ok_and(|response| response.status().is_success())
    }
}
