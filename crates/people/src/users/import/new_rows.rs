//! The SQL of new users on PostgreSQL: finding out that they are new, and copying their rows.
//!
//! A copy fails if a row exists, because another transaction created it since it was looked up.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use sqlx::Postgres;
use uuid::Uuid;

use crate::users::SLICES;
use crate::users::rows::{Identifier, StoredUser};
use crate::users::service_id::{slice, with_slices};
use store::copy::copy_rows;
use store::{OpenTransaction, StoreError, Tx};

/// A separate lookup in the partition of each slice, because
/// [`find_users`](crate::users::rows::find_users) begins again with all partitions for each id.
static EXISTING: LazyLock<String> = LazyLock::new(|| {
    let of_slice = |slice: i16| {
        format!(
            "SELECT found.service_id FROM unnest(${}::uuid[]) AS wanted (service_id)
             CROSS JOIN LATERAL (
                 SELECT service_id FROM users
                 WHERE slice = {slice} AND workspace_id = $1 AND service_id = wanted.service_id
                 LIMIT 1) AS found",
            slice + 2
        )
    };
    (0..SLICES).map(of_slice).collect::<Vec<_>>().join(" UNION ALL ")
});

/// The ids without those of users who do not exist; on SQLite all ids.
pub async fn existing(
    tx: &mut Tx,
    workspace: i32,
    ids: Vec<Uuid>,
) -> Result<Vec<Uuid>, StoreError> {
    let Tx::Postgres(tx) = tx else { return Ok(ids) };
    if ids.is_empty() {
        return Ok(ids);
    }
    let mut by_slice: BTreeMap<i16, Vec<Uuid>> = BTreeMap::new();
    for id in ids {
        by_slice.entry(slice(&id)?).or_default().push(id);
    }
    let mut query = sqlx::query_scalar(EXISTING.as_str()).bind(workspace);
    for slice in 0..SLICES {
        query = query.bind(by_slice.remove(&slice).unwrap_or_default());
    }
    Ok(query.fetch_all(&mut **tx).await?)
}

/// Copies identifiers, ascending.
pub async fn copy_identifiers(
    tx: &mut OpenTransaction<Postgres>,
    workspace: i32,
    new: &[Identifier],
) -> Result<(), StoreError> {
    let into = "identifiers (workspace_id, kind, value, service_id)";
    copy_rows(tx, into, new, |new, row| {
        row.add(workspace).add(new.kind as i16).add(new.value.as_str()).add(new.service_id);
    })
    .await
}

/// Copies hints of the users of an address, ascending.
pub async fn copy_emails(
    tx: &mut OpenTransaction<Postgres>,
    workspace: i32,
    new: &[(String, Uuid)],
) -> Result<(), StoreError> {
    let into = "emails (workspace_id, email, service_id)";
    copy_rows(tx, into, new, |(email, service_id), row| {
        row.add(workspace).add(email.as_str()).add(*service_id);
    })
    .await
}

/// Copies users, ascending. They have the transaction that creates them
/// ([`moment`](crate::users::moment)).
pub async fn copy_users(
    tx: &mut OpenTransaction<Postgres>,
    workspace: i32,
    new: &[StoredUser],
) -> Result<(), StoreError> {
    if new.is_empty() {
        return Ok(());
    }
    let created_in: i64 =
        sqlx::query_scalar("SELECT server_number() << 48 | pg_current_xact_id()::text::bigint")
            .fetch_one(&mut **tx)
            .await?;
    let new = with_slices(new, |user| &user.service_id)?;
    let into = "users (slice, workspace_id, service_id, external_id, email, attributes_at, doc,
                       created_in)";
    copy_rows(tx, into, &new, |(slice, user), row| {
        row.add(*slice)
            .add(workspace)
            .add(user.service_id)
            .add(user.external_id.as_deref())
            .add(user.email.as_deref())
            .add(user.attributes_at)
            .add(user.doc.as_str())
            .add(created_in);
    })
    .await
}

/// Copies the packed activity of new users, as in
/// [`put_activity`](crate::users::activity_rows::put_activity).
pub async fn copy_activity(
    tx: &mut OpenTransaction<Postgres>,
    workspace: i32,
    new: &[(i64, Uuid, Vec<u8>)],
) -> Result<(), StoreError> {
    let new = with_slices(new, |(_, id, _)| id)?;
    let into = "activity (slice, workspace_id, service_id, body)";
    copy_rows(tx, into, &new, |(slice, (_, service_id, body)), row| {
        row.add(*slice).add(workspace).add(*service_id).add(body.as_slice());
    })
    .await
}
