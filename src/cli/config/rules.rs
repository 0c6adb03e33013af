//! What stops a process, its rollout or its node when manifests are applied.

use std::collections::BTreeSet;

use serde_json::Value;

use super::manifests::{Manifests, Pod, bytes, list, name, text};
use super::process::Process;
use crate::gateway::HEAD_BYTES;
use crate::worker::Role;
use server::service::AFTER_DRAIN;

/// Memory of a gateway in addition to its budgets (`docs/explanation/sizing.md`).
const GATEWAY_BYTES: usize = 96 << 20;

/// Memory of a worker in addition to `exports.memory_bytes`.
const WORKER_BYTES: usize = 50_000_000;

/// Problems with the objects that have them.
#[derive(Default)]
struct Problems(Vec<(String, Vec<String>)>);

impl Problems {
    fn add(&mut self, object: String, text: impl Into<String>) {
        let text = text.into();
        match self.0.iter_mut().find(|(known, _)| *known == text) {
            Some((_, objects)) if objects.contains(&object) => {}
            Some((_, objects)) => objects.push(object),
            None => self.0.push((text, vec![object])),
        }
    }

    fn lines(self) -> Vec<String> {
        let line = |(text, objects): (String, Vec<String>)| match &*objects {
            [first, second, rest @ ..] if !rest.is_empty() => {
                format!("{first}, {second} and {} more: {text}", rest.len())
            }
            _ => format!("{}: {text}", objects.join(", ")),
        };
        self.0.into_iter().map(line).collect()
    }
}

/// Each problem of the manifests, in a line.
pub fn check(manifests: &Manifests) -> Vec<String> {
    let mut problems = Problems::default();
    let pods = manifests.pods();
    let longshore: Vec<_> = pods.iter().filter(|pod| pod.is_longshore()).collect();
    if longshore.is_empty() {
        return vec!["no pod has the label app.kubernetes.io/name=longshore".into()];
    }
    pods.iter().for_each(|pod| references(pod, manifests, &mut problems));
    let mut processes = Vec::new();
    for pod in longshore {
        match Process::from_pod(pod, manifests) {
            Ok(process) => processes.push((*pod, process)),
            Err(texts) => texts.into_iter().for_each(|text| problems.add(pod.name(), text)),
        }
    }
    for (pod, process) in processes.iter().filter(|(pod, _)| pod.is_service()) {
        probes(pod, process, &mut problems);
        time_to_stop(pod, process, &mut problems);
        memory(pod, process, &mut problems);
    }
    same_image(&processes, &mut problems);
    roles(&processes, &mut problems);
    services(manifests, &processes, &mut problems);
    ingresses(manifests, &processes, &mut problems);
    budgets(manifests, &pods, &mut problems);
    scalers(manifests, &mut problems);
    problems.lines()
}

/// ConfigMaps and Secrets exist; otherwise the pod does not start.
fn references(pod: &Pod<'_>, manifests: &Manifests, problems: &mut Problems) {
    let containers = ["initContainers", "containers"].map(|kind| list(&pod.spec[kind]));
    for container in containers.into_iter().flatten() {
        for source in list(&container["envFrom"]) {
            reference(pod, "ConfigMap", &source["configMapRef"], manifests, problems);
            reference(pod, "Secret", &source["secretRef"], manifests, problems);
        }
        for variable in list(&container["env"]) {
            let from = &variable["valueFrom"];
            reference(pod, "ConfigMap", &from["configMapKeyRef"], manifests, problems);
            reference(pod, "Secret", &from["secretKeyRef"], manifests, problems);
        }
    }
    for volume in list(&pod.spec["volumes"]) {
        let projected = list(&volume["projected"]["sources"]).iter();
        for source in projected.chain([volume]) {
            reference(pod, "ConfigMap", &source["configMap"], manifests, problems);
            let secret = &source["secret"];
            reference(pod, "Secret", secret, manifests, problems);
        }
    }
}

fn reference(
    pod: &Pod<'_>,
    kind: &str,
    reference: &Value,
    manifests: &Manifests,
    problems: &mut Problems,
) {
    // A volume calls it secretName.
    let name = reference["name"].as_str().or_else(|| reference["secretName"].as_str());
    let Some(name) = name.filter(|_| reference["optional"] != true) else { return };
    if !manifests.exists(kind, name) {
        problems.add(pod.name(), missing(kind, name));
        return;
    }
    let (Some(key), Some(object)) = (reference["key"].as_str(), manifests.find(kind, name)) else {
        return;
    };
    let values = ["data", "stringData", "binaryData"].map(|section| &object[section][key]);
    if values.iter().all(|value| value.is_null()) {
        problems.add(pod.name(), format!("{kind} {name} has no key {key}"));
    }
}

fn missing(kind: &str, name: &str) -> String {
    match kind {
        "Secret" => format!(
            "Secret {name} is not among the manifests; if it exists in the cluster, add --secrets \
             {name}"
        ),
        _ => format!("{kind} {name} is not among the manifests"),
    }
}

