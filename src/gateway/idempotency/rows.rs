//! The SQL of claims: each statement is a transaction of its own.

use uuid::Uuid;

use super::IdempotencyKey;
use crate::store::{Store, StoreError, Tx, execute, on};

/// Claims removed by one [`sweep`].
const SWEEP: i64 = 1_000;

/// A request that has a key.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(super) struct Claim {
    /// What the ids of its messages are made from.
    pub id: Uuid,
    /// The hashes of the body, and of the messages that it came to.
    pub body: Vec<u8>,
    pub messages: Vec<u8>,
    /// Milliseconds since the epoch, as everywhere here.
    pub received_at: i64,
    /// Until when whoever has it may be at work on it.
    pub leased_until: i64,
    /// The answer: none before everything is durable.
    pub status: Option<i32>,
    pub answer: Option<String>,
}

impl Claim {
    /// Of a request that was received now; nobody has it yet.
    pub fn new(body: &[u8; 32], messages: &[u8; 32], received_at: i64) -> Self {
        Self {
            id: Uuid::now_v7(),
            body: body.to_vec(),
            messages: messages.to_vec(),
            received_at,
            leased_until: 0,
            status: None,
            answer: None,
        }
    }
}

/// Executes one statement that is a transaction by itself; how many rows it changed.
macro_rules! alone {
    ($store:expr, $query:expr) => {
        match $store {
            Store::Postgres(pool) => $query.execute(pool).await?.rows_affected(),
            Store::Sqlite { write, .. } => $query.execute(write).await?.rows_affected(),
        }
    };
}

/// Writes a claim down where its key has none that was received after `expired`; whether it is
/// there now.
pub(super) async fn insert(
    store: &Store,
    key: &IdempotencyKey,
    claim: &Claim,
    expired: i64,
) -> Result<bool, StoreError> {
    let inserted = alone!(
        store,
        sqlx::query(
            "INSERT INTO idempotency_claims AS former
                 (workspace_id, endpoint, key, id, body, messages, received_at, leased_until)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
             ON CONFLICT (workspace_id, endpoint, key) DO UPDATE
             SET id = excluded.id, body = excluded.body, messages = excluded.messages,
                 received_at = excluded.received_at, leased_until = excluded.leased_until,
                 status = NULL, answer = NULL
             WHERE former.received_at <= $9",
        )
        .bind(key.workspace)
        .bind(&key.endpoint)
        .bind(&key.key)
        .bind(claim.id)
        .bind(&claim.body)
        .bind(&claim.messages)
        .bind(claim.received_at)
        .bind(claim.leased_until)
        .bind(expired)
    );
    Ok(inserted == 1)
}

pub(super) async fn load(store: &Store, key: &IdempotencyKey) -> Result<Option<Claim>, StoreError> {
    let sql = "SELECT id, body, messages, received_at, leased_until, status, answer
               FROM idempotency_claims WHERE workspace_id = $1 AND endpoint = $2 AND key = $3";
    macro_rules! fetch {
        ($pool:expr) => {
            sqlx::query_as(sql)
                .bind(key.workspace)
                .bind(&key.endpoint)
                .bind(&key.key)
                .fetch_optional($pool)
                .await?
        };
    }
    Ok(match store {
        Store::Postgres(pool) => fetch!(pool),
        Store::Sqlite { read, .. } => fetch!(read),
    })
}

/// Sets the end of the lease of a claim as it was loaded; false where somebody else was faster.
pub(super) async fn lease(
    store: &Store,
    key: &IdempotencyKey,
    claim: &Claim,
    until: i64,
) -> Result<bool, StoreError> {
    let leased = alone!(
        store,
        sqlx::query(
            "UPDATE idempotency_claims SET leased_until = $6
             WHERE workspace_id = $1 AND endpoint = $2 AND key = $3 AND id = $4
               AND leased_until = $5 AND status IS NULL",
        )
        .bind(key.workspace)
        .bind(&key.endpoint)
        .bind(&key.key)
        .bind(claim.id)
        .bind(claim.leased_until)
        .bind(until)
    );
    Ok(leased == 1)
}

/// Writes the answer down, unless there is one.
pub(super) async fn finish(
    store: &Store,
    key: &IdempotencyKey,
    claim: &Claim,
    status: i32,
    answer: &str,
) -> Result<(), StoreError> {
    alone!(
        store,
        sqlx::query(
            "UPDATE idempotency_claims SET status = $5, answer = $6
             WHERE workspace_id = $1 AND endpoint = $2 AND key = $3 AND id = $4
               AND status IS NULL",
        )
        .bind(key.workspace)
        .bind(&key.endpoint)
        .bind(&key.key)
        .bind(claim.id)
        .bind(status)
        .bind(answer)
    );
    Ok(())
}

/// Whether a claim was received no later than `expired`.
pub(super) async fn any_old(tx: &mut Tx, expired: i64) -> Result<bool, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM idempotency_claims WHERE received_at <= $1)",
    )
    .bind(expired)
    .fetch_one(c)
    .await?))
}

macro_rules! sweep_sql {
    ($lock:literal) => {
        concat!(
            "WITH old AS (
                 SELECT workspace_id, endpoint, key FROM idempotency_claims
                 WHERE received_at <= $1 ORDER BY received_at LIMIT $2 ",
            $lock,
            ")
             DELETE FROM idempotency_claims
             WHERE (workspace_id, endpoint, key) IN (SELECT workspace_id, endpoint, key FROM old)
               AND received_at <= $1"
        )
    };
}

/// Removes claims that were received no later than `expired`, some at a time; whether more are
/// left.
pub(super) async fn sweep(tx: &mut Tx, expired: i64) -> Result<bool, StoreError> {
    let sql = if tx.is_postgres() { sweep_sql!("FOR UPDATE SKIP LOCKED") } else { sweep_sql!("") };
    let removed = execute!(tx, sqlx::query(sql).bind(expired).bind(SWEEP));
    Ok(removed == SWEEP as u64)
}
