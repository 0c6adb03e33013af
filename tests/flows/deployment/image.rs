//! The image, and the fleet on one machine.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::manifests::{OVERLAYS, documents, list, text};
use super::{printed, settings};
use crate::support::files::{project, read};

#[test]
fn the_dockerfile_passes_hadolint() {
    let file = project("deploy/Dockerfile");
    let arguments = ["--failure-threshold", "style", file.to_str().unwrap()];
    assert_eq!(printed("hadolint", &arguments), "");
}

#[test]
fn the_image_meets_the_needs_of_the_processes() {
    let lines = settings::last_stage();
    let instructions = |name: &str| -> Vec<&str> {
        lines.iter().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).collect()
    };
    let user = settings::IMAGE_USER;
    assert_eq!(
        instructions("USER"),
        [format!("{user}:{user}")],
        "a number, which Kubernetes can check"
    );
    assert_eq!(instructions("STOPSIGNAL"), ["SIGTERM"]);
    // There is no shell in it.
    for instruction in ["ENTRYPOINT", "RUN"] {
        assert!(
            instructions(instruction).iter().all(|line| line.starts_with('[')),
            "{instruction}"
        );
    }
    assert_eq!(instructions("ENTRYPOINT"), ["[\"/usr/local/bin/longshore\"]"]);
    let labels = instructions("LABEL").join(" ");
    for (label, argument) in [
        ("version", "VERSION"),
        ("revision", "REVISION"),
        ("source", "SOURCE"),
        ("licenses", "LICENSES"),
    ] {
        assert!(labels.contains(&format!("org.opencontainers.image.{label}=\"${argument}\"")));
        assert!(instructions("ARG").iter().any(|given| given.starts_with(&format!("{argument}="))));
    }
    let config = settings::taken(&settings::of_image(), &["doctor"]);
    let ports = format!("{} {}", config.gateway.listen.port(), config.ops.listen.port());
    assert_eq!(instructions("EXPOSE"), [ports]);
    // The authorities, where the TLS libraries look for them.
    let authorities = &settings::of_image()["SSL_CERT_FILE"];
    let stages = read(project("deploy/Dockerfile"));
    assert!(stages.lines().any(|line| line.contains("cp ") && line.contains(&**authorities)));
    // The volume of `standalone` belongs to the user, and to nobody else. It is copied inside its
    // parent: builders differ in the mode of the folder that they copy to.
    let (parent, name) = config.data.to_str().unwrap().rsplit_once('/').unwrap();
    assert!(instructions("COPY").iter().any(|line| {
        line.ends_with(&format!(" /data {parent}"))
            && line.contains(&format!("--chown={user}:{user}"))
    }));
    assert!(stages.contains(&format!("mkdir --mode=0700 /data/{name}")));
    // No shell and no other client is there to ask it.
    let healthcheck = instructions("HEALTHCHECK").concat();
    assert!(healthcheck.ends_with("CMD [\"longshore\", \"health\"]"), "{healthcheck}");
}

/// The builder and what the image has of a system are of the same Debian, to whose libraries
/// the program is linked; both are named without a registry.
#[test]
fn builder_and_image_are_of_one_system() {
    let text = read(project("deploy/Dockerfile"));
    let froms: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("FROM ")).collect();
    assert_eq!(froms.last(), Some(&"scratch"));
    let (mut stages, mut systems) = (BTreeSet::from(["scratch"]), 0);
    for &from in &froms {
        let (image, stage) = from.split_once(" AS ").unwrap_or((from, ""));
        if !stages.contains(image) {
            let (name, tag) = image.split_once(':').expect("a tag");
            assert!(!name.contains('/') && tag.split('-').any(|part| part == "trixie"), "{from}");
            systems += 1;
        }
        stages.insert(stage);
    }
    assert_eq!(systems, 2, "{froms:?}");
    // Nothing comes from an image that has no stage, and with it no check here.
    for copied in text.split("--from=").skip(1).filter_map(|rest| rest.split_whitespace().next()) {
        assert!(stages.contains(copied), "{copied}");
    }
    let manifest = read(project("Cargo.toml"));
    let rust = manifest.lines().find_map(|line| line.strip_prefix("rust-version = ")).unwrap();
    assert!(froms[0].starts_with(&format!("rust:{}-", rust.trim_matches('"'))), "{}", froms[0]);
}