/// Probes use the operations listener, and restart nothing while a server is down.
fn probes(pod: &Pod<'_>, process: &Process, problems: &mut Problems) {
    let ops = process.config.ops.listen;
    if ops.ip().is_loopback() {
        problems.add(pod.name(), format!("LONGSHORE_OPS_LISTEN is {ops}: probes cannot reach it"));
    }
    for name in ["startupProbe", "livenessProbe", "readinessProbe"] {
        let get = &pod.container()[name]["httpGet"];
        let (port, path) = (&get["port"], text(&get["path"]));
        if get.is_null() {
            if name == "readinessProbe" {
                problems.add(pod.name(), "no readinessProbe of /readyz");
            }
            continue;
        }
        if pod.port(port) != Some(ops.port().into()) {
            let text = format!(
                "{name} uses port {}, but the operations listener is on {}",
                port.to_string().replace('"', ""),
                ops.port()
            );
            problems.add(pod.name(), text);
        }
        match (name, path) {
            ("livenessProbe", "/readyz") => problems.add(
                pod.name(),
                "livenessProbe uses /readyz: an outage of the database would restart every pod. \
                 Use /healthz",
            ),
            (_, "/healthz" | "/readyz") => {}
            _ => problems.add(pod.name(), format!("{name}: unknown path {path}")),
        }
    }
}

/// Kubernetes does not kill a process that still finishes its work.
fn time_to_stop(pod: &Pod<'_>, process: &Process, problems: &mut Problems) {
    let grace = pod.spec["terminationGracePeriodSeconds"].as_u64().unwrap_or(30);
    let before = pod.container()["lifecycle"]["preStop"]["sleep"]["seconds"].as_u64().unwrap_or(0);
    let drain = process.config.worker.drain_seconds;
    let needed = before + drain + AFTER_DRAIN.as_secs();
    if grace < needed {
        let text = format!(
            "terminationGracePeriodSeconds is {grace}, but a process needs up to {needed} \
             ({before} preStop, {drain} worker.drain_seconds, {} to end)",
            AFTER_DRAIN.as_secs()
        );
        problems.add(pod.name(), text);
    }
}

/// A process that uses what its settings allow is not killed for its memory.
fn memory(pod: &Pod<'_>, process: &Process, problems: &mut Problems) {
    let limit = &pod.container()["resources"]["limits"]["memory"];
    let Some(limit_bytes) = bytes(limit) else {
        if !limit.is_null() {
            problems.add(pod.name(), format!("limits.memory: {limit} is not a valid quantity"));
        }
        return;
    };
    let (gateway, exports) = (&process.config.gateway, &process.config.exports);
    let mut needed = 0;
    if process.is_gateway {
        needed += GATEWAY_BYTES
            + gateway.memory_bytes
            + gateway.unauthenticated_bytes
            + gateway.connections * 2 * HEAD_BYTES;
    }
    if process.roles.contains(&Role::Exports) {
        needed += WORKER_BYTES + exports.memory_bytes;
    }
    if limit_bytes < needed as u64 {
        let text = format!(
            "limits.memory is {}, but the settings allow the process {} MiB",
            text(limit),
            needed.div_ceil(1 << 20)
        );
        problems.add(pod.name(), text);
    }
}

