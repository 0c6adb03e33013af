//! The SQL of dashboard users and SCIM tokens.

use std::collections::HashSet;

use ipnet::IpNet;
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use super::filter::{Filter, Operator};
use super::resource::{User, folded};
use super::tokens::{NewToken, TokenInfo, TokenMatch};
use crate::credentials::Hash;
use crate::workspaces::to_json;
use store::documents::parsed;
use store::{StoreError, Tx, execute, from_row, on};

/// More bytes than any name has.
const LONGEST_PART: usize = 4 << 10;

/// A stored user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredUser {
    pub id: Uuid,
    pub user: User,
    /// The [key](User::key) with which the company document declares the user, whatever the name is
    /// now; none for others.
    pub declared_key: Option<String>,
    /// Counted up by each change.
    pub version: i64,
    /// Milliseconds since the Unix epoch, as everywhere here.
    pub created_at: i64,
    pub modified_at: i64,
}

/// A user to be written.
#[derive(Clone, Copy, Debug)]
pub struct NewUser<'a> {
    pub user: &'a User,
    /// Whether the company document declares it.
    pub declared: bool,
}

struct UserRow {
    id: Uuid,
    doc: String,
    declared_key: Option<String>,
    version: i64,
    created_at: i64,
    modified_at: i64,
}
from_row! { UserRow { id, doc, declared_key, version, created_at, modified_at } }

impl TryFrom<UserRow> for StoredUser {
    type Error = StoreError;

    fn try_from(row: UserRow) -> Result<Self, StoreError> {
        let user = parsed("dashboard_users.doc", row.id, &row.doc)?;
        let UserRow { id, declared_key, version, created_at, modified_at, .. } = row;
        Ok(Self { id, user, declared_key, version, created_at, modified_at })
    }
}

macro_rules! users {
    ($rest:literal) => {
        concat!(
            "SELECT id, doc, declared_key, version, created_at, modified_at FROM dashboard_users ",
            $rest
        )
    };
}

pub(super) async fn by_id(tx: &mut Tx, id: Uuid) -> Result<Option<StoredUser>, StoreError> {
    on!(tx, c => sqlx::query_as::<_, UserRow>(users!("WHERE id = $1"))
        .bind(id).fetch_optional(c).await?)
    .map(StoredUser::try_from)
    .transpose()
}

/// The same, locked until the transaction ends.
pub(super) async fn locked(tx: &mut Tx, id: Uuid) -> Result<Option<StoredUser>, StoreError> {
    let sql = match tx.is_postgres() {
        true => users!("WHERE id = $1 FOR UPDATE"),
        // SQLite has a single writer.
        false => users!("WHERE id = $1"),
    };
    on!(tx, c => sqlx::query_as::<_, UserRow>(sql).bind(id).fetch_optional(c).await?)
        .map(StoredUser::try_from)
        .transpose()
}

/// Locks the declared users until the transaction ends.
pub async fn lock_declared(tx: &mut Tx) -> Result<(), StoreError> {
    if let Tx::Postgres(tx) = tx {
        let all = sqlx::query(
            "SELECT id FROM dashboard_users WHERE declared_key IS NOT NULL ORDER BY id FOR UPDATE",
        );
        all.execute(&mut **tx).await?;
    }
    Ok(())
}

/// Users that the company document declares, by their names there.
pub async fn list_declared(tx: &mut Tx) -> Result<Vec<StoredUser>, StoreError> {
    on!(tx, c => sqlx::query_as::<_, UserRow>(
        users!("WHERE declared_key IS NOT NULL ORDER BY declared_key"),
    )
    .fetch_all(c).await?)
    .into_iter()
    .map(StoredUser::try_from)
    .collect()
}

/// Whether a user has that name.
pub async fn is_taken(tx: &mut Tx, user: &User) -> Result<bool, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM dashboard_users WHERE name_key = $1)",
    )
    .bind(user.key()).fetch_one(c).await?))
}

