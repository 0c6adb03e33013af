//! This program's own commands, run as child processes in the demo's directory.

use std::fs::File;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

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

/// The service as a child process, stopped when this is dropped.
pub struct Standalone {
    child: Child,
    pub url: String,
    pub client: reqwest::Client,
}

impl Standalone {
    pub async fn start(directory: &Path) -> CommandResult<Self> {
        let (api, ops) = (free_port()?, free_port()?);
        let log = directory.join("standalone.log");
        let child = longshore(directory)?
            .args(["standalone", "--listen", &format!("127.0.0.1:{api}")])
            .env("LONGSHORE_OPS_LISTEN", format!("127.0.0.1:{ops}"))
            .env("LONGSHORE_CONSOLE_LISTEN", "off")
            // The callback's receiver is on this machine.
            .env("LONGSHORE_ALLOW_PRIVATE", "127.0.0.0/8")
            .stdout(File::create(&log)?)
            .stderr(File::options().append(true).open(&log)?)
            .spawn()?;
        let client = reqwest::Client::builder().no_proxy().build()?;
        let mut server = Self { child, url: format!("http://127.0.0.1:{api}"), client };
        let ready = format!("http://127.0.0.1:{ops}/readyz");
        let begun = Instant::now();
        while !server
            .client
            .get(&ready)
            .send()
            .await
            .is_ok_and(|response| response.status().is_success())
        {
            let ended = server.child.try_wait()?;
            if ended.is_some() || begun.elapsed() > TIMEOUT {
                let log = std::fs::read_to_string(&log).unwrap_or_default();
                return Err(format!("the service did not start:\n{log}").into());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(server)
    }
}

impl Drop for Standalone {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
