//! Reports of the relay, and their postbacks: in order, once each, whatever the receiver returns,
//! on both databases.

use std::time::Duration;

use longshore::app::App;
use longshore::deliveries;
use longshore::kinds;
use longshore::messages::MessageId;
use longshore::transactional::reports::Change;
use longshore::transactional::{State, apply_report, rows};
use longshore::workspaces::Channel;
use serde_json::Value;
use store::Store;
use store::claims::{self};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::support::callbacks::verified;
use crate::support::eventually;
use crate::support::installation::Installation;
use crate::support::receiver::{Receiver, ScriptedResponse};
use crate::support::stores::{TestStore, on_both_stores, wait_until_blocked_where};

const SECRET: &[u8] = &[9; 24];
const NOW: i64 = 1_598_900_321_000;

const PROCESSED: (State, Option<&str>) = (State::Processed, None);
const DELIVERED: (State, Option<&str>) = (State::Delivered, None);

/// A workspace file whose postbacks go to `receiver`.
fn workspace(receiver: Option<&Receiver>) -> String {
    let secret = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, SECRET);
    let postback = receiver.map(|receiver| {
        let url = receiver.url("/states");
        format!("  status_postback: {{url: '{url}', secret: whsec_{secret}}}\n")
    });
    format!(
        "workspace: acme
currency: USD
email:
  smtp: smtp://127.0.0.1:1
  from: Acme <hello@acme.example>
{}",
        postback.unwrap_or_default()
    )
}

struct World {
    installation: Installation,
    receiver: Receiver,
    stop: CancellationToken,
    worker: tokio::task::JoinHandle<()>,
}

impl World {
    async fn new(store: TestStore) -> Self {
        let receiver = Receiver::start([]).await;
        let yaml = workspace(Some(&receiver));
        let installation = Installation::open(store, &yaml, |config| {
            config.allow_private = vec!["127.0.0.0/8".parse().unwrap()];
            config.deliveries.retry_ms = 20;
        })
        .await;
        let stop = CancellationToken::new();
        let worker = tokio::spawn(work(installation.app.clone(), stop.clone()));
        Self { installation, receiver, stop, worker }
    }

    fn app(&self) -> &App {
        &self.installation.app
    }

    /// An email that waits.
    async fn email(&self) -> MessageId {
        let dispatch_id = Uuid::new_v4();
        let mut tx = self.app().store.write().await.unwrap();
        let new = rows::New {
            dispatch_id,
            workspace_id: self.installation.workspace,
            campaign_id: Uuid::nil(),
            external_send_id: None,
            recipient: "{\"external_user_id\":\"ann\"}",
            attributes: None,
            trigger_properties: Some("{}"),
            request_id: "request-1",
            received_at: NOW,
            enqueued_at: NOW,
        };
        rows::insert(&mut tx, &new).await.unwrap();
        tx.commit().await.unwrap();
        MessageId { dispatch_id, service_id: Uuid::now_v7(), channel: Channel::Email }
    }

    async fn report(
        &self,
        id: &MessageId,
        (state, reason): (State, Option<&str>),
        at: i64,
    ) -> bool {
        let (app, change) = (self.app(), Change { state, at, reason, bounce: None });
        let mut tx = app.store.write().await.unwrap();
        let workspace = self.installation.workspace;
        let is_known = apply_report(&mut tx, app, workspace, id, &change).await.unwrap();
        tx.commit().await.unwrap();
        is_known
    }

    async fn stored(&self, id: &MessageId) -> rows::Email {
        let mut tx = self.app().store.snapshot().await.unwrap();
        rows::by_id(&mut tx, id.dispatch_id).await.unwrap().expect("the email")
    }

    /// What the receiver was notified of an email, in the order in which it took it.
    fn postbacks(&self, id: &MessageId) -> Vec<Value> {
        let dispatch = id.dispatch_id.simple().to_string();
        let received = self.receiver.received();
        let told = received.iter().map(|request| verified(request, SECRET));
        told.filter(|body| body["dispatch_id"] == dispatch.as_str()).collect()
    }

    async fn close(self) {
        self.stop.cancel();
        self.worker.await.expect("the worker ends");
    }
}