/// The number of users that match a filter, and a page of them: after the first `skip`, at most
/// `count`, in the order of their creation.
pub(super) async fn search(
    tx: &mut Tx,
    filter: &Filter,
    skip: i64,
    count: i64,
) -> Result<(i64, Vec<StoredUser>), StoreError> {
    if filter.0.iter().any(|comparison| is_nobodys(&comparison.value)) {
        return Ok((0, Vec::new()));
    }
    let (condition, values) = condition(filter);
    // Of the condition only its number of values is not written here.
    let total = format!("SELECT count(*) FROM dashboard_users {condition}");
    let total: i64 = on!(&mut *tx, c => {
        let query = sqlx::query_scalar(AssertSqlSafe(total));
        values.iter().fold(query, |query, value| query.bind(value)).fetch_one(c).await?
    });
    let (skip_at, count_at) = (values.len() + 1, values.len() + 2);
    let page =
        format!("{} {condition} ORDER BY id LIMIT ${count_at} OFFSET ${skip_at}", users!(""));
    let page = on!(tx, c => {
        let query = sqlx::query_as::<_, UserRow>(AssertSqlSafe(page));
        let query = values.iter().fold(query, |query, value| query.bind(value));
        query.bind(skip).bind(count).fetch_all(c).await?
    });
    Ok((total, page.into_iter().map(StoredUser::try_from).collect::<Result<_, _>>()?))
}

/// Whether a text is a part of no name, and may be one that a database does not take.
fn is_nobodys(text: &str) -> bool {
    text.len() > LONGEST_PART || text.contains('\0')
}

/// A filter of userName as a condition in SQL, and the values of its parameters.
fn condition(filter: &Filter) -> (String, Vec<String>) {
    let (mut condition, mut values) = (String::new(), Vec::new());
    for comparison in &filter.0 {
        let value = folded(&comparison.value);
        let (operator, value) = match comparison.operator {
            Operator::Equals => ("=", value),
            Operator::Contains => ("LIKE", format!("%{}%", escaped(&value))),
            Operator::StartsWith => ("LIKE", format!("{}%", escaped(&value))),
        };
        values.push(value);
        let joined = if condition.is_empty() { "WHERE" } else { "AND" };
        let escape = if operator == "LIKE" { " ESCAPE '\\'" } else { "" };
        condition += &format!("{joined} name_key {operator} ${}{escape} ", values.len());
    }
    (condition, values)
}

/// A text as a part of a pattern.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_")
}

/// Creates a user. A [unique violation](StoreError::is_unique_violation) if another one has the
/// name; the transaction is over then.
pub async fn insert(tx: &mut Tx, new: NewUser<'_>, now: i64) -> Result<StoredUser, StoreError> {
    let id = Uuid::now_v7();
    let name_key = new.user.key();
    let declared_key = new.declared.then(|| name_key.clone());
    execute!(
        tx,
        sqlx::query(
            "INSERT INTO dashboard_users
                 (id, name_key, declared_key, doc, version, created_at, modified_at)
             VALUES ($1, $2, $3, $4, 1, $5, $5)",
        )
        .bind(id)
        .bind(&name_key)
        .bind(&declared_key)
        .bind(new.user.to_json())
        .bind(now)
    );
    let user = new.user.clone();
    Ok(StoredUser { id, user, declared_key, version: 1, created_at: now, modified_at: now })
}

/// Writes what a user is now; errors as those of [`insert`].
pub async fn update(
    tx: &mut Tx,
    former: StoredUser,
    user: User,
    now: i64,
) -> Result<StoredUser, StoreError> {
    let changed = StoredUser { user, version: former.version + 1, modified_at: now, ..former };
    execute!(
        tx,
        sqlx::query(
            "UPDATE dashboard_users SET name_key = $2, declared_key = $3, doc = $4, version = $5,
                 modified_at = $6
             WHERE id = $1",
        )
        .bind(changed.id)
        .bind(changed.user.key())
        .bind(&changed.declared_key)
        .bind(changed.user.to_json())
        .bind(changed.version)
        .bind(now)
    );
    Ok(changed)
}

