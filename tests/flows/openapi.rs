//! The API's document against what is answered: all routes, all statuses, all examples. In
//! addition, every response that any flow gets is held against the document
//! ([`crate::support::contract`]).

mod asyncapi;
mod conformance;
mod page;
mod required;
mod world;

use std::collections::BTreeSet;

use flate2::read::GzDecoder;
use longshore::gateway::openapi;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use self::world::{APP, CAMPAIGN, CANVAS, CATALOG, GROUP, RECEIPT, SEGMENT, World, workspace};
use crate::support::api::{Api, ApiResponse, answer};
use crate::support::contract::{CONTRACT, Validator};
use crate::support::fleet::Backend;

const UNKNOWN: &str = "0190b9a6-1c00-7000-8000-000000000000";

/// A path of the document with something in the place of each parameter.
fn filled(path: &str) -> String {
    path.replace("{object_prefix}", &format!("{UNKNOWN}-1"))
        .replace("{catalog_name}", "none")
        .replace("{item_id}", "none")
        .replace("{id}", UNKNOWN)
        .replace("{campaign_id}", UNKNOWN)
        .replace("{path}", "a/b")
        .replace("{provider}", "push")
        .replace("{token}", &"A".repeat(70))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_document_has_every_route_and_no_other() {
    let world = World::start(Backend::Embedded).await;
    let served = world.keyless(Method::GET, "/openapi.json").await;
    // Samples have the address of the server.
    let address = CONTRACT.document["servers"][0]["url"].as_str().unwrap();
    let paths = served.body["paths"].to_string().replace(world.fleet.base(), address);
    assert_eq!(paths, CONTRACT.document["paths"].to_string());
    assert_eq!(served.body["servers"], json!([{ "url": world.fleet.base() }]));
    // Compressed it is the same.
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let call = client.get(format!("{}/openapi.json", world.fleet.base()));
    let gzip = call.header("accept-encoding", "gzip").send().await.unwrap();
    assert_eq!(gzip.headers()["content-encoding"], "gzip");
    for headers in [&served.headers, gzip.headers()] {
        let vary: Vec<_> = headers.get_all("vary").iter().collect();
        assert_eq!(vary, ["accept-encoding"]);
    }
    let gzip = gzip.bytes().await.unwrap();
    let document: Value = serde_json::from_reader(GzDecoder::new(&gzip[..])).unwrap();
    assert_eq!(document, served.body);
    for (path, operations) in CONTRACT.document["paths"].as_object().unwrap() {
        let mut methods: BTreeSet<String> =
            operations.as_object().unwrap().keys().map(|name| name.to_uppercase()).collect();
        if methods.contains("GET") {
            methods.insert("HEAD".into());
        }
        let options = world.keyless(Method::OPTIONS, &filled(path)).await;
        assert_eq!(options.status, 204, "{path}");
        let allowed = options.headers["allow"].to_str().unwrap().split(',').map(str::to_owned);
        assert_eq!(allowed.collect::<BTreeSet<_>>(), methods, "{path}");
    }
    for (path, method, operation) in CONTRACT.operations() {
        let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
        let answer = world.keyless(method.clone(), &filled(path)).await;
        let needs_key = operation["security"] != json!([]);
        assert_eq!(answer.status == 401, needs_key, "{method} {path}: {answer:?}");
        assert_ne!(answer.body["message"], "Unknown path", "{method} {path}");
    }
    world.fleet.close().await;
}

#[test]
fn operations_have_ids_of_their_own() {
    let ids: Vec<&str> =
        CONTRACT.operations().map(|(_, _, one)| one["operationId"].as_str().unwrap()).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{ids:?}");
    let links = CONTRACT.document.to_string();
    for (_, _, operation) in CONTRACT.operations() {
        for (_, response) in operation["responses"].as_object().unwrap() {
            let targets = CONTRACT.resolve(response)["links"].as_object();
            for target in targets.into_iter().flat_map(|links| links.keys()) {
                assert!(ids.contains(&target.as_str()), "{target}");
            }
        }
    }
    assert!(links.contains("\"links\""));
}

/// Visits the keywords of all schemas and their parts, but not the names of properties.
fn for_each_keyword(value: &Value, visit: &mut impl FnMut(&str, &Value, &Value)) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                visit(name, field, value);
                match (name.as_str(), field) {
                    ("properties", Value::Object(properties)) => {
                        properties.values().for_each(|one| for_each_keyword(one, visit));
                    }
                    _ => for_each_keyword(field, visit),
                }
            }
        }
        Value::Array(elements) => elements.iter().for_each(|one| for_each_keyword(one, visit)),
        _ => {}
    }
}

#[test]
fn the_document_for_generators_has_no_keyword_of_later_versions() {
    const LATER: [&str; 24] = [
        "const",
        "$defs",
        "examples",
        "webhooks",
        "$id",
        "$schema",
        "$comment",
        "$anchor",
        "$dynamicRef",
        "if",
        "then",
        "else",
        "prefixItems",
        "contains",
        "minContains",
        "maxContains",
        "propertyNames",
        "patternProperties",
        "dependentRequired",
        "dependentSchemas",
        "unevaluatedItems",
        "unevaluatedProperties",
        "contentMediaType",
        "contentEncoding",
    ];
    let document = openapi::plain(&CONTRACT.document);
    assert_eq!(document["openapi"], "3.0.3");
    let mut keywords = 0;
    for_each_keyword(&document, &mut |name, value, of| {
        keywords += 1;
        assert!(!LATER.contains(&name), "{name}: {of}");
        match name {
            "type" => assert!(value.is_string() && value != "null", "{of}"),
            "exclusiveMinimum" | "exclusiveMaximum" => assert!(value.is_boolean(), "{of}"),
            "$ref" => assert_eq!(of.as_object().unwrap().len(), 1, "{of}"),
            "nullable" => assert!(of.get("type").is_some() || of.get("allOf").is_some(), "{of}"),
            _ => {}
        }
    });
    assert!(keywords > 5_000, "{keywords}");
}

