//! Which users of a send get messages: segments, subscriptions, caps, control group.

use std::collections::{BTreeMap, BTreeSet};

use longshore::erase;
use longshore::messages::dispatch::LeftOut;
use longshore::messages::dispatch::state::State;
use longshore::messages::order::{Kind, Order, SubscriptionState, Target};
use longshore::workspaces;
use serde_json::json;

use super::DAY_MS;
use super::world::{APP, SMS_GROUP, WHATS_APP_GROUP, World, external, named, segment, to_users};
use crate::support::receiver::ScriptedResponse;
use crate::support::stores::{on_both_stores, on_pool};

on_both_stores!(World =>
    a_segment_is_walked_in_parts,
    subscriptions_are_respected,
    frequency_caps_hold_across_concurrent_sends,
    the_control_group_is_left_out_of_campaigns,
    erased_users_receive_nothing,
    users_who_unsubscribe_before_a_retry_receive_nothing,
    only_emails_and_pushes_have_subscriptions,
);

async fn a_segment_is_walked_in_parts(world: World) {
    world.create_users(95).await;
    let target = Target { segment_id: segment(), ..Target::default() };
    let listed = world.send(&Order { target, ..world.order() }).await;
    assert_eq!((listed.users, listed.walked, listed.parts), (95, 95, 10), "{listed:?}");
    assert_eq!(listed.messages.sent, 48, "{listed:?}");
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
        assert_eq!((listed.messages.sent, listed.messages.unreachable), (sent, 1), "{listed:?}");
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
        (sent, capped) = (sent + listed.messages.sent, capped + listed.left_out.capped);
    }
    assert_eq!((sent, capped), (80, 80));
    let mut by_user: BTreeMap<String, usize> = BTreeMap::new();
    world.bodies().into_iter().for_each(|user| *by_user.entry(user).or_default() += 1);
    assert!(by_user.len() == 40 && by_user.values().all(|count| *count == 2), "{by_user:?}");
    // Neither without a campaign, nor where it is asked so, nor once the days are over.
    assert_eq!(world.send(&world.order()).await.messages.sent, 40);
    let overriding = Order { ignores_capping: true, ..world.campaign() };
    assert_eq!(world.send(&overriding).await.messages.sent, 40);
    assert_eq!(world.send(&world.campaign()).await.messages.sent, 0);
    let later = world.installation.app.clock.now_ms() + 8 * DAY_MS;
    world.installation.app.clock.set(jiff::Timestamp::from_millisecond(later).unwrap());
    assert_eq!(world.send(&world.campaign()).await.messages.sent, 40);
    world.close().await;
}

async fn the_control_group_is_left_out_of_campaigns(world: World) {
    world.create_users(60).await;
    let mut tx = world.installation.app.store.snapshot().await.unwrap();
    let group =
        workspaces::control_group(&mut tx, world.installation.workspace).await.unwrap().unwrap();
    let members =
        workspaces::groups::users(&mut tx, world.installation.workspace, &group).await.unwrap();
    drop(tx);
    let canvas = Order { kind: Kind::Canvas, ..world.order() };
    let listed = world.send(&canvas).await;
    assert_eq!((listed.messages.sent, listed.left_out.control_group), (60 - members, members));
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
    assert_eq!((by_name.messages.sent, by_name.left_out.control_group), (40 - in_group, in_group));
    assert_eq!(world.send(&world.order()).await.messages.sent, 60);
    world.close().await;
}

async fn erased_users_receive_nothing(mut world: World) {
    world.create_users(3).await;
    world.rest().await;
    let waits = world.order();
    let users = ["u0", "u1"].map(|id| named(external(id), "")).to_vec();
    let order = Order { target: to_users(users), ..world.order() };
    world.begin(&order).await;
    let app = world.installation.app.clone();
    erase::erase(&app.store, &world.workspace, "u0").await.unwrap();
    // Of another send its message waits to be tried again.
    world.receiver.script((0..3).map(|_| ScriptedResponse::Status(503)));
    world.work();
    let listed = world.ends(&order, State::Done).await;
    assert_eq!(listed.messages.sent, 1, "{listed:?}");
    world.receiver.clear_script();
    world.receiver.script((0..2_000).map(|_| ScriptedResponse::Status(503)));
    let before = world.receiver.received().len();
    world.begin(&waits).await;
    world.receiver.wait_for(before + 2).await;
    erase::erase(&app.store, &world.workspace, "u1").await.unwrap();
    world.receiver.clear_script();
    let listed = world.ends(&waits, State::Done).await;
    assert_eq!((listed.messages.sent, listed.messages.failed), (1, 0), "{listed:?}");
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
    assert_eq!((listed.messages.sent, listed.messages.unreachable), (1, 1), "{listed:?}");
    assert_eq!(world.receiver.received().len(), 3);
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
                "external_id": format!("{email:?} {push:?}"),
                "email": format!("ann{}@people.example", people.len()),
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
        let rows: Vec<(String, String, String)> = on_pool!(&world.installation.app.store, pool => {
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
    assert_eq!(world.relay.accepted().len(), 4 + 12 + 16);
    world.close().await;
}
