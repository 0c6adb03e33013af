//! Checks the settings; returns all errors together.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use axum::http::{HeaderName, HeaderValue};
use secrecy::ExposeSecret as _;
use url::Url;

use super::{Config, Mode, Traces};
use kit::secrets::SecretKey;
use log::MAX_MESSAGE_BYTES;
use objects::settings as objects;
use store::inspect::url_problem;

impl Traces {
    /// The headers of requests to the collector; nothing if they are invalid.
    pub fn header_map(&self) -> Option<HashMap<String, String>> {
        let text = self.headers.as_ref().map_or("", |headers| headers.expose_secret());
        let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
        let read = pairs.map(|pair| {
            let (name, value) = pair.split_once('=')?;
            let (name, value) = (name.trim(), value.trim());
            let is_valid = HeaderName::from_bytes(name.as_bytes()).is_ok()
                && HeaderValue::from_str(value).is_ok();
            is_valid.then(|| (name.to_owned(), value.to_owned()))
        });
        read.collect()
    }
}

impl Config {
    /// The errors of these settings for `mode`.
    pub(super) fn problems(&self, mode: Mode) -> Vec<String> {
        let mut problems = self.common_problems();
        problems.extend(self.console_problems(mode));
        match mode {
            Mode::Command => {}
            Mode::Standalone => problems.extend(self.standalone_problem()),
            Mode::Fleet => problems.extend(self.fleet_problems()),
        }
        problems
    }

    /// Clients must be able to reach the beginning of download URLs.
    fn standalone_problem(&self) -> Option<String> {
        let listen = self.gateway.listen;
        (self.public_url.is_none() && listen.ip().is_unspecified()).then(|| {
            format!(
                "public_url (LONGSHORE_PUBLIC_URL) is not set, and clients cannot reach {listen}, \
                 where the API listens: set public_url to the URL that clients use, such as \
                 http://longshore.example.com:8080"
            )
        })
    }

    /// The processes of a fleet share no data inside of a process.
    fn fleet_problems(&self) -> Vec<String> {
        let problems = [
            (
                self.log.url == "embedded",
                "log.url (LONGSHORE_LOG_URL) is embedded, which only `standalone` can use: set \
                 kafka://host:port",
            ),
            (
                self.database_url().starts_with("sqlite:"),
                "database.url (LONGSHORE_DATABASE_URL) is SQLite, which only `standalone` can \
                 use: set postgres://…",
            ),
            (
                self.objects.url.is_none(),
                "objects.url (LONGSHORE_OBJECTS_URL) is not set, and the data directory is on one \
                 machine only: set s3://…, azure://…, or file:///DIR on a volume that all \
                 processes share",
            ),
            (
                self.public_url.is_none(),
                "public_url (LONGSHORE_PUBLIC_URL) is not set: set it to the URL at which clients \
                 reach the gateways, such as https://longshore.example.com",
            ),
        ];
        problems
            .into_iter()
            .filter(|(is_wrong, _)| *is_wrong)
            .map(|(_, text)| text.to_owned())
            .collect()
    }

