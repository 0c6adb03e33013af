//! The SQL of claims: each statement is a transaction, except those with `_within`.
//!
//! These are not rows of [`store::claims`]: they live a day longer than the work, with its
//! response, no worker waits for them, and one statement must both find and lease the claim by the
//! caller's key.
//!
//! Times are from the database's clock, so that a gateway with a wrong clock cannot take over a
//! claim; except `received_at`, from which the messages are derived.

use uuid::Uuid;

use super::claims::KEY_LIFETIME;
use super::{IdempotencyKey, Received, StoredResponse};
use kit::clock::millis;
use store::retention::OldRows;
use store::{Store, StoreError, Tx, execute, from_row, now_sql, old_rows};

/// How long a request waits for another transaction with its key, and then for other locks.
const SHORT_LOCK_TIMEOUT: &str = "SET LOCAL lock_timeout TO '1s'";
const DEFAULT_LOCK_TIMEOUT: &str = "SET LOCAL lock_timeout TO DEFAULT";

/// A request with a key.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    /// The id from which the ids of its messages and results are derived.
    pub id: Uuid,
    /// The hashes of the body, and of the messages derived from it.
    pub body: Vec<u8>,
    pub messages: Vec<u8>,
    /// By the clock of the gateway that received it first, in milliseconds since the epoch.
    pub received_at: i64,
    /// The response: none before everything is durable.
    pub status: Option<i32>,
    pub answer: Option<String>,
}
from_row! { Claim { id, body, messages, received_at, status, answer } }

impl Claim {
    /// The claim of a new request.
    pub fn new(received: Received, body: &[u8; 32], messages: &[u8; 32]) -> Self {
        Self {
            id: received.id,
            body: body.to_vec(),
            messages: messages.to_vec(),
            received_at: received.at,
            status: None,
            answer: None,
        }
    }

    /// The receipt from which its messages were derived.
    pub fn received(&self) -> Received {
        Received { id: self.id, at: self.received_at }
    }
}

/// Executes one statement that is a transaction by itself; returns the number of changed rows.
macro_rules! alone {
    ($store:expr, $query:expr) => {
        match $store {
            Store::Postgres { pool, .. } => $query.execute(pool).await?.rows_affected(),
            Store::Sqlite { write, .. } => $query.execute(write).await?.rows_affected(),
        }
    };
}

/// Executes one statement that is a transaction by itself, composed of the text before the
/// database's time, the time, and the text after it; returns the number of changed rows.
macro_rules! alone_at {
    ($store:expr, $before:literal, NOW, $after:literal, $($value:expr),+) => {
        match $store {
            Store::Postgres { pool, .. } => {
                let query = sqlx::query(concat!($before, now_sql!(postgres), $after));
                query $(.bind($value))+ .execute(pool).await?.rows_affected()
            }
            Store::Sqlite { write, .. } => {
                let query = sqlx::query(concat!($before, now_sql!(sqlite), $after));
                query $(.bind($value))+ .execute(write).await?.rows_affected()
            }
        }
    };
}

/// Like `alone_at!`, within a transaction.
macro_rules! within_at {
    ($tx:expr, $before:literal, NOW, $after:literal, $($value:expr),+) => {
        match $tx {
            Tx::Postgres(tx) => {
                let query = sqlx::query(concat!($before, now_sql!(postgres), $after));
                query $(.bind($value))+ .execute(&mut **tx).await?.rows_affected()
            }
            Tx::Sqlite(tx) => {
                let query = sqlx::query(concat!($before, now_sql!(sqlite), $after));
                query $(.bind($value))+ .execute(&mut **tx).await?.rows_affected()
            }
        }
    };
}

/// Inserts a claim with one of the two macros above.
macro_rules! insert {
    ($execute:ident, $connection:expr, $key:expr, $claim:expr, $lease:expr) => {
        $execute!(
            $connection,
            "WITH clock (now) AS (SELECT ",
            NOW,
            ")
             INSERT INTO idempotency_claims AS former
                 (workspace_id, endpoint, key, id, body, messages, received_at, claimed_at,
                  leased_until)
             SELECT $1, $2, $3, $4, $5, $6, $7, now, now + $8 FROM clock WHERE true
             ON CONFLICT (workspace_id, endpoint, key) DO UPDATE
             SET id = excluded.id, body = excluded.body, messages = excluded.messages,
                 received_at = excluded.received_at, claimed_at = excluded.claimed_at,
                 leased_until = excluded.leased_until, status = NULL, answer = NULL
             WHERE former.claimed_at <= excluded.claimed_at - $9",
            $key.workspace,
            &$key.endpoint,
            &$key.key,
            $claim.id,
            &$claim.body,
            &$claim.messages,
            $claim.received_at,
            $lease,
            millis(KEY_LIFETIME)
        )
    };
}

/// Inserts a claim, leased for some milliseconds, if its key has no valid one; returns whether it
/// was inserted.
pub(super) async fn insert(
    store: &Store,
    key: &IdempotencyKey,
    claim: &Claim,
    lease: i64,
) -> Result<bool, StoreError> {
    Ok(insert!(alone_at, store, key, claim, lease) == 1)
}

