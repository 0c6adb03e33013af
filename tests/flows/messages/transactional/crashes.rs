//! Processes that end in the middle of an email, calls that come together, and a log that is
//! unavailable: each email is sent with one id, once unless the worker died before it stored that,
//! and its states are reported in order.

use serde_json::json;

use super::{Scene, by_id, dispatch_id, path, to};
use crate::support::api::{ApiResponse, answer};
use crate::support::fleet::{Backend, Fleet};
use crate::support::process::free_port;
use crate::support::proxy::{Proxy, ProxyMode};
use crate::support::stores::{count, execute};
use crate::support::{Api, eventually, killed, servers};

/// So that another worker need not be waited for long.
fn short_leases() -> [(&'static str, String); 2] {
    [
        ("LONGSHORE_WORKER__LEASE_MS", "2000".to_owned()),
        ("LONGSHORE_TRANSACTIONAL__REQUEUE_SECONDS", "1".to_owned()),
    ]
}

/// With fail points of one process.
async fn failing(backend: Backend, name: &str, failpoints: &str) -> Scene {
    let fleet = Fleet::prepare(backend, &short_leases(), |_| {}).await;
    let mut scene = Scene::on(fleet, []).await;
    scene.fleet.launch_all(Some((name, failpoints))).await;
    scene
}

/// Who takes a call and who sends are one process on SQLite, and several in a fleet.
async fn killed_at(backend: Backend, point: &str, max_emails: usize) {
    let name = match (backend, point) {
        (Backend::Embedded, _) => "standalone",
        (_, "transactional::written") => "gateway",
        _ => "worker-1",
    };
    let mut scene = failing(backend, name, &format!("{point}=kill")).await;
    let body = to("ann", json!({ "external_send_id": "once" }));
    let request = scene.api.request(reqwest::Method::POST, &path(super::RECEIPT)).json(&body);
    // The call may end with its process.
    let _ = request.send().await;
    scene.fleet.wait_until_exited(name).await;
    scene.fleet.launch(name).await;
    // A client that was not answered asks again, and is notified of what was taken.
    let dispatch = dispatch_id(&scene.send(&body).await, 200);
    let told = scene.first_postback(&dispatch).await;
    assert_eq!(told["status"], "sent", "{told}");
    assert_eq!(scene.postbacks()[&dispatch].len(), 1);
    let taken = scene.relay.accepted();
    assert_eq!(by_id(&taken).len(), 1, "{taken:?}");
    assert!((1..=max_emails).contains(&taken.len()), "{point}: {} times", taken.len());
    let ann = &scene.users().await[0];
    assert_eq!(ann["custom_attributes"], json!(null), "{ann}");
    scene.fleet.close().await;
}

killed! {
    standalone_once_it_is_written: Backend::Embedded, "transactional::written", 1;
    standalone_once_it_is_claimed: Backend::Embedded, "transactional::claimed", 1;
    standalone_once_the_relay_has_it: Backend::Embedded, "transactional::answered", 2;
    standalone_once_it_is_noted: Backend::Embedded, "transactional::settled", 1;
    #[ignore = "scripts/test --all"]
    in_a_fleet_once_it_is_written: Backend::Fleet(1), "transactional::written", 1;
    #[ignore = "scripts/test --all"]
    in_a_fleet_once_it_is_claimed: Backend::Fleet(1), "transactional::claimed", 1;
    #[ignore = "scripts/test --all"]
    in_a_fleet_once_the_relay_has_it: Backend::Fleet(1), "transactional::answered", 2;
    #[ignore = "scripts/test --all"]
    in_a_fleet_once_it_is_noted: Backend::Fleet(1), "transactional::settled", 1;
}

/// Attributes that add are applied once, however often their email is begun.
#[tokio::test(flavor = "multi_thread")]
async fn attributes_are_applied_once() {
    let mut scene = failing(Backend::Embedded, "standalone", "transactional::claimed=kill").await;
    let mut body = to("ann", json!({ "external_send_id": "once" }));
    body["recipient"]["attributes"]["tier"] = json!("gold");
    let visits = json!({ "attributes": [{ "external_id": "ann", "visits": 5 }] });
    assert_eq!(scene.api.post("/users/track", &visits).await.status, 201);
    scene.fleet.applied().await;
    body["recipient"]["attributes"]["visits"] = json!({ "inc": 1 });
    let request = scene.api.request(reqwest::Method::POST, &path(super::RECEIPT)).json(&body);
    let _ = request.send().await;
    scene.fleet.wait_until_exited("standalone").await;
    scene.fleet.launch("standalone").await;
    let email = scene.taken(1).await.remove(0);
    assert!(email.text.contains("<p>gold</p>"), "{}", email.text);
    assert_eq!(scene.users().await[0]["custom_attributes"]["visits"], 6);
    scene.fleet.close().await;
}

/// Twenty pairs of calls with one reference each, at two gateways at once: one email each.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_duplicates_are_accepted_by_one_gateway() {
    const PAIRS: usize = 20;
    let mut scene = Scene::new(Backend::Fleet(1), []).await;
    let listen = format!("127.0.0.1:{}", free_port());
    scene.fleet.launch_with("gateway-2", &[("LONGSHORE_LISTEN", &listen)]).await;
    scene.fleet.ready("gateway-2").await;
    let other = Api::new(&format!("http://{listen}"), scene.api.key());
    let mut dispatches = Vec::new();
    for number in 0..PAIRS {
        let (id, user) = (format!("order-{number}"), format!("u{number}"));
        let body = to(&user, json!({ "external_send_id": id }));
        let call = async |api: &Api| {
            let request = api.request(reqwest::Method::POST, &path(super::RECEIPT));
            answer(request.json(&body)).await
        };
        let (first, second) = tokio::join!(call(&scene.api), call(&other));
        let mut all: Vec<&ApiResponse> = vec![&first, &second];
        all.sort_by_key(|answer| std::cmp::Reverse(answer.status));
        assert_eq!(all[1].status, 200, "{all:?}");
        let dispatch = dispatch_id(all[0], 201);
        assert_eq!(dispatch_id(all[1], 200), dispatch);
        dispatches.push(dispatch);
    }
    for dispatch in &dispatches {
        assert_eq!(scene.first_postback(dispatch).await["status"], "sent");
    }
    let taken = scene.relay.accepted();
    assert_eq!((taken.len(), by_id(&taken).len()), (PAIRS, PAIRS));
    scene.fleet.close().await;
}

