//! Longshore as an operator runs it: real processes of the binary, alone on the embedded
//! parts, or a gateway and workers on Kafka and PostgreSQL.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use kit::secrets::SecretKey;
use log::{Log, offsets, stop_reason};
use longshore::app::App;
use longshore::config::{Config, Mode};
use longshore::setup;
use longshore::topics;
use serde_json::Value;
use store::Store;
use tempfile::TempDir;
use uuid::Uuid;

use super::process::{self, Process, free_port};
use super::stores::Database;
use super::temporary::Temporary;
use super::{Api, WorkspaceFile, servers};

/// How long a process may take to be ready.
const TIMEOUT: Duration = Duration::from_secs(180);

/// What it runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// `standalone`: the embedded log, SQLite.
    Embedded,
    /// `gateway` and so many `worker`s on Kafka and PostgreSQL.
    Fleet(usize),
}

impl Backend {
    /// The names of its processes.
    fn processes(self) -> Vec<String> {
        match self {
            Self::Embedded => vec!["standalone".to_owned()],
            Self::Fleet(workers) => {
                let workers = (1..=workers).map(|number| format!("worker-{number}"));
                std::iter::once("gateway".to_owned()).chain(workers).collect()
            }
        }
    }
}

/// Runs commands of the binary on an installation.
#[derive(Clone)]
pub struct Operator {
    directory: PathBuf,
    environment: BTreeMap<String, String>,
}

impl Operator {
    /// Runs one, whatever its result.
    pub async fn command(&self, arguments: &[&str]) -> Output {
        let mut command = process::command(&self.directory, &self.environment);
        command.args(arguments);
        process::output(command).await
    }
}

/// What a process has done.
#[derive(Clone, Copy, Debug)]
pub struct ProcessUsage {
    /// Processor time.
    pub cpu: Duration,
    /// Lines printed.
    pub lines: usize,
}

