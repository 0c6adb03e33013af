//! The SQL of a workspace's list of deliveries.

use std::ops::Range;

use uuid::Uuid;

use super::{Delivery, State};
use store::{StoreError, Tx, on};

/// Deliveries of the workspace that a page searches for those that match.
pub(super) const SEARCHED: i64 = 10_000;

/// The creation and the id of a delivery: its position in the list.
pub(super) type Key = (i64, Uuid);

/// Which deliveries of a workspace to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Selection {
    pub state: Option<State>,
    pub subject: Option<String>,
    /// The job of the workspace's deliveries to a receiver.
    pub job: Option<Uuid>,
    /// When the delivery was created, in milliseconds since the epoch.
    pub created: Range<i64>,
}

/// The latest deliveries that match, among the [`SEARCHED`] ones after `after`.
/// They have no body, and not the workspace's name, which the caller knows.
pub(super) async fn page(
    tx: &mut Tx,
    workspace: i32,
    selection: &Selection,
    after: Key,
    limit: i64,
) -> Result<Vec<Delivery>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT id, workspace_id, '' AS workspace, kind, subject, url, '' AS body,
                receiver AS job, item, state, request_id, attempts, created_at, retry_until,
                next_at, last_status, last_error, finished_at
         FROM (SELECT id, workspace_id, kind, subject, url, receiver, item, state, request_id,
                      attempts, created_at, retry_until, next_at, last_status, last_error,
                      finished_at
               FROM deliveries
               WHERE workspace_id = $1 AND (created_at, id) < ($2, $3) AND created_at >= $4
               ORDER BY created_at DESC, id DESC LIMIT $5) AS searched
         WHERE ($6 IS NULL OR state = $6) AND ($7 IS NULL OR subject = $7)
           AND ($8 IS NULL OR receiver = $8)
         ORDER BY created_at DESC, id DESC LIMIT $9",
    )
    .bind(workspace).bind(after.0).bind(after.1).bind(selection.created.start)
    .bind(SEARCHED).bind(selection.state.map(State::name)).bind(selection.subject.as_deref())
    .bind(selection.job).bind(limit)
    .fetch_all(c).await?))
}

/// The last of the deliveries that the page searched; none if it searched all.
pub(super) async fn last_searched(
    tx: &mut Tx,
    workspace: i32,
    selection: &Selection,
    after: Key,
) -> Result<Option<Key>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT created_at, id FROM deliveries
         WHERE workspace_id = $1 AND (created_at, id) < ($2, $3) AND created_at >= $4
         ORDER BY created_at DESC, id DESC LIMIT 1 OFFSET $5",
    )
    .bind(workspace).bind(after.0).bind(after.1).bind(selection.created.start)
    .bind(SEARCHED - 1)
    .fetch_optional(c).await?))
}
