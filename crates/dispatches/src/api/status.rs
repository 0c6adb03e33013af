//! One dispatch: GET returns it, DELETE cancels it.

use axum::Extension;
use axum::extract::State as AppState;
use axum::http::{Method, StatusCode};
use axum::routing::{delete, get};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::list::{self, Dispatch};
use super::{DispatchId, TAG, UNKNOWN, id_in_path, own_dispatch};
use crate::{DispatchSummary, MAX_SCANNED_MESSAGES, summary_of_workspace};
use gateway::workspaces::Channel;
use gateway::{self, Access, ApiError, Caller, NoFields, Operation, Recording, Routes};
use messages::app::App;
use messages::dispatch::state::State;
use messages::dispatch::{self, MessageOutcome};
use runtime::audit::Change;
use store::{StoreError, Tx};

const GET: &str = "messages.dispatches.get";
const CANCEL: &str = "messages.dispatches.cancel";

pub(super) fn routes() -> Routes<App> {
    let dispatch = gateway::protected(GET, get(status));
    let dispatch = dispatch.merge(gateway::protected(CANCEL, delete(cancel)));
    Routes::new().route(
        "/messages/dispatches/{dispatch_id}",
        dispatch,
        [describe(), describe_cancel()],
    )
}

fn describe() -> Operation {
    let operation = Operation::new(Method::GET, "getDispatch", TAG, "Get a dispatch")
        .by(Access::Key(GET))
        .about("From its users to the outcomes of their messages.")
        .returns::<Status>(StatusCode::OK, "The dispatch.")
        .with_example(example());
    id_in_path(operation)
}

fn describe_cancel() -> Operation {
    let operation = Operation::new(Method::DELETE, "cancelDispatch", TAG, "Cancel a dispatch")
        .by(Access::Key(CANCEL))
        .about(
            "Only messages that workers already hold may still go out, and workers drop those that \
             they have not started, usually at once. Until all of them have an outcome, the state is \
             `cancelling`, and `may_still_be_sent` is their largest number. Then the state is \
             `cancelled`, and nothing more goes out. `may_have_been_sent` counts the messages that \
             were not accepted, as far as is known, but may have arrived. Cancelling again has no \
             effect, and returns the current counts.",
        )
        .takes_no_fields()
        .returns::<Status>(StatusCode::OK, "The dispatch is cancelled.")
        .with_example(example())
        .refuses(&ApiError::from(CancelError::Ended(State::Done)), "The dispatch has ended");
    id_in_path(operation)
}

fn example() -> Value {
    let mut example = list::example();
    example["outcomes"] = json!({
        "waiting": 0, "sent": 120, "delivered": 672, "bounced": 6, "unreachable": 2, "aborted": 0,
        "failed": 0, "cancelled": 0,
    });
    example["may_still_be_sent"] = 0.into();
    example["may_have_been_sent"] = 0.into();
    example["reasons"] = json!([{
        "channel": "email", "outcome": "unreachable", "reason": "no email address", "messages": 2,
    }]);
    example
}

async fn status(
    AppState(app): AppState<App>,
    Extension(caller): Extension<Caller>,
    DispatchId(id): DispatchId,
) -> Result<axum::Json<Status>, ApiError> {
    let _turn = app.count_turns.wait(caller.workspace.id).await?;
    let mut tx = app.request_queue.snapshot().await?;
    let found = own_dispatch(&mut tx, &caller, id).await?;
    Ok(axum::Json(Status::read(&mut tx, found).await?))
}

async fn cancel(
    AppState(app): AppState<App>,
    Extension(caller): Extension<Caller>,
    DispatchId(id): DispatchId,
    _: NoFields,
) -> Result<(Recording, axum::Json<Status>), ApiError> {
    let mut tx = app.request_queue.write().await?;
    let change = cancel_dispatch(&mut tx, caller.workspace.id, id).await?;
    let recording = caller.record(&mut tx, app.clock.now_ms(), change).await?;
    tx.commit().await?;
    // Not before the commit: nothing delays a cancellation.
    let _turn = app.count_turns.wait(caller.workspace.id).await?;
    let mut tx = app.request_queue.write().await?;
    dispatch::wait_for_batches(&mut tx, id).await?;
    drop(tx);
    // Messages are counted without the write lock of SQLite.
    let mut tx = app.request_queue.snapshot().await?;
    let found = own_dispatch(&mut tx, &caller, id).await?;
    Ok((recording, axum::Json(Status::read(&mut tx, found).await?)))
}

