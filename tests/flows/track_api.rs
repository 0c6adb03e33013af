//! `POST /users/track`, as a customer sees it: the responses, the messages in the log, and the
//! effect of hostile bodies.

use std::time::Duration;

use log::{Message, partition_of};
use longshore::tracking::message::Batch;
use reqwest::{Method, header};
use serde_json::{Value, json};
use sqlx::Connection as _;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};

use crate::support::api::{Api, ApiResponse, answer};
use crate::support::fleet::{Backend, Fleet};
use crate::support::servers;
use crate::support::tracked::read_all;
use crate::support::workspace::WorkspaceFile;

/// Bytes of a body that is almost too large.
const FULL: usize = (4 << 20) - 100;

const TRACK: &str = "/users/track";

/// How long the log may take to be back.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Every message of tracking that the log has, which must hold so many objects.
async fn in_the_log(fleet: &Fleet, objects: usize) -> Vec<Message> {
    let log = fleet.log().await;
    let found = |messages: &[Message]| -> usize {
        messages.iter().map(|message| Batch::decode(&message.payload).unwrap().objects.len()).sum()
    };
    let messages = read_all(&log, |messages| found(messages) >= objects).await;
    assert_eq!(found(&messages), objects);
    log.close().await;
    messages
}

fn purchase(user: &str) -> Value {
    json!({
        "external_id": user, "product_id": "tea", "currency": "USD", "price": 1.5,
        "time": "2026-01-01T00:00:00Z"
    })
}

