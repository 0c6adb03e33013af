//! Content cards: stored once, read until they expire, gone with their user.

use kit::clock::from_ms;
use longshore::messages::Outcome;
use longshore::messages::channels::cards;
use longshore::workspaces::Channel;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{Message, World};
use crate::support::stores::{TestStore, on_both_stores, on_pool};

on_both_stores!(a_card_is_stored_once_and_expires, many_cards_are_stored_together,);

/// The ids of new users, in no order.
async fn stored(world: &World, count: usize) -> Vec<Uuid> {
    let lines: Vec<String> =
        (0..count).map(|n| json!({ "external_id": format!("u{n}") }).to_string()).collect();
    let file = world.installation.store.config.data.join("users.ndjson");
    std::fs::write(&file, lines.join("\n")).unwrap();
    world.installation.printed(&["import", file.to_str().unwrap()]).await;
    let store = &world.app().store;
    let ids = on_pool!(store, pool => {
        sqlx::query_scalar("SELECT service_id FROM users").fetch_all(pool).await
    });
    ids.unwrap()
}

fn card(service_id: Uuid, more: Value) -> Message {
    let mut object = json!({ "type": "CLASSIC", "title": "Hello\nAnn", "description": "d" });
    object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Message::to(service_id, Channel::ContentCard, object, json!({}))
}

async fn listed(world: &World) -> Vec<Value> {
    let lines = world.installation.printed(&["cards", "u0", "--json"]).await;
    lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

async fn count(world: &World) -> i64 {
    let store = &world.app().store;
    let count = on_pool!(store, pool => {
        sqlx::query_scalar("SELECT count(*) FROM content_cards").fetch_one(pool).await
    });
    count.unwrap()
}

async fn a_card_is_stored_once_and_expires(store: TestStore) {
    let world = World::new(store).await;
    let user = stored(&world, 1).await[0];
    let message = card(user, json!({ "time_to_live": 3600 }));
    for _ in 0..2 {
        assert_eq!(world.send(&message).await, Outcome::Sent);
    }
    let cards = listed(&world).await;
    let [listed_card] = cards.as_slice() else { panic!("{cards:?}") };
    assert_eq!(listed_card["card"], Value::Object(message.rendered.object.clone()));
    assert_eq!(listed_card["dispatch_id"], message.id.dispatch_id.simple().to_string());
    let lines = world.installation.printed(&["cards", "u0"]).await;
    assert!(lines.len() == 2 && lines[1].ends_with("Hello Ann"), "{lines:?}");
    for wrong in [json!({}), json!({ "time_to_live": 0 }), json!({ "expire_at": "2020-01-01" })] {
        assert!(matches!(world.send(&card(user, wrong)).await, Outcome::Failed(_)));
    }
    // One that has expired by the clock of the database is shown no more, and swept.
    let clock = &world.app().clock;
    clock.set(from_ms(clock.now_ms() - 7_200_000));
    assert_eq!(world.send(&card(user, json!({ "time_to_live": 60 }))).await, Outcome::Sent);
    assert_eq!((listed(&world).await.len(), count(&world).await), (1, 2));
    cards::sweep(world.app(), &CancellationToken::new()).await.unwrap();
    assert_eq!(count(&world).await, 1);
    assert_eq!(listed(&world).await, cards);
    // With the user goes what they are shown, and nobody gets more of it.
    world.installation.printed(&["users", "delete", "u0"]).await;
    assert_eq!(count(&world).await, 0);
    assert_eq!(world.send(&message).await, Outcome::Sent);
    assert_eq!(count(&world).await, 0);
}

async fn many_cards_are_stored_together(store: TestStore) {
    let world = World::new(store).await;
    let users = stored(&world, 300).await;
    let messages: Vec<Message> =
        users.iter().map(|user| card(*user, json!({ "time_to_live": 60 }))).collect();
    let twice = messages.iter().chain(&messages).map(|message| world.send(message));
    let sent = futures::future::join_all(twice).await;
    assert!(sent.iter().all(|outcome| *outcome == Outcome::Sent), "{sent:?}");
    assert_eq!(count(&world).await, 300);
}
