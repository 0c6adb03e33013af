//! Every status of every operation, received once.

mod dispatches;
mod reading;
mod scim;

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::world::{APP, CAMPAIGN, CANVAS, CATALOG, GROUP, RECEIPT, SEGMENT, World, workspace};
use super::{UNKNOWN, filled};
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
    exports(&mut world, &mut seen).await;
    the_rest_of_workspaces(&world, &mut seen).await;
    users_and_catalogs(&world, &mut seen).await;
    campaigns_and_schedules(&world, &mut seen).await;
    dispatches::dispatches(&world, &mut seen).await;
    reading::reading(&world, &mut seen).await;
    transactional(&world, &mut seen).await;
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
    let dry_run = json!({ "fields_to_export": ["email"], "dry_run": true });
    seen.see(ask(dry_run.clone()), 200).await;
    let of_segment = |mut body: Value| {
        let audience = json!({ "email_subscription_status": {
            "comparison": "is", "value": "subscribed" } });
        body["audience"] = audience;
        world.api.request(Method::POST, "/users/export/segment").json(&body)
    };
    seen.see(of_segment(dry_run), 200).await;
    seen.see(of_segment(wanted.clone()).header("idempotency-key", "s"), 201).await;
    let other = json!({ "fields_to_export": ["gender"] });
    seen.see(of_segment(other).header("idempotency-key", "s"), 422).await;
    let accepted = world.api.export(&wanted).await;
    world.api.done(&accepted.prefix).await;
    let path = format!("/users/export/{}", accepted.prefix);
    seen.see(get(&path), 200).await;
    seen.see(world.api.request(Method::DELETE, &path), 409).await;
    seen.see(get(&format!("{path}/events")), 200).await;
    seen.see(get(&format!("{}/events", filled("/users/export/{object_prefix}"))), 404).await;
    let page = seen.see(get("/users/export?limit=1"), 200).await;
    let cursor = page.body["next_cursor"].as_str().expect("there are two exports");
    seen.see(get(&format!("/users/export?cursor={cursor}")), 200).await;
    seen.see(get("/users/export?state=done"), 200).await;
    seen.see(get("/users/export?mark=slow"), 200).await;
    for wrong in
        ["limit=0", "limit=%2B1", "limit=1&limit=1", "cursor=", "cursor=x", "state=x", "mark=x"]
    {
        seen.see(get(&format!("/users/export?{wrong}")), 400).await;
    }
    let ids = |body: Value| world.api.request(Method::POST, "/users/export/ids").json(&body);
    seen.see(ids(json!({ "external_ids": ["ann", "nobody"] })), 201).await;
    seen.see(ids(json!({})), 400).await;
    seen.see(ids(json!({ "external_ids": vec!["ann"; 51] })), 400).await;
    seen.see(ids(json!({ "phones": ["555"] })), 400).await;
    let unknown = filled("/users/export/{object_prefix}");
    seen.see(get(&unknown), 404).await;
    seen.see(world.api.request(Method::DELETE, &unknown), 404).await;
    let repeat = |path: &str, key: &str| {
        let request = world.api.request(Method::POST, &format!("{path}/repeat"));
        request.header("idempotency-key", key)
    };
    let repeated = seen.see(repeat(&path, "r"), 201).await;
    let repeated = repeated.body["object_prefix"].as_str().expect("an object_prefix");
    seen.see(repeat(&format!("/users/export/{repeated}"), "r"), 422).await;
    seen.see(repeat(&unknown, "u"), 404).await;
    seen.see(repeat(&path, "é"), 400).await;
    seen.see(get(&format!("{path}/download?signature=x")), 404).await;
    let address = accepted.address().strip_prefix(world.fleet.base()).unwrap();
    for file in ["manifest.json", "SHA256SUMS", "manifest.json.sig"] {
        seen.see(get(&address.replace("/download?", &format!("/{file}?"))), 302).await;
        seen.see(get(&format!("{path}/{file}?signature=x")), 404).await;
    }
    let found = seen.see(get(address), 302).await;
    let file = found.headers["location"].to_str().unwrap();
    let file = file.strip_prefix(world.fleet.base()).unwrap();
    seen.see(get("/objects/a/b"), 404).await;
    let complete = seen.see(get(file), 200).await;
    seen.see(get(file).header("range", "bytes=0-1"), 206).await;
    seen.see(get(file).header("range", "bytes=1000000-"), 416).await;
    let modified = complete.headers["last-modified"].to_str().unwrap();
    seen.see(get(file).header("if-modified-since", modified), 304).await;
    let long_ago = "Thu, 01 Jan 1970 00:00:00 GMT";
    seen.see(get(file).header("if-unmodified-since", long_ago), 412).await;
    seen.see(get(file).header("if-none-match", "*"), 304).await;
    seen.see(get(file).header("if-match", "\"x\""), 412).await;
    // Nobody works on this one before it is cancelled.
    world.fleet.stop("worker-1");
    let get = |path: &str| world.api.request(Method::GET, path);
    let waiting = world.api.export(&wanted).await;
    let address = waiting.address().strip_prefix(world.fleet.base()).unwrap();
    for file in ["download", "manifest.json", "SHA256SUMS", "manifest.json.sig"] {
        let address = address.replace("/download?", &format!("/{file}?"));
        seen.see(get(&address), 403).await;
    }
    let path = format!("/users/export/{}", waiting.prefix);
    seen.see(world.api.request(Method::POST, &format!("{path}/repeat")), 409).await;
    seen.see(world.api.request(Method::DELETE, &path), 200).await;
    world.fleet.resume("worker-1");
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

