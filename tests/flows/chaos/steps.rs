//! Time that jumps while messages are sent: the clock of the database is set, a machine is suspended.
//! Workers whose claims look expired, or are lost, send nothing twice.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::json;

use super::clocks::Clocks;
use crate::support::fleet::{Backend, Fleet, notice_lost_workers};
use crate::support::receiver::{Receiver, ScriptedResponse};
use crate::support::{Api, WorkspaceFile, stores};

const SEGMENT: &str = "4f0e6b1a-9c3d-4e7f-8a2b-1c0d9e8f7a72";
const USERS: usize = 1_200;

/// Messages of a worker in progress, and how long the receiver takes for each.
const IN_FLIGHT: usize = 8;
const SLOW: Duration = Duration::from_millis(60);

/// How long a worker that was suspended without a clock that shows it may start messages.
const GUARD_AGE: Duration = Duration::from_millis(250);

const LEASE: Duration = Duration::from_secs(3);

fn settings(lease: Duration) -> [(&'static str, String); 7] {
    [
        ("LONGSHORE_MESSAGES__PART_USERS", "200".to_owned()),
        ("LONGSHORE_MESSAGES__BATCH_USERS", "50".to_owned()),
        // One worker holds all, and others look for what has expired.
        ("LONGSHORE_MESSAGES__PARTS_IN_FLIGHT", "8".to_owned()),
        ("LONGSHORE_MESSAGES__SENDS_IN_FLIGHT", IN_FLIGHT.to_string()),
        ("LONGSHORE_WORKER__LEASE_MS", lease.as_millis().to_string()),
        ("LONGSHORE_WORKER__POLL_MS", "50".to_owned()),
        ("LONGSHORE_WORKER__DRAIN_SECONDS", "2".to_owned()),
    ]
}

struct Scene {
    fleet: Fleet,
    api: Api,
    receiver: Receiver,
}

impl Scene {
    /// With a gateway, and a receiver that takes a while for each message.
    async fn new(lease: Duration) -> Self {
        let settings = settings(lease);
        let fleet = Fleet::prepare(Backend::Fleet(0), &settings, notice_lost_workers).await;
        for sql in stores::STEPPED_CLOCK {
            stores::execute(&fleet.database_url(), sql).await;
        }
        let receiver = Receiver::start([]).await;
        let slow = ScriptedResponse::Slow(SLOW);
        receiver.script(std::iter::repeat_n(slow, 10 * USERS));
        let audience = json!({ "custom_attribute": {
            "custom_attribute_name": "number", "comparison": "exists",
        } });
        let segments = json!([{ "id": SEGMENT, "name": "All", "audience": audience }]);
        let workspace =
            WorkspaceFile::new("acme").permitted(&["messages.send"]).with("segments", segments);
        let api = fleet.apply(std::slice::from_ref(&workspace)).await.remove(0);
        let record = |number: usize| {
            let id = format!("u{number}");
            json!({ "external_id": id, "custom_attributes": { "number": number } }).to_string()
        };
        fleet.import("acme", &(0..USERS).map(record).collect::<Vec<_>>()).await;
        let mut scene = Self { fleet, api, receiver };
        scene.fleet.launch("gateway").await;
        scene
    }

    async fn send_to_all(&self) {
        let body = json!({
            "broadcast": true, "segment_id": SEGMENT,
            "messages": { "webhook": {
                "url": self.receiver.url("/"), "request_method": "POST",
                "body": "{{${external_id}}}",
            } },
        });
        let answer = self.api.post("/messages/send", &body).await;
        assert_eq!(answer.status, 201, "{answer:?}");
    }

    /// The users of the messages that arrived, in order.
    fn arrived(&self) -> Vec<String> {
        let user = |body: &[u8]| String::from_utf8(body.to_vec()).expect("UTF-8");
        self.receiver.received().iter().map(|request| user(&request.body)).collect()
    }

    async fn is_done(&self) {
        let done = "SELECT count(*) FROM dispatches WHERE state = 'done'";
        stores::wait_for_count(&self.fleet.database_url(), done, |count| count == 1).await;
        let users: BTreeSet<String> = self.arrived().into_iter().collect();
        assert_eq!(users, (0..USERS).map(|number| format!("u{number}")).collect());
    }
}

/// Messages that arrived again.
fn repeats(arrived: &[String]) -> usize {
    arrived.len() - arrived.iter().collect::<BTreeSet<_>>().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_of_the_databases_clock_sends_nothing_twice() {
    let mut scene = Scene::new(LEASE).await;
    scene.fleet.launch("worker-1").await;
    scene.fleet.launch("worker-2").await;
    scene.send_to_all().await;
    for step in 1..=3 {
        scene.receiver.wait_for(step * USERS / 5).await;
        let sql = "UPDATE stepped.clock SET ahead = ahead + interval '4 seconds'";
        stores::execute(&scene.fleet.database_url(), sql).await;
    }
    scene.is_done().await;
    assert_eq!(repeats(&scene.arrived()), 0);
    scene.fleet.close().await;
}

/// The lease of a worker that is lost still expires.
#[tokio::test(flavor = "multi_thread")]
async fn work_of_a_killed_worker_continues_after_a_step_of_the_databases_clock() {
    let mut scene = Scene::new(LEASE).await;
    scene.fleet.launch("worker-1").await;
    scene.fleet.launch("worker-2").await;
    scene.send_to_all().await;
    scene.receiver.wait_for(USERS / 4).await;
    scene.fleet.kill("worker-1");
    let sql = "UPDATE stepped.clock SET ahead = ahead + interval '1 hour'";
    stores::execute(&scene.fleet.database_url(), sql).await;
    scene.is_done().await;
    scene.fleet.close().await;
}

/// The clock of its process stood still meanwhile, so only the claim's owner in the store shows that
/// another worker has its parts.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_was_suspended_sends_nothing_that_another_has_sent() {
    // Longer, since a worker that renews its lease finds it lost.
    let mut scene = Scene::new(4 * LEASE).await;
    let mut clocks = Clocks::build(scene.fleet.directory());
    let variables = clocks.variables("worker-1");
    let variables = variables.each_ref().map(|(name, value)| (*name, value.as_str()));
    scene.fleet.launch_with("worker-1", &variables).await;
    scene.fleet.ready("worker-1").await;
    scene.send_to_all().await;
    scene.receiver.wait_for(USERS / 8).await;
    scene.fleet.stop("worker-1");
    let stopped = Instant::now();
    scene.fleet.launch("worker-2").await;
    let sent = scene.receiver.received().len();
    // It holds all parts, so these are of the worker that has taken over.
    scene.receiver.wait_for(sent + USERS / 8).await;
    assert!(scene.receiver.received().len() < USERS / 2, "there is something left to send");
    clocks.suspended("worker-1", stopped.elapsed());
    scene.fleet.resume("worker-1");
    scene.is_done().await;
    // The new owner sends again what has no stored outcome, but each message once.
    let repeats = repeats(&scene.arrived()[sent..]);
    let started = IN_FLIGHT * (GUARD_AGE.as_millis() / SLOW.as_millis() + 1) as usize;
    assert!(repeats <= IN_FLIGHT + started, "{repeats} messages were sent again");
    scene.fleet.close().await;
}
