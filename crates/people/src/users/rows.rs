//! The SQL of users, in bulk: one statement per kind, whatever the number of rows.
//!
//! PostgreSQL gets arrays, SQLite lists of values and JSON arrays.

use std::borrow::Cow;
use std::collections::HashSet;

use sqlx::postgres::PgRow;
use sqlx::{FromRow, Postgres, QueryBuilder, Sqlite};
use uuid::Uuid;

use super::service_id::{slice, with_slices};
use super::{address, large_rows};
use store::insert::SQLITE_ROWS;
use store::{OpenTransaction, StoreError, Tx, execute, fetch_listed, insert_rows, on, to_json};

/// The kind of an identifier; its number is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    ExternalId = 1,
    Alias = 2,
}

/// A stored user.
#[derive(Clone, Debug)]
pub struct StoredUser {
    /// The key in SQLite's tables; 0 on PostgreSQL.
    pub key: i64,
    pub service_id: Uuid,
    pub external_id: Option<String>,
    /// In a [spelling](address::stored) of rows; compare [`address`](Self::address).
    pub email: Option<String>,
    /// When the profile was last written, in milliseconds since the epoch.
    pub attributes_at: i64,
    pub doc: String,
}

impl StoredUser {
    /// The email [as it is compared](address::compared).
    pub fn address(&self) -> Option<Cow<'_, str>> {
        self.email.as_deref().map(address::compared)
    }
}

/// An identifier and its user.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identifier {
    pub kind: Kind,
    pub value: String,
    pub service_id: Uuid,
}

// Looking up ---------------------------------------------------------------------------

/// The users of these identifiers, as far as they are known.
pub async fn find_identifiers(
    tx: &mut Tx,
    workspace: i32,
    kind: Kind,
    values: &[&str],
) -> Result<Vec<Identifier>, StoreError> {
    let rows: Vec<(String, Uuid)> = fetch_listed!(
        tx,
        query_as,
        each plain(values),
        "SELECT value, service_id FROM identifiers
         WHERE workspace_id = $2 AND kind = $3 AND value",
        workspace,
        kind as i16
    );
    Ok(rows.into_iter().map(|(value, service_id)| Identifier { kind, value, service_id }).collect())
}

/// Users who may have these addresses, in any spelling; a user with several of them more than once.
pub async fn find_emails(
    tx: &mut Tx,
    workspace: i32,
    emails: &[&str],
) -> Result<Vec<Uuid>, StoreError> {
    let spellings: Vec<Cow<'_, str>> =
        emails.iter().flat_map(|email| address::spellings(email)).collect();
    let spellings: Vec<&str> = spellings.iter().map(Cow::as_ref).collect();
    let spellings = spellings.as_slice();
    Ok(fetch_listed!(
        tx,
        query_scalar,
        each plain(spellings),
        "SELECT service_id FROM emails WHERE workspace_id = $2 AND email",
        workspace
    ))
}

type UserColumns = (i64, Uuid, Option<String>, Option<String>, i64, String);

// The limit forces one lookup in one partition's index per user, whatever the planner assumes about
// the tables.
macro_rules! postgres_users {
    ($doc:literal, $lock:literal) => {
        concat!(
            "SELECT 0::bigint, found.service_id, found.external_id, found.email,
                    found.attributes_at, found.doc
             FROM unnest($2::smallint[], $3::uuid[]) AS wanted (slice, service_id)
             CROSS JOIN LATERAL (
                 SELECT service_id, external_id, email, attributes_at, ",
            $doc,
            " AS doc FROM users
                 WHERE slice = wanted.slice AND workspace_id = $1
                   AND service_id = wanted.service_id
                 LIMIT 1 ",
            $lock,
            ") AS found"
        )
    };
}

/// What users are read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    Reading,
    /// Like `Reading`, with empty documents.
    ReadingKeys,
    /// Like `ReadingKeys`; until the end of the transaction, the users can be changed but not
    /// erased.
    PreventingErasure,
    /// On PostgreSQL their rows are locked until the end of the transaction.
    Writing,
    /// Like `Writing`; documents of more than [`SMALL`](super::large_rows::SMALL) bytes are empty.
    WritingSmall,
    /// Like `Writing`; also blocks transactions that only need the users to exist.
    Erasing,
}

