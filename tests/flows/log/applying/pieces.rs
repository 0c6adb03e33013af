//! What fails, or is too much, together is done in pieces, down to the parts of a message.

use longshore::engine::batches::dead_letters::DeadLetterError;
use runtime::audit::{self, Entry, Filter};
use serde_json::json;
use store::{StoreError, Tx};

use super::*;

on_both!(
    only_the_failing_parts_of_a_message_are_buried,
    oversized_batches_are_split,
    a_message_that_stays_too_large_is_buried,
);

/// Retries a dead letter, with an entry in the audit log.
pub async fn retry_buried(
    store: &Store,
    handler: &impl Handler,
    id: Uuid,
) -> Result<(), DeadLetterError> {
    let entry = Entry::from_command(None, "dead_letter.retry", id.to_string(), json!({}));
    dead_letters::retry(store, handler, id, &entry, &nothing_more).await
}

async fn nothing_more(_: &mut Tx) -> Result<(), StoreError> {
    Ok(())
}

async fn only_the_failing_parts_of_a_message_are_buried(test_log: TestLog) {
    let installation = prepared(test_log).await;
    let (store, log) = installation.open().await;
    let mut messages = tracked(0, 0, 6);
    messages[3] = tracking(0, "one & refuse it & two & panic & three");
    // Applied once, also where it comes again.
    messages[3].key = Uuid::new_v4().as_bytes().to_vec();
    messages.push(messages[3].clone());
    log.append(messages).await.unwrap();
    let handler = Tally::default();
    let running = Running::start(&installation.test_log.config, handler.clone()).await;
    eventually("the offset is at the end", async || next(&store, 0).await == 7).await;
    let applied = until_applied(&store, 8).await;
    let parts = ["0/one", "0/two", "0/three"];
    assert!(parts.iter().all(|part| applied.contains_key(*part)), "{applied:?}");
    let letters = buried(&store).await;
    let told: Vec<_> =
        letters.iter().map(|l| (l.position, l.payload.as_slice(), l.reason.as_str())).collect();
    assert_eq!(told, [(3, &b"refuse it & panic"[..], "never; it panicked: this one")]);

    // What can be done of it goes, and what cannot stays; once, also where two try it.
    let id = letters[0].id;
    let refused = retry_buried(&store, &handler, id).await.unwrap_err().to_string();
    assert!(!refused.contains("the rest of the message was applied"), "{refused}");
    handler.healed.store(true, Ordering::SeqCst);
    let retry = || retry_buried(&store, &handler, id);
    let (first, other) = tokio::join!(retry(), retry());
    let refused = [first, other].map(|tried| tried.unwrap_err().to_string());
    let is_rest_done =
        |text: &&String| text.contains("this one (the rest of the message was applied)");
    assert_eq!(refused.iter().filter(is_rest_done).count(), 1, "{refused:?}");
    assert_eq!(until_applied(&store, 9).await["0/refuse it"], 1);
    let letters = buried(&store).await;
    assert_eq!((letters.len(), letters[0].payload.as_slice()), (1, &b"panic"[..]));
    let filter = Filter { limit: 10, ..Filter::default() };
    let entries = audit::list(&mut store.snapshot().await.unwrap(), &filter).await.unwrap();
    let mut results: Vec<_> = entries.iter().map(|entry| entry.details.to_string()).collect();
    results.sort();
    let failed = r#"{"result":"failed"}"#;
    assert_eq!(results, [failed, failed, r#"{"result":"partly_applied"}"#]);
    running.stop().await;
    log.close().await;
}

async fn oversized_batches_are_split(test_log: TestLog) {
    let installation = prepared(test_log).await;
    let (store, log) = installation.open().await;
    let mut messages = tracked(0, 0, 20);
    messages[7] = tracking(0, "few");
    messages[8] = tracking(0, "few more & a & b & c");
    log.append(messages).await.unwrap();
    let running = Running::start(&installation.test_log.config, Tally::default()).await;
    let applied = until_applied(&store, 23).await;
    assert!(applied.contains_key("0/c"), "a message by itself is done in parts: {applied:?}");
    running.stop().await;
    assert!(buried(&store).await.is_empty());
    log.close().await;
}

async fn a_message_that_stays_too_large_is_buried(test_log: TestLog) {
    let installation = prepared(test_log).await;
    let (store, log) = installation.open().await;
    let mut messages = tracked(0, 0, 6);
    messages[2] = tracking(0, "large");
    log.append(messages).await.unwrap();
    let handler = Tally::default();
    let running = Running::start(&installation.test_log.config, handler.clone()).await;
    let applied = until_applied(&store, 5).await;
    assert!(!applied.contains_key("0/large"), "{applied:?}");
    eventually("the offset is at the end", async || next(&store, 0).await == 6).await;
    let letters = buried(&store).await;
    let positions: Vec<i64> = letters.iter().map(|letter| letter.position).collect();
    assert_eq!(positions, [2]);
    handler.healed.store(true, Ordering::SeqCst);
    retry_buried(&store, &handler, letters[0].id).await.unwrap();
    until_applied(&store, 6).await;
    running.stop().await;
    log.close().await;
}

/// As long as it lasts, a transaction that does more than a few things takes too long.
#[tokio::test(flavor = "multi_thread")]
async fn batches_that_time_out_are_split() {
    let installation = prepared(TestLog::kafka()).await;
    let (store, log) = installation.open().await;
    let slow = "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
                $$BEGIN
                    IF (SELECT count(*) FROM tally
                        WHERE xmin::text = pg_current_xact_id()::xid::text) > 5 THEN
                        RAISE 'too long' USING ERRCODE = '57014';
                    END IF;
                    RETURN NULL;
                END$$;
                CREATE TRIGGER slows AFTER INSERT ON tally EXECUTE FUNCTION slow()";
    on_pool!(&store, pool => { sqlx::raw_sql(slow).execute(pool).await.unwrap(); });
    log.append(tracked(0, 0, 20)).await.unwrap();
    let running = Running::start(&installation.test_log.config, Tally::default()).await;
    until_applied(&store, 20).await;
    running.stop().await;
    assert!(buried(&store).await.is_empty());
    log.close().await;
}
