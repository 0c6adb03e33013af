//! The manifests: as Kubernetes and its operators want them, and as the processes need them.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use longshore::worker::Role;
use serde_json::{Value, json};

use super::manifests::{OVERLAYS, documents, list, production, text};
use super::{TOOLS, printed, settings, tool};
use crate::support::files::{project, read};
use crate::support::process::{self, Process, free_port};

/// The versions of Kubernetes whose schemas are checked against.
fn versions() -> Vec<String> {
    let folders = std::fs::read_dir(TOOLS.join("schemas")).expect("schemas");
    folders.map(|folder| folder.unwrap().file_name().into_string().unwrap()).collect()
}

/// Writes the schemas of custom resources as kubeconform wants them: strict, by kind.
fn write_custom_schemas(folder: &Path) {
    for file in std::fs::read_dir(TOOLS.join("crds")).expect("custom resources") {
        let resource = documents(&read(file.unwrap().path())).swap_remove(0);
        let kind = text(&resource["spec"]["names"]["kind"]).to_lowercase();
        for version in list(&resource["spec"]["versions"]) {
            let mut schema = version["schema"]["openAPIV3Schema"].clone();
            make_strict(&mut schema);
            schema["properties"]["metadata"] = json!({"type": "object"});
            let name = format!("{kind}_{}.json", text(&version["name"]));
            std::fs::write(folder.join(name), schema.to_string()).unwrap();
        }
    }
}

/// Allows no members but those that are named.
fn make_strict(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            let is_open = members.contains_key("x-kubernetes-preserve-unknown-fields");
            if members.get("properties").is_some_and(Value::is_object) && !is_open {
                members.entry("additionalProperties").or_insert(Value::Bool(false));
            }
            members.values_mut().for_each(make_strict);
        }
        Value::Array(items) => items.iter_mut().for_each(make_strict),
        _ => {}
    }
}

