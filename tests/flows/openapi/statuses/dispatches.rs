//! The requests about dispatches.

use reqwest::Method;
use serde_json::json;

use super::super::world::{APP, CAMPAIGN, World};
use super::super::{UNKNOWN, filled};
use super::{Seen, once_and_again};
use crate::support::eventually;

pub async fn dispatches(world: &World, seen: &mut Seen) {
    let list = "/messages/dispatches";
    let get = |path: &str| world.api.request(Method::GET, path);
    // Its relay is not there, so it is not sent before it is cancelled.
    let zoe = json!({ "external_id": "zoe", "email": "zoe@acme.example" });
    world.fleet.import("acme", &[zoe.to_string()]).await;
    let email = json!({
        "app_id": APP, "from": "hello@acme.example", "subject": "Hello", "body": "Hello",
    });
    let message = json!({ "external_user_ids": ["zoe"], "messages": { "email": email } });
    let sent = world.api.post("/messages/send", &message).await;
    let id = sent.body["dispatch_id"].as_str().expect("a dispatch_id");
    let (path, unknown) = (format!("{list}/{id}"), filled("/messages/dispatches/{dispatch_id}"));
    eventually("a worker has read it", || async { world.api.get(&path).await.status == 200 }).await;
    seen.see(get(list), 200).await;
    seen.see(get(&format!("{list}?state=lost")), 400).await;
    seen.see(get(&path), 200).await;
    seen.see(get(&unknown), 404).await;
    seen.see(get(&format!("{path}/recipients?limit=1")), 200).await;
    seen.see(get(&format!("{path}/recipients?outcome=lost")), 400).await;
    seen.see(get(&format!("{unknown}/recipients")), 404).await;
    seen.see(world.api.request(Method::DELETE, &path), 200).await;
    seen.see(world.api.request(Method::DELETE, &unknown), 404).await;
    eventually("it is cancelled", || async {
        world.api.get(&path).await.body["state"] == "cancelled"
    })
    .await;
    let apology = json!({ "outcomes": ["delivered"], "messages": { "email": email } });
    let send = format!("{path}/send");
    once_and_again(world, seen, (Method::POST, &send), &apology, 201).await;
    let wrong = json!({ "outcomes": ["lost"], "messages": { "email": email } });
    seen.see(world.api.request(Method::POST, &send).json(&wrong), 400).await;
    let unknown = format!("{unknown}/send");
    seen.see(world.api.request(Method::POST, &unknown).json(&apology), 404).await;
    let statistics = "/campaigns/statistics";
    seen.see(get(&format!("{statistics}?campaign_id={CAMPAIGN}")), 200).await;
    seen.see(get(&format!("{statistics}?campaign_id={UNKNOWN}")), 404).await;
    seen.see(get(statistics), 400).await;
}
