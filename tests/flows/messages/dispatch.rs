//! Dispatches as a worker does them, with a real receiver: which users get messages and which not,
//! what is tried again, what is counted. On SQLite and on PostgreSQL.

mod bounces;
mod content;
mod ended;
mod recipients;
mod world;

use std::time::Duration;

use longshore::messages::MessageId;
use longshore::messages::dispatch::state::State;
use longshore::messages::dispatch::{self, LeftOut, Report};
use longshore::messages::order::{Order, Target, Who};
use longshore::workspaces::Channel;
use serde_json::{Value, json};
use uuid::Uuid;

use self::world::{
    CAMPAIGN, NOT_LARGE, SEGMENT, VARIATION, World, external, named, segment, to_users,
};
use crate::support::eventually;
use crate::support::receiver::ScriptedResponse;
use crate::support::stores::{on_both_stores, on_pool};

on_both_stores!(World =>
    named_users_get_a_message_each,
    templates_name_the_campaign_and_the_user,
    temporary_failures_are_retried_under_the_same_id,
    messages_that_are_never_accepted_fail,
    outcomes_are_stored_while_other_messages_are_pending,
    reasons_with_nul_affect_only_their_user,
    reports_count_once,
    messages_to_unreadable_users_fail_with_a_reason,
    a_repeated_order_begins_once,
);

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

async fn named_users_get_a_message_each(world: World) {
    let alias = json!({ "alias_label": "crm", "alias_name": "ann" });
    world
        .import(&[
            json!({ "external_id": "ann", "user_aliases": alias,
                    "custom_attributes": { "is_even": true } }),
            json!({ "external_id": "bob" }),
            json!({ "external_id": "cy", "custom_attributes": { "is_even": true } }),
        ])
        .await;
    let users = vec![
        named(external("ann"), "first"),
        named(Who::Alias { label: "crm".into(), name: "ann".into() }, "second"),
        named(external("nobody"), "x"),
        named(Who::ServiceId(world.service_id("bob").await), "third"),
    ];
    let order = Order { target: to_users(users.clone()), ..world.campaign() };
    let listed = world.send(&order).await;
    assert_eq!((listed.messages.sent, listed.walked, listed.parts_left), (2, 4, 0), "{listed:?}");
    assert_eq!(listed.left_out, LeftOut { unknown: 1, ..LeftOut::default() });
    assert_eq!(world.bodies(), ["ann first", "bob third"]);
    let statistics = world.statistics().await;
    assert_eq!(statistics[0]["sent"], 2, "{statistics}");
    assert_eq!(statistics[0]["variation_id"], VARIATION);
    // In a segment, those who are named and in it.
    let target = Target { segment_id: segment(), ..to_users(users) };
    let listed = world.send(&Order { target, ..world.order() }).await;
    assert_eq!(listed.messages.sent, 1, "{listed:?}");
    let left_out = LeftOut { unknown: 1, not_in_audience: 1, ..LeftOut::default() };
    assert_eq!(listed.left_out, left_out);
    let id = listed.id.simple().to_string();
    let shown = world.installation.printed(&["dispatches", "show", &id]).await;
    let shown_as = |line: &String| {
        line.starts_with("left out ") && line.ends_with(" unknown 1, not_in_audience 1")
    };
    assert!(shown.iter().any(shown_as), "{shown:?}");
    let shown = world.installation.printed(&["console-log", "--json"]).await;
    let record: Value = serde_json::from_str(&shown[0]).unwrap();
    assert_eq!((shown.len(), record["segment_id"].as_str()), (1, Some(SEGMENT)), "{shown:?}");
    assert_eq!((&record["results"]["sent"], &record["call"]), (&json!(1), &json!("send")));
    assert_eq!(record["results"]["left_out"], serde_json::to_value(left_out).unwrap());
    let stats = world.installation.printed(&["campaigns", "stats", CAMPAIGN, "--json"]).await;
    let stats: Value = serde_json::from_str(&stats[0]).unwrap();
    assert_eq!((&stats["name"], &stats["sent"]), (&json!("Welcome"), &json!(2)));
    let unknown = Uuid::new_v4().to_string();
    let said = world.installation.run(&["campaigns", "stats", &unknown]).await;
    let error = String::from_utf8_lossy(&said.stderr);
    assert_eq!(said.status.code(), Some(1));
    assert!(error.contains("unknown campaign or Canvas") && error.contains(&unknown), "{error}");
    let by_name = world.installation.printed(&["campaigns", "stats", "Welcome", "--json"]).await;
    assert_eq!(
        by_name,
        world.installation.printed(&["campaigns", "stats", CAMPAIGN, "--json"]).await
    );
    let listed = world.installation.printed(&["dispatches", "list"]).await;
    assert_eq!(listed.len(), 3, "{listed:?}");
    let first = world.installation.printed(&["dispatches", "list", "--limit", "1", "--json"]).await;
    let [first] = first.as_slice() else { panic!("{first:?}") };
    let first: Value = serde_json::from_str(first).unwrap();
    let first = first["id"].as_str().unwrap();
    let next =
        world.installation.printed(&["dispatches", "list", "--after", first, "--json"]).await;
    assert!(next.len() == 1 && !next[0].contains(first), "{next:?}");
    world.close().await;
}

