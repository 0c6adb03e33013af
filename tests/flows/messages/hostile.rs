//! What is sent to do harm, and what changes in the middle, all the way from the call to the
//! receiver: templates and conditions that would take for ever, trees without end, users who are
//! erased before their message goes.

use std::sync::atomic::{AtomicI64, Ordering};

use reqwest::{Method, header};
use serde_json::{Value, json};

use crate::support::api::{ApiResponse as Response, answer};
use crate::support::fleet::{Backend, Fleet};
use crate::support::receiver::{Receiver, ScriptedResponse};
use crate::support::{Api, WorkspaceFile, open_work, stores};

const SEND: &str = "/messages/send";

/// The memory that nothing here may take a process beyond, in bytes.
const ROOM: u64 = 600 << 20;

struct World {
    fleet: Fleet,
    api: Api,
    receiver: Receiver,
    /// Sends that were taken.
    taken: AtomicI64,
}

impl World {
    async fn start(backend: Backend, users: &[Value]) -> Self {
        let receiver = Receiver::start([]).await;
        // A message that was not taken goes again soon.
        let settings = [("LONGSHORE_MESSAGES__RETRY_MS", "200".to_owned())];
        let fleet = Fleet::start(backend, &settings).await;
        let workspace = WorkspaceFile::new("acme").with_percent(None).permitted(&["messages.send"]);
        let api = fleet.apply(&[workspace]).await.remove(0);
        let records: Vec<String> = users.iter().map(Value::to_string).collect();
        fleet.import("acme", &records).await;
        Self { fleet, api, receiver, taken: AtomicI64::new(0) }
    }

    /// A webhook with this text, to the users of `target`.
    fn webhook(&self, target: Value, text: &str) -> Value {
        let mut body = target;
        body["messages"] = json!({ "webhook": {
            "url": self.receiver.url("/webhook"), "request_method": "POST", "body": text,
        } });
        body
    }

    async fn send(&self, target: Value, text: &str) {
        self.takes(&self.webhook(target, text).to_string()).await;
    }

    async fn post(&self, body: &str) -> Response {
        let request = self.api.request(Method::POST, SEND).body(body.to_owned());
        answer(request.header(header::CONTENT_TYPE, "application/json")).await
    }

    async fn takes(&self, body: &str) {
        let answer = self.post(body).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        self.taken.fetch_add(1, Ordering::SeqCst);
    }

    /// The texts that came, in order.
    fn texts(&self) -> Vec<String> {
        let received = self.receiver.received();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut texts: Vec<String> = received.iter().map(|request| text(&request.body)).collect();
        texts.sort();
        texts
    }

    async fn count(&self, sql: &'static str) -> i64 {
        stores::count(&self.fleet.database_url(), sql).await
    }

    async fn wait_until_idle(&self) {
        let ended = "SELECT count(*) FROM dispatches WHERE finished_at IS NOT NULL";
        let all = self.taken.load(Ordering::SeqCst);
        let database = self.fleet.database_url();
        stores::wait_for_count(&database, ended, |count| count == all).await;
        open_work::wait_until_done(&self.fleet).await;
    }
}

fn named(ids: &[&str]) -> Value {
    json!({ "external_user_ids": ids })
}

fn everybody() -> Value {
    json!({ "broadcast": true, "audience": { "push_subscription_status": {
        "comparison": "is_not", "value": "unsubscribed",
    } } })
}