/// Pages show a description once more for each alternative next to it, and generators fail on
/// several types in one.
#[test]
fn schemas_are_as_pages_and_generators_read_them() {
    let mut schemas = 0;
    for_each_keyword(&CONTRACT.document, &mut |name, value, of| {
        let alternatives = || value.as_array().into_iter().flatten();
        schemas += 1;
        match name {
            "type" => assert!(alternatives().filter(|kind| *kind != "null").count() < 2, "{of}"),
            "anyOf" | "oneOf" => {
                assert!(of.get("properties").is_none() || of["description"].is_null(), "{of}");
                for part in alternatives() {
                    let about = &CONTRACT.resolve(part)["description"];
                    assert!(about.is_null() || *about != of["description"], "{of}");
                }
            }
            _ => {}
        }
        if name == "type" && value.to_string().contains("\"array\"") {
            assert!(of.get("items").or(of.get("prefixItems")).is_some(), "{of}");
        }
    });
    assert!(schemas > 5_000, "{schemas}");
}

#[test]
fn both_documents_have_the_same_operations() {
    let plain = openapi::plain(&CONTRACT.document);
    let shape = |document: &Value| {
        let mut operations = Vec::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                let names = |value: &Value| -> Vec<String> {
                    value.as_object().into_iter().flat_map(|map| map.keys().cloned()).collect()
                };
                let parameters = operation["parameters"].as_array().unwrap().iter();
                let parameters = parameters.map(|one| one.get("name").unwrap_or(&one["$ref"]));
                operations.push(json!({
                    "operation": [path, method, operation["operationId"]],
                    "parameters": parameters.collect::<Vec<_>>(),
                    "bodies": names(&operation["requestBody"]["content"]),
                    "statuses": names(&operation["responses"]),
                    "security": operation["security"],
                }));
            }
        }
        operations
    };
    assert_eq!(shape(&plain), shape(&CONTRACT.document));
}

#[test]
fn every_example_is_of_its_schema() {
    let mut examples = 0;
    let mut check = |media: &Value, what: &str| {
        let validator = Validator::new(&media["schema"], &CONTRACT.document);
        let many = media["examples"].as_object().into_iter().flat_map(|all| all.values());
        let many = many.map(|example| &example["value"]);
        for example in media.get("example").into_iter().chain(many) {
            examples += 1;
            assert_eq!(validator.check(example), Ok(()), "{what}: {example}");
        }
    };
    for (path, method, operation) in CONTRACT.operations() {
        let bodies = operation["requestBody"]["content"].as_object();
        for media in bodies.into_iter().flat_map(|content| content.values()) {
            check(media, &format!("{method} {path}"));
        }
        for (status, response) in operation["responses"].as_object().unwrap() {
            let content = CONTRACT.resolve(response)["content"].as_object();
            for media in content.into_iter().flat_map(|content| content.values()) {
                check(media, &format!("{method} {path} {status}"));
            }
        }
    }
    assert!(examples > 60, "{examples}");
}

