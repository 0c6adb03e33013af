//! How sends end: cancelled, failed, deleted, and what their counts are then.

use longshore::messages::dispatch;
use longshore::messages::dispatch::state::{MessageOutcome, State};
use longshore::messages::order::{Order, PastRecipients, Target};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::DAY_MS;
use super::world::{World, external, named, to_users};
use crate::support::receiver::ScriptedResponse;
use crate::support::stores::on_both_stores;

on_both_stores!(World =>
    a_send_is_cancelled,
    unsent_messages_of_cancelled_sends_do_not_count,
    a_send_fails_if_its_declarations_are_gone,
    old_sends_are_deleted,
);

async fn a_send_is_cancelled(world: World) {
    world.create_users(30).await;
    world.receiver.script((0..10_000).map(|_| ScriptedResponse::Status(503)));
    let order = world.order();
    world.begin(&order).await;
    world.receiver.wait_for(3).await;
    let id = order.dispatch_id.simple().to_string();
    let said = world.place.printed(&["dispatches", "cancel", &id]).await.join("\n");
    assert!(said.starts_with(&format!("{id} is cancel")), "{said}");
    world.receiver.clear_script();
    world.ends(&order, State::Cancelled).await;
    // A later one goes through, and what was cancelled says nothing more.
    world.send(&world.order()).await;
    let count = world.receiver.received().len();
    let listed = world.shown(&order).await;
    assert_eq!(listed.state, State::Cancelled);
    // A repeat succeeds.
    let again = world.place.printed(&["dispatches", "cancel", &id]).await.join("\n");
    assert!(again.starts_with(&format!("{id} is cancelled")), "{again}");
    let shown = world.place.printed(&["dispatches", "show", &id, "--json"]).await.concat();
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
    let mut tx = world.place.app.store.write().await.unwrap();
    assert!(dispatch::cancel(&mut tx, order.dispatch_id).await.unwrap());
    tx.commit().await.unwrap();
    for _ in 0..2 {
        assert_eq!(world.send(&world.campaign()).await.sent, 3);
    }
    assert_eq!(world.send(&world.campaign()).await.sent, 0);
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

async fn old_sends_are_deleted(mut world: World) {
    world.create_users(12).await;
    let order = world.campaign();
    world.send(&order).await;
    world.rest().await;
    let app = &world.place.app;
    dispatch::sweep::sweep(app, &CancellationToken::new()).await.unwrap();
    assert_eq!(world.shown(&order).await.state, State::Done);
    // Another send goes to its recipients.
    let past =
        PastRecipients { dispatch_id: order.dispatch_id, outcomes: vec![MessageOutcome::Sent] };
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
    assert!(dispatch::cancel(&mut tx, apology.dispatch_id).await.unwrap());
    tx.commit().await.unwrap();
    dispatch::sweep::sweep(app, &CancellationToken::new()).await.unwrap();
    let mut tx = app.store.snapshot().await.unwrap();
    assert!(dispatch::summary(&mut tx, order.dispatch_id).await.unwrap().is_none());
    drop(tx);
    assert_eq!(world.receipts(world.service_id("u0").await).await.unwrap(), 0);
    assert_eq!(world.statistics().await[0]["sent"], 12);
    world.place.app.log.close().await;
}
