//! The statuses of the endpoints of campaigns, schedules and transactional emails.

use reqwest::Method;
use serde_json::{Value, json};

use super::super::UNKNOWN;
use super::super::world::{CAMPAIGN, CANVAS, RECEIPT, SEGMENT, World};
use super::{Seen, once_and_again};

pub async fn campaigns_and_schedules(world: &World, seen: &mut Seen) {
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

pub async fn transactional(world: &World, seen: &mut Seen) {
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