/// Bodies of requests, and whether the schema must accept them.
#[test]
fn schemas_match_the_accepted_bodies() {
    let past = "2020-01-01T00:00:00Z";
    let purchase = |change: Value| {
        let mut purchase = json!({
            "external_id": "ann", "product_id": "shoes", "currency": "EUR", "price": 1, "time": past,
        });
        let object = purchase.as_object_mut().unwrap();
        object.extend(change.as_object().unwrap().clone());
        object.retain(|_, value| *value != json!("absent"));
        purchase
    };
    let attributes = |change: Value| {
        let mut attributes = json!({ "external_id": "ann" });
        attributes.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        attributes
    };
    for (schema, value, is_taken) in [
        ("TrackRequest", json!({}), false),
        ("TrackRequest", json!({ "purchases": [{}, purchase(json!({}))] }), true),
        ("TrackRequest", json!({ "purchases": [{}], "events": null }), false),
        ("TrackRequest", json!({ "purchases": vec![purchase(json!({})); 75] }), true),
        ("TrackRequest", json!({ "purchases": vec![purchase(json!({})); 76] }), false),
        ("PurchaseObject", purchase(json!({ "quantity": 100, "other": {} })), true),
        ("PurchaseObject", purchase(json!({ "quantity": 101 })), false),
        ("PurchaseObject", purchase(json!({ "quantity": null, "app_id": null })), true),
        ("PurchaseObject", purchase(json!({ "price": -1 })), false),
        ("PurchaseObject", purchase(json!({ "price": 9e12 })), true),
        ("PurchaseObject", purchase(json!({ "price": 9e12, "quantity": 100 })), false),
        ("PurchaseObject", purchase(json!({ "currency": "DEM" })), false),
        ("PurchaseObject", purchase(json!({ "currency": "eur" })), false),
        ("PurchaseObject", purchase(json!({ "time": "absent" })), false),
        ("PurchaseObject", purchase(json!({ "time": "2021-06-28T17:02:43:032+0000" })), true),
        ("PurchaseObject", purchase(json!({ "time": "yesterday" })), false),
        ("PurchaseObject", purchase(json!({ "time": "2020-02-29T17:02:43-18:00" })), true),
        ("PurchaseObject", purchase(json!({ "time": "2020-02-29T17:02:43-18:01" })), false),
        ("PurchaseObject", purchase(json!({ "properties": { "a": [{ "b": null }] } })), true),
        ("PurchaseObject", purchase(json!({ "properties": { "price": 1 } })), false),
        ("PurchaseObject", purchase(json!({ "properties": { "$a": 1 } })), false),
        ("PurchaseObject", purchase(json!({ "properties": { "a": "x".repeat(256) } })), false),
        ("PurchaseObject", purchase(json!({ "external_id": null })), false),
        ("PurchaseObject", purchase(json!({ "external_id": null, "email": "a@b" })), true),
        ("PurchaseObject", purchase(json!({ "service_id": "no uuid" })), true),
        ("PurchaseObject", purchase(json!({ "external_id": "", "email": "a@b" })), false),
        ("AttributeObject", attributes(json!({ "tier": "gold", "n": { "inc": 1 } })), true),
        ("AttributeObject", attributes(json!({ "n": { "inc": "1" } })), false),
        ("AttributeObject", attributes(json!({ "n": { "inc": 1, "add": [] } })), false),
        ("AttributeObject", attributes(json!({ "n": { "inc": 1, "more": 1 } })), true),
        ("AttributeObject", attributes(json!({ "gender": "nil", "phone": "", "dob": null })), true),
        ("AttributeObject", attributes(json!({ "dob": "2001-02-29" })), false),
        ("AttributeObject", attributes(json!({ "purchases": [] })), false),
        ("AttributeObject", attributes(json!({ "email": "no address" })), false),
        ("AttributeObject", attributes(json!({ "email": "a@b.co>" })), false),
        ("AttributeObject", attributes(json!({ "email": "a@b@c.co" })), false),
        ("AttributeObject", attributes(json!({ "email": "a@-b.co" })), false),
        ("AttributeObject", attributes(json!({ "email": "o'x+y..z@bücher.example" })), true),
        ("AttributeObject", attributes(json!({ "country": "NO", "language": "nb" })), true),
        ("AttributeObject", attributes(json!({ "country": "ZZ" })), false),
        ("AttributeObject", attributes(json!({ "language": "zz" })), false),
        ("ExportRequest", json!({ "fields_to_export": ["email", "custom_attributes.x"] }), true),
        ("ExportRequest", json!({ "fields_to_export": [] }), false),
        ("ExportRequest", json!({ "fields_to_export": ["e-mail"] }), false),
        (
            "ExportRequest",
            json!({ "fields_to_export": ["email"], "callback_endpoint": "https://a.example/x?y" }),
            true,
        ),
        ("ExportRequest", callback(json!("ftp://a.example")), false),
        ("ExportRequest", callback(json!(null)), true),
        ("ExportRequest", callback(json!("")), true),
        ("ExportRequest", callback(json!("https://Hooks.Example.COM/x")), true),
        ("ExportRequest", callback(json!("http://a.example:65535/")), true),
        ("ExportRequest", callback(json!("http://a.example:65536/")), false),
        ("ExportRequest", callback(json!("https://3scale.1and1.example/")), true),
        ("ExportRequest", callback(json!("https://*.example.com/")), false),
        ("ExportRequest", callback(json!("http://localhost:1/")), false),
        ("SearchRequest", search(json!({ "attributes": ["id"], "count": null })), true),
        ("SearchRequest", search(json!({ "attributes": vec!["id"; 101] })), false),
        ("SearchRequest", search(json!({ "excludedAttributes": vec!["id"; 101] })), false),
        (
            "SearchRequest",
            search(json!({ "attributes": ["id"], "excludedAttributes": ["id"] })),
            false,
        ),
        ("SearchRequest", search(json!({ "attributes": [], "excludedAttributes": ["id"] })), true),
        ("TransactionalSend", json!({ "recipient": { "external_user_id": "ann" } }), true),
        ("TransactionalSend", json!({ "recipient": {} }), false),
        (
            "TransactionalSend",
            json!({ "recipient": { "external_user_id": "a", "attributes": { "tier": 1 } } }),
            true,
        ),
        (
            "TransactionalSend",
            json!({ "recipient": { "external_user_id": "a", "attributes": { "external_id": "b" } } }),
            false,
        ),
        (
            "TransactionalSend",
            json!({ "recipient": { "external_user_id": "a" }, "external_send_id": "aZ09-_+\\/=" }),
            true,
        ),
        (
            "TransactionalSend",
            json!({ "recipient": { "external_user_id": "a" }, "external_send_id": "a b" }),
            false,
        ),
        ("PhoneNumbers", json!({ "phone_numbers": ["+15550100", "15550100"] }), true),
        ("PhoneNumbers", json!({ "phone_numbers": ["555"] }), false),
        ("PhoneNumbers", json!({ "phone_numbers": vec!["+15550100"; 51] }), false),
        ("EditRequest", json!({ "items": [{ "id": "a-1", "b": { "c": [null] } }] }), true),
        ("EditRequest", json!({ "items": [{ "id": "a b" }] }), false),
        ("EditRequest", json!({ "items": [{ "id": "a", "b": { "c.d": 1 } }] }), false),
        ("SendRequest", send(json!({ "external_user_ids": ["ann"] })), true),
        ("SendRequest", send(json!({ "external_user_ids": vec!["ann"; 51] })), false),
        ("SendRequest", send(json!({ "external_user_ids": [""] })), false),
        ("SendRequest", send(json!({ "external_user_ids": ["a"], "broadcast": true })), false),
        ("SendRequest", send(json!({ "recipients": [{ "external_user_id": "a" }] })), false),
        (
            "SendRequest",
            send(json!({
                "recipients": [{ "external_user_id": "a" }], "external_user_ids": ["b"],
            })),
            true,
        ),
        (
            "SendRequest",
            send(json!({
                "recipients": [{ "external_user_id": "a" }],
                "segment_id": "5f0e6b1a-9c3d-4e7f-8a2b-1c0d9e8f7a6b",
            })),
            true,
        ),
        ("SendRequest", send(json!({ "recipients": [{}] })), false),
        ("SendRequest", send(json!({ "broadcast": true })), false),
        ("SendRequest", send(json!({ "segment_id": UNKNOWN })), false),
        ("SendRequest", send(json!({ "segment_id": UNKNOWN, "broadcast": true })), true),
        ("SendRequest", send(json!({ "audience": exists(), "broadcast": true })), true),
        (
            "SendRequest",
            send(json!({ "audience": exists(), "broadcast": true, "user_aliases": [] })),
            true,
        ),
        (
            "SendRequest",
            send(json!({ "audience": exists(), "external_user_ids": ["a"], "messages": null })),
            false,
        ),
        ("SendRequest", send(json!({ "external_user_ids": ["a"], "send_id": "é" })), false),
        ("SendRequest", email(json!({ "from": "a@acme.example", "body": "b" })), true),
        ("SendRequest", email(json!({ "from": "a@acme.example" })), false),
        ("SendRequest", email(json!({ "email_template_id": UNKNOWN })), true),
        ("SendRequest", email(json!({ "email_template_id": UNKNOWN, "subject": null })), true),
        ("SendRequest", email(json!({ "email_template_id": null })), false),
        (
            "ScheduleMessagesRequest",
            send(json!({ "external_user_ids": ["a"], "schedule": { "time": past } })),
            true,
        ),
        ("ScheduleMessagesRequest", send(json!({ "external_user_ids": ["a"] })), false),
        (
            "ScheduleMessagesRequest",
            json!({ "external_user_ids": ["a"], "schedule": { "time": past } }),
            false,
        ),
        (
            "ScheduleMessagesRequest",
            json!({
                "external_user_ids": ["a"], "schedule": { "time": past }, "campaign_id": UNKNOWN,
            }),
            true,
        ),
        ("ConnectedAudience", json!({ "AND": [{ "OR": [exists()] }] }), true),
        ("ConnectedAudience", json!({ "AND": [] }), false),
        ("ConnectedAudience", json!({ "AND": [exists()], "OR": [exists()] }), false),
        ("ConnectedAudience", json!({ "last_used_app": { "comparison": "is" } }), false),
    ] {
        let schema = &CONTRACT.document["components"]["schemas"][schema];
        let checked = Validator::new(schema, &CONTRACT.document).check(&value);
        assert_eq!(checked.is_ok(), is_taken, "{value}: {checked:?}");
    }
}

