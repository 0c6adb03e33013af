//! `PATCH /catalogs/{catalog_name}/items` through real processes, from the call to the item.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use reqwest::{Method, header};
use serde_json::{Value, json};

use crate::support::api::{Api, ApiResponse, answer};
use crate::support::fleet::{Backend, Fleet};
use crate::support::process::free_port;
use crate::support::{WorkspaceFile, eventually, servers};

const ITEMS: &str = "/catalogs/restaurants/items";

/// An installation with two catalogs, of `items` items each.
async fn scene(backend: Backend, items: usize) -> (Fleet, Api) {
    let settings = [
        ("LONGSHORE_WORKER__LEASE_MS", "1000".to_owned()),
        ("LONGSHORE_WORKER__DRAIN_SECONDS", "2".to_owned()),
    ];
    let fleet = Fleet::start(backend, &settings).await;
    let lines = (0..items).map(|n| json!({ "id": format!("r{n}"), "City": "Oslo" }).to_string());
    fleet.write_file("items.ndjson", lines.collect::<Vec<_>>().join("\n").as_bytes());
    let fields = ["N", "Last_0", "Last_1", "Last_2", "Rating"]
        .map(|name| json!({ "name": name, "type": "number" }));
    let mut fields = fields.to_vec();
    fields.push(json!({ "name": "City", "type": "string" }));
    fields.push(json!({ "name": "Opened_at", "type": "time" }));
    let catalog = |name: &str| json!({ "name": name, "fields": fields, "items": "items.ndjson" });
    let workspace = WorkspaceFile::new("acme")
        .with("catalogs", json!([catalog("restaurants"), catalog("hotels")]));
    let api = fleet.apply(&[workspace]).await.remove(0);
    (fleet, api)
}

async fn item(fleet: &Fleet, catalog: &str, id: &str) -> Value {
    let shown = fleet.run(&["catalogs", "items", catalog, "--id", id, "--json"]).await;
    serde_json::from_str(&shown).expect("JSON")
}

