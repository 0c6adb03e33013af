//! The recipients of a dispatch: one entry for each message.

use std::collections::HashMap;

use axum::Extension;
use axum::extract::{RawQuery, State as AppState};
use axum::http::{Method, StatusCode};
use axum::routing::get;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use super::{DispatchId, TAG, id_in_path, own_dispatch};
use crate::RecipientPosition;
use crate::recipient_rows::{self, RecipientMessage};
use gateway::paging::{self, MAX_PAGE, Paging};
use gateway::workspaces::Channel;
use gateway::{self, Access, ApiError, Caller, Operation, Routes, parameter};
use kit::clock::{serialize_optional_time, serialize_time};
use messages::app::App;
use messages::dispatch::state::State;
use messages::dispatch::{MessageOutcome, OutcomeFilter};
use people::users::rows::{For, find_users};
use store::{StoreError, Tx};

const PERMISSION: &str = "messages.dispatches.recipients";

pub(super) fn routes() -> Routes<App> {
    Routes::new().route(
        "/messages/dispatches/{dispatch_id}/recipients",
        gateway::protected(PERMISSION, get(list)),
        [describe()],
    )
}

fn describe() -> Operation {
    let names = OutcomeFilter::ALL.map(OutcomeFilter::name).join("|");
    let operation = Operation::new(
        Method::GET,
        "listRecipients",
        TAG,
        "List a dispatch's recipients",
    )
    .by(Access::Key(PERMISSION))
    .about(
        "One entry for each message, by user and channel. Users who were left out have none. A \
             page may have fewer entries than `limit`, or none, although others follow: continue \
             until `next_cursor` is absent. The order never changes, so each message of a dispatch \
             that has ended is listed once, even if its outcome changes meanwhile. While the \
             dispatch is running, new messages may be missing.",
    )
    .in_query(
        "outcome",
        "Only messages with one of these current outcomes, separated by commas. All if absent. \
         `may_have_been_sent` selects messages that were not accepted, as far as is known, but may \
         have arrived: each of them also has another outcome.",
        json!({ "type": "string", "pattern": format!("^(?:{names})(?:,(?:{names}))*$") }),
    );
    let operation = operation
        .takes_cursor("recipients")
        .refuses_some(["outcome=lost"].map(read), "A parameter is invalid or repeated")
        .returns::<Page>(StatusCode::OK, "A page.")
        .with_example(json!({
            "recipients": [{
                "external_user_id": "ann", "service_id": "0197b6a8-3c55-8e11-9a1f-3f0f3c2d6e54",
                "channel": "email", "outcome": "delivered", "attempts": 1,
                "may_have_been_sent": false, "created_at": "2026-11-21T08:29:29.110Z",
                "sent_at": "2026-11-21T08:29:29.216Z",
            }],
        }));
    id_in_path(operation)
}

async fn list(
    AppState(app): AppState<App>,
    Extension(caller): Extension<Caller>,
    DispatchId(id): DispatchId,
    RawQuery(query): RawQuery,
) -> Result<axum::Json<Page>, ApiError> {
    let request = read(query.as_deref().unwrap_or_default()).map_err(ApiError::Invalid)?;
    let mut tx = app.request_queue.snapshot().await?;
    let found = own_dispatch(&mut tx, &caller, id).await?;
    let (workspace, state) = (caller.workspace.id, found.state);
    let (recipients, next) = page(&mut tx, (workspace, id, state), &request).await?;
    Ok(axum::Json(Page { recipients, next_cursor: next.as_ref().map(paging::cursor) }))
}