fn callback(address: Value) -> Value {
    json!({ "fields_to_export": ["email"], "callback_endpoint": address })
}

fn search(mut members: Value) -> Value {
    members["schemas"] = json!(["urn:ietf:params:scim:api:messages:2.0:SearchRequest"]);
    members
}

/// A key of one request is refused with the body of another.
#[test]
fn each_example_of_a_body_has_a_key_of_its_own() {
    let mut seen = BTreeSet::new();
    for (path, method, operation) in CONTRACT.operations() {
        let parameters = operation["parameters"].as_array().unwrap();
        let is_key = |one: &&Value| CONTRACT.resolve(one)["name"] == "Idempotency-Key";
        let Some(key) = parameters.iter().find(is_key) else { continue };
        let keys = CONTRACT.resolve(key)["examples"].as_object().unwrap();
        let media = operation["requestBody"]["content"]["application/json"].as_object();
        let bodies = media.map_or(1, |media| media["examples"].as_object().unwrap().len());
        assert_eq!(keys.len(), bodies, "{method} {path}");
        for example in keys.values() {
            assert!(seen.insert(example["value"].to_string()), "{method} {path}: {example}");
        }
    }
    assert!(seen.len() > 8, "{seen:?}");
}

/// A send with these members.
fn send(members: Value) -> Value {
    let mut send = json!({
        "messages": { "webhook": { "url": "https://a.example/", "request_method": "GET" } },
    });
    for (name, value) in members.as_object().unwrap() {
        send[name] = value.clone();
    }
    send
}

/// A send of an email with these fields.
fn email(members: Value) -> Value {
    let mut email = json!({ "app_id": "web" });
    email.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    send(json!({ "external_user_ids": ["a"], "messages": { "email": email } }))
}

fn exists() -> Value {
    json!({ "custom_attribute": { "custom_attribute_name": "x", "comparison": "exists" } })
}

/// The operations' responses that were seen, each held against the document by [`answer`].
#[derive(Default)]
struct Seen(BTreeSet<(String, u16)>);

impl Seen {
    async fn see(&mut self, request: reqwest::RequestBuilder, status: u16) -> ApiResponse {
        let built = request.try_clone().expect("a body that is there").build().expect("a request");
        let (method, path) = (built.method().clone(), built.url().path().to_owned());
        let answer = answer(request).await;
        assert_eq!(answer.status.as_u16(), status, "{method} {path}: {answer:?}");
        let operation = CONTRACT.operation(&method, &path).expect("an operation");
        self.0.insert((operation["operationId"].as_str().unwrap().to_owned(), status));
        answer
    }
}

/// Statuses that need a fault, a slow client or 4 MiB to come about: flows of the gateway have
/// them, which answer all calls alike there.
const ELSEWHERE: [u16; 5] = [408, 413, 429, 500, 503];

#[tokio::test(flavor = "multi_thread")]
async fn every_status_is_answered_as_it_is_described() {
    let mut world = World::start(Backend::Fleet(1)).await;
    let mut seen = Seen::default();
    check_common_responses(&world, &mut seen).await;
    tracking(&world, &mut seen).await;
    exports(&mut world, &mut seen).await;
    the_rest_of_workspaces(&world, &mut seen).await;
    users_and_catalogs(&world, &mut seen).await;
    campaigns_and_schedules(&world, &mut seen).await;
    transactional(&world, &mut seen).await;
    reports(&world, &mut seen).await;
    scim(&world, &mut seen).await;
    let described = CONTRACT.operations().flat_map(|(_, _, operation)| {
        let id = operation["operationId"].as_str().unwrap();
        let statuses = operation["responses"].as_object().unwrap().keys();
        statuses.map(move |status| (id.to_owned(), status.parse().unwrap()))
    });
    let missing: Vec<(String, u16)> = described
        .filter(|(id, status)| {
            // Of a key whose first request is in progress; of users 409 is another's name as well.
            let is_under_way =
                *status == 409 && !["createUser", "patchUser"].contains(&id.as_str());
            let is_under_way =
                is_under_way && !["cancelExport", "replaceUser"].contains(&id.as_str());
            // An address that has expired was valid for minutes.
            let is_old = (id.as_str(), *status) == ("downloadFile", 403);
            let is_elsewhere = ELSEWHERE.contains(status) || is_under_way || is_old;
            !is_elsewhere && !seen.0.contains(&(id.clone(), *status))
        })
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    world.fleet.close().await;
}

