//! `Idempotency-Key` (src/gateway/README.md, Sending a call again;
//! draft-ietf-httpapi-idempotency-key-header): for 24 hours, the same key with the same body gets
//! the first response again, and nothing is processed twice.
//!
//! A request with a key stores a claim before anything is appended: a row with the hash of its
//! body, the time of its receipt, and an id from which the ids of its messages and results are
//! derived. Only a response for durable work is stored in it. If a request ends early, because its
//! gateway stopped or the log failed, the next repeat takes its claim over: from the same body,
//! time and id it derives the same messages, and appends all of them again with the same ids.
//! Consumers store ids for longer than a key is valid ([`message_ids`](log::message_ids)), so each
//! message is applied once. So two requests that process one claim at the same time, because a
//! lease expired too early, do no harm.
//!
//! If another version of the program derived other messages from that body, duplicates would not be
//! recognized: the claim's hash of the messages detects this, and the repeat is rejected.
//!
//! A request whose work is only rows needs none of that: its claim, its effect and its response are
//! one transaction ([`transact`]).
//!
//! Requests without a key have no additional cost.

mod claims;
pub mod header;
mod rows;

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use futures::future::BoxFuture;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use self::claims::{Claims, Found, KEY_LIFETIME, Lease};
use self::rows::Claim;
use super::{ApiError, JsonText};
use crate::app::App;
use crate::gateway::coding::INLINE_BYTES;
use kit::clock::millis;
use kit::fail_point;
use kit::retry;
use log::{NewMessage, message_ids};
use store::{StoreError, Tx, within_timeout};

pub use claims::StoredResponse;
pub use header::{HEADER, IdempotencyKey, PATTERN};

/// Interval between deletions of old claims.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

/// How long one deletion is waited for; a longer one continues in the background.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A request whose work is done by the messages that it appends to the log.
pub trait AppendRequest: Send + Sync + 'static {
    type Response: Serialize + Send + 'static;

    /// The status of the response, once all messages are durable.
    const STATUS: StatusCode;

    /// Whether a repeat has the same messages. False if they depend on more than the body: then new
    /// messages of a repeat are appended, too. Only for messages that can be applied more than
    /// once.
    const IS_ALWAYS_SAME: bool = true;

    /// Parses a body without side effects: the same body with the same receipt gives the same
    /// messages and response. Each message chooses its partition; its key is the place of its id.
    fn read(
        &self,
        body: &JsonText,
        received: Received,
    ) -> Result<(Self::Response, Vec<NewMessage>), ApiError>;

    /// Called once the messages are durable, to count them in metrics.
    fn on_appended(&self, answer: &Self::Response);
}

/// When and under which id a request was received: the same for every repeat with its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Unique: the ids of the request's results are derived from it.
    pub id: Uuid,
    /// Milliseconds since the epoch.
    pub at: i64,
}

impl Received {
    fn now(app: &App) -> Self {
        Self { id: Uuid::now_v7(), at: app.clock.now_ms() }
    }
}

/// Parses a body, appends its messages, then responds; with a key, only once.
pub async fn append<W: AppendRequest>(
    app: App,
    key: Option<IdempotencyKey>,
    mut body: JsonText,
    work: W,
) -> Result<Response, ApiError> {
    let _room = body.take_room();
    let call = Call { app, work: Arc::new(work) };
    let (received, body) = (Received::now(&call.app), Arc::new(body));
    let Some(key) = key else {
        // Drops the body after it is parsed: an append can take long.
        let (answer, messages) =
            call.compute(body, move |work, body| work.read(body, received)).await?;
        call.app.log.append(messages).await?;
        return call.answer(&answer, to_json(&answer)?);
    };
    let claims = Claims::new(&call.app, &key);
    let read = match call.read(body.clone(), received).await {
        Ok(read) => read,
        // A body that is no longer valid may have a stored response, because definitions change.
        Err(error) => return claims.stored_or_error(&Sha256::digest(body.as_bytes()), error).await,
    };
    match claims.claim(Claim::new(received, &read.body_hash, &read.messages_hash)).await? {
        Found::Nothing(claim, lease) => {
            drop(body);
            call.complete(&claims, &claim, &lease, read).await
        }
        Found::Left(claim, lease) => {
            drop(read);
            call.take_over(&claims, &claim, &lease, body).await
        }
        Found::StoredResponse(answer) => Ok(answer),
    }
}

