//! Dispatches as a worker does them, with a real receiver: which users get messages and which not,
//! what is tried again, what is counted. On SQLite and on PostgreSQL.

mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use longshore::erase;
use longshore::messages::MessageId;
use longshore::messages::dispatch::state::State;
use longshore::messages::dispatch::{self, LeftOut, Report};
use longshore::messages::order::{Kind, Order, SubscriptionState, Target, Who};
use longshore::workspaces;
use longshore::workspaces::Channel;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use self::world::{
    APP, CAMPAIGN, NOT_LARGE, SEGMENT, SMS_GROUP, VARIATION, WHATS_APP_GROUP, World, external,
    named, segment, to_users,
};
use crate::support::eventually;
use crate::support::receiver::ScriptedResponse;
use crate::support::stores::{on_both_stores, on_pool};

on_both_stores!(World =>
    named_users_get_a_message_each,
    templates_name_the_campaign_and_the_user,
    a_segment_is_walked_in_parts,
    subscriptions_are_respected,
    frequency_caps_hold_across_concurrent_sends,
    the_control_group_is_left_out_of_campaigns,
    temporary_failures_are_retried_under_the_same_id,
    messages_that_are_never_accepted_fail,
    erased_users_receive_nothing,
    a_send_is_cancelled,
    unsent_messages_of_cancelled_sends_do_not_count,
    outcomes_are_stored_while_other_messages_are_pending,
    users_who_unsubscribe_before_a_retry_receive_nothing,
    reasons_with_nul_affect_only_their_user,
    a_send_fails_if_its_declarations_are_gone,
    reports_count_once,
    old_sends_are_deleted,
    messages_to_unreadable_users_fail_with_a_reason,
    only_emails_and_pushes_have_subscriptions,
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
    assert_eq!((listed.sent, listed.walked, listed.parts_left), (2, 4, 0), "{listed:?}");
    assert_eq!(listed.left_out, LeftOut { unknown: 1, ..LeftOut::default() });
    assert_eq!(world.bodies(), ["ann first", "bob third"]);
    let statistics = world.statistics().await;
    assert_eq!(statistics[0]["sent"], 2, "{statistics}");
    assert_eq!(statistics[0]["variation_id"], VARIATION);
    // In a segment, those who are named and in it.
    let target = Target { segment_id: segment(), ..to_users(users) };
    let listed = world.send(&Order { target, ..world.order() }).await;
    assert_eq!(listed.sent, 1, "{listed:?}");
    let left_out = LeftOut { unknown: 1, not_in_audience: 1, ..LeftOut::default() };
    assert_eq!(listed.left_out, left_out);
    let id = listed.id.simple().to_string();
    let shown = world.place.printed(&["dispatches", "show", &id]).await;
    let line = "left out     unknown 1, not_in_audience 1";
    assert!(shown.iter().any(|shown| shown == line), "{shown:?}");
    let shown = world.place.printed(&["console-log", "--json"]).await;
    let record: Value = serde_json::from_str(&shown[0]).unwrap();
    assert_eq!((shown.len(), record["segment_id"].as_str()), (1, Some(SEGMENT)), "{shown:?}");
    assert_eq!((&record["results"]["sent"], &record["call"]), (&json!(1), &json!("send")));
    assert_eq!(record["results"]["left_out"], serde_json::to_value(left_out).unwrap());
    let stats = world.place.printed(&["campaigns", "stats", CAMPAIGN, "--json"]).await;
    let stats: Value = serde_json::from_str(&stats[0]).unwrap();
    assert_eq!((&stats["name"], &stats["sent"]), (&json!("Welcome"), &json!(2)));
    let unknown = Uuid::new_v4().to_string();
    let said = world.place.run(&["campaigns", "stats", &unknown]).await;
    let error = String::from_utf8_lossy(&said.stderr);
    assert_eq!(said.status.code(), Some(1));
    assert!(error.contains(&format!("unknown campaign or Canvas {unknown}")), "{error}");
    let listed = world.place.printed(&["dispatches", "list"]).await;
    assert_eq!(listed.len(), 3, "{listed:?}");
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
    assert_eq!(listed.sent, 1, "{listed:?}");
    let body = world.bodies().remove(0);
    let dispatch = order.dispatch_id.simple();
    let expected = format!("Welcome|{CAMPAIGN}|{dispatch}|{VARIATION}||7.1|2025|subscribed||");
    let url = body.strip_prefix(&expected).unwrap_or_else(|| panic!("{body}"));
    let token = url.rsplit('/').next().unwrap();
    let whose = longshore::messages::unsubscribe_token::read(&world.place.app.secrets, token);
    assert_eq!(whose, Some((world.place.workspace, world.service_id("ann").await)));
    world.close().await;
}

