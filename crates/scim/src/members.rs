//! The SQL of memberships: which users are in which groups.

use std::collections::{BTreeSet, HashMap};

use sqlx::AssertSqlSafe;
use uuid::Uuid;

use super::group::{Group, UserGroup};
use store::documents::parsed;
use store::{StoreError, Tx, execute, on};

/// Maximum number of rows of one statement, because databases limit its parameters.
pub(super) const CHUNK: usize = 500;

/// Placeholders such as `$2, $3`.
pub(super) fn placeholders(first: usize, count: usize) -> String {
    let placeholders: Vec<String> =
        (first..first + count).map(|index| format!("${index}")).collect();
    placeholders.join(", ")
}

/// The groups of each user, in the order of their creation.
pub(super) async fn groups_of(
    tx: &mut Tx,
    users: &[Uuid],
) -> Result<HashMap<Uuid, Vec<UserGroup>>, StoreError> {
    let mut groups: HashMap<Uuid, Vec<UserGroup>> = HashMap::new();
    for chunk in users.chunks(CHUNK) {
        let sql = format!(
            "SELECT m.user_id, g.id, g.doc FROM scim_members m
             JOIN scim_groups g ON g.id = m.group_id
             WHERE m.user_id IN ({}) ORDER BY m.user_id, g.id",
            placeholders(1, chunk.len())
        );
        let rows: Vec<(Uuid, Uuid, String)> = on!(&mut *tx, c => {
            let query = sqlx::query_as(AssertSqlSafe(sql));
            chunk.iter().fold(query, |query, id| query.bind(*id)).fetch_all(c).await?
        });
        for (user, id, doc) in rows {
            let group: Group = parsed("scim_groups.doc", id, &doc)?;
            let (name, permissions) = (group.display_name, group.permissions);
            groups.entry(user).or_default().push(UserGroup { id, name, permissions });
        }
    }
    Ok(groups)
}

/// The users in each group.
pub(super) async fn users_in(
    tx: &mut Tx,
    groups: &[Uuid],
) -> Result<HashMap<Uuid, BTreeSet<Uuid>>, StoreError> {
    let mut members: HashMap<Uuid, BTreeSet<Uuid>> = HashMap::new();
    for chunk in groups.chunks(CHUNK) {
        let sql = format!(
            "SELECT group_id, user_id FROM scim_members WHERE group_id IN ({})",
            placeholders(1, chunk.len())
        );
        let rows: Vec<(Uuid, Uuid)> = on!(&mut *tx, c => {
            let query = sqlx::query_as(AssertSqlSafe(sql));
            chunk.iter().fold(query, |query, id| query.bind(*id)).fetch_all(c).await?
        });
        for (group, user) in rows {
            members.entry(group).or_default().insert(user);
        }
    }
    Ok(members)
}

pub(super) async fn add(tx: &mut Tx, group: Uuid, users: &[Uuid]) -> Result<(), StoreError> {
    for chunk in users.chunks(CHUNK) {
        let rows: Vec<String> =
            (2..2 + chunk.len()).map(|index| format!("($1, ${index})")).collect();
        let sql = format!(
            "INSERT INTO scim_members (group_id, user_id) VALUES {} ON CONFLICT DO NOTHING",
            rows.join(", ")
        );
        execute!(tx, {
            let query = sqlx::query(AssertSqlSafe(sql)).bind(group);
            chunk.iter().fold(query, |query, id| query.bind(*id))
        });
    }
    Ok(())
}

pub(super) async fn remove(tx: &mut Tx, group: Uuid, users: &[Uuid]) -> Result<(), StoreError> {
    for chunk in users.chunks(CHUNK) {
        let sql = format!(
            "DELETE FROM scim_members WHERE group_id = $1 AND user_id IN ({})",
            placeholders(2, chunk.len())
        );
        execute!(tx, {
            let query = sqlx::query(AssertSqlSafe(sql)).bind(group);
            chunk.iter().fold(query, |query, id| query.bind(*id))
        });
    }
    Ok(())
}

/// Locks the rows of users until the transaction ends, in the order of their ids, and returns those
/// that exist.
pub(super) async fn lock_users(tx: &mut Tx, users: &[Uuid]) -> Result<BTreeSet<Uuid>, StoreError> {
    let mut found = BTreeSet::new();
    for chunk in users.chunks(CHUNK) {
        let (placeholders, lock) =
            (placeholders(1, chunk.len()), if tx.is_postgres() { "FOR UPDATE" } else { "" });
        let sql = format!(
            "SELECT id FROM dashboard_users WHERE id IN ({placeholders}) ORDER BY id {lock}"
        );
        let locked: Vec<Uuid> = on!(&mut *tx, c => {
            let query = sqlx::query_scalar(AssertSqlSafe(sql));
            chunk.iter().fold(query, |query, id| query.bind(*id)).fetch_all(c).await?
        });
        found.extend(locked);
    }
    Ok(found)
}

/// Increments the versions of users whose groups change.
pub(super) async fn touch_users(tx: &mut Tx, users: &[Uuid], now: i64) -> Result<(), StoreError> {
    lock_users(tx, users).await?;
    for chunk in users.chunks(CHUNK) {
        let sql = format!(
            "UPDATE dashboard_users SET version = version + 1, modified_at = ${}
             WHERE id IN ({})",
            chunk.len() + 1,
            placeholders(1, chunk.len())
        );
        execute!(tx, {
            let query = sqlx::query(AssertSqlSafe(sql));
            chunk.iter().fold(query, |query, id| query.bind(*id)).bind(now)
        });
    }
    Ok(())
}

/// Increments the versions of a user's groups.
pub(super) async fn touch_groups_of(tx: &mut Tx, user: Uuid, now: i64) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "UPDATE scim_groups SET version = version + 1, modified_at = $2
             WHERE id IN (SELECT group_id FROM scim_members WHERE user_id = $1)",
        )
        .bind(user)
        .bind(now)
    );
    Ok(())
}
