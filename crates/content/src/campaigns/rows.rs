//! The SQL of campaigns and Canvases.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::Value;
use uuid::Uuid;

use super::{ApiCampaign, ApiCampaigns};
use super::{Campaign, Kind, inactive_state};
use store::documents::parsed;
use store::{StoreError, Tx, execute, fetch_listed, from_row, on};

from_row! { Campaign { id, kind, name, archived, paused } json { tags, content } }

/// All campaigns and Canvases of a workspace, oldest first.
pub async fn stored(tx: &mut Tx, workspace: i32) -> Result<Vec<Campaign>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT id, kind, name, tags, archived, paused, content FROM campaigns
         WHERE workspace_id = $1 ORDER BY created_at, number",
    )
    .bind(workspace).fetch_all(c).await?))
}

/// The ids and names of all campaigns and Canvases of a workspace, by name.
pub async fn names(tx: &mut Tx, workspace: i32) -> Result<Vec<(Uuid, String)>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT id, name FROM campaigns WHERE workspace_id = $1 ORDER BY name, number",
    )
    .bind(workspace).fetch_all(c).await?))
}

/// The ids and names of the campaigns of a workspace that requests may use, by name.
pub async fn api_names(tx: &mut Tx, workspace: i32) -> Result<Vec<(Uuid, String)>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT id, name FROM campaigns WHERE workspace_id = $1 AND kind = 'api'
         ORDER BY name, number",
    )
    .bind(workspace).fetch_all(c).await?))
}

/// The number of campaigns and Canvases of a workspace.
pub async fn count(tx: &mut Tx, workspace: i32) -> Result<i64, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar("SELECT count(*) FROM campaigns WHERE workspace_id = $1")
        .bind(workspace).fetch_one(c).await?))
}

/// The names of those of these campaigns and Canvases that the workspace has, by their ids.
pub async fn names_of(
    tx: &mut Tx,
    workspace: i32,
    ids: &[Uuid],
) -> Result<HashMap<Uuid, String>, StoreError> {
    let names: Vec<(Uuid, String)> = fetch_listed!(
        tx,
        query_as,
        ids(ids),
        "SELECT id, name FROM campaigns WHERE workspace_id = $2 AND id",
        workspace
    );
    Ok(names.into_iter().collect())
}

/// The campaigns and Canvases that depend on purchases: those with a trigger and those with a
/// conversion window. May include a few others.
pub async fn triggered_by_purchases(
    tx: &mut Tx,
    workspace: i32,
) -> Result<Vec<Campaign>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT id, kind, name, tags, archived, paused, content FROM campaigns
         WHERE workspace_id = $1
           AND (kind = 'triggered' OR content LIKE '%\"conversion_window\":%')",
    )
    .bind(workspace).fetch_all(c).await?))
}

/// The campaign or Canvas with that id, if it exists.
pub async fn by_id(tx: &mut Tx, workspace: i32, id: Uuid) -> Result<Option<Campaign>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT id, kind, name, tags, archived, paused, content FROM campaigns
         WHERE workspace_id = $1 AND id = $2",
    )
    .bind(workspace).bind(id).fetch_optional(c).await?))
}

/// The state of a campaign that is no longer declared.
pub const REMOVED: &str = "was removed";

/// Why a campaign sends nothing, if so: `is archived`, `is paused` or `was removed`.
pub async fn inactive(
    tx: &mut Tx,
    workspace: i32,
    id: Uuid,
) -> Result<Option<Cow<'static, str>>, StoreError> {
    let found: Option<(bool, bool)> = on!(tx, c => sqlx::query_as(
        "SELECT archived, paused FROM campaigns WHERE workspace_id = $1 AND id = $2",
    )
    .bind(workspace).bind(id).fetch_optional(c).await?);
    Ok(match found {
        None => Some(REMOVED.into()),
        Some((is_archived, is_paused)) => {
            inactive_state(is_archived, is_paused).map(|state| format!("is {state}").into())
        }
    })
}

/// The campaigns that requests may use.
pub(crate) async fn api_campaigns(tx: &mut Tx, workspace: i32) -> Result<ApiCampaigns, StoreError> {
    let campaigns: Vec<Campaign> = on!(tx, c => sqlx::query_as(
        "SELECT id, kind, name, tags, archived, paused, content FROM campaigns
         WHERE workspace_id = $1 AND kind = 'api'",
    )
    .bind(workspace).fetch_all(c).await?);
    let campaign = |campaign: Campaign| {
        let variations = campaign.variations().map(str::to_ascii_lowercase).collect();
        let (is_archived, is_paused) = (campaign.archived, campaign.paused);
        (campaign.id, ApiCampaign { is_archived, is_paused, variations })
    };
    Ok(campaigns.into_iter().map(campaign).collect())
}

/// The number of the newest campaign.
pub async fn last_number(tx: &mut Tx, workspace: i32) -> Result<i64, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar(
        "SELECT coalesce(max(number), 0) FROM campaigns WHERE workspace_id = $1",
    )
    .bind(workspace).fetch_one(c).await?))
}

