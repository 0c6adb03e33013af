//! Every setting: one struct per concern, each field with its unit and default.
//!
//! Settings come from a TOML file (`--config FILE`, or `longshore.toml` in the working
//! directory) and the environment over it. Unknown names and impossible combinations
//! are refused at start, all at once.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use figment::providers::{Format as _, Serialized, Toml};
use figment::{Figment, value::Dict};
use ipnet::IpNet;
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use url::Url;

use crate::retry::Retry;
use crate::secrets::SecretKey;

/// All settings, as loaded and checked.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The data directory (`LONGSHORE_DATA`).
    pub data: PathBuf,
    /// What download addresses begin with (`LONGSHORE_PUBLIC_URL`); the gateway's own
    /// address when absent.
    pub public_url: Option<Url>,
    /// 32 bytes in base64 (`LONGSHORE_SECRET_KEY`): encrypts stored credentials and signs
    /// download addresses. Made once in the data directory when absent; required on a
    /// shared database.
    #[serde(skip_serializing)]
    pub secret_key: Option<SecretString>,
    /// The former key, still read while keys are rotated (`LONGSHORE_SECRET_KEY_OLD`).
    #[serde(skip_serializing)]
    pub secret_key_old: Option<SecretString>,
    /// Networks that callbacks may reach although they are private
    /// (`LONGSHORE_ALLOW_PRIVATE`, CIDRs with commas between).
    pub allow_private: Vec<IpNet>,
    /// Addresses whose `X-Forwarded-For` is believed (`LONGSHORE_TRUSTED_PROXIES`).
    pub trusted_proxies: Vec<IpNet>,
    /// `text` or `json` (`LONGSHORE_LOG_FORMAT`); text on a terminal, else JSON.
    pub log_format: Option<LogFormat>,
    pub database: Database,
    pub log: Log,
    pub objects: Objects,
    pub gateway: Gateway,
    pub ops: Ops,
    pub worker: Worker,
    pub exports: Exports,
    pub deliveries: Deliveries,
}

/// The store of rows.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Database {
    /// `sqlite://FILE` or `postgres://…` (`LONGSHORE_DATABASE_URL`); by default
    /// `store.db` in the data directory.
    #[serde(skip_serializing)]
    pub url: Option<SecretString>,
    /// Connections that this process opens at most.
    pub max_connections: u32,
}

/// The log of messages.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// `embedded`, or `kafka://host:port,host:port` (`LONGSHORE_LOG_URL`).
    pub url: String,
    /// Partitions of each topic, used by the first `migrate` and fixed from then on.
    pub partitions: u32,
    /// Topic names begin with this, so that installations can share a cluster.
    pub topic_prefix: String,
    /// Copies of each partition that `migrate` asks of a Kafka cluster.
    pub replication: u16,
    /// Days that consumed messages of the embedded log are kept.
    pub keep_days: u32,
    /// Milliseconds that an append may take before its call is answered 503.
    pub append_timeout_ms: u64,
    /// Any librdkafka property, given to producers and consumers as it is.
    #[serde(default, skip_serializing)]
    pub kafka: BTreeMap<String, String>,
}

/// Where exports without own storage are built.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Objects {
    /// `file:///DIR`, `s3://bucket/prefix?endpoint=…&region=…` or
    /// `azure://container/prefix?account=…` (`LONGSHORE_OBJECTS_URL`); by default files
    /// in the data directory. May carry credentials in its query, so it is never logged.
    #[serde(skip_serializing)]
    pub url: Option<SecretString>,
}

/// The API's listener.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gateway {
    /// `LONGSHORE_LISTEN`.
    pub listen: SocketAddr,
    /// Largest body of a request, in bytes.
    pub max_body_bytes: usize,
    /// Seconds that a client may take to send the head of a request, and then its body.
    pub request_timeout_seconds: u64,
}

/// The operations listener: `/healthz`, `/readyz`, `/metrics`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ops {
    /// `LONGSHORE_OPS_LISTEN`.
    pub listen: SocketAddr,
}

