//! The SQL of claims: each statement is a transaction, except those with `_within`. Those with
//! `_all` serve many requests at once ([`Batches`](store::batches::Batches)).
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

/// A statement whose first parameters identify a claim: its key and its id.
macro_rules! claim_query {
    ($sql:expr, $key:expr, $id:expr) => {
        sqlx::query($sql).bind($key.workspace).bind(&$key.endpoint).bind(&$key.key).bind($id)
    };
}

/// A claim to be stored.
#[derive(Clone, Debug)]
pub(super) struct NewClaim {
    pub key: IdempotencyKey,
    pub claim: Claim,
    /// Milliseconds of its lease.
    pub lease: i64,
}

/// The statement that inserts claims if their keys have no valid ones, and returns the ids of the
/// inserted. `$new` is the source of rows, and `$lifetime` the parameter of [`KEY_LIFETIME`].
macro_rules! insert_sql {
    ($dialect:ident, $new:literal, $lifetime:literal) => {
        concat!(
            "WITH clock (now) AS (SELECT ",
            now_sql!($dialect),
            "), new (workspace_id, endpoint, key, id, body, messages, received_at, lease) AS (",
            $new,
            ")
             INSERT INTO idempotency_claims AS former
                 (workspace_id, endpoint, key, id, body, messages, received_at, claimed_at,
                  leased_until)
             SELECT workspace_id, endpoint, key, id, body, messages, received_at, now, now + lease
             FROM new, clock WHERE true
             ON CONFLICT (workspace_id, endpoint, key) DO UPDATE
             SET id = excluded.id, body = excluded.body, messages = excluded.messages,
                 received_at = excluded.received_at, claimed_at = excluded.claimed_at,
                 leased_until = excluded.leased_until, status = NULL, answer = NULL
             WHERE former.claimed_at <= excluded.claimed_at - ",
            $lifetime,
            " RETURNING id"
        )
    };
}

/// Of several claims with the same key, one is inserted. Their order lets transactions that insert
/// the same keys wait for each other without a deadlock.
async fn insert_postgres(
    connection: impl sqlx::PgExecutor<'_>,
    new: &[NewClaim],
) -> Result<Vec<Uuid>, StoreError> {
    let sql = insert_sql!(
        postgres,
        "SELECT DISTINCT ON (workspace_id, endpoint, key) *
         FROM unnest($1::integer[], $2::text[], $3::text[], $4::uuid[], $5::bytea[], $6::bytea[],
                     $7::bigint[], $8::bigint[])
             AS sent (workspace_id, endpoint, key, id, body, messages, received_at, lease)
         ORDER BY workspace_id, endpoint, key",
        "$9"
    );
    let inserted = sqlx::query_scalar(sql)
        .bind(column(new, |new| new.key.workspace))
        .bind(column(new, |new| new.key.endpoint.as_str()))
        .bind(column(new, |new| new.key.key.as_str()))
        .bind(column(new, |new| new.claim.id))
        .bind(column(new, |new| new.claim.body.as_slice()))
        .bind(column(new, |new| new.claim.messages.as_slice()))
        .bind(column(new, |new| new.claim.received_at))
        .bind(column(new, |new| new.lease))
        .bind(millis(KEY_LIFETIME));
    Ok(inserted.fetch_all(connection).await?)
}

async fn insert_sqlite(
    connection: &mut sqlx::SqliteConnection,
    new: &NewClaim,
) -> Result<bool, StoreError> {
    let sql = insert_sql!(sqlite, "SELECT $1, $2, $3, $4, $5, $6, $7, $8", "$9");
    let inserted: Option<Uuid> = sqlx::query_scalar(sql)
        .bind(new.key.workspace)
        .bind(&new.key.endpoint)
        .bind(&new.key.key)
        .bind(new.claim.id)
        .bind(&new.claim.body)
        .bind(&new.claim.messages)
        .bind(new.claim.received_at)
        .bind(new.lease)
        .bind(millis(KEY_LIFETIME))
        .fetch_optional(connection)
        .await?;
    Ok(inserted.is_some())
}

