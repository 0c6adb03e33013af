//! What was worked on goes from Kafka's topics after a while; what was not stays.

use kit::retry::Retry as _;
use log::LogError;
use log::offsets::GroupOffset as Offset;
use longshore::topics;
use serde_json::{Value, json};

use super::batches::tracked;
use super::*;
use crate::support::fleet::{Backend, Fleet};
use crate::support::{WorkspaceFile, eventually};

/// No message is as new.
const LATER: i64 = i64::MAX / 2;

/// The result of a request, which is made again while a broker does not lead a new partition yet,
/// as a worker does an hour later.
async fn led<T>(request: impl AsyncFn() -> Result<T, LogError>) -> T {
    let answered = async {
        loop {
            match request().await {
                Err(error) if error.can_retry() => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                done => return done.unwrap(),
            }
        }
    };
    tokio::time::timeout(TIMEOUT, answered).await.expect("the broker leads its partitions")
}

/// The earliest offsets of a topic's partitions.
async fn earliest(log: &Log, topic: Topic) -> Vec<i64> {
    let offsets = led(async || log.topic_offsets(topic).await).await;
    offsets.ranges.iter().map(|range| range.earliest).collect()
}

/// Trims for the group `g`.
async fn trimmed(log: &Log, topic: Topic, offsets: &[Offset], before: i64) -> u64 {
    led(async || log.trim("g", topic, offsets, before).await).await
}

#[tokio::test(flavor = "multi_thread")]
async fn old_applied_messages_are_trimmed() {
    let test_log = TestLog::kafka();
    let log = test_log.open().await;
    log.append(tracked(1, 0, 10)).await.unwrap();
    let applied = Offset {
        consumer_group: "g".into(),
        partition: 1,
        log_id: led(async || log.topic_offsets(topics::TRACKING).await).await.id,
        next: 10,
        resets: 0,
    };
    let trim = async |before| {
        trimmed(&log, topics::TRACKING, std::slice::from_ref(&applied), before).await
    };
    assert_eq!(trim(LATER).await, 0, "nobody has taken anything");

    let mut slow = reader(&log, "g").await;
    take(&mut slow, 4).await;
    slow.close().await;
    assert_eq!(trim(1).await, 0, "it is not old");
    assert_eq!(trim(LATER).await, 4);
    assert_eq!(trim(LATER).await, 0, "it is gone already");
    assert_eq!(earliest(&log, topics::TRACKING).await, [0, 4, 0, 0]);

    // Whoever comes now begins with what is left.
    let mut new = reader(&log, "new").await;
    let got: Vec<_> = take(&mut new, 6).await.iter().map(text).collect();
    assert_eq!(got, ["4", "5", "6", "7", "8", "9"]);
    log.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unapplied_messages_are_not_trimmed() {
    let test_log = TestLog::kafka();
    let log = test_log.open().await;
    log.append(tracked(1, 0, 10)).await.unwrap();
    let mut done = reader(&log, "g").await;
    take(&mut done, 10).await;
    done.close().await;

    let id = led(async || log.topic_offsets(topics::TRACKING).await).await.id;
    let at = |group: &str, log_id: &str, next| Offset {
        consumer_group: group.to_owned(),
        partition: 1,
        log_id: log_id.to_owned(),
        next,
        resets: 0,
    };
    // A store of before, of a topic before it was recreated, of another group, and one that is
    // ahead of a log which was put back to an older state.
    for (offsets, gone) in [
        (vec![], 0),
        (vec![at("g", "another", 10)], 0),
        (vec![at("other", &id, 10)], 0),
        (vec![at("g", &id, 11)], 0),
        (vec![at("g", &id, 3)], 3),
        (vec![at("g", &id, 10)], 10),
    ] {
        trimmed(&log, topics::TRACKING, &offsets, LATER).await;
        assert_eq!(earliest(&log, topics::TRACKING).await, [0, gone, 0, 0], "{offsets:?}");
    }
    log.close().await;
}

/// A worker does so by itself when it starts, with all that it was done with before.
#[tokio::test(flavor = "multi_thread")]
async fn workers_remove_old_messages() {
    let keep = [("LONGSHORE_LOG__KEEP_DAYS", "0".to_owned())];
    let mut fleet = Fleet::start(Backend::Fleet(1), &keep).await;
    let api = fleet.apply(&[WorkspaceFile::new("acme")]).await.remove(0);
    let body = json!({"attributes": [{"external_id": "ann", "first_name": "Ann"}]});
    assert_eq!(api.post("/users/track", &body).await.status, 201);
    fleet.applied().await;
    fleet.terminate("worker-1").await;
    fleet.launch("worker-1").await;
    let log = fleet.log().await;
    eventually("the message is removed", async || {
        earliest(&log, topics::TRACKING).await.iter().sum::<i64>() == 1
    })
    .await;
    // And what comes next is applied as ever.
    let body = json!({"attributes": [{"external_id": "ann", "first_name": "Bea"}]});
    assert_eq!(api.post("/users/track", &body).await.status, 201);
    fleet.applied().await;
    let shown: Value =
        serde_json::from_str(&fleet.run(&["users", "show", "ann", "--json"]).await).unwrap();
    assert_eq!(shown["first_name"], "Bea");
    log.close().await;
}
