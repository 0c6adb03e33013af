//! The metrics of the whole fleet's work, on both databases.

use std::collections::BTreeMap;

use longshore::telemetry;
use store::claims;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{SEEN, Scene, fleet_values, nonzero_values, values};
use crate::support::api::EXPORT;
use crate::support::fleet::{Backend, Fleet};
use crate::support::installation::Installation;
use crate::support::proxy::{Proxy, ProxyMode};
use crate::support::stores::{TestStore, on_both_stores, on_pool};
use crate::support::{eventually, servers};

on_both_stores!(fleet_metrics_count_only_open_work,);

const WORKSPACE: &str = "
workspace: acme
currency: USD
";

/// Rows of every counted kind, and of others; times are milliseconds from now.
const ROWS: [(&str, &[i64]); 17] = [
    (
        "INSERT INTO claims (kind, job, item, due_at) VALUES ('export_part', $2, 1, $1)",
        &[-1_000_000, 1_000_000],
    ),
    // Held, and lost.
    (
        "INSERT INTO claims (kind, job, item, due_at, owner)
         VALUES ('delivery', $2, 1, $1, $2)",
        &[1_000_000, -2_000_000],
    ),
    (
        "INSERT INTO export_jobs (id, workspace_id, object_prefix, segment_id, state, fields,
             format, request_id, requested_at, queued_at)
         VALUES ($2, 1, CAST($1 AS TEXT), $2, 'queued', '[]', 'zip', 'r', $1, 0)",
        &[-1_000_000, -3_000_000],
    ),
    (
        "INSERT INTO export_jobs (id, workspace_id, object_prefix, segment_id, state, fields,
             format, request_id, requested_at, queued_at, started_at, completed_at)
         VALUES ($2, 1, CAST($1 AS TEXT), $2, 'finishing', '[]', 'zip', 'r', 0, 0, 0, $1)",
        &[-4_000_000],
    ),
    (
        "INSERT INTO export_jobs (id, workspace_id, object_prefix, segment_id, state, fields,
             format, request_id, requested_at, queued_at, started_at)
         VALUES ($2, 1, CAST($1 AS TEXT), $2, 'running', '[]', 'zip', 'r', 0, 0, $1)",
        &[-5_000_000],
    ),
    (
        "INSERT INTO export_jobs (id, workspace_id, object_prefix, segment_id, state, fields,
             format, request_id, requested_at, queued_at, finished_at)
         VALUES ($2, 1, CAST($1 AS TEXT), $2, 'failed', '[]', 'zip', 'r', 0, 0, $1)",
        &[-6_000_000],
    ),
    (
        "INSERT INTO dispatches (id, workspace_id, kind, state, order_json, is_whole, request_id,
             accepted_at)
         VALUES ($2, 1, 'send', 'planning', '{}', TRUE, 'r', $1)",
        &[-7_000_000],
    ),
    (
        "INSERT INTO dispatches (id, workspace_id, kind, state, order_json, is_whole, request_id,
             accepted_at)
         VALUES ($2, 1, 'send', 'running', '{}', TRUE, 'r', $1)",
        &[-8_000_000, -1_000_000],
    ),
    (
        "INSERT INTO dispatches (id, workspace_id, kind, state, order_json, is_whole, request_id,
             accepted_at, finished_at)
         VALUES ($2, 1, 'send', 'done', '{}', TRUE, 'r', 0, $1)",
        &[-1_000_000],
    ),
    // One is overdue, one is not yet.
    (
        "INSERT INTO schedules (id, workspace_id, dispatch_id, item, timing, time, request,
             request_id, state, created_at)
         VALUES ($2, 1, $2, $1, 'instant', $1, '{}', 'r', 'pending', 0)",
        &[-9_000_000, 1_000_000],
    ),
    (
        "INSERT INTO schedules (id, workspace_id, dispatch_id, item, timing, time, request,
             request_id, state, created_at, ended_at)
         VALUES ($2, 1, $2, $1, 'instant', $1, '{}', 'r', 'sent', 0, 0)",
        &[-9_900_000],
    ),
    // A day is for tries.
    (
        "INSERT INTO deliveries (id, workspace_id, kind, subject, url, body, receiver, item, state,
             request_id, created_at, retry_until)
         VALUES ($2, 1, 'k', 's', 'u', 'b', $2, 1, 'pending', 'r', 0, $1 + 86400000)",
        &[-1_100_000, -100_000],
    ),
    (
        "INSERT INTO deliveries (id, workspace_id, kind, subject, url, body, receiver, item, state,
             request_id, created_at, retry_until, finished_at)
         VALUES ($2, 1, 'k', 's', 'u', 'b', $2, 1, 'given_up', 'r', 0, 0, $1)",
        &[-1_200_000],
    ),
    // Its receiver was removed before its time limit.
    (
        "INSERT INTO deliveries (id, workspace_id, kind, subject, url, body, receiver, item, state,
             request_id, created_at, retry_until, finished_at)
         VALUES ($2, 1, 'k', 's', 'u', 'b', $2, 1, 'given_up', 'r', 0, $1 + 1, $1)",
        &[-1_250_000],
    ),
    (
        "INSERT INTO transactional_emails (dispatch_id, workspace_id, campaign_id, request_id,
             state, state_at, received_at, enqueued_at, due_at, again_at)
         VALUES ($2, 1, $2, 'r', 'processing', 0, $1, 0, 0, 0)",
        &[-1_300_000],
    ),
    (
        "INSERT INTO transactional_emails (dispatch_id, workspace_id, campaign_id, request_id,
             state, state_at, received_at, enqueued_at, due_at, again_at)
         VALUES ($2, 1, $2, 'r', 'aborted', 0, $1, 0, 0, 0)",
        &[-1_400_000],
    ),
    (
        "INSERT INTO dead_letters (id, consumer_group, topic, partition, position, appended_at, key,
             payload, request_id, reason, attempts, created_at)
         VALUES ($2, 'ingest', 'tracking', 0, $1, 0, '', '', 'r', 'x', 1, 0)",
        &[-1, -2, -3],
    ),
];

