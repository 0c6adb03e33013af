//! Streams of progress, and the connections that they use.

use std::time::Duration;

use reqwest::Method;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::{address, fleet, workspace};
use crate::support::console::Browser;
use crate::support::fleet::Backend;

/// Connections of the console at the same time.
const CONNECTIONS: usize = 256;

/// Longer than the interval at which a stream checks its session.
const AFTER_SESSION_CHECK: Duration = Duration::from_secs(17);

#[tokio::test(flavor = "multi_thread")]
async fn one_person_with_many_streams_leaves_connections_to_others() {
    let (mut fleet, api) = fleet(Backend::Fleet(1), workspace("acme")).await;
    let browser = Browser::signed_in(&fleet, "ana", "viewer").await;
    fleet.stop("worker-1");
    let prefix = api.export_all().await.prefix;
    let mut streams = Vec::new();
    for _ in 0..CONNECTIONS {
        let path = format!("{}/live?view={}", address(&prefix), Uuid::new_v4());
        let stream = browser.request(Method::GET, &path).send().await.expect("a response");
        assert_eq!(stream.status(), 200);
        streams.push(stream);
    }
    sleep(AFTER_SESSION_CHECK).await;
    for name in ["ben", "cleo"] {
        let signed_in =
            timeout(Duration::from_secs(20), Browser::signed_in(&fleet, name, "viewer"));
        let other = signed_in.await.expect("a connection");
        assert_eq!(other.get("/").await.status, 200);
    }
    drop(streams);
    fleet.resume("worker-1");
    api.done(&prefix).await;
    fleet.close().await;
}