/// Running processes that share an installation. Dropped, they are killed, and what they
/// used is removed.
pub struct Fleet {
    backend: Backend,
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
        Self::start_with(backend, settings, |_| {}).await
    }

    /// The same, with the environment changed by `lead`, such as to lead the way to a server
    /// through a proxy.
    pub async fn start_with(
        backend: Backend,
        settings: &[(&str, String)],
        lead: impl FnOnce(&mut BTreeMap<String, String>),
    ) -> Self {
        let mut fleet = Self::prepare(backend, settings, lead).await;
        fleet.launch_all(None).await;
        fleet
    }

    /// Starts its processes, side by side, and waits until they are ready. `failing` is one of
    /// them and its fail points.
    pub async fn launch_all(&mut self, failing: Option<(&str, &str)>) {
        for name in self.backend.processes() {
            let failpoints = failing.filter(|(failing, _)| *failing == name);
            let more = failpoints.map(|(_, failpoints)| ("FAILPOINTS", failpoints));
            self.launch_with(&name, more.as_slice()).await;
        }
        for name in self.backend.processes() {
            self.ready(&name).await;
        }
    }

    /// The same without its processes, for what is set up before [`launch_all`](Self::launch_all).
    pub async fn prepare(
        backend: Backend,
        settings: &[(&str, String)],
        lead: impl FnOnce(&mut BTreeMap<String, String>),
    ) -> Self {
        let database = match backend {
            Backend::Embedded => None,
            Backend::Fleet(_) => Some(Database::migrated().await),
        };
        let mut fleet = Self::new(backend, settings, database);
        lead(&mut fleet.environment);
        fleet.set_up().await;
        fleet
    }

    /// What `longshore migrate` does, in this process; the database has its schema already.
    async fn set_up(&self) {
        let app = App::open(self.config()).await.expect("all opens");
        setup::run(&app).await.expect("it becomes an installation");
        app.log.close().await;
        app.store.close().await;
    }

    /// A new place for an installation: nothing is in it, and nothing runs.
    pub async fn new_empty(backend: Backend, settings: &[(&str, String)]) -> Self {
        let database = match backend {
            Backend::Embedded => None,
            Backend::Fleet(_) => Some(Database::create().await),
        };
        Self::new(backend, settings, database)
    }

    fn new(backend: Backend, settings: &[(&str, String)], database: Option<Database>) -> Self {
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
            ("LONGSHORE_WORKER__POLL_MS", "150".to_owned()),
            ("RUST_LOG", "info".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        let mut topics = None;
        if let Some(database) = &database {
            let prefix = format!("test-{}.", Uuid::new_v4().simple());
            let kafka = servers::kafka();
            let objects = format!("file://{}", directory.path().join("objects").display());
            environment.extend(
                [
                    ("LONGSHORE_DATABASE_URL", database.url()),
                    ("LONGSHORE_DATABASE__MAX_CONNECTIONS", "6".to_owned()),
                    ("LONGSHORE_OBJECTS_URL", objects),
                    ("LONGSHORE_LOG_URL", format!("kafka://{kafka}")),
                    ("LONGSHORE_LOG__TOPIC_PREFIX", prefix.clone()),
                    ("LONGSHORE_LOG__REPLICATION", "1".to_owned()),
                ]
                .map(|(name, value)| (name.to_owned(), value)),
            );
            topics = Some(Temporary::Topics(prefix));
        }
        let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        environment.extend(settings);
        Self {
            backend,
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

    /// What its processes are started with.
    pub fn environment(&self) -> &BTreeMap<String, String> {
        &self.environment
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

    /// The settings of its processes.
    pub fn config(&self) -> Config {
        let environment = self.environment.iter().map(|(name, value)| (name.into(), value.into()));
        Config::load(None, environment, Mode::Command).expect("the settings serve")
    }

    /// The log, for a test that looks into it next to the program.
    pub async fn log(&self) -> Log {
        longshore::app::open_log(&self.config()).await.expect("the log opens")
    }

    /// Runs a command of the binary on this installation, whatever its result.
    pub async fn command(&self, arguments: &[&str]) -> Output {
        self.operator().command(arguments).await
    }

    /// Runs commands independently of the processes.
    pub fn operator(&self) -> Operator {
        Operator { directory: self.directory().to_owned(), environment: self.environment.clone() }
    }

    /// Runs a command that must succeed; returns what it printed.
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

    /// Waits until everything in the log is applied: no longer than [`TIMEOUT`] for less to
    /// be left.
    pub async fn applied(&self) {
        let config = self.config();
        let store = longshore::app::connect(&config).await.expect("the store opens");
        let log = longshore::app::open_log(&config).await.expect("the log opens");
        let (mut least, mut since) = (i64::MAX, Instant::now());
        loop {
            let behind = behind(&config, &store, &log).await;
            match behind {
                Some(0) => break,
                Some(fewer) if fewer < least => (least, since) = (fewer, Instant::now()),
                _ => assert!(since.elapsed() < TIMEOUT, "{behind:?} messages are not applied"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        log.close().await;
        store.close().await;
    }

    /// Applies workspaces; returns a client of each, in their order.
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

    /// Writes a file next to the installation.
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
        while !client.get(&address).send().await.is_ok_and(|answer| answer.status() == 200) {
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
        let answer = reqwest::get(address).await.ok()?;
        Some((answer.status().as_u16(), answer.text().await.ok()?))
    }

    /// What each process has done so far.
    pub fn process_usage(&self) -> BTreeMap<String, ProcessUsage> {
        let effort = |(name, process): (&String, &Process)| {
            let lines = process.printed().lines().count();
            (name.clone(), ProcessUsage { cpu: self.cpu(name), lines })
        };
        self.processes.iter().map(effort).collect()
    }

    /// The processor time that one that runs has used.
    pub fn cpu(&self, name: &str) -> Duration {
        self.processes[name].cpu()
    }

    /// Runs a line of shell on this installation, where `$LONGSHORE` is the binary.
    pub async fn shell(&self, line: &str) {
        let mut command = process::program("bash", self.directory(), &self.environment);
        command.args(["-c", &format!("set -euo pipefail; {line}")]);
        command.env("LONGSHORE", process::BINARY).stderr(Stdio::inherit());
        let output = process::output(command).await;
        assert!(output.status.success(), "{line} ended with {}", output.status);
    }

    /// Where the operations listeners of its processes are.
    pub fn ops_addresses(&self) -> Vec<String> {
        self.ops.values().map(|port| format!("127.0.0.1:{port}")).collect()
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
                self.assert_no_secret_in(
                    &format!("the metrics of {name}"),
                    &self.metrics(&name).await,
                );
                self.terminate(&name).await;
            }
        }
        self.assert_no_secret_in("a log", &self.printed());
    }

    /// Panics where one of the secrets is in a text.
    pub fn assert_no_secret_in(&self, place: &str, text: &str) {
        let secrets = self.secrets.lock().expect("no test panics here");
        for (number, secret) in secrets.iter().enumerate() {
            if let Some(line) = text.lines().find(|line| line.contains(secret.as_str())) {
                let line = line.replace(secret.as_str(), "[SECRET]");
                panic!("secret {number} is in {place}: {line}");
            }
        }
    }
}

/// Messages of tracked objects, edits and sends that are not applied; unknown until every partition was assigned,
/// or while a server does not answer.
async fn behind(config: &Config, store: &Store, log: &Log) -> Option<i64> {
    let mut behind = 0;
    for topic in [topics::TRACKING, topics::CATALOGS, topics::MESSAGES] {
        let mut tx = store.snapshot().await.ok()?;
        let places = offsets::positions(&mut tx, topic).await.ok()?;
        drop(tx);
        if places.len() != config.log.partitions as usize {
            return None;
        }
        let topic_offsets = log.topic_offsets(topic).await.ok()?;
        for place in places {
            let range =
                topic_offsets.ranges.iter().find(|range| range.partition == place.partition)?;
            let can_go_on = stop_reason(&place, &topic_offsets).is_none();
            behind += can_go_on.then_some(range.end - place.next)?;
        }
    }
    Some(behind)
}

/// Runs a program, yet to be named, that can mount what only it sees: who is not root becomes
/// it in a namespace of its own.
fn with_own_mounts(directory: &Path, environment: &BTreeMap<String, String>) -> Command {
    let mut command = process::program("unshare", directory, environment);
    command.args(["--mount", "--map-root-user"]);
    command
}