#[test]
fn files_that_the_build_copies_exist() {
    let ignored = read(project("deploy/Dockerfile.dockerignore"));
    let allowed: Vec<&str> = ignored.lines().filter_map(|line| line.strip_prefix('!')).collect();
    assert!(ignored.lines().any(|line| line == "*") && !allowed.is_empty());
    for path in &allowed {
        assert!(project(path).exists(), "{path}");
    }
    // All that is copied from the work tree, and all crates that the program is made of.
    let text = read(project("deploy/Dockerfile"));
    let copies = text.lines().filter_map(|line| line.strip_prefix("COPY "));
    let copies = copies.filter(|line| !line.starts_with("--from"));
    let mut needed: Vec<&str> = copies
        .flat_map(|line| line.rsplit_once(' ').expect("a target").0.split_whitespace())
        .filter(|path| *path != ".")
        .collect();
    let manifest = read(project("Cargo.toml"));
    needed.extend(manifest.split("path = \"").skip(1).filter_map(|rest| rest.split('"').next()));
    assert!(needed.iter().any(|path| path.starts_with("crates/")), "{needed:?}");
    for path in needed {
        let is_sent = |prefix: &&str| path == *prefix || path.starts_with(&format!("{prefix}/"));
        assert!(allowed.iter().any(is_sent), "the build gets no {path}");
    }
}

/// The image has the list of its crates, made of the program that is in it.
#[test]
fn the_image_lists_its_crates() {
    let text = read(project("deploy/Dockerfile"));
    assert!(text.contains("cargo auditable build "));
    assert!(text.contains("auditable2cdx target/dist/longshore > /longshore.cdx.json"));
    let lines = settings::last_stage();
    let list = "/longshore.cdx.json /usr/share/doc/longshore/longshore.cdx.json";
    assert!(lines.iter().any(|line| line == &format!("COPY --from=sbom {list}")), "{lines:?}");
}

/// The file with a value for each variable, as `docker compose` reads it.
fn compose() -> (Value, BTreeSet<String>) {
    let file = project("deploy/compose.yaml");
    let source = read(&file);
    let (mut filled, mut names, mut rest) = (String::new(), BTreeSet::new(), &*source);
    while let Some((before, after)) = rest.split_once("${") {
        let (variable, after) = after.split_once('}').expect("a variable ends");
        let (name, _) = variable.split_once(":?").expect("each must be given");
        names.insert(name.to_owned());
        filled.push_str(before);
        filled.push_str(match name {
            "LONGSHORE_PUBLIC_URL" => "http://127.0.0.1:8080",
            "S3_PUBLIC_URL" => "http://127.0.0.1:7070",
            "LONGSHORE_SECRET_KEY" => "bG9uZ3Nob3JlLWxvbmdzaG9yZS1sb25nc2hvcmUtMTI=",
            _ => "secret",
        });
        rest = after;
    }
    filled.push_str(rest);
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("compose.yaml");
    std::fs::write(&copy, filled).unwrap();
    let usual = ["-format", "json", "-no-interpolation", "-no-path-resolution"];
    let model = printed("compose", &[&usual[..], &[copy.to_str().unwrap()]].concat());
    (serde_json::from_str(&model).expect("JSON"), names)
}

#[test]
fn the_fleet_on_one_machine_is_read_by_compose() {
    let (model, names) = compose();
    let example = read(project("deploy/compose.env.example"));
    let given =
        example.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name.to_owned());
    let given: BTreeSet<String> = given.filter(|name| !name.starts_with('#')).collect();
    assert_eq!(given, names, "the example has every variable, and no other");
    let services = model["services"].as_object().unwrap();
    let wanted =
        ["gateway", "grafana", "kafka", "migrate", "postgres", "prometheus", "s3", "worker"];
    assert_eq!(services.keys().collect::<Vec<_>>(), wanted);
    for (name, service) in services {
        let (_, tag) = text(&service["image"]).rsplit_once(':').expect("a tag");
        assert_ne!(tag, "latest", "{name}");
        for port in list(&service["ports"]) {
            assert_eq!(port["host_ip"], "127.0.0.1", "{name}: {port}");
        }
        for volume in list(&service["volumes"]) {
            if volume["type"] == "bind" {
                let path = project("deploy").join(text(&volume["source"]));
                assert!(path.exists(), "{name}: {}", path.display());
                assert_eq!(volume["read_only"], true, "{name}: {volume}");
            }
        }
        let is_ours = ["gateway", "worker", "migrate"].contains(&name.as_str());
        assert_eq!(service["healthcheck"].is_null(), name == "migrate", "{name}");
        if is_ours {
            check_process(name, service);
        }
    }
    for (name, _) in model["volumes"].as_object().unwrap() {
        let used = services.values().flat_map(|service| list(&service["volumes"]));
        assert!(used.into_iter().any(|volume| volume["source"] == **name), "{name}");
    }
}