/// How a worker takes work.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Worker {
    /// Milliseconds that a claimed row stays with a worker that is not heard of; a worker
    /// at work renews at a third of it.
    pub lease_ms: u64,
    /// Milliseconds between looks for claimable rows while idle.
    pub poll_ms: u64,
    /// Seconds that a stopping worker may take to finish what is under way.
    pub drain_seconds: u64,
    /// Messages of one consumer under way at once.
    pub messages_in_flight: usize,
}

/// Exports.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exports {
    /// Users in a file (Delivery rules of the export: "one file per 5,000 users").
    pub users_per_file: u32,
    /// Parts of one worker under way at once; as many as there are processors when 0.
    pub parts_in_flight: usize,
    /// Bytes of users' data that one worker holds in memory at once.
    pub memory_bytes: usize,
    /// Tries of planning, of a part or of finishing before the job fails.
    pub attempts: u32,
    /// Milliseconds of the first pause between tries; it doubles from there.
    pub retry_ms: u64,
    /// Minutes that a download address is valid once its export is ready.
    pub download_minutes: u64,
    /// Seconds that a queued job may wait before its message is appended again; longer each
    /// time that its planning came to no end.
    pub requeue_seconds: u64,
    /// Hours after a job's end for which what must not be there is removed again.
    pub cleanup_hours: u64,
}

/// Callbacks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deliveries {
    /// Requests of one worker under way at once.
    pub in_flight: usize,
    /// Requests to one receiver under way at once, over the fleet.
    pub per_receiver: u32,
    /// Hours after which a delivery is given up.
    pub retry_hours: u64,
    /// Milliseconds of the first pause between tries; it doubles from there, to an hour.
    pub retry_ms: u64,
    /// Seconds that a receiver may take to be connected to.
    pub connect_seconds: u64,
    /// Seconds that a receiver may take in all.
    pub timeout_seconds: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    Text,
    Json,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data: PathBuf::from("./longshore-data"),
            public_url: None,
            secret_key: None,
            secret_key_old: None,
            allow_private: Vec::new(),
            trusted_proxies: Vec::new(),
            log_format: None,
            database: Database { url: None, max_connections: 16 },
            log: Log {
                url: "embedded".into(),
                partitions: 64,
                topic_prefix: "longshore.".into(),
                replication: 3,
                keep_days: 3,
                append_timeout_ms: 10_000,
                kafka: BTreeMap::new(),
            },
            objects: Objects { url: None },
            gateway: Gateway {
                listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
                max_body_bytes: 4 << 20,
                request_timeout_seconds: 30,
            },
            ops: Ops { listen: SocketAddr::from(([127, 0, 0, 1], 9100)) },
            worker: Worker {
                lease_ms: 30_000,
                poll_ms: 500,
                drain_seconds: 25,
                messages_in_flight: 16,
            },
            exports: Exports {
                users_per_file: 5_000,
                parts_in_flight: 0,
                memory_bytes: 96 << 20,
                attempts: 10,
                retry_ms: 1_000,
                download_minutes: 240,
                requeue_seconds: 30,
                cleanup_hours: 24,
            },
            deliveries: Deliveries {
                in_flight: 32,
                per_receiver: 4,
                retry_hours: 24,
                retry_ms: 5_000,
                connect_seconds: 5,
                timeout_seconds: 15,
            },
        }
    }
}

/// The environment's short names, and the settings they stand for. Every other setting
/// is `LONGSHORE_<SECTION>__<NAME>`, as in `LONGSHORE_WORKER__LEASE_MS`.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("LONGSHORE_DATA", "data"),
    ("LONGSHORE_PUBLIC_URL", "public_url"),
    ("LONGSHORE_SECRET_KEY", "secret_key"),
    ("LONGSHORE_SECRET_KEY_OLD", "secret_key_old"),
    ("LONGSHORE_ALLOW_PRIVATE", "allow_private"),
    ("LONGSHORE_TRUSTED_PROXIES", "trusted_proxies"),
    ("LONGSHORE_LOG_FORMAT", "log_format"),
    ("LONGSHORE_DATABASE_URL", "database.url"),
    ("LONGSHORE_LOG_URL", "log.url"),
    ("LONGSHORE_OBJECTS_URL", "objects.url"),
    ("LONGSHORE_LISTEN", "gateway.listen"),
    ("LONGSHORE_OPS_LISTEN", "ops.listen"),
];