async fn a_segment_is_walked_in_parts(world: World) {
    world.create_users(95).await;
    let target = Target { segment_id: segment(), ..Target::default() };
    let listed = world.send(&Order { target, ..world.order() }).await;
    assert_eq!((listed.users, listed.walked, listed.parts), (95, 95, 10), "{listed:?}");
    assert_eq!(listed.sent, 48, "{listed:?}");
    assert_eq!(listed.left_out, LeftOut { not_in_audience: 47, ..LeftOut::default() });
    let wanted: BTreeSet<String> = (0..95).step_by(2).map(|n| format!("u{n}")).collect();
    assert_eq!(world.bodies().into_iter().collect::<BTreeSet<_>>(), wanted);
    assert_eq!(world.receiver.received().len(), 48);
    world.close().await;
}

async fn subscriptions_are_respected(world: World) {
    let user = |id: &str, state: &str| {
        let token = json!([{ "app_id": APP, "token": id }]);
        json!({ "external_id": id, "push_subscribe": state, "push_tokens": token })
    };
    world
        .import(&[
            user("in", "opted_in"),
            user("sub", "subscribed"),
            user("out", "unsubscribed"),
            json!({ "external_id": "deaf", "push_subscribe": "opted_in" }),
        ])
        .await;
    let push = json!({ "alert": "{{${external_id}}}" });
    let messages = json!({ "apple_push": push }).as_object().unwrap().clone();
    for (subscription_state, sent, unsubscribed) in [
        (SubscriptionState::OptedIn, 1, 2),
        (SubscriptionState::Subscribed, 2, 1),
        (SubscriptionState::All, 3, 0),
    ] {
        let messages = messages.clone();
        let order = Order { messages, subscription_state, ..world.order() };
        let listed = world.send(&order).await;
        assert_eq!((listed.sent, listed.unreachable), (sent, 1), "{listed:?}");
        assert_eq!(listed.left_out, LeftOut { unsubscribed, ..LeftOut::default() });
    }
    world.close().await;
}

async fn frequency_caps_hold_across_concurrent_sends(world: World) {
    world.create_users(40).await;
    let orders: Vec<Order> = (0..4).map(|_| world.campaign()).collect();
    for order in &orders {
        world.begin(order).await;
    }
    let (mut sent, mut capped) = (0, 0);
    for order in &orders {
        let listed = world.ends(order, State::Done).await;
        (sent, capped) = (sent + listed.sent, capped + listed.left_out.capped);
    }
    assert_eq!((sent, capped), (80, 80));
    let mut by_user: BTreeMap<String, usize> = BTreeMap::new();
    world.bodies().into_iter().for_each(|user| *by_user.entry(user).or_default() += 1);
    assert!(by_user.len() == 40 && by_user.values().all(|count| *count == 2), "{by_user:?}");
    // Neither without a campaign, nor where it is asked so, nor once the days are over.
    assert_eq!(world.send(&world.order()).await.sent, 40);
    let overriding = Order { ignores_capping: true, ..world.campaign() };
    assert_eq!(world.send(&overriding).await.sent, 40);
    assert_eq!(world.send(&world.campaign()).await.sent, 0);
    let later = world.place.app.clock.now_ms() + 8 * DAY_MS;
    world.place.app.clock.set(jiff::Timestamp::from_millisecond(later).unwrap());
    assert_eq!(world.send(&world.campaign()).await.sent, 40);
    world.close().await;
}

