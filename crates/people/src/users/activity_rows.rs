//! The SQL of activity: one packed row for each user, read and written in bulk.

use std::collections::HashSet;

use sqlx::Postgres;
use uuid::Uuid;

use super::activity::Activity;
use super::keys::first_key;
use super::large_rows;
use super::rows::find_in_postgres;
use crate::users::service_id::{slice, with_slices};
use store::{ByteBudget, OpenTransaction, StoreError, Tx, insert_rows, on, to_json};

/// A user's activity, and its key.
#[derive(Clone, Debug)]
pub struct StoredActivity {
    /// The key in SQLite's tables; 0 on PostgreSQL.
    pub key: i64,
    pub service_id: Uuid,
    /// None if the user has no activity yet.
    pub body: Option<Vec<u8>>,
}

/// The activity of one user.
pub async fn find_activity(
    tx: &mut Tx,
    workspace: i32,
    id: Uuid,
) -> Result<Option<Vec<u8>>, StoreError> {
    let slice = slice(&id)?;
    // SQLite stores the body under the user's key, without another index.
    let sql = if tx.is_postgres() {
        "SELECT body FROM activity WHERE slice = $1 AND workspace_id = $2 AND service_id = $3"
    } else {
        "SELECT body FROM activity WHERE key = (
             SELECT key FROM users WHERE slice = $1 AND workspace_id = $2 AND service_id = $3)"
    };
    Ok(on!(tx, c => sqlx::query_scalar(sql)
        .bind(slice).bind(workspace).bind(id).fetch_optional(c).await?))
}

/// The activity of those users among `ids` who have any.
pub async fn find_activities(
    tx: &mut Tx,
    workspace: i32,
    ids: &[Uuid],
) -> Result<Vec<(Uuid, Vec<u8>)>, StoreError> {
    let wanted = with_slices(ids, |id| id)?;
    Ok(match tx {
        _ if ids.is_empty() => Vec::new(),
        Tx::Postgres(tx) => {
            let (slices, ids): (Vec<i16>, Vec<Uuid>) = wanted.into_iter().unzip();
            sqlx::query_as(
                "SELECT found.service_id, found.body
                 FROM unnest($2::smallint[], $3::uuid[]) AS wanted (slice, service_id)
                 CROSS JOIN LATERAL (
                     SELECT service_id, body FROM activity
                     WHERE slice = wanted.slice AND workspace_id = $1
                       AND service_id = wanted.service_id
                     LIMIT 1) AS found",
            )
            .bind(workspace)
            .bind(slices)
            .bind(ids)
            .fetch_all(&mut **tx)
            .await?
        }
        Tx::Sqlite(tx) => {
            sqlx::query_as(
                "SELECT users.service_id, activity.body
                 FROM json_each($2) AS wanted CROSS JOIN users
                 JOIN activity ON activity.key = users.key
                 WHERE users.slice = wanted.value ->> 0 AND users.workspace_id = $1
                   AND users.service_id = unhex(wanted.value ->> 1, '-')",
            )
            .bind(workspace)
            .bind(to_json(&wanted)?)
            .fetch_all(&mut **tx)
            .await?
        }
    })
}

/// Locks the activity of the existing users among `ids`, as long as there is room for it. The users
/// cannot be erased until the transaction ends. On PostgreSQL, locks in the order of slices and
/// ids; creates empty activity for users without any.
pub async fn lock_activity(
    tx: &mut Tx,
    workspace: i32,
    ids: &[Uuid],
    budget: &mut ByteBudget,
) -> Result<Vec<StoredActivity>, StoreError> {
    let mut stored = lock(tx, workspace, ids).await?;
    large_rows::fill(tx, workspace, &mut stored, budget).await?;
    Ok(stored)
}

/// The same, except that activity of more than [`SMALL`](large_rows::SMALL) bytes is empty.
async fn lock(
    tx: &mut Tx,
    workspace: i32,
    ids: &[Uuid],
) -> Result<Vec<StoredActivity>, StoreError> {
    let mut wanted = with_slices(ids, |id| id)?;
    wanted.sort_unstable();
    wanted.dedup();
    match tx {
        _ if wanted.is_empty() => Ok(Vec::new()),
        Tx::Postgres(tx) => lock_in_postgres(tx, workspace, wanted).await,
        Tx::Sqlite(tx) => {
            let rows: Vec<(i64, Uuid, Option<Vec<u8>>)> = sqlx::query_as(
                "SELECT users.key, users.service_id,
                        CASE WHEN octet_length(activity.body) > $3 THEN x'' ELSE activity.body END
                 FROM json_each($2) AS wanted CROSS JOIN users
                 LEFT JOIN activity ON activity.key = users.key
                 WHERE users.slice = wanted.value ->> 0 AND users.workspace_id = $1
                   AND users.service_id = unhex(wanted.value ->> 1, '-')",
            )
            .bind(workspace)
            .bind(to_json(&wanted)?)
            .bind(large_rows::SMALL)
            .fetch_all(&mut **tx)
            .await?;
            let stored = |(key, service_id, body)| StoredActivity { key, service_id, body };
            Ok(rows.into_iter().map(stored).collect())
        }
    }
}

type Body = (Uuid, Vec<u8>);

/// Large bodies are omitted, as in [`lock`].
const LOCK_ACTIVITY: &str = "SELECT found.service_id,
            CASE WHEN octet_length(found.body) > 2048 THEN ''::bytea ELSE found.body END
     FROM unnest($2::smallint[], $3::uuid[]) AS wanted (slice, service_id)
     CROSS JOIN LATERAL (
         SELECT service_id, body FROM activity
         WHERE slice = wanted.slice AND workspace_id = $1 AND service_id = wanted.service_id
         LIMIT 1 FOR UPDATE) AS found";

