//! Every environment that a process is deployed with, taken as it takes its settings.

use std::collections::{BTreeMap, BTreeSet};

use longshore::config::{Config, Mode};
use serde_json::Value;

use super::manifests::{Manifests, OVERLAYS, Pod, list, text};
use crate::support::files::{project, read};

/// The user of the image.
pub const IMAGE_USER: u64 = 65532;

/// What the guide has put into the Secret, which is in no manifest: names, with values of the
/// right shape.
const SECRET: [(&str, &str); 3] = [
    ("LONGSHORE_DATABASE_URL", "postgres://longshore:secret@db/longshore"),
    ("LONGSHORE_OBJECTS_URL", "s3://acme-longshore/built?region=eu-west-1"),
    ("LONGSHORE_SECRET_KEY", "bG9uZ3Nob3JlLWxvbmdzaG9yZS1sb25nc2hvcmUtMTI="),
];

/// The instructions of the image's last stage, each in one line.
pub fn last_stage() -> Vec<String> {
    let text = read(project("deploy/Dockerfile")).replace("\\\n", " ");
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let from = lines.iter().rposition(|line| line.starts_with("FROM ")).expect("a stage");
    let kept = lines[from..].iter().filter(|line| !line.is_empty() && !line.starts_with('#'));
    kept.map(|line| (*line).to_owned()).collect()
}

/// The environment that the image has.
pub fn of_image() -> BTreeMap<String, String> {
    let lines = last_stage();
    let set = lines.iter().filter_map(|line| line.strip_prefix("ENV "));
    let pairs = set.flat_map(str::split_whitespace).filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The environment of a pod over that of the image.
fn environment(manifests: &Manifests, pod: &Pod) -> BTreeMap<String, String> {
    let mut environment = of_image();
    for source in list(&pod.container()["envFrom"]) {
        if let Some(map) = source["configMapRef"]["name"].as_str() {
            let map = manifests.find("ConfigMap", map).unwrap_or_else(|| panic!("no {map}"));
            let data = map["data"].as_object().into_iter().flatten();
            environment.extend(data.map(|(name, value)| (name.clone(), text(value).to_owned())));
            continue;
        }
        let name = text(&source["secretRef"]["name"]);
        match manifests.find("Secret", name) {
            Some(secret) => environment.extend(decoded(secret)),
            None => {
                assert_eq!((manifests.overlay, name), ("production", "longshore"));
                environment.extend(SECRET.map(|(name, value)| (name.into(), value.into())));
            }
        }
    }
    for variable in list(&pod.container()["env"]) {
        environment.insert(text(&variable["name"]).into(), text(&variable["value"]).into());
    }
    environment
}

fn decoded(secret: &Value) -> Vec<(String, String)> {
    use base64::Engine as _;
    let data = secret["data"].as_object().into_iter().flatten();
    let decode = |value: &Value| {
        base64::engine::general_purpose::STANDARD.decode(text(value).replace('\n', "")).unwrap()
    };
    data.map(|(name, value)| (name.clone(), String::from_utf8(decode(value)).unwrap())).collect()
}

/// The settings of a process with this environment.
pub fn taken(environment: &BTreeMap<String, String>, arguments: &[&str]) -> Config {
    let mode = match arguments[0] {
        "gateway" | "worker" => Mode::Fleet,
        _ => Mode::Command,
    };
    let pairs = environment.iter().map(|(name, value)| (name.into(), value.into()));
    Config::load(None, pairs, mode).unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
}

pub fn of_pod(manifests: &Manifests, pod: &Pod) -> Config {
    taken(&environment(manifests, pod), &pod.arguments())
}

#[test]
fn every_pod_is_started_with_settings_that_serve() {
    for manifests in OVERLAYS.iter() {
        for pod in manifests.longshore() {
            let config = of_pod(manifests, &pod);
            // Nothing may lie in the pod, which anything can end.
            let url = config.database_url();
            assert!(url.starts_with("postgres://"), "{}", pod.name());
            assert!(config.gateway.listen.ip().is_unspecified(), "{}", pod.name());
            if let Some(http) = pod.port(&Value::from("http")) {
                assert_eq!(http, u64::from(config.gateway.listen.port()));
            }
        }
        // All the same ones: partitions, keys and addresses of one installation.
        let each: BTreeSet<Vec<(String, String)>> = manifests
            .longshore()
            .iter()
            .map(|pod| {
                let environment = environment(manifests, pod).into_iter();
                environment.filter(|(name, _)| name.starts_with("LONGSHORE_")).collect()
            })
            .collect();
        assert_eq!(each.len(), 1, "{}", manifests.overlay);
    }
}

/// Every name in any file, comments and guides too.
#[test]
fn every_name_of_a_setting_is_one() {
    let mut files = vec![];
    let mut folders = vec![project("deploy/kubernetes"), project("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { &mut folders } else { &mut files }.push(path);
        }
    }
    files.extend(
        ["Dockerfile", "compose.yaml", "compose.env.example"].map(|f| project("deploy").join(f)),
    );
    let mut names = BTreeSet::new();
    files.retain(|file| file.extension().is_none_or(|end| end != "png"));
    for file in files {
        let text = read(&file);
        let is_of_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        for word in text.split(|c| !is_of_name(c)).filter(|word| word.starts_with("LONGSHORE_")) {
            // Of the build alone; and where a text names them all.
            if word != "LONGSHORE_REVISION" && word != "LONGSHORE_" {
                names.insert(word.to_owned());
            }
        }
    }
    assert!(names.len() > 10, "{names:?}");
    for name in &names {
        let said = match Config::load(None, [(name.into(), "x".into())], Mode::Command) {
            Ok(_) => vec![],
            Err(error) => error.problems,
        };
        let unknown = format!("{name}: unknown setting");
        assert!(!said.iter().any(|said| said.starts_with(&unknown)), "{unknown}");
    }
    for (name, _) in SECRET {
        assert!(read(project("docs/how-to/kubernetes.md")).contains(name), "{name}");
    }
}
