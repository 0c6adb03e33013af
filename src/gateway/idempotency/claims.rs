//! A key's claim: found or made, completed or given up.

use std::time::{Duration, Instant};

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};

use super::IdempotencyKey;
use super::rows::{self, Claim};
use crate::app::App;
use crate::clock::{hours, millis};
use crate::gateway::ApiError;
use crate::store::StoreError;

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
        if self.or_release(&claim, rows::insert(store, self.key, &claim, lease.millis).await)? {
            count("new");
            return Ok(Found::Nothing(claim, lease));
        }
        // One that is gone was removed this very moment.
        let Some(mut found) = rows::load(store, self.key).await? else { return Err(under_way()) };
        if found.body != claim.body {
            count("other_body");
            return Err(ApiError::Unprocessable(OTHER_BODY));
        }
        if let Some((status, answer)) = found.status.zip(found.answer.take()) {
            count("repeated");
            return Ok(Found::Answer(json(status_code(status)?, answer)));
        }
        if !self.or_release(&found, rows::lease(store, self.key, &found, lease.millis).await)? {
            return Err(under_way());
        }
        count("taken_over");
        Ok(Found::Left(found, lease))
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

/// An answer whose body is JSON already.
pub(super) fn json(status: StatusCode, body: String) -> Response {
    let json = HeaderValue::from_static("application/json");
    (status, [(header::CONTENT_TYPE, json)], body).into_response()
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