/// Makes deliveries as they come, until `stop`.
async fn work(app: App, stop: CancellationToken) {
    let mut attempts = JoinSet::new();
    while !stop.is_cancelled() {
        let lease = Duration::from_secs(60);
        for claim in
            claims::take(&app.store, kinds::DELIVERY, 4, 8, lease, &[]).await.unwrap().claims
        {
            let (app, stop) = (app.clone(), stop.clone());
            attempts
                .spawn(async move { deliveries::run(&app, &app.messages, &claim, &stop).await });
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    while let Some(ended) = attempts.join_next().await {
        ended.expect("no panic").expect("the attempt is noted");
    }
}

fn statuses(told: &[Value]) -> Vec<&str> {
    told.iter().map(|body| body["status"].as_str().expect("a status")).collect()
}

async fn states_are_posted_in_order_despite_failures(world: World) {
    // Each is tried three times before it is taken.
    world
        .receiver
        .script((0..9).map(|n| ScriptedResponse::Status(if n % 3 == 2 { 200 } else { 500 })));
    let id = world.email().await;
    assert!(world.report(&id, PROCESSED, NOW + 5).await);
    assert!(world.report(&id, DELIVERED, NOW + 9).await);
    eventually("all is told", || async { world.postbacks(&id).len() == 9 }).await;
    let told = world.postbacks(&id);
    let expected = ["sent", "processed", "delivered"].map(|state| [state; 3]).concat();
    assert_eq!(statuses(&told), expected);
    assert_eq!(told[3]["metadata"]["processed_at"], "2020-08-31T18:58:41.005+00:00");
    assert_eq!(told[8]["metadata"]["delivered_at"], "2020-08-31T18:58:41.009+00:00");
    world.close().await;
}

async fn late_and_repeated_reports_change_nothing(world: World) {
    let id = world.email().await;
    assert!(world.report(&id, (State::Bounced, Some("550 5.1.1")), NOW + 5).await);
    for late in [PROCESSED, DELIVERED, (State::Bounced, Some("again"))] {
        assert!(world.report(&id, late, NOW + 9).await);
    }
    let stored = world.stored(&id).await;
    assert_eq!((stored.state, stored.reason.as_deref()), (State::Bounced, Some("550 5.1.1")));
    assert_eq!((stored.sent_at, stored.state_at), (Some(NOW + 5), NOW + 5));
    assert!(stored.recipient.is_none() && stored.trigger_properties.is_none());
    eventually("all is told", || async { world.postbacks(&id).len() == 2 }).await;
    let told = world.postbacks(&id);
    assert_eq!(statuses(&told), ["sent", "bounced"]);
    assert_eq!(told[1]["metadata"]["reason"], "550 5.1.1");
    world.close().await;
}

async fn a_report_is_of_its_workspace_and_user(world: World) {
    let id = world.email().await;
    let mut tx = world.app().store.write().await.unwrap();
    rows::store_start(&mut tx, id.dispatch_id, 0, Some(id.service_id), None).await.unwrap();
    let (app, change) =
        (world.app(), Change { state: State::Delivered, at: NOW, reason: None, bounce: None });
    let other = world.installation.workspace + 1;
    assert!(!apply_report(&mut tx, app, other, &id, &change).await.unwrap());
    tx.commit().await.unwrap();
    let somebody = MessageId { service_id: Uuid::now_v7(), ..id };
    world.report(&somebody, DELIVERED, NOW).await;
    let unknown = MessageId { dispatch_id: Uuid::new_v4(), ..id };
    assert!(!world.report(&unknown, DELIVERED, NOW).await);
    assert_eq!(world.stored(&id).await.state, State::Processing);
    world.close().await;
}

async fn erasing_a_user_deletes_their_emails_and_callbacks(world: World) {
    let (ann, bob) = (world.email().await, world.email().await);
    for id in [ann, bob] {
        let mut tx = world.app().store.write().await.unwrap();
        rows::store_start(&mut tx, id.dispatch_id, 0, Some(id.service_id), None).await.unwrap();
        tx.commit().await.unwrap();
        world.report(&id, PROCESSED, NOW).await;
        world.report(&id, (State::Bounced, Some("to ann@acme.example")), NOW).await;
    }
    for id in [ann, bob] {
        eventually("all is told", || async { world.postbacks(&id).len() == 3 }).await;
    }
    let mut tx = world.app().store.write().await.unwrap();
    rows::erase_user(&mut tx, world.installation.workspace, ann.service_id).await.unwrap();
    assert!(rows::by_id(&mut tx, ann.dispatch_id).await.unwrap().is_none());
    assert!(rows::by_id(&mut tx, bob.dispatch_id).await.unwrap().is_some());
    let filter =
        deliveries::Filter { state: None, workspace: None, subject: None, after: None, limit: 100 };
    let left = deliveries::list(&mut tx, &filter).await.unwrap();
    let bob = bob.dispatch_id.simple().to_string();
    assert!(left.len() == 3 && left.iter().all(|delivery| delivery.subject == bob), "{left:?}");
    tx.commit().await.unwrap();
    world.close().await;
}

/// The report holds the email, and its postback is not committed yet.
async fn an_erasure_includes_the_postback_of_a_report_in_progress(world: World) {
    let (id, workspace) = (world.email().await, world.installation.workspace);
    let mut tx = world.app().store.write().await.unwrap();
    rows::store_start(&mut tx, id.dispatch_id, 0, Some(id.service_id), None).await.unwrap();
    tx.commit().await.unwrap();
    assert!(world.report(&id, PROCESSED, NOW).await);
    let mut tx = world.app().store.write().await.unwrap();
    let change = Change { state: State::Delivered, at: NOW, reason: None, bounce: None };
    assert!(apply_report(&mut tx, world.app(), workspace, &id, &change).await.unwrap());
    let store = world.app().store.clone();
    let erasing = tokio::spawn(async move {
        let mut tx = store.write().await.unwrap();
        rows::erase_user(&mut tx, workspace, id.service_id).await.unwrap();
        tx.commit().await.unwrap();
    });
    // SQLite has one writer.
    if let Store::Postgres { pool, .. } = &world.app().store {
        // The erasure waits for the report.
        wait_until_blocked_where(pool, "query LIKE '%transactional_emails%'").await;
    }
    tx.commit().await.unwrap();
    erasing.await.unwrap();
    let mut tx = world.app().store.snapshot().await.unwrap();
    assert!(rows::by_id(&mut tx, id.dispatch_id).await.unwrap().is_none());
    let filter =
        deliveries::Filter { state: None, workspace: None, subject: None, after: None, limit: 100 };
    let left = deliveries::list(&mut tx, &filter).await.unwrap();
    assert!(left.is_empty(), "{left:?}");
    tx.commit().await.unwrap();
    world.close().await;
}

/// The postbacks of an email whose first one the receiver has refused at least once.
async fn refused(world: &World) -> (MessageId, deliveries::Filter) {
    world.receiver.script(std::iter::repeat_n(ScriptedResponse::Status(503), 100_000));
    let id = world.email().await;
    assert!(world.report(&id, PROCESSED, NOW + 5).await);
    eventually("an attempt failed", || async { !world.postbacks(&id).is_empty() }).await;
    let subject = Some(id.dispatch_id.simple().to_string());
    (id, deliveries::Filter { state: None, workspace: None, subject, after: None, limit: 100 })
}

async fn are_all(world: &World, filter: &deliveries::Filter, state: deliveries::State) -> bool {
    let mut tx = world.app().store.snapshot().await.unwrap();
    let listed = deliveries::list(&mut tx, filter).await.unwrap();
    listed.len() == 2 && listed.iter().all(|delivery| delivery.state == state)
}

/// They end without another request, and with a reason, long before their time limit.
async fn postbacks_end_when_their_receiver_is_removed(world: World) {
    let (_, filter) = refused(&world).await;
    world.installation.apply(&workspace(None), false).await;
    let given_up = deliveries::State::GivenUp;
    eventually("both have ended", || are_all(&world, &filter, given_up)).await;
    let mut tx = world.app().store.snapshot().await.unwrap();
    for delivery in deliveries::list(&mut tx, &filter).await.unwrap() {
        assert!(delivery.finished_at < Some(delivery.retry_until), "{delivery:?}");
        let error = delivery.last_error.expect("a reason");
        assert!(error.contains("email.status_postback"), "{error}");
    }
    tx.commit().await.unwrap();
    for request in world.receiver.received() {
        assert_eq!(verified(&request, SECRET)["status"], "sent");
    }
    world.close().await;
}

async fn postbacks_go_to_the_receiver_that_replaced_theirs(world: World) {
    let (id, filter) = refused(&world).await;
    let other = Receiver::start([]).await;
    world.installation.apply(&workspace(Some(&other)), false).await;
    let delivered = deliveries::State::Delivered;
    eventually("both are delivered", || are_all(&world, &filter, delivered)).await;
    let dispatch = id.dispatch_id.simple().to_string();
    let received: Vec<Value> =
        other.received().iter().map(|request| verified(request, SECRET)).collect();
    assert!(received.iter().all(|body| body["dispatch_id"] == dispatch.as_str()), "{received:?}");
    assert_eq!(statuses(&received), ["sent", "processed"]);
    world.close().await;
}

on_both_stores! { World =>
    states_are_posted_in_order_despite_failures,
    postbacks_end_when_their_receiver_is_removed,
    postbacks_go_to_the_receiver_that_replaced_theirs,
    late_and_repeated_reports_change_nothing,
    a_report_is_of_its_workspace_and_user,
    erasing_a_user_deletes_their_emails_and_callbacks,
    an_erasure_includes_the_postback_of_a_report_in_progress,
}
