//! What is held to bounds: what a transaction holds, and what is recorded of an edit.

use super::*;

on_both_stores!(World =>
    batches_beyond_the_transaction_limit_are_split,
    a_record_has_the_first_unknown_ids_and_counts_all,
    pages_of_large_items_are_short,
);

const FIELDS: usize = 60;

/// A catalog with items of 300 kB each.
async fn large(world: &World, items: usize) -> i32 {
    let names: Vec<String> = (0..FIELDS).map(|n| format!("field {n}")).collect();
    let fields: Vec<Value> =
        names.iter().map(|name| json!({ "name": name, "type": "string" })).collect();
    let text = "x".repeat(5_000);
    let lines = (0..items).map(|n| {
        let mut item = json!({ "id": format!("i{n}") });
        names.iter().for_each(|name| item[name] = text.as_str().into());
        item.to_string()
    });
    let lines: Vec<String> = lines.collect();
    let catalog = json!([{ "name": "large", "fields": fields, "items": "large.ndjson" }]);
    world.declare(catalog, &[("large.ndjson", &lines.join("\n"))], false).await.unwrap();
    world.stored().await[0].catalog.id
}

fn edit(items: std::ops::Range<usize>) -> Value {
    items.map(|n| json!({ "id": format!("i{n}"), "values": { "field 0": "new" } })).collect()
}

async fn is_too_large(world: &World, messages: &[Message]) {
    let error = world.try_apply(messages).await.unwrap_err();
    assert!(error.can_retry() && error.is_too_large(), "{error}");
}

async fn batches_beyond_the_transaction_limit_are_split(world: World) {
    let catalog = large(&world, 40).await;
    // By documents.
    let messages = [world.message(catalog, &edit(0..20)), world.message(catalog, &edit(20..40))];
    is_too_large(&world, &messages).await;
    for message in messages {
        world.apply(&[message]).await;
    }
    // A message by itself is done in parts.
    let message = world.message(catalog, &edit(0..40));
    is_too_large(&world, std::slice::from_ref(&message)).await;
    let parts = world.edits.split(&message);
    assert_eq!(parts.len(), 40);
    assert_eq!(world.edits.join(&parts.iter().collect::<Vec<_>>()), message);
    for part in parts {
        world.apply(&[part]).await;
    }
    let applied: i32 = world.records(catalog).await.iter().map(|(applied, ..)| applied).sum();
    assert_eq!(applied, 80);
    assert!(world.items().await.iter().all(|item| item["field 0"] == "new"));
    // By items.
    let many = [world.message(catalog, &edit(0..8_000)), world.message(catalog, &edit(0..8_001))];
    is_too_large(&world, &many).await;
}

async fn a_record_has_the_first_unknown_ids_and_counts_all(world: World) {
    let catalog = world.restaurants(&["a"]).await.catalog.id;
    world.apply(&[world.message(catalog, &edit(0..50))]).await;
    let first = (0..10).map(|n| format!("i{n}")).collect::<Vec<_>>();
    assert_eq!(world.records(catalog).await, [(0, 50, json!(first).to_string())]);
}

async fn pages_of_large_items_are_short(world: World) {
    let catalog = large(&world, 20).await;
    let mut tx = world.app.store.snapshot().await.unwrap();
    let mut page = async |after: &str, limit: i64| {
        let page = rows::items_after(&mut tx, catalog, after, limit).await.unwrap();
        (page.items, page.has_more)
    };
    let (first, has_more) = page("", 1_000).await;
    // Of 4 MiB, and the item that exceeds them.
    assert_eq!((first.len(), has_more), (14, true));
    let last = &first[13].item_id;
    for (limit, items, has_more) in [(1_000, 6, false), (6, 6, false), (5, 5, true)] {
        let (second, more) = page(last, limit).await;
        assert_eq!((second.len(), more), (items, has_more), "{limit}");
        assert!(second[0].item_id > *last);
    }
    assert_eq!(page("z", 1_000).await, (Vec::new(), false));
}