async fn templates_name_the_campaign_and_the_user(world: World) {
    let apps = json!([{ "name": "web", "version": "7.1", "first_used": "2024-01-01T00:00:00.000Z",
                        "last_used": "2025-02-03T04:05:06.000Z", "sessions": 1 }]);
    world.import(&[json!({ "external_id": "ann", "email": "ann@a.example", "apps": apps })]).await;
    let mut order = world.campaign();
    order.target = to_users(vec![named(external("ann"), "x")]);
    // It was accepted when nobody looked for names that do not exist.
    order.messages["webhook"]["body"] = json!(
        "{{campaign.${name}}}|{{campaign.${api_id}}}|{{campaign.${dispatch_id}}}|\
         {{campaign.${message_api_id}}}|{{canvas.${name}}}|{{${most_recent_app_version}}}|\
         {{${last_used_app_date} | date: '%Y'}}|{{subscribed_state.${email_global}}}|\
         {{${frist_name}}}{{ nowhere }}|{{${set_user_to_unsubscribed_url}}}"
    );
    let listed = world.send(&order).await;
    assert_eq!(listed.messages.sent, 1, "{listed:?}");
    let body = world.bodies().remove(0);
    let dispatch = order.dispatch_id.simple();
    let expected = format!("Welcome|{CAMPAIGN}|{dispatch}|{VARIATION}||7.1|2025|subscribed||");
    let url = body.strip_prefix(&expected).unwrap_or_else(|| panic!("{body}"));
    let token = url.rsplit('/').next().unwrap();
    let whose =
        longshore::messages::unsubscribe_token::read(&world.installation.app.secrets, token);
    let whose = whose.expect("a valid token");
    let user = (world.installation.workspace, world.service_id("ann").await);
    assert_eq!((whose.workspace, whose.user), user);
    world.close().await;
}

async fn temporary_failures_are_retried_under_the_same_id(world: World) {
    world.create_users(8).await;
    world.receiver.script((0..10).map(|_| ScriptedResponse::Status(503)));
    let listed = world.send(&world.campaign()).await;
    assert_eq!((listed.messages.sent, listed.messages.failed), (8, 0), "{listed:?}");
    assert_eq!(world.receiver.received().len(), 18);
    assert_eq!(world.received().len(), 8);
    assert_eq!(world.statistics().await[0]["sent"], 8);
    // What no other attempt can help is not tried again.
    world.receiver.script((0..8).map(|_| ScriptedResponse::Status(400)));
    let listed = world.send(&world.order()).await;
    assert_eq!((listed.messages.sent, listed.messages.failed), (0, 8), "{listed:?}");
    assert_eq!(world.receiver.received().len(), 26);
    why_is_shown(&world, &listed.id.simple().to_string()).await;
    world.close().await;
}