/// Writes a campaign. A new one gets this number; an existing one keeps its own.
pub async fn put(
    tx: &mut Tx,
    workspace: i32,
    number: i64,
    campaign: &Campaign,
    now: i64,
) -> Result<(), StoreError> {
    let Campaign { id, kind, name, tags, archived, paused, content } = campaign;
    execute!(
        tx,
        sqlx::query(
            "INSERT INTO campaigns (workspace_id, id, number, kind, name, tags, archived, paused,
                                    content, created_at, edited_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10)
             ON CONFLICT (workspace_id, id) DO UPDATE SET
                 kind = excluded.kind, name = excluded.name, tags = excluded.tags,
                 archived = excluded.archived, paused = excluded.paused,
                 content = excluded.content, edited_at = excluded.edited_at",
        )
        .bind(workspace)
        .bind(id)
        .bind(number)
        .bind(kind.name())
        .bind(name)
        .bind(Value::from(tags.as_slice()).to_string())
        .bind(archived)
        .bind(paused)
        .bind(content.to_json())
        .bind(now)
    );
    Ok(())
}

pub async fn remove(tx: &mut Tx, workspace: i32, id: Uuid) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query("DELETE FROM campaigns WHERE workspace_id = $1 AND id = $2")
            .bind(workspace)
            .bind(id)
    );
    Ok(())
}

macro_rules! canvas {
    ($lock:literal) => {
        concat!(
            "SELECT id FROM campaigns WHERE workspace_id = $1 AND id = $2 AND kind = 'canvas' ",
            $lock
        )
    };
}

/// Whether the workspace has a Canvas with that id. The Canvas cannot be deleted before the end of
/// the transaction.
pub async fn has_canvas(tx: &mut Tx, workspace: i32, id: Uuid) -> Result<bool, StoreError> {
    let sql = if tx.is_postgres() { canvas!("FOR KEY SHARE") } else { canvas!("") };
    let found: Option<Uuid> = on!(tx, c => sqlx::query_scalar(sql)
        .bind(workspace).bind(id).fetch_optional(c).await?);
    Ok(found.is_some())
}

/// When a campaign was first declared, and when what is declared of it last changed.
pub(crate) async fn times(
    tx: &mut Tx,
    workspace: i32,
    id: Uuid,
) -> Result<Option<(i64, i64)>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT created_at, edited_at FROM campaigns WHERE workspace_id = $1 AND id = $2",
    )
    .bind(workspace).bind(id).fetch_optional(c).await?))
}

/// The filter and the page of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    pub archived_too: bool,
    /// Only campaigns edited after this time, in milliseconds since the epoch.
    pub edited_after: i64,
    pub newest_first: bool,
    pub offset: i64,
    /// Whether to list Canvases instead of campaigns.
    pub canvases: bool,
}

/// A campaign in a list.
pub(crate) struct Listed {
    pub id: Uuid,
    pub kind: Kind,
    pub name: String,
    pub tags: Vec<String>,
    pub edited_at: i64,
}

/// Finds a page with the index alone, which covers the filter, and then reads only the page's rows
/// by key. So the rows before a page cost only their index entries.
macro_rules! page {
    ($order:literal) => {
        concat!(
            "SELECT c.id, c.kind, c.name, c.tags, c.edited_at
             FROM (SELECT id, created_at, number FROM campaigns
                   WHERE workspace_id = $1 AND (kind = 'canvas') = $6 AND ($2 OR NOT archived)
                     AND edited_at > $3
                   ORDER BY created_at ",
            $order,
            ", number ",
            $order,
            " LIMIT $4 OFFSET $5) AS page
             JOIN campaigns c ON c.workspace_id = $1 AND c.id = page.id
             ORDER BY page.created_at ",
            $order,
            ", page.number ",
            $order
        )
    };
}

/// The campaigns of a page, in order of creation, and of the file if they were declared together.
/// Newest first is exactly the reverse.
pub(crate) async fn page(
    tx: &mut Tx,
    workspace: i32,
    filter: &Filter,
    limit: i64,
) -> Result<Vec<Listed>, StoreError> {
    let sql = if filter.newest_first { page!("DESC") } else { page!("ASC") };
    let rows: Vec<(Uuid, Kind, String, String, i64)> = on!(tx, c => sqlx::query_as(sql)
        .bind(workspace)
        .bind(filter.archived_too)
        .bind(filter.edited_after)
        .bind(limit)
        .bind(filter.offset)
        .bind(filter.canvases)
        .fetch_all(c)
        .await?);
    rows.into_iter()
        .map(|(id, kind, name, tags, edited_at)| {
            Ok(Listed { tags: parsed("campaigns.tags", id, &tags)?, id, kind, name, edited_at })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use sqlx::{Connection as _, Row as _, SqliteConnection};

    #[tokio::test]
    async fn page_offsets_use_a_covering_index() {
        let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        let schema = include_str!("../../../../deploy/migrations/sqlite/0001_first.sql");
        sqlx::raw_sql(schema).execute(&mut connection).await.unwrap();
        for page in [page!("ASC"), page!("DESC")] {
            let sql = sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {page}"));
            let steps = sqlx::query(sql).fetch_all(&mut connection).await.unwrap();
            let steps: Vec<String> = steps.iter().map(|step| step.get("detail")).collect();
            let plan = steps.join("\n");
            assert!(plan.contains("USING COVERING INDEX campaigns_listed"), "{plan}");
        }
    }
}