/// Some recipients of a workspace's dispatch, and where the next page starts. A page may have fewer
/// than `limit`, although others follow.
pub async fn page(
    tx: &mut Tx,
    (workspace, dispatch, state): (i32, Uuid, State),
    request: &Request,
) -> Result<(Vec<Recipient>, Option<RecipientPosition>), StoreError> {
    let ended_early = state.is_early_end();
    let filter = (request.outcomes.as_slice(), ended_early);
    let page = recipient_rows::page(tx, dispatch, filter, request.after, request.limit).await?;
    let ids: Vec<Uuid> = page.messages.iter().map(|message| message.service_id).collect();
    let users = find_users(tx, workspace, &ids, For::ReadingKeys).await?;
    let names: HashMap<Uuid, String> =
        users.into_iter().filter_map(|user| Some((user.service_id, user.external_id?))).collect();
    let recipient = |message: RecipientMessage| {
        let outcome = message.outcome(ended_early)?;
        let position = message.position();
        let RecipientMessage { service_id, channel, attempts, created_at, sent_at, .. } = message;
        Some(Recipient {
            position,
            external_user_id: names.get(&service_id).cloned(),
            service_id,
            channel,
            outcome,
            attempts,
            created_at,
            sent_at,
            next_at: message.next_at.filter(|_| outcome == MessageOutcome::Waiting),
            reason: message.reason,
            may_have_been_sent: message.may_have_been_sent,
        })
    };
    Ok((page.messages.into_iter().filter_map(recipient).collect(), page.next))
}

/// Which recipients are listed.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// All outcomes if empty.
    pub outcomes: Vec<OutcomeFilter>,
    pub after: RecipientPosition,
    pub limit: i64,
}

/// Reads the parameters; the error names the invalid one. Ignores unknown parameters.
fn read(query: &str) -> Result<Request, String> {
    let names = OutcomeFilter::ALL.map(OutcomeFilter::name).join(", ");
    let expected = format!("one or more of {names}, separated by commas");
    let outcomes = parameter(query, "outcome", &expected, |text| {
        text.split(',').map(OutcomeFilter::from_name).collect::<Option<Vec<_>>>()
    })?;
    let Paging { limit, after } = Paging::read(query)?;
    Ok(Request {
        outcomes: outcomes.unwrap_or_default(),
        after: after.unwrap_or(RecipientPosition::START),
        limit,
    })
}

/// A page of the list.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RecipientPage")]
struct Page {
    #[schemars(length(max = MAX_PAGE))]
    recipients: Vec<Recipient>,
    /// Cursor of the next page; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// A message to a user. Times are ISO 8601 in UTC.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DispatchRecipient")]
pub struct Recipient {
    /// Where a list continues after it.
    #[serde(skip)]
    pub position: RecipientPosition,
    /// Absent if the user has none, or was deleted or merged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_user_id: Option<String>,
    pub service_id: Uuid,
    #[schemars(with = "String")]
    pub channel: Channel,
    #[schemars(with = "String", extend("enum" = MessageOutcome::ALL.map(MessageOutcome::name)))]
    pub outcome: MessageOutcome,
    /// Whether the user may have the message although the channel did not accept it, as far as is
    /// known: the receiver did not respond to an attempt, or a worker was lost.
    pub may_have_been_sent: bool,
    /// Number of attempts with a stored outcome.
    pub attempts: i32,
    #[serde(serialize_with = "serialize_time")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub created_at: i64,
    /// When the channel accepted it.
    #[serde(serialize_with = "serialize_optional_time", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub sent_at: Option<i64>,
    /// The next attempt, if it waits for one.
    #[serde(serialize_with = "serialize_optional_time", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub next_at: Option<i64>,
    /// Why it was not sent, or bounced; or why it is unknown whether it was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn outcomes_are_a_list() {
        let read = |query: &str| read(query).map(|request| request.outcomes);
        let reached = vec![OutcomeFilter::Sent, OutcomeFilter::MayHaveBeenSent];
        assert_eq!(read("outcome=sent,may_have_been_sent"), Ok(reached.clone()));
        assert_eq!(read("outcome=sent%2Cmay_have_been_sent"), Ok(reached));
        assert_eq!(read(""), Ok(Vec::new()));
        for wrong in ["outcome=", "outcome=pending", "outcome=sent,", "outcome=sent&outcome=sent"] {
            assert!(read(wrong).expect_err(wrong).starts_with("outcome "), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(query in "(outcome|limit|cursor|sent|[=&%,0-9a-f-]|\\PC)*") {
            let _ = read(&query);
        }
    }
}
