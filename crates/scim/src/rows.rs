//! The SQL of resources. Each is a row of the [table](Resource::TABLE) of its kind.

mod search;
pub(super) mod tokens;

use sqlx::AssertSqlSafe;
use uuid::Uuid;

use super::resource::{Resource, Stored, User};
use store::documents::parsed;
use store::{StoreError, Tx, execute, from_row, on};

pub(super) use search::search;

struct Row {
    id: Uuid,
    doc: String,
    declared_key: Option<String>,
    version: i64,
    created_at: i64,
    modified_at: i64,
}
from_row! { Row { id, doc, declared_key, version, created_at, modified_at } }

impl Row {
    fn read<R: Resource>(self) -> Result<Stored<R>, StoreError> {
        let Self { id, doc, declared_key, version, created_at, modified_at } = self;
        let value = parsed(R::TABLE, id, &doc)?;
        Ok(Stored { id, value, declared_key, version, created_at, modified_at })
    }
}

/// A query of whole rows.
fn select<R: Resource>(rest: &str) -> AssertSqlSafe<String> {
    let table = R::TABLE;
    AssertSqlSafe(format!(
        "SELECT id, doc, declared_key, version, created_at, modified_at FROM {table} {rest}"
    ))
}

/// Locks the rows of a query until the transaction ends. SQLite has a single writer.
fn locking(tx: &Tx, rest: &str) -> String {
    format!("{rest}{}", if tx.is_postgres() { " FOR UPDATE" } else { "" })
}

async fn completed<R: Resource>(
    tx: &mut Tx,
    row: Option<Row>,
) -> Result<Option<Stored<R>>, StoreError> {
    let mut found: Vec<Stored<R>> = row.map(Row::read).transpose()?.into_iter().collect();
    R::complete(tx, &mut found).await?;
    Ok(found.pop())
}

pub(super) async fn by_id<R: Resource>(
    tx: &mut Tx,
    id: Uuid,
) -> Result<Option<Stored<R>>, StoreError> {
    let row = on!(&mut *tx, c => {
        sqlx::query_as(select::<R>("WHERE id = $1")).bind(id).fetch_optional(c).await?
    });
    completed(tx, row).await
}

/// The resource with that id, locked until the transaction ends.
pub(super) async fn locked<R: Resource>(
    tx: &mut Tx,
    id: Uuid,
) -> Result<Option<Stored<R>>, StoreError> {
    let rest = locking(tx, "WHERE id = $1");
    let row = on!(&mut *tx, c => {
        sqlx::query_as(select::<R>(&rest)).bind(id).fetch_optional(c).await?
    });
    completed(tx, row).await
}

/// The resource of that [key](Resource::key), locked until the transaction ends.
pub(super) async fn by_key_locked<R: Resource>(
    tx: &mut Tx,
    key: &str,
) -> Result<Option<Stored<R>>, StoreError> {
    let rest = locking(tx, "WHERE name_key = $1");
    let row = on!(&mut *tx, c => {
        sqlx::query_as(select::<R>(&rest)).bind(key).fetch_optional(c).await?
    });
    completed(tx, row).await
}

/// Locks the declared resources until the transaction ends.
pub async fn lock_declared<R: Resource>(tx: &mut Tx) -> Result<(), StoreError> {
    if let Tx::Postgres(tx) = tx {
        let all = format!(
            "SELECT id FROM {} WHERE declared_key IS NOT NULL ORDER BY id FOR UPDATE",
            R::TABLE
        );
        sqlx::query(AssertSqlSafe(all)).execute(&mut **tx).await?;
    }
    Ok(())
}

/// The resources that the company document declares, by their names there, without the attributes
/// in other tables.
pub async fn list_declared<R: Resource>(tx: &mut Tx) -> Result<Vec<Stored<R>>, StoreError> {
    let rows: Vec<Row> = on!(tx, c => {
        sqlx::query_as(select::<R>("WHERE declared_key IS NOT NULL ORDER BY declared_key"))
            .fetch_all(c)
            .await?
    });
    rows.into_iter().map(Row::read).collect()
}

