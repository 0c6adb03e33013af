//! Credentials for Kafka are renewed while the processes run.

use std::fs;

use serde_json::json;

use crate::support::fleet::{Backend, Fleet};
use crate::support::{WorkspaceFile, certificates, eventually, servers};

#[tokio::test(flavor = "multi_thread")]
async fn a_renewed_certificate_is_used_without_a_restart() {
    let accepted = servers::variable("LONGSHORE_TEST_KAFKA_TLS_FILES");
    let mut fleet = Fleet::start(Backend::Fleet(1), &[]).await;
    let api = fleet.apply(&[WorkspaceFile::new("acme")]).await.remove(0);
    // The brokers do not accept it.
    let (certificate, key) = certificates::self_signed(fleet.directory()).await;
    let (url, authority) = (
        format!("kafka://{}", servers::variable("LONGSHORE_TEST_KAFKA_TLS")),
        format!("{accepted}/certificate.pem"),
    );
    let settings = [
        ("LONGSHORE_LOG_URL", url.as_str()),
        ("LONGSHORE_LOG__APPEND_TIMEOUT_MS", "2000"),
        ("LONGSHORE_LOG__KAFKA__SECURITY_PROTOCOL", "SSL"),
        ("LONGSHORE_LOG__KAFKA__SSL_CA_LOCATION", &authority),
        ("LONGSHORE_LOG__KAFKA__SSL_CERTIFICATE_LOCATION", &certificate),
        ("LONGSHORE_LOG__KAFKA__SSL_KEY_LOCATION", &key),
    ];
    for process in ["gateway", "worker-1"] {
        fleet.terminate(process).await;
        fleet.launch_with(process, &settings).await;
        fleet.ready(process).await;
    }
    let body = json!({ "attributes": [{ "external_id": "ann", "first_name": "Ann" }] });
    assert_eq!(api.post("/users/track", &body).await.status, 503);

    fs::copy(format!("{accepted}/certificate.pem"), &certificate).unwrap();
    fs::copy(format!("{accepted}/key.pem"), &key).unwrap();
    eventually("the gateway appends", async || api.post("/users/track", &body).await.status == 201)
        .await;
    fleet.applied().await;
    fleet.close().await;
}
