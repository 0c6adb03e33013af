//! `POST /messages/live_activity/start`: what is taken and becomes an order, and what is refused
//! in this call's own words, on SQLite and on PostgreSQL; what the push provider is given.

use axum::body::Body;
use axum::http::{Request, header};
use jiff::Timestamp;
use kit::json::ObjectText;
use log::Message;
use longshore::gateway;
use longshore::messages::order::{Kind, Order, Who};
use serde_json::{Value, json};
use tower::ServiceExt as _;
use uuid::Uuid;

use crate::support::fleet::{Backend, Fleet};
use crate::support::installation::Installation;
use crate::support::local_api::LocalApi;
use crate::support::order_log::read_orders;
use crate::support::receiver::Receiver;
use crate::support::stores::{TestStore, on_both_stores};
use crate::support::{WorkspaceFile, callbacks, eventually, open_work};

on_both_stores!(World =>
    activity_starts_become_orders,
    an_activity_is_limited_by_its_bytes,
    invalid_activity_starts_are_rejected,
    activity_starts_with_a_key_are_idempotent,
);

const KEY: &str = "key-that-may-start-live-activities";
const MAY_NOT: &str = "key-that-may-do-something-else";
const WITHOUT_PUSH: &str = "key-of-who-has-no-push-provider";
const START: &str = "/messages/live_activity/start";
const APP: &str = "7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33";
const ANDROID: &str = "7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c34";
const APP_OF_OTHERS: &str = "7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c35";
const SEGMENT: &str = "5f0e6b1a-9c3d-4e7f-8a2b-1c0d9e8f7a6b";
const SEGMENT_OF_OTHERS: &str = "5f0e6b1a-9c3d-4e7f-8a2b-1c0d9e8f7a6c";

/// Noon, and a bit.
const NOW: i64 = 1_795_262_400_750;

struct World {
    installation: Installation,
    api: LocalApi,
}

fn file() -> String {
    let key = |secret: &str, permission: &str| json!({ "name": secret, "secret": secret, "permissions": [permission] });
    let start = "messages.live_activity.start";
    let app = |id: &str, platform: &str| {
        let types = ["Delivery", "Game"];
        json!({ "id": id, "name": "App", "platform": platform, "activity_types": types })
    };
    let segment = |id: &str| {
        let audience = json!({ "custom_attribute": {
            "custom_attribute_name": "tier", "comparison": "exists",
        } });
        json!([{ "id": id, "name": "VIP", "audience": audience }])
    };
    let acme = json!({
        "workspace": "acme", "keys": [key(KEY, start), key(MAY_NOT, "users.track")],
        "apps": [app(APP, "ios"), app(ANDROID, "android")],
        "segments": segment(SEGMENT),
        "providers": { "push": {
            "url": "https://push.acme.example/", "secret": "a-secret-of-more-than-24-bytes-plain",
        } },
    });
    let other = json!({
        "workspace": "other", "keys": [key(WITHOUT_PUSH, start)],
        "apps": [app(APP_OF_OTHERS, "ios")],
        "segments": segment(SEGMENT_OF_OTHERS),
    });
    format!("{acme}\n---\n{other}\n")
}

