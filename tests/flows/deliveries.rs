//! Callbacks to a real receiver, on both databases.

mod resend;

use std::time::Duration;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use kit::clock::from_ms;
use longshore::app::App;
use longshore::config::Config;
use longshore::deliveries::{self, Delivery, DeliveryError, Filter, NewDelivery, State};
use longshore::{kinds, workspaces};
use store::claims::{self, Claim, ClaimError};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::support::callbacks::{callback_at, verified};
use crate::support::eventually;
use crate::support::installation::Installation;
use crate::support::process;
use crate::support::receiver::{Receiver, ScriptedResponse};
use crate::support::stores::{TestStore, on_postgres, on_sqlite};

const BODY: &str = r#"{"success":true,"url":"https://example.com/é"}"#;
const LEASE: Duration = Duration::from_secs(60);
const HOUR_MS: i64 = 3_600_000;

const WORKSPACE: &str = "
workspace: acme
currency: USD
callbacks: {secret: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwxyz0}
";

/// The bytes behind the secret of the callbacks.
fn secret() -> Vec<u8> {
    BASE64_STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwxyz0").unwrap()
}

fn settings(config: &mut Config) {
    config.allow_private = vec!["127.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()];
    config.deliveries.retry_ms = 20;
    config.deliveries.timeout_seconds = 2;
    config.deliveries.connect_seconds = 2;
}

/// An installation with a worker that makes deliveries until it is closed.
struct World {
    installation: Installation,
    stop: CancellationToken,
    worker: tokio::task::JoinHandle<()>,
}

impl World {
    async fn open(store: TestStore) -> Self {
        Self::open_with(store, settings).await
    }

    async fn open_with(store: TestStore, change: impl FnOnce(&mut Config)) -> Self {
        let installation = Installation::open(store, WORKSPACE, change).await;
        let stop = CancellationToken::new();
        let worker = tokio::spawn(work(installation.app.clone(), stop.clone()));
        Self { installation, stop, worker }
    }

    fn app(&self) -> &App {
        &self.installation.app
    }

    async fn enqueue(&self, url: String) -> Uuid {
        enqueue(&self.installation, url).await
    }

    /// Enqueues a callback of another workspace.
    async fn enqueue_of(&self, workspace_id: i32, url: String) -> Uuid {
        enqueue_of(self.app(), workspace_id, url).await
    }

    /// The id of a new workspace.
    async fn add_workspace(&self, name: &str) -> i32 {
        self.installation.apply(&WORKSPACE.replace("acme", name), false).await;
        let mut tx = self.app().store.snapshot().await.unwrap();
        workspaces::by_name(&mut tx, name).await.unwrap().expect("the workspace").id
    }

    async fn find(&self, id: Uuid) -> Delivery {
        find(self.app(), id).await
    }

    /// Waits until a delivery is in `state`.
    async fn wait_for(&self, id: Uuid, state: State) -> Delivery {
        let condition = format!("delivery {id} is {}", state.name());
        eventually(&condition, || async { self.find(id).await.state == state }).await;
        self.find(id).await
    }

    /// Waits until an attempt has failed.
    async fn wait_for_failure(&self, id: Uuid) -> Delivery {
        eventually("an attempt failed", || async { self.find(id).await.last_error.is_some() })
            .await;
        self.find(id).await
    }

    async fn close(self) {
        self.stop.cancel();
        self.worker.await.expect("the worker ends");
    }
}

async fn enqueue(installation: &Installation, url: String) -> Uuid {
    enqueue_of(&installation.app, installation.workspace, url).await
}

async fn enqueue_of(app: &App, workspace_id: i32, url: String) -> Uuid {
    let mut tx = app.store.write().await.unwrap();
    let delivery = NewDelivery {
        workspace_id,
        kind: deliveries::EXPORT_CALLBACK,
        subject: "prefix".into(),
        follows: None,
        url,
        body: BODY.into(),
        request_id: "request-1".into(),
    };
    let id = deliveries::enqueue(&mut tx, &app.config, &app.clock, delivery).await.unwrap();
    tx.commit().await.unwrap();
    id
}

async fn find(app: &App, id: Uuid) -> Delivery {
    let mut tx = app.store.snapshot().await.unwrap();
    let found = deliveries::by_id(&mut tx, id).await.unwrap();
    tx.commit().await.unwrap();
    found.expect("the delivery")
}

async fn take(app: &App) -> Vec<Claim> {
    let per_receiver = app.config.deliveries.per_receiver;
    claims::take(&app.store, kinds::DELIVERY, 4, per_receiver, LEASE, &[]).await.unwrap().claims
}

/// Makes deliveries as they come, until `stop`.
async fn work(app: App, stop: CancellationToken) {
    let mut attempts = JoinSet::new();
    while !stop.is_cancelled() {
        for claim in take(&app).await {
            let (app, stop) = (app.clone(), stop.clone());
            attempts
                .spawn(async move { deliveries::run(&app, &app.messages, &claim, &stop).await });
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    while let Some(ended) = attempts.join_next().await {
        ended.expect("no panic").expect("the attempt is noted");
    }
}

async fn it_is_delivered_once_and_signed(store: TestStore) {
    let world = World::open(store).await;
    let receiver = Receiver::start([ScriptedResponse::Slow(Duration::from_millis(200))]).await;
    let id = world.enqueue(receiver.url("/hook?x=1")).await;
    let delivery = world.wait_for(id, State::Delivered).await;
    assert_eq!((delivery.attempts, delivery.last_status), (1, Some(200)));
    assert_eq!((delivery.next_at, delivery.last_error.as_deref()), (None, None));
    assert!(delivery.finished_at.is_some());
    let received = receiver.wait_for(1).await;
    let [request] = received.as_slice() else { panic!("{received:?}") };
    verified(request, &secret());
    assert_eq!(request.uri, "/hook?x=1");
    assert_eq!(request.body, BODY);
    assert_eq!(request.header("content-type"), "application/json");
    assert_eq!(request.header("webhook-id"), format!("msg_{}", id.simple()));
    assert!(request.header("user-agent").starts_with("longshore/"));
    // Nothing is left to be taken.
    assert!(take(world.app()).await.is_empty());
    world.close().await;
}

async fn failures_are_tried_again_under_the_same_id(store: TestStore) {
    let world = World::open(store).await;
    let gone = "gone\0 for good ".repeat(1_000);
    let receiver = Receiver::start([
        ScriptedResponse::Status(500),
        ScriptedResponse::Says(410, gone),
        ScriptedResponse::Close,
        ScriptedResponse::Hang,
        ScriptedResponse::Status(304),
        ScriptedResponse::Status(204),
    ])
    .await;
    let id = world.enqueue(receiver.url("/hook")).await;
    let delivery = world.wait_for(id, State::Delivered).await;
    assert_eq!((delivery.attempts, delivery.last_status), (6, Some(204)));
    assert_eq!(receiver.received().len(), 6);
    callback_at(&receiver, "/hook", &secret()).await;
    world.close().await;
}

async fn receivers_can_ask_for_a_longer_pause(store: TestStore) {
    let world = World::open(store).await;
    let receiver = Receiver::start([]).await;
    let in_decades = "Thu, 31 Dec 2099 23:59:59 GMT";
    for (asked, longest) in [("120", 120_000), ("7200", HOUR_MS), (in_decades, HOUR_MS)] {
        receiver.script([ScriptedResponse::Busy(asked.into())]);
        let id = world.enqueue(receiver.url("/hook")).await;
        let delivery = world.wait_for_failure(id).await;
        let now = world.app().clock.now_ms();
        let pause = delivery.next_at.expect("a next attempt") - delivery.created_at;
        let passed = now - delivery.created_at;
        assert!((longest..=longest + passed).contains(&pause), "{asked}: {pause}");
        assert_eq!((delivery.state, delivery.attempts), (State::Pending, 1));
    }
    world.close().await;
}

async fn delivery_errors_are_short_and_hide_secrets(store: TestStore) {
    let world = World::open(store).await;
    let text = format!("no such token: token-of-acme path-of-the-acme {}", "x\0".repeat(10_000));
    let says = ScriptedResponse::Says(403, text);
    let receiver = Receiver::start(std::iter::repeat_n(says, 1_000)).await;
    let url = receiver.url("/hook/path-of-the-acme?key=token-of-acme");
    let url = url.replace("://", "://acme:pass-word@");
    let id = world.enqueue(url).await;
    let delivery = world.wait_for_failure(id).await;
    assert_eq!(delivery.last_status, Some(403));
    let error = delivery.last_error.clone().unwrap();
    assert!(error.starts_with("the receiver responded 403 Forbidden: no such token: …"), "{error}");
    assert!(error.chars().count() <= 500, "{}", error.len());
    let id = id.to_string();
    let mut shown = vec![error, delivery.shown_url(), serde_json::to_string(&delivery).unwrap()];
    for command in [&["list"][..], &["list", "--json"], &["show", &id], &["show", &id, "--json"]] {
        let command = [&["deliveries"], command].concat();
        shown.push(world.installation.printed(&command).await.join("\n"));
    }
    for shown in shown {
        for secret in ["pass-word", "token-of-acme", "path-of-the-acme"] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }
    assert_eq!(delivery.shown_url(), receiver.url(""));
    // The receiver itself is given the credentials of its address.
    assert!(receiver.received()[0].header("authorization").starts_with("Basic "));
    world.close().await;
}

async fn it_is_given_up_when_its_time_is_up_and_can_be_resent(store: TestStore) {
    let world = World::open(store).await;
    let receiver = Receiver::start([ScriptedResponse::Status(503)]).await;
    let id = world.enqueue(receiver.url("/hook")).await;
    world.wait_for(id, State::Delivered).await;

    // It comes out only once the whole day is over.
    receiver.script(std::iter::repeat_n(ScriptedResponse::Status(503), 100_000));
    let id = world.enqueue(receiver.url("/hook")).await;
    let delivery = world.wait_for_failure(id).await;
    assert_eq!(delivery.state, State::Pending);
    assert_eq!(delivery.retry_until - delivery.created_at, 24 * HOUR_MS);
    world.app().clock.set(from_ms(delivery.retry_until + 1));
    let delivery = world.wait_for(id, State::GivenUp).await;
    assert_eq!((delivery.last_status, delivery.next_at), (Some(503), None));
    assert!(delivery.attempts >= 2);
    assert!(take(world.app()).await.is_empty());
    let json = serde_json::to_value(&delivery).unwrap();
    assert_eq!(json["created_at"], from_ms(delivery.created_at).to_string());
    assert_eq!(json["next_at"], serde_json::Value::Null);
    let unknown = deliveries::resend(world.app(), Uuid::new_v4()).await;
    assert!(matches!(unknown, Err(DeliveryError::Unknown(_))));

    // Sent again it is the same message with a day of its own.
    receiver.clear_script();
    deliveries::resend(world.app(), id).await.unwrap();
    let delivery = world.wait_for(id, State::Delivered).await;
    assert!(delivery.retry_until > delivery.created_at + 24 * HOUR_MS);
    let message = format!("msg_{}", id.simple());
    assert_eq!(receiver.received().last().unwrap().header("webhook-id"), message);

    // And once more, though it was delivered.
    let count = receiver.received().len();
    deliveries::resend(world.app(), id).await.unwrap();
    receiver.wait_for(count + 1).await;
    world.wait_for(id, State::Delivered).await;
    world.close().await;
}

async fn redirects_are_not_followed(store: TestStore) {
    let world = World::open(store).await;
    let target = Receiver::start([]).await;
    let receiver = Receiver::start([ScriptedResponse::Redirect(target.url("/elsewhere"))]).await;
    let id = world.enqueue(receiver.url("/hook")).await;
    world.wait_for(id, State::Delivered).await;
    assert_eq!(receiver.received().len(), 2);
    assert!(target.received().is_empty());
    world.close().await;
}

async fn private_addresses_are_not_called(store: TestStore) {
    let world = World::open_with(store, |config| {
        settings(config);
        config.allow_private.clear();
    })
    .await;
    let receiver = Receiver::start([]).await;
    let mut ids = Vec::new();
    for host in ["127.0.0.1", "localhost", "0x7f.1", "[::ffff:127.0.0.1]"] {
        ids.push(world.enqueue(receiver.url_at(host, "/hook")).await);
    }
    for id in ids {
        let delivery = world.wait_for_failure(id).await;
        assert_eq!((delivery.state, delivery.last_status), (State::Pending, None));
        let error = delivery.last_error.unwrap();
        assert!(error.contains("a loopback address"), "{error}");
    }
    assert!(receiver.received().is_empty());
    world.close().await;
}

async fn names_may_resolve_to_an_allowed_network(store: TestStore) {
    let world = World::open(store).await;
    let receiver = Receiver::start([]).await;
    let id = world.enqueue(receiver.url_at("localhost", "/hook")).await;
    world.wait_for(id, State::Delivered).await;
    world.close().await;
}

async fn a_slow_receiver_holds_up_no_other(store: TestStore) {
    let world = World::open(store).await;
    let slow = Receiver::start(std::iter::repeat_n(ScriptedResponse::Hang, 10_000)).await;
    let quick = Receiver::start([]).await;
    for _ in 0..20 {
        world.enqueue(slow.url("/hook")).await;
    }
    slow.wait_for(world.app().config.deliveries.per_receiver as usize - 1).await;
    let ids = [world.enqueue(quick.url("/hook")).await, world.enqueue(quick.url("/hook")).await];
    for id in ids {
        world.wait_for(id, State::Delivered).await;
    }
    let mut tx = world.app().store.snapshot().await.unwrap();
    let filter = Filter {
        state: Some(State::Delivered),
        workspace: None,
        subject: None,
        after: None,
        limit: 100,
    };
    assert_eq!(deliveries::list(&mut tx, &filter).await.unwrap().len(), 2);
    let filter = Filter {
        state: None,
        workspace: Some("acme".into()),
        subject: None,
        after: None,
        limit: 5,
    };
    assert_eq!(deliveries::list(&mut tx, &filter).await.unwrap().len(), 5);
    let filter = Filter {
        state: None,
        workspace: Some("other".into()),
        subject: None,
        after: None,
        limit: 5,
    };
    assert!(deliveries::list(&mut tx, &filter).await.unwrap().is_empty());
    tx.commit().await.unwrap();
    world.close().await;
}

/// One receiver of two workspaces hangs for all callbacks of one of them.
async fn a_workspace_does_not_delay_the_callbacks_of_another_to_one_receiver(store: TestStore) {
    let world = World::open_with(store, |config| {
        settings(config);
        config.deliveries.timeout_seconds = 600;
    })
    .await;
    let per_receiver = world.app().config.deliveries.per_receiver as usize;
    let other = world.add_workspace("other").await;
    let receiver =
        Receiver::start(std::iter::repeat_n(ScriptedResponse::Hang, per_receiver - 1)).await;
    for _ in 0..24 {
        world.enqueue(receiver.url("/slow")).await;
    }
    receiver.wait_for(per_receiver - 1).await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(world.enqueue_of(other, receiver.url("/quick")).await);
    }
    for id in ids {
        world.wait_for(id, State::Delivered).await;
    }
    let uris: Vec<String> =
        receiver.received().iter().map(|request| request.uri.to_string()).collect();
    let slow = uris.iter().filter(|uri| *uri == "/slow").count();
    assert_eq!((slow, uris.len()), (per_receiver - 1, per_receiver - 1 + 5), "{uris:?}");
    world.close().await;
}

async fn a_body_that_never_ends_is_not_waited_for(store: TestStore) {
    let world = World::open_with(store, |config| {
        settings(config);
        config.deliveries.timeout_seconds = 600;
    })
    .await;
    let fails = std::iter::repeat_n(ScriptedResponse::Endless(500), 1_000);
    let receiver = Receiver::start(fails).await;
    let id = world.enqueue(receiver.url("/hook")).await;
    let error = world.wait_for_failure(id).await.last_error.unwrap();
    assert!(error.ends_with("500 Internal Server Error: the beginning"), "{error}");
    receiver.clear_script();
    receiver.script(std::iter::repeat_n(ScriptedResponse::Endless(200), 1_000));
    assert_eq!(world.wait_for(id, State::Delivered).await.last_status, Some(200));
    world.close().await;
}

async fn unreachable_receivers_are_reported(store: TestStore) {
    let world = World::open(store).await;
    let address = format!("127.0.0.1:{}", process::free_port());
    let id = world.enqueue(format!("http://{address}/hook?key=token-of-acme")).await;
    let error = world.wait_for_failure(id).await.last_error.unwrap();
    assert!(error.contains("refused"), "{error}");
    assert!(!error.contains("token-of-acme"), "{error}");
    let id = world.enqueue("http://no-such-host.invalid/hook".into()).await;
    let delivery = world.wait_for_failure(id).await;
    assert_eq!((delivery.state, delivery.last_status), (State::Pending, None));
    world.close().await;
}

async fn late_workers_are_ignored_and_stopped_ones_release_claims(store: TestStore) {
    let installation = Installation::open(store, WORKSPACE, settings).await;
    let app = &installation.app;
    let receiver = Receiver::start([]).await;
    let id = enqueue(&installation, receiver.url("/hook")).await;

    // Stopped before it began, it leaves the delivery to another at once.
    let [claim] = take(app).await.try_into().unwrap();
    let stopped = CancellationToken::new();
    stopped.cancel();
    deliveries::run(app, &app.messages, &claim, &stopped).await.unwrap();
    let delivery = find(app, id).await;
    assert_eq!((delivery.state, delivery.attempts), (State::Pending, 0));
    let [next] = take(app).await.try_into().unwrap();
    assert!(next.attempt > claim.attempt);

    // The first one comes too late.
    tokio::time::sleep(claims::GUARD_AGE).await;
    let late = deliveries::run(app, &app.messages, &claim, &CancellationToken::new()).await;
    assert!(matches!(late, Err(DeliveryError::Claim(ClaimError::Lost))), "{late:?}");
    assert!(receiver.received().is_empty(), "it asks before it sends");
    assert_eq!(find(app, id).await.state, State::Pending);
    deliveries::run(app, &app.messages, &next, &CancellationToken::new()).await.unwrap();
    assert_eq!(find(app, id).await.state, State::Delivered);

    // What cannot be tried at all comes again, and is given up with its reason in the end.
    let id = enqueue(&installation, receiver.url("/hook")).await;
    let [claim] = take(app).await.try_into().unwrap();
    let reason = "every attempt ended its worker";
    deliveries::give_up_after_deadline(app, &claim, reason, Duration::ZERO).await.unwrap();
    assert_eq!(find(app, id).await.state, State::Pending);
    let [claim] = take(app).await.try_into().unwrap();
    app.clock.set(from_ms(find(app, id).await.retry_until));
    deliveries::give_up_after_deadline(app, &claim, reason, Duration::ZERO).await.unwrap();
    let delivery = find(app, id).await;
    assert_eq!(delivery.state, State::GivenUp);
    assert_eq!(delivery.last_error.as_deref(), Some("every attempt ended its worker"));
    assert!(take(app).await.is_empty());
}

on_sqlite!(
    it_is_delivered_once_and_signed,
    failures_are_tried_again_under_the_same_id,
    receivers_can_ask_for_a_longer_pause,
    delivery_errors_are_short_and_hide_secrets,
    it_is_given_up_when_its_time_is_up_and_can_be_resent,
    redirects_are_not_followed,
    private_addresses_are_not_called,
    names_may_resolve_to_an_allowed_network,
    a_slow_receiver_holds_up_no_other,
    a_workspace_does_not_delay_the_callbacks_of_another_to_one_receiver,
    a_body_that_never_ends_is_not_waited_for,
    unreachable_receivers_are_reported,
    late_workers_are_ignored_and_stopped_ones_release_claims,
);

// What the database has a part in.
on_postgres!(
    it_is_delivered_once_and_signed,
    failures_are_tried_again_under_the_same_id,
    receivers_can_ask_for_a_longer_pause,
    delivery_errors_are_short_and_hide_secrets,
    it_is_given_up_when_its_time_is_up_and_can_be_resent,
    a_slow_receiver_holds_up_no_other,
    a_workspace_does_not_delay_the_callbacks_of_another_to_one_receiver,
    late_workers_are_ignored_and_stopped_ones_release_claims,
);

/// Customers see one error whether an internal name exists or not; operators see where it leads.
#[tokio::test]
async fn errors_do_not_show_customers_what_a_name_resolves_to() {
    use runtime::outbound::{Request, RequestError, ResponseBody, Sender};
    crate::support::servers::install_tls();
    let clock = kit::clock::Clock::system();
    let error_of = async |sender: Sender, host: &str| {
        let url = format!("http://{host}:9/").parse().unwrap();
        let (method, headers) = (reqwest::Method::GET, Default::default());
        let (body, response) = (String::new(), ResponseBody::ErrorText);
        let request = Request { method, url, headers, body, timeout: None, response };
        sender.request(request, &clock).await.unwrap_err()
    };
    let sender = Sender::new(&Config::default());
    let internal = error_of(sender.clone(), "localhost").await;
    // The kind of the error decides whether a message is retried.
    let not_sent = |text: &str| RequestError::NotSent(text.to_owned());
    assert_eq!(internal, not_sent("the host name has no address that is allowed"));
    assert_eq!(error_of(sender.clone(), "missing.invalid").await, internal);
    let shown = error_of(sender.showing_addresses(), "localhost").await.into_text();
    assert!(shown.contains("a loopback address"), "{shown}");
}
