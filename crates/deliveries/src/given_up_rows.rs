//! The SQL of deliveries that were given up.

use uuid::Uuid;

use store::{StoreError, Tx, from_row, on};

/// A delivery that its receiver did not accept before the time limit.
#[derive(Clone, Debug)]
pub struct GivenUp {
    pub id: Uuid,
    pub workspace_id: i32,
    /// What it is about, such as `export`.
    pub kind: String,
    /// An export's object_prefix, or another id of that kind.
    pub subject: String,
    /// In milliseconds since the epoch.
    pub finished_at: i64,
}
from_row! { GivenUp { id, workspace_id, kind, subject, finished_at } }

/// The latest deliveries that were given up since a time, of all workspaces. Those that ended
/// before their time limit had no receiver any more: nobody waits for them.
pub async fn given_up_since(
    tx: &mut Tx,
    since: i64,
    limit: i64,
) -> Result<Vec<GivenUp>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT id, workspace_id, kind, subject, finished_at FROM deliveries
         WHERE state = 'given_up' AND finished_at >= $1 AND finished_at >= retry_until
         ORDER BY finished_at DESC LIMIT $2",
    )
    .bind(since)
    .bind(limit)
    .fetch_all(c)
    .await?))
}
