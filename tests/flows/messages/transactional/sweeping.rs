//! What is old of transactional emails is deleted.

use longshore::transactional::queue;
use tokio_util::sync::CancellationToken;

use crate::support::installation::Installation;
use crate::support::stores::{TestStore, on_both_stores, on_pool};

on_both_stores!(old_emails_and_keys_are_deleted,);

const DAY_MS: i64 = 86_400_000;

async fn old_emails_and_keys_are_deleted(store: TestStore) {
    let installation = Installation::open(store, "workspace: acme\ncurrency: USD\n", |_| {}).await;
    let store = &installation.app.store;
    let now = store.now().await.unwrap();
    let kept = i64::from(installation.app.config.transactional.keep_days) * DAY_MS;
    let emails = [
        ("sent", now - kept - DAY_MS),
        ("processing", now - kept - DAY_MS),
        ("sent", now - kept + DAY_MS),
    ];
    for (number, (state, received_at)) in (1..).zip(emails) {
        on_pool!(store, pool => {
            sqlx::query(
                "INSERT INTO transactional_emails
                     (dispatch_id, workspace_id, campaign_id, request_id, state, state_at,
                      received_at, enqueued_at, due_at, again_at)
                 VALUES ($1, $2, $1, 'r', $3, $4, $4, $4, $4, $4)",
            )
            .bind(uuid::Uuid::from_u128(number))
            .bind(installation.workspace)
            .bind(state)
            .bind(received_at)
            .execute(pool).await.unwrap();
        });
    }
    for (key, taken_at) in [("old", now - DAY_MS - 60_000), ("new", now - DAY_MS + 60_000)] {
        on_pool!(store, pool => {
            sqlx::query("INSERT INTO transactional_keys VALUES ($1, $2, $3, $4)")
                .bind(installation.workspace)
                .bind(key)
                .bind(uuid::Uuid::nil())
                .bind(taken_at)
                .execute(pool).await.unwrap();
        });
    }
    queue::sweep(&installation.app, &CancellationToken::new()).await.unwrap();
    let left: Vec<(String, i64)> = on_pool!(store, pool => {
        sqlx::query_as("SELECT state, received_at FROM transactional_emails ORDER BY dispatch_id")
            .fetch_all(pool).await.unwrap()
    });
    assert_eq!(left, emails[1..].iter().map(|(s, at)| ((*s).to_owned(), *at)).collect::<Vec<_>>());
    let keys: Vec<String> = on_pool!(store, pool => {
        sqlx::query_scalar("SELECT external_send_id FROM transactional_keys")
            .fetch_all(pool).await.unwrap()
    });
    assert_eq!(keys, ["new"]);
}