/// Every process is of the same version.
fn same_image(processes: &[(Pod<'_>, Process)], problems: &mut Problems) {
    let images = processes.iter().map(|(pod, _)| text(&pod.container()["image"]));
    let images: BTreeSet<_> = images.collect();
    if images.len() > 1 {
        let text =
            format!("different images: {}", images.into_iter().collect::<Vec<_>>().join(", "));
        problems.add("pods of Longshore".into(), text);
    }
}

/// Every role has a worker, if any does: without it, its work waits forever.
fn roles(processes: &[(Pod<'_>, Process)], problems: &mut Problems) {
    let services = processes.iter().filter(|(pod, _)| pod.is_service());
    let present: Vec<Role> =
        services.flat_map(|(_, process)| Role::with_included(&process.roles)).collect();
    for role in Role::ALL.into_iter().filter(|role| !present.contains(role)) {
        problems.add("workers".into(), format!("no workload has the role {}", role.name()));
    }
}

/// Services lead to a listener.
fn services(manifests: &Manifests, processes: &[(Pod<'_>, Process)], problems: &mut Problems) {
    for service in manifests.with_kind("Service") {
        for (pod, process) in processes.iter().filter(|(pod, _)| pod.is_served_by(service)) {
            let (api, ops) = (process.config.gateway.listen, process.config.ops.listen);
            let console = process.config.console.address().filter(|_| process.is_gateway);
            let is_other_listener = |number: Option<u64>| {
                [Some(ops), console]
                    .into_iter()
                    .flatten()
                    .any(|listen| number == Some(listen.port().into()))
            };
            for port in list(&service["spec"]["ports"]) {
                let target = Some(&port["targetPort"]).filter(|target| !target.is_null());
                let number = pod.port(target.unwrap_or(&port["port"]));
                let is_api = process.is_gateway && number == Some(api.port().into());
                if is_api && api.ip().is_loopback() {
                    let text =
                        format!("LONGSHORE_LISTEN is {api}: {} cannot reach it", name(service));
                    problems.add(pod.name(), text);
                } else if !is_api && !is_other_listener(number) {
                    let shown = target.unwrap_or(&port["port"]).to_string().replace('"', "");
                    let text = format!("port {shown} is not a listener of {}", pod.name());
                    problems.add(name(service), text);
                }
            }
        }
    }
}

/// An Ingress has its certificate, the host of `public_url`, and room for every request.
fn ingresses(manifests: &Manifests, processes: &[(Pod<'_>, Process)], problems: &mut Problems) {
    const BODY_SIZE: &str = "nginx.ingress.kubernetes.io/proxy-body-size";
    let gateway = processes.iter().find(|(_, process)| process.is_gateway);
    for ingress in manifests.with_kind("Ingress") {
        let spec = &ingress["spec"];
        for secret in list(&spec["tls"]).iter().filter_map(|tls| tls["secretName"].as_str()) {
            if !manifests.exists("Secret", secret) {
                problems.add(name(ingress), missing("Secret", secret));
            }
        }
        let rules = list(&spec["rules"]);
        for path in rules.iter().flat_map(|rule| list(&rule["http"]["paths"])) {
            let service = text(&path["backend"]["service"]["name"]);
            if manifests.find("Service", service).is_none() {
                problems
                    .add(name(ingress), format!("Service {service} is not among the manifests"));
            }
        }
        let Some((_, Process { config, .. })) = gateway else { continue };
        let url = config.public_url.as_ref();
        if let Some(host) = url.and_then(|url| url.host_str())
            && !rules.iter().any(|rule| rule["host"].is_null() || rule["host"] == host)
        {
            let text = format!("no rule for {host}, the host of LONGSHORE_PUBLIC_URL");
            problems.add(name(ingress), text);
        }
        let size = &ingress["metadata"]["annotations"][BODY_SIZE];
        // nginx writes mebibytes as `m`; 0 is no limit.
        let limit = bytes(&Value::from(text(size).to_uppercase().replace('M', "Mi")));
        let max_bytes = config.gateway.max_body_bytes as u64;
        if limit.is_some_and(|limit| limit != 0 && limit < max_bytes) {
            let text = format!(
                "proxy-body-size is {}, but gateway.max_body_bytes is {max_bytes}",
                text(size)
            );
            problems.add(name(ingress), text);
        }
    }
}

/// A budget that allows no eviction stops the upgrade of a node.
fn budgets(manifests: &Manifests, pods: &[Pod<'_>], problems: &mut Problems) {
    for budget in manifests.with_kind("PodDisruptionBudget") {
        let spec = &budget["spec"];
        let selected =
            pods.iter().filter(|pod| pod.is_service() && pod.is_selected(&spec["selector"]));
        let replicas: u64 = selected.map(|pod| manifests.replicas(pod)).sum();
        if replicas == 0 {
            problems.add(name(budget), "selects no pod");
            continue;
        }
        let available = share(&spec["minAvailable"], replicas);
        let unavailable = share(&spec["maxUnavailable"], replicas);
        if unavailable == Some(0) || available.is_some_and(|available| available >= replicas) {
            let text = format!("allows no eviction of {replicas} pods: no node can be drained");
            problems.add(name(budget), text);
        }
    }
}

/// A number of pods, or a percentage of all, rounded up as Kubernetes does.
fn share(value: &Value, all: u64) -> Option<u64> {
    let percent = text(value).strip_suffix('%').and_then(|percent| percent.parse::<u64>().ok());
    value.as_u64().or_else(|| Some((percent? * all).div_ceil(100)))
}

/// Scalers have a target and a range.
fn scalers(manifests: &Manifests, problems: &mut Problems) {
    let hpas = manifests.with_kind("HorizontalPodAutoscaler");
    let hpas = hpas.map(|hpa| (hpa, &hpa["spec"]["minReplicas"], &hpa["spec"]["maxReplicas"]));
    let kedas = manifests.with_kind("ScaledObject");
    let kedas = kedas
        .map(|keda| (keda, &keda["spec"]["minReplicaCount"], &keda["spec"]["maxReplicaCount"]));
    for (scaler, min, max) in hpas.chain(kedas) {
        let target = &scaler["spec"]["scaleTargetRef"];
        let kind = target["kind"].as_str().unwrap_or("Deployment");
        match manifests.find(kind, text(&target["name"])) {
            None => {
                let text = format!("{kind} {} is not among the manifests", text(&target["name"]));
                problems.add(name(scaler), text);
            }
            // The scaler and each rollout would change it in turns.
            Some(owner) if !owner["spec"]["replicas"].is_null() && owner["status"].is_null() => {
                let text = format!(
                    "remove spec.replicas from {}: each apply overrides the scaler",
                    name(owner)
                );
                problems.add(name(scaler), text);
            }
            Some(_) => {}
        }
        if min.as_u64().zip(max.as_u64()).is_some_and(|(min, max)| min > max) {
            problems.add(name(scaler), format!("minimum {min} is above maximum {max}"));
        }
    }
}
