//! Manifests as kustomize prints them, and what is in them.

use std::sync::LazyLock;

use serde_json::Value;

use super::printed;
use crate::support::files::project;

/// Each overlay, made once.
pub static OVERLAYS: LazyLock<[Manifests; 2]> =
    LazyLock::new(|| ["laptop", "production"].map(Manifests::build));

pub fn production() -> &'static Manifests {
    &OVERLAYS[1]
}

/// All that an overlay comes to.
pub struct Manifests {
    pub overlay: &'static str,
    pub text: String,
    pub all: Vec<Value>,
}

impl Manifests {
    fn build(overlay: &'static str) -> Self {
        let folder = project("deploy/kubernetes/overlays").join(overlay);
        let text = printed("kustomize", &["build", folder.to_str().expect("UTF-8")]);
        let all = documents(&text);
        assert!(all.len() > 20, "{overlay}: {}", all.len());
        Self { overlay, text, all }
    }

    pub fn of_kind(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.all.iter().filter(move |object| object["kind"] == kind)
    }

    pub fn find(&self, kind: &str, name: &str) -> Option<&Value> {
        self.of_kind(kind).find(|object| object["metadata"]["name"] == name)
    }

    /// Every pod that is to run.
    pub fn pods(&self) -> Vec<Pod<'_>> {
        let owners = ["Deployment", "StatefulSet", "Job"].map(|kind| self.of_kind(kind));
        let pods = owners.into_iter().flatten().map(Pod::of);
        pods.collect()
    }

    /// Those that run Longshore.
    pub fn longshore(&self) -> Vec<Pod<'_>> {
        self.pods().into_iter().filter(Pod::is_longshore).collect()
    }

    /// Those that a selector of labels means.
    pub fn selected<'a>(&'a self, selector: &'a Value) -> Vec<Pod<'a>> {
        self.pods().into_iter().filter(|pod| matches(selector, pod.labels)).collect()
    }
}

/// The documents of a YAML text.
pub fn documents(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).expect("YAML")
}

pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("expected a text: {value}"))
}

pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The pod that something makes.
#[derive(Clone, Copy)]
pub struct Pod<'a> {
    pub owner: &'a Value,
    pub labels: &'a Value,
    pub spec: &'a Value,
}

impl<'a> Pod<'a> {
    fn of(owner: &'a Value) -> Self {
        let template = &owner["spec"]["template"];
        Self { owner, labels: &template["metadata"]["labels"], spec: &template["spec"] }
    }

    pub fn name(&self) -> &'a str {
        text(&self.owner["metadata"]["name"])
    }

    pub fn component(&self) -> &'a str {
        text(&self.labels["app.kubernetes.io/component"])
    }

    pub fn is_longshore(&self) -> bool {
        self.labels["app.kubernetes.io/name"] == "longshore"
    }

    /// Its one container.
    pub fn container(&self) -> &'a Value {
        let containers = list(&self.spec["containers"]);
        assert_eq!(containers.len(), 1, "{}", self.name());
        assert!(self.spec["initContainers"].is_null(), "{}", self.name());
        &containers[0]
    }

    pub fn arguments(&self) -> Vec<&'a str> {
        list(&self.container()["args"]).iter().map(text).collect()
    }

    /// The number of a port that is given by its name or its number.
    pub fn port(&self, port: &Value) -> Option<u64> {
        let ports = list(&self.container()["ports"]).iter();
        let mut numbers =
            ports.filter(|named| named["name"] == *port || named["containerPort"] == *port);
        numbers.next()?["containerPort"].as_u64()
    }
}

/// Whether a selector means what has these labels.
pub fn matches(selector: &Value, labels: &Value) -> bool {
    let equal = selector["matchLabels"].as_object().into_iter().flatten();
    let mut equal = equal.map(|(name, value)| labels[name] == *value);
    let mut said = list(&selector["matchExpressions"]).iter().map(|said| {
        let has = list(&said["values"]).contains(&labels[text(&said["key"])]);
        match text(&said["operator"]) {
            "In" => has,
            "NotIn" => !has,
            other => panic!("{other} is not used here"),
        }
    });
    equal.all(|held| held) && said.all(|held| held)
}
