use super::*;
use std::io::Write as _;

fn load(file: &str, environment: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let mut written = tempfile::NamedTempFile::new().unwrap();
    written.write_all(file.as_bytes()).unwrap();
    let environment = environment.iter().map(|(name, value)| (name.into(), value.into()));
    Config::load(Some(written.path()), environment, Mode::Command)
}

fn problems(file: &str, environment: &[(&str, &str)]) -> Vec<String> {
    load(file, environment).unwrap_err().problems
}

#[test]
fn environment_overrides_file_and_defaults() {
    let config = load(
        "[worker]\nlease_ms = 1000\npoll_ms = 7\n",
        &[
            ("LONGSHORE_LISTEN", "0.0.0.0:9000"),
            ("LONGSHORE_WORKER__LEASE_MS", "2000"),
            ("LONGSHORE_LOG__TOPIC_PREFIX", "12"),
            ("LONGSHORE_KEY", "not a setting"),
            ("LONGSHORE_TEST_S3", "nor this"),
            ("HOME", "/somewhere"),
        ],
    )
    .unwrap();
    assert_eq!(config.gateway.listen.port(), 9000);
    assert_eq!((config.worker.lease_ms, config.worker.poll_ms), (2000, 7));
    assert_eq!(config.log.topic_prefix, "12");
    assert_eq!(config.log.url, "embedded");
}

#[test]
fn networks_may_be_addresses() {
    let allowed = "10.0.0.1, 192.168.0.0/16,fd00::1";
    let config = load("trusted_proxies = [\"10.0.0.2\"]", &[("LONGSHORE_ALLOW_PRIVATE", allowed)]);
    let config = config.unwrap();
    let shown: Vec<String> = config.allow_private.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["10.0.0.1/32", "192.168.0.0/16", "fd00::1/128"]);
    assert_eq!(config.trusted_proxies, ["10.0.0.2/32".parse().unwrap()]);
}

