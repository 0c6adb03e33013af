//! Rate limits: one count for all gateways, on SQLite and on PostgreSQL.

use std::time::Instant;

use futures::StreamExt as _;
use jiff::Timestamp;
use longshore::workspace_file::{apply, file};
use longshore::workspaces::Budget;
use reqwest::header::HeaderMap;
use secrecy::ExposeSecret as _;
use store::Store;

use super::*;
use crate::support::WorkspaceFile;
use crate::support::api::{Api, ApiResponse};
use crate::support::fleet::{Backend, Fleet};
use crate::support::process::free_port;
use crate::support::proxy::{Proxy, ProxyMode};

/// A workspace with limits of its own; windows of a day, which no test lives to see the end of.
fn limited(requests: u32, seconds: u32) -> String {
    let acme = WORKSPACE.split("---").next().unwrap();
    format!("{acme}rate_limits:\n  users.track: {{requests: {requests}, seconds: {seconds}}}\n")
}

const DAY: u32 = 86_400;

/// Makes the thing that the tests make.
fn thing(gateway: &Gateway, path: &str, key: &str) -> RequestBuilder {
    gateway.call(Method::POST, path).bearer_auth(key).json(&json!({ "name": "n" }))
}

/// What a response says of the budget: limit, remaining, reset.
#[track_caller]
fn rate_limit(headers: &HeaderMap) -> (i64, i64, i64) {
    let number = |name: &str| headers[name].to_str().unwrap().parse().unwrap();
    (number("x-ratelimit-limit"), number("x-ratelimit-remaining"), number("x-ratelimit-reset"))
}

async fn four_gateways_share_the_limit(store: TestStore) {
    const REQUESTS: u32 = 1_000;
    let world = World::with(store, &limited(REQUESTS, DAY), |_| {}).await;
    let others = [world.another(|_| {}).await, world.another(|_| {}).await];
    let last = world.another(|_| {}).await;
    // Four times the budget, the most of it at one gateway; the last comes in early and then
    // no more.
    let gateway = |number: u32| match number % 100 {
        0..1 if number < 200 => &last,
        0..50 => &world.gateway,
        50..80 => &others[0],
        _ => &others[1],
    };
    let sent = (0..4 * REQUESTS).map(|number| thing(gateway(number), "/things", KEY).send());
    let answers: Vec<Response> =
        futures::stream::iter(sent).buffered(32).map(Result::unwrap).collect().await;
    let mut accepted = 0;
    for answer in &answers {
        let (limit, remaining, _) = rate_limit(answer.headers());
        assert_eq!(limit, i64::from(REQUESTS));
        match answer.status().as_u16() {
            201 => accepted += 1,
            status => {
                assert_eq!((status, remaining), (429, 0));
                assert!(answer.headers().contains_key("retry-after"));
            }
        }
    }
    assert!((REQUESTS - REQUESTS / 100..=REQUESTS).contains(&accepted), "{accepted}");
    for gateway in others.into_iter().chain([last]) {
        gateway.close().await;
    }
    world.close().await;
}

async fn every_request_with_a_key_counts(store: TestStore) {
    let metrics = telemetry::metrics::recorder::install().unwrap();
    let world = World::with(store, &limited(4, DAY), |_| {}).await;
    let other = world.another(|_| {}).await;
    let large = || "x".repeat(LIMIT + 1);
    let raw = |gateway: &Gateway, key: &str, body: String| {
        gateway.call(Method::POST, "/things").bearer_auth(key).body(body).send()
    };
    let cases = [
        (raw(&world, "nobody's", large()).await.unwrap(), 401, None),
        (raw(&world, OTHER_KEY, large()).await.unwrap(), 403, Some(3)),
        (raw(&other, KEY, large()).await.unwrap(), 413, Some(2)),
        (raw(&world, KEY, "{}".into()).await.unwrap(), 415, Some(1)),
        (thing(&other, "/things", KEY).send().await.unwrap(), 201, Some(0)),
        // The permission comes before the rate, and the rate before the size.
        (raw(&world, OTHER_KEY, large()).await.unwrap(), 403, Some(0)),
        (raw(&world, KEY, large()).await.unwrap(), 429, Some(0)),
        (raw(&other, KEY, large()).await.unwrap(), 429, Some(0)),
    ];
    for (answer, status, remaining) in cases {
        assert_eq!(answer.status(), status);
        assert_eq!(answer.headers().contains_key("retry-after"), status == 429);
        match remaining {
            Some(remaining) => assert_eq!(rate_limit(answer.headers()).1, remaining, "{status}"),
            None => assert!(!answer.headers().contains_key("x-ratelimit-limit")),
        }
        if status == 429 {
            assert_eq!(message(answer).await, "The rate limit is exceeded, please retry later");
        }
    }
    // Calls that share the budget, and calls that do not.
    let slow = world.call(Method::POST, "/slow").bearer_auth(KEY).send().await.unwrap();
    assert_eq!(slow.status(), 429);
    let list = thing(&world, "/remote", OTHER_KEY).send().await.unwrap();
    assert_eq!((list.status().as_u16(), rate_limit(list.headers()).0), (201, 250_000));
    let unlimited = thing(&world, "/unlimited", KEY).send().await.unwrap();
    assert_eq!(unlimited.status(), 403, "the permission alone");
    assert!(!unlimited.headers().contains_key("x-ratelimit-limit"));
    let metrics = metrics.render();
    assert!(metrics.contains("longshore_rate_limit_refused_total{budget=\"users.track\"}"));
    other.close().await;
    world.close().await;
}

