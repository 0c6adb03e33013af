//! The SQL of merged users. An id of a merged user stands for the kept user for as long as that one
//! exists, because links in old emails have it.

use std::collections::HashMap;

use uuid::Uuid;

use store::{StoreError, Tx, execute, fetch_listed, from_row, on};

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
    let (mut merges, mut wanted) = (HashMap::new(), ids.to_vec());
    while !wanted.is_empty() {
        let found = merges_of(tx, workspace, &wanted).await?;
        merges.extend(found.iter().map(|merge| (merge.service_id, merge.clone())));
        // The user into which one was merged may itself have been merged since.
        wanted = found.into_iter().map(|merge| merge.kept_as).collect();
        wanted.retain(|kept| !merges.contains_key(kept));
    }
    let present = |id: &Uuid| present_of(&merges, *id).filter(|kept| kept != id);
    Ok(ids.iter().filter_map(|id| Some((*id, present(id)?))).collect())
}

/// A user who was merged into another.
#[derive(Clone, Debug)]
struct Merge {
    service_id: Uuid,
    kept_as: Uuid,
    merged_at: i64,
}
from_row! { Merge { service_id, kept_as, merged_at } }

/// The end of a chain of merges. An import of an earlier version could create a merged user again,
/// and so close a circle: its latest merge holds.
fn present_of(merges: &HashMap<Uuid, Merge>, id: Uuid) -> Option<Uuid> {
    let mut last = merges.get(&id)?;
    for _ in 0..merges.len() {
        match merges.get(&last.kept_as) {
            Some(next) => last = next,
            None => return Some(last.kept_as),
        }
    }
    let circle = std::iter::successors(Some(last), |merge| {
        merges.get(&merge.kept_as).filter(|next| next.service_id != last.service_id)
    });
    circle.max_by_key(|merge| merge.merged_at).map(|merge| merge.kept_as)
}

async fn merges_of(tx: &mut Tx, workspace: i32, ids: &[Uuid]) -> Result<Vec<Merge>, StoreError> {
    Ok(fetch_listed!(
        tx,
        query_as,
        ids(ids),
        "SELECT service_id, kept_as, merged_at FROM merged_users
         WHERE workspace_id = $2 AND service_id",
        workspace
    ))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_merge_of_a_circle_holds() {
        let id = |n: u128| Uuid::from_u128(n);
        // Of 1 to 5, 3 to 5 are a circle; 7 was merged into itself.
        let merges: HashMap<Uuid, Merge> =
            [(1, 2, 50), (2, 3, 60), (3, 4, 10), (4, 5, 30), (5, 3, 20), (6, 8, 1), (7, 7, 1)]
                .map(|(from, to, merged_at)| {
                    (id(from), Merge { service_id: id(from), kept_as: id(to), merged_at })
                })
                .into();
        for (from, expected) in
            [(1, Some(5)), (2, Some(5)), (3, Some(5)), (4, Some(5)), (5, Some(5)), (6, Some(8))]
        {
            assert_eq!(present_of(&merges, id(from)), expected.map(id), "{from}");
        }
        assert_eq!(present_of(&merges, id(7)), Some(id(7)));
        assert_eq!(present_of(&merges, id(8)), None);
    }
}