async fn the_control_group_is_left_out_of_campaigns(world: World) {
    world.create_users(60).await;
    let mut tx = world.place.app.store.snapshot().await.unwrap();
    let group = workspaces::control_group(&mut tx, world.place.workspace).await.unwrap().unwrap();
    let members = workspaces::groups::users(&mut tx, world.place.workspace, &group).await.unwrap();
    drop(tx);
    let canvas = Order { kind: Kind::Canvas, ..world.order() };
    let listed = world.send(&canvas).await;
    assert_eq!((listed.sent, listed.left_out.control_group), (60 - members, members));
    assert_eq!((listed.users, listed.walked), (60, 60));
    let users = (0..40).map(|number| named(external(&format!("u{number}")), "")).collect();
    let triggered = Order { kind: Kind::Triggered, target: to_users(users), ..world.order() };
    let by_name = world.send(&triggered).await;
    let mut in_group = 0;
    for number in 0..40 {
        let id = world.service_id(&format!("u{number}")).await;
        let bucket = longshore::users::service_id::bucket(&id).unwrap();
        let slice = longshore::users::service_id::slice_of(bucket);
        in_group += i64::from(group.slices.contains(&slice));
    }
    assert_eq!((by_name.sent, by_name.left_out.control_group), (40 - in_group, in_group));
    assert_eq!(world.send(&world.order()).await.sent, 60);
    world.close().await;
}

async fn temporary_failures_are_retried_under_the_same_id(world: World) {
    world.create_users(8).await;
    world.receiver.script((0..10).map(|_| ScriptedResponse::Status(503)));
    let listed = world.send(&world.campaign()).await;
    assert_eq!((listed.sent, listed.failed), (8, 0), "{listed:?}");
    assert_eq!(world.receiver.received().len(), 18);
    assert_eq!(world.received().len(), 8);
    assert_eq!(world.statistics().await[0]["sent"], 8);
    // What no other attempt can help is not tried again.
    world.receiver.script((0..8).map(|_| ScriptedResponse::Status(400)));
    let listed = world.send(&world.order()).await;
    assert_eq!((listed.sent, listed.failed), (0, 8), "{listed:?}");
    assert_eq!(world.receiver.received().len(), 26);
    why_is_shown(&world, &listed.id.simple().to_string()).await;
    world.close().await;
}

/// Of a send whose eight messages the receiver refused with 400.
async fn why_is_shown(world: &World, dispatch: &str) {
    let shown = world.place.printed(&["dispatches", "show", dispatch, "--json"]).await.concat();
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let [reason] = shown["reasons"].as_array().unwrap().as_slice() else { panic!("{shown}") };
    assert_eq!((&reason["channel"], &reason["state"]), (&json!("webhook"), &json!("failed")));
    assert_eq!((&reason["messages"], &shown["reasons_of_latest"]), (&json!(8), &Value::Null));
    let why = reason["reason"].as_str().unwrap();
    assert!(why.contains("400"), "{why}");
    let lines = world.place.printed(&["dispatches", "show", dispatch]).await;
    let line = format!("why          webhook failed, 8: {why}");
    assert!(lines.contains(&line), "{lines:?}");
    let printed = world.place.printed(&["messages", "u0", "--json"]).await;
    let messages: Vec<Value> =
        printed.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(messages.len(), 2, "{printed:?}");
    let [latest, earlier] = [&messages[0], &messages[1]];
    assert_eq!((&latest["dispatch_id"], &latest["state"]), (&json!(dispatch), &json!("failed")));
    assert_eq!((&latest["reason"], &latest["sent_at"]), (&json!(why), &Value::Null));
    assert_eq!((&earlier["state"], &earlier["channel"]), (&json!("sent"), &json!("webhook")));
    let lines = world.place.printed(&["messages", "u0", "--dispatch", dispatch]).await;
    assert!(lines.len() == 2 && lines[1].contains(why), "{lines:?}");
    for wrong in [["dispatches", "show", "xyz"], ["messages", "u0", "--dispatch=7"]] {
        let said = world.place.run(&wrong).await;
        let error = String::from_utf8_lossy(&said.stderr);
        assert!(error.contains("a dispatch_id must have 32 hexadecimal digits"), "{error}");
    }
}

async fn messages_that_are_never_accepted_fail(world: World) {
    world.create_users(2).await;
    world.receiver.script((0..10_000).map(|_| ScriptedResponse::Status(503)));
    let order = world.campaign();
    world.begin(&order).await;
    world.receiver.wait_for(4).await;
    assert_eq!(world.shown(&order).await.state, State::Running);
    let later = world.place.app.clock.now_ms() + 2 * DAY_MS;
    world.place.app.clock.set(jiff::Timestamp::from_millisecond(later).unwrap());
    let listed = world.ends(&order, State::Done).await;
    assert_eq!((listed.sent, listed.failed), (0, 2), "{listed:?}");
    assert_eq!(world.statistics().await[0]["failed"], 2);
    world.close().await;
}