/// What is refused alike: without a key, with one that may not, with a body of another type or
/// none at all, with a bad `Idempotency-Key`, and with one of another body.
async fn check_common_responses(world: &World, seen: &mut Seen) {
    // Two who may do one thing each: one of them may not what a call needs.
    const MAY: [&str; 2] = ["users.track", "campaigns.list"];
    let few = MAY.map(|permission| {
        let mut few = workspace(permission).permitted(&[permission]);
        few.percent = None;
        few
    });
    let [first, second] = few;
    let mut few = world.fleet.apply(&[workspace_as(world), first, second]).await;
    let (second, first) = (few.pop().unwrap(), few.pop().unwrap());
    let far = ["scim-token", "create", "--name", "far", "--allow", "198.51.100.0/24"];
    let far = Api::new(world.fleet.base(), world.fleet.run(&far).await.trim());
    for (path, method, operation) in CONTRACT.operations() {
        let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
        let path = filled(path).replace("/none/", &format!("/{CATALOG}/"));
        let keyed = || {
            let request = world.keyed(method.clone(), &path);
            request.header("x-request-origin", "idp.acme.example")
        };
        let has = |status: &str| operation["responses"].get(status).is_some();
        if has("401") {
            let url = format!("{}{path}", world.fleet.base());
            seen.see(reqwest::Client::new().request(method.clone(), url), 401).await;
        }
        if operation["x-permission"].is_string() {
            let may_not = if operation["x-permission"] == MAY[0] { &second } else { &first };
            seen.see(may_not.request(method.clone(), &path), 403).await;
        } else if has("403") && path.starts_with("/scim") {
            seen.see(far.request(method.clone(), &path), 403).await;
        }
        let is_signed = operation["security"] == json!([{ "Signature": [] }]);
        let has_json = |kind: &str| operation["requestBody"]["content"][kind].is_object();
        if has_json("application/json") || has_json("application/scim+json") {
            let twice = r#"{"other":[{"field":1,"fiel\u0064":2}]}"#;
            let request = if is_signed { world.signed(&path, twice) } else { keyed().body(twice) };
            let refused = seen.see(request.header("content-type", "application/json"), 400).await;
            let text = refused.body.to_string();
            assert!(text.contains("field: duplicate field"), "{method} {path}: {text}");
        }
        if has("415") && !is_signed {
            seen.see(keyed().body("{}"), 415).await;
            let malformed = keyed().header("content-type", "application/json").body("{");
            seen.see(malformed, 400).await;
        }
    }
}

/// The workspace of the world's key.
fn workspace_as(world: &World) -> crate::support::WorkspaceFile {
    let mut file = workspace("acme");
    file.key = world.api.key().to_owned();
    file
}

async fn tracking(world: &World, seen: &mut Seen) {
    let track = |body: Value| world.api.request(Method::POST, "/users/track").json(&body);
    let ann = json!({ "external_id": "ann", "visits": { "inc": 1 } });
    seen.see(track(json!({ "attributes": [ann, { "gender": 5 }] })), 201).await;
    seen.see(track(json!({ "attributes": [{ "gender": 5 }] })), 400).await;
    seen.see(track(json!({ "attributes": vec![ann.clone(); 76] })), 400).await;
    seen.see(track(json!({})).header("idempotency-key", "é"), 400).await;
    let once = |body: Value| track(body).header("idempotency-key", "\"track\"");
    seen.see(once(json!({ "attributes": [ann] })), 201).await;
    seen.see(once(json!({ "attributes": [{ "external_id": "ben", "visits": 1 }] })), 422).await;
}

async fn exports(world: &mut World, seen: &mut Seen) {
    let get = |path: &str| world.api.request(Method::GET, path);
    let ask = |body: Value| {
        let path = "/users/export/global_control_group";
        world.api.request(Method::POST, path).json(&body)
    };
    let wanted = json!({ "fields_to_export": ["email"] });
    seen.see(ask(json!({ "fields_to_export": ["e-mail"] })), 400).await;
    seen.see(ask(wanted.clone()).header("idempotency-key", "a"), 201).await;
    seen.see(ask(json!({ "fields_to_export": ["gender"] })).header("idempotency-key", "a"), 422)
        .await;
    let accepted = world.api.export(&wanted).await;
    world.api.done(&accepted.prefix).await;
    let path = format!("/users/export/{}", accepted.prefix);
    seen.see(get(&path), 200).await;
    seen.see(world.api.request(Method::DELETE, &path), 409).await;
    let page = seen.see(get("/users/export?limit=1"), 200).await;
    let cursor = page.body["next_cursor"].as_str().expect("there are two exports");
    seen.see(get(&format!("/users/export?cursor={cursor}")), 200).await;
    for wrong in ["limit=0", "limit=%2B1", "limit=1&limit=1", "cursor=", "cursor=x"] {
        seen.see(get(&format!("/users/export?{wrong}")), 400).await;
    }
    let unknown = filled("/users/export/{object_prefix}");
    seen.see(get(&unknown), 404).await;
    seen.see(world.api.request(Method::DELETE, &unknown), 404).await;
    seen.see(get(&format!("{path}/download?signature=x")), 404).await;
    let address = accepted.address().strip_prefix(world.fleet.base()).unwrap();
    let found = seen.see(get(address), 302).await;
    let file = found.headers["location"].to_str().unwrap();
    let file = file.strip_prefix(world.fleet.base()).unwrap();
    seen.see(get("/objects/a/b"), 404).await;
    let whole = seen.see(get(file), 200).await;
    seen.see(get(file).header("range", "bytes=0-1"), 206).await;
    seen.see(get(file).header("range", "bytes=1000000-"), 416).await;
    let modified = whole.headers["last-modified"].to_str().unwrap();
    seen.see(get(file).header("if-modified-since", modified), 304).await;
    let long_ago = "Thu, 01 Jan 1970 00:00:00 GMT";
    seen.see(get(file).header("if-unmodified-since", long_ago), 412).await;
    seen.see(get(file).header("if-none-match", "*"), 304).await;
    seen.see(get(file).header("if-match", "\"x\""), 412).await;
    // Nobody works on this one before it is cancelled.
    world.fleet.stop("worker-1");
    let get = |path: &str| world.api.request(Method::GET, path);
    let waiting = world.api.export(&wanted).await;
    seen.see(get(waiting.address().strip_prefix(world.fleet.base()).unwrap()), 403).await;
    let path = format!("/users/export/{}", waiting.prefix);
    seen.see(world.api.request(Method::DELETE, &path), 200).await;
    world.fleet.resume("worker-1");
}

