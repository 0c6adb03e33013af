//! The broker is down or lies: planned exports continue, and new ones start without their message.

use super::{BROKEN_WAYS, Scene, endure};
use crate::support::proxy::ProxyMode;
use crate::support::storage::TestStorage;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "scripts/test --all"]
async fn broken_ways_to_the_broker() {
    let scene = Scene::new(TestStorage::s3().await, 12).await;
    let planned = scene.half_done("/planned").await;
    scene.broker.set(ProxyMode::Refused);
    scene.more_files(&planned, 3).await;
    scene.broker.set(ProxyMode::Open);
    scene.ends_whole(&planned, "/planned").await;
    let mut exports = 1;
    for way in BROKEN_WAYS {
        scene.broker.set(way);
        endure(&scene.fleet, &format!("the broker: {way:?}")).await;
        let path = format!("/{way:?}");
        let accepted = scene.request(&path).await;
        // It is planned although its message has not arrived.
        scene.api.done(&accepted.prefix).await;
        scene.broker.set(ProxyMode::Open);
        scene.recovered().await;
        scene.ends_whole(&accepted, &path).await;
        exports += 1;
    }
    scene.leaves_only(exports).await;
}
