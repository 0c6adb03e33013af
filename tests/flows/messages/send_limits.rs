//! What calls of `/messages/send` count against, which their bodies decide; on SQLite and on
//! PostgreSQL.

use axum::body::Body;
use axum::http::{HeaderMap, Request, header};
use longshore::gateway;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::send_api::{KEY, NOW, SEGMENT, SEND, body, file, tier};
use crate::support::installation::Installation;
use crate::support::stores::{TestStore, on_both_stores};

on_both_stores!(World =>
    named_users_and_whole_segments_have_budgets_of_their_own,
    requests_with_a_key_count_despite_errors,
    requests_over_every_limit_are_rejected_before_the_body,
);

const MAY_NOT: &str = "key-that-may-do-something-else";

struct World {
    installation: Installation,
}

struct Answer {
    status: u16,
    headers: HeaderMap,
    body: Value,
}

impl World {
    /// With windows of a day, which no test lives to see the end of.
    async fn new(store: TestStore) -> Self {
        let limit = |requests: u32| json!({ "requests": requests, "seconds": 86_400 });
        let file = file();
        let acme = file.split("\n---\n").next().unwrap();
        let mut acme: Value = serde_json::from_str(acme).unwrap();
        acme["rate_limits"] =
            json!({ "messages.send": limit(5), "messages.send.audience": limit(2) });
        let other_key = json!({ "name": "o", "secret": MAY_NOT, "permissions": ["users.track"] });
        acme["keys"].as_array_mut().unwrap().push(other_key);
        let installation = Installation::open(store, &acme.to_string(), |_| {}).await;
        installation.app.clock.set(jiff::Timestamp::from_millisecond(NOW).unwrap());
        Self { installation }
    }

    async fn call(
        &self,
        key: &str,
        kind: &str,
        body: impl Into<Body>,
        once: Option<&str>,
    ) -> Answer {
        let mut request = Request::post(SEND)
            .header(header::AUTHORIZATION, format!("Bearer {key}"))
            .header(header::CONTENT_TYPE, kind);
        if let Some(once) = once {
            request = request.header("idempotency-key", once);
        }
        let router = gateway::router(
            self.installation.app.gateway.clone(),
            longshore::routes(Some(&self.installation.app)),
        );
        let answer = router.oneshot(request.body(body.into()).unwrap()).await.unwrap();
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let bytes = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        Answer { status, headers, body: serde_json::from_slice(&bytes).unwrap() }
    }

    async fn send(&self, body: &Value) -> Answer {
        self.call(KEY, "application/json", body.to_string(), None).await
    }
}

impl Answer {
    /// The status, and how the budget stands: its limit, and what is left.
    #[track_caller]
    fn rate_limit(&self) -> (u16, i64, i64) {
        let number = |name: &str| self.headers[name].to_str().unwrap().parse::<i64>().unwrap();
        assert!(number("x-ratelimit-reset") > 0);
        assert_eq!(self.headers.contains_key("retry-after"), self.status == 429);
        (self.status, number("x-ratelimit-limit"), number("x-ratelimit-remaining"))
    }
}

async fn named_users_and_whole_segments_have_budgets_of_their_own(world: World) {
    let broadcast = |members: Value| {
        let mut broadcast = body(members);
        (broadcast["external_user_ids"], broadcast["broadcast"]) = (json!([]), json!(true));
        broadcast
    };
    let within = body(json!({ "segment_id": SEGMENT, "audience": tier() }));
    assert_eq!(world.send(&within).await.rate_limit(), (201, 5, 4));
    assert_eq!(
        world.send(&broadcast(json!({ "segment_id": SEGMENT }))).await.rate_limit(),
        (201, 2, 1)
    );
    assert_eq!(
        world.send(&broadcast(json!({ "audience": tier() }))).await.rate_limit(),
        (201, 2, 0)
    );
    let refused = world.send(&broadcast(json!({ "audience": tier() }))).await;
    assert_eq!(refused.rate_limit(), (429, 2, 0));
    assert_eq!(refused.body["message"], "The rate limit is exceeded, please retry later");
    // The rate comes before the members.
    let wrong = world.send(&broadcast(json!({ "audience": 5 }))).await;
    assert_eq!(wrong.rate_limit(), (429, 2, 0));
    assert_eq!(world.send(&body(json!({}))).await.rate_limit(), (201, 5, 3));
}

async fn requests_with_a_key_count_despite_errors(world: World) {
    let right = body(json!({})).to_string();
    let large = "x".repeat(world.installation.app.config.gateway.max_body_bytes + 1);
    let json = "application/json";
    // The key of another permission; what cannot be read; what is wrong; a wrong key of a repeat.
    let may_not = world.call(MAY_NOT, json, right.clone(), None).await;
    assert_eq!(may_not.rate_limit(), (403, 5, 4));
    assert_eq!(may_not.body["message"], "You do not have permission to access this resource");
    assert_eq!(world.call(KEY, json, large.clone(), None).await.rate_limit(), (413, 5, 3));
    assert_eq!(world.call(KEY, "text/plain", right.clone(), None).await.rate_limit(), (415, 5, 2));
    assert_eq!(world.call(KEY, json, "{", None).await.rate_limit(), (400, 5, 1));
    assert_eq!(world.call(KEY, json, right.clone(), Some("")).await.rate_limit(), (400, 5, 0));
    for text in [right, large, "{".into()] {
        assert_eq!(world.call(KEY, json, text, None).await.rate_limit(), (429, 5, 0));
    }
    let nobody = world.call("nobody's", json, "{}", None).await;
    assert_eq!(nobody.status, 401);
    assert!(!nobody.headers.contains_key("x-ratelimit-limit"));
}

async fn requests_over_every_limit_are_rejected_before_the_body(world: World) {
    let mut broadcast = body(json!({ "segment_id": SEGMENT }));
    (broadcast["external_user_ids"], broadcast["broadcast"]) = (json!([]), json!(true));
    for left in (0..5).rev() {
        assert_eq!(world.send(&body(json!({}))).await.rate_limit(), (201, 5, left));
    }
    for left in (0..2).rev() {
        assert_eq!(world.send(&broadcast).await.rate_limit(), (201, 2, left));
    }
    // A body that is never there.
    let never = futures::stream::pending::<Result<Vec<u8>, std::io::Error>>();
    let json = "application/json";
    let refused = world.call(KEY, json, Body::from_stream(never), None).await;
    assert_eq!(refused.rate_limit(), (429, 7, 0));
}