    fn common_problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut refuse = |is_wrong: bool, problem: &str| {
            if is_wrong {
                problems.push(problem.to_owned());
            }
        };
        let database = self.database_url();
        let shared = database.starts_with("postgres://") || database.starts_with("postgresql://");
        refuse(
            !shared && !database.starts_with("sqlite:"),
            "database.url (LONGSHORE_DATABASE_URL): expected sqlite://FILE or postgres://…",
        );
        if let Some(problem) = Some(database.as_str()).filter(|_| shared).and_then(url_problem) {
            refuse(true, &format!("database.url (LONGSHORE_DATABASE_URL): {problem}"));
        }
        refuse(
            shared && self.secret_key.is_none(),
            "secret_key (LONGSHORE_SECRET_KEY) is required on a shared database: 32 bytes in \
             base64, the same for every process (create one with: openssl rand -base64 32)",
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
            "public_url (LONGSHORE_PUBLIC_URL): expected an http or https URL",
        );
        refuse(
            self.gateway.listen == self.ops.listen && self.ops.listen.port() != 0,
            "ops.listen (LONGSHORE_OPS_LISTEN) must not be the API's listener: operations need an \
             address of their own",
        );
        refuse(
            !(1..=3_600).contains(&self.ops.watch_seconds),
            "ops.watch_seconds must be 1 to 3,600",
        );
        refuse(
            self.gateway.request_timeout_seconds == 0,
            "gateway.request_timeout_seconds must be at least 1",
        );
        refuse(
            !(1..=1_000_000).contains(&self.gateway.requests_in_flight),
            "gateway.requests_in_flight must be 1 to 1,000,000",
        );
        refuse(
            !(1..=1_000_000).contains(&self.gateway.connections),
            "gateway.connections must be 1 to 1,000,000",
        );
        refuse(
            self.gateway.memory_bytes < self.gateway.max_body_bytes,
            "gateway.memory_bytes must be at least gateway.max_body_bytes, or the largest bodies \
             would never be accepted",
        );
        refuse(
            self.gateway.unauthenticated_bytes < 1 << 20,
            "gateway.unauthenticated_bytes must be at least 1,048,576",
        );
        refuse(!(1..=1024).contains(&self.log.partitions), "log.partitions must be 1 to 1024");
        refuse(self.log.replication == 0, "log.replication must be at least 1");
        refuse(self.database.max_connections < 4, "database.max_connections must be at least 4");
        refuse(self.worker.lease_ms < 500, "worker.lease_ms must be at least 500");
        refuse(self.worker.poll_ms == 0, "worker.poll_ms must be at least 1");
        refuse(self.worker.compute_threads > 1_024, "worker.compute_threads must be at most 1,024");
        refuse(self.worker.messages_in_flight == 0, "worker.messages_in_flight must be at least 1");
        refuse(self.worker.batches_in_flight == 0, "worker.batches_in_flight must be at least 1");
        refuse(
            !(1..=100_000).contains(&self.worker.batch_messages),
            "worker.batch_messages must be 1 to 100,000",
        );
        refuse(
            !(1..=(64 << 20)).contains(&self.worker.batch_bytes),
            "worker.batch_bytes must be 1 to 67,108,864",
        );
        refuse(
            !(1..=500_000).contains(&self.exports.users_per_file),
            "exports.users_per_file must be 1 to 500,000",
        );
        refuse(
            !(1..=9_999).contains(&self.exports.attempts),
            "exports.attempts must be 1 to 9,999",
        );
        refuse(self.exports.retry_hours > 8_760, "exports.retry_hours must be at most 8,760");
        refuse(
            self.exports.refused_minutes > 525_600,
            "exports.refused_minutes must be at most 525,600",
        );
        refuse(
            !(1..=3_650).contains(&self.exports.keep_days),
            "exports.keep_days must be 1 to 3,650",
        );
        refuse(self.deliveries.in_flight == 0, "deliveries.in_flight must be at least 1");
        refuse(
            !(1..=8_760).contains(&self.deliveries.retry_hours),
            "deliveries.retry_hours must be 1 to 8,760",
        );
        refuse(
            self.deliveries.connect_seconds == 0,
            "deliveries.connect_seconds must be at least 1",
        );
        refuse(
            self.deliveries.timeout_seconds == 0,
            "deliveries.timeout_seconds must be at least 1",
        );
        refuse(self.deliveries.per_receiver == 0, "deliveries.per_receiver must be at least 1");
        let messages = &self.messages;
        refuse(
            !(1..=100_000).contains(&messages.part_users),
            "messages.part_users must be 1 to 100,000",
        );
        refuse(
            !(1..=5_000).contains(&messages.batch_users),
            "messages.batch_users must be 1 to 5,000",
        );
        refuse(messages.named_in_flight == 0, "messages.named_in_flight must be at least 1");
        refuse(
            !(1..=100_000).contains(&messages.sends_in_flight),
            "messages.sends_in_flight must be 1 to 100,000",
        );
        refuse(messages.attempts == 0, "messages.attempts must be at least 1");
        refuse(
            !(1..=8_760).contains(&messages.retry_hours),
            "messages.retry_hours must be 1 to 8,760",
        );
        refuse(!(1..=3_650).contains(&messages.keep_days), "messages.keep_days must be 1 to 3,650");
        let transactional = &self.transactional;
        refuse(
            !(1..=100_000).contains(&transactional.in_flight),
            "transactional.in_flight must be 1 to 100,000",
        );
        refuse(
            !(1..=3_600).contains(&transactional.requeue_seconds),
            "transactional.requeue_seconds must be 1 to 3,600",
        );
        refuse(
            !(2..=3_650).contains(&transactional.keep_days),
            "transactional.keep_days must be 2 to 3,650",
        );
        refuse(
            self.database.transactional_connections == 0,
            "database.transactional_connections must be at least 1",
        );
        refuse(
            !(1..=525_600).contains(&messages.late_minutes),
            "messages.late_minutes must be 1 to 525,600",
        );
        refuse(
            self.traces.url.as_ref().is_some_and(|url| !matches!(url.scheme(), "http" | "https")),
            "traces.url (LONGSHORE_TRACES_URL): must begin with http:// or https://",
        );
        refuse(
            self.traces.url.as_ref().is_some_and(has_user),
            "traces.url (LONGSHORE_TRACES_URL) must not contain a user or password: use \
             traces.headers",
        );
        refuse(
            self.public_url.as_ref().is_some_and(has_user),
            "public_url (LONGSHORE_PUBLIC_URL) must not contain a user or password",
        );
        refuse(
            self.log.url.contains('@'),
            "log.url (LONGSHORE_LOG_URL) must not contain a user or password: use \
             log.kafka.\"sasl.username\" and log.kafka.\"sasl.password\"",
        );
        refuse(
            self.log.kafka.keys().any(|name| LOADS_CODE.contains(&name.as_str())),
            "log.kafka must not load programs: plugin.library.paths, ssl.engine.location and \
             ssl.providers are not allowed",
        );
        let properties = self.log.kafka_properties().unwrap_or_else(|problem| {
            refuse(true, &problem);
            BTreeMap::new()
        });
        // librdkafka would report the first once many appends are in flight, and never the second.
        let is_outside = |name: &str, range: Range<f64>| {
            let number = properties.get(name).map(|value| value.parse::<f64>());
            number.is_some_and(|number| !number.is_ok_and(|number| range.contains(&number)))
        };
        refuse(
            is_outside("linger.ms", 0.0..self.log.append_timeout_ms.min(900_000) as f64),
            "log.kafka.\"linger.ms\" (or queue.buffering.max.ms) must be a number below \
             log.append_timeout_ms, and below 900,000",
        );
        refuse(
            is_outside(
                "queue.buffering.max.kbytes",
                MAX_MESSAGE_BYTES as f64 / 1024.0..f64::INFINITY,
            ),
            "log.kafka.\"queue.buffering.max.kbytes\" must be a number of at least 5,120, or the \
             largest messages would never have space",
        );
        refuse(
            self.traces.header_map().is_none(),
            "traces.headers (LONGSHORE_TRACES_HEADERS): expected name=value, separated by commas",
        );
        refuse(!(0.0..=1.0).contains(&self.traces.share), "traces.share must be 0 to 1");
        refuse(self.smtp.connections == 0, "smtp.connections must be at least 1");
        refuse(self.smtp.connect_seconds == 0, "smtp.connect_seconds must be at least 1");
        refuse(self.smtp.timeout_seconds == 0, "smtp.timeout_seconds must be at least 1");
        refuse(self.smtp.accept_seconds == 0, "smtp.accept_seconds must be at least 1");
        problems
    }
}