/// A body with these members over those that are right.
fn body(members: Value) -> Value {
    let mut body = json!({
        "app_id": APP,
        "activity_id": "order-7",
        "activity_attributes_type": "Delivery",
        "activity_attributes": { "order": 7 },
        "content_state": { "eta": "12:15" },
        "notification": { "alert": { "title": "On its way", "body": "There at 12:15" } },
        "external_user_ids": ["ann"],
    });
    for (name, value) in members.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

/// The same for no users who are named.
fn to(name: &str, value: Value) -> Value {
    body(json!({ "external_user_ids": null, name: value }))
}

impl World {
    async fn new(store: TestStore) -> Self {
        let installation = Installation::open(store, &file(), |_| {}).await;
        installation.app.clock.set(Timestamp::from_millisecond(NOW).unwrap());
        Self { api: LocalApi::new(&installation.app, KEY), installation }
    }

    async fn start(&self, body: &Value) {
        let answered = self.api.post(START, body).await;
        let mut expected = json!({ "message": "success" });
        if body.get("unknown").is_some() {
            expected["warnings"] =
                json!([{ "field": "unknown", "code": "unknown-field", "count": 1 }]);
        }
        assert_eq!(answered, (201, expected), "{body}");
    }

    async fn orders(&self) -> Vec<(Message, Order)> {
        read_orders(&self.installation.app).await
    }
}

async fn activity_starts_become_orders(world: World) {
    let tier = json!({ "OR": [{ "custom_attribute": {
        "custom_attribute_name": "tier", "comparison": "equals", "value": "gold",
    } }] });
    world
        .start(&body(json!({
            "stale_date": "2026-11-21T13:00:00+01:00",
            "dismissal_date": "2020-01-01",
            "segment_id": null,
            "unknown": { "a": 1 },
        })))
        .await;
    let later =
        |ms| world.installation.app.clock.set(Timestamp::from_millisecond(NOW + ms).unwrap());
    later(60_000);
    world.start(&to("custom_audience", tier.clone())).await;
    later(120_000);
    world.start(&to("segment_id", SEGMENT.into())).await;
    let orders = world.orders().await;
    let [(_, named), (_, audience), (_, segment)] = orders.as_slice() else { panic!("{orders:?}") };
    assert_eq!(
        (named.kind, named.workspace_id),
        (Kind::LiveActivity, world.installation.workspace)
    );
    assert_eq!(named.target.users[0].who, Who::ExternalId("ann".into()));
    let seconds = NOW / 1_000;
    // The clock continues from what it was set to.
    let accepted = named.messages["live_activity"]["aps"]["timestamp"].as_i64().expect("a number");
    assert!((seconds..seconds + 60).contains(&accepted), "{accepted} is not about {seconds}");
    let message = json!({ "live_activity": {
        "app_id": APP,
        "activity_id": "order-7",
        "activity_attributes_type": "Delivery",
        "aps": {
            "timestamp": accepted,
            "event": "start",
            "content-state": { "eta": "12:15" },
            "attributes-type": "Delivery",
            "attributes": { "order": 7 },
            "alert": { "title": "On its way", "body": "There at 12:15" },
            "stale-date": seconds,
            "dismissal-date": 1_577_836_800,
        },
    } });
    assert_eq!(Value::from(named.messages.clone()), message);
    assert_eq!(audience.target.audience, tier.as_object().map(ObjectText::from));
    assert_eq!(segment.target.segment_id, SEGMENT.parse().ok());
    assert!(segment.target.users.is_empty() && segment.target.audience.is_none());
    assert_ne!(audience.dispatch_id, segment.dispatch_id);
}

async fn an_activity_is_limited_by_its_bytes(world: World) {
    let many = json!({ "n": vec![1; 25_000] });
    world.start(&body(json!({ "content_state": many }))).await;
    let orders = world.orders().await;
    let [(_, order)] = orders.as_slice() else { panic!("{} orders", orders.len()) };
    assert!(order.messages["live_activity"]["aps"]["content-state"] == many);
}

async fn invalid_activity_starts_are_rejected(world: World) {
    let leaf = json!({ "last_used_app": { "comparison": "after", "value": "2026-01-01" } });
    for (wrong, part) in [
        (body(json!({ "app_id": ANDROID })), "app_id does not match an iOS app"),
        (body(json!({ "app_id": Uuid::new_v4() })), "app_id does not match an iOS app"),
        (body(json!({ "activity_attributes_type": "Match" })), "activity_attributes_type is not"),
        (body(json!({ "activity_id": null })), "activity_id is required"),
        (body(json!({ "activity_attributes": null })), "activity_attributes is required"),
        (body(json!({ "content_state": null })), "content_state is required"),
        (body(json!({ "notification": null })), "notification is required"),
        (body(json!({ "notification": { "alert": null } })), "notification.alert is required"),
        (body(json!({ "notification": { "alert": {} } })), "notification.alert is required"),
        (
            body(json!({ "notification": { "alert": { "title": null, "body": null } } })),
            "notification.alert is required",
        ),
        (body(json!({ "audience": leaf })), "audience is not supported by this request"),
        (body(json!({ "dry_run": true })), "dry_run is not supported by this request"),
        (body(json!({ "notification": {} })), "notification.alert is required"),
        (body(json!({ "stale_date": "soon" })), "stale_date: expected a date and time in ISO 8601"),
        (body(json!({ "custom_audience": leaf })), "exactly one of external_user_ids, "),
        (body(json!({ "segment_id": SEGMENT })), "exactly one of external_user_ids, "),
        (body(json!({ "external_user_ids": null })), "exactly one of external_user_ids, "),
        (body(json!({ "external_user_ids": vec!["a"; 51] })), "must have 1 to 50 elements"),
        (to("custom_audience", json!({ "AND": [leaf, {}] })), "custom_audience.AND[1]: "),
        (to("segment_id", json!(Uuid::new_v4())), "segment_id does not match"),
        (to("segment_id", SEGMENT_OF_OTHERS.into()), "segment_id does not match"),
        (json!([]), "The request body must be a JSON object"),
    ] {
        check_refused(&world.api.post(START, &wrong).await, part);
    }
    let without = world.api.with_key(WITHOUT_PUSH);
    let of_others = body(json!({ "app_id": APP_OF_OTHERS }));
    check_refused(&world.api.post(START, &of_others).await, "app_id does not match an iOS app");
    check_refused(&without.post(START, &of_others).await, "no providers.push");
    let no_key = world.api.post_once(START, "", &body(json!({}))).await;
    check_refused(&no_key, "Idempotency-Key must be");
    // All else is said as everywhere.
    let text = world.api.with_key(MAY_NOT).refusal(START, &body(json!({})), 403).await;
    assert_eq!(text, "You do not have permission to access this resource");
    for (kind, text, status, member) in [
        ("application/json", "{\"app_id\":", 400, "error"),
        ("application/json", "\u{feff}{}", 400, "error"),
        ("text/plain", "{}", 415, "message"),
    ] {
        let request = Request::post(START)
            .header(header::AUTHORIZATION, format!("Bearer {KEY}"))
            .header(header::CONTENT_TYPE, kind);
        let router = gateway::router(
            world.installation.app.gateway.clone(),
            longshore::routes(Some(&world.installation.app)),
        );
        let answer = router.oneshot(request.body(Body::from(text)).unwrap()).await.unwrap();
        assert_eq!(answer.status(), status, "{kind} {text}");
        let headers = answer.headers().clone();
        assert!(headers.contains_key("x-ratelimit-remaining"), "{headers:?}");
        assert!(headers.contains_key("x-request-id"), "{headers:?}");
        assert_eq!(headers["content-type"], "application/json");
        let bytes = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        let body: Value = serde_json::from_slice(&bytes).unwrap();
        assert!(body[member].is_string(), "{body}");
        assert!(body["code"].is_string(), "{body}");
        assert_eq!(body.as_object().map(|members| members.len()), Some(2), "{body}");
    }
    assert!(world.orders().await.is_empty());
}

/// It is a 400 whose body is `error` and nothing else.
fn check_refused((status, body): &(u16, Value), part: &str) {
    assert_eq!(*status, 400, "{body}");
    let members = body.as_object().unwrap_or_else(|| panic!("{body}"));
    let text = members["error"].as_str().unwrap_or_else(|| panic!("{body}"));
    assert!(text.contains(part) && members.len() == 2, "{part}: {body}");
    assert!(members["code"].is_string(), "{body}");
}

async fn activity_starts_with_a_key_are_idempotent(world: World) {
    let first = body(json!({}));
    let answers = [
        world.api.post_once(START, "a", &first).await,
        world.api.post_once(START, "a", &first).await,
    ];
    assert_eq!(
        answers,
        [(201, json!({ "message": "success" })), (201, json!({ "message": "success" }))]
    );
    let (status, other) =
        world.api.post_once(START, "a", &body(json!({ "activity_id": "order-8" }))).await;
    assert_eq!(status, 422, "{other}");
    assert!(other["message"].is_string() && other.get("error").is_none(), "{other}");
    let orders = world.orders().await;
    assert_eq!(orders.len(), 1);
    assert_eq!(orders[0].0.key.len(), 16, "its id");
    // What was taken continues to be, although the segment it was for is no more.
    let to_segment = to("segment_id", SEGMENT.into());
    assert_eq!(world.api.post_once(START, "b", &to_segment).await.0, 201);
    let without: String = file().replace(SEGMENT, &Uuid::new_v4().to_string());
    world.installation.apply(&without, true).await;
    // What is declared is kept for some seconds.
    eventually("the segment is forgotten", || async {
        world.api.post(START, &to_segment).await.0 == 400
    })
    .await;
    check_refused(&world.api.post(START, &to_segment).await, "segment_id does not match");
    let orders = world.orders().await.len();
    assert_eq!(world.api.post_once(START, "b", &to_segment).await.0, 201);
    assert_eq!(world.orders().await.len(), orders);
}

/// All the way: on the devices that can start it, of subscribed users in the audience.
#[tokio::test(flavor = "multi_thread")]
async fn activity_starts_reach_the_push_provider() {
    const SECRET: &str = "a-secret-of-more-than-24-bytes-plain";
    let receiver = Receiver::start([]).await;
    let fleet = Fleet::start(Backend::Embedded, &[]).await;
    let everybody = json!({ "custom_attribute": {
        "custom_attribute_name": "tier", "comparison": "does_not_equal", "value": true,
    } });
    let file = WorkspaceFile::new("acme")
        .permitted(&["messages.live_activity.start"])
        .with("segments", json!([{ "id": SEGMENT, "name": "All", "audience": everybody }]))
        .with(
            "apps",
            json!([{ "id": APP, "name": "iOS", "platform": "ios", "activity_types": ["Delivery"] }]),
        )
        .with(
            "providers",
            json!({ "push": { "url": receiver.url("/push"), "secret": SECRET } }),
        )
        // They are not looked at.
        .with("frequency_capping", json!([{ "messages": 1, "days": 7 }]));
    let api = fleet.apply(&[file]).await.remove(0);
    let token = |kind: &str, token: &str, app: &str| json!({ "app_id": app, "token": token, "device_id": "d", "kind": kind });
    let (start, alert) = ("live_activity", "alert");
    let users = [
        json!({ "external_id": "ann", "first_name": "Ann", "push_tokens": [
            token(start, "a1", APP), token(start, "a2", APP), token(alert, "a3", APP),
            token(start, "a4", ANDROID),
        ] }),
        json!({ "external_id": "ben", "push_tokens": [token(alert, "b1", APP)] }),
        json!({ "external_id": "eve", "push_subscribe": "unsubscribed",
                "push_tokens": [token(start, "e1", APP)] }),
    ];
    fleet.import("acme", &users.map(|user| user.to_string())).await;
    let alert = json!({ "title": "For {{${first_name}}}", "body": { "loc-key": "ON_ITS_WAY" } });
    let mut body = to("segment_id", SEGMENT.into());
    body["notification"] = json!({ "alert": alert });
    body["content_state"] = json!({ "text": "{{${first_name}}} is data here" });
    for times in 1..=2 {
        let answer = api.post(START, &body).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        receiver.wait_for(times).await;
    }
    open_work::wait_until_done(&fleet).await;
    let received = receiver.received();
    let [first, second] = received.as_slice() else { panic!("{received:?}") };
    assert_ne!(first.header("webhook-id"), second.header("webhook-id"));
    let message = callbacks::verified(first, SECRET.as_bytes());
    assert_eq!(message["id"], first.header("webhook-id"));
    assert_eq!(message["channel"], "live_activity");
    assert_eq!(message["user"]["external_id"], "ann");
    let device = |token: &str| json!({ "app_id": APP, "token": token, "device_id": "d" });
    assert_eq!(message["to"]["tokens"], json!([device("a1"), device("a2")]));
    let message = &message["message"];
    assert_eq!(message["activity_id"], "order-7");
    assert_eq!(message["activity_attributes_type"], "Delivery");
    assert_eq!(message["aps"]["event"], "start");
    assert_eq!(
        message["aps"]["alert"],
        json!({ "title": "For Ann", "body": { "loc-key": "ON_ITS_WAY" } })
    );
    assert_eq!(message["aps"]["content-state"], body["content_state"]);
    fleet.close().await;
}
