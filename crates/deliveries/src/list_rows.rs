//! The SQL of a workspace's list of deliveries.

use std::ops::Range;

use sqlx::AssertSqlSafe;
use uuid::Uuid;

use super::api::ListedDelivery;
use super::{Delivery, State, job};
use gateway::paging;
use store::{StoreError, Tx, on};

/// Deliveries of the workspace that a page searches for those that match.
const SEARCHED: i64 = 10_000;

/// The creation and the id of a delivery: its position in the list.
pub type Key = (i64, Uuid);

/// Which deliveries of a workspace to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    pub state: Option<State>,
    /// One of [`KINDS`](super::KINDS).
    pub kind: Option<&'static str>,
    pub subject: Option<String>,
    pub receiver: Option<Uuid>,
    /// When the delivery was created, in milliseconds since the epoch.
    pub created: Range<i64>,
}

/// All of them.
impl Default for Selection {
    fn default() -> Self {
        Self { state: None, kind: None, subject: None, receiver: None, created: i64::MIN..i64::MAX }
    }
}

/// A page of a workspace's deliveries, newest first.
#[derive(Debug)]
pub struct DeliveryPage {
    pub deliveries: Vec<ListedDelivery>,
    /// After which the next page begins; none at the end. A page may have fewer deliveries than its
    /// limit, even none, although others follow.
    pub next: Option<Key>,
}

/// The page of deliveries that begins after `after`.
pub async fn list_for_workspace(
    tx: &mut Tx,
    workspace: i32,
    selection: &Selection,
    after: Option<Key>,
    limit: i64,
) -> Result<DeliveryPage, StoreError> {
    let after = first_position(after, selection.created.end);
    let found = page(tx, workspace, selection, after, limit + 1).await?;
    let key = |delivery: &ListedDelivery| (delivery.created_at, delivery.id);
    let (deliveries, next) = paging::page_of(found, limit, key);
    let next = match next {
        Some(next) => Some(next),
        None => last_searched(tx, workspace, selection, after).await?,
    };
    Ok(DeliveryPage { deliveries, next })
}

/// The position after which a page begins.
fn first_position(after: Option<Key>, until: i64) -> Key {
    let end = (until, Uuid::nil());
    after.map_or(end, |after| after.min(end))
}

/// The columns of a [`Delivery`] that are the row's own, in a list without bodies.
const COLUMNS: &str = "id, workspace_id, kind, subject, url, receiver AS job, item, state, request_id, \
                       attempts, created_at, retry_until, next_at, last_status, last_error, \
                       finished_at";

/// The latest deliveries that match, among the [`SEARCHED`] ones after `after`.
async fn page(
    tx: &mut Tx,
    workspace: i32,
    selection: &Selection,
    after: Key,
    limit: i64,
) -> Result<Vec<ListedDelivery>, StoreError> {
    let sql = format!(
        "SELECT * FROM (
               SELECT {COLUMNS} FROM deliveries
               WHERE workspace_id = $1 AND (created_at, id) < ($2, $3) AND created_at >= $4
               ORDER BY created_at DESC, id DESC LIMIT $5) AS searched
         WHERE ($6 IS NULL OR state = $6) AND ($7 IS NULL OR subject = $7)
           AND ($8 IS NULL OR job IN ($8, $9)) AND ($10 IS NULL OR kind = $10)
         ORDER BY created_at DESC, id DESC LIMIT $11",
    );
    Ok(on!(tx, c => sqlx::query_as(AssertSqlSafe(sql.clone()))
    .bind(workspace).bind(after.0).bind(after.1).bind(selection.created.start)
    .bind(SEARCHED).bind(selection.state.map(State::name)).bind(selection.subject.as_deref())
    // Programs of release 0.2.0 stored the receiver itself as the job.
    .bind(selection.receiver.map(|receiver| job(workspace, receiver)))
    .bind(selection.receiver).bind(selection.kind).bind(limit)
    .fetch_all(c).await?))
}

/// Maximum number of deliveries that [`about`] returns.
const MAX_ABOUT: i64 = 100;

/// A workspace's deliveries about a subject that were created at these times, the oldest first:
/// without bodies, and without the workspace's name. The times should be few: all deliveries of
/// that time are searched.
pub async fn about(
    tx: &mut Tx,
    workspace: i32,
    subject: &str,
    created: Range<i64>,
) -> Result<Vec<Delivery>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS}, '' AS workspace, '' AS body FROM deliveries
         WHERE workspace_id = $1 AND created_at >= $2 AND created_at < $3 AND subject = $4
         ORDER BY created_at, id LIMIT $5"
    );
    Ok(on!(tx, c => sqlx::query_as(AssertSqlSafe(sql.clone()))
    .bind(workspace).bind(created.start).bind(created.end).bind(subject).bind(MAX_ABOUT)
    .fetch_all(c).await?))
}

/// A workspace's delivery.
pub async fn find(
    tx: &mut Tx,
    workspace: i32,
    id: Uuid,
) -> Result<Option<ListedDelivery>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM deliveries WHERE id = $1 AND workspace_id = $2");
    Ok(on!(tx, c => sqlx::query_as(AssertSqlSafe(sql.clone()))
        .bind(id)
        .bind(workspace)
        .fetch_optional(c)
        .await?))
}

/// The last of the deliveries that the page searched, if others follow.
async fn last_searched(
    tx: &mut Tx,
    workspace: i32,
    selection: &Selection,
    after: Key,
) -> Result<Option<Key>, StoreError> {
    let rest: Vec<Key> = on!(tx, c => sqlx::query_as(
        "SELECT created_at, id FROM deliveries
         WHERE workspace_id = $1 AND (created_at, id) < ($2, $3) AND created_at >= $4
         ORDER BY created_at DESC, id DESC LIMIT 2 OFFSET $5",
    )
    .bind(workspace).bind(after.0).bind(after.1).bind(selection.created.start)
    .bind(SEARCHED - 1)
    .fetch_all(c).await?);
    Ok(rest.first().copied().filter(|_| rest.len() > 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_begins_at_the_cursor_or_at_the_end_of_the_time() {
        let id = Uuid::max();
        assert_eq!(first_position(None, i64::MAX), (i64::MAX, Uuid::nil()));
        assert_eq!(first_position(None, 5), (5, Uuid::nil()));
        assert_eq!(first_position(Some((4, id)), 5), (4, id));
        assert_eq!(first_position(Some((5, id)), 5), (5, Uuid::nil()));
    }
}
