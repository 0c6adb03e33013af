//! Dead letters: retried by the handler of their topic, and those of a workspace over HTTP.

pub mod api;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::runtime::Handle;
use uuid::Uuid;

use crate::app::App;
use content::catalogs::apply::ApplyEdits;
use exports::intake::PlanExports;
use gateway::ApiError;
use gateway::idempotency::KeyedResponse;
use kit::retry::Retry as _;
use messages::dispatch::OrderHandler;
use runtime::audit::Entry;
use runtime::engine::batches::dead_letters::{self, DeadLetterError};
use runtime::topics;
use sending::erase;
use store::{StoreError, Tx};
use tracking::apply::Ingest;
use web_console::app::RetryDeadLetter;

/// Applies a dead letter, and removes it in the same transaction, which also writes the entry of
/// the audit log, and stores the response to a request with a key.
pub async fn retry(
    app: &App,
    id: Uuid,
    entry: &Entry,
    response: Option<&KeyedResponse>,
) -> Result<(), DeadLetterError> {
    let store = &app.store;
    let store_response = async |tx: &mut Tx| -> Result<(), StoreError> {
        match response {
            Some(response) => response.store(tx).await,
            None => Ok(()),
        }
    };
    match dead_letters::topic(store, id).await? {
        topics::TRACKING => {
            let ingest = Ingest::new(app).with_hooks(erase::HOOKS);
            dead_letters::retry(store, &ingest, id, entry, &store_response).await
        }
        topics::CATALOGS => {
            let apply = ApplyEdits::new(app);
            dead_letters::retry(store, &apply, id, entry, &store_response).await
        }
        topics::MESSAGES => {
            dead_letters::retry(store, &OrderHandler, id, entry, &store_response).await
        }
        _ => dead_letters::retry(store, &PlanExports, id, entry, &store_response).await,
    }
}

/// [`retry`] for a request: it waits for a turn of the workspace. A dead letter that fails again is
/// a conflict.
async fn retry_in_turn(
    app: App,
    workspace: i32,
    id: Uuid,
    entry: Entry,
    response: Option<KeyedResponse>,
) -> Result<(), ApiError> {
    let turn = app.dead_letter_turns.wait(workspace).await?;
    // On a thread of its own: it holds its turn to the end, even if the client leaves.
    let (runtime, span) = (Handle::current(), tracing::Span::current());
    let work = move || {
        let _turn = turn;
        span.in_scope(|| runtime.block_on(retry(&app, id, &entry, response.as_ref())))
    };
    let retried = tokio::task::spawn_blocking(work).await;
    let retried =
        retried.map_err(|panic| ApiError::Internal(format!("a retry panicked: {panic}")))?;
    retried.map_err(|error| retry_error(id, &error))
}

/// The pages of the console retry dead letters in the same turns as the API.
impl RetryDeadLetter for App {
    fn retry(
        &self,
        workspace: i32,
        id: Uuid,
        entry: Entry,
    ) -> BoxFuture<'static, Result<(), ApiError>> {
        retry_in_turn(self.clone(), workspace, id, entry, None).boxed()
    }
}

fn unknown() -> ApiError {
    ApiError::NotFound("No dead letter has this id".into())
}

fn failed_again() -> ApiError {
    ApiError::Conflict("It failed again: the dead letter has the reason".into())
}

/// The details may be the operator's.
fn retry_error(id: Uuid, error: &DeadLetterError) -> ApiError {
    match error {
        DeadLetterError::Unknown(_) => unknown(),
        DeadLetterError::Store(error) if error.can_retry() => {
            ApiError::Unavailable(error.to_string())
        }
        DeadLetterError::Store(error) => ApiError::Internal(error.to_string()),
        DeadLetterError::Unfinished(text) => ApiError::Unavailable(text.clone()),
        DeadLetterError::Topic { .. } | DeadLetterError::Refused(_) => {
            tracing::warn!(dead_letter = %id, %error, "dead letter failed again");
            failed_again()
        }
    }
}