/// The outcome of edits, those received last first.
async fn edits(fleet: &Fleet, catalog: &str) -> Vec<Value> {
    let shown = fleet.run(&["catalogs", "edits", catalog, "--json"]).await;
    shown.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn assert_accepted(answer: &ApiResponse) {
    assert_eq!((answer.status.as_u16(), &answer.body), (202, &json!({ "message": "success" })));
}

async fn edits_reach_their_items(backend: Backend) {
    let (fleet, api) = scene(backend, 60).await;
    let mut items: Vec<Value> =
        (0..48).map(|n| json!({ "id": format!("r{n}"), "Rating": n.to_string() })).collect();
    items.push(json!({ "id": "r50", "City": null, "Opened_at": "2021-06-28T19:02:43+0200" }));
    items.push(json!({ "id": "nobody", "City": "Nara" }));
    let request = api.request(Method::PATCH, ITEMS).header("x-request-id", "the-first");
    assert_accepted(&answer(request.json(&json!({ "items": items }))).await);
    fleet.applied().await;
    assert_eq!(
        item(&fleet, "restaurants", "r7").await,
        json!({ "id": "r7", "City": "Oslo", "Rating": 7 })
    );
    let opened = json!({ "id": "r50", "Opened_at": "2021-06-28T17:02:43.000Z" });
    assert_eq!(item(&fleet, "restaurants", "r50").await, opened);
    assert_eq!(item(&fleet, "hotels", "r7").await, json!({ "id": "r7", "City": "Oslo" }));
    let lines = fleet.run(&["catalogs", "items", "restaurants"]).await;
    assert_eq!(lines.lines().count(), 60, "no item is made");
    let edits = edits(&fleet, "restaurants").await;
    assert_eq!(edits.len(), 1, "{edits:?}");
    assert_eq!(edits[0]["request_id"], "the-first");
    assert_eq!((&edits[0]["applied"], &edits[0]["unknown"]), (&json!(49), &json!(1)));
    assert_eq!(edits[0]["unknown_ids"], json!(["nobody"]));
    let shown = fleet.run(&["catalogs", "edits", "restaurants"]).await;
    assert!(shown.contains("the-first") && shown.contains("nobody"), "{shown}");
    let shown = fleet.run(&["catalogs", "edits", "restaurants", "--after", "the-first"]).await;
    assert_eq!(shown, "", "no edit is earlier");
    let shown = fleet.run(&["catalogs", "list"]).await;
    assert!(shown.contains("N: number, Last_0: number"), "{shown}");
    let listed = fleet.run(&["catalogs", "list", "--json"]).await;
    let listed: Vec<Value> =
        listed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let restaurants = listed.iter().find(|catalog| catalog["name"] == "restaurants");
    assert_eq!(restaurants.expect("the catalog")["items"], 60);

    let (gateway, worker) = match backend {
        Backend::Embedded => ("standalone", "standalone"),
        Backend::Fleet(_) => ("gateway", "worker-1"),
    };
    for (process, line) in [
        (gateway, "longshore_catalog_items_total 50"),
        (worker, "longshore_catalog_items_applied_total 49"),
        (worker, "longshore_catalog_items_unknown_total 1"),
    ] {
        let metrics = fleet.metrics(process).await;
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn edits_reach_their_items_embedded() {
    edits_reach_their_items(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn edits_reach_their_items_on_kafka() {
    edits_reach_their_items(Backend::Fleet(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejections_have_their_order_and_error_format() {
    let fleet = Fleet::start(Backend::Embedded, &[]).await;
    let workspace = WorkspaceFile::new("acme").with(
        "catalogs",
        json!([{ "name": "restaurants", "fields": [{ "name": "City", "type": "string" }] }]),
    );
    let reader = format!("reader-{}", servers::new_name());
    let keys = json!([
        { "name": "editor", "secret": workspace.key, "permissions": ["catalogs.update_items"] },
        { "name": "reader", "secret": reader, "permissions": ["users.track"] },
    ]);
    let api = fleet.apply(&[workspace.with("keys", keys)]).await.remove(0);
    let patch = async |api: &Api, path: &str, body: &Value| api.patch(path, body).await;
    let text = async |path: &str, body: String| {
        let request = api.request(Method::PATCH, path);
        answer(request.header(header::CONTENT_TYPE, "application/json").body(body)).await
    };
    let nobody = Api::new(fleet.base(), "nobody");
    patch(&nobody, ITEMS, &json!({})).await.refuses(401, "credentials");
    let reader = Api::new(fleet.base(), &reader);
    patch(&reader, "/catalogs/nobody/items", &json!({})).await.refuses(403, "permission");
    let purge = Method::from_bytes(b"PURGE").expect("a method");
    let purge = answer(api.request(purge, ITEMS)).await;
    purge.refuses(405, "method");
    let allowed = purge.headers["allow"].to_str().expect("a text");
    assert!(allowed.split(',').any(|method| method == "PATCH"), "{allowed}");
    answer(api.request(Method::PATCH, ITEMS).body("{}")).await.refuses(415, "Content-Type");
    text(ITEMS, " ".repeat((4 << 20) + 1)).await.refuses(413, "too large");
    for (body, part) in [
        ("{\n\"items\"", "not valid JSON: EOF while parsing an object at line 2 column 7"),
        ("[]", "must be a JSON object"),
        (r#"{"items":[],"items":[]}"#, "items: duplicate field"),
        ("{}", "items must be a non-empty array"),
    ] {
        for (path, status) in [(ITEMS, 400), ("/catalogs/nobody/items", 404)] {
            let refused = text(path, body.into()).await;
            refused.refuses(status, "Invalid Request");
            let errors = refused.body["errors"].as_array().expect("errors");
            assert_eq!(errors.len(), if status == 404 { 2 } else { 1 }, "{body}: {errors:?}");
            let error = errors.last().expect("one");
            assert_eq!(error["id"], "item-array-invalid");
            assert_eq!(error["parameters"], json!(["items"]));
            assert!(error["message"].as_str().expect("a text").contains(part), "{body}: {error}");
        }
    }
    let latin = api.request(Method::PATCH, ITEMS).header(header::CONTENT_TYPE, "application/json");
    let refused = answer(latin.body(b"{\"items\":\"\xe9\"}".to_vec())).await;
    refused.refuses(400, "Invalid Request");
    assert_eq!(refused.body["errors"][0]["id"], "item-array-invalid");
    for name in ["nobody", "a%20b", "%ff", "..%2Fitems"] {
        let missing = patch(&api, &format!("/catalogs/{name}/items"), &json!({})).await;
        missing.refuses(404, "Invalid Request");
        let error = &missing.body["errors"][0];
        assert_eq!(error["id"], "catalog-not-found", "{name}: {error}");
        assert_eq!(error["message"], "Could not find catalog");
        assert_eq!(error["parameters"], json!(["catalog_name"]));
        assert_eq!(missing.body["errors"][1]["id"], "item-array-invalid");
    }
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    for (items, codes) in [
        ("null".to_owned(), &["item-array-invalid"][..]),
        ("[]".to_owned(), &["item-array-invalid"]),
        (
            format!("[{}]", "0,".repeat(2_000_000) + "0"),
            &["item-array-invalid", "request-includes-too-many-items"],
        ),
        (deep.clone(), &["item-array-invalid"]),
        (
            format!(r#"[{{"id":"a","City":{deep}}}]"#),
            &["too-deep-nesting-in-value-object", "items-too-large", "unable-to-coerce-value"],
        ),
        (
            r#"[{"id":"a","Nope":1},{"id":"a","City":[]},{}]"#.into(),
            &["items-missing-ids", "ids-not-unique", "invalid-fields", "unable-to-coerce-value"],
        ),
    ] {
        let begin: String = items.chars().take(60).collect();
        let refused = text(ITEMS, format!(r#"{{"items":{items}}}"#)).await;
        refused.refuses(400, "Invalid Request");
        let errors = refused.body["errors"].as_array().expect("errors");
        let found: Vec<_> = errors.iter().map(|error| error["id"].as_str().unwrap()).collect();
        assert_eq!(found, codes, "{begin}");
        assert!(refused.body.to_string().len() < 20_000, "{begin}");
    }
    let metrics = fleet.metrics("standalone").await;
    for line in [
        r#"longshore_catalog_refused_total{code="catalog-not-found"} 8"#,
        r#"longshore_catalog_refused_total{code="ids-not-unique"} 1"#,
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
    assert!(!fleet.printed().contains("panicked"));
    fleet.close().await;
}

async fn a_call_with_a_key_counts_once(backend: Backend) {
    let (fleet, api) = scene(backend, 40).await;
    let body = |rating: u32| -> Value {
        let item = |n| json!({ "id": format!("r{n}"), "Rating": rating });
        json!({ "items": (0..40).map(item).collect::<Vec<_>>() })
    };
    let send = async |path: &str, rating: u32| {
        let request = api.request(Method::PATCH, path).header("idempotency-key", "\"one-key\"");
        answer(request.json(&body(rating))).await
    };
    for _ in 0..3 {
        assert_accepted(&send(ITEMS, 1).await);
    }
    send(ITEMS, 2).await.refuses(422, "different request body");
    assert_accepted(&send("/catalogs/hotels/items", 1).await);
    fleet.applied().await;
    assert_eq!(item(&fleet, "hotels", "r39").await["Rating"], 1, "its key is another");
    for catalog in ["restaurants", "hotels"] {
        let edits = edits(&fleet, catalog).await;
        assert_eq!(edits.len(), 1, "{edits:?}");
        assert_eq!(edits[0]["applied"], 40);
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_with_a_key_counts_once_embedded() {
    a_call_with_a_key_counts_once(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_with_a_key_counts_once_on_kafka() {
    a_call_with_a_key_counts_once(Backend::Fleet(1)).await;
}

/// Sends until it is taken, to one gateway and then to the other.
async fn send_until_accepted(apis: &[Api; 2], first: usize, body: &Value) {
    for attempt in 0..1_000 {
        let request = apis[(first + attempt) % 2].request(Method::PATCH, ITEMS).json(body);
        match request.send().await {
            Ok(response) if response.status() == 202 => return,
            Ok(response) => assert_eq!(response.status(), 503),
            // It was ended.
            Err(_) => {}
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("no gateway takes it");
}

/// Edits items again and again, each time once the former edit was taken; counts these.
async fn edit_in_order(apis: [Api; 2], writer: usize, edits: usize, taken: Arc<AtomicUsize>) {
    for n in 0..edits {
        let items: Vec<Value> = (0..5)
            .map(|k| {
                let last = format!("Last_{}", n % 3);
                json!({ "id": format!("r{}", writer * 5 + k), "N": n, last: n })
            })
            .collect();
        send_until_accepted(&apis, writer + n, &json!({ "items": items })).await;
        taken.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn edits_stay_in_order_despite_crashes() {
    const WRITERS: usize = 8;
    const EDITS: usize = 240;
    let (mut fleet, api) = scene(Backend::Fleet(2), WRITERS * 5).await;
    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    fleet.launch_with("gateway-2", &[("LONGSHORE_LISTEN", &listen)]).await;
    fleet.ready("gateway-2").await;
    let other = Api::new(&format!("http://{listen}"), api.key());
    let taken = Arc::new(AtomicUsize::new(0));
    let edit = |writer| {
        let apis = [api.clone(), other.clone()];
        tokio::spawn(edit_in_order(apis, writer, EDITS, taken.clone()))
    };
    let writers: Vec<_> = (0..WRITERS).map(edit).collect();
    for (quarter, name) in ["worker-1", "gateway-2", "worker-2"].into_iter().enumerate() {
        let so_far = (quarter + 1) * WRITERS * EDITS / 4;
        eventually("so much is taken", async || taken.load(Ordering::Relaxed) >= so_far).await;
        fleet.kill(name);
        if name != "gateway-2" {
            fleet.launch_with(name, &[]).await;
        }
    }
    for writer in writers {
        writer.await.expect("all is taken");
    }
    fleet.applied().await;
    let shown = fleet.run(&["catalogs", "items", "restaurants"]).await;
    let last = |remainder: usize| (0..EDITS).rev().find(|n| n % 3 == remainder).unwrap();
    let mut count = 0;
    for line in shown.lines() {
        let item: Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(item["N"], EDITS - 1, "{item}");
        for remainder in 0..3 {
            assert_eq!(item[format!("Last_{remainder}")], last(remainder), "{item}");
        }
        count += 1;
    }
    assert_eq!(count, WRITERS * 5);
    fleet.close().await;
}
