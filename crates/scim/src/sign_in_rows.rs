//! The SQL of users' identities at identity providers, and of their sessions in the console.

use std::collections::HashMap;

use sqlx::AssertSqlSafe;
use uuid::Uuid;

use super::members::{CHUNK, placeholders};
use super::sign_in::Identity;
use store::{StoreError, Tx, execute, on};

/// The subject with which a user signs in at an issuer.
pub(super) async fn subject(
    tx: &mut Tx,
    user: Uuid,
    issuer: &str,
) -> Result<Option<String>, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar(
        "SELECT subject FROM dashboard_identities WHERE user_id = $1 AND issuer = $2",
    )
    .bind(user).bind(issuer).fetch_optional(c).await?))
}

/// The existing user that an identity signs in.
pub(super) async fn owner(tx: &mut Tx, identity: &Identity) -> Result<Option<Uuid>, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar(
        "SELECT i.user_id FROM dashboard_identities i JOIN dashboard_users u ON u.id = i.user_id
         WHERE i.issuer = $1 AND i.subject = $2",
    )
    .bind(&identity.issuer).bind(&identity.subject).fetch_optional(c).await?))
}

/// Stores a sign-in, and at the first one the identity. No other user that exists may have it.
pub(super) async fn record(
    tx: &mut Tx,
    user: Uuid,
    identity: &Identity,
    now: i64,
) -> Result<(), StoreError> {
    // A program of an earlier release deletes users without their identities.
    execute!(
        &mut *tx,
        sqlx::query(
            "DELETE FROM dashboard_identities
             WHERE issuer = $1 AND subject = $2 AND user_id <> $3",
        )
        .bind(&identity.issuer)
        .bind(&identity.subject)
        .bind(user)
    );
    execute!(
        tx,
        sqlx::query(
            "INSERT INTO dashboard_identities
                 (user_id, issuer, subject, created_at, last_sign_in_at)
             VALUES ($1, $2, $3, $4, $4)
             ON CONFLICT (user_id, issuer) DO UPDATE SET last_sign_in_at = $4",
        )
        .bind(user)
        .bind(&identity.issuer)
        .bind(&identity.subject)
        .bind(now)
    );
    Ok(())
}

/// Removes the identities of a user; returns how many.
pub(super) async fn remove(tx: &mut Tx, user: Uuid) -> Result<u64, StoreError> {
    Ok(execute!(tx, sqlx::query("DELETE FROM dashboard_identities WHERE user_id = $1").bind(user)))
}

/// Ends the sessions of a user in the console: if the user becomes active again, they stay ended.
pub(super) async fn end_sessions(tx: &mut Tx, user: Uuid) -> Result<(), StoreError> {
    execute!(tx, sqlx::query("DELETE FROM console_sessions WHERE user_id = $1").bind(user));
    Ok(())
}

/// Gives the sessions of a user in the console the user's new name.
pub(super) async fn rename_sessions(tx: &mut Tx, user: Uuid, name: &str) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query("UPDATE console_sessions SET person = $2 WHERE user_id = $1")
            .bind(user)
            .bind(name)
    );
    Ok(())
}

/// When each user last signed in. Users without a sign-in are absent.
pub(super) async fn last_sign_ins(
    tx: &mut Tx,
    users: &[Uuid],
) -> Result<HashMap<Uuid, i64>, StoreError> {
    let mut times = HashMap::new();
    for chunk in users.chunks(CHUNK) {
        let sql = format!(
            "SELECT user_id, MAX(last_sign_in_at) FROM dashboard_identities
             WHERE user_id IN ({}) GROUP BY user_id",
            placeholders(1, chunk.len())
        );
        let rows: Vec<(Uuid, i64)> = on!(&mut *tx, c => {
            let query = sqlx::query_as(AssertSqlSafe(sql));
            chunk.iter().fold(query, |query, id| query.bind(*id)).fetch_all(c).await?
        });
        times.extend(rows);
    }
    Ok(times)
}