/// Frees the name of a user, who gets another one by [`update`] in the same transaction: so two
/// users can swap names.
pub async fn free_name(tx: &mut Tx, id: Uuid) -> Result<(), StoreError> {
    // A name has no control characters.
    let nobodys = format!("\n{id}");
    execute!(
        tx,
        sqlx::query("UPDATE dashboard_users SET name_key = $2 WHERE id = $1")
            .bind(id)
            .bind(nobodys)
    );
    Ok(())
}

pub async fn delete(tx: &mut Tx, id: Uuid) -> Result<(), StoreError> {
    execute!(tx, sqlx::query("DELETE FROM dashboard_users WHERE id = $1").bind(id));
    Ok(())
}

/// The active token of that hash.
pub(super) async fn token(tx: &mut Tx, hash: &[u8]) -> Result<Option<TokenMatch>, StoreError> {
    let row: Option<(Uuid, String)> = on!(tx, c => sqlx::query_as(
        "SELECT id, allow FROM scim_tokens WHERE hash = $1 AND revoked_at IS NULL",
    )
    .bind(hash).fetch_optional(c).await?);
    row.map(|(id, allow)| Ok(TokenMatch { id, allow: parsed("scim_tokens.allow", id, &allow)? }))
        .transpose()
}

/// The hashes of all active tokens.
pub(super) async fn token_hashes(tx: &mut Tx) -> Result<HashSet<Hash>, StoreError> {
    let hashes: Vec<Vec<u8>> = on!(tx, c => sqlx::query_scalar(
        "SELECT hash FROM scim_tokens WHERE revoked_at IS NULL",
    )
    .fetch_all(c).await?);
    Ok(hashes.into_iter().filter_map(|hash| hash.try_into().ok()).collect())
}

/// Writes a token; false where an active one has that name or that secret.
pub(super) async fn insert_token(
    tx: &mut Tx,
    hash: &[u8],
    token: NewToken<'_>,
    now: i64,
) -> Result<bool, StoreError> {
    let inserted = execute!(
        tx,
        sqlx::query(
            "INSERT INTO scim_tokens (id, name, hash, allow, declared, created_at)
             VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING",
        )
        .bind(Uuid::now_v7())
        .bind(token.name)
        .bind(hash)
        .bind(to_json(token.allow))
        .bind(token.declared)
        .bind(now)
    );
    Ok(inserted == 1)
}

/// Gives a token other addresses.
pub async fn allow_token(tx: &mut Tx, id: Uuid, allow: &[IpNet]) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query("UPDATE scim_tokens SET allow = $2 WHERE id = $1")
            .bind(id)
            .bind(to_json(allow))
    );
    Ok(())
}

from_row! {
    TokenInfo { id, name, hash, declared, created_at, last_used_at, revoked_at } json { allow }
}

/// Every token, revoked ones too.
pub async fn tokens(tx: &mut Tx) -> Result<Vec<TokenInfo>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT id, name, hash, allow, declared, created_at, last_used_at, revoked_at
         FROM scim_tokens ORDER BY name, created_at, id",
    )
    .fetch_all(c).await?))
}

pub(super) async fn revoke_token(tx: &mut Tx, id: Uuid, now: i64) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query("UPDATE scim_tokens SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL")
            .bind(id)
            .bind(now)
    );
    Ok(())
}

pub(super) async fn token_used(tx: &mut Tx, id: Uuid, now: i64) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "UPDATE scim_tokens SET last_used_at = $2
             WHERE id = $1 AND (last_used_at IS NULL OR last_used_at < $2)",
        )
        .bind(id)
        .bind(now)
    );
    Ok(())
}
