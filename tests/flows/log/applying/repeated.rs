//! Messages that come more than once, under ids.

use longshore::topics;

use super::*;

on_both!(repeated_messages_are_applied_once, repeats_of_dead_letters_are_skipped,);

/// Messages under ids of their own, from `first` on.
pub fn under_ids(first: u128, messages: Vec<NewMessage>) -> Vec<NewMessage> {
    let ids = (first..).map(|id| Uuid::from_u128(id).into_bytes().to_vec());
    ids.zip(messages).map(|(key, message)| NewMessage { key, ..message }).collect()
}

/// Each message twice, one right after the other.
pub fn doubled(messages: &[NewMessage]) -> Vec<NewMessage> {
    messages.iter().flat_map(|message| [message.clone(), message.clone()]).collect()
}

async fn repeated_messages_are_applied_once(test_log: TestLog) {
    let installation = prepared(test_log).await;
    let (store, log) = installation.open().await;
    let config = &installation.test_log.config;
    let messages = under_ids(1, tracked(0, 0, 10));
    log.append(doubled(&messages)).await.unwrap();
    let handler = Tally::default();
    let running = Running::start(config, handler.clone()).await;
    until_applied(&store, 10).await;
    eventually("the first ones are done", async || next(&store, 0).await == 20).await;
    let batches = handler.begun.load(Ordering::SeqCst);
    assert!(batches < 10, "no two of a message were in one batch of {batches}");

    // In other batches, between new ones, and of another process.
    log.append(messages.clone()).await.unwrap();
    log.append(tracked(0, 10, 1)).await.unwrap();
    until_applied(&store, 11).await;
    running.stop().await;
    let running = Running::start(config, Tally::default()).await;
    let of_others = under_ids(11, tracked(0, 11, 9));
    let mixed = messages.iter().zip(&of_others).flat_map(|(old, new)| [old.clone(), new.clone()]);
    log.append(mixed.collect()).await.unwrap();
    until_applied(&store, 20).await;
    // Another partition never had them.
    log.append(under_ids(1, tracked(1, 0, 10))).await.unwrap();
    until_applied(&store, 30).await;
    running.stop().await;
    assert_eq!((buried(&store).await.len(), notes(&store).await), (0, 0));
    log.close().await;
}

async fn repeats_of_dead_letters_are_skipped(test_log: TestLog) {
    let installation = prepared(test_log).await;
    let (store, log) = installation.open().await;
    let mut messages = tracked(0, 0, 8);
    messages[3] = tracking(0, "refuse it");
    messages[5] = tracking(0, "panic");
    let messages = under_ids(1, messages);
    log.append(doubled(&messages)).await.unwrap();
    let handler = Tally::default();
    let running = Running::start(&installation.test_log.config, handler.clone()).await;
    until_applied(&store, 6).await;
    log.append(messages.clone()).await.unwrap();
    eventually("all are done", async || next(&store, 0).await == 24).await;
    let letters = buried(&store).await;
    let told: Vec<_> = letters.iter().map(|l| (l.position, l.reason.as_str())).collect();
    assert_eq!(told, [(6, "never"), (10, "it panicked: this one")]);

    // Also once nothing would be wrong with it, before and after it was tried again.
    handler.healed.store(true, Ordering::SeqCst);
    log.append(messages.clone()).await.unwrap();
    eventually("all are done", async || next(&store, 0).await == 32).await;
    until_applied(&store, 6).await;
    retry_buried(&store, &handler, letters[0].id).await.unwrap();
    log.append(messages).await.unwrap();
    eventually("all are done", async || next(&store, 0).await == 40).await;
    assert_eq!(until_applied(&store, 7).await["0/refuse it"], 1);
    assert_eq!(buried(&store).await.len(), 1);
    running.stop().await;
    log.close().await;
}

/// A gateway's clock that is wrong neither makes ids go that are needed, nor lets those that
/// it wrote go early.
#[tokio::test(flavor = "multi_thread")]
async fn ids_are_remembered_by_the_databases_clock() {
    const DAY: i64 = 86_400_000;
    let installation = prepared(TestLog::embedded()).await;
    let (store, log) = installation.open().await;
    let ids: Vec<Uuid> = (0..3).map(|_| Uuid::new_v4()).collect();
    let with_id =
        |id: &Uuid| NewMessage { key: id.as_bytes().to_vec(), ..tracking(0, id.to_string()) };
    log.append(ids[1..].iter().map(with_id).collect()).await.unwrap();
    let file = format!("sqlite://{}", installation.test_log.config.data.join("log.db").display());
    // The first is days ahead, the second behind.
    let sql = "UPDATE messages SET appended_at = appended_at
               + CASE position WHEN 0 THEN 259200000 ELSE -259200000 END";
    assert_eq!(execute(&file, sql).await, 2);
    let now = kit::clock::Clock::system().now_ms();
    let scope = Scope { group: GROUP, topic: topics::TRACKING, partition: 0 };
    let mut tx = store.write().await.unwrap();
    message_ids::remember(&mut tx, scope, &[(ids[0], now)]).await.unwrap();
    tx.commit().await.unwrap();

    let running = Running::start(&installation.test_log.config, Tally::default()).await;
    until_applied(&store, 2).await;
    running.stop().await;
    let mut tx = store.write().await.unwrap();
    assert!(!message_ids::sweep(&mut tx, scope, now - DAY).await.unwrap());
    assert_eq!(message_ids::known(&mut tx, scope, &ids).await.unwrap().len(), 3);
    log.close().await;
}
