//! Reads the settings from a file and the environment, and collects all errors.

mod origins;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::LazyLock;

use figment::Figment;
use figment::error::{Error, Kind};
use figment::providers::{Format as _, Serialized, Toml};
use figment::value::{Dict, Value};
use ipnet::IpNet;
use regex::Regex;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::{Config, ConfigError, Mode};

use crate::config::network::network;
use kit::words::nearest;
pub use origins::{Origin, ShownSetting};

/// The environment's short names, and the settings they stand for. Every other setting
/// is `LONGSHORE_<SECTION>__<NAME>`, as in `LONGSHORE_WORKER__LEASE_MS`, and every property
/// of librdkafka `LONGSHORE_LOG__KAFKA__<NAME>`, with underscores for its dots.
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
    ("LONGSHORE_TRACES_URL", "traces.url"),
    ("LONGSHORE_TRACES_HEADERS", "traces.headers"),
    ("LONGSHORE_LISTEN", "gateway.listen"),
    ("LONGSHORE_OPS_LISTEN", "ops.listen"),
    ("LONGSHORE_CONSOLE_LISTEN", "console.listen"),
    ("LONGSHORE_CONSOLE_PUBLIC_URL", "console.public_url"),
    ("LONGSHORE_CONSOLE_OIDC_ISSUER", "console.oidc.issuer"),
    ("LONGSHORE_CONSOLE_OIDC_CLIENT_ID", "console.oidc.client_id"),
    ("LONGSHORE_CONSOLE_OIDC_CLIENT_SECRET", "console.oidc.client_secret"),
];

/// Other names that the environment may contain: those of commands, and (as prefixes) those of
/// scripts and tests.
const OTHER_VARIABLES: &[&str] = &["LONGSHORE_CONFIG", "LONGSHORE_KEY", "LONGSHORE_URL"];
const OTHER_PREFIXES: &[&str] = &["LONGSHORE_TEST_", "LONGSHORE_SERVICES_"];

/// Sections within a section; the environment writes `__` before their names, too.
const NESTED: &[&str] = &["console.oidc", "console.permissions"];

/// Lists of networks.
const LISTS: &[&str] = &["allow_private", "trusted_proxies"];

/// Whether a setting is a list, which the environment writes with commas.
fn is_list(setting: &str) -> bool {
    LISTS.contains(&setting) || setting.starts_with("console.permissions.")
}

/// Settings that no error may show, in addition to the properties of librdkafka.
const SECRETS: &[&str] = &[
    "secret_key",
    "secret_key_old",
    "database.url",
    "objects.url",
    "traces.headers",
    "console.oidc.client_secret",
];

impl Config {
    /// Reads the file (`file`, or `longshore.toml` if it exists), overridden by the environment,
    /// and checks the result for `mode`.
    pub fn load(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
        mode: Mode,
    ) -> Result<Self, ConfigError> {
        let mut given = Given::default();
        given.read_file(file);
        given.read_environment(environment);
        given.checked(mode)
    }

    /// The same from the environment alone, such as a container's.
    pub fn from_environment(
        environment: impl IntoIterator<Item = (OsString, OsString)>,
        mode: Mode,
    ) -> Result<Self, ConfigError> {
        let mut given = Given::default();
        given.read_environment(environment);
        given.checked(mode)
    }
}

/// Parses addresses and networks; the error names each invalid text.
pub(super) fn networks<'de, D: Deserializer<'de>>(list: D) -> Result<Vec<IpNet>, D::Error> {
    let (mut networks, mut invalid) = (Vec::new(), Vec::new());
    for text in Vec::<String>::deserialize(list)? {
        match network(&text) {
            Ok(network) => networks.push(network),
            Err(error) => invalid.push(error),
        }
    }
    if invalid.is_empty() { Ok(networks) } else { Err(D::Error::custom(invalid.join("; "))) }
}

/// The given settings, and their errors.
#[derive(Default)]
struct Given {
    values: Dict,
    /// The variables that values come from, by path; the others come from the file.
    variables: BTreeMap<Vec<String>, String>,
    /// Variables that Kubernetes sets for Services.
    service_variables: Vec<String>,
    problems: Vec<String>,
}