async fn post_text(api: &Api, body: impl Into<reqwest::Body>) -> ApiResponse {
    let request = api.request(Method::POST, TRACK).header(header::CONTENT_TYPE, "application/json");
    answer(request.body(body)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn accepted_requests_are_durable_embedded() {
    accepted_requests_are_durable(Backend::Embedded, "standalone").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn accepted_requests_are_durable_on_kafka() {
    accepted_requests_are_durable(Backend::Fleet(1), "gateway").await;
}

async fn accepted_requests_are_durable(backend: Backend, gateway: &str) {
    let mut fleet = Fleet::start(backend, &[]).await;
    let api = fleet.apply(&[WorkspaceFile::new("acme")]).await.remove(0);
    let body = json!({
        "purchases": [purchase("ann"), purchase(""), purchase("bob")],
        "events": [
            { "user_alias": { "alias_name": "n", "alias_label": "l" }, "name": "seen",
              "time": "2999-01-01" },
            { "email": "Ann@acme.example", "name": "seen", "time": "2026-01-01" },
        ],
        "attributes": [{ "external_id": "ann", "email": "ann@acme.example", "tier": { "a": 1.10 } }],
    });
    let request = api.request(Method::POST, TRACK).header("x-request-id", "the-first").json(&body);
    let first = answer(request).await;
    assert_eq!(first.status, 201, "{first:?}");
    let error = json!({ "type": "external_id is empty", "input_array": "purchases", "index": 1 });
    let expected = json!({
        "message": "success", "attributes_processed": 1, "events_processed": 2,
        "purchases_processed": 2, "errors": [error]
    });
    assert_eq!(first.body, expected);
    let second = api.post(TRACK, &json!({ "purchases": [purchase("ann")] })).await;
    assert_eq!(
        (second.status.as_u16(), second.body["purchases_processed"].as_i64()),
        (201, Some(1))
    );
    // Acknowledged requests are durable, even if the gateway fails.
    fleet.kill(gateway);
    fleet.launch(gateway).await;

    let messages = in_the_log(&fleet, 6).await;
    let of_ann = messages
        .iter()
        .filter(|message| String::from_utf8_lossy(&message.payload).contains("\"ann\""));
    let of_ann: Vec<_> = of_ann.collect();
    let [first, second] = of_ann.as_slice() else { panic!("two requests, and {of_ann:?}") };
    assert_eq!(first.partition, second.partition, "each request about ann comes after the other");
    assert_eq!(first.request_id, "the-first");
    let first: Value = serde_json::from_slice(&first.payload).unwrap();
    let now = first["received_at"].as_i64().unwrap();
    assert!(now > 1_700_000_000_000, "{first}");
    let home = format!("{}\u{1f}0ann", first["workspace"]);
    assert_eq!(second.partition, partition_of(home.as_bytes(), 4), "where ann always goes");
    let mut objects = first["objects"].as_array().unwrap().clone();
    // Bob and the alias may be on the same partition.
    objects.retain(|object| object.to_string().to_lowercase().contains("ann"));
    let ann = json!({ "external_id": "ann" });
    assert_eq!(
        objects,
        [
            json!({ "attributes": {
                "user": ann, "fields": { "email": "ann@acme.example" }, "custom": { "tier": { "a": 1.1 } }
            } }),
            json!({ "event": {
                "user": { "email": "Ann@acme.example" }, "name": "seen", "time": 1_767_225_600_000_i64
            } }),
            json!({ "purchase": {
                "user": ann, "product_id": "tea", "currency": "USD", "price": 1_500_000,
                "quantity": 1, "time": 1_767_225_600_000_i64
            } }),
        ]
    );
    let alias = messages.iter().find_map(|message| {
        let batch = Batch::decode(&message.payload).unwrap();
        batch.objects.iter().any(|o| o.update_only()).then(|| message.payload.clone())
    });
    let alias = String::from_utf8(alias.expect("the alias's event")).unwrap();
    assert!(alias.contains(&format!("\"time\":{now}")), "what is to come is now: {alias}");
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejections_have_their_order_and_are_counted() {
    let fleet = Fleet::start(Backend::Embedded, &[]).await;
    let workspace = WorkspaceFile::new("acme");
    let reader = format!("reader-{}", servers::new_name());
    let keys = json!([
        { "name": "tracker", "secret": workspace.key, "permissions": ["users.track"] },
        { "name": "reader", "secret": reader, "permissions": ["users.export.global_control_group"] },
    ]);
    let api = fleet.apply(&[workspace.with("keys", keys)]).await.remove(0);
    let nothing =
        "Valid data must be provided in the 'attributes', 'events', or 'purchases' fields.";

    Api::new(fleet.base(), "nobody").post(TRACK, &json!({})).await.refuses(401, "credentials");
    Api::new(fleet.base(), &reader).post(TRACK, &json!({})).await.refuses(403, "permission");
    let get = api.get(TRACK).await;
    get.refuses(405, "method");
    assert_eq!(get.headers["allow"], "POST");
    answer(api.request(Method::POST, TRACK).body("{}")).await.refuses(415, "Content-Type");
    post_text(&api, "{").await.refuses(400, "not valid JSON");
    api.post(TRACK, &json!({})).await.refuses(400, nothing);
    let many = json!({ "events": vec![json!({}); 76] });
    api.post(TRACK, &many).await.refuses(400, "Max Input Length Exceeded");
    let wrong = api.post(TRACK, &json!({ "purchases": [{ "price": -1 }], "events": [7] })).await;
    wrong.refuses(400, nothing);
    assert_eq!(wrong.body["errors"][0]["input_array"], "events");
    let full = json!({ "purchases": vec![purchase("ann"); 75], "events": [] });
    let full = api.post(TRACK, &full).await;
    assert_eq!(
        full.body,
        json!({ "message": "success", "events_processed": 0, "purchases_processed": 75 })
    );
    in_the_log(&fleet, 75).await;

    let metrics = fleet.metrics("standalone").await;
    for line in [
        r#"longshore_track_objects_total{array="purchases"} 75"#,
        r#"longshore_track_refused_total{array="purchases",reason="identifier"} 1"#,
        r#"longshore_track_refused_total{array="events",reason="object"} 1"#,
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
    fleet.close().await;
}

/// A body of one purchase with a member as JSON.
fn purchase_with(member: &str, value: &str) -> String {
    let mut purchase = purchase("ann");
    purchase[member] = json!("HERE");
    json!({ "purchases": [purchase] }).to_string().replace("\"HERE\"", value)
}

/// A body of one attribute object with more members as JSON.
fn written(members: &str) -> String {
    format!(r#"{{"attributes":[{{"external_id":"e",{members}}}]}}"#)
}

/// The same as [`purchase_with`], of about `FULL` bytes, which `fill` is repeated to.
fn filled(member: &str, before: &str, fill: &str, after: &str) -> String {
    let rest = purchase_with(member, &format!("{before}{after}")).len();
    purchase_with(member, &format!("{before}{}{after}", fill.repeat((FULL - rest) / fill.len())))
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_bodies_are_refused_by_name() {
    let fleet = Fleet::start(Backend::Embedded, &[]).await;
    let api = fleet.apply(&[WorkspaceFile::new("acme")]).await.remove(0);
    let deep =
        |open: &str, close: &str| format!("{}{}", open.repeat(100_000), close.repeat(100_000));
    let corpus = [
        // A syntax error is reported with its line and column.
        (String::new(), "line 1"),
        ("\u{0}".into(), "line 1"),
        ("[".repeat(FULL), "line 1"),
        ("{\"purchases\":".repeat(200_000), "line 1"),
        (format!("{{\"purchases\":{}", "[".repeat(FULL - 20)), "line 1"),
        (format!("{{\"purchases\":\"{}", "a".repeat(FULL - 20)), "line 1"),
        ("\"".repeat(FULL), "line 1"),
        ("1".repeat(FULL), "must be a JSON object"),
        (" ".repeat(FULL), "line 1"),
        (deep("[", "]"), "must be a JSON object"),
        (r#"{"purchases":[{"price":1e}]}"#.into(), "line 1"),
        (r#"{"purchases":[{"price":01}]}"#.into(), "line 1"),
        (r#"{"purchases":["\x"]}"#.into(), "line 1"),
        // A wrong type is reported with its field, array and index.
        (deep("{\"purchases\":", "}").replace("{\"purchases\":}", "{}"), "purchases"),
        (
            format!(r#"{{"purchases":{}}}"#, deep("[", "]")),
            "purchases 0 the object: expected an object",
        ),
        (format!(r#"{{"purchases":[{}]}}"#, "0,".repeat(2_000_000) + "0"), "Max Input Length"),
        (
            format!(r#"{{"purchases":"{}"}}"#, "x".repeat(4_000_000)),
            "purchases must be an array of objects",
        ),
        (r#"{"purchases":{"0":{}}}"#.into(), "purchases must be an array of objects"),
        (r#"{"events":[],"events":[]}"#.into(), "events"),
        (r#"{"purchases":[[],"",0,null,true]}"#.into(), "purchases 4 the object"),
        (r#"{"events":[{"\ud800":1}]}"#.into(), "events 0 the object"),
        (r#"{"events":[{"\u0000":1}]}"#.into(), "events 0 the object: has a NUL"),
        (r#"{"events":[{"name":"a","name":"b"}]}"#.into(), "events 0 name: duplicate field"),
        (purchase_with("external_id", r#""\ud800""#), "purchases 0 external_id"),
        (purchase_with("external_id", r#""\u0000""#), "purchases 0 external_id has a NUL"),
        (purchase_with("external_id", "[]"), "purchases 0 external_id: expected a string"),
        (purchase_with("price", "1e999999999999999999"), "purchases 0 price"),
        (purchase_with("price", &"9".repeat(1_000_000)), "purchases 0 price is too large"),
        (purchase_with("quantity", &"9".repeat(1_000_000)), "purchases 0 quantity"),
        (purchase_with("time", "1e400"), "purchases 0 time "),
        (
            purchase_with("user_alias", &deep("[", "]")).replace(r#""external_id":"ann","#, ""),
            "purchases 0 user_alias",
        ),
        (
            purchase_with("properties", &format!(r#"{{"a":{}}}"#, deep("[", "]"))),
            "purchases 0 properties",
        ),
        (
            purchase_with(
                "properties",
                &format!(r#"{{"a":{}}}"#, deep("{\"a\":[", "]}").replacen("[]", "[0]", 1)),
            ),
            "purchases 0 properties",
        ),
        (purchase_with("properties", r#"{"a":1e400}"#), "purchases 0 properties.a"),
        (filled("time", "\"", "9", "\""), "purchases 0 time has more than 255"),
        (filled("properties", "\"", "x", "\""), "purchases 0 properties: expected an object"),
        (filled("properties", "{\"a\":[", "0,", "0]}"), "51200"),
        (purchase_with("properties", r#"{"$":0,"$":0}"#), "properties: $: duplicate field"),
        (filled("properties", "{", "\"$\":0,", "\"b\":0}"), "properties has more than 10000"),
        (purchase_with("properties", r#"{"a":{"b":1,"b":2}}"#), "purchases 0 properties.a"),
        (
            purchase_with("properties", r#"{"a":[[{"b":1,"\u0062":2}]]}"#),
            "purchases 0 properties.a",
        ),
        (written(r#""a":{"b":[{"c":1,"c":2}]}"#), "attributes 0 custom_attributes.a"),
        (written(r#""custom_attributes":{"a":{"b":1,"b":2}}"#), "attributes 0 custom_attributes.a"),
        (written(r#""a":{"inc":1,"inc":2}"#), "attributes 0 custom_attributes.a"),
        (written(r#""push_tokens":[{"app_id":"a","token":"t","token":"u"}]"#), "push_tokens[0]"),
        (written(r#""email":"a@b.co>""#), "attributes 0 email"),
        (written(r#""email":"a@b@c.co""#), "attributes 0 email"),
        (written(r#""country":"ZZ""#), "attributes 0 country"),
        (written(r#""language":"zz""#), "attributes 0 language"),
        (filled("product_id", "\"", "\\u0041", "\""), "product_id has more than 255"),
        (filled("currency", "\"", "é", "\""), "currency has more than 255"),
        (filled("app_id", "[", "{},", "{}]"), "app_id: expected a string"),
        (
            json!({ "attributes": [{ "external_id": "e", "a": "x".repeat(2 << 20) }] }).to_string(),
            "attributes 0 the object is larger",
        ),
    ];
    for (body, expected) in corpus {
        let begin: String = body.chars().take(80).collect();
        let answer = post_text(&api, body).await;
        assert_eq!(answer.status, 400, "{begin}: {answer:?}");
        let errors = answer.body["errors"].as_array().into_iter().flatten().map(|error| {
            let text = |name: &str| error[name].as_str().unwrap().to_owned();
            format!("{} {} {}", text("input_array"), error["index"], text("type"))
        });
        let said = answer.body["message"].as_str().unwrap().to_owned();
        let said: Vec<String> = errors.chain([said]).collect();
        assert!(
            said.iter().any(|text| text.contains(expected)),
            "{begin}: no {expected} in {said:?}"
        );
        assert!(said.iter().all(|text| text.len() < 1_000), "{begin}: {said:?}");
    }
    let bytes = post_text(&api, b"{\"events\":[{\"name\":\"\xff\"}]}".to_vec()).await;
    bytes.refuses(400, "UTF-8");
    post_text(&api, " ".repeat((4 << 20) + 1)).await.refuses(413, "too large");

    // As many members as there may be are taken, and as much as a body can hold.
    let long = "x".repeat(250);
    let flat: Vec<_> = (0..10_000).map(|n| format!("\"{n}\":\"{long}\"")).collect();
    let large =
        post_text(&api, purchase_with("properties", &format!("{{{}}}", flat.join(",")))).await;
    assert_eq!(large.status, 201, "{large:?}");
    assert!(!fleet.printed().contains("panicked"));
    in_the_log(&fleet, 1).await;
    fleet.close().await;
}

/// Asks until the log is back.
async fn until_accepted_again(api: &Api) {
    let since = std::time::Instant::now();
    loop {
        let answer = api.post(TRACK, &json!({ "purchases": [purchase("ann")] })).await;
        if answer.status == 201 {
            return;
        }
        assert_eq!(answer.status, 503, "{answer:?}");
        assert!(since.elapsed() < TIMEOUT, "{answer:?}");
    }
}

fn is_unavailable(answer: &ApiResponse) {
    answer.refuses(503, "temporarily unavailable");
    assert_eq!(answer.headers["retry-after"], "5");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_log_nothing_is_acknowledged_embedded() {
    let settings = [("LONGSHORE_LOG__APPEND_TIMEOUT_MS", "500".to_owned())];
    let fleet = Fleet::start(Backend::Embedded, &settings).await;
    let api = fleet.apply(&[WorkspaceFile::new("acme")]).await.remove(0);
    let file = SqliteConnectOptions::new().filename(fleet.directory().join("data/log.db"));
    let mut holder = SqliteConnection::connect_with(&file).await.unwrap();
    sqlx::query("BEGIN IMMEDIATE").execute(&mut holder).await.unwrap();
    is_unavailable(&api.post(TRACK, &json!({ "purchases": [purchase("ann")] })).await);
    sqlx::query("ROLLBACK").execute(&mut holder).await.unwrap();
    holder.close().await.unwrap();
    until_accepted_again(&api).await;
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_log_nothing_is_acknowledged_on_kafka() {
    let settings = [("LONGSHORE_LOG__APPEND_TIMEOUT_MS", "1000".to_owned())];
    let mut fleet = Fleet::start(Backend::Fleet(1), &settings).await;
    let api = fleet.apply(&[WorkspaceFile::new("acme")]).await.remove(0);
    fleet.terminate("gateway").await;
    fleet.launch_with("gateway", &[("LONGSHORE_LOG_URL", "kafka://127.0.0.1:1")]).await;
    fleet.ready("gateway").await;
    is_unavailable(&api.post(TRACK, &json!({ "purchases": [purchase("ann")] })).await);
    fleet.terminate("gateway").await;
    fleet.launch("gateway").await;
    until_accepted_again(&api).await;
    in_the_log(&fleet, 1).await;
    fleet.close().await;
}
