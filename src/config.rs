//! Every setting: one struct per concern, each field with its unit and default.
//!
//! Settings come from a TOML file (`--config FILE`, or `longshore.toml` in the working
//! directory) and the environment over it ([`load`](Config::load)). Unknown names and
//! impossible combinations are refused at start, all at once.

mod data;
mod load;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use url::Url;

use crate::objects::settings as objects;
use crate::retry::Retry;
use crate::secrets::SecretKey;

pub use data::private_directory;

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
    pub log: Log,
    pub objects: Objects,
    pub gateway: Gateway,
    pub ops: Ops,
    pub worker: Worker,
    pub exports: Exports,
    pub deliveries: Deliveries,
    pub messages: Messages,
    pub transactional: Transactional,
    pub smtp: Smtp,
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
    /// Any librdkafka property, given to producers and consumers as it is
    /// (`LONGSHORE_LOG__KAFKA__SASL_PASSWORD` is `sasl.password`).
    #[serde(default, skip_serializing)]
    pub kafka: BTreeMap<String, String>,
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
    /// Requests under way at once. One more is answered 503 at once, with `Retry-After`.
    pub requests_in_flight: usize,
    /// Connections at once. Further ones wait in the system's queue.
    pub connections: usize,
    /// Seconds that a client may take to send the head of a request, then its body, and to
    /// read on in the answer.
    pub request_timeout_seconds: u64,
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
    /// Milliseconds between looks for claimable rows while idle.
    pub poll_ms: u64,
    /// Seconds that a stopping worker may take to finish what is under way.
    pub drain_seconds: u64,
    /// Threads of one process, a gateway too, that compute at once; one for each processor
    /// when 0.
    pub compute_threads: usize,
    /// Messages of one consumer under way at once.
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
            log: Log {
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
    /// What makes these settings impossible for `mode`.
    fn problems(&self, mode: Mode) -> Vec<String> {
        let mut problems = self.impossible();
        match mode {
            Mode::Command => {}
            Mode::Standalone => problems.extend(self.impossible_alone()),
            Mode::Fleet => problems.extend(self.impossible_in_a_fleet()),
        }
        problems
    }

    /// Clients must be able to call what download addresses begin with.
    fn impossible_alone(&self) -> Option<String> {
        let listen = self.gateway.listen;
        let is_callable = !listen.ip().is_unspecified() && listen.port() != 0;
        (self.public_url.is_none() && !is_callable).then(|| {
            format!(
                "public_url (LONGSHORE_PUBLIC_URL) is not set, and {listen}, where the API \
                 listens, is nothing that a client can call: give the address that clients use, \
                 such as http://longshore.example.com:8080"
            )
        })
    }

    /// The processes of a fleet share nothing that lives inside one of them.
    fn impossible_in_a_fleet(&self) -> Vec<String> {
        let problems = [
            (
                self.log.url == "embedded",
                "log.url (LONGSHORE_LOG_URL) is embedded, which only `standalone` can use: give \
                 kafka://host:port",
            ),
            (
                self.database_url().starts_with("sqlite:"),
                "database.url (LONGSHORE_DATABASE_URL) is SQLite, which only `standalone` can \
                 use: give postgres://…",
            ),
            (
                self.objects.url.is_none(),
                "objects.url (LONGSHORE_OBJECTS_URL) is not set, and the data directory is of \
                 one machine: give s3://…, azure://…, or file:///DIR of a volume that all share",
            ),
            (
                self.public_url.is_none(),
                "public_url (LONGSHORE_PUBLIC_URL) is not set: give the address at which clients \
                 reach the gateways, such as https://longshore.example.com",
            ),
        ];
        problems.into_iter().filter(|(bad, _)| *bad).map(|(_, text)| text.to_owned()).collect()
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
            "database.url (LONGSHORE_DATABASE_URL): expected sqlite://FILE or postgres://…",
        );
        refuse(
            shared && self.secret_key.is_none(),
            "secret_key (LONGSHORE_SECRET_KEY) is required on a shared database: 32 bytes in \
             base64, the same for every process (make one with: openssl rand -base64 32)",
        );
        refuse(
            self.log.url != "embedded" && !self.log.url.starts_with("kafka://"),
            "log.url (LONGSHORE_LOG_URL): expected embedded or kafka://host:port,…",
        );
        if let Some(key) = &self.secret_key {
            let old = self.secret_key_old.as_ref().map(|old| old.expose_secret());
            if let Err(error) = SecretKey::parse(key.expose_secret(), old) {
                refuse(true, &format!("secret_key (LONGSHORE_SECRET_KEY): {error}"));
            }
        }
        let objects_url = self.objects.url.as_ref().map(|url| url.expose_secret());
        if let Some(problem) = objects_url.and_then(objects::problem_of) {
            refuse(true, &format!("objects.url (LONGSHORE_OBJECTS_URL): {problem}"));
        }
        refuse(
            self.public_url.as_ref().is_some_and(|url| !matches!(url.scheme(), "http" | "https")),
            "public_url (LONGSHORE_PUBLIC_URL): expected an http or https address",
        );
        refuse(
            self.gateway.listen == self.ops.listen && self.ops.listen.port() != 0,
            "ops.listen (LONGSHORE_OPS_LISTEN) is the API's own listener: operations never share it",
        );
        refuse(!(1..=3_600).contains(&self.ops.watch_seconds), "ops.watch_seconds: 1 to 3,600");
        refuse(
            self.gateway.request_timeout_seconds == 0,
            "gateway.request_timeout_seconds: at least 1",
        );
        refuse(
            !(1..=1_000_000).contains(&self.gateway.requests_in_flight),
            "gateway.requests_in_flight: 1 to 1,000,000",
        );
        refuse(
            !(1..=1_000_000).contains(&self.gateway.connections),
            "gateway.connections: 1 to 1,000,000",
        );
        refuse(
            self.gateway.memory_bytes < self.gateway.max_body_bytes,
            "gateway.memory_bytes: at least gateway.max_body_bytes, or the largest bodies never \
             find room",
        );
        refuse(!(1..=1024).contains(&self.log.partitions), "log.partitions: 1 to 1024");
        refuse(self.log.replication == 0, "log.replication: at least 1");
        refuse(self.database.max_connections < 4, "database.max_connections: at least 4");
        refuse(self.worker.lease_ms < 500, "worker.lease_ms: at least 500");
        refuse(self.worker.poll_ms == 0, "worker.poll_ms: at least 1");
        refuse(self.worker.compute_threads > 1_024, "worker.compute_threads: at most 1,024");
        refuse(self.worker.messages_in_flight == 0, "worker.messages_in_flight: at least 1");
        refuse(self.worker.batches_in_flight == 0, "worker.batches_in_flight: at least 1");
        refuse(
            !(1..=100_000).contains(&self.worker.batch_messages),
            "worker.batch_messages: 1 to 100,000",
        );
        refuse(
            !(1..=(64 << 20)).contains(&self.worker.batch_bytes),
            "worker.batch_bytes: 1 to 67,108,864",
        );
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
        let messages = &self.messages;
        refuse(!(1..=100_000).contains(&messages.part_users), "messages.part_users: 1 to 100,000");
        refuse(!(1..=5_000).contains(&messages.batch_users), "messages.batch_users: 1 to 5,000");
        refuse(messages.named_in_flight == 0, "messages.named_in_flight: at least 1");
        refuse(
            !(1..=100_000).contains(&messages.sends_in_flight),
            "messages.sends_in_flight: 1 to 100,000",
        );
        refuse(messages.attempts == 0, "messages.attempts: at least 1");
        refuse(!(1..=8_760).contains(&messages.retry_hours), "messages.retry_hours: 1 to 8,760");
        refuse(!(1..=3_650).contains(&messages.keep_days), "messages.keep_days: 1 to 3,650");
        let transactional = &self.transactional;
        refuse(
            !(1..=100_000).contains(&transactional.in_flight),
            "transactional.in_flight: 1 to 100,000",
        );
        refuse(
            !(1..=3_600).contains(&transactional.requeue_seconds),
            "transactional.requeue_seconds: 1 to 3,600",
        );
        refuse(
            !(2..=3_650).contains(&transactional.keep_days),
            "transactional.keep_days: 2 to 3,650",
        );
        refuse(
            self.database.transactional_connections == 0,
            "database.transactional_connections: at least 1",
        );
        refuse(
            !(1..=525_600).contains(&messages.late_minutes),
            "messages.late_minutes: 1 to 525,600",
        );
        refuse(self.smtp.connections == 0, "smtp.connections: at least 1");
        refuse(self.smtp.connect_seconds == 0, "smtp.connect_seconds: at least 1");
        refuse(self.smtp.timeout_seconds == 0, "smtp.timeout_seconds: at least 1");
        refuse(self.smtp.accept_seconds == 0, "smtp.accept_seconds: at least 1");
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

    fn problems(mode: Mode, environment: &[(&str, &str)]) -> String {
        let environment = environment.iter().map(|(name, value)| (name.into(), value.into()));
        match Config::load(None, environment, mode) {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_default_is_for_one_machine() {
        assert_eq!(problems(Mode::Command, &[]), "");
        assert_eq!(problems(Mode::Standalone, &[]), "");
        let text = problems(Mode::Fleet, &[]);
        for name in ["LOG_URL", "DATABASE_URL", "OBJECTS_URL", "PUBLIC_URL"] {
            assert!(text.contains(&format!("(LONGSHORE_{name})")), "{name} is missing in: {text}");
        }
    }

    #[test]
    fn a_fleet_may_share_a_volume() {
        let environment = [
            ("LONGSHORE_LOG_URL", "kafka://kafka:9092"),
            ("LONGSHORE_DATABASE_URL", "postgres://db/longshore"),
            ("LONGSHORE_SECRET_KEY", &SecretKey::generate()),
            ("LONGSHORE_OBJECTS_URL", "file:///mnt/shared"),
            ("LONGSHORE_PUBLIC_URL", "https://longshore.example.com"),
        ];
        assert_eq!(problems(Mode::Fleet, &environment), "");
    }

    #[test]
    fn download_addresses_can_be_called() {
        for listen in ["0.0.0.0:8080", "[::]:8080", "127.0.0.1:0"] {
            let mut environment = vec![("LONGSHORE_LISTEN", listen)];
            assert!(problems(Mode::Standalone, &environment).contains("LONGSHORE_PUBLIC_URL"));
            assert_eq!(problems(Mode::Command, &environment), "");
            environment.push(("LONGSHORE_PUBLIC_URL", "http://longshore.example.com"));
            assert_eq!(problems(Mode::Standalone, &environment), "");
        }
    }

    #[test]
    fn what_is_impossible_is_said_beside_what_cannot_be_read() {
        let text = problems(
            Mode::Fleet,
            &[
                ("LONGSHORE_LISTNE", "x"),
                ("LONGSHORE_WORKER__LEASE_MS", "1"),
                ("LONGSHORE_WORKER__POLL_MS", "often"),
                ("LONGSHORE_LOG_URL", "redis://x"),
                ("LONGSHORE_DATABASE_URL", "postgres://u:hidden@h/d"),
            ],
        );
        for part in [
            "LONGSHORE_LISTNE",
            "lease_ms",
            "LONGSHORE_WORKER__POLL_MS",
            "LONGSHORE_LOG_URL",
            "LONGSHORE_SECRET_KEY",
            "LONGSHORE_OBJECTS_URL",
        ] {
            assert!(text.contains(part), "{part} is missing in: {text}");
        }
        assert!(!text.contains("hidden"));
    }

    #[test]
    fn an_impossible_place_of_objects_is_said_beside_the_rest() {
        for url in ["s3://", "gs://hidden", "azure://hidden", "s3://b?secret_access_key=hidden"] {
            let environment = [("LONGSHORE_OBJECTS_URL", url), ("LONGSHORE_WORKER__LEASE_MS", "1")];
            let text = problems(Mode::Standalone, &environment);
            assert!(text.contains("objects.url (LONGSHORE_OBJECTS_URL): "), "{url}: {text}");
            assert!(text.contains("lease_ms"), "{url}: {text}");
            assert!(!text.contains("hidden"), "{text}");
        }
    }

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