async fn refused_requests_leave_the_budget_to_others(store: TestStore) {
    const REQUESTS: u32 = 100;
    let file = format!(
        "{}  campaigns.list: {{requests: {REQUESTS}, seconds: {DAY}}}\n",
        limited(REQUESTS, DAY,)
    );
    let world = World::with(store, &file, |_| {}).await;
    world.installation.app.clock.set(Timestamp::now());
    // Without the permission, and from an address that is not allowed.
    for (path, key, allowed, left) in
        [("/things", OTHER_KEY, KEY, 89), ("/remote", REMOTE_KEY, OTHER_KEY, 99)]
    {
        let mut statuses = Vec::new();
        for _ in 0..2 * REQUESTS {
            statuses.push(thing(&world, path, key).send().await.unwrap().status().as_u16());
        }
        let count = |status| statuses.iter().filter(|seen| **seen == status).count();
        assert_eq!((count(403), count(429)), (60, 140), "{path}");
        let answer = thing(&world, path, allowed).send().await.unwrap();
        assert_eq!((answer.status().as_u16(), rate_limit(answer.headers()).1), (201, left));
    }
    // Requests that have no limit never get 429.
    for (key, code) in [(OTHER_KEY, "permission-denied"), (REMOTE_KEY, "address-not-allowed")] {
        let unlimited = thing(&world, "/unlimited", key).send().await.unwrap();
        assert_eq!(unlimited.status(), 403, "{code}");
        assert!(!unlimited.headers().contains_key("x-ratelimit-limit"), "{code}");
        let body: Value = unlimited.json().await.unwrap();
        assert_eq!(body["code"], code);
    }
    world.close().await;
}

async fn a_window_ends_on_the_clock(store: TestStore) {
    let world = World::with(store, &limited(2, 60), |_| {}).await;
    let clock = &world.installation.app.clock;
    let set = |time: &str| clock.set(time.parse::<Timestamp>().unwrap());
    let minute = |time: &str| time.parse::<Timestamp>().unwrap().as_second();
    let call = async || {
        let answer = thing(&world, "/things", KEY).send().await.unwrap();
        let wait = answer.headers().get("retry-after").map(|wait| wait.to_str().unwrap().parse());
        let (_, remaining, reset) = rate_limit(answer.headers());
        (answer.status().as_u16(), remaining, reset, wait.map(Result::<i64, _>::unwrap))
    };
    let first = minute("2027-03-01T12:01:00Z");
    set("2027-03-01T12:00:00Z");
    assert_eq!(call().await, (201, 1, first, None));
    set("2027-03-01T12:00:50Z");
    assert_eq!(call().await, (201, 0, first, None));
    let (status, remaining, reset, wait) = call().await;
    assert_eq!((status, remaining, reset), (429, 0, first));
    assert!((1..=10).contains(&wait.unwrap()), "{wait:?}");
    set("2027-03-01T12:01:00Z");
    assert_eq!(call().await, (201, 1, first + 60, None));
    // What was not used is lost, also to another gateway.
    set("2027-03-01T12:02:00Z");
    let other = world.another(|_| {}).await;
    other.app.clock.set("2027-03-01T12:02:00Z".parse().unwrap());
    let answer = thing(&other, "/things", KEY).send().await.unwrap();
    assert_eq!(rate_limit(answer.headers()), (2, 1, first + 120));
    assert_eq!(call().await, (201, 0, first + 120, None));
    assert_eq!(call().await.0, 429);
    other.close().await;
    world.close().await;
}

