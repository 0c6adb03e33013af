//! Every status of every operation, received once.

mod campaigns;
mod dispatches;
mod exports;
mod reading;
mod scim;
mod users;

use std::collections::BTreeSet;

use longshore::messages::unsubscribe_token;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::world::{APP, CANVAS, CATALOG, SEGMENT, World, workspace};
use super::{UNKNOWN, filled, takes_key};
use crate::support::WorkspaceFile;
use crate::support::api::{Api, ApiResponse, answer};
use crate::support::contract::CONTRACT;
use crate::support::fleet::Backend;

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
    exports::exports(&mut world, &mut seen).await;
    the_rest_of_workspaces(&world, &mut seen).await;
    users::users_and_catalogs(&world, &mut seen).await;
    campaigns::campaigns_and_schedules(&world, &mut seen).await;
    dispatches::dispatches(&world, &mut seen).await;
    reading::reading(&world, &mut seen).await;
    campaigns::transactional(&world, &mut seen).await;
    reports(&world, &mut seen).await;
    scim::users_and_groups(&world, &mut seen).await;
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
    // Two who may do one thing each: one of them may not what an operation needs. Two of each,
    // since a key may be refused 60 times a minute.
    const MAY: [&str; 2] = ["users.track", "campaigns.list"];
    let few = MAY.iter().flat_map(|permission| [(permission, 1), (permission, 2)]);
    let few = few.map(|(permission, number)| {
        let mut few = workspace(&format!("{permission}-{number}")).permitted(&[permission]);
        few.percent = None;
        few
    });
    let files: Vec<WorkspaceFile> = [workspace_as(world)].into_iter().chain(few).collect();
    let few = world.fleet.apply(&files).await.split_off(1);
    let far = ["scim-token", "create", "--name", "far", "--allow", "198.51.100.0/24"];
    let far = Api::new(world.fleet.base(), world.fleet.run(&far).await.trim());
    for (number, (path, method, operation)) in CONTRACT.operations().enumerate() {
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
            let may_not = if operation["x-permission"] == MAY[0] { &few[2..] } else { &few[..2] };
            let may_not = &may_not[number % 2];
            seen.see(may_not.request(method.clone(), &path), 403).await;
        } else if has("403") && path.starts_with("/scim") {
            seen.see(far.request(method.clone(), &path), 403).await;
        }
        if takes_key(operation) {
            seen.see(keyed().header("idempotency-key", "é"), 400).await;
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
fn workspace_as(world: &World) -> WorkspaceFile {
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

async fn the_rest_of_workspaces(world: &World, seen: &mut Seen) {
    let api = &world.api;
    for document in ["/", "/openapi.json", "/openapi-3.0.json"] {
        seen.see(api.request(Method::GET, document), 200).await;
    }
    seen.see(api.request(Method::GET, "/docs"), 200).await;
    seen.see(api.request(Method::GET, "/schemas/export-record.json"), 200).await;
    for (workspace, status) in [("acme", 200), ("none", 404)] {
        let keys = format!("/.well-known/longshore/{workspace}/allowed_signers");
        seen.see(api.request(Method::GET, &keys), status).await;
    }
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
    seen.see(post(preview, &json!({ "campaign_id": UNKNOWN })), 400).await;
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
    let token = |user| {
        let recipient = unsubscribe_token::Recipient { workspace: 1, user, address: None };
        unsubscribe_token::token(&key, &recipient)
    };
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
