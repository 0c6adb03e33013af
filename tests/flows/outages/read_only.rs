//! The address of the database leads to a server that rejects writes, such as a standby before a
//! failover.

use serde_json::json;

use crate::support::fleet::{Backend, Fleet};
use crate::support::postgres::OwnPostgres;
use crate::support::proxy::{Proxy, ProxyMode};
use crate::support::{WorkspaceFile, eventually, servers, stores};

/// The reason at `/readyz` and in `doctor`.
const REASON: &str = "the database is read-only";

const PROCESSES: [&str; 2] = ["gateway", "worker-1"];

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_server_is_reported_and_needs_no_restart() {
    let postgres = OwnPostgres::start(&[]).await;
    let url = postgres.url();
    let broker = Proxy::to_kafka(&servers::kafka()).await;
    let settings = [("LONGSHORE_LOG__KAFKA__RECONNECT_BACKOFF_MAX_MS", "500".to_owned())];
    let mut fleet = Fleet::start_with(Backend::Fleet(1), &settings, |environment| {
        environment.insert("LONGSHORE_DATABASE_URL".to_owned(), url.clone());
        let log = format!("kafka://{}", broker.address());
        environment.insert("LONGSHORE_LOG_URL".to_owned(), log);
    })
    .await;
    let api = fleet.apply(&[WorkspaceFile::new("acme")]).await.remove(0);
    assert!(fleet.command(&["doctor"]).await.status.success());

    for sql in ["ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()"] {
        stores::execute(&url, sql).await;
    }
    // A gateway that was ready still accepts what only the log stores.
    for (name, expected) in [("gateway", 200), ("worker-1", 503)] {
        eventually(&format!("{name} reports it"), async || {
            let (status, text) = fleet.readiness(name).await;
            status == expected && text.contains(REASON)
        })
        .await;
    }
    // Without Kafka it accepts nothing.
    for (way, expected) in [(ProxyMode::Refused, 503), (ProxyMode::Open, 200)] {
        broker.set(way);
        eventually(&format!("the gateway's status follows the broker: {way:?}"), async || {
            fleet.readiness("gateway").await.0 == expected
        })
        .await;
    }
    let doctor = fleet.command(&["doctor"]).await;
    let printed = String::from_utf8_lossy(&doctor.stdout);
    assert!(!doctor.status.success() && printed.contains(REASON), "{printed}");
    for name in PROCESSES {
        fleet.terminate(name).await;
        fleet.launch_with(name, &[]).await;
    }
    for name in PROCESSES {
        eventually(&format!("{name} starts and reports it"), async || {
            let answer = fleet.try_readiness(name).await;
            answer.is_some_and(|(status, text)| status == 503 && text.contains(REASON))
        })
        .await;
    }

    for sql in ["ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()"] {
        stores::execute(&url, sql).await;
    }
    for name in PROCESSES {
        fleet.ready(name).await;
        let (_, text) = fleet.readiness(name).await;
        assert!(!text.contains(REASON), "{name}: {text}");
    }
    let attributes = json!({ "attributes": [{ "external_id": "ann", "first_name": "Ann" }] });
    let answer = api.post("/users/track", &attributes).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    fleet.applied().await;
    fleet.close().await;
}