/// The log has no part in an email.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_unavailable_delays_no_email() {
    let broker = Proxy::to_kafka(&servers::kafka()).await;
    let settings = short_leases();
    let fleet = Fleet::start_with(Backend::Fleet(1), &settings, |environment| {
        environment.insert("LONGSHORE_LOG_URL".into(), format!("kafka://{}", broker.address()));
    });
    let scene = Scene::on(fleet.await, []).await;
    broker.set(ProxyMode::Closed);
    let dispatch = scene.sent(&to("ann", json!({}))).await;
    assert_eq!(scene.first_postback(&dispatch).await["status"], "sent");
    assert_eq!(scene.relay.accepted().len(), 1);
    broker.set(ProxyMode::Open);
    scene.fleet.close().await;
}

/// An email of a gateway of release 0.1.0, which writes no claim.
#[tokio::test(flavor = "multi_thread")]
async fn emails_without_a_claim_are_sent() {
    let mut scene = Scene::with(Backend::Fleet(1), [], &short_leases()).await;
    scene.fleet.kill("worker-1");
    let dispatch = scene.sent(&to("ann", json!({}))).await;
    for sql in [
        "DELETE FROM claims WHERE kind = 'transactional'",
        "UPDATE transactional_emails SET due_at = 0, again_at = 5000",
    ] {
        execute(&scene.fleet.database_url(), sql).await;
    }
    scene.fleet.launch_with("worker-1", &[]).await;
    assert_eq!(scene.first_postback(&dispatch).await["status"], "sent");
    assert_eq!(scene.relay.accepted().len(), 1);
    scene.fleet.close().await;
}

/// Workers are killed again and again while emails come in: none is lost, and a state is notified
/// of each once.
#[tokio::test(flavor = "multi_thread")]
async fn workers_that_are_killed_lose_nothing() {
    const EMAILS: usize = 120;
    let mut scene = Scene::with(Backend::Fleet(2), [], &short_leases()).await;
    let mut dispatches = Vec::new();
    for number in 0..EMAILS {
        dispatches.push(scene.sent(&to(&format!("u{number}"), json!({}))).await);
        if number % 30 == 29 {
            let name = if number % 60 == 29 { "worker-1" } else { "worker-2" };
            scene.fleet.kill(name);
            scene.fleet.launch_with(name, &[]).await;
        }
    }
    scene.fleet.ready("worker-1").await;
    scene.fleet.ready("worker-2").await;
    eventually("all are told", || async { scene.postbacks().len() == EMAILS }).await;
    let postbacks = scene.postbacks();
    for dispatch in &dispatches {
        let told = &postbacks[dispatch];
        assert!(told.len() == 1 && told[0]["status"] == "sent", "{told:?}");
    }
    assert_eq!(by_id(&scene.relay.accepted()).len(), EMAILS);
    scene.fleet.close().await;
}

/// A worker stops once it has claimed an email, and continues after another one has sent it.
#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_worker_does_not_send_what_another_has_sent() {
    let mut scene = failing(Backend::Fleet(1), "worker-1", "transactional::claimed=stop").await;
    let dispatch = scene.sent(&to("ann", json!({}))).await;
    eventually("the worker stops", || async { scene.fleet.is_stopped("worker-1") }).await;
    scene.fleet.launch("worker-2").await;
    assert_eq!(scene.first_postback(&dispatch).await["status"], "sent");
    scene.fleet.resume("worker-1");
    scene.fleet.terminate("worker-1").await;
    assert_eq!(scene.relay.accepted().len(), 1);
    scene.fleet.close().await;
}

/// The relay has an email, and its outcome cannot be committed at first: it is still stored, and
/// not sent again.
#[tokio::test(flavor = "multi_thread")]
async fn emails_are_not_resent_when_the_commit_fails() {
    let mut scene = failing(Backend::Fleet(1), "worker-1", "transactional::noted=stop").await;
    let dispatch = scene.sent(&to("ann", json!({}))).await;
    eventually("the worker stops", || async { scene.fleet.is_stopped("worker-1") }).await;
    let ended = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                 WHERE datname = current_database() AND state = 'idle in transaction'";
    assert_eq!(count(&scene.fleet.database_url(), ended).await, 1);
    scene.fleet.resume("worker-1");
    assert_eq!(scene.first_postback(&dispatch).await["status"], "sent");
    assert_eq!(scene.relay.accepted().len(), 1);
    scene.fleet.close().await;
}