async fn gateways_whose_clocks_differ_share_a_window(store: TestStore) {
    let world = World::with(store, &limited(3, DAY), |_| {}).await;
    let other = world.another(|_| {}).await;
    let days = |days: i64| Timestamp::now() + jiff::SignedDuration::from_hours(24 * days);
    world.app.clock.set(days(3));
    other.app.clock.set(days(-3));
    let mut resets = Vec::new();
    for (gateway, status) in [(&world.gateway, 201), (&other, 201), (&world, 201), (&other, 429)] {
        let answer = thing(gateway, "/things", KEY).send().await.unwrap();
        assert_eq!(answer.status(), status);
        resets.push(rate_limit(answer.headers()).2);
    }
    assert!(resets.iter().all(|reset| *reset == resets[0]), "{resets:?}");
    let reset = Timestamp::from_second(resets[0]).unwrap();
    assert!(reset > Timestamp::now() && reset <= days(1), "{reset}");
    other.close().await;
    world.close().await;
}

async fn a_limit_of_the_workspace_is_applied_within_seconds(store: TestStore) {
    let world = World::with(store, &limited(2, DAY), |_| {}).await;
    let apply = async |text: &str| {
        let declared = file::read(text, &|_| None).unwrap();
        let applied =
            apply::apply(&world.installation.app, &declared.workspaces[0], Default::default());
        let changes = applied.await.unwrap().changes;
        changes.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    for status in [201, 201, 429] {
        let answer = thing(&world, "/things", KEY).send().await.unwrap();
        assert_eq!(answer.status(), status);
    }
    let changes = apply(&limited(1_000, DAY)).await;
    assert_eq!(
        changes,
        ["~ rate_limits (users.track 2 in 86400 s -> users.track 1000 in 86400 s)"]
    );
    let limit = async || {
        let answer = thing(&world, "/things", KEY).send().await.unwrap();
        (answer.status().as_u16(), rate_limit(answer.headers()))
    };
    eventually("the new limit is known", async || limit().await.1.0 == 1_000).await;
    let (status, (_, remaining, _)) = limit().await;
    assert_eq!(status, 201);
    assert!(remaining < 997, "what was used before counts: {remaining}");
    assert_eq!(apply(WORKSPACE).await.len(), 1);
    eventually("the default is back", async || {
        limit().await.1.0 == i64::from(Budget::UsersTrack.default_limit().requests)
    })
    .await;
    world.close().await;
}

async fn each_gateway_counts_locally_without_the_database(store: TestStore) {
    let metrics = telemetry::metrics::recorder::install().unwrap();
    let url = store.config.database.url.clone().unwrap();
    let proxy = Proxy::to(url.expose_secret()).await;
    let world = World::with(store, &limited(12, DAY), |_| {}).await;
    let led = proxy.instead_of(url.expose_secret());
    let away = world.another(|config| config.database.url = Some(led.into())).await;
    let call = async |gateway: &Gateway| {
        let answer = thing(gateway, "/things", KEY).send().await.unwrap();
        (answer.status().as_u16(), rate_limit(answer.headers()).1)
    };
    assert_eq!(call(&away).await, (201, 11));
    for way in [ProxyMode::Stuck, ProxyMode::Refused] {
        proxy.set(way);
        assert_eq!(call(&away).await.0, 201, "{way:?}");
    }
    // The fleet continues, and so does the one without its database, as if it had all that was left
    // when it last knew.
    let mut accepted = 3;
    while call(&away).await.0 == 201 {
        accepted += 1;
    }
    assert_eq!(accepted, 12);
    assert_eq!(call(&world).await, (201, 10));
    let metrics = metrics.render();
    assert!(metrics.contains("longshore_rate_limit_local_fallback_total{budget=\"users.track\"}"));
    proxy.set(ProxyMode::Open);
    eventually("the count is one again", async || {
        assert_eq!(call(&away).await.0, 429);
        call(&world).await.0 == 429
    })
    .await;
    away.close().await;
    world.close().await;
}

async fn only_slow_budgets_are_counted_locally(store: TestStore) {
    let file = format!("{}  campaigns.list: {{requests: 2, seconds: {DAY}}}\n", limited(3, DAY));
    let world = World::with(store, &file, |_| {}).await;
    let other = world.another(|_| {}).await;
    for gateway in [&world.gateway, &other] {
        assert_eq!(thing(gateway, "/things", KEY).send().await.unwrap().status(), 201);
    }
    for _ in 0..2 {
        assert_eq!(thing(&other, "/remote", OTHER_KEY).send().await.unwrap().status(), 201);
    }
    let Store::Postgres { pool, .. } = &world.app.store else { panic!("a test of PostgreSQL") };
    let mut held = pool.begin().await.unwrap();
    let hold = "SELECT * FROM rate_limits WHERE budget = 'users.track' FOR UPDATE";
    sqlx::query(hold).fetch_all(&mut *held).await.unwrap();
    // What was left when the database was last asked, and what another gateway took since, too.
    for status in [201, 201, 429] {
        assert_eq!(thing(&world, "/things", KEY).send().await.unwrap().status(), status);
    }
    // The other budget is used up: the database says so at once.
    assert_eq!(thing(&world, "/remote", OTHER_KEY).send().await.unwrap().status(), 429);
    held.rollback().await.unwrap();
    other.close().await;
    world.close().await;
}

async fn delayed_requests_are_counted_once(store: TestStore) {
    const REQUESTS: i64 = 800;
    let url = store.config.database.url.clone().unwrap();
    let proxy = Proxy::to(url.expose_secret()).await;
    let world = World::with(store, &limited(REQUESTS as u32, DAY), |_| {}).await;
    let led = proxy.instead_of(url.expose_secret());
    let away = world.another(|config| config.database.url = Some(led.into())).await;
    let remaining = async |gateway: &Gateway| {
        rate_limit(thing(gateway, "/things", KEY).send().await.unwrap().headers()).1
    };
    remaining(&away).await;
    proxy.set(ProxyMode::Stuck);
    let mut calls = 1;
    // For as long as would have it report again and again.
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(7) {
        remaining(&away).await;
        calls += 1;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    proxy.set(ProxyMode::Open);
    let left = loop {
        remaining(&away).await;
        let left = remaining(&world).await;
        calls += 2;
        if left <= REQUESTS - calls + 2 {
            break left;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{calls} calls, and {left} left");
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    // What each has asked for ahead, and a lease that was lost on the way.
    assert!(left >= REQUESTS - calls - 10, "{calls} calls, and {left} left of {REQUESTS}");
    away.close().await;
    world.close().await;
}

on_sqlite!(
    four_gateways_share_the_limit,
    every_request_with_a_key_counts,
    a_limit_of_the_workspace_is_applied_within_seconds,
    refused_requests_leave_the_budget_to_others,
    // Where the program's clock is the database's.
    a_window_ends_on_the_clock,
);
on_postgres!(
    four_gateways_share_the_limit,
    every_request_with_a_key_counts,
    a_limit_of_the_workspace_is_applied_within_seconds,
    refused_requests_leave_the_budget_to_others,
    gateways_whose_clocks_differ_share_a_window,
    each_gateway_counts_locally_without_the_database,
    only_slow_budgets_are_counted_locally,
    delayed_requests_are_counted_once,
);

/// Of four processes behind one database and one Kafka, each gets the whole budget sent.
#[tokio::test(flavor = "multi_thread")]
async fn four_processes_share_the_limit() {
    const REQUESTS: usize = 1_000;
    let mut fleet = Fleet::start(Backend::Fleet(0), &[]).await;
    let mut bases = vec![fleet.base().to_owned()];
    for number in 2..=4 {
        let (name, address) = (format!("gateway-{number}"), format!("127.0.0.1:{}", free_port()));
        fleet.launch_with(&name, &[("LONGSHORE_LISTEN", &address)]).await;
        fleet.ready(&name).await;
        bases.push(format!("http://{address}"));
    }
    let limit = json!({ "users.track": { "requests": REQUESTS, "seconds": DAY } });
    let workspace = WorkspaceFile::new("acme").with("rate_limits", limit);
    fleet.apply(std::slice::from_ref(&workspace)).await;
    let apis: Vec<Api> = bases.iter().map(|base| Api::new(base, &workspace.key)).collect();
    let body = json!({ "events": [{ "external_id": "ann", "name": "e", "time": "2026-11-21" }] });
    let calls = (0..4 * REQUESTS).map(|number| apis[number % 4].post("/users/track", &body));
    let answers: Vec<ApiResponse> =
        futures::stream::iter(calls).buffer_unordered(32).collect().await;
    let accepted = answers.iter().filter(|answer| answer.status == 201).count();
    let refused = answers.iter().filter(|answer| answer.status == 429).count();
    assert_eq!(accepted + refused, 4 * REQUESTS);
    assert!((REQUESTS - REQUESTS / 100..=REQUESTS).contains(&accepted), "{accepted}");
    fleet.close().await;
}