impl Given {
    fn read_file(&mut self, file: Option<&Path>) {
        let usual = Path::new("longshore.toml");
        let Some(file) = file.or_else(|| usual.is_file().then_some(usual)) else { return };
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) => return self.problems.push(format!("{}: {error}", file.display())),
        };
        match Toml::from_str(&text) {
            Ok(values) => self.values = values,
            // Its own text would show the line, which may contain a secret.
            Err(error) => {
                let before = error.span().and_then(|span| text.get(..span.start));
                let line = before.unwrap_or_default().matches('\n').count() + 1;
                let message = error.message().replace('\n', ", ");
                self.problems.push(format!("{}, line {line}: {message}", file.display()));
            }
        }
    }

    fn read_environment(&mut self, environment: impl IntoIterator<Item = (OsString, OsString)>) {
        for (name, value) in environment {
            let Some(name) = name.into_string().ok().filter(|name| is_setting(name)) else {
                continue;
            };
            match (path_of(&name), value.into_string()) {
                (None, Ok(text)) if is_service_variable(&name, &text) => {
                    self.service_variables.push(name);
                }
                (None, _) => self.problems.push(no_setting(&name, variables())),
                (_, Err(_)) => self.problems.push(format!("{name}: is not UTF-8")),
                (Some(path), Ok(text)) => {
                    put(&mut self.values, &path, value_of(&path, text));
                    self.variables.insert(path, name);
                }
            }
        }
    }

    /// The settings, or all errors.
    fn checked(mut self, mode: Mode) -> Result<Config, ConfigError> {
        let mut config = self.settings();
        config.warnings.extend(service_warning(&self.service_variables));
        let mut problems = self.problems;
        problems.extend(config.problems(mode));
        if problems.is_empty() { Ok(config) } else { Err(ConfigError { problems }) }
    }

    /// The readable settings, with defaults for the others.
    fn settings(&mut self) -> Config {
        loop {
            let settings = Figment::from(Serialized::defaults(Config::default()))
                .merge(Serialized::defaults(&self.values));
            // Lossy: the environment writes numbers as text.
            let error = match settings.extract_lossy() {
                Ok(config) => return config,
                Err(error) => error,
            };
            let Some((path, value)) = take(&mut self.values, &error.path) else {
                self.problems.push(error.kind.to_string());
                return Config::default();
            };
            self.problems.push(self.problem(&path, &value, &error));
        }
    }

    fn problem(&self, path: &[String], value: &Value, error: &Error) -> String {
        let setting = path.join(".");
        if let Kind::UnknownField(..) = error.kind {
            let variables = self.variables.iter().filter(|(origin, _)| origin.starts_with(path));
            let mut names =
                variables.map(|(_, name)| no_setting(name, self::variables())).peekable();
            return match names.peek() {
                Some(_) => names.collect::<Vec<_>>().join("; "),
                None => no_setting(&setting, settings()),
            };
        }
        let name = self.variables.get(path).unwrap_or(&setting);
        match &error.kind {
            Kind::Message(text) if LISTS.contains(&setting.as_str()) => format!("{name}: {text}"),
            kind => format!(
                "{name}: expected {}, found {}",
                shape(&setting, kind),
                shown(&setting, value)
            ),
        }
    }
}

/// The error for an unknown setting, with the most similar name.
fn no_setting(name: &str, known: impl Iterator<Item = String>) -> String {
    // The common prefix of all variables carries no information.
    fn end(name: &str) -> &str {
        name.strip_prefix("LONGSHORE_").unwrap_or(name)
    }
    let known: Vec<String> = known.collect();
    let similar = nearest(end(name), known.iter().map(|known| end(known)));
    match similar.and_then(|similar| known.iter().find(|known| end(known) == similar)) {
        Some(similar) => format!("{name}: unknown setting; did you mean {similar}?"),
        None => format!("{name}: unknown setting"),
    }
}

/// Every setting and section, by its path in the file.
fn settings() -> impl Iterator<Item = String> {
    let defaults = serde_json::to_value(Config::default()).unwrap_or_default();
    let mut shown = Vec::new();
    add_names("", &defaults, &mut shown);
    // Secrets are never written.
    let short = ENVIRONMENT.iter().map(|(_, setting)| (*setting).to_owned());
    short.chain(shown)
}

/// Adds the settings and sections of a section, by their paths.
fn add_names(path: &str, section: &serde_json::Value, names: &mut Vec<String>) {
    for (name, value) in section.as_object().into_iter().flatten() {
        let name = format!("{path}{name}");
        add_names(&format!("{name}."), value, names);
        names.push(name);
    }
}

/// Every variable that is read, except librdkafka's properties.
fn variables() -> impl Iterator<Item = String> {
    let others = OTHER_VARIABLES.iter().map(|name| (*name).to_owned());
    others.chain(settings().map(|setting| variable(&setting)))
}

/// The environment variable of a setting, such as `LONGSHORE_WORKER__LEASE_MS`.
pub fn variable(setting: &str) -> String {
    let short = ENVIRONMENT.iter().find(|(_, path)| *path == setting);
    let long = || match setting.strip_prefix("log.kafka.") {
        Some(property) => {
            format!("LONGSHORE_LOG__KAFKA__{}", property.to_uppercase().replace('.', "_"))
        }
        None => format!("LONGSHORE_{}", setting.to_uppercase().replace('.', "__")),
    };
    short.map_or_else(long, |(short, _)| (*short).to_owned())
}