/// Changes rows and responds; with a key, only once. `body` distinguishes the request from
/// another one with the same key.
///
/// All of it is one transaction: an error, or the end of the process, leaves neither the change nor
/// the claim. Of two requests under one key the second waits for the first and gets its response,
/// or its own turn if that failed.
///
/// ```text
/// let answer = idempotency::transact(&app, key.as_ref(), body.as_bytes(), |tx| {
///     Box::pin(async move {
///         rows::insert(tx, &thing).await?;
///         Ok::<_, ApiError>(StoredResponse { status: StatusCode::CREATED, body: SUCCESS.into() })
///     })
/// })
/// .await?;
/// ```
pub async fn transact<E: From<ApiError>>(
    app: &App,
    key: Option<&IdempotencyKey>,
    body: &[u8],
    change: impl for<'a> FnOnce(&'a mut Tx) -> BoxFuture<'a, Result<StoredResponse, E>>,
) -> Result<StoredResponse, E> {
    let mut tx = app.request_queue.write().await.map_err(ApiError::from)?;
    let answer = match key {
        None => change(&mut tx).await?,
        Some(key) => {
            let body = Sha256::digest(body).into();
            let claim = Claim::new(Received::now(app), &body, &hash(&[]));
            if let Some(answer) = claims::claim_within(&mut tx, key, &claim).await? {
                return Ok(answer);
            }
            let answer = change(&mut tx).await?;
            let status = answer.status.as_u16().into();
            rows::finish_within(&mut tx, key, &claim, status, &answer.body)
                .await
                .map_err(ApiError::from)?;
            answer
        }
    };
    fail_point!("idempotency::changed");
    tx.commit().await.map_err(ApiError::from)?;
    Ok(answer)
}

/// Whether a key is new, in the caller's transaction; it is stored for as long as an
/// `Idempotency-Key` is valid. For a request whose response is always the same.
pub async fn is_first(tx: &mut Tx, key: &IdempotencyKey) -> Result<bool, StoreError> {
    let received = Received { id: Uuid::now_v7(), at: 0 };
    rows::insert_within(tx, key, &Claim::new(received, &hash(&[]), &hash(&[]))).await
}

/// The errors of an `Idempotency-Key`, and their descriptions.
pub(super) fn refusals() -> impl Iterator<Item = (ApiError, &'static str)> {
    let no_key = (ApiError::Invalid(header::REFUSED.into()), "The `Idempotency-Key` is not valid");
    [no_key].into_iter().chain(claims::refusals())
}

/// A request in progress.
struct Call<W> {
    app: App,
    work: Arc<W>,
}

/// The result of parsing a request with a key.
struct Read<A> {
    answer: A,
    messages: Vec<NewMessage>,
    body_hash: [u8; 32],
    messages_hash: [u8; 32],
}

impl<W: AppendRequest> Call<W> {
    async fn read(
        &self,
        body: Arc<JsonText>,
        received: Received,
    ) -> Result<Read<W::Response>, ApiError> {
        self.compute(body, move |work, body| {
            let (answer, messages) = work.read(body, received)?;
            let body_hash = Sha256::digest(body.as_bytes()).into();
            let messages_hash = if W::IS_ALWAYS_SAME { hash(&messages) } else { hash(&[]) };
            Ok(Read { answer, messages, body_hash, messages_hash })
        })
        .await
    }

