//! Sends whose content depends on what changed a moment ago: what the workspace declares, and which
//! users the identifiers of a request refer to.

use std::iter::repeat_n;

use longshore::messages::dispatch;
use longshore::messages::dispatch::state::State;
use longshore::messages::order::Order;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::world::{World, external, named, to_users};
use crate::support::eventually;
use crate::support::receiver::ScriptedResponse;
use crate::support::stores::{on_both_stores, on_pool};

on_both_stores!(World =>
    sends_use_what_was_declared_just_before,
    content_blocks_are_kept_once_and_while_a_send_has_them,
    messages_whose_entry_is_unknown_fail,
);

async fn sends_use_what_was_declared_just_before(world: World) {
    world.create_users(1).await;
    // So that the worker has read the settings.
    world.send(&world.order()).await;
    let origin = world.receiver.url("");
    let host = origin.trim_start_matches("http://");
    world.apply(|file| file["connected_content"] = json!({ "hosts": [host] })).await;
    let mut order = world.order();
    let url = world.receiver.url("/data");
    order.messages["webhook"]["body"] = json!(format!("{{% connected_content {url} %}}"));
    world.send(&order).await;
    let received = world.receiver.received();
    assert!(received.iter().any(|request| request.uri.path() == "/data"), "{received:?}");

    world.apply(|file| file["content_blocks"] = json!({ "greeting": "Hello" })).await;
    let mut order = world.order();
    order.messages["webhook"]["body"] = json!("{{content_blocks.${greeting}}} {{${external_id}}}");
    let summary = world.send(&order).await;
    assert_eq!(summary.messages.sent, 1, "{summary:?}");
    let received = world.receiver.received();
    assert_eq!(received.last().unwrap().body, "Hello u0");
    world.close().await;
}

async fn content_blocks_are_kept_once_and_while_a_send_has_them(world: World) {
    world.create_users(1).await;
    world.apply(|file| file["content_blocks"] = json!({ "greeting": "Hello", "other": "x" })).await;
    for _ in 0..2 {
        let mut order = world.order();
        order.messages["webhook"]["body"] = json!("{{content_blocks.${greeting}}}");
        world.send(&order).await;
    }
    let app = &world.installation.app;
    let execute = async |sql: String| {
        let sql = sqlx::AssertSqlSafe(sql);
        on_pool!(&app.store, pool => { sqlx::query(sql).execute(pool).await.unwrap(); });
    };
    let kept_after_sweep = async || -> i64 {
        dispatch::sweep::sweep(app, &CancellationToken::new()).await.unwrap();
        let sql = "SELECT count(*) FROM dispatch_blocks";
        on_pool!(&app.store, pool => sqlx::query_scalar(sql).fetch_one(pool).await.unwrap())
    };
    assert_eq!(kept_after_sweep().await, 1);
    // As if the sends had begun ten days ago.
    let then = app.clock.now_ms() - 10 * 24 * 3_600_000;
    execute(format!("UPDATE dispatches SET accepted_at = {then}")).await;
    execute(format!("UPDATE dispatch_blocks SET used_at = {then}")).await;
    assert_eq!(kept_after_sweep().await, 1);
    execute(format!("UPDATE dispatches SET accepted_at = {then} + 2 * 24 * 3600000")).await;
    assert_eq!(kept_after_sweep().await, 0);
    world.close().await;
}

async fn messages_whose_entry_is_unknown_fail(world: World) {
    world.create_users(2).await;
    world.receiver.script(repeat_n(ScriptedResponse::Status(503), 100_000));
    let users = vec![named(external("u0"), "x"), named(external("u1"), "y")];
    let order = Order { target: to_users(users), ..world.order() };
    world.begin(&order).await;
    world.receiver.wait_for(2).await;
    // Version 0.2.0 stored identifiers, and u0 has another one now.
    let list = json!([named(external("renamed"), "x"), named(external("u1"), "y")]).to_string();
    on_pool!(&world.installation.app.store, pool => {
        sqlx::query("UPDATE dispatch_parts SET named = $1 WHERE dispatch_id = $2")
            .bind(&list).bind(order.dispatch_id).execute(pool).await.unwrap();
    });
    eventually("the message fails", || async { world.shown(&order).await.messages.failed == 1 })
        .await;
    world.receiver.clear_script();
    let summary = world.ends(&order, State::Done).await;
    assert_eq!((summary.messages.sent, summary.messages.failed), (1, 1), "{summary:?}");
    // No attempt had other properties.
    assert_eq!(world.bodies(), ["u0 x", "u1 y"]);
    world.close().await;
}
