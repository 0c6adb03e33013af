//! The turn of a request whose work is done by the messages that it appends to the log.

use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::claims::{self, Claims, KeyState, Lease};
use super::rows::Claim;
use super::{Begun, IdempotencyKey, Received, StoredResponse};
use crate::app::App;
use crate::body::in_place;
use crate::coding::INLINE_BYTES;
use crate::{ApiError, JsonText};
use kit::{derived_ids, fail_point};
use log::{LogTimes, NewMessage, message_ids};
use runtime::fairness::Reservation;

/// Begins a request that appends messages; with a key, its stored response is returned.
pub async fn begin_append(
    app: &App,
    key: Option<IdempotencyKey>,
    body: JsonText,
) -> Result<Begun<AppendTurn>, ApiError> {
    let mut turn = AppendTurn::new(app, key, body);
    let stored = turn.look_up().await?;
    Ok(stored.map_or(Begun::Turn(turn), Begun::Replay))
}

/// What a request derives from its body and its receipt.
pub struct Derived<T> {
    /// In the form for [`AppendTurn::append`].
    pub messages: Vec<NewMessage>,
    pub response: StoredResponse,
    /// For the caller, after the append.
    pub outcome: T,
}

/// Appends the messages of a request that are derived from its body and its receipt without the
/// store, and returns the response with the outcome. With a key, the stored response is returned
/// without one.
///
/// A small request stores its claim without a look-up before: most keys are new, so this saves a
/// statement. The key still comes first: its errors and its response precede an error of the body.
pub async fn append_derived<T>(
    app: &App,
    key: Option<IdempotencyKey>,
    body: JsonText,
    derive: impl Fn(&JsonText, Received) -> Result<Derived<T>, ApiError>,
) -> Result<(StoredResponse, Option<T>), ApiError> {
    let mut turn = AppendTurn::new(app, key, body);
    // Until the claim is stored, the body and its messages are both in memory, and only one of them
    // is reserved. Also, a large body is not parsed in vain.
    let can_claim_first = turn.body.bytes() <= INLINE_BYTES;
    if !can_claim_first && let Some(response) = turn.look_up().await? {
        return Ok((response, None));
    }
    let mut derived = turn.in_place(|body| derive(body, turn.received));
    let mut claimed = None;
    if can_claim_first && let Some(keyed) = &turn.keyed {
        if let Ok(Derived { messages, .. }) = &derived {
            let hash = MessageIds::ByPosition.hash(messages);
            claimed = keyed.try_claim(turn.received, &hash).await?;
        }
        if claimed.is_none() {
            if let Some(response) = turn.look_up().await? {
                return Ok((response, None));
            }
            if turn.is_unfinished() {
                derived = turn.in_place(|body| derive(body, turn.received));
            }
        }
    }
    let Derived { messages, response, outcome } = derived.map_err(|error| turn.rejected(error))?;
    let (response, _) =
        turn.append_with(MessageIds::ByPosition, claimed, messages, response).await?;
    Ok((response, Some(outcome)))
}

/// The turn of a request: dropped without an append, it leaves nothing.
pub struct AppendTurn {
    app: App,
    body: JsonText,
    received: Received,
    keyed: Option<Keyed>,
    /// The memory for the body, and then for its messages.
    _memory: Option<Reservation>,
}

/// A request with a key.
struct Keyed {
    claims: Claims,
    body_hash: [u8; 32],
    /// The claim of an earlier request that was not finished.
    unfinished: Option<Claim>,
}

impl AppendTurn {
    fn new(app: &App, key: Option<IdempotencyKey>, mut body: JsonText) -> Self {
        let memory = body.take_memory();
        let keyed = key.map(|key| {
            let body_hash = body.in_place(app, || Sha256::digest(body.as_bytes()).into());
            Keyed { claims: Claims::new(app, key), body_hash, unfinished: None }
        });
        Self { app: app.clone(), body, received: Received::now(app), keyed, _memory: memory }
    }

    /// The response that is stored under the key. If there is an unfinished request, the turn
    /// continues it.
    async fn look_up(&mut self) -> Result<Option<StoredResponse>, ApiError> {
        let Some(keyed) = &mut self.keyed else { return Ok(None) };
        match keyed.claims.state(&keyed.body_hash).await? {
            KeyState::Unused => Ok(None),
            KeyState::Finished(response) => Ok(Some(response)),
            KeyState::Unfinished(claim) => {
                self.received = claim.received();
                keyed.unfinished = Some(claim);
                Ok(None)
            }
        }
    }

    fn is_unfinished(&self) -> bool {
        self.keyed.as_ref().is_some_and(|keyed| keyed.unfinished.is_some())
    }

    pub fn body(&self) -> &JsonText {
        &self.body
    }

    /// When and under which id the request was received. A repeat that continues an unfinished
    /// request has the receipt of that one.
    pub fn received(&self) -> Received {
        self.received
    }

    /// The error of a body that is rejected. If an unfinished request had this body, definitions
    /// have changed since, and it may have had effects: then a new key could repeat these.
    pub fn rejected(&self, error: ApiError) -> ApiError {
        if self.is_unfinished() { claims::unrepeatable() } else { error }
    }

    /// Does work on the body. Work on a large one does not block other requests.
    pub fn in_place<T>(&self, work: impl FnOnce(&JsonText) -> T) -> T {
        self.body.in_place(&self.app, || work(&self.body))
    }