/// The existing users with these ids.
pub async fn find_users(
    tx: &mut Tx,
    workspace: i32,
    ids: &[Uuid],
    purpose: For,
) -> Result<Vec<StoredUser>, StoreError> {
    let mut wanted = with_slices(ids, |id| id)?;
    wanted.sort_unstable();
    wanted.dedup();
    let (slices, ids): (Vec<i16>, Vec<Uuid>) = wanted.into_iter().unzip();
    let rows: Vec<UserColumns> = match tx {
        _ if ids.is_empty() => Vec::new(),
        Tx::Postgres(tx) => {
            let sql = match purpose {
                For::Reading => postgres_users!("doc", ""),
                For::ReadingKeys => postgres_users!("''", ""),
                For::PreventingErasure => postgres_users!("''", "FOR KEY SHARE"),
                For::Writing => postgres_users!("doc", "FOR NO KEY UPDATE"),
                For::WritingSmall => postgres_users!(
                    "CASE WHEN octet_length(doc) <= 2048 THEN doc ELSE '' END",
                    "FOR NO KEY UPDATE"
                ),
                For::Erasing => postgres_users!("doc", "FOR UPDATE"),
            };
            find_in_postgres(tx, sql, workspace, (slices, ids), |row: &UserColumns| row.1).await?
        }
        Tx::Sqlite(tx) => {
            let wanted: Vec<_> = slices.iter().zip(&ids).collect();
            sqlx::query_as(
                "SELECT users.key, users.service_id, external_id, email, attributes_at,
                        CASE WHEN octet_length(doc) <= $3 THEN doc ELSE '' END
                 FROM json_each($2) AS wanted CROSS JOIN users
                 WHERE users.slice = wanted.value ->> 0 AND users.workspace_id = $1
                   AND users.service_id = unhex(wanted.value ->> 1, '-')",
            )
            .bind(workspace)
            .bind(to_json(&wanted)?)
            .bind(match purpose {
                For::Reading | For::Writing | For::Erasing => i64::MAX,
                For::WritingSmall => large_rows::SMALL,
                For::ReadingKeys | For::PreventingErasure => 0,
            })
            .fetch_all(&mut **tx)
            .await?
        }
    };
    let user = |(key, service_id, external_id, email, attributes_at, doc)| StoredUser {
        key,
        service_id,
        external_id,
        email,
        attributes_at,
        doc,
    };
    Ok(rows.into_iter().map(user).collect())
}

/// Runs a statement that finds rows by slice and id, each with a separate lookup in one partition,
/// and may lock them.
///
/// Of rows that others had locked and changed, PostgreSQL (15 does) omits some if they are in
/// several partitions, although it locks them: it checks the changed row again with the partition
/// of another one. The first row is always right, so missing ones are queried until no more are
/// found.
pub(super) async fn find_in_postgres<Row>(
    tx: &mut OpenTransaction<Postgres>,
    sql: &'static str,
    workspace: i32,
    (mut slices, mut ids): (Vec<i16>, Vec<Uuid>),
    id: impl Fn(&Row) -> Uuid,
) -> Result<Vec<Row>, StoreError>
where
    Row: for<'r> FromRow<'r, PgRow> + Send + Unpin,
{
    let mut rows: Vec<Row> = Vec::new();
    while !ids.is_empty() {
        let more: Vec<Row> = sqlx::query_as(sql)
            .bind(workspace)
            .bind(&slices)
            .bind(&ids)
            .fetch_all(&mut **tx)
            .await?;
        let is_all = more.len() == ids.len();
        if more.is_empty() || is_all {
            rows.extend(more);
            break;
        }
        let found: HashSet<Uuid> = more.iter().map(&id).collect();
        (slices, ids) = slices.into_iter().zip(ids).filter(|(_, id)| !found.contains(id)).unzip();
        rows.extend(more);
    }
    Ok(rows)
}

