//! How sends end: cancelled, failed, deleted, and what their counts are then.

use std::time::Duration;

use longshore::dispatches::{self, Filter};
use longshore::engine::batches::Handler as _;
use longshore::messages::dispatch::{self, OrderHandler, OutcomeFilter, State};
use longshore::messages::order::{Order, PastRecipients, Target};
use serde_json::{Value, json};
use store::Store;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::DAY_MS;
use super::world::{SEGMENT, World, external, named, segment, to_users};
use crate::support::eventually;
use crate::support::receiver::ScriptedResponse;
use crate::support::stores::{on_both_stores, on_pool, wait_until_blocked};

on_both_stores!(World =>
    a_send_is_cancelled,
    unsent_messages_of_cancelled_sends_do_not_count,
    a_cancellation_does_not_wait_for_messages,
    messages_of_parts_without_a_worker_are_marked_when_their_send_is_cancelled,
    outcomes_of_a_newer_release_are_listed,
    a_send_fails_if_its_declarations_are_gone,
    accepted_sends_of_inactive_campaigns_fail,
    sends_to_segments_are_recorded_however_they_end,
    old_sends_are_deleted,
    many_small_sends_are_deleted_together,
    two_workers_delete_old_sends,
);

async fn a_send_is_cancelled(world: World) {
    world.create_users(30).await;
    world.receiver.script((0..10_000).map(|_| ScriptedResponse::Status(503)));
    let order = world.order();
    world.begin(&order).await;
    world.receiver.wait_for(3).await;
    let id = order.dispatch_id.simple().to_string();
    let said = world.installation.printed(&["dispatches", "cancel", &id]).await.join("\n");
    assert!(said.starts_with(&format!("{id} is cancel")), "{said}");
    world.receiver.clear_script();
    world.ends(&order, State::Cancelled).await;
    // A later one goes through, and what was cancelled says nothing more.
    world.send(&world.order()).await;
    let count = world.receiver.received().len();
    let listed = world.shown(&order).await;
    assert_eq!(listed.state, State::Cancelled);
    // A repeat succeeds.
    let again = world.installation.printed(&["dispatches", "cancel", &id, "--json"]).await.concat();
    let again: Value = serde_json::from_str(&again).expect("JSON");
    let cancelled = json!({ "id": id, "state": "cancelled", "may_still_be_sent": 0 });
    assert_eq!(again, json!({ "dispatches": [cancelled], "failed": [] }));
    let shown = world.installation.printed(&["dispatches", "show", &id, "--json"]).await.concat();
    assert!(shown.contains(r#""may_still_be_sent":0"#), "{shown}");
    assert_eq!(world.receiver.received().len(), count);
    world.close().await;
}

async fn unsent_messages_of_cancelled_sends_do_not_count(world: World) {
    world.create_users(3).await;
    world.receiver.script([ScriptedResponse::Hang, ScriptedResponse::Hang, ScriptedResponse::Hang]);
    let order = world.campaign();
    world.begin(&order).await;
    world.receiver.wait_for(3).await;
    cancel(&world.installation.app.store, &order).await;
    for _ in 0..2 {
        assert_eq!(world.send(&world.campaign()).await.messages.sent, 3);
    }
    assert_eq!(world.send(&world.campaign()).await.messages.sent, 0);
    world.close().await;
}

async fn cancel(store: &Store, order: &Order) {
    let mut tx = store.write().await.unwrap();
    assert!(dispatch::cancel(&mut tx, order.dispatch_id).await.unwrap().is_some());
    tx.commit().await.unwrap();
}

/// Its messages may be millions.
async fn a_cancellation_does_not_wait_for_messages(world: World) {
    world.create_users(3).await;
    world.receiver.script([ScriptedResponse::Hang, ScriptedResponse::Hang, ScriptedResponse::Hang]);
    let order = world.campaign();
    world.begin(&order).await;
    world.receiver.wait_for(3).await;
    let store = &world.installation.app.store;
    match store {
        // It has one writer.
        Store::Sqlite { .. } => cancel(store, &order).await,
        Store::Postgres { pool, .. } => {
            let mut locking = pool.begin().await.unwrap();
            let sql = "SELECT service_id FROM messages FOR UPDATE";
            assert_eq!(sqlx::query(sql).fetch_all(&mut *locking).await.unwrap().len(), 3);
            let cancelling = cancel(store, &order);
            timeout(Duration::from_secs(20), cancelling).await.expect("it is cancelled at once");
            locking.rollback().await.unwrap();
        }
    }
    world.receiver.release();
    world.ends(&order, State::Cancelled).await;
    world.close().await;
}

/// A worker that stopped may have sent them, also if it returns its part while the send is
/// cancelled.
async fn messages_of_parts_without_a_worker_are_marked_when_their_send_is_cancelled(
    mut world: World,
) {
    world.create_users(12).await;
    world.receiver.script((0..100).map(|_| ScriptedResponse::Hang));
    let order = world.order();
    world.begin(&order).await;
    // Three of the first part, and the two of the second one.
    world.receiver.wait_for(5).await;
    world.rest().await;
    let store = world.installation.app.store.clone();
    // As if the worker had stopped before it could store an outcome.
    for sql in [
        "UPDATE claims SET attempt = 1 WHERE kind = 'dispatch_part'",
        "UPDATE messages SET state = 'pending', reason = NULL, attempts = 0",
    ] {
        on_pool!(&store, pool => { sqlx::query(sql).execute(pool).await.unwrap(); });
    }
    match &store {
        Store::Sqlite { .. } => cancel(&store, &order).await,
        Store::Postgres { pool, .. } => {
            let held = "UPDATE claims SET owner = gen_random_uuid()
                        WHERE kind = 'dispatch_part' AND item = 2";
            sqlx::query(held).execute(pool).await.unwrap();
            let mut locking = pool.begin().await.unwrap();
            let sql = "SELECT 1 FROM messages WHERE part = 1 FOR UPDATE";
            sqlx::query(sql).execute(&mut *locking).await.unwrap();
            let returning = async {
                // The cancellation marks the first part.
                wait_until_blocked(pool).await;
                let returned = "UPDATE claims SET owner = NULL
                                WHERE kind = 'dispatch_part' AND item = 2";
                sqlx::query(returned).execute(pool).await.unwrap();
                locking.rollback().await.unwrap();
            };
            tokio::join!(cancel(&store, &order), returning);
        }
    }
    world.work();
    world.ends(&order, State::Cancelled).await;
    let unmarked = "SELECT count(*) FROM messages WHERE reason IS NULL";
    let count: i64 =
        on_pool!(&store, pool => sqlx::query_scalar(unmarked).fetch_one(pool).await.unwrap());
    assert_eq!(count, 0);
    let id = order.dispatch_id.simple().to_string();
    let shown = world.installation.printed(&["dispatches", "show", &id, "--json"]).await.concat();
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert!(shown["cancelled"].as_i64().unwrap() >= 5, "{shown}");
    assert_eq!(shown["may_have_been_sent"], shown["cancelled"], "{shown}");
    assert_eq!(shown["reasons"][0]["state"], "cancelled", "{shown}");
    let recipients = world.installation.printed(&["dispatches", "recipients", &id, "--json"]).await;
    let recipient: Value = serde_json::from_str(&recipients[0]).unwrap();
    assert_eq!(recipient["outcome"], "cancelled", "{recipient}");
    let user = recipient["external_user_id"].as_str().unwrap();
    let messages = world.installation.printed(&["messages", user, "--json"]).await;
    let message: Value = serde_json::from_str(&messages[0]).unwrap();
    assert_eq!(message["state"], "cancelled", "{message}");
    world.close().await;
}

async fn outcomes_of_a_newer_release_are_listed(world: World) {
    world.create_users(1).await;
    let order = world.order();
    world.send(&order).await;
    let past =
        PastRecipients { dispatch_id: order.dispatch_id, outcomes: vec![OutcomeFilter::Sent] };
    let target = Target { recipients_of: Some(past), ..Target::default() };
    let apology = Order { target, ..world.order() };
    world.send(&apology).await;
    let newer = r#"UPDATE dispatches
                   SET order_json = replace(order_json, '"outcomes":["sent"]',
                                            '"outcomes":["opened"]')"#;
    on_pool!(&world.installation.app.store, pool => { sqlx::query(newer).execute(pool).await.unwrap(); });
    let mut tx = world.installation.app.store.snapshot().await.unwrap();
    let listed = dispatches::list(&mut tx, &Filter::default()).await.unwrap().dispatches;
    assert_eq!(listed.len(), 2, "{listed:?}");
    let shown = listed.iter().find(|listed| listed.id == apology.dispatch_id).unwrap();
    assert_eq!(shown.audience.kind, "recipients");
    assert_eq!(shown.audience.outcomes, ["opened"]);
    let workspace = world.installation.workspace;
    let sends = dispatches::sends_to_recipients(&mut tx, workspace, order.dispatch_id, 0).await;
    let outcomes: Vec<Vec<String>> = sends.unwrap().into_iter().map(|send| send.outcomes).collect();
    assert_eq!(outcomes, [["opened"]]);
    drop(tx);
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

async fn accepted_sends_of_inactive_campaigns_fail(world: World) {
    world.create_users(2).await;
    let begin = async |order: &Order| {
        let mut tx = world.installation.app.store.write().await.unwrap();
        OrderHandler.apply(&mut tx, &vec![order.clone()]).await.unwrap();
        tx.commit().await.unwrap();
    };
    for state in ["paused", "archived"] {
        world.apply(|file| file["campaigns"][0][state] = true.into()).await;
        let users = to_users(vec![named(external("u0"), "")]);
        for (order, kind) in
            [(world.campaign(), "all"), (Order { target: users, ..world.campaign() }, "users")]
        {
            begin(&order).await;
            let listed = world.shown(&order).await;
            assert_eq!(listed.state, State::Failed, "{listed:?}");
            assert_eq!(listed.audience.kind, kind, "{listed:?}");
            assert!(listed.note.as_deref().unwrap_or_default().contains(state), "{listed:?}");
        }
        // A send without the campaign begins.
        let other = world.order();
        begin(&other).await;
        world.ends(&other, State::Done).await;
    }
    world.apply(|_| {}).await;
    let order = world.campaign();
    begin(&order).await;
    assert_eq!(world.ends(&order, State::Done).await.messages.sent, 2);
    assert_eq!(world.received().len(), 6);
    world.close().await;
}

async fn sends_to_segments_are_recorded_however_they_end(world: World) {
    // One of them is in the segment.
    world.create_users(2).await;
    let responds = CancellationToken::new();
    world.receiver.script([ScriptedResponse::Held(responds.clone())]);
    let target = || Target { segment_id: segment(), ..Target::default() };
    let cancelled = Order { target: target(), ..world.order() };
    world.begin(&cancelled).await;
    world.receiver.wait_for(1).await;
    cancel(&world.installation.app.store, &cancelled).await;
    let records = world.records().await;
    let [record] = records.as_slice() else { panic!("{records:?}") };
    assert_eq!((&record["state"], &record["results"]["sent"]), (&json!("cancelled"), &json!(0)));
    // The message in flight is accepted after the cancellation.
    responds.cancel();
    world.ends(&cancelled, State::Cancelled).await;
    let failed = Order { campaign_id: Some(Uuid::new_v4()), target: target(), ..world.order() };
    world.begin(&failed).await;
    world.ends(&failed, State::Failed).await;
    let records = world.records().await;
    let ended: Vec<Value> = records
        .iter()
        .map(|record| json!([record["state"], record["segment_id"], record["results"]["sent"]]))
        .collect();
    let expected = [json!(["failed", SEGMENT, 0]), json!(["cancelled", SEGMENT, 1])];
    assert_eq!(ended, expected);
    world.close().await;
}

async fn old_sends_are_deleted(mut world: World) {
    world.create_users(12).await;
    let order = world.campaign();
    world.send(&order).await;
    world.rest().await;
    let app = &world.installation.app;
    dispatch::sweep::sweep(app, &CancellationToken::new()).await.unwrap();
    assert_eq!(world.shown(&order).await.state, State::Done);
    // Another send goes to its recipients.
    let past =
        PastRecipients { dispatch_id: order.dispatch_id, outcomes: vec![OutcomeFilter::Sent] };
    let target = Target { recipients_of: Some(past), ..Target::default() };
    let apology = Order { target, ..world.order() };
    world.begin(&apology).await;
    // As if it had ended a day before what is kept.
    let mut tx = app.store.write().await.unwrap();
    let before = app.clock.now_ms() - 31 * DAY_MS;
    let sql = sqlx::AssertSqlSafe(format!(
        "UPDATE dispatches SET finished_at = {before} WHERE finished_at IS NOT NULL"
    ));
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
    assert_eq!(world.shown(&order).await.state, State::Done, "its recipients are needed");
    let mut tx = app.store.write().await.unwrap();
    assert!(dispatch::cancel(&mut tx, apology.dispatch_id).await.unwrap().is_some());
    tx.commit().await.unwrap();
    dispatch::sweep::sweep(app, &CancellationToken::new()).await.unwrap();
    let mut tx = app.store.snapshot().await.unwrap();
    assert!(dispatches::summary(&mut tx, order.dispatch_id).await.unwrap().is_none());
    drop(tx);
    assert_eq!(world.receipts(world.service_id("u0").await).await.unwrap(), 0);
    assert_eq!(world.statistics().await[0]["sent"], 12);
    world.installation.app.log.close().await;
}

async fn many_small_sends_are_deleted_together(mut world: World) {
    world.rest().await;
    add_old_sends(&world, 8).await;
    let (app, stop) = (&world.installation.app, CancellationToken::new());
    let left = async || {
        let sql = "SELECT count(*) FROM dispatches";
        on_pool!(&app.store, pool => {
            sqlx::query_scalar::<_, i64>(sql).fetch_one(pool).await.unwrap()
        })
    };
    let stop_after_a_batch = async {
        eventually("the first sends are deleted", async || left().await < 700).await;
        stop.cancel();
    };
    let (swept, ()) = tokio::join!(dispatch::sweep::sweep(app, &stop), stop_after_a_batch);
    swept.unwrap();
    let left = left().await;
    assert!(left <= 200, "{left} sends are left after the first batch");
    world.sweep_all().await;
    world.installation.app.log.close().await;
}

async fn two_workers_delete_old_sends(mut world: World) {
    world.rest().await;
    // One batch has more messages than a transaction deletes.
    add_old_sends(&world, 12).await;
    match &world.installation.app.store {
        // It has one writer.
        Store::Sqlite { .. } => {
            tokio::join!(world.sweep_all(), world.sweep_all());
        }
        Store::Postgres { pool, .. } => {
            // As the other worker, it deletes one of the messages of each dispatch.
            let mut other = pool.begin().await.unwrap();
            let delete = "DELETE FROM messages WHERE channel = 'c1'";
            sqlx::query(delete).execute(&mut *other).await.unwrap();
            let committing = async {
                // The sweep waits for these messages.
                wait_until_blocked(pool).await;
                other.commit().await.unwrap();
            };
            tokio::join!(world.sweep_all(), committing);
        }
    }
    world.installation.app.log.close().await;
}

/// Adds 700 sends that ended long ago, each with this number of messages.
async fn add_old_sends(world: &World, messages: usize) {
    let app = &world.installation.app;
    let id = match &app.store {
        Store::Sqlite { .. } => "randomblob(16)",
        Store::Postgres { .. } => "gen_random_uuid()",
    };
    let workspace = world.installation.workspace;
    let numbers = |count: usize| {
        format!(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})"
        )
    };
    let (dispatches, messages) = (numbers(700), numbers(messages));
    for sql in [
        format!(
            "INSERT INTO dispatches (id, workspace_id, kind, state, order_json, is_whole,
                                     request_id, accepted_at, finished_at)
             {dispatches}
             SELECT {id}, {workspace}, 'send', 'done', '{{}}', TRUE, 'old', 0, i FROM n"
        ),
        format!(
            "INSERT INTO messages (workspace_id, service_id, dispatch_id, channel, part, state,
                                   created_at)
             {messages} SELECT workspace_id, id, id, 'c' || i, 1, 'sent', 0 FROM dispatches, n"
        ),
        "INSERT INTO console_log (dispatch_id, workspace_id, at, record)
         SELECT id, workspace_id, 0, '{}' FROM dispatches"
            .to_owned(),
    ] {
        let sql = sqlx::AssertSqlSafe(sql);
        on_pool!(&app.store, pool => { sqlx::query(sql).execute(pool).await.unwrap(); });
    }
}

impl World {
    /// Deletes old sends; nothing of any send is left.
    async fn sweep_all(&self) {
        let (app, stop) = (&self.installation.app, CancellationToken::new());
        dispatch::sweep::sweep(app, &stop).await.unwrap();
        let left = "SELECT (SELECT count(*) FROM dispatches) + (SELECT count(*) FROM messages)
                         + (SELECT count(*) FROM console_log)";
        let left: i64 =
            on_pool!(&app.store, pool => sqlx::query_scalar(left).fetch_one(pool).await.unwrap());
        assert_eq!(left, 0);
    }
}