async fn the_rest_of_workspaces(world: &World, seen: &mut Seen) {
    let api = &world.api;
    for document in ["/openapi.json", "/openapi-3.0.json"] {
        seen.see(api.request(Method::GET, document), 200).await;
    }
    seen.see(api.request(Method::GET, "/docs"), 200).await;
    let script = CONTRACT.operations().find(|(path, _, _)| path.starts_with("/docs/"));
    seen.see(api.request(Method::GET, script.unwrap().0), 200).await;
    seen.see(api.request(Method::GET, "/campaigns/list?page=0"), 200).await;
    seen.see(api.request(Method::GET, "/campaigns/list?page=x"), 400).await;
    let edit = |catalog: &str, id: &str| {
        let body = json!({ "items": [{ "id": id, "City": "Oslo" }] });
        api.request(Method::PATCH, &format!("/catalogs/{catalog}/items")).json(&body)
    };
    seen.see(edit(CATALOG, "a").header("idempotency-key", "a"), 202).await;
    seen.see(edit(CATALOG, "b").header("idempotency-key", "a"), 422).await;
    seen.see(edit(CATALOG, "a b"), 400).await;
    seen.see(edit("none", "a"), 404).await;
    let post = |path: &str, body: &Value| api.request(Method::POST, path).json(body);
    let once = |path: &str, body: &Value| post(path, body).header("idempotency-key", "a");
    let (create, delete) = ("/canvas/trigger/schedule/create", "/canvas/trigger/schedule/delete");
    let mut schedule = json!({
        "canvas_id": CANVAS, "broadcast": true, "schedule": { "time": "2127-01-01" },
    });
    let made = seen.see(once(create, &schedule), 201).await;
    schedule["schedule"]["time"] = "2128-01-01".into();
    seen.see(once(create, &schedule), 422).await;
    schedule["schedule"]["time"] = "2020-01-01".into();
    seen.see(post(create, &schedule), 400).await;
    schedule["schedule"]["time"] = "2127-01-01".into();
    schedule["canvas_id"] = UNKNOWN.into();
    seen.see(post(create, &schedule), 404).await;
    let mut deletion = json!({ "canvas_id": CANVAS, "schedule_id": UNKNOWN });
    seen.see(post(delete, &deletion), 404).await;
    deletion["schedule_id"] = made.body["schedule_id"].clone();
    seen.see(once(delete, &deletion), 201).await;
    deletion["more"] = true.into();
    seen.see(once(delete, &deletion), 422).await;
    let webhook = json!({ "url": "https://hooks.acme.example/", "request_method": "GET" });
    let mut message = json!({
        "external_user_ids": ["ann"], "messages": { "webhook": webhook },
        "schedule": { "time": "2127-01-01" },
    });
    for path in ["/messages/send", "/messages/schedule/create"] {
        seen.see(once(path, &message), 201).await;
        message["send_id"] = "x".into();
        seen.see(once(path, &message), 422).await;
        let wrong = json!({ "broadcast": true, "segment_id": UNKNOWN });
        seen.see(post(path, &wrong), 400).await;
        message["send_id"] = Value::Null;
    }
    let start = "/messages/live_activity/start";
    let mut activity = json!({
        "app_id": APP, "activity_id": "a", "activity_attributes_type": "Delivery",
        "activity_attributes": {}, "content_state": {}, "notification": { "alert": "Here" },
        "segment_id": SEGMENT,
    });
    seen.see(once(start, &activity), 201).await;
    activity["activity_id"] = "b".into();
    seen.see(once(start, &activity), 422).await;
    activity["external_user_ids"] = json!(["ann"]);
    seen.see(post(start, &activity), 400).await;
    let preview = "/templates/preview";
    seen.see(post(preview, &json!({ "template": "{{${first_name}}}" })), 200).await;
    seen.see(post(preview, &json!({ "template": "{{${frist_name}}}" })), 400).await;
    let remove = "/sms/invalid_phone_numbers/remove";
    seen.see(once(remove, &json!({ "phone_numbers": ["+15550100"] })), 201).await;
    seen.see(once(remove, &json!({ "phone_numbers": ["+15550101"] })), 422).await;
    seen.see(post(remove, &json!({ "phone_numbers": [] })), 400).await;
}

/// A body, then another one under the same key.
async fn once_and_again(
    world: &World,
    seen: &mut Seen,
    (method, path): (Method, &str),
    body: &Value,
    status: u16,
) -> ApiResponse {
    let once = |body: &Value| {
        let request = world.api.request(method.clone(), path).json(body);
        request.header("idempotency-key", "again")
    };
    let answer = seen.see(once(body), status).await;
    let mut other = body.clone();
    other["more"] = true.into();
    seen.see(once(&other), 422).await;
    answer
}

