//! Whatever selects, points or lets through: that there is something on the other side.

use std::collections::BTreeSet;

use longshore::worker::Role;
use serde_json::Value;

use super::manifests::{Manifests, OVERLAYS, Pod, list, matches, production, text};

#[test]
fn selectors_match_their_pods() {
    for manifests in OVERLAYS.iter() {
        let mut budgets = 0;
        for budget in manifests.of_kind("PodDisruptionBudget") {
            let pods = manifests.selected(&budget["spec"]["selector"]);
            assert_eq!(pods.len(), 1, "{}", budget["metadata"]["name"]);
            assert_eq!(budget["metadata"]["name"], pods[0].name());
            budgets += 1;
        }
        assert_eq!(budgets, Role::ALL.len() + 1, "one for each role and one for the gateway");
        for service in manifests.of_kind("Service") {
            let selector = serde_json::json!({ "matchLabels": service["spec"]["selector"] });
            let pods = manifests.selected(&selector);
            assert_eq!(pods.len(), 1, "{}", service["metadata"]["name"]);
            for port in list(&service["spec"]["ports"]) {
                assert!(pods[0].port(&port["targetPort"]).is_some(), "{port}");
            }
        }
        for pod in manifests.pods() {
            let own = &pod.owner["spec"]["selector"];
            assert!(own.is_null() || matches(own, pod.labels), "{}", pod.name());
            for spread in list(&pod.spec["topologySpreadConstraints"]) {
                assert!(matches(&spread["labelSelector"], pod.labels), "{}", pod.name());
                assert!(list(&spread["matchLabelKeys"]).iter().all(|key| {
                    key == "pod-template-hash" || pod.labels[text(key)].is_string()
                }));
            }
        }
    }
    let ingress = production().find("Ingress", "longshore").expect("a way in");
    let backend = &ingress["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"];
    let service = production().find("Service", text(&backend["name"])).expect("its service");
    let ports = list(&service["spec"]["ports"]);
    assert!(ports.iter().any(|port| port["name"] == backend["port"]["name"]));
    let monitor = production().find("PodMonitor", "longshore").expect("a monitor");
    let watched = production().selected(&monitor["spec"]["selector"]);
    assert_eq!(watched.len(), Role::ALL.len() + 1);
    let port = &monitor["spec"]["podMetricsEndpoints"][0]["port"];
    assert!(watched.iter().all(|pod| pod.port(port).is_some()));
}

/// Whether a policy lets a pod do something, by its direction.
fn has(policy: &Value, direction: &str) -> bool {
    list(&policy["spec"]["policyTypes"]).iter().any(|policy_type| policy_type == direction)
}

/// The rules of one direction that are of a pod.
fn rules<'a>(manifests: &'a Manifests, pod: &Pod, direction: &str) -> Vec<&'a Value> {
    let policies = manifests.of_kind("NetworkPolicy").filter(|policy| has(policy, direction));
    let of_pod = policies.filter(|policy| matches(&policy["spec"]["podSelector"], pod.labels));
    of_pod.flat_map(|policy| list(&policy["spec"][direction.to_lowercase()])).collect()
}

#[test]
fn network_policies_deny_by_default() {
    for manifests in OVERLAYS.iter() {
        let everything = manifests.find("NetworkPolicy", "nothing-else").expect("a policy");
        assert_eq!(everything["spec"]["podSelector"], serde_json::json!({}));
        assert!(has(everything, "Ingress") && has(everything, "Egress"));
        for rule in ["ingress", "egress"] {
            assert_eq!(everything["spec"][rule], Value::Null);
        }
        for policy in manifests.of_kind("NetworkPolicy") {
            let name = text(&policy["metadata"]["name"]);
            let pods = manifests.selected(&policy["spec"]["podSelector"]);
            assert!(!pods.is_empty(), "{name} is of nobody");
            for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
                for rule in list(&policy["spec"][direction]) {
                    assert!(!list(&rule[peers]).is_empty(), "{name}: anybody");
                    assert!(!list(&rule["ports"]).is_empty(), "{name}: any port");
                    check_peers(manifests, name, list(&rule[peers]));
                    check_ports(manifests, direction, rule, &pods);
                }
            }
        }
    }
}

fn check_peers(manifests: &Manifests, name: &str, peers: &[Value]) {
    for peer in peers {
        let is_near = peer["namespaceSelector"].is_null() && !peer["podSelector"].is_null();
        if is_near {
            assert!(!manifests.selected(&peer["podSelector"]).is_empty(), "{name}: {peer}");
        }
        // Of the internet, nothing that is private.
        if peer["ipBlock"]["cidr"] == "0.0.0.0/0" {
            let except: BTreeSet<&str> =
                list(&peer["ipBlock"]["except"]).iter().map(text).collect();
            for private in
                ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "100.64.0.0/10"]
            {
                assert!(except.contains(private), "{name} lets {private} through");
            }
        }
        assert_ne!(peer["ipBlock"]["cidr"], "::/0", "{name}");
    }
}

/// A port by its name is one of the pods that are called: those of the policy, or its peers.
fn check_ports(manifests: &Manifests, direction: &str, rule: &Value, pods: &[Pod]) {
    for port in list(&rule["ports"]) {
        if port["port"].is_u64() {
            continue;
        }
        let called: Vec<Pod> = match direction {
            "ingress" => pods.to_vec(),
            _ => {
                let peers = list(&rule["to"]).iter();
                peers.flat_map(|peer| manifests.selected(&peer["podSelector"])).collect()
            }
        };
        assert!(called.iter().any(|pod| pod.port(&port["port"]).is_some()), "{port}");
    }
}

#[test]
fn each_pod_reaches_its_dependencies() {
    // The laptop includes the component that declares a workspace; in production it is as near.
    let declares = OVERLAYS[0].longshore().into_iter().filter(|pod| pod.component() == "apply");
    let declares: Vec<Pod> = declares.collect();
    assert_eq!(declares.len(), 1);
    for pod in production().longshore().into_iter().chain(declares) {
        let mut ports = BTreeSet::new();
        for rule in rules(production(), &pod, "Egress") {
            ports.extend(list(&rule["ports"]).iter().filter_map(|port| port["port"].as_u64()));
        }
        // Names, the database, the brokers.
        let mut wanted = BTreeSet::from([53, 5432, 9092]);
        match pod.component() {
            // The bucket and the storage of workspaces, which may be anywhere; receivers; servers
            // of connected_content, which previews request from gateways.
            "gateway" | "exports" | "apply" => wanted.extend([80, 443]),
            // Receivers, providers, servers of connected_content and relays.
            "deliveries" | "messages" | "transactional" => wanted.extend([80, 443, 465, 587]),
            _ => {}
        }
        assert_eq!(ports, wanted, "{}", pod.name());
        let opened = rules(production(), &pod, "Ingress").into_iter();
        let opened = opened.flat_map(|rule| list(&rule["ports"])).map(|port| text(&port["port"]));
        let wanted = match pod.component() {
            "gateway" => BTreeSet::from(["http", "ops"]),
            _ => BTreeSet::from(["ops"]),
        };
        assert_eq!(opened.collect::<BTreeSet<_>>(), wanted, "{}", pod.name());
    }
}
