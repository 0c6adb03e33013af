//! The SQL of the content blocks that dispatches keep, and of running dispatches.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use serde_json::{Map, Value};
use uuid::Uuid;

use super::kept::Kept;
use crate::order::Order;
use kit::clock::{hours, millis};
use store::claims;
use store::{StoreError, Tx, execute, fetch_listed, insert_rows, on};

/// How exact `used_at` is: dispatches that begin within this time do not write it again.
const EXACTNESS: Duration = hours(1);

/// A block is kept at least for this time after its last use: longer than a transaction that begins
/// a dispatch, together with the difference between clocks.
const MIN_AGE: Duration = hours(24);

/// Maximum number of running dispatches of a workspace that are read.
const MAX_RUNNING: i64 = 10_000;

/// Stores content blocks, by workspace and hash, or marks them as used.
pub(super) async fn store(
    tx: &mut Tx,
    blocks: BTreeMap<(i32, Uuid), String>,
) -> Result<(), StoreError> {
    if blocks.is_empty() {
        return Ok(());
    }
    let now = claims::now(tx).await?;
    let mut recent: HashSet<(i32, Uuid)> = HashSet::new();
    let mut hashes: BTreeMap<i32, Vec<Uuid>> = BTreeMap::new();
    for (workspace, hash) in blocks.keys() {
        hashes.entry(*workspace).or_default().push(*hash);
    }
    for (workspace, hashes) in hashes {
        let found: Vec<(Uuid,)> = fetch_listed!(
            tx,
            query_as,
            ids(&hashes),
            "SELECT hash FROM dispatch_blocks WHERE workspace_id = $2 AND used_at > $3 AND hash",
            workspace,
            now - millis(EXACTNESS)
        );
        recent.extend(found.into_iter().map(|(hash,)| (workspace, hash)));
    }
    let blocks: Vec<_> = blocks.into_iter().filter(|(key, _)| !recent.contains(key)).collect();
    insert_rows!(tx, "dispatch_blocks", blocks, |block| {
        workspace_id: block.0.0,
        hash: block.0.1,
        body: block.1.as_str(),
        used_at: now,
    }, "ON CONFLICT (workspace_id, hash) DO UPDATE SET used_at = excluded.used_at");
    Ok(())
}

/// The bodies of content blocks, by their hashes.
pub(super) async fn bodies(
    tx: &mut Tx,
    workspace: i32,
    hashes: &[Uuid],
) -> Result<HashMap<Uuid, String>, StoreError> {
    let bodies: Vec<(Uuid, String)> = fetch_listed!(
        tx,
        query_as,
        ids(hashes),
        "SELECT hash, body FROM dispatch_blocks WHERE workspace_id = $2 AND hash",
        workspace
    );
    Ok(bodies.into_iter().collect())
}

/// The time before which no dispatch of a workspace has begun, so that content blocks that were
/// last used before it can be deleted.
pub(super) async fn unused_since(tx: &mut Tx, workspace: i32) -> Result<i64, StoreError> {
    let now = claims::now(tx).await?;
    let oldest: Option<i64> = on!(tx, c => sqlx::query_scalar(
        "SELECT min(accepted_at) FROM dispatches WHERE workspace_id = $1",
    )
    .bind(workspace).fetch_one(c).await?);
    Ok(oldest.unwrap_or(now).min(now) - millis(MIN_AGE))
}

/// Whether a workspace has content blocks that were last used before a time.
pub(super) async fn has_unused(
    tx: &mut Tx,
    workspace: i32,
    before: i64,
) -> Result<bool, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM dispatch_blocks WHERE workspace_id = $1 AND used_at < $2)",
    )
    .bind(workspace).bind(before).fetch_one(c).await?))
}

/// Deletes the content blocks of a workspace that were last used before a time.
pub(super) async fn delete_unused(
    tx: &mut Tx,
    workspace: i32,
    before: i64,
) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query("DELETE FROM dispatch_blocks WHERE workspace_id = $1 AND used_at < $2")
            .bind(workspace)
            .bind(before)
    );
    Ok(())
}

/// A dispatch that has not ended.
#[derive(Debug)]
pub struct RunningDispatch {
    pub id: Uuid,
    pub campaign_id: Option<Uuid>,
    /// None if an earlier version began it.
    pub kept: Option<Kept>,
}

/// The dispatches of a workspace that have not ended, the newest first; at most 10,000.
pub async fn running(tx: &mut Tx, workspace: i32) -> Result<Vec<RunningDispatch>, StoreError> {
    let rows: Vec<(Uuid, Option<Uuid>, Option<String>)> = on!(tx, c => sqlx::query_as(
        "SELECT id, campaign_id, kept FROM dispatches
         WHERE workspace_id = $1 AND finished_at IS NULL
         ORDER BY accepted_at DESC, id DESC LIMIT $2",
    )
    .bind(workspace).bind(MAX_RUNNING).fetch_all(c).await?);
    rows.into_iter()
        .map(|(id, campaign_id, kept)| {
            let kept = kept.map(|text| Kept::from_row(id, &text)).transpose()?;
            Ok(RunningDispatch { id, campaign_id, kept })
        })
        .collect()
}

/// The messages of dispatches, by the ids of the dispatches.
pub async fn messages_of(
    tx: &mut Tx,
    ids: &[Uuid],
) -> Result<HashMap<Uuid, Map<String, Value>>, StoreError> {
    let orders: Vec<(Uuid, String)> =
        fetch_listed!(tx, query_as, ids(ids), "SELECT id, order_json FROM dispatches WHERE id");
    let messages = |(id, order): (Uuid, String)| {
        Ok((id, Order::from_row("dispatches.order_json", id, &order)?.messages))
    };
    orders.into_iter().map(messages).collect()
}