async fn users_and_catalogs(world: &World, seen: &mut Seen) {
    let alias = json!({ "alias_name": "n", "alias_label": "l" });
    let merge = json!({
        "identifier_to_merge": { "external_id": "x" }, "identifier_to_keep": { "external_id": "y" },
    });
    let rename = json!({ "current_external_id": "x", "new_external_id": "y" });
    let update = json!({ "alias_label": "l", "old_alias_name": "n", "new_alias_name": "m" });
    let identify = json!({ "external_id": "x", "user_alias": alias });
    let group = json!({ "subscription_group_id": GROUP, "subscription_state": "subscribed" });
    let (mut one, mut many) = (group.clone(), group);
    one["external_id"] = "x".into();
    many["external_ids"] = json!(["x"]);
    let fields = json!([{ "name": "id", "type": "string" }]);
    for (path, body, status) in [
        ("/users/delete", json!({ "external_ids": ["x"] }), 201),
        ("/users/alias/new", json!({ "user_aliases": [alias] }), 201),
        ("/users/alias/update", json!({ "alias_updates": [update] }), 201),
        ("/users/identify", json!({ "aliases_to_identify": [identify] }), 201),
        ("/users/merge", json!({ "merge_updates": [merge] }), 202),
        ("/users/external_ids/rename", json!({ "external_id_renames": [rename] }), 201),
        ("/users/external_ids/remove", json!({ "external_ids": ["x"] }), 201),
        ("/subscription/status/set", one, 201),
        ("/v2/subscription/status/set", json!({ "subscription_groups": [many] }), 201),
        ("/email/status", json!({ "email": "a@b", "subscription_state": "subscribed" }), 201),
        ("/catalogs", json!({ "catalogs": [{ "name": "made", "fields": fields }] }), 201),
    ] {
        once_and_again(world, seen, (Method::POST, path), &body, status).await;
    }
    let get = |path: &str| world.api.request(Method::GET, path);
    let state = format!("/subscription/status/get?subscription_group_id={GROUP}");
    seen.see(get(&format!("{state}&external_id=x")), 200).await;
    seen.see(get(&state), 400).await;
    seen.see(get("/catalogs"), 200).await;
    for (method, item) in [
        (Method::POST, json!({ "id": "a", "City": "Oslo" })),
        (Method::PUT, json!({ "id": "a", "City": "Rome" })),
        (Method::DELETE, json!({ "id": "a" })),
    ] {
        let (items, none) = (format!("/catalogs/{CATALOG}/items"), "/catalogs/none/items");
        let body = json!({ "items": [item] });
        once_and_again(world, seen, (method.clone(), &items), &body, 202).await;
        seen.see(world.api.request(method, none).json(&body), 404).await;
    }
    let (one, none) = (format!("/catalogs/{CATALOG}/items/b"), "/catalogs/none/items/b");
    let body = json!({ "items": [{ "City": "Oslo" }] });
    for method in [Method::POST, Method::PUT, Method::PATCH] {
        once_and_again(world, seen, (method.clone(), &one), &body, 202).await;
        seen.see(world.api.request(method, none).json(&body), 404).await;
    }
    world.fleet.applied().await;
    seen.see(get(&one), 200).await;
    seen.see(get(none), 404).await;
    seen.see(get(&format!("/catalogs/{CATALOG}/items")), 200).await;
    seen.see(get(&format!("/catalogs/{CATALOG}/items?cursor=")), 400).await;
    seen.see(get("/catalogs/none/items"), 404).await;
    let delete = |path: &str| world.api.request(Method::DELETE, path);
    seen.see(delete(&one), 202).await;
    seen.see(delete(&format!("/catalogs/{CATALOG}/items/a%20b")), 400).await;
    seen.see(delete(none), 404).await;
    seen.see(delete("/catalogs/made"), 202).await;
    seen.see(delete("/catalogs/made"), 404).await;
}

async fn campaigns_and_schedules(world: &World, seen: &mut Seen) {
    let get = |path: &str| world.api.request(Method::GET, path);
    for (path, good) in [
        ("/canvas/list", "page=0".to_owned()),
        ("/segments/list", "page=0".to_owned()),
        ("/purchases/product_list", "page=0".to_owned()),
        ("/messages/scheduled_broadcasts", "end_time=2128-01-01".to_owned()),
        ("/campaigns/details", format!("campaign_id={CAMPAIGN}")),
        ("/segments/details", format!("segment_id={SEGMENT}")),
    ] {
        seen.see(get(&format!("{path}?{good}")), 200).await;
        let name = good.split('=').next().unwrap();
        seen.see(get(&format!("{path}?{name}=")), 400).await;
        if path.ends_with("/details") {
            seen.see(get(&format!("{path}?{name}={UNKNOWN}")), 404).await;
        }
    }
    let ann = json!([{ "external_user_id": "ann" }]);
    let campaign = json!({ "campaign_id": CAMPAIGN, "recipients": ann });
    let canvas = json!({ "canvas_id": CANVAS, "recipients": ann });
    let send = "/campaigns/trigger/send";
    once_and_again(world, seen, (Method::POST, send), &campaign, 201).await;
    let send = "/canvas/trigger/send";
    once_and_again(world, seen, (Method::POST, send), &canvas, 201).await;
    let unknown = json!({ "canvas_id": UNKNOWN, "recipients": ann });
    seen.see(world.api.request(Method::POST, send).json(&unknown), 404).await;
    let webhook = json!({ "url": "https://hooks.acme.example/", "request_method": "GET" });
    let messages = json!({ "external_user_ids": ["ann"], "messages": { "webhook": webhook } });
    for (path, mut body) in [
        ("/messages/schedule", messages),
        ("/campaigns/trigger/schedule", campaign),
        ("/canvas/trigger/schedule", canvas),
    ] {
        body["schedule"] = json!({ "time": "2127-01-01" });
        let post = |call: &str, body: &Value| {
            world.api.request(Method::POST, &format!("{path}/{call}")).json(body)
        };
        if path.starts_with("/campaigns") {
            let create = format!("{path}/create");
            once_and_again(world, seen, (Method::POST, &create), &body, 201).await;
        }
        let made = seen.see(post("create", &body), 201).await;
        let mut named = body.clone();
        for name in ["messages", "external_user_ids", "recipients"] {
            named.as_object_mut().unwrap().remove(name);
        }
        for call in ["update", "delete"] {
            named["schedule_id"] = UNKNOWN.into();
            seen.see(post(call, &named), 404).await;
            named["schedule_id"] = made.body["schedule_id"].clone();
            let at = format!("{path}/{call}");
            if at != "/canvas/trigger/schedule/delete" {
                once_and_again(world, seen, (Method::POST, &at), &named, 201).await;
            }
        }
    }
}

async fn transactional(world: &World, seen: &mut Seen) {
    let send = |campaign: &str, body: &Value| {
        let path = format!("/transactional/v1/campaigns/{campaign}/send");
        world.api.request(Method::POST, &path).json(body)
    };
    let once = |body: &Value| send(RECEIPT, body).header("idempotency-key", "a");
    let mut body = json!({
        "external_send_id": "order-1", "recipient": { "external_user_id": "ann" },
    });
    seen.see(once(&body), 201).await;
    seen.see(send(RECEIPT, &body), 200).await;
    seen.see(send(UNKNOWN, &body), 200).await;
    body["external_send_id"] = "order-2".into();
    seen.see(once(&body), 422).await;
    seen.see(send(UNKNOWN, &body), 404).await;
    seen.see(send("none", &body), 400).await;
    seen.see(send(RECEIPT, &json!({})), 400).await;
}

