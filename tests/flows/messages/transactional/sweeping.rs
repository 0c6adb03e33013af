//! What is old of transactional emails is deleted.

use longshore::deliveries;
use longshore::transactional::queue;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::support::installation::Installation;
use crate::support::stores::{TestStore, on_both_stores, on_pool};

on_both_stores!(old_emails_and_keys_are_deleted, old_deliveries_are_deleted_before_their_email,);

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
            .bind(Uuid::from_u128(number))
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
                .bind(Uuid::nil())
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

/// A delivery to write.
struct Delivery {
    number: u128,
    kind: &'static str,
    follows: Option<u128>,
    created_at: i64,
    finished_at: Option<i64>,
}

/// An email with its postbacks, which follow each other, is deleted from the first postback on: an
/// erasure finds the others by the email and the last one.
async fn old_deliveries_are_deleted_before_their_email(store: TestStore) {
    let installation = Installation::open(store, "workspace: acme\ncurrency: USD\n", |_| {}).await;
    let (app, workspace) = (&installation.app, installation.workspace);
    let kept = i64::from(app.config.transactional.keep_days) * DAY_MS;
    let now = app.store.now().await.unwrap();
    let (old, recent) = (now - kept - DAY_MS, now - kept + DAY_MS);
    let delivery = |number, follows, created_at, finished_at| Delivery {
        number,
        kind: deliveries::STATUS_POSTBACK,
        follows,
        created_at,
        finished_at,
    };
    for delivery in [
        // All have ended.
        delivery(1, None, old, Some(old)),
        delivery(2, Some(1), old, Some(old)),
        delivery(3, Some(2), old, Some(old)),
        // The last one is pending.
        delivery(11, None, old, Some(old)),
        delivery(12, Some(11), old, None),
        // The first one was sent again recently.
        delivery(21, None, old, Some(recent)),
        delivery(22, Some(21), old, Some(old)),
        // Without an email.
        delivery(31, None, old, Some(old)),
        Delivery { kind: deliveries::EXPORT_CALLBACK, ..delivery(41, None, old, Some(old)) },
        Delivery { kind: deliveries::EXPORT_CALLBACK, ..delivery(42, None, old, None) },
        Delivery { kind: deliveries::EXPORT_CALLBACK, ..delivery(43, None, recent, Some(recent)) },
    ] {
        let state = if delivery.finished_at.is_some() { "delivered" } else { "pending" };
        on_pool!(&app.store, pool => {
            sqlx::query(
                "INSERT INTO deliveries
                     (id, workspace_id, kind, subject, url, body, receiver, item, state,
                      request_id, created_at, retry_until, finished_at, follows)
                 VALUES ($1, $2, $3, 's', 'u', '{}', $1, 1, $4, 'r', $5, $5, $6, $7)",
            )
            .bind(Uuid::from_u128(delivery.number))
            .bind(workspace)
            .bind(delivery.kind)
            .bind(state)
            .bind(delivery.created_at)
            .bind(delivery.finished_at)
            .bind(delivery.follows.map(Uuid::from_u128))
            .execute(pool).await.unwrap();
        });
    }
    for postback in [3, 12, 22] {
        on_pool!(&app.store, pool => {
            sqlx::query(
                "INSERT INTO transactional_emails
                     (dispatch_id, workspace_id, campaign_id, request_id, state, state_at,
                      received_at, enqueued_at, due_at, again_at, postback_id)
                 VALUES ($1, $2, $1, 'r', 'sent', $3, $3, $3, $3, $3, $1)",
            )
            .bind(Uuid::from_u128(postback))
            .bind(workspace)
            .bind(old)
            .execute(pool).await.unwrap();
        });
    }
    let left = async || {
        let emails: Vec<Uuid> = on_pool!(&app.store, pool => {
            sqlx::query_scalar("SELECT dispatch_id FROM transactional_emails ORDER BY dispatch_id")
                .fetch_all(pool).await.unwrap()
        });
        let deliveries: Vec<Uuid> = on_pool!(&app.store, pool => {
            sqlx::query_scalar("SELECT id FROM deliveries ORDER BY id")
                .fetch_all(pool).await.unwrap()
        });
        let numbers = |ids: Vec<Uuid>| ids.iter().map(Uuid::as_u128).collect::<Vec<_>>();
        (numbers(emails), numbers(deliveries))
    };
    let stop = CancellationToken::new();
    queue::sweep(app, &stop).await.unwrap();
    assert_eq!(left().await.0, [3, 12, 22], "their postbacks are not deleted yet");
    deliveries::sweep(app, &stop).await.unwrap();
    queue::sweep(app, &stop).await.unwrap();
    assert_eq!(left().await, (vec![12, 22], vec![11, 12, 21, 22, 42, 43]));
}
