//! Every setting: one struct per concern, each field with its unit and default.
//!
//! Settings come from a TOML file (`--config FILE`, or `longshore.toml` in the working
//! directory) and the environment over it ([`load`](Config::load)). Unknown names and
//! impossible combinations are refused at start, all at once.

mod check;
mod data;
mod load;
pub mod network;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use url::Url;

use kit::retry::Retry;

/// All settings, as loaded and checked.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The data directory (`LONGSHORE_DATA`).
    pub data: PathBuf,
    /// What download and unsubscribe addresses begin with (`LONGSHORE_PUBLIC_URL`); the
    /// gateway's own address when absent, which only `standalone` may leave it at.
    pub public_url: Option<Url>,
    /// 32 bytes in base64 (`LONGSHORE_SECRET_KEY`): encrypts stored credentials and signs
    /// download and unsubscribe addresses. Made once in the data directory when absent;
    /// required on a shared database.
    #[serde(skip_serializing)]
    pub secret_key: Option<SecretString>,
    /// The former key (`LONGSHORE_SECRET_KEY_OLD`): what it encrypted or signed is still read.
    #[serde(skip_serializing)]
    pub secret_key_old: Option<SecretString>,
    /// Networks that callbacks, status postbacks, webhooks and messages to providers may reach
    /// although they are private (`LONGSHORE_ALLOW_PRIVATE`, addresses and CIDRs with commas
    /// between).
    #[serde(deserialize_with = "load::networks")]
    pub allow_private: Vec<IpNet>,
    /// Proxies whose `X-Forwarded-For` is believed (`LONGSHORE_TRUSTED_PROXIES`, likewise).
    #[serde(deserialize_with = "load::networks")]
    pub trusted_proxies: Vec<IpNet>,
    /// `text` or `json` (`LONGSHORE_LOG_FORMAT`); text on a terminal, else JSON.
    pub log_format: Option<LogFormat>,
    pub database: Database,
    pub log: log::Settings,
    pub objects: Objects,
    pub gateway: Gateway,
    pub ops: Ops,
    pub worker: Worker,
    pub exports: Exports,
    pub deliveries: Deliveries,
    pub messages: Messages,
    pub transactional: Transactional,
    pub smtp: Smtp,
    /// What the operator is told of these settings. Not a setting.
    #[serde(skip)]
    pub warnings: Vec<String>,
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
    /// Connections beside these that only transactional emails use; SQLite needs none.
    pub transactional_connections: u32,
}

/// Where exports without own storage are built.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Objects {
    /// `file:///DIR`, `s3://bucket/prefix?endpoint=…&region=…` or
    /// `azure://container/prefix?account=…` (`LONGSHORE_OBJECTS_URL`); by default files
    /// in the data directory, which only `standalone` may leave it at. May carry credentials in its query, so it is never logged.
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
    /// Bytes of bodies that are held in memory at once, from their first byte until all that
    /// is made of them is durable. A call that finds no room waits a second, and is then
    /// answered 503.
    pub memory_bytes: usize,
    /// Bytes that are held in memory at once of what comes from senders who have not proved yet
    /// who they are: half of it for heads of requests, half for bodies that are signed. One
    /// sender has an eighth at most.
    pub unauthenticated_bytes: usize,
    /// Requests under way at once. One more is answered 503 at once, with `Retry-After`. One
    /// workspace has at most as many as are left free.
    pub requests_in_flight: usize,
    /// Connections at once. Further ones wait in the system's queue.
    pub connections: usize,
    /// Seconds that a client may take to send the head of a request, then its body, and to
    /// read on in the answer.
    pub request_timeout_seconds: u64,
}

impl Gateway {
    /// Bytes for heads of senders who have not proved who they are, and as many for bodies.
    pub fn unproved_bytes(&self) -> usize {
        self.unauthenticated_bytes / 2
    }

    /// The largest body that proves who sends it: what one sender has of these.
    pub fn unproved_limit(&self) -> usize {
        self.max_body_bytes.min(self.unproved_bytes() / 8)
    }
}

/// The operations listener: `/healthz`, `/readyz`, `/metrics`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ops {
    /// `LONGSHORE_OPS_LISTEN`.
    pub listen: SocketAddr,
    /// Seconds between looks of a gateway at the work of the whole fleet, for `/metrics`.
    pub watch_seconds: u64,
}