/// Properties of librdkafka that load code from files: a settings file can lie in a folder of
/// others.
const LOADS_CODE: &[&str] = &["plugin.library.paths", "ssl.engine.location", "ssl.providers"];

pub(super) fn has_user(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
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
    fn settings_that_are_printed_have_no_passwords_and_none_loads_code() {
        for (name, value) in [
            ("LONGSHORE_LOG_URL", "kafka://user:secret@kafka:9092"),
            ("LONGSHORE_PUBLIC_URL", "https://user:secret@longshore.example.com"),
            ("LONGSHORE_TRACES_URL", "http://user@collector:4318"),
            ("LONGSHORE_LOG__KAFKA__PLUGIN_LIBRARY_PATHS", "/tmp/x.so"),
        ] {
            let text = problems(Mode::Command, &[(name, value)]);
            let setting = if value.starts_with('/') { "log.kafka" } else { name };
            assert!(text.contains(setting) && !text.contains("secret@"), "{name}: {text}");
        }
    }

    #[test]
    fn an_append_has_time_after_its_wait_for_others() {
        let names =
            ["LONGSHORE_LOG__KAFKA__LINGER_MS", "LONGSHORE_LOG__KAFKA__QUEUE_BUFFERING_MAX_MS"];
        for name in names {
            let with = |linger_ms| problems(Mode::Command, &[(name, linger_ms)]);
            assert_eq!(with("9999.5"), "");
            for invalid in ["10000", "-1", "20000ms", "five"] {
                assert!(with(invalid).contains("log.append_timeout_ms"), "{name} {invalid}");
            }
        }
        let text = problems(Mode::Command, &names.map(|name| (name, "5")));
        assert!(text.contains("log.kafka sets linger.ms twice"), "{text}");
    }

    #[test]
    fn the_queue_to_kafka_has_space_for_each_message() {
        let name = "LONGSHORE_LOG__KAFKA__QUEUE_BUFFERING_MAX_KBYTES";
        assert_eq!(problems(Mode::Command, &[(name, "5120")]), "");
        assert!(problems(Mode::Command, &[(name, "5119")]).contains("queue.buffering.max.kbytes"));
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
        let any_port = [("LONGSHORE_LISTEN", "127.0.0.1:0")];
        assert_eq!(problems(Mode::Standalone, &any_port), "");
        for listen in ["0.0.0.0:8080", "[::]:8080", "0.0.0.0:0"] {
            let mut environment = vec![("LONGSHORE_LISTEN", listen)];
            assert!(problems(Mode::Standalone, &environment).contains("LONGSHORE_PUBLIC_URL"));
            assert_eq!(problems(Mode::Command, &environment), "");
            environment.push(("LONGSHORE_PUBLIC_URL", "http://longshore.example.com"));
            assert_eq!(problems(Mode::Standalone, &environment), "");
        }
    }

    #[test]
    fn invalid_and_unreadable_settings_are_reported_together() {
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
    fn headers_for_the_collector_are_pairs() {
        let problems_of = |name, value| problems(Mode::Command, &[(name, value)]);
        let headers = "LONGSHORE_TRACES_HEADERS";
        assert_eq!(problems_of(headers, "Authorization=Basic YWI=, X-Scope = acme"), "");
        for bad in ["hidden", "a b=hidden", "a=hidden\u{1}"] {
            let text = problems_of(headers, bad);
            assert!(text.contains(headers) && !text.contains("hidden"), "{text}");
        }
        assert!(problems_of("LONGSHORE_TRACES_URL", "file:///x").contains("LONGSHORE_TRACES_URL"));
        assert!(problems_of("LONGSHORE_TRACES__SHARE", "1.5").contains("traces.share"));
    }

    #[test]
    fn invalid_object_urls_are_reported_with_other_problems() {
        for url in ["s3://", "gs://hidden", "azure://hidden", "s3://b?secret_access_key=hidden"] {
            let environment = [("LONGSHORE_OBJECTS_URL", url), ("LONGSHORE_WORKER__LEASE_MS", "1")];
            let text = problems(Mode::Standalone, &environment);
            assert!(text.contains("objects.url (LONGSHORE_OBJECTS_URL): "), "{url}: {text}");
            assert!(text.contains("lease_ms"), "{url}: {text}");
            assert!(!text.contains("hidden"), "{text}");
        }
    }
}
