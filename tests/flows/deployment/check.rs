//! `longshore config check --kubernetes`: the manifests that are shipped have no problem, and each
//! rule reports what breaks it.

use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::{Value, json};

use super::manifests::{Manifests, OVERLAYS, documents, production};
use super::printed;
use crate::support::files::{project, read};
use crate::support::process;

/// Runs the check on a file of manifests.
async fn check(path: &Path) -> Output {
    let directory = tempfile::tempdir().expect("a folder");
    let mut command = process::command(directory.path(), &[].into());
    command.args(["config", "check", "--secrets", "longshore,longshore-tls", "--kubernetes"]);
    command.arg(path).stdin(Stdio::null()).stderr(Stdio::piped());
    process::output(command).await
}

/// The problems of manifests.
async fn problems(manifests: &[Value]) -> (bool, String) {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let texts: Vec<String> = manifests.iter().map(Value::to_string).collect();
    std::fs::write(file.path(), texts.join("\n---\n")).expect("a file");
    let output = check(file.path()).await;
    (output.status.success(), String::from_utf8(output.stdout).expect("UTF-8"))
}

#[tokio::test(flavor = "multi_thread")]
async fn finds_no_problem_in_the_overlays() {
    for Manifests { overlay, all, .. } in OVERLAYS.iter() {
        let (is_valid, text) = problems(all).await;
        assert!(is_valid, "{overlay}: {text}");
    }
    let output = check(&project("deploy/kubernetes/overlays/production")).await;
    assert!(!output.status.success(), "a kustomization is no manifest");
}

/// A mutation of the production overlay: of an object, at a pointer; and a part of its problem.
type Mutation = (&'static str, &'static str, &'static str, Value, &'static str);

fn mutations() -> Vec<Mutation> {
    let (gateway, exports) = ("longshore-gateway", "longshore-exports");
    vec![
        (
            "ConfigMap",
            "longshore-",
            "/data/LONGSHORE_LOG__PARTITOINS",
            json!("8"),
            "unknown setting",
        ),
        (
            "ConfigMap",
            "longshore-",
            "/data/LONGSHORE_LOG__PARTITIONS",
            json!("x"),
            "LOG__PARTITIONS",
        ),
        (
            "ConfigMap",
            "longshore-",
            "/data/LONGSHORE_PUBLIC_URL",
            json!("https://b.test"),
            "b.test",
        ),
        (
            "ConfigMap",
            "longshore-",
            "/data/LONGSHORE_WORKER__DRAIN_SECONDS",
            json!("60"),
            "up to 74",
        ),
        (
            "ConfigMap",
            "longshore-",
            "/data/LONGSHORE_GATEWAY__MEMORY_BYTES",
            json!("900000000"),
            "limits.memory",
        ),
        (
            "ConfigMap",
            "longshore-",
            "/data/LONGSHORE_EXPORTS__MEMORY_BYTES",
            json!("900000000"),
            "limits.memory",
        ),
        (
            "ConfigMap",
            "longshore-",
            "/data/LONGSHORE_GATEWAY__MAX_BODY_BYTES",
            json!("8388608"),
            "proxy-body-size",
        ),
        (
            "ConfigMap",
            "longshore-",
            "/data/LONGSHORE_OPS_LISTEN",
            json!("127.0.0.1:9100"),
            "probes cannot reach",
        ),
        (
            "ConfigMap",
            "longshore-",
            "/data/LONGSHORE_OPS_LISTEN",
            json!("0.0.0.0:9200"),
            "is on 9200",
        ),
        (
            "ConfigMap",
            "longshore-",
            "/data/LONGSHORE_LISTEN",
            json!("127.0.0.1:8080"),
            "Service longshore-gateway",
        ),
        (
            "ConfigMap",
            "longshore-",
            "/data/LONGSHORE_LISTEN",
            json!("0.0.0.0:8081"),
            "is not a listener",
        ),
        ("ConfigMap", "longshore-", "/metadata/name", json!("other"), "is not among the manifests"),
        (
            "Deployment",
            gateway,
            "/spec/template/spec/containers/0/envFrom/1/secretRef/name",
            json!("typo"),
            "Secret typo",
        ),
        (
            "Deployment",
            gateway,
            "/spec/template/spec/containers/0/livenessProbe/httpGet/path",
            json!("/readyz"),
            "restart every pod",
        ),
        (
            "Deployment",
            gateway,
            "/spec/template/spec/containers/0/readinessProbe/httpGet/port",
            json!("http"),
            "uses port http",
        ),
        (
            "Deployment",
            gateway,
            "/spec/template/spec/containers/0/readinessProbe",
            Value::Null,
            "no readinessProbe",
        ),
        (
            "Deployment",
            gateway,
            "/spec/template/spec/containers/0/resources/limits/memory",
            json!("128Mi"),
            "128Mi",
        ),
        (
            "Deployment",
            gateway,
            "/spec/template/spec/containers/0/image",
            json!("longshore:other"),
            "different images",
        ),
        (
            "Deployment",
            gateway,
            "/spec/template/spec/terminationGracePeriodSeconds",
            json!(30),
            "is 30",
        ),
        ("Deployment", gateway, "/spec/replicas", json!(2), "spec.replicas"),
        (
            "Deployment",
            exports,
            "/spec/template/spec/containers/0/args/2",
            json!("exprots"),
            "exprots",
        ),
        (
            "Deployment",
            exports,
            "/spec/template/spec/containers/0/args/2",
            json!("ingest"),
            "the role exports",
        ),
        ("Service", gateway, "/spec/ports/0/targetPort", json!("web"), "port web"),
        ("Ingress", "longshore", "/spec/tls/0/secretName", json!("typo"), "Secret typo"),
        (
            "Ingress",
            "longshore",
            "/spec/rules/0/http/paths/0/backend/service/name",
            json!("typo"),
            "Service typo",
        ),
        (
            "PodDisruptionBudget",
            gateway,
            "/spec/maxUnavailable",
            json!(0),
            "no node can be drained",
        ),
        (
            "PodDisruptionBudget",
            gateway,
            "/spec/maxUnavailable",
            json!("0%"),
            "no node can be drained",
        ),
        (
            "PodDisruptionBudget",
            gateway,
            "/spec/minAvailable",
            json!("100%"),
            "no node can be drained",
        ),
        ("PodDisruptionBudget", gateway, "/spec/minAvailable", json!(3), "no node can be drained"),
        (
            "PodDisruptionBudget",
            gateway,
            "/spec/selector/matchLabels/app.kubernetes.io~1component",
            json!("typo"),
            "selects no pod",
        ),
        ("HorizontalPodAutoscaler", gateway, "/spec/minReplicas", json!(20), "above maximum"),
        ("ScaledObject", exports, "/spec/minReplicaCount", json!(20), "above maximum"),
        ("ScaledObject", exports, "/spec/scaleTargetRef/name", json!("typo"), "Deployment typo"),
    ]
}

