//! The SQL of the owners of push tokens.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use uuid::Uuid;

use super::activity_rows::Cursor;
use super::keys::first_key;
use super::tokens::{Registration, TokenKey};
use store::{StoreError, Tx, execute, fetch_listed, insert_rows};

type Row = (Vec<u8>, Uuid, i64);

/// Locks tokens in the order of their keys, and returns the owners of those that have one. On
/// PostgreSQL, tokens without one get a row without owner until the end of the transaction, so that
/// two transactions cannot register the same token.
pub(super) async fn lock(
    tx: &mut Tx,
    workspace: i32,
    keys: &BTreeSet<TokenKey>,
) -> Result<HashMap<TokenKey, Registration>, StoreError> {
    if !tx.is_postgres() {
        return find(tx, workspace, keys).await;
    }
    let keys: Vec<&TokenKey> = keys.iter().collect();
    let rows = insert_rows!(tx, "push_tokens", keys, |key| {
        workspace_id: workspace,
        token: key.as_slice(),
        service_id: Uuid::nil(),
        registered_at: i64::MIN,
    }, "ON CONFLICT (workspace_id, token)
        DO UPDATE SET registered_at = push_tokens.registered_at
        RETURNING token, service_id, registered_at" => Row);
    Ok(owners(rows))
}

/// Locks the tokens of users in the order of their keys. Call it before the users' profiles are
/// locked, because tracking locks both in this order.
pub async fn lock_of_users(tx: &mut Tx, workspace: i32, users: &[Uuid]) -> Result<(), StoreError> {
    let Tx::Postgres(tx) = tx else { return Ok(()) };
    sqlx::query(
        "SELECT 1 FROM push_tokens WHERE workspace_id = $1 AND service_id = ANY($2)
         ORDER BY token FOR UPDATE",
    )
    .bind(workspace)
    .bind(users)
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// The owners of tokens.
pub(super) async fn find(
    tx: &mut Tx,
    workspace: i32,
    keys: &BTreeSet<TokenKey>,
) -> Result<HashMap<TokenKey, Registration>, StoreError> {
    let rows: Vec<Row> = fetch_listed!(
        tx,
        query_as,
        hashes(keys),
        "SELECT token, service_id, registered_at FROM push_tokens
         WHERE workspace_id = $2 AND token",
        workspace
    );
    Ok(owners(rows))
}

fn owners(rows: Vec<Row>) -> HashMap<TokenKey, Registration> {
    let rows = rows.into_iter().filter(|(_, service_id, _)| !service_id.is_nil());
    let owner = |(token, service_id, registered_at): Row| {
        let key = TokenKey::try_from(token).ok()?;
        Some((key, Registration { service_id, registered_at }))
    };
    rows.filter_map(owner).collect()
}

/// Writes the owners of tokens.
pub(super) async fn put(
    tx: &mut Tx,
    workspace: i32,
    rows: &BTreeMap<TokenKey, Registration>,
) -> Result<(), StoreError> {
    let rows: Vec<(&TokenKey, &Registration)> = rows.iter().collect();
    insert_rows!(tx, "push_tokens", rows, |row| {
        workspace_id: workspace,
        token: row.0.as_slice(),
        service_id: row.1.service_id,
        registered_at: row.1.registered_at,
    }, "ON CONFLICT (workspace_id, token) DO UPDATE
        SET service_id = excluded.service_id, registered_at = excluded.registered_at");
    Ok(())
}

/// Removes locked rows that got no owner.
pub(super) async fn unlock_unused(
    tx: &mut Tx,
    workspace: i32,
    keys: &BTreeSet<TokenKey>,
) -> Result<(), StoreError> {
    let Tx::Postgres(tx) = tx else { return Ok(()) };
    if keys.is_empty() {
        return Ok(());
    }
    let keys: Vec<&[u8]> = keys.iter().map(TokenKey::as_slice).collect();
    sqlx::query(
        "DELETE FROM push_tokens WHERE workspace_id = $1 AND token = ANY($2) AND service_id = $3",
    )
    .bind(workspace)
    .bind(keys)
    .bind(Uuid::nil())
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// The users of a slice who have push tokens or are unsubscribed from emails or from a group, after
/// a position, up to `limit`.
pub(super) async fn users_after(
    tx: &mut Tx,
    slice: i16,
    after: Cursor,
    limit: i64,
) -> Result<Vec<Cursor>, StoreError> {
    let rows: Vec<(i32, Uuid, i64)> = match tx {
        Tx::Postgres(tx) => {
            sqlx::query_as(
                r#"SELECT workspace_id, service_id, 0::bigint FROM users
                 WHERE slice = $1 AND (workspace_id, service_id) > ($2, $3)
                   AND (doc LIKE '%"push_tokens":[%'
                        OR doc LIKE '%"email_subscribe":"unsubscribed"%'
                        OR doc LIKE '%"subscription_state":"unsubscribed"%')
                 ORDER BY workspace_id, service_id LIMIT $4"#,
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
                r#"SELECT workspace_id, service_id, key FROM users
                 WHERE key > $1 AND key < $2
                   AND (instr(doc, '"push_tokens":[') > 0
                        OR instr(doc, '"email_subscribe":"unsubscribed"') > 0
                        OR instr(doc, '"subscription_state":"unsubscribed"') > 0)
                 ORDER BY key LIMIT $3"#,
            )
            .bind(after.key.max(first_key(slice, 0) - 1))
            .bind(first_key(slice + 1, 0))
            .bind(limit)
            .fetch_all(&mut **tx)
            .await?
        }
    };
    let cursor = |(workspace, service_id, key)| Cursor { workspace, service_id, key };
    Ok(rows.into_iter().map(cursor).collect())
}

/// Moves the tokens of a user to another one.
pub async fn reassign(tx: &mut Tx, workspace: i32, from: Uuid, to: Uuid) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "UPDATE push_tokens SET service_id = $3 WHERE workspace_id = $1 AND service_id = $2",
        )
        .bind(workspace)
        .bind(from)
        .bind(to)
    );
    Ok(())
}
