//! The endpoints of dispatches: what was sent, who got it, and what can still be done about it
//! (docs/reference/api/dispatches.md).
//!
//! | module | is about |
//! |---|---|
//! | [`list`] | the list of dispatches |
//! | [`status`] | one dispatch; its cancellation |
//! | [`recipients`] | the messages of a dispatch |
//! | [`send`] | a send to the recipients of a dispatch |
//! | [`statistics`] | what a campaign sent |

mod list;
pub mod recipients;
pub mod send;
mod statistics;
pub mod status;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use serde_json::json;
use uuid::Uuid;

use crate::DispatchSummary;
use crate::orders::DISPATCH_ID;
use gateway::openapi::Tag;
use gateway::{ApiError, Caller, Operation, Routes};
use messages::app::App;
use store::Tx;

const TAG: Tag = Tag {
    name: "Dispatches",
    about: "What was sent: each dispatch, its recipients and their outcomes.",
};

/// The id in the examples.
const EXAMPLE: &str = "0197b6a83c557e119a1f3f0f3c2d6e54";

pub fn routes() -> Routes<App> {
    Routes::new()
        .merge(list::routes())
        .merge(status::routes())
        .merge(recipients::routes())
        .merge(send::routes())
        .merge(statistics::routes())
}

/// The `dispatch_id` in a path. An invalid one is unknown, without a query.
struct DispatchId(Uuid);

impl<S: Send + Sync> FromRequestParts<S> for DispatchId {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        let id = path.ok().filter(|Path(text)| text.len() == 32);
        let id = id.and_then(|Path(text)| Uuid::try_parse(&text).ok());
        id.map(Self).ok_or_else(unknown)
    }
}

fn id_in_path(operation: Operation) -> Operation {
    let schema = json!({ "type": "string", "pattern": DISPATCH_ID, "examples": [EXAMPLE] });
    operation
        .in_path("dispatch_id", "The `dispatch_id` from the response to the send.", schema)
        .refuses(
            &unknown(),
            "No dispatch of this workspace has this dispatch_id, or no worker has read its request \
             yet",
        )
}

/// The error of an unknown `dispatch_id`.
const UNKNOWN: &str = "No dispatch has this dispatch_id";

fn unknown() -> ApiError {
    ApiError::NotFound(UNKNOWN.into())
}

/// The caller's dispatch; one of another workspace is unknown.
async fn own_dispatch(tx: &mut Tx, caller: &Caller, id: Uuid) -> Result<DispatchSummary, ApiError> {
    crate::summary_of_workspace(tx, caller.workspace.id, id).await?.ok_or_else(unknown)
}
