//! The SQL of hints: the users who may have an email address or a phone number. The profile is what
//! counts.

use uuid::Uuid;

use super::activity_rows::Cursor;
use store::{StoreError, Tx, execute, on, to_json};

/// What hints are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// Email addresses, in lower case.
    Email,
    /// Phone numbers in E.164. Triggers of the database write these hints.
    Phone,
}

// The limit inside forces an index lookup for each value, as `store::fetch_listed!` does.
const EMAILS_IN_POSTGRES: &str = "SELECT found.email, found.service_id
     FROM unnest($2::text[]) AS wanted (email)
     CROSS JOIN LATERAL (
         SELECT email, service_id FROM emails
         WHERE workspace_id = $1 AND email = wanted.email LIMIT $3) AS found
     LIMIT $3";

const PHONES_IN_POSTGRES: &str = "SELECT found.phone, found.service_id
     FROM unnest($2::text[]) AS wanted (phone)
     CROSS JOIN LATERAL (
         SELECT phone, service_id FROM phones
         WHERE workspace_id = $1 AND phone = wanted.phone LIMIT $3) AS found
     LIMIT $3";

const EMAILS_IN_SQLITE: &str = "SELECT email, service_id FROM emails
     WHERE workspace_id = $1 AND email IN (SELECT wanted.value FROM json_each($2) AS wanted)
     LIMIT $3";

const PHONES_IN_SQLITE: &str = "SELECT phone, service_id FROM phones
     WHERE workspace_id = $1 AND phone IN (SELECT wanted.value FROM json_each($2) AS wanted)
     LIMIT $3";

/// Up to `limit` hints of these values, each with its value.
pub async fn find(
    tx: &mut Tx,
    workspace: i32,
    hint: Hint,
    values: &[&str],
    limit: i64,
) -> Result<Vec<(String, Uuid)>, StoreError> {
    let (in_postgres, in_sqlite) = match hint {
        Hint::Email => (EMAILS_IN_POSTGRES, EMAILS_IN_SQLITE),
        Hint::Phone => (PHONES_IN_POSTGRES, PHONES_IN_SQLITE),
    };
    Ok(match tx {
        _ if values.is_empty() => Vec::new(),
        Tx::Postgres(tx) => {
            sqlx::query_as(in_postgres)
                .bind(workspace)
                .bind(values)
                .bind(limit)
                .fetch_all(&mut **tx)
                .await?
        }
        Tx::Sqlite(tx) => {
            sqlx::query_as(in_sqlite)
                .bind(workspace)
                .bind(to_json(values)?)
                .bind(limit)
                .fetch_all(&mut **tx)
                .await?
        }
    })
}

/// The users of a slice after a position, up to `limit`, in the order of PostgreSQL's primary key.
pub async fn users_after(
    tx: &mut Tx,
    slice: i16,
    after: Cursor,
    limit: i64,
) -> Result<Vec<Cursor>, StoreError> {
    let rows: Vec<(i32, Uuid)> = on!(tx, c => sqlx::query_as(
        "SELECT workspace_id, service_id FROM users
         WHERE slice = $1 AND (workspace_id, service_id) > ($2, $3)
         ORDER BY workspace_id, service_id LIMIT $4",
    )
    .bind(slice).bind(after.workspace).bind(after.service_id).bind(limit)
    .fetch_all(c).await?);
    let cursor = |(workspace, service_id)| Cursor { workspace, service_id, key: 0 };
    Ok(rows.into_iter().map(cursor).collect())
}

/// Adds the hints of the numbers of a slice's users after `after`, up to and including `last`;
/// existing ones stay. Only for PostgreSQL.
///
/// Users with a number are locked. So their profiles are the newest ones, and a writer who changes
/// or erases a user afterwards removes the hint. OFFSET 0 makes the number be read once.
pub async fn record_phones(
    tx: &mut Tx,
    slice: i16,
    after: Cursor,
    last: Cursor,
) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "INSERT INTO phones (workspace_id, phone, service_id)
             SELECT workspace_id, phone_number(part), service_id
             FROM (SELECT workspace_id, phone_part(doc) AS part, service_id FROM users
                   WHERE slice = $1 AND (workspace_id, service_id) > ($2, $3)
                     AND (workspace_id, service_id) <= ($4, $5) AND phone_part(doc) <> ''
                   ORDER BY workspace_id, service_id OFFSET 0 FOR SHARE) AS existing
             WHERE phone_number(part) IS NOT NULL
             ON CONFLICT DO NOTHING",
        )
        .bind(slice)
        .bind(after.workspace)
        .bind(after.service_id)
        .bind(last.workspace)
        .bind(last.service_id)
    );
    Ok(())
}