/// The resources after `after`, in the order of their creation, without the attributes in other
/// tables.
pub(super) async fn after<R: Resource>(
    tx: &mut Tx,
    after: Option<Uuid>,
    limit: i64,
) -> Result<Vec<Stored<R>>, StoreError> {
    let rows: Vec<Row> = on!(tx, c => {
        sqlx::query_as(select::<R>("WHERE id > $1 ORDER BY id LIMIT $2"))
            .bind(after.unwrap_or(Uuid::nil())).bind(limit).fetch_all(c).await?
    });
    rows.into_iter().map(Row::read).collect()
}

/// Whether a user has that name.
pub async fn is_taken(tx: &mut Tx, user: &User) -> Result<bool, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM dashboard_users WHERE name_key = $1)",
    )
    .bind(user.key()).fetch_one(c).await?))
}

/// Creates a resource. Returns a [unique violation](StoreError::is_unique_violation) if another one
/// has the name; the transaction has failed then.
pub async fn insert<R: Resource>(
    tx: &mut Tx,
    value: &R,
    is_declared: bool,
    now: i64,
) -> Result<Stored<R>, StoreError> {
    let id = Uuid::now_v7();
    let name_key = value.key();
    let declared_key = is_declared.then(|| name_key.clone());
    let sql = format!(
        "INSERT INTO {} (id, name_key, declared_key, doc, version, created_at, modified_at)
         VALUES ($1, $2, $3, $4, 1, $5, $5)",
        R::TABLE
    );
    execute!(
        tx,
        sqlx::query(AssertSqlSafe(sql))
            .bind(id)
            .bind(&name_key)
            .bind(&declared_key)
            .bind(value.to_json())
            .bind(now)
    );
    let value = value.clone();
    Ok(Stored { id, value, declared_key, version: 1, created_at: now, modified_at: now })
}

/// Writes the new value of a resource; errors as for [`insert`].
pub async fn update<R: Resource>(
    tx: &mut Tx,
    former: Stored<R>,
    value: R,
    now: i64,
) -> Result<Stored<R>, StoreError> {
    let changed = Stored { value, version: former.version + 1, modified_at: now, ..former };
    let sql = format!(
        "UPDATE {} SET name_key = $2, declared_key = $3, doc = $4, version = $5, modified_at = $6
         WHERE id = $1",
        R::TABLE
    );
    execute!(
        tx,
        sqlx::query(AssertSqlSafe(sql))
            .bind(changed.id)
            .bind(changed.value.key())
            .bind(&changed.declared_key)
            .bind(changed.value.to_json())
            .bind(changed.version)
            .bind(now)
    );
    Ok(changed)
}

/// Frees the name of a user, who gets another one by [`update`] in the same transaction, so that
/// two users can swap names.
pub async fn free_name(tx: &mut Tx, id: Uuid) -> Result<(), StoreError> {
    // Unique, because names have no control characters.
    let unused_key = format!("\n{id}");
    execute!(
        tx,
        sqlx::query("UPDATE dashboard_users SET name_key = $2 WHERE id = $1")
            .bind(id)
            .bind(unused_key)
    );
    Ok(())
}

/// Deletes a resource with its memberships.
pub async fn delete<R: Resource>(
    tx: &mut Tx,
    stored: Stored<R>,
    now: i64,
) -> Result<(), StoreError> {
    let sql = format!("DELETE FROM {} WHERE id = $1", R::TABLE);
    execute!(&mut *tx, sqlx::query(AssertSqlSafe(sql)).bind(stored.id));
    R::deleted(tx, stored, now).await
}

/// Deletes the memberships of a user or of a group; `column` selects which.
pub(super) async fn remove_members(tx: &mut Tx, column: &str, id: Uuid) -> Result<(), StoreError> {
    let sql = format!("DELETE FROM scim_members WHERE {column} = $1");
    execute!(tx, sqlx::query(AssertSqlSafe(sql)).bind(id));
    Ok(())
}