/// The values of one column of many rows.
fn column<'a, R, T>(rows: &'a [R], value: impl FnMut(&'a R) -> T) -> Vec<T> {
    rows.iter().map(value).collect()
}

/// Inserts each claim whose key has no valid one; returns for each whether it was inserted.
pub(super) async fn insert_all(store: Store, new: Vec<NewClaim>) -> Result<Vec<bool>, StoreError> {
    if let Store::Postgres { pool, .. } = &store {
        let inserted = insert_postgres(pool, &new).await?;
        return Ok(column(&new, |new| inserted.contains(&new.claim.id)));
    }
    let mut tx = store.write().await?;
    let mut inserted = Vec::with_capacity(new.len());
    for new in &new {
        inserted.push(insert_in(&mut tx, new).await?);
    }
    tx.commit().await?;
    Ok(inserted)
}

async fn insert_in(tx: &mut Tx, new: &NewClaim) -> Result<bool, StoreError> {
    match tx {
        Tx::Postgres(tx) => {
            Ok(!insert_postgres(&mut **tx, std::slice::from_ref(new)).await?.is_empty())
        }
        Tx::Sqlite(tx) => insert_sqlite(tx, new).await,
    }
}

/// Inserts a claim if its key has no valid one, within a transaction, and without a lease: others
/// wait for its end, at most a second.
pub(super) async fn insert_within(
    tx: &mut Tx,
    key: &IdempotencyKey,
    claim: &Claim,
) -> Result<bool, StoreError> {
    set(tx, SHORT_LOCK_TIMEOUT).await?;
    let new = NewClaim { key: key.clone(), claim: claim.clone(), lease: 0 };
    let inserted = insert_in(tx, &new).await?;
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

/// A claim that was found, and the position of its key among those that were asked for, from 1.
struct FoundClaim {
    number: i64,
    claim: Claim,
}
from_row! { FoundClaim { number } flatten { claim } }

/// The valid claim of each key.
pub(super) async fn load_all(
    store: Store,
    keys: Vec<IdempotencyKey>,
) -> Result<Vec<Option<Claim>>, StoreError> {
    let mut claims = vec![None; keys.len()];
    match &store {
        Store::Postgres { pool, .. } => {
            let sql = concat!(
                "SELECT number, id, body, messages, received_at, status, answer
                 FROM unnest($1::integer[], $2::text[], $3::text[])
                     WITH ORDINALITY AS sent (workspace_id, endpoint, key, number)
                 JOIN idempotency_claims USING (workspace_id, endpoint, key)
                 WHERE claimed_at > ",
                now_sql!(postgres),
                " - $4"
            );
            let found: Vec<FoundClaim> = sqlx::query_as(sql)
                .bind(column(&keys, |key| key.workspace))
                .bind(column(&keys, |key| key.endpoint.as_str()))
                .bind(column(&keys, |key| key.key.as_str()))
                .bind(millis(KEY_LIFETIME))
                .fetch_all(pool)
                .await?;
            for FoundClaim { number, claim } in found {
                let index = usize::try_from(number - 1).ok();
                if let Some(entry) = index.and_then(|index| claims.get_mut(index)) {
                    *entry = Some(claim);
                }
            }
        }
        Store::Sqlite { read, .. } => {
            for (key, claim) in keys.iter().zip(&mut claims) {
                *claim = load!(sqlite, key).fetch_optional(read).await?;
            }
        }
    }
    Ok(claims)
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

/// The statement that leases a claim.
macro_rules! lease_sql {
    ($dialect:ident) => {
        concat!(
            "WITH clock (now) AS (SELECT ",
            now_sql!($dialect),
            ")
             UPDATE idempotency_claims SET leased_until = now + $5 FROM clock
             WHERE workspace_id = $1 AND endpoint = $2 AND key = $3 AND id = $4
               AND leased_until <= now AND claimed_at > now - $6 AND status IS NULL"
        )
    };
}

/// Leases a claim for some milliseconds; false if it is leased, has a response, or has expired.
pub(super) async fn lease(
    store: &Store,
    key: &IdempotencyKey,
    claim: &Claim,
    lease: i64,
) -> Result<bool, StoreError> {
    let lifetime = millis(KEY_LIFETIME);
    let leased = match store {
        Store::Postgres { pool, .. } => {
            let query = claim_query!(lease_sql!(postgres), key, claim.id);
            query.bind(lease).bind(lifetime).execute(pool).await?.rows_affected()
        }
        Store::Sqlite { write, .. } => {
            let query = claim_query!(lease_sql!(sqlite), key, claim.id);
            query.bind(lease).bind(lifetime).execute(write).await?.rows_affected()
        }
    };
    Ok(leased == 1)
}

/// Ends the lease of a claim, whoever holds it.
pub(super) async fn release(
    store: &Store,
    key: &IdempotencyKey,
    claim: &Claim,
) -> Result<(), StoreError> {
    let sql = "UPDATE idempotency_claims SET leased_until = 0
         WHERE workspace_id = $1 AND endpoint = $2 AND key = $3 AND id = $4 AND status IS NULL";
    match store {
        Store::Postgres { pool, .. } => {
            claim_query!(sql, key, claim.id).execute(pool).await?;
        }
        Store::Sqlite { write, .. } => {
            claim_query!(sql, key, claim.id).execute(write).await?;
        }
    }
    Ok(())
}

/// The response to the request with a claim.
#[derive(Clone, Debug)]
pub(super) struct Finished {
    pub key: IdempotencyKey,
    pub claim: Uuid,
    pub response: StoredResponse,
}

/// Stores each response, unless its claim has one.
pub(super) async fn finish_all(
    store: Store,
    finished: Vec<Finished>,
) -> Result<Vec<()>, StoreError> {
    if let Store::Postgres { pool, .. } = &store {
        sqlx::query(
            // Rows are locked in the order of their keys, as by inserts.
            "WITH sent (workspace_id, endpoint, key, id, status, answer) AS (
                 SELECT * FROM unnest($1::integer[], $2::text[], $3::text[], $4::uuid[],
                                      $5::integer[], $6::text[])
             ), locked AS (
                 SELECT workspace_id, endpoint, key, sent.status, sent.answer
                 FROM sent JOIN idempotency_claims AS claim USING (workspace_id, endpoint, key)
                 WHERE claim.id = sent.id AND claim.status IS NULL
                 ORDER BY workspace_id, endpoint, key FOR UPDATE OF claim
             )
             UPDATE idempotency_claims AS claim SET status = locked.status, answer = locked.answer
             FROM locked
             WHERE claim.workspace_id = locked.workspace_id AND claim.endpoint = locked.endpoint
               AND claim.key = locked.key",
        )
        .bind(column(&finished, |finished| finished.key.workspace))
        .bind(column(&finished, |finished| finished.key.endpoint.as_str()))
        .bind(column(&finished, |finished| finished.key.key.as_str()))
        .bind(column(&finished, |finished| finished.claim))
        .bind(column(&finished, |finished| i32::from(finished.response.status.as_u16())))
        .bind(column(&finished, |finished| finished.response.body.as_str()))
        .execute(pool)
        .await?;
    } else {
        let mut tx = store.write().await?;
        for Finished { key, claim, response } in &finished {
            finish_within(&mut tx, key, *claim, response).await?;
        }
        tx.commit().await?;
    }
    Ok(vec![(); finished.len()])
}

/// Stores a response within a transaction, unless there is one.
pub(super) async fn finish_within(
    tx: &mut Tx,
    key: &IdempotencyKey,
    claim: Uuid,
    response: &StoredResponse,
) -> Result<(), StoreError> {
    let sql = "UPDATE idempotency_claims SET status = $5, answer = $6
         WHERE workspace_id = $1 AND endpoint = $2 AND key = $3 AND id = $4 AND status IS NULL";
    let status = i32::from(response.status.as_u16());
    execute!(tx, claim_query!(sql, key, claim).bind(status).bind(&response.body));
    Ok(())
}

/// Claims created at or before a time.
pub(super) const OLD_CLAIMS: OldRows = old_rows!("idempotency_claims", "claimed_at <= $1", 1_000);
