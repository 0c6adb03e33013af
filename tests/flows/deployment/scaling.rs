//! Who scales what, by what.

use std::collections::BTreeSet;

use longshore::kinds;
use longshore::telemetry::metrics;
use longshore::topics;
use longshore::worker::Role;
use serde_json::Value;
use store::claims::Kind;

use super::manifests::{list, production, text};
use super::settings;

/// The scaler of a role, and its triggers of one type.
fn scaler(role: &str) -> &'static Value {
    let name = format!("longshore-{role}");
    production().find("ScaledObject", &name).unwrap_or_else(|| panic!("nothing scales {role}"))
}

fn triggers(scaler: &Value, kind: &str) -> Vec<Value> {
    let all = list(&scaler["spec"]["triggers"]).iter().filter(|trigger| trigger["type"] == kind);
    all.map(|trigger| trigger["metadata"].clone()).collect()
}

#[test]
fn each_role_has_a_scaler_and_the_gateway_another() {
    let mut names = BTreeSet::new();
    for role in Role::ALL.map(Role::name) {
        let spec = &scaler(role)["spec"];
        assert_eq!(spec["scaleTargetRef"]["name"], format!("longshore-{role}"));
        let (min_replicas, max_replicas) =
            (spec["minReplicaCount"].as_u64().unwrap(), spec["maxReplicaCount"].as_u64().unwrap());
        // Never none: who must be started first keeps others waiting.
        assert!(
            1 <= min_replicas && min_replicas < max_replicas,
            "{role}: {min_replicas} to {max_replicas}"
        );
        assert_eq!(spec["fallback"]["behavior"], "currentReplicasIfHigher", "{role}");
        assert!(spec["fallback"]["replicas"].as_u64().unwrap() <= max_replicas, "{role}");
        let down = &spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]["scaleDown"];
        assert!(down["stabilizationWindowSeconds"].as_u64().unwrap() >= 300, "{role}");
        names.insert(format!("longshore-{role}"));
    }
    let gateway = production().find("HorizontalPodAutoscaler", "longshore-gateway").unwrap();
    assert_eq!(gateway["spec"]["scaleTargetRef"]["name"], "longshore-gateway");
    let scaled =
        production().of_kind("ScaledObject").map(|object| text(&object["metadata"]["name"]));
    assert_eq!(scaled.map(str::to_owned).collect::<BTreeSet<_>>(), names);
}

/// What is committed to Kafka says it: topics, groups and brokers are those of the processes.
#[test]
fn kafka_triggers_use_the_consumer_groups() {
    let gateway = production().longshore().into_iter().find(|pod| pod.component() == "gateway");
    let config = settings::of_pod(production(), &gateway.unwrap());
    let brokers = config.log.url.strip_prefix("kafka://").unwrap();
    for (role, topic, group) in [
        ("ingest", topics::TRACKING, "ingest"),
        ("catalogs", topics::CATALOGS, "catalogs"),
        ("messages", topics::MESSAGES, "messages"),
    ] {
        let [trigger] = &triggers(scaler(role), "kafka")[..] else { panic!("{role}: one trigger") };
        let prefix = &config.log.topic_prefix;
        assert_eq!(trigger["topic"], format!("{prefix}{}", topic.name()));
        assert_eq!(trigger["consumerGroup"], format!("{prefix}{group}"));
        assert_eq!(trigger["bootstrapServers"], brokers);
        assert_eq!(trigger["offsetResetPolicy"], "earliest");
    }
    // Workers of batches beyond this have no partition to work on.
    let batches = config.worker.batches_in_flight as u64;
    let max_replicas = scaler("ingest")["spec"]["maxReplicaCount"].as_u64().unwrap();
    assert_eq!(max_replicas, u64::from(config.log.partitions) / batches);
}

/// What waits in the database is asked for by its kinds: each of them by whoever does it.
#[test]
fn database_triggers_query_each_kind_of_work() {
    let by_role = [
        (
            "exports",
            vec![
                kinds::EXPORT_PLAN,
                kinds::EXPORT_PART,
                kinds::EXPORT_FINISH,
                kinds::EXPORT_CLEANUP,
            ],
        ),
        ("deliveries", vec![kinds::DELIVERY]),
        ("transactional", vec![kinds::TRANSACTIONAL]),
        (
            "messages",
            vec![
                kinds::DISPATCH_PLAN,
                kinds::DISPATCH_PART,
                kinds::DISPATCH_NAMED,
                kinds::SCHEDULE,
            ],
        ),
    ];
    for (role, kinds) in by_role {
        let [trigger] = &triggers(scaler(role), "prometheus")[..] else {
            panic!("{role}: one trigger")
        };
        let query = text(&trigger["query"]);
        let names: Vec<&str> = kinds.into_iter().map(Kind::name).collect();
        for metric in ["longshore_work_ready", "longshore_work_held"] {
            assert!(metrics::all().any(|known| known.name == metric), "{metric}");
            let asked = format!(
                "sum(max by (kind) ({metric}{{namespace=\"longshore\",kind=~\"{}\"}}))",
                names.join("|")
            );
            assert!(query.contains(&asked), "{role}: {query}");
        }
        // None that can be read is an error, not none that waits.
        assert_eq!(trigger["ignoreNullValues"], "false", "{role}");
    }
}
