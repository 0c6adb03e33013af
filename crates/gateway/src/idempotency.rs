//! `Idempotency-Key` (docs/reference/api/idempotency.md;
//! draft-ietf-httpapi-idempotency-key-header): for 24 hours, the same key with the same body gets
//! the first response again, and nothing is processed twice.
//!
//! A request that appends messages ([`begin_append`], [`append_derived`]) stores a claim before
//! anything is appended. The claim has the hash of the body, the time of receipt, and an id. The
//! ids of the request's messages and results are derived from that id. Only a response for durable
//! work is stored in the claim. If a request ends early, because its gateway stopped or the log
//! failed, the next repeat takes its claim over. It derives the same messages from the same body,
//! time and id, and appends all of them again with the same ids. Consumers store ids for longer
//! than a key is valid ([`message_ids`](log::message_ids)), so each message is applied once. So it
//! is harmless if two requests process one claim at the same time, because a lease expired too
//! early.
//!
//! If another version of the program derived other messages from that body, duplicates would not be
//! recognized: the claim's hash of the messages detects this, and the repeat is rejected.
//!
//! A request whose work is only rows ([`begin_change`]) needs none of that: its claim, its effect
//! and its response are one transaction. If a layer below the gateway opens that transaction, it
//! stores a [`KeyedResponse`].
//!
//! A handler gets the stored response, or a turn: a value with which it completes the request.
//! Requests without a key have no additional cost.

mod append;
mod change;
mod claims;
pub mod header;
mod rows;

use std::time::Duration;

use serde::Serialize;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use self::claims::KEY_LIFETIME;
use self::rows::Claim;
use super::ApiError;
use crate::app::App;
use kit::clock::millis;
use kit::retry;
use store::{StoreError, Tx, within_timeout};

pub use append::{AppendTurn, Derived, append_derived, begin_append};
pub use change::{ChangeTurn, KeyedResponse, begin_change, first_response};
pub(crate) use claims::ClaimBatches;
pub use claims::StoredResponse;
pub use header::{HEADER, IdempotencyKey, PATTERN};

/// Interval between deletions of old claims.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

/// How long one deletion is waited for; a longer one continues in the background.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A request at its beginning.
pub enum Begun<T> {
    /// The response to the first request with the key: return it.
    Replay(StoredResponse),
    Turn(T),
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

/// Whether a key is new, in the caller's transaction; it is stored for as long as an
/// `Idempotency-Key` is valid. For a request whose response is always the same.
pub async fn is_first(tx: &mut Tx, key: &IdempotencyKey) -> Result<bool, StoreError> {
    let received = Received { id: Uuid::now_v7(), at: 0 };
    rows::insert_within(tx, key, &Claim::new(received, &append::hash(&[]), &append::hash(&[])))
        .await
}

/// The errors of an `Idempotency-Key`, and their descriptions.
pub(super) fn refusals() -> impl Iterator<Item = (ApiError, &'static str)> {
    let no_key = (ApiError::Invalid(header::REFUSED.into()), "The `Idempotency-Key` is not valid");
    [no_key].into_iter().chain(claims::refusals())
}

fn to_json(answer: &impl Serialize) -> Result<String, ApiError> {
    serde_json::to_string(answer)
        .map_err(|error| ApiError::Internal(format!("cannot store a response: {error}")))
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