async fn erased_users_receive_nothing(mut world: World) {
    world.create_users(3).await;
    world.rest().await;
    let waits = world.order();
    let users = ["u0", "u1"].map(|id| named(external(id), "")).to_vec();
    let order = Order { target: to_users(users), ..world.order() };
    world.begin(&order).await;
    let app = world.place.app.clone();
    erase::erase(&app.store, &world.workspace, "u0").await.unwrap();
    // Of another send its message waits to be tried again.
    world.receiver.script((0..3).map(|_| ScriptedResponse::Status(503)));
    world.work();
    let listed = world.ends(&order, State::Done).await;
    assert_eq!(listed.sent, 1, "{listed:?}");
    world.receiver.forget();
    world.receiver.script((0..2_000).map(|_| ScriptedResponse::Status(503)));
    let before = world.receiver.received().len();
    world.begin(&waits).await;
    world.receiver.wait_for(before + 2).await;
    erase::erase(&app.store, &world.workspace, "u1").await.unwrap();
    world.receiver.forget();
    let listed = world.ends(&waits, State::Done).await;
    assert_eq!((listed.sent, listed.failed), (1, 0), "{listed:?}");
    world.close().await;
}

async fn a_send_is_cancelled(world: World) {
    world.create_users(30).await;
    world.receiver.script((0..10_000).map(|_| ScriptedResponse::Status(503)));
    let order = world.order();
    world.begin(&order).await;
    world.receiver.wait_for(3).await;
    let id = order.dispatch_id.simple().to_string();
    let said = world.place.printed(&["dispatches", "cancel", &id]).await.join("\n");
    assert!(said.starts_with(&format!("{id} is cancel")), "{said}");
    world.receiver.forget();
    world.ends(&order, State::Cancelled).await;
    // A later one goes through, and what was cancelled says nothing more.
    world.send(&world.order()).await;
    let count = world.receiver.received().len();
    let listed = world.shown(&order).await;
    assert_eq!(listed.state, State::Cancelled);
    let failed = world.place.run(&["dispatches", "cancel", &id]).await;
    assert!(!failed.status.success());
    assert_eq!(world.receiver.received().len(), count);
    world.close().await;
}

async fn unsent_messages_of_cancelled_sends_do_not_count(world: World) {
    world.create_users(3).await;
    world.receiver.script([ScriptedResponse::Hang, ScriptedResponse::Hang, ScriptedResponse::Hang]);
    let order = world.campaign();
    world.begin(&order).await;
    world.receiver.wait_for(3).await;
    let mut tx = world.place.app.store.write().await.unwrap();
    assert!(dispatch::cancel(&mut tx, order.dispatch_id).await.unwrap());
    tx.commit().await.unwrap();
    for _ in 0..2 {
        assert_eq!(world.send(&world.campaign()).await.sent, 3);
    }
    assert_eq!(world.send(&world.campaign()).await.sent, 0);
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
        on_pool!(&world.place.app.store, pool => {
            sqlx::query_scalar::<_, i64>(noted).fetch_one(pool).await.unwrap() == 1
        })
    })
    .await;
    world.close().await;
}

async fn users_who_unsubscribe_before_a_retry_receive_nothing(world: World) {
    let user = |id: &str, state: &str| {
        let token = json!([{ "app_id": APP, "token": id }]);
        json!({ "external_id": id, "push_subscribe": state, "push_tokens": token })
    };
    world.import(&[user("ann", "subscribed"), user("bob", "subscribed")]).await;
    world.receiver.script([ScriptedResponse::Busy("3".into()), ScriptedResponse::Busy("3".into())]);
    let push = json!({ "alert": "{{${external_id}}}" });
    let messages = json!({ "apple_push": push }).as_object().unwrap().clone();
    let order = Order { messages, ..world.order() };
    world.begin(&order).await;
    world.receiver.wait_for(2).await;
    world.import(&[user("ann", "unsubscribed")]).await;
    let listed = world.ends(&order, State::Done).await;
    assert_eq!((listed.sent, listed.unreachable), (1, 1), "{listed:?}");
    assert_eq!(world.receiver.received().len(), 3);
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
    assert_eq!((listed.sent, listed.aborted, listed.failed), (1, 1, 0), "{listed:?}");
    assert_eq!(world.bodies(), ["u1"]);
    world.close().await;
}

