//! Locks on unused names: creating a user with a name excludes creating another one with it, and
//! erasing it.
//!
//! A lock is a row of `identifiers` that its transaction deletes again. No other transaction sees
//! it, but an insert of the same key waits for its end. So giving an external id to a user also
//! locks it. SQLite has one writer.

use std::borrow::Cow;

use sqlx::Postgres;
use uuid::Uuid;

use super::rows::Kind;
use crate::users::erased_rows::Name;
use store::{OpenTransaction, StoreError, Tx};

/// The kind of identifiers that emails have; it is used only for locks.
const EMAIL: i16 = 3;

impl Name {
    fn kind(self) -> i16 {
        match self {
            Self::ExternalId => Kind::ExternalId as i16,
            Self::Email => EMAIL,
            Self::Alias => Kind::Alias as i16,
        }
    }
}

/// Locks names in all their spellings until the end of the transaction, in the order of their keys.
/// An external id in use is not locked: lock its profile instead.
pub async fn lock(
    tx: &mut Tx,
    workspace: i32,
    names: &[(Name, Cow<'_, str>)],
) -> Result<(), StoreError> {
    let Tx::Postgres(tx) = tx else { return Ok(()) };
    if names.is_empty() {
        return Ok(());
    }
    let spellings = names.iter().flat_map(|(name, value)| {
        name.spellings(value).into_iter().map(move |spelling| (name.kind(), spelling))
    });
    let mut names: Vec<(i16, Cow<'_, str>)> = spellings.collect();
    names.sort_unstable();
    names.dedup();
    let names = names.iter().map(|(kind, value)| (*kind, &**value)).unzip();
    let added = add(tx, workspace, names).await?;
    sqlx::query("DELETE FROM identifiers WHERE ctid = ANY($1::text[]::tid[])")
        .bind(added)
        .execute(&mut **tx)
        .await?;
    Ok(())
}

/// The places of the added rows.
async fn add(
    tx: &mut OpenTransaction<Postgres>,
    workspace: i32,
    (kinds, values): (Vec<i16>, Vec<&str>),
) -> Result<Vec<String>, StoreError> {
    Ok(sqlx::query_scalar(
        "INSERT INTO identifiers (workspace_id, kind, value, service_id)
         SELECT $1, kind, value, $4 FROM unnest($2::smallint[], $3::text[]) AS new (kind, value)
         ON CONFLICT (workspace_id, kind, value) DO NOTHING
         RETURNING ctid::text",
    )
    .bind(workspace)
    .bind(kinds)
    .bind(values)
    .bind(Uuid::nil())
    .fetch_all(&mut **tx)
    .await?)
}
