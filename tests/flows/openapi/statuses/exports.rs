//! The statuses of the endpoints of exports, and of their files.

use reqwest::Method;
use serde_json::{Value, json};

use super::super::filled;
use super::super::world::World;
use super::Seen;

pub async fn exports(world: &mut World, seen: &mut Seen) {
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
    seen.see(repeat(&path, "r"), 201).await;
    seen.see(repeat(&path, "r").json(&json!({})), 422).await;
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
