//! Every setting: one struct per concern, each field with its unit and default.
//!
//! Settings come from a TOML file (`--config FILE`, or `longshore.toml` in the working directory),
//! overridden by the environment ([`load`](Config::load)). Unknown names and impossible
//! combinations are rejected at the start, all together.

mod check;
pub mod console;
mod data;
mod load;
pub mod network;

pub use load::{Origin, ShownSetting, is_setting, variable};

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use schemars::JsonSchema;
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use url::Url;

use kit::retry::Retry;

/// All settings, as loaded and checked.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The data directory.
    pub data: PathBuf,
    /// The URL at which clients reach the gateways. Download and unsubscribe URLs begin with it.
    /// Required in a fleet, on gateways and workers, and for a `standalone` that listens on every
    /// address (`0.0.0.0` or `[::]`). The default is `http://` and `gateway.listen`. It is enough for
    /// downloads on this machine, but not for unsubscribe URLs, which need an `https` URL that the
    /// recipients of emails can reach. Set it before the first email is sent.
    #[schemars(with = "Option<String>")]
    pub public_url: Option<Url>,
    /// 32 bytes in base64. Encrypts stored credentials and signs download and unsubscribe URLs.
    /// Required with PostgreSQL, the same for every process. The default is `secret.key` in the
    /// data directory, created once.
    #[serde(skip_serializing)]
    #[schemars(with = "Option<String>")]
    pub secret_key: Option<SecretString>,
    /// The previous secret key, 32 bytes in base64. Data that it encrypted or signed stays
    /// readable. Needed only while the key is rotated.
    #[serde(skip_serializing)]
    #[schemars(with = "Option<String>")]
    pub secret_key_old: Option<SecretString>,
    /// Private networks that callbacks, status postbacks, notifications, webhooks and messages to
    /// providers may reach. A list of addresses and CIDRs; in the environment, separated by commas.
    #[serde(deserialize_with = "load::networks")]
    #[schemars(with = "Vec<String>")]
    pub allow_private: Vec<IpNet>,
    /// Proxies whose `X-Forwarded-For` header is trusted. A list of addresses and CIDRs; in the
    /// environment, separated by commas.
    #[serde(deserialize_with = "load::networks")]
    #[schemars(with = "Vec<String>")]
    pub trusted_proxies: Vec<IpNet>,
    /// Format of log lines: `text` or `json`. The default is `text` on a terminal and `json`
    /// elsewhere.
    pub log_format: Option<LogFormat>,
    pub database: Database,
    pub log: log::Settings,
    pub objects: Objects,
    pub gateway: Gateway,
    pub ops: Ops,
    pub console: console::Console,
    pub worker: Worker,
    pub exports: Exports,
    pub deliveries: Deliveries,
    pub messages: Messages,
    pub transactional: Transactional,
    pub smtp: Smtp,
    pub traces: Traces,
    /// Warnings for the operator about these settings. Not a setting.
    #[serde(skip)]
    pub warnings: Vec<String>,
}

/// The database.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Database {
    /// `sqlite://FILE` or `postgres://…`, with one host, which must lead to the primary. The
    /// default is `store.db` in the data directory.
    #[serde(skip_serializing)]
    #[schemars(with = "Option<String>")]
    pub url: Option<SecretString>,
    /// Maximum number of connections that this process opens, at least 4. Connections that wake
    /// workers are not counted.
    pub max_connections: u32,
    /// Additional PostgreSQL connections that only transactional emails use, at least 1. They are
    /// opened when needed.
    pub transactional_connections: u32,
}

/// The storage where exports without own storage are built.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Objects {
    /// Where exports without own storage are built: `file:///DIR`,
    /// `s3://bucket/prefix?endpoint=…&region=…` or `azure://container/prefix?account=…`. Required
    /// in a fleet, where `file://` must be a volume that all machines share. The default is
    /// `objects` in the data directory. The query can carry credentials, so the value is never
    /// logged. `HTTPS_PROXY` of the environment must be an `http://` or `https://` proxy.
    #[serde(skip_serializing)]
    #[schemars(with = "Option<String>")]
    pub url: Option<SecretString>,
}

