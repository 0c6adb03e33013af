//! Many random histories of a few users each.

use std::collections::{BTreeMap, VecDeque};

use longshore::users::suppressions::NewDecision;
use longshore::users::{devices, suppressions};

use super::histories::{self, Histories, Received, Request};
use super::*;
use crate::tracking::model::Random;

#[tokio::test(flavor = "multi_thread")]
async fn end_with_the_last_decisions() {
    let mut world = World::new(TestStore::sqlite().await).await;
    decisions_match_the_model(&mut world, 2, 1_000).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "scripts/test --all"]
async fn end_with_the_last_decisions_on_sqlite() {
    let mut world = World::new(TestStore::sqlite().await).await;
    decisions_match_the_model(&mut world, 20, 1_000).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "scripts/test --all"]
async fn end_with_the_last_decisions_on_postgresql() {
    let mut world = World::new(TestStore::postgres().await).await;
    decisions_match_the_model(&mut world, 20, 1_000).await;
}

/// Applies histories at the same time, with partitions that are behind, and compares every
/// decision.
async fn decisions_match_the_model(world: &mut World, rounds: u64, of_round: usize) {
    for seed in 0..rounds {
        world.another(&format!("acme {seed}")).await;
        let mut random = Random::new(seed);
        let mut histories = Histories::new(&mut random, of_round, seed as i64 * DAY / 24);
        replay(world, &mut random, histories.start()).await;
        let mut tx = world.app.store.write().await.unwrap();
        let key = suppressions::key(&mut tx, world.workspace.id).await.unwrap();
        tx.commit().await.unwrap();
        histories.know_ids(&world.documents().await, &key);
        for _ in 0..2 {
            let requests = histories.go_on(&mut random);
            replay(world, &mut random, requests).await;
        }
        histories.check(&world.documents().await, seed);
    }
}

/// A message that the log got at a time, from a gateway whose clock is ahead or behind. Both copies
/// of a change have the same time of receipt.
fn appended(world: &World, at: i64, object: Value) -> Message {
    let hours = (at / 60_000).wrapping_mul(7_919) % 5 - 2;
    let request = world.request(at + hours * 3_600_000, &[object]);
    Message { appended_at: at, log_time: Some(at), ..request }
}

/// Applies requests in batches: in order within a partition, while one partition is stopped. Some
/// batches are rolled back first, as if the worker had ended before the commit. Imports and reports
/// wait for no partition, and are applied before what is received later.
async fn replay(world: &World, random: &mut Random, requests: Vec<Request>) {
    let mut partitions: Vec<VecDeque<(i64, Message)>> =
        vec![VecDeque::new(); histories::PARTITIONS];
    let mut immediate: BTreeMap<i64, Vec<Received>> = BTreeMap::new();
    for Request { at, received } in requests {
        match received {
            Received::Tracked { partition, object } => {
                partitions[partition].push_back((at, appended(world, at, object)));
            }
            received => immediate.entry(at).or_default().push(received),
        }
    }
    let stopped = random.below(histories::PARTITIONS as i64) as usize;
    loop {
        let next = immediate.first_key_value().map_or(i64::MAX, |(at, _)| *at);
        let is_done = partitions.iter().all(VecDeque::is_empty);
        if is_done && immediate.is_empty() {
            break;
        }
        let is_alone = (0..partitions.len()).all(|at| at == stopped || partitions[at].is_empty());
        let at = random.below(partitions.len() as i64) as usize;
        if !is_done && (partitions[at].is_empty() || (at == stopped && !is_alone)) {
            continue;
        }
        let earlier = partitions[at].iter().take_while(|(at, _)| *at < next).count();
        if earlier == 0 || (next < i64::MAX && random.below(20) == 0) {
            let (at, received) = immediate.pop_first().unwrap();
            receive(world, random, at, received).await;
            continue;
        }
        let count = (1 + random.below(400) as usize).min(earlier);
        let batch: Vec<Message> = partitions[at].drain(..count).map(|(_, of)| of).collect();
        if random.below(10) == 0 {
            let prepared = world.ingest.prepare(&batch).await.unwrap();
            let mut tx = world.app.store.write().await.unwrap();
            let _ = world.ingest.apply(&mut tx, &prepared).await;
            drop(tx);
        }
        world.apply(&batch).await;
    }
}

/// Applies lines of an import and reports, at the time when they are received. Some imports were
/// interrupted, and are repeated.
async fn receive(world: &World, random: &mut Random, at: i64, received: Vec<Received>) {
    let (mut lines, mut gone, mut stopped) = (Vec::new(), Vec::new(), Vec::new());
    for received in received {
        match received {
            Received::Tracked { .. } => {}
            Received::Imported(line) => lines.push(line),
            Received::Reported(token) => gone.push(token),
            Received::Stopped(number, group) => {
                stopped.push(NewDecision::group_opt_out(number, group, at));
            }
        }
    }
    world.app.clock.set(from_ms(at));
    for _ in 0..1 + i32::from(random.below(5) == 0) {
        world.import(&lines).await;
    }
    let mut tx = world.app.store.write().await.unwrap();
    devices::remove_tokens(&mut tx, world.workspace.id, &gone).await.unwrap();
    suppressions::decide(&mut tx, world.workspace.id, &stopped).await.unwrap();
    tx.commit().await.unwrap();
}
