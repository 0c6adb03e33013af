//! Users are read once, in their order, in stretches of exact sizes.

use std::collections::{BTreeMap, BTreeSet};

use longshore::erase;
use longshore::users::scan::{PartBoundaries, cut};
use longshore::users::service_id;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{ALL, Seen, World, by_id, chosen, generated, value};
use crate::support::stores::on_both_stores;

on_both_stores!(World =>
    imported_users_are_read_once_and_in_order,
    stretches_have_exact_sizes_and_cross_slices,
    users_of_one_millisecond_are_ordered,
    a_slice_with_much_activity_is_read_whole,
    users_created_after_the_cut_are_not_read,
    another_workspace_is_not_touched,
);

async fn imported_users_are_read_once_and_in_order(world: World) {
    let lines = generated(3_000);
    let summary = world.import_well(&lines).await;
    assert_eq!((summary.created, summary.replaced, summary.lines), (3_000, 0, 3_000));
    let seen = world.everybody().await;
    assert!(seen.is_sorted_by(|a, b| a.position < b.position));
    let seen: BTreeMap<Uuid, Value> =
        seen.into_iter().map(|user| (user.position.service_id, user.record)).collect();
    assert_eq!(seen, by_id(&lines));
}

async fn stretches_have_exact_sizes_and_cross_slices(world: World) {
    world.import_well(&generated(1_500)).await;
    for (per_part, sizes) in [
        (700, vec![700, 700, 100]),
        (500, vec![500, 500, 500]),
        (1_500, vec![1_500]),
        (5_000, vec![1_500]),
    ] {
        let cuts = world.cut(&ALL, per_part).await;
        let stretches = world.stretches(&ALL, &cuts).await;
        assert_eq!(stretches.iter().map(Vec::len).collect::<Vec<_>>(), sizes);
        for (stretch, end) in stretches.iter().zip(&cuts.ends) {
            assert_eq!(stretch.last().map(|user| user.position), Some(*end));
        }
        let slices: BTreeSet<i16> = stretches[0].iter().map(|user| user.position.slice).collect();
        assert!(slices.len() > 1, "a stretch lies in {slices:?}");
    }
    // A group of some slices, and one of which some are empty.
    let group = [2, 40, 41, 99];
    let cuts = world.cut(&group, 10).await;
    let members = world.stretches(&group, &cuts).await;
    let expected: Vec<Seen> = world
        .everybody()
        .await
        .into_iter()
        .filter(|user| group.contains(&user.position.slice))
        .collect();
    assert!(members[..members.len() - 1].iter().all(|stretch| stretch.len() == 10));
    assert_eq!(members.concat(), expected);
    assert_eq!(cuts.youngest, expected.iter().map(|user| user.position.service_id).max().unwrap());
    // No more than one above the maximum.
    let mut tx = world.store().snapshot().await.unwrap();
    let cuts = cut(&mut tx, world.workspace.id, &ALL, 1, 700).await.unwrap();
    assert_eq!(cuts.ends.len(), 701);
    drop(tx);
    // Nobody at all.
    let nobody = PartBoundaries { users: 0, ends: Vec::new(), youngest: Uuid::nil() };
    assert_eq!(world.cut(&[], 10).await, nobody);
}

async fn users_of_one_millisecond_are_ordered(world: World) {
    // One bucket, one millisecond, few counters: keys collide, and come in no order.
    let id = |n: u64| service_id::new(1_700_000_000_000, (n % 3) as u16, 4_321, n * 7_919 % 101);
    let lines: Vec<String> =
        (0..100).map(|n| json!({"service_id": id(n), "first_name": "Ann"}).to_string()).collect();
    world.import_well(&lines[..50]).await;
    world.import_well(&lines[50..]).await;
    world.import_well(&lines).await;
    let mut expected: Vec<Uuid> = (0..100).map(id).collect();
    expected.sort_unstable();
    let cuts = world.cut(&ALL, 7).await;
    let stretches = world.stretches(&ALL, &cuts).await;
    assert_eq!(stretches.len(), 15);
    assert!(stretches[..14].iter().all(|stretch| stretch.len() == 7));
    let seen: Vec<Uuid> =
        stretches.concat().into_iter().map(|user| user.position.service_id).collect();
    assert_eq!(seen, expected);
}

async fn a_slice_with_much_activity_is_read_whole(world: World) {
    let at = "2020-01-01T00:00:00.000Z";
    let now = kit::clock::format_time(world.clock.now_ms());
    let lines: Vec<String> = (0..2_300)
        .map(|n| {
            // Some with activity, some without, some with activity that is too old to keep.
            let at = if n % 3 == 0 { at } else { now.as_str() };
            let events = match n % 7 {
                0 => json!([]),
                _ => json!([{"name": format!("e{n}"), "first": at, "last": at, "count": 1}]),
            };
            let id = format!("u{n}");
            json!({"external_id": id, "random_bucket": 555, "custom_events": events}).to_string()
        })
        .collect();
    world.import_well(&lines).await;
    let seen = world.everybody().await;
    assert_eq!(seen.len(), 2_300);
    for user in seen {
        let n: u32 = user.record["external_id"].as_str().unwrap()[1..].parse().unwrap();
        let event = user.record.get("custom_events").map(|events| events[0]["name"].clone());
        let expected =
            (!n.is_multiple_of(7) && !n.is_multiple_of(3)).then(|| json!(format!("e{n}")));
        assert_eq!((event, user.position.slice), (expected, 5));
    }
}

async fn users_created_after_the_cut_are_not_read(world: World) {
    world.import_well(&generated(300)).await;
    let before = world.everybody().await;
    let cuts = world.cut(&ALL, 120).await;
    let later: Vec<String> =
        (0..200).map(|n| json!({"external_id": format!("late{n}")}).to_string()).collect();
    world.import_well(&later).await;
    assert_eq!(world.count().await, 500);
    let stretches = world.stretches(&ALL, &cuts).await;
    assert_eq!(stretches.iter().map(Vec::len).collect::<Vec<_>>(), [120, 120, 60]);
    assert_eq!(stretches.concat(), before);
}

async fn another_workspace_is_not_touched(world: World) {
    let lines = generated(200);
    world.import_well(&lines).await;
    world.test.workspace("other").await;
    assert!(chosen(world.store(), None).await.unwrap_err().to_string().contains("acme, other"));
    assert!(chosen(world.store(), Some("third")).await.is_err());
    let other = chosen(world.store(), Some("other")).await.unwrap();
    let world = World { workspace: other, ..world };
    assert_eq!(world.count().await, 0);
    // The same people, under the same ids, once more.
    let summary = world.import_well(&lines).await;
    assert_eq!((summary.created, world.count().await), (200, 200));
    let id = value(&lines[0])["service_id"].as_str().unwrap().to_owned();
    erase::erase(world.store(), &world.workspace, &id).await.unwrap();
    assert_eq!((world.count().await, world.rows("users").await), (199, 399));
}