    async fn compute<T: Send + 'static>(
        &self,
        body: Arc<JsonText>,
        compute: impl FnOnce(&W, &JsonText) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        if body.bytes() <= INLINE_BYTES {
            return compute(&self.work, &body);
        }
        let (work, cores) = (self.work.clone(), self.app.cores.clone());
        let compute = move || cores.compute(|| compute(&work, &body));
        let computed = tokio::task::spawn_blocking(compute).await;
        computed
            .unwrap_or_else(|error| Err(ApiError::Internal(format!("cannot read a body: {error}"))))
    }

    /// Continues the claim of an unfinished request.
    async fn take_over(
        &self,
        claims: &Claims<'_>,
        claim: &Claim,
        lease: &Lease,
        body: Arc<JsonText>,
    ) -> Result<Response, ApiError> {
        let read = self.read(body, claim.received()).await?;
        if claim.messages != read.messages_hash {
            return Err(claims.unrepeatable(claim).await);
        }
        self.complete(claims, claim, lease, read).await
    }

    async fn complete(
        &self,
        claims: &Claims<'_>,
        claim: &Claim,
        lease: &Lease,
        Read { answer, mut messages, .. }: Read<W::Response>,
    ) -> Result<Response, ApiError> {
        fail_point!("idempotency::claimed");
        for (number, message) in messages.iter_mut().enumerate() {
            let id = match W::IS_ALWAYS_SAME {
                true => message_ids::derive_id(claim.id, number),
                false => id_of_content(claim.id, message),
            };
            message.key = id.as_bytes().to_vec();
        }
        claims.check(lease)?;
        if let Err(error) = self.app.log.append(messages).await {
            claims.release(claim).await;
            return Err(error.into());
        }
        fail_point!("idempotency::appended");
        let json = to_json(&answer)?;
        claims.finish(claim, W::STATUS, &json).await;
        fail_point!("idempotency::finished");
        self.answer(&answer, json)
    }

    fn answer(&self, answer: &W::Response, text: String) -> Result<Response, ApiError> {
        self.work.on_appended(answer);
        Ok(StoredResponse { status: W::STATUS, body: text }.into_response())
    }
}

fn to_json(answer: &impl Serialize) -> Result<String, ApiError> {
    serde_json::to_string(answer)
        .map_err(|error| ApiError::Internal(format!("cannot store a response: {error}")))
}

/// A hash that distinguishes messages: their partitions and payloads, in order.
fn hash(messages: &[NewMessage]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for message in messages {
        hash.update(message.topic.name());
        hash.update(message.partition.unwrap_or(-1).to_be_bytes());
        hash.update((message.payload.len() as u64).to_be_bytes());
        hash.update(&message.payload);
    }
    hash.finalize().into()
}

/// The id of a message that a repeat may not have: different content has a different id.
fn id_of_content(claim: Uuid, message: &NewMessage) -> Uuid {
    let digest = Sha256::new()
        .chain_update(claim)
        .chain_update(hash(std::slice::from_ref(message)))
        .finalize();
    let mut id = [0; 16];
    id.copy_from_slice(&digest[..16]);
    Uuid::from_bytes(id)
}

/// Deletes claims whose keys have expired, regularly until `stop`.
pub async fn sweep_old(app: App, stop: CancellationToken) {
    let pass = || {
        let (app, stop) = (app.clone(), stop.clone());
        within_timeout(async move { sweep(&app, &stop).await }, sleep(TIMEOUT))
    };
    retry::repeat(SWEEP_INTERVAL, &stop, "cannot delete old idempotency claims; retrying", pass)
        .await;
}

/// Deletes the claims whose keys have expired.
pub async fn sweep(app: &App, stop: &CancellationToken) -> Result<(), StoreError> {
    let expired = app.store.now().await? - millis(KEY_LIFETIME);
    rows::OLD_CLAIMS.delete(&app.store, &[expired], stop).await
}