/// Of a send whose eight messages the receiver refused with 400.
async fn why_is_shown(world: &World, dispatch: &str) {
    let shown =
        world.installation.printed(&["dispatches", "show", dispatch, "--json"]).await.concat();
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let [reason] = shown["reasons"].as_array().unwrap().as_slice() else { panic!("{shown}") };
    assert_eq!((&reason["channel"], &reason["state"]), (&json!("webhook"), &json!("failed")));
    assert_eq!((&reason["messages"], &shown["reasons_of_latest"]), (&json!(8), &Value::Null));
    let why = reason["reason"].as_str().unwrap();
    assert!(why.contains("400"), "{why}");
    let lines = world.installation.printed(&["dispatches", "show", dispatch]).await;
    let line = lines.last().unwrap();
    assert!(line.starts_with("webhook  failed") && line.ends_with(why), "{lines:?}");
    let printed = world.installation.printed(&["messages", "u0", "--json"]).await;
    let messages: Vec<Value> =
        printed.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(messages.len(), 2, "{printed:?}");
    let [latest, earlier] = [&messages[0], &messages[1]];
    assert_eq!((&latest["dispatch_id"], &latest["state"]), (&json!(dispatch), &json!("failed")));
    assert_eq!((&latest["reason"], &latest["sent_at"]), (&json!(why), &Value::Null));
    assert_eq!((&earlier["state"], &earlier["channel"]), (&json!("sent"), &json!("webhook")));
    let after = format!("{dispatch}/webhook");
    let printed =
        world.installation.printed(&["messages", "u0", "--after", &after, "--json"]).await;
    assert!(printed.len() == 1 && !printed[0].contains(dispatch), "{printed:?}");
    let lines = world.installation.printed(&["messages", "u0", "--dispatch", dispatch]).await;
    assert!(lines.len() == 2 && lines[1].contains(why), "{lines:?}");
    for wrong in [["dispatches", "show", "xyz"], ["messages", "u0", "--dispatch=7"]] {
        let said = world.installation.run(&wrong).await;
        let error = String::from_utf8_lossy(&said.stderr);
        assert!(error.contains("a dispatch_id has 32 hexadecimal digits"), "{error}");
    }
}

async fn messages_that_are_never_accepted_fail(world: World) {
    world.create_users(2).await;
    world.receiver.script((0..10_000).map(|_| ScriptedResponse::Status(503)));
    let order = world.campaign();
    world.begin(&order).await;
    world.receiver.wait_for(4).await;
    assert_eq!(world.shown(&order).await.state, State::Running);
    let later = world.installation.app.clock.now_ms() + 2 * DAY_MS;
    world.installation.app.clock.set(jiff::Timestamp::from_millisecond(later).unwrap());
    let listed = world.ends(&order, State::Done).await;
    assert_eq!((listed.messages.sent, listed.messages.failed), (0, 2), "{listed:?}");
    assert_eq!(world.statistics().await[0]["failed"], 2);
    world.close().await;
}

async fn outcomes_are_stored_while_other_messages_are_pending(world: World) {
    world.create_users(3).await;
    world.receiver.script([ScriptedResponse::Hang]);
    let order = world.campaign();
    world.begin(&order).await;
    let noted = "SELECT count(*) FROM messages WHERE state = 'pending'
                 AND (SELECT count(*) FROM messages WHERE state = 'sent') = 2";
    eventually("two of three are noted", || async {
        on_pool!(&world.installation.app.store, pool => {
            sqlx::query_scalar::<_, i64>(noted).fetch_one(pool).await.unwrap() == 1
        })
    })
    .await;
    world.close().await;
}

async fn reasons_with_nul_affect_only_their_user(world: World) {
    world.create_users(2).await;
    let mut order = world.campaign();
    order.messages["webhook"]["body"] = json!(
        "{% if api_trigger_properties.${word} != 'fine' %}\
         {% abort_message(api_trigger_properties.${word}) %}{% endif %}{{${external_id}}}"
    );
    let users = vec![named(external("u0"), "a\0b"), named(external("u1"), "fine")];
    let listed = world.send(&Order { target: to_users(users), ..order }).await;
    assert_eq!(
        (listed.messages.sent, listed.messages.aborted, listed.messages.failed),
        (1, 1, 0),
        "{listed:?}"
    );
    assert_eq!(world.bodies(), ["u1"]);
    world.close().await;
}

async fn reports_count_once(world: World) {
    world.create_users(2).await;
    let order = world.campaign();
    world.send(&order).await;
    let user = world.service_id("u0").await;
    assert_eq!(world.receipts(user).await.unwrap(), 1);
    let id =
        MessageId { dispatch_id: order.dispatch_id, service_id: user, channel: Channel::Webhook };
    let report = async |report: Report| {
        let mut tx = world.installation.app.store.write().await.unwrap();
        let reports = [(id, report)];
        let stored =
            dispatch::store_reports(&mut tx, world.installation.workspace, &reports).await.unwrap();
        tx.commit().await.unwrap();
        stored == 1
    };
    assert!(report(Report::Delivered).await && !report(Report::Delivered).await);
    assert_eq!(world.receipts(user).await.unwrap(), 1);
    let bounced = || Report::Bounced { reason: "full".into(), address: None };
    assert!(report(bounced()).await);
    assert!(!report(Report::Delivered).await && !report(bounced()).await);
    assert_eq!(world.receipts(user).await.unwrap(), 0);
    let statistics = world.statistics().await;
    let counts = ["sent", "delivered", "bounced"].map(|name| statistics[0][name].as_i64().unwrap());
    assert_eq!(counts, [2, 0, 1], "{statistics}");
    world.close().await;
}

