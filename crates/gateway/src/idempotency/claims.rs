//! A key's claim: found or created, completed or released.

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::IdempotencyKey;
use super::rows::{self, Claim, Finished, NewClaim};
use crate::app::App;
use crate::{ApiError, Recording};
use kit::clock::{hours, millis};
use kit::log_limit::LogLimit;
use kit::moment::Moment;
use store::batches::Batches;
use store::{Store, StoreError, Tx};

/// How long a key is valid.
pub(super) const KEY_LIFETIME: Duration = hours(24);

const OTHER_BODY: &str = "This Idempotency-Key was used with a different request body";

const IN_PROGRESS: &str = "A request with this Idempotency-Key is still in progress";

const UNREPEATABLE: &str = "The first request with this Idempotency-Key cannot be completed, \
                            because the service or the definitions that it used have changed; \
                            some of it may have been applied";

static NOT_RELEASED: LogLimit = LogLimit::new();
static NOT_STORED: LogLimit = LogLimit::new();

/// The state of a key.
pub(super) enum KeyState {
    Unused,
    /// The claim of a request that has no response yet.
    Unfinished(Claim),
    Finished(StoredResponse),
}

/// How long a claim belongs to this request.
pub(super) struct Lease {
    /// When the lease was requested.
    since: Moment,
    length: Duration,
}

/// The statements of requests with keys, each for many requests.
pub(crate) struct ClaimBatches {
    load: Batches<IdempotencyKey, Option<Claim>>,
    insert: Batches<NewClaim, bool>,
    finish: Batches<Finished, ()>,
}

impl ClaimBatches {
    pub fn new(store: &Store) -> Self {
        let [load, insert, finish] = [store; 3].map(Store::clone);
        Self {
            load: Batches::new(move |keys| rows::load_all(load.clone(), keys)),
            insert: Batches::new(move |new| rows::insert_all(insert.clone(), new)),
            finish: Batches::new(move |finished| rows::finish_all(finish.clone(), finished)),
        }
    }
}

/// The claim of one key.
#[derive(Clone)]
pub(super) struct Claims {
    app: App,
    key: IdempotencyKey,
}

impl Claims {
    pub fn new(app: &App, key: IdempotencyKey) -> Self {
        Self { app: app.clone(), key }
    }

    /// The state of the key; an error if it was used with another body.
    pub async fn state(&self, body_hash: &[u8; 32]) -> Result<KeyState, ApiError> {
        let load = self.app.claim_batches.load.run(self.key.clone());
        let Some(mut found) = self.app.claims.request_queue.run(load).await? else {
            return Ok(KeyState::Unused);
        };
        let response = first_response(body_hash, &mut found)?;
        Ok(response.map_or(KeyState::Unfinished(found), KeyState::Finished))
    }

    /// Stores and leases a new claim; none if the key has one.
    pub async fn try_insert(&self, claim: &Claim) -> Result<Option<Lease>, ApiError> {
        let lease = self.lease();
        let new =
            NewClaim { key: self.key.clone(), claim: claim.clone(), lease: millis(lease.length) };
        let insert = self.app.claim_batches.insert.run(new);
        let inserted = self.app.claims.request_queue.run(insert).await;
        if !self.or_release(claim, inserted)? {
            return Ok(None);
        }
        count("new");
        Ok(Some(lease))
    }

    /// Leases the claim of an unfinished request. An error if that is still in progress.
    pub async fn take_over(&self, claim: &Claim) -> Result<Lease, ApiError> {
        let lease = self.lease();
        let leased = rows::lease(&self.app.store, &self.key, claim, millis(lease.length)).await;
        if !self.or_release(claim, leased)? {
            return Err(in_progress());
        }
        count("taken_over");
        Ok(lease)
    }

    /// A lease from now on: twice the time limit of an append, so that as much time is left for the
    /// rest.
    fn lease(&self) -> Lease {
        let append = Duration::from_millis(self.app.config.log.append_timeout_ms);
        Lease { since: Moment::now(), length: 2 * append }
    }

    /// Returns an error if the lease has expired: after such a pause, consumers may have deleted
    /// the ids of the appended messages.
    pub fn check(&self, lease: &Lease) -> Result<(), ApiError> {
        if lease.since.elapsed() < lease.length { Ok(()) } else { Err(in_progress()) }
    }

    /// Returns whether a lease was obtained. If that is unknown, releases the lease in the
    /// background, because no request uses it.
    fn or_release(
        &self,
        claim: &Claim,
        leased: Result<bool, StoreError>,
    ) -> Result<bool, StoreError> {
        if leased.is_err() {
            let (claims, claim) = (self.clone(), claim.clone());
            tokio::spawn(async move { claims.release(&claim).await });
        }
        leased
    }

