//! A key's claim: found or made, completed or given up.

use std::time::{Duration, Instant};

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::IdempotencyKey;
use super::rows::{self, Claim};
use crate::app::App;
use crate::gateway::ApiError;
use kit::clock::{hours, millis};
use store::{StoreError, Tx};

/// How long a key holds.
pub(super) const HOLDS: Duration = hours(24);

const OTHER_BODY: &str = "This Idempotency-Key was used with another request body";

const UNDER_WAY: &str = "A request with this Idempotency-Key is still under way";

const UNREPEATABLE: &str = "The first request with this Idempotency-Key was begun by another \
     version of the service, which reads it differently, and cannot be completed: some of it may \
     have been taken";

/// What there is under a key.
pub(super) enum Found {
    /// No claim; this one is there now.
    Nothing(Claim, Lease),
    /// A claim whose request did not come to its end; it is this request's now.
    Left(Claim, Lease),
    /// The answer that was given.
    Answer(Response),
}

/// For how long a claim is this request's.
pub(super) struct Lease {
    /// When it was asked for: by the clock that is set, and by the one that never is. The first
    /// goes on while the machine sleeps.
    since: (i64, Instant),
    millis: i64,
}

/// The claim of one key.
pub(super) struct Claims<'a> {
    app: &'a App,
    key: &'a IdempotencyKey,
}

impl<'a> Claims<'a> {
    pub fn new(app: &'a App, key: &'a IdempotencyKey) -> Self {
        Self { app, key }
    }

    /// Puts a claim down, or answers what is there; the error where it is of another body, or
    /// still under way.
    pub async fn claim(&self, claim: Claim) -> Result<Found, ApiError> {
        let (store, lease) = (&self.app.store, self.lease());
        let insert = rows::insert(store, self.key, &claim, lease.millis);
        if self.or_release(&claim, self.app.calls.pass(insert).await)? {
            count("new");
            return Ok(Found::Nothing(claim, lease));
        }
        // One that is gone was removed this very moment.
        let Some(mut found) = rows::load(store, self.key).await? else { return Err(under_way()) };
        if let Some(answer) = first_answer(&claim, &mut found)? {
            return Ok(Found::Answer(answer.into_response()));
        }
        if !self.or_release(&found, rows::lease(store, self.key, &found, lease.millis).await)? {
            return Err(under_way());
        }
        count("taken_over");
        Ok(Found::Left(found, lease))
    }

    /// The answer that a request with this body was given before; else the error that it came
    /// to now.
    pub async fn answered(&self, body: &[u8], error: ApiError) -> Result<Response, ApiError> {
        let load = rows::load(&self.app.store, self.key);
        let found = self.app.calls.pass(load).await?;
        let Some(mut found) = found.filter(|found| found.body == body) else { return Err(error) };
        kept_answer(&mut found)?.map(Answer::into_response).ok_or(error)
    }

    /// A lease from now on: an append, and as long for all the rest.
    fn lease(&self) -> Lease {
        let append = Duration::from_millis(self.app.config.log.append_timeout_ms);
        Lease { since: (self.app.clock.now_ms(), Instant::now()), millis: 2 * millis(append) }
    }

    /// The error where a lease is over: whoever slept for so long may append what is forgotten
    /// by now.
    pub fn check(&self, lease: &Lease) -> Result<(), ApiError> {
        let (at, instant) = lease.since;
        let passed = (self.app.clock.now_ms() - at).max(millis(instant.elapsed()));
        if passed < lease.millis { Ok(()) } else { Err(under_way()) }
    }

    /// Passes on whether a lease was got. Where that is not known it may have been, and is given
    /// back beside the answer: nobody is at work under it.
    fn or_release(
        &self,
        claim: &Claim,
        leased: Result<bool, StoreError>,
    ) -> Result<bool, StoreError> {
        if leased.is_err() {
            let (app, key, claim) = (self.app.clone(), self.key.clone(), claim.clone());
            tokio::spawn(async move { Claims::new(&app, &key).release(&claim).await });
        }
        leased
    }

