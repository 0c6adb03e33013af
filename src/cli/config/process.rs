//! The process of a pod: its arguments and settings, read as the process itself does.

use std::collections::BTreeMap;
use std::ffi::OsString;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Parser as _;
use kit::secrets::SecretKey;
use serde_json::Value;

use super::super::{Arguments, Command};
use super::manifests::{Manifests, Pod, list, text};
use crate::config::{Config, Mode};
use crate::worker::Role;

/// The environment of the image (`deploy/Dockerfile`).
pub const IMAGE: &[(&str, &str)] = &[
    ("LONGSHORE_DATA", "/var/lib/longshore"),
    ("LONGSHORE_LISTEN", "[::]:8080"),
    ("LONGSHORE_OPS_LISTEN", "[::]:9100"),
    ("LONGSHORE_LOG_FORMAT", "json"),
];

/// Settings with credentials, which are usually in a Secret outside of the manifests, with valid
/// values.
const IN_SECRET: &[(&str, &str)] = &[
    ("LONGSHORE_LOG_URL", "kafka://kafka:9092"),
    ("LONGSHORE_DATABASE_URL", "postgres://db/longshore"),
    ("LONGSHORE_OBJECTS_URL", "s3://bucket/prefix?region=eu-west-1"),
];

/// A process with valid arguments and settings.
pub struct Process {
    pub config: Config,
    pub is_gateway: bool,
    pub roles: Vec<Role>,
}

impl Process {
    /// The process of a pod, or its problems.
    pub fn from_pod(pod: &Pod<'_>, manifests: &Manifests) -> Result<Self, Vec<String>> {
        let container = pod.container();
        // The first word of a command is the program.
        let command = list(&container["command"]).iter().skip(1);
        let words = command.chain(list(&container["args"])).map(text);
        let arguments = Arguments::try_parse_from(std::iter::once("longshore").chain(words))
            .map_err(|error| {
                let error = error.to_string();
                let line = error.lines().next().unwrap_or_default();
                vec![format!("args: {}", line.trim_start_matches("error: "))]
            })?;
        let mut environment = Environment::from_container(container, manifests);
        environment.is_partial |= arguments.config.is_some();
        let (mode, options) = arguments.command.mode_and_settings();
        let config = environment.settings(mode, options)?;
        let roles = match &arguments.command {
            Command::Worker(worker) => worker.roles().to_vec(),
            Command::Standalone(_) => Role::ALL.to_vec(),
            _ => Vec::new(),
        };
        let is_gateway = matches!(arguments.command, Command::Gateway(_) | Command::Standalone(_));
        Ok(Self { config, is_gateway, roles })
    }
}

/// The environment of a container, over that of the image.
struct Environment {
    values: BTreeMap<String, String>,
    /// Whether sources that are not among the manifests may set more variables.
    is_partial: bool,
}

impl Environment {
    fn from_container(container: &Value, manifests: &Manifests) -> Self {
        let values = IMAGE.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let mut environment = Self { values, is_partial: false };
        for source in list(&container["envFrom"]) {
            let prefix = text(&source["prefix"]);
            let map = text(&source["configMapRef"]["name"]);
            let secret = text(&source["secretRef"]["name"]);
            let found = manifests.find("ConfigMap", map).map(plain);
            match found.or_else(|| manifests.find("Secret", secret).map(secret_values)) {
                Some(data) => {
                    let named =
                        data.into_iter().map(|(name, value)| (prefix.to_owned() + &name, value));
                    environment.values.extend(named);
                }
                None => environment.is_partial = true,
            }
        }
        for variable in list(&container["env"]) {
            let from = &variable["valueFrom"];
            let map =
                manifests.find("ConfigMap", text(&from["configMapKeyRef"]["name"])).map(plain);
            let secret = || manifests.find("Secret", text(&from["secretKeyRef"]["name"]));
            let data = map.or_else(|| secret().map(secret_values));
            let key = [&from["configMapKeyRef"]["key"], &from["secretKeyRef"]["key"]];
            let value = if from.is_null() {
                Some(text(&variable["value"]).to_owned())
            } else {
                data.and_then(|mut data| key.iter().find_map(|key| data.remove(text(key))))
            };
            match value {
                Some(value) => _ = environment.values.insert(text(&variable["name"]).into(), value),
                None => environment.is_partial = true,
            }
        }
        environment
    }

    fn settings(
        mut self,
        mode: Mode,
        options: Vec<(&'static str, OsString)>,
    ) -> Result<Config, Vec<String>> {
        if self.is_partial {
            for (name, value) in IN_SECRET {
                self.values.entry((*name).into()).or_insert_with(|| (*value).into());
            }
            self.values.entry("LONGSHORE_SECRET_KEY".into()).or_insert_with(SecretKey::generate);
        }
        let values = self.values.into_iter().map(|(name, value)| (name.into(), value.into()));
        let options = options.into_iter().map(|(name, value)| (name.into(), value));
        Config::from_environment(values.chain(options), mode).map_err(|error| error.problems)
    }
}

fn plain(map: &Value) -> BTreeMap<String, String> {
    let data = map["data"].as_object().into_iter().flatten();
    data.map(|(name, value)| (name.clone(), text(value).to_owned())).collect()
}

fn secret_values(secret: &Value) -> BTreeMap<String, String> {
    let data = secret["data"].as_object().into_iter().flatten();
    let decode = |value: &Value| {
        let bytes = STANDARD.decode(text(value).replace(char::is_whitespace, ""));
        bytes.ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
    };
    let plain = secret["stringData"].as_object().into_iter().flatten();
    let plain = plain.map(|(name, value)| (name.clone(), text(value).to_owned()));
    data.map(|(name, value)| (name.clone(), decode(value))).chain(plain).collect()
}
