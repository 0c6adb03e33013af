//! The SQL of possibly large documents and activity: reads only as much as there is room for in
//! memory.

use uuid::Uuid;

use super::activity_rows::StoredActivity;
use super::rows::{self, For, StoredUser, find_in_postgres};
use crate::users::service_id::with_slices;
use store::{ByteBudget, StoreError, Tx, to_json};

/// Maximum bytes of a document or activity that is read directly; for larger ones the size is
/// queried first. The statements for PostgreSQL have the number, too.
pub(super) const SMALL: i64 = 2_048;

/// The existing users with these ids, locked for changes, as long as there is room for their
/// documents.
pub async fn lock_users(
    tx: &mut Tx,
    workspace: i32,
    ids: &[Uuid],
    budget: &mut ByteBudget,
) -> Result<Vec<StoredUser>, StoreError> {
    let (mut users, large) = lock_small(tx, workspace, ids, budget).await?;
    users.extend(read_large(tx, workspace, &large, budget).await?);
    Ok(users)
}

/// The same without the users whose documents are large: returns their ids.
pub async fn lock_small(
    tx: &mut Tx,
    workspace: i32,
    ids: &[Uuid],
    budget: &mut ByteBudget,
) -> Result<(Vec<StoredUser>, Vec<Uuid>), StoreError> {
    let mut users = rows::find_users(tx, workspace, ids, For::WritingSmall).await?;
    budget.take(users.iter().map(|user| user.doc.len()).sum())?;
    let large = users.extract_if(.., |user| user.doc.is_empty());
    let large: Vec<Uuid> = large.map(|user| user.service_id).collect();
    Ok((users, large))
}

/// The users that [`lock_small`] omitted, as long as there is room for their documents.
pub async fn read_large(
    tx: &mut Tx,
    workspace: i32,
    large: &[Uuid],
    budget: &mut ByteBudget,
) -> Result<Vec<StoredUser>, StoreError> {
    if large.is_empty() {
        return Ok(Vec::new());
    }
    budget.take(total_bytes(tx, Large::Documents, workspace, large).await?)?;
    // They are locked, so they have not changed since the query.
    rows::find_users(tx, workspace, large, For::Reading).await
}

/// Adds the large activity that was omitted, as long as there is room for all of it.
pub(super) async fn fill(
    tx: &mut Tx,
    workspace: i32,
    stored: &mut [StoredActivity],
    budget: &mut ByteBudget,
) -> Result<(), StoreError> {
    budget.take(stored.iter().flat_map(|stored| &stored.body).map(Vec::len).sum())?;
    let is_large = |stored: &&StoredActivity| stored.body.as_ref().is_some_and(Vec::is_empty);
    let large: Vec<Uuid> = stored.iter().filter(is_large).map(|large| large.service_id).collect();
    if large.is_empty() {
        return Ok(());
    }
    budget.take(total_bytes(tx, Large::Activity, workspace, &large).await?)?;
    let mut bodies = bodies(tx, workspace, &large).await?;
    bodies.sort_unstable_by_key(|(id, _)| *id);
    for stored in stored {
        if let Ok(index) = bodies.binary_search_by_key(&stored.service_id, |(id, _)| *id) {
            stored.body = Some(std::mem::take(&mut bodies[index].1));
        }
    }
    Ok(())
}

/// The activity of the users among `ids` who have some.
pub async fn bodies(
    tx: &mut Tx,
    workspace: i32,
    ids: &[Uuid],
) -> Result<Vec<(Uuid, Vec<u8>)>, StoreError> {
    const POSTGRES: &str = "SELECT found.service_id, found.body
         FROM unnest($2::smallint[], $3::uuid[]) AS wanted (slice, service_id)
         CROSS JOIN LATERAL (
             SELECT service_id, body FROM activity
             WHERE slice = wanted.slice AND workspace_id = $1 AND service_id = wanted.service_id
             LIMIT 1) AS found";
    let wanted = with_slices(ids, |id| id)?;
    match tx {
        Tx::Postgres(tx) => {
            let wanted = wanted.into_iter().unzip();
            find_in_postgres(tx, POSTGRES, workspace, wanted, |(id, _): &(Uuid, _)| *id).await
        }
        Tx::Sqlite(tx) => Ok(sqlx::query_as(
            "SELECT users.service_id, body
             FROM json_each($2) AS wanted CROSS JOIN users
             JOIN activity ON activity.key = users.key
             WHERE users.slice = wanted.value ->> 0 AND users.workspace_id = $1
               AND users.service_id = unhex(wanted.value ->> 1, '-')",
        )
        .bind(workspace)
        .bind(to_json(&wanted)?)
        .fetch_all(&mut **tx)
        .await?),
    }
}

#[derive(Clone, Copy, Debug)]
enum Large {
    Documents,
    Activity,
}

/// The size in bytes of users' documents or activity.
async fn total_bytes(
    tx: &mut Tx,
    large: Large,
    workspace: i32,
    ids: &[Uuid],
) -> Result<usize, StoreError> {
    macro_rules! postgres {
        ($table:literal, $column:literal) => {
            concat!(
                "SELECT coalesce(sum(found.bytes), 0)::bigint
                 FROM unnest($2::smallint[], $3::uuid[]) AS wanted (slice, service_id)
                 CROSS JOIN LATERAL (
                     SELECT octet_length(",
                $column,
                ") AS bytes FROM ",
                $table,
                " WHERE slice = wanted.slice AND workspace_id = $1
                    AND service_id = wanted.service_id LIMIT 1) AS found"
            )
        };
    }
    macro_rules! sqlite {
        ($column:literal) => {
            concat!(
                "SELECT coalesce(sum(octet_length(",
                $column,
                ")), 0)
                 FROM json_each($2) AS wanted CROSS JOIN users
                 LEFT JOIN activity ON activity.key = users.key
                 WHERE users.slice = wanted.value ->> 0 AND users.workspace_id = $1
                   AND users.service_id = unhex(wanted.value ->> 1, '-')"
            )
        };
    }
    let wanted = with_slices(ids, |id| id)?;
    let bytes: i64 = match tx {
        Tx::Postgres(tx) => {
            let sql = match large {
                Large::Documents => postgres!("users", "doc"),
                Large::Activity => postgres!("activity", "body"),
            };
            let (slices, ids): (Vec<i16>, Vec<Uuid>) = wanted.into_iter().unzip();
            let query = sqlx::query_scalar(sql).bind(workspace).bind(slices).bind(ids);
            query.fetch_one(&mut **tx).await?
        }
        Tx::Sqlite(tx) => {
            let sql = match large {
                Large::Documents => sqlite!("doc"),
                Large::Activity => sqlite!("body"),
            };
            let query = sqlx::query_scalar(sql).bind(workspace).bind(to_json(&wanted)?);
            query.fetch_one(&mut **tx).await?
        }
    };
    Ok(usize::try_from(bytes).unwrap_or(usize::MAX))
}