    /// Leaves the claim to the next repeat, at once.
    pub async fn release(&self, claim: &Claim) {
        if let Err(error) = rows::release(&self.app.store, self.key, claim).await {
            tracing::warn!(%error, "an idempotency claim could not be given up before its lease");
        }
    }

    /// Keeps the answer. Where that fails it is an answer all the same, since all is durable: a
    /// repeat does no more than to append the same again.
    pub async fn finish(&self, claim: &Claim, status: StatusCode, answer: &str) {
        let (store, status) = (&self.app.store, status.as_u16().into());
        if let Err(error) = rows::finish(store, self.key, claim, status, answer).await {
            tracing::warn!(%error, "an answer could not be kept under its Idempotency-Key");
        }
    }

    /// Gives up a claim that was taken over and cannot be completed here; answers why.
    pub async fn unrepeatable(&self, claim: &Claim) -> ApiError {
        count("unrepeatable");
        self.release(claim).await;
        ApiError::Conflict(UNREPEATABLE.into())
    }
}

/// What is kept of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: StatusCode,
    /// JSON.
    pub body: String,
}

impl Answer {
    /// With a body that is written as JSON.
    pub fn of(status: StatusCode, body: &impl Serialize) -> Result<Self, ApiError> {
        Ok(Self { status, body: super::to_json(body)? })
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let json = HeaderValue::from_static("application/json");
        (self.status, [(header::CONTENT_TYPE, json)], self.body).into_response()
    }
}

/// The answer that was given under a claim that was found in place of a new one; none where its
/// request did not come to its end. The error where it is of another body.
fn first_answer(claim: &Claim, found: &mut Claim) -> Result<Option<Answer>, ApiError> {
    if found.body != claim.body {
        count("other_body");
        return Err(ApiError::Unprocessable(OTHER_BODY));
    }
    kept_answer(found)
}

/// The answer that is kept in a claim, if there is one.
fn kept_answer(found: &mut Claim) -> Result<Option<Answer>, ApiError> {
    let Some((status, body)) = found.status.zip(found.answer.take()) else { return Ok(None) };
    count("repeated");
    Ok(Some(Answer { status: status_code(status)?, body }))
}

/// Puts a claim down within the transaction that makes what it claims, or answers what there is.
/// Where another such transaction is under way it waits for its end, for a second at most.
pub(super) async fn claim_within(
    tx: &mut Tx,
    key: &IdempotencyKey,
    claim: &Claim,
) -> Result<Option<Answer>, ApiError> {
    let inserted = rows::insert_within(tx, key, claim).await;
    if inserted.as_ref().is_err_and(StoreError::is_locked_out) {
        return Err(under_way());
    }
    if inserted? {
        count("new");
        return Ok(None);
    }
    let found = rows::load_within(tx, key).await?;
    let answer = found.map(|mut found| first_answer(claim, &mut found)).transpose()?;
    answer.flatten().map(Some).ok_or_else(under_way)
}

/// What a key can be refused for, and when.
pub(super) fn refusals() -> [(ApiError, &'static str); 3] {
    [
        (ApiError::UnderWay(UNDER_WAY), "The first request under the key is still under way"),
        (
            ApiError::Conflict(UNREPEATABLE.into()),
            "The first request under the key cannot be completed",
        ),
        (ApiError::Unprocessable(OTHER_BODY), "The key was used with another body"),
    ]
}

fn under_way() -> ApiError {
    count("under_way");
    ApiError::UnderWay(UNDER_WAY)
}

fn status_code(status: i32) -> Result<StatusCode, ApiError> {
    let status = u16::try_from(status).ok().and_then(|status| StatusCode::from_u16(status).ok());
    status.ok_or_else(|| ApiError::Internal("an idempotency claim has no status".into()))
}

fn count(outcome: &'static str) {
    metrics::counter!("longshore_idempotency_total", "outcome" => outcome).increment(1);
}