#[test]
fn every_manifest_passes_kubeconform() {
    let folder = tempfile::tempdir().unwrap();
    write_custom_schemas(folder.path());
    let custom = format!(
        "{}/{{{{.ResourceKind}}}}_{{{{.ResourceAPIVersion}}}}.json",
        folder.path().display()
    );
    let file = |name: &str, text: &str| {
        let path = folder.path().join(format!("{name}.yaml"));
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let mut files: Vec<String> = OVERLAYS.iter().map(|o| file(o.overlay, &o.text)).collect();
    files.push(file("rule", &prometheus_rule()));
    let resources = OVERLAYS.iter().map(|overlay| overlay.all.len()).sum::<usize>() + 1;
    // That it looks at all, at what is Kubernetes' own and at what is not.
    let broken = [
        ("Deployment", "longshore-gateway", "runAsNonRoot", "runAsNonRot"),
        ("ScaledObject", "longshore-ingest", "maxReplicaCount", "maxReplicas"),
    ];
    let broken = broken.map(|(kind, name, right, wrong)| {
        let manifest = production().find(kind, name).expect(name).to_string();
        assert!(manifest.contains(right), "{manifest}");
        manifest.replace(right, wrong)
    });
    let broken = file("broken", &broken.join("\n---\n"));
    for version in versions() {
        let schemas = format!(
            "{}/{version}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json",
            TOOLS.join("schemas").display()
        );
        let usual = ["-strict", "-summary", "-schema-location", &schemas, "-schema-location"];
        let check = |files: &[&str]| {
            let output = tool("kubeconform", &[&usual[..], &[&custom], files].concat());
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let said = check(&files.iter().map(String::as_str).collect::<Vec<_>>());
        let all = format!("Valid: {resources}, Invalid: 0, Errors: 0, Skipped: 0");
        assert!(said.contains(&all), "{version}: {said}");
        let said = check(&[&broken]);
        assert!(said.contains("Valid: 0, Invalid: 2, Errors: 0"), "{version}: {said}");
    }
}

fn prometheus_rule() -> String {
    let script = project("deploy/kubernetes/prometheus-rule");
    let output = std::process::Command::new(script).output().expect("the script runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn alerts_and_dashboards_have_one_source() {
    let rule = documents(&prometheus_rule()).swap_remove(0);
    let alerts = documents(&read(project("deploy/prometheus/alerts.yaml"))).swap_remove(0);
    assert_eq!(rule["spec"], alerts);
    let map = production().find("ConfigMap", "longshore-dashboards").expect("dashboards");
    assert_eq!(map["metadata"]["labels"]["grafana_dashboard"], "1");
    let shown: BTreeSet<&str> = map["data"].as_object().unwrap().values().map(text).collect();
    let mut bytes = 0;
    for file in std::fs::read_dir(project("deploy/grafana")).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|end| end == "json") {
            let dashboard = read(&path);
            bytes += dashboard.len();
            assert!(shown.contains(&*dashboard), "{} is not listed", path.display());
        }
    }
    assert!(!shown.is_empty() && bytes < 1_000_000, "a ConfigMap has 1 MiB: {bytes}");
}

#[test]
fn every_role_has_a_deployment_and_so_has_the_gateway() {
    for manifests in OVERLAYS.iter() {
        let mut wanted: BTreeSet<(String, Vec<String>)> = Role::ALL
            .iter()
            .map(|role| role.name().to_owned())
            .map(|role| (role.clone(), vec!["worker".into(), "--roles".into(), role]))
            .collect();
        wanted.insert(("gateway".into(), vec!["gateway".into()]));
        let deployments = manifests.longshore().into_iter().filter(|pod| {
            assert_eq!(pod.container()["command"], Value::Null, "the image's own is right");
            pod.owner["kind"] == "Deployment"
        });
        let found = deployments.map(|pod| {
            assert_eq!(pod.name(), format!("longshore-{}", pod.component()));
            // Whoever scales it says how many.
            assert_eq!(pod.owner["spec"]["replicas"], Value::Null, "{}", pod.name());
            let arguments = pod.arguments().into_iter().map(str::to_owned).collect();
            (pod.component().to_owned(), arguments)
        });
        assert_eq!(found.collect::<BTreeSet<_>>(), wanted, "{}", manifests.overlay);
        let migrate = manifests.find("Job", "longshore-migrate").expect("a migration");
        assert_eq!(
            migrate["spec"]["template"]["spec"]["containers"][0]["args"],
            json!(["migrate"])
        );
    }
}

/// A container that starts again in its pod loses its log, with secrets that are shown only once.
#[test]
fn each_attempt_of_apply_keeps_its_log() {
    let manifests = &OVERLAYS[0];
    let apply = manifests.find("Job", "longshore-apply").expect("a workspace is declared");
    assert_eq!(apply["spec"]["template"]["spec"]["restartPolicy"], "Never");
    assert!(apply["spec"]["ttlSecondsAfterFinished"].as_u64() >= Some(86_400));
}

#[test]
fn one_image_runs_everywhere() {
    for manifests in OVERLAYS.iter() {
        let mut images = BTreeSet::new();
        for pod in manifests.pods() {
            let image = text(&pod.container()["image"]);
            let (_, tag) = image.rsplit_once(':').unwrap_or_else(|| panic!("{image}: no tag"));
            assert_ne!(tag, "latest", "{image}");
            if pod.is_longshore() {
                images.insert(image);
            }
        }
        assert_eq!(images.len(), 1, "{images:?}");
    }
    let version = format!(":{}", env!("CARGO_PKG_VERSION"));
    let gateway = production().find("Deployment", "longshore-gateway").unwrap();
    let image = text(&gateway["spec"]["template"]["spec"]["containers"][0]["image"]);
    assert!(image.ends_with(&version), "{image} is not of this version");
}

/// The profile `restricted` of the pod security standards, which the namespace enforces.
#[test]
fn pods_keep_to_the_restricted_profile() {
    for manifests in OVERLAYS.iter() {
        let namespace = manifests.find("Namespace", "longshore").expect("a namespace");
        let labels = &namespace["metadata"]["labels"];
        assert_eq!(labels["pod-security.kubernetes.io/enforce"], "restricted");
        for object in &manifests.all {
            let is_in_it = object["metadata"]["namespace"] == "longshore";
            assert!(is_in_it || object["kind"] == "Namespace", "{}: elsewhere", object["metadata"]);
        }
        for pod in manifests.pods() {
            let (name, of_pod) = (pod.name(), &pod.spec["securityContext"]);
            assert_eq!(of_pod["runAsNonRoot"], true, "{name}");
            assert!(of_pod["runAsUser"].as_u64().is_some_and(|user| user > 0), "{name}");
            assert_eq!(of_pod["seccompProfile"], json!({"type": "RuntimeDefault"}), "{name}");
            for host in ["hostNetwork", "hostPID", "hostIPC"] {
                assert_eq!(pod.spec[host], Value::Null, "{name}");
            }
            for volume in list(&pod.spec["volumes"]) {
                let kinds: Vec<&String> =
                    volume.as_object().unwrap().keys().filter(|key| *key != "name").collect();
                assert!(["configMap", "emptyDir"].contains(&kinds[0].as_str()), "{name}: {volume}");
            }
            let container = pod.container();
            let own = &container["securityContext"];
            assert_eq!(own["allowPrivilegeEscalation"], false, "{name}");
            assert_eq!(own["capabilities"], json!({"drop": ["ALL"]}), "{name}");
            for looser in ["privileged", "runAsUser", "runAsNonRoot", "seccompProfile", "procMount"]
            {
                assert_eq!(own[looser], Value::Null, "{name}");
            }
            assert!(list(&container["ports"]).iter().all(|port| port["hostPort"].is_null()));
            // Beyond the profile.
            assert_eq!(pod.spec["automountServiceAccountToken"], false, "{name}");
            assert!(container["resources"]["limits"]["memory"].is_string(), "{name}");
            assert!(container["resources"]["requests"]["cpu"].is_string(), "{name}");
            if pod.is_longshore() {
                assert_eq!(own["readOnlyRootFilesystem"], true, "{name}");
                assert_eq!(of_pod["runAsUser"], settings::IMAGE_USER, "{name}");
                // Else a Service `longshore-…` becomes variables, which are no settings, and no
                // process starts.
                assert_eq!(pod.spec["enableServiceLinks"], false, "{name}");
            }
        }
    }
}

/// By the formula of the guide, which says how much memory the settings of a gateway come to.
#[test]
fn gateway_memory_limits_match_their_settings() {
    const STEP: usize = 64 << 20;
    for manifests in OVERLAYS.iter() {
        let pods = manifests.longshore().into_iter();
        let gateways: Vec<_> = pods.filter(|pod| pod.component() == "gateway").collect();
        assert_eq!(gateways.len(), 1, "{}", manifests.overlay);
        let of = settings::of_pod(manifests, &gateways[0]).gateway;
        let needed = (96 << 20)
            + of.memory_bytes
            + of.unauthenticated_bytes
            + of.connections * 2 * longshore::gateway::HEAD_BYTES;
        let limit = text(&gateways[0].container()["resources"]["limits"]["memory"]);
        let limit = limit.strip_suffix("Mi").expect("mebibytes").parse::<usize>().unwrap() << 20;
        assert_eq!(limit, needed.next_multiple_of(STEP), "{}", manifests.overlay);
    }
    let guide = read(project("docs/explanation/sizing.md"));
    let formula = "96 MiB + `gateway.memory_bytes` + `gateway.unauthenticated_bytes` + 32 KiB × \
                   `gateway.connections`";
    assert!(guide.contains(formula));
}

#[test]
fn pods_have_the_time_to_stop() {
    for manifests in OVERLAYS.iter() {
        for pod in manifests.longshore() {
            if pod.owner["kind"] != "Deployment" {
                continue;
            }
            let before = &pod.container()["lifecycle"]["preStop"]["sleep"]["seconds"];
            let before = before.as_u64().unwrap_or(0);
            // Calls come until all balancers know that the pod goes.
            assert_eq!(before > 0, pod.component() == "gateway", "{}", pod.name());
            let drain = settings::of_pod(manifests, &pod).worker.drain_seconds;
            let grace = pod.spec["terminationGracePeriodSeconds"].as_u64().expect("a time");
            assert!(grace >= before + drain + 5, "{}: {grace} s", pod.name());
            let rolling = &pod.owner["spec"]["strategy"]["rollingUpdate"];
            assert_eq!(rolling["maxUnavailable"], 0, "{}", pod.name());
        }
    }
}

/// Paths and ports of probes, and of the scraping, are those of a process that runs.
#[tokio::test(flavor = "multi_thread")]
async fn probes_use_existing_endpoints() {
    let mut paths = BTreeSet::new();
    for manifests in OVERLAYS.iter() {
        for pod in manifests.longshore() {
            if pod.owner["kind"] != "Deployment" {
                continue;
            }
            let ops = settings::of_pod(manifests, &pod).ops.listen.port();
            for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
                let get = &pod.container()[probe]["httpGet"];
                assert_eq!(pod.port(&get["port"]), Some(ops.into()), "{} {probe}", pod.name());
                paths.insert(text(&get["path"]));
            }
        }
    }
    let monitor = production().find("PodMonitor", "longshore").expect("a monitor");
    paths.insert(text(&monitor["spec"]["podMetricsEndpoints"][0]["path"]));
    assert_eq!(paths, BTreeSet::from(["/healthz", "/readyz", "/metrics"]));

    let _ = rustls::crypto::ring::default_provider().install_default();
    let directory = tempfile::tempdir().unwrap();
    let (api, ops) = (free_port(), free_port());
    let environment = [
        ("LONGSHORE_DATA", directory.path().join("data").display().to_string()),
        ("LONGSHORE_LISTEN", format!("127.0.0.1:{api}")),
        ("LONGSHORE_OPS_LISTEN", format!("127.0.0.1:{ops}")),
    ];
    let environment = environment.map(|(name, value)| (name.to_owned(), value)).into();
    let mut command = process::command(directory.path(), &environment);
    command.arg("standalone");
    let mut standalone = Process::start("standalone", directory.path(), command);
    let since = Instant::now();
    for path in paths {
        let address = format!("http://127.0.0.1:{ops}{path}");
        loop {
            let answer = reqwest::get(&address).await;
            if answer.as_ref().is_ok_and(|answer| answer.status() == 200) {
                break;
            }
            assert!(standalone.is_running(), "{}", standalone.printed());
            assert!(since.elapsed() < Duration::from_secs(60), "{path}: {answer:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    assert!(standalone.terminate().await.success());
}

/// The commands of the guide name overlays, files and objects that there are.
#[test]
fn the_guide_names_only_existing_things() {
    let pages = ["docs/how-to/kubernetes.md", "docs/how-to/kubernetes-operate.md"];
    let guide: String = pages.map(|page| read(project(page))).concat();
    let mut seen = 0;
    let words: Vec<&str> =
        guide.split_whitespace().map(|w| w.trim_matches(['`', ',', '.', '(', ')', ';'])).collect();
    for pair in words.windows(2) {
        if ["-k", "-f", "--file"].contains(&pair[0]) && pair[1].starts_with("deploy/") {
            assert!(project(pair[1]).exists(), "{}", pair[1]);
            seen += 1;
        }
    }
    assert!(seen > 5, "{seen}");
    for word in &words {
        if let Some(name) = word.strip_prefix("deployment/").or_else(|| word.strip_prefix("job/")) {
            let known =
                OVERLAYS.iter().any(|overlay| overlay.pods().iter().any(|pod| pod.name() == name));
            assert!(known, "{word}");
        }
    }
    // `kubectl` brings kustomize along: nothing that needs more.
    let text = printed("kustomize", &["build", project("deploy/grafana").to_str().unwrap()]);
    assert!(text.contains("longshore-dashboards"));
}