/// The same within a transaction, and without a lease: others wait for its end, at most a second.
pub(super) async fn insert_within(
    tx: &mut Tx,
    key: &IdempotencyKey,
    claim: &Claim,
) -> Result<bool, StoreError> {
    set(tx, SHORT_LOCK_TIMEOUT).await?;
    let inserted = insert!(within_at, tx, key, claim, 0_i64) == 1;
    set(tx, DEFAULT_LOCK_TIMEOUT).await?;
    Ok(inserted)
}

/// Sets how long the transaction waits for locks. SQLite runs one writer at a time.
async fn set(tx: &mut Tx, lock_timeout: &'static str) -> Result<(), StoreError> {
    if let Tx::Postgres(tx) = tx {
        sqlx::query(lock_timeout).execute(&mut **tx).await?;
    }
    Ok(())
}

/// The query of a key's valid claim.
macro_rules! load {
    ($dialect:ident, $key:expr) => {
        sqlx::query_as(concat!(
            "SELECT id, body, messages, received_at, status, answer
             FROM idempotency_claims
             WHERE workspace_id = $1 AND endpoint = $2 AND key = $3 AND claimed_at > ",
            now_sql!($dialect),
            " - $4"
        ))
        .bind($key.workspace)
        .bind(&$key.endpoint)
        .bind(&$key.key)
        .bind(millis(KEY_LIFETIME))
    };
}

pub(super) async fn load(store: &Store, key: &IdempotencyKey) -> Result<Option<Claim>, StoreError> {
    Ok(match store {
        Store::Postgres { pool, .. } => load!(postgres, key).fetch_optional(pool).await?,
        Store::Sqlite { read, .. } => load!(sqlite, key).fetch_optional(read).await?,
    })
}

pub(super) async fn load_within(
    tx: &mut Tx,
    key: &IdempotencyKey,
) -> Result<Option<Claim>, StoreError> {
    Ok(match tx {
        Tx::Postgres(tx) => load!(postgres, key).fetch_optional(&mut **tx).await?,
        Tx::Sqlite(tx) => load!(sqlite, key).fetch_optional(&mut **tx).await?,
    })
}

/// Leases a claim for some milliseconds; false if it is leased, has a response, or has expired.
pub(super) async fn lease(
    store: &Store,
    key: &IdempotencyKey,
    claim: &Claim,
    lease: i64,
) -> Result<bool, StoreError> {
    let leased = alone_at!(
        store,
        "WITH clock (now) AS (SELECT ",
        NOW,
        ")
         UPDATE idempotency_claims SET leased_until = now + $5 FROM clock
         WHERE workspace_id = $1 AND endpoint = $2 AND key = $3 AND id = $4
           AND leased_until <= now AND claimed_at > now - $6 AND status IS NULL",
        key.workspace,
        &key.endpoint,
        &key.key,
        claim.id,
        lease,
        millis(KEY_LIFETIME)
    );
    Ok(leased == 1)
}

/// Ends the lease of a claim, whoever holds it.
pub(super) async fn release(
    store: &Store,
    key: &IdempotencyKey,
    claim: &Claim,
) -> Result<(), StoreError> {
    alone!(
        store,
        sqlx::query(
            "UPDATE idempotency_claims SET leased_until = 0
             WHERE workspace_id = $1 AND endpoint = $2 AND key = $3 AND id = $4
               AND status IS NULL",
        )
        .bind(key.workspace)
        .bind(&key.endpoint)
        .bind(&key.key)
        .bind(claim.id)
    );
    Ok(())
}

/// The statement that stores a response, unless there is one.
macro_rules! finish {
    ($key:expr, $claim:expr, $response:expr) => {
        sqlx::query(
            "UPDATE idempotency_claims SET status = $5, answer = $6
             WHERE workspace_id = $1 AND endpoint = $2 AND key = $3 AND id = $4
               AND status IS NULL",
        )
        .bind($key.workspace)
        .bind(&$key.endpoint)
        .bind(&$key.key)
        .bind($claim.id)
        .bind(i32::from($response.status.as_u16()))
        .bind(&$response.body)
    };
}

/// Stores the response, unless there is one.
pub(super) async fn finish(
    store: &Store,
    key: &IdempotencyKey,
    claim: &Claim,
    response: &StoredResponse,
) -> Result<(), StoreError> {
    alone!(store, finish!(key, claim, response));
    Ok(())
}

pub(super) async fn finish_within(
    tx: &mut Tx,
    key: &IdempotencyKey,
    claim: &Claim,
    response: &StoredResponse,
) -> Result<(), StoreError> {
    execute!(tx, finish!(key, claim, response));
    Ok(())
}

/// Claims created at or before a time.
pub(super) const OLD_CLAIMS: OldRows = old_rows!("idempotency_claims", "claimed_at <= $1", 1_000);
