//! Longshore as an operator runs it: real processes of the binary, alone on the embedded
//! parts, or a gateway and workers on Kafka and PostgreSQL.

use std::collections::{BTreeMap, HashSet};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

use longshore::secrets::SecretKey;
use serde_json::Value;
use tempfile::TempDir;
use uuid::Uuid;

use super::process::{self, Process};
use super::stores::Database;
use super::temporary::Temporary;
use super::{Api, WorkspaceFile, servers};

/// How long a process may take to be ready.
const PATIENCE: Duration = Duration::from_secs(180);

/// What it runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// `standalone`: the embedded log, SQLite.
    Embedded,
    /// `gateway` and so many `worker`s on Kafka and PostgreSQL.
    Fleet(usize),
}

/// Running processes that share an installation. Dropped, they are killed, and what they
/// used is removed.
pub struct Fleet {
    /// They end before what they use goes: fields are dropped in their order.
    processes: BTreeMap<String, Process>,
    directory: TempDir,
    environment: BTreeMap<String, String>,
    /// The operations listener of each process.
    ops: BTreeMap<String, u16>,
    base: String,
    /// What no log line may hold.
    secrets: Mutex<Vec<String>>,
    database: Option<Database>,
    _topics: Option<Temporary>,
}

impl Fleet {
    /// Migrates a new installation and starts its processes. `settings` are environment
    /// variables, over those of every test.
    pub async fn start(backend: Backend, settings: &[(&str, String)]) -> Self {
        let mut fleet = Self::new(backend).await;
        let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        fleet.environment.extend(settings);
        fleet.run(&["migrate"]).await;
        match backend {
            Backend::Embedded => fleet.launch("standalone").await,
            Backend::Fleet(workers) => {
                fleet.launch("gateway").await;
                for number in 1..=workers {
                    fleet.launch(&format!("worker-{number}")).await;
                }
            }
        }
        fleet
    }

    async fn new(backend: Backend) -> Self {
        servers::install_tls();
        let directory = tempfile::tempdir().expect("a temporary directory");
        let base = format!("http://127.0.0.1:{}", free_port());
        let secret_key = SecretKey::generate();
        let data = directory.path().join("data").display().to_string();
        let mut environment: BTreeMap<String, String> = [
            ("LONGSHORE_DATA", data),
            ("LONGSHORE_LISTEN", base.trim_start_matches("http://").to_owned()),
            ("LONGSHORE_PUBLIC_URL", base.clone()),
            ("LONGSHORE_SECRET_KEY", secret_key.to_string()),
            ("LONGSHORE_ALLOW_PRIVATE", "127.0.0.0/8".to_owned()),
            ("LONGSHORE_LOG_FORMAT", "text".to_owned()),
            ("LONGSHORE_LOG__PARTITIONS", "4".to_owned()),
            ("LONGSHORE_WORKER__POLL_MS", "50".to_owned()),
            ("RUST_LOG", "info,longshore=debug".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        let (mut topics, mut database) = (None, None);
        if backend != Backend::Embedded {
            let own = Database::create().await;
            let prefix = format!("test-{}.", Uuid::new_v4().simple());
            let kafka = servers::kafka();
            let objects = format!("file://{}", directory.path().join("objects").display());
            environment.extend(
                [
                    ("LONGSHORE_DATABASE_URL", own.url()),
                    ("LONGSHORE_DATABASE__MAX_CONNECTIONS", "6".to_owned()),
                    ("LONGSHORE_OBJECTS_URL", objects),
                    ("LONGSHORE_LOG_URL", format!("kafka://{kafka}")),
                    ("LONGSHORE_LOG__TOPIC_PREFIX", prefix.clone()),
                    ("LONGSHORE_LOG__REPLICATION", "1".to_owned()),
                ]
                .map(|(name, value)| (name.to_owned(), value)),
            );
            (topics, database) = (Some(Temporary::Topics(prefix)), Some(own));
        }
        Self {
            processes: BTreeMap::new(),
            directory,
            environment,
            ops: BTreeMap::new(),
            base,
            secrets: Mutex::new(vec![secret_key.to_string()]),
            database,
            _topics: topics,
        }
    }

    /// A directory that goes with the fleet.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The address of the API.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// The address of the store, for a test that looks or breaks something behind the
    /// program's back.
    pub fn database_url(&self) -> String {
        match &self.database {
            Some(database) => database.url(),
            None => format!("sqlite://{}", self.directory().join("data/store.db").display()),
        }
    }

    /// Runs a command of the binary on this installation, whatever comes of it.
    pub async fn command(&self, arguments: &[&str]) -> Output {
        let mut command = process::command(self.directory(), &self.environment);
        command.args(arguments);
        process::output(command).await
    }

    /// Runs a command that must succeed; answers what it printed.
    pub async fn run(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).await;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            output.status.success(),
            "longshore {arguments:?} ended with {}\n{}\n{}",
            output.status,
            text(&output.stdout),
            text(&output.stderr)
        );
        text(&output.stdout)
    }

    /// Applies workspaces; answers a client of each, in their order.
    pub async fn apply(&self, workspaces: &[WorkspaceFile]) -> Vec<Api> {
        let documents: Vec<String> = workspaces.iter().map(WorkspaceFile::document).collect();
        let file = self.write_file("workspaces.yaml", documents.join("\n---\n").as_bytes());
        self.run(&["apply", file.to_str().expect("a path of ASCII")]).await;
        let secrets = workspaces.iter().flat_map(WorkspaceFile::secrets);
        self.secrets.lock().expect("no test panics here").extend(secrets);
        workspaces.iter().map(|workspace| Api::new(&self.base, &workspace.key)).collect()
    }