/// Why a dispatch was not cancelled.
#[derive(Debug, thiserror::Error)]
pub enum CancelError {
    #[error("{UNKNOWN}")]
    Unknown,
    /// It is done or failed.
    #[error("The dispatch is {} and can no longer be cancelled", .0.name())]
    Ended(State),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<CancelError> for ApiError {
    fn from(error: CancelError) -> Self {
        match error {
            CancelError::Unknown => Self::NotFound(error.to_string()),
            CancelError::Ended(_) => Self::Conflict(error.to_string()),
            CancelError::Store(error) => error.into(),
        }
    }
}

/// Cancels a workspace's dispatch in the caller's transaction. Returns the change for the audit
/// log; none if it was cancelled before. After the commit, wait with [`dispatch::wait_for_batches`]
/// before you count the messages in flight.
pub async fn cancel_dispatch(
    tx: &mut Tx,
    workspace: i32,
    id: Uuid,
) -> Result<Option<Change>, CancelError> {
    check_can_be_cancelled(tx, workspace, id).await?;
    let before = dispatch::cancel(tx, id).await?;
    // It may have ended meanwhile.
    let after = check_can_be_cancelled(tx, workspace, id).await?;
    Ok(before.and_then(|before| cancellation(id, before, after)))
}

/// The state of a workspace's dispatch that has not ended, or was cancelled.
async fn check_can_be_cancelled(
    tx: &mut Tx,
    workspace: i32,
    id: Uuid,
) -> Result<State, CancelError> {
    let found = summary_of_workspace(tx, workspace, id).await?;
    match found.ok_or(CancelError::Unknown)?.state {
        state @ (State::Done | State::Failed) => Err(CancelError::Ended(state)),
        state => Ok(state),
    }
}

/// What the audit log has about a cancellation.
pub fn cancellation(id: Uuid, before: State, after: State) -> Option<Change> {
    Change::from_states("dispatch.cancel", id.simple().to_string(), before.name(), after.name())
}

/// A dispatch, and the outcomes of its messages.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DispatchStatus")]
struct Status {
    #[serde(flatten)]
    dispatch: Dispatch,
    /// Absent if the dispatch has more than a million messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcomes: Option<OutcomeCounts>,
    /// The largest number of messages that may still go out although the dispatch was cancelled or
    /// failed: those without a stored outcome in the parts that workers hold. Some of them may have
    /// left already. 0 once the dispatch has ended and no message is in flight. Absent while it is
    /// planning or running.
    #[serde(skip_serializing_if = "Option::is_none")]
    may_still_be_sent: Option<i64>,
    /// Number of messages that their users may have although they were not accepted, as far as is
    /// known: the receiver did not respond to an attempt, or a worker was lost. They are included
    /// in `outcomes`, mostly as cancelled or failed. Absent while the dispatch is planning or
    /// running, or if it has more than a million messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    may_have_been_sent: Option<i64>,
    /// The three most frequent reasons for each channel and outcome, of the latest 10,000 messages
    /// that have one, among the latest million.
    reasons: Vec<Reason>,
}

/// Messages by their current outcome. Each counts once: one that was sent and then delivered counts
/// as delivered.
#[derive(Default, Serialize, JsonSchema)]
#[schemars(rename = "DispatchOutcomes")]
struct OutcomeCounts {
    /// In progress, or waiting for a retry.
    waiting: i64,
    /// Accepted by the channel, without a later report.
    sent: i64,
    /// Reported as delivered.
    delivered: i64,
    /// Rejected by the channel, or reported as bounced.
    bounced: i64,
    /// Without an address, or not reachable by this channel.
    unreachable: i64,
    /// Ended by the template.
    aborted: i64,
    failed: i64,
    /// Given up, because the dispatch was cancelled or failed. While it is cancelling, those that
    /// may still be sent are included. Those of them that may have been sent are always included.
    cancelled: i64,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "OutcomeReason")]
struct Reason {
    #[schemars(with = "String")]
    channel: Channel,
    #[schemars(with = "String", extend("enum" = MessageOutcome::ALL.map(MessageOutcome::name)))]
    outcome: MessageOutcome,
    reason: String,
    /// Number of messages with this reason.
    messages: i64,
}

/// The largest number of messages that a dispatch in this state may still send although it was
/// cancelled or failed. None while it is planning or running.
pub async fn may_still_be_sent(
    tx: &mut Tx,
    id: Uuid,
    state: State,
) -> Result<Option<i64>, StoreError> {
    Ok(match state {
        State::Planning | State::Running => None,
        State::Failed | State::Cancelling => Some(dispatch::count_in_flight(tx, id).await?),
        State::Done | State::Cancelled => Some(0),
    })
}

impl Status {
    async fn read(tx: &mut Tx, found: DispatchSummary) -> Result<Self, ApiError> {
        let (id, state) = (found.id, found.state);
        let ended_early = state.is_early_end();
        let counts = crate::count_outcomes(tx, id, ended_early, MAX_SCANNED_MESSAGES).await?;
        let may_have_been_sent = counts.as_ref().map(|counts| counts.may_have_been_sent);
        let may_have_been_sent =
            may_have_been_sent.filter(|_| !matches!(state, State::Planning | State::Running));
        let outcomes = counts.map(|counts| {
            let mut outcomes = OutcomeCounts::default();
            let counts = counts.by_outcome.into_iter();
            counts.for_each(|(outcome, count)| *outcomes.count_mut(outcome) = count);
            outcomes
        });
        let may_still_be_sent = may_still_be_sent(tx, id, state).await?;
        let reasons = crate::reasons(tx, id, MAX_SCANNED_MESSAGES).await?;
        let reasons = reasons.into_iter().filter_map(|found| {
            let crate::Reason { channel, state, reason, messages, .. } = found;
            let outcome = MessageOutcome::from_row(&state, ended_early)?;
            Some(Reason { channel, outcome, reason, messages })
        });
        let reasons = reasons.collect();
        Ok(Self {
            dispatch: found.into(),
            outcomes,
            may_still_be_sent,
            may_have_been_sent,
            reasons,
        })
    }
}

impl OutcomeCounts {
    fn count_mut(&mut self, outcome: MessageOutcome) -> &mut i64 {
        match outcome {
            MessageOutcome::Waiting => &mut self.waiting,
            MessageOutcome::Sent => &mut self.sent,
            MessageOutcome::Delivered => &mut self.delivered,
            MessageOutcome::Bounced => &mut self.bounced,
            MessageOutcome::Unreachable => &mut self.unreachable,
            MessageOutcome::Aborted => &mut self.aborted,
            MessageOutcome::Failed => &mut self.failed,
            MessageOutcome::Cancelled => &mut self.cancelled,
        }
    }
}
