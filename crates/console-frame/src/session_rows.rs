//! The SQL of sessions and sign-in links.

use uuid::Uuid;

use crate::link::NewLink;
use crate::session::{Filter, Session};
use runtime::credentials::Hash;
use store::retention::OldRows;
use store::{StoreError, Tx, execute, from_row, now_sql, old_rows, on};

/// Sessions that have ended at `$1`, or that nobody has used since `$2`.
pub const ENDED: OldRows =
    old_rows!("console_sessions", "expires_at <= $1 OR last_seen_at <= $2", 1_000);

/// Links that were valid until `$1`, used or not.
pub const OLD_LINKS: OldRows = old_rows!("console_links", "expires_at <= $1", 1_000);

/// Sign-ins at the identity provider that could have ended until `$1`.
pub const OLD_SIGN_INS: OldRows = old_rows!("console_sign_ins", "expires_at <= $1", 1_000);

from_row! {
    Session { id, person, method, user_id, created_at, last_seen_at, expires_at, address, user_agent }
    json { rights }
}

/// A stored session, and the time by the database's clock.
pub struct Found {
    pub session: Session,
    pub now: i64,
}
from_row! { Found { now } flatten { session } }

macro_rules! columns {
    () => {
        "id, person, rights, method, user_id, created_at, last_seen_at, expires_at, address,
         user_agent"
    };
}

/// The session with that secret, which may have ended.
pub async fn find(tx: &mut Tx, hash: &Hash) -> Result<Option<Found>, StoreError> {
    macro_rules! select {
        ($database:ident) => {
            concat!(
                "SELECT ",
                columns!(),
                ", ",
                now_sql!($database),
                " AS now
                 FROM console_sessions WHERE secret_hash = $1"
            )
        };
    }
    let sql = if tx.is_postgres() { select!(postgres) } else { select!(sqlite) };
    Ok(on!(tx, c => sqlx::query_as(sql).bind(&hash[..]).fetch_optional(c).await?))
}

/// The valid sessions that match, the latest first. Ids are in the order of creation.
pub async fn list(
    tx: &mut Tx,
    now: i64,
    idle_since: i64,
    filter: &Filter,
) -> Result<Vec<Session>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(concat!(
        "SELECT ", columns!(), " FROM console_sessions
         WHERE expires_at > $1 AND last_seen_at > $2
           AND ($3 IS NULL OR person = $3) AND ($6 IS NULL OR user_id = $6) AND id < $4
         ORDER BY id DESC LIMIT $5"
    ))
    .bind(now).bind(idle_since).bind(filter.person.as_deref())
    .bind(filter.before.unwrap_or(Uuid::max())).bind(filter.limit).bind(filter.user_id)
    .fetch_all(c).await?))
}

/// Stores a session with the hash of its secret.
pub async fn insert(tx: &mut Tx, hash: &Hash, session: &Session) -> Result<(), StoreError> {
    let rights = serde_json::to_string(&session.rights)
        .map_err(|error| StoreError::Corrupt(format!("console_sessions.rights: {error}")))?;
    execute!(
        tx,
        sqlx::query(
            "INSERT INTO console_sessions
                 (id, secret_hash, person, rights, method, created_at, last_seen_at, expires_at,
                  address, user_agent, user_id)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        )
        .bind(session.id)
        .bind(&hash[..])
        .bind(&session.person)
        .bind(&rights)
        .bind(&session.method)
        .bind(session.created_at)
        .bind(session.last_seen_at)
        .bind(session.expires_at)
        .bind(&session.address)
        .bind(&session.user_agent)
        .bind(session.user_id)
    );
    Ok(())
}

/// Stores when a session was last used.
pub async fn seen(tx: &mut Tx, id: Uuid, now: i64) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "UPDATE console_sessions SET last_seen_at = $2 WHERE id = $1 AND last_seen_at < $2",
        )
        .bind(id)
        .bind(now)
    );
    Ok(())
}

/// Ends a session, of `person` and of `user` if they are given; returns its person.
pub async fn end(
    tx: &mut Tx,
    id: Uuid,
    person: Option<&str>,
    user: Option<Uuid>,
) -> Result<Option<String>, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar(
        "DELETE FROM console_sessions
         WHERE id = $1 AND ($2 IS NULL OR person = $2) AND ($3 IS NULL OR user_id = $3)
         RETURNING person",
    )
    .bind(id).bind(person).bind(user).fetch_optional(c).await?))
}

/// Ends the sessions of `person`, or of everybody; returns how many.
pub async fn end_all(tx: &mut Tx, person: Option<&str>) -> Result<u64, StoreError> {
    Ok(execute!(
        tx,
        sqlx::query("DELETE FROM console_sessions WHERE $1 IS NULL OR person = $1").bind(person)
    ))
}

/// Whether an SQLite database has sessions: one of an earlier release has none.
pub async fn exist_in_sqlite(tx: &mut Tx) -> Result<bool, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'console_sessions')",
    )
    .fetch_one(c).await?))
}

/// Stores a link with the hash of its token.
pub async fn insert_link(tx: &mut Tx, hash: &Hash, link: &NewLink) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "INSERT INTO console_links (hash, person, role, created_at, expires_at)
             VALUES ($1, $2, $3, $4, $5)",
        )
        .bind(&hash[..])
        .bind(&link.person)
        .bind(link.role.name())
        .bind(link.created_at)
        .bind(link.expires_at)
    );
    Ok(())
}

/// Whether a link is valid, and nobody has used it.
pub async fn is_link(tx: &mut Tx, now: i64, hash: &Hash) -> Result<bool, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM console_links
         WHERE hash = $1 AND used_at IS NULL AND expires_at > $2)",
    )
    .bind(&hash[..]).bind(now).fetch_one(c).await?))
}

/// Uses up a link, if it is valid and nobody has used it; returns its person and role.
pub async fn use_link(
    tx: &mut Tx,
    now: i64,
    hash: &Hash,
) -> Result<Option<(String, String)>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "UPDATE console_links SET used_at = $2
         WHERE hash = $1 AND used_at IS NULL AND expires_at > $2 RETURNING person, role",
    )
    .bind(&hash[..]).bind(now).fetch_optional(c).await?))
}

/// Deletes the links of `person`, or of everybody.
pub async fn withdraw_links(tx: &mut Tx, person: Option<&str>) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query("DELETE FROM console_links WHERE $1 IS NULL OR person = $1").bind(person)
    );
    Ok(())
}

/// Stores that a sign-in at the identity provider is used; false if it was already.
pub async fn use_sign_in(tx: &mut Tx, hash: &Hash, expires_at: i64) -> Result<bool, StoreError> {
    let inserted = execute!(
        tx,
        sqlx::query(
            "INSERT INTO console_sign_ins (hash, expires_at) VALUES ($1, $2)
             ON CONFLICT DO NOTHING",
        )
        .bind(&hash[..])
        .bind(expires_at)
    );
    Ok(inserted == 1)
}
