//! Starts, stops and observes the processes of a fleet.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::super::process::{self, Process, free_port};
use super::{Fleet, ProcessUsage, TIMEOUT};

impl Fleet {
    /// Starts a process (`standalone`, `gateway`, `worker-1`…) and waits until it is ready.
    pub async fn launch(&mut self, name: &str) {
        self.launch_with(name, &[]).await;
        self.ready(name).await;
    }

    /// Starts a process with more variables, such as `FAILPOINTS`; does not wait.
    pub async fn launch_with(&mut self, name: &str, more: &[(&str, &str)]) {
        let mut command = process::command(self.directory(), &self.environment);
        command.envs(more.iter().copied());
        command.arg(name.split('-').next().unwrap_or(name));
        self.spawn(name, command);
    }

    /// Starts a worker of these roles alone and waits until it is ready.
    pub async fn launch_roles(&mut self, name: &str, roles: &str) {
        let mut command = process::command(self.directory(), &self.environment);
        command.args(["worker", "--roles", roles]);
        self.spawn(name, command);
        self.ready(name).await;
    }

    /// Starts a process with an operations listener.
    fn spawn(&mut self, name: &str, mut command: Command) {
        let ops = *self.ops.entry(name.to_owned()).or_insert_with(free_port);
        command.env("LONGSHORE_OPS_LISTEN", format!("127.0.0.1:{ops}"));
        let process = Process::start(name, self.directory(), command);
        self.processes.insert(name.to_owned(), process);
    }

    /// Waits until a process is ready.
    pub async fn ready(&mut self, name: &str) {
        let (client, since) = (reqwest::Client::new(), Instant::now());
        let address = format!("http://127.0.0.1:{}/readyz", self.ops[name]);
        while !client.get(&address).send().await.is_ok_and(|response| response.status() == 200) {
            let process = self.process(name);
            assert!(process.is_running(), "{name} has ended\n{}", process.tail());
            assert!(since.elapsed() < TIMEOUT, "{name} is not ready\n{}", process.tail());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Starts `standalone` with its data, as it is now, on a disk of its own of so many
    /// mebibytes, and waits until it is ready. Commands do not see that disk, and what is
    /// written to it goes with the process.
    pub async fn launch_on_disk(&mut self, mebibytes: u32) {
        let name = "standalone";
        let mut command = with_own_mounts(self.directory(), &self.environment);
        command.args([
            "bash",
            "-euc",
            "cp -a \"$LONGSHORE_DATA\" seed
             mount -t tmpfs -o size=$0m tmpfs \"$LONGSHORE_DATA\"
             cp -a seed/. \"$LONGSHORE_DATA\"
             exec \"$@\"",
        ]);
        command.args([&mebibytes.to_string(), process::BINARY, name]);
        self.spawn(name, command);
        self.ready(name).await;
    }

    /// Panics where this machine does not let tests mount [disks](Self::launch_on_disk).
    pub async fn can_mount() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut command = with_own_mounts(directory.path(), &BTreeMap::new());
        command.args(["mount", "-t", "tmpfs", "tmpfs", "."]);
        let output = process::output(command).await;
        assert!(
            output.status.success(),
            "this test mounts a disk of its own, and may not: {}\
             allow user namespaces (sysctl user.max_user_namespaces=10000, and on Ubuntu \
             kernel.apparmor_restrict_unprivileged_userns=0), start the container with \
             --cap-add SYS_ADMIN --security-opt apparmor=unconfined, or run the tests as root",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    /// A path as a process sees it.
    pub fn seen_by(&self, name: &str, path: &Path) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.processes[name].id()));
        root.join(path.strip_prefix("/").expect("a whole path"))
    }

    pub(super) fn process(&mut self, name: &str) -> &mut Process {
        self.processes.get_mut(name).unwrap_or_else(|| panic!("no process {name}"))
    }

    /// Asks a process to end (SIGTERM) and checks that it does so with status 0.
    pub async fn terminate(&mut self, name: &str) {
        self.process(name).signal("TERM");
        self.wait_until_terminated(name).await;
    }

    /// Waits until a process that was asked to end has done so, and checks that its status is 0.
    pub(super) async fn wait_until_terminated(&mut self, name: &str) {
        let process = self.process(name);
        let status = process.wait_until_ended().await;
        assert!(status.success(), "{name} ended with {status}\n{}", process.tail());
    }

    /// Ends a process at once (SIGKILL).
    pub fn kill(&mut self, name: &str) {
        self.process(name).kill();
    }

    /// Stops a process (SIGSTOP): it neither works nor notices that time passes.
    pub fn stop(&mut self, name: &str) {
        self.process(name).signal("STOP");
    }

    /// Lets a stopped process continue (SIGCONT).
    pub fn resume(&mut self, name: &str) {
        self.process(name).signal("CONT");
    }

    /// Whether a process is stopped.
    pub fn is_stopped(&self, name: &str) -> bool {
        self.system_status(name, "State").starts_with('T')
    }

    pub fn is_running(&mut self, name: &str) -> bool {
        self.process(name).is_running()
    }

    /// Waits until a process has ended by itself, as at a fail point.
    pub async fn wait_until_exited(&mut self, name: &str) {
        let since = Instant::now();
        while self.is_running(name) {
            assert!(since.elapsed() < TIMEOUT, "{name} goes on\n{}", self.printed());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The most memory that a process has had resident since its start or since
    /// [`reset_peak`](Self::reset_peak), in bytes.
    pub fn peak(&self, name: &str) -> u64 {
        self.processes[name].peak()
    }

    #[allow(dead_code, reason = "for benchmarks, which share this")]
    pub fn reset_peak(&self, name: &str) {
        self.processes[name].reset_peak();
    }

    /// What the system says of a process under a name of `/proc/<pid>/status`.
    pub fn system_status(&self, name: &str, field: &str) -> String {
        self.processes[name].status(field)
    }

    /// What a process's `/readyz` answers.
    pub async fn readiness(&self, name: &str) -> (u16, String) {
        self.try_readiness(name).await.expect("the operations listener answers")
    }

    /// The same of a process that may not have begun to listen.
    pub async fn try_readiness(&self, name: &str) -> Option<(u16, String)> {
        let address = format!("http://127.0.0.1:{}/readyz", self.ops[name]);
        let response = reqwest::get(address).await.ok()?;
        Some((response.status().as_u16(), response.text().await.ok()?))
    }

    /// What each process has done so far.
    pub fn process_usage(&self) -> BTreeMap<String, ProcessUsage> {
        let usage = |(name, process): (&String, &Process)| {
            let lines = process.printed().lines().count();
            (name.clone(), ProcessUsage { cpu: self.cpu(name), lines })
        };
        self.processes.iter().map(usage).collect()
    }

    /// The processor time that one that runs has used.
    pub fn cpu(&self, name: &str) -> Duration {
        self.processes[name].cpu()
    }
}

/// Runs a program, yet to be named, that can mount what only it sees: who is not root becomes
/// it in a namespace of its own.
fn with_own_mounts(directory: &Path, environment: &BTreeMap<String, String>) -> Command {
    let mut command = process::program("unshare", directory, environment);
    command.args(["--mount", "--map-root-user"]);
    command
}