/// Blocks only the erasure of these users.
const KEEP_USERS: &str = "SELECT found.slice, found.service_id
     FROM unnest($2::smallint[], $3::uuid[]) AS wanted (slice, service_id)
     CROSS JOIN LATERAL (
         SELECT slice, service_id FROM users
         WHERE slice = wanted.slice AND workspace_id = $1 AND service_id = wanted.service_id
         LIMIT 1 FOR KEY SHARE) AS found";

/// The lock on existing activity prevents the user's erasure, which must wait for it.
async fn lock_in_postgres(
    tx: &mut OpenTransaction<Postgres>,
    workspace: i32,
    wanted: Vec<(i16, &Uuid)>,
) -> Result<Vec<StoredActivity>, StoreError> {
    let id = |(id, _): &Body| *id;
    let slices_and_ids = wanted.iter().copied().unzip();
    let mut rows = find_in_postgres(tx, LOCK_ACTIVITY, workspace, slices_and_ids, id).await?;
    let mut begun = Vec::new();
    if rows.len() < wanted.len() {
        let found: HashSet<Uuid> = rows.iter().map(id).collect();
        let without = wanted.into_iter().filter(|(_, id)| !found.contains(*id)).collect();
        let (new, more) = begin_in_postgres(tx, workspace, without).await?;
        begun = new;
        rows.extend(more);
    }
    let with_body = rows.into_iter().map(|(id, body)| (id, Some(body)));
    let all = with_body.chain(begun.into_iter().map(|id| (id, None)));
    let stored = |(service_id, body)| StoredActivity { key: 0, service_id, body };
    Ok(all.map(stored).collect())
}

/// Creates empty activity for users without any, so that other writers of their first activity wait
/// for this row, and nobody waits for a profile. Returns these users, and the activity that others
/// created just before.
async fn begin_in_postgres(
    tx: &mut OpenTransaction<Postgres>,
    workspace: i32,
    wanted: Vec<(i16, &Uuid)>,
) -> Result<(Vec<Uuid>, Vec<Body>), StoreError> {
    let slices_and_ids = wanted.into_iter().unzip();
    let id = |(_, id): &(i16, Uuid)| *id;
    let mut users = find_in_postgres(tx, KEEP_USERS, workspace, slices_and_ids, id).await?;
    users.sort_unstable();
    let (slices, ids): (Vec<i16>, Vec<Uuid>) = users.iter().copied().unzip();
    let new: Vec<Uuid> = sqlx::query_scalar(
        "INSERT INTO activity (slice, workspace_id, service_id, body)
         SELECT slice, $1, service_id, $4
         FROM unnest($2::smallint[], $3::uuid[]) AS new (slice, service_id)
         ON CONFLICT (slice, workspace_id, service_id) DO NOTHING RETURNING service_id",
    )
    .bind(workspace)
    .bind(slices)
    .bind(ids)
    .bind(Activity::default().encode())
    .fetch_all(&mut **tx)
    .await?;
    let begun: HashSet<Uuid> = new.iter().copied().collect();
    let others = users.into_iter().filter(|(_, id)| !begun.contains(id)).unzip();
    let others = find_in_postgres(tx, LOCK_ACTIVITY, workspace, others, |(id, _): &Body| *id);
    Ok((new, others.await?))
}

/// The position of a reader of all activity of a slice: a workspace and an id, or SQLite's key.
#[derive(Clone, Copy, Debug)]
pub struct Cursor {
    pub workspace: i32,
    pub service_id: Uuid,
    pub key: i64,
}

/// The activity of a slice after a position, up to `limit` rows.
pub async fn activity_after(
    tx: &mut Tx,
    slice: i16,
    after: Cursor,
    limit: i64,
) -> Result<Vec<(Cursor, Vec<u8>)>, StoreError> {
    let rows: Vec<(i32, Uuid, i64, Vec<u8>)> = match tx {
        Tx::Postgres(tx) => {
            sqlx::query_as(
                "SELECT workspace_id, service_id, 0::bigint, body FROM activity
                 WHERE slice = $1 AND (workspace_id, service_id) > ($2, $3)
                 ORDER BY workspace_id, service_id LIMIT $4",
            )
            .bind(slice)
            .bind(after.workspace)
            .bind(after.service_id)
            .bind(limit)
            .fetch_all(&mut **tx)
            .await?
        }
        Tx::Sqlite(tx) => {
            sqlx::query_as(
                "SELECT workspace_id, service_id, key, body FROM activity
                 WHERE key > $1 AND key < $2 ORDER BY key LIMIT $3",
            )
            .bind(after.key.max(first_key(slice, 0) - 1))
            .bind(first_key(slice + 1, 0))
            .bind(limit)
            .fetch_all(&mut **tx)
            .await?
        }
    };
    let row = |(workspace, service_id, key, body)| (Cursor { workspace, service_id, key }, body);
    Ok(rows.into_iter().map(row).collect())
}

/// Writes the packed activity of users, by SQLite key and id; each user at most once, in ascending
/// order.
pub async fn put_activity(
    tx: &mut Tx,
    workspace: i32,
    rows: &[(i64, Uuid, Vec<u8>)],
) -> Result<(), StoreError> {
    let rows = with_slices(rows, |(_, id, _)| id)?;
    let on_conflict = if tx.is_postgres() {
        "ON CONFLICT (slice, workspace_id, service_id) DO UPDATE SET body = excluded.body"
    } else {
        "ON CONFLICT (key) DO UPDATE SET body = excluded.body"
    };
    insert_rows!(tx, "activity", rows, |row| {
        [sqlite key: row.1.0]
        slice: row.0,
        workspace_id: workspace,
        service_id: row.1.1,
        body: row.1.2.as_slice(),
    }, on_conflict);
    Ok(())
}