async fn a_send_fails_if_its_declarations_are_gone(world: World) {
    world.create_users(3).await;
    let gone = Uuid::new_v4();
    let users = to_users(vec![named(external("u1"), "")]);
    let by_campaign = Order { campaign_id: Some(gone), ..world.order() };
    let by_segment =
        Order { target: Target { segment_id: Some(gone), ..Target::default() }, ..world.order() };
    let named = Order { campaign_id: Some(gone), target: users, ..world.order() };
    let by_workspace = Order { workspace_id: 4_711, ..world.order() };
    for (order, note) in [
        (by_campaign, "the campaign"),
        (by_segment, "the segment"),
        (named, "the campaign"),
        (by_workspace, "the workspace"),
    ] {
        world.begin(&order).await;
        let listed = world.ends(&order, State::Failed).await;
        assert!(listed.note.as_deref().unwrap_or_default().contains(note), "{listed:?}");
    }
    assert!(world.receiver.received().is_empty());
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
        let mut tx = world.place.app.store.write().await.unwrap();
        let reports = [(id, report)];
        let told = dispatch::reported(&mut tx, world.place.workspace, &reports).await.unwrap();
        tx.commit().await.unwrap();
        told == 1
    };
    assert!(report(Report::Delivered).await && !report(Report::Delivered).await);
    assert_eq!(world.receipts(user).await.unwrap(), 1);
    assert!(report(Report::Bounced("full".into())).await);
    assert!(!report(Report::Delivered).await && !report(Report::Bounced("full".into())).await);
    assert_eq!(world.receipts(user).await.unwrap(), 0);
    let statistics = world.statistics().await;
    let counts = ["sent", "delivered", "bounced"].map(|name| statistics[0][name].as_i64().unwrap());
    assert_eq!(counts, [2, 1, 1], "{statistics}");
    world.close().await;
}

async fn old_sends_are_deleted(mut world: World) {
    world.create_users(12).await;
    let order = world.campaign();
    world.send(&order).await;
    world.rest().await;
    let app = &world.place.app;
    dispatch::sweep::sweep(app, &CancellationToken::new()).await.unwrap();
    assert_eq!(world.shown(&order).await.state, State::Done);
    // As if it had ended a day before what is kept.
    let mut tx = app.store.write().await.unwrap();
    let before = app.clock.now_ms() - 31 * DAY_MS;
    let sql = sqlx::AssertSqlSafe(format!("UPDATE dispatches SET finished_at = {before}"));
    match &mut tx {
        store::Tx::Postgres(tx) => {
            sqlx::query(sql).execute(&mut **tx).await.unwrap();
        }
        store::Tx::Sqlite(tx) => {
            sqlx::query(sql).execute(&mut **tx).await.unwrap();
        }
    }
    tx.commit().await.unwrap();
    dispatch::sweep::sweep(app, &CancellationToken::new()).await.unwrap();
    let mut tx = app.store.snapshot().await.unwrap();
    assert!(dispatch::one(&mut tx, order.dispatch_id).await.unwrap().is_none());
    drop(tx);
    assert_eq!(world.receipts(world.service_id("u0").await).await.unwrap(), 0);
    assert_eq!(world.statistics().await[0]["sent"], 12);
    world.place.app.log.close().await;
}

