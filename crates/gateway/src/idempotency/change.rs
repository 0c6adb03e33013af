//! The turn of a request whose work is only rows.

use sha2::{Digest as _, Sha256};

use super::append::hash;
use super::rows::{self, Claim};
use super::{Begun, IdempotencyKey, Received, StoredResponse, claims};
use crate::ApiError;
use crate::app::App;
use kit::fail_point;
use store::{StoreError, Tx};

/// Begins the transaction of a request that changes rows; with a key, its stored response is
/// returned. `body` distinguishes the request from another one with the same key.
///
/// Claim, change and response are one transaction: an error, or the end of the process, leaves
/// nothing. Of two requests under one key, the second waits here for the first, at most a second.
/// It gets the first one's response, or its own turn if the first one failed.
///
/// ```text
/// let mut turn = match idempotency::begin_change(&app, key, body.as_bytes()).await? {
///     Begun::Replay(response) => return Ok(response),
///     Begun::Turn(turn) => turn,
/// };
/// rows::insert(&mut turn.tx, &thing).await?;
/// turn.commit(StoredResponse::json(StatusCode::CREATED, &Success::default())?).await
/// ```
pub async fn begin_change(
    app: &App,
    key: Option<IdempotencyKey>,
    body: &[u8],
) -> Result<Begun<ChangeTurn>, ApiError> {
    let mut tx = app.request_queue.write().await?;
    let Some(key) = key else { return Ok(Begun::Turn(ChangeTurn { tx, keyed: None })) };
    let claim = new_claim(app, body);
    if let Some(response) = claims::claim_within(&mut tx, &key, &claim).await? {
        return Ok(Begun::Replay(response));
    }
    Ok(Begun::Turn(ChangeTurn { tx, keyed: Some((key, claim)) }))
}

fn new_claim(app: &App, body: &[u8]) -> Claim {
    Claim::new(Received::now(app), &Sha256::digest(body).into(), &hash(&[]))
}

/// The response to an earlier request with this key and body, if there is one; changes nothing.
pub async fn first_response(
    app: &App,
    key: &IdempotencyKey,
    body: &[u8],
) -> Result<Option<StoredResponse>, ApiError> {
    // A turn that is dropped leaves nothing.
    Ok(match begin_change(app, Some(key.clone()), body).await? {
        Begun::Replay(response) => Some(response),
        Begun::Turn(_) => None,
    })
}

/// A response and its key, to be stored in a transaction that a layer below opens. Only for an
/// effect that can happen once, such as the removal of an object: the key is claimed after it.
pub struct KeyedResponse {
    key: IdempotencyKey,
    claim: Claim,
    response: StoredResponse,
}

impl KeyedResponse {
    /// `body` distinguishes the request from another one with the same key.
    pub fn new(app: &App, key: IdempotencyKey, body: &[u8], response: StoredResponse) -> Self {
        Self { key, claim: new_claim(app, body), response }
    }

    /// Stores the response, in the transaction of the effect. If the key has a claim, that stays.
    pub async fn store(&self, tx: &mut Tx) -> Result<(), StoreError> {
        if rows::insert_within(tx, &self.key, &self.claim).await? {
            claims::count("new");
            rows::finish_within(tx, &self.key, self.claim.id, &self.response).await?;
        }
        Ok(())
    }
}

/// The turn of a request: dropped without a commit, it leaves nothing.
pub struct ChangeTurn {
    pub tx: Tx,
    keyed: Option<(IdempotencyKey, Claim)>,
}

impl ChangeTurn {
    /// Commits the change and its response.
    pub async fn commit(mut self, response: StoredResponse) -> Result<StoredResponse, ApiError> {
        if let Some((key, claim)) = &self.keyed {
            rows::finish_within(&mut self.tx, key, claim.id, &response).await?;
        }
        fail_point!("idempotency::changed");
        self.tx.commit().await?;
        Ok(response)
    }
}