async fn reports(world: &World, seen: &mut Seen) {
    let number = json!({ "reports": [{ "type": "invalid_number", "number": "+15550177" }] });
    let email = json!({ "events": [{ "type": "delivered", "id": "<a@acme.example>" }] });
    for (path, good) in [("/feedback/push", number), ("/email/events", email)] {
        let signed =
            |body: &str| world.signed(path, body).header("content-type", "application/json");
        seen.see(signed(&good.to_string()), 200).await;
        seen.see(signed("{}"), 400).await;
        seen.see(signed("{"), 400).await;
        seen.see(world.signed(path, "{}"), 415).await;
    }
    seen.see(world.signed("/feedback/fax", "{}"), 404).await;
    let key = world.fleet.config().secret_key().expect("a secret key");
    let user = longshore::users::service_id::new(1_600_000_000_000, 1, 77, 9);
    let record = json!({ "service_id": user, "external_id": "reader" });
    world.fleet.import("acme", &[record.to_string()]).await;
    let token = |user| longshore::messages::unsubscribe_token::token(&key, 1, user);
    let unknown = Uuid::parse_str(UNKNOWN).expect("an id");
    for method in [Method::GET, Method::POST] {
        let at = |token: &str| {
            let url = format!("{}/email/unsubscribe/{token}", world.fleet.base());
            reqwest::Client::new().request(method.clone(), url)
        };
        seen.see(at(&token(user)), 200).await;
        seen.see(at(&token(unknown)), 410).await;
        seen.see(at("none"), 404).await;
    }
}

async fn scim(world: &World, seen: &mut Seen) {
    let get = |path: &str| world.scim(Method::GET, path);
    let user = |name: &str| {
        json!({
            "schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"], "userName": name,
            "name": { "givenName": "Ann", "familyName": "Lee" }, "externalId": "7",
            "department": "Sales",
            "permissions": {
                "companyPermissions": ["admin"],
                "appGroup": [{ "appGroupName": "acme", "appGroupPermissions": ["x"],
                               "team": [{ "teamName": "t", "teamPermissions": ["y"] }] }],
            },
        })
    };
    let group = |name: &str| json!({ "schemas": ["urn:ietf:params:scim:schemas:core:2.0:Group"], "displayName": name });
    scim_resources(world, seen, "/Users", "userName", user).await;
    scim_resources(world, seen, "/Groups", "displayName", group).await;
    let search =
        json!({ "schemas": ["urn:ietf:params:scim:api:messages:2.0:SearchRequest"], "count": 1.0 });
    for path in ["/.search", "/Users/.search", "/Groups/.search"] {
        seen.see(world.scim(Method::POST, path).json(&search), 200).await;
    }
    for path in ["/ServiceProviderConfig", "/ResourceTypes", "/ResourceTypes/User", "/Schemas"] {
        seen.see(get(path), 200).await;
    }
    seen.see(get("/Schemas/urn:ietf:params:scim:schemas:core:2.0:User"), 200).await;
    for list in ["/ResourceTypes", "/Schemas"] {
        seen.see(get(&format!("{list}?filter=x")), 403).await;
        seen.see(get(&format!("{list}/none")), 404).await;
    }
}

/// The requests about one kind of resources; `key` is the attribute with their names.
async fn scim_resources(
    world: &World,
    seen: &mut Seen,
    endpoint: &str,
    key: &str,
    one: impl Fn(&str) -> Value,
) {
    let get = |path: &str| world.scim(Method::GET, path);
    let create = || world.scim(Method::POST, endpoint);
    let made =
        create().json(&one("ann@acme.example")).header("idempotency-key", format!("a{endpoint}"));
    let made = seen.see(made, 201).await;
    seen.see(create().json(&one("ann@acme.example")), 409).await;
    seen.see(
        create().json(&one("b@acme.example")).header("idempotency-key", format!("a{endpoint}")),
        422,
    )
    .await;
    let bob = seen.see(create().json(&one("bob@acme.example")), 201).await;
    let at = |one: &ApiResponse| format!("{endpoint}/{}", one.body["id"].as_str().unwrap());
    let (ann, bob, nobody) = (at(&made), at(&bob), format!("{endpoint}/{UNKNOWN}"));
    seen.see(get(&format!("{endpoint}?count=1&filter={key}%20sw%20%22a%22")), 200).await;
    for wrong in ["filter=x", "count=1&count=1", "attributes=id&excludedAttributes=id"] {
        seen.see(get(&format!("{endpoint}?{wrong}")), 400).await;
    }
    seen.see(get(&format!("{ann}?attributes=meta.location")), 200).await;
    seen.see(get(&ann).header("if-none-match", "*"), 304).await;
    seen.see(get(&nobody), 404).await;
    seen.see(world.keyed(Method::GET, &format!("/scim/v2{ann}")), 400).await;
    let patch = json!({
        "schemas": ["urn:ietf:params:scim:api:messages:2.0:PatchOp"],
        "Operations": [{ "op": "replace", "path": key, "value": "bob@acme.example" }],
    });
    let mut good = patch.clone();
    good["Operations"][0]["value"] = "ann2@acme.example".into();
    for (method, body, good) in [
        (Method::PUT, one("bob@acme.example"), one("ann@acme.example")),
        (Method::PATCH, patch, good),
    ] {
        let change = |path: &str| world.scim(method.clone(), path);
        seen.see(change(&ann).json(&good), 200).await;
        seen.see(change(&ann).json(&body), 409).await;
        seen.see(change(&ann).json(&json!({})), 400).await;
        seen.see(change(&nobody).json(&good), 404).await;
        seen.see(change(&ann).json(&good).header("if-match", "\"0\""), 412).await;
        if method == Method::PATCH {
            seen.see(
                change(&ann).json(&good).header("idempotency-key", format!("p{endpoint}")),
                200,
            )
            .await;
            seen.see(
                change(&ann).json(&body).header("idempotency-key", format!("p{endpoint}")),
                422,
            )
            .await;
        }
    }
    let delete = |path: &str| world.scim(Method::DELETE, path);
    seen.see(world.keyed(Method::DELETE, &format!("/scim/v2{bob}")), 400).await;
    seen.see(delete(&bob).header("if-match", "\"0\""), 412).await;
    seen.see(delete(&bob), 204).await;
    seen.see(delete(&bob), 404).await;
}
