//! Longshore as an operator runs it: real processes of the binary, alone on the embedded
//! parts, or a gateway and workers on Kafka and PostgreSQL.

mod processes;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use kit::secrets::SecretKey;
use log::lag::{self, TopicLag};
use log::{Log, offsets};
use longshore::app::App;
use longshore::config::{Config, Mode};
use longshore::setup;
use longshore::topics;
use serde_json::Value;
use store::Store;
use tempfile::TempDir;
use uuid::Uuid;

use super::process::{self, Process, free_port};
use super::stores::{Database, put_migrated_store};
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

/// Changes an environment so that Kafka soon notices a worker that was killed or stopped.
pub fn notice_lost_workers(environment: &mut BTreeMap<String, String>) {
    if environment.contains_key("LONGSHORE_LOG_URL") {
        for (name, value) in [("SESSION_TIMEOUT_MS", "2000"), ("HEARTBEAT_INTERVAL_MS", "500")] {
            environment.insert(format!("LONGSHORE_LOG__KAFKA__{name}"), value.to_owned());
        }
    }
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

    /// The same, with the environment changed by `change`, such as to lead to a server
    /// through a proxy.
    pub async fn start_with(
        backend: Backend,
        settings: &[(&str, String)],
        change: impl FnOnce(&mut BTreeMap<String, String>),
    ) -> Self {
        let mut fleet = Self::prepare(backend, settings, change).await;
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
        change: impl FnOnce(&mut BTreeMap<String, String>),
    ) -> Self {
        let database = match backend {
            Backend::Embedded => None,
            Backend::Fleet(_) => Some(Database::migrated().await),
        };
        let mut fleet = Self::new(backend, settings, database);
        change(&mut fleet.environment);
        let config = fleet.config();
        if config.database.url.is_none() {
            put_migrated_store(&config.data).await;
        }
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
            ("LONGSHORE_CONSOLE_LISTEN", "off".to_owned()),
            ("LONGSHORE_SECRET_KEY", secret_key.to_string()),
            ("LONGSHORE_ALLOW_PRIVATE", "127.0.0.0/8".to_owned()),
            ("LONGSHORE_LOG_FORMAT", "text".to_owned()),
            ("LONGSHORE_LOG__PARTITIONS", "4".to_owned()),
            ("LONGSHORE_WORKER__POLL_MS", "150".to_owned()),
            // Exports fail after their attempts, unless a test is about waiting.
            ("LONGSHORE_EXPORTS__RETRY_HOURS", "0".to_owned()),
            ("LONGSHORE_EXPORTS__REFUSED_MINUTES", "0".to_owned()),
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
        let (mut fewest, mut since) = (i64::MAX, Instant::now());
        loop {
            let unapplied = unapplied_messages(&config, &store, &log).await;
            match unapplied {
                Some(0) => break,
                Some(fewer) if fewer < fewest => (fewest, since) = (fewer, Instant::now()),
                _ => assert!(since.elapsed() < TIMEOUT, "{unapplied:?} messages are not applied"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        log.close().await;
        store.close().await;
    }

    /// Applies workspaces; returns a client of each, in their order.
    pub async fn apply(&self, workspaces: &[WorkspaceFile]) -> Vec<Api> {
        self.run(&["apply", &self.write_workspaces(workspaces)]).await;
        let secrets = workspaces.iter().flat_map(WorkspaceFile::secrets);
        self.secrets.lock().expect("no test panics here").extend(secrets);
        workspaces.iter().map(|workspace| Api::new(&self.base, &workspace.key)).collect()
    }

    /// Applies workspaces, and deletes what they no longer declare.
    pub async fn prune(&self, workspaces: &[WorkspaceFile]) {
        self.run(&["apply", "--prune", "--yes", &self.write_workspaces(workspaces)]).await;
    }

    fn write_workspaces(&self, workspaces: &[WorkspaceFile]) -> String {
        let documents: Vec<String> = workspaces.iter().map(WorkspaceFile::document).collect();
        let file = self.write_file("workspaces.yaml", documents.join("\n---\n").as_bytes());
        file.to_str().expect("a path of ASCII").to_owned()
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
        let response = reqwest::get(address).await.expect("the operations listener answers");
        response.text().await.expect("metrics are text")
    }

    /// Everything that all processes printed.
    pub fn printed(&self) -> String {
        self.processes.values().map(Process::printed).collect()
    }

    /// Ends all processes as an operator does, and checks that none of them ever printed a
    /// secret, or showed one in its metrics.
    pub async fn close(mut self) {
        let mut names: Vec<String> = self.processes.keys().cloned().collect();
        names.retain(|name| self.process(name).is_running());
        for name in &names {
            self.assert_no_secret_in(&format!("the metrics of {name}"), &self.metrics(name).await);
        }
        // Side by side.
        for name in &names {
            self.process(name).signal("TERM");
        }
        for name in &names {
            self.wait_until_terminated(name).await;
        }
        self.assert_no_secret_in("a log", &self.printed());
    }

    /// Panics where one of the secrets is in a text.
    pub fn assert_no_secret_in(&self, source: &str, text: &str) {
        let secrets = self.secrets.lock().expect("no test panics here");
        for (number, secret) in secrets.iter().enumerate() {
            if let Some(line) = text.lines().find(|line| line.contains(secret.as_str())) {
                let line = line.replace(secret.as_str(), "[SECRET]");
                panic!("secret {number} is in {source}: {line}");
            }
        }
    }
}

/// Messages of tracked objects, edits and sends that are not applied; unknown until every partition
/// was assigned, or while a server does not respond.
async fn unapplied_messages(config: &Config, store: &Store, log: &Log) -> Option<i64> {
    let topics = [topics::TRACKING, topics::CATALOGS, topics::MESSAGES];
    let mut tx = store.snapshot().await.ok()?;
    let positions = offsets::positions_by_topic(&mut tx, &topics).await.ok()?;
    drop(tx);
    let partitions = config.log.partitions as usize;
    if positions.iter().any(|(_, positions)| positions.len() != partitions) {
        return None;
    }
    let lags = lag::read(log, positions).await.ok()?;
    lags.iter().map(TopicLag::behind).sum()
}
