//! The broker is down or lies: what is planned continues, what is asked for waits.

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
    let mut waiting = Vec::new();
    for way in BROKEN_WAYS {
        scene.broker.set(way);
        let path = format!("/{way:?}");
        let accepted = scene.request(&path).await;
        endure(&scene.fleet, &format!("the broker: {way:?}")).await;
        if !matches!(way, ProxyMode::Unanswered) {
            assert_eq!(scene.api.status(&accepted.prefix).await["state"], "queued", "{way:?}");
        }
        waiting.push((path, accepted));
        scene.broker.set(ProxyMode::Open);
        scene.recovered().await;
    }
    for (path, accepted) in &waiting {
        scene.ends_whole(accepted, path).await;
    }
    scene.leaves_only(1 + waiting.len()).await;
}