/// Names that the environment may hold beside settings: what commands read, and what
/// scripts and tests are told.
const BESIDE: &[&str] = &[
    "LONGSHORE_CONFIG",
    "LONGSHORE_KEY",
    "LONGSHORE_URL",
    "LONGSHORE_TEST_",
    "LONGSHORE_SERVICES_",
];

/// Lists, which the environment writes with commas between.
const LISTS: &[&str] = &["allow_private", "trusted_proxies"];

/// Everything that is wrong with the settings.
#[derive(Debug, thiserror::Error)]
pub struct ConfigError {
    pub problems: Vec<String>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the settings cannot be used:")?;
        self.problems.iter().try_for_each(|problem| write!(f, "\n  - {problem}"))
    }
}

impl Retry for ConfigError {}

/// What the settings are for: some are impossible for a fleet and fine alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One process with everything in it, or a command beside it.
    Standalone,
    /// One process of several: nothing may live inside a single one.
    Fleet,
}

impl Config {
    /// Reads the file (`file`, or `longshore.toml` where it exists) and the environment
    /// over it.
    pub fn load(file: Option<&Path>) -> Result<Self, ConfigError> {
        Self::load_from(file, std::env::vars())
    }

    /// [`load`](Self::load) with an environment given.
    pub fn load_from(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        let mut problems = Vec::new();
        let mut figment = Figment::from(Serialized::defaults(Config::default()));
        match file {
            Some(file) if !file.is_file() => {
                problems.push(format!("--config {}: no such file", file.display()));
            }
            Some(file) => figment = figment.merge(Toml::file_exact(file)),
            None if Path::new("longshore.toml").is_file() => {
                figment = figment.merge(Toml::file_exact("longshore.toml"));
            }
            None => {}
        }
        let mut known = Dict::new();
        for (name, value) in environment {
            if !name.starts_with("LONGSHORE_") || BESIDE.iter().any(|b| name.starts_with(b)) {
                continue;
            }
            match setting_of(&name) {
                Some(path) => nest(&mut known, &path, environment_value(&path, &value)),
                None => problems.push(format!("{name}: no such setting")),
            }
        }
        figment = figment.merge(Serialized::defaults(known));
        match figment.extract::<Config>() {
            Ok(config) => {
                problems.extend(config.impossible());
                if problems.is_empty() {
                    return Ok(config);
                }
            }
            Err(error) => problems.extend(error.into_iter().map(|error| error.to_string())),
        }
        Err(ConfigError { problems })
    }