// Writing ------------------------------------------------------------------------------

/// Writes whole users, new and existing ones; each at most once, in ascending order. New ones have
/// the transaction that creates them ([`moment`](super::moment)).
pub async fn put_users(
    tx: &mut Tx,
    workspace: i32,
    users: &[StoredUser],
) -> Result<(), StoreError> {
    let users = with_slices(users, |user| &user.service_id)?;
    match tx {
        _ if users.is_empty() => {}
        Tx::Postgres(tx) => {
            let slices: Vec<i16> = users.iter().map(|(slice, _)| *slice).collect();
            let ids: Vec<Uuid> = users.iter().map(|(_, user)| user.service_id).collect();
            let external: Vec<_> =
                users.iter().map(|(_, user)| user.external_id.as_deref()).collect();
            let emails: Vec<_> = users.iter().map(|(_, user)| user.email.as_deref()).collect();
            let times: Vec<i64> = users.iter().map(|(_, user)| user.attributes_at).collect();
            let docs: Vec<&str> = users.iter().map(|(_, user)| user.doc.as_str()).collect();
            sqlx::query(
                "INSERT INTO users
                     (slice, workspace_id, service_id, external_id, email, attributes_at, doc,
                      created_in)
                 SELECT slice, $1, service_id, external_id, email, attributes_at, doc,
                        (SELECT server_number() << 48 | pg_current_xact_id()::text::bigint)
                 FROM unnest($2::smallint[], $3::uuid[], $4::text[], $5::text[], $6::bigint[],
                             $7::text[])
                      AS new (slice, service_id, external_id, email, attributes_at, doc)
                 ON CONFLICT (slice, workspace_id, service_id) DO UPDATE
                 SET external_id = excluded.external_id, email = excluded.email,
                     attributes_at = excluded.attributes_at, doc = excluded.doc",
            )
            .bind(workspace)
            .bind(slices)
            .bind(ids)
            .bind(external)
            .bind(emails)
            .bind(times)
            .bind(docs)
            .execute(&mut **tx)
            .await?;
        }
        Tx::Sqlite(tx) => {
            let created_in: i64 =
                sqlx::query_scalar("UPDATE creations SET number = number + 1 RETURNING number")
                    .fetch_one(&mut **tx)
                    .await?;
            for users in users.chunks(SQLITE_ROWS) {
                let mut sql = QueryBuilder::<Sqlite>::new(
                    "INSERT INTO users (key, slice, workspace_id, service_id, external_id, email,
                                        attributes_at, doc, created_in) ",
                );
                sql.push_values(users, |mut row, (slice, user)| {
                    row.push_bind(user.key)
                        .push_bind(*slice)
                        .push_bind(workspace)
                        .push_bind(user.service_id)
                        .push_bind(user.external_id.as_deref())
                        .push_bind(user.email.as_deref())
                        .push_bind(user.attributes_at)
                        .push_bind(user.doc.as_str())
                        .push_bind(created_in);
                });
                sql.push(
                    " ON CONFLICT (key) DO UPDATE
                      SET external_id = excluded.external_id, email = excluded.email,
                          attributes_at = excluded.attributes_at, doc = excluded.doc",
                );
                sql.build().execute(&mut **tx).await?;
            }
        }
    }
    Ok(())
}

/// Adds unused identifiers, ascending; returns how many were added, fewer if another writer was
/// faster.
pub async fn add_identifiers(
    tx: &mut Tx,
    workspace: i32,
    new: &[Identifier],
) -> Result<u64, StoreError> {
    Ok(insert_rows!(tx, "identifiers", new, |new| {
        workspace_id: workspace,
        kind: new.kind as i16,
        value: new.value.as_str(),
        service_id: new.service_id,
    }, "ON CONFLICT (workspace_id, kind, value) DO NOTHING"))
}