    /// Releases the claim for the next repeat.
    pub async fn release(&self, claim: &Claim) {
        if let Err(error) = rows::release(&self.app.store, &self.key, claim).await
            && let Some(skipped) = NOT_RELEASED.skipped()
        {
            tracing::warn!(
                %error,
                skipped,
                "cannot release idempotency claims, so repeated requests get 409 until their \
                 leases end"
            );
        }
    }

    /// Stores the response. A failure does not change the response, because all is durable: a
    /// repeat would only append the same again.
    pub async fn finish(&self, claim: &Claim, response: &StoredResponse) {
        let finished =
            Finished { key: self.key.clone(), claim: claim.id, response: response.clone() };
        if let Err(error) = self.app.claim_batches.finish.run(finished).await
            && let Some(skipped) = NOT_STORED.skipped()
        {
            tracing::warn!(%error, skipped, "cannot store responses under their Idempotency-Keys");
        }
    }

    /// Releases a claim that was taken over but cannot be completed here; returns the reason.
    pub async fn unrepeatable(&self, claim: &Claim) -> ApiError {
        self.release(claim).await;
        unrepeatable()
    }
}

/// The error of an unfinished request that cannot be completed.
pub(super) fn unrepeatable() -> ApiError {
    count("unrepeatable");
    ApiError::Conflict(UNREPEATABLE.into())
}

/// A stored response.
#[derive(Clone, Debug)]
pub struct StoredResponse {
    pub status: StatusCode,
    /// JSON.
    pub body: String,
    /// What was done about the entry in the audit log.
    recording: Option<Recording>,
}

/// A replay equals the first response.
impl PartialEq for StoredResponse {
    fn eq(&self, other: &Self) -> bool {
        (self.status, &self.body) == (other.status, &other.body)
    }
}

impl Eq for StoredResponse {}

impl StoredResponse {
    /// With a body that is JSON.
    pub fn new(status: StatusCode, body: String) -> Self {
        Self { status, body, recording: None }
    }

    /// With a body serialized as JSON.
    pub fn json(status: StatusCode, body: &impl Serialize) -> Result<Self, ApiError> {
        Ok(Self::new(status, super::to_json(body)?))
    }

    /// With what the handler has done about its entry in the audit log.
    pub fn recorded(self, recording: Recording) -> Self {
        Self { recording: Some(recording), ..self }
    }
}

impl IntoResponse for StoredResponse {
    fn into_response(self) -> Response {
        let json = HeaderValue::from_static("application/json");
        let response = (self.status, [(header::CONTENT_TYPE, json)], self.body);
        match self.recording {
            Some(recording) => (recording, response).into_response(),
            None => response.into_response(),
        }
    }
}

/// The stored response of an existing claim; none if its request is unfinished. An error if the
/// body differs.
fn first_response(body: &[u8], found: &mut Claim) -> Result<Option<StoredResponse>, ApiError> {
    if found.body != body {
        count("other_body");
        return Err(ApiError::Unprocessable(OTHER_BODY));
    }
    let Some((status, body)) = found.status.zip(found.answer.take()) else { return Ok(None) };
    count("repeated");
    // The first response is recorded.
    Ok(Some(StoredResponse::new(status_code(status)?, body).recorded(Recording::Settled)))
}

/// Creates a claim within the transaction of its effect, or returns the existing state. If another
/// such transaction is in progress, waits for its end, at most a second.
pub(super) async fn claim_within(
    tx: &mut Tx,
    key: &IdempotencyKey,
    claim: &Claim,
) -> Result<Option<StoredResponse>, ApiError> {
    let inserted = rows::insert_within(tx, key, claim).await;
    if inserted.as_ref().is_err_and(StoreError::is_lock_timeout) {
        return Err(in_progress());
    }
    if inserted? {
        count("new");
        return Ok(None);
    }
    let found = rows::load_within(tx, key).await?;
    let response = found.map(|mut found| first_response(&claim.body, &mut found)).transpose()?;
    response.flatten().map(Some).ok_or_else(in_progress)
}

/// The errors of a key, and their descriptions.
pub(super) fn refusals() -> [(ApiError, &'static str); 3] {
    [
        (ApiError::InProgress(IN_PROGRESS), "The first request with the key is still in progress"),
        (
            ApiError::Conflict(UNREPEATABLE.into()),
            "The first request with the key cannot be completed",
        ),
        (ApiError::Unprocessable(OTHER_BODY), "The key was used with a different body"),
    ]
}

/// The error while another request with the key is in progress.
pub(super) fn in_progress() -> ApiError {
    count("under_way");
    ApiError::InProgress(IN_PROGRESS)
}

fn status_code(status: i32) -> Result<StatusCode, ApiError> {
    let status = u16::try_from(status).ok().and_then(|status| StatusCode::from_u16(status).ok());
    status.ok_or_else(|| ApiError::Internal("an idempotency claim has no status".into()))
}

pub(super) fn count(outcome: &'static str) {
    metrics::counter!("longshore_idempotency_total", "outcome" => outcome).increment(1);
}