/// The API's listener.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Gateway {
    /// Address on which the API listens. With port 0, the system chooses a free port at each start.
    #[schemars(with = "String")]
    pub listen: SocketAddr,
    /// Largest body of a request, in bytes.
    pub max_body_bytes: usize,
    /// Memory of one gateway for request bodies, in bytes, at least `gateway.max_body_bytes`. A
    /// body is held until its data is durable. A request that finds no free memory waits for a
    /// second and then gets 503. One workspace may hold at most as much as it leaves free, so it
    /// cannot take the memory of other workspaces.
    pub memory_bytes: usize,
    /// Memory of one gateway for senders who have not yet shown a valid key, token or signature, in
    /// bytes, at least 1,048,576. One half is for heads of requests that have not arrived yet, 16
    /// KiB each: for a new head, the gateway closes the oldest one of the address with the most.
    /// The other half is for bodies of reports whose signature is not checked yet: a report that
    /// finds no free memory gets 503. One address (for IPv6, one /64 network) gets at most an
    /// eighth of each half. That is also the largest body of a report, counting a compressed body
    /// and its decompressed form together.
    pub unauthenticated_bytes: usize,
    /// Requests that one gateway handles at the same time, 1 to 1,000,000. A further request gets
    /// 503 with `Retry-After` immediately. One workspace gets at most as many as it leaves free.
    /// The same holds for all reports together whose signature is not checked yet; one address gets
    /// at most a sixteenth.
    pub requests_in_flight: usize,
    /// Connections of one gateway at the same time, 1 to 1,000,000. At most half of them may be
    /// without a valid key, token or signature: for a new one, the gateway closes the oldest one of
    /// the address with the most. If all are in use, the gateway closes the longest idle connection
    /// of the workspace with the most idle ones. If none is idle, new connections wait in the
    /// system's queue. Each connection is a file descriptor; a process raises its own limit to the
    /// hard limit. At most an eighth may be event streams of exports, which count as idle.
    pub connections: usize,
    /// Seconds that a client may take to send the head of a request, and again to send its body.
    /// An idle connection is kept for as long.
    pub request_timeout_seconds: u64,
}

impl Gateway {
    /// Bytes for heads of unauthenticated requests, and as many for their bodies.
    pub fn unauthenticated_memory(&self) -> usize {
        self.unauthenticated_bytes / 2
    }

    /// The largest unauthenticated body: the share of one sender.
    pub fn unauthenticated_body_limit(&self) -> usize {
        self.max_body_bytes.min(self.unauthenticated_memory() / 8)
    }
}

/// The operations listener: `/healthz`, `/readyz`, `/metrics`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ops {
    /// Address of the operations listener: `/healthz`, `/readyz` and `/metrics`.
    #[schemars(with = "String")]
    pub listen: SocketAddr,
    /// Seconds between two reads of the fleet's work by a gateway, for `/metrics`, 1 to 3,600.
    /// Above 200, the alert `LongshoreDatabaseUnavailable` can fire although the database responds.
    pub watch_seconds: u64,
}

/// Settings of workers.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Worker {
    /// Lease of claimed work, in milliseconds, at least 500. If a worker does not renew it, another
    /// worker takes over the work. A live worker renews it after a third of that time.
    pub lease_ms: u64,
    /// Milliseconds between two polls of an idle worker that notifications do not reach. A worker
    /// that they reach polls ten times less often.
    pub poll_ms: u64,
    /// Seconds that a process may take to stop. Keep it 5 seconds below the limit of the
    /// supervisor.
    pub drain_seconds: u64,
    /// Threads of one process (worker or gateway) that parse, project, compress and render for one
    /// workspace at the same time, at most 1,024; for all workspaces together twice as many.
    /// Transactional emails have the same number of separate threads. 0 means one for each
    /// processor, or the CPU quota of the container.
    pub compute_threads: usize,
    /// Exports of one workspace that one worker plans at the same time, at most a quarter of
    /// `database.max_connections`; of all workspaces together twice as many. The plan of a segment
    /// reads all users, and holds a connection to the database meanwhile.
    pub messages_in_flight: usize,
    /// Batches of tracked objects, and batches of catalog edits, that one worker applies at the
    /// same time, each from a different partition.
    pub batches_in_flight: usize,
    /// Maximum number of messages in a batch, 1 to 100,000. A batch with more than 8,000 objects,
    /// or that changes more than 8 MiB of profiles and activity, is applied in pieces.
    pub batch_messages: usize,
    /// Size at which a batch is full, in bytes, 1 to 67,108,864. On SQLite at most 262,144 are
    /// used.
    pub batch_bytes: usize,
}