pub async fn remove_identifier(
    tx: &mut Tx,
    workspace: i32,
    identifier: &Identifier,
) -> Result<(), StoreError> {
    on!(tx, c => sqlx::query(
        "DELETE FROM identifiers
         WHERE workspace_id = $1 AND kind = $2 AND value = $3 AND service_id = $4",
    )
    .bind(workspace).bind(identifier.kind as i16).bind(&identifier.value)
    .bind(identifier.service_id)
    .execute(c).await?.rows_affected());
    Ok(())
}

/// Adds hints of the users of an address, ascending; existing ones stay.
pub async fn add_emails(
    tx: &mut Tx,
    workspace: i32,
    new: &[(String, Uuid)],
) -> Result<(), StoreError> {
    insert_rows!(tx, "emails", new, |new| {
        workspace_id: workspace,
        email: new.0.as_str(),
        service_id: new.1,
    }, "ON CONFLICT DO NOTHING");
    Ok(())
}

/// Removes hints of the users of an address, ascending.
pub async fn remove_emails(
    tx: &mut Tx,
    workspace: i32,
    removed: &[(String, Uuid)],
) -> Result<(), StoreError> {
    match tx {
        _ if removed.is_empty() => {}
        Tx::Postgres(tx) => {
            let (emails, ids): (Vec<&str>, Vec<Uuid>) =
                removed.iter().map(|(email, id)| (email.as_str(), *id)).unzip();
            // A join could be planned as one scan of all addresses of the workspace, with
            // statistics from when there were none. Rows never move, so all deletions lock them in
            // one order, that of the table.
            sqlx::query(
                "DELETE FROM emails WHERE ctid = ANY (ARRAY(
                     SELECT (SELECT ctid FROM emails
                             WHERE workspace_id = $1 AND email = gone.email
                               AND service_id = gone.service_id)
                     FROM unnest($2::text[], $3::uuid[]) AS gone (email, service_id)))",
            )
            .bind(workspace)
            .bind(emails)
            .bind(ids)
            .execute(&mut **tx)
            .await?;
        }
        Tx::Sqlite(tx) => {
            for (email, id) in removed {
                sqlx::query(
                    "DELETE FROM emails WHERE workspace_id = $1 AND email = $2 AND service_id = $3",
                )
                .bind(workspace)
                .bind(email)
                .bind(id)
                .execute(&mut **tx)
                .await?;
            }
        }
    }
    Ok(())
}

/// Removes every identifier of a user with a scan: for a profile that no longer has them.
pub async fn sweep_identifiers(tx: &mut Tx, workspace: i32, id: Uuid) -> Result<(), StoreError> {
    for sql in [
        "DELETE FROM identifiers WHERE workspace_id = $1 AND service_id = $2",
        "DELETE FROM emails WHERE workspace_id = $1 AND service_id = $2",
    ] {
        on!(tx, c => sqlx::query(sql).bind(workspace).bind(id).execute(c).await?.rows_affected());
    }
    Ok(())
}

/// Deletes a user's profile and activity, and the user's ownership of push tokens.
pub async fn remove_user(tx: &mut Tx, workspace: i32, user: &StoredUser) -> Result<(), StoreError> {
    let slice = slice(&user.service_id)?;
    let tokens = "DELETE FROM push_tokens WHERE workspace_id = $1 AND service_id = $2";
    execute!(tx, sqlx::query(tokens).bind(workspace).bind(user.service_id));
    match tx {
        Tx::Postgres(tx) => {
            for sql in [
                "DELETE FROM activity WHERE slice = $1 AND workspace_id = $2 AND service_id = $3",
                "DELETE FROM users WHERE slice = $1 AND workspace_id = $2 AND service_id = $3",
            ] {
                let id = user.service_id;
                sqlx::query(sql).bind(slice).bind(workspace).bind(id).execute(&mut **tx).await?;
            }
        }
        Tx::Sqlite(tx) => {
            for sql in ["DELETE FROM activity WHERE key = $1", "DELETE FROM users WHERE key = $1"] {
                sqlx::query(sql).bind(user.key).execute(&mut **tx).await?;
            }
        }
    }
    Ok(())
}