/// Whether Kubernetes sets a variable in every pod, for a Service whose name is or begins with
/// `longshore`, such as `LONGSHORE_SERVICE_HOST` and `LONGSHORE_GATEWAY_PORT_80_TCP_ADDR`.
fn is_service_variable(name: &str, value: &str) -> bool {
    static NAME: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            "^LONGSHORE(?:_[A-Z0-9_]+)?_(?:SERVICE_HOST|SERVICE_PORT(?:_[A-Z0-9_]+)?\
             |PORT_[0-9]+_(?:TCP|UDP|SCTP)(?:_(?:ADDR|PORT|PROTO))?)$",
        )
        .expect("a regular expression")
    });
    // Any other `…_PORT` may be a misspelled setting.
    let is_address = || ["tcp://", "udp://", "sctp://"].iter().any(|kind| value.starts_with(kind));
    name == "LONGSHORE_PORT" || NAME.is_match(name) || (name.ends_with("_PORT") && is_address())
}

/// The one warning about variables of Services.
fn service_warning(names: &[String]) -> Option<String> {
    const SHOWN: usize = 3;
    let mut shown = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        shown += &format!(" and {} more", names.len() - SHOWN);
    }
    (!names.is_empty()).then(|| {
        format!(
            "ignored {shown}, which Kubernetes sets for a Service. To avoid them, set \
             enableServiceLinks: false in the pod"
        )
    })
}

pub fn is_setting(name: &str) -> bool {
    name.starts_with("LONGSHORE_")
        && !OTHER_VARIABLES.contains(&name)
        && !OTHER_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// The path of a variable's setting.
fn path_of(variable: &str) -> Option<Vec<String>> {
    let path = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    if let Some((_, setting)) = ENVIRONMENT.iter().find(|(short, _)| *short == variable) {
        return Some(setting.split('.').map(str::to_owned).collect());
    }
    let name = variable.strip_prefix("LONGSHORE_")?.to_lowercase();
    if let Some(property) = name.strip_prefix("log__kafka__") {
        return Some(path(&["log", "kafka", &property.replace('_', ".")]));
    }
    for section in NESTED {
        let names: Vec<&str> = section.split('.').collect();
        let rest = name.strip_prefix(&names.join("__"));
        if let Some(name) = rest.and_then(|rest| rest.strip_prefix("__")) {
            return Some(path(&[&names[..], &[name]].concat()));
        }
    }
    let (section, name) = name.split_once("__")?;
    Some(path(&[section, name]))
}

fn value_of(path: &[String], text: String) -> Value {
    if !is_list(&path.join(".")) {
        return text.into();
    }
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    items.map(str::to_owned).collect::<Vec<_>>().into()
}

fn put(values: &mut Dict, path: &[String], value: Value) {
    match path {
        [] => {}
        [name] => {
            values.insert(name.clone(), value);
        }
        [section, rest @ ..] => {
            let section = values.entry(section.clone()).or_insert_with(|| Dict::new().into());
            if let Value::Dict(_, section) = section {
                put(section, rest, value);
            }
        }
    }
}

/// Removes the value at `path`, or the value that contains the path.
fn take(values: &mut Dict, path: &[String]) -> Option<(Vec<String>, Value)> {
    let (name, rest) = path.split_first()?;
    if let Some(Value::Dict(_, section)) = values.get_mut(name)
        && !rest.is_empty()
    {
        let (mut path, value) = take(section, rest)?;
        path.insert(0, name.clone());
        return Some((path, value));
    }
    Some((vec![name.clone()], values.remove(name)?))
}

/// The expected format of a setting.
fn shape(setting: &str, kind: &Kind) -> &'static str {
    match setting {
        "gateway.listen" | "ops.listen" => "an address with a port, such as 127.0.0.1:8080",
        "console.listen" => "an address with a port, such as 127.0.0.1:8081, or off",
        "public_url" => "a URL, such as https://longshore.example.com",
        "console.public_url" => "a URL, such as https://console.example.com",
        "log_format" => "text or json",
        "data" | "database.url" | "log.url" | "log.topic_prefix" | "objects.url" | "secret_key"
        | "secret_key_old" | "traces.headers" => "a text",
        _ if setting.starts_with("console.oidc.") => "a text",
        _ if setting.starts_with("console.permissions.") => "a list of rights",
        "traces.url" => "a URL, such as http://collector:4318",
        "traces.share" => "a number from 0 to 1",
        _ if LISTS.contains(&setting) => "a list of networks",
        _ if setting.starts_with("log.kafka.") => {
            "a string in quotes (a name with dots needs quotes, too)"
        }
        "log.kafka" => "a section",
        _ if NESTED.contains(&setting) => "a section",
        _ if !setting.contains('.') => "a section",
        _ => match kind {
            Kind::InvalidValue(_, range) if range == "u16" => "a whole number from 0 to 65535",
            Kind::InvalidValue(_, range) if range == "u32" => "a whole number from 0 to 4294967295",
            _ => "a whole number from 0",
        },
    }
}

/// The value that was found in the place of a setting.
fn shown(setting: &str, value: &Value) -> String {
    let is_secret = SECRETS.contains(&setting) || setting.starts_with("log.kafka.");
    match value {
        Value::Array(..) => "a list".into(),
        Value::Dict(..) => "a section".into(),
        _ if is_secret => "a value of another kind".into(),
        // A string in quotes, a number, true or false.
        _ => serde_json::to_string(value).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests;
