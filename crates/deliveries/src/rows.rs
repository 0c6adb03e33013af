//! The SQL of deliveries.

use uuid::Uuid;

use super::{Delivery, Filter, State};
use store::retention::OldRows;
use store::{StoreError, Tx, execute, old_rows, on};

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT d.id, d.workspace_id, w.name AS workspace, d.kind, d.subject, d.url, d.body,
                    d.receiver AS job, d.item, d.state, d.request_id, d.attempts, d.created_at,
                    d.retry_until, d.next_at, d.last_status, d.last_error, d.finished_at
             FROM deliveries d JOIN workspaces w ON w.id = d.workspace_id ",
            $rest
        )
    };
}

/// A delivery to write.
pub struct New<'a> {
    pub id: Uuid,
    pub workspace_id: i32,
    pub kind: &'a str,
    pub subject: &'a str,
    pub url: &'a str,
    pub body: &'a str,
    pub job: Uuid,
    pub item: i64,
    pub request_id: &'a str,
    pub created_at: i64,
    pub retry_until: i64,
    pub follows: Option<Uuid>,
}

/// The state of a delivery after an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptResult {
    pub state: State,
    pub next_at: Option<i64>,
    pub status: Option<u16>,
    pub error: Option<String>,
    pub finished_at: Option<i64>,
}

pub async fn insert(tx: &mut Tx, new: &New<'_>) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "INSERT INTO deliveries (id, workspace_id, kind, subject, url, body, receiver, item,
                                 state, request_id, created_at, retry_until, next_at, follows)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $11, $13)",
        )
        .bind(new.id)
        .bind(new.workspace_id)
        .bind(new.kind)
        .bind(new.subject)
        .bind(new.url)
        .bind(new.body)
        .bind(new.job)
        .bind(new.item)
        .bind(State::Pending.name())
        .bind(new.request_id)
        .bind(new.created_at)
        .bind(new.retry_until)
        .bind(new.follows)
    );
    Ok(())
}

/// The state of a delivery. Locks its row: the state does not change before the end of this
/// transaction.
pub async fn lock_state(tx: &mut Tx, id: Uuid) -> Result<Option<State>, StoreError> {
    let sql = if tx.is_postgres() {
        "SELECT state FROM deliveries WHERE id = $1 FOR UPDATE"
    } else {
        "SELECT state FROM deliveries WHERE id = $1"
    };
    Ok(on!(tx, c => sqlx::query_scalar(sql).bind(id).fetch_optional(c).await?))
}

/// The pending deliveries that follow this one.
pub async fn following(tx: &mut Tx, id: Uuid) -> Result<Vec<Delivery>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(select!("WHERE d.follows = $1 AND d.state = 'pending'"))
        .bind(id)
        .fetch_all(c)
        .await?))
}

/// The delivery of a claim's job and item.
pub async fn by_claim(tx: &mut Tx, job: Uuid, item: i64) -> Result<Option<Delivery>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(select!("WHERE d.receiver = $1 AND d.item = $2"))
        .bind(job)
        .bind(item)
        .fetch_optional(c)
        .await?))
}

pub async fn by_id(tx: &mut Tx, id: Uuid) -> Result<Option<Delivery>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(select!("WHERE d.id = $1"))
        .bind(id)
        .fetch_optional(c)
        .await?))
}

/// A workspace's delivery.
pub async fn find_for_workspace(
    tx: &mut Tx,
    workspace: i32,
    id: Uuid,
) -> Result<Option<Delivery>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(select!("WHERE d.id = $1 AND d.workspace_id = $2"))
        .bind(id)
        .bind(workspace)
        .fetch_optional(c)
        .await?))
}

/// The deliveries that match `filter`, latest first.
pub async fn list(tx: &mut Tx, filter: &Filter) -> Result<Vec<Delivery>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(select!(
        "WHERE ($1 IS NULL OR d.state = $1) AND ($2 IS NULL OR w.name = $2)
           AND ($3 IS NULL OR d.subject = $3)
           AND ($4 IS NULL OR (d.created_at, d.id) < (SELECT created_at, id FROM deliveries
                                                      WHERE id = $4))
         ORDER BY d.created_at DESC, d.id DESC LIMIT $5"
    ))
    .bind(filter.state.map(State::name))
    .bind(filter.workspace.as_deref())
    .bind(filter.subject.as_deref())
    .bind(filter.after)
    .bind(i64::from(filter.limit))
    .fetch_all(c)
    .await?))
}

/// Stores an attempt; the claim decides whether it is valid.
pub async fn record_attempt(
    tx: &mut Tx,
    id: Uuid,
    result: &AttemptResult,
) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "UPDATE deliveries SET attempts = attempts + 1, state = $2, next_at = $3,
                               last_status = $4, last_error = $5, finished_at = $6
         WHERE id = $1",
        )
        .bind(id)
        .bind(result.state.name())
        .bind(result.next_at)
        .bind(result.status.map(i32::from))
        // A receiver may repeat the address that it got.
        .bind(result.error.as_deref().map(super::without_signatures))
        .bind(result.finished_at)
    );
    Ok(())
}

/// Gives up the delivery of a claim's job and item, if its time limit has passed; returns its id
/// then.
pub async fn give_up(
    tx: &mut Tx,
    job: Uuid,
    item: i64,
    now: i64,
    error: &str,
) -> Result<Option<Uuid>, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar(
        "UPDATE deliveries SET attempts = attempts + 1, state = $4, next_at = NULL,
                               last_status = NULL, last_error = $5, finished_at = $3
         WHERE receiver = $1 AND item = $2 AND retry_until <= $3
         RETURNING id",
    )
    .bind(job)
    .bind(item)
    .bind(now)
    .bind(State::GivenUp.name())
    .bind(error)
    .fetch_optional(c)
    .await?))
}

/// Whether a delivery waits for the pending one that it follows. After an attempt, it does not:
/// then the earlier one had ended, and is sent again.
pub async fn is_waiting(tx: &mut Tx, id: Uuid) -> Result<bool, StoreError> {
    let found: Option<Uuid> = on!(tx, c => sqlx::query_scalar(
        "SELECT d.id FROM deliveries d JOIN deliveries earlier ON earlier.id = d.follows
         WHERE d.id = $1 AND d.attempts = 0 AND d.state = $2 AND earlier.state = $2",
    )
    .bind(id)
    .bind(State::Pending.name())
    .fetch_optional(c)
    .await?);
    Ok(found.is_some())
}

/// Makes a delivery pending and due: an ended one with a new time limit.
pub async fn reopen(tx: &mut Tx, id: Uuid, now: i64, retry_until: i64) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "UPDATE deliveries
             SET state = $2, next_at = $3, finished_at = NULL,
                 retry_until = CASE WHEN state = $2 THEN retry_until ELSE $4 END
             WHERE id = $1",
        )
        .bind(id)
        .bind(State::Pending.name())
        .bind(now)
        .bind(retry_until)
    );
    Ok(())
}

/// Deliveries that ended before a time, the earliest of each subject first: the erasure of a user
/// finds the earlier postbacks of an email by the later ones. A delivery that a pending one follows
/// stays. The subqueries force an index lookup for each delivery.
pub const OLD: OldRows = old_rows!(
    "deliveries",
    "created_at < $1 AND finished_at < $1
     AND (SELECT earlier.id FROM deliveries earlier WHERE earlier.id = deliveries.follows) IS NULL
     AND (SELECT later.id FROM deliveries later
          WHERE later.follows = deliveries.id AND later.state = 'pending' LIMIT 1) IS NULL",
    1_000
);
