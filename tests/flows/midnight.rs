//! An export that begins on one UTC day and ends on the next lies under the day of its end.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, header};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use longshore::app::App;
use longshore::exports::overview::{self, Filter};
use longshore::exports::rows;
use longshore::exports::{Job, Progress, State};
use longshore::gateway;
use longshore::worker::{self, Role};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::support::api::{ALL_FIELDS, EXPORT};
use crate::support::checker::{self, ExpectedExport};
use crate::support::installation::Installation;
use crate::support::proxy::{Proxy, ProxyMode};
use crate::support::storage::TestStorage;
use crate::support::stores::{TestStore, on_both_stores};
use crate::support::{WorkspaceFile, eventually, process, servers, user_records};

on_both_stores!(an_export_across_midnight_lies_under_the_day_of_its_end,);

const PARTS: usize = 12;
const PER_FILE: usize = 20;

async fn latest(installation: &Installation) -> (Job, Progress) {
    let mut tx = installation.app.store.snapshot().await.unwrap();
    let workspace = Some(installation.workspace);
    let filter = Filter { workspace, limit: 1, ..Filter::default() };
    let jobs = overview::jobs(&installation.app.gateway, &mut tx, &filter).await.unwrap();
    let (job, _) = &jobs[0];
    rows::load(&mut tx, job.id).await.unwrap().expect("the job")
}

async fn request(app: &App, key: &str) {
    let request = Request::post(EXPORT)
        .header(header::AUTHORIZATION, format!("Bearer {key}"))
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(json!({ "fields_to_export": ALL_FIELDS }).to_string()))
        .unwrap();
    let router = gateway::router(app.gateway.clone(), longshore::routes(Some(app)));
    assert_eq!(router.oneshot(request).await.unwrap().status(), 201);
}

async fn an_export_across_midnight_lies_under_the_day_of_its_end(store: TestStore) {
    let (directory, environment) = (store.config.data.clone(), store.environment());
    let command = async |arguments: &[&str]| {
        let mut command = process::command(&directory, &environment);
        command.args(arguments);
        let output = process::output(command).await;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let storage = TestStorage::s3().await;
    let proxy = Proxy::to(&servers::variable("LONGSHORE_TEST_S3_ENDPOINT")).await;
    let workspace = WorkspaceFile::new("acme").with_storage(&storage.at(&proxy.endpoint()));
    command(&["migrate"]).await;
    let installation = Installation::open(store, &workspace.document(), |config| {
        config.exports.users_per_file = PER_FILE as u32;
        config.exports.parts_in_flight = 2;
        config.worker.poll_ms = 50;
    })
    .await;
    let records: Vec<String> =
        (0..PARTS * PER_FILE).map(|number| user_records::simple(number, 1)).collect();
    let file = directory.join("users.ndjson");
    std::fs::write(&file, records.join("\n") + "\n").unwrap();
    command(&["import", file.to_str().unwrap()]).await;

    let app = &installation.app;
    let tomorrow = Timestamp::now().to_zoned(TimeZone::UTC).date().tomorrow().unwrap();
    let midnight = tomorrow.to_zoned(TimeZone::UTC).unwrap().timestamp();
    app.clock.set(midnight - 1.hour());
    proxy.set(ProxyMode::Slow(Duration::from_millis(100)));
    request(app, &workspace.key).await;
    let stop = CancellationToken::new();
    let worker = tokio::spawn(worker::run(app.clone(), &Role::ALL, stop.clone()));
    eventually("some files are written", || async {
        latest(&installation).await.1.files_done >= 3
    })
    .await;
    app.clock.set(midnight + 1.second());
    assert_eq!(latest(&installation).await.1.state, State::Running);
    proxy.set(ProxyMode::Open);
    eventually("it is done", || async { latest(&installation).await.1.state == State::Done }).await;

    let (job, _) = latest(&installation).await;
    let wanted =
        ExpectedExport { fields: &ALL_FIELDS, days: vec![tomorrow], prefix: &job.object_prefix };
    let files = checker::own_files(&storage, &job.segment_id.to_string(), "zip", &wanted).await;
    checker::check_export(&files, PARTS, &records, &wanted);
    eventually("nothing lies under the other day", || async {
        storage.list_files().await.len() == PARTS
    })
    .await;
    stop.cancel();
    worker.await.unwrap().unwrap();
    app.log.close().await;
}