    /// Imports records, one JSON text each.
    pub async fn import(&self, workspace: &str, records: &[String]) {
        let mut lines = records.join("\n");
        lines.push('\n');
        let name = format!("import-{}.ndjson", Uuid::new_v4().simple());
        let file = self.write_file(&name, lines.as_bytes());
        let path = file.to_str().expect("a path of ASCII");
        self.run(&["import", path, "--workspace", workspace]).await;
        std::fs::remove_file(file).expect("the file is removed");
    }

    /// The control group of a workspace, as an operator asks for it.
    pub async fn control_group(&self, workspace: &str) -> Value {
        let arguments = ["control-group", "show", "--workspace", workspace, "--json"];
        serde_json::from_str(&self.run(&arguments).await).expect("JSON")
    }

    /// The segment id of that group, under which files lie in own storage.
    pub async fn segment_id(&self, workspace: &str) -> String {
        let group = self.control_group(workspace).await;
        group["segment_id"].as_str().expect("a segment id").to_owned()
    }

    /// Writes a file beside the installation.
    pub fn write_file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let file = self.directory().join(name);
        std::fs::write(&file, bytes).expect("the file is written");
        file
    }

    /// Starts a process (`standalone`, `gateway`, `worker-1`…) and waits until it is ready.
    pub async fn launch(&mut self, name: &str) {
        self.launch_with(name, &[]).await;
        self.ready(name).await;
    }

    /// Starts a process with more variables, such as `FAILPOINTS`; does not wait.
    pub async fn launch_with(&mut self, name: &str, more: &[(&str, &str)]) {
        let ops = *self.ops.entry(name.to_owned()).or_insert_with(free_port);
        let mut command = process::command(self.directory(), &self.environment);
        command.envs(more.iter().copied());
        command.env("LONGSHORE_OPS_LISTEN", format!("127.0.0.1:{ops}"));
        command.arg(name.split('-').next().unwrap_or(name));
        let process = Process::start(name, self.directory(), command);
        self.processes.insert(name.to_owned(), process);
    }

    /// Waits until a process is ready.
    pub async fn ready(&mut self, name: &str) {
        let (client, since) = (reqwest::Client::new(), Instant::now());
        let address = format!("http://127.0.0.1:{}/readyz", self.ops[name]);
        while !client.get(&address).send().await.is_ok_and(|answer| answer.status() == 200) {
            let process = self.process(name);
            assert!(process.is_running(), "{name} has ended\n{}", process.tail());
            assert!(since.elapsed() < PATIENCE, "{name} is not ready\n{}", process.tail());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn process(&mut self, name: &str) -> &mut Process {
        self.processes.get_mut(name).unwrap_or_else(|| panic!("no process {name}"))
    }

    /// Asks a process to end (SIGTERM) and checks that it does so with status 0.
    pub async fn terminate(&mut self, name: &str) {
        let process = self.process(name);
        let status = process.terminate().await;
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

    /// Lets a stopped process go on (SIGCONT).
    pub fn go_on(&mut self, name: &str) {
        self.process(name).signal("CONT");
    }

    /// Whether a process is stopped.
    pub fn is_stopped(&self, name: &str) -> bool {
        self.system_status(name, "State").starts_with('T')
    }

    pub fn is_running(&mut self, name: &str) -> bool {
        self.process(name).is_running()
    }

    /// What the system says of a process under a name of `/proc/<pid>/status`.
    pub fn system_status(&self, name: &str, field: &str) -> String {
        self.processes[name].status(field)
    }

    /// Runs a line of shell on this installation, where `$LONGSHORE` is the binary.
    pub async fn shell(&self, line: &str) {
        let longshore = process::command(self.directory(), &self.environment);
        let mut command = std::process::Command::new("bash");
        command.args(["-c", &format!("set -euo pipefail; {line}")]).envs(&self.environment);
        command.env("LONGSHORE", longshore.get_program()).current_dir(self.directory());
        command.stderr(std::process::Stdio::inherit());
        let output = process::output(command).await;
        assert!(output.status.success(), "{line} ended with {}", output.status);
    }

    /// What a process shows at `/metrics`.
    pub async fn metrics(&self, name: &str) -> String {
        let address = format!("http://127.0.0.1:{}/metrics", self.ops[name]);
        let answer = reqwest::get(address).await.expect("the operations listener answers");
        answer.text().await.expect("metrics are text")
    }

    /// Everything that all processes printed.
    pub fn printed(&self) -> String {
        self.processes.values().map(Process::printed).collect()
    }

    /// Ends all processes as an operator does, and checks that none of them ever printed a
    /// secret, or showed one in its metrics.
    pub async fn close(mut self) {
        let names: Vec<String> = self.processes.keys().cloned().collect();
        for name in names {
            if self.process(&name).is_running() {
                self.no_secret_in(&format!("the metrics of {name}"), &self.metrics(&name).await);
                self.terminate(&name).await;
            }
        }
        self.no_secret_in("a log", &self.printed());
    }

    fn no_secret_in(&self, place: &str, text: &str) {
        let secrets = self.secrets.lock().expect("no test panics here");
        for (number, secret) in secrets.iter().enumerate() {
            if let Some(line) = text.lines().find(|line| line.contains(secret.as_str())) {
                let line = line.replace(secret.as_str(), "[SECRET]");
                panic!("secret {number} is in {place}: {line}");
            }
        }
    }
}

/// A port that nobody listens on, given once in this run, and outside of those that the
/// system gives to outgoing connections.
pub fn free_port() -> u16 {
    static GIVEN: LazyLock<Mutex<HashSet<u16>>> = LazyLock::new(Mutex::default);
    loop {
        let port = 10_000 + (Uuid::new_v4().as_u128() % 15_000) as u16;
        let is_new = GIVEN.lock().expect("no test panics here").insert(port);
        if is_new && TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
