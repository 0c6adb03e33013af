//! Objects of Kubernetes, and the pods that they describe.

use serde_json::Value;

/// The annotation of objects that are inputs of kustomize.
const LOCAL: &str = "config.kubernetes.io/local-config";

/// The objects that are checked together.
pub struct Manifests {
    pub all: Vec<Value>,
    /// Secrets that exist in the cluster.
    pub secrets: Vec<String>,
}

impl Manifests {
    pub fn new(secrets: Vec<String>) -> Self {
        Self { all: Vec::new(), secrets }
    }

    /// Adds the documents of a YAML text, and the items of its lists.
    pub fn add(&mut self, text: &str) -> Result<(), serde_saphyr::Error> {
        for document in serde_saphyr::from_multiple::<Value>(text)? {
            match document["items"].as_array() {
                Some(items) if document["kind"] == "List" => self.all.extend(items.iter().cloned()),
                _ => self.all.push(document),
            }
        }
        self.all.retain(|object| {
            object.is_object() && object["metadata"]["annotations"][LOCAL] != "true"
        });
        Ok(())
    }

    pub fn with_kind(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.all.iter().filter(move |object| object["kind"] == kind)
    }

    pub fn find(&self, kind: &str, name: &str) -> Option<&Value> {
        self.with_kind(kind).find(|object| text(&object["metadata"]["name"]) == name)
    }

    /// Whether a ConfigMap or a Secret exists, here or in the cluster.
    pub fn exists(&self, kind: &str, name: &str) -> bool {
        let in_cluster = kind == "Secret" && self.secrets.iter().any(|secret| secret == name);
        in_cluster || self.find(kind, name).is_some()
    }

    /// The pods of every workload.
    pub fn pods(&self) -> Vec<Pod<'_>> {
        self.all.iter().filter_map(Pod::from_owner).collect()
    }

    /// The minimum number of pods of a workload, and what sets it.
    pub fn replicas(&self, pod: &Pod<'_>) -> u64 {
        let targets = |scaler: &&Value| {
            text(&scaler["spec"]["scaleTargetRef"]["name"]) == text(&pod.owner["metadata"]["name"])
        };
        let hpa = self.with_kind("HorizontalPodAutoscaler").find(targets);
        let keda = self.with_kind("ScaledObject").find(targets);
        match (hpa, keda) {
            (Some(hpa), _) => hpa["spec"]["minReplicas"].as_u64().unwrap_or(1),
            (_, Some(keda)) => keda["spec"]["minReplicaCount"].as_u64().unwrap_or(0),
            _ => pod.owner["spec"]["replicas"].as_u64().unwrap_or(1),
        }
    }
}

/// The pod of a workload.
#[derive(Clone, Copy)]
pub struct Pod<'a> {
    pub owner: &'a Value,
    labels: &'a Value,
    pub spec: &'a Value,
}

impl<'a> Pod<'a> {
    fn from_owner(owner: &'a Value) -> Option<Self> {
        let template = match owner["kind"].as_str()? {
            "Deployment" | "StatefulSet" | "DaemonSet" | "Job" => &owner["spec"]["template"],
            "CronJob" => &owner["spec"]["jobTemplate"]["spec"]["template"],
            "Pod" => owner,
            _ => return None,
        };
        Some(Self { owner, labels: &template["metadata"]["labels"], spec: &template["spec"] })
    }

    pub fn name(&self) -> String {
        name(self.owner)
    }

    /// Whether it runs all the time.
    pub fn is_service(&self) -> bool {
        !matches!(self.owner["kind"].as_str(), Some("Job" | "CronJob"))
    }

    pub fn is_longshore(&self) -> bool {
        self.labels["app.kubernetes.io/name"] == "longshore"
    }

    /// The container that runs Longshore.
    pub fn container(&self) -> &'a Value {
        let containers = list(&self.spec["containers"]);
        let named = containers.iter().find(|container| container["name"] == "longshore");
        named.or(containers.first()).unwrap_or(&Value::Null)
    }

    /// The number of a port that is given by name or number.
    pub fn port(&self, port: &Value) -> Option<u64> {
        let ports = || list(&self.container()["ports"]).iter();
        port.as_u64().or_else(|| {
            ports()
                .find(|named| named["name"] == *port)
                .and_then(|named| named["containerPort"].as_u64())
        })
    }

    /// Whether a label selector selects it.
    pub fn is_selected(&self, selector: &Value) -> bool {
        let equal = selector["matchLabels"].as_object().into_iter().flatten();
        let mut equal = equal.map(|(name, value)| self.labels[name] == *value);
        let mut expressions = list(&selector["matchExpressions"]).iter().map(|expression| {
            let value = &self.labels[text(&expression["key"])];
            let is_listed = list(&expression["values"]).contains(value);
            match text(&expression["operator"]) {
                "In" => is_listed,
                "NotIn" => !is_listed,
                "Exists" => !value.is_null(),
                _ => value.is_null(),
            }
        });
        equal.all(|holds| holds) && expressions.all(|holds| holds)
    }

    /// Whether a Service selects it.
    pub fn is_served_by(&self, service: &Value) -> bool {
        let labels = service["spec"]["selector"].as_object();
        labels.is_some_and(|labels| {
            !labels.is_empty() && labels.iter().all(|(name, value)| self.labels[name] == *value)
        })
    }
}

/// An object as a problem names it.
pub fn name(object: &Value) -> String {
    format!("{} {}", text(&object["kind"]), text(&object["metadata"]["name"]))
}

pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A quantity of memory, such as `320Mi`, in bytes.
pub fn bytes(quantity: &Value) -> Option<u64> {
    const UNITS: [(&str, u64); 9] = [
        ("Ki", 1 << 10),
        ("Mi", 1 << 20),
        ("Gi", 1 << 30),
        ("Ti", 1 << 40),
        ("k", 1_000),
        ("M", 1_000_000),
        ("G", 1_000_000_000),
        ("T", 1_000_000_000_000),
        ("", 1),
    ];
    if let Some(bytes) = quantity.as_u64() {
        return Some(bytes);
    }
    let (number, unit) =
        UNITS.iter().find_map(|(end, unit)| Some((text(quantity).strip_suffix(end)?, unit)))?;
    Some((number.parse::<f64>().ok()? * *unit as f64) as u64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities_are_bytes() {
        let parse = |quantity| bytes(&json!(quantity));
        assert_eq!(parse("320Mi"), Some(320 << 20));
        assert_eq!(parse("1.5Gi"), Some(3 << 29));
        assert_eq!(parse("200M"), Some(200_000_000));
        assert_eq!(parse("77"), Some(77));
        assert_eq!(parse("much"), None);
        assert_eq!(bytes(&json!(5)), Some(5));
    }
}