#[test]
fn librdkafka_properties_are_read_from_the_environment() {
    let config = load(
        "[log.kafka]\n\"sasl.username\" = \"longshore\"\n\"client.id\" = \"a\"\n",
        &[
            ("LONGSHORE_LOG__KAFKA__SASL_PASSWORD", "17"),
            ("LONGSHORE_LOG__KAFKA__SECURITY.PROTOCOL", "SSL"),
            ("LONGSHORE_LOG__KAFKA__CLIENT_ID", "b"),
        ],
    )
    .unwrap();
    let expected = [
        ("client.id", "b"),
        ("sasl.password", "17"),
        ("sasl.username", "longshore"),
        ("security.protocol", "SSL"),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(config.log.kafka, expected.into());
}

#[test]
fn unreadable_settings_are_reported_together() {
    let reported = problems(
        "ops = 5\nlog_format = \"xml\"\npublic_url = \"example\"\n[worker]\nlease = 1\n\
         [exports]\nattempts = -1\nretry_ms = 1.5\n[log]\nreplication = 70000\n",
        &[
            ("LONGSHORE_WORKER__LEASE_MS", "abc"),
            ("LONGSHORE_WORKR__POLL_MS", "1"),
            ("LONGSHORE_KEYS", "1"),
            ("LONGSHORE_LISTEN", "8080"),
            ("LONGSHORE_ALLOW_PRIVATE", "10.0.0.300, 10.0.0.1, me"),
        ],
    );
    let mut expected = vec![
        "LONGSHORE_KEYS: unknown setting; did you mean LONGSHORE_KEY?",
        "LONGSHORE_ALLOW_PRIVATE: \"10.0.0.300\" is not an IP address or a network such as \
         10.0.0.0/8; \"me\" is not an IP address or a network such as 10.0.0.0/8",
        "exports.attempts: expected a whole number from 0 to 4294967295, found -1",
        "exports.retry_ms: expected a whole number from 0, found 1.5",
        "LONGSHORE_LISTEN: expected an address with a port, such as 127.0.0.1:8080, found \"8080\"",
        "log.replication: expected a whole number from 0 to 65535, found 70000",
        "log_format: expected text or json, found \"xml\"",
        "ops: expected a section, found 5",
        "public_url: expected a URL, such as https://longshore.example.com, found \"example\"",
        "worker.lease: unknown setting; did you mean worker.lease_ms?",
        "LONGSHORE_WORKER__LEASE_MS: expected a whole number from 0, found \"abc\"",
        "LONGSHORE_WORKR__POLL_MS: unknown setting; did you mean LONGSHORE_WORKER__POLL_MS?",
    ];
    let mut reported: Vec<&str> = reported.iter().map(String::as_str).collect();
    reported.sort_unstable();
    expected.sort_unstable();
    assert_eq!(reported, expected);
}

#[test]
fn unknown_settings_suggest_the_nearest_name() {
    for (file, variable, similar) in [
        ("", "LONGSHORE_LISTNE", "LONGSHORE_LISTEN"),
        ("", "LONGSHORE_DATABSE_URL", "LONGSHORE_DATABASE_URL"),
        ("", "LONGSHORE_WORKER__LEASE", "LONGSHORE_WORKER__LEASE_MS"),
        ("[expots]\nattempts = 1\n", "HOME", "exports"),
        ("secret_kye = \"x\"\n", "HOME", "secret_key"),
    ] {
        let reported = problems(file, &[(variable, "x")]);
        let question = format!("did you mean {similar}?");
        assert!(reported.len() == 1 && reported[0].ends_with(&question), "{reported:?}");
    }
    assert_eq!(problems("", &[("LONGSHORE_XYZZY", "1")]), ["LONGSHORE_XYZZY: unknown setting"]);
}

#[test]
fn variables_of_services_are_ignored_with_one_warning() {
    let service_variables = [
        ("LONGSHORE_PORT", "tcp://10.96.0.7:80"),
        ("LONGSHORE_SERVICE_HOST", "10.96.0.7"),
        ("LONGSHORE_SERVICE_PORT", "80"),
        ("LONGSHORE_SERVICE_PORT_HTTP_API", "80"),
        ("LONGSHORE_PORT_80_TCP", "tcp://10.96.0.7:80"),
        ("LONGSHORE_PORT_80_TCP_ADDR", "10.96.0.7"),
        ("LONGSHORE_PORT_80_TCP_PORT", "80"),
        ("LONGSHORE_PORT_80_TCP_PROTO", "tcp"),
        ("LONGSHORE_GATEWAY_PORT", "tcp://10.96.0.8:80"),
        ("LONGSHORE_GATEWAY_SERVICE_HOST", "10.96.0.8"),
        ("LONGSHORE_GATEWAY_PORT_9100_TCP_ADDR", "10.96.0.8"),
    ];
    let config = load("", &service_variables).unwrap();
    assert_eq!(config.warnings.len(), 1, "{:?}", config.warnings);
    assert!(load("", &[("LONGSHORE_LISTEN", "[::1]:1")]).unwrap().warnings.is_empty());
    for name in
        ["LONGSHORE_OPS_PORT", "LONGSHORE_PORTS", "LONGSHORE_SERVICE", "LONGSHORE_PORT_X_TCP"]
    {
        assert_eq!(problems("", &[(name, "9100")]).len(), 1, "{name}");
    }
}

#[test]
fn no_secret_is_shown() {
    for file in [
        "secret_key = hidden",
        "secret_key = [\"hidden\"]",
        "[log]\nurl = \"embedded\"\n[log.kafka]\nsasl.password = \"hidden\"",
        "[log.kafka]\n\"sasl.password\" = 4711",
        "[database]\nurl = 4711",
        "[objects]\nurl = {hidden = 4711}",
    ] {
        let text = problems(file, &[]).join("\n");
        assert!(!text.contains("hidden") && !text.contains("4711"), "{text}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let missing = Config::load(Some(Path::new("no-such.toml")), [], Mode::Command);
    assert!(missing.unwrap_err().problems[0].starts_with("no-such.toml: "));
    let broken = problems("[worker]\nlease_ms = 1\npoll_ms =\n", &[]);
    assert!(broken.len() == 1 && broken[0].contains(", line 3: "), "{broken:?}");
}