async fn messages_to_unreadable_users_fail_with_a_reason(world: World) {
    let user = |id: &str| {
        let bought = json!([{ "name": "tea", "first": "2026-11-01", "last": "2026-11-01",
                              "count": 1 }]);
        json!({ "external_id": id, "purchases": bought })
    };
    world.import(&[user("ann"), user("bob"), user("cid")]).await;
    let store = &world.installation.app.store;
    let broken = "UPDATE users SET doc = '{' WHERE external_id = 'bob'";
    on_pool!(store, pool => { sqlx::query(broken).execute(pool).await.unwrap(); });
    let users = to_users(["ann", "bob", "cid"].map(|id| named(external(id), "")).into());
    let everybody = world.campaign();
    for order in [Order { target: users, ..world.campaign() }, everybody] {
        let listed = world.send(&order).await;
        assert_eq!(
            (listed.messages.sent, listed.messages.failed, listed.walked),
            (2, 1, 3),
            "{listed:?}"
        );
        let id = listed.id.simple().to_string();
        let shown = world.installation.printed(&["dispatches", "show", &id]).await.join("\n");
        assert!(shown.contains("cannot read the user's stored profile"), "{shown}");
    }
    assert_eq!(world.statistics().await[0]["failed"], 2);

    // What somebody did that cannot be read is not nothing: a negative condition would hold.
    let version: Vec<u8> = on_pool!(store, pool => {
        sqlx::query_scalar("SELECT body FROM activity").fetch_one(pool).await.unwrap()
    });
    let cid = world.service_id("cid").await;
    on_pool!(store, pool => {
        sqlx::query("UPDATE activity SET body = $1 WHERE service_id = $2")
            .bind(&version[..1]).bind(cid).execute(pool).await.unwrap();
    });
    let target = Target { segment_id: Some(NOT_LARGE.parse().unwrap()), ..Target::default() };
    let listed = world.send(&Order { target, ..world.order() }).await;
    assert_eq!((listed.messages.sent, listed.messages.failed), (1, 2), "{listed:?}");
    let id = listed.id.simple().to_string();
    let shown = world.installation.printed(&["dispatches", "show", &id]).await.join("\n");
    assert!(shown.contains("cannot read the user's stored activity"), "{shown}");

    // The same of a message that waited.
    world.receiver.script([ScriptedResponse::Busy("2".into())]);
    let waits = Order { target: to_users(vec![named(external("ann"), "")]), ..world.order() };
    world.begin(&waits).await;
    eventually("it waits", || async {
        on_pool!(store, pool => {
            sqlx::query_scalar::<_, i64>("SELECT count(*) FROM messages WHERE state = 'waiting'")
                .fetch_one(pool).await.unwrap() == 1
        })
    })
    .await;
    let broken = "UPDATE users SET doc = '{' WHERE external_id = 'ann'";
    on_pool!(store, pool => { sqlx::query(broken).execute(pool).await.unwrap(); });
    assert_eq!(world.ends(&waits, State::Done).await.messages.failed, 1);
    let id = waits.dispatch_id.simple().to_string();
    let shown = world.installation.printed(&["dispatches", "show", &id]).await.join("\n");
    assert!(shown.contains("cannot read the user's stored profile"), "{shown}");
    world.close().await;
}

async fn a_repeated_order_begins_once(world: World) {
    world.create_users(5).await;
    let order = world.order();
    world.begin(&order).await;
    world.begin(&order).await;
    world.ends(&order, State::Done).await;
    world.begin(&order).await;
    let users = to_users(vec![named(external("u1"), "")]);
    let other = Order { target: users, ..world.order() };
    world.begin(&other).await;
    world.begin(&other).await;
    assert_eq!(world.ends(&other, State::Done).await.parts, 1);
    tokio::time::timeout(Duration::from_secs(60), world.receiver.wait_for(6)).await.unwrap();
    assert_eq!(world.receiver.received().len(), 6);
    world.close().await;
}