async fn users_and_catalogs(world: &World, seen: &mut Seen) {
    let alias = json!({ "alias_name": "n", "alias_label": "l" });
    let merge = json!({
        "identifier_to_merge": { "external_id": "x" }, "identifier_to_keep": { "external_id": "y" },
    });
    let rename = json!({ "current_external_id": "x", "new_external_id": "y" });
    let update = json!({ "alias_label": "l", "old_alias_name": "n", "new_alias_name": "m" });
    let identify = json!({ "external_id": "x", "user_alias": alias });
    let group = json!({ "subscription_group_id": GROUP, "subscription_state": "subscribed" });
    let (mut of_one_user, mut of_users) = (group.clone(), group);
    of_one_user["external_id"] = "x".into();
    of_users["external_ids"] = json!(["x"]);
    let fields = json!([{ "name": "id", "type": "string" }]);
    for (path, body, status) in [
        ("/users/delete", json!({ "external_ids": ["x"] }), 201),
        ("/users/alias/new", json!({ "user_aliases": [alias] }), 201),
        ("/users/alias/update", json!({ "alias_updates": [update] }), 201),
        ("/users/identify", json!({ "aliases_to_identify": [identify] }), 201),
        ("/users/merge", json!({ "merge_updates": [merge] }), 202),
        ("/users/external_ids/rename", json!({ "external_id_renames": [rename] }), 201),
        ("/users/external_ids/remove", json!({ "external_ids": ["x"] }), 201),
        ("/subscription/status/set", of_one_user, 201),
        ("/v2/subscription/status/set", json!({ "subscription_groups": [of_users] }), 201),
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
    let (item, none) = (format!("/catalogs/{CATALOG}/items/b"), "/catalogs/none/items/b");
    let body = json!({ "items": [{ "City": "Oslo" }] });
    for method in [Method::POST, Method::PUT, Method::PATCH] {
        once_and_again(world, seen, (method.clone(), &item), &body, 202).await;
        seen.see(world.api.request(method, none).json(&body), 404).await;
    }
    world.fleet.applied().await;
    seen.see(get(&item), 200).await;
    seen.see(get(none), 404).await;
    seen.see(get(&format!("/catalogs/{CATALOG}/items")), 200).await;
    seen.see(get(&format!("/catalogs/{CATALOG}/items?cursor=")), 400).await;
    seen.see(get("/catalogs/none/items"), 404).await;
    let delete = |path: &str| world.api.request(Method::DELETE, path);
    seen.see(delete(&item), 202).await;
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