fn users(count: usize) -> Vec<Value> {
    (0..count).map(|number| json!({ "external_id": format!("u{number}") })).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn template_bombs_fail_only_their_own_messages() {
    let users = users(5);
    let world = World::start(Backend::Embedded, &users).await;
    let doubling = format!("{{% assign a = 'xxxxxxxx' %}}{}{{{{ a }}}}", {
        "{% assign a = a | append: a %}".repeat(60)
    });
    let bombs = [
        "{% for i in (1..1000000000) %}x{% endfor %}".to_owned(),
        "{% for i in (1..9999) %}{% for j in (1..9999) %}{% for k in (1..9999) %}{{ k }}\
         {% endfor %}{% endfor %}{% endfor %}"
            .to_owned(),
        doubling,
        "{% assign a = '9' %}{% for i in (1..100000) %}{% assign a = a | append: a | split: '' | \
         join: ',' %}{% endfor %}{{ a }}"
            .to_owned(),
    ];
    for bomb in &bombs {
        world.send(everybody(), bomb).await;
    }
    // Among them, and behind them, others get theirs.
    world.send(named(&["u3"]), "hello {{${external_id}}}").await;
    world.wait_until_idle().await;
    assert_eq!(world.texts(), ["hello u3"]);
    let failed = "SELECT count(*) FROM messages WHERE state = 'failed' AND reason IS NOT NULL";
    assert_eq!(world.count(failed).await, (users.len() * bombs.len()) as i64);
    let peak = world.fleet.peak("standalone");
    assert!(peak < ROOM, "{} MB resident", peak >> 20);
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn templates_without_end_are_refused_at_the_call() {
    let world = World::start(Backend::Embedded, &users(1)).await;
    let deep = |levels: usize| {
        format!("{}x{}", "{% if true %}".repeat(levels), "{% endif %}".repeat(levels))
    };
    let long = "x".repeat(300 << 10) + "{{ a }}";
    for (text, part) in [
        (deep(5_000), "line 1, column "),
        (format!("{{{{ {} }}}}", "a[".repeat(100_000)), "line 1, column "),
        (format!("{{{{ a{} }}}}", " | upcase".repeat(20_000)), "line 1, column "),
        ("ok\n  {{ 'never closed".to_owned(), "line 2, column "),
        (long, "line 1, column "),
    ] {
        let answer = world.api.post(SEND, &world.webhook(named(&["u0"]), &text)).await;
        assert_eq!(answer.status, 400, "{:.80}: {answer:?}", text);
        let said = answer.body.to_string();
        assert!(said.contains(part) && said.len() < 2_000, "{:.80}: {said:.2000}", text);
    }
    world.send(named(&["u0"]), "still here").await;
    world.wait_until_idle().await;
    assert_eq!(world.texts(), ["still here"]);
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_audience_of_depth_10_000_is_refused() {
    let world = World::start(Backend::Embedded, &users(1)).await;
    let leaf = json!({ "custom_attribute": {
        "custom_attribute_name": "x", "comparison": "does_not_exist",
    } })
    .to_string();
    let body = |levels: usize| {
        let (open, close) = ("{\"AND\":[".repeat(levels), "]}".repeat(levels));
        let rest = world.webhook(json!({ "broadcast": true }), "hello").to_string();
        format!("{{\"audience\":{open}{leaf}{close},{}", &rest[1..])
    };
    for (levels, part) in [
        (10_000, "is nested too deeply"),
        (100, "is nested too deeply"),
        (32, "an audience can nest at most 32 levels"),
    ] {
        world.post(&body(levels)).await.refuses(400, part);
    }
    world.takes(&body(31)).await;
    world.wait_until_idle().await;
    assert_eq!(world.texts(), ["hello"]);
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn malicious_regexes_take_linear_time() {
    // A backtracking matcher would take longer than there is time, for each of them.
    let nearly = "a".repeat(20_000) + "!";
    let user = |number: usize| json!({ "external_id": format!("u{number}"), "custom_attributes": { "text": nearly } });
    let world = World::start(Backend::Embedded, &(0..100).map(user).collect::<Vec<_>>()).await;
    let matches = |comparison: &str, pattern: &str| {
        json!({ "custom_attribute": {
            "custom_attribute_name": "text", "comparison": comparison, "value": pattern,
        } })
    };
    let target = |audience: Value| json!({ "broadcast": true, "audience": audience });
    let patterns = ["^(a+)+$", "^(a|aa)+$", "^(a*)*b?$", "^(.*a){20}$", "(x+x+)+y"];
    let none: Vec<Value> =
        patterns.iter().map(|pattern| matches("does_not_match_regex", pattern)).collect();
    world.send(target(json!({ "AND": none })), "{{${external_id}}}").await;
    world.wait_until_idle().await;
    assert_eq!(world.texts().len(), 100, "none of them matches");
    for (pattern, part) in [
        ("((a{1000}){1000}){1000}", "the regular expression is too large"),
        ("(?=a)b", "is not a valid regular expression"),
    ] {
        let audience = target(matches("matches_regex", pattern));
        let answer = world.api.post(SEND, &world.webhook(audience, "x")).await;
        answer.refuses(400, part);
    }
    let peak = world.fleet.peak("standalone");
    assert!(peak < ROOM, "{} MB resident", peak >> 20);
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn users_erased_before_the_dispatch_receive_nothing() {
    let mut world = World::start(Backend::Fleet(1), &users(60)).await;
    world.fleet.stop("worker-1");
    world.send(named(&["u1", "u2"]), "named {{${external_id}}}").await;
    world.send(everybody(), "all {{${external_id}}}").await;
    world.fleet.run(&["users", "delete", "u1", "--workspace", "acme"]).await;
    world.fleet.resume("worker-1");
    world.wait_until_idle().await;
    let texts = world.texts();
    assert_eq!(texts.len(), 1 + 59, "{texts:?}");
    assert!(!texts.iter().any(|text| text.ends_with(" u1")), "{texts:?}");
    assert_eq!(world.count("SELECT count(*) FROM messages").await, 60);
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn users_erased_while_a_message_waits_receive_nothing() {
    let world = World::start(Backend::Embedded, &users(2)).await;
    // Both are refused for now, so that both wait.
    world.receiver.script([ScriptedResponse::Status(503), ScriptedResponse::Status(503)]);
    world.receiver.script(vec![ScriptedResponse::Status(503); 400]);
    world.send(named(&["u0", "u1"]), "{{${external_id}}}").await;
    let waiting = "SELECT count(*) FROM messages WHERE state = 'waiting'";
    stores::wait_for_count(&world.fleet.database_url(), waiting, |count| count == 2).await;
    world.fleet.run(&["users", "delete", "u0", "--workspace", "acme"]).await;
    let before = world.texts().iter().filter(|text| *text == "u0").count();
    world.receiver.clear_script();
    world.wait_until_idle().await;
    let texts = world.texts();
    let after = texts.iter().filter(|text| *text == "u0").count();
    // One that was on its way as the user was erased may have come still.
    assert!(after <= before + 1, "{texts:?}");
    assert_eq!(texts.iter().filter(|text| *text == "u1").count(), texts.len() - after);
    let of = "SELECT count(*) FROM messages WHERE state = 'sent'";
    assert_eq!(world.count(of).await, 1);
    assert_eq!(world.count("SELECT count(*) FROM messages").await, 1, "nothing of the erased");
    world.fleet.close().await;
}