    /// What makes these settings impossible for `mode`; a fleet's processes share nothing
    /// that lives inside one of them.
    pub fn check(&self, mode: Mode) -> Result<(), ConfigError> {
        let mut problems = Vec::new();
        if mode == Mode::Fleet {
            if self.log.url == "embedded" {
                problems.push(
                    "log.url (LONGSHORE_LOG_URL) is embedded, which only `standalone` can use: \
                     give kafka://host:port"
                        .to_owned(),
                );
            }
            if !self.database_url().starts_with("postgres") {
                problems.push(
                    "database.url (LONGSHORE_DATABASE_URL) is SQLite, which only `standalone` can \
                     use: give postgres://…"
                        .to_owned(),
                );
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(ConfigError { problems }) }
    }

    fn impossible(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut refuse = |bad: bool, what: &str| {
            if bad {
                problems.push(what.to_owned());
            }
        };
        let database = self.database_url();
        let shared = database.starts_with("postgres://") || database.starts_with("postgresql://");
        refuse(
            !shared && !database.starts_with("sqlite:"),
            "database.url (LONGSHORE_DATABASE_URL): sqlite://FILE or postgres://… is meant",
        );
        refuse(
            shared && self.secret_key.is_none(),
            "secret_key (LONGSHORE_SECRET_KEY) is required on a shared database: 32 bytes in \
             base64, the same for every process (make one with: openssl rand -base64 32)",
        );
        refuse(
            self.log.url != "embedded" && !self.log.url.starts_with("kafka://"),
            "log.url (LONGSHORE_LOG_URL): embedded or kafka://host:port,… is meant",
        );
        if let Some(key) = &self.secret_key {
            let old = self.secret_key_old.as_ref().map(|old| old.expose_secret());
            if let Err(error) = SecretKey::parse(key.expose_secret(), old) {
                refuse(true, &format!("secret_key (LONGSHORE_SECRET_KEY): {error}"));
            }
        }
        refuse(
            self.public_url.as_ref().is_some_and(|url| !matches!(url.scheme(), "http" | "https")),
            "public_url (LONGSHORE_PUBLIC_URL): an http or https address is meant",
        );
        refuse(
            self.gateway.listen == self.ops.listen && self.ops.listen.port() != 0,
            "ops.listen (LONGSHORE_OPS_LISTEN) is the API's own listener: operations never share it",
        );
        refuse(
            self.gateway.request_timeout_seconds == 0,
            "gateway.request_timeout_seconds: at least 1",
        );
        refuse(!(1..=1024).contains(&self.log.partitions), "log.partitions: 1 to 1024");
        refuse(self.log.replication == 0, "log.replication: at least 1");
        refuse(self.database.max_connections < 4, "database.max_connections: at least 4");
        refuse(self.worker.lease_ms < 500, "worker.lease_ms: at least 500");
        refuse(self.worker.poll_ms == 0, "worker.poll_ms: at least 1");
        refuse(self.worker.messages_in_flight == 0, "worker.messages_in_flight: at least 1");
        refuse(
            !(1..=100_000).contains(&self.exports.users_per_file),
            "exports.users_per_file: 1 to 100,000",
        );
        refuse(self.exports.attempts == 0, "exports.attempts: at least 1");
        refuse(self.deliveries.in_flight == 0, "deliveries.in_flight: at least 1");
        refuse(
            !(1..=8_760).contains(&self.deliveries.retry_hours),
            "deliveries.retry_hours: 1 to 8,760",
        );
        refuse(self.deliveries.connect_seconds == 0, "deliveries.connect_seconds: at least 1");
        refuse(self.deliveries.timeout_seconds == 0, "deliveries.timeout_seconds: at least 1");
        refuse(self.deliveries.per_receiver == 0, "deliveries.per_receiver: at least 1");
        problems
    }

    /// The database's address, with its default filled in. Holds a password: for
    /// connecting, never for printing.
    pub fn database_url(&self) -> String {
        match &self.database.url {
            Some(url) => url.expose_secret().to_owned(),
            None => format!("sqlite://{}", self.data.join("store.db").display()),
        }
    }

    /// The objects' address, with its default filled in; never for printing.
    pub fn objects_url(&self) -> String {
        match &self.objects.url {
            Some(url) => url.expose_secret().to_owned(),
            None => {
                let data = std::path::absolute(&self.data).unwrap_or_else(|_| self.data.clone());
                let objects = data.join("objects");
                // Encoded, so that no name of a directory reads as something else.
                Url::from_file_path(&objects)
                    .map_or_else(|()| objects.display().to_string(), String::from)
            }
        }
    }

    /// What download addresses begin with, without a slash at the end. `listening` is the
    /// address that the gateway got.
    pub fn public_base(&self, listening: SocketAddr) -> String {
        match &self.public_url {
            Some(url) => url.as_str().trim_end_matches('/').to_owned(),
            None => format!("http://{listening}"),
        }
    }

    /// The secret key: as set, else read from the data directory, else made there once
    /// with mode 0600.
    pub fn secret_key(&self) -> Result<SecretKey, ConfigError> {
        let file = self.data.join("secret.key");
        let problem = |text: String| ConfigError { problems: vec![text] };
        let current = match &self.secret_key {
            Some(key) => key.expose_secret().to_owned(),
            None => read_or_make_key(&file)
                .map_err(|error| problem(format!("{}: {error}", file.display())))?,
        };
        let old = self.secret_key_old.as_ref().map(|old| old.expose_secret());
        SecretKey::parse(&current, old)
            .map_err(|error| problem(format!("{}: {error}", file.display())))
    }

    /// How long a claimed row stays with a worker.
    pub fn lease(&self) -> Duration {
        Duration::from_millis(self.worker.lease_ms)
    }
}

fn read_or_make_key(file: &Path) -> std::io::Result<String> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    if let Some(directory) = file.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let made = SecretKey::generate();
    // Written whole under another name and linked: of two processes that start together
    // one wins, and neither reads half a key.
    let draft = file.with_extension(format!("{}.new", std::process::id()));
    if !file.exists() {
        let mut new = std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&draft)?;
        new.write_all(made.as_bytes())?;
        new.sync_all()?;
        let linked = std::fs::hard_link(&draft, file);
        std::fs::remove_file(&draft)?;
        match linked {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    std::fs::read_to_string(file)
}

/// The path of the setting that an environment name stands for.
fn setting_of(name: &str) -> Option<String> {
    if let Some((_, path)) = ENVIRONMENT.iter().find(|(short, _)| *short == name) {
        return Some((*path).to_owned());
    }
    let (section, field) = name.strip_prefix("LONGSHORE_")?.split_once("__")?;
    Some(format!("{}.{}", section.to_lowercase(), field.to_lowercase()))
}

fn environment_value(path: &str, text: &str) -> figment::value::Value {
    if LISTS.contains(&path) {
        let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
        return items.map(String::from).collect::<Vec<_>>().into();
    }
    // Numbers and booleans only where the setting has a section: the others are texts.
    match text.parse::<u64>() {
        Ok(number) if path.contains('.') => number.into(),
        _ => text.to_owned().into(),
    }
}

fn nest(dict: &mut Dict, path: &str, value: figment::value::Value) {
    match path.split_once('.') {
        None => {
            dict.insert(path.to_owned(), value);
        }
        Some((head, rest)) => {
            let inner = dict.entry(head.to_owned()).or_insert_with(|| Dict::new().into());
            if let figment::value::Value::Dict(_, inner) = inner {
                nest(inner, rest, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(environment: &[(&str, &str)]) -> Result<Config, ConfigError> {
        Config::load_from(None, environment.iter().map(|(n, v)| ((*n).into(), (*v).into())))
    }

    #[test]
    fn defaults_can_be_used() {
        let config = load(&[]).unwrap();
        assert_eq!(config.log.url, "embedded");
        assert!(config.check(Mode::Standalone).is_ok());
    }

    #[test]
    fn the_environment_goes_over_the_defaults() {
        let config = load(&[
            ("LONGSHORE_LISTEN", "0.0.0.0:9000"),
            ("LONGSHORE_ALLOW_PRIVATE", "10.0.0.0/8, 127.0.0.1/32"),
            ("LONGSHORE_WORKER__LEASE_MS", "2000"),
            ("HOME", "/somewhere"),
        ])
        .unwrap();
        assert_eq!(config.gateway.listen.port(), 9000);
        assert_eq!(config.allow_private.len(), 2);
        assert_eq!(config.worker.lease_ms, 2000);
    }

    #[test]
    fn all_that_is_wrong_is_said_at_once() {
        let error = load(&[
            ("LONGSHORE_LISTNE", "x"),
            ("LONGSHORE_WORKER__LEASE_MS", "1"),
            ("LONGSHORE_LOG_URL", "redis://x"),
            ("LONGSHORE_DATABASE_URL", "postgres://u:hidden@h/d"),
        ])
        .unwrap_err();
        let text = error.to_string();
        for part in ["LONGSHORE_LISTNE", "lease_ms", "LONGSHORE_LOG_URL", "LONGSHORE_SECRET_KEY"] {
            assert!(text.contains(part), "{part} is missing in: {text}");
        }
        assert!(!text.contains("hidden"));
        assert!(load(&[("LONGSHORE_WORKER__NAP", "1")]).unwrap_err().to_string().contains("nap"));
    }

    #[test]
    fn a_fleet_cannot_share_what_lives_in_one_process() {
        let error = load(&[]).unwrap().check(Mode::Fleet).unwrap_err().to_string();
        assert!(error.contains("LONGSHORE_LOG_URL") && error.contains("LONGSHORE_DATABASE_URL"));
    }

    #[test]
    fn secrets_are_not_printed() {
        let config = load(&[
            ("LONGSHORE_DATABASE_URL", "postgres://u:hidden@h/d"),
            ("LONGSHORE_SECRET_KEY", &SecretKey::generate()),
        ])
        .unwrap();
        assert!(!format!("{config:?}").contains("hidden"));
        assert!(!serde_json::to_string(&config).unwrap().contains("hidden"));
    }
}
