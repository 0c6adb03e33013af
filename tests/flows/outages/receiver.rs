//! The receiver of callbacks is down or fails: the export is done all the same, and is called back
//! later.

use axum::http::StatusCode;

use super::{BROKEN_WAYS, Scene, endure};
use crate::support::proxy::ProxyMode;
use crate::support::receiver::ScriptedResponse;
use crate::support::storage::TestStorage;

#[tokio::test(flavor = "multi_thread")]
async fn broken_ways_to_the_receiver() {
    let scene = Scene::new(TestStorage::s3().await, 4).await;
    let mut exports = 0;
    for way in BROKEN_WAYS {
        scene.callbacks.set(way);
        let path = format!("/{way:?}");
        let accepted = scene.request(&path).await;
        scene.api.done(&accepted.prefix).await;
        endure(&scene.fleet, &format!("the receiver: {way:?}")).await;
        scene.callbacks.set(ProxyMode::Open);
        scene.ends_whole(&accepted, &path).await;
        exports += 1;
    }
    // Errors of every kind, for as long as the outage lasts.
    let failing =
        [StatusCode::INTERNAL_SERVER_ERROR, StatusCode::TOO_MANY_REQUESTS, StatusCode::GONE];
    scene
        .receiver
        .script(failing.iter().cycle().take(1_000).map(|s| ScriptedResponse::Status(s.as_u16())));
    let accepted = scene.request("/errors").await;
    scene.api.done(&accepted.prefix).await;
    endure(&scene.fleet, "the receiver: errors").await;
    scene.receiver.clear_script();
    scene.ends_whole(&accepted, "/errors").await;
    scene.leaves_only(exports + 1).await;
}
