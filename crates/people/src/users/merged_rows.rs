//! The SQL of merged users. An id of a merged user stands for the kept user for as long as that one
//! exists, because links in old emails have it.

use std::collections::HashMap;

use uuid::Uuid;

use store::{StoreError, Tx, execute, fetch_listed, on};

/// Stores that a user was merged into another one. An import of an earlier version could create a
/// merged user again; then the last merge counts.
pub async fn add_merged(
    tx: &mut Tx,
    workspace: i32,
    merged: Uuid,
    kept: Uuid,
    merged_at: i64,
) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "INSERT INTO merged_users (workspace_id, service_id, kept_as, merged_at)
             VALUES ($1, $2, $3, $4)
             ON CONFLICT (workspace_id, service_id)
             DO UPDATE SET kept_as = excluded.kept_as, merged_at = excluded.merged_at",
        )
        .bind(workspace)
        .bind(merged)
        .bind(kept)
        .bind(merged_at)
    );
    Ok(())
}

/// The user that an id stands for: the one into which its user was merged, if it was.
pub async fn present(tx: &mut Tx, workspace: i32, id: Uuid) -> Result<Uuid, StoreError> {
    let merged = find_merged(tx, workspace, &[id]).await?;
    Ok(merged.get(&id).copied().unwrap_or(id))
}

/// The users into which these were merged.
pub async fn find_merged(
    tx: &mut Tx,
    workspace: i32,
    ids: &[Uuid],
) -> Result<HashMap<Uuid, Uuid>, StoreError> {
    let (mut kept_as, mut wanted) = (HashMap::new(), ids.to_vec());
    while !wanted.is_empty() {
        let found = find_kept(tx, workspace, &wanted).await?;
        kept_as.extend(&found);
        // The user into which one was merged may itself have been merged since.
        wanted = found.into_values().filter(|kept| !kept_as.contains_key(kept)).collect();
    }
    let present = |id: &Uuid| {
        let mut kept = kept_as.get(id)?;
        // An import of an earlier version could close a circle.
        for _ in 0..kept_as.len() {
            kept = kept_as.get(kept).unwrap_or(kept);
        }
        Some((*id, *kept))
    };
    Ok(ids.iter().filter_map(present).collect())
}

async fn find_kept(
    tx: &mut Tx,
    workspace: i32,
    ids: &[Uuid],
) -> Result<HashMap<Uuid, Uuid>, StoreError> {
    let rows: Vec<(Uuid, Uuid)> = fetch_listed!(
        tx,
        query_as,
        ids(ids),
        "SELECT service_id, kept_as FROM merged_users WHERE workspace_id = $2 AND service_id",
        workspace
    );
    Ok(rows.into_iter().collect())
}

/// The users who were merged into these, and into those: by the id of each, the user in `kept` that
/// the id stands for.
pub async fn merged_into(
    tx: &mut Tx,
    workspace: i32,
    kept: &[Uuid],
) -> Result<HashMap<Uuid, Uuid>, StoreError> {
    let mut merged: HashMap<Uuid, Uuid> = HashMap::new();
    let mut wanted = kept.to_vec();
    while !wanted.is_empty() {
        let found = merged_as(tx, workspace, &wanted).await?;
        wanted.clear();
        for (id, kept_as) in found {
            let present = merged.get(&kept_as).copied().unwrap_or(kept_as);
            // An import of an earlier version could create a merged user again.
            if !kept.contains(&id) && merged.insert(id, present).is_none() {
                wanted.push(id);
            }
        }
    }
    Ok(merged)
}

async fn merged_as(
    tx: &mut Tx,
    workspace: i32,
    ids: &[Uuid],
) -> Result<Vec<(Uuid, Uuid)>, StoreError> {
    Ok(fetch_listed!(
        tx,
        query_as,
        ids(ids),
        "SELECT service_id, kept_as FROM merged_users WHERE workspace_id = $2 AND kept_as",
        workspace
    ))
}

/// Deletes the ids of all users who were merged into a user, and into those; returns them.
pub(crate) async fn delete_merged(
    tx: &mut Tx,
    workspace: i32,
    kept: Uuid,
) -> Result<Vec<Uuid>, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar(
        "WITH RECURSIVE gone (service_id) AS (
             SELECT service_id FROM merged_users WHERE workspace_id = $1 AND kept_as = $2
             UNION
             SELECT merged_users.service_id FROM gone
             JOIN merged_users ON merged_users.workspace_id = $1
                 AND merged_users.kept_as = gone.service_id)
         DELETE FROM merged_users
         WHERE workspace_id = $1 AND service_id IN (SELECT service_id FROM gone)
         RETURNING service_id",
    )
    .bind(workspace)
    .bind(kept)
    .fetch_all(c)
    .await?))
}