/// Sets a value that may not exist yet.
fn set(object: &mut Value, pointer: &str, value: Value) {
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
    let name = name.replace("~1", "/");
    match object.pointer_mut(parent).unwrap_or_else(|| panic!("no {parent}")) {
        Value::Array(items) => items[name.parse::<usize>().expect("an index")] = value,
        parent => parent[&name] = value,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_rule_reports_its_violations() {
    for (kind, name, pointer, value, expected) in mutations() {
        let mut manifests = production().all.clone();
        let is_meant = |object: &&mut Value| {
            let found = object["metadata"]["name"].as_str().expect("a name");
            let is_hashed = name.ends_with('-') && !found.contains("dashboards");
            object["kind"] == kind && (found == name || (is_hashed && found.starts_with(name)))
        };
        let object = manifests.iter_mut().find(is_meant);
        set(object.unwrap_or_else(|| panic!("no {kind} {name}")), pointer, value.clone());
        let (is_valid, text) = problems(&manifests).await;
        assert!(!is_valid && text.contains(expected), "{kind} {pointer} {value}: {text}");
    }
    let (is_valid, text) =
        problems(&[json!({"kind": "Namespace", "metadata": {"name": "x"}})]).await;
    assert!(!is_valid, "{text}");
}

/// The environment that the check expects of the image is the image's.
#[test]
fn the_image_has_the_environment_that_the_check_expects() {
    let image = super::settings::of_image();
    let settings = image.into_iter().filter(|(name, _)| name.starts_with("LONGSHORE_"));
    let expected =
        longshore::cli::IMAGE.iter().map(|(name, value)| ((*name).into(), (*value).into()));
    assert_eq!(settings.collect::<Vec<(String, String)>>(), {
        let mut expected: Vec<(String, String)> = expected.collect();
        expected.sort();
        expected
    });
}

/// Each value is written somewhere: a copy of the overlay with other values has none of these.
#[test]
fn every_value_reaches_the_manifests() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut copy = std::process::Command::new("cp");
    copy.arg("-r").arg(project("deploy")).arg(folder.path());
    assert!(copy.status().expect("cp runs").success());
    let overlay = folder.path().join("deploy/kubernetes/overlays/production");
    let file = overlay.join("values.yaml");
    let mut values = documents(&read(&file)).swap_remove(0);
    let fixed = ["apiVersion", "kind", "metadata", "book", "grafana"];
    let mut next = 6000;
    let mut written = Vec::new();
    let mut change = |value: &mut Value| {
        next += 1;
        *value = match value {
            Value::Number(_) => json!(next),
            _ => json!(format!("x{next}")),
        };
        written.push(next.to_string());
    };
    for (name, value) in values.as_object_mut().expect("values") {
        if name == "settings" {
            value["LONGSHORE_PUBLIC_URL"] = json!("https://host.test");
            value["LONGSHORE_LOG_URL"] = json!("kafka://broker.test:1");
        } else if let Some(parts) =
            value.as_object_mut().filter(|_| !fixed.contains(&name.as_str()))
        {
            parts.values_mut().for_each(&mut change);
        } else if !fixed.contains(&name.as_str()) {
            change(value);
        }
    }
    std::fs::write(&file, values.to_string()).expect("a file");
    let text = printed("kustomize", &["build", overlay.to_str().expect("UTF-8")]);
    for value in written {
        assert!(text.contains(&value), "{value} of {values}");
    }
    assert_eq!(text.matches("bootstrapServers: broker.test:1").count(), 3);
    assert_eq!(text.matches("host.test").count(), 3);
}