async fn messages_to_unreadable_users_fail_with_a_reason(world: World) {
    let user = |id: &str| {
        let bought = json!([{ "name": "tea", "first": "2026-11-01", "last": "2026-11-01",
                              "count": 1 }]);
        json!({ "external_id": id, "purchases": bought })
    };
    world.import(&[user("ann"), user("bob"), user("cid")]).await;
    let store = &world.place.app.store;
    let broken = "UPDATE users SET doc = '{' WHERE external_id = 'bob'";
    on_pool!(store, pool => { sqlx::query(broken).execute(pool).await.unwrap(); });
    let users = to_users(["ann", "bob", "cid"].map(|id| named(external(id), "")).into());
    let everybody = world.campaign();
    for order in [Order { target: users, ..world.campaign() }, everybody] {
        let listed = world.send(&order).await;
        assert_eq!((listed.sent, listed.failed, listed.walked), (2, 1, 3), "{listed:?}");
        let id = listed.id.simple().to_string();
        let shown = world.place.printed(&["dispatches", "show", &id]).await.join("\n");
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
    assert_eq!((listed.sent, listed.failed), (1, 2), "{listed:?}");
    let id = listed.id.simple().to_string();
    let shown = world.place.printed(&["dispatches", "show", &id]).await.join("\n");
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
    assert_eq!(world.ends(&waits, State::Done).await.failed, 1);
    let id = waits.dispatch_id.simple().to_string();
    let shown = world.place.printed(&["dispatches", "show", &id]).await.join("\n");
    assert!(shown.contains("cannot read the user's stored profile"), "{shown}");
    world.close().await;
}

/// All sixteen combinations of the two states that a user has, or has not.
async fn only_emails_and_pushes_have_subscriptions(world: World) {
    const STATES: [Option<&str>; 4] =
        [None, Some("subscribed"), Some("opted_in"), Some("unsubscribed")];
    let groups = [SMS_GROUP, WHATS_APP_GROUP]
        .map(|id| json!({ "subscription_group_id": id, "subscription_state": "subscribed" }));
    let mut people = Vec::new();
    for email in STATES {
        for push in STATES {
            let token = json!([{ "app_id": APP, "token": format!("t{}", people.len()) }]);
            let mut user = json!({
                "external_id": format!("{email:?} {push:?}"), "email": "ann@people.example",
                "phone": format!("+4420000000{}", 10 + people.len()),
                "push_tokens": token, "subscription_groups": groups,
            });
            for (field, state) in [("email_subscribe", email), ("push_subscribe", push)] {
                if let Some(state) = state {
                    user[field] = state.into();
                }
            }
            people.push(user);
        }
    }
    // Without a group there is no SMS, whoever is asked for.
    let stranger = json!({ "external_id": "stranger", "phone": "+442000000099",
                           "email_subscribe": "unsubscribed", "push_subscribe": "unsubscribed" });
    people.push(stranger);
    world.import(&people).await;
    let mut messages = world.order().messages;
    let card = json!({ "type": "CLASSIC", "title": "t", "description": "d", "time_to_live": 60 });
    let sms = json!({ "subscription_group_id": SMS_GROUP, "body": "b", "app_id": "a" });
    let whats_app = json!({
        "subscription_group_id": WHATS_APP_GROUP, "app_id": "a", "message_type": "text",
        "message": { "body": "b" },
    });
    let email = json!({ "app_id": "a", "from": "a@acme.example", "body": "b" });
    let push = json!({ "alert": "a" });
    for (channel, message) in [
        ("content_card", card),
        ("sms", sms),
        ("whats_app", whats_app),
        ("email", email),
        ("apple_push", push),
    ] {
        messages.insert(channel.to_owned(), message);
    }
    for (subscription_state, passes) in [
        (SubscriptionState::OptedIn, &["opted_in"][..]),
        (SubscriptionState::Subscribed, &["subscribed", "opted_in"]),
        (SubscriptionState::All, &["subscribed", "opted_in", "unsubscribed"]),
    ] {
        let order = Order { messages: messages.clone(), subscription_state, ..world.order() };
        world.send(&order).await;
        let rows: Vec<(String, String, String)> = on_pool!(&world.place.app.store, pool => {
            sqlx::query_as("SELECT u.external_id, m.channel, m.state
                            FROM messages m JOIN users u ON u.service_id = m.service_id
                            WHERE m.dispatch_id = $1")
                .bind(order.dispatch_id).fetch_all(pool).await.unwrap()
        });
        let rows: BTreeSet<(String, String, String)> = rows.into_iter().collect();
        let mut expected = BTreeSet::new();
        let mut expect = |user: &str, channel: &str, state: &str| {
            expected.insert((user.to_owned(), channel.to_owned(), state.to_owned()));
        };
        for email in STATES {
            for push in STATES {
                let user = format!("{email:?} {push:?}");
                for channel in ["webhook", "content_card", "sms", "whats_app"] {
                    expect(&user, channel, "sent");
                }
                for (channel, state) in [("email", email), ("apple_push", push)] {
                    if passes.contains(&state.unwrap_or("subscribed")) {
                        expect(&user, channel, "sent");
                    }
                }
            }
        }
        for channel in ["webhook", "content_card"] {
            expect("stranger", channel, "sent");
        }
        for channel in ["sms", "whats_app"] {
            expect("stranger", channel, "unreachable");
        }
        if subscription_state == SubscriptionState::All {
            expect("stranger", "email", "unreachable");
            expect("stranger", "apple_push", "unreachable");
        }
        assert_eq!(rows, expected, "{subscription_state:?}");
    }
    assert_eq!(world.relay.taken().len(), 4 + 12 + 16);
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