/// How a worker takes work.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Worker {
    /// Milliseconds that a claimed row stays with a worker that is not heard of; a worker
    /// at work renews at a third of it.
    pub lease_ms: u64,
    /// Milliseconds between looks for claimable rows while idle, where offers do not wake the
    /// worker; ten times as long where they do.
    pub poll_ms: u64,
    /// Seconds that a stopping worker may take to finish what is under way.
    pub drain_seconds: u64,
    /// Threads of one process, a gateway too, that compute at once; one for each processor
    /// when 0.
    pub compute_threads: usize,
    /// Exports that one worker plans at once.
    pub messages_in_flight: usize,
    /// Batches of one consumer under way at once, each of another partition.
    pub batches_in_flight: usize,
    /// Messages that are applied together at most.
    pub batch_messages: usize,
    /// Bytes of messages after which a batch is full.
    pub batch_bytes: usize,
}

/// Exports.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exports {
    /// Users in a file (src/gateway/README.md, Files).
    pub users_per_file: u32,
    /// Parts of one worker under way at once; two for each thread that computes when 0.
    pub parts_in_flight: usize,
    /// Bytes of users' data that one worker holds in memory at once.
    pub memory_bytes: usize,
    /// Tries of planning, of a part or of finishing before the job fails.
    pub attempts: u32,
    /// Milliseconds of the first pause between tries; it doubles from there.
    pub retry_ms: u64,
    /// Minutes that a download address is valid once its export is ready.
    pub download_minutes: u64,
    /// Seconds after which a job is planned whose message did not come.
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

/// Messages to users.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Messages {
    /// Users in a part of a send to a segment, an audience or everybody.
    pub part_users: u32,
    /// Parts of one worker under way at once; two for each thread that computes when 0.
    pub parts_in_flight: usize,
    /// Sends to named users of one worker under way at once, which parts never hold up.
    pub named_in_flight: usize,
    /// Users whose messages are noted, rendered and sent together.
    pub batch_users: u32,
    /// Messages of one worker that are handed to their channels at once: so many to users of
    /// parts, and as many to users who are named.
    pub sends_in_flight: usize,
    /// Times that the work on some messages may end its worker before they are given up.
    pub attempts: u32,
    /// Hours after which a message that no channel takes is given up.
    pub retry_hours: u64,
    /// Milliseconds of the first pause before a message is tried again; it doubles from there, to
    /// an hour.
    pub retry_ms: u64,
    /// Days that it is kept who was sent what, at least; as long as frequency capping and
    /// conversion windows look back where that is longer.
    pub keep_days: u32,
    /// Minutes by which what is scheduled may be late and is sent at once; what is later is
    /// missed.
    pub late_minutes: u64,
}

/// How relays are spoken to.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Smtp {
    /// Connections of one worker to a relay for what is sent to many, and as many again for
    /// transactional emails.
    pub connections: usize,
    /// Seconds that a relay may take to be connected to, until it has said which it is.
    pub connect_seconds: u64,
    /// Seconds that a relay may take for any other answer, and an email for a connection to get
    /// free.
    pub timeout_seconds: u64,
    /// Seconds that a relay may take to accept an email once it has all of it.
    pub accept_seconds: u64,
    /// Seconds that an unused connection is kept.
    pub idle_seconds: u64,
    /// Seconds that a connection is used at most.
    pub age_seconds: u64,
}

/// Transactional emails.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transactional {
    /// Emails of one workspace that one worker has under way at once.
    pub in_flight: usize,
    /// Seconds that an email may wait before its message is appended again; longer each time.
    pub requeue_seconds: u64,
    /// Days that it is kept what became of an email.
    pub keep_days: u32,
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
            worker: Worker {
                lease_ms: 30_000,
                poll_ms: 500,
                drain_seconds: 25,
                compute_threads: 0,
                messages_in_flight: 16,
                batches_in_flight: 4,
                batch_messages: 1_000,
                batch_bytes: 1 << 20,
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
        write!(f, "the settings cannot be used:")?;
        self.problems.iter().try_for_each(|problem| write!(f, "\n  - {problem}"))
    }
}

impl Retry for ConfigError {}

/// What the settings are for: some are impossible for a service and fine for a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A command beside the service.
    Command,
    /// One process with everything in it.
    Standalone,
    /// One process of several: nothing may live inside a single one.
    Fleet,
}

impl Config {
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

    /// What download addresses begin with, without a slash at the end.
    pub fn public_base(&self) -> String {
        match &self.public_url {
            Some(url) => url.as_str().trim_end_matches('/').to_owned(),
            None => format!("http://{}", self.gateway.listen),
        }
    }

    /// How long a claimed row stays with a worker.
    pub fn lease(&self) -> Duration {
        Duration::from_millis(self.worker.lease_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_printed() {
        let config = Config {
            database: Database {
                url: Some("postgres://u:hidden@h/d".into()),
                ..Config::default().database
            },
            secret_key: Some("hidden".into()),
            ..Config::default()
        };
        assert!(!format!("{config:?}").contains("hidden"));
        assert!(!serde_json::to_string(&config).unwrap().contains("hidden"));
    }
}