fn check_process(name: &str, service: &Value) {
    let user = settings::IMAGE_USER;
    assert_eq!(service["user"], format!("{user}:{user}"), "{name}");
    assert_eq!(service["read_only"], true, "{name}");
    assert_eq!(service["cap_drop"][0], "ALL", "{name}");
    assert_eq!(service["build"]["dockerfile"], "deploy/Dockerfile", "{name}");
    let mut environment: BTreeMap<String, String> = settings::of_image();
    let own = service["environment"].as_object().unwrap();
    // Without a value it is that of deploy/.env, where there is one.
    let set = own.iter().filter(|(_, value)| !value.is_null());
    environment.extend(set.map(|(name, value)| (name.clone(), text(value).to_owned())));
    for optional in own.keys().filter(|name| own[*name].is_null()) {
        let example = read(project("deploy/compose.env.example"));
        assert!(example.contains(&format!("\n# {optional}=")), "{optional}");
    }
    let arguments: Vec<&str> = list(&service["command"]).iter().map(text).collect();
    assert_eq!(arguments, [name]);
    let config = settings::taken(&environment, &arguments);
    if name != "migrate" {
        let grace_period = text(&service["stop_grace_period"]).trim_end_matches('s');
        assert!(grace_period.parse::<u64>().unwrap() >= config.worker.drain_seconds + 5, "{name}");
        let after = &service["depends_on"]["migrate"]["condition"];
        assert_eq!(after, "service_completed_successfully", "{name}");
    }
    if name == "gateway" {
        let port = &service["ports"][0]["target"];
        assert_eq!(port.as_u64(), Some(config.gateway.listen.port().into()));
    }
}

/// Prometheus asks the processes where they listen; both installations have the same servers.
#[test]
fn servers_are_the_same_everywhere() {
    let (model, _) = compose();
    let services = model["services"].as_object().unwrap();
    let laptop = &OVERLAYS[0];
    for server in ["kafka", "postgres", "s3"] {
        let pods = laptop.pods();
        let pod = pods.iter().find(|pod| pod.name() == server).expect("a server");
        assert_eq!(services[server]["image"], pod.container()["image"]);
    }
    // The S3 server has its lock files next to the buckets, in a folder that it must be able to
    // write although its root is read-only; downloads come from it, at an address of the host.
    assert_eq!(services["s3"]["read_only"], true);
    assert!(list(&services["s3"]["tmpfs"]).contains(&Value::from("/data")));
    let pods = laptop.pods();
    let s3 = pods.iter().find(|pod| pod.name() == "s3").expect("the S3 server");
    let mounts = list(&s3.container()["volumeMounts"]);
    assert!(mounts.iter().any(|mount| mount["mountPath"] == "/data" && mount["readOnly"] != true));
    let port = &services["s3"]["ports"][0];
    assert_eq!((&port["target"], &port["published"]), (&7070.into(), &"7070".into()), "{port}");
    let environment = services["gateway"]["environment"]["LONGSHORE_OBJECTS_URL"].to_string();
    assert!(environment.contains("public_endpoint=http://127.0.0.1:7070"), "{environment}");
    let postgres = list(&services["postgres"]["command"]);
    assert!(postgres.contains(&Value::from("max_locks_per_transaction=1024")), "{postgres:?}");
    let prometheus = documents(&read(project("deploy/prometheus/prometheus.yaml"))).swap_remove(0);
    let asked = &prometheus["scrape_configs"][0]["dns_sd_configs"][0];
    let ops = settings::taken(&settings::of_image(), &["doctor"]).ops.listen.port();
    assert_eq!(asked["port"].as_u64(), Some(ops.into()));
    assert!(list(&asked["names"]).iter().all(|name| services.contains_key(text(name))), "{asked}");
    let datasource =
        documents(&read(project("deploy/grafana/provisioning/datasources/longshore.yaml")));
    let url = text(&datasource[0]["datasources"][0]["url"]);
    assert_eq!(url, "http://prometheus:9090");
}