/// Exports.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Exports {
    /// Maximum number of users in a file, 1 to 500,000, unless a request sets its own.
    pub users_per_file: u32,
    /// Parts of one workspace that one worker exports at the same time. All workspaces together get
    /// twice as many. 0 means two for each compute thread.
    pub parts_in_flight: usize,
    /// Memory of one worker for users' data, in bytes. A part needs up to 48 MiB. A larger file is
    /// built in pieces. The parts of one workspace leave 48 MiB to others.
    pub memory_bytes: usize,
    /// Attempts at planning, at a part, or at finishing, before the export fails, 1 to 9,999. Attempts
    /// that wait for a storage do not count.
    pub attempts: u32,
    /// First pause between attempts, in milliseconds. It doubles with each attempt, up to a minute.
    pub retry_ms: u64,
    /// Hours for which an export waits for a storage that is unavailable, before it fails, at most
    /// 8,760. They begin again with each file that is written after a failure. 0: the failures count
    /// as attempts. If you set more than 168, set it for gateways, too, and pin the signing keys
    /// again: their `valid-after` is as many hours before their creation.
    pub retry_hours: u64,
    /// Minutes for which an export waits for a storage that refuses its requests, such as
    /// credentials that are not valid, at most 525,600. 0: the export fails immediately.
    pub refused_minutes: u64,
    /// Minutes for which a download URL is valid after its export is done.
    pub download_minutes: u64,
    /// Seconds after which a waiting export is planned even if its message did not arrive.
    pub requeue_seconds: u64,
    /// Hours after the end of an export during which its leftover files are deleted again. If the
    /// storage refuses deletions, workers try for twice as long, from the expiry of the ZIP if that
    /// is later, and then leave the files.
    pub cleanup_hours: u64,
    /// Days for which an export is kept after its end, 1 to 3,650. Without own storage, they begin
    /// with the expiry of its download URL. An export is kept longer while workers delete its
    /// leftover files. Files in own storage stay.
    pub keep_days: u32,
}

/// Callbacks.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Deliveries {
    /// Deliveries (callbacks, status postbacks and notifications) of one workspace that one worker
    /// sends at the same time. All workspaces together get twice as many.
    pub in_flight: usize,
    /// Deliveries to one receiver (scheme, host and port) at the same time, over the whole fleet.
    /// One workspace gets one fewer of them, but at least one, so that its slow deliveries do not
    /// delay those of others.
    pub per_receiver: u32,
    /// Hours after which a delivery is given up, 1 to 8,760.
    pub retry_hours: u64,
    /// First pause between attempts, in milliseconds. It doubles with each attempt, up to an hour.
    pub retry_ms: u64,
    /// Seconds that connecting to a receiver may take. It gets at most half of
    /// `deliveries.timeout_seconds`.
    pub connect_seconds: u64,
    /// Seconds that a request to a receiver may take altogether. It applies to webhooks and
    /// providers of messages, too.
    pub timeout_seconds: u64,
}

/// Messages to users.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Messages {
    /// Users in a part of a send to a segment, an audience or all users, 1 to 100,000.
    pub part_users: u32,
    /// Parts of sends of one workspace that one worker handles at the same time. All workspaces
    /// together get twice as many. 0 means two for each compute thread.
    pub parts_in_flight: usize,
    /// Sends of one workspace to listed users that one worker handles at the same time. All
    /// workspaces together get twice as many. Parts never delay them.
    pub named_in_flight: usize,
    /// Users whose messages are stored, rendered and sent together, 1 to 5,000. Fewer if profiles
    /// are large.
    pub batch_users: u32,
    /// Messages of one workspace that one worker sends at the same time, 1 to 100,000: this many to
    /// users of parts, and as many to listed users. All workspaces together get twice as many.
    pub sends_in_flight: usize,
    /// Number of times that a worker may be lost while it sends a group of messages, before those
    /// messages are given up.
    pub attempts: u32,
    /// Hours after which a message is given up if its channel does not accept it, 1 to 8,760.
    pub retry_hours: u64,
    /// First pause before a worker retries a message, in milliseconds. It doubles with each
    /// attempt, up to an hour.
    pub retry_ms: u64,
    /// Days for which the messages of each user are kept, 1 to 3,650. They are kept longer if
    /// frequency capping or a conversion window needs them. Schedules are deleted as long after
    /// their end.
    pub keep_days: u32,
    /// Minutes by which a scheduled send may be late, 1 to 525,600. A send that is later is missed:
    /// it is not sent.
    pub late_minutes: u64,
}

/// Traces for OpenTelemetry.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Traces {
    /// Address of a collector that receives OTLP over HTTP, such as `http://collector:4318`. Spans
    /// go to `/v1/traces` below it. Without it, there are no traces.
    #[schemars(with = "Option<String>")]
    pub url: Option<Url>,
    /// Headers of requests to the collector: `name=value`, separated by commas.
    #[serde(skip_serializing)]
    #[schemars(with = "Option<String>")]
    pub headers: Option<SecretString>,
    /// Share of requests that are traced, 0 to 1. A caller that sends `traceparent` decides for its
    /// own requests.
    pub share: f64,
}

/// Connections to relays.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Smtp {
    /// Connections of one worker to a relay for sends, and as many again for transactional emails.
    /// If there are several, a workspace leaves one of each to other workspaces with this relay.
    pub connections: usize,
    /// Seconds that connecting to a relay may take, until its greeting. STARTTLS may take as long
    /// again.
    pub connect_seconds: u64,
    /// Seconds that a relay may take for any other reply, and that an email may wait for a
    /// connection.
    pub timeout_seconds: u64,
    /// Seconds that a relay may take to accept an email after it has received all of it. With a
    /// shorter time, more emails arrive twice.
    pub accept_seconds: u64,
    /// Seconds for which an unused connection to a relay is kept.
    pub idle_seconds: u64,
    /// Maximum number of seconds for which a connection to a relay is used.
    pub age_seconds: u64,
}