const TABLES: [&str; 7] = [
    "DELETE FROM claims",
    "DELETE FROM export_jobs",
    "DELETE FROM dispatches",
    "DELETE FROM schedules",
    "DELETE FROM deliveries",
    "DELETE FROM transactional_emails",
    "DELETE FROM dead_letters",
];

async fn fleet_metrics_count_only_open_work(store: TestStore) {
    let installation = Installation::open(store, WORKSPACE, |c| c.ops.watch_seconds = 1).await;
    let (app, stop) = (installation.app.clone(), CancellationToken::new());
    let metrics = telemetry::fleet::FleetMetrics::default();
    let watching =
        tokio::spawn(telemetry::fleet::watch(app.clone(), metrics.clone(), stop.clone()));
    let told = || values(&metrics.render());
    eventually("it was looked", async || told().contains_key(SEEN)).await;
    assert_eq!(nonzero_values(&told()), BTreeMap::new());

    let now = claims::now(&mut app.store.snapshot().await.unwrap()).await.unwrap();
    for (sql, times) in ROWS {
        for time in times {
            on_pool!(&app.store, pool => {
                sqlx::query(sql).bind(now + time).bind(Uuid::new_v4()).execute(pool).await.unwrap();
            });
        }
    }
    let there = |name: &str| nonzero_values(&told()).get(name).copied();
    eventually("the last one is told", async || {
        there("dead_letters{topic=\"tracking\"}") == Some(3)
    })
    .await;
    let rows = nonzero_values(&told());
    for (name, wanted) in [
        ("work_ready{kind=\"export_part\"}", 1),
        ("work_oldest_seconds{kind=\"export_part\"}", 100),
        ("work_held{kind=\"delivery\"}", 1),
        ("work_ready{kind=\"delivery\"}", 1),
        ("work_oldest_seconds{kind=\"delivery\"}", 200),
        ("jobs{kind=\"export\",state=\"queued\"}", 2),
        ("job_oldest_seconds{kind=\"export\",state=\"queued\"}", 300),
        ("jobs{kind=\"export\",state=\"finishing\"}", 1),
        ("job_oldest_seconds{kind=\"export\",state=\"finishing\"}", 400),
        ("jobs{kind=\"export\",state=\"running\"}", 1),
        ("job_oldest_seconds{kind=\"export\",state=\"running\"}", 500),
        ("jobs{kind=\"dispatch\",state=\"planning\"}", 1),
        ("job_oldest_seconds{kind=\"dispatch\",state=\"planning\"}", 700),
        ("jobs{kind=\"dispatch\",state=\"running\"}", 2),
        ("job_oldest_seconds{kind=\"dispatch\",state=\"running\"}", 800),
        ("jobs{kind=\"schedule\",state=\"pending\"}", 2),
        ("job_oldest_seconds{kind=\"schedule\",state=\"pending\"}", 900),
        ("jobs{kind=\"delivery\",state=\"pending\"}", 2),
        ("job_oldest_seconds{kind=\"delivery\",state=\"pending\"}", 110),
        ("jobs{kind=\"delivery\",state=\"given_up\"}", 1),
        ("job_oldest_seconds{kind=\"delivery\",state=\"given_up\"}", 120),
        ("jobs{kind=\"transactional\",state=\"waiting\"}", 1),
        ("job_oldest_seconds{kind=\"transactional\",state=\"waiting\"}", 130),
        ("dead_letters{topic=\"tracking\"}", 3),
    ] {
        let value = rows.get(name).copied().unwrap_or(0);
        // An age has grown since, by less than three minutes.
        let max = if name.contains("_seconds") { wanted + 18 } else { wanted };
        assert!((wanted..=max).contains(&value), "{name}: {value}, not {wanted}");
    }
    assert_eq!(rows.len(), 24, "{rows:?}");

    for sql in TABLES {
        on_pool!(&app.store, pool => { sqlx::query(sql).execute(pool).await.unwrap(); });
    }
    eventually("nothing is there any more", async || nonzero_values(&told()).is_empty()).await;

    app.store.close().await;
    eventually("nothing is told any more", async || fleet_values(&told()).is_empty()).await;
    assert_eq!(told().keys().collect::<Vec<_>>(), [SEEN]);
    stop.cancel();
    watching.await.unwrap();
    assert_eq!(metrics.render(), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn fleet_metrics_need_the_database() {
    let database = Proxy::to(&servers::variable("LONGSHORE_TEST_POSTGRES")).await;
    let settings = [
        ("LONGSHORE_OPS__WATCH_SECONDS", "1".to_owned()),
        ("LONGSHORE_GATEWAY__REQUESTS_IN_FLIGHT", "1".to_owned()),
    ];
    let fleet = Fleet::start_with(Backend::Fleet(0), &settings, |environment| {
        let url = environment.get_mut("LONGSHORE_DATABASE_URL").expect("a database");
        *url = database.instead_of(url);
    })
    .await;
    let scene = Scene { fleet, gateway: "gateway", worker: "none" };
    scene.tells("longshore_jobs{kind=\"export\",state=\"queued\"}", 0.0).await;
    let seen = scene.shows("gateway").await[SEEN];
    database.set(ProxyMode::Refused);
    eventually("nothing is told", async || fleet_values(&scene.shows("gateway").await).is_empty())
        .await;
    let shown = scene.shows("gateway").await;
    assert!(shown[SEEN] >= seen, "when it was told last is");
    assert!(shown.contains_key("longshore_pool_connections_max{pool=\"main\"}"));

    // A call that waits takes the only place.
    let address = format!("{}{EXPORT}", scene.fleet.base());
    let call = || reqwest::Client::new().post(&address).bearer_auth("nobody's").send();
    database.set(ProxyMode::Stuck);
    eventually("a call is turned away", async || {
        let (first, other) = tokio::join!(call(), call());
        assert!(
            first.unwrap().status().is_server_error() && other.unwrap().status().is_server_error()
        );
        scene.shows("gateway").await["longshore_http_refused_total{reason=\"busy\"}"] > 0.0
    })
    .await;
    database.set(ProxyMode::Open);
    scene.tells("longshore_jobs{kind=\"export\",state=\"queued\"}", 0.0).await;
    scene.fleet.close().await;
}

/// A backup that was never recorded is 0: an alert of its own fires.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_backup_is_shown() {
    const SERIES: &str = "longshore_backup_last_success_timestamp_seconds";
    let settings = [("LONGSHORE_OPS__WATCH_SECONDS", "1".to_owned())];
    let fleet = Fleet::start(Backend::Embedded, &settings).await;
    let shown = || async { values(&fleet.metrics("standalone").await).get(SERIES).copied() };
    eventually("the metric is shown", || async { shown().await.is_some() }).await;
    assert_eq!(shown().await, Some(0.0));
    let before = jiff::Timestamp::now().as_millisecond() as f64 / 1e3;
    fleet.run(&["backup", "record"]).await;
    let after = jiff::Timestamp::now().as_millisecond() as f64 / 1e3;
    eventually("the backup is shown", || async { shown().await.unwrap_or(0.0) > 0.0 }).await;
    let at = shown().await.expect("the metric");
    // The database's clock may round.
    assert!((before - 1.0..=after + 1.0).contains(&at), "{before} {at} {after}");
    fleet.close().await;
}
