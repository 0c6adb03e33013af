//! The SQL of the audit log.

use uuid::Uuid;

use super::audit::{Entry, Filter, Position, Record};
use store::retention::OldRows;
use store::{StoreError, Tx, execute, from_row, old_rows, on};

/// Entries that are older than `$1`.
pub(super) const OLD: OldRows = old_rows!("audit_log", "at < $1", 5_000);

from_row! { Record { id, at, workspace, actor, action, object, address } json { details } }

pub(super) async fn insert(
    tx: &mut Tx,
    id: Uuid,
    at: i64,
    entry: &Entry,
) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "INSERT INTO audit_log
                 (id, at, workspace_id, actor, action, object, address, details)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        )
        .bind(id)
        .bind(at)
        .bind(entry.workspace_id)
        .bind(&entry.actor)
        .bind(entry.action)
        .bind(&entry.object)
        .bind(entry.address.as_deref())
        .bind(entry.details.to_string())
    );
    Ok(())
}

/// A page of the entries in this scope.
macro_rules! page {
    ($scope:literal) => {
        concat!(
            "SELECT log.id, log.at, workspaces.name AS workspace, log.actor, log.action,
                    log.object, log.address, log.details
             FROM audit_log log LEFT JOIN workspaces ON workspaces.id = log.workspace_id
             WHERE ",
            $scope,
            " AND (log.at, log.id) < ($2, $3) AND log.at >= $4
               AND ($5 IS NULL OR log.actor = $5)
               AND ($6 IS NULL OR substr(log.action, 1, length($6)) = $6)
             ORDER BY log.at DESC, log.id DESC LIMIT $7"
        )
    };
}

/// Separate statements, so that each uses its index.
const ALL: &str = page!("$1 IS NULL");
const OF_WORKSPACE: &str = page!("log.workspace_id = $1");
const OF_ACTOR: &str = page!("log.actor = $5 AND ($1 IS NULL OR log.workspace_id = $1)");

/// The latest entries that match, the latest first.
pub(super) async fn list(tx: &mut Tx, filter: &Filter) -> Result<Vec<Record>, StoreError> {
    let sql = match (&filter.actor, filter.workspace_id) {
        (Some(_), _) => OF_ACTOR,
        (None, Some(_)) => OF_WORKSPACE,
        (None, None) => ALL,
    };
    let (at, id) = filter.before.unwrap_or((i64::MAX, Uuid::max()));
    Ok(on!(tx, c => sqlx::query_as(sql)
        .bind(filter.workspace_id).bind(at).bind(id).bind(filter.since.unwrap_or(i64::MIN))
        .bind(filter.actor.as_deref()).bind(filter.action.as_deref()).bind(filter.limit)
        .fetch_all(c).await?))
}

pub(super) async fn position(tx: &mut Tx, id: Uuid) -> Result<Option<Position>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as("SELECT at, id FROM audit_log WHERE id = $1")
        .bind(id).fetch_optional(c).await?))
}