/// Transactional emails.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Transactional {
    /// Transactional emails of one workspace that one worker handles at the same time, 1 to
    /// 100,000.
    pub in_flight: usize,
    /// Seconds between queries for transactional emails that gateways of release 0.1.0 accepted, 1
    /// to 3,600. Newer gateways queue their emails directly.
    pub requeue_seconds: u64,
    /// Days for which the outcome of a transactional email is kept, 2 to 3,650. `longshore sla`
    /// looks back no further. Callbacks, status postbacks and notifications are kept for as long
    /// after they were delivered or given up.
    pub keep_days: u32,
}

#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
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
            database: Database { url: None, max_connections: 16, transactional_connections: 4 },
            log: log::Settings {
                url: "embedded".into(),
                partitions: 16,
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
                memory_bytes: 32 << 20,
                unauthenticated_bytes: 16 << 20,
                requests_in_flight: 1_024,
                connections: 4_096,
                request_timeout_seconds: 30,
            },
            ops: Ops { listen: SocketAddr::from(([127, 0, 0, 1], 9100)), watch_seconds: 15 },
            console: console::Console::default(),
            worker: Worker {
                lease_ms: 30_000,
                poll_ms: 500,
                drain_seconds: 25,
                compute_threads: 0,
                messages_in_flight: 2,
                batches_in_flight: 4,
                batch_messages: 1_000,
                batch_bytes: 1 << 20,
            },
            exports: Exports {
                users_per_file: 5_000,
                parts_in_flight: 0,
                memory_bytes: 144 << 20,
                attempts: 10,
                retry_ms: 1_000,
                retry_hours: 24,
                refused_minutes: 15,
                download_minutes: 240,
                requeue_seconds: 30,
                cleanup_hours: 24,
                keep_days: 400,
            },
            deliveries: Deliveries {
                in_flight: 32,
                per_receiver: 4,
                retry_hours: 24,
                retry_ms: 5_000,
                connect_seconds: 5,
                timeout_seconds: 15,
            },
            messages: Messages {
                part_users: 5_000,
                parts_in_flight: 0,
                named_in_flight: 16,
                batch_users: 500,
                sends_in_flight: 64,
                attempts: 10,
                retry_hours: 24,
                retry_ms: 5_000,
                keep_days: 30,
                late_minutes: 60,
            },
            traces: Traces { url: None, headers: None, share: 1.0 },
            smtp: Smtp {
                connections: 16,
                connect_seconds: 10,
                timeout_seconds: 30,
                accept_seconds: 120,
                idle_seconds: 30,
                age_seconds: 300,
            },
            transactional: Transactional { in_flight: 64, requeue_seconds: 5, keep_days: 30 },
            warnings: Vec::new(),
        }
    }
}

/// Everything that is wrong with the settings.
#[derive(Debug, thiserror::Error)]
pub struct ConfigError {
    pub problems: Vec<String>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid settings:")?;
        self.problems.iter().try_for_each(|problem| write!(f, "\n  - {problem}"))
    }
}

impl Retry for ConfigError {}

/// The purpose of the settings: some are impossible for a service, but fine for a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A command next to the service.
    Command,
    /// One process that has everything.
    Standalone,
    /// One process of several: they cannot share data inside of a process.
    Fleet,
}

impl Config {
    /// The database's URL, or its default. Contains a password: for connecting, never for printing.
    pub fn database_url(&self) -> String {
        match &self.database.url {
            Some(url) => url.expose_secret().to_owned(),
            None => format!("sqlite://{}", self.data.join("store.db").display()),
        }
    }

    /// The objects' URL, or its default; never for printing.
    pub fn objects_url(&self) -> String {
        match &self.objects.url {
            Some(url) => url.expose_secret().to_owned(),
            None => {
                let data = std::path::absolute(&self.data).unwrap_or_else(|_| self.data.clone());
                let objects = data.join("objects");
                // Encoded, so that special characters in a directory's name are safe.
                Url::from_file_path(&objects)
                    .map_or_else(|()| objects.display().to_string(), String::from)
            }
        }
    }

    /// The beginning of download URLs, without a slash at the end.
    pub fn public_base(&self) -> String {
        match &self.public_url {
            Some(url) => url.as_str().trim_end_matches('/').to_owned(),
            None => format!("http://{}", self.gateway.listen),
        }
    }

    /// The lease of a claimed row.
    pub fn lease(&self) -> Duration {
        Duration::from_millis(self.worker.lease_ms)
    }
}

#[cfg(test)]
mod tests;
