//! Campaigns, Canvases, schedules, segments and subscriptions.

use serde_json::{Value, json};

use super::{CAMPAIGN, CANVAS, GROUP, SEGMENT, World, refuses};

const UNKNOWN: &str = "0190b9a6-1c00-7000-8000-000000000000";

#[tokio::test(flavor = "multi_thread")]
async fn a_campaign_is_sent_by_its_id() {
    let world = World::start(&[]).await;
    const SEND: &str = "/campaigns/trigger/send";
    let body = |more: Value| {
        let mut body = json!({ "campaign_id": CAMPAIGN });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let ann = json!([{ "external_user_id": "ann", "trigger_properties": { "b": 2 } }]);
    let sent = world
        .done(SEND, body(json!({ "recipients": ann, "trigger_properties": { "a": 1, "b": 1 } })))
        .await;
    assert_eq!(sent["dispatch_id"].as_str().unwrap().len(), 32);
    let audience =
        json!({ "email_subscription_status": { "comparison": "is", "value": "opted_in" } });
    world.done(SEND, body(json!({ "broadcast": true, "audience": audience }))).await;
    for (more, code) in [
        (json!({}), "invalid-field"),
        (json!({ "broadcast": true, "recipients": ann }), "invalid-field"),
        (json!({ "recipients": [{}] }), "invalid-field"),
        (
            json!({ "recipients": [{ "external_user_id": "a", "attributes": { "b": 1 } }] }),
            "invalid-field",
        ),
        (json!({ "recipients": ann, "campaign_id": UNKNOWN }), "invalid-request"),
    ] {
        world.refused(SEND, body(more), 400, code).await;
    }
    let canvas = json!({ "canvas_id": CANVAS, "recipients": [{ "external_user_id": "ann" }] });
    world.done("/canvas/trigger/send", canvas).await;
    let canvas = json!({ "canvas_id": UNKNOWN, "recipients": [{ "external_user_id": "ann" }] });
    world.refused("/canvas/trigger/send", canvas, 404, "not-found").await;
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn schedules_are_moved_and_cancelled() {
    let world = World::start(&[]).await;
    let at = |year: u16| json!({ "time": format!("{year}-01-01T09:00:00Z") });
    let webhook = json!({ "webhook": {
        "url": "https://hooks.example.com/", "request_method": "POST", "body": "{}",
    } });
    let ann = json!([{ "external_user_id": "ann" }]);
    let messages = json!({ "external_user_ids": ["ann"], "messages": webhook });
    for (path, named, create) in [
        ("/messages/schedule", json!({}), messages),
        (
            "/campaigns/trigger/schedule",
            json!({ "campaign_id": CAMPAIGN }),
            json!({ "recipients": ann }),
        ),
        ("/canvas/trigger/schedule", json!({ "canvas_id": CANVAS }), json!({ "recipients": ann })),
    ] {
        let with = |all: &[&Value]| {
            let mut body = named.clone();
            for more in all {
                body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            }
            body
        };
        let create = with(&[&create, &json!({ "schedule": at(2127) })]);
        let made = world.done(&format!("{path}/create"), create).await;
        let id = json!({ "schedule_id": made["schedule_id"] });
        let (update, delete) = (format!("{path}/update"), format!("{path}/delete"));
        world.done(&update, with(&[&id, &json!({ "schedule": at(2128) })])).await;
        let listed = world.fleet.run(&["schedules", "list", "--json"]).await;
        let listed: Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
        assert_eq!(listed["time"], "2128-01-01T09:00:00.000Z", "{path}");
        let past = with(&[&id, &json!({ "schedule": at(2001) })]);
        world.refused(&update, past, 400, "invalid-request").await;
        world.refused(&update, with(&[&id]), 400, "missing-field").await;
        let unknown = json!({ "schedule_id": UNKNOWN });
        world.refused(&delete, with(&[&unknown]), 404, "not-found").await;
        world.done(&delete, with(&[&id])).await;
        world.done(&delete, with(&[&id])).await;
        let again = with(&[&id, &json!({ "schedule": at(2129) })]);
        world.refused(&update, again, 400, "invalid-request").await;
    }
    // One that is another's is none.
    let create = json!({ "campaign_id": CAMPAIGN, "broadcast": true, "schedule": at(2127) });
    let made = world.done("/campaigns/trigger/schedule/create", create).await;
    let id = &made["schedule_id"];
    let other = json!({ "campaign_id": UNKNOWN, "schedule_id": id });
    world.refused("/campaigns/trigger/schedule/delete", other, 404, "not-found").await;
    let answer = world.api.get("/messages/scheduled_broadcasts?end_time=2128-01-01").await;
    let broadcasts = answer.body["scheduled_broadcasts"].as_array().unwrap();
    assert_eq!(broadcasts.len(), 1, "{answer:?}");
    assert_eq!(
        (&broadcasts[0]["id"], &broadcasts[0]["type"]),
        (&json!(CAMPAIGN), &json!("Campaign"))
    );
    let answer = world.api.get("/messages/scheduled_broadcasts?end_time=2126-01-01").await;
    assert_eq!(answer.body["scheduled_broadcasts"], json!([]));
    refuses(&world.api.get("/messages/scheduled_broadcasts").await, 400, "invalid-request");
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_show_declared_objects_and_bought_products() {
    let world = World::start(&[]).await;
    let listed = world.api.get("/canvas/list").await;
    assert_eq!(listed.body["canvases"][0]["id"], CANVAS, "{listed:?}");
    let listed = world.api.get("/segments/list").await;
    assert_eq!(listed.body["segments"][0]["name"], "All users", "{listed:?}");
    assert_eq!(listed.body["segments"][1]["id"], SEGMENT, "{listed:?}");
    let segment = world.api.get(&format!("/segments/details?segment_id={SEGMENT}")).await;
    assert_eq!(segment.body["name"], "Gold", "{segment:?}");
    let campaign = world.api.get(&format!("/campaigns/details?campaign_id={CAMPAIGN}")).await;
    assert_eq!(
        (&campaign.body["name"], &campaign.body["channels"]),
        (&json!("Welcome"), &json!(["webhook"]))
    );
    for path in ["/segments/details?segment_id=x", "/campaigns/details?campaign_id=x"] {
        refuses(&world.api.get(path).await, 404, "not-found");
    }
    for path in ["/segments/details", "/campaigns/details", "/segments/list?page=x"] {
        refuses(&world.api.get(path).await, 400, "invalid-request");
    }
    let purchase = |product: &str| {
        json!({ "external_id": "ann", "product_id": product, "currency": "USD", "price": 1,
                "time": "2026-11-20T08:00:00Z" })
    };
    world.done("/users/track", json!({ "purchases": [purchase("tea"), purchase("cup")] })).await;
    world.fleet.applied().await;
    let products = world.api.get("/purchases/product_list?page=0").await;
    assert_eq!(products.body["products"], json!(["cup", "tea"]), "{products:?}");
    assert_eq!(world.api.get("/purchases/product_list?page=1").await.body["products"], json!([]));
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_are_set_and_returned() {
    let world = World::start(&[]).await;
    let other = json!({ "subscription_group_id": "other", "subscription_state": "subscribed" });
    world
        .track(json!([
            { "external_id": "ann", "email": "a@example.com", "subscription_groups": [other] },
            { "external_id": "bob", "email": "a@example.com" },
        ]))
        .await;
    let states = async |query: &str| {
        world.fleet.applied().await;
        let path = format!("/subscription/status/get?subscription_group_id={GROUP}&{query}");
        let answer = world.api.get(&path).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body["status"].clone()
    };
    assert_eq!(states("external_id=ann").await, json!({ "ann": "Unknown" }));
    let set = json!({
        "subscription_group_id": GROUP, "subscription_state": "subscribed", "external_id": ["ann"],
    });
    world.done("/subscription/status/set", set).await;
    let set = json!({ "subscription_groups": [{
        "subscription_group_id": GROUP, "subscription_state": "unsubscribed",
        "external_ids": ["bob", "nobody"],
    }] });
    world.done("/v2/subscription/status/set", set).await;
    let all = json!({ "ann": "Subscribed", "bob": "Unsubscribed", "nobody": "Unknown" });
    assert_eq!(states("external_id[]=ann&external_id[]=bob&external_id[]=nobody").await, all);
    let groups = world.user("ann").await["subscription_groups"].clone();
    assert_eq!(groups.as_array().unwrap().len(), 2, "the other group stays: {groups}");
    assert_eq!(world.user("nobody").await, Value::Null);
    let wrong = json!({
        "subscription_group_id": UNKNOWN, "subscription_state": "subscribed", "external_id": "ann",
    });
    world.refused("/subscription/status/set", wrong, 400, "invalid-field").await;

    // Both fields name users.
    let set = json!({
        "subscription_group_id": GROUP, "subscription_state": "unsubscribed",
        "external_id": "cay", "email": "c@example.com",
    });
    world.track(json!([{ "external_id": "cay" }, { "email": "c@example.com" }])).await;
    world.done("/subscription/status/set", set).await;
    let both = json!({ "cay": "Unsubscribed", "c@example.com": "Unsubscribed" });
    assert_eq!(states("external_id=cay&email=c@example.com").await, both);
    // Numbers, too, whether or not a user has them.
    let set = json!({
        "subscription_group_id": GROUP, "subscription_state": "unsubscribed",
        "external_id": "cay", "phone": ["+15550177"],
    });
    world.done("/subscription/status/set", set).await;
    let path = "/v2/subscription/status/set";
    let mut many = json!({ "subscription_groups": [{
        "subscription_group_id": GROUP, "subscription_state": "subscribed",
        "external_ids": ["cay"], "phones": ["+15550178"],
    }] });
    world.done(path, many.clone()).await;
    let all = json!({ "cay": "Subscribed", "+15550177": "Unsubscribed", "15550178": "Subscribed" });
    assert_eq!(states("external_id=cay&phone=%2B15550177&phone=15550178").await, all);
    let set = json!({
        "subscription_group_id": GROUP, "subscription_state": "unsubscribed",
        "external_id": "cay",
    });
    world.done("/subscription/status/set", set.clone()).await;
    // What would name other users is not ignored.
    many["subscription_groups"][0]["user_aliases"] = json!(["cay"]);
    world.refused(path, many, 400, "invalid-field").await;
    let query = format!("subscription_group_id={GROUP}&external_id=cay&user_alias=c");
    let answer = world.api.get(&format!("/subscription/status/get?{query}")).await;
    assert_eq!((answer.status.as_u16(), &answer.body["code"]), (400, &json!("invalid-field")));
    assert_eq!(states("external_id=cay").await, json!({ "cay": "Unsubscribed" }));

    let body = json!({ "email": "A@example.com", "subscription_state": "unsubscribed" });
    world.done("/email/status", body).await;
    for id in ["ann", "bob"] {
        assert_eq!(world.user(id).await["email_subscribe"], "unsubscribed", "{id}");
    }
    let wrong = json!({ "email": "x", "subscription_state": "subscribed" });
    world.refused("/email/status", wrong, 400, "invalid-field").await;
    world.fleet.close().await;
}