    /// Appends the messages, which must depend on nothing but the body and its receipt, and
    /// returns the response. The caller sets the partition of each message. With a key, each
    /// message's key is replaced with its id.
    pub async fn append(
        self,
        messages: Vec<NewMessage>,
        response: StoredResponse,
    ) -> Result<StoredResponse, ApiError> {
        self.append_timed(messages, response).await.map(|(response, _)| response)
    }

    /// [`append`](Self::append). Also returns when the log got each message: nothing, if an earlier
    /// request with the key may have appended them.
    pub async fn append_timed(
        self,
        messages: Vec<NewMessage>,
        response: StoredResponse,
    ) -> Result<(StoredResponse, LogTimes), ApiError> {
        self.append_with(MessageIds::ByPosition, None, messages, response).await
    }

    /// The same for messages that depend on more than the body: new messages of a repeat are
    /// appended, too. Only for messages that can be applied more than once.
    pub async fn append_varying(
        self,
        messages: Vec<NewMessage>,
        response: StoredResponse,
    ) -> Result<StoredResponse, ApiError> {
        let appended = self.append_with(MessageIds::ByContent, None, messages, response).await;
        appended.map(|(response, _)| response)
    }

    /// `claimed` is the claim, if it is stored already.
    async fn append_with(
        self,
        ids: MessageIds,
        claimed: Option<(Claim, Lease)>,
        mut messages: Vec<NewMessage>,
        response: StoredResponse,
    ) -> Result<(StoredResponse, LogTimes), ApiError> {
        let Self { app, body, received, keyed, _memory } = self;
        let workspace = body.workspace;
        // An append can take long.
        drop(body);
        let Some(keyed) = keyed else {
            let log_times = app.log.append(messages).await?;
            return Ok((response, log_times));
        };
        let (claim, lease) = match claimed {
            Some(claimed) => claimed,
            None => {
                let bytes = messages.iter().map(|message| message.payload.len()).sum();
                let hash = in_place(&app, workspace, bytes, || ids.hash(&messages));
                keyed.claim(received, &hash).await?
            }
        };
        fail_point!("idempotency::claimed");
        for (number, message) in messages.iter_mut().enumerate() {
            message.key = ids.derive(claim.id, number, message).as_bytes().to_vec();
        }
        keyed.claims.check(&lease)?;
        let log_times = match app.log.append(messages).await {
            Ok(_) if keyed.unfinished.is_some() => LogTimes::new(),
            Ok(log_times) => log_times,
            Err(error) => {
                keyed.claims.release(&claim).await;
                return Err(error.into());
            }
        };
        fail_point!("idempotency::appended");
        keyed.claims.finish(&claim, &response).await;
        fail_point!("idempotency::finished");
        Ok((response, log_times))
    }
}

impl Keyed {
    /// Stores a claim for messages with this hash; none if there is another one.
    async fn try_claim(
        &self,
        received: Received,
        messages: &[u8; 32],
    ) -> Result<Option<(Claim, Lease)>, ApiError> {
        let claim = Claim::new(received, &self.body_hash, messages);
        let lease = self.claims.try_insert(&claim).await?;
        Ok(lease.map(|lease| (claim, lease)))
    }

    /// Stores a claim for messages with this hash, or continues the unfinished one.
    async fn claim(
        &self,
        received: Received,
        messages: &[u8; 32],
    ) -> Result<(Claim, Lease), ApiError> {
        let Some(unfinished) = &self.unfinished else {
            let claimed = self.try_claim(received, messages).await?;
            // Another request stored one meanwhile.
            return claimed.ok_or_else(claims::in_progress);
        };
        let lease = self.claims.take_over(unfinished).await?;
        if unfinished.messages != messages {
            return Err(self.claims.unrepeatable(unfinished).await);
        }
        Ok((unfinished.clone(), lease))
    }
}

/// How the ids of messages are derived from their claim.
#[derive(Clone, Copy)]
enum MessageIds {
    ByPosition,
    /// Different content has a different id.
    ByContent,
}

impl MessageIds {
    fn derive(self, claim: Uuid, number: usize, message: &NewMessage) -> Uuid {
        match self {
            Self::ByPosition => message_ids::derive_id(claim, number),
            Self::ByContent => {
                let content = hash(std::slice::from_ref(message));
                derived_ids::unversioned(&[claim.as_bytes(), &content])
            }
        }
    }

    /// A hash of what must be the same when a request is continued.
    fn hash(self, messages: &[NewMessage]) -> [u8; 32] {
        match self {
            Self::ByPosition => hash(messages),
            Self::ByContent => hash(&[]),
        }
    }
}

/// A hash that distinguishes messages: their partitions and payloads, in order.
pub(super) fn hash(messages: &[NewMessage]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for message in messages {
        hash.update(message.topic.name());
        hash.update(message.partition.unwrap_or(-1).to_be_bytes());
        hash.update((message.payload.len() as u64).to_be_bytes());
        hash.update(&message.payload);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::topics;

    #[test]
    fn ids_of_messages_never_change() {
        let message = NewMessage {
            topic: topics::TRACKING,
            key: Vec::new(),
            partition: None,
            payload: br#"{"a":1}"#.into(),
            request_id: String::new(),
        };
        let derived = |ids: MessageIds| ids.derive(Uuid::from_u128(1), 2, &message).to_string();
        assert_eq!(derived(MessageIds::ByPosition), "00000000-0000-0000-0000-000000000003");
        assert_eq!(derived(MessageIds::ByContent), "8e08e334-1e32-b0a8-0d7d-2ff465c6d433");
    }
}
