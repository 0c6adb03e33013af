//! What is configured where: every setting with its value and its origin.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use super::{Config, Given, Mode, SECRETS, variable};

/// Where the value of a setting comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    Default,
    File,
    Environment,
}

impl Origin {
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::File => "file",
            Self::Environment => "environment",
        }
    }
}

/// A setting as it is in effect.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShownSetting {
    /// Its path in the file.
    pub name: String,
    /// Null if it is not set and has no default, and for a secret that is set. The values in a
    /// URL's query, and its password, are `***`.
    pub value: Value,
    /// Whether it is a secret that is set: its value is never shown.
    pub hidden: bool,
    /// Whether the given value cannot be used. Its place has the default.
    pub invalid: bool,
    pub origin: Origin,
    /// Its environment variable, whether or not it is set.
    pub variable: String,
}

impl Config {
    /// Every setting, by its name, and all errors. Sources and errors are those of
    /// [`load`](Config::load).
    pub fn origins(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> (Vec<ShownSetting>, Vec<String>) {
        let mut given = Given::default();
        given.read_file(file);
        given.read_environment(environment);
        let values = serde_json::to_value(&given.values).unwrap_or_default();
        let variables = given.variables.clone();
        let config = given.settings();
        let mut problems = given.problems;
        problems.extend(config.problems(Mode::Command));
        // A problem begins with its setting or variable.
        let beginnings: HashSet<&str> =
            problems.iter().filter_map(|problem| problem.split([':', ' ']).next()).collect();
        let origin = |path: &[String]| {
            let value = path.iter().fold(&values, |section, name| &section[name.as_str()]);
            match value {
                _ if variables.contains_key(path) => Origin::Environment,
                Value::Null => Origin::Default,
                _ => Origin::File,
            }
        };
        let mut all = Vec::new();
        let mut show = |path: Vec<String>, value: &Value, is_secret: bool| {
            let (name, origin) = (path.join("."), origin(&path));
            let hidden = is_secret && origin != Origin::Default;
            let value = if hidden { Value::Null } else { masked(value) };
            let variable = variables.get(&path).cloned().unwrap_or_else(|| variable(&name));
            let invalid = [&name, &variable].iter().any(|name| beginnings.contains(name.as_str()));
            all.push(ShownSetting { name, value, hidden, invalid, origin, variable });
        };
        let settings = serde_json::to_value(&config).unwrap_or_default();
        each_setting(&mut Vec::new(), &settings, &mut |path, value| {
            // Properties of librdkafka may have passwords.
            if !path.starts_with(&["log".to_owned(), "kafka".to_owned()]) {
                show(path.to_vec(), value, false);
            }
        });
        for name in config.log.kafka.keys() {
            show(vec!["log".into(), "kafka".into(), name.clone()], &Value::Null, true);
        }
        for name in SECRETS {
            // Shown only if the setting is not set.
            let default = match *name {
                "secret_key" => config.data.join("secret.key").display().to_string().into(),
                "database.url" => config.database_url().into(),
                "objects.url" => config.objects_url().into(),
                _ => Value::Null,
            };
            show(name.split('.').map(str::to_owned).collect(), &default, true);
        }
        all.sort_by(|a, b| (a.name.contains('.'), &a.name).cmp(&(b.name.contains('.'), &b.name)));
        (all, problems)
    }
}

/// Calls `show` with the path and the value of each setting in a section.
fn each_setting(path: &mut Vec<String>, value: &Value, show: &mut impl FnMut(&[String], &Value)) {
    let Some(section) = value.as_object() else { return show(path, value) };
    for (name, value) in section {
        path.push(name.clone());
        each_setting(path, value, show);
        path.pop();
    }
}

/// A value without what may be secret in its URLs.
fn masked(value: &Value) -> Value {
    match value {
        Value::String(text) => masked_url(text).into(),
        Value::Array(list) => list.iter().map(masked).collect(),
        value => value.clone(),
    }
}

/// A URL without its password and the values in its query; any other text unchanged.
fn masked_url(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let (rest, fragment) = match rest.split_once('#') {
        Some((rest, _)) => (rest, "#***"),
        None => (rest, ""),
    };
    let (address, query) = match rest.split_once('?') {
        Some((address, query)) => (address, Some(query)),
        None => (rest, None),
    };
    let (authority, path) = address.split_at(address.find('/').unwrap_or(address.len()));
    let authority = match authority.rsplit_once('@') {
        Some((user, host)) => match user.split_once(':') {
            Some((user, _)) => format!("{user}:***@{host}"),
            None => authority.to_owned(),
        },
        None => authority.to_owned(),
    };
    let query = query.map(|query| {
        let fields = query.split('&').map(|field| match field.split_once('=') {
            Some((name, _)) => format!("{name}=***"),
            None => "***".to_owned(),
        });
        format!("?{}", fields.collect::<Vec<_>>().join("&"))
    });
    format!("{scheme}://{authority}{path}{}{fragment}", query.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(file: &str, environment: &[(&str, &str)]) -> Vec<ShownSetting> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("longshore.toml");
        std::fs::write(&path, file).unwrap();
        let environment = environment.iter().map(|(name, value)| (name.into(), value.into()));
        let (all, problems) = Config::origins(Some(&path), environment);
        assert_eq!(problems, [""; 0]);
        all
    }

    fn find<'a>(all: &'a [ShownSetting], name: &str) -> &'a ShownSetting {
        all.iter().find(|setting| setting.name == name).unwrap()
    }

    #[test]
    fn each_setting_has_its_origin() {
        let file = "[worker]\nlease_ms = 20000\npoll_ms = 300\n";
        let all = shown(file, &[("LONGSHORE_WORKER__POLL_MS", "200")]);
        let lease = find(&all, "worker.lease_ms");
        assert_eq!((lease.origin, &lease.value), (Origin::File, &20_000.into()));
        let poll = find(&all, "worker.poll_ms");
        assert_eq!((poll.origin, &poll.value), (Origin::Environment, &200.into()));
        assert_eq!(poll.variable, "LONGSHORE_WORKER__POLL_MS");
        let drain = find(&all, "worker.drain_seconds");
        assert_eq!((drain.origin, &drain.value), (Origin::Default, &25.into()));
        let mut names: Vec<&str> = all.iter().map(|setting| setting.name.as_str()).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count, "each once");
    }

    #[test]
    fn secrets_are_not_shown() {
        let url = "postgres://longshore:hunter2@db/longshore";
        let key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
        let all = shown(
            &format!(
                "secret_key = \"{key}\"\n[log]\nurl = \"kafka://k:9092\"\n[log.kafka]\n\"sasl.password\" = \"hunter3\"\n"
            ),
            &[("LONGSHORE_DATABASE_URL", url)],
        );
        let text = serde_json::to_string(&all).unwrap();
        for secret in ["hunter2", "hunter3", key] {
            assert!(!text.contains(secret), "{text}");
        }
        for (name, origin) in [
            ("database.url", Origin::Environment),
            ("secret_key", Origin::File),
            ("log.kafka.sasl.password", Origin::File),
        ] {
            let setting = find(&all, name);
            assert_eq!((setting.hidden, setting.origin), (true, origin), "{name}");
        }
        let property = find(&all, "log.kafka.sasl.password");
        assert_eq!(property.variable, "LONGSHORE_LOG__KAFKA__SASL_PASSWORD");
        let objects = find(&all, "objects.url");
        assert!(!objects.hidden, "not set");
        assert!(objects.value.as_str().unwrap().ends_with("/objects"), "{objects:?}");
    }

    #[test]
    fn values_in_urls_are_masked() {
        for (url, shown) in [
            ("https://x/v1?token=abc&b=&c", "https://x/v1?token=***&b=***&***"),
            ("https://ann:pass@x:1/v1#part", "https://ann:***@x:1/v1#***"),
            ("http://ann@x", "http://ann@x"),
            ("http://x?a=https://y:z@w/?q", "http://x?a=***"),
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("no?url=text", "no?url=text"),
        ] {
            assert_eq!(masked_url(url), shown);
        }
    }

    #[test]
    fn other_settings_are_shown_next_to_invalid_ones() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("longshore.toml");
        std::fs::write(&path, "[worker]\nlease_ms = \"soon\"\npoll_ms = 300\n").unwrap();
        let environment = [("LONGSHORE_LISTEN".into(), "here".into())];
        let (all, problems) = Config::origins(Some(&path), environment);
        assert_eq!(problems.len(), 2, "{problems:?}");
        for (name, origin, invalid) in [
            ("worker.lease_ms", Origin::File, true),
            ("gateway.listen", Origin::Environment, true),
            ("worker.poll_ms", Origin::File, false),
            ("worker.drain_seconds", Origin::Default, false),
        ] {
            let setting = find(&all, name);
            assert_eq!((setting.origin, setting.invalid), (origin, invalid), "{name}");
        }
    }
}
